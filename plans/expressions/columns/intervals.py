"""Intervals on whole columns. Expressions represent them as integer numbers of their unit, which differ from Arrow's
types.

A `duration` is represented as microseconds (int64), `months` as months (int32). So they are compared, selected and
added like integers. A value that does not fit is NULL. Products and quotients are rounded half up, away from zero, as
in Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.expressions.columns import arithmetic, dates
from plans.expressions.columns.arrays import array_of, on_arrays, validity, words
from plans.expressions.functions.distinct import by_distinct
from plans.expressions.literals import EXACT
from plans.types import INTERVALS, arrow_type

CARRIER = {"duration": pa.int64(), "months": pa.int32()}
"""The Arrow types that represent intervals in expressions."""
MONTHS = arrow_type("months")
_HOUR, _MINUTE = 3_600 * dates.SECOND, 60 * dates.SECOND


class MixedError(ValueError):
    """An interval in months also has days or less. `row` is its position."""

    def __init__(self, row: int) -> None:
        self.row = row
        super().__init__(
            "an INTERVAL of months also has days or a time: store these in a separate column of type duration"
        )


# -- conversion between Arrow's types and integers ---------------------------------------------------------------------


def carried(value: Any, type_: str) -> Any:
    """Returns intervals, an array or a scalar, as integers. Values of other types are returned unchanged."""
    if type_ not in CARRIER or value.type == CARRIER[type_]:
        return value
    if type_ == "duration":
        return on_arrays(lambda array: array.cast(pa.duration("us")).view(pa.int64()), value)
    return on_arrays(lambda array: array_of(counts(array), pa.int32(), array), value)


def restored(value: Any, type_: str) -> Any:
    """Returns integers as the intervals that they represent. Values of other types are returned unchanged."""
    if type_ not in CARRIER or value.type == arrow_type(type_):
        return value
    if type_ == "duration":
        return on_arrays(lambda array: array.view(pa.duration("us")), value)
    return on_arrays(lambda array: of_counts(words(array, np.int32), array), value)


def counts(value: pa.Array) -> np.ndarray:
    """Returns the months of intervals, int32[n]; 0 where they are NULL. Raises MixedError if one has days."""
    found = words(value, np.int32, 4).reshape(-1, 4)
    if found[:, 1:].any():
        raise MixedError(int(found[:, 1:].any(axis=1).argmax()))
    return found[:, 0].copy()


def of_counts(months: np.ndarray, like: pa.Array | None = None) -> pa.Array:
    """Returns intervals of these numbers of months; NULL where `like` is."""
    found = np.zeros((len(months), 4), np.int32)
    found[:, 0] = months
    valid = (
        None if like is None or not like.null_count else pa.py_buffer(np.packbits(validity(like), bitorder="little"))
    )
    return pa.Array.from_buffers(MONTHS, len(months), [valid, pa.py_buffer(found)])


# -- arithmetic --------------------------------------------------------------------------------------------------------


def result(op: str, left: Any, right: Any, type_: str) -> Any:
    """Returns `left op right` as an interval, of two intervals, two moments, or an interval and a number."""
    whole = CARRIER[type_]
    if op in ("add", "sub"):
        return arithmetic.binary(op, _words(left), _words(right), whole)
    kind = right.type
    if pa.types.is_integer(kind) and op == "mul":
        found = arithmetic.binary("mul", left, right, pa.int64())
    elif pa.types.is_integer(kind):
        found = on_arrays(_shared, left, right)
    elif pa.types.is_floating(kind):
        found = on_arrays(lambda one, two: _of_doubles(op, one, two), left, right)
    elif op == "mul":
        exact = pc.multiply(
            pc.cast(left, pa.decimal256(19, 0)), pc.cast(right, pa.decimal256(kind.precision, kind.scale))
        )
        found = arithmetic.in_range(pc.round(exact, 0, "half_towards_infinity"))
    else:
        found = by_distinct(_quotient, pa.int64(), left, right)
    return arithmetic.narrow(found) if type_ == "months" else found


def moved(op: str, moment: Any, length: Any, shift: Callable[..., Any]) -> Any:
    """Returns a moment plus or minus an interval. `shift` adds a number of its units."""
    return shift(moment.type, moment, length if op == "add" else arithmetic.negated(length))


def _words(value: Any) -> Any:
    return on_arrays(lambda array: array.view(pa.int64()), value) if pa.types.is_timestamp(value.type) else value


def _shared(value: pa.Array, count: pa.Array) -> pa.Array:
    """Returns integers divided by others; NULL where the divisor is 0."""
    known = pc.and_(pc.is_valid(value), pc.is_valid(count))
    one, two = (words(array.cast(pa.int64()), np.int64) for array in (value, count))
    two = np.where(two == 0, 1, two)
    size, by = np.abs(one), np.abs(two)
    whole, rest = size // by, size % by
    whole += rest >= by - rest
    known = pc.and_(known, pc.not_equal(count, pa.scalar(0, count.type)))
    found = pa.array(whole * np.sign(one) * np.sign(two))
    return pc.if_else(known, found, pa.scalar(None, pa.int64()))


def _of_doubles(op: str, value: pa.Array, number: pa.Array) -> pa.Array:
    one, two = words(value.cast(pa.int64()), np.int64).astype(np.float64), words(number, np.float64)
    with np.errstate(all="ignore"):
        exact = one * two if op == "mul" else one / np.where(two == 0, np.nan, two)
        whole = np.trunc(exact)
        whole += np.sign(exact) * (np.abs(exact - whole) >= 0.5)
        fits = np.abs(whole) < 2.0**63
    known = pc.and_(pc.and_(pc.is_valid(value), pc.is_valid(number)), pa.array(fits))
    return pc.if_else(known, pa.array(np.where(fits, whole, 0).astype(np.int64)), pa.scalar(None, pa.int64()))


def _quotient(value: int, number: Any) -> int | None:
    if not number:
        return None
    scale = -int(number.as_tuple().exponent)
    top, by = abs(value) * 10**scale, abs(int(number.scaleb(scale, EXACT)))
    found = (2 * top + by) // (2 * by)
    found = found if (value < 0) == (number < 0) else -found
    return found if abs(found) < 2**63 else None


# -- text --------------------------------------------------------------------------------------------------------------

_DAYS = re.compile(r"([+-]?)(\d{1,9}) (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?", re.ASCII)
_YEARS = re.compile(r"([+-]?)(\d{1,9})-(\d{1,2})", re.ASCII)
_SPELLED = re.compile(r"interval\s+([+-]?)'(.*)'\s+(day to second|year to month)", re.IGNORECASE | re.ASCII)


def units_of(text: str, type_: str) -> int | None:
    """Returns the units of the interval in a text, as Spark reads it, or None if the text is not an interval.

    '1 02:03:04.5' is a duration, '1-2' months; both may also be inside of INTERVAL '...' DAY TO SECOND or YEAR TO
    MONTH.
    """
    text, sign = text.strip(), 1
    spelled = _SPELLED.fullmatch(text)
    if spelled is not None:
        if (spelled[3].lower() == "year to month") != (type_ == "months"):
            return None
        text, sign = spelled[2], int(f"{spelled[1]}1")
    found = (_YEARS if type_ == "months" else _DAYS).fullmatch(text)
    if found is None:
        return None
    sign *= int(f"{found[1]}1")
    if type_ == "months":
        years, months = int(found[2]), int(found[3])
        count = sign * (12 * years + months)
        return count if months < 12 and abs(count) < 2**31 else None
    days, hours, minutes, seconds = (int(part) for part in found.groups()[1:5])
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    micros = days * dates.DAY + hours * _HOUR + minutes * _MINUTE + seconds * dates.SECOND
    count = sign * (micros + int(((found[6] or "") + "000000")[:6]))
    return count if abs(count) < 2**63 else None


def text_of(units: int, type_: str) -> str:
    """Returns an interval in Spark's notation: INTERVAL '1 02:03:04.5' DAY TO SECOND, INTERVAL '1-2' YEAR TO MONTH."""
    sign, size = "-" if units < 0 else "", abs(units)
    if type_ == "months":
        return f"INTERVAL '{sign}{size // 12}-{size % 12}' YEAR TO MONTH"
    days, clock = divmod(size, dates.DAY)
    whole, rest = divmod(clock, dates.SECOND)
    fraction = f".{rest:06}".rstrip("0").rstrip(".")
    time = f"{whole // 3_600:02}:{whole // 60 % 60:02}:{whole % 60:02}{fraction}"
    return f"INTERVAL '{sign}{days} {time}' DAY TO SECOND"


