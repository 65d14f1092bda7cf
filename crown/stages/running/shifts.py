"""Deltas of running functions as ranges: one row of the delta for all rows that move by the same amount.

    changes -> where they cut their partitions -> ranges between the cuts -> how far each of them moves

Between two cuts all rows move alike (``crown.stages.running.cuts``). Rows that the result cannot tell from a changed
one are deleted and inserted one by one; ranges begin and end at rows that stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crown.stages.kernels.trees.ordered import BEHIND, FIRST
from crown.stages.running.cuts import Alike, Cuts, Pieces
from crown.stages.running.values import Running
from crown.store.zset import Zset
from plans.programs.frames import WindowFunction


@dataclass(frozen=True, eq=False)
class Shifts:
    """Rows of partitions from one to another one, both of them codes, int64[columns, n], and how far their values move:
    ``moved``, codes, int64[functions, n]. A value that is NULL stays NULL."""

    firsts: np.ndarray
    lasts: np.ndarray
    moved: np.ndarray

    def __len__(self) -> int:
        return self.moved.shape[1]


def shifted(
    running: Running,
    written: Callable[[Pieces], Zset],
    told: int,
    keys: np.ndarray,
    weights: np.ndarray,
    change: Callable[[np.ndarray], None],
) -> tuple[Zset, Shifts]:
    """Calls ``change``, which makes changes of rows (codes, int64[width, n]) in the trees, and is given what they add
    to the sums. Returns what that does to the values: the net of rows that are deleted and inserted, and ranges.

    ``written`` returns rows of the result, as they are. ``told``: by how many columns of the order the result tells
    rows apart. O(log n) per change and per such row. Raises ChangeError if a sum of these leaves its type, or what is
    added to those of a range.
    """
    changed = Alike.of(running, told, keys)
    sums = running.addends(keys, weights, changed.peers)
    ranges = _Ranges(running, Cuts(running, changed, weights, sums))
    alone, by = ranges.alone, ranges.by
    old = [written(changed.once())]
    if len(by):
        old.append(written(alone))
    change(sums)
    new = [written(changed.after(running, told, keys, weights))]
    if len(by):
        handles = running.trees.find(keys[:, ranges.number])
        new.append(written(Pieces(handles, alone.lows + by, alone.highs + by)))
    rows = Zset.gathered([*(part.negated() for part in old), *new], new[0].width)
    return rows.net(), ranges.shifts


class _Ranges:
    """The pieces between ``cuts`` as ranges, before the changes are made.

    ``shifts``: the ranges. The rows ``alone`` do not move as others do, for their values become NULL or are NULL no
    longer: they will be ``by`` so many places further on, in the partition of the change ``number``.
    """

    def __init__(self, running: Running, cuts: Cuts) -> None:
        self._running, self._cuts, trees, here = running, cuts, running.trees, cuts.pieces
        n, ends = len(here.lows), np.concatenate([here.lows, here.highs - 1])
        rows, heads = trees.copied(np.tile(here.handles, 2), ends, ends + 1, running.sums.shape)
        firsts, lasts, heads = rows[:, :n], rows[:, n:], heads[:n]
        moves, begins, moved = self._moved(here, heads)
        alone = (begins > here.lows).nonzero()[0]
        self.alone = Pieces(here.handles[alone], here.lows[alone], begins[alone])
        self.by, self.number = cuts.rows[alone], cuts.number[alone]
        rest = begins[alone] < here.highs[alone]
        if rest.any():
            firsts[:, alone[rest]] = trees.row(here.handles[alone[rest]], begins[alone[rest]])
        kept = (moves & (begins < here.highs)).nonzero()[0]
        self.shifts = Shifts(firsts[:, kept], lasts[:, kept], moved[:, kept])

    def _moved(self, here: Pieces, heads: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns which ranges move, from which row on they move alike, and how far, int64[functions, n]; ``heads``:
        the sums of the rows before them."""
        functions = self._running.functions
        moves, begins = np.zeros(len(here.lows), np.bool_), here.lows
        moved = np.empty((len(functions), len(here.lows)), np.int64)
        for i, one in enumerate(functions):
            if one.frame is None:
                moved[i] = self._cuts.rows if one.function == "row_number" else self._cuts.ranks
                moves |= moved[i] != 0
                continue
            added = self._cuts.added[one.frame.unit]
            moves |= added[:, self._running.added(one)].any(axis=1)
            if one.function == "sum":
                begins = np.maximum(begins, self._alike_from(one, here, heads, added))
                added = added.copy()
                added[:, self._running.count(one)] = 1  # the sum is a number, also if the copies add up to none
            moved[i] = self._running.column(one, added)
        return moves, np.minimum(begins, here.highs), moved

    def _alike_from(self, one: WindowFunction, here: Pieces, heads: np.ndarray, added: np.ndarray) -> np.ndarray:
        """Returns from which row on the values of SUM are NULL after the batch if they are before it.

        Whether the first one is says whether others are: between two cuts, frames grow by rows that stay.
        """
        word, trees = self._running.count(one), self._running.trees
        peers = one.frame is not None and one.frame.unit == "range"
        out, by = here.lows.copy(), added[:, word]
        near = ((heads[:, word] <= 0) | (heads[:, word] + by <= 0)).nonzero()[0]
        if not len(near):
            return out
        handles, ends = here.handles[near], here.lows[near]
        if peers:
            ends = trees.located(handles, trees.row(handles, ends), self._running.order, BEHIND)[0]
        seen = trees.copied(handles, ends, ends, self._running.sums.shape)[1][:, word]
        turned = ((seen == 0) != (seen + by[near] == 0)).nonzero()[0]
        if len(turned):
            handles, seen, near = handles[turned], seen[turned], near[turned]
            found = trees.numbered(handles, word, seen)
            inside = (found < here.highs[near]).nonzero()[0]
            if peers:
                rows = trees.row(handles[inside], found[inside])
                found[inside] = trees.located(handles[inside], rows, self._running.order, FIRST)[0]
            out[near] = np.maximum(found, out[near])
        return out
