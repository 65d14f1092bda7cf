"""Programs whose batch is one native call: relations, and operators that read them, and each other.

    sources -> feeds -> base tables -> join cores, groups, counts, feeds, nets, unions -> message

The call is ``crown.programs.kernels.pipeline.run``. It takes record batches that are what their relations are declared
as; any other batch goes the way of other programs, and so does the rest of a batch for which the call comes back early.
Stages without a native form, and those that read them, are applied after the call. They get the nets of the others.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from sys import maxsize

import numpy as np
import pyarrow as pa

from crown.expressions.kernels.decimals import SCRATCH
from crown.ingest.batch import PreparedBatch
from crown.ingest.changes import Unscanned
from crown.ingest.kernels.scan import EXPORTED
from crown.programs.kernels import pipeline as kernels
from crown.programs.kernels import sources as of
from crown.programs.pipelines.blocks import Blocks
from crown.programs.pipelines.counts import Counting
from crown.programs.pipelines.feeds import BlockFeed, BlockNet, BlockUnion
from crown.programs.pipelines.groups import Grouping
from crown.programs.pipelines.joins import Joining, Take
from crown.programs.pipelines.plan import Plan
from crown.programs.pipelines.sources import Source
from crown.programs.tallies import Tallies
from crown.programs.wanted import Wanted
from crown.stages.protocol import Part
from crown.store.memory import numbers
from crown.store.records import Records
from crown.store.zset import SECRET, Zset
from plans.expressions.expr import Expr
from plans.schema import Column

_KEPT = 1 << 18  # words of memory that stay from batch to batch
_SMALL = 64  # rows of a message for which there is room before they are counted
_UNKNOWN = 3  # batches most of whose texts are new until steps take over, which test texts before they store them
_PAUSE = 100  # batches
_NOTHING = np.empty(0, np.int64)

Stateful = Joining | Grouping | Counting
Operator = BlockFeed | BlockNet | BlockUnion | Take | Stateful


class Pipeline:
    """Runs the batches of a program: its ``sources``, the operators that read these alone (``first``), and the others
    (``later``), each behind those that it reads.

    ``blocks``: those of relations and stages. ``base``: the part of the base tables. ``records`` makes the messages,
    None if the rows of a join are left to others. ``shown``: the number of the block whose rows are delivered, and what
    it is without one (see ``kernels.P_SHOWN``); they have ``width`` columns. ``left``: the stages that are applied
    after the call. ``columns``: those of each stage. ``read``: the stages whose rows are read after the call.
    ``linear``: the blocks of the linear stages, by their numbers.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        first: Sequence[Operator],
        later: Sequence[Operator],
        blocks: Blocks,
        base: Part,
        records: Records | None,
        shown: int,
        width: int,
        left: frozenset[int],
        columns: Sequence[Sequence[Column]],
        read: Container[str | int],
    ) -> None:
        self.sources, self.left = sources, left
        self._made = {number: block for number, block in blocks.of.items() if isinstance(number, int)}
        self._columns, self._read = columns, read
        self._first, self._operators = len(first), [*first, *later]
        self._stages = [one for one in later if isinstance(one, Stateful)]
        stateful = {one.number for one in self._stages}
        self.linear = {number: block for number, block in self._made.items() if number not in stateful}
        self._rooted = [one for one in later if isinstance(one, BlockUnion | Stateful)]  # each makes a root
        self._base, self._records = base, records
        self._shown, self._width = shown, width
        self._place = {source.name: number for number, source in enumerate(sources)}
        self._codes = any(source.coded for source in sources)
        gated = any(source.counted for source in sources)
        *before, self._part = [base, *(one.part for one in self._stages)]  # the last one takes memory last
        self._before = before if gated else before[1:]
        self._each = [*(source.each for source in sources), *[0] * (blocks.roots - len(sources))]
        self._fixed = sum(source.fixed for source in sources)
        for one in self._operators:
            self._each[one.root] += one.each
            self._fixed += one.fixed
        at = kernels.R_SOURCE0 + of.READ * blocks.count
        for stage in self._stages:
            stage.place(at)
            at += stage.state_words
        self._plan, self._texts, self._scratch = _NOTHING, np.empty(0, np.uint8), 0
        self._exported = np.zeros(EXPORTED * len(sources), np.int64)
        self._address = self._exported.ctypes.data
        self._state = np.zeros(at, np.int64)
        self._words = numbers(self._state)
        self._memory, self._octets, self._slots = _NOTHING, _NOTHING.view(np.uint8), np.empty(0, np.int32)
        self._message = _NO_MESSAGE
        self._small = 0
        self._lookups = dict[int, Expr]()  # by words of the memory, which has their addresses in a run
        self._unknown = self._pause = 0

    # A batch
    # ------------------------------------------------------------------------------------------------------------------

    def most(self, wanted: Wanted) -> int:
        """Returns how many rows of a batch, at most, the call takes with the stages as they are, for what is
        ``wanted``."""
        if self._pause:
            self._pause -= 1
            return 0
        found = maxsize
        for stage in self._stages:
            found = min(found, stage.most(wanted))
        return found

    def open(self, given: Sequence[Unscanned]) -> None:
        """Makes room for a batch, and exports it. Nothing of the state changes."""
        each = self._each
        rows = [0] * len(each)
        for one in given:
            number = self._place[one.name]
            rows[number] = one.batch.num_rows
            if one.scan is not self.sources[number].scan:
                self.sources[number].scan = one.scan
                self._plan = _NOTHING
        if not len(self._plan):
            self._planned()
        most, words = 0, self._fixed + self._scratch
        for rooted in self._rooted:
            most = max(most, rooted.begin(rows, self._words))
            words += rooted.room
        for number, n in enumerate(rows):
            words += each[number] * n
        most = max(most, *rows)
        if len(self._memory) < words:
            self._memory = np.empty(words, np.int64)
            self._octets = self._memory.view(np.uint8)
        slots = 4 * most + 8
        if len(self._slots) < slots:
            self._slots = np.empty(slots, np.int32)
        self._message = _message(self._small)
        for one in given:
            one.batch._export_to_c(self._address + 8 * EXPORTED * self._place[one.name])

    def run(self, wanted: Wanted, given: Sequence[Unscanned]) -> int:
        """Applies the batch; returns ``DONE``, or where it stopped. Raises UnusableStateError if an arena is full.

        A batch that has changed nothing yet is applied again when all of its texts are known.
        """
        budget, dictionary = self._base.budget, self._base.dictionary
        while True:
            if not budget.whole.fixed:
                for part in self._before:
                    budget.allow(part.number)
                if self._codes:
                    budget.allow(0)
            if not self._codes:
                return self._called(self._address, wanted.deltas)
            with dictionary.lock:
                asked = self._called(self._address, wanted.deltas)
                if asked != kernels.ASKED:
                    return asked
                later = self._words[kernels.R_STEP] >= self._first
                try:
                    new = dictionary.learn()
                except Exception:  # the steps raise it, where the batch can be taken back
                    return asked if later else kernels.BAD
            if later:
                return asked
            if self._words[kernels.R_STEP] < 0 and 2 * new > sum(one.batch.num_rows for one in given):
                self._unknown += 1
                if self._unknown >= _UNKNOWN:
                    self._pause = _PAUSE
            self.open(given)

    def _called(self, address: int, wanted: bool) -> int:
        """Calls the kernel, ``address`` 0 for the message alone. Raises UnusableStateError."""
        found = 0

        def work() -> bool:
            nonlocal found
            dictionary, octets = self._base.dictionary.memory
            for place, expr in self._lookups.items():
                self._memory[place] = self._base.dictionary.lookup(expr).address
            found = kernels.run(
                address, wanted, self._plan, self._texts, dictionary, octets, self._base.arena, self._memory,
                self._octets, self._state, self._slots, *self._message,
            )  # fmt: skip
            return True

        self._part.run_until_done(work)
        return int(found)

    def _planned(self) -> None:
        """Writes the plan of runs whose batches are scanned as the sources say."""
        plan = Plan()
        head = plan.head
        native = None if self._records is None else self._records.native()
        template, columns, row = native or (_NOTHING, _NOTHING, 0)
        head[kernels.P_TEMPLATE], head[kernels.P_COLUMNS] = plan.add(template), plan.add(columns)
        head[kernels.P_HEAD], head[kernels.P_LAST], head[kernels.P_ROW] = len(template), len(columns), row
        head[kernels.P_WIDTH], head[kernels.P_SHOWN] = self._width, self._shown
        keyed = [one.keys for one in self._stages if isinstance(one, Grouping)]
        head[kernels.P_IDENTITY] = plan.add(np.arange(max([1, *(source.width for source in self.sources), *keyed])))
        head[kernels.P_SECRET] = SECRET
        head[kernels.P_SOURCES] = len(self.sources)
        head[kernels.P_SOURCE0] = plan.add([word for source in self.sources for word in source.words(plan)])
        head[kernels.P_STEPS], head[kernels.P_FIRST] = len(self._operators), self._first
        head[kernels.P_STEP0] = plan.add([word for one in self._operators for word in (one.kind, plan.write(one))])
        chosen = [source.chosen for source in self.sources if source.chosen is not None]
        scratch = max([0, *(stage.scratch for stage in self._stages)])
        head[kernels.P_EVALUATION] = scratch
        head[kernels.P_CODES] = scratch = (
            scratch + SCRATCH + max([0, *(one.registers for one in [*chosen, *self._operators])])
        )
        self._scratch = head[kernels.P_FIXED] = scratch + plan.named + (of.ENDS + of.TEXT_WORDS if self._codes else 0)
        self._plan, self._texts = plan.written()
        self._lookups = {head[kernels.P_CODES] + number: expr for number, expr in plan.lookups.items()}
        self._small = len(template) + _SMALL * row + 2 * (len(columns) // 3) if len(template) else 0

    # What a run has made
    # ------------------------------------------------------------------------------------------------------------------

    def note(self, given: PreparedBatch) -> None:
        """Notes in a batch how many of its rows nothing reads, and how many changes the others are."""
        filtered, counted, words = dict[str, int](), dict[str, int](), self._words
        for one in given.unscanned:
            at = kernels.R_SOURCE0 + of.READ * self._place[one.name]
            counted[one.name] = words[at + of.R_EVENTS]
            if dropped := words[at + of.R_GIVEN] - words[at + of.R_OTHERS] - words[at + of.R_ROWS]:
                filtered[one.name] = dropped
        given.filtered, given.counted = filtered, counted

    def nets(self) -> dict[str, Zset]:
        """Returns the net of each relation of which there were rows."""
        found = {}
        for number, source in enumerate(self.sources):
            at = kernels.R_SOURCE0 + of.READ * number
            if self._words[at + of.R_GIVEN]:
                found[source.name] = source.net(self._memory, self._words, at)
        return found

    def handed_over(self, given: PreparedBatch, asked: int) -> PreparedBatch:
        """Returns a batch, as ``note`` leaves it, for those who go on with it: after the call, or from where it has
        stopped."""
        nets, step = self.nets(), self._words[kernels.R_STEP]
        if asked == kernels.SPLIT:
            made = {number: self._net(number, number in self._read) for number in self._made}
            return replace(given, nets=nets, passed=True, made=made)
        if asked == kernels.GATE or (asked == kernels.KEYS and step < self._first):
            gated = {
                source.name: source.gated(self._memory, self._words, kernels.R_SOURCE0 + of.READ * number)
                for number, source in enumerate(self.sources)
                if source.counted
                and source.name in nets
                and self._words[kernels.R_SOURCE0 + of.READ * number + of.R_BEFORE]
            }
            return replace(given, nets=nets, gated=gated)
        made = {one.number: self._net(one.number) for one in self._operators[:step] if isinstance(one, Stateful)}
        stopped = self._operators[step]
        if isinstance(stopped, Stateful):
            stopped.hand_over(self._memory, self._words, asked)
        return replace(given, nets=nets, passed=True, made=made)

    def _net(self, number: int, read: bool = True) -> Zset:
        """Returns the rows of a stage, without columns unless they are ``read``: then they are only counted."""
        columns = self._columns[number] if read else ()
        return self._made[number].net(columns, self._memory, self._words, self._base.dictionary)

    def tally(self, tallies: Tallies) -> None:
        """Notes how many rows the linear stages of a batch that is done have."""
        for number, block in self.linear.items():
            known = tallies.known(number)
            if known is not None:
                tallies.set(number, known + self._words[kernels.R_SOURCE0 + of.READ * block.number + of.R_SUM])

    def delivered(self) -> list[pa.RecordBatch]:
        """Returns the deltas of a batch that is done."""
        needed = self._words[kernels.R_NEEDED]
        if not needed:
            n, at, width = self._words[kernels.R_DELTAS], self._words[kernels.R_OUT], self._width
            if not n:
                return []
            assert self._records is not None, "else its rows are left to others"
            assert at >= 0, "rows that become no message are left in the buffer of a join"
            found = self._memory[at : at + (width + 1) * n].reshape(width + 1, n).copy()
            return list(self._records.batches(Zset.of_columns(found[:width], found[width])))
        if needed > len(self._message[0]):
            self._message = _message(needed)
            self._called(0, True)
        assert self._records is not None, "there is a message"
        return [self._records.read(self._message[0])]

    def close(self) -> None:
        """Gives back the memory of a batch, but for what a small one needs."""
        self._message = _NO_MESSAGE
        if len(self._memory) > _KEPT:
            self._memory, self._octets, self._slots = _NOTHING, _NOTHING.view(np.uint8), np.empty(0, np.int32)


def _message(words: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns room for a message, as words and as bytes."""
    made = np.empty(words, np.int64)
    return made, made.view(np.uint8)


_NO_MESSAGE = _message(0)
