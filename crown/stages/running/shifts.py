"""Deltas of running functions as ranges: one row of the delta for all rows that move by the same amount.

    changes -> where they cut their partitions -> ranges between the cuts -> how far each range moves

Between two cuts, all rows move by the same amount (``crown.stages.running.cuts``). Rows that the result does not
distinguish from a changed row are deleted and inserted one by one. Ranges begin and end at rows that stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crown.stages.kernels.trees.ordered import BEHIND, FIRST
from crown.stages.running.cuts import Cuts, EqualRows, Pieces
from crown.stages.running.values import Running
from crown.store.zset import Zset
from plans.programs.frames import WindowFunction


@dataclass(frozen=True, eq=False)
class Shifts:
    """Ranges of rows whose values move by the same amount, from ``firsts`` to ``lasts`` (codes, int64[columns, n]).

    ``moved``: how far the values of each function move, in codes, int64[functions, n]. A NULL stays NULL.
    """

    firsts: np.ndarray
    lasts: np.ndarray
    moved: np.ndarray

    def __len__(self) -> int:
        return self.moved.shape[1]


def shifted(
    running: Running,
    read: Callable[[Pieces], Zset],
    distinguished: int,
    keys: np.ndarray,
    weights: np.ndarray,
    change: Callable[[np.ndarray], None],
) -> tuple[Zset, Shifts]:
    """Applies changes of rows (codes, int64[width, n]). Returns the resulting changes of the values: the net of the
    rows that are deleted and inserted one by one, and ranges of rows.

    Calls ``change`` with the addends of the changes to the sums. It must change the trees. ``read`` returns the
    present rows of the result at pieces. ``distinguished``: the number of columns of the order by which the result
    distinguishes rows. O(log n) per change and per row that is read. Raises ChangeError if the sum of such a row, or
    the shift of a range, leaves its type.
    """
    changed = EqualRows.of(running, distinguished, keys)
    sums = running.addends(keys, weights, changed.words)
    ranges = _Ranges(running, Cuts(running, changed, weights, sums))
    single, shift = ranges.single, ranges.single_shift
    old = [read(changed.pieces())]
    if len(shift):
        old.append(read(single))
    change(sums)
    new = [read(changed.pieces_after(running, distinguished, keys, weights))]
    if len(shift):
        handles = running.trees.find(keys[:, ranges.single_change])
        new.append(read(Pieces(handles, single.lows + shift, single.highs + shift)))
    rows = Zset.gathered([*(part.negated() for part in old), *new], new[0].width)
    return rows.net(), ranges.shifts


class _Ranges:
    """The pieces between ``cuts`` as ranges, before the changes are applied.

    ``shifts``: the ranges. ``single``: rows that do not move with the others, because their values become NULL or stop
    being NULL. After the batch they are ``single_shift`` positions further on, in the partition of the change with the
    number ``single_change``.
    """

    def __init__(self, running: Running, cuts: Cuts) -> None:
        self._running, self._cuts, trees, pieces = running, cuts, running.trees, cuts.pieces
        n, ends = len(pieces.lows), np.concatenate([pieces.lows, pieces.highs - 1])
        rows, heads = trees.copied(np.tile(pieces.handles, 2), ends, ends + 1, running.sums.shape)
        firsts, lasts, heads = rows[:, :n], rows[:, n:], heads[:n]
        moves, begins, moved = self._moved(pieces, heads)
        single = (begins > pieces.lows).nonzero()[0]
        self.single = Pieces(pieces.handles[single], pieces.lows[single], begins[single])
        self.single_shift, self.single_change = cuts.row_shift[single], cuts.change[single]
        nonempty = begins[single] < pieces.highs[single]
        if nonempty.any():
            firsts[:, single[nonempty]] = trees.row(pieces.handles[single[nonempty]], begins[single[nonempty]])
        moving = (moves & (begins < pieces.highs)).nonzero()[0]
        self.shifts = Shifts(firsts[:, moving], lasts[:, moving], moved[:, moving])

    def _moved(self, pieces: Pieces, heads: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns which pieces move, the position in each from which all rows move by the same amount, and that amount,
        int64[functions, n]. ``heads``: the sums of the rows before each piece."""
        functions = self._running.functions
        moves, begins = np.zeros(len(pieces.lows), np.bool_), pieces.lows
        moved = np.empty((len(functions), len(pieces.lows)), np.int64)
        for i, call in enumerate(functions):
            if call.frame is None:
                moved[i] = self._cuts.row_shift if call.function == "row_number" else self._cuts.rank_shift
                moves |= moved[i] != 0
                continue
            added = self._cuts.sum_shift[call.frame.unit]
            moves |= added[:, self._running.summed_words(call)].any(axis=1)
            if call.function == "sum":
                begins = np.maximum(begins, self._uniform_from(call, pieces, heads, added))
                added = added.copy()
                added[:, self._running.count_word(call)] = 1  # so that the sum is a number, even if no copies are added
            moved[i] = self._running.column(call, added)
        return moves, np.minimum(begins, pieces.highs), moved

    def _uniform_from(self, call: WindowFunction, pieces: Pieces, heads: np.ndarray, added: np.ndarray) -> np.ndarray:
        """Returns the position in each piece from which the values of SUM are NULL after the batch if and only if they
        are NULL before it.

        The first row of a piece decides whether any row differs: between two cuts, frames grow by rows that stay.
        """
        word, trees = self._running.count_word(call), self._running.trees
        peers = call.frame is not None and call.frame.unit == "range"
        out, by = pieces.lows.copy(), added[:, word]
        candidates = ((heads[:, word] <= 0) | (heads[:, word] + by <= 0)).nonzero()[0]
        if not len(candidates):
            return out
        handles, ends = pieces.handles[candidates], pieces.lows[candidates]
        if peers:
            ends = trees.located(handles, trees.row(handles, ends), self._running.peer_columns, BEHIND)[0]
        counts = trees.copied(handles, ends, ends, self._running.sums.shape)[1][:, word]
        turned = ((counts == 0) != (counts + by[candidates] == 0)).nonzero()[0]
        if len(turned):
            handles, counts, candidates = handles[turned], counts[turned], candidates[turned]
            found = trees.numbered(handles, word, counts)
            inside = (found < pieces.highs[candidates]).nonzero()[0]
            if peers:
                rows = trees.row(handles[inside], found[inside])
                found[inside] = trees.located(handles[inside], rows, self._running.peer_columns, FIRST)[0]
            out[candidates] = np.maximum(found, out[candidates])
        return out
