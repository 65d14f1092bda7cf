"""The engine: one plan, one state, batches in, exact deltas out.

    changes -> Preparer -> RelationChange (codes) -> Core -> output tuples (codes) -> OutputHead -> record batches

The engine puts Arrow around a join core. A batch is a transaction, which the core keeps; here it becomes an iterator of
record batches.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from crown.engine.core import Core
from crown.engine.delivery import Batches, Delivery
from crown.engine.invariants import tree as invariants
from crown.engine.refusals import refuse_missing
from crown.engine.state import saving
from crown.engine.state.arenas import State
from crown.engine.statistics import statistics
from crown.errors import CrownError, SnapshotError
from crown.guards.arguments import path_of, same_file
from crown.guards.interrupts import Uninterrupted
from crown.guards.uncopyable import NotCopyable
from crown.ingest.batch import MissingDeletes, Prepared, RelationChange
from crown.ingest.prepare import Preparer
from crown.results.factorized import FactorizedHead
from crown.results.result import factorized_batches
from crown.store.budget import Budget
from crown.store.dictionary import Dictionary, with_room
from crown.store.relations import not_covering
from crown.store.zset import Zset
from plans.plan import Plan


class Engine(NotCopyable, instead="save(path) and crown.load(path) make another one"):
    """Maintains one plan: ``Queryable`` and ``Durable``, see ``crown.maintained``. ``create`` or ``attach`` makes one.

    Not thread-safe. ``on_missing``: what a delete does that finds fewer copies than it removes: ``"ignore"`` removes
    what is there and counts the rest, ``"raise"`` refuses the whole batch.
    """

    def __init__(self, state: State, on_missing: str = "ignore") -> None:
        if on_missing == "trust":
            raise CrownError(
                'on_missing="trust" saves nothing here: one join of distinct rows stores its rows anyway, and knows '
                'what a delete finds; give "ignore" or "raise"'
            )
        if on_missing not in ("ignore", "raise"):
            raise CrownError(f'on_missing must be "ignore" or "raise", not {on_missing!r}')
        self.state = state
        self.core = Core(state)
        self.on_missing = on_missing
        self._head = self.core.head
        self._preparer = Preparer(state.plan, state.dictionary.intern)
        self.uninterrupted = Uninterrupted()
        self.batches = 0  # applied by this object, or since its owner began to count
        if on_missing == "raise":
            not_covering(state.plan)

    @classmethod
    def create(
        cls,
        plan: Plan,
        path: str | os.PathLike[str] | None = None,
        *,
        memory_budget: int | None = None,
        on_missing: str = "ignore",
        seed: int | None = None,
        dictionary: Dictionary | None = None,
    ) -> Self:
        """Makes a new, empty engine. See ``State.create``."""
        state = State.create(plan, path, memory_budget=memory_budget, seed=seed, dictionary=dictionary)
        return cls(state, on_missing)

    @classmethod
    def attach(cls, plan: Plan, path: str | os.PathLike[str], *, on_missing: str = "ignore") -> Self:
        """Returns the engine whose state is in the file ``path``. See ``State.attach``."""
        return cls(State.attach(plan, path), on_missing)

    # What it is
    # ------------------------------------------------------------------------------------------------------------

    @property
    def plan(self) -> Plan:
        """Returns what is maintained."""
        return self.state.plan

    @property
    def fingerprint(self) -> str:
        """Returns the plan's: names what the state holds."""
        return self.plan.fingerprint

    @property
    def result_schema(self) -> pa.Schema:
        """Returns the Arrow schema of the result; that of a bag has the column ``_weight``."""
        return self._head.schema if self.plan.payload is None else self._head.delta_schema

    @property
    def delta_schema(self) -> pa.Schema:
        """Returns the Arrow schema of the deltas: the result's and ``_weight``."""
        return self._head.delta_schema

    @property
    def arena(self) -> np.ndarray:
        """Returns the words of the tree's state."""
        return self.state.arena

    @property
    def parts(self) -> list[np.ndarray]:
        """Returns all arenas: the tree's, then one per bag."""
        return self.state.parts

    @property
    def budget(self) -> Budget:
        """Returns how much memory the state may take."""
        return self.state.budget

    @property
    def dictionary(self) -> Dictionary:
        """Returns the values behind the codes."""
        return self.state.dictionary

    @property
    def path(self) -> Path | None:
        """Returns the file in which the state is kept, or None."""
        return self.state.path

    @property
    def version(self) -> int:
        """Returns the number that the owner gave to the last batch (see ``begin``); -1 before the first."""
        return self.state.version

    @property
    def clean(self) -> bool:
        """Returns False while, or after a crash in, the application of a batch."""
        return self.state.clean

    @property
    def lost(self) -> bool:
        """Returns True while a batch is being applied, and for ever after one that could not be taken back."""
        return self.state.lost

    @property
    def missing(self) -> MissingDeletes:
        """Returns what the deletes of the last batch did not find."""
        return self.core.missing

    def begin(self) -> None:
        """Marks the state dirty: a batch is being applied."""
        self.state.begin()

    def commit(self, version: int) -> None:
        """Marks the state clean, with ``version`` (>= 0) the last batch applied."""
        self.state.commit(version)

    def ready(self) -> None:
        """Raises ConcurrentChangeError while a batch is being applied, UnusableStateError if the state is lost."""
        self.core.guard.ready()

    # Changes
    # ------------------------------------------------------------------------------------------------------------

    def prepare(self, changes: Mapping[str, Any], strict: bool = True) -> Prepared:
        """Checks, codes, filters and nets a batch.

        See ``Preparer.prepare``. Results and multiplicities stay as they are. Raises MemoryBudgetError if its values
        do not fit into the dictionary.
        """
        self.ready()
        return with_room(self.dictionary, lambda: self._preparer.prepare(changes, strict), self.compact)

    def run(
        self,
        prepared: Prepared,
        *,
        deltas: bool = True,
        consolidate: bool | None = None,
        closing: Callable[[], None] | None = None,
        factorized: bool = False,
        hold: bool = False,
    ) -> Delivery:
        """Applies a prepared batch; yields its exact deltas (output columns and ``_weight``).

        ``deltas=False`` updates the views only (cheaper; the live views are rebuilt when deltas are next asked for).
        ``consolidate``: leave out what a batch both adds and removes (default: where the plan needs it); this gathers
        the batch's deltas in memory, without it memory is bounded by one block. ``closing`` is called when all is
        done; if it raises, the batch is taken back. ``factorized``: deltas are factorized rows (see
        ``crown.results.factorized``; CrownError for plans that have none). Until the iterator is exhausted or closed
        the engine takes nothing else, and its deltas are void if it raises. Closed early, it applies the rest
        of the batch without output, and its ``close`` raises what stops that. ``hold``: when all is done the batch
        stays open, until ``settle`` lets it stand or ``core.roll_back`` takes it back. O(changes * lambda + deltas).
        """
        self.ready()
        self.refuse_missing(prepared)
        counted = self.core.results.counted
        if factorized:
            batch = self._deliver(prepared.changes, True, False, closing, hold, self.factorized)
            self.core.guard.watch(batch)
            return Delivery(batch, self.uninterrupted)
        if counted or consolidate is None:
            consolidate = self.core.gathers
        batch = self._deliver(prepared.changes, deltas or counted, consolidate, closing, hold)
        self.core.guard.watch(batch)
        return Delivery(batch, self.uninterrupted)

    def apply_discard(self, changes: Mapping[str, Any]) -> int:
        """Applies a batch, enumerates its deltas into the reused buffer and drops them.

        Returns how many there were (not consolidated). For measuring the engine alone. Not for plans with support
        counts, whose deltas are not those of the enumeration.
        """
        if self.core.results.counted:
            raise CrownError("apply_discard is not defined for a query whose results are counted; use run")
        return self.discard(self.prepare(changes))

    def discard(self, prepared: Prepared, hold: bool = False) -> int:
        """Applies a prepared batch and drops its deltas, half of ``apply_discard``. ``hold``: see ``run``."""
        self.ready()
        with self.uninterrupted:
            try:
                n = sum(map(len, self.core.begin(prepared.changes, True)))
            except BaseException as error:
                self.core.roll_back(error)
                raise
            if not hold:
                self.settle()
        return n

    def settle(self) -> None:
        """Lets the batch stand that has been applied and is open."""
        self.core.settle()
        self.batches += 1

    @cached_property
    def factorized(self) -> FactorizedHead:
        """Returns what makes factorized rows. CrownError for a plan that has none."""
        return FactorizedHead(self.plan, self.state.compiled, self.dictionary.extern)

    def _deliver(
        self,
        changes: Sequence[RelationChange],
        deltas: bool,
        gather: bool,
        closing: Callable[[], None] | None,
        hold: bool,
        factorized: FactorizedHead | None = None,
    ) -> Batches:
        """Applies a batch as a transaction.

        What it yields first is empty: from then on closing it applies the batch.
        """
        core, head, wanted = self.core, self._head, True
        gathered: list[Zset] = []
        try:
            blocks = core.begin(changes, deltas, factorized is not None)
            try:
                yield head.nothing
            except GeneratorExit:
                wanted = self._unwanted()
            for block in blocks:
                if gather and (wanted or core.results.counted):
                    gathered.append(head.codes(block))
                elif factorized is not None and wanted:
                    try:
                        yield factorized.batch(core.propagation.buffers.out, len(block), int(block.weights[0]))
                    except GeneratorExit:
                        wanted = self._unwanted()
                elif wanted:
                    batch = head.deltas(block, core.propagation.buffers)
                    if batch.num_rows:
                        try:
                            yield batch
                        except GeneratorExit:
                            wanted = self._unwanted()
                self.uninterrupted.check()
            if gather:
                net = core.results.changed(Zset.gathered(gathered, head.width).net())
                if wanted:
                    with suppress(GeneratorExit):
                        yield from head.batches(net)
            if closing is not None:
                closing()
            if not hold:
                self.settle()
        except BaseException as error:
            core.roll_back(error)
            raise

    def _unwanted(self) -> bool:
        """Has the rest of the batch applied without output, but for what is counted: the reader has left.

        False.
        """
        if not self.core.results.counted:
            self.core.propagation.hush()
        return False

    def undo(self, changes: Mapping[str, Any], missing: MissingDeletes | None) -> None:
        """Takes back the last batch, given what was applied and what its deletes did not find. O(changes * lambda)."""
        self.ready()
        with self.uninterrupted:
            self.core.undo(self._preparer.prepare(changes).changes, missing or MissingDeletes(), wanted=False)

    def refuse_missing(self, prepared: Prepared) -> None:
        """Refuses a batch, with ``on_missing="raise"``: see ``crown.engine.refusals.refuse_missing``."""
        if self.on_missing == "raise":
            refuse_missing(self.state, prepared)

    # Results and state
    # ------------------------------------------------------------------------------------------------------------

    def results(self, factorized: bool = False) -> Iterator[pa.RecordBatch]:
        """Yields the full result, in record batches of the output columns. O(1) per row; memory of one block.

        ``factorized``: as factorized rows; CrownError for plans that have none. Raises ConcurrentChangeError when it is
        continued after a change of the engine.
        """
        self.ready()
        if factorized:
            return factorized_batches(self.state, self.core.guard, self.factorized)
        return self.core.results.batches()

    def count(self) -> int:
        """Returns the number of result rows. O(state); O(result) if the plan has residual predicates."""
        self.ready()
        return self.core.results.count()

    def contains(self, values: Mapping[str, Any]) -> bool:
        """Returns True iff an output row (by output name) is in the result.

        Expected O(1); O(result) where the outputs leave attributes open that a declared key determines.
        """
        self.ready()
        return self.core.results.contains(values)

    def multiplicity(self, values: Mapping[str, Any]) -> int:
        """Returns how often an output row, by output name, is in the result. See ``EnumeratedResults.multiplicity``."""
        self.ready()
        return self.core.results.multiplicity(values)

    def compact(self) -> int:
        """Frees the dictionary entries that nothing refers to. Returns how many. O(state).

        It runs by itself when the dictionary has doubled.
        """
        self.ready()
        return self.state.compact()

    def save(self, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> int:
        """Writes the state and ``extra`` to one file. Returns the bytes written. O(state).

        Raises SnapshotError if it cannot be written, and if ``path`` is the file in which the state is kept.
        """
        target = path_of(path, "path")
        if self.path is not None and same_file(target, self.path):
            raise SnapshotError(f"{target} is the file in which this view keeps its state; save to another one")
        self.compact()
        return saving.write(target, self.plan, self.on_missing, None, extra, self.parts)

    def stats(self) -> dict[str, Any]:
        """Returns sizes and counters. See ``crown.engine.statistics.statistics``."""
        if not self.core.guard.busy:
            self.ready()
        return statistics(self.state)

    def check_invariants(self) -> None:
        """Recomputes every view from the rows and compares. O(state), in Python: for tests.

        Raises AssertionError, which names the first difference.
        """
        self.ready()
        invariants.check(self.core)
