"""Functions of numbers: roots, powers, logarithms, angles, bits, and the greatest and least of several values.

Powers and logarithms use the C library. Java's results may differ in the last digit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.errors import PlanError
from plans.expressions.columns import arithmetic
from plans.expressions.columns.arrays import array_of, words
from plans.expressions.functions.distinct import each
from plans.expressions.functions.function import arrays, function, plain, same_type
from plans.expressions.literals import RESERVED
from plans.types import decimal_parts

_LIBRARY = "Computed by the C library; Java may differ in the last digit."
SIGNED_DIGITS = 34  # of Java's MathContext.DECIMAL128
_ABOVE = "NULL for 0 and below, as in Spark. " + _LIBRARY
_SHORTER = f"A DECIMAL may have at most {SIGNED_DIGITS} digits."
_SKIPS = "NULLs are skipped; NaN is the greatest number."
_SIGNS = {"bit_and": "&", "bit_or": "|", "bit_xor": "^"}


def _known(value: Any) -> Any:
    """Returns integers, with NULL for the integer that is not a value of BIGINT here."""
    if value.type != pa.int64():
        return value
    return pc.if_else(pc.equal(value, pa.scalar(RESERVED, value.type)), pa.scalar(None, value.type), value)


def _kind(type_: pa.DataType) -> type[np.generic]:
    return np.int32 if type_ == pa.int32() else np.int64


def _wider(types: Sequence[str], values: Sequence[Any]) -> str:
    return "int64" if "int64" in types else "int32"


def _of_both(compute: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda type_, left, right: _known(compute(pc.cast(left, type_), pc.cast(right, type_)))


def _shifted(left: bool, signed: bool) -> Callable[..., Any]:
    """Returns an evaluator that shifts bits by a count modulo the width of the type."""

    def shift(type_: pa.DataType, array: pa.Array, counts: pa.Array) -> pa.Array:
        width = type_.bit_width
        given = words(array, _kind(type_))
        given = given if signed else given.view(f"u{width // 8}")
        by = (words(counts, np.int32) & (width - 1)).astype(given.dtype)
        found = (given << by if left else given >> by).view(_kind(type_))
        valid = pc.if_else(pc.is_valid(array), counts, pa.scalar(None, counts.type))
        return _known(array_of(found, type_, valid))

    return arrays(shift)


def _count(type_: pa.DataType, array: pa.Array) -> pa.Array:
    given = words(pc.cast(array, pa.int64()), np.int64).view(np.uint64)
    return array_of(np.bitwise_count(given).astype(np.int32), type_, array)


def _bit(type_: pa.DataType, array: pa.Array, positions: pa.Array) -> pa.Array:
    """Returns one bit, counted from the lowest; NULL where the type has no such bit."""
    at = words(positions, np.int32)
    inside = (at >= 0) & (at < array.type.bit_width)
    found = (words(array, _kind(array.type)).astype(np.int64) >> np.where(inside, at, 0)) & 1
    valid = pc.if_else(pc.and_(pc.is_valid(array), pa.array(inside)), positions, pa.scalar(None, positions.type))
    return array_of(found.astype(np.int32), type_, valid)


_LARGEST = 2**63


def _on_doubles(compute: Callable[..., np.ndarray]) -> Callable[..., Any]:
    """Returns an evaluator from a NumPy function; NULL where an argument is NULL."""

    def evaluate(type_: pa.DataType, first: pa.Array, *second: pa.Array) -> pa.Array:
        with np.errstate(all="ignore"):
            found = compute(*(words(array, np.float64) for array in (first, *second)))
        known = pc.if_else(pc.is_valid(first), second[0], first) if second else first
        return array_of(np.ascontiguousarray(found), type_, known)

    return arrays(evaluate)


def _log1p(type_: pa.DataType, value: Any) -> Any:
    found = _on_doubles(np.log1p)(type_, value)
    return pc.if_else(pc.less_equal(value, -1.0), pa.scalar(None, type_), found)


def _bucket(value: float, low: float, high: float, count: int) -> int | None:
    """Returns the number of the bucket: 0 below all buckets, and one more than their number above."""
    finite = math.isfinite(low) and math.isfinite(high)
    if count <= 0 or count == _LARGEST - 1 or math.isnan(value) or low == high or not finite:
        return None
    below, above = (value < low, value >= high) if low < high else (value > low, value <= high)
    if below or above:
        return 0 if below else count + 1
    place = count * (value - low) / (high - low)
    return int(place) + 1 if place < _LARGEST else None


def _divisor(type_: pa.DataType, left: pa.Array, right: pa.Array) -> pa.Array:
    found = np.gcd(words(left, np.int64), words(right, np.int64))
    return pc.if_else(pc.and_(pc.is_valid(left), pc.is_valid(right)), pa.array(found), pa.scalar(None, type_))


def _multiple(type_: pa.DataType, left: pa.Array, right: pa.Array) -> pa.Array:
    """Returns the least common multiple; NULL where it does not fit."""
    first, second = words(left, np.int64), words(right, np.int64)
    part = np.abs(first) // np.maximum(np.gcd(first, second), 1)
    fits = pa.array(part <= (_LARGEST - 1) // np.maximum(np.abs(second), 1))
    known = pc.and_(fits, pc.and_(pc.is_valid(left), pc.is_valid(right)))
    return pc.if_else(known, pa.array(np.lcm(first, second)), pa.scalar(None, type_))


_OF_DOUBLES: dict[str, Callable[..., np.ndarray]] = {
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "cot": lambda x: 1 / np.tan(x), "sec": lambda x: 1 / np.cos(x), "csc": lambda x: 1 / np.sin(x),
    "cbrt": np.cbrt, "expm1": np.expm1, "degrees": np.degrees, "radians": np.radians,
}  # fmt: skip


def _signed(name: str) -> Callable[[Sequence[str], Sequence[Any]], str]:
    def gives(types: Sequence[str], values: Sequence[Any]) -> str:
        if (decimal_parts(types[0]) or (0, 0))[0] > SIGNED_DIGITS:
            raise PlanError(
                f"{name} of {types[0]}: Spark rounds it to {SIGNED_DIGITS} digits",
                hint=f"cast it to a decimal of at most {SIGNED_DIGITS} digits",
            )
        return types[0]

    return gives


def _above_zero(value: Any) -> Any:
    """Returns the value, with NULL where it has no logarithm."""
    return pc.if_else(pc.less_equal(value, 0.0), pa.scalar(None, pa.float64()), value)


def _logarithm(base: Any, value: Any = None) -> Any:
    if value is None:
        return pc.ln(_above_zero(base))
    return pc.divide(pc.ln(_above_zero(value)), pc.ln(_above_zero(base)))


def _power(base: Any, exponent: Any) -> Any:
    """Returns Java's power: NaN where C returns 1 for an exponent of NaN, or for an infinite exponent of 1 and -1."""
    found = pc.power(base, exponent)
    unsure = pc.or_(pc.is_nan(exponent), pc.and_(pc.equal(pc.abs(base), 1.0), pc.is_inf(exponent)))
    return pc.if_else(unsure, pa.scalar(float("nan")), found)


