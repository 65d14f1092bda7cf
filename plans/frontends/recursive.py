"""Recursions, for all query languages: first rows, and steps that derive rows from those that are there.

A step is a join core that reads the rows of the recursion as a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from plans.expressions.build import Expr, call, cast, lit
from plans.frontends.branches import balanced
from plans.programs.frames import Order
from plans.queries.algebra import Fixpoint, Group, Query, Relation, SetOperation, Source, bases, unused
from plans.schema import Column, Table


def rows_of(name: str, columns: Sequence[Column], distinct: bool, taken: Iterable[str] = ()) -> Table:
    """Returns the table of the rows of a recursion, for its steps. ``taken``: names of other tables."""
    stamp = [Column(unused("stamp", [column.name for column in columns]), "int64")] if distinct else []
    return Table(unused(name, taken), (*columns, *stamp), distinct=distinct)


def readings(step: Relation, rows: Table, name: str) -> list[Source] | tuple[str, str]:
    """Returns the sources of a step that are the rows of its recursion, or why the relation cannot be a step, and what
    to do about it. ``name``: of the recursion."""
    mine = [source for source in step.sources if source.table == rows] if isinstance(step, Query) else []
    if not isinstance(step, Query) or len(mine) < sum(source.table == rows for source in bases(step)):
        hint = "a step joins rows and selects from them; aggregate, order or number rows outside of the recursion"
        if isinstance(step, Group) and step.keys and all(call.function in ("min", "max") for call in step.aggregates):
            grouped = "SELECT key, MIN(value) FROM (first rows UNION ALL steps) GROUP BY key"
            hint = f"group the whole recursion: {name} AS ({grouped})"
        return f"{name} reads itself in a query that is more than a join", hint
    if any(source.group or source.join != "inner" for source in mine):
        hint = f"join {name}, so that each row of it gives rows; in an outer join, on the side whose rows all stay"
        return f"{name} tests whether it has a row itself", hint
    if not rows.distinct and (len(mine) > 1 or step.distinct):
        what = "a step that reads it more than once" if len(mine) > 1 else "a step with DISTINCT"
        return f"{name} has UNION ALL and {what}", "write UNION instead of UNION ALL"
    return mine


def best_by(column: str, function: str) -> Order:
    """Returns the order in which the row with the least (`min`) or the greatest (`max`) value of a column is first."""
    return Order(column, falling=function == "max", nulls_last=True)


def fixpoint(
    first: Relation, steps: Sequence[tuple[Query, Sequence[Source]]], rows: Table, best: Order | None = None
) -> Fixpoint:
    """Returns a recursion. ``steps``: each with its sources that are rows of the recursion (`readings`). ``best``: see
    `plans.programs.stages.FixpointStage`."""
    columns = rows.columns[: len(rows.columns) - rows.distinct]
    table = Table("first_rows", first.columns)
    source = Source(table.name, table, input=first)
    pairs = zip(columns, first.columns, strict=True)
    outputs = [(one.name, cast(source.qualified(old.name), one.type)) for one, old in pairs]
    made = [Query(first.text, (source,), (), _with_stamp(outputs, [], rows), False)]
    for step, mine in steps:
        given = [(one.name, cast(expr, one.type)) for one, (_, expr) in zip(columns, step.outputs, strict=True)]
        stamps = [source.qualified(rows.columns[-1].name) for source in mine]
        # What is derived twice is counted twice: with the stamp among its outputs, a set would count it a second time.
        made.append(replace(step, outputs=_with_stamp(given, stamps, rows), distinct=False))
    return Fixpoint(rows, SetOperation(tuple(made), balanced("union_all", range(len(made)))), rows.distinct, best)


def _with_stamp(
    outputs: Sequence[tuple[str, Expr]], stamps: Sequence[Expr], rows: Table
) -> tuple[tuple[str, Expr], ...]:
    """Returns outputs with the greatest of some stamps, or 0, as the last one, if the rows have stamps."""
    if not rows.distinct:
        return tuple(outputs)
    greatest = call("greatest", *stamps) if len(stamps) > 1 else stamps[0] if stamps else cast(lit(0), "int64")
    return (*outputs, (rows.columns[-1].name, greatest))
