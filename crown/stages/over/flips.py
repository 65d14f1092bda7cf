"""Finds the rows whose running MIN or MAX a change can alter.

A value is as good as another one if MIN or MAX does not prefer the other one. In the direction in which frames grow, a
change affects the rows up to the first row with a value that is as good, which shields all further rows. It affects no
row if a row on the other side has a value that is as good. Equal rows that one batch deletes do not shield the rows
behind them.

These statements are about the tree before a batch, and suffice. Take a row whose value a batch changes. If its old
value was better, the batch deletes all rows of its frame with that value. The first of these rows affects it: no row
before is as good, and no row between them that is as good stays. If its new value is better, the batch inserts a row
with that value, and no row of the frame was as good.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crown.stages.over.sums import Sums, extremum_of
from crown.stages.trees import Partitions
from plans.programs import frames
from plans.programs.frames import WindowFunction

_ALL_ROWS = 1 << 40  # more rows than a partition has


@dataclass(eq=False)
class Extents:
    """How far changes of rows affect a running MIN or MAX. ``changes``: the numbers of those that affect any row.

    ``ends``: the position of the row that shields all further rows, or, if frames begin at the current row, the
    position after it. ``unbounded``: True if there is no such row.
    """

    changes: np.ndarray
    ends: np.ndarray
    unbounded: np.ndarray


class Flips:
    """Computes how far changes of rows affect MIN and MAX, from the maxima of words that ``trees`` store."""

    def __init__(self, sums: Sums, trees: Partitions) -> None:
        self._sums = sums
        self._trees = trees

    def has_maximum(self, call: WindowFunction) -> bool:
        """Returns whether trees store the maximum of the words that a function compares."""
        return call.function in frames.ENDS and bool(call.arguments) and extremum_of(call) in self._sums.extrema

    def has_extents(self, call: WindowFunction) -> bool:
        """Returns whether ``extents`` can compute how far a change of a row affects the function."""
        return call.flips and self.has_maximum(call)

    def extents(
        self,
        call: WindowFunction,
        keys: np.ndarray,
        changes: np.ndarray,
        handles: np.ndarray,
        ranks: np.ndarray,
        ends: np.ndarray,
    ) -> Extents:
        """Returns how far changes of rows (codes, int64[width, n]) at positions ``ranks`` to ``ends`` affect values."""
        assert call.frame is not None, "it reads a frame"
        forward, word = call.frame.start is None, self._sums.extrema[extremum_of(call)]
        sort_keys, copies = self._sums.extremum_keys(extremum_of(call), keys), ends - ranks
        deleted = (copies > 0) & (copies + changes == 0)
        some = ((handles != 0) & (sort_keys != 0) & (deleted | ((copies == 0) & (changes > 0)))).nonzero()[0]
        handles, ranks, ends, sort_keys, deleted = (part[some] for part in (handles, ranks, ends, sort_keys, deleted))
        following = self._trees.ahead(handles, ends, word, sort_keys)
        preceding = self._trees.back(handles, ranks, word, sort_keys)
        sizes = self._trees.sizes(handles)
        effective = preceding == 0 if forward else following == sizes
        stops = following if forward else preceding
        _skip_deleted(stops, handles, ranks if forward else ends, sort_keys, deleted)
        unbounded = stops == (sizes if forward else 0)
        return Extents(some[effective], stops[effective], unbounded[effective])


def _skip_deleted(
    stops: np.ndarray, handles: np.ndarray, positions: np.ndarray, sort_keys: np.ndarray, deleted: np.ndarray
) -> None:
    """Replaces the stop of each deleted row by that of the row at the stop, as long as that row is deleted, too, and
    equally good. ``positions``: the positions of the rows."""
    rows = deleted.nonzero()[0]
    if len(rows) < 2:
        return
    _, group = np.unique(handles[rows], return_inverse=True)
    group = group.reshape(-1).astype(np.int64)
    sources = group * _ALL_ROWS + positions[rows]
    order = np.argsort(sources)
    targets = group * _ALL_ROWS + stops[rows]
    found = np.minimum(np.searchsorted(sources[order], targets), len(order) - 1)
    following = order[found]
    same = (sources[following] == targets) & (sort_keys[rows[following]] == sort_keys[rows])
    following = np.where(same, following, np.arange(len(rows)))
    while True:
        further = following[following]
        if (further == following).all():
            break
        following = further
    stops[rows] = stops[rows][following]
