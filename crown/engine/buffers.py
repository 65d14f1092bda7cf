"""Output buffers of kernels, which are delivered without a copy, and reused when nothing references them.

Copying enumerated rows costs as much as enumerating them, and fresh memory costs more than both. So a buffer that is
mostly full is handed to the reader, who may keep it for any time, and the kernel continues in another buffer. If a
reader releases one batch before it requests the next but one, two buffers suffice.

Sums of results are copied out of the arena, and far parts of doubles become separate rows. In an enumerated payload,
each part of doubles has a word after its limbs. The word is 0, or marks the limbs as a slice of a far part
(``crown.engine.kernels.enumeration.loans``). Rows are summed, so a row and its slices have the value of the original.
"""

from __future__ import annotations

from sys import getrefcount

import numpy as np

from crown.engine.kernels.enumeration import loans
from crown.engine.payload import Parts
from crown.store.zset import Zset

BLOCK_CELLS = 1 << 16  # cells of a block of an output buffer: it stays in the second-level cache
BLOCKS_OF_CELL = 8  # blocks of a buffer if several threads fill theirs at once: each return to Python needs the GIL
_WAITING = 2  # handed-out buffers that are watched for reuse
_NONE: np.ndarray = np.empty(0, np.int64)
_UNREAD = 2  # references to a buffer without a reader: the list's and the call's


class Buffers:
    """The buffer that a kernel writes to, ``out`` int64[columns, rows], and the buffers that were handed out.

    ``columns``: the columns of an enumeration. ``handed_out``: ``out`` was handed out; ``renew`` must choose another
    buffer when the reader returns. ``blocks``: the size of a buffer, in ``BLOCK_CELLS``. ``margin``: words before each
    buffer that belong to the reader. With a margin the reader also gets one more column after the buffer, initially all
    1. So a buffer can become an Arrow message with weights in place.
    """

    def __init__(self, columns: int, margin: int = 0, blocks: int = 1) -> None:
        self._columns = columns
        self._margin = margin
        self._rows = blocks * BLOCK_CELLS // max(columns, 1)
        self._handed_over: list[np.ndarray] = []
        self.renew()

    def renew(self) -> None:
        """Chooses the buffer that a kernel writes to."""
        self.out = self._memory = _NONE  # drops the last reference, so that the reference count is that of the readers
        self._memory = self._free()
        end = self._margin + self._columns * self._rows
        self.out = self._memory[self._margin : end].reshape(self._columns, self._rows)
        self.handed_out = False

    def grow(self) -> None:
        """Doubles the empty buffer, because the next row does not fit into it."""
        self._rows *= 2
        self._handed_over = []
        self.renew()

    def copies(self, block: Zset) -> bool:
        """Returns True if a block has so few tuples that a reader gets a copy of them."""
        return 2 * len(block) < self._rows

    def detach(self, block: Zset) -> Zset:
        """Returns the tuples of a block without payload, the first ones of ``out``, in memory of the reader.

        Copies few tuples. Otherwise hands over the buffer itself.
        """
        if self.copies(block):
            return Zset.of_columns(np.array(block.rows.T, order="C"), block.weights)
        self.hand_over()
        return block

    def hand_over(self) -> np.ndarray:
        """Hands over the buffer. Returns its memory, including margin and weights."""
        self._handed_over = [*self._handed_over[1 - _WAITING :], self._memory]
        self.handed_out = True
        return self._memory

    def _free(self) -> np.ndarray:
        """Returns memory for a buffer, including margin and weights."""
        for number in range(len(self._handed_over)):
            if getrefcount(self._handed_over[number]) <= _UNREAD:
                return self._handed_over.pop(number)
        if not self._margin:
            return np.empty(self._columns * self._rows, np.int64)
        memory = np.empty(self._margin + (self._columns + 1) * self._rows, np.int64)
        memory[-self._rows :] = 1
        return memory


def with_slices(block: Zset, arena: np.ndarray, parts: Parts) -> Zset:
    """Returns the rows of a block of results whose far parts are lent from ``arena``, and their slices, in new memory.

    Ends the loans. O(rows + far parts).
    """
    assert block.payload is not None, "a plan with sums of doubles carries them"
    payload, n = np.ascontiguousarray(block.payload), len(block)
    if payload is block.payload:
        payload = payload.copy()
    places = np.array(parts.far, np.int64).reshape(-1)
    total = int(loans.count(arena, payload, n, places))
    sources, slices = np.empty(total, np.int64), np.zeros((len(payload), total), np.int64)
    loans.cut(arena, payload, n, places, sources, slices)
    loans.call(arena)
    rows, weights = block.columns(), np.concatenate([block.weights, np.zeros(total, np.int64)])
    columns = np.concatenate([rows, rows[:, sources]], axis=1)
    return Zset.of_columns(columns, weights, np.concatenate([payload, slices], axis=1))
