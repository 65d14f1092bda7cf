"""Stretches: ranges of rows in partitions, for which window functions are computed.

A stretch has consecutive rows of a partition, each copy separately: the rows whose values are wanted, and the rows that
their frames reach. Rows outside of it are read one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

Pieces = list[tuple[np.ndarray, np.ndarray]]
"""Where the pieces of frames begin and end."""


@dataclass(eq=False)
class Stretches:
    """Rows (codes, int64[width, m]) of partitions. ``sizes``: the numbers of rows of the partitions.

    The rows of stretch ``i`` begin at ``starts[i]``, and have the positions from ``firsts[i]`` in the partition.
    ``wanted``: the rows whose values are computed. ``heads`` and ``tails``, int64[stretches, words]: the sums of the
    rows before and after a stretch. Rows outside of a stretch are read one by one: ``at(stretches, positions)``
    returns the rows (codes) at positions of their partitions, ``numbered(stretches, word, numbers)`` the positions of
    rows from their numbers among the rows that a word of the sums counts.
    """

    columns: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    firsts: np.ndarray
    sizes: np.ndarray
    wanted: np.ndarray
    heads: np.ndarray
    tails: np.ndarray
    at: Callable[[np.ndarray, np.ndarray], np.ndarray]
    numbered: Callable[[np.ndarray, int, np.ndarray], np.ndarray]

    def __post_init__(self) -> None:
        n = len(self.starts)
        self.stretch = np.repeat(np.arange(n), self.lengths)
        self.of = self.stretch[self.wanted]
        self.base = (self.starts - self.firsts)[self.of]  # place of position 0
        self.position = self.wanted - self.base
        self.size = self.sizes[self.of]

    @cached_property
    def listed(self) -> np.ndarray:
        """Returns per wanted row how far its place in the list of numbers is from its position."""
        return np.asarray(self.base + 2 * self.of + 1)


class Passed:
    """The rows of partitions that pass a filter: column ``place`` is true, and a ``word`` of the sums counts them. Each
    is identified by its number among them, from 0.
    """

    def __init__(self, rows: Stretches, place: int, word: int) -> None:
        self._rows = rows
        self._word = word
        passed = rows.columns[place] == 1
        self._places = passed.nonzero()[0]
        so_far = np.concatenate([np.zeros(1, np.int64), np.cumsum(passed)])
        heads = rows.heads[:, word] if rows.heads.shape[1] else np.zeros_like(rows.starts)
        self._so_far = so_far
        self._before = (heads - so_far[rows.starts])[rows.of]
        self._starts, self._ends = rows.starts[rows.of], (rows.starts + rows.lengths)[rows.of]

    def count(self, positions: np.ndarray) -> np.ndarray:
        """Returns how many are before a position, per wanted row; those outside of its stretch are the begin and the
        end of its partition."""
        rows, at = self._rows, positions + self._rows.base
        out = self._so_far[np.clip(at, self._starts, self._ends)] + self._before
        out[at < self._starts] = 0
        behind = at > self._ends
        if behind.any() and rows.tails.shape[1]:
            out[behind] += rows.tails[rows.of[behind], self._word]
        return out

    def positions(self, numbers: np.ndarray, there: np.ndarray) -> np.ndarray:
        """Returns the position of the row with a number, per wanted row, where it is ``there``."""
        rows, at = self._rows, numbers - self._before
        inside = there & (at >= self._so_far[self._starts]) & (at < self._so_far[self._ends])
        out = np.zeros_like(numbers)
        out[inside] = self._places[at[inside]] - rows.base[inside]
        outside = (there & ~inside).nonzero()[0]
        if len(outside):
            stretches, far, each = different(rows.of[outside], numbers[outside])
            out[outside] = rows.numbered(stretches, self._word, far)[each]
        return out


def different(stretches: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the pairs of a stretch and a number without repetition, and which of them each one is."""
    span = int(numbers.max(initial=0)) + 1
    known, each = np.unique(stretches * span + numbers, return_inverse=True)
    return known // span, known % span, each.reshape(-1)
