"""Loads large batches of inserts in bulk, as far as memory allows, and the rest tuple by tuple.

tuples of a source -> tables sized for their new keys -> chunks, each inserted as a whole
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crown.engine.compile import CompiledPlan
from crown.engine.kernels.groups import node_at
from crown.engine.kernels.layout import N_PARENT, R_WIDTH
from crown.engine.kernels.update import DONE
from crown.engine.load.kernels import bulk, distinct
from crown.engine.load.kernels.warm import ensure_load_compiled
from crown.engine.load.room import words_for
from crown.engine.load.tasks import aliases_of, tasks_of
from crown.ingest.masks import EVERY
from crown.kernels.memory import arena as A
from crown.kernels.numbers.fixed import FLOAT_TOP
from crown.store.budget import Budget

MASKED = 32  # aliases of a source: the mask bits that a load carries with a record


class Loader:
    """Inserts large batches into the arena of a compiled plan. ``scratch``: the scratch array of the kernels.

    ``min_tuples``: fewer tuples are inserted one by one. ``chunk_tuples``: the maximum of a chunk. Each tuple of a
    chunk takes 16 bytes in addition to the state while it is inserted.
    """

    min_tuples = 1 << 14
    chunk_tuples = 1 << 23

    def __init__(self, arena: np.ndarray, compiled: CompiledPlan, budget: Budget, scratch: np.ndarray) -> None:
        self._arena = arena
        self._compiled = compiled
        self._budget = budget
        self._state = (arena, arena.view(np.int32), compiled.array, scratch)
        self._depths: dict[int, int] = {}  # node -> depth of the deepest alias of its source

    def load(self, node: int, values: np.ndarray, copies: np.ndarray, masks: np.ndarray, out: np.ndarray) -> int:
        """Inserts tuples into the source of ``node``, as ``update.insert_batch`` does without deltas and live views.

        Returns the number of inserted tuples, which are the first ones. The others, perhaps all, must be inserted one
        by one: they are few, there may be too little memory for them, or one might get too many copies. O(n +
        P-updates).
        """
        n, record = len(copies), self._compiled.record[node]
        if n < self.min_tuples:
            return 0
        far = self._far(node, values)
        if (step := self._fitting(record, n, n, far)) < self.min_tuples:
            return 0
        if masks is not EVERY and len(aliases_of(self._compiled, node)) > MASKED:
            return 0
        ensure_load_compiled(self._compiled.ring is not None)
        sample = np.empty(distinct.WORDS, np.int64)
        new = int(bulk.reserve_tables(*self._state, record, values, n, sample))
        step = max(min(step, 2 * new), self.min_tuples)  # present tuples also get records, which are freed
        starts, fresh, entries = np.empty(bulk.WORK, np.int64), np.empty(step, np.int64), np.empty(step, np.int64)
        tasks, total, done = tasks_of(self._compiled, node), int(copies.sum()), 0
        while (m := self._fitting(record, min(n - done, step), 0, far)) >= min(n - done, self.min_tuples) > 0:
            batch = (values, copies, masks, self._compiled.ring, done, m, total, tasks)
            if bulk.load_batch(*self._state, record, *batch, starts, fresh, entries, out) != DONE:
                break
            done += m
        return done

    def deepest_first(self, nodes: Sequence[int]) -> list[int]:
        """Returns the positions of ``nodes`` in the order in which loading their sources takes the least work."""
        for node in nodes:
            if node not in self._depths:
                self._depths[node] = max(map(self._depth, aliases_of(self._compiled, node)))
        return sorted(range(len(nodes)), key=lambda i: -self._depths[nodes[i]])

    def _fitting(self, record: int, n: int, total: int, far: bool) -> int:
        """Returns how many tuples, at most ``n``, can be inserted at once. Tables are sized for ``total``. ``far``:
        sums may have far parts."""
        n, load = min(n, self.chunk_tuples), (self._arena, self._compiled, record)
        while n >= self.min_tuples and not self._budget.provide(0, words_for(*load, n, total, far)):
            n //= 2
        return n

    def _far(self, node: int, values: np.ndarray) -> bool:
        """Returns True if inserting tuples, given row by row, into the source of ``node`` may give sums far parts."""
        payload = self._compiled.payload
        if payload is None or not any(parts.far for parts in payload.parts):
            return False
        if self._arena[A.H_FAR]:
            return True
        width = int(self._compiled.array[self._compiled.record[node] + R_WIDTH])
        words = {self._compiled.words[i][name] for i in aliases_of(self._compiled, node) for name in payload.doubles(i)}
        return not all(_near(values[word::width].view(np.float64)).all() for word in words)

    def _depth(self, node: int) -> int:
        depth = -1
        while node >= 0:
            node, depth = int(self._compiled.array[node_at(node) + N_PARENT]), depth + 1
        return depth


def _near(values: np.ndarray) -> np.ndarray:
    """Returns True for doubles without a far part: zero, sizes from 2^-60 to below 2^80, infinities and NaN."""
    sizes = np.abs(values)
    return (sizes == 0) | ((sizes >= 2.0**-60) & (sizes < 2.0**FLOAT_TOP)) | ~np.isfinite(values)
