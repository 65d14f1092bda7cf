"""A join whose deltas leave as they are found, and whose batch is one native call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from typing_extensions import override

from crown.engine.propagation import Entered
from crown.kernels import arena as A
from crown.programs.kernels import pipeline as kernels
from crown.programs.kernels import sources as of
from crown.programs.kernels import tree
from crown.programs.pipelines.pipeline import Pipeline
from crown.programs.pipelines.sources import Source, Take
from crown.programs.wanted import Wanted
from crown.stages.joins.core import Join
from crown.stages.protocol import Part
from crown.store.zset import Zset


class JoinPipeline(Pipeline):
    """Runs the batches of a join, whose deltas leave as they are found."""

    def __init__(self, stage: Join, sources: Sequence[Source], stored: Sequence[Take], base: Part, part: Part) -> None:
        (self._core,) = stage.cores
        super().__init__(sources, stored, base, part, self._core.head.records)
        self._propagation = self._core.propagation
        self._net = stage.stage.plan.consolidated

    @override
    def most(self, wanted: Wanted) -> int:
        live = wanted.deltas and not wanted.factorized and self._core.state.header[A.H_LIVE_ON]
        return self._propagation.loads - 1 if live else 0

    @override
    def _begin(self, rows: int) -> int:
        state, found = self._core.state, self._propagation
        found.make_ready()
        self._arrays = state.arena, state.halves, state.plan_array, found.scratch, found.buffers.out.reshape(-1)
        return 0

    @override
    def _without_message(self) -> list[pa.RecordBatch]:
        raise AssertionError("rows that become no message are left in the buffer")

    @override
    def _operator(self, head: np.ndarray) -> tuple[list[tuple[int, np.ndarray]], int]:
        rows = head[kernels.P_TREE] = self._propagation.buffers.out.shape[1]
        return [], rows

    @override
    def _hand_over(self, nets: dict[str, Zset], asked: int) -> None:
        words, at = self._words, kernels.R_TREE
        left = (words[at + tree.T_SIGN], words[at + tree.T_TAKE]) if asked == kernels.LEFT else None
        number, found = 0, Entered(words[at + tree.T_MINUS])
        for place, take in enumerate(self.stored):
            if not words[kernels.R_SOURCE0 + of.READ * take.source + of.R_EVENTS]:
                continue  # there is no change of it
            here = self._taken + tree.TAKEN * place
            n, gone = words[here + tree.K_EVENTS], words[here + tree.K_GONE]
            for sign, count in ((-1, gone), (1, n - gone)):
                found.done[sign].append(count if left is None or (sign, place) < left else 0)
                if (sign, place) == left:
                    found.left, found.status = (sign, number), words[at + tree.T_STATUS]
            absent = self._memory[words[here + tree.K_ABSENT] :][:gone].copy()
            if absent.any() or found.left == (-1, number):
                found.missing[number] = absent
            number += 1
        self._propagation.enter(found)
