"""First rows in order in a native call."""

from __future__ import annotations

from collections.abc import Sequence
from sys import maxsize

from crown.programs.delta_options import DeltaOptions
from crown.programs.kernels import pipeline
from crown.programs.kernels import tops as kernels
from crown.programs.pipelines.plan import Block, Plan, StatefulOperator
from crown.stages.protocol import Part
from crown.stages.top import Top
from crown.store.memory import address_of


class TopOperator(StatefulOperator):
    """Top stage ``stage``, which has number ``number``, or None within a recursion.

    - ``read``: the block that it reads. ``net``: the net of its feed.
    - ``changed``: the block of the changes of its windows. ``output`` is its net.
    - ``forms``: the forms of the columns that it stores.
    """

    kind = pipeline.TOP
    register_words = scratch_words = batch_words = 0
    state_words = kernels.TOP_STATE_WORDS

    def __init__(
        self, stage: Top, number: int | None, read: Block, net: Block, changed: Block, output: Block,
        forms: Sequence[int], part: Part,
    ) -> None:  # fmt: skip
        self.stage, self.number, self.part, self.output, self.root = stage, number, part, output, net.root
        self._read, self._net, self._changed, self._forms = read, net, changed, forms

    @property
    def fixed_words(self) -> int:
        """Returns how many words of the memory it takes regardless of the number of tuples."""
        return int(kernels.fixed_words(len(self._forms), self.stage.trees.k))

    @property
    def words_per_tuple(self) -> int:
        """Returns how many words of the memory it takes for each tuple of its root."""
        return int(kernels.words_per_tuple(len(self._forms)))

    def max_rows(self, options: DeltaOptions) -> int:
        """Returns how many rows of a batch, at most, the call can apply. The steps sort larger ones first."""
        trees = self.stage.trees
        if self.number is None:
            return maxsize
        return trees.sorted_from(trees.count) - 1

    def prepare(self, rows: list[int], state: memoryview) -> int:
        """Prepares batches whose roots have these numbers of ``rows``, and writes the state.

        Sets the maximum number of rows of its own root. Returns how many rows are netted.
        """
        at = self.state_at
        for word, array in ((kernels.OS_ARENA, self.part.arena), (kernels.OS_PATH, self.stage.trees.path)):
            state[at + word], state[at + word + 1] = address_of(array)
        room = state[at + kernels.OS_ROOM] = kernels.ROWS_PER_CHANGE * rows[self.root]
        rows[self._changed.root] = room
        return 0

    def plan_words(self, plan: Plan) -> Sequence[int]:
        """Returns its words in a plan. Adds to the plan what they point to."""
        stage, trees, words = self.stage.stage, self.stage.trees, [0] * kernels.TOP_WORDS
        rows = -1 if self.number is None else self.output.number
        plan.add_head(words, self.state_at, kernels.OS_ARENA, rows, [self._read.number])
        words[kernels.O_TABLE], words[kernels.O_NET] = trees.table, self._net.number
        words[kernels.O_OUTPUT] = self._changed.number
        words[kernels.O_WIDTH], words[kernels.O_FORMS_AT] = len(self._forms), plan.add(self._forms)
        words[kernels.O_KEY_COUNT], words[kernels.O_KEYS_AT] = trees.k, plan.add(trees.keyed(1)[: trees.k])
        words[kernels.O_COLUMN_COUNT], words[kernels.O_ORDER_AT] = len(trees.spec) // 4, plan.add(trees.spec)
        words[kernels.O_SHAPE_AT] = plan.add(trees.shape)
        words[kernels.O_OFFSET], words[kernels.O_END] = stage.offset, stage.offset + stage.limit
        return words
