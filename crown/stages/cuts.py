"""Where changes of rows cut their partitions, so that the values of running functions move alike between two cuts.

    changes -> the rows that are like them, and their peers -> cuts -> pieces between cuts -> what comes before each

A change of a row moves the values of all rows behind it by what it adds: numbers by its copies, sums by its addends. So
between two cuts all rows move alike, by the sum over the changes before them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crown.stages.kernels import partitions as kernels
from crown.stages.kernels import surveys
from crown.stages.running import Running

_BITS = 40  # of a position: there are fewer rows
_POSITION = (1 << _BITS) - 1


@dataclass(eq=False)
class Alike:
    """Rows at positions ``lows`` to ``highs`` of partitions; their peers are from ``begins`` to ``ends``."""

    handles: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    begins: np.ndarray
    ends: np.ndarray

    @property
    def pieces(self) -> Pieces:
        """Returns where they are."""
        return Pieces(self.handles, self.lows, self.highs)

    @staticmethod
    def of(running: Running, told: int, keys: np.ndarray) -> Alike:
        """Returns the rows that a result does not tell from others, of which it has ``told`` columns of the order."""
        found = running.trees.survey(keys, told, running.order)
        return Alike(*found[: surveys.SIZE])

    def once(self) -> Alike:
        """Returns those that are there, each once, by partition and position."""
        some = (self.lows < self.highs).nonzero()[0]
        order = some[np.lexsort((self.lows[some], self.handles[some]))]
        handles, lows = self.handles[order], self.lows[order]
        first = np.ones(len(order), np.bool_)
        first[1:] = (handles[1:] != handles[:-1]) | (lows[1:] != lows[:-1])
        order = order[first]
        return Alike(handles[first], lows[first], self.highs[order], self.begins[order], self.ends[order])

    def after(self, running: Running, told: int, keys: np.ndarray, weights: np.ndarray) -> Alike:
        """Returns the same rows when changes have been made, each once; ``self`` is what they were before."""
        left = (self.highs - self.lows + weights > 0).nonzero()[0]  # others are gone, and so are those like them
        return Alike.of(running, told, keys[:, left]).once()


@dataclass(eq=False)
class Pieces:
    """Rows at positions ``lows`` to ``highs`` of partitions."""

    handles: np.ndarray
    lows: np.ndarray
    highs: np.ndarray


class Cuts:
    """The pieces between cuts, before the changes are made, and what comes before each; ``changed``: the rows that the
    result does not tell from the changed ones. Pieces begin and end at rows that stay."""

    def __init__(self, running: Running, changed: Alike, weights: np.ndarray, sums: np.ndarray) -> None:
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
        cut, next_ = cuts[:-1], cuts[1:]
        between = ((cut >> _BITS == next_ >> _BITS) & ~np.isin(cut, lows[lows < highs])).nonzero()[0]
        self._at, mine = cut[between], cut[between] >> _BITS
        self._changes = known, weights, sums, edges
        self.pieces = Pieces(partitions[mine], self._at & _POSITION, next_[between] & _POSITION)
        self.number = known[first[mine]]  # of each piece, a change in its partition
        self.begins = between  # the cut that each piece begins at; it ends at the next one
        self.handles, self.positions, self.sizes = partitions[cuts >> _BITS], cuts & _POSITION, sizes[cuts >> _BITS]

    def _before(self, edge: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the changes in the order of their edges, and which of them move each range: from one to another."""
        edges = self._changes[3][edge]
        order = np.argsort(edges, kind="stable")
        ranked = edges[order]
        return order, np.searchsorted(ranked, self._at & ~_POSITION), np.searchsorted(ranked, self._at, "right")

    def copies(self, edge: str) -> np.ndarray:
        """Returns how many copies come before each range."""
        known, weights = self._changes[:2]
        order, first, end = self._before(edge)
        running = np.append(0, np.cumsum(weights[known][order]))
        return np.asarray(running[end] - running[first])

    def added(self, unit: str) -> np.ndarray:
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
