"""Runs the batches of a program in one native call (``crown.programs.kernels.pipeline.run``).

    sources -> operators that read only relations -> gate -> the other operators -> message

The call takes record batches of the declared types. All other batches, and the rest of a batch for which the call
stops early, are applied step by step by ``crown.programs.runtime``. Stages without a native form, and the stages that
read them, are applied after the call; they read the nets of the stages in it.

All operators have these attributes:

    kind               the kind of the operator in the plan
    root               the number of the root of its block (``Block``)
    register_words     words that its expressions need for their registers
    fixed_words        words of the memory that it takes in each batch
    words_per_tuple    words of the memory that it takes for each tuple of its root
    plan_words         returns its words in the plan

Operators that are roots of blocks also have:

    prepare            prepares batches of some rows at most, and sets the maximum number of rows of the root
    batch_words        words of the memory that such a batch takes, besides those above

Operators with state also have:

    stage, number      the stage, and its number in the program; None within a recursion
    part               the part of the memory with its arena
    output             the block of the rows of the stage
    scratch_words      words of scratch
    state_words        words of the state
    place              sets where in the state these begin, ``state_at``
    max_rows           returns how many rows of a batch the call can apply
    begin              begins a batch; returns True if it must be prepared again, even with the rows of earlier batches
    hand_over          lets the stage continue where the call has stopped within it
"""

from __future__ import annotations

from collections.abc import Container, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import mul
from sys import maxsize
from typing import Any

import numpy as np
import pyarrow as pa

from crown.expressions.kernels.decimals import SCRATCH
from crown.ingest.batch import PreparedBatch
from crown.ingest.changes import Unscanned
from crown.ingest.kernels.scan import EXPORTED, RELEASE
from crown.ingest.tables.given import Scan
from crown.programs.delta_options import DeltaOptions
from crown.programs.kernels import pipeline as kernels
from crown.programs.kernels.blocks import (
    B_COPIES_BEFORE,
    B_GIVEN_ROWS,
    B_OTHER_CELLS,
    B_READ_ROWS,
    B_TUPLES,
    B_WEIGHT_SUM,
    BLOCK_WORDS,
)
from crown.programs.pipelines.feeds import FeedOperator, NetOperator, UnionOperator
from crown.programs.pipelines.groups import GroupsOperator
from crown.programs.pipelines.joins import JoinInputOperator, JoinOperator
from crown.programs.pipelines.overs import OverOperator
from crown.programs.pipelines.plan import Blocks, Plan
from crown.programs.pipelines.pointwise import PointwiseOperator
from crown.programs.pipelines.rounds import BeginRounds, CountDerived, EndRound
from crown.programs.pipelines.sources import Source
from crown.programs.pipelines.tops import TopOperator
from crown.programs.tallies import Tallies
from crown.stages.kernels.groups.heaps import VALUE_KEY
from crown.stages.protocol import Part
from crown.store.memory import numbers
from crown.store.records import Records
from crown.store.zset import SECRET, Zset
from plans.expressions.expr import Expr
from plans.schema import Column

_KEPT_WORDS = 1 << 20  # words of memory that stay from batch to batch
_ROWS_OF_ROOM = 1 << 8  # there is room for a multiple of so many rows, so that the next batch fits, too
_SMALL_MESSAGE_ROWS = 64  # there is room for a message of so many rows before they are counted
# After so many batches with mostly new texts, the next batches take steps, which test texts before they store them.
_MAX_UNKNOWN_BATCHES = 3
_PAUSED_BATCHES = 100
_MAX_PLANS = 8  # of batches with other columns, or in another order, which are kept
_NO_WORDS = np.empty(0, np.int64)

Calls = Generator[tuple[Any, ...], int, int]
"""Yields the arguments of calls of the kernel, each of which the caller makes, and receives the status. Returns the
last one."""

Stateful = JoinOperator | GroupsOperator | PointwiseOperator | CountDerived | EndRound | TopOperator | OverOperator
Operator = FeedOperator | NetOperator | UnionOperator | JoinInputOperator | BeginRounds | Stateful


