"""New cells: engines that are given their part of what the old ones held, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from crown.engine.engine import Engine
from crown.engine.stored import Stored, fill
from crown.ingest.columns import WEIGHT
from crown.ingest.masks import with_masks
from crown.programs.intake import used_columns
from crown.programs.program import ProgramEngine
from plans.plan import Plan
from plans.program import Maintainable, Program, maintainable
from plans.search.rounds import Round
from spark_jobs.cell.engines import QUERY
from spark_jobs.cell.step import Step
from spark_jobs.dispatch.envelope import MASK
from spark_jobs.errors import CheckpointError
from spark_jobs.recell.contents import Contents
from spark_jobs.recell.placed import lacking, of_plan, of_role, of_stored


def filled(given: Round, step: Step, base: Contents) -> Iterator[Engine | ProgramEngine]:
    """Yields the engines of the cells of a round, in their order, each with its part of ``base``. O(state) each.

    Raises :class:`CheckpointError` if the rows that there are do not say where they belong.
    """
    plan = maintainable(step.plan)
    if base.tuples and isinstance(plan, Program):
        base = _known(given, plan, step, base)
    for cell in range(given.grid.cells):
        keyed = any(table.upserts for table in plan.tables)  # then what is gone comes as deletes that find nothing
        engine: Any = QUERY.create(plan, None, "ignore" if keyed else step.on_missing)
        engine.begin()
        if base.tuples:
            assert isinstance(given.maintained, Plan), "looked at above"
            fill(engine, [_mine(given.maintained, given, part, cell) for part in base.tuples])
        else:
            changes = changes_of(given, plan, base.rows, cell)
            for _ in engine.run(engine.prepare(changes), deltas=False):
                pass
        if isinstance(engine, ProgramEngine):
            engine.gate.forget_counters()
        engine.on_missing = step.on_missing
        yield engine


def _known(given: Round, program: Program, step: Step, base: Contents) -> Contents:
    """Returns the rows that the tuples of a plan's cells are to a program's.

    Raises :class:`CheckpointError` if it reads more of them.
    """
    rows = base.as_rows()
    has = {relation.lower(): {name.lower() for name in table.column_names} for relation, table in rows.items()}
    for name, columns in used_columns(program, program.whole or step.on_missing == "raise").items():
        relation = next(role.relation for own, role in (given.roles or {}).items() if own.lower() == name)
        if absent := [column.name for column in columns if column.name.lower() not in has[relation.lower()]]:
            raise CheckpointError(
                f"the cells do not keep the column {absent[0]!r} of {relation}, which {given.grid.cells} "
                f"{'cell reads' if given.grid.cells == 1 else 'cells read'}: start again with a new checkpoint, from "
                "bulk_load() with cells="
            )
    if step.on_missing == "raise":
        raise CheckpointError(
            'the cells keep the rows that a predicate lets through, and on_missing="raise" wants to know all: start '
            "again with a new checkpoint, from bulk_load() with cells="
        )
    return Contents(rows)


def _mine(plan: Plan, given: Round, part: Stored, cell: int) -> Stored:
    masks = of_stored(plan, given.grid, part).masks(cell)
    keep = masks != 0
    return part.chosen(keep, masks[keep])


def changes_of(given: Round, plan: Maintainable, base: Mapping[str, pa.Table], cell: int) -> dict[str, pa.Table]:
    """Returns what a cell of a round gets of the changes of base relations, by the names of its relations.

    ``plan``: what the cell runs. Raises :class:`CheckpointError` if columns that rows are cut by are not there.
    """
    if isinstance(given.maintained, Plan):
        return {table.name: _masked(given.maintained, given, table.name, base, cell) for table in plan.tables}
    found = {}
    for name, role in (given.roles or {}).items():
        rows = base[role.relation]
        if given.grid.cells > 1 and (absent := lacking(role, rows.column_names)):
            raise CheckpointError(
                f"the cells do not keep the column {absent[0]!r} of {role.relation}, which nothing reads, and by which "
                "its rows would be cut: start again with a new checkpoint, from bulk_load() with cells="
            )
        belongs = of_role(role, given.grid.cells, rows)
        found[name] = rows if belongs is None else rows.filter(pa.array(belongs == cell))
    return found


def _masked(plan: Plan, given: Round, name: str, base: Mapping[str, pa.Table], cell: int) -> pa.Table:
    rows = next(table for relation, table in base.items() if relation.lower() == name.lower())
    if given.grid.cells == 1:
        return rows
    masks = of_plan(plan, given.grid, name, rows).masks(cell)
    free = MASK
    while free in map(str.lower, rows.column_names):
        free += "_"
    rows = rows.append_column(free, pa.array(masks))
    return rows.replace_schema_metadata(with_masks(rows.schema, free).metadata).filter(pa.array(masks != 0))


def results(engine: Engine | ProgramEngine) -> pa.Table:
    """Returns the result of an engine as changes of the next round's relation."""
    batches = list(engine.results())
    table = pa.Table.from_batches(batches, engine.result_schema) if batches else engine.result_schema.empty_table()
    if table.num_columns == len(engine.plan.output):
        table = table.append_column(WEIGHT, pa.array(np.ones(table.num_rows, np.int64)))
    return table
