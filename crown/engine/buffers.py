"""Output buffers of kernels: delivered without a copy, and reused when nothing refers to them.

To copy what was enumerated costs as much as to enumerate it, and fresh memory costs more than both. So a buffer that is
filled for the most part changes hands: the reader has it for as long as he likes, and the kernel goes on in another.
A reader who lets go of one batch before he asks for the next but one makes two buffers do for ever.
"""

from __future__ import annotations

from sys import getrefcount

import numpy as np

from crown.store.zset import Zset

BLOCK_CELLS = 1 << 16  # cells of an output buffer: it stays in the second-level cache
_WAITING = 2  # buffers that have gone out and are looked after
_NONE: np.ndarray = np.empty(0, np.int64)
_UNREAD = 2  # references to a buffer that has no reader: the list's and the call's


def buffer(columns: int) -> np.ndarray:
    """Returns an output buffer for a kernel: int64[columns, rows]."""
    return np.empty((columns, BLOCK_CELLS // max(columns, 1)), np.int64)


class Buffers:
    """The buffer that a kernel writes to, ``out`` int64[columns, rows], and those that have gone out, for enumerations
    of so many ``columns``.

    ``gone``: ``out`` has gone out, and ``renew`` chooses another one: when the reader comes back he has let go of the
    one before. ``margin``: words before each buffer that belong to the reader; so does one column more behind it
    then, which is all 1 at first. So a buffer can become a message of Arrow where it is, with its weights.
    """

    def __init__(self, columns: int, margin: int = 0) -> None:
        self._columns = columns
        self._margin = margin
        self._rows = BLOCK_CELLS // max(columns, 1)
        self._away: list[np.ndarray] = []
        self.renew()

    def renew(self) -> None:
        """Chooses the buffer that a kernel writes to."""
        self.out = self._memory = _NONE  # who counts the references of one that is gone counts no other
        self._memory = self._free()
        end = self._margin + self._columns * self._rows
        self.out = self._memory[self._margin : end].reshape(self._columns, self._rows)
        self.gone = False

    def grow(self) -> None:
        """Doubles the buffer, which is empty: what comes next has no room in it."""
        self._rows *= 2
        self._away = []
        self.renew()

    def keeps(self, block: Zset) -> bool:
        """Returns True if the tuples of a block are so few that a reader gets a copy of them."""
        return 2 * len(block) < self._rows

    def own(self, block: Zset) -> Zset:
        """Returns the tuples of a block without payload, the first ones of ``out``, in memory of their own.

        That is a copy if they are few, else the buffer itself, which changes hands.
        """
        if self.keeps(block):
            return Zset.of_columns(np.array(block.rows.T, order="C"), block.weights)
        self.hand_over()
        return block

    def hand_over(self) -> np.ndarray:
        """Lets the buffer change hands. Returns its memory, and what is around it."""
        self._away = [*self._away[1 - _WAITING :], self._memory]
        self.gone = True
        return self._memory

    def _free(self) -> np.ndarray:
        """Returns memory for a buffer, with what is around it."""
        for number in range(len(self._away)):
            if getrefcount(self._away[number]) <= _UNREAD:
                return self._away.pop(number)
        if not self._margin:
            return np.empty(self._columns * self._rows, np.int64)
        memory = np.empty(self._margin + (self._columns + 1) * self._rows, np.int64)
        memory[-self._rows :] = 1
        return memory
