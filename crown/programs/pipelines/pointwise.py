"""Pointwise operators of a native call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crown.ingest.batch import CountedPart
from crown.programs.kernels import pipeline
from crown.programs.kernels import pointwise as kernels
from crown.programs.kernels.blocks import B_TUPLES, BLOCK_WORDS
from crown.programs.pipelines.plan import Block, Plan, StatefulOperator
from crown.stages.pointwise import Pointwise
from crown.stages.protocol import Part
from crown.store.memory import address_of


class PointwiseOperator(StatefulOperator):
    """Pointwise ``stage``, which has number ``number``, or None within a recursion.

    - ``leaves``: per leaf, the block that it reads and the block of its events.
    - ``events``: the block of the events of all leaves.
    - ``changed``: the block of the rows that it changes. ``output`` is the same block, or its net.
    - ``forms``: the forms of its columns.
    """

    kind = pipeline.POINTWISE
    register_words = scratch_words = 0
    state_words = kernels.POINTWISE_STATE_WORDS
    batch_words = 0

    def __init__(
        self, stage: Pointwise, number: int | None, leaves: Sequence[tuple[Block, Block]], events: Block,
        changed: Block, forms: Sequence[int], part: Part,
    ) -> None:  # fmt: skip
        self.stage, self.number, self.part, self.output = stage, number, part, changed
        self._leaves, self._events, self._changed, self._forms = leaves, events, changed, forms
        self.root = events.root

    @property
    def fixed_words(self) -> int:
        """Returns how many words of the memory it takes regardless of the number of tuples."""
        return int(kernels.fixed_words(len(self._forms), len(self.stage.function)))

    @property
    def words_per_tuple(self) -> int:
        """Returns how many words of the memory it takes for each tuple of its root."""
        return int(kernels.words_per_tuple(len(self._forms), len(self._leaves)))

    def prepare(self, rows: list[int], state: memoryview) -> int:
        """Prepares batches whose roots have these numbers of ``rows``, and writes the state.

        Sets the maximum number of rows of its own root. Returns how many rows are netted.
        """
        rows[self._changed.root] = rows[self._events.root]
        arena_at = self.state_at + kernels.CS_ARENA
        if not state[arena_at]:  # the state keeps it from batch to batch
            state[arena_at], state[arena_at + 1] = address_of(self.part.arena)
        return 0

    def plan_words(self, plan: Plan) -> Sequence[int]:
        """Returns its words in a plan. Adds to the plan what they point to."""
        words = [0] * kernels.POINTWISE_WORDS
        rows = -1 if self.number is None else self.output.number
        plan.add_head(words, self.state_at, kernels.CS_ARENA, rows, [read.number for read, _ in self._leaves])
        words[kernels.C_TABLE], words[kernels.C_OUTPUT] = self.stage.table, self._changed.number
        words[kernels.C_EVENTS], words[kernels.C_LEAF_COUNT] = self._events.number, len(self._leaves)
        words[kernels.C_LEAVES_AT] = plan.add([events.number for _, events in self._leaves])
        words[kernels.C_WIDTH], words[kernels.C_FORMS_AT] = len(self._forms), plan.add(self._forms)
        words[kernels.C_FUNCTION_AT] = plan.add(self.stage.function)
        words[kernels.C_FUNCTION_WORDS] = len(self.stage.function)
        return words

    def hand_over(self, memory: np.ndarray, state: Sequence[int], status: int) -> None:
        """Lets the stage continue where the call has stopped with ``status``."""
        counted, before = state[self.state_at + kernels.CS_COUNTED], state[self.state_at + kernels.CS_COUNTS]
        events = state[pipeline.R_BLOCKS + BLOCK_WORDS * self._events.number + B_TUPLES]
        self.stage.started = CountedPart(counted, memory[before : before + events * len(self._leaves)].copy())
