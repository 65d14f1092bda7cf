"""Deltas of running functions as ranges: rows that move by the same amount are one row of the delta.

    changes -> where they cut their partitions -> ranges between the cuts -> how far each of them moves

A change of a row moves the values of all rows behind it by what it adds: numbers by its copies, sums by its addends. So
between two cuts all rows move alike, by the sum over the changes before them. Rows that the result cannot tell from a
changed one are deleted and inserted one by one; ranges begin and end at rows that stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crown.stages.kernels import partitions as kernels
from crown.stages.kernels import surveys
from crown.stages.kernels.ordered import BEHIND, FIRST
from crown.stages.running import Running
from crown.store.zset import Zset
from plans.frames import WindowFunction

_BITS = 40  # of a position: there are fewer rows
_POSITION = (1 << _BITS) - 1


@dataclass(frozen=True, eq=False)
class Shifts:
    """Rows of partitions from one to another one, both of them codes, int64[columns, n], and how far their values move:
    ``moved``, codes, int64[functions, n]. A value that is NULL stays NULL."""

    firsts: np.ndarray
    lasts: np.ndarray
    moved: np.ndarray

    def __len__(self) -> int:
        return self.moved.shape[1]


@dataclass(eq=False)
class _Alike:
    """Rows at positions ``lows`` to ``highs`` of partitions; their peers are from ``begins`` to ``ends``."""

    handles: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    begins: np.ndarray
    ends: np.ndarray

    @staticmethod
    def of(running: Running, told: int, keys: np.ndarray) -> _Alike:
        """Returns the rows that a result does not tell from others, of which it has ``told`` columns of the order."""
        found = running.trees.survey(keys, told, running.order)
        return _Alike(*found[: surveys.SIZE])

    def rows(self, running: Running) -> np.ndarray:
        """Returns them with their values, each once."""
        some = (self.lows < self.highs).nonzero()[0]
        order = some[np.lexsort((self.lows[some], self.handles[some]))]
        handles, lows = self.handles[order], self.lows[order]
        first = np.ones(len(order), np.bool_)
        first[1:] = (handles[1:] != handles[:-1]) | (lows[1:] != lows[:-1])
        order = order[first]
        peers = self.begins[order], self.ends[order]
        return running.rows(handles[first], lows[first], self.highs[order], peers)


@dataclass(eq=False)
class _Pieces:
    """Rows at positions ``lows`` to ``highs`` of partitions."""

    handles: np.ndarray
    lows: np.ndarray
    highs: np.ndarray


def shifted(
    running: Running, told: int, keys: np.ndarray, weights: np.ndarray, change: Callable[[np.ndarray], None]
) -> tuple[Zset, Shifts]:
    """Calls ``change``, which makes changes of rows (codes, int64[width, n]) in the trees, and is given what they add
    to the sums. Returns what that does to the values: rows that are deleted and inserted, and ranges.

    ``told``: by how many columns of the order the result tells rows apart. O(log n) per change and per such row.
    Raises ChangeError if a sum of these leaves its type, or what is added to those of a range.
    """
    sums, _ = running.sums.of(keys, weights)
    changed = _Alike.of(running, told, keys)
    cuts = _Cuts(running, changed, weights, sums)
    alone, by = cuts.alone, cuts.by
    old = [changed.rows(running)]
    if len(by):
        old.append(running.rows(alone.handles, alone.lows, alone.highs))
    change(sums)
    left = (changed.highs - changed.lows + weights > 0).nonzero()[0]  # others are gone, and so are those like them
    new = [_Alike.of(running, told, keys[:, left]).rows(running)]
    if len(by):
        handles = running.trees.find(keys[:, cuts.number])
        new.append(running.rows(handles, alone.lows + by, alone.highs + by))
    rows = np.concatenate([*old, *new], axis=1)
    signs = np.ones(rows.shape[1], np.int64)
    signs[: sum(part.shape[1] for part in old)] = -1
    return Zset.of_columns(rows, signs), cuts.shifts


class _Cuts:
    """Where changes cut the partitions, before they are made; ``changed``: the rows that the result does not tell from
    the changed ones.

    ``shifts``: the ranges. The rows
    ``alone`` do not move as others do, for their values become NULL or are NULL no longer: they will be ``by`` so many
    places further on, in the partition of the change ``number``.
    """

    def __init__(self, running: Running, changed: _Alike, weights: np.ndarray, sums: np.ndarray) -> None:
        self._running, trees = running, running.trees
        known = changed.handles.nonzero()[0]
        partitions, first, number = np.unique(changed.handles[known], return_index=True, return_inverse=True)
        base = number.reshape(-1) << _BITS
        lows, highs = base + changed.lows[known], base + changed.highs[known]
        sizes = trees.sizes(partitions)
        edges = {"rows": lows}  # the first row that a change moves, or its last peer: by what it moves
        if running.peers:
            edges |= {"range": base + changed.begins[known], "rank": base + changed.ends[known]}
        cuts = np.unique(np.concatenate([*edges.values(), highs, (np.arange(len(partitions)) << _BITS) + sizes]))
        rows, heads, behind, before = self._beside(cuts, partitions, sizes)
        cut, next_ = cuts[:-1], cuts[1:]
        between = ((cut >> _BITS == next_ >> _BITS) & ~np.isin(cut, lows[lows < highs])).nonzero()[0]
        self._at, mine = cut[between], cut[between] >> _BITS
        self._changes = known, weights, sums, edges
        here = _Pieces(partitions[mine], self._at & _POSITION, next_[between] & _POSITION)
        moves, begins, moved = self._moved(here, heads[between])
        alone = (begins > here.lows).nonzero()[0]
        self.alone = _Pieces(here.handles[alone], here.lows[alone], begins[alone])
        self.by, self.number = self._copies("rows")[alone], known[first[mine[alone]]]
        firsts = rows[:, behind[between]]
        rest = begins[alone] < here.highs[alone]
        firsts[:, alone[rest]] = trees.row(here.handles[alone[rest]], begins[alone[rest]])
        kept = (moves & (begins < here.highs)).nonzero()[0]
        self.shifts = Shifts(firsts[:, kept], rows[:, before[between[kept] + 1]], moved[:, kept])

    def _beside(
        self, cuts: np.ndarray, partitions: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Returns the rows beside cuts, codes, int64[width, m]; the sums of some that are before each cut; and which of
        the rows is behind it, and which before."""
        mine, positions = cuts >> _BITS, cuts & _POSITION
        lows, highs = np.maximum(positions - 1, 0), np.minimum(positions + 1, sizes[mine])
        rows, heads = self._running.trees.copied(partitions[mine], lows, highs, self._running.sums.shape)
        at = np.cumsum(highs - lows) - (highs - lows)
        return rows, heads, at + positions - lows, at

    def _moved(self, here: _Pieces, heads: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns which ranges move, from which row on they move alike, and how far, int64[functions, n]; ``heads``:
        the sums of some rows before them."""
        functions = self._running.functions
        moves, begins = np.zeros(len(self._at), np.bool_), here.lows
        moved = np.empty((len(functions), len(self._at)), np.int64)
        for i, one in enumerate(functions):
            if one.frame is None:
                moved[i] = self._copies("rows" if one.function == "row_number" else "rank")
                moves |= moved[i] != 0
                continue
            added = self._added(one.frame.unit)
            moves |= added.any(axis=1)
            if one.function == "sum":
                begins = np.maximum(begins, self._alike_from(one, here, heads, added))
                added = added.copy()
                added[:, self._running.count(one)] = 1  # the sum is a number, also if the copies add up to none
            moved[i] = self._running.column(one, added)
        return moves, np.minimum(begins, here.highs), moved

    def _alike_from(self, one: WindowFunction, here: _Pieces, heads: np.ndarray, added: np.ndarray) -> np.ndarray:
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

    def _before(self, edge: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the changes in the order of their edges, and which of them move each range: from one to another."""
        edges = self._changes[3][edge]
        order = np.argsort(edges, kind="stable")
        ranked = edges[order]
        return order, np.searchsorted(ranked, self._at & ~_POSITION), np.searchsorted(ranked, self._at, "right")

    def _copies(self, edge: str) -> np.ndarray:
        """Returns how many copies come before each range."""
        known, weights = self._changes[:2]
        order, first, end = self._before(edge)
        running = np.append(0, np.cumsum(weights[known][order]))
        return np.asarray(running[end] - running[first])

    def _added(self, unit: str) -> np.ndarray:
        """Returns what comes to the sums of each range, int64[n, words]."""
        known, _, sums, _ = self._changes
        order, first, end = self._before(unit)
        numbers = self._running.sums.numbers
        running, out = (
            np.empty((len(order) + 1, sums.shape[1]), np.int64),
            np.zeros((len(end), sums.shape[1]), np.int64),
        )
        kernels.running(np.ascontiguousarray(sums[known][order]), numbers, running)
        kernels.between(running, numbers, first, end, out)
        return out
