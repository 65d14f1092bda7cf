"""Functions of doubles from NumPy: roots, trigonometric and hyperbolic functions; also factorials and buckets."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.expressions.columns.arrays import array_of, on_arrays, words
from plans.expressions.functions.distinct import each
from plans.expressions.functions.function import Function, function

LIBRARY = "Computed by the C library; Java may differ in the last digit."
_LARGEST = 2**63


def _on_doubles(compute: Callable[..., np.ndarray]) -> Callable[..., Any]:
    """Returns an evaluator from a NumPy function; NULL where an argument is NULL."""

    def evaluate(*arrays: pa.Array) -> pa.Array:
        with np.errstate(all="ignore"):
            found = compute(*(words(array, np.float64) for array in arrays))
        known = arrays[0] if len(arrays) == 1 else pc.if_else(pc.is_valid(arrays[0]), arrays[1], arrays[0])
        return array_of(np.ascontiguousarray(found), pa.float64(), known)

    return lambda type_, *values: on_arrays(evaluate, *values)


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


def _divisor(type_: pa.DataType, left: Any, right: Any) -> Any:
    return on_arrays(lambda one, other: _on_whole(np.gcd, one, other), left, right)


def _multiple(type_: pa.DataType, left: Any, right: Any) -> Any:
    """Returns the least common multiple; NULL where it does not fit."""

    def compute(first: pa.Array, second: pa.Array) -> pa.Array:
        found = _on_whole(np.lcm, first, second)
        part = np.abs(words(first, np.int64)) // np.maximum(np.gcd(words(first, np.int64), words(second, np.int64)), 1)
        far = part > (_LARGEST - 1) // np.maximum(np.abs(words(second, np.int64)), 1)
        return pc.if_else(pa.array(far), pa.scalar(None, pa.int64()), found)

    return on_arrays(compute, left, right)


def _on_whole(compute: Callable[..., np.ndarray], left: pa.Array, right: pa.Array) -> pa.Array:
    found = compute(words(left, np.int64), words(right, np.int64))
    return pc.if_else(pc.and_(pc.is_valid(left), pc.is_valid(right)), pa.array(found), pa.scalar(None, pa.int64()))


def _of_angle(name: str, compute: Callable[..., np.ndarray]) -> Function:
    return function(name, "float64", "float64", _on_doubles(compute), note=LIBRARY)


_ANGLES: dict[str, Callable[..., np.ndarray]] = {
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "cot": lambda x: 1 / np.tan(x), "sec": lambda x: 1 / np.cos(x), "csc": lambda x: 1 / np.sin(x),
    "cbrt": np.cbrt, "expm1": np.expm1,
}  # fmt: skip

TABLE = (
    *(_of_angle(name, compute) for name, compute in _ANGLES.items()),
    function(
        "atan2", "float64 float64", "float64", _on_doubles(lambda y, x: np.arctan2(y + 0.0, x + 0.0)), note=LIBRARY
    ),
    function("hypot", "float64 float64", "float64", _on_doubles(np.hypot), note=LIBRARY),
    function("log1p", "float64", "float64", _log1p, note="NULL for -1 and below. " + LIBRARY),
    function("degrees", "float64", "float64", _on_doubles(np.degrees), note=LIBRARY),
    function("radians", "float64", "float64", _on_doubles(np.radians), note=LIBRARY),
    function("rint", "float64", "float64", _on_doubles(np.rint), note="Ties are rounded to the even number."),
    function("isnan", "float64", "bool", lambda type_, value: pc.fill_null(pc.is_nan(value), False)),
    function("gcd", "int64 int64", "int64", _divisor, also=("greatest_common_divisor",)),
    function(
        "lcm",
        "int64 int64",
        "int64",
        _multiple,
        also=("least_common_multiple",),
        null="a result that does not fit a BIGINT",
    ),
    function(
        "factorial",
        "int32",
        "int64",
        each(lambda n: math.factorial(n) if 0 <= n <= 20 else None),
        note="NULL for a number outside of 0 to 20.",
    ),
    function(
        "width_bucket",
        "float64 float64 float64 int64",
        "int64",
        each(_bucket),
        note="The bucket of the first argument, if the range from the second to the third is divided into that many "
        "buckets.",
    ),
)
