"""Keeps the row count of each stage, and the numbers of rows that it has read and passed on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

import numpy as np

from crown.kernels.memory.arena import H_EMITTED, H_R_UPDATES, H_ROWS
from crown.stages.joins.core import Join
from crown.stages.joins.cyclic import CyclicCount
from crown.stages.protocol import Stage
from crown.store.zset import Zset

READ, PASSED = H_R_UPDATES, H_EMITTED
"""Arena words of a stage that is not a join: changes that it has read, rows that it has passed on."""
CHANGES = attrgetter("weights.size")
"""Returns the number of changes of a net."""


class Tallies:
    """The row counts of ``stages``. They are in the first arena of each stage; those of stages without arena are here.

    A count is unknown if it was not kept from the beginning: for a state of an older release, and for a stage without
    arena after a load. ``set`` sets it then. ``work``: per stage, the array with its words ``READ`` and ``PASSED``.
    Joins count their work themselves (``crown.analysis.report``).
    """

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = stages
        self._others: dict[int, int] = {}  # of stages without arena
        discarded = np.zeros(PASSED + 1, np.int64)
        self.work = [discarded if isinstance(s, (Join, CyclicCount)) or not s.parts else s.parts[0] for s in stages]

    def begin(self, numbers: Iterable[int]) -> None:
        """Sets the row counts of stages to 0."""
        for number in numbers:
            self.set(number, 0)

    def note(self, number: int, inputs: Sequence[Zset], net: Zset) -> None:
        """Counts that a stage has read some nets, and has passed on ``net``. O(net)."""
        self.work[number][READ] += sum(map(CHANGES, inputs))
        if net.weights.size:
            self.work[number][PASSED] += net.weights.size
            self.add(number, net)

    def add(self, number: int, net: Zset, sign: int = 1) -> None:
        """Adds a net to the row count of a stage, or (``sign`` -1) subtracts it. O(net)."""
        known = self.known(number)
        if known is not None and net.weights.size:
            self.set(number, known + sign * int(np.add.reduce(net.weights)))

    def known(self, number: int) -> int | None:
        """Returns the row count of a stage; None if it is unknown. O(1)."""
        parts = self._stages[number].parts
        if not parts:
            return self._others.get(number)
        word = int(parts[0][H_ROWS])
        return word - 1 if word else None

    def set(self, number: int, rows: int) -> None:
        """Sets the row count of a stage."""
        parts = self._stages[number].parts
        if parts:
            # wraps, because intermediate values may exceed a word
            parts[0][H_ROWS] = (rows + 1 + (1 << 63)) % (1 << 64) - (1 << 63)
        else:
            self._others[number] = rows

    def counted(self, number: int, rows: Callable[[], Iterable[Zset]]) -> int:
        """Returns the row count of a stage. Counts ``rows()`` if it is unknown.

        It is negative if it has overflowed its word.
        """
        known = self.known(number)
        if known is None:
            known = sum(int(net.weights.sum()) for net in rows())
            self.set(number, known)
        return known
