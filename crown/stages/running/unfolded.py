"""Deltas of running functions as rows: each piece between cuts is written by one walk over leaves.

    changes -> cuts -> pieces, and how far each moves -> old rows, and new rows

The deltas are those of ``crown.stages.running.shifts``, row by row. Each row of a piece is deleted with its old value
and inserted with that value plus the shift, so no tree is read twice, and no old value is looked up. The rows of a
partition differ in some column, so only the changed rows themselves are netted. If the result hides a column, or copies
of a row have different values, all rows are netted.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from crown.stages.kernels.over import unfolding as kernels
from crown.stages.kernels.trees.scan import LEAVES
from crown.stages.running.cuts import EqualRows, Pieces, moving_pieces
from crown.stages.running.values import Running
from crown.store.arrow_buffers import empty
from crown.store.zset import Zset


class Unfolding:
    """Makes deltas of ``running`` functions whose values are single words, with the first ``visible`` columns of the
    rows."""

    def __init__(self, running: Running, visible: int) -> None:
        trees = running.trees
        self._running = running
        self._hides = visible < trees.width
        self._order_columns = len(trees.spec) // 4  # the order has all columns but the keys
        self._functions = running.encoded()
        self._copies_differ = any(call.apart for call in running.functions)
        self._width = visible + len(running.functions)
        self._scratch = np.zeros(int(trees.shape[1]) + kernels.STATE_WORDS * len(running.functions), np.int64)

    def delta(self, keys: np.ndarray, weights: np.ndarray, change: Callable[[np.ndarray], None]) -> Zset:
        """Applies changes of rows (codes, int64[width, n]). Returns the net change of the rows of the result.

        Calls ``change`` with the addends of the changes to the sums. It must change the trees. O(log n) per change,
        O(1) per row. Raises ChangeError if a sum leaves its type, and NotShort if only the dictionary can store one.
        """
        running, columns, n = self._running, self._order_columns, len(weights)
        status = self._new_status()
        changed = EqualRows.of(running, columns, keys)
        sums = running.addends(keys, weights, changed.words)
        old = self._deletes(changed.pieces(), n, status)
        pieces, moved = moving_pieces(running, self._functions, changed, weights, sums)
        first, limit = len(old), self._row_limit(pieces, len(running.trees))
        room = n + (first + int(weights[weights > 0].sum()) if self._copies_differ else 0)
        block = empty((self._width + 1) * (first + 2 * limit + room)).reshape(self._width + 1, -1)  # with the weights
        count = self._unfold(pieces, moved, block, first, first + limit, status)
        if count < limit:
            block[:, first + count : first + 2 * count] = block[:, first + limit : first + limit + count]
        change(sums)
        new = self._deletes(changed.pieces_after(running, columns, keys, weights), n, status)
        net = Zset.gathered([old, new.negated()], self._width).net()
        deletes, end = int(np.count_nonzero(net.weights < 0)), first + 2 * count
        begin, stop = first - deletes, end + len(net) - deletes
        for at, part in ((begin, net[:deletes]), (end, net[deletes:])):
            block[:-1, at : at + len(part)] = part.rows.T
            block[-1, at : at + len(part)] = part.weights
        nulls = bool(status[kernels.HAS_NULL])
        found = Zset(block[:-1, begin:stop].T, block[-1, begin:stop], nulls=nulls, own=True)
        return found.net() if self._hides or status[kernels.SPLIT_COPIES] else found

    @staticmethod
    def _new_status() -> np.ndarray:
        """Returns the initial status of a call of ``kernels.unfold``."""
        status = np.zeros(kernels.STATUS_WORDS, np.int64)
        status[kernels.OVERFLOWED] = -1
        return status

    def _deletes(self, pieces: Pieces, distinct: int, status: np.ndarray) -> Zset:
        """Returns the present rows of pieces as deletes. ``distinct``: an upper bound of their distinct rows."""
        block = np.empty((self._width + 1, self._row_limit(pieces, distinct)), np.int64)
        moved = np.zeros(kernels.MOVED_WORDS * len(pieces.handles) * len(self._running.functions), np.int64)
        count = self._unfold(pieces, moved, block, 0, -1, status)
        return Zset.of_columns(block[:-1, :count], block[-1, :count])

    def rows(self, pieces: Pieces) -> Zset:
        """Returns the rows of pieces with their copies. Copies that have different values are separate rows. O(log n)
        per piece, O(1) per row. Raises the errors of ``delta``."""
        return self._deletes(pieces, len(self._running.trees), self._new_status()).negated()

    def _row_limit(self, pieces: Pieces, distinct: int) -> int:
        """Returns an upper bound of the rows that pieces are written as, if they have at most ``distinct`` distinct
        rows."""
        rows = int((pieces.highs - pieces.lows).sum())
        return rows if self._copies_differ else min(rows, distinct)

    def _unfold(
        self, pieces: Pieces, moved: np.ndarray, block: np.ndarray, old: int, new: int, status: np.ndarray
    ) -> int:
        """Writes the old rows of pieces to a block, from row ``old`` on, and their new rows from row ``new`` on, unless
        ``new`` is -1. Returns the number of old rows. ``status``: see ``kernels.unfold``. Raises the
        errors of ``delta``."""
        running, trees = self._running, self._running.trees
        status[kernels.NEXT_DELETE], status[kernels.NEXT_INSERT] = old, new
        words = int(trees.shape[1])
        last, heads = np.zeros(LEAVES + words, np.int64), np.zeros((len(pieces.handles), words), np.int64)
        kernels.unfold(
            trees.part.arena, pieces.handles, trees.k, trees.shape, trees.spec, running.peer_columns,
            self._functions.reshape(-1), trees.strides(1), pieces.lows, pieces.highs, moved,
            *trees.part.dictionary.memory, trees.path, last, heads, self._scratch, status, block[:-1], block[-1],
        )  # fmt: skip
        if status[kernels.OVERFLOWED] >= 0:
            running.raise_overflow(int(status[kernels.OVERFLOWED]), status[kernels.ROW_COUNT :])
        return int(status[kernels.NEXT_DELETE]) - old
