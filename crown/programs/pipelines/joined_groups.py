"""Groups over a join of relations, whose batch is one native call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from typing_extensions import override

from crown.programs.kernels import pipeline as kernels
from crown.programs.pipelines.groups import Grouping
from crown.programs.pipelines.joins import JoinPipeline
from crown.programs.pipelines.sources import Source, Take
from crown.programs.wanted import ALL, Wanted
from crown.stages.groups.group import Groups
from crown.stages.joins.core import Join
from crown.stages.protocol import Part
from crown.store.records import Records
from crown.store.zset import Zset

_LEAST_ROWS = 1 << 10  # of the join, for which there is room; for more only if the batch has many


class JoinedGroupsPipeline(JoinPipeline):
    """Runs the batches of a join whose rows all enter a group stage as they are; ``reads``: of each of their columns
    the word in the buffer, or -1 and the only code."""

    def __init__(
        self,
        join: Join,
        stage: Groups,
        reads: Sequence[tuple[int, int]],
        sources: Sequence[Source],
        stored: Sequence[Take],
        base: Part,
        parts: Sequence[Part],
        records: Records,
    ) -> None:
        super().__init__(join, sources, stored, base, parts, records)
        self._groups = Grouping(stage)
        self._reads = reads
        self._width = len(reads) + max(self._words_of_rows, 1)

    @override
    def most(self, wanted: Wanted) -> int:
        return 0 if self._groups.stage.holds_far else super().most(ALL)  # the groups read all deltas of the join

    @override
    def _begin(self, rows: int) -> int:
        super()._begin(rows)
        most = self._words[kernels.R_MOST] = min(self._propagation.buffers.out.shape[1], max(_LEAST_ROWS, 4 * rows))
        return self._groups.make_room(most, self._words) + self._width * most

    @override
    def _operator(self, head: np.ndarray) -> tuple[list[tuple[int, np.ndarray]], int]:
        pieces, scratch = self._groups.pieces(head)
        head[kernels.P_READ] = len(self._reads)
        reads = np.array([*self._reads, (-1, 0)], np.int64).reshape(-1)
        return [*self._core_pieces(head), *pieces, (kernels.P_READS, reads)], scratch

    @override
    def _hand_over(self, nets: dict[str, Zset], asked: int) -> None:
        assert asked != kernels.STUCK, "a group without rows is not empty"
        if asked not in (kernels.LEFT, kernels.HELD):  # the groups begin anew, with the rows that lie in the buffer
            self._groups.abandon(self._memory, self._words)
        super()._hand_over(nets, asked)

    @override
    def _without_message(self) -> Zset:
        return self._groups.delivered(self._memory, self._words)
