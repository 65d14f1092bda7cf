"""Groups the results of a program by the cut into cells that serves them.

A cut sends every row of a relation to the cells by some of its columns, or to all of them. Results whose cuts agree on
the relations that they share are kept by the same cells, which get those rows once and share stages as one process
does. Others are a group of their own, with cells of their own, to which the rows travel again. So a host with a cell of
each group may get more rows than one process that keeps all results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from plans.errors import PlanError
from plans.program import Program
from plans.reads import up_to
from plans.search.cell_count import ENOUGH
from plans.search.cuts import FREE, Ways, ways_by_anything, ways_by_output
from plans.search.exchanges import splits

_ANY = tuple(name for name, _ in FREE)


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

    def to_json(self) -> dict[str, Any]:
        """Returns the group as JSON values."""
        ways = {name: sorted(map(list, found)) for name, found in self.ways.items()}
        return {**vars(self), "ways": ways}


@dataclass(frozen=True)
class Groups:
    """All groups. `rows`: how many a host gets that has a cell of each; `arriving`: how many one process gets that
    keeps all results."""

    groups: tuple[Group, ...]
    rows: float
    arriving: float

    @property
    def pays(self) -> bool:
        """Returns True if a host gets clearly fewer rows than one process does."""
        return self.rows * ENOUGH <= self.arriving

    def to_json(self) -> dict[str, Any]:
        """Returns the groups as JSON values."""
        return {**vars(self), "groups": [group.to_json() for group in self.groups]}


@dataclass
class _Kept:
    """A group that is being made: names of results, of those that are merged, and how rows are sent."""

    names: list[str]
    merged: list[str]
    ways: dict[str, frozenset[tuple[str, ...]]]


def groups_of(program: Program, cells: int, rates: Mapping[str, float] | None = None) -> Groups:
    """Returns the groups of the results of a program, in the order of their first results; last those in one cell.

    Of all cuts of a result, the one is taken with which a cell gets the fewest rows more. A result that no cut serves,
    or none with which a cell gets clearly fewer rows than there are, is in one cell. `rates`: rows by relation; 1 each
    if not given. PlanError if `cells` < 2.
    """
    if cells < 2:
        raise PlanError(f"cells={cells} is no number of cells into which something is cut", hint="give 2 or more")
    rate = _Rates(program, cells, rates)
    found: list[_Kept] = []
    alone = _Kept([], [], {})
    for result in program.results or ():
        own = up_to(program, result.stage)
        most = sum(rate.of(table.name) for table in own.tables)
        best, least, partial = alone, 0.0, False
        ways: Ways = {table.name: frozenset([()]) for table in own.tables}
        for wanted, added_up in _cuts(own):
            if rate.rows(wanted) * ENOUGH > most:
                continue
            places = [(kept, _united(kept.ways, wanted)) for kept in found]
            for kept, both in [*((k, w) for k, w in places if w is not None), (_Kept([], [], {}), dict(wanted))]:
                more = rate.rows(both) - rate.rows(kept.ways)
                if best is alone or more < least:
                    best, least, ways, partial = kept, more, both, added_up
        if best is not alone and not best.names:
            found.append(best)
        best.names.append(result.name)
        best.merged += [result.name] if partial else []
        best.ways |= ways
    made = [rate.group(kept, cells) for kept in found] + ([rate.group(alone, 1)] if alone.names else [])
    read = {name for group in made for name in group.ways}
    return Groups(tuple(made), sum(group.rows for group in made), sum(map(rate.of, read)))


class _Rates:
    """The rows of each relation, and how many a cell gets."""

    def __init__(self, program: Program, cells: int, rates: Mapping[str, float] | None) -> None:
        given = {name.lower(): float(rate) for name, rate in (rates or {}).items()}
        self._rates = {table.name: given.get(table.name.lower(), 0.0) if rates else 1.0 for table in program.tables}
        self._cells = cells

    def of(self, name: str) -> float:
        return self._rates[name]

    def rows(self, ways: Ways, cells: int | None = None) -> float:
        part = 1 / (cells or self._cells)
        return sum(self._rates[name] * (part if by else 1) for name, found in ways.items() for by in found)

    def group(self, kept: _Kept, cells: int) -> Group:
        rows, arriving = self.rows(kept.ways, cells), sum(self._rates[name] for name in kept.ways)
        return Group(tuple(kept.names), tuple(kept.merged), kept.ways, cells, rows, rows * cells, arriving)


def _cuts(program: Program) -> Iterator[tuple[Ways, bool]]:
    """Yields the ways to cut a program, and whether what its cells find has to be added up."""
    yield from ((ways, False) for ways in ways_by_output(program))
    parts = ([*ways_by_anything(split.before)] for split in splits(program))
    yield from ((ways, True) for ways in next(filter(None, parts), []))


def _united(known: Ways, ways: Ways) -> dict[str, frozenset[tuple[str, ...]]] | None:
    """Returns how cells that are cut in one way are sent rows for the other, too. None if they do not agree, or have
    no relation in common."""
    common = known.keys() & ways.keys()
    if not common:
        return None
    both = {**known, **ways}
    for name in common:
        one, other = known[name], ways[name]
        if one != other and _free(one, other):
            both[name] = other
        elif one != other and not _free(other, one):
            return None
        else:
            both[name] = one
    return both


def _free(one: frozenset[tuple[str, ...]], other: frozenset[tuple[str, ...]]) -> bool:
    """Returns True if rows that may be sent by any columns may be sent in the other way: each to one cell."""
    return one == {_ANY} and len(other) == 1 and () not in other
