"""Rewrites joins that Oracle, Snowflake and Redshift write with a mark, `WHERE a.x = b.y(+)`, as LEFT JOIN."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from plans.errors import PlanError
from plans.frontends.sql.shape import joins_of
from plans.frontends.sql.text.nodes import nodes
from plans.frontends.sql.text.place import extent, place_of, placed

_HINT = "write LEFT JOIN ... ON"


def with_marked_joins(tree: Any, text: str) -> Any:
    """Returns a statement with LEFT JOIN in place of marks. Raises PlanError for marks that do not say which table to
    join with which others."""
    for column in nodes(tree, exp.Column):
        select = column.find_ancestor(exp.Select) if column.args.get("join_mark") else None
        if select is not None:
            try:
                _rewrite(select)
            except PlanError as error:
                raise error.at(text, place_of(text, column)) from None
    return tree


def _rewrite(select: Any) -> None:
    where, joins = select.args.get("where"), joins_of(select)
    if where is None or any(join.args.get(name) for join in joins for name in ("on", "using", "side", "kind")):
        raise PlanError("(+) is for conditions in WHERE of tables with commas between them", hint=_HINT)
    relations = {one.alias_or_name.lower(): one for one in (select.args["from_"].this, *(join.this for join in joins))}
    conditions: dict[str, list[Any]] = {}
    rest: list[Any] = []
    for part in where.this.flatten() if isinstance(where.this, exp.And) else [where.this]:
        marked = {column.table.lower() for column in nodes(part, exp.Column) if column.args.get("join_mark")}
        if len(marked) > 1 or not marked <= set(relations) or (marked and part.find(exp.Or, exp.Query)):
            raise PlanError("(+) marks the columns of one table of FROM in a condition without OR", hint=_HINT)
        for column in nodes(part, exp.Column) if marked else ():
            column.set("join_mark", None)
        (conditions.setdefault(marked.pop(), []) if marked else rest).append(part.copy())
    order = [name for name in relations if name not in conditions]
    left = [name for name in relations if name in conditions]
    while left:
        read = {name: {c.table.lower() for one in conditions[name] for c in nodes(one, exp.Column)} for name in left}
        ready = next((name for name in left if read[name] <= {name, *order}), None)
        if ready is None or not order:
            raise PlanError("(+) marks tables that are joined with each other", hint=_HINT)
        order.append(ready)
        left.remove(ready)
    if order != list(relations) and any(item.is_star for item in select.expressions):
        raise PlanError("* of a table that (+) joins with a later one is not supported", hint="name the columns")
    made = [_join(relations[name], conditions.get(name)) for name in order[1:]]
    select.set("from_", placed(exp.From(this=relations[order[0]].copy()), extent(select.args["from_"])))
    select.set("joins", made)
    select.set("where", placed(exp.Where(this=exp.and_(*rest, copy=False)), extent(where)) if rest else None)


def _join(relation: Any, conditions: list[Any] | None) -> Any:
    join = exp.Join(this=relation.copy())
    if conditions:
        join.set("side", "LEFT")
        join.set("on", exp.and_(*conditions, copy=False))
    return placed(join, extent(relation))
