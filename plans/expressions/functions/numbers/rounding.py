"""ROUND, BROUND, FLOOR and CEIL on whole columns, as in Spark.

Spark rounds a double by its shortest decimal form: ROUND(2.675, 2) is 2.68 although the double is less. The scaled
double determines the result except near ties and beyond 2^52. Those values are rounded in decimal, once per distinct
value.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.expressions.casts import convert
from plans.expressions.coercion import MAX_DIGITS, named
from plans.expressions.columns import arithmetic, decimals
from plans.expressions.columns.arrays import array_of, on_arrays, words
from plans.expressions.functions.function import function
from plans.types import decimal_parts

_EXACT = decimal.Context(prec=1000, rounding=decimal.ROUND_HALF_UP)
_WHOLE = 2.0**52
_NEAR, _PART = 1e-6, 2.0**-50  # the least distance from a tie; a scaled double errs by 2^-53 of its size
_SAFE = 2.0**45
_LARGEST = 2.0**63
_TOO_LARGE, _BEYOND = "a result that does not fit the type", "a DOUBLE that does not fit a BIGINT"
_TIES = "Ties are rounded away from zero. A DOUBLE is rounded in its shortest decimal form."
_OF_NAN = "The result is a BIGINT, or a DECIMAL for a DECIMAL. NaN gives 0."


def _rounder(even: bool, digits_of: Callable[[float], str] = repr) -> Callable[..., Any]:
    def evaluate(type_: pa.DataType, value: Any, places: Any = None) -> Any:
        digits = 0 if places is None else places.as_py()
        if digits is None:
            return pa.scalar(None, type_)
        if pa.types.is_floating(type_):
            return on_arrays(lambda array: rounded_doubles(array, digits, even, digits_of), value)
        if pa.types.is_decimal(type_):
            return decimals.rounded(value, digits, type_, "half_even" if even else "half_up")
        return value if digits >= 0 else on_arrays(lambda array: _whole(array, -digits, even), value)

    return evaluate


def rounded_doubles(value: pa.Array, digits: int, even: bool, digits_of: Callable[[float], str]) -> pa.Array:
    """Returns doubles rounded to `digits` decimal places. Ties of the text `digits_of` a double are rounded away from
    zero or to even. O(n)."""
    given = words(value, np.float64)
    if abs(digits) > 15:
        found, sure = given.copy(), ~np.isfinite(given)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.abs(given)
            scaled = size * 10.0**digits if digits >= 0 else size / 10.0**-digits
            near = np.rint(scaled)
            sure = (np.abs(scaled - np.floor(scaled) - 0.5) > _NEAR + scaled * _PART) & (scaled < _SAFE)
            back = near / 10.0**digits if digits >= 0 else near * 10.0**-digits
            found = np.where(sure, np.copysign(back, given) + 0.0, given)
        sure |= ~np.isfinite(given)
        if digits >= 0:
            whole = (np.abs(given) >= _WHOLE) & ~sure
            sure |= whole
    rest = np.flatnonzero(~sure & value.is_valid().to_numpy(zero_copy_only=False))
    if len(rest):
        distinct, inverse = np.unique(given[rest], return_inverse=True)
        rounding = decimal.ROUND_HALF_EVEN if even else decimal.ROUND_HALF_UP
        found[rest] = np.array([_in_decimal(x, digits_of(x), digits, rounding) for x in distinct.tolist()])[inverse]
    return array_of(found, pa.float64(), value)


def _in_decimal(value: float, written: str, digits: int, rounding: str) -> float:
    if abs(digits) > 400:
        return value if digits > 0 else 0.0
    exact = decimal.Decimal(written)
    if int(exact.as_tuple().exponent) >= -digits:
        return value + 0.0
    return float(exact.quantize(decimal.Decimal(1).scaleb(-digits), rounding, _EXACT)) + 0.0


def _whole(value: pa.Array, zeros: int, even: bool) -> pa.Array:
    """Returns integers rounded to a multiple of a power of ten; NULL where the result does not fit the type."""
    type_ = value.type
    if zeros > 19:
        return pc.if_else(pc.is_valid(value), pa.scalar(0, type_), pa.scalar(None, type_))
    if zeros == 19:
        wide = pc.cast(pc.cast(value, pa.decimal128(38, 0)), pa.decimal128(38, 0))
        return convert.cast(
            decimals.rounded(wide, -19, pa.decimal128(38, 0), "half_even" if even else "half_up"), type_
        )
    given, power = pc.cast(value, pa.int64()), pa.scalar(10**zeros, pa.int64())
    quotient = pc.divide(given, power)
    rest = pc.abs(pc.subtract(given, pc.multiply(quotient, power)))
    twice = pc.multiply(rest, 2)
    up = pc.greater_equal(twice, power)
    if even:
        odd = pc.not_equal(pc.bit_wise_and(quotient, 1), 0)
        up = pc.or_(pc.greater(twice, power), pc.and_(pc.equal(twice, power), odd))
    step = pc.if_else(up, pc.if_else(pc.less(given, 0), -1, 1), 0)
    return convert.cast(arithmetic.binary("mul", pc.add(quotient, step), power, pa.int64()), type_)


def _bound(mode: str) -> Callable[..., Any]:
    """Returns the evaluator of FLOOR or CEIL: doubles beyond BIGINT give NULL, and NaN gives 0, as in Java's
    conversion."""

    def evaluate(type_: pa.DataType, value: Any) -> Any:
        if pa.types.is_decimal(value.type):
            return decimals.rounded(value, 0, type_, mode)
        if not pa.types.is_floating(value.type):
            return pc.cast(value, type_)
        return on_arrays(lambda array: _long(pc.floor(array) if mode == "floor" else pc.ceil(array)), value)

    return evaluate


def _long(value: pa.Array) -> pa.Array:
    given = words(value, np.float64)
    inside = np.abs(given) < _LARGEST
    whole = np.where(inside, given, 0).astype(np.int64)
    return pc.if_else(
        pa.array(inside | np.isnan(given)), array_of(whole, pa.int64(), value), pa.scalar(None, pa.int64())
    )


def _rounded_type(types: Sequence[str], values: Sequence[Any]) -> str:
    parts = decimal_parts(types[0])
    if parts is None:
        return types[0]
    places = 0 if len(values) < 2 or values[1] is None else int(values[1])
    whole = parts[0] - parts[1] + 1
    if places < 0:
        return named(min(max(whole, -places + 1), MAX_DIGITS), 0)
    scale = min(parts[1], places)
    return named(min(whole + scale, MAX_DIGITS), scale)


def _bound_type(types: Sequence[str], values: Sequence[Any]) -> str:
    parts = decimal_parts(types[0])
    return "int64" if parts is None else named(min(parts[0] - parts[1] + 1, MAX_DIGITS), 0)


TABLE = (
    function("round", "number [=int32]", _rounded_type, _rounder(False), null=_TOO_LARGE, note=_TIES),
    function("bround", "number [=int32]", _rounded_type, _rounder(True), null=_TOO_LARGE,
             note="Ties are rounded to the even digit."),
    function("exact_round", "float64 [=int32]", "float64", _rounder(False, lambda x: str(decimal.Decimal(x))),
             hidden=True),
    function("floor", "number", _bound_type, _bound("floor"), null=_BEYOND, note=_OF_NAN),
    function("ceil", "number", _bound_type, _bound("ceil"), also=("ceiling",), null=_BEYOND, note=_OF_NAN),
)  # fmt: skip
