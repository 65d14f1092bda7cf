"""Output buffers of kernels: what a kernel fills goes out as it is, and is written to again when nobody holds it.

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
_UNREAD = 2  # references to a buffer that nobody reads: the list's and the call's


def buffer(columns: int) -> np.ndarray:
    """Returns an output buffer for a kernel: int64[columns, rows]."""
    return np.empty((columns, BLOCK_CELLS // max(columns, 1)), np.int64)


class Buffers:
    """The buffer that a kernel writes to, and those that have gone out, for enumerations of so many ``columns``.

    ``margin``: words before each buffer that belong to whoever takes it; so does one column more behind it then, which
    is all 1 at first. So a buffer can become a message of Arrow where it is, with its weights.
    """

    def __init__(self, columns: int, margin: int = 0) -> None:
        self._columns = columns
        self._margin = margin
        self._rows = BLOCK_CELLS // max(columns, 1)
        self._memory: np.ndarray | None = None
        self._out: np.ndarray | None = None
        self._gone: list[np.ndarray] = []

    @property
    def out(self) -> np.ndarray:
        """Returns the buffer that a kernel writes to, int64[columns, rows].

        If the last one has gone out it is chosen now: the reader has let go of the one before by the time he comes
        back.
        """
        if self._out is None:
            memory = self._memory = self._free()
            end = self._margin + self._columns * self._rows
            self._out = memory[self._margin : end].reshape(self._columns, self._rows)
        return self._out

    def grow(self) -> None:
        """Doubles the buffer, which is empty: what comes next has no room in it."""
        self._rows *= 2
        self._out, self._gone = None, []

    def keeps(self, block: Zset) -> bool:
        """Returns True if the tuples of a block are so few that a reader gets a copy of them."""
        return 2 * len(block) < self._rows

    def own(self, block: Zset) -> Zset:
        """Returns the tuples of a block without payload, the first ones of ``out``, in memory that nobody writes to.

        That is a copy if they are few, else the buffer itself: ``out`` is another one then.
        """
        if self.keeps(block):
            return Zset.of_columns(np.array(block.rows.T, order="C"), block.weights)
        self.hand_over()
        return block

    def hand_over(self) -> np.ndarray:
        """Lets the buffer change hands; ``out`` is another one then. Returns its memory, and what is around it."""
        memory = self._memory
        assert memory is not None, "a kernel has written to it"
        self._gone = [*self._gone[1 - _WAITING :], memory]
        self._memory = self._out = None
        return memory

    def _free(self) -> np.ndarray:
        """Returns memory for a buffer, with what is around it."""
        for number in range(len(self._gone)):
            if getrefcount(self._gone[number]) <= _UNREAD:
                return self._gone.pop(number)
        if not self._margin:
            return np.empty(self._columns * self._rows, np.int64)
        memory = np.empty(self._margin + (self._columns + 1) * self._rows, np.int64)
        memory[-self._rows :] = 1
        return memory
