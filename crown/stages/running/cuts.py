"""Cuts partitions at changed rows: between two cuts, the values of a running function move by the same amount.

    changes -> the rows that are like them, and their peers -> cuts -> pieces between cuts -> the changes before each

A change of a row moves the values of all later rows: numbers by its copies, sums by its addends. So all rows between
two cuts move by the same amount, the sum over the changes before them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crown.stages.kernels.over import cuts as kernels
from crown.stages.kernels.over import surveys
from crown.stages.running.values import Running


@dataclass(eq=False)
class Alike:
    """The positions of the rows that a result does not distinguish from changed rows, and of their peers.

    ``words``: int64[words, n], see ``crown.stages.kernels.over.surveys``.
    """

    words: np.ndarray

    @property
    def peers(self) -> np.ndarray:
        """Returns the number of peers of each change."""
        return np.asarray(self.words[surveys.END] - self.words[surveys.BEGIN])

    @staticmethod
    def of(running: Running, told: int, keys: np.ndarray) -> Alike:
        """Returns the rows that a result with ``told`` columns of the order does not distinguish from ``keys``."""
        return Alike(running.trees.survey(keys, told, running.order))

    def once(self) -> Pieces:
        """Returns the pieces of present rows, each once, by partition and position."""
        handles, lows, highs = self.words[: surveys.BEGIN]
        some = (lows < highs).nonzero()[0]
        if len(some) > 1:
            some = some[np.lexsort((lows[some], handles[some]))]
            first = np.ones(len(some), np.bool_)
            first[1:] = (handles[some[1:]] != handles[some[:-1]]) | (lows[some[1:]] != lows[some[:-1]])
            some = some[first]
        return Pieces(handles[some], lows[some], highs[some])

    def after(self, running: Running, told: int, keys: np.ndarray, weights: np.ndarray) -> Pieces:
        """Returns the pieces after the changes, each once; ``self`` has those before."""
        handles, lows, highs = self.words[: surveys.BEGIN]
        left = (highs - lows + weights > 0).nonzero()[0]  # other rows are deleted, with all rows like them
        if not len(left):
            return Pieces(handles[left], lows[left], highs[left])
        if len(left) < len(weights):
            keys = np.take(keys, left, axis=1)
        return Alike.of(running, told, keys).once()


@dataclass(eq=False)
class Pieces:
    """Rows at positions ``lows`` to ``highs`` of partitions."""

    handles: np.ndarray
    lows: np.ndarray
    highs: np.ndarray

    def __getitem__(self, some: np.ndarray) -> Pieces:
        """Returns the selected pieces."""
        return Pieces(self.handles[some], self.lows[some], self.highs[some])


class Cuts:
    """The ``pieces`` between cuts, before the changes are applied. Pieces begin and end at rows that stay.

    ``changed``: the rows that the result does not distinguish from the changed ones. ``number``: for each piece, a
    change in its partition. ``rows`` and ``ranks``: the copies that are inserted before the piece, and before its
    peers. ``added``: the change of the sums of its rows, int64[n, words], by the unit of frames.
    """

    def __init__(self, running: Running, changed: Alike, weights: np.ndarray, sums: np.ndarray) -> None:
        edges = changed.words[surveys.LOW : surveys.SIZE].sum(axis=0)  # all of them rise from row to row
        room, words = 4 * len(weights), sums.shape[1]
        found = np.empty((kernels.PIECE, room), np.int64)
        by_row, by_peers = np.empty((2, room + 1, words), np.int64)
        n = int(
            kernels.cut(
                np.lexsort((edges, changed.words[surveys.HANDLE])), int(running.peers), changed.words,
                np.ascontiguousarray(weights), sums, running.sums.numbers, found, by_row, by_peers,
            )
        )  # fmt: skip
        found = np.ascontiguousarray(found[:, :n])
        self.pieces = Pieces(*found[: kernels.CHANGE])
        self.number, self.rows, self.ranks = found[kernels.CHANGE :]
        self.added = {"rows": by_row[:n], "range": by_peers[:n]}
