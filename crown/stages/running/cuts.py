"""Cuts partitions at changed rows: between two cuts, the values of a running function move by the same amount.

    changes -> the rows equal to them, and their peers -> cuts -> pieces between cuts -> the changes before each

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
class EqualRows:
    """The positions of the rows that a result does not distinguish from changed rows, and of their peers.

    ``words``: int64[words, n], see ``crown.stages.kernels.over.surveys``.
    """

    words: np.ndarray

    @property
    def peers(self) -> np.ndarray:
        """Returns the number of peers of each change."""
        return np.asarray(self.words[surveys.END] - self.words[surveys.BEGIN])

    @staticmethod
    def of(running: Running, distinguished: int, keys: np.ndarray) -> EqualRows:
        """Returns the rows that are equal to ``keys`` in the first ``distinguished`` columns of the order."""
        return EqualRows(running.trees.survey(keys, distinguished, running.peer_columns))

    def pieces(self) -> Pieces:
        """Returns the pieces of present rows, by partition and position. Each piece is returned once."""
        handles, lows, highs = self.words[: surveys.BEGIN]
        present = (lows < highs).nonzero()[0]
        if len(present) > 1:
            present = present[np.lexsort((lows[present], handles[present]))]
            first = np.ones(len(present), np.bool_)
            first[1:] = (handles[present[1:]] != handles[present[:-1]]) | (lows[present[1:]] != lows[present[:-1]])
            present = present[first]
        return Pieces(handles[present], lows[present], highs[present])

    def pieces_after(self, running: Running, distinguished: int, keys: np.ndarray, weights: np.ndarray) -> Pieces:
        """Returns the pieces after the changes, each once. ``self`` has the positions before the changes."""
        handles, lows, highs = self.words[: surveys.BEGIN]
        left = (highs - lows + weights > 0).nonzero()[0]  # of the other changes, all equal rows are deleted
        if not len(left):
            return Pieces(handles[left], lows[left], highs[left])
        if len(left) < len(weights):
            keys = np.take(keys, left, axis=1)
        return EqualRows.of(running, distinguished, keys).pieces()


@dataclass(eq=False)
class Pieces:
    """Rows at positions ``lows`` to ``highs`` of partitions."""

    handles: np.ndarray
    lows: np.ndarray
    highs: np.ndarray

    def __getitem__(self, selection: np.ndarray) -> Pieces:
        """Returns the selected pieces."""
        return Pieces(self.handles[selection], self.lows[selection], self.highs[selection])


class Cuts:
    """The ``pieces`` between cuts, before the changes are applied. Pieces begin and end at rows that stay.

    ``changed``: the rows that the result does not distinguish from the changed ones. ``change``: for each piece, the
    number of a change in its partition. ``row_shift`` and ``rank_shift``: the copies that are inserted before the
    piece, and before its peers. ``sum_shift``: the change of the sums of its rows, int64[n, words], by the unit of
    frames.
    """

    def __init__(self, running: Running, changed: EqualRows, weights: np.ndarray, sums: np.ndarray) -> None:
        edges = changed.words[surveys.LOW : surveys.SIZE].sum(axis=0)  # all of them rise from row to row
        room, words = 4 * len(weights), sums.shape[1]
        found = np.empty((kernels.PIECE_WORDS, room), np.int64)
        by_row, by_peers = np.empty((2, room + 1, words), np.int64)
        n = int(
            kernels.cut(
                np.lexsort((edges, changed.words[surveys.HANDLE])), int(running.needs_peers), changed.words,
                np.ascontiguousarray(weights), sums, running.sums.numbers, found, by_row, by_peers,
            )
        )  # fmt: skip
        found = np.ascontiguousarray(found[:, :n])
        self.pieces = Pieces(*found[: kernels.CHANGE])
        self.change, self.row_shift, self.rank_shift = found[kernels.CHANGE :]
        self.sum_shift = {"rows": by_row[:n], "range": by_peers[:n]}
