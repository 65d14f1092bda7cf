"""The calendar on whole columns of dates and wall clock readings: the proleptic Gregorian one, for all values.

Arrow knows it for 65,536 years. It repeats every 400 years, so a day's place in its cycle tells all about it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.expressions.arrays import array_of, on_arrays, words

_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400
_DAY = 86_400_000_000  # microseconds
_LAST = 106_751_991  # the last day from 1970 on that has a timestamp, either way
_NEAR = 11_000_000  # days that Arrow knows, either way
_FOUR_DIGITS = 2_932_896  # 9999-12-31


def part(name: str, value: Any) -> Any:
    """The year, month or day of dates or wall clock readings, as int64."""
    return on_arrays(lambda array: _part(name, array), value)


def cast(value: Any, type_: pa.DataType) -> Any:
    """Dates as strings or as midnights, readings as dates; NULL where there is no such timestamp."""
    if pa.types.is_date(type_):
        return on_arrays(lambda array: array_of(_days(array).astype(np.int32), type_, array), value)
    return on_arrays(_texts if pa.types.is_string(type_) else _midnights, value)


def _days(value: pa.Array) -> np.ndarray:
    if pa.types.is_date(value.type):
        return words(value, np.int32)
    return words(value, np.int64) // _DAY


def _part(name: str, value: pa.Array) -> pa.Array:
    days = _days(value)
    cycles = days // _CYCLE_DAYS if len(days) and (days.min() < -_NEAR or days.max() > _NEAR) else np.zeros_like(days)
    place = array_of((days - cycles * _CYCLE_DAYS).astype(np.int32), pa.date32(), value)
    found = {"year": pc.year, "month": pc.month, "day": pc.day}[name](place)
    if name == "year" and cycles.any():
        return pc.add(found, array_of(_CYCLE_YEARS * cycles.astype(np.int64), pa.int64(), value))
    return found


def _midnights(value: pa.Array) -> pa.Array:
    days = words(value, np.int32).astype(np.int64)
    fits = np.abs(days) <= _LAST
    found = array_of(np.where(fits, days, 0) * _DAY, pa.timestamp("us"), value)
    return found if fits.all() else pc.if_else(pa.array(fits), found, pa.scalar(None, found.type))


def _texts(value: pa.Array) -> pa.Array:
    """Years before 0 have a minus sign, years of more than four digits a plus sign."""
    days = words(value, np.int32)
    far = np.abs(days.astype(np.int64)) > _NEAR
    near = array_of(np.where(far, 0, days).astype(np.int32), pa.date32(), value) if far.any() else value
    texts = pc.cast(near, pa.string())
    if far.any():
        written = np.datetime_as_string(days[far].astype("datetime64[D]"))
        texts = pc.replace_with_mask(texts, pa.array(far), pa.array(written, pa.string()))
    late = days > _FOUR_DIGITS
    if not late.any():
        return texts
    return pc.if_else(pa.array(late), pc.binary_join_element_wise("+", texts, ""), texts)
