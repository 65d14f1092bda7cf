"""Finds the positions of the rows that a change can affect, and of the rows that their values depend on.

All positions refer to the tree before a batch. Rows between two changes keep their distance, so the nearest change to a
row is as far from it after the batch as before: if its frame contains a change at all, before or after, the row is in
reach of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from crown.kernels.strings import NULL
from crown.stages.kernels.over import partitions as kernels
from crown.stages.kernels.over import replaced
from crown.stages.kernels.trees import orders
from crown.stages.kernels.trees.ordered import BEHIND, FIRST
from crown.stages.orders import order_of
from crown.stages.over.flips import Flips
from crown.stages.over.frames import moved
from crown.stages.over.picks import Picks
from crown.stages.over.touched import Touched
from plans.programs import frames
from plans.programs.frames import Frame, WindowFunction
from plans.programs.stages import OverStage
from plans.schema import Column
from plans.time.durations import DAY

Interval = tuple[np.ndarray, np.ndarray]
_EVERY = 1 << 40  # more rows than there are
_NEAR = 3  # a part of a partition that is as good as all of it


class Tree(Protocol):
    """How partitions are asked."""

    def places(self, keys: np.ndarray) -> np.ndarray:
        """Returns where rows (codes, int64[width, n]) are (see ``partitions.place``)."""

    def bounds(self, handles: np.ndarray, keys: np.ndarray, columns: int, mode: int) -> np.ndarray:
        """Returns which place rows would have in partitions by so many columns of the order; 0 in handle 0."""

    def rows(self, handles: np.ndarray, firsts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Returns the rows at some positions of partitions, int64[width, n]."""

    def sizes(self, handles: np.ndarray) -> np.ndarray:
        """Returns how many rows partitions have; 0 of handle 0."""

    def counted(self, handles: np.ndarray, positions: np.ndarray, where: str) -> np.ndarray:
        """Returns how many rows that a filter has are before positions."""

    def numbered(self, handles: np.ndarray, where: str, numbers: np.ndarray) -> np.ndarray:
        """Returns the positions of rows by their numbers among those that a filter has."""


