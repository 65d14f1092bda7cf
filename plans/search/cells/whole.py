"""Decides how the cells of one process share a program: `threads=N` runs the whole program once per cell.

Every relation is partitioned by the hash of one column, or every cell has all of its rows. A program that needs two
columns of a relation, or of which the cells would have more rows than those of its joins alone, has only its joins cut
(`plans.search.cells.shares.grids_of`).
"""

from __future__ import annotations

from collections.abc import Mapping

from plans.program import JoinStage, Program
from plans.programs.reads import occurrences_of_plan
from plans.search.cells.cuts import ways_by_output
from plans.search.cells.shares import grid_of


def partitioning_of(program: Program, cells: int) -> Mapping[str, str] | None:
    """Returns the column by which each relation (in lower case) is partitioned among cells that deliver disjoint rows.

    Every cell has all rows of the other relations. Returns None if only the joins of the program can be cut, or
    nothing. Rows that replace one another, or may not be there together, are in the same cell.
    """
    keys = {table.name: table.told_apart_by for table in program.tables if table.by_key}
    divided, best = _divided(program, cells), None
    for ways in ways_by_output(program):
        if any(len(way) != 1 for way in ways.values()):
            continue
        columns = {name: next(iter(way)) for name, way in ways.items()}
        if any(len(way) > 1 for way in columns.values()):
            continue
        found = {name.lower(): way[0] for name, way in columns.items() if way}
        keyed = all(_within(columns.get(name, ()), key) for name, key in keys.items())
        if keyed and divided.issubset(found) and found and (best is None or len(found) > len(best)):
            best = found
    return best


def _within(columns: tuple[str, ...], key: tuple[str, ...]) -> bool:
    return {name.lower() for name in columns}.issubset(name.lower() for name in key)


def _divided(program: Program, cells: int) -> frozenset[str]:
    """Returns the relations (in lower case) of which the cells of the joins do not all have all rows."""
    found: set[str] = set()
    for stage in program.stages:
        if isinstance(stage, JoinStage):
            axes = set(grid_of(stage, cells).attributes)
            found |= {atom.relation.lower() for atom in occurrences_of_plan(stage.plan) if axes & set(atom.attributes)}
    return frozenset(name for name in found if any(table.name.lower() == name for table in program.tables))
