"""Programs whose batch is one native call: relations, conditions on their columns, and groups or a join.

The call is ``crown.programs.kernels.pipeline.run``. It takes record batches that are what their relations are declared
as; any other batch goes the way of other programs, and so does the rest of a batch for which the call comes back early.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from crown.ingest.batch import PreparedBatch
from crown.ingest.changes import Unscanned
from crown.ingest.kernels.scan import EXPORTED
from crown.programs.kernels import pipeline as kernels
from crown.programs.kernels import sources as of
from crown.programs.kernels import tree
from crown.programs.pipelines.sources import Source, Take
from crown.programs.wanted import Wanted
from crown.stages.kernels.groups import batch as group_batch
from crown.stages.protocol import Part
from crown.store.memory import numbers
from crown.store.records import Records
from crown.store.zset import SECRET, Zset

_KEPT = 1 << 18  # words of memory that stay from batch to batch
_SMALL = 64  # rows of a message for which there is room before they are counted
NOTHING, NO_HALVES = np.empty(0, np.int64), np.empty(0, np.int32)
Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""The arena of the first stage, that as half words, that of the last one, and the plan, scratch and buffer of a join
core."""


class Pipeline:
    """Runs the batches of a program whose first stage reads ``sources`` alone; ``stored``: what a join stores of them.

    ``base``: the part of the base tables; ``parts``: of the stages. ``records`` makes the messages.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        stored: Sequence[Take],
        base: Part,
        parts: Sequence[Part],
        records: Records | None,
    ) -> None:
        self.sources, self.stored = sources, stored
        self._base, self._part = base, parts[-1]
        self._records = records
        self._place = {source.name: number for number, source in enumerate(sources)}
        gated = any(source.counted for source in sources)
        self._before = [*([base] if gated else []), *parts[:-1]]  # what takes memory before the last stage
        self._each = [source.each for source in sources]
        for take in stored:
            self._each[take.source] += take.each
        self._plan, self._texts, self._fixed = np.empty(0, np.int64), np.empty(0, np.uint8), 0
        self._exported = np.zeros(EXPORTED * len(sources), np.int64)
        self._address = self._exported.ctypes.data
        self._taken = kernels.R_SOURCE0 + of.READ * len(sources)  # where what is taken has its words
        self._state = np.zeros(self._taken + tree.TAKEN * len(stored), np.int64)
        self._words = numbers(self._state)
        self._memory, self._slots = np.empty(0, np.int64), np.empty(0, np.int32)
        self._message = _NO_MESSAGE
        self._small = 0
        self._netted = 0  # rows that a join nets, at most
        self._arrays: Arrays = parts[0].arena, NO_HALVES, parts[-1].arena, NOTHING, NOTHING, NOTHING

    # A batch
    # ------------------------------------------------------------------------------------------------------------------

    @abstractmethod
    def most(self, wanted: Wanted) -> int:
        """Returns how many rows of a batch, at most, the call takes with the stage as it is, for what is ``wanted``."""

    @abstractmethod
    def _begin(self, rows: int) -> int:
        """Makes the stage ready for a batch of so many rows, of which nothing of its state changes, and says which are
        its ``_arrays``; returns the words of memory that it needs."""

    def open(self, given: Sequence[Unscanned]) -> None:
        """Makes room for a batch, and exports it. Nothing of the state changes."""
        rows, words, most = 0, self._fixed, 0
        for one in given:
            number, n = self._place[one.name], one.batch.num_rows
            if one.scan is not self.sources[number].scan:
                self.sources[number].scan = one.scan
                self._plan = NOTHING
            rows += n
            most = max(most, n)
            words += self._each[number] * n
        if not len(self._plan):
            self._planned()
            words += self._fixed
        words += self._begin(rows)
        if len(self._memory) < words:
            self._memory = np.empty(words, np.int64)
        slots = 4 * max(most, self._netted) + 8
        if len(self._slots) < slots:
            self._slots = np.empty(slots, np.int32)
        self._message = _message(self._small)
        for one in given:
            one.batch._export_to_c(self._address + 8 * EXPORTED * self._place[one.name])

    def run(self, wanted: Wanted) -> int:
        """Applies the batch; returns ``DONE``, or where it stopped. Raises UnusableStateError if an arena is full."""
        if not self._base.budget.fixed:
            for part in self._before:
                part.budget.allow(part.number)
        return self._called(self._address, wanted.deltas)

    def _called(self, address: int, wanted: bool) -> int:
        """Calls the kernel, ``address`` 0 for the message alone. Raises UnusableStateError."""
        found = 0

        def work() -> bool:
            nonlocal found
            dictionary, octets = self._part.dictionary.memory
            arena, halves, groups, core, scratch, out = self._arrays
            found = kernels.run(
                address, wanted, self._plan, self._texts, dictionary, octets, self._base.arena, arena, halves, groups,
                core, self._memory, self._state, scratch, out, self._slots, *self._message,
            )  # fmt: skip
            return True

        self._part.insist(work)
        return int(found)

    @abstractmethod
    def _operator(self, head: np.ndarray) -> tuple[list[tuple[int, np.ndarray]], int]:
        """Writes the words of the stage to the ``head`` of a plan; returns pieces of the plan with the words that get
        their places, and the words of scratch."""

    def _planned(self) -> None:
        """Writes the plan of runs whose batches are scanned as the sources say."""
        head = np.zeros(kernels.PLAN, np.int64)
        pieces, at = [head], len(head)
        wanted, scratch = self._operator(head)
        native = None if self._records is None else self._records.native()
        template, columns, row = native or (NOTHING, NOTHING, 0)
        wanted += [(kernels.P_TEMPLATE, template), (kernels.P_COLUMNS, columns)]
        wanted += [(kernels.P_IDENTITY, np.arange(max([1, *(source.width for source in self.sources)])))]
        for word, piece in wanted:
            head[word] = at
            pieces.append(piece)
            at += len(piece)
        head[kernels.P_SOURCES], head[kernels.P_SOURCE0] = len(self.sources), at
        head[kernels.P_SECRET], head[kernels.P_FIXED] = SECRET, scratch
        head[kernels.P_HEAD], head[kernels.P_LAST], head[kernels.P_ROW] = len(template), len(columns), row
        head[kernels.P_TAKES], head[kernels.P_TAKE0] = len(self.stored), at + of.SOURCE * len(self.sources)
        described, lists, texts = list[int](), list[np.ndarray](), b""
        at += of.SOURCE * len(self.sources) + tree.TAKE * len(self.stored)
        for source in self.sources:
            words, own = source.words(at, len(texts))
            described += words
            lists.append(own)
            at += len(own)
            texts += source.texts
        for take in self.stored:
            words, own = take.words(at)
            described += words
            lists.append(own)
            at += len(own)
        self._plan = np.concatenate([*pieces, np.array(described, np.int64), *lists])
        self._texts = np.frombuffer(texts or b"\0", np.uint8)
        self._fixed = scratch + sum(source.fixed for source in self.sources)
        self._small = len(template) + _SMALL * row + 2 * (len(columns) // 3) if len(template) else 0

    # What a run has made
    # ------------------------------------------------------------------------------------------------------------------

    def noted(self, given: PreparedBatch) -> PreparedBatch:
        """Returns a batch with how many of its rows nothing reads, and how many changes the others are."""
        filtered, counted, words = dict[str, int](), dict[str, int](), self._words
        for one in given.unscanned:
            at = kernels.R_SOURCE0 + of.READ * self._place[one.name]
            counted[one.name] = words[at + of.R_EVENTS]
            if dropped := words[at + of.R_GIVEN] - words[at + of.R_ROWS]:
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
        self._hand_over(nets, asked)
        return replace(given, nets=nets, passed=True)

    @abstractmethod
    def _hand_over(self, nets: dict[str, Zset], asked: int) -> None:
        """Has the stage go on, when it is next applied, where the call has stopped."""

    def delivered(self) -> list[pa.RecordBatch]:
        """Returns the deltas of a batch that is done."""
        needed = self._words[kernels.R_NEEDED]
        if not needed:
            if not self._words[group_batch.S_DELTAS]:
                return []
            assert self._records is not None, "else its rows are left to others"
            return list(self._records.batches(self._without_message()))
        if needed > len(self._message[0]):
            self._message = _message(needed)
            self._called(0, True)
        assert self._records is not None, "there is a message"
        return [self._records.read(self._message[0])]

    @abstractmethod
    def _without_message(self) -> Zset:
        """Returns the rows of which no message was written."""

    def _region(self, word: int, words: int) -> np.ndarray:
        at = self._words[word]
        return self._memory[at : at + words].copy()

    def close(self) -> None:
        """Gives back the memory of a batch, but for what a small one needs."""
        self._message = _NO_MESSAGE
        if len(self._memory) > _KEPT:
            self._memory, self._slots = np.empty(0, np.int64), np.empty(0, np.int32)


def _message(words: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns room for a message, as words and as bytes."""
    made = np.empty(words, np.int64)
    return made, made.view(np.uint8)


_NO_MESSAGE = _message(0)
