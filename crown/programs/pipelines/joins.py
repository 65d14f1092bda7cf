"""A join whose deltas leave as they are found, and whose batch is one native call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from typing_extensions import override

from crown.engine.kernels import publish
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
from crown.store.records import Records
from crown.store.zset import Zset


class JoinPipeline(Pipeline):
    """Runs the batches of a join, whose deltas leave as they are found."""

    def __init__(
        self,
        stage: Join,
        sources: Sequence[Source],
        stored: Sequence[Take],
        base: Part,
        part: Part,
        records: Records,
    ) -> None:
        (self._core,) = stage.cores
        self._nets = not stage.stage.plan.consolidated
        head = self._core.head
        super().__init__(sources, stored, base, part, records if self._nets and head.records else head.records)
        self._propagation = self._core.propagation
        nodes = [stored.stored.aliases[0].node for stored in stage.stored]
        self._turns = {sign: list(self._propagation.turns(nodes, sign)) for sign in (-1, 1)}

    @override
    def most(self, wanted: Wanted) -> int:
        live = wanted.deltas and not wanted.factorized and self._core.state.header[A.H_LIVE_ON]
        raw = self._nets and wanted.consolidate is False
        return self._propagation.loads - 1 if live and not raw else 0

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
        head[kernels.P_RING], head[kernels.P_NETS] = self._core.state.compiled.payload is not None, self._nets
        pieces = [(kernels.P_TURNS, np.array([*self._turns[-1], *self._turns[1]], np.int64))]
        places = self._core.head.places
        if not self._nets or places is None:  # the deltas lie in the buffer
            return pieces, rows
        self._netted, head[kernels.P_WIDTH] = rows, len(places)
        return [*pieces, (kernels.P_PLACES, np.array(places, np.int64))], rows * (3 + len(places))

    @override
    def _hand_over(self, nets: dict[str, Zset], asked: int) -> None:
        words, at = self._words, kernels.R_TREE
        left = (words[at + tree.T_SIGN], words[at + tree.T_TURN]) if asked == kernels.LEFT else None
        number, found = 0, Entered(words[at + tree.T_MINUS])
        if left == (publish.PUBLISHING, 0):
            found.left, found.status = left, words[at + tree.T_STATUS]
        for place, take in enumerate(self.stored):
            if not words[kernels.R_SOURCE0 + of.READ * take.source + of.R_EVENTS]:
                continue  # there is no change of it
            here = self._taken + tree.TAKEN * place
            n, gone = words[here + tree.K_EVENTS], words[here + tree.K_GONE]
            for sign, count in ((-1, gone), (1, n - gone)):
                turn = sign, self._turns[sign].index(place)
                found.done[sign].append(count if left is None or turn < left else 0)
                if turn == left:
                    found.left, found.status = (sign, number), words[at + tree.T_STATUS]
            absent = self._memory[words[here + tree.K_ABSENT] :][:gone].copy()
            if absent.any() or found.left == (-1, number):
                found.missing[number] = absent
            number += 1
        self._propagation.enter(found)
