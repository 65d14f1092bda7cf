"""Lambda functions of a query over the elements of arrays and maps: `TRANSFORM(prices, p -> p * rate)`.

A front-end translates the body with columns in place of the parameters, because their types are known here. Values of
the row that the body reads, such as `rate`, become arguments of the call (closure conversion): they are evaluated once
per row, and an expression shows all columns that it reads. `plans.expressions.functions.function.HigherOrder` describes
the resulting call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from plans.errors import PlanError
from plans.expressions.build import Expr, call, cast, col, lit, typed
from plans.expressions.coercion import common
from plans.expressions.functions.function import HigherOrder, place
from plans.expressions.names import find_function
from plans.nested import element_of
from plans.types import without_lengths


class Lambda(NamedTuple):
    """A lambda of a query: the names of its parameters, and a function that returns its body for their expressions."""

    names: tuple[str, ...]
    body: Callable[[Mapping[str, Expr]], Expr]


def with_lambdas(name: str, args: Sequence[Expr | Lambda]) -> Expr | None:
    """Returns a call with lambdas among its arguments, or None if the function with that name, in capitals, takes none.

    REDUCE may take a second lambda, for the result. Raises PlanError if the arguments do not fit.
    """
    if name in _FROM_THE_FIRST:
        args = _with_start(args)
    if name in _PLACES_FROM_ONE:
        args = [_counting_from_zero(one) if isinstance(one, Lambda) and len(one.names) == 2 else one for one in args]
    finish = args[-1] if name in _REDUCTIONS and len(args) == 4 else None
    required = args[:3] if finish is not None else args
    entry = find_function(name, len(required))
    if not isinstance(entry, HigherOrder):
        return None
    *inputs, function = required
    values = [one for one in inputs if isinstance(one, Expr)]
    if not isinstance(function, Lambda) or len(values) < len(inputs) or (finish and not isinstance(finish, Lambda)):
        raise PlanError(f"{name} takes a function as its last argument", hint=f"write {entry.shown()}")
    made = _applied(entry, values, function)
    if not isinstance(finish, Lambda):
        return made
    if len(finish.names) != 1:
        raise PlanError(f"{name} takes a function of one parameter as its last argument", hint="write state -> ...")
    return finish.body({finish.names[0]: made})


_REDUCTIONS = ("AGGREGATE", "REDUCE")
_FROM_THE_FIRST = ("LIST_REDUCE", "ARRAY_REDUCE")
_PLACES_FROM_ONE = ("LIST_TRANSFORM", "LIST_APPLY", "ARRAY_TRANSFORM", "LIST_FILTER", "ARRAY_FILTER")
"""Functions of DuckDB, in which the first element has position 1."""


def _counting_from_zero(function: Lambda) -> Lambda:
    """Converts a lambda whose second parameter, the position of an element, counts from 1 into one that counts from
    0."""
    position = function.names[1]

    def body(known: Mapping[str, Expr]) -> Expr:
        return function.body({**known, position: call("add", known[position], lit(1))})

    return Lambda(function.names, body)


def _with_start(args: Sequence[Expr | Lambda]) -> Sequence[Expr | Lambda]:
    """Returns the arguments of REDUCE for those of DuckDB's, which starts with the first element, or with a last
    argument."""
    array: Any
    array, function = args[:2] if len(args) > 1 else (*args, None)
    inner = element_of(array.type) if isinstance(array, Expr) else None
    start: Any = args[2] if len(args) > 2 else inner and call("element_at", array, lit(1))
    if not isinstance(array, Expr) or not isinstance(function, Lambda) or not isinstance(start, Expr) or inner is None:
        raise PlanError("LIST_REDUCE takes an array, a function and a start, which may be left out")
    type_ = common(start.type, inner)
    tail = array if len(args) > 2 else call("slice", array, lit(2), lit(2**31 - 1))
    return tail, start if type_ is None else cast(start, type_), function


def _applied(function: HigherOrder, values: Sequence[Expr], lambda_: Lambda) -> Expr:
    title, max_parameters = function.name.upper(), len(function.names)
    types = function.parameters([value.type for value in values])
    if not function.least <= len(lambda_.names) <= max_parameters:
        counts = f"{max_parameters}" if function.least == max_parameters else f"{function.least} to {max_parameters}"
        raise PlanError(
            f"{title} takes a function of {counts} parameters, not {len(lambda_.names)}", hint=function.shown()
        )
    columns = {name: col(f"\u03bb.{name}", type_) for name, type_ in zip(lambda_.names, types, strict=False)}
    if len(columns) < len(lambda_.names):
        raise PlanError(f"{title}: two parameters of the function have the same name")
    body = lambda_.body(columns)
    if function.condition and body.type not in ("bool", "null"):
        raise PlanError(f"{title} needs a condition, not a value of type {body.type}")
    body = cast(body, "bool" if function.condition else "int32") if body.type == "null" else body
    result = function.gives
    if not isinstance(result, str):
        result = result([*(value.type for value in values), body.type], [])
    body, read = _closed(body, [column.value for column in columns.values()], max_parameters)
    return typed(Expr(function.name, without_lengths(result), (*values, *read), body))


def _closed(body: Expr, parameters: Sequence[str], max_parameters: int) -> tuple[Expr, list[Expr]]:
    """Returns the body over columns named by position, and the values of the row that it reads: the largest
    subexpressions without a parameter. `max_parameters`: the greatest number of parameters."""
    read: dict[Expr, str] = {}

    def taken(expr: Expr, inside: bool) -> Expr:
        if inside or expr.op == "literal":
            return expr
        return col(read.setdefault(expr, place(max_parameters + len(read))), expr.type)

    def combine(node: Expr, args: list[tuple[Expr, bool]]) -> tuple[Expr, bool]:
        if node.op == "col" and node.value in parameters:
            return col(place(parameters.index(node.value)), node.type), True
        if not any(inside for _, inside in args):
            return node, False
        return Expr(node.op, node.type, tuple(taken(*arg) for arg in args), node.value), True

    closed = taken(*body.fold(combine))
    return closed, list(read)
