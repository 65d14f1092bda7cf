"""Computes aggregates that read the values of frames: percentiles, the commonest value, lists, and those of DISTINCT.

The values of the rows that frames reach are numbered in their order, once. Then each frame is a multiset of numbers,
read as groups read the multisets that they keep (``crown.stages.groups.readings``).
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
from crown.stages.kernels.over import gathered as kernels
from crown.stages.kernels.trees import orders
from crown.stages.orders import order_of, ordered
from crown.stages.over.kept import Kept
from crown.stages.over.stretches import Pieces, Stretches, different
from crown.stages.over.sums import Sums
from crown.store.dictionary import Dictionary
from plans.nested import is_nested
from plans.payloads.sums import LISTED, Values
from plans.programs.frames import CHOSEN, ENDS, Order, WindowFunction
from plans.schema import Column as Declared

_AT_ONCE = 1 << 20  # values of frames that are listed at a time
_BEHIND = 1 << 40  # a position behind all values
_NO_ADDENDS = np.empty((0, 0), np.int64), np.zeros(3, np.int64)


class Gathered:
    """The values that a function has in ``pieces`` of frames (places in ``rows``), one frame after the other; frames
    that follow one another and are the same are one.

    ``kept``: the values of whole partitions. Frames also contain the kept values outside of the stretches of rows.
    """

    def __init__(
        self,
        one: WindowFunction,
        columns: Sequence[Declared],
        rows: Stretches,
        pieces: Pieces,
        sums: Sums,
        dictionary: Dictionary,
        kept: Kept | None,
    ) -> None:
        self._one, self._sums, self._dictionary = one, sums, dictionary
        self._types = {column.name: column.type for column in columns}
        self._codes = {column.name: rows.columns[i] for i, column in enumerate(columns)}
        found = np.array([[start for start, _ in pieces], [end for _, end in pieces]], np.int64)
        found[1] = np.maximum(found[0], found[1])
        new = np.ones(found.shape[2], np.bool_)
        new[1:] = (found[:, :, 1:] != found[:, :, :-1]).any(axis=(0, 1))
        self._each = np.cumsum(new) - 1
        self._starts, self._ends = (np.ascontiguousarray(side[:, new]) for side in found)
        self._rows, self._of = rows, rows.of[new]
        self._kept = kept if (rows.lengths < rows.sizes).any() else None
        self._number()

    def codes(self) -> np.ndarray:
        """Returns the codes of the function, one per frame. Raises ChangeError if a sum leaves its type."""
        one, every = self._one, np.arange(self._starts.shape[1])
        if one.function in CHOSEN:
            asked = kernels.COMMONEST if one.function == "mode" else kernels.SELECTED
            return self._slid(asked, np.zeros_like(every))[self._each]
        if one.function in ENDS:
            last = self._sizes(every) - 1
            return self._slid(kernels.SELECTED, last if one.function == "max" else np.zeros_like(every))[self._each]
        reading = self._sums.rules[one.name].reading
        if reading is None:
            return self._distinct()[self._each]
        parts = [every]
        if one.function in LISTED:
            lengths = np.cumsum((self._ends - self._starts).sum(axis=0))
            parts = np.split(every, np.flatnonzero(np.diff(lengths // _AT_ONCE)) + 1)
        return np.concatenate([reading.codes(self, part, self._dictionary) for part in parts])[self._each]

    def _number(self) -> None:
        """Numbers the values of the rows that count in their order, from 0; others have -1. Those of each stretch have
        numbers of their own if there are others outside of it."""
        rows, kept = self._rows, self._kept
        values, needed = read_in_order(self._one, self._sums)
        valid = self._codes[needed] != NULL
        if values.where is not None:
            valid &= self._codes[values.where] == 1
        places = valid.nonzero()[0]
        number = np.zeros(len(places), np.int64) if kept is None else rows.stretch[places]
        for by in (*values.order, Order(values.argument)):
            rank = self._ranks(self._codes[by.column][places], by)
            number = np.unique(number * (len(places) + 2) + rank, return_inverse=True)[1].reshape(-1)
        n, self._size = len(self._of), int(number.max(initial=-1)) + 1
        self._numbers = np.full(len(valid), -1, np.int64)
        self._numbers[places] = number
        known = np.empty(self._size, np.int64)  # a row with each value
        known[number] = places
        self._values = self._codes[values.argument][known]
        self._outside = np.zeros((kernels.OUTSIDE, self._size), np.int64)
        self._spans = np.repeat(np.array([[0], [self._size]], np.int64), n, axis=1)
        self._beyond = self._partitions = np.zeros(len(rows.starts), np.int64)  # values outside of stretches
        if kept is not None:
            self._look_outside(kept, known, np.bincount(number, minlength=self._size))

    def _look_outside(self, kept: Kept, known: np.ndarray, copies: np.ndarray) -> None:
        """Finds what is outside of the stretches; ``known``: a row with each value; ``copies``: how many there are."""
        rows = self._rows
        begins = np.searchsorted(rows.stretch[known], np.arange(len(rows.starts) + 1))
        so_far = np.concatenate([np.zeros(1, np.int64), np.cumsum(copies)])
        before = so_far[:-1] - so_far[begins[:-1]][rows.stretch[known]]
        ranks, there = kept.located(rows.columns[:, known])
        self._outside = np.stack([ranks - before, there - copies, before + copies])
        self._spans = np.take(np.stack([begins[:-1], begins[1:]]), self._of, axis=1)
        self._partitions = kept.find(rows.columns[:, rows.starts])
        self._beyond = kept.trees.sizes(self._partitions) - (so_far[begins[1:]] - so_far[begins[:-1]])

    def _ranks(self, codes: np.ndarray, by: Order) -> np.ndarray:
        """Returns numbers that rise as values do in an order."""
        known, number = np.unique(codes, return_inverse=True)
        rank = ranks(known, self._types[by.column], self._dictionary)
        if by.falling:
            rank = len(known) - 1 - rank
        rank[known == NULL] = len(known) if by.nulls_last else -1
        return np.asarray(rank[number.reshape(-1)] + 1)

    def _slid(self, asked: int, positions: np.ndarray) -> np.ndarray:
        """Returns one value (code) per frame: that at a position, or the commonest. It is NULL if there is none."""
        state = np.zeros(self._size + 1 if asked == kernels.SELECTED else 2 * self._size + 2, np.int64)
        found = np.empty(len(positions), np.int64)
        positions = np.where(positions < 0, _BEHIND, positions)
        kernels.slide(
            asked, self._numbers, self._starts, self._ends, positions, self._size, self._outside, self._spans,
            *_NO_ADDENDS, np.zeros(2 * len(self._starts), np.int64), state, found,
        )  # fmt: skip
        out = np.append(self._values, NULL)[np.maximum(found, -1)]
        if self._kept is not None:
            some = (found < 0).nonzero()[0]
            stretches, positions, each = different(self._of[some], -1 - found[some])
            out[some] = self._kept.at(self._partitions[stretches], positions)[each]
        return out

    # As groups keep multisets
    # ------------------------------------------------------------------------------------------------------------------

    def sizes(self, values: Values, handles: np.ndarray) -> np.ndarray:
        """Returns how many values frames have, copies counted. O(1) each."""
        return self._sizes(handles)

    def _sizes(self, handles: np.ndarray) -> np.ndarray:
        so_far = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._numbers >= 0)])
        return np.asarray(((so_far[self._ends] - so_far[self._starts]).sum(axis=0) + self._beyond[self._of])[handles])

    def values_at(self, values: Values, handles: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Returns the values (codes) at positions of all frames, from 0, copies counted; NULL where there is none.
        O(log n) for each row in which a frame differs from the one before."""
        return self._slid(kernels.SELECTED, np.ascontiguousarray(positions))

    def in_order(self, values: Values, handles: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the different values (codes) of frames in order, how often each is there, and where each frame's
        begin and the last ones end. O(n log n), n the rows of all frames."""
        starts, ends = (side[:, handles].T.reshape(-1) for side in (self._starts, self._ends))
        lengths = ends - starts
        place = np.arange(int(lengths.sum())) + np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
        of = np.repeat(np.repeat(np.arange(len(handles)), len(self._starts)), lengths)
        number = self._numbers[place]
        there = number >= 0
        found, copies = np.unique(of[there] * (self._size + 1) + number[there], return_counts=True)
        begins = np.searchsorted(found, np.arange(len(handles) + 1) * (self._size + 1))
        return self._values[found % (self._size + 1)], copies, begins

    # Sums of different values
    # ------------------------------------------------------------------------------------------------------------------

    def _distinct(self) -> np.ndarray:
        """Returns an aggregate that is made of sums over the different values of frames."""
        rule, argument = self._sums.rules[self._one.name], self._one.arguments[0]
        layout, n, frames = Layout(rule.terms, self._types, {}), self._size, self._starts.shape[1]
        column = Column(self._types[argument], self._dictionary, self._values[:n].copy())
        near, beyond = np.zeros((n, layout.words), np.int64), Far(layout, n)
        addends = Addends(layout.placed(rule.terms), self._types)
        each = Frame({argument: column}, n, self._dictionary)
        addends.add(each, np.ones(n, np.int64), np.arange(n), near, beyond)
        shape = np.array([0, layout.words, len(layout.places) // 2, *layout.places], np.int64)
        out = np.empty((frames, layout.words), np.int64)
        kernels.slide(
            kernels.SUMMED, self._numbers, self._starts, self._ends, np.empty(0, np.int64), n, self._outside,
            self._spans, near, shape, np.zeros(2 * len(self._starts), np.int64), np.zeros(n + layout.words, np.int64),
            out.reshape(-1),
        )  # fmt: skip
        far = Far(layout, frames)
        for term, known in beyond.sums.items():
            for number in known.groups().tolist():
                so_far = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._numbers == number)])
                hit = (so_far[self._ends] > so_far[self._starts]).any(axis=0).nonzero()[0]
                value = np.repeat(known.numbers[known.of[number]][None, :], len(hit), axis=0)
                far.of(term).add(hit, np.ones(len(hit), np.int64), value)
        return self._sums.column(self._one, Totals(layout, out, far, {}))


def read_in_order(one: WindowFunction, sums: Sums) -> tuple[Values, str]:
    """Returns the values that a function reads, and the column that is not NULL in the rows that have one."""
    argument = one.arguments[0]
    if one.function in (*ENDS, "mode"):
        return Values(argument, one.where), argument
    if one.function not in CHOSEN:
        values = sums.rules[one.name].values
        assert values is not None, "it gathers values"
        return Values(argument, one.where, values.order), argument
    needed = one.arguments[1]
    return Values(argument, one.where, (Order(needed, one.function == "max_by"),)), needed


def ranks(codes: np.ndarray, type_: str, dictionary: Dictionary) -> np.ndarray:
    """Returns the positions of different values in their order, from 0; those with parts are in that of their
    bytes."""
    if order_of(type_) in (orders.BY_WORD, orders.BY_FLOAT):
        order = np.argsort(ordered(codes, type_, False), kind="stable")
    else:
        seen = Column("binary" if is_nested(type_) else type_, dictionary, codes)
        order = pc.sort_indices(seen.array).to_numpy(zero_copy_only=False)
    out = np.empty(len(codes), np.int64)
    out[order] = np.arange(len(codes))
    return out
