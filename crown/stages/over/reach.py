"""Finds the positions of the rows that a change can affect, and of the rows that their values depend on.

All positions refer to the tree before a batch. Rows between two changes keep their distance, so the nearest change to a
row is as far from it after the batch as before. So if the frame of a row contains a change before or after the batch,
the row is affected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from crown.kernels.strings import NULL
from crown.stages.kernels.frames.plan import FRAME_COUNT
from crown.stages.kernels.over import partitions as kernels
from crown.stages.kernels.over import stretches
from crown.stages.kernels.trees import orders
from crown.stages.kernels.trees.ordered import BEHIND, FIRST
from crown.stages.orders import order_of
from crown.stages.over.flips import Flips
from crown.stages.over.frames import plus_offset
from crown.stages.over.picks import Picks
from crown.stages.over.stretches import Affected
from crown.stages.over.sums import Sums
from crown.stages.trees import Partitions
from plans.programs import frames
from plans.programs.frames import Frame, WindowFunction
from plans.programs.stages import OverStage
from plans.schema import Column
from plans.time.durations import DAY

Interval = tuple[np.ndarray, np.ndarray]
_ALL_ROWS = 1 << 40  # more rows than a partition has
_NEAR = 3  # if at least this fraction (1 / 3) of a partition must be read, all of it is read


class Reach:
    """Finds the rows that changes affect, and the rows that values depend on, for all functions of a stage over its
    feed's ``columns``. ``picks``: the functions that pick a row relative to their own. ``flips``: how far changes
    affect MIN and MAX."""

    def __init__(
        self, stage: OverStage, columns: Sequence[Column], sums: Sums, trees: Partitions, picks: Picks, flips: Flips
    ) -> None:
        framed = [call for call in stage.functions if not call.from_row]
        distinct = (replace(call, name="", type="") if flips.has_extents(call) else call.seen for call in framed)
        self._functions = tuple(dict.fromkeys(distinct))
        self._flips = flips
        self._picks = picks
        self._sums = sums
        self._trees = trees
        place = {column.name: i for i, column in enumerate(columns)}
        self._place = place
        self._ordered = len(stage.order)  # columns that make peers
        self._order_column = place[stage.order[0].column] if stage.order else 0
        self._type = columns[self._order_column].type if stage.order else ""
        self._sign = -1 if stage.order and stage.order[0].falling else 1
        used_frames = [call.frame for call in framed if call.frame is not None]
        bounds = {
            unit: sorted({bound for call in used_frames if call.unit == unit for bound in _bounds(call)})
            for unit in _UNITS
        }
        self._rows_before = min(max([0, *(-int(bound) for bound in bounds["rows"])]), _ALL_ROWS)
        self._rows_after = min(max([0, *(int(bound) for bound in bounds["rows"])]), _ALL_ROWS)
        self._groups = [int(bound) for bound in bounds["groups"]]
        self._offsets = [(unit, bound) for unit in frames.VALUED for bound in bounds[unit] if bound]
        peers = any(call.peers for call in used_frames) or any(call.function in _OF_PEERS for call in framed)
        self._offsets += [("range", 0)] if peers else []
        self._reads_whole = any(_reads_whole(call) and not flips.has_maximum(call) for call in framed)
        half_open = [call.frame for call in framed if call.keeps_values and call.frame is not None]
        self._from_first = any(frame.end is None for frame in half_open)
        self._to_last = any(frame.start is None for frame in half_open)
        self._counts_peers = any(call.function == "dense_rank" for call in framed)

    # -- before a batch ------------------------------------------------------------------------------------------------

    def affected(self, keys: np.ndarray, changes: np.ndarray) -> Affected:
        """Returns the rows whose values changes of rows (codes, int64[width, n]) can change. O(log n) each."""
        places = self._trees.places(keys)
        handles, ranks = places[kernels.HANDLE], places[kernels.RANK]
        order = np.lexsort((ranks, handles))
        if self._picks:
            self._picks.widen(places, keys, changes, order)
        if self._functions and not self._picks.frames[FRAME_COUNT]:
            lows, highs = places[kernels.LOW], places[kernels.HIGH]
            change = _Change(keys, handles, ranks, ranks + places[kernels.COPIES], places[kernels.SIZE], changes)
            for call in self._functions:
                low, high = self._affected_by(call, change)
                np.minimum(lows, low, out=lows)
                np.maximum(highs, high, out=highs)
        out = np.empty((stretches.SPAN_WORDS, len(changes)), np.int64)
        spans = np.ascontiguousarray(out[:, : int(stretches.merge_stretches(order, changes, places, out))])
        return Affected(spans, order, places[kernels.LEAF][order], len(handles) - int(np.count_nonzero(handles)))

    def _affected_by(self, call: WindowFunction, change: _Change) -> Interval:
        """Returns the interval of rows per change in which the values of a function may change."""
        ranks = change.ranks
        first, last = np.zeros_like(ranks), np.full_like(ranks, _ALL_ROWS)
        if call.function in frames.WHOLE:
            return first, last
        if call.function == "row_number":
            return ranks, last
        if call.function == "rank":
            return self._edge(change, 0, 0), last
        frame = call.frame
        assert frame is not None, "it reads a frame"
        if self._flips.has_extents(call):
            return self._extremum_interval(call, frame, change)
        low = first if frame.end is None else self._edge(change, frame.end, 0, frame.unit)
        high = last if frame.start is None else self._edge(change, frame.start, 1, frame.unit)
        if call.function in frames.PICKED and not frame.exclude and frame.unit != "groups":
            return self._pick_interval(call, frame, change, low, high)
        return low, high

    def _extremum_interval(self, call: WindowFunction, frame: Frame, change: _Change) -> Interval:
        """Returns where the values of MIN or MAX over all rows up to the current row, or from it on, may change."""
        side = 0 if frame.start is None else 1
        extents = self._flips.extents(call, change.keys, change.changes, change.handles, change.ranks, change.ends)
        near, far = (change.ranks, change.ends) if side == 0 else (change.ends, change.ranks)
        near, far = near.copy(), far.copy()
        near[extents.changes] = self._edge(change, 0, side, frame.unit)[extents.changes]
        end = np.full_like(extents.ends, 0 if side else _ALL_ROWS)
        bounded = (~extents.unbounded).nonzero()[0]
        handles, at = change.handles[extents.changes[bounded]], extents.ends[bounded] - side
        rows = self._trees.row(handles, at)
        end[bounded] = self._edge(_Change(rows, handles, at, at + 1, at, at), 0, side, frame.unit)
        far[extents.changes] = (np.minimum if side else np.maximum)(end, far[extents.changes])
        return (far, near) if side else (near, far)

    def _pick_interval(
        self, call: WindowFunction, frame: Frame, change: _Change, low: np.ndarray, high: np.ndarray
    ) -> Interval:
        """Returns where the picked values may change. These are not all rows whose frame contains the change.

        ``low`` and ``high``: the interval of the rows whose frame contains the change. The pick counts from the bound
        ``near`` of the frame.
        """
        if call.where is not None:
            return self._filtered_pick_interval(call, call.where, frame, change, (low, high))
        ranks, ends, unit = change.ranks, change.ends, frame.unit
        last = call.function == "last_value"
        near, far = (frame.end, frame.start) if last else (frame.start, frame.end)
        if near is None:  # it counts from an end of the partition: only changes near that end matter
            skipped = 0 if far is None or unit != "rows" else max(int(far if last else -far), 0)
            distance = change.sizes - ends if last else ranks
            counted = distance < (call.count or 1) + skipped
            return np.where(counted, low, ranks), np.where(counted, high, ends)
        if far is None and call.count <= 1 and near == 0:
            return self._edge(change, near, 0, unit), self._edge(change, near, 1, unit)
        return low, high

    def _filtered_pick_interval(
        self, call: WindowFunction, where: str, frame: Frame, change: _Change, reached: Interval
    ) -> Interval:
        """Returns where the values may change that are picked from the rows that pass a filter. ``reached``: the
        interval of the rows whose frame contains the change.

        A changed row that does not pass only moves other rows into frames and out of them.
        """
        last, count = call.function == "last_value", call.count or 1
        near, far = (frame.end, frame.start) if last else (frame.start, frame.end)
        if near is not None and (far is not None or near != 0):
            return reached
        low, high, bound = change.ranks.copy(), change.ends.copy(), far if near is None else near
        if bound is not None:
            low, high = (self._edge(change, bound, side, frame.unit) for side in (0, 1))
        passing = ((change.handles != 0) & (change.keys[self._place[where]] == 1)).nonzero()[0]
        handles, sizes = change.handles[passing], change.sizes[passing]
        word = self._sums.counts[where]
        before = self._trees.sums_before(handles, change.ends[passing] if last else change.ranks[passing])[:, word]
        if near is None:  # it counts from an end of the partition: only the rows nearest to it matter
            nearer = self._trees.sums_before(handles, sizes)[:, word] - before if last else before
            counted = passing[nearer < count]
            low[counted], high[counted] = reached[0][counted], reached[1][counted]
            return low, high
        number = before + count - 1 if last else before - count  # of the row from which on others are nearer
        found = self._trees.numbered(handles, word, np.maximum(number, 0))
        if last:
            high[passing] = np.maximum(high[passing], np.where(found < sizes, found, _ALL_ROWS))
        else:
            low[passing] = np.minimum(low[passing], np.where(number < 0, 0, found + 1))
        return low, high

    def _edge(self, change: _Change, bound: int | float, side: int, unit: str = "range") -> np.ndarray:
        """Returns the position of the first row whose frame's end is not before the change (``side`` 0), or the end of
        the rows whose frame's start is not after the change (``side`` 1). ``bound``: that end or start."""
        if unit == "rows":
            steps = min(max(int(-bound if side else bound), 0), _ALL_ROWS)
            return change.ends + steps if side else change.ranks - steps
        if unit == "groups":
            return self._groups_away(change.keys, change.handles, max(int(-bound if side else bound), 0), side)
        return self._bound(change.handles, change.keys, -bound, unit, side, 1)

    # -- rows that values depend on ------------------------------------------------------------------------------------

    def required(self, handles: np.ndarray, sizes: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> Interval:
        """Returns the interval of rows of partitions from which the values of the rows at ``lows`` to ``highs`` are
        computed."""
        if self._reads_whole:
            return np.zeros_like(sizes), sizes.copy()
        firsts = np.zeros_like(sizes) if self._from_first else np.maximum(lows - self._rows_before, 0)
        ends = sizes.copy() if self._to_last else np.minimum(highs + self._rows_after, sizes)
        if self._offsets or self._groups:
            first_rows, last_rows = self._trees.row(handles, lows), self._trees.row(handles, highs - 1)
        for unit, offset in self._offsets:
            firsts = np.minimum(firsts, self._bound(handles, first_rows, offset, unit, 0))
            ends = np.maximum(ends, self._bound(handles, last_rows, offset, unit, 1))
        if self._groups:
            firsts = np.minimum(firsts, self._groups_away(first_rows, handles, max(0, *(-b for b in self._groups)), 0))
            ends = np.maximum(ends, self._groups_away(last_rows, handles, max(0, *self._groups), 1))
        if self._from_first or self._to_last:  # looking up a value costs twice as much as reading it
            near = _NEAR * (ends - firsts) >= sizes
            firsts, ends = np.where(near, 0, firsts), np.where(near, sizes, ends)
        if self._counts_peers:  # the first row that is read must be the first of its peers
            firsts = self._groups_away(self._trees.row(handles, firsts), handles, 0, 0)
        return firsts, ends

    # -- values --------------------------------------------------------------------------------------------------------

    def _bound(
        self, handles: np.ndarray, keys: np.ndarray, offset: int | float, unit: str, side: int, wider: int = 0
    ) -> np.ndarray:
        """Returns the position of the first row at distance ``offset`` from rows (``side`` 0), or the position after
        the last one (``side`` 1).

        ``wider``: widens the offset a little, because the addition of doubles rounds. An offset in months is always
        widened: up to four days have the same day a month later, and 23:00 on the first of them is then later than
        0:00 on the last one.
        """
        if offset != 0:
            direction = self._sign * (1 if side else -1)
            codes, _ = plus_offset(keys[self._order_column], self._type, self._sign * offset, unit)
            if unit == "months":
                codes, _ = plus_offset(codes, self._type, direction * 3 * (1 if self._type == "date" else DAY), "range")
            elif wider and order_of(self._type) == orders.BY_FLOAT:
                codes = _widened(keys[self._order_column], codes, offset, direction)
            keys = keys.copy()
            keys[self._order_column] = codes
        return self._trees.located(handles, keys, self._ordered, BEHIND if side else FIRST)[0]

    def _groups_away(self, keys: np.ndarray, handles: np.ndarray, count: int, side: int) -> np.ndarray:
        """Returns the position ``count`` groups of peers before the first peer (``side`` 0), or after the last one
        (``side`` 1)."""
        mode = BEHIND if side else FIRST
        found = self._trees.located(handles, keys, self._ordered, mode)[0]
        sizes = self._trees.sizes(handles)
        for _ in range(count):
            unfinished = (found < sizes if side else found > 0).nonzero()[0]
            if not len(unfinished):
                break
            at = found[unfinished] if side else found[unfinished] - 1
            rows = self._trees.row(handles[unfinished], at)
            found[unfinished] = self._trees.located(handles[unfinished], rows, self._ordered, mode)[0]
        return found


@dataclass(eq=False)
class _Change:
    """Changed rows: their codes, their partitions, the range of their copies there, the sizes of the partitions, and
    the changes of the numbers of copies."""

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


def _reads_whole(call: WindowFunction) -> bool:
    """Returns whether a function must read all rows of a partition, because sums cannot replace any of them."""
    if call.frame is None or call.frame.bounded:
        return False
    picks = call.function in frames.PICKED and bool(call.frame.exclude)
    return (call.function in frames.ENDS or call.gathered or picks) and not call.keeps_values


def _widened(codes: np.ndarray, results: np.ndarray, offset: float, sign: int) -> np.ndarray:
    """Returns the codes of doubles, widened by the largest rounding error of the addition of ``offset``."""
    values, result = codes.view(np.float64), results.view(np.float64)
    size = np.maximum(np.maximum(np.abs(values), np.abs(result)), abs(float(offset)))
    finite = np.isfinite(size) & (codes != NULL)
    wide = np.where(finite, result + 4 * sign * np.spacing(np.where(finite, size, 0.0)), result) + 0.0
    return np.where(finite, wide.view(np.int64), results)
