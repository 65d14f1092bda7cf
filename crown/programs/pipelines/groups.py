"""A group stage in a program whose batch is one native call."""

from __future__ import annotations

from collections.abc import Sequence
from sys import maxsize

import numpy as np

from crown.programs.kernels import groups as kernels
from crown.programs.kernels import pipeline as run
from crown.programs.pipelines.blocks import Block, forms_of_types
from crown.programs.pipelines.plan import Plan
from crown.programs.wanted import Wanted
from crown.stages.groups.batch import Batch, Operator
from crown.stages.groups.group import Groups
from crown.stages.kernels.groups import batch as group_batch
from crown.stages.protocol import Part
from crown.store.memory import address_of
from crown.store.zset import Zset

_LEAST_GROUPS = 1 << 12  # for which there is room; for more only if the batch before had so many


class Grouping:
    """What a call needs to know of a group ``stage``, number ``number``, and what it leaves of it.

    It reads block ``read``, its events are block ``events``, and its rows block ``made``. ``registers``: the words that
    its expressions need for their registers. ``at``: its first word in the state. ``room``: the words of memory that
    the batch takes.
    """

    kind = run.GROUPS
    state_words = kernels.BATCH
    each = fixed = 0  # words of the memory that its block takes, besides ``room``

    def __init__(
        self, stage: Groups, number: int, operator: Operator, read: Block, events: Block, made: Block, part: Part
    ) -> None:
        self.stage, self.number, self.made, self.part = stage, number, made, part
        self.root = made.root
        self._operator, self._read, self._events = operator, read, events
        self._sums, self._columns = (int(operator.plan[at]) for at in (group_batch.P_SUMS, group_batch.P_COLUMNS))
        outputs = operator.outputs
        self._fixed = 3 * self._columns + 2 + len(operator.keys) + (0 if outputs is None else outputs.fixed)
        self._each = 2 * (self._sums + self._columns + 1) + (0 if outputs is None else outputs.words)
        self.registers = 0 if outputs is None else outputs.program.register_words
        self.at = self.room = 0

    @property
    def keys(self) -> int:
        """Returns how many columns its keys are."""
        return len(self._operator.keys)

    @property
    def scratch(self) -> int:
        """Returns how many words of scratch are needed."""
        return self._operator.scratch

    @property
    def pauses(self) -> bool:
        """Returns True if Python has to help with each batch."""
        pauses = int(self._operator.plan[group_batch.P_PAUSES])
        return bool(pauses & ~(group_batch.PAUSE_SHOW if self._operator.outputs is not None else 0))

    def words(self, plan: Plan) -> Sequence[int]:
        """Returns its words in a plan, to which it adds what they point to."""
        operator, found = self._operator, [0] * kernels.GROUPS
        found[kernels.G_STATE], found[kernels.G_TABLE] = self.at, operator.table
        found[kernels.G_INPUT], found[kernels.G_EVENTS] = self._read.number, self._events.number
        found[kernels.G_MADE] = self.made.number
        found[kernels.G_PLAN], found[kernels.G_KEYS] = plan.add(operator.plan), plan.add(operator.keys)
        found[kernels.G_SUMS], found[kernels.G_CARRIED] = plan.add(operator.sums), plan.add(operator.carried)
        found[kernels.G_FORMS] = plan.add(forms_of_types([of.type for of in self.stage.columns]))
        if operator.outputs is not None:
            found[kernels.G_OUTPUTS] = plan.add(operator.outputs.plan)
            found[kernels.G_NAMED] = plan.name_texts(operator.outputs.program.named)
        return found

    def place(self, at: int) -> None:
        """Says where in the state its words are."""
        self.at = at

    def most(self, wanted: Wanted) -> int:
        """Returns how many rows of a batch, at most, the call takes with the stage as it is."""
        return 0 if self.stage.holds_far else maxsize

    def begin(self, rows: list[int], words: memoryview) -> int:
        """Makes room for a batch, in which roots have so many ``rows``; ``words``: the state. Returns how many rows are
        netted."""
        at, n = self.at, rows[self._events.root]
        room = words[at + kernels.B_ROOM] = min(n + 1, max(_LEAST_GROUPS, 2 * words[at + group_batch.S_GROUPS]))
        if not words[at + kernels.B_ARENA]:  # the words of a run keep it from batch to batch
            words[at + kernels.B_ARENA], words[at + kernels.B_WORDS] = address_of(self.part.arena)
        self.room = self._fixed + 2 * (n + 1) + self._each * room
        rows[self.made.root] = 2 * room
        return 0

    def hand_over(self, memory: np.ndarray, words: Sequence[int], asked: int) -> None:
        """Has the stage go on where the call has stopped."""
        room, where, handles, sums, out = (
            words[self.at + of]
            for of in (kernels.B_ROOM, kernels.B_WHERE, kernels.B_HANDLES, kernels.B_SUMS, kernels.B_OUT)
        )
        state = np.array(words[self.at : self.at + group_batch.S_END], np.int64)
        kept = memory[where : out + 2 * room * (self._columns + 1)].copy()

        def started(nets: Sequence[Zset]) -> tuple[Batch, int]:
            batch = self.stage.entered(nets)
            n = len(batch.weights)
            batch.state = state
            batch.where, batch.handles = kept[:n], kept[handles - where :][: max(n, 1)]
            batch.rows, batch.out = kept[sums - where : out - where], kept[out - where :]
            return batch, group_batch.DONE if asked == kernels.STUCK else asked

        self.stage.started = started
