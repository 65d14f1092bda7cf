"""Rewrites SPLIT, TO_NUMBER, orders by NULL, and ROWNUM of other dialects in Spark's SQL.

Part of `plans.frontends.sql`. SPLIT of other dialects takes a text, that of Spark a pattern. TO_NUMBER of Snowflake
returns a decimal.

A bound of Oracle's ROWNUM in WHERE becomes LIMIT. ROWNUM counts the rows that a query reads, before GROUP BY and ORDER
BY. So `SELECT * FROM (SELECT a FROM t ORDER BY b) WHERE ROWNUM <= 3` has the first three rows, and the LIMIT is added
to the query with the ORDER BY.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from plans.errors import PlanError
from plans.frontends.sql.shape import conjuncts
from plans.frontends.sql.text.nodes import nodes, rewritten
from plans.frontends.sql.text.place import extent, place_of, placed


def with_conversions(tree: Any, dialect: str, text: str) -> Any:
    """Returns a statement of another dialect with Spark's conversions. A conversion that Spark does not have stays."""
    return rewritten(tree, tuple(_BUILDERS), lambda node: _BUILDERS[type(node)](node, dialect), text)


def without_empty_orders(tree: Any) -> Any:
    """Returns a statement without ORDER BY NULL in window functions, which orders nothing."""
    for node in nodes(tree, exp.Window):
        order = node.args.get("order")
        left = [one for one in order.expressions if not isinstance(one.this, exp.Null)] if order is not None else []
        if order is not None and len(left) < len(order.expressions):
            order.set("expressions", left)
            node.set("order", order if left else None)
    return tree


def _split(node: Any, dialect: str) -> Any:
    mark = node.args["expression"]
    if not isinstance(mark, exp.Literal):
        return None
    if not mark.name:
        found = exp.Anonymous(this="CHARACTERS", expressions=[node.this.copy()])
        if dialect == "duckdb":
            return found
        none = exp.EQ(this=node.this.copy(), expression=exp.Literal.string(""))
        return exp.If(this=none, true=exp.Array(expressions=[exp.Literal.string("")]), false=found)
    return exp.Anonymous(this="SPLIT", expressions=[node.this.copy(), exp.Literal.string(_plain(mark.name))])


def _split_array(node: Any, dialect: str) -> Any:
    """Returns PostgreSQL's STRING_TO_ARRAY. An empty text gives no elements, and an empty separator gives one."""
    mark = node.args.get("expression")
    if node.args.get("null") is not None or not isinstance(mark, (exp.Literal, exp.Null)):
        return None
    if isinstance(mark, exp.Null):
        return exp.Anonymous(this="CHARACTERS", expressions=[node.this.copy()])
    whole: Any = exp.Array(expressions=[node.this.copy()])
    if mark.name:
        whole = exp.Anonymous(this="SPLIT", expressions=[node.this.copy(), exp.Literal.string(_plain(mark.name))])
    none = exp.EQ(this=node.this.copy(), expression=exp.Literal.string(""))
    return exp.If(this=none, true=exp.Anonymous(this="CHARACTERS", expressions=[node.this.copy()]), false=whole)


def _plain(text: str) -> str:
    """Returns the pattern that matches a text literally."""
    return re.sub(r"([\\.^$*+?()\[\]{}|])", r"\\\1", text)


def _number(node: Any, dialect: str) -> Any:
    pattern = node.args.get("format")
    if pattern is not None:
        return exp.Anonymous(this="NUMBER_OF", expressions=[node.this.copy(), pattern.copy()])
    if dialect == "oracle":
        return exp.Anonymous(this="NUMERIC_OF", expressions=[node.this.copy()])
    sizes = [node.args.get(name) for name in ("precision", "scale")]
    if not all(isinstance(size, exp.Literal) for size in sizes):
        return None
    type_ = exp.DataType.build(f"DECIMAL({sizes[0].name}, {sizes[1].name})")
    return (exp.TryCast if node.args.get("safe") else exp.Cast)(this=node.this.copy(), to=type_)


def _map(node: Any, dialect: str) -> Any:
    """Returns DuckDB's MAP {'a': 1}."""
    struct, index = node.this, None
    if isinstance(struct, exp.Anonymous) and struct.name == "LIST_EXTRACT":  # MAP {...}[k] is parsed as MAP ({...}[k])
        struct, index = struct.expressions
    elif isinstance(struct, exp.Bracket):
        struct, index = struct.this, struct.expressions[0]
    if not isinstance(struct, exp.Struct):
        return None
    entries = [(pair.this, pair.expression) for pair in struct.expressions]
    made = exp.Anonymous(this="MAP", expressions=[one.copy() for entry in entries for one in entry])
    return made if index is None else exp.Anonymous(this="ELEMENT_AT", expressions=[made, index.copy()])


_BUILDERS: dict[type, Callable[[Any, str], Any]] = {
    exp.Split: _split,
    exp.ToNumber: _number,
    exp.StringToArray: _split_array,
    exp.ToMap: _map,
}


_MIRRORED: dict[Any, Any] = {exp.GTE: exp.LTE, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.LT: exp.GT}
_HINT = "write WHERE ROWNUM <= 10, or FETCH FIRST 10 ROWS ONLY after ORDER BY"
_AROUND = ("distinct", "group", "having", "order", "limit", "offset")


def with_empty_texts(tree: Any, dialect: str) -> Any:
    """Returns a statement in which LISTAGG returns the empty text for a group without values, as in Snowflake."""
    for node in reversed(nodes(tree, exp.GroupConcat)) if dialect == "snowflake" else ():
        whole = node
        while isinstance(whole.parent, (exp.WithinGroup, exp.Filter, exp.Window)) and whole.parent.this is whole:
            whole = whole.parent
        made = exp.Coalesce(this=whole.copy(), expressions=[exp.Literal.string("")])
        whole.replace(placed(made, extent(whole)))
    return tree


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