def _sign(value: Any) -> Any:
    return pc.if_else(pc.greater(value, 0.0), 1.0, pc.if_else(pc.less(value, 0.0), -1.0, value))


def _extreme(greatest: bool) -> Callable[..., Any]:
    """Returns the greatest or least of several columns of one type; NULLs are skipped, NaN is the greatest number."""

    def chosen(left: Any, right: Any) -> Any:
        takes = pc.less(left, right) if greatest else pc.less(right, left)
        if pa.types.is_floating(left.type):
            takes = pc.or_(takes, pc.is_nan(right) if greatest else pc.is_nan(left))
        both = pc.if_else(takes, right, left)
        return pc.coalesce(both, left, right)

    def evaluate(type_: pa.DataType, *values: Any) -> Any:
        found = values[0]
        for value in values[1:]:
            found = chosen(found, value)
        return found

    return evaluate


def _quotient(left: Any, right: Any) -> Any:
    """Returns DIV: the quotient without its fraction."""
    right = pc.if_else(pc.equal(right, 0), pa.scalar(None, pa.int64()), right)
    minus = pc.equal(right, -1)  # the least BIGINT would overflow, but is not a value here
    return pc.if_else(minus, pc.negate(left), pc.divide(left, pc.if_else(minus, pa.scalar(1, pa.int64()), right)))


