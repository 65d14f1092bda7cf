"""Time zones: FROM_UTC_TIMESTAMP and TO_UTC_TIMESTAMP, once per distinct day and zone.

In a day in which the clocks change, each distinct moment is shifted by itself.

A wall clock reading in a gap is moved forward by the length of the gap, and an ambiguous reading is the first one, as
in Java. The calendar repeats after 400 years, and so do the rules of a zone.
"""

from __future__ import annotations

import datetime as dt
import zoneinfo
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from plans.errors import PlanError
from plans.expressions.casts.reading import offset
from plans.expressions.columns import dates
from plans.expressions.columns.arrays import array_of, null
from plans.expressions.functions.distinct import by_distinct
from plans.expressions.functions.function import function

_EPOCH = dt.datetime(1970, 1, 1)
_CYCLE = 146_097 * dates.DAY
_FIRST, _LAST = -62_135_596_800 * dates.SECOND + _CYCLE // 400, 253_402_300_800 * dates.SECOND - _CYCLE // 400
_KEPT_DAYS = 1 << 15
_MOST_DAYS = 106_000_000  # from 1970, in which no moment is moved outside of its type
_SHORT = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "EST": "-05:00", "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia",
    "MST": "-07:00", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi", "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip


@cache
def zone_of(name: str) -> dt.tzinfo | None:
    """Returns the time zone of a name or an offset, or None if there is none."""
    name = _SHORT.get(name, name)
    ahead = offset(name)
    if ahead is not None:
        return dt.timezone(dt.timedelta(seconds=ahead))
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _gives(name: str) -> Callable[[Sequence[str], Sequence[Any]], str]:
    def gives(types: Sequence[str], values: Sequence[Any]) -> str:
        if values[1] is not None and zone_of(values[1]) is None:
            raise PlanError(
                f"{name} does not know the time zone {values[1]!r}",
                hint="write its IANA name, such as 'Europe/Paris', or 'UTC' or '+01:00'",
            )
        return "timestamp"

    return gives


def _ahead(micros: int, zone: dt.tzinfo, wall: bool) -> int:
    """Returns the microseconds by which a zone is ahead of UTC, at an instant or at a reading of its wall clocks."""
    inside = (
        micros if _FIRST <= micros < _LAST else (micros - _FIRST) % _CYCLE + (_FIRST if micros < 0 else _LAST - _CYCLE)
    )
    moment = _EPOCH + dt.timedelta(microseconds=inside)
    shift = (
        moment.replace(tzinfo=zone).utcoffset() if wall else moment.replace(tzinfo=dt.UTC).astimezone(zone).utcoffset()
    )
    return (shift or dt.timedelta()) // dt.timedelta(microseconds=1)


def _shifted(wall: bool) -> Callable[..., Any]:
    def shift(micros: int, name: str) -> int | None:
        zone = zone_of(name)
        if zone is None:
            return None
        total = micros + (-1 if wall else 1) * _ahead(micros, zone, wall)
        return total if -(2**63) < total < 2**63 else None

    @lru_cache(_KEPT_DAYS)
    def at_midnight(day: int, name: str) -> int | None:
        found = shift(day * dates.DAY, name)
        return None if found is None else found - day * dates.DAY

    def of_day(day: int, name: str) -> int | None:
        """Returns what is added to all moments of a day, or None if that depends on the moment."""
        found = at_midnight(day, name)
        return found if abs(day) < _MOST_DAYS and found == at_midnight(day + 1, name) else None

    def evaluate(type_: pa.DataType, value: Any, name: Any) -> Any:
        if isinstance(value, pa.Scalar):
            return by_distinct(shift, pa.int64(), value.cast(pa.int64()), name).cast(type_)
        given = value.view(pa.int64())
        days = array_of(dates.days_of(value), pa.int64(), value)
        found = pc.add(given, by_distinct(of_day, pa.int64(), days, name))
        rest = pc.if_else(pc.is_valid(found), null(pa.int64()), given)
        if rest.null_count < len(rest):
            found = pc.coalesce(found, by_distinct(shift, pa.int64(), rest, name))
        return found.view(type_)

    return evaluate


TABLE = (
    function("from_utc_timestamp", "timestamp string", _gives("FROM_UTC_TIMESTAMP"), _shifted(False),
             null="an unknown time zone"),
    function("to_utc_timestamp", "timestamp string", _gives("TO_UTC_TIMESTAMP"), _shifted(True),
             null="an unknown time zone"),
)  # fmt: skip
