"""Delivers the deltas of a batch while it is applied, and rejects calls that may not be made meanwhile."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from types import GeneratorType
from typing import Any
from weakref import ref

import pyarrow as pa

from crown.errors import ConcurrentChangeError, UnusableStateError
from crown.guards.interrupts import Uninterrupted

Batches = Generator[pa.RecordBatch, None, None]
BUSY = (
    "a batch is still being applied: exhaust or close the iterator of its deltas first; if another thread applies it, "
    "let one thread at a time use the view, with a lock"
)
CHANGED = (
    "the view has changed since this iteration began: call results() again; if another thread changes it, let one "
    "thread at a time use the view, with a lock"
)
LOST = (
    "A batch was stopped half-way and could not be taken back: the state is neither before nor after it. Load the last "
    "snapshot, or start anew"
)


class _Aborted(BaseException):
    """Thrown into a transaction that is to be taken back."""


class Delivery:
    """An iterator of delta batches over the generator of a transaction that has begun.

    Ctrl-C waits while the generator runs, not while the reader has its batches. ``close`` has the rest of the batch
    applied without output, and so has forgetting the iterator.
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
        """Returns all deltas at once. If that fails in any way the batch is taken back."""
        with self._uninterrupted:
            try:
                return pa.Table.from_batches(list(self._batches), schema)
            except BaseException:
                self.abort()
                raise

    def close(self) -> None:
        """Applies what is left of the batch. Raises what stops that; the batch was taken back then."""
        with self._uninterrupted:
            self._batches.close()

    def abort(self) -> None:
        """Takes back what was applied of the batch. Raises UnusableStateError if that cannot be done."""
        with self._uninterrupted, suppress(_Aborted):
            self._batches.throw(_Aborted())

    def __del__(self) -> None:
        if is_open(getattr(self, "_batches", None)):
            self.close()


def refuse(busy: bool, lost: bool) -> None:
    """Raises ConcurrentChangeError if a state is busy, UnusableStateError if it is lost."""
    if busy:
        raise ConcurrentChangeError(BUSY)
    if lost:
        raise UnusableStateError(LOST)


def is_running(batch: ref[Generator[Any, None, None]] | None) -> bool:
    """Returns True while the generator of a transaction has not come to its end, however it did."""
    return batch is not None and is_open(batch())


def is_open(batch: object) -> bool:
    """Returns True for a generator that has not come to its end."""
    return isinstance(batch, GeneratorType) and batch.gi_frame is not None
