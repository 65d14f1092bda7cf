"""Group operators of a native call."""

from __future__ import annotations

from collections.abc import Sequence
from sys import maxsize

import numpy as np

from crown.programs.delta_options import DeltaOptions
from crown.programs.kernels import groups as kernels
from crown.programs.kernels import pipeline
from crown.programs.pipelines.plan import Block, Plan, StatefulOperator, forms_of_types
from crown.stages.groups.batch import Batch, NativeGroups
from crown.stages.groups.group import Groups
from crown.stages.kernels.groups import batch as group_batch
from crown.stages.kernels.groups import values as values_kernels
from crown.stages.protocol import Part
from crown.store.memory import address_of
from crown.store.zset import Zset

_MIN_GROUPS = 1 << 12  # there is room for so many; for more if the batch before had at least half as many


class GroupsOperator(StatefulOperator):
    """Group ``stage``, which has number ``number``. ``native``: its native form.

    ``read``: the block that it reads; ``events``: the same, or what a feed makes of it; ``rows``: the block of the rows
    of its groups. ``output`` is the same block, or its net.
    """

    kind = pipeline.GROUPS
    state_words = kernels.GROUPS_STATE_WORDS
    words_per_tuple = fixed_words = 0  # see ``batch_words``

    def __init__(
        self, stage: Groups, number: int, native: NativeGroups, read: Block, events: Block, rows: Block, part: Part
    ) -> None:
        self.stage, self.number, self.output, self.part = stage, number, rows, part
        self.root = rows.root
        self._native, self._input, self._events, self._rows = native, read, events, rows
        self._sums = int(native.plan[group_batch.P_SUM_WORDS])
        self._columns = int(native.plan[group_batch.P_COLUMN_COUNT])
        outputs = native.outputs
        self._fixed_words = 3 * self._columns + 2 + len(native.keys) + (0 if outputs is None else outputs.fixed)
        self._words_per_group = 2 * (self._sums + self._columns + 1) + (0 if outputs is None else outputs.words)
        self._multisets, self._readings = 0, 0
        if native.values is not None:
            self._multisets, self._readings = native.values.multisets, native.values.readings
        self.register_words = 0 if outputs is None else outputs.program.register_words
        self.batch_words = 0

    @property
    def key_count(self) -> int:
        """Returns the number of its key columns."""
        return len(self._native.keys)

    @property
    def scratch_words(self) -> int:
        """Returns how many words of scratch are needed."""
        return self._native.scratch

    @property
    def pauses(self) -> bool:
        """Returns True if Python must help with each batch."""
        native, pauses = self._native, int(self._native.plan[group_batch.P_PAUSES])
        handled = group_batch.PAUSE_STORE | (group_batch.PAUSE_SHOW if native.outputs is not None else 0)
        handled |= group_batch.PAUSE_ADD if native.values is not None else 0
        return bool(pauses & ~handled)

    def plan_words(self, plan: Plan) -> Sequence[int]:
        """Returns its words in a plan. Adds to the plan what they point to."""
        native, words = self._native, [0] * kernels.GROUPS_WORDS
        plan.add_head(words, self.state_at, kernels.GS_ARENA, self.output.number, [self._input.number])
        words[kernels.G_TABLE], words[kernels.G_EVENTS] = native.table, self._events.number
        words[kernels.G_OUTPUT] = self._rows.number
        words[kernels.G_PLAN_AT], words[kernels.G_KEYS_AT] = plan.add(native.plan), plan.add(native.keys)
        words[kernels.G_SUMS_AT], words[kernels.G_CARRIED_AT] = plan.add(native.sums), plan.add(native.carried)
        words[kernels.G_FORMS_AT] = plan.add(forms_of_types([column.type for column in self.stage.columns]))
        if native.values is not None:
            words[kernels.G_VALUES_AT] = plan.add(native.values.plan)
        if native.outputs is not None:
            words[kernels.G_OUTPUTS_AT] = plan.add(native.outputs.plan)
            words[kernels.G_FIRST_TEXT] = plan.add_texts(native.outputs.program.texts)
        return words

    def max_rows(self, options: DeltaOptions) -> int:
        """Returns how many rows of a batch, at most, the call can apply in the current state of the stage."""
        return 0 if self.stage.holds_far else maxsize

    def begin(self, state: memoryview) -> bool:
        """Begins a batch. Returns True if the last one had more than half of the groups for which there is room."""
        max_groups, groups = state[self.state_at + kernels.GS_MAX_GROUPS], state[self.state_at + group_batch.S_GROUPS]
        return 2 * groups > max_groups >= _MIN_GROUPS

    def prepare(self, rows: list[int], state: memoryview) -> int:
        """Prepares batches whose roots have these numbers of ``rows``, and writes the state.

        Sets the maximum number of rows of its own root. Returns how many rows are netted.
        """
        start, n = self.state_at, rows[self._events.root]
        max_groups = min(n + 1, max(_MIN_GROUPS, 2 * state[start + group_batch.S_GROUPS]))
        state[start + kernels.GS_MAX_GROUPS] = max_groups
        if not state[start + kernels.GS_ARENA]:  # the state keeps it from batch to batch
            state[start + kernels.GS_ARENA], state[start + kernels.GS_ARENA_WORDS] = address_of(self.part.arena)
        values = values_kernels.words_of_values(self._multisets, self._readings, n, max_groups)
        self.batch_words = self._fixed_words + 2 * (n + 1) + self._words_per_group * max_groups + int(values)
        rows[self._rows.root] = 2 * max_groups
        return 0

    def hand_over(self, memory: np.ndarray, state: Sequence[int], status: int) -> None:
        """Lets the stage continue where the call has stopped with ``status``."""
        start = self.state_at
        max_groups, numbers = state[start + kernels.GS_MAX_GROUPS], state[start + kernels.GS_NUMBERS]
        handles, sums = state[start + kernels.GS_HANDLES], state[start + kernels.GS_SUMS]
        out = state[start + kernels.GS_OUTPUT]
        batch_state = np.array(state[start : start + group_batch.STATE_WORDS], np.int64)
        kept = memory[numbers : out + 2 * max_groups * (self._columns + 1)].copy()

        def started(nets: Sequence[Zset]) -> tuple[Batch, int]:
            batch = self.stage.new_batch(nets)
            n = len(batch.weights)
            batch.state = batch_state
            batch.numbers, batch.handles = kept[:n], kept[handles - numbers :][: max(n, 1)]
            batch.rows, batch.out = kept[sums - numbers : out - numbers], kept[out - numbers :]
            return batch, group_batch.DONE if status == kernels.GROUP_NOT_EMPTY else status

        self.stage.started = started
