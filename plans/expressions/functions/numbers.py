"""Functions of numbers: roots, powers, logarithms, signs, and the greatest and least of several values.

Powers and logarithms are those of the C library. Java's may differ from them in the last digit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from plans.expressions.functions.function import Function, plain


def _above_zero(value: Any) -> Any:
    """Returns the value, NULL where it has no logarithm."""
    return pc.if_else(pc.less_equal(value, 0.0), pa.scalar(None, pa.float64()), value)


def _logarithm(base: Any, value: Any = None) -> Any:
    if value is None:
        return pc.ln(_above_zero(base))
    return pc.divide(pc.ln(_above_zero(value)), pc.ln(_above_zero(base)))


def _power(base: Any, exponent: Any) -> Any:
    """Returns Java's power: NaN where C gives 1 for an exponent of NaN, or for an infinite one of 1 and -1."""
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
    minus = pc.equal(right, -1)  # of the least BIGINT it would not fit; that one is no value here
    return pc.if_else(minus, pc.negate(left), pc.divide(left, pc.if_else(minus, pa.scalar(1, pa.int64()), right)))


TABLE = (
    Function("sqrt", ("float64",), "float64", plain(pc.sqrt)),
    Function("exp", ("float64",), "float64", plain(pc.exp)),
    Function("ln", ("float64",), "float64", plain(_logarithm)),
    Function("log10", ("float64",), "float64", plain(lambda value: pc.log10(_above_zero(value)))),
    Function("log2", ("float64",), "float64", plain(lambda value: pc.log2(_above_zero(value)))),
    Function("log", ("float64", "float64"), "float64", plain(_logarithm)),
    Function("power", ("float64", "float64"), "float64", plain(_power)),
    Function("sign", ("float64",), "float64", plain(_sign)),
    Function("intdiv", ("int64", "int64"), "int64", plain(_quotient), sql=lambda a: f"{a[0]} DIV {a[1]}"),
    Function("greatest", ("same", "same"), "same", _extreme(True), repeated=True),
    Function("least", ("same", "same"), "same", _extreme(False), repeated=True),
    Function("coalesce", ("same",), "same", plain(pc.coalesce), repeated=True),
)
