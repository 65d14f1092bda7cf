"""DISTINCT ON as the first row of each group. Part of `plans.frontends.sql`.

`SELECT DISTINCT ON (a) a, b FROM t ORDER BY a, b DESC` is
`SELECT a, b FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY a, b DESC) = 1`.
"""

from __future__ import annotations

from sqlglot import exp

from plans.frontends.sql.refuse import Text
from plans.frontends.sql.shape import limited
from plans.frontends.sql.text.place import extent, placed


def first_rows(root: exp.Expression, text: Text) -> exp.Expression:
    """Returns an equivalent query that selects the first rows by ROW_NUMBER instead of DISTINCT ON.

    Without ORDER BY, the first row is the one with the least keys.
    """
    for node in list(root.find_all(exp.Select)):
        distinct = node.args.get("distinct")
        on = distinct.args.get("on") if distinct is not None else None
        if on is None:
            continue
        if node.args.get("qualify") is not None:
            raise text.error("DISTINCT ON beside QUALIFY is not supported", node, "put one of them into a subquery")
        keys = list(on.expressions) if isinstance(on, exp.Tuple) else [on]
        keys = [_meant(key, node, text).copy() for key in keys]
        order = node.args.get("order")
        by = [one.copy() for one in order.expressions] if order is not None else [_least(key) for key in keys]
        for one in by:
            one.set("this", _meant(one.this, node, text).copy())
        rank = exp.Window(this=exp.RowNumber(), partition_by=keys, order=exp.Order(expressions=by))
        qualify = exp.Qualify(this=exp.EQ(this=rank, expression=exp.Literal.number(1)))
        node.set("qualify", placed(qualify, extent(on) or extent(node)))
        node.set("distinct", None)
        if not limited(node):
            node.set("order", None)  # it says which rows are first, and no more
    return root


def _least(key: exp.Expression) -> exp.Ordered:
    return exp.Ordered(this=key.copy(), nulls_first=True)


def _meant(node: exp.Expression, select: exp.Select, text: Text) -> exp.Expression:
    """Returns what a number stands for: the item of the SELECT list at this position."""
    if not isinstance(node, exp.Literal) or node.is_string:
        return node
    place = int(node.this) if node.this.isdigit() else 0
    if not 0 < place <= len(select.expressions) or select.is_star:
        raise text.error(f"there is no column {node} behind SELECT", node)
    item = select.expressions[place - 1]
    return item.this if isinstance(item, exp.Alias) else item
