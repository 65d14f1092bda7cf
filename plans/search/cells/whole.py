"""Decides how the cells of one process share a program: `threads=N` runs the whole program once per cell.

Every relation is partitioned by the hash of one column, or every cell has all of its rows. The cells gain if each gets
clearly fewer rows than there are. How many rows a relation has is only known from `rates`. Otherwise it is assumed to
have few if other relations look up its rows by a declared key: a line of an order has one order, and an order one
customer. A single join that cannot be partitioned well has a grid of cells instead (`plans.search.cells.shares`).
"""

from __future__ import annotations

from collections.abc import Mapping

from plans.program import JoinStage, Program
from plans.programs.reads import occurrences_of_plan
from plans.search.cells.cuts import ways_by_output
from plans.search.cells.shares import grid_of

_MOST_ROWS = 0.75  # of all rows, that a cell may get
_LOOKED_UP = 0.2  # rows of a relation that others look up, for each row of another


def partitioning_of(program: Program, cells: int) -> Mapping[str, str] | None:
    """Returns the column by which each relation (in lower case) is partitioned among cells that deliver disjoint rows.

    Every cell has all rows of the other relations. Returns None if the program cannot be cut as a whole, or not well.
    Rows that replace one another, or may not be there together, are in the same cell.
    """
    keys = {table.name: table.told_apart_by for table in program.tables if table.by_key}
    rates, only = _rates(program), program.only_join
    divided = frozenset[str]() if only is None else _divided(program, only, cells)
    best, fewest = None, _MOST_ROWS * sum(rates.values())
    for ways in ways_by_output(program):
        if any(len(way) != 1 for way in ways.values()):
            continue
        columns = {name: next(iter(way)) for name, way in ways.items()}
        if any(len(way) > 1 for way in columns.values()):
            continue
        found = {name.lower(): way[0] for name, way in columns.items() if way}
        rows = sum(rate / cells if name in found else rate for name, rate in rates.items())
        keyed = all(_within(columns.get(name, ()), key) for name, key in keys.items())
        if keyed and divided.issubset(found) and (rows <= fewest if best is None else rows < fewest):
            best, fewest = found, rows
    return best


def _within(columns: tuple[str, ...], key: tuple[str, ...]) -> bool:
    return {name.lower() for name in columns}.issubset(name.lower() for name in key)


def _rates(program: Program) -> dict[str, float]:
    """Returns the number of rows of each relation (in lower case), relative to the others."""
    keys = {table.name.lower(): {name.lower() for name in table.key} for table in program.tables}
    plans = [stage.plan for stage in program.stages if isinstance(stage, JoinStage)]
    given = any(rate != 1.0 for plan in plans for rate in plan.rates.values())
    found = dict[str, float]()
    for plan in plans:
        atoms = occurrences_of_plan(plan)
        for atom in atoms:
            name, rate = atom.relation.lower(), plan.rates.get(atom.name, 1.0)
            if name in keys and not given:
                attributes = dict(zip(map(str.lower, atom.columns), atom.attributes, strict=True))
                if keys[name] and keys[name] <= attributes.keys():
                    key = {attributes[column] for column in keys[name]}
                    if any(key.issubset(one.attributes) for one in atoms if one is not atom):
                        rate = _LOOKED_UP
            found[name] = max(found.get(name, 0.0), rate)
    return {name: found.get(name, 1.0) for name in keys}


def _divided(program: Program, join: JoinStage, cells: int) -> frozenset[str]:
    """Returns the relations (in lower case) of which not every cell of a grid has all rows."""
    axes = set(grid_of(join, cells).attributes)
    tables = {table.name.lower() for table in program.tables}
    found = {atom.relation.lower() for atom in occurrences_of_plan(join.plan) if axes & set(atom.attributes)}
    return frozenset(found & tables)
