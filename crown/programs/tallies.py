"""How many rows each stage has, with multiplicity, and what it has read and passed on: kept with every batch, so that
nothing has to be counted."""

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
"""Words of a stage that is no join: changes that it ever read, rows that it ever passed on."""
CHANGES = attrgetter("weights.size")
"""Returns how many changes a net has."""


class Tallies:
    """The numbers of rows of ``stages``, which lie in their first arenas; a stage without memory has its number here.

    A number that was not kept from the beginning is not known: of a state that an older release wrote, or of a stage
    without memory that was loaded. ``set`` says it then. ``work``: per stage where its words ``READ`` and ``PASSED``
    are; joins count what they do by themselves (``crown.analysis.report``).
    """

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = stages
        self._others: dict[int, int] = {}  # of stages without memory
        nowhere = np.zeros(PASSED + 1, np.int64)
        self.work = [nowhere if isinstance(s, (Join, CyclicCount)) or not s.parts else s.parts[0] for s in stages]

    def begin(self, numbers: Iterable[int]) -> None:
        """Notes that these stages have no rows."""
        for number in numbers:
            self.set(number, 0)

    def note(self, number: int, inputs: Sequence[Zset], net: Zset) -> None:
        """Notes that a stage has read some nets, and passed on its own. O(net)."""
        self.work[number][READ] += sum(map(CHANGES, inputs))
        if net.weights.size:
            self.work[number][PASSED] += net.weights.size
            self.add(number, net)

    def add(self, number: int, net: Zset, sign: int = 1) -> None:
        """Notes that the rows of a stage have changed by a net, or (``sign`` -1) changed back. O(net)."""
        known = self.known(number)
        if known is not None and net.weights.size:
            self.set(number, known + sign * int(np.add.reduce(net.weights)))

    def known(self, number: int) -> int | None:
        """Returns how many rows a stage has, None if that is not known. O(1)."""
        parts = self._stages[number].parts
        if not parts:
            return self._others.get(number)
        word = int(parts[0][H_ROWS])
        return word - 1 if word else None

    def set(self, number: int, rows: int) -> None:
        """Notes how many rows a stage has."""
        parts = self._stages[number].parts
        if parts:
            parts[0][H_ROWS] = (rows + 1 + (1 << 63)) % (1 << 64) - (1 << 63)  # on the way it may leave a word
        else:
            self._others[number] = rows

    def counted(self, number: int, rows: Callable[[], Iterable[Zset]]) -> int:
        """Returns the number of rows of a stage. Counts ``rows()`` if the number is not known yet.

        The number is negative if it has overflowed its word.
        """
        known = self.known(number)
        if known is None:
            known = sum(int(net.weights.sum()) for net in rows())
            self.set(number, known)
        return known
