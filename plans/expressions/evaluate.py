"""Vectorized evaluation of expressions: by Arrow's compute functions, and by NumPy where Arrow has none.

Three-valued logic throughout: `AND`, `OR` are Kleene's, a comparison with NULL is NULL. NaN equals NaN and is greater
than every other number. Evaluation never fails on values of the columns' types: where Spark (ANSI mode, its default)
would fail, the value is NULL. docs/expressions.md lists all cases.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from plans.errors import PlanError
from plans.expressions.casts import convert
from plans.expressions.columns import arithmetic, characters, decimals, intervals, packed
from plans.expressions.columns.arrays import null, repeated
from plans.expressions.functions.table import FUNCTIONS
from plans.expressions.functions.user import USER
from plans.nested import is_nested
from plans.types import INTERVALS, arrow_type, decimal_parts

if TYPE_CHECKING:
    from plans.expressions.expr import Expr


class Evaluator:
    """Several expressions prepared for evaluation.

    Common subexpressions are evaluated once, and those without columns only here. Branches of a CASE that no row can
    choose are not evaluated.
    """

    def __init__(self, expressions: Sequence[Expr]) -> None:
        self._given: list[Any] = []  # the values of constants, and None where a step computes one
        self._steps: list[tuple[int, Expr, list[int]]] = []
        known: dict[tuple[Any, ...], int] = {}
        self._made = [(self._place(expr, known), expr.type) for expr in expressions]
        self._steps = self._needed()

    def _place(self, expr: Expr, known: dict[tuple[Any, ...], int]) -> int:
        """Returns the position of the value of an expression."""
        places: list[int] = []
        for node in expr.postorder():
            cut = len(places) - len(node.args)
            args = self._choosable(places[cut:]) if node.op == "case" else places[cut:]
            # Equal values may differ: 0.0 and -0.0 do.
            key = (node.op, node.type, repr(node.exact_value), *args)
            if key not in known:
                known[key] = len(self._given)
                self._given.append(self._constant(node, args))
                if self._given[-1] is None:
                    self._steps.append((known[key], node, args))
            places[cut:] = [known[key]]
        return places[0]

    def _constant(self, node: Expr, args: list[int]) -> Any:
        """Returns the value of an expression without columns, and None for others."""
        if node.op == "literal":
            return node.scalar
        values = [self._given[i] for i in args]
        if not values or node.op == USER or node.body is not None or any(value is None for value in values):
            return None
        return _applied(node, values)

    def _choosable(self, args: list[int]) -> list[int]:
        """Returns the operands of a CASE that a row can choose, with their conditions. The last is the default."""
        found: list[int] = []
        for condition, value in zip(args[:-1:2], args[1:-1:2], strict=True):
            known = self._given[condition]
            if known is None:
                found += [condition, value]
            elif known.as_py():
                return [*found, value]
        return [*found, args[-1]]

    def _needed(self) -> list[tuple[int, Expr, list[int]]]:
        """Returns the steps whose values are read."""
        read, steps = {at for at, _ in self._made}, []
        for step in reversed(self._steps):
            if step[0] in read:
                read.update(step[2])
                steps.append(step)
        return steps[::-1]

    def evaluate(self, columns: Mapping[str, Any], length: int) -> list[pa.Array]:
        """Returns the values of each expression. See `Expr.evaluate`."""
        values = self._given.copy()
        for at, node, args in self._steps:
            values[at] = _column(node, columns) if node.op == "col" else _applied(node, [values[i] for i in args])
        made = [intervals.restored(values[i], type_) for i, type_ in self._made]
        return [repeated(value, length) if isinstance(value, pa.Scalar) else value for value in made]


def _applied(expr: Expr, args: list[Any]) -> Any:
    function = FUNCTIONS.get(expr.op)
    if function is None:
        return _OPERATORS[expr.op](expr, *args)
    return function.evaluate(_arrow(expr), *([] if expr.body is None else [expr.body]), *args)


def _column(expr: Expr, columns: Mapping[str, Any]) -> Any:
    try:
        column = columns[expr.value]
    except KeyError:
        raise PlanError(f"column {expr.value} is missing") from None
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks else pa.array([], column.type)
    if expr.type in INTERVALS:
        return intervals.carried(column, expr.type)
    wanted = arrow_type(expr.type)
    return column if column.type == wanted else pc.cast(column, wanted)


def _carrier(type_: str) -> pa.DataType:
    """Returns the Arrow type in which values of a type are processed."""
    return intervals.CARRIER.get(type_) or arrow_type(type_)


def _arrow(expr: Expr) -> pa.DataType:
    return pa.null() if expr.type == "null" else _carrier(expr.type)


def scalar_of(expr: Expr) -> pa.Scalar:
    """Returns the Arrow value of a literal."""
    written = _written(expr)
    if written is None:
        return pa.scalar(expr.value, _arrow(expr))
    return pa.Array.from_buffers(_arrow(expr), 1, [None, *map(pa.py_buffer, written)])[0]


def _written(expr: Expr) -> list[bytes] | None:
    """Returns the buffers of a common literal, or None for others. ``pa.scalar`` would load pandas if it is
    installed."""
    value, parts = expr.value, decimal_parts(expr.type)
    if parts is not None and isinstance(value, Decimal):
        whole = Fraction(value) * 10 ** parts[1]
        return [_word(whole.numerator, 16)] if whole.denominator == 1 else None
    if expr.type in ("int32", "int64") and isinstance(value, int):
        return [_word(value, int(expr.type[3:]) // 8)]
    if expr.type == "float64" and isinstance(value, float):
        return [struct.pack("<d", value)]
    if expr.type == "string" and isinstance(value, str):
        data = value.encode()
        return [_word(0, 4) + _word(len(data), 4), data]
    return None


def _word(value: int, length: int) -> bytes:
    return value.to_bytes(length, "little", signed=True)


def _floating(expr: Expr) -> bool:
    return expr.args[0].type == "float64"


def _typed(expr: Expr, value: Any, index: int) -> Any:
    """Returns an operand. An untyped NULL takes the type of the other operand."""
    if expr.args[index].type != "null":
        return value
    other = expr.args[1 - index].type
    return null(pa.int64() if other == "null" else _carrier(other))


def _comparison(function: Callable[..., Any]) -> Callable[..., Any]:
    def compare(expr: Expr, left: Any, right: Any) -> Any:
        left, right = _typed(expr, left, 0), _typed(expr, right, 1)
        if expr.args[0].type != expr.args[1].type and "null" not in (expr.args[0].type, expr.args[1].type):
            left, right = decimals.widened(left, right)
        if is_nested(expr.args[0].type):
            left, right = (packed.comparable(side, expr.args[0].type) for side in (left, right))
        return function(left, right, _floating(expr))

    return compare


def _eq(left: Any, right: Any, floating: bool) -> Any:
    same = pc.equal(left, right)
    return pc.or_(same, pc.and_(pc.is_nan(left), pc.is_nan(right))) if floating else same


def _lt(left: Any, right: Any, floating: bool) -> Any:
    less = pc.less(left, right)
    return pc.or_(less, pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right))) if floating else less


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
    type_ = pa.int64() if expr.args[0].type == "null" else _carrier(expr.args[0].type)
    value = pc.cast(value, type_)
    listed = [item.as_py() for item in items]
    choices = pa.array([v for v in listed if v is not None], type_)
    if _floating(expr):  # -0.0 equals 0.0, but Arrow compares their bits
        value, choices = pc.add(value, 0.0), pc.add(choices, 0.0)
    found = pc.is_in(value, value_set=choices)
    unknown = null(pa.bool_())
    if None in listed:
        found = pc.if_else(found, True, unknown)
    return pc.if_else(pc.is_null(value), unknown, found)


def _case(expr: Expr, *args: Any) -> Any:
    type_ = _arrow(expr)
    result = pc.cast(args[-1], type_)
    for condition, value in reversed(list(zip(args[:-1:2], args[1:-1:2], strict=True))):
        result = pc.if_else(pc.fill_null(pc.cast(condition, pa.bool_()), False), pc.cast(value, type_), result)
    return result


def _arithmetic(expr: Expr, left: Any, right: Any) -> Any:
    length = expr.args[1].type
    if expr.type in INTERVALS:
        return intervals.result(expr.op, left, right, expr.type)
    if length in INTERVALS:
        by = FUNCTIONS["plus_months" if length == "months" else "plus_micros"].evaluate
        return intervals.moved(expr.op, left, right, by)
    return arithmetic.binary(expr.op, left, right, arrow_type(expr.type))


def _cast(expr: Expr, value: Any) -> Any:
    given = intervals.restored(value, expr.args[0].type)
    return intervals.carried(convert.cast(given, arrow_type(expr.type)), expr.type)


_OPERATORS: dict[str, Callable[..., Any]] = {
    "eq": _comparison(_eq),
    "ne": _comparison(lambda left, right, floating: pc.invert(_eq(left, right, floating))),
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
    "like": lambda expr, value, pattern: characters.like(pc.cast(value, pa.string()), pattern.as_py(), expr.value),
    **dict.fromkeys(("add", "sub", "mul", "div", "mod"), _arithmetic),
    "cast": _cast,
    USER: lambda expr, *values: expr.value.evaluate(*values),
    "case": _case,
}
