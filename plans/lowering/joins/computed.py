"""Joins on computed values, such as `CAST(a.t AS DATE) = b.d`, `a.x % 10 = b.y`, or columns of different types. The
values become columns.

A join core joins columns of one type. So a value that is cast to another type, or the only value that connects two
sources, is computed when the rows of its source enter: by a linear stage without state.
"""

from __future__ import annotations

from dataclasses import replace

from plans.errors import PlanError
from plans.expressions.build import TRUE, Expr, call
from plans.lowering.joins.matches import aliases_of, together
from plans.lowering.stages import Stages, columns_read, local, origin, visible_columns
from plans.plan import Output, passed
from plans.programs.stages import Feed
from plans.queries.algebra import Query, replaced, unused
from plans.queries.variables import join_type


def has_computed_joins(query: Query) -> bool:
    """Returns whether a query joins on computed values."""
    return bool(_computed(query))


def _computed(query: Query) -> dict[Expr, tuple[Expr, ...]]:
    """Returns the equalities that must connect two sources, each with its computed sides.

    These are `CAST(a.x AS ...) = b.y` if the columns themselves cannot be joined, and equalities of other values, of
    one source each, if the equal columns leave the two sources in different parts of a product. A value of an outer
    joined source is computed later, when the source is inner joined: of a missing row, it is not NULL in general.
    """
    parts = [part for one in query.conditions for part in one.conjuncts() if part.op in ("eq", "nseq")]
    ties, loose = [], []
    found: dict[Expr, tuple[Expr, ...]] = {}
    for part in parts:
        if len(aliases_of(part)) != 2 or any(len(aliases_of(side)) != 1 for side in part.args):
            continue
        bare = [side.args[0] if side.op == "cast" else side for side in part.args]
        if any(side.op != "col" for side in bare):
            loose.append(part)
            continue
        ties.append(aliases_of(part))
        if not _joinable(*bare):
            found[part] = tuple(side for side in part.args if side.op == "cast")
    for part in loose:
        tied = aliases_of(part)
        if _joinable(*part.args) and not any(tied <= one for one in together(query.sources, ties)):
            found[part] = tuple(side for side in part.args if side.op != "col")
            ties.append(tied)
    inner = {source.alias for source in query.sources if source.join == "inner"}
    return {part: sides for part, sides in found.items() if sides and all(aliases_of(side) <= inner for side in sides)}


def _joinable(left: Expr, right: Expr) -> bool:
    """Returns whether the types of both values can be joined."""
    try:
        join_type(left, right, left.type, right.type)
    except PlanError:
        return False
    return True


def with_columns_for_joins(query: Query, stages: Stages) -> Query:
    """Returns an equivalent query that joins only on columns."""
    computed = _computed(query)
    if not computed:
        return query
    read = columns_read(query)
    conditions: list[Expr] = []
    for part in (part for one in query.conditions for part in one.conjuncts()):
        columns = {}
        for side in computed.get(part, ()):
            query, columns[side] = _with_column(query, side, read, stages)
        conditions.append(call(part.op, *(columns.get(arg, arg) for arg in part.args)) if columns else part)
    return replace(query, conditions=tuple(conditions))


def _with_column(query: Query, side: Expr, read: set[str], stages: Stages) -> tuple[Query, Expr]:
    """Returns the query in which the source of a value has it as a column, and that column, which is added to `read`.

    A DISTINCT subquery whose select list determines the value has this column, too.
    """
    (alias,) = aliases_of(side)
    source = query.source(alias)
    name = unused("k", [column.name for column in source.table.columns])
    rows = Feed(origin(source.table), (*passed(visible_columns(source, read)), Output(name, side.type, local(side))))
    made = stages.source(source.alias, stages.linear(rows), source.table.key, source.table.distinct)
    made = replace(made, group=source.group, join=source.join, on=source.on)
    column = made.qualified(name)
    read.add(str(column.value))
    sources = tuple(made if s.alias == source.alias else s for s in query.sources)
    keys = tuple(
        (group, exprs if replaced(side, dict.fromkeys(exprs, TRUE)).columns else (*exprs, column))
        for group, exprs in query.keys
    )
    return replace(query, sources=sources, keys=keys), column
