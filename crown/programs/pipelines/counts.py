"""A pointwise stage in a program whose batch is one native call."""

from __future__ import annotations

from collections.abc import Sequence
from sys import maxsize

import numpy as np

from crown.ingest.batch import Gated
from crown.programs.kernels import counts as kernels
from crown.programs.kernels import pipeline as run
from crown.programs.pipelines.blocks import Block
from crown.programs.pipelines.plan import Plan
from crown.programs.wanted import Wanted
from crown.stages.pointwise import Pointwise
from crown.stages.protocol import Part
from crown.store.memory import address_of


class Counting:
    """What a call needs to know of a pointwise ``stage``, number ``number``, and what it leaves of it.

    ``leaves``: of each leaf the block that it reads, and that of its events; ``events``: the block of the events of
    all. ``changed``: the block of the rows that it changes, and ``made``: that of the rows of the stage. ``forms``:
    those of its columns. ``at``: its first word in the state.
    """

    kind = run.COUNTS
    registers = scratch = 0
    state_words = kernels.COUNTED
    room = 0  # words of the memory that a batch takes, besides those for its events

    def __init__(
        self, stage: Pointwise, number: int, leaves: Sequence[tuple[Block, Block]], events: Block, changed: Block,
        forms: Sequence[int], part: Part,
    ) -> None:  # fmt: skip
        self.stage, self.number, self.part, self.made = stage, number, part, changed
        self._leaves, self._events, self._changed, self._forms = leaves, events, changed, forms
        self.root = events.root
        self.at = 0

    @property
    def fixed(self) -> int:
        """Returns how many words of the memory of a run it takes for any number of tuples."""
        return int(kernels.words_of_counts(len(self._forms), len(self.stage.function)))

    @property
    def each(self) -> int:
        """Returns how many words of the memory of a run it takes for each tuple."""
        return int(kernels.words_of_counted(len(self._forms), len(self._leaves)))

    def place(self, at: int) -> None:
        """Says where in the state its words are."""
        self.at = at

    def most(self, wanted: Wanted) -> int:
        """Returns how many rows of a batch, at most, the call takes."""
        return maxsize

    def begin(self, rows: list[int], words: memoryview) -> int:
        """Notes how many rows of a batch its block has at most, in which roots have so many ``rows``; ``words``: the
        state. Returns how many rows are netted."""
        rows[self._changed.root] = rows[self._events.root]
        at = self.at + kernels.L_ARENA
        if not words[at]:  # the words of a run keep it from batch to batch
            words[at], words[at + 1] = address_of(self.part.arena)
        return 0

    def words(self, plan: Plan) -> Sequence[int]:
        """Returns its words in a plan, to which it adds what they point to."""
        found = [0] * kernels.COUNTS
        found[kernels.C_STATE], found[kernels.C_TABLE] = self.at, self.stage.table
        found[kernels.C_BLOCK], found[kernels.C_LEAVES] = self._events.number, len(self._leaves)
        found[kernels.C_LEAF0] = plan.add([block.number for leaf in self._leaves for block in leaf])
        found[kernels.C_MADE], found[kernels.C_SHOWN] = self._changed.number, self.made.number
        found[kernels.C_WIDTH], found[kernels.C_FORMS] = len(self._forms), plan.add(self._forms)
        found[kernels.C_FUNCTION], found[kernels.C_SIZE] = plan.add(self.stage.function), len(self.stage.function)
        return found

    def hand_over(self, memory: np.ndarray, words: Sequence[int], asked: int) -> None:
        """Has the stage go on where the call has stopped."""
        done, before = words[self.at + kernels.L_COUNTED], words[self.at + kernels.L_BEFORE]
        events = words[run.R_SOURCE0 + kernels.READ * self._events.number + kernels.R_EVENTS]
        self.stage.started = Gated(done, memory[before : before + events * len(self._leaves)].copy())
