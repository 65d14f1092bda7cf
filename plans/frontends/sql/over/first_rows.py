"""Rewrites clauses that keep the first rows of an order as conditions on ranks. Part of `plans.frontends.sql`.

SELECT DISTINCT ON (a) a, b FROM t ORDER BY a, b      QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY a, b) = 1
SELECT a, b FROM t ORDER BY b LIMIT 3 BY a            QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) <= 3
SELECT TOP 3 WITH TIES a FROM t ORDER BY b            QUALIFY RANK() OVER (ORDER BY b) <= 3
"""

from __future__ import annotations

from sqlglot import exp

from plans.frontends.sql.refuse import Text
from plans.frontends.sql.shape import limited
from plans.frontends.sql.text.nodes import nodes
from plans.frontends.sql.text.place import extent, placed


def first_rows(root: exp.Expression, text: Text) -> exp.Expression:
    """Returns an equivalent query that selects first rows by ranks."""
    for node in nodes(root, exp.Select):
        distinct, limit, offset = (node.args.get(name) for name in ("distinct", "limit", "offset"))
        on = distinct.args.get("on") if distinct is not None else None
        options = limit.args.get("limit_options") if limit is not None else None
        by = next((one.expressions for one in (limit, offset) if one is not None and one.expressions), None)
        if on is not None:
            _distinct_on(node, on, text)
        elif by is not None:
            _ranked(node, exp.RowNumber, [_selected_item(key, node, text).copy() for key in by], "LIMIT BY", text)
        elif options is not None and options.args.get("with_ties") and not options.args.get("percent"):
            if node.args.get("order") is None:
                raise text.error("WITH TIES needs an ORDER BY", limit, "add an ORDER BY, which defines the first rows")
            _ranked(node, exp.Rank, [], "WITH TIES", text)
    return root


_Ranks = list[tuple[type[exp.Expression], type[exp.Binary], int]]


def _distinct_on(node: exp.Select, on: exp.Expression, text: Text) -> None:
    """Replaces DISTINCT ON by ROW_NUMBER. Without ORDER BY, the row with the least keys is first."""
    keys = [_selected_item(key, node, text).copy() for key in (on.expressions if isinstance(on, exp.Tuple) else [on])]
    if node.args.get("order") is None:
        node.set("order", exp.Order(expressions=[exp.Ordered(this=key.copy(), nulls_first=True) for key in keys]))
    node.set("distinct", None)
    _qualify(node, [(exp.RowNumber, exp.EQ, 1)], keys, "DISTINCT ON", on, text)
    if not limited(node):
        node.set("order", None)  # it only determines the first rows


def _ranked(
    node: exp.Select, function: type[exp.Expression], keys: list[exp.Expression], words: str, text: Text
) -> None:
    """Replaces LIMIT and OFFSET by conditions on ranks."""
    limit, offset = node.args["limit"], node.args.get("offset")
    if node.args.get("distinct") is not None:
        raise text.error(f"{words} together with DISTINCT is not supported", limit, "put SELECT DISTINCT into FROM")
    first = 0 if offset is None else _count(offset, text)
    ranks: _Ranks = [(function, exp.LTE, first + _count(limit, text))]
    _qualify(node, [*ranks, (exp.RowNumber, exp.GT, first)] if first else ranks, keys, words, limit, text)
    for name in ("limit", "offset", "order"):
        node.set(name, None)


def _qualify(
    node: exp.Select, ranks: _Ranks, keys: list[exp.Expression], words: str, place: exp.Expression, text: Text
) -> None:
    """Adds conditions on ranks in the order of a SELECT."""
    if node.args.get("qualify") is not None:
        raise text.error(f"{words} together with QUALIFY is not supported", node, "put one of them into a subquery")
    order = node.args.get("order")
    by = [one.copy() for one in order.expressions] if order is not None else []
    for one in by:
        one.set("this", _selected_item(one.this, node, text).copy())
    conditions = []
    for function, comparison, count in ranks:
        order = exp.Order(expressions=[one.copy() for one in by]) if by else None
        rank = exp.Window(this=function(), partition_by=[key.copy() for key in keys], order=order)
        conditions.append(comparison(this=rank, expression=exp.Literal.number(count)))
    node.set("qualify", placed(exp.Qualify(this=exp.and_(*conditions)), extent(place) or extent(node)))


def _selected_item(node: exp.Expression, select: exp.Select, text: Text) -> exp.Expression:
    """Returns the item of the SELECT list that a number or the name of an output column refers to."""
    if isinstance(node, exp.Column) and not node.table:
        named = (one for one in select.expressions if isinstance(one, exp.Alias) and _same(one.alias, node.name))
        return next((one.this for one in named), node)
    if not isinstance(node, exp.Literal) or node.is_string:
        return node
    place = int(node.this) if node.this.isdigit() else 0
    if not 0 < place <= len(select.expressions) or select.is_star:
        raise text.error(f"SELECT has no column {node}", node)
    item = select.expressions[place - 1]
    return item.this if isinstance(item, exp.Alias) else item


def _same(one: str, other: str) -> bool:
    return one.lower() == other.lower()


def _count(clause: exp.Expression, text: Text) -> int:
    """Returns the number of rows of a clause."""
    count = clause.args.get("count") if isinstance(clause, exp.Fetch) else clause.expression
    count = count.unnest() if isinstance(count, exp.Expression) else count
    if not isinstance(count, exp.Literal) or count.is_string or not count.name.isdigit():
        raise text.error(f"{clause.key.upper()} takes a whole number", clause)
    return int(count.name)
