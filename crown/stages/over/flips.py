"""Finds the rows whose running MIN or MAX a change can alter.

Such a value only changes as far as no other row has what is as good: from a change on up to the first row that is not
worse, if none is before it. Of rows that are deleted in one batch, equal ones do not shield what is behind them.

What is said holds for the tree before a batch. Take a row whose value a batch changes. If its old value was better,
all rows of its frame with that value are deleted, and the first of them reaches it: none before that is as good, and
none behind it, in the frame, is as good and stays. If the new one is better, a row that is inserted has it, and
nothing in the frame was as good.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crown.stages.over.sums import Sums, looked_for
from crown.stages.trees import Partitions
from plans.programs import frames
from plans.programs.frames import WindowFunction

_EVERY = 1 << 40  # more rows than there are


@dataclass(eq=False)
class Shielded:
    """The changes ``some`` that are seen; the first row each way whose frame has another row that is as good is at
    position ``at`` of its partition, or behind it: then no row has one where ``free``."""

    some: np.ndarray
    at: np.ndarray
    free: np.ndarray


class Flips:
    """How far the values of MIN and MAX change, by the greatest words of ``trees``."""

    def __init__(self, sums: Sums, trees: Partitions) -> None:
        self._sums = sums
        self._trees = trees

    def known(self, one: WindowFunction) -> bool:
        """Returns whether a tree knows the greatest words of a function."""
        return one.function in frames.ENDS and bool(one.arguments) and looked_for(one) in self._sums.best

    def told(self, one: WindowFunction) -> bool:
        """Returns whether it is known how far a change of a row is seen."""
        return one.flips and self.known(one)

    def of(
        self,
        one: WindowFunction,
        keys: np.ndarray,
        changes: np.ndarray,
        handles: np.ndarray,
        ranks: np.ndarray,
        ends: np.ndarray,
    ) -> Shielded:
        """Returns how far changes are seen of rows (codes, int64[width, n]) that are at ``ranks`` to ``ends``."""
        assert one.frame is not None, "it reads a frame"
        forth, word = one.frame.start is None, self._sums.best[looked_for(one)]
        worth, there = self._sums.worths(looked_for(one), keys), ends - ranks
        gone = (there > 0) & (there + changes == 0)
        some = ((handles != 0) & (worth != 0) & (gone | ((there == 0) & (changes > 0)))).nonzero()[0]
        handles, ranks, ends, worth, gone = (part[some] for part in (handles, ranks, ends, worth, gone))
        ahead = self._trees.ahead(handles, ends, word, worth)
        behind = self._trees.back(handles, ranks, word, worth)
        sizes = self._trees.sizes(handles)
        seen = behind == 0 if forth else ahead == sizes
        at = ahead if forth else behind
        _unshield(at, handles, ranks if forth else ends, worth, gone)
        free = at == (sizes if forth else 0)
        return Shielded(some[seen], at[seen], free[seen])


def _unshield(at: np.ndarray, handles: np.ndarray, own: np.ndarray, worth: np.ndarray, gone: np.ndarray) -> None:
    """Sets ``at`` of rows that are ``gone`` to that of the row there, as long as that one is gone, too, and equal."""
    deleted = gone.nonzero()[0]
    if len(deleted) < 2:
        return
    _, group = np.unique(handles[deleted], return_inverse=True)
    group = group.reshape(-1).astype(np.int64)
    mine = group * _EVERY + own[deleted]
    order = np.argsort(mine)
    asked = group * _EVERY + at[deleted]
    found = np.minimum(np.searchsorted(mine[order], asked), len(order) - 1)
    following = order[found]
    same = (mine[following] == asked) & (worth[deleted[following]] == worth[deleted])
    following = np.where(same, following, np.arange(len(deleted)))
    while True:
        further = following[following]
        if (further == following).all():
            break
        following = further
    at[deleted] = at[deleted][following]
