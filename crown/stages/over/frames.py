"""Computes window functions for some rows of several partitions at once.

What is before and behind a stretch of rows (``crown.stages.over.stretches``) is known by its sums alone. So all sums
are running sums over one list of numbers, ``head, rows of the stretch, tail`` of one stretch after the other, and a
frame is a piece of this list.
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
from crown.stages.over.kept import Kept
from crown.stages.over.stretches import Passed, Pieces, Stretches, different
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
        kept: Mapping[WindowFunction, Kept],
    ) -> None:
        self._kept = kept
        self._functions = functions
        self._columns = columns
        self._types = {column.name: column.type for column in columns}
        self._place = {column.name: i for i, column in enumerate(columns)}
        self._by = [self._place[one.column] for one in order]
        self._order = order
        self._sums = sums
        self._dictionary = dictionary

    def values(self, rows: Stretches) -> list[np.ndarray]:
        """Returns the values of every function (codes) for the wanted rows. O(rows log of a frame's length).

        Raises ChangeError if a sum leaves its type.
        """
        return _Evaluation(self, rows).values()


@dataclass(eq=False)
class _Seen:
    """The rows that a function has the values of: those ``inside`` of the stretches are at ``places``; those that are
    ``outside``, given per wanted row, are ``read``: codes."""

    inside: np.ndarray
    places: np.ndarray
    outside: np.ndarray
    read: np.ndarray

    @staticmethod
    def of(rows: Stretches, positions: np.ndarray, there: np.ndarray) -> _Seen:
        """Returns the rows at positions, where they are ``there``."""
        at, starts = positions + rows.base, rows.starts[rows.of]
        inside = there & (at >= starts) & (at < starts + rows.lengths[rows.of])
        outside = (there & ~inside).nonzero()[0]
        read = np.empty((len(rows.columns), 0), np.int64)
        if len(outside):
            stretches, far, each = different(rows.of[outside], positions[outside])
            read = rows.at(stretches, far)[:, each]
        return _Seen(inside, at[inside], outside, read)


class _Evaluation:
    """One evaluation: what several functions need is worked out once."""

    def __init__(self, given: Frames, rows: Stretches) -> None:
        self._given = given
        self._rows = rows
        self._frames: dict[frames.Frame, tuple[np.ndarray, np.ndarray]] = {}
        self._passed: dict[str, Passed] = {}
        self._seen: dict[WindowFunction, _Seen] = {}

    def values(self) -> list[np.ndarray]:
        return [self._value(one) for one in self._given._functions]

    def _value(self, one: WindowFunction) -> np.ndarray:
        rows = self._rows
        if one.function == "row_number":
            return np.asarray(rows.position + 1)
        if one.function == "rank":
            return self._peers[0] + 1
        if one.function == "percent_rank":
            share = self._peers[0] / np.maximum(rows.size - 1, 1)
            return rounded.float_codes(share, np.zeros(len(share), np.bool_))
        if one.function == "cume_dist":
            return rounded.float_codes(self._peers[1] / rows.size, np.zeros(len(rows.size), np.bool_))
        if one.function == "ntile":
            small, larger = rows.size // one.count, rows.size % one.count
            border = larger * (small + 1)
            behind = (rows.position - border) // np.maximum(small, 1) + larger
            return np.where(rows.position < border, rows.position // (small + 1), behind) + 1
        if one.function in frames.PICKED:
            return self._found(one)
        if one.gathered or one.keeps_values:
            return self._gathered(one)
        if one.function in frames.ENDS:
            return self._end(one)
        return self._sum(one)

    # Frames
    # ------------------------------------------------------------------------------------------------------------------

    @cached_property
    def _groups(self) -> np.ndarray:
        """Returns which rows of the stretches begin new peers."""
        rows = self._rows
        new = np.zeros(rows.columns.shape[1], np.bool_)
        new[rows.starts] = True
        for at in self._given._by:
            new[1:] |= rows.columns[at, 1:] != rows.columns[at, :-1]
        return new

    @cached_property
    def _peers(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the positions of the first peer of each wanted row, and behind the last one."""
        rows, begins = self._rows, self._groups.nonzero()[0]
        number = np.searchsorted(begins, rows.wanted, "right") - 1
        ends = np.append(begins[1:], rows.columns.shape[1])
        return begins[number] - rows.base, ends[number] - rows.base

    def _bounds(self, frame: frames.Frame) -> tuple[np.ndarray, np.ndarray]:
        """Returns the positions of the first row of the frame of each wanted row, and behind the last one."""
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
        """Returns the bound that is so many groups of peers away."""
        rows, begins = self._rows, self._groups.nonzero()[0]
        number = np.searchsorted(begins, rows.wanted, "right") - 1 + offset + side
        edges = np.append(begins, rows.columns.shape[1])
        first = np.searchsorted(begins, rows.starts)[rows.of]
        last = np.append(np.searchsorted(begins, rows.starts[1:]), len(begins))[rows.of]
        return edges[np.clip(number, first, last)] - rows.base

    def _range_bound(self, offset: int | float, unit: str, side: int) -> np.ndarray:
        """Returns the bound whose value is so far from the row's; peers are that of a row whose value is NULL."""
        rows, (by,) = self._rows, self._given._order
        type_, codes = self._given._types[by.column], rows.columns[self._given._place[by.column]]
        null = codes == NULL
        keys = np.where(null, 0, ordered(codes, type_, by.falling))
        counts = np.concatenate([np.zeros(1, np.int64), np.cumsum(null)])
        ends = rows.starts + rows.lengths
        nulls = counts[ends] - counts[rows.starts]
        first = rows.starts + (0 if by.nulls_last else nulls)
        last = ends - (nulls if by.nulls_last else 0)
        mine = codes[rows.wanted]
        values, beyond = moved(mine, type_, -offset if by.falling else offset, unit)
        targets = np.ascontiguousarray(ordered(values, type_, by.falling))
        out = np.empty(len(mine), np.int64)
        kernels.sought(keys, first[rows.of], last[rows.of], targets, side, out)
        if beyond.any():  # all rows that have a value are on one side of it
            out = np.where(beyond, (last if offset > 0 else first)[rows.of], out)
        return np.where(mine == NULL, self._peers[side], out - rows.base)

    def _pieces(self, frame: frames.Frame, start: np.ndarray, end: np.ndarray, zero: np.ndarray) -> Pieces:
        """Returns the pieces of frames from ``start`` to ``end`` that are not excluded; the place of position 0 is
        ``zero``."""
        here = self._rows.position + zero
        if frame.exclude == "row":
            return [(start, np.minimum(end, here)), (np.maximum(start, here + 1), end)]
        if not frame.exclude:
            return [(start, end)]
        first, last = (peer + zero for peer in self._peers)
        outside = [(start, np.minimum(end, first)), (np.maximum(start, last), end)]
        own = (np.maximum(start, here), np.minimum(end, here + 1))
        return outside if frame.exclude == "group" else [outside[0], own, outside[1]]

    def _listed(self, frame: frames.Frame) -> Pieces:
        """Returns the pieces of frames in the list of numbers: with the head where a frame has no first row, and with
        the tail where it has no last one."""
        rows, (start, end) = self._rows, self._bounds(frame)
        start, end = start + rows.listed, end + rows.listed
        if frame.start is None:
            start = rows.starts[rows.of] + 2 * rows.of
        if frame.end is None:
            end = (rows.starts + rows.lengths)[rows.of] + 2 * rows.of + 2
        return self._pieces(frame, start, end, rows.listed)

    # Functions
    # ------------------------------------------------------------------------------------------------------------------

    def _found(self, one: WindowFunction) -> np.ndarray:
        """Returns the codes of a function's argument in the rows that it sees; where there is none, what it says
        instead."""
        rows, given = self._rows, self._given
        found = self._seen.get(one.seen)
        if found is None:
            found = self._seen[one.seen] = _Seen.of(rows, *self._positions(one))
        place = given._place[one.arguments[0]]
        if one.default is None:
            out = np.full(len(rows.wanted), NULL, np.int64)
        else:
            out = rows.columns[given._place[one.default], rows.wanted]
        out[found.inside] = rows.columns[place, found.places]
        out[found.outside] = found.read[place]
        return out

    def _positions(self, one: WindowFunction) -> tuple[np.ndarray, np.ndarray]:
        """Returns the positions of the rows whose value a function has, and where there is one."""
        assert one.frame is not None, "it picks a row of its frame"
        rows = self._rows
        pieces = self._pieces(one.frame, *self._bounds(one.frame), np.zeros_like(rows.base))
        if one.where is not None:
            pieces = [(self._below(one.where).count(start), self._below(one.where).count(end)) for start, end in pieces]
        at, there = np.zeros_like(rows.position), np.zeros(len(rows.position), np.bool_)
        left, last = np.full(len(at), (one.count or 1) - 1), one.function == "last_value"
        for start, end in reversed(pieces) if last else pieces:
            length = np.maximum(end - start, 0)
            new = ~there & (left < length)
            at[new], there = (end - 1 - left if last else start + left)[new], there | new
            left -= np.where(there, 0, length)
        return (at if one.where is None else self._below(one.where).positions(at, there)), there

    def _below(self, where: str) -> Passed:
        if where not in self._passed:
            sums, place = self._given._sums, self._given._place[where]
            self._passed[where] = Passed(self._rows, place, sums.counts[where])
        return self._passed[where]

    def _end(self, one: WindowFunction) -> np.ndarray:
        """Returns MIN or MAX, by a table of the ends of 1, 2, 4, ... values, one level at a time."""
        assert one.frame is not None, "it reads a frame"
        rows, given = self._rows, self._given
        codes = rows.columns[given._place[one.arguments[0]]]
        there = codes != NULL
        if one.where is not None:
            there = there & (rows.columns[given._place[one.where]] == 1)
        before, behind = (given._sums.best_codes(one, side) for side in (rows.heads, rows.tails))
        n = len(before)
        outside = np.concatenate([before, behind])
        known, number = np.unique(np.append(codes[there], outside[outside != NULL]), return_inverse=True)
        rank = ranks(known, given._types[one.arguments[0]], given._dictionary)
        if one.function == "max":
            rank = len(known) - 1 - rank
        level = np.full(len(codes) + 2 * len(rows.starts), len(known), np.int64)
        heads = rows.starts + 2 * np.arange(n)
        places = np.concatenate([heads, heads + rows.lengths + 1])[outside != NULL]
        places = np.append((np.arange(len(codes)) + 2 * rows.stretch + 1)[there], places)
        level[places] = rank[number.reshape(-1)]
        best = np.full(len(rows.wanted), len(known), np.int64)
        pieces = [(start, end, end - start) for start, end in self._listed(one.frame)]
        most, size = max((int(length.max(initial=0)) for *_, length in pieces), default=0), 1
        while size <= most:
            for start, end, length in pieces:
                mine = ((length >= size) & (length < 2 * size)).nonzero()[0]
                least = np.minimum(level[start[mine]], level[end[mine] - size])
                best[mine] = np.minimum(best[mine], least)
            if 2 * size <= most:
                level = np.minimum(level[:-size], level[size:])
            size *= 2
        by_rank = np.append(np.empty(len(known), np.int64), NULL)
        by_rank[rank] = known
        return by_rank[best]

    def _gathered(self, one: WindowFunction) -> np.ndarray:
        """Returns the codes of an aggregate that reads the values of its frames."""
        assert one.frame is not None, "it reads a frame"
        rows, given = self._rows, self._given
        first, last = rows.starts[rows.of], (rows.starts + rows.lengths)[rows.of]
        start, end = (np.clip(bound + rows.base, first, last) for bound in self._bounds(one.frame))
        pieces = self._pieces(one.frame, start, end, rows.base)
        kept = given._kept.get(one)
        return Gathered(one, given._columns, rows, pieces, given._sums, given._dictionary, kept).codes()

    @cached_property
    def _list(self) -> tuple[np.ndarray, Far]:
        """Returns the running sums of the list of numbers, and the far parts of the rows."""
        rows, sums = self._rows, self._given._sums
        m, n = rows.columns.shape[1], len(rows.starts)
        each, far = sums.of(np.ascontiguousarray(rows.columns), np.ones(m, np.int64))
        if sums.opening >= 0:
            each[:, sums.opening] = self._groups
        listed = np.zeros((m + 2 * n, sums.words), np.int64)
        listed[np.arange(m) + 2 * rows.stretch + 1] = each
        before = rows.starts + 2 * np.arange(n)
        if rows.heads.shape[1]:
            listed[before] = rows.heads
            listed[before + rows.lengths + 1] = rows.tails
        out = np.empty((len(listed) + 1, sums.words), np.int64)
        kernels.running(listed, sums.numbers, out)
        return out, far

    def _sum(self, one: WindowFunction) -> np.ndarray:
        assert one.frame is not None, "it reads a frame"
        rows, sums = self._rows, self._given._sums
        running, far_of_rows = self._list
        totals, pieces = np.zeros((len(rows.wanted), sums.words), np.int64), self._listed(one.frame)
        for start, end in pieces:
            kernels.between(running, sums.numbers, np.ascontiguousarray(start), np.ascontiguousarray(end), totals)
        far = Far(sums.layout, len(rows.wanted))
        if one.function == "dense_rank":
            return totals[:, sums.opening]
        for term, known in far_of_rows.sums.items():
            for row in known.groups().tolist():
                place = row + 2 * int(rows.stretch[row]) + 1
                inside = np.zeros(len(rows.wanted), np.bool_)
                for start, end in pieces:
                    inside |= (start <= place) & (place < end)
                hit = inside.nonzero()[0]
                value = np.repeat(known.numbers[known.of[row]][None, :], len(hit), axis=0)
                far.of(term).add(hit, np.ones(len(hit), np.int64), value)
        found = Totals(sums.layout, np.ascontiguousarray(totals[:, : sums.layout.words]), far, {})
        return sums.column(one, found)


def moved(codes: np.ndarray, type_: str, offset: int | float, unit: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns codes of values plus an offset, in months or in the unit of the codes, and where the value would leave
    them: the code is their end there."""
    if unit == "months":
        return _later(codes, type_, int(offset))
    if order_of(type_) == orders.BY_FLOAT:
        found = rounded.float_codes(codes.view(np.float64) + float(offset), codes == NULL)
        return found, np.zeros(len(codes), np.bool_)
    by = min(max(int(offset), _LEAST), _MOST)
    over = codes > _MOST - by if by > 0 else codes < _LEAST - by
    with np.errstate(over="ignore"):
        made = np.where(over, _MOST if by > 0 else _LEAST, codes + np.int64(by))
    return np.where(codes == NULL, NULL, made), over & (codes != NULL)


def _later(codes: np.ndarray, type_: str, months: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns codes of dates or moments so many months later, and where they would leave the codes: of a month that is
    too short, on its last day."""
    null, unit = codes == NULL, 1 if type_ == "date" else dates.DAY
    days, clock = np.divmod(np.where(null, 0, codes), unit)
    days = dates.shifted(days, np.full_like(days, months))
    with np.errstate(over="ignore"):
        made = days * unit + clock
    over = (np.abs(days) - 1 > _MOST // unit) | ((made < 0) != (days < 0))
    made = np.where(over, np.where(days < 0, _LEAST, _MOST), np.maximum(made, _LEAST))
    return np.where(null, NULL, made), over & ~null
