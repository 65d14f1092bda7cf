"""Deltas of running functions as rows: each piece between cuts is written by one walk over leaves.

    changes -> cuts -> pieces, and how far each moves -> rows as they are, rows as they will be

The deltas are those of ``crown.stages.running.shifts``, row by row. A row of a piece goes with the value that it has,
and comes with that value moved, so no tree is read twice, and no row is looked up to find out what it was before. The
rows of a partition differ in some column, so only the changed rows themselves are netted. All rows are netted where the
result hides a column, or copies of a row have different values.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from crown.stages.kernels.over import unfolding as kernels
from crown.stages.kernels.trees.scan import LEAVES
from crown.stages.running.cuts import Alike, Cuts, Pieces
from crown.stages.running.values import Running
from crown.store.arrow_buffers import empty
from crown.store.zset import Zset


class Unfolding:
    """Makes deltas of ``running`` functions whose values are words, with the first ``shown`` columns of the rows."""

    def __init__(self, running: Running, shown: int) -> None:
        trees = running.trees
        self._running = running
        self._hides = shown < trees.width
        self._every = len(trees.spec) // 4  # columns of the order: it goes by all columns
        self._functions = running.words()
        self._apart = any(one.apart for one in running.functions)
        self._width = shown + len(running.functions)
        self._scratch = np.zeros(int(trees.shape[1]) + kernels.STATE * len(running.functions), np.int64)

    def delta(self, keys: np.ndarray, weights: np.ndarray, change: Callable[[np.ndarray], None]) -> Zset:
        """Calls ``change``, which makes changes of rows (codes, int64[width, n]) in the trees, and is given what they
        add to the sums; returns the net of what that does to the rows of the result. O(log n) per change, O(1) per row.

        Raises ChangeError if a sum leaves its type.
        """
        running, every, n = self._running, self._every, len(weights)
        told = self._nothing()
        changed = Alike.of(running, every, keys)
        sums = running.addends(keys, weights, changed.peers)
        old = self._written(changed.once(), n, told)
        here, moved = self._moved(Cuts(running, changed, weights, sums))
        first, most = len(old), self._lines(here, len(running.trees))
        rest = n + (first + int(weights[weights > 0].sum()) if self._apart else 0)
        block = empty((self._width + 1) * (first + 2 * most + rest)).reshape(self._width + 1, -1)  # with the weights
        count = self._unfold(here, moved, block, first, first + most, told)
        if count < most:
            block[:, first + count : first + 2 * count] = block[:, first + most : first + most + count]
        change(sums)
        new = self._written(changed.after(running, every, keys, weights), n, told)
        alone = Zset.gathered([old, new.negated()], self._width).net()
        gone, end = int(np.count_nonzero(alone.weights < 0)), first + 2 * count
        begin, come = first - gone, end + len(alone) - gone
        for at, some in ((begin, alone[:gone]), (end, alone[gone:])):
            block[:-1, at : at + len(some)] = some.rows.T
            block[-1, at : at + len(some)] = some.weights
        nulls = bool(told[kernels.NULLS])
        found = Zset(block[:-1, begin:come].T, block[-1, begin:come], nulls=nulls, own=True)
        return found.net() if self._hides or told[kernels.APART] else found

    @staticmethod
    def _nothing() -> np.ndarray:
        """Returns what a kernel has told of nothing (see ``kernels.unfold``)."""
        told = np.zeros(kernels.TOLD, np.int64)
        told[kernels.REFUSED] = -1
        return told

    def _written(self, here: Pieces, distinct: int, told: np.ndarray) -> Zset:
        """Returns rows as they are, as rows that go; so many ``distinct`` ones at most."""
        block = np.empty((self._width + 1, self._lines(here, distinct)), np.int64)
        moved = np.zeros(kernels.MOVED * len(here.handles) * len(self._running.functions), np.int64)
        count = self._unfold(here, moved, block, 0, -1, told)
        return Zset.of_columns(block[:-1, :count], block[-1, :count])

    def rows(self, here: Pieces) -> Zset:
        """Returns rows with their copies: copies that have different values are rows by themselves. O(log n) per piece,
        O(1) per row. Raises ChangeError if a sum leaves its type."""
        return self._written(here, len(self._running.trees), self._nothing()).negated()

    def _lines(self, here: Pieces, distinct: int) -> int:
        """Returns how many rows pieces can be at most, which have so many ``distinct`` ones at most."""
        rows = int((here.highs - here.lows).sum())
        return rows if self._apart else min(rows, distinct)

    def _moved(self, cuts: Cuts) -> tuple[Pieces, np.ndarray]:
        """Returns the pieces that move, and how far each function does (see ``kernels.unfold``)."""
        here, functions = cuts.pieces, self._running.functions
        moved = np.zeros((len(here.handles), len(functions), kernels.MOVED), np.int64)
        for i, one in enumerate(functions):
            if one.frame is None:
                moved[:, i, 0] = cuts.rows if one.function == "row_number" else cuts.ranks
                continue
            added, (_, _, count, word, _, _) = cuts.added[one.frame.unit], self._functions[i]
            moved[:, i, 0] = added[:, count]
            if one.function == "sum":
                moved[:, i, 1:] = added[:, word : word + 2]
        some = np.flatnonzero(moved.any(axis=(1, 2)))
        return here[some], moved[some].reshape(-1)

    def _unfold(self, here: Pieces, moved: np.ndarray, block: np.ndarray, old: int, new: int, told: np.ndarray) -> int:
        """Writes pieces from row ``old`` of a block on, and, unless that is -1, from row ``new`` on what they will be.
        Returns how many rows these are; what else is ``told`` see ``kernels.unfold``. Raises ChangeError."""
        running, trees = self._running, self._running.trees
        told[kernels.OLD], told[kernels.NEW] = old, new
        words = int(trees.shape[1])
        last, heads = np.zeros(LEAVES + words, np.int64), np.zeros((len(here.handles), words), np.int64)
        kernels.unfold(
            trees.part.arena, here.handles, trees.k, trees.shape, trees.spec, running.order,
            self._functions.reshape(-1), trees.strides(1), here.lows, here.highs, moved,
            *trees.part.dictionary.memory, trees.path, last, heads, self._scratch, told, block[:-1], block[-1],
        )  # fmt: skip
        if told[kernels.REFUSED] >= 0:
            running.refuse(int(told[kernels.REFUSED]), told[kernels.COUNTED :])
        return int(told[kernels.OLD]) - old
