"""Computes window functions for some rows of several partitions at once.

Only the sums of the rows before and after a stretch of rows (``crown.stages.over.stretches``) are known. So all sums
are running sums over one list of numbers: for each stretch its head, the addends of its rows, and its tail. A frame is
a piece of this list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from crown.kernels.strings import NULL
from crown.stages.groups import rounded
from crown.stages.groups.aggregates import Totals
from crown.stages.groups.far import Far
from crown.stages.kernels.over import partitions as kernels
from crown.stages.kernels.trees import orders
from crown.stages.orders import order_of, ordered
from crown.stages.over.gathered import Gathered, ranks
from crown.stages.over.ordered_values import OrderedValues
from crown.stages.over.stretches import FilteredRows, Pieces, Stretches, distinct_pairs
from crown.stages.over.sums import Sums
from crown.store.dictionary import Dictionary
from plans.expressions.columns import dates
from plans.programs import frames
from plans.programs.frames import Order, WindowFunction
from plans.schema import Column as Declared

_MOST, _LEAST = 2**63 - 1, 1 - 2**63


class Frames:
    """The window functions of a stage that read frames over its feed's ``columns``, in an ``order``."""

    def __init__(
        self,
        functions: Sequence[WindowFunction],
        columns: Sequence[Declared],
        order: Sequence[Order],
        sums: Sums,
        dictionary: Dictionary,
        ordered_values: Mapping[WindowFunction, OrderedValues],
    ) -> None:
        self._ordered_values = ordered_values
        self._functions = functions
        self._columns = columns
        self._types = {column.name: column.type for column in columns}
        self._place = {column.name: i for i, column in enumerate(columns)}
        self._order_places = [self._place[key.column] for key in order]
        self._order = order
        self._sums = sums
        self._dictionary = dictionary

    def values(self, rows: Stretches) -> list[np.ndarray]:
        """Returns the values of every function (codes) for the requested rows. O(rows log of a frame's length).

        Raises ChangeError if a sum leaves its type.
        """
        return _Evaluation(self, rows).values()


@dataclass(eq=False)
class _PickedRows:
    """The row that a function picks for each requested row. ``inside``: whether it is in a stretch; if so, its index is
    in ``places``. ``outside``: the requested rows whose picked rows are in no stretch; ``read`` has these, in codes."""

    inside: np.ndarray
    places: np.ndarray
    outside: np.ndarray
    read: np.ndarray

    @staticmethod
    def at(rows: Stretches, positions: np.ndarray, present: np.ndarray) -> _PickedRows:
        """Returns the rows at positions, for the requested rows for which one is ``present``."""
        at, starts = positions + rows.base, rows.starts[rows.owner]
        inside = present & (at >= starts) & (at < starts + rows.lengths[rows.owner])
        outside = (present & ~inside).nonzero()[0]
        read = np.empty((len(rows.columns), 0), np.int64)
        if len(outside):
            stretches, far, each = distinct_pairs(rows.owner[outside], positions[outside])
            read = rows.at(stretches, far)[:, each]
        return _PickedRows(inside, at[inside], outside, read)


