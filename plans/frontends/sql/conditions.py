"""WHERE and ON: adds conditions to the frame, IN and EXISTS as semi-joins, and their negations as anti joins.

Part of `plans.frontends.sql`.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from plans.expressions.build import Expr, call, cast, factored
from plans.frontends.sql import subqueries
from plans.frontends.sql.elements import is_over_elements
from plans.frontends.sql.scope import Scope
from plans.frontends.sql.text.place import negation
from plans.frontends.sql.values import compared, scalar
from plans.stack import with_room


def add_conditions(parts: Iterable[exp.Expression], scope: Scope) -> None:
    """Adds conditions, none of which is a conjunction, to the frame."""
    for part in parts:
        with_room(_add, part, scope)


def _add(node: exp.Expression, scope: Scope) -> None:
    negated = isinstance(node, exp.Not) or bool(node.args.get("negate"))
    inner = node.this.unnest() if isinstance(node, exp.Not) else node
    if is_over_elements(inner):
        scope.frame.conditions.append(scalar(node, scope))
        return
    if isinstance(inner, exp.Exists):
        sub = subqueries.subquery(inner.this, scope, True)
        if negated:
            scope.frame.sources.append(subqueries.join_source("anti", sub, None, node, scope))
        else:
            subqueries.semi_joined(sub, None, node, scope)
        return
    if isinstance(inner, exp.In) and inner.args.get("query") is not None:
        left = compared(inner, scope)
        if negated:
            _not_in(inner, left, scope, node)
        else:
            subqueries.semi_joined(subqueries.subquery(inner.args["query"], scope), left, inner, scope)
        return
    scope.frame.conditions.append(factored(checked(scalar(node, scope), node, scope)))


def checked(condition: Expr, node: exp.Expression, scope: Scope) -> Expr:
    """Returns a condition. Raises PlanError if it is a value of another type."""
    condition = cast(condition, "bool") if condition.type == "null" else condition
    if condition.type != "bool":
        raise scope.text.error(f"a condition is expected, not a value of type {condition.type}", node)
    return condition


def _not_in(node: exp.In, left: list[Expr], scope: Scope, not_node: exp.Expression) -> None:
    """Adds `left NOT IN (...)`: no equal value exists, and the rules of SQL for NULLs hold."""
    sub = subqueries.subquery(node.args["query"], scope)
    certain = [subqueries.never_null(sub, one, i, scope) for i, one in enumerate(left)]
    if sub.correlated or (len(left) > 1 and not all(certain)):  # no row may be equal or unknown
        if sub.frame is None:
            what = "grouped subquery that reads the outer query" if sub.correlated else "subquery with several columns"
            message, hint = f"NOT IN over a {what} is not supported", "write NOT EXISTS"
            raise scope.text.error(message, node, hint, _not_at(not_node, scope))
        equal = subqueries.equalities(left, sub.outputs, node, scope)
        either = tuple(
            one if known else call("or", one, subqueries.either_null(value, right))
            for one, known, value, right in zip(equal, certain, left, sub.outputs, strict=True)
        )
        scope.frame.sources.append(subqueries.derived_source("anti", sub, either, scope))
        return
    scope.frame.sources.append(subqueries.join_source("anti", sub, left, node, scope))
    if all(certain):
        return
    empty, clean = subqueries.flags(sub, scope)
    known = call("and", call("not", call("isnull", left[0])), clean)
    scope.frame.conditions.append(call("or", empty, known))


def _not_at(node: exp.Expression, scope: Scope) -> tuple[int, int] | None:
    """Returns the position of NOT."""
    text = scope.text.text
    place = negation(text, node)
    if place is None:
        return None
    start = len("\n".join(text.split("\n")[: place.line - 1])) + (place.line > 1) + place.column - 1
    return start, start + place.length
