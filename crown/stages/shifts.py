"""Deltas of running functions as ranges: rows that move by the same amount are one row of the delta.

    changes -> where they cut their partitions -> ranges between the cuts -> how far each of them moves

Between two cuts all rows move alike (``crown.stages.cuts``). Rows that the result cannot tell from a changed one are
deleted and inserted one by one; ranges begin and end at rows that stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crown.stages.cuts import Alike, Cuts, Pieces
from crown.stages.kernels.ordered import BEHIND, FIRST
from crown.stages.running import Running
from crown.store.zset import Zset
from plans.frames import WindowFunction


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
    running: Running, told: int, keys: np.ndarray, weights: np.ndarray, change: Callable[[np.ndarray], None]
) -> tuple[Zset, Shifts]:
    """Calls ``change``, which makes changes of rows (codes, int64[width, n]) in the trees, and is given what they add
    to the sums. Returns what that does to the values: rows that are deleted and inserted, and ranges.

    ``told``: by how many columns of the order the result tells rows apart. O(log n) per change and per such row.
    Raises ChangeError if a sum of these leaves its type, or what is added to those of a range.
    """
    changed = Alike.of(running, told, keys)
    sums = running.addends(keys, weights, changed.ends - changed.begins)
    ranges = _Ranges(running, Cuts(running, changed, weights, sums))
    alone, by = ranges.alone, ranges.by
    old = [_rows(running, changed.once())]
    if len(by):
        old.append(running.rows(alone.handles, alone.lows, alone.highs))
    change(sums)
    new = [_rows(running, changed.after(running, told, keys, weights))]
    if len(by):
        handles = running.trees.find(keys[:, ranges.number])
        new.append(running.rows(handles, alone.lows + by, alone.highs + by))
    rows = np.concatenate([*old, *new], axis=1)
    signs = np.ones(rows.shape[1], np.int64)
    signs[: sum(part.shape[1] for part in old)] = -1
    return Zset.of_columns(rows, signs), ranges.shifts


def _rows(running: Running, alike: Alike) -> np.ndarray:
    """Returns rows with their values."""
    return running.rows(alike.handles, alike.lows, alike.highs, (alike.begins, alike.ends))


class _Ranges:
    """The pieces between ``cuts`` as ranges, before the changes are made.

    ``shifts``: the ranges. The rows ``alone`` do not move as others do, for their values become NULL or are NULL no
    longer: they will be ``by`` so many places further on, in the partition of the change ``number``.
    """

    def __init__(self, running: Running, cuts: Cuts) -> None:
        self._running, self._cuts, trees, here = running, cuts, running.trees, cuts.pieces
        rows, heads, behind, before = self._beside()
        moves, begins, moved = self._moved(here, heads[cuts.begins])
        alone = (begins > here.lows).nonzero()[0]
        self.alone = Pieces(here.handles[alone], here.lows[alone], begins[alone])
        self.by, self.number = cuts.copies("rows")[alone], cuts.number[alone]
        firsts = rows[:, behind[cuts.begins]]
        rest = begins[alone] < here.highs[alone]
        firsts[:, alone[rest]] = trees.row(here.handles[alone[rest]], begins[alone[rest]])
        kept = (moves & (begins < here.highs)).nonzero()[0]
        self.shifts = Shifts(firsts[:, kept], rows[:, before[cuts.begins[kept] + 1]], moved[:, kept])

    def _beside(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Returns the rows beside cuts, codes, int64[width, m]; the sums of some that are before each cut; and which of
        the rows is behind it, and which before."""
        cuts = self._cuts
        lows, highs = np.maximum(cuts.positions - 1, 0), np.minimum(cuts.positions + 1, cuts.sizes)
        rows, heads = self._running.trees.copied(cuts.handles, lows, highs, self._running.sums.shape)
        at = np.cumsum(highs - lows) - (highs - lows)
        return rows, heads, at + cuts.positions - lows, at

    def _moved(self, here: Pieces, heads: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns which ranges move, from which row on they move alike, and how far, int64[functions, n]; ``heads``:
        the sums of some rows before them."""
        functions = self._running.functions
        moves, begins = np.zeros(len(here.lows), np.bool_), here.lows
        moved = np.empty((len(functions), len(here.lows)), np.int64)
        for i, one in enumerate(functions):
            if one.frame is None:
                moved[i] = self._cuts.copies("rows" if one.function == "row_number" else "rank")
                moves |= moved[i] != 0
                continue
            added = self._cuts.added(one.frame.unit)
            moves |= added.any(axis=1)
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
