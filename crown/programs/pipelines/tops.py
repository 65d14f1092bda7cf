"""Stages with ordered rows in a native call: first rows in order."""

from __future__ import annotations

from collections.abc import Sequence
from sys import maxsize

from crown.programs.delta_options import DeltaOptions
from crown.programs.kernels import pipeline
from crown.programs.kernels import tops as kernels
from crown.programs.pipelines.plan import Block, Plan, StatefulOperator
from crown.stages.over.stage import Over
from crown.stages.protocol import Part
from crown.stages.top import Top
from crown.store.memory import address_of


class OrderedOperator(StatefulOperator):
    """Stage ``stage`` with ordered rows, which has number ``number``, or None within a recursion.

    - ``read``: the block that it reads. ``net``: the net of its feed.
    - ``changed``: the block of the rows that change. ``output`` is the same block, or its net.
    - ``forms``: the forms of the columns of ``changed``.
    """

    register_words = scratch_words = batch_words = 0

    def __init__(
        self, stage: Top | Over, number: int | None, read: Block, net: Block, changed: Block, output: Block,
        forms: Sequence[int], part: Part,
    ) -> None:  # fmt: skip
        self.stage, self.number, self.part, self.output, self.root = stage, number, part, output, net.root
        self._read, self._net, self._changed, self._forms = read, net, changed, forms

    def max_rows(self, options: DeltaOptions) -> int:
        """Returns how many rows of a batch, at most, the call can apply. The steps sort larger ones first."""
        trees = self.stage.trees
        if self.number is None:
            return maxsize
        return trees.sorted_from(trees.count) - 1

    def _set_room(self, room: int, rows: list[int], state: memoryview) -> None:
        """Writes the state: there is room for so many rows that change."""
        for word, array in ((kernels.OS_ARENA, self.part.arena), (kernels.OS_PATH, self.stage.trees.path)):
            state[self.state_at + word], state[self.state_at + word + 1] = address_of(array)
        state[self.state_at + kernels.OS_ROOM] = rows[self._changed.root] = room

    def _ordered_words(self, plan: Plan, words: list[int]) -> None:
        """Writes the words that all stages with ordered rows have. Adds to the plan what they point to."""
        trees, rows = self.stage.trees, -1 if self.number is None else self.output.number
        plan.add_head(words, self.state_at, kernels.OS_ARENA, rows, [self._read.number])
        words[kernels.O_TABLE], words[kernels.O_NET] = trees.table, self._net.number
        words[kernels.O_OUTPUT] = self._changed.number
        words[kernels.O_WIDTH], words[kernels.O_FORMS_AT] = trees.width, plan.add(self._forms)
        words[kernels.O_KEY_COUNT], words[kernels.O_KEYS_AT] = trees.k, plan.add(trees.keyed(1)[: trees.k])
        words[kernels.O_COLUMN_COUNT], words[kernels.O_ORDER_AT] = len(trees.spec) // 4, plan.add(trees.spec)
        words[kernels.O_SHAPE_AT] = plan.add(trees.shape)


class TopOperator(OrderedOperator):
    """A top stage. For the arguments see ``OrderedOperator``."""

    stage: Top
    kind = pipeline.TOP
    state_words = kernels.ORDERED_STATE_WORDS

    @property
    def fixed_words(self) -> int:
        """Returns how many words of the memory it takes regardless of the number of tuples."""
        return int(kernels.fixed_words(len(self._forms), self.stage.trees.k))

    @property
    def words_per_tuple(self) -> int:
        """Returns how many words of the memory it takes for each tuple of its root."""
        return int(kernels.words_per_tuple(len(self._forms)))

    def prepare(self, rows: list[int], state: memoryview) -> int:
        """Prepares batches whose roots have these numbers of ``rows``, and writes the state.

        Sets the maximum number of rows of its own root. Returns how many rows are netted.
        """
        self._set_room(kernels.ROWS_PER_CHANGE * rows[self.root], rows, state)
        return 0

    def plan_words(self, plan: Plan) -> Sequence[int]:
        """Returns its words in a plan. Adds to the plan what they point to."""
        stage, words = self.stage.stage, [0] * kernels.TOP_WORDS
        self._ordered_words(plan, words)
        words[kernels.O_OFFSET], words[kernels.O_END] = stage.offset, stage.offset + stage.limit
        return words
