"""Differences between moments, moments made of numbers (TIMESTAMPDIFF, MONTHS_BETWEEN, MAKE_TIMESTAMP), and
intervals."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.errors import PlanError
from plans.expressions.casts.reading import day_number
from plans.expressions.columns import dates, intervals
from plans.expressions.columns.arrays import array_of, on_arrays, words
from plans.expressions.functions.clock.parsing import on_words
from plans.expressions.functions.distinct import by_distinct
from plans.expressions.functions.function import arrays, function, plain

_ZERO = "TIMESTAMP_MICROS(0L)"


_UNITS_OF = plain(lambda value: value)
"""Returns the representation of an interval, which is its number of units."""
_TYPES = {"second": "decimal(8,6)", "epoch": "float64"}


MICROS = {
    "microsecond": 1, "millisecond": 1_000, "second": dates.SECOND, "minute": 60 * dates.SECOND,
    "hour": 3_600 * dates.SECOND, "day": dates.DAY, "dayofyear": dates.DAY, "week": 7 * dates.DAY,
}  # fmt: skip
MONTHS = {"month": 1, "quarter": 3, "year": 12}
_DAYS = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")
_DAY_NAMES = {short: place for place, name in enumerate(_DAYS) for short in (name, name[:3], name[:2])}
_LEAST = -(2**63)


def unit_of(name: str, unit: str) -> str:
    """Returns the unit of time that a word names, in the singular. Raises PlanError if it is not a unit."""
    found = unit.lower()
    found = found if found in MICROS or found in MONTHS else found.removesuffix("s")
    if found not in MICROS and found not in MONTHS:
        raise PlanError(f"{name} does not know the unit {unit!r}", hint="use one of " + ", ".join([*MONTHS, *MICROS]))
    return found


def _timestampdiff_type(types: Sequence[str], values: Sequence[Any]) -> str:
    if values[0] is not None:
        unit_of("TIMESTAMPDIFF", values[0])
    return "int64"


def _timestampdiff(type_: pa.DataType, unit: Any, start: Any, end: Any) -> Any:
    """Returns the number of whole units between two moments."""
    name = unit_of("TIMESTAMPDIFF", unit.as_py())

    def compute(first: pa.Array, second: pa.Array) -> pa.Array:
        a, b = words(first, np.int64), words(second, np.int64)
        if name in MONTHS:
            found, lost = _whole_months(a, b), np.zeros(len(a), bool)
            found = np.sign(found) * (np.abs(found) // MONTHS[name])
        else:
            with np.errstate(over="ignore"):
                difference = b - a
            lost = ((b ^ a) & (b ^ difference)) < 0
            difference = np.where(lost | (difference == _LEAST), 0, difference)
            found = np.sign(difference) * (np.abs(difference) // MICROS[name])
        known = pc.if_else(pc.is_valid(first), second, pa.scalar(None, second.type))
        known = pc.if_else(pa.array(lost), pa.scalar(None, second.type), known) if lost.any() else known
        return array_of(found, type_, known)

    return on_arrays(compute, start, end)


def _whole_months(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Returns the whole months from one moment to another as in Java: negative ones are rounded up."""
    first, last = start // dates.DAY, end // dates.DAY
    clocks = start % dates.DAY, end % dates.DAY
    last = last - ((last > first) & (clocks[1] < clocks[0])) + ((last < first) & (clocks[1] > clocks[0]))
    months = [dates.months_of(days) for days in (first, last)]
    positions = [m * 32 + d - dates.first_day(m) for m, d in zip(months, (first, last), strict=True)]
    difference = positions[1] - positions[0]
    return np.sign(difference) * (np.abs(difference) // 32)


def _months_between(type_: pa.DataType, end: Any, start: Any, rounded: Any = None) -> Any:
    """Returns Hive's MONTHS_BETWEEN: whole months between equal days or last days of months, else a fraction in
    31sts."""

    def compute(later: pa.Array, earlier: pa.Array, rounding: pa.Array) -> pa.Array:
        days = [words(array, np.int64) // dates.DAY for array in (later, earlier)]
        months = [dates.months_of(d) for d in days]
        inside = [d - dates.first_day(m) for d, m in zip(days, months, strict=True)]
        last = [dates.first_day(m + 1) - 1 == d for d, m in zip(days, months, strict=True)]
        whole = (months[0] - months[1]).astype(np.float64)
        clocks = [words(array, np.int64) % dates.DAY // dates.SECOND for array in (later, earlier)]
        seconds = (inside[0] - inside[1]) * 86_400 + clocks[0] - clocks[1]
        exact = whole + seconds / (31 * 86_400.0)
        keep = rounding.to_numpy(zero_copy_only=False).astype(bool)
        parts = np.where(keep, np.floor(exact * 1e8 + 0.5) / 1e8, exact)
        even = (inside[0] == inside[1]) | (last[0] & last[1])
        known = pc.if_else(pc.is_valid(later), earlier, pa.scalar(None, earlier.type))
        return array_of(np.where(even, whole, parts), type_, known)

    if rounded is None:
        return on_arrays(compute, end, start, pa.scalar(True))
    found = on_arrays(compute, end, start, pc.fill_null(rounded, True))
    return pc.if_else(pc.is_valid(rounded), found, pa.scalar(None, type_))


def _next_day(type_: pa.DataType, array: pa.Array, names: pa.Array) -> pa.Array:
    """Returns the first date after a date that is a day of the week, or NULL if the name is not a day."""
    weekday = words(by_distinct(lambda text: _DAY_NAMES.get(text.strip().upper(), -1), pa.int32(), names), np.int32)
    days = dates.days_of(array).astype(np.int32)
    ahead = np.fmod((weekday - 4) % 7 - days, 7)  # Thursday is 0; days beyond the last wrap around, as in Spark
    after = days + 1 + (ahead + 7) % 7
    good = pc.and_(pa.array(weekday >= 0), pc.and_(pc.is_valid(array), pc.is_valid(names)))
    found = array_of(after.astype(np.int32), type_, array)
    return pc.if_else(good, found, pa.scalar(None, type_))


def _made(type_: pa.DataType, *values: Any) -> Any:
    return on_words(by_distinct(_moment, pa.int64(), *values), type_)


def _moment(year: int, month: int, day: int, hour: int, minute: int, second: decimal.Decimal) -> int | None:
    """Returns the moment of its parts. 60 seconds are one more minute."""
    micros = int(second * dates.SECOND)
    days = day_number("-" * (year < 0), str(abs(year)), str(month), str(day)) if month >= 1 and day >= 1 else None
    if days is None or not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= micros <= 60 * dates.SECOND):
        return None
    total = days * dates.DAY + (hour * 3_600 + minute * 60) * dates.SECOND + micros
    return total if -(2**63) < total < 2**63 else None


def _scaled(unit: int) -> Callable[..., Any]:
    """Returns an evaluator of integer numbers of a unit as moments; NULL where a timestamp cannot hold them."""

    def compute(type_: pa.DataType, array: pa.Array) -> pa.Array:
        counts = words(array, np.int64)
        fits = np.abs(counts) <= (2**63 - 1) // unit
        found = array_of(np.where(fits, counts, 0) * unit, type_, array)
        return found if fits.all() else pc.if_else(pa.array(fits), found, pa.scalar(None, type_))

    return arrays(compute)


def _counted(unit: int) -> Callable[..., Any]:
    return arrays(lambda type_, array: array_of(words(array, np.int64) // unit, type_, array))


def _of_seconds(value: decimal.Decimal | float) -> int | None:
    """Returns the microseconds of seconds with a fraction, or None if a timestamp cannot hold them."""
    if isinstance(value, float):
        if value != value or abs(value) == float("inf"):
            return None
        return int(value * 1e6) if abs(value * 1e6) < 2**63 else 2**63 - 1 if value > 0 else None
    micros = value * dates.SECOND
    return int(micros) if micros == int(micros) and abs(micros) < 2**63 else None


def _seconds(type_: pa.DataType, value: Any) -> Any:
    if pa.types.is_integer(value.type):
        return _scaled(dates.SECOND)(type_, pc.cast(value, pa.int64()))
    return on_words(by_distinct(_of_seconds, pa.int64(), value), type_)


_UNITS = {"seconds": dates.SECOND, "millis": 1_000, "micros": 1}
_OUTSIDE = "a timestamp outside the calendar"
_PARTS = "int32 int32 int32 int32 int32 decimal(16,6)"
TABLE = (
    function("timestampdiff", "unit timestamp timestamp", _timestampdiff_type, _timestampdiff,
             also=("datediff", "date_diff"), sql=lambda a: f"TIMESTAMPDIFF({a[0].strip(chr(39))}, {a[1]}, {a[2]})",
             null="a number that does not fit a BIGINT",
             note="The number of whole units from the first timestamp to the second."),
    function("months_between", "timestamp timestamp [bool]", "float64", _months_between,
             note="The later timestamp is the first argument. The result is rounded to 8 digits, unless the third "
                  "argument is FALSE."),
    function("next_day", "date string", "date", arrays(_next_day), null="a text that is not the name of a day",
             note="The first date after the argument that has this day of the week."),
    function("make_timestamp", _PARTS, "timestamp", _made, also=("make_timestamp_ltz",),
             null="a timestamp that does not exist"),
    function("make_timestamp_ntz", _PARTS, "timestamp_ntz", _made, null="a timestamp that does not exist"),
    function("timestamp_seconds", "number", "timestamp", _seconds, null=_OUTSIDE),
    *(
        function(f"timestamp_{name}", "int64", "timestamp", _scaled(unit), null=_OUTSIDE)
        for name, unit in list(_UNITS.items())[1:]
    ),
    *(function(f"unix_{name}", "timestamp", "int64", _counted(unit)) for name, unit in _UNITS.items()),
    function("unix_date", "date", "int32", arrays(lambda type_, array: array.view(type_))),
    function("date_from_unix_date", "int32", "date", arrays(lambda type_, array: array.view(type_))),
    *(
        function(
            f"{name}_of_interval",
            kind,
            _TYPES.get(name, "int32"),
            partial(intervals.part, name),
            sql=lambda a, name=name: f"EXTRACT({name.upper()} FROM {a[0]})",
            hidden=True,
        )
        for name, (kind, _, _) in intervals.PARTS.items()
    ),
    function("micros_of", "duration", "int64", _UNITS_OF, sql=lambda a: f"UNIX_MICROS({_ZERO} + {a[0]})", hidden=True),
    function("months_of", "months", "int32", _UNITS_OF,
             sql=lambda a: f"12 * EXTRACT(YEAR FROM {a[0]}) + EXTRACT(MONTH FROM {a[0]})", hidden=True),
    function("of_micros", "int64", "duration", _UNITS_OF, sql=lambda a: f"TIMESTAMP_MICROS({a[0]}) - {_ZERO}",
             hidden=True),
    function("of_months", "int32", "months", _UNITS_OF, sql=lambda a: f"MAKE_YM_INTERVAL(0, {a[0]})", hidden=True),
)  # fmt: skip
