"""Rewrites comparisons with ANY and ALL: of a list, an array or a query.

Part of `plans.frontends.sql`. The least or the greatest value of a query decides a comparison with it:
`x >= ALL (query)` is FALSE if x is less than the greatest value, and else NULL if a value is NULL. Without rows it is
TRUE.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from plans.frontends.sql.shape import flat
from plans.frontends.sql.text.place import extent, placed

_ORDERED = (exp.LT, exp.LTE, exp.GT, exp.GTE)


def without_quantifiers(tree: Any) -> Any:
    """Rewrites a statement so that each comparison has one value on each side. Keeps `LIKE ANY (query)`, which is
    rejected later."""
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
    """Returns `= ANY (query)` as IN, `<> ALL (query)` as NOT IN, and other comparisons as those with the least or the
    greatest value of the query, or with both."""
    if isinstance(node, exp.NEQ if every else exp.EQ):
        found = exp.In(this=node.this, query=exp.Subquery(this=query))
        return exp.Not(this=found) if every else found
    if not isinstance(node, (exp.EQ, exp.NEQ, *_ORDERED)) or (len(query.selects) > 1 and not query.is_star):
        return None
    if isinstance(node, (exp.EQ, exp.NEQ)):
        both = {"this": _with_end(node, query, exp.Min), "expression": _with_end(node, query, exp.Max)}
        known: Any = exp.Paren(this=exp.And(**both) if every else exp.Or(**both))
    else:
        known = _with_end(node, query, exp.Max if every == isinstance(node, (exp.GT, exp.GTE)) else exp.Min)
    empty = _summary(query, lambda y: exp.EQ(this=_rows(), expression=exp.Literal.number(0)))
    doubtful = _summary(query, lambda y: exp.NEQ(this=_rows(), expression=exp.Count(this=y)))
    decided = exp.Not(this=known.copy()) if every else known.copy()
    made = exp.Case(default=known).when(empty, exp.Boolean(this=every), copy=False)
    return made.when(decided, exp.Boolean(this=not every), copy=False).when(doubtful, exp.Null(), copy=False)


def _with_end(node: Any, query: Any, end: type[exp.Expression]) -> Any:
    """Returns the comparison with the least or the greatest value of a query."""
    return type(node)(this=node.this.copy(), expression=_summary(query, lambda y: end(this=y)))


def _rows() -> exp.Expression:
    return exp.Count(this=exp.Star())


def _summary(query: Any, value: Callable[[Any], Any]) -> Any:
    """Returns a subquery with a value of aggregates over the column of a query.

    The aggregates take the place of the SELECT list, if possible, because such a query may read the outer query.
    DISTINCT does not change them.
    """
    inner = query.copy()
    if isinstance(inner, exp.Select) and flat(inner) and len(inner.selects) == 1 and not inner.is_star:
        inner.set("distinct", None)
        return exp.Subquery(this=inner.select(value(inner.selects[0].unalias().copy()), append=False, copy=False))
    alias = exp.TableAlias(this=exp.to_identifier("q"), columns=[exp.to_identifier("y")])
    return exp.Subquery(this=exp.select(value(exp.column("y"))).from_(exp.Subquery(this=inner, alias=alias)))


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
