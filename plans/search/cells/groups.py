"""Groups the results of a program by the cut into cells that serves them.

A cut sends every row of a relation to cells by some of its columns, or to all cells. Results whose cuts agree on the
relations that they share are kept by the same cells, which receive those rows once and share stages as one process
does. Other results form a group of their own, with cells of their own, to which the rows are sent again. So a host with
a cell of each group may receive more rows than one process that keeps all results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from plans.errors import PlanError
from plans.program import Program
from plans.programs.reads import up_to
from plans.search.cells.count import ENOUGH
from plans.search.cells.cuts import FREE, Ways, ways_by_anything, ways_by_output
from plans.search.cells.exchanges import splits

_ANY = tuple(name for name, _ in FREE)


@dataclass(frozen=True)
class Group:
    """Results that the same `cells` keep, and how rows are sent to the cells.

    `merged`: the results whose rows are parts that a second operator adds up. `rows`: the number of rows that a cell
    receives; `sent`: the number that all cells receive; `arriving`: the number of rows that exist, by the rates of the
    relations. `rows` is an average, because the values of a column may be skewed.
    """

    results: tuple[str, ...]
    merged: tuple[str, ...]
    ways: Ways
    cells: int
    rows: float
    sent: float
    arriving: float

    def to_json(self) -> dict[str, Any]:
        """Returns the group as JSON values."""
        ways = {name: sorted(map(list, found)) for name, found in self.ways.items()}
        return {**vars(self), "ways": ways}


@dataclass(frozen=True)
class Groups:
    """All groups. `rows`: the number of rows that a host with a cell of each group receives; `arriving`: the number
    that one process with all results receives."""

    groups: tuple[Group, ...]
    rows: float
    arriving: float

    @property
    def pays(self) -> bool:
        """Returns True if a host receives clearly fewer rows than one process does."""
        return self.rows * ENOUGH <= self.arriving

    def to_json(self) -> dict[str, Any]:
        """Returns the groups as JSON values."""
        return {**vars(self), "groups": [group.to_json() for group in self.groups]}


@dataclass
class _Kept:
    """A group under construction: the names of its results, those of merged results, and how rows are sent."""

    names: list[str]
    merged: list[str]
    ways: dict[str, frozenset[tuple[str, ...]]]


def groups_of(program: Program, cells: int, rates: Mapping[str, float] | None = None) -> Groups:
    """Returns the groups of the results of a program, ordered by their first results. The group with one cell is last.

    Among the cuts of a result, the one that adds the fewest rows to a cell is chosen. A result is kept in one cell if
    it has no cut, or none with which a cell receives clearly fewer rows than exist. `rates`: rows by relation, by
    default 1 each. Raises PlanError if `cells` < 2.
    """
    if cells < 2:
        raise PlanError(f"cells={cells} is not a number of cells", hint="give 2 or more")
    rate = _Rates(program, cells, rates)
    found: list[_Kept] = []
    alone = _Kept([], [], {})
    for result in program.results or ():
        needed = up_to(program, result.stage)
        total = sum(rate.of(table.name) for table in needed.tables)
        best, fewest, partial = alone, 0.0, False
        ways: Ways = {table.name: frozenset([()]) for table in needed.tables}
        for candidate, added_up in _cuts(needed):
            if rate.rows(candidate) * ENOUGH > total:
                continue
            choices = [(kept, _united(kept.ways, candidate)) for kept in found]
            for kept, combined in [
                *((k, w) for k, w in choices if w is not None),
                (_Kept([], [], {}), dict(candidate)),
            ]:
                extra = rate.rows(combined) - rate.rows(kept.ways)
                if best is alone or extra < fewest:
                    best, fewest, ways, partial = kept, extra, combined, added_up
        if best is not alone and not best.names:
            found.append(best)
        best.names.append(result.name)
        best.merged += [result.name] if partial else []
        best.ways |= ways
    made = [rate.group(kept, cells) for kept in found] + ([rate.group(alone, 1)] if alone.names else [])
    read = {name for group in made for name in group.ways}
    return Groups(tuple(made), sum(group.rows for group in made), sum(map(rate.of, read)))


class _Rates:
    """The number of rows of each relation, and how many of them a cell receives."""

    def __init__(self, program: Program, cells: int, rates: Mapping[str, float] | None) -> None:
        given = {name.lower(): float(rate) for name, rate in (rates or {}).items()}
        self._rates = {table.name: given.get(table.name.lower(), 0.0) if rates else 1.0 for table in program.tables}
        self._cells = cells

    def of(self, name: str) -> float:
        return self._rates[name]

    def rows(self, ways: Ways, cells: int | None = None) -> float:
        part = 1 / (cells or self._cells)
        return sum(self._rates[name] * (part if columns else 1) for name, found in ways.items() for columns in found)

    def group(self, kept: _Kept, cells: int) -> Group:
        rows, arriving = self.rows(kept.ways, cells), sum(self._rates[name] for name in kept.ways)
        return Group(tuple(kept.names), tuple(kept.merged), kept.ways, cells, rows, rows * cells, arriving)


def _cuts(program: Program) -> Iterator[tuple[Ways, bool]]:
    """Yields the ways to cut a program, and whether the results of the cells must be added up."""
    yield from ((ways, False) for ways in ways_by_output(program))
    parts = ([*ways_by_anything(split.before)] for split in splits(program))
    yield from ((ways, True) for ways in next(filter(None, parts), []))


def _united(known: Ways, ways: Ways) -> dict[str, frozenset[tuple[str, ...]]] | None:
    """Returns how rows are sent to cells that serve both cuts. Returns None if the cuts disagree, or share no
    relation."""
    common = known.keys() & ways.keys()
    if not common:
        return None
    united = {**known, **ways}
    for name in common:
        one, other = known[name], ways[name]
        if one != other and _free(one, other):
            united[name] = other
        elif one != other and not _free(other, one):
            return None
        else:
            united[name] = one
    return united


def _free(ways: frozenset[tuple[str, ...]], other: frozenset[tuple[str, ...]]) -> bool:
    """Returns True if rows that may be sent by any columns may be sent as the other cut does: each to one cell."""
    return ways == {_ANY} and len(other) == 1 and () not in other
