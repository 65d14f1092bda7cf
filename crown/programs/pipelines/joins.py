"""Join operators of a native call, and their inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from crown.engine.kernels import publish
from crown.engine.progress import PADDING, BatchProgress
from crown.kernels.memory import arena as A
from crown.programs.delta_options import ALL_DELTAS, DeltaOptions
from crown.programs.kernels import join_inputs, pipeline
from crown.programs.kernels import joins as kernels
from crown.programs.kernels.blocks import B_TUPLES, BLOCK_WORDS
from crown.programs.pipelines.feeds import FeedOperator
from crown.programs.pipelines.plan import Block, Plan, StatefulOperator, forms_of_types
from crown.stages.joins.core import Join
from crown.stages.protocol import Part
from crown.store.memory import address_of

_MIN_ROWS = 1 << 10  # rows of a join that a stage reads: room for fewer is not made


class JoinInputOperator:
    """The delta of a stored relation of a join: the tuples that ``feed`` makes of ``source``, a relation or a stage.

    - ``record``: the record descriptor of the stored relation.
    - ``nets``: True if the tuples are netted.
    - ``looks_up``: True if deletes of the relation are looked up in this join.
    - ``key_columns``: the columns that must not be NULL. ``drops_nulls``: tuples with a NULL in one of them are left
      out.
    - ``counters``: two words of the arena per alias, which count tuples, and tuples that were left out.
    - ``summed_only``: only sums of the tuples are stored.
    - ``mask_column``: None, or the column of the source that says which occurrences read a tuple. It is the last one of
      the feed. ``occurrences``: those of the aliases.

    ``state_at`` and ``join_state_at``: the first words in the state of this input and of its join.
    """

    kind = pipeline.JOIN_INPUT
    register_words = 0

    def __init__(
        self, feed: FeedOperator, source: str | int, record: int, nets: bool, looks_up: bool,
        key_columns: Sequence[int], counters: Sequence[int], summed_only: bool, drops_nulls: bool,
        mask_column: int | None, occurrences: Sequence[int],
    ) -> None:  # fmt: skip
        self.feed, self.source, self.looks_up = feed, source, looks_up
        self.root = feed.root
        self._key_columns, self._counters = key_columns, counters
        self._record, self._nets, self._summed_only, self._drops_nulls = record, nets, summed_only, drops_nulls
        self._mask_column, self._occurrences = mask_column, occurrences
        self.state_at = self.join_state_at = 0

    @property
    def words_per_tuple(self) -> int:
        """Returns how many words of the memory a tuple takes, besides those of its feed."""
        return int(join_inputs.words_per_tuple(len(self.feed.native_feed.columns), self._mask_column is not None))

    @property
    def fixed_words(self) -> int:
        """Returns how many more words of the memory are needed."""
        return len(self.feed.native_feed.columns)

    def plan_words(self, plan: Plan) -> Sequence[int]:
        """Returns its words in a plan. Adds to the plan what they point to."""
        words = [0] * join_inputs.JOIN_INPUT_WORDS
        words[join_inputs.I_FEED_AT], words[join_inputs.I_RECORD] = plan.offsets[self.feed], self._record
        words[join_inputs.I_STATE], words[join_inputs.I_JOIN_STATE] = self.state_at, self.join_state_at
        words[join_inputs.I_NETS], words[join_inputs.I_LOOKS_UP] = self._nets, self.looks_up
        words[join_inputs.I_KEY_COUNT] = len(self._key_columns)
        words[join_inputs.I_KEYS_AT] = plan.add(self._key_columns)
        words[join_inputs.I_ALIAS_COUNT] = len(self._counters) // 2
        words[join_inputs.I_ALIASES_AT] = plan.add(self._counters)
        words[join_inputs.I_SUMMED], words[join_inputs.I_DROPS_NULLS] = self._summed_only, self._drops_nulls
        words[join_inputs.I_WIDTH] = len(self.feed.native_feed.columns) - (self._mask_column is not None)
        words[join_inputs.I_MASK_COLUMN] = -1 if self._mask_column is None else self._mask_column
        words[join_inputs.I_OCCURRENCES_AT] = plan.add(self._occurrences)
        return words


class JoinOperator(StatefulOperator):
    """Join ``stage``, which has number ``number``, or None within a recursion.

    - ``inputs``: the deltas of its stored relations.
    - ``rows``: the block of the rows in its buffer.
    - ``output``: the block of the rows of the stage, unless it ``delivers`` them.
    - ``delivers``: True if its rows are the output of the call.
    - ``has_feed``: True if the next operator is a feed that makes the output.
    - ``nets``: True if the rows are netted before they are delivered.
    """

    kind = pipeline.JOIN
    register_words = 0
    batch_words = 0  # words of the memory that a batch takes, besides those of its blocks

    def __init__(
        self, stage: Join, number: int | None, inputs: Sequence[JoinInputOperator], rows: Block, part: Part,
        delivers: bool,
    ) -> None:  # fmt: skip
        self.stage = stage
        (self._core,) = stage.cores
        self.inputs, self.number, self.part, self.rows, self.output = inputs, number, part, rows, rows
        self.root = rows.root
        self.delivers, self.has_feed = delivers, False
        self._propagation = self._core.propagation
        self._output_columns, self._columns = self._core.head.places, self._core.head.reads
        self._bag = not stage.stage.plan.consolidated
        self.nets = self._bag and self._output_columns is not None
        self._forms = _forms_of(stage)
        payload = self._core.state.compiled.payload
        self._weight_words = 0 if payload is None else payload.result.words
        nodes = [stored.stored.aliases[0].node for stored in stage.stored]
        self._turns = {sign: list(self._propagation.turns(nodes, sign)) for sign in (-1, 1)}
        self._buffer: np.ndarray | None = None

    @property
    def state_words(self) -> int:
        """Returns how many words of the state it takes."""
        return int(kernels.JOIN_STATE_WORDS + join_inputs.JOIN_INPUT_STATE_WORDS * len(self.inputs))

    def place(self, state_at: int) -> None:
        """Sets where its words in the state are."""
        self.state_at = state_at
        for number, join_input in enumerate(self.inputs):
            first = state_at + kernels.JOIN_STATE_WORDS
            join_input.state_at = first + join_inputs.JOIN_INPUT_STATE_WORDS * number
            join_input.join_state_at = state_at

    def max_rows(self, options: DeltaOptions) -> int:
        """Returns how many rows of a batch, at most, the call can apply in the current state of the core."""
        options = options if self.delivers else ALL_DELTAS
        live = options.deltas and not options.factorized and self._core.state.header[A.H_LIVE_ON]
        raw = self._bag and options.consolidate is False and self.delivers
        return self._propagation.loads - 1 if live and not raw else 0

    @property
    def scratch_words(self) -> int:
        """Returns how many words of scratch are needed."""
        if not self.delivers:
            return 0
        return self._propagation.buffers.out.shape[1] * (
            1 if self._output_columns is None or not self.nets else 3 + len(self._output_columns)
        )

    @property
    def width(self) -> int:
        """Returns how many columns the delivered rows have."""
        return 0 if self._output_columns is None else len(self._output_columns)

    @property
    def words_per_tuple(self) -> int:
        """Returns how many words of the memory a row takes that a stage reads."""
        return 0 if self.delivers else len(self._columns) + self.rows.weight_words

    @property
    def fixed_words(self) -> int:
        """Returns how many more words of the memory are needed if a stage reads the rows."""
        return 0 if self.delivers else 2 * len(self._columns)

    def begin(self, state: memoryview) -> bool:
        """Begins a batch. Changes nothing in the core. Returns True if the core has another buffer than before."""
        self._propagation.make_ready()
        return self._propagation.buffers.out is not self._buffer

    def prepare(self, rows: list[int], state: memoryview) -> int:
        """Prepares batches whose roots have these numbers of ``rows``, and writes the state.

        Sets the maximum number of rows of its own root. Returns how many rows may be netted.
        """
        start, buffer = self.state_at, self._propagation.buffers.out
        buffer_rows = buffer.shape[1]
        if buffer is not self._buffer:  # the state keeps the arrays from batch to batch
            state[start + kernels.JS_BUFFER_ROWS] = buffer_rows
            for word, array in (*self._arrays.items(), (kernels.JS_BUFFER, buffer)):
                state[start + word], state[start + word + 1] = address_of(array)
            self._buffer = buffer  # last: an interrupt may raise before any line
        if self.delivers:
            return buffer_rows if self.nets else 0
        changes = sum([rows[root] for root in self._roots])
        if self.number is None:  # in a recursion, whose rounds all keep their rows
            rows[self.rows.root] = state[start + kernels.JS_MAX_ROWS] = min(buffer_rows, max(_MIN_ROWS // 2, changes))
            return 0
        rows[self.rows.root] = state[start + kernels.JS_MAX_ROWS] = min(buffer_rows, max(_MIN_ROWS, 4 * changes))
        return 0

    @cached_property
    def _roots(self) -> Sequence[int]:
        return sorted({one.root for one in self.inputs})

    @property
    def _arrays(self) -> Mapping[int, np.ndarray]:
        state = self._core.state
        scratch = self._propagation.scratch
        return {kernels.JS_ARENA: state.arena, kernels.JS_PLAN: state.plan_array, kernels.JS_SCRATCH: scratch}

    def plan_words(self, plan: Plan) -> Sequence[int]:
        """Returns its words in a plan. Adds to the plan what they point to."""
        words = [0] * kernels.JOIN_WORDS
        rows = -1 if self.delivers or self.number is None else self.output.number
        plan.add_head(words, self.state_at, kernels.JS_ARENA, rows, None)
        words[kernels.J_WEIGHT_WORDS] = self._weight_words
        words[kernels.J_TURNS_AT] = plan.add([*self._turns[-1], *self._turns[1]])
        words[kernels.J_INPUT_COUNT] = len(self.inputs)
        words[kernels.J_INPUTS_AT] = plan.add([plan.offsets[one] for one in self.inputs])
        visits = list(self._visits(plan))
        words[kernels.J_VISIT_COUNT] = len(visits)
        words[kernels.J_VISITS_AT] = plan.add([word for visit in visits for word in visit])
        if not self.delivers:
            columns = zip(self._columns, self._forms, strict=True)
            words[kernels.J_COLUMN_COUNT] = len(self._columns)
            words[kernels.J_COLUMNS_AT] = plan.add([word for read, form in columns for word in (*read, form)])
            words[kernels.J_BLOCK] = self.rows.number
            words[kernels.J_HAS_FEED] = self.has_feed
            return words
        words[kernels.J_DELIVERS] = 1
        if self._output_columns is not None and self.nets:
            words[kernels.J_NETS], words[kernels.J_OUTPUT_WIDTH] = 1, len(self._output_columns)
            words[kernels.J_OUTPUT_AT] = plan.add(self._output_columns)
        return words

    def _visits(self, plan: Plan) -> Iterator[tuple[int, ...]]:
        """Yields the words of the visits to groups that may be padded."""
        paddings = self._propagation.paddings
        for join_input, stored in zip(self.inputs, self.stage.stored, strict=True):
            input_at, aliases = plan.offsets[join_input], stored.stored.aliases
            before, after = paddings.before_insertions(aliases), paddings.after_insertions(aliases)
            yield from ((-1, input_at, 1, node, lookup, bit) for bit, node, lookup in before)
            yield from ((1, input_at, sign, node, lookup, 0) for sign, node, lookup in after)

    def hand_over(self, memory: np.ndarray, state: Sequence[int], status: int) -> None:
        """Lets the core continue where the call has stopped with ``status``."""
        start = self.state_at
        stopped = None
        if status == kernels.JOIN_STOPPED:
            stopped = state[start + kernels.JS_SIGN], state[start + kernels.JS_TURN]
        number, progress = 0, BatchProgress(state[start + kernels.JS_DELETED_ROWS])
        if stopped == (publish.PUBLISHING, 0):
            progress.stopped_at, progress.status = stopped, state[start + kernels.JS_STATUS]
        elif stopped is not None and stopped[1] == len(self.inputs):
            progress.stopped_at, progress.status = (stopped[0], PADDING), state[start + kernels.JS_STATUS]
        for position, join_input in enumerate(self.inputs):
            delta = join_input.state_at
            if not state[pipeline.R_BLOCKS + BLOCK_WORDS * join_input.feed.input + B_TUPLES]:
                continue  # the relation has no changes
            tuples, deletes = state[delta + join_inputs.IS_TUPLES], state[delta + join_inputs.IS_DELETED]
            for sign, count in ((-1, deletes), (1, tuples - deletes)):
                turn = sign, self._turns[sign].index(position)
                progress.applied[sign].append(count if stopped is None or turn < stopped else 0)
                if turn == stopped:
                    progress.stopped_at, progress.status = (sign, number), state[start + kernels.JS_STATUS]
            missing = memory[state[delta + join_inputs.IS_MISSING] :][:deletes].copy()
            if missing.any() or progress.stopped_at == (-1, number):
                progress.missing[number] = missing
            number += 1
        self._propagation.resume(progress)


def _forms_of(stage: Join) -> list[int]:
    """Returns the forms of the columns that a call reads from the buffer of a join."""
    plan, head = stage.cores[0].state.plan, stage.cores[0].head
    types = [column.type for column in stage.columns]
    if head.native_feed is not None:
        types = [plan.attributes[name].type for name in plan.free]
    return forms_of_types(types)
