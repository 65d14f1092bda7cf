"""The engine: one plan, one arena, batches in, exact deltas out.

    changes -> Preparer -> NodeChange (codes) -> kernels over the arena -> blocks of codes -> Deliverer -> record
    batches

The engine owns the arena and the order of things: within a batch all deletions come before all insertions, copies of a
self-join one after the other. State is linear in the data, whatever the size of the result.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from crown import invariants
from crown.codec import binary_array, decode, encode, uses_dictionary
from crown.compile import compile_plan
from crown.errors import (
    ChangeError,
    ConcurrentChangeError,
    CrownError,
    MemoryBudgetError,
    MissingDeleteError,
    SnapshotError,
)
from crown.kernels import arena as A
from crown.kernels import batches, layout, state, strings, update
from crown.kernels import enumerate as enumeration
from crown.kernels.tables import table_at
from crown.memory import ADDRESSABLE, map_file, reserve
from crown.output import Deliverer, Gathered, sliced
from crown.prepare import Clamps, NodeChange, Prepared, Preparer, Rows
from plans.plan import Plan

BLOCK_CELLS = 1 << 16  # cells of the output buffer: it stays in the second-level cache


def _buffer(columns: int) -> np.ndarray:
    return np.empty((columns, BLOCK_CELLS // max(columns, 1)), np.int64)


class Engine:
    """Maintains one plan. Make one with ``create`` or ``attach``; not thread-safe.

    ``on_missing``: what a delete does that finds fewer copies than it removes: ``"ignore"`` removes what is there and
    counts the rest, ``"raise"`` refuses the whole batch.
    """

    def __init__(self, plan: Plan, arena: np.ndarray, path: Path | None, on_missing: str) -> None:
        if on_missing not in ("ignore", "raise"):
            raise CrownError(f'on_missing must be "ignore" or "raise", not {on_missing!r}')
        self.plan = plan
        self.path = path
        self.on_missing = on_missing
        self._layout = compile_plan(plan, extra_tables=2)
        n = len(plan.nodes)
        self._dictionary = table_at(2 * n)
        self._support = table_at(2 * n + 1)
        self.M = arena
        self._m32 = arena.view(np.int32)
        self._m8 = arena.view(np.uint8)
        self._P = self._layout.P
        self._X = layout.new_scratch(n)
        self._out = _buffer(len(plan.free))
        self._identity = np.arange(max(len(plan.output), 1), dtype=np.int64)
        self._preparer = Preparer(plan, self._intern, on_missing == "raise")
        self._deliverer = Deliverer(plan, self._intern, self._extern)
        self._busy = False
        self.clamps = Clamps()  # of the last batch applied

    # Life
    # ---------------------------------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        plan: Plan,
        path: str | os.PathLike[str] | None = None,
        *,
        memory_budget: int | None = None,
        on_missing: str = "ignore",
        seed: int | None = None,
    ) -> Engine:
        """A new, empty engine in anonymous memory, or in the file ``path`` (overwritten; it may grow larger than RAM).

        ``memory_budget``: bytes of state; a batch that would pass it is undone and refused with MemoryBudgetError.
        ``seed``: of the hash tables; random by default, so that no input can be built to collide.
        """
        budget, limit = ADDRESSABLE, ADDRESSABLE
        if memory_budget is not None:
            budget = memory_budget // 8
            if budget < A.header_words(2 * len(plan.nodes) + 2) + 1024:
                raise MemoryBudgetError(
                    f"memory_budget={memory_budget} is too small to start with; give at least 64 KiB"
                )
            limit = min(ADDRESSABLE, 2 * budget + (1 << 20))
        where = None if path is None else Path(path)
        if where is not None:
            where.unlink(missing_ok=True)
        arena = reserve(limit) if where is None else map_file(where, limit)
        engine = cls(plan, arena, where, on_missing)
        chosen = secrets.randbits(62) if seed is None else seed
        state.create(engine.M, engine._m32, engine._P, engine._layout.tables, limit, budget, chosen)
        engine.M[A.H_PLAN0 : A.H_PLAN1 + 1] = fingerprint_words(plan)
        engine.M[A.H_CLEAN] = 1
        return engine

    @classmethod
    def attach(cls, plan: Plan, path: str | os.PathLike[str], *, on_missing: str = "ignore") -> Engine:
        """The engine whose state is in the file ``path``.

        O(1). Raises SnapshotError if it is not a state of this plan.
        """
        where = Path(path)
        arena = map_file(where, None)
        check_header(arena, plan, where)
        return cls(plan, arena, where, on_missing)

    @property
    def result_schema(self) -> pa.Schema:
        """Arrow schema of the result."""
        return self._deliverer.schema

    @property
    def delta_schema(self) -> pa.Schema:
        """Arrow schema of the deltas: the result's and ``_weight``."""
        return self._deliverer.delta_schema

    @property
    def version(self) -> int:
        """Number that the owner gave to the last batch (see ``begin``); -1 before the first."""
        return int(self.M[A.H_VERSION]) - 1

    @property
    def clean(self) -> bool:
        """False while, or after a crash in, the application of a batch."""
        return bool(self.M[A.H_CLEAN])

    def begin(self) -> None:
        """Mark the state dirty: a batch is being applied."""
        self.M[A.H_CLEAN] = 0

    def commit(self, version: int) -> None:
        """Mark the state clean, with ``version`` (>= 0) the last batch applied."""
        self.M[A.H_VERSION] = version + 1
        self.M[A.H_CLEAN] = 1

    # Changes
    # ------------------------------------------------------------------------------------------------------------

    def prepare(self, changes: Mapping[str, Any], strict: bool = True) -> Prepared:
        """Check, code, filter and consolidate a batch.

        See ``Preparer.prepare``. Results and multiplicities stay as they are.
        """
        self._not_busy()
        if self.M[self._dictionary + A.T_COUNT] > 2 * self.M[A.H_DICT_SWEPT] + 1024:
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
        if self.on_missing == "raise":
            self._refuse_missing(prepared)
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
        prepared = self.prepare(changes)
        self._switch_live(True)
        return sum(block.shape[1] for _, block in self._apply(prepared.changes, layout.MODE_DELTAS))

    def _deliver(self, prepared: Prepared, mode: int, gather: bool) -> Iterator[pa.RecordBatch]:
        gathered = Gathered(self._deliverer.width)
        blocks = self._apply(prepared.changes, mode)
        try:
            yield self._deliverer.batch(self._deliverer.columns(self._out[:, :0])[0], np.empty(0, np.int64))
            for sign, block in blocks:
                if gather:
                    gathered.add(self._deliverer.codes(block), sign)
                    continue
                columns, n = self._deliverer.columns(block)
                if n:
                    yield self._deliverer.batch(columns, np.full(n, sign, np.int64))
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

    def _apply(self, changes: Sequence[NodeChange], mode: int) -> Iterator[tuple[int, np.ndarray]]:
        """Deletions of all nodes, then insertions of all nodes.

        Yields (sign, int64[free, n]) blocks, valid until the next step.
        """
        X, out = self._X, self._out
        X[layout.X_MODE] = mode
        self.clamps = Clamps()
        for sign in (-1, 1):
            for number, change in enumerate(changes):
                rows = change.deletes if sign < 0 else change.inserts
                missing = np.zeros(len(rows) if sign < 0 else 0, np.int64)
                while (status := self._step(change.node, rows, missing, sign)) == update.FULL:
                    yield sign, out
                    X[layout.X_FILL] = 0
                if status != update.DONE:
                    self._refuse(changes, number, status)
                if sign < 0 and missing.any():
                    self.clamps.note(number, missing)
                    self.M[table_at(change.node) + A.T_SPARE] += int(missing.sum())
            if X[layout.X_FILL]:
                yield sign, out[:, : X[layout.X_FILL]]
                X[layout.X_FILL] = 0
        for change in changes:
            self.M[table_at(len(self.plan.nodes) + change.node) + A.T_SPARE] += change.filtered

    def _step(self, node: int, rows: Rows, missing: np.ndarray, sign: int) -> int:
        try:
            if sign > 0:
                return update.insert_batch(
                    self.M, self._m32, self._P, self._X, node, rows.values, rows.weights, self._out
                )
            return update.delete_batch(
                self.M, self._m32, self._P, self._X, node, rows.values, rows.weights, missing, self._out
            )
        except MemoryError as error:
            self.M[A.H_CLEAN] = 0
            raise MemoryBudgetError(
                f"{error}: the batch was applied in part and this state is unusable; load the last snapshot "
                "and give the view a larger memory_budget, or spread it over more cells"
            ) from error

    def _refuse(self, changes: Sequence[NodeChange], number: int, status: int) -> None:
        """Undo the part of a batch that is applied (deletions, and insertions up to a row of ``number``); say why."""
        used, budget = int(self.M[A.H_LIVE]), int(self.M[A.H_BUDGET])
        applied = int(self._X[layout.X_I])
        self._X[layout.X_I] = self._X[layout.X_FILL] = 0
        partial = []
        for i, change in enumerate(changes):
            inserts = change.inserts.head(len(change.inserts) if i < number else applied if i == number else 0)
            partial.append(NodeChange(change.node, change.atom, self.clamps.effective(i, change.deletes), inserts, 0))
        self.M[A.H_BUDGET] = self.M[A.H_LIMIT]
        for _ in self._apply([change.inverse() for change in partial], self._quiet_mode()):
            raise AssertionError("a quiet update produced output")
        self.M[A.H_BUDGET] = budget
        if status == update.TOO_MANY:
            node = self.plan.nodes[changes[number].node]
            raise ChangeError(
                f"relation {node.relation!r}: a row would get more than {update.MAX_COPIES} copies; "
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
        prepared = self._preparer.prepare(changes)
        clamps = clamps or Clamps()
        inverse = [
            NodeChange(c.node, c.atom, clamps.effective(i, c.deletes), c.inserts, -c.filtered).inverse()
            for i, c in enumerate(prepared.changes)
        ]
        for i, c in enumerate(prepared.changes):
            self.M[table_at(c.node) + A.T_SPARE] -= clamps.total(i)
        if self.plan.support:
            self._busy = True
            for _ in self._deliver(Prepared(tuple(inverse), 0, {}), layout.MODE_DELTAS, True):
                pass
        else:
            for _ in self._apply(inverse, self._quiet_mode()):
                raise AssertionError("a quiet update produced output")

    def _quiet_mode(self) -> int:
        return layout.MODE_LIVE if self.M[A.H_LIVE_ON] else layout.MODE_VIEWS

    def _switch_live(self, wanted: bool) -> None:
        if not wanted:
            self.M[A.H_LIVE_ON] = 0
        elif not self.M[A.H_LIVE_ON]:
            state.clear_live(self.M, self._m32, self._P)
            state.rebuild_live(self.M, self._m32, self._P, self._X)

    def _refuse_missing(self, prepared: Prepared) -> None:
        for change in prepared.changes:
            rows = change.deletes
            if not len(rows):
                continue
            at = state.missing_copies(self.M, self._m32, self._P, change.node, rows.values, rows.weights)
            if at >= 0:
                node = self.plan.nodes[change.node]
                width = len(node.attributes)
                codes = rows.values[at * width : (at + 1) * width]
                values = {
                    column: decode(codes[j : j + 1], self.plan.attributes[a].type, self._extern)[0].as_py()
                    for j, (column, a) in enumerate(zip(node.columns, node.attributes, strict=True))
                }
                raise MissingDeleteError(
                    f"relation {node.relation!r}: the batch deletes {int(rows.weights[at])} copies of {values}, "
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
        enumeration.enumerate_start(self.M, self._m32, self._P, X, int(self._P[layout.P_FULL]), -1, 0)
        done = False
        while not done:
            self._unchanged(epoch)
            done = enumeration.enumerate_on(self.M, self._m32, self._P, X, out)
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
        """True iff an output row (by output name) is in the result. Expected O(1)."""
        self._not_busy()
        arrays = self._deliverer.row(values)
        if self.plan.support:
            codes = np.array(
                [encode(a, o.type, self._intern, False)[0] for a, o in zip(arrays, self.plan.output, strict=True)],
                np.int64,
            )
            return bool(batches.support_has(self.M, self._identity, self._support, len(codes), codes))
        free = self._deliverer.free_values(arrays)
        if free is None:
            return False
        codes_of = {a: encode(array, self.plan.attributes[a].type, self._intern, False)[0] for a, array in free.items()}
        for i, node in enumerate(self.plan.nodes):
            if node.free:
                row = np.array([codes_of[a] for a in node.attributes], np.int64)
                if not state.in_view(self.M, self._m32, self._P, i, row):
                    return False
        return True

    # State
    # --------------------------------------------------------------------------------------------------------------

    def compact(self) -> int:
        """Free dictionary entries that nothing refers to.

        Number freed. O(state). Runs by itself when the dictionary has doubled.
        """
        self._not_busy()
        for i, node in enumerate(self.plan.nodes):
            if node.kind != "virtual":
                for j, a in enumerate(node.attributes):
                    if uses_dictionary(self.plan.attributes[a].type):
                        strings.mark(self.M, table_at(i), j)
        if self.plan.support:
            for j, output in enumerate(self.plan.output):
                if uses_dictionary(output.type):
                    strings.mark(self.M, self._support, j)
        return int(strings.sweep(self.M, self._dictionary))

    def stats(self) -> dict[str, Any]:
        """Sizes and counters.

        Bytes: ``live`` in use, ``reserved`` the high-water mark. Counters are totals since creation.
        """
        M, n = self.M, len(self.plan.nodes)
        rows = {node.name: int(M[table_at(i) + A.T_COUNT]) for i, node in enumerate(self.plan.nodes)}
        inputs = [i for i, node in enumerate(self.plan.nodes) if node.kind != "virtual"]
        name = [node.name for node in self.plan.nodes]
        return {
            "rows": rows,
            "input_rows": sum(rows[name[i]] for i in inputs),
            "groups": {name[i]: int(M[table_at(n + i) + A.T_COUNT]) for i in range(1, n)},
            "dictionary": int(M[self._dictionary + A.T_COUNT]),
            "support": int(M[self._support + A.T_COUNT]),
            "live_bytes": 8 * int(M[A.H_LIVE]),
            "reserved_bytes": 8 * int(M[A.H_TOP]),
            "missing_deletes": {name[i]: int(M[table_at(i) + A.T_SPARE]) for i in inputs},
            "filtered": {name[i]: int(M[table_at(n + i) + A.T_SPARE]) for i in inputs},
            "r_updates": int(M[A.H_R]),
            "s_updates": int(M[A.H_S]),
            "p_updates": int(M[A.H_P]),
            "live_flips": int(M[A.H_LFLIP]),
            "steps": int(M[A.H_STEPS]),
            "blocks": int(M[A.H_BLOCKS]),
            "emitted": int(M[A.H_EMITTED]),
            "max_delay": int(M[A.H_GAP]),
        }

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

    def _intern(self, array: pa.Array, add: bool) -> np.ndarray:
        codes = np.empty(len(array), np.int64)
        if len(array):
            offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
            data = np.frombuffer(array.buffers()[2] or b"\0", np.uint8)
            strings.encode(self.M, self._m8, self._dictionary, data, offsets, codes, int(add))
        return codes

    def _extern(self, codes: np.ndarray, target: pa.DataType) -> pa.Array:
        offsets = np.empty(len(codes) + 1, np.int64)
        data = np.empty(strings.decoded_size(self.M, codes, offsets), np.uint8)
        strings.decode(self.M, self._m8, codes, offsets, data)
        return binary_array(codes != strings.NULL, offsets, data, target)


def fingerprint_words(plan: Plan) -> np.ndarray:
    """The first 16 bytes of the plan's fingerprint as two int64 words."""
    return np.frombuffer(bytes.fromhex(plan.fingerprint[:32]), np.int64)


def check_header(arena: np.ndarray, plan: Plan, source: Path) -> None:
    """Raise SnapshotError unless the arena was written by this version for this plan."""
    if len(arena) < A.H_TABLES or not state.is_ours(arena) or not 0 < arena[A.H_TOP] <= len(arena):
        raise SnapshotError(f"{source} is not a state of this version of the engine")
    found = arena[A.H_PLAN0 : A.H_PLAN1 + 1]
    if not (found == fingerprint_words(plan)).all():
        raise SnapshotError(
            f"{source} holds the state of another query (fingerprint {found.tobytes().hex()}, "
            f"this plan's is {plan.fingerprint[:32]}); "
            "use a fresh path for the changed query"
        )
