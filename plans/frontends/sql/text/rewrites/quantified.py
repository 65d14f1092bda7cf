"""Rewrites `= ANY (...)`, `LIKE ALL (...)` and similar: a list becomes single comparisons, a query becomes IN."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from plans.frontends.sql.text.place import extent, placed


def without_quantifiers(tree: Any) -> Any:
    """Returns a statement whose comparisons have one value on each side.

    A comparison such as `< ANY (query)` stays, and is rejected later.
    """
    for node in reversed(list(tree.walk(bfs=False))):
        right = node.args.get("expression")
        every = isinstance(right, exp.All) or (isinstance(right, exp.Anonymous) and str(right.this).upper() == "ALL")
        if (every or isinstance(right, exp.Any)) and not is_empty(right):
            inner = exp.Tuple(expressions=right.expressions) if right.expressions else right.this.unnest()
            made = _contained(node, inner, every) if isinstance(inner, exp.Query) else _listed(node, inner, every)
            if made is not None:
                node.replace(placed(made, extent(node)))
    return tree


def is_empty(quantified: Any) -> bool:
    """Returns whether ANY or ALL has an empty list, which is rejected later."""
    inner = quantified.this
    return not quantified.expressions and (not isinstance(inner, exp.Expression) or inner == exp.Tuple())


def _contained(node: Any, query: Any, every: bool) -> Any:
    """Returns `= ANY (query)` as IN, and `<> ALL (query)` as NOT IN."""
    if not isinstance(node, exp.NEQ if every else exp.EQ):
        return None
    found = exp.In(this=node.this, query=exp.Subquery(this=query))
    return exp.Not(this=found) if every else found


def _listed(node: Any, listed: Any, every: bool) -> Any:
    """Returns the comparisons with each value of a list, or with the elements of an array.

    `x NOT LIKE ANY` means that one of them does not match, as in Spark.
    """
    items = listed.expressions if isinstance(listed, exp.Tuple) else [listed]
    if len(items) == 1 and isinstance(node, exp.NEQ if every else exp.EQ) and not isinstance(items[0], exp.Literal):
        found = exp.ArrayContains(this=items[0], expression=node.this)
        return exp.Not(this=found) if every else found
    made: Any = None
    for item in items:
        part: Any = type(node)(this=node.this.copy(), expression=item)
        part = exp.Not(this=part) if node.args.get("negate") else part
        made = part if made is None else (exp.And if every else exp.Or)(this=made, expression=part)
    return exp.Paren(this=made)
