"""Stores tuples with counts in a part of memory, for base tables and pointwise stages."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crown.ingest.batch import CountedPart
from crown.kernels.memory.arena import T_COUNT
from crown.kernels.memory.tables import table_at
from crown.stages.kernels import counts as kernels
from crown.stages.kernels.prefetch import AHEAD
from crown.stages.protocol import Part
from crown.store.zset import Zset

_SCANNED = 1 << 14


class CountedTuples:
    """Tuples of ``width`` codes with a count per leaf, in table ``table`` of a part."""

    def __init__(self, part: Part, table: int, width: int, leaves: int = 1) -> None:
        self.table = int(table_at(table))
        self.width = width
        self.leaves = leaves
        self._part = part
        self._identity = np.arange(max(width, 1), dtype=np.int64)
        self._tags = np.empty(AHEAD, np.int64)

    def __len__(self) -> int:
        return int(self._part.arena[self.table + T_COUNT])

    def add(
        self, events: Zset, leaf: np.ndarray, clamp: bool = False, counted_part: CountedPart | None = None
    ) -> np.ndarray:
        """Adds the weights of events to the counts of their tuples, each in its leaf (int64[n]).

        Returns int64[n, leaves]: the counts of each event's tuple before the event. With ``clamp`` no count falls below
        0; the events MUST be net then. ``counted_part``: the part of the events that was added before. Raises
        MemoryBudgetError, with nothing changed.
        """
        n = len(events)
        keys, strides = self._keys(events)
        before = (
            np.empty((n, self.leaves), np.int64)
            if counted_part is None
            else counted_part.before.reshape(n, self.leaves)
        )
        weights = np.ascontiguousarray(events.weights)

        def step(done: int) -> int:
            return kernels.tally(
                self._part.arena, self.table, strides, self.width, self.leaves, keys, leaf, weights, int(clamp), before,
                self._tags, done,
            )  # fmt: skip

        def undo(done: int) -> None:
            effective = np.maximum(weights, -before[np.arange(n), leaf]) if clamp else weights
            self.add(Zset(events.rows[:done], -effective[:done]), leaf[:done])

        self._part.run_rows(n, step, undo, 0 if counted_part is None else counted_part.done)
        return before

    def put(self, rows: Zset, before: np.ndarray, after: np.ndarray) -> None:
        """Changes the counts of different tuples from ``before``, their present counts, to ``after`` (int64[n,
        leaves]).

        Deletes a tuple whose last count becomes 0. Raises MemoryBudgetError, with nothing changed.
        """
        keys, strides = self._keys(rows)
        counts = np.ascontiguousarray(after)

        def step(done: int) -> int:
            return kernels.put(
                self._part.arena, self.table, strides, self.width, self.leaves, keys, counts, self._tags, done
            )

        self._part.run_rows(len(counts), step, lambda done: self.put(rows[:done], after[:done], before[:done]))

    def counts_of(self, rows: Zset) -> np.ndarray:
        """Returns the counts of tuples, int64[n, leaves]. Expected O(n)."""
        out = np.empty((len(rows), self.leaves), np.int64)
        keys, strides = self._keys(rows)
        kernels.counts_of(self._part.arena, self.table, strides, self.width, self.leaves, keys, out)
        return out

    def _keys(self, rows: Zset) -> tuple[np.ndarray, np.ndarray]:
        keys = np.ascontiguousarray(rows.columns())
        return keys, self._identity * len(rows)

    def scan(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields all tuples (int64[n, width]) with their counts (int64[n, leaves]), block by block."""
        slot = 0
        while slot >= 0:
            rows, counts = np.empty((_SCANNED, self.width), np.int64), np.empty((_SCANNED, self.leaves), np.int64)
            slot, n = kernels.scan(self._part.arena, self.table, self.width, self.leaves, slot, rows, counts)
            yield rows[:n], counts[:n]