@dataclass(frozen=True)
class _Written:
    """A plan: its words, int64[n], and the bytes of its texts.

    ``lookups``: by the word of the memory that receives the address of the table. ``small_message_words``: the words of
    a message of few rows.
    """

    words: np.ndarray
    texts: np.ndarray
    lookups: Mapping[int, Expr]
    small_message_words: int


class Pipeline:
    """Runs the batches of a program.

    - ``sources``: its relations.
    - ``before_gate``: the operators that read only relations. ``after_gate``: the others. Each follows those that it
      reads.
    - ``blocks``: the blocks of relations and stages.
    - ``base``: the part of the memory with the base tables.
    - ``records``: makes the messages; None if the call has no output.
    - ``output``: the value of ``kernels.P_OUTPUT``; the output has ``output_width`` columns.
    - ``excluded``: the numbers of the stages that are applied after the call.
    - ``columns``: the columns of each stage.
    - ``read_stages``: the stages whose rows are read after the call.
    - ``linear``: the blocks of the linear stages, by number.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        before_gate: Sequence[Operator],
        after_gate: Sequence[Operator],
        blocks: Blocks,
        base: Part,
        records: Records | None,
        output: int,
        output_width: int,
        excluded: frozenset[int],
        columns: Sequence[Sequence[Column]],
        read_stages: Container[str | int],
    ) -> None:
        self.sources, self.excluded = sources, excluded
        self._stage_blocks = {number: block for number, block in blocks.by_source.items() if isinstance(number, int)}
        self._columns, self._read_stages = columns, read_stages
        self._before_gate, self._operators = len(before_gate), [*before_gate, *after_gate]
        self._stateful = [one for one in after_gate if isinstance(one, Stateful)]
        stateful = {one.number for one in self._stateful if one.number is not None}
        self.linear = {number: block for number, block in self._stage_blocks.items() if number not in stateful}
        self._roots = [
            one for one in after_gate if isinstance(one, UnionOperator | BeginRounds | Stateful)
        ]  # each is the root of a block
        self._base, self._records = base, records
        self._output, self._output_width = output, output_width
        self._numbers = {source.name: number for number, source in enumerate(sources)}
        self._has_texts = any(source.text_columns for source in sources)
        has_gate = any(source.is_counted for source in sources)
        *earlier_parts, self._last_part = [base, *(one.part for one in self._stateful)]  # the last part grows last
        self._earlier_parts = earlier_parts if has_gate else earlier_parts[1:]
        self._words_per_row = [source.words_per_row for source in sources] + [0] * (blocks.root_count - len(sources))
        self._room = [0] * len(sources)  # rows of each source for which the operators are prepared
        self._fixed_words = sum(source.fixed_words for source in sources)
        for one in self._operators:
            self._words_per_row[one.root] += one.words_per_tuple
            self._fixed_words += one.fixed_words
        state_words = kernels.R_BLOCKS + BLOCK_WORDS * blocks.count
        for stage in self._stateful:
            stage.place(state_words)
            state_words += stage.state_words
        self._plan: _Written | None = None  # for the scans of the sources
        self._plans = dict[tuple[Scan | None, ...], _Written]()  # by these scans: batches take turns
        self._scratch_words = 0  # that each of the plans needs, at most
        self._exported = np.zeros(EXPORTED * len(sources), np.int64)
        self._address = self._exported.ctypes.data
        self._state_array = np.zeros(state_words, np.int64)
        self._state = numbers(self._state_array)
        self._memory, self._slots = _NO_WORDS, np.empty(0, np.int32)
        self._message = _NO_MESSAGE
        self._unknown_batches = self._paused_batches = 0

    # A batch
    # ------------------------------------------------------------------------------------------------------------------

    def max_rows(self, options: DeltaOptions) -> int:
        """Returns how many rows of a batch, at most, the call can apply in the current state of the stages."""
        if self._paused_batches:
            self._paused_batches -= 1
            return 0
        rows = maxsize
        for stage in self._stateful:
            rows = min(rows, stage.max_rows(options))
        return rows

    def open(self, batches: Sequence[Unscanned]) -> None:
        """Makes room for a batch, and exports its record batches. Changes no state of the program."""
        room, enough = self._room, True
        for batch in batches:
            number = self._numbers[batch.name]
            if batch.batch.num_rows > room[number]:
                enough = False
            if batch.scan is not self.sources[number].scan:
                self._plan = None  # first: an interrupt may raise before any line
                self.sources[number].scan = batch.scan
        if self._plan is None:
            self._plan = self._plans.get(tuple(source.scan for source in self.sources))
        for stage in self._stateful:
            if stage.begin(self._state):
                enough = False
        if not enough or self._plan is None:
            self._make_room(batches)
        assert self._plan is not None, "there is a plan for the scans of the batch"
        self._message = _message(self._plan.small_message_words)
        for batch in batches:
            batch.batch._export_to_c(self._address + 8 * EXPORTED * self._numbers[batch.name])

    def _make_room(self, batches: Sequence[Unscanned]) -> None:
        """Prepares the operators for batches with as many rows as this one and the earlier ones."""
        room, self._room = self._room, [0] * len(self._room)  # until all is ready: an interrupt may raise at any line
        if self._plan is None:
            self._plan = self._write_plan()
        for batch in batches:
            number = self._numbers[batch.name]
            room[number] = max(room[number], -(-batch.batch.num_rows // _ROWS_OF_ROOM) * _ROWS_OF_ROOM)
        words_per_row = self._words_per_row
        rows = room + [0] * (len(words_per_row) - len(room))
        netted_rows, words = 0, self._fixed_words + self._scratch_words
        for root in self._roots:
            netted_rows = max(netted_rows, root.prepare(rows, self._state))
            words += root.batch_words
        words += sum(map(mul, words_per_row, rows))
        netted_rows = max(netted_rows, *rows)
        if len(self._memory) < words:
            self._memory = np.empty(words, np.int64)
        slots = 8 * netted_rows + 8
        if len(self._slots) < slots:
            self._slots = np.empty(slots, np.int32)
        self._room = room

    def withdraw(self, batches: Sequence[Unscanned]) -> None:
        """Takes back the exported record batches that no call has read. The next call would read them."""
        for batch in batches:
            at = EXPORTED * self._numbers[batch.name]
            if self._exported[at + RELEASE]:
                pa.RecordBatch._import_from_c(self._address + 8 * at, batch.batch.schema)

    def run(self, options: DeltaOptions, batches: Sequence[Unscanned]) -> int:
        """Applies the batch. Returns ``DONE``, or why the call stopped. See ``calls``."""
        return made(self.calls(options, batches))

    def calls(self, options: DeltaOptions, batches: Sequence[Unscanned]) -> Calls:
        """Applies the batch by calls that the caller makes: yields their arguments. Returns what ``run`` returns.
        Raises UnusableStateError if an arena is full.

        If a call stops for unknown texts before the gate, nothing has changed yet: the texts are looked up, and the
        batch is applied again.
        """
        budget, dictionary = self._base.budget, self._base.dictionary
        while True:
            if not budget.fixed:
                for part in self._earlier_parts:
                    budget.allow(part.number)
                if self._has_texts:
                    budget.allow(dictionary.part)
            with dictionary.lock:
                try:
                    status = yield self._arguments(self._address, options.deltas)
                except MemoryError as error:
                    raise self._last_part.overflow(error) from error
                if status != kernels.UNKNOWN_TEXT or not self._has_texts:
                    return status
                gate_passed = self._state[kernels.R_OPERATOR] >= self._before_gate
                try:
                    new_texts = dictionary.learn()
                except Exception:  # the steps raise it again, and can undo the batch
                    return status if gate_passed else kernels.NOT_SCANNED
            if gate_passed:
                return status
            if self._state[kernels.R_OPERATOR] < 0 and 2 * new_texts > sum(one.batch.num_rows for one in batches):
                self._unknown_batches += 1
                if self._unknown_batches >= _MAX_UNKNOWN_BATCHES:
                    self._paused_batches = _PAUSED_BATCHES
            self.open(batches)

    def _arguments(self, address: int, deltas: bool) -> tuple[Any, ...]:
        """Returns the arguments of a call. ``address``: of the exported batches, or 0 to write only the message."""
        plan, budget = self._plan, self._base.budget
        assert plan is not None, "a batch is open"
        if not budget.fixed:
            budget.allow(self._last_part.number)
        dictionary, octets = self._base.dictionary.memory
        for place, expr in plan.lookups.items():
            self._memory[place] = self._base.dictionary.lookup(expr).address
        return (
            address, deltas, plan.words, plan.texts, dictionary, octets, self._base.arena, self._memory,
            self._state_array, self._slots, *self._message,
        )  # fmt: skip

    def _write_plan(self) -> _Written:
        """Returns the plan for the current scans of the sources, and keeps it."""
        plan = Plan()
        head = plan.words
        message = None if self._records is None else self._records.native()
        template, columns, row = message or (_NO_WORDS, _NO_WORDS, 0)
        head[kernels.P_TEMPLATE_AT], head[kernels.P_COLUMNS_AT] = plan.add(template), plan.add(columns)
        head[kernels.P_TEMPLATE_WORDS], head[kernels.P_COLUMNS_WORDS] = len(template), len(columns)
        head[kernels.P_ROW_WORDS] = row
        head[kernels.P_OUTPUT_WIDTH], head[kernels.P_OUTPUT] = self._output_width, self._output
        key_counts = [one.key_count for one in self._stateful if isinstance(one, GroupsOperator)]
        widths = [source.width for source in self.sources]
        head[kernels.P_IDENTITY_AT] = plan.add(np.arange(max([VALUE_KEY, *widths, *key_counts])))
        head[kernels.P_SECRET] = SECRET
        head[kernels.P_SOURCE_COUNT] = len(self.sources)
        head[kernels.P_SOURCES_AT] = plan.add([word for source in self.sources for word in source.plan_words(plan)])
        head[kernels.P_OPERATOR_COUNT], head[kernels.P_BEFORE_GATE] = len(self._operators), self._before_gate
        operators = [(one.kind, plan.add_part(one)) for one in self._operators]
        head[kernels.P_OPERATORS_AT] = plan.add([word for pair in operators for word in pair])
        conditions = [source.condition for source in self.sources if source.condition is not None]
        words = max([0, *(stage.scratch_words for stage in self._stateful)])
        head[kernels.P_EXPRESSIONS] = words
        head[kernels.P_TEXT_CODES] = words = (
            words + SCRATCH + max([0, *(one.register_words for one in [*conditions, *self._operators])])
        )
        words += plan.text_count
        head[kernels.P_BLOCKS] = words
        self._scratch_words = max(self._scratch_words, words)
        lookups = {int(head[kernels.P_TEXT_CODES]) + number: expr for number, expr in plan.lookups.items()}
        small = len(template) + _SMALL_MESSAGE_ROWS * row + 2 * (len(columns) // 3)
        written = _Written(*plan.build(), lookups, small if len(template) else 0)
        if len(self._plans) >= _MAX_PLANS:
            self._plans.clear()
        self._plans[tuple(source.scan for source in self.sources)] = written
        return written

    # Results of a call
    # ------------------------------------------------------------------------------------------------------------------

    def note_counts(self, batch: PreparedBatch) -> None:
        """Notes in a batch, per relation, how many rows no stage reads, and how many changes the others are."""
        filtered, counted, state = dict[str, int](), dict[str, int](), self._state
        for unscanned in batch.unscanned:
            block = kernels.R_BLOCKS + BLOCK_WORDS * self._numbers[unscanned.name]
            counted[unscanned.name] = state[block + B_TUPLES]
            if dropped := state[block + B_GIVEN_ROWS] - state[block + B_OTHER_CELLS] - state[block + B_READ_ROWS]:
                filtered[unscanned.name] = dropped
        batch.filtered, batch.counted = filtered, counted

    def nets(self) -> dict[str, Zset]:
        """Returns the net of each relation that has rows in the batch."""
        nets = {}
        for number, source in enumerate(self.sources):
            block = kernels.R_BLOCKS + BLOCK_WORDS * number
            if self._state[block + B_GIVEN_ROWS]:
                nets[source.name] = source.net(self._memory, self._state, block)
        return nets

    def hand_over(self, batch: PreparedBatch, status: int) -> PreparedBatch:
        """Returns the batch with the results of the call, for the steps that continue it.

        The steps continue after the call, or where it has stopped with ``status``. ``note_counts`` must come first.
        """
        nets, operator = self.nets(), self._state[kernels.R_OPERATOR]
        if status == kernels.STAGES_FOLLOW:
            rows = {number: self._zset(number, number in self._read_stages) for number in self._stage_blocks}
            return replace(batch, nets=nets, passed=True, made=rows)
        not_begun = status in (kernels.NULL_KEY, kernels.NO_CODE) and operator < self._before_gate
        if status == kernels.STOPPED_AT_GATE or not_begun:
            counted_parts = {
                source.name: source.counted_part(self._memory, self._state, kernels.R_BLOCKS + BLOCK_WORDS * number)
                for number, source in enumerate(self.sources)
                if source.is_counted
                and source.name in nets
                and self._state[kernels.R_BLOCKS + BLOCK_WORDS * number + B_COPIES_BEFORE]
            }
            return replace(batch, nets=nets, counted_parts=counted_parts)
        done, stopped = self._operators[:operator], self._operators[operator]
        rows = {
            one.number: self._zset(one.number) for one in done if isinstance(one, Stateful) and one.number is not None
        }
        if isinstance(stopped, JoinOperator | GroupsOperator | PointwiseOperator):
            stopped.hand_over(self._memory, self._state, status)
        for number, begin in enumerate(done):
            if isinstance(begin, BeginRounds) and begin.end not in done:
                begin.end.hand_over(self._memory, self._state, operator - number - 1, self._base.dictionary)
        return replace(batch, nets=nets, passed=True, made=rows)

    def _zset(self, number: int, read: bool = True) -> Zset:
        """Returns the rows of a stage. If they are not ``read``, they have no columns, and are only counted."""
        columns = self._columns[number] if read else ()
        return self._stage_blocks[number].zset(columns, self._memory, self._state, self._base.dictionary)

    def update_row_counts(self, tallies: Tallies) -> None:
        """Adds the rows of a finished batch to the row counts of the linear stages."""
        for number, block in self.linear.items():
            count = tallies.known(number)
            if count is not None:
                tallies.set(number, count + self._state[kernels.R_BLOCKS + BLOCK_WORDS * block.number + B_WEIGHT_SUM])

    def deltas(self) -> list[pa.RecordBatch]:
        """Returns the deltas of a finished batch."""
        message_words = self._state[kernels.R_MESSAGE_WORDS]
        if not message_words:
            n, start, width = (
                self._state[kernels.R_OUTPUT_ROWS],
                self._state[kernels.R_OUTPUT_START],
                self._output_width,
            )
            if not n:
                return []
            assert self._records is not None, "only a call with an output has rows"
            assert start >= 0, "rows in the buffer of a join always become a message"
            stride = self._state[kernels.R_OUTPUT_STRIDE]
            rows = self._memory[start : start + (width + 1) * stride].reshape(width + 1, stride)[:, :n].copy()
            return list(self._records.batches(Zset.of_columns(rows[:width], rows[width])))
        if message_words > len(self._message[0]):
            self._message = _message(message_words)
            kernels.run(*self._arguments(0, True))
        assert self._records is not None, "there is a message"
        return [self._records.read(self._message[0])]

    def close(self) -> None:
        """Frees the memory of a batch, except what a small batch needs."""
        self._message = _NO_MESSAGE
        if len(self._memory) > _KEPT_WORDS:
            self._room = [0] * len(self._room)  # first: an interrupt may raise before any line
            self._memory, self._slots = _NO_WORDS, np.empty(0, np.int32)


def made(calls: Calls) -> int:
    """Makes calls, one after the other. Returns what ``calls`` returns."""
    try:
        arguments = next(calls)
        while True:
            try:
                status = kernels.run(*arguments)
            except BaseException as error:
                arguments = calls.throw(error)
            else:
                arguments = calls.send(status)
    except StopIteration as end:
        return int(end.value)


def _message(words: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns room for a message, as words and as bytes."""
    room = np.empty(words, np.int64)
    return room, room.view(np.uint8)


_NO_MESSAGE = _message(0)
