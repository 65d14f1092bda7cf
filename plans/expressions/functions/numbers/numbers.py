"""Functions of numbers: roots, powers, logarithms, signs, and the greatest and least of several values.

Powers and logarithms use the C library. Java's results may differ in the last digit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from plans.errors import PlanError
from plans.expressions.columns import arithmetic
from plans.expressions.functions.function import function, plain
from plans.types import decimal_parts

_SIGNED_DIGITS = 34  # of Java's MathContext.DECIMAL128
_LIBRARY = "Computed by the C library; Java may differ in the last digit."
_ABOVE = "NULL for 0 and below, as in Spark. " + _LIBRARY
_SHORTER = f"A DECIMAL may have at most {_SIGNED_DIGITS} digits."
_SKIPS = "NULLs are skipped; NaN is the greatest number."


def _signed(name: str) -> Callable[[Sequence[str], Sequence[Any]], str]:
    def gives(types: Sequence[str], values: Sequence[Any]) -> str:
        if (decimal_parts(types[0]) or (0, 0))[0] > _SIGNED_DIGITS:
            raise PlanError(
                f"{name} of {types[0]}: Spark rounds it to {_SIGNED_DIGITS} digits",
                hint=f"cast it to a decimal of at most {_SIGNED_DIGITS} digits",
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
)
