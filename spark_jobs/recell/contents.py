"""Reads the base rows of an operator from the engines of its cells, each row once.

A row that several cells have is taken from the first of them. All rows are compared with the cut: if a row is in a cell
where it does not belong, or is missing in a cell where it does, a file is damaged, or Spark hashes differently than
this module. Then the state is not recut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from crown.ingest.tables.columns import WEIGHT
from crown.programs.base_rows import base_rows
from crown.programs.program import ProgramEngine
from plans.plan import Plan
from plans.search.cells.cuts import Role
from plans.search.cells.exchanges import Exchange
from spark_jobs.dispatch.placed import lacking, of_plan, of_role
from spark_jobs.errors import ANEW, CheckpointError, DamagedStateError

Load = Callable[[int], ProgramEngine]
"""Returns the engine of a cell."""

Rows = Mapping[str, pa.Table]
"""Rows by relation, each once, with ``_weight``."""


def contents(given: Exchange, load: Load, where: object) -> Rows:
    """Returns the rows in the cells of a round, by base relation. O(state), and in memory once; ``load`` is called once
    per cell.

    Raises :class:`DamagedStateError` if a row is in the wrong cell, :class:`CheckpointError` if the cells do not store
    their rows.
    """
    if given.roles is None:
        assert given.maintained.plan is not None, "what has no roles is one join"
        return _of_plan(given, given.maintained.plan, load, where)
    return _of_roles(given, given.roles, load, where)


def _rows(engine: ProgramEngine, relation: str, name: str, where: object) -> pa.Table:
    """Returns the rows of a relation of a cell, where it has the name ``name``."""
    here = base_rows(engine, masks=True)
    if name not in here:
        raise CheckpointError(
            f'the cells of {where} do not store the rows of {relation} (on_missing="trust"), or not when they arrived '
            "(a window by arrival), so they cannot be cut into another number of cells: keep this number, or give "
            f"cells= to the new job, and {ANEW}"
        )
    return here[name]


def _of_plan(given: Exchange, plan: Plan, load: Load, where: object) -> Rows:
    names = [table.name for table in given.maintained.tables]
    taken: dict[str, list[pa.Table]] = {name: [] for name in names}
    found: list[dict[str, tuple[int, int]]] = []
    whole = False
    for cell in range(given.grid.cells):
        engine = load(cell)
        whole = engine.plan.whole
        found.append({})
        for name in names:
            rows = _rows(engine, name, name, where)
            join = engine.plan.only_join
            masks = None if join is None else join.masks
            if masks is not None:
                read, rows = rows.column(masks).to_numpy(), rows.drop_columns([masks])
            placed = of_plan(plan, given.grid, name, rows, whole)
            belongs = placed.masks(cell)
            if not belongs.all() or (masks is not None and (read & ~belongs).any()):
                raise _misplaced(name, cell, where)
            found[cell][name] = _sizes(rows)
            taken[name].append(rows.filter(pa.array(placed.first() == cell)))
    together = {name: pa.concat_tables(parts) for name, parts in taken.items()}
    for name, rows in together.items():
        placed = of_plan(plan, given.grid, name, rows, whole)
        for cell in range(given.grid.cells):
            if found[cell][name] != _sizes(rows.filter(pa.array(placed.masks(cell) != 0))):
                raise _missing_rows(name, cell, where)
    return together


def _of_roles(given: Exchange, roles: Mapping[str, Role], load: Load, where: object) -> Rows:
    cells = given.grid.cells
    chosen: dict[str, tuple[str, Role]] = {}
    for name, role in roles.items():  # if a relation has several roles, prefer a role that is cut
        if role.relation not in chosen or (role.hashed and not chosen[role.relation][1].hashed):
            chosen[role.relation] = (name, role)
    parts: dict[str, list[pa.Table]] = {relation: [] for relation in chosen}
    for cell in range(cells):
        engine = load(cell)
        for relation, (name, role) in chosen.items():
            rows = _rows(engine, relation, name, where)
            parts[relation].append(_taken(role, rows, cell, cells, parts[relation], where))
    return {relation: pa.concat_tables(found) for relation, found in parts.items()}


def _taken(role: Role, rows: pa.Table, cell: int, cells: int, before: list[pa.Table], where: object) -> pa.Table:
    """Returns the rows that are taken from a cell."""
    if cells > 1 and not role.hashed:  # each cell has all rows
        if before and _sizes(before[0]) != _sizes(rows):
            raise _missing_rows(role.relation, cell, where)
        return rows if not before else rows.slice(0, 0)
    if not lacking(role, rows.column_names):
        belongs = of_role(role, cells, rows)
        if belongs is not None and (belongs != cell).any():
            raise _misplaced(role.relation, cell, where)
    return rows


def _sizes(rows: pa.Table) -> tuple[int, int]:
    return rows.num_rows, int(np.sum(rows.column(WEIGHT).to_numpy()))


def _misplaced(relation: str, cell: int, where: object) -> DamagedStateError:
    return DamagedStateError(
        f"cell {cell} of {where} has rows of {relation} that belong to other cells: its files are damaged, or this "
        f"version of Spark hashes differently. Restore them from a copy, or {ANEW}"
    )


def _missing_rows(relation: str, cell: int, where: object) -> DamagedStateError:
    return DamagedStateError(
        f"cell {cell} of {where} lacks rows of {relation} that other cells have: restore its files from a copy, or "
        f"{ANEW}"
    )
