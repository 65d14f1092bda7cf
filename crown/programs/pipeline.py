"""Programs whose batch is one native call: a relation, conditions on its columns, and groups.

The call is ``crown.programs.kernels.pipeline.run``. It takes a record batch that is what its relation is declared as;
any other batch goes the way of other programs, and so does the rest of a batch for which the call comes back early.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from crown.ingest.batch import Gated, PreparedBatch
from crown.ingest.changes import Unscanned
from crown.ingest.given import Scan
from crown.programs.kernels import pipeline as kernels
from crown.programs.preparer import BatchPreparer
from crown.programs.runtime import ProgramRuntime
from crown.stages.groups.batch import Batch, Operator
from crown.stages.groups.group import Groups
from crown.stages.kernels import group_batch
from crown.stages.kernels.prefetch import AHEAD
from crown.stages.protocol import Part
from crown.stages.state.memory import OWN_PARTS
from crown.store.codec import uses_dictionary
from crown.store.memory import numbers
from crown.store.records import Records
from crown.store.zset import SECRET, Zset

_KEPT = 1 << 18  # words of memory that stay from batch to batch
_LEAST_GROUPS = 1 << 12  # for which there is room; for more only if the batch before had so many
_SMALL = 64  # rows of a message for which there is room before they are counted


class Pipeline:
    """Runs the batches of a relation that a group stage alone reads, with rows of so many columns (``width``).

    ``gate``: the table of the base tables that counts its tuples, and whether no count falls below 0; None if they are
    not counted. ``nets``: one of both takes nets. ``parts``: of the base tables, and of the stage. ``records`` makes
    the messages.
    """

    def __init__(
        self, stage: Groups, parts: tuple[Part, Part], width: int, gate: tuple[int, bool] | None, nets: bool,
        records: Records,
    ) -> None:  # fmt: skip
        self._base, self._part = parts
        self._stage = stage
        self._records = records
        self._gate, self._clamps = (0, False) if gate is None else gate
        self._nets = nets
        self._width = width
        self._scan: Scan | None = None
        self._plan = np.empty(0, np.int64)
        self._each = self._group = self._fixed = 0
        self._exported = np.zeros(Scan.EXPORTED, np.int64)
        self._address = self._exported.ctypes.data
        self._state = np.zeros(kernels.RUN, np.int64)
        self._words = numbers(self._state)
        self._memory, self._slots = np.empty(0, np.int64), np.empty(0, np.int32)
        self._message = _NO_MESSAGE
        self._small = 0

    @classmethod
    def of(cls, running: ProgramRuntime, preparer: BatchPreparer, records: Records) -> Pipeline | None:
        """Returns what runs the batches of a program in one call; None if they take more."""
        (table, *others), (stage, *more) = running.plan.tables, running.stages
        if others or more or not isinstance(stage, Groups) or stage.operator() is None or running.reads_clock:
            return None
        name = table.name.lower()
        wire, base = running.wires[name], running.base_tables
        interned = any(uses_dictionary(column.type) for column in wire.columns)
        if interned or not wire.columns or not base.counts_alone(name) or not preparer.selects_exactly(name):
            return None
        parts = running.memory.part(1), running.memory.part(OWN_PARTS)
        return cls(stage, parts, len(wire.columns), base.gate(name), not wire.may_repeat, records)

    def takes(self) -> bool:
        """Returns True if the call takes the stage as it is."""
        return not self._stage.holds_far

    def open(self, given: Unscanned) -> None:
        """Makes room for a batch, and exports it. Nothing of the state changes."""
        n = given.batch.num_rows
        if given.scan is not self._scan:
            self._planned(given.scan)
        room = self._words[kernels.R_ROOM] = min(n + 1, max(_LEAST_GROUPS, 2 * self._words[group_batch.S_GROUPS]))
        words = self._each * (n + 1) + self._group * room + self._fixed
        if len(self._memory) < words:
            self._memory = np.empty(words, np.int64)
        if self._nets and len(self._slots) < 4 * n + 8:
            self._slots = np.empty(4 * n + 8, np.int32)
        self._message = _message(self._small)
        given.batch._export_to_c(self._address)

    def run(self, wanted: bool) -> int:
        """Applies the batch; returns ``DONE``, or where it stopped. Raises UnusableStateError if an arena is full."""
        if self._gate and not self._base.budget.fixed:
            self._base.budget.allow(self._base.number)
        return self._called(self._address, wanted)

    def _called(self, address: int, wanted: bool) -> int:
        """Calls the kernel, ``address`` 0 for the message alone. Raises UnusableStateError."""
        found = 0

        def work() -> bool:
            nonlocal found
            dictionary, octets = self._part.dictionary.memory
            found = kernels.run(
                address, wanted, self._plan, self._texts, dictionary, octets, self._base.arena, self._part.arena,
                self._memory, self._state, self._slots, *self._message,
            )  # fmt: skip
            return True

        self._part.insist(work)
        return int(found)

    def _planned(self, scan: Scan) -> None:
        """Writes the plan of runs whose batches are scanned in this way."""
        self._scan, self._texts = scan, scan.texts
        operator = self._operator()
        template, columns, row = self._records.native() or (np.empty(0, np.int64), np.empty(0, np.int64), 0)
        head = np.zeros(kernels.PLAN, np.int64)
        pieces, at = [head], len(head)
        identity = np.arange(max(self._width, len(operator.keys), 1), dtype=np.int64)
        for word, piece in (
            (kernels.P_SCAN, scan.plan),
            (kernels.P_GROUP, operator.plan),
            (kernels.P_KEYS, operator.keys),
            (kernels.P_FORMS, operator.forms),
            (kernels.P_SUMS, operator.sums),
            (kernels.P_NO_SUMS, np.zeros(1, np.int64)),
            (kernels.P_IDENTITY, identity),
            (kernels.P_TEMPLATE, template),
            (kernels.P_COLUMNS, columns),
        ):
            head[word] = at
            pieces.append(piece)
            at += len(piece)
        head[kernels.P_MOST], head[kernels.P_WIDTH] = scan.most, self._width
        head[kernels.P_NETS], head[kernels.P_SECRET] = self._nets, SECRET
        head[kernels.P_GATE], head[kernels.P_CLAMPS] = self._gate, self._clamps
        head[kernels.P_TABLE], head[kernels.P_SCRATCH] = operator.table, operator.scratch
        head[kernels.P_HEAD], head[kernels.P_LAST], head[kernels.P_ROW] = len(template), len(columns), row
        self._plan = np.concatenate(pieces)
        sums, out = operator.plan[group_batch.P_SUMS], operator.plan[group_batch.P_COLUMNS]
        self._each, self._group = 2 * (2 + self._width) + 4, int(2 * sums + 2 * (out + 1))
        self._fixed = operator.scratch + self._width + AHEAD + len(operator.keys)
        self._small = len(template) + _SMALL * row + 2 * int(out) if len(template) else 0

    # What a run has made
    # ------------------------------------------------------------------------------------------------------------------

    def noted(self, given: PreparedBatch, name: str) -> PreparedBatch:
        """Returns a batch with how many of its rows nothing reads, and how many changes the others are."""
        dropped = given.rows - self._words[kernels.R_ROWS]
        counted = {name: self._words[kernels.R_EVENTS]}
        return replace(given, filtered={name: dropped} if dropped else {}, counted=counted)

    def net(self) -> Zset:
        """Returns the changes that the gate was given, and the group stage, if all deletes found their rows."""
        n, width = self._words[kernels.R_EVENTS], self._width
        codes = self._region(kernels.R_CODES, n * width).reshape(width, n)
        return Zset(codes.T, self._region(kernels.R_WEIGHTS, n), nulls=bool(self._words[kernels.R_NULLS]))

    def gated(self) -> Gated:
        """Returns how far the gate got."""
        return Gated(self._words[kernels.R_GATED], self._region(kernels.R_BEFORE, self._words[kernels.R_EVENTS]))

    def resumed(self, net: Zset, asked: int) -> Zset:
        """Goes on with the group stage; returns what changes. Raises as ``Groups.apply`` does."""
        return self._stage.finished(self._started(net), 1, group_batch.DONE if asked == kernels.STUCK else asked)

    def _started(self, net: Zset) -> Batch:
        """Returns the batch of the group stage, as far as it got."""
        n = len(net.weights)
        room = self._words[kernels.R_ROOM]
        sums, out = (int(self._operator().plan[at]) for at in (group_batch.P_SUMS, group_batch.P_COLUMNS))
        batch = self._stage.entered(net)
        batch.state = self._state[: group_batch.S_END].copy()
        batch.where, batch.handles = self._region(kernels.R_WHERE, n), self._region(kernels.R_HANDLES, max(n, 1))
        batch.rows = self._region(kernels.R_SUMS, 2 * room * sums)
        batch.out = self._region(kernels.R_OUT, 2 * room * (out + 1))
        return batch

    def delivered(self) -> Iterator[pa.RecordBatch]:
        """Yields the deltas of a batch that is done."""
        needed = self._words[kernels.R_NEEDED]
        if needed > len(self._message[0]):
            self._message = _message(needed)
            self._called(0, True)
        if needed:
            yield self._records.read(self._message[0])
        elif self._words[group_batch.S_DELTAS]:
            yield from self._records.batches(self._changed())

    def _changed(self) -> Zset:
        """Returns the deltas whose message was not written."""
        m, columns = self._words[group_batch.S_DELTAS], len(self._stage.columns)
        found = self._region(kernels.R_OUT, (columns + 1) * m).reshape(columns + 1, m)
        return Zset.of_columns(found[:columns], found[columns])

    def _operator(self) -> Operator:
        found = self._stage.operator()
        assert found is not None, "else there is no pipeline"
        return found

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