class _Evaluation:
    """One evaluation of all functions. Intermediate results that several functions need are computed once."""

    def __init__(self, context: Frames, rows: Stretches) -> None:
        self._context = context
        self._rows = rows
        self._frames: dict[frames.Frame, tuple[np.ndarray, np.ndarray]] = {}
        self._filtered_rows: dict[str, FilteredRows] = {}
        self._picked: dict[WindowFunction, _PickedRows] = {}

    def values(self) -> list[np.ndarray]:
        return [self._value(call) for call in self._context._functions]

    def _value(self, call: WindowFunction) -> np.ndarray:
        rows = self._rows
        if call.function == "row_number":
            return np.asarray(rows.position + 1)
        if call.function == "rank":
            return self._peers[0] + 1
        if call.function == "percent_rank":
            share = self._peers[0] / np.maximum(rows.size - 1, 1)
            return rounded.float_codes(share, np.zeros(len(share), np.bool_))
        if call.function == "cume_dist":
            return rounded.float_codes(self._peers[1] / rows.size, np.zeros(len(rows.size), np.bool_))
        if call.function == "ntile":
            small, larger = rows.size // call.count, rows.size % call.count
            border = larger * (small + 1)
            after_border = (rows.position - border) // np.maximum(small, 1) + larger
            return np.where(rows.position < border, rows.position // (small + 1), after_border) + 1
        if call.function in frames.PICKED:
            return self._pick(call)
        if call.gathered or call.keeps_values:
            return self._gathered(call)
        if call.function in frames.ENDS:
            return self._extremum(call)
        return self._sum(call)

    # -- frames --------------------------------------------------------------------------------------------------------

    @cached_property
    def _groups(self) -> np.ndarray:
        """Returns which rows of the stretches begin a group of peers."""
        rows = self._rows
        new = np.zeros(rows.columns.shape[1], np.bool_)
        new[rows.starts] = True
        for at in self._context._order_places:
            new[1:] |= rows.columns[at, 1:] != rows.columns[at, :-1]
        return new

    @cached_property
    def _peers(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the start and the end position of the peers of each requested row."""
        rows, begins = self._rows, self._groups.nonzero()[0]
        number = np.searchsorted(begins, rows.requested, "right") - 1
        ends = np.append(begins[1:], rows.columns.shape[1])
        return begins[number] - rows.base, ends[number] - rows.base

    def _bounds(self, frame: frames.Frame) -> tuple[np.ndarray, np.ndarray]:
        """Returns the start and the end position of the frame of each requested row, before exclusion."""
        found = self._frames.get(frame)
        if found is None:
            start, end = (self._bound(frame, side) for side in (0, 1))
            found = self._frames[frame] = start, np.maximum(start, end)
        return found

    def _bound(self, frame: frames.Frame, side: int) -> np.ndarray:
        rows, offset = self._rows, frame.end if side else frame.start
        if offset is None:
            return rows.size if side else np.zeros_like(rows.size)
        if frame.unit == "rows":
            return np.clip(rows.position + min(int(offset), 2**40) + side, 0, rows.size)
        if frame.unit == "groups":
            return self._group_bound(int(offset), side)
        return self._peers[side] if offset == 0 else self._range_bound(offset, frame.unit, side)

    def _group_bound(self, offset: int, side: int) -> np.ndarray:
        """Returns the bound that is ``offset`` groups of peers away."""
        rows, begins = self._rows, self._groups.nonzero()[0]
        number = np.searchsorted(begins, rows.requested, "right") - 1 + offset + side
        edges = np.append(begins, rows.columns.shape[1])
        first = np.searchsorted(begins, rows.starts)[rows.owner]
        last = np.append(np.searchsorted(begins, rows.starts[1:]), len(begins))[rows.owner]
        return edges[np.clip(number, first, last)] - rows.base

    def _range_bound(self, offset: int | float, unit: str, side: int) -> np.ndarray:
        """Returns the bound at distance ``offset`` from the row's value. If the value is NULL, the bound is that of the
        row's peers."""
        rows, (by,) = self._rows, self._context._order
        type_, codes = self._context._types[by.column], rows.columns[self._context._place[by.column]]
        null = codes == NULL
        keys = np.where(null, 0, ordered(codes, type_, by.falling))
        counts = np.concatenate([np.zeros(1, np.int64), np.cumsum(null)])
        ends = rows.starts + rows.lengths
        nulls = counts[ends] - counts[rows.starts]
        first = rows.starts + (0 if by.nulls_last else nulls)
        last = ends - (nulls if by.nulls_last else 0)
        current = codes[rows.requested]
        values, out_of_range = plus_offset(current, type_, -offset if by.falling else offset, unit)
        targets = np.ascontiguousarray(ordered(values, type_, by.falling))
        out = np.empty(len(current), np.int64)
        kernels.search_sorted(keys, first[rows.owner], last[rows.owner], targets, side, out)
        if out_of_range.any():  # all rows that have a value are on one side of the bound
            out = np.where(out_of_range, (last if offset > 0 else first)[rows.owner], out)
        return np.where(current == NULL, self._peers[side], out - rows.base)

    def _pieces(self, frame: frames.Frame, start: np.ndarray, end: np.ndarray, zero: np.ndarray) -> Pieces:
        """Returns the pieces of frames from ``start`` to ``end`` that are not excluded. ``zero``: the index of position
        0."""
        current = self._rows.position + zero
        if frame.exclude == "row":
            return [(start, np.minimum(end, current)), (np.maximum(start, current + 1), end)]
        if not frame.exclude:
            return [(start, end)]
        first, last = (peer + zero for peer in self._peers)
        outside = [(start, np.minimum(end, first)), (np.maximum(start, last), end)]
        current_row = (np.maximum(start, current), np.minimum(end, current + 1))
        return outside if frame.exclude == "group" else [outside[0], current_row, outside[1]]

    def _list_pieces(self, frame: frames.Frame) -> Pieces:
        """Returns the pieces of frames in the list of numbers. A frame whose start is unbounded includes the head, and
        one whose end is unbounded includes the tail."""
        rows, (start, end) = self._rows, self._bounds(frame)
        start, end = start + rows.list_offset, end + rows.list_offset
        if frame.start is None:
            start = rows.starts[rows.owner] + 2 * rows.owner
        if frame.end is None:
            end = (rows.starts + rows.lengths)[rows.owner] + 2 * rows.owner + 2
        return self._pieces(frame, start, end, rows.list_offset)

    # -- functions -----------------------------------------------------------------------------------------------------

    def _pick(self, call: WindowFunction) -> np.ndarray:
        """Returns the codes of a function's argument in the picked rows, or its default if no row is picked."""
        rows, context = self._rows, self._context
        found = self._picked.get(call.seen)
        if found is None:
            found = self._picked[call.seen] = _PickedRows.at(rows, *self._positions(call))
        place = context._place[call.arguments[0]]
        if call.default is None:
            out = np.full(len(rows.requested), NULL, np.int64)
        else:
            out = rows.columns[context._place[call.default], rows.requested]
        out[found.inside] = rows.columns[place, found.places]
        out[found.outside] = found.read[place]
        return out

    def _positions(self, call: WindowFunction) -> tuple[np.ndarray, np.ndarray]:
        """Returns the positions of the rows that a function picks, and whether it picks one."""
        assert call.frame is not None, "it picks a row of its frame"
        rows = self._rows
        pieces = self._pieces(call.frame, *self._bounds(call.frame), np.zeros_like(rows.base))
        if call.where is not None:
            pieces = [
                (self._filtered(call.where).count(start), self._filtered(call.where).count(end))
                for start, end in pieces
            ]
        positions, present = np.zeros_like(rows.position), np.zeros(len(rows.position), np.bool_)
        skip, last = np.full(len(positions), (call.count or 1) - 1), call.function == "last_value"
        for start, end in reversed(pieces) if last else pieces:
            length = np.maximum(end - start, 0)
            reached = ~present & (skip < length)
            positions[reached], present = (end - 1 - skip if last else start + skip)[reached], present | reached
            skip -= np.where(present, 0, length)
        return (positions if call.where is None else self._filtered(call.where).positions(positions, present)), present

    def _filtered(self, where: str) -> FilteredRows:
        if where not in self._filtered_rows:
            sums, place = self._context._sums, self._context._place[where]
            self._filtered_rows[where] = FilteredRows(self._rows, place, sums.counts[where])
        return self._filtered_rows[where]

    def _extremum(self, call: WindowFunction) -> np.ndarray:
        """Returns the codes of MIN or MAX. Uses a sparse table: the extrema of 1, 2, 4, ... adjacent values, one level
        at a time."""
        assert call.frame is not None, "it reads a frame"
        rows, context = self._rows, self._context
        codes = rows.columns[context._place[call.arguments[0]]]
        valid = codes != NULL
        if call.where is not None:
            valid = valid & (rows.columns[context._place[call.where]] == 1)
        before, after = (context._sums.extremum_codes(call, side) for side in (rows.heads, rows.tails))
        n = len(before)
        outside = np.concatenate([before, after])
        values, number = np.unique(np.append(codes[valid], outside[outside != NULL]), return_inverse=True)
        rank = ranks(values, context._types[call.arguments[0]], context._dictionary)
        if call.function == "max":
            rank = len(values) - 1 - rank
        level = np.full(len(codes) + 2 * len(rows.starts), len(values), np.int64)
        heads = rows.starts + 2 * np.arange(n)
        places = np.concatenate([heads, heads + rows.lengths + 1])[outside != NULL]
        places = np.append((np.arange(len(codes)) + 2 * rows.stretch + 1)[valid], places)
        level[places] = rank[number.reshape(-1)]
        best = np.full(len(rows.requested), len(values), np.int64)
        pieces = [(start, end, end - start) for start, end in self._list_pieces(call.frame)]
        longest, size = max((int(length.max(initial=0)) for *_, length in pieces), default=0), 1
        while size <= longest:
            for start, end, length in pieces:
                sized = ((length >= size) & (length < 2 * size)).nonzero()[0]
                best_pair = np.minimum(level[start[sized]], level[end[sized] - size])
                best[sized] = np.minimum(best[sized], best_pair)
            if 2 * size <= longest:
                level = np.minimum(level[:-size], level[size:])
            size *= 2
        by_rank = np.append(np.empty(len(values), np.int64), NULL)
        by_rank[rank] = values
        return by_rank[best]

    def _gathered(self, call: WindowFunction) -> np.ndarray:
        """Returns the codes of an aggregate that reads the values of its frames."""
        assert call.frame is not None, "it reads a frame"
        rows, context = self._rows, self._context
        first, last = rows.starts[rows.owner], (rows.starts + rows.lengths)[rows.owner]
        start, end = (np.clip(bound + rows.base, first, last) for bound in self._bounds(call.frame))
        pieces = self._pieces(call.frame, start, end, rows.base)
        stored = context._ordered_values.get(call)
        return Gathered(call, context._columns, rows, pieces, context._sums, context._dictionary, stored).codes()

    @cached_property
    def _running_sums(self) -> tuple[np.ndarray, Far]:
        """Returns the running sums over the list of numbers, and the far parts of the rows."""
        rows, sums = self._rows, self._context._sums
        m, n = rows.columns.shape[1], len(rows.starts)
        addends, far = sums.addends(np.ascontiguousarray(rows.columns), np.ones(m, np.int64))
        if sums.opening >= 0:
            addends[:, sums.opening] = self._groups
        listed = np.zeros((m + 2 * n, sums.words), np.int64)
        listed[np.arange(m) + 2 * rows.stretch + 1] = addends
        before = rows.starts + 2 * np.arange(n)
        if rows.heads.shape[1]:
            listed[before] = rows.heads
            listed[before + rows.lengths + 1] = rows.tails
        out = np.empty((len(listed) + 1, sums.words), np.int64)
        kernels.prefix_sums(listed, sums.numbers, out)
        return out, far

    def _sum(self, call: WindowFunction) -> np.ndarray:
        assert call.frame is not None, "it reads a frame"
        rows, sums = self._rows, self._context._sums
        running, far_of_rows = self._running_sums
        totals, pieces = np.zeros((len(rows.requested), sums.words), np.int64), self._list_pieces(call.frame)
        for start, end in pieces:
            kernels.add_range_sums(
                running, sums.numbers, np.ascontiguousarray(start), np.ascontiguousarray(end), totals
            )
        far = Far(sums.layout, len(rows.requested))
        if call.function == "dense_rank":
            return totals[:, sums.opening]
        for term, parts in far_of_rows.sums.items():
            for row in parts.groups().tolist():
                place = row + 2 * int(rows.stretch[row]) + 1
                inside = np.zeros(len(rows.requested), np.bool_)
                for start, end in pieces:
                    inside |= (start <= place) & (place < end)
                hit = inside.nonzero()[0]
                value = np.repeat(parts.numbers[parts.of[row]][None, :], len(hit), axis=0)
                far.of(term).add(hit, np.ones(len(hit), np.int64), value)
        found = Totals(sums.layout, np.ascontiguousarray(totals[:, : sums.layout.words]), far, {})
        return sums.column(call, found)


def plus_offset(codes: np.ndarray, type_: str, offset: int | float, unit: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the codes of values plus an offset, in months or in the unit of the codes, and which results are out of
    range. These are clamped to the range of codes."""
    if unit == "months":
        return _months_later(codes, type_, int(offset))
    if order_of(type_) == orders.BY_FLOAT:
        found = rounded.float_codes(codes.view(np.float64) + float(offset), codes == NULL)
        return found, np.zeros(len(codes), np.bool_)
    by = min(max(int(offset), _LEAST), _MOST)
    over = codes > _MOST - by if by > 0 else codes < _LEAST - by
    with np.errstate(over="ignore"):
        result = np.where(over, _MOST if by > 0 else _LEAST, codes + np.int64(by))
    return np.where(codes == NULL, NULL, result), over & (codes != NULL)


def _months_later(codes: np.ndarray, type_: str, months: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the codes of dates or timestamps ``months`` later, and which results are out of range. If a month is too
    short for the day, the result is its last day."""
    null, unit = codes == NULL, 1 if type_ == "date" else dates.DAY
    days, clock = np.divmod(np.where(null, 0, codes), unit)
    days = dates.shifted(days, np.full_like(days, months))
    with np.errstate(over="ignore"):
        result = days * unit + clock
    over = (np.abs(days) - 1 > _MOST // unit) | ((result < 0) != (days < 0))
    result = np.where(over, np.where(days < 0, _LEAST, _MOST), np.maximum(result, _LEAST))
    return np.where(null, NULL, result), over & ~null
