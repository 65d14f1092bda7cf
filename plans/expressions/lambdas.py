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
from plans.expressions.names import meant
from plans.nested import element_of
from plans.types import without_lengths


class Lambda(NamedTuple):
    """A lambda of a query: the names of its parameters, and a function that returns its body for their expressions."""

    names: tuple[str, ...]
    body: Callable[[Mapping[str, Expr]], Expr]


def with_lambdas(name: str, given: Sequence[Expr | Lambda]) -> Expr | None:
    """Returns a call with lambdas among its arguments, or None if the function with that name, in capitals, takes none.

    REDUCE may take a second lambda, for the result. Raises PlanError if the arguments do not fit.
    """
    if name in _FROM_THE_FIRST:
        given = _begun(given)
    if name in _PLACES_FROM_ONE:
        given = [_from_one(one) if isinstance(one, Lambda) and len(one.names) == 2 else one for one in given]
    finish = given[-1] if name in _REDUCTIONS and len(given) == 4 else None
    rest = given[:3] if finish is not None else given
    entry = meant(name, len(rest))
    if not isinstance(entry, HigherOrder):
        return None
    function, values = rest[-1], [one for one in rest[:-1] if isinstance(one, Expr)]
    if not isinstance(function, Lambda) or len(values) < len(rest) - 1 or (finish and not isinstance(finish, Lambda)):
        raise PlanError(f"{name} takes a function as its last argument", hint=f"write {entry.shown()}")
    made = _applied(entry, values, function)
    if not isinstance(finish, Lambda):
        return made
    if len(finish.names) != 1:
        raise PlanError(f"{name} ends with a function of one value", hint="write state -> ...")
    return finish.body({finish.names[0]: made})


_REDUCTIONS = ("AGGREGATE", "REDUCE")
_FROM_THE_FIRST = ("LIST_REDUCE", "ARRAY_REDUCE")
_PLACES_FROM_ONE = ("LIST_TRANSFORM", "LIST_APPLY", "ARRAY_TRANSFORM", "LIST_FILTER", "ARRAY_FILTER")
"""Functions of DuckDB, in which the first element has position 1."""


def _from_one(given: Lambda) -> Lambda:
    """Converts a lambda whose second parameter, the position of an element, counts from 1 into one that counts from
    0."""
    place_of = given.names[1]
    return Lambda(given.names, lambda known: given.body({**known, place_of: call("add", known[place_of], lit(1))}))


def _begun(given: Sequence[Expr | Lambda]) -> Sequence[Expr | Lambda]:
    """Returns the arguments of REDUCE for those of DuckDB's, which starts with the first element, or with a last
    argument."""
    array: Any
    array, function = given[:2] if len(given) > 1 else (*given, None)
    inner = element_of(array.type) if isinstance(array, Expr) else None
    start: Any = given[2] if len(given) > 2 else inner and call("element_at", array, lit(1))
    if not isinstance(array, Expr) or not isinstance(function, Lambda) or not isinstance(start, Expr) or inner is None:
        raise PlanError("LIST_REDUCE takes an array, a function and a start, which may be left out")
    type_ = common(start.type, inner)
    rest = array if len(given) > 2 else call("slice", array, lit(2), lit(2**31 - 1))
    return rest, start if type_ is None else cast(start, type_), function


def _applied(function: HigherOrder, values: Sequence[Expr], given: Lambda) -> Expr:
    title, most = function.name.upper(), len(function.names)
    types = function.parameters([value.type for value in values])
    if not function.least <= len(given.names) <= most:
        wanted = f"{most}" if function.least == most else f"{function.least} to {most}"
        raise PlanError(f"{title} takes a function of {wanted} values, not {len(given.names)}", hint=function.shown())
    columns = {name: col(f"\u03bb.{name}", type_) for name, type_ in zip(given.names, types, strict=False)}
    if len(columns) < len(given.names):
        raise PlanError(f"{title}: two values of the function have one name")
    body = given.body(columns)
    if function.condition and body.type not in ("bool", "null"):
        raise PlanError(f"{title} needs a condition, not a value of type {body.type}")
    body = cast(body, "bool" if function.condition else "int32") if body.type == "null" else body
    result = function.gives
    if not isinstance(result, str):
        result = result([*(value.type for value in values), body.type], [])
    body, read = _closed(body, [column.value for column in columns.values()], most)
    return typed(Expr(function.name, without_lengths(result), (*values, *read), body))


def _closed(body: Expr, parameters: Sequence[str], most: int) -> tuple[Expr, list[Expr]]:
    """Returns the body over columns named by position, and the values of the row that it reads: the largest
    subexpressions without a parameter. `most`: the greatest number of parameters."""
    read: dict[Expr, str] = {}

    def taken(expr: Expr, inside: bool) -> Expr:
        if inside or expr.op == "literal":
            return expr
        return col(read.setdefault(expr, place(most + len(read))), expr.type)

    def combine(node: Expr, args: list[tuple[Expr, bool]]) -> tuple[Expr, bool]:
        if node.op == "col" and node.value in parameters:
            return col(place(parameters.index(node.value)), node.type), True
        if not any(inside for _, inside in args):
            return node, False
        return Expr(node.op, node.type, tuple(taken(*arg) for arg in args), node.value), True

    closed = taken(*body.fold(combine))
    return closed, list(read)
