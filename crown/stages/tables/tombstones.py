"""Tombstones: the last sequence of each deleted key, stored until it expires.

A tombstone expires when the difference between the greatest sequence and its own reaches the retention. Tombstones are
stored in a tree, in the order of their sequence, so expired tombstones are the first ones. Inserting or deleting a
tombstone costs O(log n), and the tree is never scanned completely. Expiry depends only on the changes, never on a
clock: the same batches expire the same tombstones.
"""

from __future__ import annotations

import numpy as np

from crown.kernels.memory.arena import T_TALLIES
from crown.kernels.strings import NULL
from crown.stages.kernels import retained as kernels
from crown.stages.kernels.trees import orders
from crown.stages.protocol import Part
from crown.stages.trees import OrderedRows, Trees
from crown.store.zset import Zset

_ROOT, _GREATEST, _BEFORE, _WORDS = 0, 1, 2, 3
_FEW, _ALL, _LATEST, _LEAST = 64, 1 << 62, 2**63 - 1, -(2**63)


class Tombstones:
    """The tombstones of one relation, whose record a word of ``table`` of a part references.

    ``width``: words of a key. ``retention``: the difference from the greatest sequence at which a tombstone expires.
    """

    def __init__(self, part: Part, table: int, width: int, retention: int) -> None:
        self._part = part
        self._retention = retention
        self._width = width + 1  # the sequence comes first
        order = np.array([[i, orders.BY_WORD, 0, 0] for i in range(self._width)], np.int64).reshape(-1)
        self._record, created = part.record(table + T_TALLIES, _WORDS)
        if created:
            part.arena[self._record + _GREATEST] = part.arena[self._record + _BEFORE] = NULL
        self._tree = Trees(part, ["int64"] * self._width, order)
        self._rows = OrderedRows([(self._record + _ROOT, self._tree)])

    # -- the greatest sequence -----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begins a batch that can be undone."""
        self._part.arena[self._record + _BEFORE] = self._part.arena[self._record + _GREATEST]

    def record_greatest(self, greatest: int) -> None:
        """Records the greatest sequence of a batch."""
        arena = self._part.arena
        arena[self._record + _GREATEST] = max(int(arena[self._record + _GREATEST]), greatest)

    def restore_greatest(self) -> None:
        """Restores the greatest sequence before the batch."""
        self._part.arena[self._record + _GREATEST] = self._part.arena[self._record + _BEFORE]

    def expiry(self, greatest: int = NULL) -> int:
        """Returns the greatest sequence whose tombstones expire after changes up to sequence ``greatest``; -2^63 before
        any change."""
        reached = max(int(self._part.arena[self._record + _GREATEST]), greatest)
        return _LEAST if reached == NULL else max(reached - self._retention, _LEAST)

    # -- the tombstones ------------------------------------------------------------------------------------------------

    def change(self, rows: np.ndarray, signs: np.ndarray) -> None:
        """Adds and removes tombstones: rows int64[n, width] of a sequence and a key, signs 1 and -1 (int64[n]).

        Raises MemoryBudgetError, with nothing changed.
        """
        self._rows.change(Zset(rows, signs))

    def up_to(self, last: int) -> np.ndarray:
        """Returns the tombstones up to sequence ``last``, int64[n, width]. Amortized O(n + log). Changes nothing."""
        room = _FEW
        while True:
            rows, copies = np.empty((room, self._width), np.int64), np.empty(room, np.int64)
            m = int(
                kernels.front(self._part.arena, self._record + _ROOT, self._tree.shape, 0, last, _ALL, rows, copies)
            )
            if m < room:
                return rows[:m]
            room *= 4

    def all(self) -> np.ndarray:
        """Returns all tombstones in order. O(n)."""
        return self.up_to(_LATEST)
