"""Deltas of running functions as ranges: what moves by the same amount is told once, however many rows it has.

    changes -> where they cut their partitions -> ranges between the cuts -> how far each of them moves

A change of a row moves the values of all rows behind it by what it adds: numbers by its copies, sums by its addends. So
between two cuts all rows move alike, by the sum over the changes before them. Rows that the result cannot tell from a
changed one are told by themselves, as they were and as they are; ranges begin and end at rows that stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crown.stages.kernels import partitions as kernels
from crown.stages.kernels.ordered import BEHIND, EXACT, FIRST
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
class Pieces:
    """Rows at positions ``lows`` to ``highs`` of partitions."""

    handles: np.ndarray
    lows: np.ndarray
    highs: np.ndarray

    def different(self) -> Pieces:
        """Returns those that have rows, each once."""
        some = (self.lows < self.highs).nonzero()[0]
        order = some[np.lexsort((self.lows[some], self.handles[some]))]
        handles, lows = self.handles[order], self.lows[order]
        first = np.ones(len(order), np.bool_)
        first[1:] = (handles[1:] != handles[:-1]) | (lows[1:] != lows[:-1])
        return Pieces(handles[first], lows[first], self.highs[order[first]])

    def __add__(self, other: Pieces) -> Pieces:
        mine, others = (self.handles, self.lows, self.highs), (other.handles, other.lows, other.highs)
        return Pieces(*(np.concatenate(pair) for pair in zip(mine, others, strict=True)))


def shifted(
    running: Running, told: int, keys: np.ndarray, weights: np.ndarray, change: Callable[[np.ndarray], None]
) -> tuple[Zset, Shifts]:
    """Calls ``change``, which makes changes of rows (codes, int64[width, n]) in the trees, and is given what they add
    to the sums. Returns what that does to the values: rows that are told by themselves, and ranges.

    ``told``: by how many columns of the order the result tells rows apart. O(log n) per change, and the rows that are
    told. Raises ChangeError if a sum of these leaves its type, or what is added to those of a range.
    """
    sums, _ = running.sums.of(keys, weights)
    cuts = _Cuts(running, told, keys, weights, sums)
    old_rows = cuts.changed.different() + cuts.alone
    old = running.rows(old_rows.handles, old_rows.lows, old_rows.highs)
    change(sums)
    handles = running.trees.find(keys)
    alone = Pieces(handles[cuts.number], cuts.alone.lows + cuts.by, cuts.alone.highs + cuts.by)
    new_rows = _alike(running, told, keys, handles).different() + alone
    new = running.rows(new_rows.handles, new_rows.lows, new_rows.highs)
    signs = np.repeat(np.array([-1, 1], np.int64), [old.shape[1], new.shape[1]])
    return Zset.of_columns(np.concatenate([old, new], axis=1), signs), cuts.shifts


def _alike(running: Running, told: int, keys: np.ndarray, handles: np.ndarray) -> Pieces:
    """Returns the rows that the result does not tell from others."""
    trees = running.trees
    if 4 * told == len(trees.spec):
        lows, copies = trees.located(handles, keys, told, EXACT)
        return Pieces(handles, lows, lows + copies)
    lows, highs = (trees.located(handles, keys, told, mode)[0] for mode in (FIRST, BEHIND))
    return Pieces(handles, lows, highs)


class _Cuts:
    """Where changes cut the partitions, before they are made.

    ``changed``: the rows that the result does not tell from the changed ones; ``shifts``: the ranges. The rows
    ``alone`` do not move as others do, for their values become NULL or are NULL no longer: they will be ``by`` so many
    places further on, in the partition of the change ``number``.
    """

    def __init__(self, running: Running, told: int, keys: np.ndarray, weights: np.ndarray, sums: np.ndarray) -> None:
        self._running, trees = running, running.trees
        handles = trees.find(keys)
        self.changed = _alike(running, told, keys, handles)
        known = handles.nonzero()[0]
        partitions, first, number = np.unique(handles[known], return_index=True, return_inverse=True)
        base = number.reshape(-1) << _BITS
        lows, highs = base + self.changed.lows[known], base + self.changed.highs[known]
        ends = (np.arange(len(partitions)) << _BITS) + trees.sizes(partitions)
        edges = {"rows": lows}  # the first row that a change moves, or its last peer: by what it moves
        if running.peers:
            for name, mode in (("range", FIRST), ("rank", BEHIND)):
                edges[name] = base + trees.located(handles[known], keys[:, known], running.order, mode)[0]
        cuts = np.unique(np.concatenate([*edges.values(), highs, ends]))
        cut, next_ = cuts[:-1], cuts[1:]
        between = (cut >> _BITS == next_ >> _BITS) & ~np.isin(cut, lows[lows < highs])
        self._at, mine = cut[between], cut[between] >> _BITS
        self._changes = known, weights, sums, edges
        here = Pieces(partitions[mine], self._at & _POSITION, next_[between] & _POSITION)
        firsts, heads = trees.copied(here.handles, here.lows, here.lows + 1, running.sums.shape)
        moves, begins, moved = self._moved(here, heads)
        alone = (begins > here.lows).nonzero()[0]
        self.alone = Pieces(here.handles[alone], here.lows[alone], begins[alone])
        self.by, self.number = self._copies("rows")[alone], known[first[mine[alone]]]
        rest = begins[alone] < here.highs[alone]
        firsts[:, alone[rest]] = trees.row(here.handles[alone[rest]], begins[alone[rest]])
        kept = (moves & (begins < here.highs)).nonzero()[0]
        self.shifts = Shifts(firsts[:, kept], trees.row(here.handles[kept], here.highs[kept] - 1), moved[:, kept])

    def _moved(self, here: Pieces, heads: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns which ranges move, from which row on they move alike, and how far, int64[functions, n]; ``heads``:
        the sums before them."""
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

    def _alike_from(self, one: WindowFunction, here: Pieces, heads: np.ndarray, added: np.ndarray) -> np.ndarray:
        """Returns from which row on the values of SUM are NULL after the batch if they are before it.

        Whether the first one is says whether others are: between two cuts, frames grow by rows that stay.
        """
        word, trees = self._running.count(one), self._running.trees
        peers = one.frame is not None and one.frame.unit == "range"
        out, before, by = here.lows.copy(), heads[:, word], added[:, word]
        near = ((before <= 0) | (before + by <= 0)).nonzero()[0]
        handles, seen = here.handles[near], before[near]
        if peers and len(near):
            rows = trees.row(handles, here.lows[near])
            ends = trees.located(handles, rows, self._running.order, BEHIND)[0]
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
