"""Programs whose batch is one native call: relations, what is computed of them, a join, and groups.

    sources -> feeds -> join core -> feed -> groups -> message

The call is ``crown.programs.kernels.pipeline.run``. It takes record batches that are what their relations are declared
as; any other batch goes the way of other programs, and so does the rest of a batch for which the call comes back early.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from crown.programs.kernels import tree
from crown.programs.pipelines.feeds import BlockFeed
from crown.programs.pipelines.groups import Grouping
from crown.programs.pipelines.joins import Arrays, Joining
from crown.programs.pipelines.plan import Plan
from crown.programs.pipelines.sources import Source
from crown.programs.tallies import Tallies
from crown.programs.wanted import ALL, Wanted
from crown.stages.kernels.groups import batch as group_batch
from crown.stages.protocol import Part
from crown.store.memory import numbers
from crown.store.records import Records
from crown.store.zset import SECRET, Zset

_KEPT = 1 << 18  # words of memory that stay from batch to batch
_SMALL = 64  # rows of a message for which there is room before they are counted
_LEAST_ROWS = 1 << 10  # of a join that groups read, for which there is room; for more only if the batch has many
_NOTHING, _NO_HALVES = np.empty(0, np.int64), np.empty(0, np.int32)


class Pipeline:
    """Runs the batches of a program: ``feeds`` make blocks of ``sources``, and of other blocks; then come a join, a
    last feed (``after``) that reads its rows, and groups, as far as there are such.

    ``linear``: the stages that some feeds are, by the number of the block. ``base``: the part of the base tables;
    ``parts``: of the stages. ``records`` makes the messages, None if the rows of a join are left to others.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        feeds: Sequence[BlockFeed],
        linear: dict[int, int],
        joining: Joining | None,
        after: BlockFeed | None,
        grouping: Grouping | None,
        base: Part,
        parts: Sequence[Part],
        records: Records | None,
    ) -> None:
        self.sources, self._feeds, self.linear = sources, feeds, linear
        self._joining, self._after, self._grouping = joining, after, grouping
        self._base, self._part = base, parts[-1]
        self._records = records
        self._place = {source.name: number for number, source in enumerate(sources)}
        self._codes = any(source.coded for source in sources)
        gated = any(source.counted for source in sources)
        self._before = [*([base] if gated else []), *parts[:-1]]  # what takes memory before the last stage
        self._each = [source.each for source in sources]
        takes = [] if joining is None else joining.stored
        for feed, each in [*((feed, feed.each) for feed in feeds), *((take.feed, take.each) for take in takes)]:
            assert feed.source is not None, "it is made of a relation"
            self._each[feed.source] += each
        self._fixed = sum([user.fixed for users in (sources, feeds, takes) for user in users])
        self._each_joined = 0  # words of the memory for each row of a join that groups read
        if joining is not None and grouping is not None:
            self._each_joined = joining.each + (0 if after is None else after.each)
            self._fixed += joining.fixed + (0 if after is None else after.fixed)
        self._plan, self._texts, self._scratch = _NOTHING, np.empty(0, np.uint8), 0
        self._exported = np.zeros(EXPORTED * len(sources), np.int64)
        self._address = self._exported.ctypes.data
        self._rows = len(sources) + len(feeds)  # the block of the rows of a join
        self._taken = kernels.R_SOURCE0 + of.READ * (self._rows + 2)  # where what is taken has its words
        self._state = np.zeros(self._taken + tree.TAKEN * len(takes), np.int64)
        self._words = numbers(self._state)
        self._memory, self._octets, self._slots = _NOTHING, _NOTHING.view(np.uint8), np.empty(0, np.int32)
        self._message = _NO_MESSAGE
        self._small = 0
        self._arrays: Arrays = parts[0].arena, _NO_HALVES, _NOTHING, _NOTHING, _NOTHING

    # A batch
    # ------------------------------------------------------------------------------------------------------------------

    def most(self, wanted: Wanted) -> int:
        """Returns how many rows of a batch, at most, the call takes with the stages as they are, for what is
        ``wanted``."""
        if self._grouping is not None:
            if self._grouping.stage.holds_far:
                return 0
            wanted = ALL  # the groups read all deltas of the join
        return maxsize if self._joining is None else self._joining.most(wanted)

    def open(self, given: Sequence[Unscanned]) -> None:
        """Makes room for a batch, and exports it. Nothing of the state changes."""
        rows, words, most = 0, self._fixed, 0
        for one in given:
            number, n = self._place[one.name], one.batch.num_rows
            if one.scan is not self.sources[number].scan:
                self.sources[number].scan = one.scan
                self._plan = _NOTHING
            rows += n
            most = max(most, n)
            words += self._each[number] * n
        if not len(self._plan):
            self._planned()
        words += self._scratch
        joining, grouping = self._joining, self._grouping
        if joining is not None:
            self._arrays, room = joining.begin()
            if grouping is None:
                most = max(most, room if joining.nets else 0)
            else:
                rows = self._words[kernels.R_MOST] = min(room, max(_LEAST_ROWS, 4 * rows))
                words += self._each_joined * rows
        if grouping is not None:
            words += grouping.make_room(rows, self._words)
        if len(self._memory) < words:
            self._memory = np.empty(words, np.int64)
            self._octets = self._memory.view(np.uint8)
        slots = 4 * most + 8
        if len(self._slots) < slots:
            self._slots = np.empty(slots, np.int32)
        self._message = _message(self._small)
        for one in given:
            one.batch._export_to_c(self._address + 8 * EXPORTED * self._place[one.name])

    def run(self, wanted: Wanted) -> int:
        """Applies the batch; returns ``DONE``, or where it stopped. Raises UnusableStateError if an arena is full."""
        budget = self._base.budget
        if not budget.whole.fixed:
            for part in self._before:
                budget.allow(part.number)
            if self._codes:
                budget.allow(0)
        if not self._codes:
            return self._called(self._address, wanted.deltas)
        with self._part.dictionary.lock:
            return self._called(self._address, wanted.deltas)

    def _called(self, address: int, wanted: bool) -> int:
        """Calls the kernel, ``address`` 0 for the message alone. Raises UnusableStateError."""
        found = 0

        def work() -> bool:
            nonlocal found
            dictionary, octets = self._part.dictionary.memory
            arena, halves, core, scratch, out = self._arrays
            found = kernels.run(
                address, wanted, self._plan, self._texts, dictionary, octets, self._base.arena, arena, halves,
                self._part.arena, core, self._memory, self._octets, self._state, scratch, out,
                self._slots, *self._message,
            )  # fmt: skip
            return True

        self._part.run_until_done(work)
        return int(found)

    def _planned(self) -> None:
        """Writes the plan of runs whose batches are scanned as the sources say."""
        plan, after, delivers = Plan(), self._after, self._grouping is None
        head = plan.head
        native = None if self._records is None else self._records.native()
        template, columns, row = native or (_NOTHING, _NOTHING, 0)
        head[kernels.P_TEMPLATE], head[kernels.P_COLUMNS] = plan.add(template), plan.add(columns)
        head[kernels.P_HEAD], head[kernels.P_LAST], head[kernels.P_ROW] = len(template), len(columns), row
        head[kernels.P_IDENTITY] = plan.add(np.arange(max([1, *(source.width for source in self.sources)])))
        head[kernels.P_SECRET], head[kernels.P_TAKEN] = SECRET, self._taken
        head[kernels.P_SOURCES] = len(self.sources)
        head[kernels.P_SOURCE0] = plan.add([word for source in self.sources for word in source.words(plan)])
        head[kernels.P_FEEDS] = len(self._feeds)
        head[kernels.P_FEED0] = plan.add([word for feed in self._feeds for word in feed.words(plan)])
        head[kernels.P_ROWS] = self._rows
        head[kernels.P_AFTER] = 0 if after is None else plan.add(after.words(plan))
        scratch = 0
        if self._joining is not None:
            self._joining.write(plan, delivers)
            scratch = self._joining.scratch(delivers)
        if self._grouping is not None:
            self._grouping.write(plan)
            scratch = max(scratch, self._grouping.scratch)
        chosen = [source.chosen for source in self.sources if source.chosen is not None]
        users = [*chosen, *self._feeds, *([] if after is None else [after])]
        registers = [0 if self._grouping is None else self._grouping.registers, *(user.registers for user in users)]
        head[kernels.P_EVALUATION] = scratch
        head[kernels.P_CODES] = scratch = scratch + SCRATCH + max(registers)
        self._scratch = head[kernels.P_FIXED] = scratch + plan.named + (of.ENDS + of.TEXT_WORDS if self._codes else 0)
        self._plan, self._texts = plan.written()
        self._small = len(template) + _SMALL * row + 2 * (len(columns) // 3) if len(template) else 0

    # What a run has made
    # ------------------------------------------------------------------------------------------------------------------

    def noted(self, given: PreparedBatch) -> PreparedBatch:
        """Returns a batch with how many of its rows nothing reads, and how many changes the others are."""
        filtered, counted, words = dict[str, int](), dict[str, int](), self._words
        for one in given.unscanned:
            at = kernels.R_SOURCE0 + of.READ * self._place[one.name]
            counted[one.name] = words[at + of.R_EVENTS]
            if dropped := words[at + of.R_GIVEN] - words[at + of.R_OTHERS] - words[at + of.R_ROWS]:
                filtered[one.name] = dropped
        return replace(given, filtered=filtered, counted=counted)

    def nets(self) -> dict[str, Zset]:
        """Returns the net of each relation of which there were rows."""
        found = {}
        for number, source in enumerate(self.sources):
            at = kernels.R_SOURCE0 + of.READ * number
            if self._words[at + of.R_GIVEN]:
                found[source.name] = source.net(self._memory, self._words, at)
        return found

    def handed_over(self, given: PreparedBatch, asked: int) -> PreparedBatch:
        """Returns a batch that was ``noted`` for those who go on with it, from where the call has stopped."""
        nets = self.nets()
        if asked in (kernels.GATE, kernels.KEYS):
            gated = {
                source.name: source.gated(self._memory, self._words, kernels.R_SOURCE0 + of.READ * number)
                for number, source in enumerate(self.sources)
                if source.counted
                and source.name in nets
                and self._words[kernels.R_SOURCE0 + of.READ * number + of.R_BEFORE]
            }
            return replace(given, nets=nets, gated=gated)
        joining, grouping = self._joining, self._grouping
        if joining is None:
            assert grouping is not None, "there is a stage"
            grouping.hand_over(self._memory, self._words, asked)
        else:
            if grouping is not None and asked not in (kernels.LEFT, kernels.HELD):
                assert asked != kernels.STUCK, "a group without rows is not empty"
                grouping.abandon(self._memory, self._words)  # it begins anew, with the rows that lie in the buffer
            joining.hand_over(self._memory, self._words, self._taken, asked)
        return replace(given, nets=nets, passed=True)

    def tally(self, tallies: Tallies) -> None:
        """Notes how many rows the linear stages of a batch that is done have."""
        for block, number in self.linear.items():
            known = tallies.known(number)
            if known is not None:
                tallies.set(number, known + self._words[kernels.R_SOURCE0 + of.READ * block + of.R_SUM])

    def delivered(self) -> list[pa.RecordBatch]:
        """Returns the deltas of a batch that is done."""
        needed = self._words[kernels.R_NEEDED]
        if not needed:
            if not self._words[group_batch.S_DELTAS]:
                return []
            assert self._records is not None, "else its rows are left to others"
            assert self._grouping is not None, "rows that become no message are left in the buffer of a join"
            return list(self._records.batches(self._grouping.delivered(self._memory, self._words)))
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
