"""Formats values as text as Spark does: decimals without exponents, shortest doubles, timestamps in UTC."""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.expressions.columns import dates, intervals
from plans.expressions.columns.arrays import array_of, on_arrays
from plans.expressions.functions.distinct import by_distinct

_LEAST, _MOST = 1e-3, 1e7  # Java writes doubles between these without an exponent
_PLAIN_SCALE = 6  # up to this scale, Arrow writes decimals without an exponent


def written(value: Any) -> Any:
    """Returns values of any type except binary as strings."""
    kinds = pa.types
    if kinds.is_floating(value.type):
        return on_arrays(_doubles, value)
    if kinds.is_decimal(value.type) and value.type.scale > _PLAIN_SCALE:
        return by_distinct(lambda number: f"{number:f}", pa.string(), value)
    if kinds.is_date(value.type):
        return on_arrays(dates.texts, value)
    if kinds.is_timestamp(value.type):
        return on_arrays(_moments, value)
    if intervals.is_interval(value.type):
        return intervals.written(value)
    return pc.cast(value, pa.string())


def _doubles(value: pa.Array) -> pa.Array:
    """Returns doubles as text: those without an exponent by Arrow, the others once per distinct value."""
    size = pc.abs(value)
    quick = pc.fill_null(pc.and_(pc.greater_equal(size, _LEAST), pc.less(size, _MOST)), False)
    nothing = pa.scalar(None, value.type)
    plain = pc.cast(pc.if_else(quick, value, nothing), pa.string())
    plain = pc.if_else(pc.match_substring(plain, "."), plain, pc.binary_join_element_wise(plain, ".0", ""))
    rest = pc.if_else(quick, nothing, value)
    return plain if rest.null_count == len(rest) else pc.coalesce(plain, by_distinct(double_text, pa.string(), rest))


def double_text(value: float) -> str:
    """Returns a double in Java's form: 1.5, 1.0E10, -Infinity."""
    if value != value:
        return "NaN"
    sign = "-" if value < 0 or (value == 0 and str(value)[0] == "-") else ""
    size = abs(value)
    if size == float("inf"):
        return f"{sign}Infinity"
    if size == 0:
        return f"{sign}0.0"
    _, digits, exponent = decimal.Decimal(repr(size)).normalize().as_tuple()
    if len(digits) == 1:  # Java writes at least two digits, and takes the nearest such number
        _, digits, exponent = decimal.Decimal(f"{size:.1e}").normalize().as_tuple()
    assert isinstance(exponent, int)
    if _LEAST <= size < _MOST:
        text = f"{decimal.Decimal((0, digits, exponent)):f}"
        return sign + (text if "." in text else text + ".0")
    first, *rest = map(str, digits)
    return f"{sign}{first}.{''.join(rest) or '0'}E{exponent + len(digits) - 1}"


def _moments(value: pa.Array) -> pa.Array:
    """Returns day, time and the digits of the second's fraction without trailing zeros."""
    days = dates.texts(array_of(dates.days_of(value).astype(np.int32), pa.date32(), value))
    times = pc.cast(array_of(dates.clock_of(value), pa.time64("us"), value), pa.string())
    return pc.binary_join_element_wise(days, pc.replace_substring_regex(times, r"\.?0*\z", ""), " ")
