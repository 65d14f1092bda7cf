"""The engine: one plan, one state, batches in, exact deltas out.

    changes -> Preparer -> RelationChange (codes) -> Propagation over the arena -> blocks of codes -> OutputHead ->
    record batches

A batch is a transaction over dictionary, bags, tree and support counts. Whatever stops it (a refusal, a budget, an
error while outputs are evaluated, Ctrl-C), the state is afterwards as before the batch. If it cannot be taken back, the
state is lost: ``H_OPEN`` stays set, and everything is refused. State is linear in the data, whatever the size of the
result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from weakref import ref

import numpy as np
import pyarrow as pa

from crown.engine import invariants
from crown.engine.delivery import Batches, Delivery, is_running
from crown.engine.head import Gathered, OutputHead, sliced
from crown.engine.kernels import enumerate as enumeration
from crown.engine.kernels import layout, state
from crown.engine.propagation import Propagation, buffer
from crown.engine.state import State
from crown.errors import (
    ConcurrentChangeError,
    CrownError,
    MemoryBudgetError,
    MissingDeleteError,
    UnusableStateError,
)
from crown.ingest.prepare import MissingDeletes, Prepared, Preparer, RelationChange
from crown.interrupts import Uninterrupted
from crown.kernels import arena as A
from crown.kernels.geometry import group_numbers, tallies_of
from crown.store.codec import decode, encode
from crown.store.dictionary import Dictionary, with_sweep
from crown.store.memory import ADDRESSABLE, MappedFile
from crown.store.relations import not_covering
from plans.plan import Plan

NOTHING = (np.empty(0, np.int64), np.empty(0, np.int64))
BUSY = "a batch is still being applied; exhaust or close the iterator of its deltas first"
LOST = (
    "A batch was stopped half-way and could not be taken back: the state is neither before nor after it. Load the last "
    "snapshot, or start anew"
)


class Engine(State):
    """Maintains one plan. Make one with ``create`` or ``attach``; not thread-safe.

    ``on_missing``: what a delete does that finds fewer copies than it removes: ``"ignore"`` removes what is there and
    counts the rest, ``"raise"`` refuses the whole batch.
    """

    def __init__(
        self,
        plan: Plan,
        arena: np.ndarray,
        file: MappedFile | None,
        on_missing: str,
        dictionary: Dictionary | None = None,
        words: int = ADDRESSABLE,
    ) -> None:
        super().__init__(plan, arena, file, on_missing, dictionary, words)
        self._preparer = Preparer(plan, self.dictionary.intern)
        self._head = OutputHead(plan, self.dictionary.intern, self.dictionary.extern)
        self._propagation = Propagation(self.arena, self._layout, self._bags, self.budget, len(plan.free))
        self._own_dictionary = dictionary is None
        self.uninterrupted = Uninterrupted()
        self.batches = 0  # applied by this object, or since its owner began to count
        self._batch: ref[Batches] | None = None  # being applied, while it is alive
        n = len(plan.nodes)
        self._tallies = [tallies_of(n, i) for i in range(n)]
        self.clamps = MissingDeletes()  # of the last batch applied
        if on_missing == "raise":
            not_covering(plan)

    @property
    def result_schema(self) -> pa.Schema:
        """Arrow schema of the result."""
        return self._head.schema

    @property
    def delta_schema(self) -> pa.Schema:
        """Arrow schema of the deltas: the result's and ``_weight``."""
        return self._head.delta_schema

    def prepare(self, changes: Mapping[str, Any], strict: bool = True) -> Prepared:
        """Check, code, filter and consolidate a batch.

        See ``Preparer.prepare``. Results and multiplicities stay as they are. Raises MemoryBudgetError if its values
        do not fit into the dictionary.
        """
        self.ready()
        if self.dictionary.overgrown:
            self.compact()
        try:
            return self._preparer.prepare(changes, strict)
        except MemoryBudgetError:
            return with_sweep(lambda: self._preparer.prepare(changes, strict), self.compact)

    def run(
        self,
        prepared: Prepared,
        *,
        deltas: bool = True,
        consolidate: bool | None = None,
        closing: Callable[[], None] | None = None,
    ) -> Delivery:
        """Apply a prepared batch; yields its exact deltas (output columns and ``_weight``).

        ``deltas=False`` updates the views only (cheaper; the live views are rebuilt when deltas are next asked for).
        ``consolidate``: leave out what a batch both adds and removes (default: where the plan needs it); this gathers
        the batch's deltas in memory, without it memory is bounded by one block. ``closing`` is called when all is
        done; if it raises, the batch is taken back. Until the iterator is exhausted or closed the engine takes nothing
        else, and the deltas that it yielded are void if it raises. Closed early, it applies the rest of the batch
        without output, and its ``close`` raises what stops that. O(changes * lambda + deltas).
        """
        self.ready()
        self.refuse_missing(prepared)
        if self.plan.support:  # the support counts live from the deltas
            deltas = consolidate = True
        if consolidate is None:
            consolidate = not self.plan.consolidated
        batch = self._deliver(prepared.changes, deltas, consolidate, closing)
        self._batch = ref(batch)
        return Delivery(batch, self.uninterrupted)

    def apply_discard(self, changes: Mapping[str, Any]) -> int:
        """Apply a batch, enumerate its deltas into the reused buffer and drop them; returns how many there were (not
        consolidated).

        For measuring the engine alone. Not for plans with support counts, whose deltas are not those of the
        enumeration.
        """
        if self.plan.support:
            raise CrownError("apply_discard is not defined for a query whose results are counted; use run")
        return self.discard(self.prepare(changes))

    def discard(self, prepared: Prepared) -> int:
        """The second half of ``apply_discard``."""
        self.ready()
        with self.uninterrupted:
            blocks = self._propagation.blocks(prepared.changes, layout.MODE_DELTAS)
            try:
                self._open(True)
                n = sum(block.shape[1] for _, block in blocks)
            except BaseException as error:
                self._roll_back(error)
                raise
            self._close(prepared.changes)
        return n

    def _deliver(
        self, changes: Sequence[RelationChange], deltas: bool, gather: bool, closing: Callable[[], None] | None
    ) -> Batches:
        """The batch as a transaction. What it yields first is empty: from then on closing it applies the batch."""
        gathered = Gathered(self._head.width)
        counting, wanted = self.plan.support, True
        blocks = self._propagation.blocks(changes, layout.MODE_DELTAS if deltas else layout.MODE_VIEWS)
        try:
            self._open(deltas)
            try:
                yield self._head.nothing
            except GeneratorExit:
                wanted = self._unwanted()
            for sign, block in blocks:
                if gather and (wanted or counting):
                    gathered.add(self._head.codes(block), sign)
                elif wanted:
                    columns, n = self._head.columns(block)
                    if n:
                        try:
                            yield self._head.batch(columns, np.full(n, sign, np.int64))
                        except GeneratorExit:
                            wanted = self._unwanted()
                self.uninterrupted.check()
            values, weights = gathered.net() if gather else NOTHING
            if counting:
                values, weights = self.support.add(values, weights)
            if wanted and len(weights):
                with suppress(GeneratorExit):
                    yield from sliced(self._head, values, weights)
            if closing is not None:
                closing()
            self._close(changes)
        except BaseException as error:
            self._roll_back(error)
            raise

    def _unwanted(self) -> bool:
        """The reader has left: the rest of the batch is applied without output, but for what is counted. False."""
        if not self.plan.support:
            self._propagation.hush()
        return False

    def _open(self, deltas: bool) -> None:
        """Begin a batch."""
        self.arena[A.H_OPEN] = 1
        if not deltas:
            self.arena[A.H_LIVE_ON] = 0
        elif not self.arena[A.H_LIVE_ON]:
            state.clear_live(self.arena, self._halves, self._plan_array)
            state.rebuild_live(self.arena, self._halves, self._plan_array, self._propagation.scratch)

    def _close(self, changes: Sequence[RelationChange]) -> None:
        """The batch stands, from the one word on that says so."""
        self.clamps = self._propagation.clamps
        self.arena[A.H_OPEN] = 0
        self._settle()
        self._tally(changes, self.clamps, 1)
        self.batches += 1

    def _roll_back(self, error: BaseException) -> None:
        """Take back what was applied of the batch that ``error`` stopped. UnusableStateError if that cannot be done."""
        if not self.arena[A.H_OPEN]:
            return  # it has not begun, or it stands
        try:
            self.support.take_back()
            self._propagation.take_back()
        except (UnusableStateError, MemoryBudgetError) as why:
            if isinstance(error, Exception):
                raise UnusableStateError(f"{error} ({why}). {LOST}") from error
            return  # Python is told to stop; what comes after is refused
        self.arena[A.H_OPEN] = 0
        if self._own_dictionary and self.budget.tight:
            super().compact()  # of values that only this batch had

    def _tally(self, changes: Sequence[RelationChange], clamps: MissingDeletes, sign: int) -> None:
        """Count what ``stats`` tells of the changes, per alias; ``sign`` -1 to take that back."""
        for number, change in enumerate(changes):
            missing = clamps.missing(number, len(change.deletes)) if clamps else None
            for bit, (alias, rejected) in enumerate(zip(change.source.aliases, change.filtered, strict=True)):
                tallies = self._tallies[alias.node]
                self.arena[tallies.updates] += sign * (change.deletes.readers(bit) + change.inserts.readers(bit))
                self.arena[tallies.filtered] += sign * rejected
                if missing is not None:
                    self.arena[tallies.missing] += sign * int(missing[change.deletes.read_by(bit)].sum())

    def undo(self, changes: Mapping[str, Any], clamps: MissingDeletes | None) -> None:
        """Take back the last batch, given what was applied and the clamps of that run. O(changes * lambda)."""
        self.ready()
        self.take_back(self._preparer.prepare(changes).changes, clamps or MissingDeletes())

    def take_back(
        self, changes: Sequence[RelationChange], clamps: MissingDeletes, wanted: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """``undo`` for changes that are prepared already; no budget stands in its way.

        Returns, if ``wanted``, the change of the output as codes: (int64[n * outputs] tuples, int64[n] weights).
        """
        inverse = [
            RelationChange(c.source, clamps.effective(i, c.deletes), c.inserts, c.filtered).inverse()
            for i, c in enumerate(changes)
        ]
        gathered = Gathered(self._head.width)
        with self.uninterrupted, self.budget.lifted():
            if wanted or self.plan.support:
                self._open(True)
                for sign, block in self._propagation.blocks(inverse, layout.MODE_DELTAS):
                    gathered.add(self._head.codes(block), sign)
            else:
                self.arena[A.H_OPEN] = 1
                self._propagation.apply_quietly(inverse)
            values, weights = gathered.net()
            if self.plan.support:
                values, weights = self.support.add(values, weights)
            self._settle()
            self._tally(changes, clamps, -1)
            self.arena[A.H_OPEN] = 0
        return values, weights

    def _settle(self) -> None:
        self.support.settle()
        self._propagation.settle()

    def refuse_missing(self, prepared: Prepared) -> None:
        """With ``on_missing="raise"``.

        MissingDeleteError if a delete of the batch would find too little. Changes nothing.
        """
        if self.on_missing != "raise":
            return
        for change in prepared.changes:
            rows, source, alias = change.deletes, change.source, change.source.aliases[0]
            if not len(rows):
                continue
            if alias.node in self._bags:
                at = self._bags[alias.node].missing_copies(alias.atom, rows.table(), rows.weights)
            else:
                record = self._layout.record[alias.node]
                at = int(
                    state.missing_copies(self.arena, self._halves, self._plan_array, record, rows.values, rows.weights)
                )
            if at >= 0:
                codes = rows.table()[at]
                values = {
                    source.columns[word]: decode(
                        codes[word : word + 1], self.plan.attributes[a].type, self.dictionary.extern
                    )[0].as_py()
                    for a, word in zip(alias.attributes, alias.words, strict=True)
                }
                raise MissingDeleteError(
                    f"relation {source.relation!r}: the batch deletes {int(rows.weights[at])} copies of {values}, "
                    "more than there are; "
                    'nothing was applied. Use on_missing="ignore" to clamp such deletes'
                )

    # Results
    # ------------------------------------------------------------------------------------------------------------

    def results(self) -> Iterator[pa.RecordBatch]:
        """The full result, in record batches of the output columns. O(1) per row; memory of one block.

        Raises ConcurrentChangeError when it is continued after a change of the engine.
        """
        self.ready()
        return self._scan_support() if self.plan.support else self._enumerate()

    def _enumerate(self) -> Iterator[pa.RecordBatch]:
        for block in self.blocks():
            columns, n = self._head.columns(block)
            if n:
                yield self._head.rows(columns, n)

    def blocks(self) -> Iterator[np.ndarray]:
        """The enumeration beneath ``results``: codes int64[free attributes, n] in one reused buffer."""
        if state.root_size(self.arena, self._halves) == 0:
            return
        scratch = layout.new_scratch(len(self.plan.nodes))
        out = buffer(len(self.plan.free))
        epoch = int(self.arena[A.H_EPOCH])
        enumeration.full_enum(self.arena, self._halves, self._plan_array, scratch)
        done = False
        while not done:
            self._unchanged(epoch)
            done = enumeration.enumerate_block(self.arena, self._halves, self._plan_array, scratch, out)
            yield out[:, : scratch[layout.X_FILL]]
            scratch[layout.X_FILL] = 0

    def _scan_support(self) -> Iterator[pa.RecordBatch]:
        out = buffer(self._head.width)
        epoch = int(self.arena[A.H_EPOCH])
        for n in self.support.scan(out):
            if n:
                columns = self._head.decoded(out[:, :n].copy())  # the next block goes into the same buffer
                yield self._head.rows(columns, n)
                self._unchanged(epoch)

    def _unchanged(self, epoch: int) -> None:
        self.ready()
        if int(self.arena[A.H_EPOCH]) != epoch:
            raise ConcurrentChangeError("the view has changed since this iteration began; call results() again")

    def output_codes(self, block: np.ndarray) -> np.ndarray:
        """Returns the output tuples, int64[outputs, m], behind a block of ``blocks``, as codes."""
        return self._head.codes(block)

    def count(self) -> int:
        """Number of result rows. O(state), without enumerating them unless the plan has residual predicates."""
        self.ready()
        if self.plan.support:
            return len(self.support)
        if self.plan.residual:
            return sum(self._head.columns(block)[1] for block in self.blocks())
        free = np.array([i for i, node in enumerate(self.plan.nodes) if node.free][::-1], np.int64)
        sums = np.zeros(group_numbers(int(self.arena[A.H_TOP])), np.int64)
        total = int(state.count_results(self.arena, self._halves, self._plan_array, sums, free))
        if total < 0:
            raise CrownError("the result has more than 4e18 rows; count() cannot represent that")
        return total

    def contains(self, values: Mapping[str, Any]) -> bool:
        """True iff an output row (by output name) is in the result.

        Expected O(1); O(result) where the outputs leave attributes open that a declared key determines.
        """
        self.ready()
        arrays = self._head.row(values)
        if self.plan.support:
            codes = [self._code(a, o.type) for a, o in zip(arrays, self.plan.output, strict=True)]
            return self.support.has(np.array(codes, np.int64))
        free = self._head.free_values(arrays)
        if free is None:
            return False
        if len(free) < len(self.plan.free):
            return any(self._head.matches(block, arrays) for block in self.blocks())
        codes_of = {a: self._code(array, self.plan.attributes[a].type) for a, array in free.items()}
        for i, node in enumerate(self.plan.nodes):
            if node.free:
                words = self._layout.words[i]
                row = np.array([codes_of[a] for a in sorted(words, key=words.__getitem__)], np.int64)
                if not state.in_view(self.arena, self._halves, self._plan_array, i, row):
                    return False
        return True

    def _code(self, array: pa.Array, kind: str) -> int:
        """The code of a one-row array; 0, which no row has, for a value that the dictionary does not know."""
        return int(encode(array, kind, self.dictionary.intern, False)[0])

    # State
    # --------------------------------------------------------------------------------------------------------------

    def compact(self) -> int:
        """``State.compact``, between batches."""
        self.ready()
        return super().compact()

    def stats(self) -> dict[str, Any]:
        """``State.stats``."""
        if not is_running(self._batch):
            self.ready()
        return super().stats()

    def check_invariants(self) -> None:
        """Recompute every view from the rows and compare.

        AssertionError names the first difference. O(state), in Python: for tests.
        """
        self.ready()
        invariants.check(self)

    def ready(self) -> None:
        """Raise ConcurrentChangeError while a batch is being applied, UnusableStateError if the state is lost."""
        if is_running(self._batch):
            raise ConcurrentChangeError(BUSY)
        if self.lost:
            raise UnusableStateError(LOST)
