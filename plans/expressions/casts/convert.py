"""Casts whole columns from one type to another. A value that does not fit is NULL."""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.expressions.casts import reading, writing
from plans.expressions.coercion import INTEGERS, numeric
from plans.expressions.columns import arithmetic, dates, decimals
from plans.expressions.columns.arrays import array_of, on_arrays, validity, words
from plans.expressions.columns.packed import elements_of, listed, mapped
from plans.expressions.functions.distinct import by_distinct
from plans.expressions.literals import EXACT
from plans.nested import STRUCT, is_nested, matched, parts, struct_of
from plans.types import INTERVALS, MOMENTS

_SHORT = 18  # digits that Spark keeps in 64 bits
_WHOLE = pa.decimal128(38, 0)


def castable(source: str, target: str) -> bool:
    """Returns whether values of one planner type can be cast to another, as in Spark's ANSI mode. A cast of a struct
    renames all of its fields or none: with other names in part, some dialects match them by name."""
    if source == target or target == "null":
        return source == target
    if is_nested(source) or is_nested(target):
        one, two = (parts(type_) if is_nested(type_) else None for type_ in (source, target))
        if one is not None and two is not None and one.kind == two.kind == STRUCT and len(one.names) == len(two.names):
            renames = not {name.lower() for name in one.names} & {name.lower() for name in two.names}
            source = struct_of(two.names, one.types) if renames else source
        return matched(source, target, lambda one, two: two if castable(one, two) else None) is not None
    if "binary" in (source, target):
        return {source, target} == {"binary", "string"}
    if source in INTERVALS or target in INTERVALS:
        return "string" in (source, target)
    if "string" in (source, target) or {source, target} <= set(MOMENTS):
        return True
    if source == "timestamp":
        return target in INTEGERS or target == "float64"
    return target not in MOMENTS and source not in MOMENTS and numeric(source) + numeric(target) >= 1


def cast(value: Any, type_: pa.DataType) -> Any:
    """Returns values in another type for which `castable` holds. Values that do not fit are NULL. O(n)."""
    kinds = pa.types
    source = value.type
    if source == type_:
        return value
    if kinds.is_nested(type_):
        return on_arrays(lambda array: _parts(array, type_), value)
    if kinds.is_binary(source) or kinds.is_binary(type_):
        return on_arrays(lambda array: array.view(type_), value)
    if kinds.is_string(source):
        return reading.read(value, type_)
    if kinds.is_string(type_):
        return writing.written(value)
    if kinds.is_boolean(source):
        return cast(pc.cast(value, pa.int32()), type_)
    if kinds.is_boolean(type_):
        return pc.not_equal(value, pa.scalar(decimal.Decimal(0) if kinds.is_decimal(source) else 0, source))
    if kinds.is_timestamp(source) and not kinds.is_temporal(type_):
        return on_arrays(lambda array: _seconds(array, type_), value)
    if kinds.is_temporal(type_):
        return dates.cast(value, type_)
    if kinds.is_floating(source):
        return on_arrays(lambda array: _of_doubles(array, type_), value)
    if kinds.is_decimal(type_):
        return decimals.converted(value, type_)
    if kinds.is_floating(type_):
        # Integers beyond 2^53 round to the nearest double, as in every database.
        return decimals.doubles(value) if kinds.is_decimal(source) else pc.cast(value, type_, safe=False)
    if kinds.is_decimal(source) and type_ == pa.int32() and source.precision > _SHORT:
        return on_arrays(lambda array: _of_doubles(array, type_), decimals.doubles(value))  # as in Spark
    if kinds.is_decimal(source):
        value = arithmetic.in_range(decimals.rounded(value, 0, _WHOLE, "down"))
    return arithmetic.narrow(value) if type_ == pa.int32() and value.type != type_ else pc.cast(value, type_)


def _parts(value: pa.Array, type_: pa.DataType) -> pa.Array:
    """Returns nested values whose parts are cast like columns of their types."""
    there = validity(value)
    if pa.types.is_struct(type_):
        fields = [cast(part, field.type) for part, field in zip(value.flatten(), type_, strict=True)]
        return pa.StructArray.from_arrays(fields, fields=list(type_), mask=pa.array(~there))
    sizes, elements = elements_of(value)
    if pa.types.is_list(type_):
        return listed(sizes, cast(elements, type_.value_type), type_, there)
    keys, items = elements.flatten()
    return mapped(sizes, cast(keys, type_.key_type), cast(items, type_.item_type), type_, there)


def _seconds(value: pa.Array, type_: pa.DataType) -> pa.Array:
    """Returns instants as seconds since 1970, rounded down for integer types."""
    micros = words(value, np.int64)
    if pa.types.is_floating(type_):
        return array_of(micros / float(dates.SECOND), type_, value)
    return cast(array_of(micros // dates.SECOND, pa.int64(), value), type_)


def _of_doubles(value: pa.Array, type_: pa.DataType) -> pa.Array:
    """Returns doubles as integers, truncated towards zero, or as decimals, by their shortest form."""
    if pa.types.is_decimal(type_):
        return _decimals(value, type_)
    given, bound = words(value, np.float64), 2.0 ** (type_.bit_width - 1)
    with np.errstate(invalid="ignore"):
        fits = (np.trunc(given) < bound) & (np.trunc(given) >= -bound)
        fits &= (type_ != pa.int64()) | (given > -bound)
    found = array_of(np.where(fits, given, 0).astype(type_.to_pandas_dtype()), type_, value)
    return pc.if_else(pa.array(fits), found, pa.scalar(None, type_))


def _decimals(value: pa.Array, type_: pa.DataType) -> pa.Array:
    """Returns doubles as decimals, rounded half up by their shortest form.

    A double times the power of ten differs from this form by less than two units in the last place. Where that cannot
    reach a tie, the nearest integer is correct; other values are converted one by one.
    """
    given = words(value, np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.abs(given) * 10.0 ** min(type_.scale, _TO_DOUBLE)
        quick = (size < _SURE) & (size < 10.0 ** min(type_.precision, _SHORT) - 1)
        quick &= np.abs(size - np.floor(size) - 0.5) > size * 2.0**-51
    if type_.scale > _TO_DOUBLE:
        quick[:] = False
    units = np.where(quick, np.copysign(np.floor(np.where(quick, size, 0) + 0.5), given), 0).astype(np.int64)
    pairs = np.empty((len(units), 2), np.int64)
    pairs[:, 0], pairs[:, 1] = units, units >> 63
    found = array_of(pairs, type_, value)
    if quick.all():
        return found
    slow = pc.if_else(pa.array(quick), pa.scalar(None, pa.float64()), value)
    rounded = by_distinct(lambda number: _rounded(number, type_.precision, type_.scale), type_, slow)
    return pc.if_else(pa.array(quick), found, rounded)


_TO_DOUBLE = 22  # 10^22 is the largest power of ten that is a double
_SURE = 2.0**50  # below it, a double has spare bits for halves


def _rounded(number: float, precision: int, scale: int) -> decimal.Decimal | None:
    if not abs(number) < float("inf"):
        return None
    exact = decimal.Decimal(repr(number))
    if exact and exact.adjusted() >= precision - scale:
        return None
    if exact.adjusted() < -scale - 1:
        return decimal.Decimal(0).scaleb(-scale)
    found = exact.quantize(decimal.Decimal(1).scaleb(-scale), decimal.ROUND_HALF_UP, EXACT)
    return found if not found or found.adjusted() < precision - scale else None
