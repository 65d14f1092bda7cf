"""A join core as a stage of a program: its relations are base tables, or ``#i`` for stage i."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from crown.engine.core import Core
from crown.engine.invariants import tree as invariants
from crown.engine.state.arenas import State
from crown.engine.statistics import statistics
from crown.ingest.batch import MissingDeletes, RelationChange
from crown.kernels import arena as A
from crown.stages.state.memory import ProgramMemory, parts_of
from crown.store.budget import Share
from crown.store.codec import decode
from crown.store.zset import Zset
from plans.program import JoinStage
from plans.schema import Column


class Join:
    """Runs a join stage (see ``crown.stages.protocol.Stage``).

    ``sources``: the columns of what it reads, by relation; its parts in ``memory`` begin with number ``first``.
    """

    def __init__(
        self, stage: JoinStage, sources: Mapping[str | int, Sequence[Column]], memory: ProgramMemory, first: int
    ) -> None:
        plan = stage.plan
        self.stage = stage
        self.columns = tuple(Column(output.name, output.type) for output in plan.output)
        self._relations = [table.name for table in plan.tables]
        self.inputs = tuple(_source(name) for name in self._relations)
        self._words = []
        for table, source in zip(plan.tables, self.inputs, strict=True):
            place = {column.name.lower(): i for i, column in enumerate(sources[source])}
            self._words.append([place[column.name.lower()] for column in table.columns])
        arena, n = memory.mapping(first, parts_of(stage)), memory.budget.words
        new = arena[A.H_MAGIC] == 0
        self._state = State(plan, arena, memory.file, memory.dictionary, n, Share(memory.budget, first))
        if new:
            self._state.format(n)
        self.parts = tuple(self._state.parts)
        self._dictionary = memory.dictionary
        self._core = Core(self._state)

    @property
    def state(self) -> State:
        """Returns the state of the tree."""
        return self._state

    def apply(self, nets: Sequence[Zset]) -> Zset:
        """See ``Stage.apply``. O(changes * lambda + deltas)."""
        blocks = [block.copy() for block in self._core.apply(self._changes(nets))]
        return Zset.gathered(blocks, len(self.columns))

    def _changes(self, nets: Sequence[Zset]) -> tuple[RelationChange, ...]:
        given = {
            name: net.project(words)
            for name, words, net in zip(self._relations, self._words, nets, strict=True)
            if len(net)
        }
        return self._core.changes(given)

    def settle(self) -> None:
        """See ``Stage.settle``."""
        self._core.settle()

    def take_back(self, nets: Sequence[Zset]) -> None:
        """See ``Stage.take_back``."""
        self._core.take_back()

    def undo(self, nets: Sequence[Zset]) -> Zset:
        """See ``Stage.undo``."""
        return self._core.undo(self._changes(nets), MissingDeletes())

    def scan(self, sources: Sequence[Iterable[Zset]] = ()) -> Iterator[Zset]:
        """See ``Stage.scan``. O(1) per row."""
        for block in self._core.results.tuples():
            yield block.copy()

    def multiplicity(self, row: np.ndarray, sources: Sequence[Iterable[Zset]] = ()) -> int:
        """See ``Stage.multiplicity``. Expected O(1)."""
        values = {
            column.name: decode(row[i : i + 1].copy(), column.type, self._dictionary.extern)[0].as_py()
            for i, column in enumerate(self.columns)
        }
        return self._core.results.multiplicity(values)

    def mark_values(self) -> None:
        """See ``Stage.mark_values``."""
        self._state.mark_values()

    def check_invariants(self) -> None:
        """See ``Stage.check_invariants``."""
        invariants.check(self._core)

    def stats(self) -> dict[str, Any]:
        """See ``Stage.stats``."""
        return statistics(self._state)


def _source(name: str) -> str | int:
    """Returns what a relation of the plan is: a base table, or the number of a stage."""
    return int(name[1:]) if name.startswith("#") else name.lower()
