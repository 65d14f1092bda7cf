"""Stretches: ranges of rows in partitions, for which window functions are computed.

A stretch has consecutive rows of a partition, each copy separately: the rows whose values are requested, and the rows
of their frames. Rows outside of the stretch are read one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from crown.stages.kernels.over import stretches

Pieces = list[tuple[np.ndarray, np.ndarray]]
"""The start and the end of each piece of frames."""


@dataclass(eq=False)
class Stretches:
    """Rows (codes, int64[width, m]) of partitions. ``sizes``: the numbers of rows of the partitions.

    The rows of stretch ``i`` begin at ``starts[i]``, and have the positions from ``firsts[i]`` in the partition.
    ``requested``: the rows whose values are computed. ``heads`` and ``tails``, int64[stretches, words]: the sums of the
    rows before and after a stretch. Rows outside of a stretch are read one by one: ``at(stretches, positions)``
    returns the rows (codes) at positions of their partitions, ``numbered(stretches, word, numbers)`` the positions of
    rows from their numbers among the rows that a word of the sums counts.

    ``stretch``: the stretch of each row. Per requested row: ``owner``, its stretch; ``position``, its position in the
    partition; ``base``, the index in ``columns`` of position 0; and ``size``, the size of the partition.
    """

    columns: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    firsts: np.ndarray
    sizes: np.ndarray
    requested: np.ndarray
    heads: np.ndarray
    tails: np.ndarray
    at: Callable[[np.ndarray, np.ndarray], np.ndarray]
    numbered: Callable[[np.ndarray, int, np.ndarray], np.ndarray]

    def __post_init__(self) -> None:
        n = len(self.starts)
        self.stretch = np.repeat(np.arange(n), self.lengths)
        self.owner = self.stretch[self.requested]
        self.base = (self.starts - self.firsts)[self.owner]
        self.position = self.requested - self.base
        self.size = self.sizes[self.owner]

    @cached_property
    def list_offset(self) -> np.ndarray:
        """Returns, per requested row, the distance of its index in the list of running sums from its position."""
        return np.asarray(self.base + 2 * self.owner + 1)


class FilteredRows:
    """The rows of partitions that pass a filter: column ``place`` is true, and a ``word`` of the sums counts them. Each
    is identified by its number among them, from 0.
    """

    def __init__(self, rows: Stretches, place: int, word: int) -> None:
        self._rows = rows
        self._word = word
        passes = rows.columns[place] == 1
        self._places = passes.nonzero()[0]
        so_far = np.concatenate([np.zeros(1, np.int64), np.cumsum(passes)])
        heads = rows.heads[:, word] if rows.heads.shape[1] else np.zeros_like(rows.starts)
        self._so_far = so_far
        self._before = (heads - so_far[rows.starts])[rows.owner]
        self._starts, self._ends = rows.starts[rows.owner], (rows.starts + rows.lengths)[rows.owner]

    def count(self, positions: np.ndarray) -> np.ndarray:
        """Returns, per requested row, how many rows before a position pass. A position outside of the row's stretch
        must be the start or the end of the partition."""
        rows, place = self._rows, positions + self._rows.base
        out = self._so_far[np.clip(place, self._starts, self._ends)] + self._before
        out[place < self._starts] = 0
        after = place > self._ends
        if after.any() and rows.tails.shape[1]:
            out[after] += rows.tails[rows.owner[after], self._word]
        return out

    def positions(self, numbers: np.ndarray, present: np.ndarray) -> np.ndarray:
        """Returns, per requested row, the position of the row with a number, if that row is ``present``."""
        rows, number = self._rows, numbers - self._before
        inside = present & (number >= self._so_far[self._starts]) & (number < self._so_far[self._ends])
        out = np.zeros_like(numbers)
        out[inside] = self._places[number[inside]] - rows.base[inside]
        outside = (present & ~inside).nonzero()[0]
        if len(outside):
            stretches, outside_numbers, pair = distinct_pairs(rows.owner[outside], numbers[outside])
            out[outside] = rows.numbered(stretches, self._word, outside_numbers)[pair]
        return out


def distinct_pairs(stretches: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the distinct pairs of a stretch and a number, and for each input its index among them."""
    span = int(numbers.max(initial=0)) + 1
    pairs, pair = np.unique(stretches * span + numbers, return_inverse=True)
    return pairs // span, pairs % span, pair.reshape(-1)


@dataclass(eq=False)
class Affected:
    """The stretches of rows that a batch can affect, ``spans`` (see ``crown.stages.kernels.over.stretches``).

    ``order``: the changes by partition and rank. Stretches refer to changes by their index in this order. ``leaves``:
    the leaf of each change's row, in this order. The first ``creating`` changes belong to missing partitions."""

    spans: np.ndarray
    order: np.ndarray
    leaves: np.ndarray
    creating: int

    @property
    def old(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the stretches before the batch: partitions, begins and ends."""
        return self.spans[stretches.HANDLE], self.spans[stretches.LOW], self.spans[stretches.HIGH]

    @property
    def new(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the stretches after the batch: the index of a change in each, begins and ends."""
        return self.spans[stretches.FIRST], self.spans[stretches.NEW_LOW], self.spans[stretches.NEW_HIGH]
