"""Rewrites comparisons of rows, `(a, b) < (c, d)`, as comparisons of their values, and IN with the one row of a query
of aggregates as an equality.

A row is a struct in Spark and DuckDB: two NULLs are equal, and NULL is the least value in Spark, and the greatest one
in DuckDB. In other dialects, a comparison that reads NULL is NULL, unless other values decide it.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from sqlglot import exp

from plans.frontends.sql.groups.aggregates import aggregates
from plans.frontends.sql.shape import limited, unwrapped
from plans.frontends.sql.text.nodes import call, rewritten
from plans.frontends.sql.text.reader import SPARK

_STRICT: dict[Any, Any] = {exp.LTE: exp.LT, exp.GTE: exp.GT}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.LT, exp.GT, *_STRICT)
_STRUCTS = (*SPARK, "duckdb")


def with_rows(tree: Any, dialect: str, text: str) -> Any:
    """Returns a statement in which comparisons of values replace comparisons of rows. Rows of different lengths stay,
    and are rejected later."""
    return rewritten(tree, (*_COMPARISONS, exp.In), lambda node: _rewritten(node, dialect), text)


def _rewritten(node: Any, dialect: str) -> Any:
    if not isinstance(node, exp.In):
        return _compared(node, dialect)
    query: Any = unwrapped(node.args["query"]) if node.args.get("query") is not None else None
    if not _has_one_row(query):
        return None
    if not isinstance(node.this.unnest(), exp.Tuple):
        return exp.EQ(this=node.this.copy(), expression=exp.Subquery(this=query.copy()))
    pairs = zip(node.this.unnest().expressions, _values(query), strict=False)
    same = len(node.this.unnest().expressions) == len(query.selects)
    return _joined(exp.And, [_pair(exp.EQ, *pair) for pair in pairs]) if same else None


def _has_one_row(query: Any) -> bool:
    """Returns whether a query has exactly one row, because it has aggregates and neither GROUP BY nor HAVING."""
    if not isinstance(query, exp.Select) or limited(query):
        return False
    if any(query.args.get(name) for name in ("group", "having", "qualify", "distinct")):
        return False
    items: list[Any] = query.selects
    return any(next(aggregates(item), None) is not None for item in items)


def _values(query: Any) -> list[Any]:
    """Returns a query for each column of a query."""
    made = []
    for item in query.selects:
        made.append(exp.Subquery(this=query.copy().select(item.copy(), append=False, copy=False)))
    return made


def _compared(node: Any, dialect: str) -> Any:
    left, right = node.this.unnest(), unwrapped(node.expression)
    splits = isinstance(right, exp.Select) and not limited(right) and not right.is_star and dialect not in _STRUCTS
    if splits and isinstance(left, exp.Tuple):
        right = exp.Tuple(expressions=_values(right))
    if not isinstance(left, exp.Tuple) or not isinstance(right, exp.Tuple):
        return None
    if not left.expressions or len(left.expressions) != len(right.expressions):
        return None
    pairs = list(zip(left.expressions, right.expressions, strict=True))
    kind: Any = type(node)
    same, differs = (exp.NullSafeEQ, exp.NullSafeNEQ) if dialect in _STRUCTS else (exp.EQ, exp.NEQ)
    kind = {exp.EQ: same, exp.NEQ: differs}.get(kind, kind)
    if kind in (exp.EQ, exp.NullSafeEQ):
        return _joined(exp.And, [_pair(kind, *pair) for pair in pairs])
    if kind in (exp.NEQ, exp.NullSafeNEQ):
        return _joined(exp.Or, [_pair(kind, *pair) for pair in pairs])
    strict = _STRICT.get(kind, kind)
    made = _ordered(strict, pairs[-1], dialect)
    if strict is not kind:
        made = _joined(exp.Or, [made, _pair(same, *pairs[-1])])
    for pair in reversed(pairs[:-1]):
        made = _joined(exp.Or, [_ordered(strict, pair, dialect), _joined(exp.And, [_pair(same, *pair), made])])
    return made


def _ordered(kind: Any, pair: tuple[Any, Any], dialect: str) -> Any:
    """Returns `<` or `>` of two values, where the order of structs has a place for NULL."""
    left, right = pair
    found = _pair(kind, left, right)
    if dialect not in _STRUCTS:
        return found
    missing, known = (left, right) if (kind is exp.LT) == (dialect != "duckdb") else (right, left)
    none = exp.Is(this=missing.copy(), expression=exp.null())
    other = exp.Not(this=exp.Is(this=known.copy(), expression=exp.null()))
    return call("COALESCE", found, exp.and_(none, other))


def _pair(kind: Any, left: Any, right: Any) -> Any:
    return kind(this=left.copy(), expression=right.copy())


def _joined(kind: Any, parts: list[Any]) -> Any:
    return exp.paren(reduce(lambda one, other: kind(this=one, expression=other), parts), copy=False)
