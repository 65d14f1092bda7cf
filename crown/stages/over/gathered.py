"""Computes aggregates that read the values of frames: percentiles, MODE, lists, and aggregates of DISTINCT values.

The values of the rows of all frames are numbered in their order, once. Then each frame is a multiset of numbers, which
is read like the multisets of groups (``crown.stages.groups.readings``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc

from crown.kernels.strings import NULL
from crown.results.columns import Column, Frame
from crown.stages.groups.addends import Addends
from crown.stages.groups.aggregates import Totals
from crown.stages.groups.far import Far
from crown.stages.groups.terms import Layout
from crown.stages.kernels.over import sliding as kernels
from crown.stages.kernels.trees import orders
from crown.stages.orders import order_of, ordered
from crown.stages.over.ordered_values import OrderedValues
from crown.stages.over.stretches import Pieces, Stretches, distinct_pairs
from crown.stages.over.sums import Sums
from crown.store.dictionary import Dictionary
from plans.nested import is_nested
from plans.payloads.sums import LISTED, Values
from plans.programs.frames import CHOSEN, ENDS, Order, WindowFunction
from plans.schema import Column as Declared

_AT_ONCE = 1 << 20  # values of frames that are listed at a time
_AFTER_ALL = 1 << 40  # a position after all values
_NO_ADDENDS = np.empty((0, 0), np.int64), np.zeros(3, np.int64)


class Gathered:
    """Computes a function that reads the values of frames. ``pieces``: the frames, one per requested row, as ranges of
    indexes in ``rows``. Adjacent equal frames are computed once.

    ``stored``: the values of whole partitions. Frames also contain the stored values outside of the stretches of rows.
    """

    def __init__(
        self,
        call: WindowFunction,
        columns: Sequence[Declared],
        rows: Stretches,
        pieces: Pieces,
        sums: Sums,
        dictionary: Dictionary,
        stored: OrderedValues | None,
    ) -> None:
        self._call, self._sums, self._dictionary = call, sums, dictionary
        self._types = {column.name: column.type for column in columns}
        self._codes = {column.name: rows.columns[i] for i, column in enumerate(columns)}
        found = np.array([[start for start, _ in pieces], [end for _, end in pieces]], np.int64)
        found[1] = np.maximum(found[0], found[1])
        new = np.ones(found.shape[2], np.bool_)
        new[1:] = (found[:, :, 1:] != found[:, :, :-1]).any(axis=(0, 1))
        self._frame = np.cumsum(new) - 1
        self._starts, self._ends = (np.ascontiguousarray(side[:, new]) for side in found)
        self._rows, self._owner = rows, rows.owner[new]
        self._stored = stored if (rows.lengths < rows.sizes).any() else None
        self._number_values()

    def codes(self) -> np.ndarray:
        """Returns the codes of the function, one per requested row. Raises ChangeError if a sum leaves its type."""
        call, frames = self._call, np.arange(self._starts.shape[1])
        if call.function in CHOSEN:
            result = kernels.MOST_FREQUENT if call.function == "mode" else kernels.SELECTED
            return self._slide(result, np.zeros_like(frames))[self._frame]
        if call.function in ENDS:
            last = self._sizes(frames) - 1
            return self._slide(kernels.SELECTED, last if call.function == "max" else np.zeros_like(frames))[self._frame]
        reading = self._sums.rules[call.name].reading
        if reading is None:
            return self._distinct()[self._frame]
        parts = [frames]
        if call.function in LISTED:
            lengths = np.cumsum((self._ends - self._starts).sum(axis=0))
            parts = np.split(frames, np.flatnonzero(np.diff(lengths // _AT_ONCE)) + 1)
        return np.concatenate([reading.codes(self, part, self._dictionary) for part in parts])[self._frame]

    def _number_values(self) -> None:
        """Numbers the values in their order, from 0. Rows without a value, and rows that do not pass the filter, have
        -1. If there are values outside of stretches, each stretch has its own range of numbers."""
        rows, stored = self._rows, self._stored
        values, needed = values_read(self._call, self._sums)
        valid = self._codes[needed] != NULL
        if values.where is not None:
            valid &= self._codes[values.where] == 1
        places = valid.nonzero()[0]
        number = np.zeros(len(places), np.int64) if stored is None else rows.stretch[places]
        for key in (*values.order, Order(values.argument)):
            rank = self._ranks(self._codes[key.column][places], key)
            number = np.unique(number * (len(places) + 2) + rank, return_inverse=True)[1].reshape(-1)
        n, self._size = len(self._owner), int(number.max(initial=-1)) + 1
        self._numbers = np.full(len(valid), -1, np.int64)
        self._numbers[places] = number
        sample = np.empty(self._size, np.int64)  # a row with each value
        sample[number] = places
        self._values = self._codes[values.argument][sample]
        self._outside = np.zeros((kernels.OUTSIDE_WORDS, self._size), np.int64)
        self._spans = np.repeat(np.array([[0], [self._size]], np.int64), n, axis=1)
        self._outside_counts = self._partitions = np.zeros(len(rows.starts), np.int64)  # values outside of stretches
        if stored is not None:
            self._describe_outside(stored, sample, np.bincount(number, minlength=self._size))

    def _describe_outside(self, stored: OrderedValues, samples: np.ndarray, copies: np.ndarray) -> None:
        """Describes the stored values outside of the stretches (see ``kernels``). ``samples``: a row with each value.
        ``copies``: the number of rows with each value."""
        rows = self._rows
        begins = np.searchsorted(rows.stretch[samples], np.arange(len(rows.starts) + 1))
        so_far = np.concatenate([np.zeros(1, np.int64), np.cumsum(copies)])
        before = so_far[:-1] - so_far[begins[:-1]][rows.stretch[samples]]
        ranks, totals = stored.located(rows.columns[:, samples])
        self._outside = np.stack([ranks - before, totals - copies, before + copies])
        self._spans = np.take(np.stack([begins[:-1], begins[1:]]), self._owner, axis=1)
        self._partitions = stored.find(rows.columns[:, rows.starts])
        self._outside_counts = stored.trees.sizes(self._partitions) - (so_far[begins[1:]] - so_far[begins[:-1]])

    def _ranks(self, codes: np.ndarray, key: Order) -> np.ndarray:
        """Returns numbers in the same order as values."""
        values, number = np.unique(codes, return_inverse=True)
        rank = ranks(values, self._types[key.column], self._dictionary)
        if key.falling:
            rank = len(values) - 1 - rank
        rank[values == NULL] = len(values) if key.nulls_last else -1
        return np.asarray(rank[number.reshape(-1)] + 1)

    def _slide(self, result: int, positions: np.ndarray) -> np.ndarray:
        """Returns one value (code) per frame: the value at a position, or the most frequent one; NULL if there is
        none."""
        state = np.zeros(self._size + 1 if result == kernels.SELECTED else 2 * self._size + 2, np.int64)
        found = np.empty(len(positions), np.int64)
        positions = np.where(positions < 0, _AFTER_ALL, positions)
        kernels.slide(
            result, self._numbers, self._starts, self._ends, positions, self._size, self._outside, self._spans,
            *_NO_ADDENDS, np.zeros(2 * len(self._starts), np.int64), state, found,
        )  # fmt: skip
        out = np.append(self._values, NULL)[np.maximum(found, -1)]
        if self._stored is not None:
            outside = (found < 0).nonzero()[0]
            stretches, positions, pair = distinct_pairs(self._owner[outside], -1 - found[outside])
            out[outside] = self._stored.at(self._partitions[stretches], positions)[pair]
        return out

    # -- the reading interface of the multisets of groups --------------------------------------------------------------

    def sizes(self, values: Values, handles: np.ndarray) -> np.ndarray:
        """Returns the number of values of frames, with copies. O(1) each."""
        return self._sizes(handles)

    def _sizes(self, handles: np.ndarray) -> np.ndarray:
        so_far = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._numbers >= 0)])
        return np.asarray(
            ((so_far[self._ends] - so_far[self._starts]).sum(axis=0) + self._outside_counts[self._owner])[handles]
        )

    def values_at(self, values: Values, handles: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Returns the values (codes) at positions of all frames, from 0, with copies; NULL if there is none. O(log n)
        for each row in which a frame differs from the one before."""
        return self._slide(kernels.SELECTED, np.ascontiguousarray(positions))

    def in_order(self, values: Values, handles: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the distinct values (codes) of frames in order, the number of copies of each, and the offsets of the
        frames, with the end of the last one. O(n log n), where n is the number of rows of all frames."""
        starts, ends = (side[:, handles].T.reshape(-1) for side in (self._starts, self._ends))
        lengths = ends - starts
        place = np.arange(int(lengths.sum())) + np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
        frame = np.repeat(np.repeat(np.arange(len(handles)), len(self._starts)), lengths)
        number = self._numbers[place]
        present = number >= 0
        found, copies = np.unique(frame[present] * (self._size + 1) + number[present], return_counts=True)
        begins = np.searchsorted(found, np.arange(len(handles) + 1) * (self._size + 1))
        return self._values[found % (self._size + 1)], copies, begins

    # -- sums of distinct values ---------------------------------------------------------------------------------------

    def _distinct(self) -> np.ndarray:
        """Returns the codes of an aggregate that is computed from sums over the distinct values of frames."""
        rule, argument = self._sums.rules[self._call.name], self._call.arguments[0]
        layout, n, frames = Layout(rule.terms, self._types, {}), self._size, self._starts.shape[1]
        column = Column(self._types[argument], self._dictionary, self._values[:n].copy())
        near, far_parts = np.zeros((n, layout.words), np.int64), Far(layout, n)
        addends = Addends(layout.placed(rule.terms), self._types)
        values = Frame({argument: column}, n, self._dictionary)
        addends.add(values, np.ones(n, np.int64), np.arange(n), near, far_parts)
        shape = np.array([0, layout.words, len(layout.places) // 2, *layout.places], np.int64)
        out = np.empty((frames, layout.words), np.int64)
        kernels.slide(
            kernels.SUMMED, self._numbers, self._starts, self._ends, np.empty(0, np.int64), n, self._outside,
            self._spans, near, shape, np.zeros(2 * len(self._starts), np.int64), np.zeros(n + layout.words, np.int64),
            out.reshape(-1),
        )  # fmt: skip
        far = Far(layout, frames)
        for term, parts in far_parts.sums.items():
            for number in parts.groups().tolist():
                so_far = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._numbers == number)])
                hit = (so_far[self._ends] > so_far[self._starts]).any(axis=0).nonzero()[0]
                value = np.repeat(parts.numbers[parts.of[number]][None, :], len(hit), axis=0)
                far.of(term).add(hit, np.ones(len(hit), np.int64), value)
        return self._sums.column(self._call, Totals(layout, out, far, {}))


def values_read(call: WindowFunction, sums: Sums) -> tuple[Values, str]:
    """Returns the values that a function reads, and the column that is NULL in the rows without a value."""
    argument = call.arguments[0]
    if call.function in (*ENDS, "mode"):
        return Values(argument, call.where), argument
    if call.function not in CHOSEN:
        values = sums.rules[call.name].values
        assert values is not None, "it gathers values"
        return Values(argument, call.where, values.order), argument
    needed = call.arguments[1]
    return Values(argument, call.where, (Order(needed, call.function == "max_by"),)), needed


def ranks(codes: np.ndarray, type_: str, dictionary: Dictionary) -> np.ndarray:
    """Returns the positions of distinct values in their order, from 0. Nested values are ordered by their bytes."""
    if order_of(type_) in (orders.BY_WORD, orders.BY_FLOAT):
        order = np.argsort(ordered(codes, type_, False), kind="stable")
    else:
        column = Column("binary" if is_nested(type_) else type_, dictionary, codes)
        order = pc.sort_indices(column.array).to_numpy(zero_copy_only=False)
    out = np.empty(len(codes), np.int64)
    out[order] = np.arange(len(codes))
    return out
