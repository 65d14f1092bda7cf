"""A group stage in a program whose batch is one native call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crown.programs.kernels import pipeline as kernels
from crown.programs.pipelines.plan import Plan
from crown.stages.groups.batch import Batch, Operator
from crown.stages.groups.group import Groups
from crown.stages.kernels.groups import batch as group_batch
from crown.store.zset import Zset

_LEAST_GROUPS = 1 << 12  # for which there is room; for more only if the batch before had so many


class Grouping:
    """What a call needs to know of a group ``stage``, and what it leaves of it; it reads block number ``read``, and its
    events are block number ``events``. ``registers``: the words that its expressions need for their registers."""

    def __init__(self, stage: Groups, operator: Operator, read: int, events: int) -> None:
        self.stage = stage
        self._operator, self._read, self._events = operator, read, events
        self._sums, self._columns = (int(operator.plan[at]) for at in (group_batch.P_SUMS, group_batch.P_COLUMNS))

        outputs = operator.outputs
        self._fixed = 0 if outputs is None else outputs.fixed
        self._each = 2 * (self._sums + self._columns + 1) + (0 if outputs is None else outputs.words)
        self.registers = 0 if outputs is None else outputs.program.register_words

    @property
    def scratch(self) -> int:
        """Returns how many words of scratch are needed."""
        return self._operator.scratch

    @property
    def pauses(self) -> bool:
        """Returns True if Python has to help with each batch."""
        pauses = int(self._operator.plan[group_batch.P_PAUSES])
        return bool(pauses & ~(group_batch.PAUSE_SHOW if self._operator.outputs is not None else 0))

    def write(self, plan: Plan) -> None:
        """Writes what it is to a plan."""
        operator, head = self._operator, plan.head
        head[kernels.P_TABLE], head[kernels.P_WIDTH] = operator.table, self._columns
        head[kernels.P_INPUT], head[kernels.P_EVENTS] = self._read, self._events
        head[kernels.P_GROUP], head[kernels.P_KEYS] = plan.add(operator.plan), plan.add(operator.keys)
        head[kernels.P_SUMS], head[kernels.P_CARRIED] = plan.add(operator.sums), plan.add(operator.carried)
        if operator.outputs is not None:
            head[kernels.P_OUTPUTS] = plan.add(operator.outputs.plan)
            head[kernels.P_NAMED] = plan.name_texts(operator.outputs.program.named)

    def make_room(self, rows: int, words: memoryview) -> int:
        """Returns the words of memory that a batch of so many rows takes; ``words``: those of the run, which get for
        how many groups that is room."""
        room = words[kernels.R_ROOM] = min(rows + 1, max(_LEAST_GROUPS, 2 * words[group_batch.S_GROUPS]))
        return len(self._operator.keys) + 2 * (rows + 1) + self._fixed + self._each * room

    def abandon(self, memory: np.ndarray, words: Sequence[int]) -> None:
        """Takes the groups that a run has touched out of it: it has come back before one of them was written."""
        if words[group_batch.S_GROUPS]:
            at = words[kernels.R_HANDLES]
            self.stage.abandon(memory[at : at + words[group_batch.S_GROUPS]].copy())

    def hand_over(self, memory: np.ndarray, words: Sequence[int], asked: int) -> None:
        """Has the stage go on where the call has stopped."""
        room, where, handles, sums, out = (
            words[at] for at in (kernels.R_ROOM, kernels.R_WHERE, kernels.R_HANDLES, kernels.R_SUMS, kernels.R_OUT)
        )
        state = np.array(words[: group_batch.S_END], np.int64)
        kept = memory[where : out + 2 * room * (self._columns + 1)].copy()

        def started(nets: Sequence[Zset]) -> tuple[Batch, int]:
            batch = self.stage.entered(nets)
            n = len(batch.weights)
            batch.state = state
            batch.where, batch.handles = kept[:n], kept[handles - where :][: max(n, 1)]
            batch.rows, batch.out = kept[sums - where : out - where], kept[out - where :]
            return batch, group_batch.DONE if asked == kernels.STUCK else asked

        self.stage.started = started

    def delivered(self, memory: np.ndarray, words: Sequence[int]) -> Zset:
        """Returns the rows that a run delivers."""
        m, at = words[group_batch.S_DELTAS], words[kernels.R_OUT]
        found = memory[at : at + (self._columns + 1) * m].reshape(self._columns + 1, m).copy()
        return Zset.of_columns(found[: self._columns], found[self._columns])
