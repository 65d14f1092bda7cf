"""Estimates how many cells pay off: the share of all rows that a cell receives.

A row is copied to every cell along the axes that it lacks (``shares``), or to all of them (``cuts``). Cells help as far
as each of them gets fewer rows; if most rows come to a relation of which every cell has all, they do not.
"""

from __future__ import annotations

from collections.abc import Mapping

from plans.program import Program
from plans.search.cuts import by_output
from plans.search.shares import Grid, hashable, load, solve

ENOUGH = 1.1  # a cell more must take more than a tenth off what each of them gets


def portion(program: Program, cells: int, rates: Mapping[str, float] | None = None) -> float:
    """Returns what share of the rows one of so many cells gets, 1 for one cell, by the `rates` of relations.

    1 also for what cannot be cut in one round.
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
    """Returns the fewest cells, at most `most`, that are almost as good as the best number: each gets at most a tenth
    more of the rows."""
    portions = [portion(program, cells, rates) for cells in range(1, most + 1)]
    least = min(portions)
    return next(number for number, found in enumerate(portions, 1) if found <= ENOUGH * least)
