"""Groups over one relation, whose batch is one native call."""

from __future__ import annotations

from collections.abc import Sequence
from sys import maxsize

import numpy as np
from typing_extensions import override

from crown.programs.kernels import pipeline as kernels
from crown.programs.pipelines.pipeline import Pipeline
from crown.programs.pipelines.sources import Source
from crown.programs.wanted import Wanted
from crown.stages.groups.group import Groups
from crown.stages.kernels.groups import batch as group_batch
from crown.stages.protocol import Part
from crown.store.records import Records
from crown.store.zset import Zset

_LEAST_GROUPS = 1 << 12  # for which there is room; for more only if the batch before had so many


class Grouping:
    """What a call needs to know of a group ``stage``, and what it leaves of it."""

    def __init__(self, stage: Groups) -> None:
        found = stage.operator()
        assert found is not None, "else there is no pipeline"
        self.stage = stage
        self._operator = found
        self.sums, self.columns = (int(found.plan[at]) for at in (group_batch.P_SUMS, group_batch.P_COLUMNS))

    def pieces(self, head: np.ndarray) -> tuple[list[tuple[int, np.ndarray]], int]:
        """Writes the words of the stage to the ``head`` of a plan; returns what they point to, and words of scratch."""
        operator = self._operator
        head[kernels.P_TABLE], head[kernels.P_WIDTH] = operator.table, self.columns
        pieces = [
            (kernels.P_GROUP, operator.plan),
            (kernels.P_KEYS, operator.keys),
            (kernels.P_FORMS, operator.forms),
            (kernels.P_SUMS, operator.sums),
            (kernels.P_CARRIED, operator.carried),
        ]
        return pieces, operator.scratch

    def make_room(self, rows: int, words: memoryview) -> int:
        """Returns the words of memory that a batch of so many rows takes; ``words``: those of the run, which get for
        how many groups that is room."""
        room = words[kernels.R_ROOM] = min(rows + 1, max(_LEAST_GROUPS, 2 * words[group_batch.S_GROUPS]))
        return len(self._operator.keys) + 2 * (rows + 1) + 2 * (self.sums + self.columns + 1) * room

    def abandon(self, memory: np.ndarray, words: Sequence[int]) -> None:
        """Takes the groups that a run has touched out of it: it has come back before one of them was written."""
        if words[group_batch.S_GROUPS]:
            at = words[kernels.R_HANDLES]
            self.stage.abandon(memory[at : at + words[group_batch.S_GROUPS]].copy())

    def delivered(self, memory: np.ndarray, words: Sequence[int]) -> Zset:
        """Returns the rows that a run delivers."""
        m, at = words[group_batch.S_DELTAS], words[kernels.R_OUT]
        found = memory[at : at + (self.columns + 1) * m].reshape(self.columns + 1, m).copy()
        return Zset.of_columns(found[: self.columns], found[self.columns])


class GroupPipeline(Pipeline):
    """Runs the batches of a group stage over one relation."""

    def __init__(self, stage: Groups, source: Source, base: Part, part: Part, records: Records) -> None:
        super().__init__([source], [], base, [part], records)
        self._stage = stage
        self._groups = Grouping(stage)

    @override
    def most(self, wanted: Wanted) -> int:
        return 0 if self._stage.holds_far else maxsize

    @override
    def _begin(self, rows: int) -> int:
        return self._groups.make_room(rows, self._words)

    @override
    def _operator(self, head: np.ndarray) -> tuple[list[tuple[int, np.ndarray]], int]:
        return self._groups.pieces(head)

    @override
    def _hand_over(self, nets: dict[str, Zset], asked: int) -> None:
        (net,) = nets.values()
        n = len(net.weights)
        room = self._words[kernels.R_ROOM]
        batch = self._stage.entered(net)
        batch.state = self._state[: group_batch.S_END].copy()
        batch.where, batch.handles = self._region(kernels.R_WHERE, n), self._region(kernels.R_HANDLES, max(n, 1))
        batch.rows = self._region(kernels.R_SUMS, 2 * room * self._groups.sums)
        batch.out = self._region(kernels.R_OUT, 2 * room * (self._groups.columns + 1))
        self._stage.started = batch, group_batch.DONE if asked == kernels.STUCK else asked

    @override
    def _without_message(self) -> Zset:
        return self._groups.delivered(self._memory, self._words)
