"""A join stage in several cells at the same time: a join of its own in each, over the rows that fall to it.

Kernels run without the GIL, so threads will do. The stage is cut as cells on Spark are (``plans.search.cuts``): by an
attribute that is an output, or, in a bag, of any atom that counts, for the cells' rows are added up. The stages after
it run once, fed by all cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from crown.guards.threads import Threads
from crown.stages.join import Join
from crown.stages.state.memory import ProgramMemory, parts_of
from crown.store.memory import ADDRESSABLE
from crown.store.zset import Zset
from plans.program import JoinStage, Program
from plans.reads import inputs, reading
from plans.schema import STAGE_OF_CELL, Column
from plans.search.cuts import Cut, by_anything

_T = TypeVar("_T")
_MIX = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: Knuth's multiplicative hashing


class Joins:
    """Runs a join stage (see ``crown.stages.protocol.Stage``) as ``cells`` joins; arguments as for ``Join``.

    What a memory budget leaves is worked out by one join after the other, so with a budget they do not run in parallel.
    """

    def __init__(
        self,
        stage: JoinStage,
        sources: Mapping[str | int, Sequence[Column]],
        memory: ProgramMemory,
        first: int,
        cells: int,
        added: bool = False,
    ) -> None:
        cut = cut_of(stage)
        assert cut is not None, "a stage that cannot be cut is one join"
        (mine,) = cut.program.stages
        assert isinstance(mine, JoinStage)
        self.stage = stage
        self.inputs = tuple(dict.fromkeys(_given(source) for source in inputs(stage)))
        known = {_named(source).lower(): source for source in self.inputs}
        columns: dict[str | int, Sequence[Column]] = {
            name.lower(): sources[known[role.relation.lower()]] for name, role in cut.roles.items()
        }
        step = parts_of(stage)
        self.joins = [Join(mine, columns, memory, first + cell * step, added) for cell in range(cells)]
        self.columns = self.joins[0].columns
        self.parts = tuple(part for join in self.joins for part in join.parts)
        self._roles = {}
        for name, role in cut.roles.items():
            there = [column.name.lower() for column in columns[name.lower()]]
            number = self.inputs.index(known[role.relation.lower()])
            self._roles[name.lower()] = number, [there.index(column.lower()) for column, _ in role.hashed]
        self._net = stage.mode != "set" and not (added and mine.plan.payload is not None)
        self._budget = memory.budget
        self._threads = Threads(cells, "crown-join")

    def apply(self, nets: Sequence[Zset]) -> Zset:
        """See ``Stage.apply``."""
        given = self._divided(nets)
        done: list[tuple[Join, list[Zset]]] = []

        def work(cell: int) -> Zset:
            net = self.joins[cell].apply(given[cell])
            done.append((self.joins[cell], given[cell]))
            return net

        try:
            return self._added(self._all(work))
        except BaseException:
            for join, part in done:
                join.take_back(part)
            raise

    def _all(self, work: Callable[[int], _T]) -> list[_T]:
        """Returns what ``work`` gives for each cell, when all are through; raises what the first of them raised."""
        numbers = range(len(self.joins))
        if self._budget.words < ADDRESSABLE:  # what one of them may take depends on what the others have taken
            return [work(cell) for cell in numbers]
        jobs = [self._threads.pool.submit(work, cell) for cell in numbers]
        for job in jobs:
            job.exception()  # waits
        return [job.result() for job in jobs]

    def _added(self, nets: Sequence[Zset]) -> Zset:
        """Returns the sum of the cells' nets; in a bag two cells may have the same row, which whoever adds rows up does
        not mind."""
        net = Zset.gathered(nets, len(self.columns))
        return net.net() if self._net else net

    def _divided(self, nets: Sequence[Zset]) -> list[list[Zset]]:
        """Returns the rows of each cell, by input of its join. O(rows * cells)."""
        cells: dict[str, np.ndarray] = {}
        for name, (number, words) in self._roles.items():
            if words:
                cells[name] = _cells(nets[number], words, len(self.joins))
        return [
            [
                nets[self._roles[name][0]][cells[name] == cell] if name in cells else nets[self._roles[name][0]]
                for name in map(str, join.inputs)
            ]
            for cell, join in enumerate(self.joins)
        ]

    def settle(self) -> None:
        """See ``Stage.settle``."""
        for join in self.joins:
            join.settle()

    def take_back(self, nets: Sequence[Zset]) -> None:
        """See ``Stage.take_back``."""
        for join, part in zip(self.joins, self._divided(nets), strict=True):
            join.take_back(part)

    def undo(self, nets: Sequence[Zset]) -> Zset:
        """See ``Stage.undo``."""
        given = self._divided(nets)
        return self._added([join.undo(part) for join, part in zip(self.joins, given, strict=True)])

    def scan(self, sources: Sequence[Iterable[Zset]] = ()) -> Iterator[Zset]:
        """See ``Stage.scan``. O(1) per row; the same row of a bag may come from several cells."""
        for join in self.joins:
            yield from join.scan()

    def multiplicity(self, row: np.ndarray, sources: Sequence[Iterable[Zset]] = ()) -> int:
        """See ``Stage.multiplicity``. Expected O(cells)."""
        return sum(join.multiplicity(row) for join in self.joins)

    def mark_values(self) -> None:
        """See ``Stage.mark_values``."""
        for join in self.joins:
            join.mark_values()

    def check_invariants(self) -> None:
        """See ``Stage.check_invariants``."""
        for join in self.joins:
            join.check_invariants()

    def stats(self) -> dict[str, Any]:
        """Returns what each cell says of itself."""
        return {"cells": [join.stats() for join in self.joins]}


def cut_of(stage: JoinStage) -> Cut | None:
    """Returns how a join stage is cut into cells; None if it cannot be, or is a count: that goes by itself."""
    if stage.plan.count is not None:
        return None
    names = [_named(source) for source in inputs(stage)]
    renamed = reading(stage, names)
    assert isinstance(renamed, JoinStage)
    return by_anything(Program("", renamed.plan.tables, (renamed,)))


def cells_of(program: Program, threads: int) -> list[int]:
    """Returns in how many cells each stage of a program runs with so many threads."""
    return [
        threads if threads > 1 and isinstance(stage, JoinStage) and cut_of(stage) is not None else 1
        for stage in program.stages
    ]


def cuts_of(program: Program, threads: int) -> list[str]:
    """Returns by what the join stages of a program are cut for so many threads; it is part of what the state is."""
    joins = [stage for stage in program.stages if threads > 1 and isinstance(stage, JoinStage)]
    return [cut.name for cut in map(cut_of, joins) if cut is not None]


def _named(source: str | int) -> str:
    """Returns what a cell's plan calls a source: the rows of a stage are a relation there."""
    return f"{STAGE_OF_CELL}{source}" if isinstance(source, int) else source


def _given(source: str | int) -> str | int:
    return source if isinstance(source, int) else source.lower()


def _cells(net: Zset, words: Sequence[int], cells: int) -> np.ndarray:
    """Returns the cell of each row (int64[n]), by a hash of its codes at ``words``."""
    mixed = np.zeros(len(net), np.uint64)
    for word in words:
        mixed = (mixed ^ net.rows[:, word].astype(np.uint64)) * _MIX
        mixed ^= mixed >> np.uint64(29)
    return (mixed >> np.uint64(32)).astype(np.int64) % cells
