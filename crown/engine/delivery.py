"""Delivers the deltas of a batch while it is applied, and rejects calls that are not allowed meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from functools import partial
from types import GeneratorType
from typing import Any
from weakref import ref

import pyarrow as pa

from crown.errors import ConcurrentChangeError, UnusableStateError
from crown.guards.interrupts import Uninterrupted

Batches = Generator[pa.RecordBatch, None, None]
READY_TO_COMMIT = object()
"""Yielded after the last delta by a cell that has applied its part of a batch, and waits until it may commit."""
_TURN_ROWS = 1 << 14  # a buffer with more rows is a turn by itself, so that it is still in the cache when it is reused
BUSY = (
    "a batch is still being applied: exhaust or close the iterator of its deltas first; if another thread applies it, "
    "let one thread at a time use the view, with a lock"
)
CHANGED = (
    "the view has changed since this iteration began: call results() again; if another thread changes it, let one "
    "thread at a time use the view, with a lock"
)
LOST = (
    "A batch was interrupted and could not be undone, so the state is not consistent. Load the last snapshot, or "
    "start again from the tables"
)


class _Aborted(BaseException):
    """Thrown into a transaction to undo it."""


class Delivery:
    """An iterator of delta batches over the generator of a transaction that has begun.

    Ctrl-C is deferred while the generator runs, but not between batches. ``close`` applies the rest of the batch
    without output, and so does deleting the iterator.
    """

    _batches: Batches

    def __init__(self, batches: Batches, uninterrupted: Uninterrupted) -> None:
        self._uninterrupted = uninterrupted
        self._batches = batches

    def __iter__(self) -> Delivery:
        return self

    def __next__(self) -> pa.RecordBatch:
        with self._uninterrupted:
            return next(self._batches)

    def to_table(self, schema: pa.Schema) -> pa.Table:
        """Returns all deltas as one table. If that fails, the batch is undone."""
        with self._uninterrupted:
            try:
                return pa.Table.from_batches(list(self._batches), schema)
            except BaseException:
                self.abort()
                raise

    def close(self) -> None:
        """Applies the rest of the batch. If an error stops it, the batch is undone and the error is raised."""
        with self._uninterrupted:
            self._batches.close()

    def abort(self) -> None:
        """Undoes the applied part of the batch. Raises UnusableStateError if it cannot be undone."""
        with self._uninterrupted, suppress(_Aborted):
            self._batches.throw(_Aborted())

    def __del__(self) -> None:
        if is_open(getattr(self, "_batches", None)):
            self.close()


def next_turn(batches: Iterator[Any]) -> list[Any]:
    """Returns the next deltas of a cell, before it waits for other cells. The last turn ends with
    ``READY_TO_COMMIT``."""
    found: list[Any] = []
    rows = 0
    while rows < _TURN_ROWS:
        found.append(batch := next(batches))
        if batch is READY_TO_COMMIT:
            break
        rows += batch.num_rows
    return found


def in_turns(
    cells: Sequence[Iterator[Any]],
    turns: Sequence[list[Any]],
    run: Callable[[Sequence[Callable[[], list[Any]]]], Sequence[list[Any]]],
) -> Iterator[pa.RecordBatch]:
    """Yields the deltas of cells, whose first ``turns`` are known. ``run`` runs a job of each cell that has more."""
    while True:
        cells = [cell for cell, turn in zip(cells, turns, strict=True) if turn[-1] is not READY_TO_COMMIT]
        for turn in turns:
            while turn:  # the reader alone has a batch: its memory is reused when it is released
                if (batch := turn.pop(0)) is not READY_TO_COMMIT:
                    yield batch
        if not cells:
            return
        del batch
        turns = run([partial(next_turn, cell) for cell in cells])


def refuse(busy: bool, unusable: bool) -> None:
    """Raises ConcurrentChangeError if a state is busy, UnusableStateError if it is lost."""
    if busy:
        raise ConcurrentChangeError(BUSY)
    if unusable:
        raise UnusableStateError(LOST)


def is_running(batch: ref[Generator[Any, None, None]] | None) -> bool:
    """Returns True while the generator of a transaction is not finished."""
    return batch is not None and is_open(batch())


def is_open(batch: object) -> bool:
    """Returns True for a generator that is not finished."""
    return isinstance(batch, GeneratorType) and batch.gi_frame is not None
