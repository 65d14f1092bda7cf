"""Fills the engines of new cells, one at a time, with their part of the old cells' rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from crown.ingest.tables.columns import WEIGHT
from crown.programs.program import ProgramEngine
from plans.program import Program
from plans.programs.wiring import used_columns
from plans.search.cells.exchanges import Exchange
from spark_jobs.cell.engines import created
from spark_jobs.cell.step import Step
from spark_jobs.dispatch.placed import lacking, of_plan, of_role
from spark_jobs.errors import CheckpointError
from spark_jobs.recell.contents import Rows


def filled(given: Exchange, step: Step, base: Rows) -> Iterator[ProgramEngine]:
    """Yields the engines of the cells of a round, in their order, each with its part of ``base``. O(state) each.

    Raises :class:`CheckpointError` if the stored rows lack a column that determines their cell, or a column that is
    read.
    """
    program = Program.from_json(step.program)
    _demand_columns(given, program, step, base)
    for cell in range(given.grid.cells):
        engine = created(program, None, step.on_missing)
        engine.begin()
        engine.fill(changes_of(given, program, base, cell))
        yield engine


def _demand_columns(given: Exchange, program: Program, step: Step, base: Rows) -> None:
    """Raises :class:`CheckpointError` if the rows lack a column that the cells read."""
    has = {relation.lower(): {name.lower() for name in table.column_names} for relation, table in base.items()}
    roles = {own.lower(): role.relation.lower() for own, role in (given.roles or {}).items()}
    for name, columns in used_columns(program, program.whole or step.on_missing == "raise").items():
        relation = roles.get(name, name)
        known = {*has[relation], step.envelope.masks}
        if absent := [column.name for column in columns if column.name.lower() not in known]:
            raise CheckpointError(
                f"the cells do not store the column {absent[0]!r} of {relation}, which {given.grid.cells} "
                f"{'cell reads' if given.grid.cells == 1 else 'cells read'}: start again with a new checkpoint, from "
                "bulk_load() with cells="
            )


def changes_of(given: Exchange, program: Program, base: Rows, cell: int) -> dict[str, pa.Table]:
    """Returns the changes of base relations for a cell of a round, by the names of the cell's relations.

    ``program``: the cell's program. Raises :class:`CheckpointError` if columns by which rows are cut are missing.
    """
    if given.roles is None:
        return {table.name: _masked(given, program, table.name, base, cell) for table in program.tables}
    found = {}
    for name, role in given.roles.items():
        rows = base[role.relation]
        if given.grid.cells > 1 and (absent := lacking(role, rows.column_names)):
            raise CheckpointError(
                f"the cells do not store the column {absent[0]!r} of {role.relation}, because the query does not read "
                "it, but its rows would be cut by it: start again with a new checkpoint, from bulk_load() with cells="
            )
        belongs = of_role(role, given.grid.cells, rows)
        found[name] = rows if belongs is None else rows.filter(pa.array(belongs == cell))
    return found


def _masked(given: Exchange, program: Program, name: str, base: Rows, cell: int) -> pa.Table:
    rows = next(table for relation, table in base.items() if relation.lower() == name.lower())
    join = program.only_join
    assert join is not None, "what has no roles is one join"
    assert given.maintained.plan is not None, "of distinct rows"
    if join.masks is None:
        return rows
    masks = of_plan(given.maintained.plan, given.grid, name, rows, program.whole).masks(cell)
    return rows.append_column(join.masks, pa.array(masks)).filter(pa.array(masks != 0))


def results(engine: ProgramEngine) -> pa.Table:
    """Returns the result of an engine as changes of the next round's relation."""
    batches = list(engine.results())
    table = pa.Table.from_batches(batches, engine.result_schema) if batches else engine.result_schema.empty_table()
    if table.num_columns == len(engine.plan.output):
        table = table.append_column(WEIGHT, pa.array(np.ones(table.num_rows, np.int64)))
    return table
