"""CONDITIONAL_CHANGE_EVENT and CONDITIONAL_TRUE_EVENT of Snowflake, whose conditions read the previous row.

CONDITIONAL_CHANGE_EVENT(x) OVER w is CONDITIONAL_TRUE_EVENT(x <> LAG(x) OVER w) OVER w. A window function cannot read
another one, so the condition is a column of a derived table:

    SELECT a, CONDITIONAL_CHANGE_EVENT(x) OVER (ORDER BY t) AS n FROM r
    SELECT a, CONDITIONAL_TRUE_EVENT(event_0) OVER (ORDER BY event_1) AS n FROM (
        SELECT a, x <> LAG(x) OVER (ORDER BY t) AS event_0, t AS event_1 FROM r)
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from plans.frontends.sql.text.nodes import nodes
from plans.frontends.sql.text.place import extent, placed

_CHANGE, _TRUE = "CONDITIONAL_CHANGE_EVENT", "CONDITIONAL_TRUE_EVENT"
_KEPT = ("kind", "expressions", "from_", "from", "joins", "laterals", "where", "group", "having")
"""The arguments of a SELECT whose rows can become a derived table."""


def with_events(tree: Any, dialect: str) -> Any:
    """Rewrites conditional events so that they read no other window function. Unsupported forms stay unchanged."""
    for select in nodes(tree, exp.Select)[::-1] if dialect == "snowflake" else ():
        events = [one for item in select.expressions for one in nodes(item, exp.Window) if _asks(one)]
        others = [name for name, value in select.args.items() if value and name not in (*_KEPT, "with_", "with")]
        if not events or others:
            continue
        made = placed(_split(select, events), extent(select))
        if select is tree:
            tree = made
        else:
            select.replace(made)
    return tree


def _asks(node: Any) -> bool:
    """Returns whether a window function is a conditional event that reads another window function."""
    called = node.this
    if not isinstance(called, exp.Anonymous) or len(called.expressions) != 1 or node.args.get("alias"):
        return False
    name = called.name.upper()
    return name == _CHANGE or (name == _TRUE and called.find(exp.Window) is not None)


def _split(select: Any, events: list[Any]) -> Any:
    """Returns a SELECT over a derived table with the conditions of its events."""
    hidden: list[Any] = []

    def column(value: Any) -> Any:
        name = f"event_{len(hidden)}"
        hidden.append(exp.alias_(value.copy(), name))
        return exp.column(name)

    for node in events:
        (value,) = node.this.expressions
        condition = value
        if node.this.name.upper() == _CHANGE:
            before = exp.Window(this=exp.Lag(this=value.copy()), **_window(node))
            condition = exp.NEQ(this=exp.paren(value.copy()), expression=before)
        node.set("this", exp.Anonymous(this=_TRUE, expressions=[column(condition)]))
        node.set("partition_by", [column(one) for one in node.args.get("partition_by") or ()])
        for one in node.args["order"].expressions if node.args.get("order") is not None else ():
            one.set("this", column(one.this))
    named: list[Any] = []
    shown: list[Any] = []
    stars: list[Any] = []
    for place, item in enumerate(select.expressions):
        if item.is_star:
            named.append(item.copy())
            stars.append(exp.Star())
            shown.append(stars[-1])
        elif any(one is node for node in events for one in item.walk()):
            shown.append(item.copy())
        else:
            name = item.alias_or_name or f"c{place}"
            named.append(exp.alias_(item.unalias().copy(), name, quoted=True))
            shown.append(exp.column(exp.to_identifier(name, quoted=True)))
    for star in stars:
        star.set("except_", [exp.to_identifier(one.alias) for one in (*hidden, *named) if isinstance(one, exp.Alias)])
    inner = select.copy()
    inner.set("expressions", [*named, *hidden])
    clauses = {name: inner.args.pop(name) for name in ("with_", "with") if inner.args.get(name) is not None}
    rows = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier("events")))
    return exp.Select(expressions=shown, from_=exp.From(this=rows), **clauses)


def _window(node: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"partition_by": [one.copy() for one in node.args.get("partition_by") or ()]}
    return found | ({"order": node.args["order"].copy()} if node.args.get("order") is not None else {})