def read(value: Any, type_: pa.DataType) -> Any:
    """Returns texts as intervals of an Arrow type; NULL where they are not intervals."""
    kind = "duration" if pa.types.is_duration(type_) else "months"
    return restored(by_distinct(lambda text: units_of(text, kind), CARRIER[kind], value), kind)


def written(value: Any) -> Any:
    """Returns intervals of an Arrow type as texts."""
    kind = "duration" if pa.types.is_duration(value.type) else "months"
    return by_distinct(lambda units: text_of(units, kind), pa.string(), carried(value, kind))


def is_interval(type_: pa.DataType) -> bool:
    """Returns whether an Arrow type is an interval type."""
    return any(type_ == arrow_type(kind) for kind in INTERVALS)


# -- parts -------------------------------------------------------------------------------------------------------------

PARTS: dict[str, tuple[str, int, int]] = {
    "year": ("months", 12, 0), "month": ("months", 1, 12),
    "day": ("duration", dates.DAY, 0), "hour": ("duration", _HOUR, dates.DAY),
    "minute": ("duration", _MINUTE, _HOUR), "second": ("duration", 1, _MINUTE), "epoch": ("duration", 1, 0),
}  # fmt: skip
"""The parts of intervals: the type that has the part, its unit, and the size of the next larger part (0: unlimited)."""


def part(name: str, type_: pa.DataType, value: Any) -> Any:
    """Returns a part of intervals. A part of a negative interval is negative."""
    _, unit, most = PARTS[name]

    def compute(array: pa.Array) -> pa.Array:
        given = words(array.cast(pa.int64()), np.int64)
        size = np.abs(given) if not most else np.abs(given) % most
        found = np.sign(given) * (size // unit)
        if name == "epoch":
            return array_of(found / float(dates.SECOND), type_, array)
        if name == "second":
            halves = np.stack([found, found >> 63], axis=1).reshape(-1)
            return _like(pa.Array.from_buffers(type_, len(found), [None, pa.py_buffer(halves)]), array)
        return array_of(found.astype(np.int32), type_, array)

    return on_arrays(compute, value)


def _like(found: pa.Array, like: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_valid(like), found, pa.scalar(None, found.type)) if like.null_count else found
