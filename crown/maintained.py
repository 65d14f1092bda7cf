"""What is maintained: the promises that every engine keeps, whatever it is made of.

The engine of one plan, its cells on several cores, the triangle count and a program of stages are interchangeable
behind ``Maintained``. Two of its users need more: a view asks for rows (``Queryable``), a cell on Spark keeps the state
across crashes (``Durable``). The engine of one plan is both. What joins inside a program is ``Composable``: nets in
codes, no Arrow, no decoding, one dictionary for all.

A batch is a transaction. It is prepared (checked and coded; results stay as they are), then run. Whatever stops it, the
state is afterwards as before; if that cannot be, the state is lost and refuses everything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from crown.engine.delivery import Delivery
from crown.guards.interrupts import Uninterrupted
from crown.ingest.batch import MissingDeletes, Prepared, RelationChange
from crown.store.budget import Budget
from crown.store.zset import Zset
from plans.plan import Plan
from plans.program import Program


class Maintained(Protocol):
    """A result that is kept up to date: what everybody asks of it."""

    @property
    def plan(self) -> Plan | Program:
        """Returns what is maintained."""
        ...

    @property
    def fingerprint(self) -> str:
        """Names what the state holds: state of another fingerprint is of no use."""
        ...

    @property
    def delta_schema(self) -> pa.Schema:
        """Returns the Arrow schema of what ``run`` yields: the result's columns and ``_weight``."""
        ...

    def prepare(self, changes: Mapping[str, Any], strict: bool = True) -> Prepared:
        """Checks, codes and nets a batch: relation -> Arrow table, frame or rows, with ``_weight``. O(batch).

        Raises ChangeError for what cannot be taken, and, unless ``strict`` is False, BadRowError for the first bad row.
        """
        ...

    def run(
        self, prepared: Prepared, *, deltas: bool = True, consolidate: bool | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Applies a prepared batch; yields its exact deltas. Closed early, it applies the rest without output.

        ``deltas=False``: nothing is delivered. ``consolidate``: leave out what the batch both adds and removes (None:
        where that is needed for exact deltas).
        """
        ...

    def save(self, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> int:
        """Writes the state and ``extra`` to one file, replaced in one step. Returns the bytes written. O(state).

        Raises SnapshotError if it cannot be written.
        """
        ...

    def stats(self) -> dict[str, Any]:
        """Returns sizes and counters: at least ``input_rows``, ``live_bytes`` and ``missing_deletes``."""
        ...

    def check_invariants(self) -> None:
        """Recomputes every view and compares; raises AssertionError. Slow, for tests."""
        ...


class Durable(Maintained, Protocol):
    """A state that its owner keeps across crashes, and whose last batch can be taken back: what a cell on Spark needs.

    The owner calls ``begin`` before a batch and ``commit`` with its number after it. A state that is found without
    that mark is not used.
    """

    @property
    def version(self) -> int:
        """Returns the number of the last batch applied; -1 before the first."""
        ...

    @property
    def clean(self) -> bool:
        """Returns False while, or after a crash in, the application of a batch."""
        ...

    @property
    def missing(self) -> MissingDeletes:
        """Returns what the deletes of the last batch did not find; ``undo`` wants it back."""
        ...

    @property
    def budget(self) -> Budget:
        """Returns how much memory the state may take."""
        ...

    def begin(self) -> None:
        """Marks the state dirty: a batch is being applied."""
        ...

    def commit(self, version: int) -> None:
        """Marks the state clean, with ``version`` (>= 0) the last batch applied."""
        ...

    def undo(self, changes: Mapping[str, Any], missing: MissingDeletes | None) -> None:
        """Takes back the last batch, given what was applied and what its deletes did not find. O(changes * lambda)."""
        ...


class Queryable(Maintained, Protocol):
    """A result that can be asked for rows: what a view needs."""

    batches: int
    """Batches applied by this object, or since its owner began to count."""

    uninterrupted: Uninterrupted
    """The context in which Ctrl-C waits until the state is whole."""

    @property
    def result_schema(self) -> pa.Schema:
        """Returns the Arrow schema of the result."""
        ...

    @property
    def lost(self) -> bool:
        """Returns True while a batch is being applied, and for ever after one that could not be taken back."""
        ...

    def run(
        self,
        prepared: Prepared,
        *,
        deltas: bool = True,
        consolidate: bool | None = None,
        closing: Callable[[], None] | None = None,
    ) -> Delivery:
        """See ``Maintained.run``. ``closing`` is called when all is done; if it raises, the batch is taken back."""
        ...

    def results(self) -> Iterator[pa.RecordBatch]:
        """Yields the full result. Raises ConcurrentChangeError when it is continued after a change."""
        ...

    def count(self) -> int:
        """Returns the number of result rows."""
        ...

    def contains(self, values: Mapping[str, Any]) -> bool:
        """Returns True iff an output row, by output name, is in the result."""
        ...

    def compact(self) -> int:
        """Frees the dictionary entries that nothing refers to. Returns how many. O(state)."""
        ...


class Composable(Protocol):
    """A plan's engine inside a program: nets in codes go in, the net of its output comes out.

    ``crown.engine.core.Core`` is one, and ``crown.stages.join.Join`` makes a stage of it. All stages of a program share
    one dictionary, so codes mean the same everywhere and are decoded once, at the end. A batch goes through the stages
    in topological order, each ``apply`` drained before the next begins. Then every stage settles. If one of them
    refuses the batch it has taken back its own part; the stages before it ``take_back``.
    """

    @property
    def missing(self) -> MissingDeletes:
        """Returns what the deletes of the last batch that stands did not find; only a stage over base tables has
        some."""
        ...

    def changes(self, nets: Mapping[str, Zset]) -> tuple[RelationChange, ...]:
        """Returns what ``apply`` takes, for nets by relation name, with all columns of its table, in their order.

        A base table's changes may come from a ``Preparer`` instead. O(tuples).
        """
        ...

    def apply(self, changes: Sequence[RelationChange]) -> Iterator[Zset]:
        """Applies a batch; yields the net change of the output, each tuple once, in blocks valid until the next step.

        When it is exhausted the batch is applied, but open: call ``settle`` or ``take_back``. If it raises, or is
        closed early, the batch has been taken back. O(changes * lambda + deltas).
        """
        ...

    def settle(self) -> None:
        """Lets the open batch stand."""
        ...

    def take_back(self) -> None:
        """Takes back the open batch.

        Raises UnusableStateError or MemoryBudgetError if the state is lost. O(changes).
        """
        ...

    def undo(self, changes: Sequence[RelationChange], missing: MissingDeletes, wanted: bool = True) -> Zset:
        """Takes back the last batch that stands. Returns the net change of the output, if ``wanted``."""
        ...
