"""Durations as people write them: '10 minutes', '1 hour 30 minutes', a `timedelta`."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal

MICROSECOND, MILLISECOND, SECOND, MINUTE = 1, 1000, 1_000_000, 60_000_000
HOUR, DAY, WEEK = 60 * MINUTE, 24 * 60 * MINUTE, 7 * 24 * 60 * MINUTE
_UNITS = {
    "microsecond": MICROSECOND, "us": MICROSECOND,
    "millisecond": MILLISECOND, "ms": MILLISECOND,
    "second": SECOND, "sec": SECOND, "s": SECOND,
    "minute": MINUTE, "min": MINUTE, "m": MINUTE,
    "hour": HOUR, "h": HOUR,
    "day": DAY, "d": DAY,
    "week": WEEK, "w": WEEK,
}  # fmt: skip
_PART = re.compile(r"\s*(?:interval\s+)?'?\s*(\d{1,30}(?:\.\d{1,30})?)\s*'?\s*([a-z]+)\s*'?", re.IGNORECASE | re.ASCII)


def microseconds(given: object) -> int | None:
    """Returns a duration in microseconds, or None if it is not one or has no fixed length, such as months.

    `given`: a text of numbers with units (microseconds to weeks), or a `timedelta`.
    """
    if isinstance(given, dt.timedelta):
        return given // dt.timedelta(microseconds=1)
    if not isinstance(given, str) or not given.strip():
        return None
    total, at, text = Decimal(0), 0, given.rstrip()
    while at < len(text):
        part = _PART.match(text, at)
        unit = _unit(part[2]) if part else None
        if part is None or unit is None:
            return None
        total += Decimal(part[1]) * unit
        at = part.end()
    return int(total) if total == int(total) else None


def _unit(name: str) -> int | None:
    name = name.lower()
    return _UNITS.get(name) or _UNITS.get(name.removesuffix("s"))


def shown(length: int) -> str:
    """Returns microseconds in the largest unit that divides them: '90 minutes'."""
    for name, unit in (("day", DAY), ("hour", HOUR), ("minute", MINUTE), ("second", SECOND), ("millisecond", 1000)):
        if length % unit == 0:
            return f"{length // unit} {name}{'' if length == unit else 's'}"
    return f"{length} microsecond{'' if length == 1 else 's'}"


def of_units(given: object, unit: int) -> int | None:
    """Returns a length, at least 1, in units of a column, or None if it is not a valid length.

    `unit`: microseconds of a unit, which must divide the length; 0 if the column is a number, and the length is an
    integer or the text of one.
    """
    if not unit:
        number = int(given) if isinstance(given, str) and given.strip().isdecimal() and len(given) < 100 else given
        whole = isinstance(number, int) and not isinstance(number, bool)
        return number if whole and isinstance(number, int) and 0 < number < 2**62 else None
    length = microseconds(given)
    return length // unit if length is not None and length % unit == 0 and 0 < length < 2**62 else None