TABLE = (
    function("neg", "number", _signed("-"), plain(arithmetic.negated), sql=lambda a: f"- {a[0]}", hidden=True),
    function("long_neg", "number", same_type, plain(arithmetic.negated), sql=lambda a: f"- {a[0]}", hidden=True),
    function("abs", "number", _signed("ABS"), plain(arithmetic.absolute), null="the smallest INT", note=_SHORTER),
    function("sqrt", "float64", "float64", plain(pc.sqrt)),
    function("exp", "float64", "float64", plain(pc.exp), note=_LIBRARY),
    function("ln", "float64", "float64", plain(_logarithm), also=("log",), note=_ABOVE),
    function("log10", "float64", "float64", plain(lambda value: pc.log10(_above_zero(value))), note=_ABOVE),
    function("log2", "float64", "float64", plain(lambda value: pc.log2(_above_zero(value))), note=_ABOVE),
    function("log", "float64 float64", "float64", plain(_logarithm), note="The first argument is the base. " + _ABOVE),
    function("power", "float64 float64", "float64", plain(_power), also=("pow",), note=_LIBRARY),
    function("sign", "float64", "float64", plain(_sign), also=("signum",)),
    function("intdiv", "int64 int64", "int64", plain(_quotient), sql=lambda a: f"{a[0]} DIV {a[1]}", hidden=True),
    function("greatest", "same same ...", "same", _extreme(True), note=_SKIPS),
    function("least", "same same ...", "same", _extreme(False), note=_SKIPS),
    function("coalesce", "same ...", "same", plain(pc.coalesce)),
    *(
        function(name, "float64", "float64", _on_doubles(compute), note=_LIBRARY)
        for name, compute in _OF_DOUBLES.items()
    ),
    function("atan2", "float64 float64", "float64", _on_doubles(lambda y, x: np.arctan2(y + 0.0, x + 0.0)),
             note=_LIBRARY),
    function("hypot", "float64 float64", "float64", _on_doubles(np.hypot), note=_LIBRARY),
    function("log1p", "float64", "float64", _log1p, note="NULL for -1 and below. " + _LIBRARY),
    function("rint", "float64", "float64", _on_doubles(np.rint), note="Ties are rounded to the even number."),
    function("isnan", "float64", "bool", lambda type_, value: pc.fill_null(pc.is_nan(value), False)),
    function("gcd", "int64 int64", "int64", arrays(_divisor), also=("greatest_common_divisor",)),
    function("lcm", "int64 int64", "int64", arrays(_multiple), also=("least_common_multiple",),
             null="a result that does not fit a BIGINT"),
    function("factorial", "int32", "int64", each(lambda n: math.factorial(n) if 0 <= n <= 20 else None),
             note="NULL for a number outside of 0 to 20."),
    function("width_bucket", "float64 float64 float64 int64", "int64", each(_bucket),
             note="The bucket of the first argument, if the range from the second to the third is divided into that "
                  "many buckets."),
    *(
        function(
            name, "integer integer", _wider, _of_both(compute), hidden=True, sql=lambda a, s=sign: f"{a[0]} {s} {a[1]}"
        )
        for (name, sign), compute in zip(
            _SIGNS.items(), (pc.bit_wise_and, pc.bit_wise_or, pc.bit_wise_xor), strict=True
        )
    ),
    function("bit_not", "integer", same_type, lambda type_, value: _known(pc.bit_wise_not(value)), hidden=True,
             sql=lambda a: f"~ {a[0]}"),
    function("shiftleft", "integer int32", same_type, _shifted(True, True), note="Also `<<`."),
    function("shiftright", "integer int32", same_type, _shifted(False, True), note="Also `>>`."),
    function("shiftrightunsigned", "integer int32", same_type, _shifted(False, False), note="Also `>>>`."),
    function("bit_count", "integer", "int32", arrays(_count), note="Counts the bits of the value in 64 bits."),
    function("getbit", "integer int32", "int32", arrays(_bit), also=("bit_get",),
             null="a position outside of the type"),
)  # fmt: skip