class Reach:
    """What the functions of a stage over its feed's ``columns`` reach in a ``tree``; ``picks``: those that pick;
    ``flips``: how far MIN and MAX change."""

    def __init__(self, stage: OverStage, columns: Sequence[Column], tree: Tree, picks: Picks, flips: Flips) -> None:
        framed = [one for one in stage.functions if not one.from_row]
        alike = (replace(one, name="", type="") if flips.told(one) else one.seen for one in framed)
        self._functions = tuple(dict.fromkeys(alike))
        self._flips = flips
        self._picks = picks
        self._tree = tree
        place = {column.name: i for i, column in enumerate(columns)}
        self._place = place
        self._ordered = len(stage.order)  # columns that make peers
        self._by = place[stage.order[0].column] if stage.order else 0
        self._type = columns[self._by].type if stage.order else ""
        self._sign = -1 if stage.order and stage.order[0].falling else 1
        seen = [one.frame for one in framed if one.frame is not None]
        bounds = {unit: sorted({b for one in seen if one.unit == unit for b in _bounds(one)}) for unit in _UNITS}
        self._back = min(max([0, *(-int(b) for b in bounds["rows"])]), _EVERY)
        self._ahead = min(max([0, *(int(b) for b in bounds["rows"])]), _EVERY)
        self._groups = [int(b) for b in bounds["groups"]]
        self._offsets = [(unit, b) for unit in frames.VALUED for b in bounds[unit] if b]
        peers = any(one.peers for one in seen) or any(one.function in _OF_PEERS for one in framed)
        self._offsets += [("range", 0)] if peers else []
        self._all = any(_reads_all(one) and not flips.known(one) for one in framed)
        kept = [one.frame for one in framed if one.keeps_values and one.frame is not None]
        self._from_first = any(frame.end is None for frame in kept)
        self._to_last = any(frame.start is None for frame in kept)
        self._counts_peers = any(one.function == "dense_rank" for one in framed)

    # Before a batch
    # ------------------------------------------------------------------------------------------------------------------

    def of(self, keys: np.ndarray, changes: np.ndarray) -> Touched:
        """Returns what changes of rows (codes, int64[width, n]) can change. O(log n) each."""
        places = self._tree.places(keys)
        handles, ranks = places[kernels.HANDLE], places[kernels.RANK]
        order = np.lexsort((ranks, handles))
        if self._picks:
            self._picks.widen(places, keys, changes, order)
        if self._functions:
            lows, highs = places[kernels.LOW], places[kernels.HIGH]
            change = _Change(keys, handles, ranks, ranks + places[kernels.THERE], places[kernels.SIZE], changes)
            for one in self._functions:
                low, high = self._one(one, change)
                np.minimum(lows, low, out=lows)
                np.maximum(highs, high, out=highs)
        out = np.empty((replaced.SPAN, len(changes)), np.int64)
        spans = np.ascontiguousarray(out[:, : int(replaced.joined(order, changes, places, out))])
        return Touched(spans, order, places[kernels.LEAF][order], len(handles) - int(np.count_nonzero(handles)))

    def _one(self, one: WindowFunction, change: _Change) -> Interval:
        """Returns where a function's values may change."""
        ranks = change.ranks
        none, every = np.zeros_like(ranks), np.full_like(ranks, _EVERY)
        if one.function in frames.WHOLE:
            return none, every
        if one.function == "row_number":
            return ranks, every
        if one.function == "rank":
            return self._edge(change, 0, 0), every
        frame = one.frame
        assert frame is not None, "it reads a frame"
        if self._flips.told(one):
            return self._flipped(one, frame, change)
        low = none if frame.end is None else self._edge(change, frame.end, 0, frame.unit)
        high = every if frame.start is None else self._edge(change, frame.start, 1, frame.unit)
        if one.function in frames.PICKED and not frame.exclude and frame.unit != "groups":
            return self._picked(one, frame, change, low, high)
        return low, high

    def _flipped(self, one: WindowFunction, frame: Frame, change: _Change) -> Interval:
        """Returns where MIN or MAX may change that reads all rows up to its own, or from its own on."""
        side = 0 if frame.start is None else 1
        found = self._flips.of(one, change.keys, change.changes, change.handles, change.ranks, change.ends)
        own, far = (change.ranks, change.ends) if side == 0 else (change.ends, change.ranks)
        own, far = own.copy(), far.copy()
        own[found.some] = self._edge(change, 0, side, frame.unit)[found.some]
        end = np.full_like(found.at, 0 if side else _EVERY)
        held = (~found.free).nonzero()[0]
        handles, at = change.handles[found.some[held]], found.at[held] - side
        rows = self._tree.rows(handles, at, at + 1)
        end[held] = self._edge(_Change(rows, handles, at, at + 1, at, at), 0, side, frame.unit)
        far[found.some] = (np.minimum if side else np.maximum)(end, far[found.some])
        return (far, own) if side else (own, far)

    def _picked(
        self, one: WindowFunction, frame: Frame, change: _Change, low: np.ndarray, high: np.ndarray
    ) -> Interval:
        """Returns where the value of one row of the frame may change: not at all rows whose frame holds a change."""
        if one.where is not None:
            return self._filtered(one, one.where, frame, change, (low, high))
        ranks, ends, unit = change.ranks, change.ends, frame.unit
        last = one.function == "last_value"
        near, far = (frame.end, frame.start) if last else (frame.start, frame.end)  # the side it is counted from
        if near is None:  # from an end of the partition: only changes there are seen
            skipped = 0 if far is None or unit != "rows" else max(int(far if last else -far), 0)
            distance = change.sizes - ends if last else ranks
            seen = distance < (one.count or 1) + skipped
            return np.where(seen, low, ranks), np.where(seen, high, ends)
        if far is None and one.count <= 1 and near == 0:
            return self._edge(change, near, 0, unit), self._edge(change, near, 1, unit)
        return low, high

    def _filtered(self, one: WindowFunction, where: str, frame: Frame, change: _Change, reached: Interval) -> Interval:
        """Returns where the value may change that is one of the rows of a frame that a filter has; ``reached``: all
        rows whose frame holds the change.

        A row that the filter does not have only moves others into frames, and out of them.
        """
        last, count = one.function == "last_value", one.count or 1
        near, far = (frame.end, frame.start) if last else (frame.start, frame.end)
        if near is not None and (far is not None or near != 0):
            return reached
        low, high, bound = change.ranks.copy(), change.ends.copy(), far if near is None else near
        if bound is not None:
            low, high = (self._edge(change, bound, side, frame.unit) for side in (0, 1))
        some = ((change.handles != 0) & (change.keys[self._place[where]] == 1)).nonzero()[0]
        handles, sizes = change.handles[some], change.sizes[some]
        before = self._tree.counted(handles, change.ends[some] if last else change.ranks[some], where)
        if near is None:  # from an end of the partition: only what is nearest to it is seen
            nearer = self._tree.counted(handles, sizes, where) - before if last else before
            seen = some[nearer < count]
            low[seen], high[seen] = reached[0][seen], reached[1][seen]
            return low, high
        number = before + count - 1 if last else before - count  # of the row from which on others are nearer
        found = self._tree.numbered(handles, where, np.maximum(number, 0))
        if last:
            high[some] = np.maximum(high[some], np.where(found < sizes, found, _EVERY))
        else:
            low[some] = np.minimum(low[some], np.where(number < 0, 0, found + 1))
        return low, high

    def _edge(self, change: _Change, bound: int | float, side: int, unit: str = "range") -> np.ndarray:
        """Returns the first row for which a change is not behind its bound (``side`` 0), or the end of the rows for
        which it is not before their bound."""
        if unit == "rows":
            steps = min(max(int(-bound if side else bound), 0), _EVERY)
            return change.ends + steps if side else change.ranks - steps
        if unit == "groups":
            return self._stepped(change.keys, change.handles, max(int(-bound if side else bound), 0), side)
        return self._at(change.handles, change.keys, -bound, unit, side, 1)

    # Around rows
    # ------------------------------------------------------------------------------------------------------------------

    def around(self, handles: np.ndarray, sizes: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> Interval:
        """Returns from which to which row of partitions the values of rows at ``lows`` to ``highs`` are read off."""
        if self._all:
            return np.zeros_like(sizes), sizes.copy()
        firsts = np.zeros_like(sizes) if self._from_first else np.maximum(lows - self._back, 0)
        ends = sizes.copy() if self._to_last else np.minimum(highs + self._ahead, sizes)
        if self._offsets or self._groups:
            front, behind = self._tree.rows(handles, lows, lows + 1), self._tree.rows(handles, highs - 1, highs)
        for unit, offset in self._offsets:
            firsts = np.minimum(firsts, self._at(handles, front, offset, unit, 0))
            ends = np.maximum(ends, self._at(handles, behind, offset, unit, 1))
        if self._groups:
            firsts = np.minimum(firsts, self._stepped(front, handles, max(0, *(-b for b in self._groups)), 0))
            ends = np.maximum(ends, self._stepped(behind, handles, max(0, *self._groups), 1))
        if self._from_first or self._to_last:  # looking values up costs twice as much as reading them
            near = _NEAR * (ends - firsts) >= sizes
            firsts, ends = np.where(near, 0, firsts), np.where(near, sizes, ends)
        if self._counts_peers:  # whether the first row that is read is the first of its peers must be known
            firsts = self._stepped(self._tree.rows(handles, firsts, firsts + 1), handles, 0, 0)
        return firsts, ends

    # Values
    # ------------------------------------------------------------------------------------------------------------------

    def _at(
        self, handles: np.ndarray, keys: np.ndarray, offset: int | float, unit: str, side: int, wider: int = 0
    ) -> np.ndarray:
        """Returns the place of the first row whose value is so far behind a row's, or behind the last one (``side``).

        ``wider``: doubles are rounded when they are compared, so let it be a little more. So it is for months: up to
        four days have the same one a month later, and 23 o'clock on the first of them is then later than 0 o'clock on
        the last one.
        """
        if offset != 0:
            way = self._sign * (1 if side else -1)
            codes, _ = moved(keys[self._by], self._type, self._sign * offset, unit)
            if unit == "months":
                codes, _ = moved(codes, self._type, way * 3 * (1 if self._type == "date" else DAY), "range")
            elif wider and order_of(self._type) == orders.BY_FLOAT:
                codes = _wider(keys[self._by], codes, offset, way)
            keys = keys.copy()
            keys[self._by] = codes
        return self._tree.bounds(handles, keys, self._ordered, BEHIND if side else FIRST)

    def _stepped(self, keys: np.ndarray, handles: np.ndarray, count: int, side: int) -> np.ndarray:
        """Returns the place that is so many groups of peers before the first peer, or behind the last one."""
        mode = BEHIND if side else FIRST
        found = self._tree.bounds(handles, keys, self._ordered, mode)
        sizes = self._tree.sizes(handles)
        for _ in range(count):
            more = (found < sizes if side else found > 0).nonzero()[0]
            if not len(more):
                break
            at = found[more] if side else found[more] - 1
            rows = self._tree.rows(handles[more], at, at + 1)
            found[more] = self._tree.bounds(handles[more], rows, self._ordered, mode)
        return found


@dataclass(eq=False)
class _Change:
    """Changed rows: their codes, partitions, where their copies begin and end there, how many rows these have, and
    how many copies come."""

    keys: np.ndarray
    handles: np.ndarray
    ranks: np.ndarray
    ends: np.ndarray
    sizes: np.ndarray
    changes: np.ndarray


_UNITS = ("rows", "groups", *frames.VALUED)
_OF_PEERS = ("rank", "percent_rank", "cume_dist")


def _bounds(frame: Frame) -> list[int | float]:
    return [bound for bound in (frame.start, frame.end) if bound is not None]


def _reads_all(one: WindowFunction) -> bool:
    """Returns whether a function needs the rows of a partition for which no sum can stand."""
    if one.frame is None or one.frame.bounded:
        return False
    picks = one.function in frames.PICKED and bool(one.frame.exclude)
    return (one.function in frames.ENDS or one.gathered or picks) and not one.keeps_values


def _wider(codes: np.ndarray, made: np.ndarray, offset: float, sign: int) -> np.ndarray:
    """Returns the codes of doubles moved by what rounding can make of a sum."""
    values, result = codes.view(np.float64), made.view(np.float64)
    size = np.maximum(np.maximum(np.abs(values), np.abs(result)), abs(float(offset)))
    finite = np.isfinite(size) & (codes != NULL)
    wide = np.where(finite, result + 4 * sign * np.spacing(np.where(finite, size, 0.0)), result) + 0.0
    return np.where(finite, wide.view(np.int64), made)
