"""Groups over one relation, whose batch is one native call."""

from __future__ import annotations

from sys import maxsize

import numpy as np
import pyarrow as pa
from typing_extensions import override

from crown.programs.kernels import pipeline as kernels
from crown.programs.pipelines.pipeline import Pipeline
from crown.programs.pipelines.sources import Source
from crown.programs.wanted import Wanted
from crown.stages.groups.batch import Operator
from crown.stages.groups.group import Groups
from crown.stages.kernels.groups import batch as group_batch
from crown.stages.protocol import Part
from crown.store.records import Records
from crown.store.zset import Zset

_LEAST_GROUPS = 1 << 12  # for which there is room; for more only if the batch before had so many


class GroupPipeline(Pipeline):
    """Runs the batches of a group stage over one relation."""

    def __init__(self, stage: Groups, source: Source, base: Part, part: Part, records: Records) -> None:
        super().__init__([source], [], base, part, records)
        self._stage = stage
        self._group = self._keys = 0

    @override
    def most(self, wanted: Wanted) -> int:
        return 0 if self._stage.holds_far else maxsize

    @override
    def _begin(self, rows: int) -> int:
        room = min(rows + 1, max(_LEAST_GROUPS, 2 * self._words[group_batch.S_GROUPS]))
        self._words[kernels.R_ROOM] = room
        return self._keys + 2 * (rows + 1) + self._group * room

    @override
    def _operator(self, head: np.ndarray) -> tuple[list[tuple[int, np.ndarray]], int]:
        operator = self._does()
        sums, out = operator.plan[group_batch.P_SUMS], operator.plan[group_batch.P_COLUMNS]
        self._group, self._keys = int(2 * sums + 2 * (out + 1)), len(operator.keys)
        head[kernels.P_TABLE], head[kernels.P_WIDTH] = operator.table, out
        pieces = [
            (kernels.P_GROUP, operator.plan),
            (kernels.P_KEYS, operator.keys),
            (kernels.P_FORMS, operator.forms),
            (kernels.P_SUMS, operator.sums),
            (kernels.P_NO_SUMS, np.zeros(1, np.int64)),
        ]
        return pieces, operator.scratch

    @override
    def _hand_over(self, nets: dict[str, Zset], asked: int) -> None:
        (net,) = nets.values()
        n = len(net.weights)
        room = self._words[kernels.R_ROOM]
        sums, out = (int(self._does().plan[at]) for at in (group_batch.P_SUMS, group_batch.P_COLUMNS))
        batch = self._stage.entered(net)
        batch.state = self._state[: group_batch.S_END].copy()
        batch.where, batch.handles = self._region(kernels.R_WHERE, n), self._region(kernels.R_HANDLES, max(n, 1))
        batch.rows = self._region(kernels.R_SUMS, 2 * room * sums)
        batch.out = self._region(kernels.R_OUT, 2 * room * (out + 1))
        self._stage.started = batch, group_batch.DONE if asked == kernels.STUCK else asked

    @override
    def _without_message(self) -> list[pa.RecordBatch]:
        m, columns = self._words[group_batch.S_DELTAS], len(self._stage.columns)
        found = self._region(kernels.R_OUT, (columns + 1) * m).reshape(columns + 1, m)
        assert self._records is not None, "a group stage has them"
        return list(self._records.batches(Zset.of_columns(found[:columns], found[columns])))

    def _does(self) -> Operator:
        found = self._stage.operator()
        assert found is not None, "else there is no pipeline"
        return found
