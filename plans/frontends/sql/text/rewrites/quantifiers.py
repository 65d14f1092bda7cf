"""Rewrites comparisons with ANY and ALL: of a list, an array or a query.

Part of `plans.frontends.sql`. A comparison with a single value remains: `plans.frontends.sql.scalars.scalar` finds out
whether it is an array. The least or the greatest value of a query decides a comparison with it:
`x >= ALL (query)` is FALSE if x is less than the greatest value, and else NULL if a value is NULL. Without rows it is
TRUE.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from plans.errors import PlanError
from plans.frontends.sql.shape import flat
from plans.frontends.sql.text.meanings.moments import POSTGRES
from plans.frontends.sql.text.place import extent, place_of, placed
from plans.frontends.sql.text.reader import SPARK

_ORDERED = (exp.LT, exp.LTE, exp.GT, exp.GTE)


def without_quantifiers(tree: Any, dialect: str, text: str) -> Any:
    """Rewrites a statement so that each comparison has one value or one array on each side. Keeps `LIKE ANY (query)`,
    which is rejected later."""
    for node in reversed(list(tree.walk(bfs=False))):
        if isinstance(node, exp.In) and len(node.expressions) == 1:
            rows = _queried(node.expressions[0])
            if isinstance(rows, exp.Query):
                found = exp.In(this=node.this, query=exp.Subquery(this=rows))
                node.replace(placed(found, extent(node)))
        right = node.args.get("expression")
        quantifier = _quantifier(right, dialect)
        if quantifier is not None and not is_empty(right):
            listed = right.expressions
            inner = exp.Tuple(expressions=listed) if len(listed) > 1 else _queried(listed[0] if listed else right.this)
            if isinstance(inner, exp.Query):
                made = _contained(node, inner, quantifier is exp.All)
            else:
                _check_array(inner, dialect, text)
                made = _listed(node, inner, quantifier, dialect)
            if made is not None:
                node.replace(placed(made, extent(node)))
    return tree


def _queried(value: Any) -> Any:
    """Returns a value without its parentheses, and VALUES as a query that reads it."""
    inner = value.unnest()
    return exp.select("*").from_(inner) if isinstance(inner, exp.Values) else inner


def _quantifier(right: Any, dialect: str) -> type[exp.Expression] | None:
    """Returns exp.Any or exp.All for the quantified right side of a comparison, else None. The parser takes ALL and
    SOME before a list for functions. SOME of Spark is one."""
    name = str(right.this).upper() if isinstance(right, exp.Anonymous) else ""
    if isinstance(right, exp.All) or name == "ALL":
        return exp.All
    return exp.Any if isinstance(right, exp.Any) or (name == "SOME" and dialect not in SPARK) else None


def _check_array(inner: Any, dialect: str, text: str) -> None:
    """Raises PlanError for a text that PostgreSQL reads as an array."""
    (item, *others) = inner.expressions if isinstance(inner, exp.Tuple) else [inner]
    if dialect in POSTGRES and not others and isinstance(item, exp.Literal) and item.is_string:
        error = PlanError("an array that is written as a text is not supported", hint="write ARRAY['a', 'b']")
        raise error.at(text, place_of(text, item))


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


def _listed(node: Any, listed: Any, quantifier: type[exp.Expression], dialect: str) -> Any:
    """Returns the comparisons with each value of a list, or the comparison with a single value.

    `x NOT LIKE ANY` means that one of them does not match, as in Spark. In DuckDB, an array that is NULL is empty.
    """
    items = listed.expressions if isinstance(listed, exp.Tuple) else [listed]
    negated = bool(node.args.get("negate"))
    if len(items) == 1 and not isinstance(items[0], exp.Literal):
        (other,) = {exp.Any, exp.All} - {quantifier}
        right = (other if negated else quantifier)(this=items[0], own=dialect == "duckdb" or None)
        made: Any = type(node)(this=node.this, expression=right)
        return exp.Not(this=made) if negated else made
    made = None
    for item in items:
        part: Any = type(node)(this=node.this.copy(), expression=item)
        part = exp.Not(this=part) if negated else part
        made = part if made is None else (exp.And if quantifier is exp.All else exp.Or)(this=made, expression=part)
    return exp.Paren(this=made)
