"""What the cells of an operator hold between them, read out of their engines: every base row once.

A row that several cells have is taken from the first of them. On the way everything is compared with the cut: a row
that stands in a cell where it does not belong, or is not in each cell where it does, means that a file is damaged, or
that rows are hashed otherwise than here. Then nothing is cut anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from crown.engine.engine import Engine
from crown.engine.stored import Stored, stored
from crown.ingest.columns import WEIGHT
from crown.ingest.masks import EVERY
from crown.programs.kept import kept
from crown.programs.program import ProgramEngine
from plans.plan import Plan
from plans.search.cuts import Role
from plans.search.rounds import Round
from spark_jobs.errors import CheckpointError, DamagedStateError
from spark_jobs.recell.placed import lacking, of_role, of_stored

Load = Callable[[int], "Engine | ProgramEngine"]
"""Gives the engine of a cell."""


@dataclass(frozen=True)
class Contents:
    """Base rows: by base relation, with ``_weight``; or, of a plan's cells, the tuples of its stored relations."""

    rows: Mapping[str, pa.Table]
    tuples: tuple[Stored, ...] = ()

    def as_rows(self) -> dict[str, pa.Table]:
        """Returns all as rows. Those of tuples are those that pass their plan's predicates, and have what else
        it reads."""
        found = {
            part.relation.name: pa.table([*part.columns, pa.array(part.copies)], [*part.relation.columns, WEIGHT])
            for part in self.tuples
        }
        return found | dict(self.rows)


def contents(given: Round, load: Load, where: object) -> Contents:
    """Returns what the cells of a round hold. O(state), and in memory once; ``load`` is called once per cell.

    Raises :class:`DamagedStateError` if a row is not where it belongs, :class:`CheckpointError` if the cells do not
    keep their rows.
    """
    if isinstance(given.maintained, Plan):
        return _of_plan(given, given.maintained, load, where)
    return _of_program(given, load, where)


# -- a plan -----------------------------------------------------------------------------------------------------------


def _of_plan(given: Round, plan: Plan, load: Load, where: object) -> Contents:
    grid, kept_of, found = given.grid, [], []
    for cell in range(grid.cells):
        engine = load(cell)
        assert isinstance(engine, Engine), "a plan is run by an engine"
        here = stored(engine)
        found.append([(len(part), int(part.copies.sum())) for part in here])
        mine = []
        for part in here:
            placed = of_stored(plan, grid, part)
            if not placed.masks(cell).all():
                raise _misplaced(part.relation.name, cell, where)
            mine.append(part.chosen(placed.first() == cell))
        kept_of.append(mine)
    together = tuple(_joined(list(parts)) for parts in zip(*kept_of, strict=True))
    for number, part in enumerate(together):
        placed = of_stored(plan, grid, part)
        for cell in range(grid.cells):
            here = placed.masks(cell) != 0
            if found[cell][number] != (int(np.count_nonzero(here)), int(part.copies[here].sum())):
                raise _lost(part.relation.name, cell, where)
    return Contents({}, together)


def _joined(parts: list[Stored]) -> Stored:
    columns = tuple(pa.concat_arrays(list(arrays)) for arrays in zip(*(part.columns for part in parts), strict=True))
    return Stored(parts[0].relation, columns, np.concatenate([part.copies for part in parts]), EVERY)


# -- a program --------------------------------------------------------------------------------------------------------


def _of_program(given: Round, load: Load, where: object) -> Contents:
    roles, cells = given.roles or {}, given.grid.cells
    chosen: dict[str, tuple[str, Role]] = {}
    for name, role in roles.items():  # of a relation that is there in several roles one that is cut, if any is
        if role.relation not in chosen or (role.hashed and not chosen[role.relation][1].hashed):
            chosen[role.relation] = (name, role)
    parts: dict[str, list[pa.Table]] = {relation: [] for relation in chosen}
    for cell in range(cells):
        engine = load(cell)
        assert isinstance(engine, ProgramEngine), "a program is run by its own engine"
        here = kept(engine)
        for relation, (name, role) in chosen.items():
            if name not in here:
                raise CheckpointError(
                    f'the cells of {where} do not keep the rows of {relation} (on_missing="trust"), or not when they '
                    "came (a window by arrival), so they cannot be cut anew: start again with a new checkpoint, from "
                    "bulk_load() with cells="
                )
            parts[relation].append(_taken(role, here[name], cell, cells, parts[relation], where))
    return Contents({relation: pa.concat_tables(found) for relation, found in parts.items()})


def _taken(role: Role, rows: pa.Table, cell: int, cells: int, before: list[pa.Table], where: object) -> pa.Table:
    """Returns the rows that are taken of a cell's."""
    if cells > 1 and not role.hashed:  # each cell has them all
        if before and _sizes(before[0]) != _sizes(rows):
            raise _lost(role.relation, cell, where)
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
        f"cell {cell} of {where} has rows of {relation} that belong into other cells: its files are damaged, or this "
        "Spark hashes otherwise than it did. Put them back from a copy, or start again with a new checkpoint"
    )


def _lost(relation: str, cell: int, where: object) -> DamagedStateError:
    return DamagedStateError(
        f"cell {cell} of {where} has not the rows of {relation} that it must have by what the other cells have: put "
        "its files back from a copy, or start again with a new checkpoint"
    )
