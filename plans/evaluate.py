"""Vectorised evaluation of expressions with pyarrow.compute.

Three-valued logic throughout: `AND`, `OR` are Kleene's, a comparison with NULL is NULL. Overflow and division by zero
give NULL. NaN equals NaN and is larger than every other number, as in Spark and DuckDB.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from plans.errors import PlanError
from plans.expr import Expr
from plans.schema import arrow_type, decimal_parts

_BOUND = pa.scalar(2**63, pa.decimal256(40, 0))


def evaluate(expr: Expr, columns: Mapping[str, Any], length: int | None = None) -> pa.Array:
    """See `Expr.evaluate`."""
    if length is None:
        if not columns:
            raise ValueError("length must be given when there are no columns")
        length = len(next(iter(columns.values())))
    value = _value(expr, columns)
    if isinstance(value, pa.Scalar):
        return pa.repeat(value, length)
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
        if isinstance(value, pa.ChunkedArray):  # zero chunks
            value = pa.array([], value.type)
    return value


def _value(expr: Expr, columns: Mapping[str, Any]) -> Any:
    return expr.fold(lambda node, args: _OPERATORS[node.op](node, *args) if node.args else _leaf(node, columns))


def _leaf(expr: Expr, columns: Mapping[str, Any]) -> Any:
    if expr.op == "literal":
        return pa.scalar(expr.value, pa.null() if expr.type == "null" else arrow_type(expr.type))
    try:
        column = columns[expr.value]
    except KeyError:
        raise PlanError(f"column {expr.value} is missing") from None
    wanted = arrow_type(expr.type)
    return column if column.type == wanted else pc.cast(column, wanted)


def _floating(expr: Expr) -> bool:
    return expr.args[0].type == "float64"


def _typed(expr: Expr, value: Any, index: int) -> Any:
    """The untyped NULL takes the type of the other operand."""
    if expr.args[index].type != "null":
        return value
    other = expr.args[1 - index].type
    return pa.scalar(None, pa.int64() if other == "null" else arrow_type(other))


def _comparison(function: Callable[..., Any]) -> Callable[..., Any]:
    def compare(expr: Expr, left: Any, right: Any) -> Any:
        left, right = _typed(expr, left, 0), _typed(expr, right, 1)
        return function(left, right, _floating(expr))

    return compare


def _eq(left: Any, right: Any, floating: bool) -> Any:
    same = pc.equal(left, right)
    return pc.or_(same, pc.and_(pc.is_nan(left), pc.is_nan(right))) if floating else same


def _lt(left: Any, right: Any, floating: bool) -> Any:
    less = pc.less(left, right)
    return pc.or_(less, pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right))) if floating else less


def _ne(left: Any, right: Any, floating: bool) -> Any:
    return pc.invert(_eq(left, right, floating))


def _le(left: Any, right: Any, floating: bool) -> Any:
    return pc.invert(_lt(right, left, floating))


def _null_safe(left: Any, right: Any, floating: bool) -> Any:
    either = pc.or_(pc.is_null(left), pc.is_null(right))
    return pc.if_else(either, pc.equal(pc.is_null(left), pc.is_null(right)), _eq(left, right, floating))


def _kleene(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def fold(expr: Expr, *args: Any) -> Any:
        result = pc.cast(args[0], pa.bool_())
        for arg in args[1:]:
            result = function(result, pc.cast(arg, pa.bool_()))
        return result

    return fold


def _in(expr: Expr, value: Any, *items: Any) -> Any:
    type_ = pa.int64() if expr.args[0].type == "null" else arrow_type(expr.args[0].type)
    value = pc.cast(value, type_)
    listed = [item.as_py() for item in items]
    found = pc.is_in(value, value_set=pa.array([v for v in listed if v is not None], type_))
    unknown = pa.scalar(None, pa.bool_())
    if None in listed:
        found = pc.if_else(found, True, unknown)
    return pc.if_else(pc.is_null(value), unknown, found)


def like_pattern(pattern: str, escape: str | None) -> str:
    """The regular expression (RE2) of a LIKE pattern."""
    out, index = [], 0
    while index < len(pattern):
        mark = pattern[index]
        if mark == escape and index + 1 < len(pattern):
            index += 1
            out.append(re.escape(pattern[index]))
        elif mark in "%_":
            out.append(".*" if mark == "%" else ".")
        else:
            out.append(re.escape(mark))
        index += 1
    return r"(?s)\A" + "".join(out) + r"\z"


def _like(expr: Expr, value: Any, pattern: Any) -> Any:
    return pc.match_substring_regex(pc.cast(value, pa.string()), like_pattern(pattern.as_py(), expr.value))


def _checked(exact: Callable[[Any, Any], Any], wide: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def apply(expr: Expr, left: Any, right: Any) -> Any:
        type_ = arrow_type(expr.type)
        if decimal_parts(expr.type) is not None:
            left, right = _decimal(left), _decimal(right)
            return pc.cast(wide(left, right), type_)
        left, right = pc.cast(left, type_), pc.cast(right, type_)
        try:
            return exact(left, right)
        except pa.ArrowInvalid:  # overflow somewhere: find where, in 256 bits
            big = pa.decimal256(19, 0)
            result = wide(pc.cast(left, big), pc.cast(right, big))
            fits = pc.and_(pc.less(result, _BOUND), pc.greater_equal(result, pc.negate(_BOUND)))
            return pc.cast(pc.if_else(fits, result, pa.scalar(None, result.type)), type_)

    return apply


def _decimal(value: Any) -> Any:
    digits = {"int32": 10, "int64": 19}.get(str(value.type))
    return pc.cast(value, pa.decimal128(digits, 0)) if digits else value


def _div(expr: Expr, left: Any, right: Any) -> Any:
    return pc.if_else(pc.equal(right, 0.0), pa.scalar(None, pa.float64()), pc.divide(left, right))


def _mod(expr: Expr, left: Any, right: Any) -> Any:
    """The remainder with the sign of the dividend; NULL for a divisor of zero."""
    type_ = arrow_type(expr.type)
    null = pa.scalar(None, type_)
    if expr.type == "float64":
        right = pc.if_else(pc.equal(right, 0.0), null, right)
        return pc.subtract(left, pc.multiply(pc.trunc(pc.divide(left, right)), right))
    right = pc.if_else(pc.equal(right, 0), null, right)
    safe = pc.if_else(pc.equal(right, -1), pa.scalar(1, type_), right)  # x % -1 = 0; min / -1 would overflow
    return pc.subtract(left, pc.multiply(pc.divide(left, safe), safe))


def _negate(expr: Expr, value: Any) -> Any:
    if expr.type == "int64":
        value = pc.if_else(pc.equal(value, -(2**63)), pa.scalar(None, pa.int64()), value)
    return pc.negate(value)


def _abs(expr: Expr, value: Any) -> Any:
    if expr.type == "int64":
        value = pc.if_else(pc.equal(value, -(2**63)), pa.scalar(None, pa.int64()), value)
    return pc.abs(value)


def _cast(expr: Expr, value: Any) -> Any:
    if expr.type == "int32":  # from int64: what does not fit is NULL
        fits = pc.and_(pc.less(value, 2**31), pc.greater_equal(value, -(2**31)))
        value = pc.if_else(fits, value, pa.scalar(None, pa.int64()))
    if expr.type == "date":
        value = pc.floor_temporal(value, unit="day")
    # Integers beyond 2^53 round to the nearest double, as in every database.
    return pc.cast(value, arrow_type(expr.type), safe=expr.type != "float64")


def _case(expr: Expr, *args: Any) -> Any:
    type_ = pa.null() if expr.type == "null" else arrow_type(expr.type)
    result = pc.cast(args[-1], type_)
    for condition, value in reversed(list(zip(args[:-1:2], args[1:-1:2], strict=True))):
        result = pc.if_else(pc.fill_null(pc.cast(condition, pa.bool_()), False), pc.cast(value, type_), result)
    return result


def _substring(expr: Expr, value: Any, start: Any, length: Any = None) -> Any:
    first = start.as_py() - 1
    stop = None if length is None else first + length.as_py()
    return pc.utf8_slice_codeunits(value, first, stop)


_OPERATORS: dict[str, Callable[..., Any]] = {
    "eq": _comparison(_eq),
    "ne": _comparison(_ne),
    "lt": _comparison(_lt),
    "le": _comparison(_le),
    "gt": _comparison(lambda left, right, floating: _lt(right, left, floating)),
    "ge": _comparison(lambda left, right, floating: _le(right, left, floating)),
    "nseq": _comparison(_null_safe),
    "and": _kleene(pc.and_kleene),
    "or": _kleene(pc.or_kleene),
    "not": lambda expr, value: pc.invert(pc.cast(value, pa.bool_())),
    "isnull": lambda expr, value: pc.is_null(value),
    "in": _in,
    "like": _like,
    "add": _checked(pc.add_checked, pc.add),
    "sub": _checked(pc.subtract_checked, pc.subtract),
    "mul": _checked(pc.multiply_checked, pc.multiply),
    "div": _div,
    "mod": _mod,
    "neg": _negate,
    "abs": _abs,
    "cast": _cast,
    "case": _case,
    "coalesce": lambda expr, *args: pc.coalesce(*args),
    "concat": lambda expr, *args: pc.binary_join_element_wise(*args, pa.scalar("")),
    "lower": lambda expr, value: pc.utf8_lower(value),
    "upper": lambda expr, value: pc.utf8_upper(value),
    "length": lambda expr, value: pc.cast(pc.utf8_length(value), pa.int64()),
    "substring": _substring,
    "year": lambda expr, value: pc.year(value),
    "month": lambda expr, value: pc.month(value),
    "day": lambda expr, value: pc.day(value),
}
