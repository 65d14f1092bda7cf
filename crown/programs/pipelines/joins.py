"""A join whose deltas leave as they are found, and whose batch is one native call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
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
        parts: Sequence[Part],
        records: Records | None,
    ) -> None:
        (self._core,) = stage.cores
        super().__init__(sources, stored, base, parts, records)
        self._propagation = self._core.propagation
        self._nets = not stage.stage.plan.consolidated
        payload = self._core.state.compiled.payload
        self._words_of_rows = 0 if payload is None else payload.result.words
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
        arrays = state.plan_array, found.scratch, found.buffers.out.reshape(-1)
        self._arrays = state.arena, state.halves, self._part.arena, *arrays
        return 0

    @override
    def _without_message(self) -> Zset:
        raise AssertionError("rows that become no message are left in the buffer")

    @override
    def _operator(self, head: np.ndarray) -> tuple[list[tuple[int, np.ndarray]], int]:
        pieces, rows = self._core_pieces(head), int(head[kernels.P_TREE])
        places = self._core.head.places
        if not self._nets or places is None:  # the deltas lie in the buffer
            return pieces, rows
        self._netted, head[kernels.P_NETS], head[kernels.P_WIDTH] = rows, 1, len(places)
        return [*pieces, (kernels.P_PLACES, np.array(places, np.int64))], rows * (3 + len(places))

    def _core_pieces(self, head: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """Writes the words of the core to the ``head`` of a plan; returns what they point to."""
        head[kernels.P_TREE], head[kernels.P_WORDS] = self._propagation.buffers.out.shape[1], self._words_of_rows
        return [(kernels.P_TURNS, np.array([*self._turns[-1], *self._turns[1]], np.int64))]

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
