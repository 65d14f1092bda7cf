"""Joins of values that are computed: `CAST(a.t AS DATE) = b.d`, or columns whose types differ. They become columns.

A join core joins columns of one type. So a value that is cast to another one is computed where the rows of its source
enter: a linear stage without state.
"""

from __future__ import annotations

from dataclasses import replace

from plans.errors import PlanError
from plans.expressions.build import Expr, call
from plans.lowering.stages import Stages, columns_read, local, origin, visible_columns
from plans.plan import Output
from plans.program import Feed, passed
from plans.queries.algebra import Query, split, unused
from plans.queries.variables import join_type


def computed_sides(part: Expr) -> tuple[Expr, ...]:
    """Returns the sides of `CAST(a.x AS ...) = b.y` that are computed, if the columns themselves do not join."""
    if part.op not in ("eq", "nseq"):
        return ()
    bare = [side.args[0] if side.op == "cast" else side for side in part.args]
    if any(column.op != "col" for column in bare) or len({split(column.value)[0] for column in bare}) < 2:
        return ()
    try:
        join_type(bare[0], bare[1], bare[0].type, bare[1].type)
    except PlanError:
        return tuple(side for side in part.args if side.op == "cast")
    return ()


def has_computed_joins(query: Query) -> bool:
    """Returns whether a query joins by values that are computed."""
    return any(computed_sides(part) for one in query.conditions for part in one.conjuncts())


def with_columns_for_joins(query: Query, stages: Stages) -> Query:
    """Returns an equivalent query that joins by columns."""
    if not has_computed_joins(query):
        return query
    read = columns_read(query)
    conditions: list[Expr] = []
    for part in (part for one in query.conditions for part in one.conjuncts()):
        columns = {}
        for side in computed_sides(part):
            query, columns[side] = _with_column(query, side, read, stages)
        conditions.append(call(part.op, *(columns.get(arg, arg) for arg in part.args)) if columns else part)
    return replace(query, conditions=tuple(conditions))


def _with_column(query: Query, side: Expr, read: set[str], stages: Stages) -> tuple[Query, Expr]:
    """Returns the query in which the source of a value has it as a column, and that column, which is then `read`.

    A DISTINCT subquery that has the value or its column in its select list has this one, too.
    """
    source = query.source(split(side.args[0].value)[0])
    name = unused("k", [column.name for column in source.table.columns])
    rows = Feed(origin(source.table), (*passed(visible_columns(source, read)), Output(name, side.type, local(side))))
    made = stages.source(source.alias, stages.linear(rows), source.table.key, source.table.distinct)
    made = replace(made, group=source.group, join=source.join, on=source.on)
    column = made.qualified(name)
    read.add(str(column.value))
    sources = tuple(made if s.alias == source.alias else s for s in query.sources)
    keys = tuple((group, (*exprs, column) if {side, side.args[0]} & {*exprs} else exprs) for group, exprs in query.keys)
    return replace(query, sources=sources, keys=keys), column
