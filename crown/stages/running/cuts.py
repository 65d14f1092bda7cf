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
from crown.stages.kernels.over.unfolding import MOVED_WORDS
from crown.stages.running.values import Running


@dataclass(eq=False)
class EqualRows:
    """The positions of the rows that a result does not distinguish from changed rows, and of their peers.

    ``words``: int64[words, n], see ``crown.stages.kernels.over.surveys``.
    """

    words: np.ndarray

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


class Cuts:
    """The ``pieces`` between cuts, before the changes are applied. Pieces begin and end at rows that stay.

    ``changed``: the rows that the result does not distinguish from the changed ones. ``change``: for each piece, the
    number of a change in its partition. ``row_shift`` and ``rank_shift``: the copies that are inserted before the
    piece, and before its peers. ``sum_shift``: the change of the sums of its rows, int64[n, words], by the unit of
    frames.
    """

    def __init__(self, running: Running, changed: EqualRows, weights: np.ndarray, sums: np.ndarray) -> None:
        found, added, scratch = _room_for(weights, sums)
        n = int(
            kernels.cut(
                int(running.needs_peers), changed.words, np.ascontiguousarray(weights), sums, running.sums.numbers,
                scratch, found, added.reshape(-1),
            )
        )  # fmt: skip
        found = np.ascontiguousarray(found[:, :n])
        self.pieces = Pieces(*found[: kernels.CHANGE])
        self.change, self.row_shift, self.rank_shift = found[kernels.CHANGE :]
        self.sum_shift = {"rows": added[0, :n], "range": added[1, :n]}


def moving_pieces(
    running: Running, functions: np.ndarray, changed: EqualRows, weights: np.ndarray, sums: np.ndarray
) -> tuple[Pieces, np.ndarray]:
    """Returns the pieces between cuts that move, and how far each of the ``functions`` does (see
    ``crown.stages.kernels.over.unfolding``). For the other arguments see ``Cuts``."""
    found, added, scratch = _room_for(weights, sums)
    moved = np.empty((found.shape[1], len(functions), MOVED_WORDS), np.int64)
    n = int(
        kernels.move(
            int(running.needs_peers), functions.reshape(-1), changed.words, np.ascontiguousarray(weights), sums,
            running.sums.numbers, scratch, found, added.reshape(-1), moved.reshape(-1),
        )
    )  # fmt: skip
    return Pieces(*np.ascontiguousarray(found[: kernels.CHANGE, :n])), moved[:n].reshape(-1)


def _room_for(weights: np.ndarray, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns room for the pieces between cuts of so many changes, for the changes of their sums, and scratch."""
    room = kernels.PER_CHANGE * len(weights)
    pieces, added = np.empty((kernels.PIECE_WORDS, room), np.int64), np.empty((2, room + 1, sums.shape[1]), np.int64)
    return pieces, added, np.empty(3 * len(weights), np.int64)
