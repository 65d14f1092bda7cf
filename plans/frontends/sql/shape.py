"""Properties of a query that depend only on its syntax, not on names. Part of `plans.frontends.sql`."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from plans.frontends.sql.groups.aggregates import aggregates
from plans.frontends.sql.text.nodes import nodes

CLAUSES = ("order", "limit", "offset")
"""The clauses that order rows and pick some of them."""


def unwrapped(node: exp.Expression) -> exp.Expression:
    """Returns the query inside parentheses."""
    while isinstance(node, (exp.Subquery, exp.Paren)):
        node = node.this
    return node


def matched_by_name(node: exp.Expression) -> bool:
    """Returns whether a query is a branch of a set operation BY NAME."""
    above = node.parent
    while isinstance(above, (exp.Subquery, exp.Paren)):
        above = above.parent
    return isinstance(above, exp.SetOperation) and bool(above.args.get("by_name"))


def limited(node: Any) -> bool:
    """Returns whether a query has LIMIT or OFFSET."""
    return bool(node.args.get("limit") or node.args.get("offset"))


def _ordered(node: Any) -> bool:
    return any(node.args.get(name) for name in CLAUSES)


def grouped(node: exp.Select) -> bool:
    """Returns whether a SELECT has groups: GROUP BY, HAVING or aggregates of its own."""
    having, qualify, order = (node.args.get(name) for name in ("having", "qualify", "order"))
    order = order if limited(node) else None
    parts = [*node.expressions, *(one.this for one in (having, qualify) if one is not None)]
    parts += [one.this for one in order.expressions] if order is not None else []
    return bool(node.args.get("group") or having) or any(next(aggregates(part), None) is not None for part in parts)


def flat(node: exp.Expression) -> bool:
    """Returns whether a query can be flattened into the outer one: a SELECT without aggregates and outer joins."""
    if not isinstance(node, exp.Select) or limited(node):
        return not isinstance(node, exp.SetOperation) and not limited(node)
    if grouped(node):
        return False
    return not any(
        (join.kind or "").upper() == "ANTI" or (join.side and (join.kind or "").upper() != "SEMI")
        for join in joins_of(node)
    )


def tables_in(node: exp.Expression) -> exp.Expression | None:
    """Returns the table, or the join, inside parentheses in FROM; None if it is a query, or if there are no
    parentheses."""
    inner = node
    while isinstance(inner, (exp.Subquery, exp.Paren)):
        inner = inner.this
        named = isinstance(inner, exp.Subquery) and (inner.alias or inner.args.get("joins"))
        if named or isinstance(inner, exp.Table):
            return inner
    return None


def joins_of(node: exp.Expression) -> list[exp.Join]:
    """Returns the joins of a FROM clause, including those in parentheses."""
    found: list[exp.Join] = []
    todo = [node]
    while todo:
        part = todo.pop()
        joins = part.args.get("joins") or () if isinstance(part, (exp.Select, exp.Table, exp.Subquery)) else ()
        found += joins
        start = part.args.get("from_") or part.args.get("from") if isinstance(part, exp.Select) else None
        inside = start.this if start is not None else tables_in(part)
        todo += [inner for inner in (inside, *(join.this for join in joins)) if inner is not None]
    return found


def hoisted(root: exp.Expression) -> exp.Expression:
    """Moves ORDER BY and LIMIT from parentheses into the query inside them, unless that query has its own. Returns the
    tree."""
    for node in nodes(root, exp.Subquery):
        inner = node.this
        plain = isinstance(inner, exp.Query) and not (_ordered(inner) or node.alias or node.args.get("joins"))
        if _ordered(node) and plain:
            for name in CLAUSES:
                inner.set(name, node.args.get(name))
                node.set(name, None)
    return root


def conjuncts(node: exp.Expression) -> list[exp.Expression]:
    """Returns the operands of AND in a condition, in their order."""
    found: list[exp.Expression] = []
    todo: list[Any] = [node]
    while todo:
        part = todo.pop().unnest()
        if isinstance(part, exp.And):
            todo += [part.expression, part.this]
        else:
            found.append(part)
    return found
