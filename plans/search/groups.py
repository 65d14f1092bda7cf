"""How the results of one program would be cut into cells: in groups, each of results that one cut serves.

A cut sends every row of a relation to the cells by some of its columns, or to all of them. Results whose cuts agree on
the relations that they share are kept by the same cells, which get those rows once and share stages as one process
does. Others are a group of their own, with cells of their own, to which the rows travel again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from plans.errors import PlanError
from plans.program import Program
from plans.reads import up_to
from plans.search.cell_count import ENOUGH
from plans.search.cuts import Cut, by_anything, by_output
from plans.search.exchanges import WHY_ONE, splits

Ways = Mapping[str, frozenset[tuple[str, ...]]]
"""By relation, the columns by which its rows are sent, in each way in which they are; no columns: to every cell."""


@dataclass(frozen=True)
class Group:
    """Results that the same `cells` keep, and how rows are sent to them.

    `merged`: those whose rows are parts, which a second operator adds up. `rows`: how many a cell gets; `sent`: how
    many all cells get; `arriving`: how many there are, by the rates of the relations. A cell gets `rows` on average:
    the values of a column may be uneven.
    """

    results: tuple[str, ...]
    merged: tuple[str, ...]
    ways: Ways
    cells: int
    rows: float
    sent: float
    arriving: float

    @property
    def why_one(self) -> str:
        """Returns why there is one cell; an empty text if there are several."""
        return WHY_ONE if self.cells == 1 else ""

    @property
    def pays(self) -> bool:
        """Returns True if a cell gets clearly fewer rows than one process would."""
        return self.rows * ENOUGH <= self.arriving

    def to_json(self) -> dict[str, Any]:
        """Returns the group as JSON values."""
        ways = {name: sorted(map(list, found)) for name, found in self.ways.items()}
        return {**vars(self), "ways": ways}


def groups_of(program: Program, cells: int, rates: Mapping[str, float] | None = None) -> tuple[Group, ...]:
    """Returns the groups of the results of a program, in the order of their first results; last those in one cell.

    `rates`: rows by relation; 1 each if not given. PlanError if `cells` < 2.
    """
    if cells < 2:
        raise PlanError(f"cells={cells} is no number of cells into which something is cut", hint="give 2 or more")
    given = {name.lower(): float(rate) for name, rate in (rates or {}).items()}
    found: list[tuple[list[str], list[str], dict[str, frozenset[tuple[str, ...]]]]] = []
    alone: list[str] = []
    whole: dict[str, frozenset[tuple[str, ...]]] = {}
    for result in program.results or ():
        own = up_to(program, result.stage)
        cut, partial = _cut(own)
        if cut is None:
            alone.append(result.name)
            whole |= {table.name: frozenset([()]) for table in own.tables}
            continue
        ways = _ways(cut)
        names, merged, known = next((one for one in found if _agree(one[2], ways)), ([], [], {}))
        if not names:
            found.append((names, merged, known))
        names.append(result.name)
        merged += [result.name] if partial else []
        known |= ways
    made = [_group(names, merged, known, cells, given) for names, merged, known in found]
    return tuple(made + ([_group(alone, [], whole, 1, given)] if alone else []))


def _cut(program: Program) -> tuple[Cut | None, bool]:
    """Returns how the cells of a program are cut, and whether what they find has to be added up."""
    whole = by_output(program)
    if whole is not None:
        return whole, False
    parts: Iterator[Cut | None] = (by_anything(split.before) for split in splits(program))
    return next((cut for cut in parts if cut is not None), None), True


def _ways(cut: Cut) -> dict[str, frozenset[tuple[str, ...]]]:
    ways: dict[str, frozenset[tuple[str, ...]]] = {}
    for role in cut.roles.values():
        by = tuple(column for column, _ in role.hashed)
        ways[role.relation] = ways.get(role.relation, frozenset()) | {by}
    return ways


def _agree(known: Ways, ways: Ways) -> bool:
    """Returns True if cells that are cut in one way serve the other, too, and get rows for both."""
    common = known.keys() & ways.keys()
    return bool(common) and all(known[name] == ways[name] for name in common)


def _group(names: list[str], merged: list[str], ways: Ways, cells: int, rates: Mapping[str, float]) -> Group:
    rate = {name: rates.get(name.lower(), 0.0) if rates else 1.0 for name in ways}
    rows = sum(rate[name] / cells if by else rate[name] for name, found in ways.items() for by in found)
    return Group(tuple(names), tuple(merged), dict(ways), cells, rows, rows * cells, sum(rate.values()))
