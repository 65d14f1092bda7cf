"""Oracle's ROWNUM: rewrites a bound of ROWNUM in WHERE as LIMIT.

ROWNUM counts the rows that a query reads, before GROUP BY and ORDER BY. So `SELECT * FROM (SELECT a FROM t ORDER BY b)
WHERE ROWNUM <= 3` has the first three rows, and the LIMIT is added to the query with the ORDER BY.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from plans.errors import PlanError
from plans.frontends.sql.shape import conjuncts
from plans.frontends.sql.text.nodes import nodes
from plans.frontends.sql.text.place import extent, place_of, placed

_MIRRORED: dict[Any, Any] = {exp.GTE: exp.LTE, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.LT: exp.GT}
_HINT = "write WHERE ROWNUM <= 10, or FETCH FIRST 10 ROWS ONLY after ORDER BY"
_AROUND = ("distinct", "group", "having", "order", "limit", "offset")


def with_limits(tree: Any, dialect: str, text: str) -> Any:
    """Returns a statement with LIMIT in place of ROWNUM. Raises PlanError for other forms of ROWNUM."""
    if dialect != "oracle":
        return tree
    for node in nodes(tree, exp.Select):
        where = node.args.get("where")
        parts = conjuncts(where.this) if where is not None else []
        bounds = {id(part): _bound(part) for part in parts}
        place = extent(where) if where is not None else None
        found = [part for part in parts if bounds[id(part)] is not None]
        if not found:
            continue
        aggregated = any(item.find(exp.AggFunc, exp.Window) for item in node.expressions)
        if aggregated or any(node.args.get(name) for name in _AROUND):
            hint = "put the query into FROM, and write WHERE ROWNUM <= 10 in the outer query"
            message = "ROWNUM together with GROUP BY, ORDER BY, DISTINCT, aggregates or LIMIT is not supported"
            raise PlanError(message, hint=hint, position=place_of(text, found[0]), text=text)
        count = min(bounds[id(part)] or 0 for part in found)
        limit = placed(exp.Limit(expression=exp.Literal.number(count)), place)
        others = [part for part in parts if bounds[id(part)] is None]
        inner = _ordered_input(node)
        if inner is not None and others:
            hint = "put the other conditions into the query in FROM"
            message = "other conditions together with ROWNUM over a query with ORDER BY are not supported"
            raise PlanError(message, hint=hint, position=place_of(text, others[0]), text=text)
        where.meta["span"] = place
        where.set("this", exp.and_(*others, copy=False) if others else None)
        node.set("where", where if others else None)
        (inner or node).set("limit", limit)
    for column in nodes(tree, exp.Column):
        if _is_rownum(column):
            message = "ROWNUM of this form is not supported"
            raise PlanError(message, hint=_HINT, position=place_of(text, column), text=text)
    return tree


def _is_rownum(node: Any) -> bool:
    return isinstance(node, exp.Column) and not node.table and node.name.upper() == "ROWNUM"


def _bound(node: Any) -> int | None:
    """Returns the number of rows that a condition on ROWNUM keeps, or None for another condition."""
    kind: Any = type(node)
    left, right = node.this, node.args.get("expression")
    if _is_rownum(right):
        kind, left, right = _MIRRORED.get(kind, kind), right, left
    whole = isinstance(right, exp.Literal) and not right.is_string and right.name.isdigit()
    if not _is_rownum(left) or not whole or kind not in (exp.LTE, exp.LT, exp.EQ):
        return None
    count = int(right.name)
    if kind is exp.EQ:  # without the first row, no second row is counted
        return 1 if count == 1 else 0
    return count if kind is exp.LTE else max(count - 1, 0)


def _ordered_input(node: Any) -> Any:
    """Returns the query in FROM whose ORDER BY determines the first rows, or None."""
    start = node.args.get("from_") or node.args.get("from")
    inner: Any = start.this.this if start is not None and isinstance(start.this, exp.Subquery) else None
    alone = isinstance(inner, exp.Query) and not node.args.get("joins")
    limited = alone and any(inner.args.get(name) for name in ("limit", "offset"))
    return inner if alone and inner.args.get("order") and not limited else None
