"""The calendar on whole columns of dates and moments: the proleptic Gregorian calendar, for all values.

A moment is a number of microseconds: the UTC time of an instant, or the reading of a wall clock. NumPy supports the
calendar for all of them. Months are counted from January 1970.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.expressions.columns.arrays import array_of, on_arrays, words

SECOND = 1_000_000  # microseconds
DAY = 86_400 * SECOND
_LAST = 106_751_991  # the last day, in either direction from 1970, that has a timestamp
_NEAR = 11_000_000  # days in either direction that Arrow formats
_FOUR_DIGITS = 2_932_896  # 9999-12-31


def days_of(value: pa.Array) -> np.ndarray:
    """Returns the days since 1970 of dates or moments, as int64; 0 where they are NULL."""
    if pa.types.is_date(value.type):
        return words(value, np.int32).astype(np.int64)
    return words(value, np.int64) // DAY


def clock_of(value: pa.Array) -> np.ndarray:
    """Returns the microseconds since midnight of moments, as int64."""
    return words(value, np.int64) % DAY


def months_of(days: np.ndarray) -> np.ndarray:
    """Returns the month of each day, counted from January 1970."""
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def first_day(months: np.ndarray) -> np.ndarray:
    """Returns the first day of each month."""
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _iso_week(days: np.ndarray) -> np.ndarray:
    """Returns the ISO number of the week, which belongs to the year of its Thursday."""
    thursday = days - (days + 3) % 7 + 3
    return (thursday - first_day(months_of(thursday) // 12 * 12)) // 7 + 1


PART: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "year": lambda days: months_of(days) // 12 + 1970,
    "quarter": lambda days: months_of(days) % 12 // 3 + 1,
    "month": lambda days: months_of(days) % 12 + 1,
    "day": lambda days: days - first_day(months_of(days)) + 1,
    "dayofyear": lambda days: days - first_day(months_of(days) // 12 * 12) + 1,
    "dayofweek": lambda days: (days + 4) % 7 + 1,  # Sunday is 1
    "weekday": lambda days: (days + 3) % 7,  # Monday is 0
    "weekofyear": _iso_week,
    "yearofweek": lambda days: months_of(days - (days + 3) % 7 + 3) // 12 + 1970,  # that of the week's Thursday
    "dayofweek_iso": lambda days: (days + 3) % 7 + 1,  # Monday is 1
}
"""The parts of a date, computed from days since 1970."""


def part(name: str, value: Any) -> Any:
    """Returns a part of the date of dates or moments, as int64."""
    return on_arrays(lambda array: array_of(PART[name](days_of(array)), pa.int64(), array), value)


def shifted(days: np.ndarray, months: np.ndarray) -> np.ndarray:
    """Returns the days `months` months later. If that month is too short, returns its last day."""
    old = months_of(days)
    first, after = first_day(old + months), first_day(old + months + 1)
    return np.minimum(first + days - first_day(old), after - 1)


def of_days(days: np.ndarray, like: pa.Array) -> pa.Array:
    """Returns dates of days; NULL where `like` is, or where a date cannot hold them."""
    found = array_of(days.astype(np.int32), pa.date32(), like)
    fits = days == days.astype(np.int32)
    return found if fits.all() else pc.if_else(pa.array(fits), found, pa.scalar(None, found.type))


def of_moments(days: np.ndarray, clock: Any, type_: pa.DataType, like: pa.Array) -> pa.Array:
    """Returns moments of days and microseconds since midnight; NULL where `like` is, or where a timestamp cannot hold
    them."""
    fits = np.abs(days) <= _LAST
    found = array_of(np.where(fits, days, 0) * DAY + clock, type_, like)
    return found if fits.all() else pc.if_else(pa.array(fits), found, pa.scalar(None, found.type))


def cast(value: Any, type_: pa.DataType) -> Any:
    """Returns dates as midnights, or moments as dates or as moments of the other kind; NULL where there is no such
    timestamp."""
    if pa.types.is_date(type_):
        return on_arrays(lambda array: of_days(days_of(array), array), value)
    if pa.types.is_timestamp(value.type):
        return on_arrays(lambda array: array.view(type_), value)
    return on_arrays(lambda array: of_moments(days_of(array), 0, type_, array), value)


def texts(value: pa.Array) -> pa.Array:
    """Returns dates as text: years before 0 have a minus sign, years of more than four digits a plus sign."""
    days = words(value, np.int32)
    far = np.abs(days.astype(np.int64)) > _NEAR
    near = array_of(np.where(far, 0, days).astype(np.int32), pa.date32(), value) if far.any() else value
    found = pc.cast(near, pa.string())
    if far.any():
        written = np.datetime_as_string(days[far].astype("datetime64[D]"))
        found = pc.replace_with_mask(found, pa.array(far), pa.array(written, pa.string()))
    late = days > _FOUR_DIGITS
    if not late.any():
        return found
    return pc.if_else(pa.array(late), pc.binary_join_element_wise("+", found, ""), found)
