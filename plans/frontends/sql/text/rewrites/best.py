"""The first k values of a group: `MAX_BY(x, y, 3)` and `MAX(x, 3)` as arrays in an order.

`MAX_BY(x, y, 3)` is `ARRAY_AGG(x ORDER BY y DESC LIMIT 3)` of the rows in which `y` is not NULL, and NULL where there
are none. In DuckDB `x` is not NULL, either: `MAX_BY(x, y)` is `MAX_BY(x, y) FILTER (WHERE x IS NOT NULL)`, as in
ClickHouse. `MAX(x) KEEP (DENSE_RANK FIRST ORDER BY y)` of Oracle is `FIRST(x ORDER BY y, x DESC)`, and
`FIRST(x ORDER BY y)` is `ARRAY_AGG(x ORDER BY y LIMIT 1)[0]`.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from plans.errors import PlanError
from plans.frontends.sql.text.nodes import is_known, nodes
from plans.frontends.sql.text.place import extent, place_of, placed, spelling

_KINDS = {exp.ArgMax: True, exp.ArgMin: False, exp.Max: True, exp.Min: False}
_OF_KNOWN = ("duckdb", "clickhouse")


def with_best(tree: Any, dialect: str, text: str) -> Any:
    """Rewrites the aggregates of the first k values as ordered arrays, and returns the statement.

    Raises PlanError if k is not a constant.
    """
    for node in nodes(tree, exp.Window):
        if str(node.args.get("over")).upper() == "KEEP":
            _keep_first(node, text)
    for node in reversed(nodes(tree, exp.First, exp.Last, exp.AnyValue)):
        if isinstance(node.this, exp.Order):
            _pick_first(node, text)
    for node in reversed(nodes(tree, *_KINDS)):
        count = node.args.get("count") or (node.expressions[0] if len(node.expressions) == 1 else None)
        positive = isinstance(count, exp.Literal) and count.name.isdigit() and int(count.name) > 0
        call_or_filter = node.parent if isinstance(node.parent, exp.Filter) else node
        if count is None and isinstance(node, (exp.ArgMax, exp.ArgMin)) and dialect in _OF_KNOWN:
            known: list[Any] = [is_known(node.this)]
            known += [exp.paren(call_or_filter.expression.this.copy())] if call_or_filter is not node else []
            made = exp.Filter(this=node.copy(), expression=exp.Where(this=exp.and_(*known)))
            call_or_filter.replace(placed(made, extent(call_or_filter)))
            continue
        if node.args.get("count") is not None and not positive:
            message = f"{spelling(text, node)} takes a constant number of values, 1 or more"
            hint = "write the number itself, or GREATEST inside of it for the larger of two columns"
            raise PlanError(message, hint=hint, position=place_of(text, node), text=text)
        if count is None or not positive:
            continue
        value: Any = node.this
        by: Any = node.args.get("expression") or value
        order = exp.Ordered(this=by.copy(), desc=_KINDS[type(node)], nulls_first=False)
        found = exp.Limit(this=exp.Order(this=value.copy(), expressions=[order]), expression=count.copy())
        conditions: list[Any] = [is_known(one) for one in ([by] if value == by or dialect != "duckdb" else [by, value])]
        conditions += [exp.paren(call_or_filter.expression.this.copy())] if call_or_filter is not node else []
        array: Any = exp.Filter(this=exp.ArrayAgg(this=found), expression=exp.Where(this=exp.and_(*conditions)))
        replaced, array = _with_window(call_or_filter, array)
        some = exp.GT(
            this=exp.Anonymous(this="CARDINALITY", expressions=[array.copy()]), expression=exp.Literal.number(0)
        )
        replaced.replace(placed(exp.Case(ifs=[exp.If(this=some, true=array)]), extent(replaced)))
    return tree


def _with_window(call_or_filter: Any, array: Any) -> tuple[Any, Any]:
    """Returns the node that an array replaces, and the array, with the window of the aggregate if it has one."""
    window = call_or_filter.parent
    if not isinstance(window, exp.Window) or call_or_filter.arg_key != "this":
        return call_or_filter, array
    made = window.copy()
    made.set("this", array)
    return window, made


def _keep_first(node: Any, text: str) -> None:
    """Replaces Oracle's `MAX(x) KEEP (DENSE_RANK FIRST ORDER BY y)` by `FIRST(x ORDER BY y, x DESC)`.

    Raises PlanError for other aggregates than MAX and MIN.
    """
    called, order = node.this, node.args.get("order")
    if not isinstance(called, (exp.Max, exp.Min)) or order is None or called.expressions:
        message, hint = "KEEP (DENSE_RANK ...) takes MAX or MIN of one value", "filter by RANK() in a subquery in FROM"
        raise PlanError(message, hint=hint, position=place_of(text, node), text=text)
    falling = isinstance(called, exp.Max)
    best = exp.Ordered(this=called.this.copy(), desc=falling, nulls_first=False)
    items = [one.copy() for one in order.expressions]
    for item in items if not node.args.get("first") else ():
        _turn(item)
    node.replace(placed(exp.First(this=exp.Order(this=called.this.copy(), expressions=[*items, best])), extent(node)))


def _turn(item: Any) -> None:
    """Reverses an item of ORDER BY."""
    item.set("desc", not item.args.get("desc"))
    item.set("nulls_first", not item.args.get("nulls_first"))


def _pick_first(node: Any, text: str) -> None:
    """Replaces FIRST, LAST or ANY_VALUE with an order by the first element of an array in that order.

    Raises PlanError with DISTINCT and another order than that of the argument.
    """
    value = node.this.this
    if isinstance(value, exp.Distinct) and any([one.this] != value.expressions for one in node.this.expressions):
        word, hint = node.sql_name(), "leave DISTINCT out: it has no effect"
        raise PlanError(
            f"with DISTINCT, {word} must be ordered by its argument",
            hint=hint,
            position=place_of(text, node),
            text=text,
        )
    whole = node.parent if isinstance(node.parent, (exp.IgnoreNulls, exp.RespectNulls)) else node
    call_or_filter = whole.parent if isinstance(whole.parent, exp.Filter) else whole
    order = node.this.copy()
    for item in order.expressions if isinstance(node, exp.Last) else ():
        _turn(item)
    known = isinstance(node, exp.AnyValue) or isinstance(whole, exp.IgnoreNulls)
    conditions: list[Any] = [is_known(order.this)] if known else []
    conditions += [exp.paren(call_or_filter.expression.this.copy())] if call_or_filter is not whole else []
    array: Any = exp.ArrayAgg(this=exp.Limit(this=order, expression=exp.Literal.number(1)))
    if conditions:
        array = exp.Filter(this=array, expression=exp.Where(this=exp.and_(*conditions)))
    replaced, array = _with_window(call_or_filter, array)
    made = exp.Bracket(this=array, expressions=[exp.Literal.number(0)], offset=0)
    replaced.replace(placed(made, extent(replaced)))
