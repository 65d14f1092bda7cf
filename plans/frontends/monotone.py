"""Steps of recursions with MIN or MAX: whether they derive better rows from better rows.

Only then is there one least fixed point, which does not depend on the order in which rows were inserted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from plans.expressions.build import Expr
from plans.expressions.coercion import numeric
from plans.frontends.recursive import Member
from plans.queries.algebra import Query, Source

MONOTONE = (
    "with MIN or MAX, a step may add to the value, subtract from it, multiply it by a constant that is not negative, "
    "take the GREATEST or LEAST of it, and test that it is small enough for MIN or great enough for MAX"
)
"""What steps may do with the value of which only the best is there."""
_EXTREMES = ("greatest", "least")
_LESS, _MORE = ("lt", "le"), ("gt", "ge")


def why_not_monotone(step: Query, mine: Sequence[Source], head: Member, members: Sequence[Member]) -> str:
    """Returns why a step of the relation `head` of a recursion may derive a worse row from a better one; empty if it
    does not. ``mine``: the sources of the step that are rows of the recursion, whose relations are the `members`."""
    best = {one.rows: one.columns[one.best].name for one in members if one.best is not None}
    values = [source.qualified(best[source.table]) for source in mine if source.table in best]
    falling = any(one.function == "max" for one in members)
    read = next((best[source.table] for source in mine if source.table in best), "")
    conditions = [one for given in step.conditions for one in _parts(given)]
    for place, (column, (_, expr)) in enumerate(zip(head.columns, step.outputs, strict=True)):
        name = column.name
        if place != head.best and _reads(expr, values):
            return f"column {name} depends on {read}"
        if place == head.best and not _follows(expr, values):
            return f"a new {name} may get worse when {read} gets better"
        if place == head.best and _has_extreme(expr) and any(_present(value) not in conditions for value in values):
            return f"GREATEST and LEAST ignore a value that is NULL; add the condition {read} IS NOT NULL"
    conditions += [one for source in step.sources for given in source.on for one in _parts(given)]
    if all(_holds(one, values, falling) for one in conditions):
        return ""
    return f"a condition may hold for a row and not for one with a better {read}"


def _reads(expr: Expr, values: Collection[Expr]) -> bool:
    return expr in values or any(_reads(arg, values) for arg in expr.args)


def _follows(expr: Expr, values: Collection[Expr]) -> bool:
    """Returns whether the value of an expression gets better, or stays, when those of the recursion get better."""
    if expr in values or not _reads(expr, values):
        return True
    if expr.op == "sub":
        return _follows(expr.args[0], values) and not _reads(expr.args[1], values)
    if expr.op == "mul":
        return any(_is_positive(one) and _follows(two, values) for one, two in (expr.args, expr.args[::-1]))
    if expr.op == "cast" and not (numeric(expr.type) and numeric(expr.args[0].type)):
        return False
    return expr.op in ("add", "cast", *_EXTREMES) and all(_follows(arg, values) for arg in expr.args)


def _is_positive(expr: Expr) -> bool:
    if expr.op == "cast":
        return numeric(expr.type) and _is_positive(expr.args[0])
    return expr.op == "literal" and expr.value is not None and expr.value >= 0


def _has_extreme(expr: Expr) -> bool:
    return expr.op in _EXTREMES or any(map(_has_extreme, expr.args))


def _holds(condition: Expr, values: Collection[Expr], falling: bool) -> bool:
    """Returns whether a condition that holds for a row also holds for those with better values."""
    if condition.op in (*_LESS, *_MORE):
        low, high = condition.args if condition.op in _LESS else condition.args[::-1]
        value, bound = (high, low) if falling else (low, high)
        if _follows(value, values) and not _reads(bound, values):
            return True
    if condition.op == "not" and condition.args[0].op == "isnull":
        return _follows(condition.args[0].args[0], values)
    return not _reads(condition, values)


def _present(value: Expr) -> Expr:
    return Expr("not", "bool", (Expr("isnull", "bool", (value,)),))


def _parts(condition: Expr) -> Iterator[Expr]:
    if condition.op != "and":
        yield condition
    else:
        for part in condition.args:
            yield from _parts(part)
