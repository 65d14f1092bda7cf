"""Joins of a computed value with a column: `CAST(a.t AS DATE) = b.d`. The value becomes a column of its source.

A join core joins columns of one type. So what is computed of one source is computed where its rows enter: a linear
stage without state.
"""

from __future__ import annotations

from dataclasses import replace

from plans.errors import PlanError
from plans.expressions.build import Expr, call
from plans.lowering.matches import aliases_of
from plans.lowering.outer import columns_read, visible_columns
from plans.lowering.stages import Stages, local, origin, passed
from plans.plan import Output
from plans.program import Feed
from plans.queries.algebra import Query, split, unused
from plans.queries.variables import join_type


def computed_side(part: Expr) -> Expr | None:
    """Returns the side of `CAST(a.x AS ...) = b.y` that is computed, if the columns themselves do not join and the
    cast is not what a comparison of the two would insert anyway; else None."""
    if part.op not in ("eq", "nseq"):
        return None
    for side, other in (part.args, part.args[::-1]):
        if side.op != "cast" or side.args[0].op != "col" or other.op != "col":
            continue
        if side.type != other.type or split(side.args[0].value)[0] == split(other.value)[0]:
            continue
        try:
            join_type(side.args[0], other, side.args[0].type, other.type)
        except PlanError:
            widened = call("eq", side.args[0], other).args
            return None if side in widened and other in widened else side
    return None


def has_computed_joins(query: Query) -> bool:
    """Returns whether a query joins by values that are computed."""
    return any(computed_side(part) is not None for one in query.conditions for part in one.conjuncts())


def with_columns_for_joins(query: Query, stages: Stages) -> Query:
    """Returns an equivalent query that joins by columns."""
    if not has_computed_joins(query):
        return query
    read = columns_read(query)
    conditions: list[Expr] = []
    for part in (part for one in query.conditions for part in one.conjuncts()):
        side = computed_side(part)
        if side is None:
            conditions.append(part)
            continue
        (alias,) = aliases_of(side)
        source = query.source(alias)
        name = unused("k", [column.name for column in source.table.columns])
        rows = Feed(
            origin(source.table), (*passed(visible_columns(source, read)), Output(name, side.type, local(side)))
        )
        made = stages.source(alias, stages.linear(rows), source.table.key, source.table.distinct)
        made = replace(made, group=source.group, join=source.join, on=source.on)
        query = replace(query, sources=tuple(made if s.alias == alias else s for s in query.sources))
        read.add(f"{alias}.{name}")
        column = made.qualified(name)
        conditions.append(call(part.op, *(column if arg == side else arg for arg in part.args)))
    return replace(query, conditions=tuple(conditions))
