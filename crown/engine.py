"""The engine: one plan, one arena, batches in, exact deltas out.

    changes -> Preparer -> NodeChange (codes) -> kernels over the arena -> blocks of codes -> Deliverer -> record
    batches

The engine owns the arena and the order of things: within a batch all deletions come before all insertions, copies of a
self-join one after the other. State is linear in the data, whatever the size of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from crown import invariants
from crown.codec import decode, encode
from crown.dictionary import Dictionary
from crown.errors import (
    ChangeError,
    ConcurrentChangeError,
    CrownError,
    MemoryBudgetError,
    MissingDeleteError,
)
from crown.kernels import arena as A
from crown.kernels import batches, layout, state, update
from crown.kernels import enumerate as enumeration
from crown.kernels.tables import table_at
from crown.output import Deliverer, Gathered, sliced
from crown.prepare import Clamps, Prepared, Preparer, Rows, SourceChange
from crown.state import State
from plans.plan import Plan

_NONE_MISSING = np.zeros(0, np.int64)
BLOCK_CELLS = 1 << 16  # cells of the output buffer: it stays in the second-level cache


def _buffer(columns: int) -> np.ndarray:
    return np.empty((columns, BLOCK_CELLS // max(columns, 1)), np.int64)


class Engine(State):
    """Maintains one plan. Make one with ``create`` or ``attach``; not thread-safe.

    ``on_missing``: what a delete does that finds fewer copies than it removes: ``"ignore"`` removes what is there and
    counts the rest, ``"raise"`` refuses the whole batch.
    """

    def __init__(
        self, plan: Plan, arena: np.ndarray, path: Path | None, on_missing: str, dictionary: Dictionary | None = None
    ) -> None:
        super().__init__(plan, arena, path, on_missing, dictionary)
        self._X = layout.new_scratch(len(plan.nodes))
        self._out = _buffer(len(plan.free))
        self._identity = np.arange(max(len(plan.output), 1), dtype=np.int64)
        self._preparer = Preparer(plan, self.dictionary.intern)
        self._deliverer = Deliverer(plan, self.dictionary.intern, self.dictionary.extern)
        n = len(plan.nodes)
        self._tallies = [(table_at(n + i) + A.T_TALLY, table_at(i) + A.T_TALLY2) for i in range(n)]
        self._busy = False
        self.clamps = Clamps()  # of the last batch applied

    @property
    def result_schema(self) -> pa.Schema:
        """Arrow schema of the result."""
        return self._deliverer.schema

    @property
    def delta_schema(self) -> pa.Schema:
        """Arrow schema of the deltas: the result's and ``_weight``."""
        return self._deliverer.delta_schema

    def prepare(self, changes: Mapping[str, Any], strict: bool = True) -> Prepared:
        """Check, code, filter and consolidate a batch.

        See ``Preparer.prepare``. Results and multiplicities stay as they are.
        """
        self._not_busy()
        if self.dictionary.overgrown:
            self.compact()
        return self._preparer.prepare(changes, strict)

    def run(
        self, prepared: Prepared, *, deltas: bool = True, consolidate: bool | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Apply a prepared batch; yields its exact deltas (output columns and ``_weight``).

        ``deltas=False`` updates the views only (cheaper; the live views are rebuilt when deltas are next asked for).
        ``consolidate``: leave out what a batch both adds and removes (default: where the plan needs it); this gathers
        the batch's deltas in memory, without it memory is bounded by one block. The batch is applied in full even if
        the iterator is closed early; until it is exhausted or closed the engine takes nothing else. O(changes *
        lambda + deltas).
        """
        self._not_busy()
        self.refuse_missing(prepared)
        if self.plan.support:  # the support counts live from the deltas
            deltas = consolidate = True
        if consolidate is None:
            consolidate = not self.plan.consolidated
        self._switch_live(deltas)
        self._busy = True
        delivery = self._deliver(prepared, layout.MODE_DELTAS if deltas else layout.MODE_VIEWS, consolidate)
        next(delivery)  # from here on closing it applies the whole batch
        return delivery

    def apply_discard(self, changes: Mapping[str, Any]) -> int:
        """Apply a batch, enumerate its deltas into the reused buffer and drop them; how many there were (not
        consolidated).

        For measuring the engine alone. Not for plans with support counts, whose deltas are not those of the
        enumeration.
        """
        if self.plan.support:
            raise CrownError("apply_discard is not defined for a query whose results are counted; use run")
        return self.discard(self.prepare(changes))

    def discard(self, prepared: Prepared) -> int:
        """The second half of ``apply_discard``."""
        self._switch_live(True)
        return sum(block.shape[1] for _, block in self._apply(prepared.changes, layout.MODE_DELTAS))

    def _deliver(self, prepared: Prepared, mode: int, gather: bool) -> Iterator[pa.RecordBatch]:
        gathered = Gathered(self._deliverer.width)
        blocks = self._apply(prepared.changes, mode)
        try:
            yield self._deliverer.nothing
            for sign, block in blocks:
                if gather:
                    gathered.add(self._deliverer.codes(block), sign)
                    continue
                columns, n = self._deliverer.columns(block)
                if n:
                    yield self._deliverer.batch(columns, np.full(n, sign, np.int64))
            if gather:
                values, weights = gathered.net()
                if self.plan.support:
                    values, weights = self._supported(values, weights)
                if len(weights):
                    yield from sliced(self._deliverer, values, weights)
        finally:
            for _ in blocks:  # closed early: the rest of the batch is applied all the same
                pass
            self._busy = False

    def _supported(self, values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The output tuples whose support appeared or vanished, with +1 or -1."""
        width = self._deliverer.width
        signs = np.empty_like(weights)
        batches.support_batch(self.M, self._identity, self._support, width, values, weights, signs)
        keep = signs != 0
        return values.reshape(len(weights), width)[keep].reshape(-1), signs[keep]

    def _apply(self, changes: Sequence[SourceChange], mode: int) -> Iterator[tuple[int, np.ndarray]]:
        """Deletions of all sources, then insertions of all sources.

        Yields (sign, int64[free, n]) blocks, valid until the next step.
        """
        X, out = self._X, self._out
        X[layout.X_MODE] = mode
        self.clamps = Clamps()
        for sign in (-1, 1):
            for number, change in enumerate(changes):
                rows = change.deletes if sign < 0 else change.inserts
                if not len(rows):
                    continue
                missing = np.zeros(len(rows), np.int64) if sign < 0 else _NONE_MISSING
                node = change.source.aliases[0].node
                if node in self._bags:
                    yield from self._through_bag(changes, number, rows, missing, sign)
                else:
                    while (status := self._step(node, rows, missing, sign)) == update.FULL:
                        yield sign, out
                        X[layout.X_FILL] = 0
                    if status != update.DONE:
                        self._refuse(changes, number, int(X[layout.X_I]), status)
                if sign < 0 and np.count_nonzero(missing):
                    self.clamps.note(number, missing)
                    self._count_missing(change, missing, 1)
            if X[layout.X_FILL]:
                yield sign, out[:, : X[layout.X_FILL]]
                X[layout.X_FILL] = 0
        self._count_changes(changes)

    def _count_changes(self, changes: Sequence[SourceChange]) -> None:
        """Keep the tallies of ``stats``: rows filtered, updates, per alias."""
        for change in changes:
            for bit, (alias, rejected) in enumerate(zip(change.source.aliases, change.filtered, strict=True)):
                filtered, updates = self._tallies[alias.node]
                self.M[updates] += change.deletes.readers(bit) + change.inserts.readers(bit)
                if rejected:
                    self.M[filtered] += rejected

    def _count_missing(self, change: SourceChange, missing: np.ndarray, sign: int) -> None:
        for bit, alias in enumerate(change.source.aliases):
            total = int(missing[change.deletes.read_by(bit)].sum())
            self.M[table_at(alias.node) + A.T_TALLY] += sign * total

    def _through_bag(
        self, changes: Sequence[SourceChange], number: int, rows: Rows, missing: np.ndarray, sign: int
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Changes of a bag's atom: the bag says what this does to its relation, and that is applied to its node."""
        alias = changes[number].source.aliases[0]
        X = self._X
        budget, worst = int(self.M[A.H_BUDGET]), update.DONE
        for block, _ in self._bags[alias.node].apply(alias.atom, rows.table(), sign * rows.weights, missing):
            tuples = Rows(block.reshape(-1), np.ones(len(block), np.int64))
            ignored = np.zeros(len(block), np.int64)
            while (status := self._step(alias.node, tuples, ignored, sign)) != update.DONE:
                if status == update.FULL:
                    yield sign, self._out
                    X[layout.X_FILL] = 0
                else:  # a bag cannot stop half way: let this change through, then take it back
                    worst = status
                    self.M[A.H_BUDGET] = self.M[A.H_LIMIT]
        self.M[A.H_BUDGET] = budget
        if worst != update.DONE:
            self._refuse(changes, number + 1, 0, worst)

    def _step(self, node: int, rows: Rows, missing: np.ndarray, sign: int) -> int:
        state = (self.M, self._m32, self._P, self._X, self._layout.record[node])
        try:
            if sign > 0:
                return update.insert_batch(*state, rows.values, rows.weights, rows.masks, self._out)
            return update.delete_batch(*state, rows.values, rows.weights, missing, self._out)
        except MemoryError as error:
            self.M[A.H_CLEAN] = 0
            raise MemoryBudgetError(
                f"{error}: the batch was applied in part and this state is unusable; load the last snapshot "
                "and give the view a larger memory_budget, or spread it over more cells"
            ) from error

    def _refuse(self, changes: Sequence[SourceChange], number: int, applied: int, status: int) -> None:
        """Undo a batch of which all deletions, the insertions before ``number`` and ``applied`` rows of that are
        done.
        """
        used, budget = int(self.M[A.H_LIVE]), int(self.M[A.H_BUDGET])
        self._X[layout.X_I] = self._X[layout.X_FILL] = 0
        partial = []
        for i, change in enumerate(changes):
            inserts = change.inserts.head(len(change.inserts) if i < number else applied if i == number else 0)
            deletes, none = self.clamps.effective(i, change.deletes), (0,) * len(change.filtered)
            partial.append(SourceChange(change.source, deletes, inserts, none))
        self.M[A.H_BUDGET] = self.M[A.H_LIMIT]
        for _ in self._apply([change.inverse() for change in partial], self._quiet_mode()):
            raise AssertionError("a quiet update produced output")
        self.M[A.H_BUDGET] = budget
        if status == update.TOO_MANY:
            raise ChangeError(
                f"relation {changes[number].source.relation!r}: a row would get more than {update.MAX_COPIES} copies; "
                "the batch was undone. "
                "Check the weights of its inserts"
            )
        raise MemoryBudgetError(
            f"the batch needs more state than memory_budget={8 * budget} bytes allows "
            f"({8 * used} in use when it stopped); it was undone. "
            "Raise memory_budget, keep the state in a file (path=...), or spread it over more cells"
        )

    def undo(self, changes: Mapping[str, Any], clamps: Clamps | None) -> None:
        """Take back the last batch, given what was applied and the clamps of that run. O(changes * lambda)."""
        self._not_busy()
        self.take_back(self._preparer.prepare(changes).changes, clamps or Clamps())

    def take_back(self, changes: Sequence[SourceChange], clamps: Clamps) -> None:
        """``undo`` for changes that are prepared already."""
        inverse = self.inverse(changes, clamps)
        if self.plan.support:
            self._busy = True
            for _ in self._deliver(Prepared(inverse, 0, {}), layout.MODE_DELTAS, True):
                pass
        else:
            for _ in self._apply(inverse, self._quiet_mode()):
                raise AssertionError("a quiet update produced output")

    def inverse(self, changes: Sequence[SourceChange], clamps: Clamps) -> tuple[SourceChange, ...]:
        """The changes that take back what was applied of ``changes``; its missing deletes are no longer counted."""
        inverse = []
        for i, c in enumerate(changes):
            filtered = tuple(-n for n in c.filtered)
            inverse.append(SourceChange(c.source, clamps.effective(i, c.deletes), c.inserts, filtered).inverse())
            self._count_missing(c, clamps.missing(i, len(c.deletes)), -1)
        return tuple(inverse)

    def _quiet_mode(self) -> int:
        return layout.MODE_LIVE if self.M[A.H_LIVE_ON] else layout.MODE_VIEWS

    def _switch_live(self, wanted: bool) -> None:
        if not wanted:
            self.M[A.H_LIVE_ON] = 0
        elif not self.M[A.H_LIVE_ON]:
            state.clear_live(self.M, self._m32, self._P)
            state.rebuild_live(self.M, self._m32, self._P, self._X)

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
                at = int(state.missing_copies(self.M, self._m32, self._P, record, rows.values, rows.weights))
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
        self._not_busy()
        return self._scan_support() if self.plan.support else self._enumerate()

    def _enumerate(self) -> Iterator[pa.RecordBatch]:
        for block in self.blocks():
            columns, n = self._deliverer.columns(block)
            if n:
                yield self._deliverer.rows(columns, n)

    def blocks(self) -> Iterator[np.ndarray]:
        """The enumeration beneath ``results``: codes int64[free attributes, n] in one reused buffer."""
        if state.root_size(self.M, self._m32) == 0:
            return
        X = layout.new_scratch(len(self.plan.nodes))
        out = _buffer(len(self.plan.free))
        epoch = int(self.M[A.H_EPOCH])
        enumeration.enumerate_all(self.M, self._m32, self._P, X)
        done = False
        while not done:
            self._unchanged(epoch)
            done = enumeration.enumerate_block(self.M, self._m32, self._P, X, out)
            yield out[:, : X[layout.X_FILL]]
            X[layout.X_FILL] = 0

    def _scan_support(self) -> Iterator[pa.RecordBatch]:
        out = _buffer(self._deliverer.width)
        epoch = int(self.M[A.H_EPOCH])
        slot = 0
        while slot >= 0:
            self._unchanged(epoch)
            slot, n = batches.support_scan(self.M, self._support, self._deliverer.width, slot, out)
            if n:
                columns = self._deliverer.decoded(np.ascontiguousarray(out[:, :n]))
                yield self._deliverer.rows(columns, n)

    def _unchanged(self, epoch: int) -> None:
        self._not_busy()
        if int(self.M[A.H_EPOCH]) != epoch:
            raise ConcurrentChangeError("the view has changed since this iteration began; call results() again")

    def count(self) -> int:
        """Number of result rows. O(state), without enumerating them unless the plan has residual predicates."""
        self._not_busy()
        if self.plan.support:
            return int(batches.table_count(self.M, self._support))
        if self.plan.residual:
            return sum(self._deliverer.columns(block)[1] for block in self.blocks())
        free = np.array([i for i, node in enumerate(self.plan.nodes) if node.free][::-1], np.int64)
        sums = np.zeros(int(self.M[A.H_TOP]) // 3 + 1, np.int64)
        total = int(state.count_results(self.M, self._m32, self._P, sums, free))
        if total < 0:
            raise CrownError("the result has more than 4e18 rows; count() cannot represent that")
        return total

    def contains(self, values: Mapping[str, Any]) -> bool:
        """True iff an output row (by output name) is in the result.

        Expected O(1); O(result) where the outputs leave attributes open that a declared key determines.
        """
        self._not_busy()
        arrays = self._deliverer.row(values)
        if self.plan.support:
            codes = np.array(
                [
                    encode(a, o.type, self.dictionary.intern, False)[0]
                    for a, o in zip(arrays, self.plan.output, strict=True)
                ],
                np.int64,
            )
            return bool(batches.support_has(self.M, self._identity, self._support, len(codes), codes))
        free = self._deliverer.free_values(arrays)
        if free is None:
            return False
        if len(free) < len(self.plan.free):
            return any(self._deliverer.matches(block, arrays) for block in self.blocks())
        codes_of = {
            a: encode(array, self.plan.attributes[a].type, self.dictionary.intern, False)[0]
            for a, array in free.items()
        }
        for i, node in enumerate(self.plan.nodes):
            if node.free:
                words = self._layout.words[i]
                row = np.array([codes_of[a] for a in sorted(words, key=words.__getitem__)], np.int64)
                if not state.in_view(self.M, self._m32, self._P, i, row):
                    return False
        return True

    # State
    # --------------------------------------------------------------------------------------------------------------

    def compact(self) -> int:
        """``State.compact``, between batches."""
        self._not_busy()
        return super().compact()

    def check_invariants(self) -> None:
        """Recompute every view from the rows and compare.

        AssertionError names the first difference. O(state), in Python: for tests.
        """
        invariants.check(self)

    def _not_busy(self) -> None:
        if self._busy:
            raise ConcurrentChangeError(
                "a batch is still being applied; exhaust or close the iterator of its deltas first"
            )
