"""Estimates how many cells pay off, from the share of all rows that a cell receives.

A row is copied to every cell along the axes that it lacks (``shares``), or to all cells (``cuts``). Cells help as long
as each of them gets fewer rows. They do not help if most rows belong to a relation that every cell reads completely.
"""

from __future__ import annotations

from collections.abc import Mapping

from plans.program import Program
from plans.search.cells.cuts import by_output
from plans.search.cells.shares import Grid, hashable, load, solve

ENOUGH = 1.1  # another cell must reduce the rows of each cell by more than a tenth


def portion(program: Program, cells: int, rates: Mapping[str, float] | None = None) -> float:
    """Returns the share of the rows that one of `cells` cells receives, by the `rates` of relations. It is 1 for one
    cell.

    Also 1 if the program cannot be cut in one round.
    """
    if cells == 1:
        return 1.0
    plan = program.plan
    if plan is not None:
        if not hashable(plan):
            return 1.0
        return load(plan, solve(plan, cells, rates), rates) / load(plan, Grid(), rates)
    cut = by_output(program)
    if cut is None:
        return 1.0
    given = {name.lower(): rate for name, rate in (rates or {}).items()}
    each = [(given.get(role.relation.lower(), 1.0), 1 / cells if role.hashed else 1.0) for role in cut.roles.values()]
    total = sum(rate for rate, _ in each)
    return sum(rate * part for rate, part in each) / total if total else 1.0


def worthwhile(program: Program, most: int, rates: Mapping[str, float] | None = None) -> int:
    """Returns the least number of cells, at most `most`, with which each cell gets at most a tenth more rows than with
    the best number."""
    portions = [portion(program, cells, rates) for cells in range(1, most + 1)]
    least = min(portions)
    return next(number for number, found in enumerate(portions, 1) if found <= ENOUGH * least)
