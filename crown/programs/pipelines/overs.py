"""Window functions in a native call."""

from __future__ import annotations

from collections.abc import Sequence

from crown.programs.delta_options import DeltaOptions
from crown.programs.kernels import overs as kernels
from crown.programs.kernels import pipeline
from crown.programs.kernels.tops import OS_ROOM
from crown.programs.pipelines.plan import Block, Plan
from crown.programs.pipelines.tops import OrderedOperator
from crown.stages.kernels.frames.plan import ROOM
from crown.stages.over.native import NativeOver
from crown.stages.over.stage import Over
from crown.stages.protocol import Part

_ROWS_PER_CHANGE = 8  # there is room for so many; for more if the batch before needed more
_MAX_ROWS = 1 << 19  # but not for more than these


class OverOperator(OrderedOperator):
    """A window stage. ``native``: its native form. For the other arguments see ``OrderedOperator``."""

    stage: Over
    kind = pipeline.OVER
    words_per_tuple = fixed_words = 0  # see ``batch_words``
    state_words = kernels.OVER_STATE_WORDS

    def __init__(
        self, stage: Over, native: NativeOver, number: int, read: Block, net: Block, changed: Block,
        forms: Sequence[int], part: Part,
    ) -> None:  # fmt: skip
        super().__init__(stage, number, read, net, changed, changed, forms, part)
        self._native, self.root, self.scratch_words = native, changed.root, native.scratch_words

    def max_rows(self, options: DeltaOptions) -> int:
        """Returns how many rows of a batch, at most, the call can apply: none, if the deltas are ranges."""
        return 0 if options.ranged is not None else super().max_rows(options)

    def begin(self, state: memoryview) -> bool:
        """Begins a batch. Returns True if the last one needed more rows than there is room for."""
        room = state[self.state_at + OS_ROOM]
        return min(state[self.state_at + kernels.WS_ROWS], _MAX_ROWS) > room

    def prepare(self, rows: list[int], state: memoryview) -> int:
        """Prepares batches whose roots have these numbers of ``rows``, and writes the state.

        Sets the maximum number of rows of its own root. Returns how many rows are netted.
        """
        native, n, columns = self._native, rows[self._net.root], len(self._forms)
        size, some = int(self.stage.trees.shape[1]), len(native.functions)
        room = max(_ROWS_PER_CHANGE * n, min(2 * state[self.state_at + kernels.WS_ROWS], _MAX_ROWS))
        self._set_room(room, rows, state)
        width = self.stage.trees.width
        words = int(kernels.fixed_words(width, columns, self.stage.trees.k, size, some, int(native.frames[ROOM])))
        words += n * int(kernels.words_per_tuple(width, size, some))
        self.batch_words = words + room * int(kernels.words_per_row(columns))
        return room

    def plan_words(self, plan: Plan) -> Sequence[int]:
        """Returns its words in a plan. Adds to the plan what they point to."""
        native, words = self._native, [0] * kernels.OVER_WORDS
        self._ordered_words(plan, words)
        words[kernels.W_COLUMNS], words[kernels.W_SHOWN] = len(self._forms), native.shown
        words[kernels.W_SESSION_AT] = plan.add(self.stage.trees.session)
        words[kernels.W_RUNNING], words[kernels.W_FRAMES_AT] = int(native.unfolds), plan.add(native.frames)
        words[kernels.W_PICK_COUNT], words[kernels.W_PICKS_AT] = len(native.picks), plan.add(native.picks)
        words[kernels.W_OUTPUTS_AT] = plan.add(native.outputs)
        words[kernels.W_FILTER_COUNT], words[kernels.W_FILTERS_AT] = len(native.filters), plan.add(native.filters)
        words[kernels.W_FUNCTION_COUNT] = len(native.functions)
        words[kernels.W_FUNCTIONS_AT], words[kernels.W_ADDENDS_AT] = (
            plan.add(native.functions),
            plan.add(native.addends),
        )
        words[kernels.W_PEER_COLUMNS], words[kernels.W_NEEDS_PEERS] = native.peer_columns, int(native.needs_peers)
        words[kernels.W_PEERS_AT] = plan.add(native.peers)
        words[kernels.W_APART], words[kernels.W_NETS] = int(native.apart), int(native.nets)
        return words
