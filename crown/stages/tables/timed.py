"""Maintains rows with a period of validity: the stage contains the rows whose period contains the clock's time.

    net of rows, net of the clock -> trees of rows by start and by end of the period -> rows that the clock has passed

The clock is an input: a batch that moves it has its old and its new time. Every row is stored in a tree by the start of
its period, and in one by its end. So a move of the clock changes the rows of two ranges. The clock can move in both
directions: the state is a function of the rows and of the time, and the inverse net undoes a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from crown.kernels.memory import arena as A
from crown.kernels.memory.tables import table_at
from crown.kernels.strings import NULL
from crown.stages.feeds import Reader
from crown.stages.kernels.trees import periods
from crown.stages.orders import order_words
from crown.stages.protocol import Part, Stage
from crown.stages.trees import OrderedRows, Trees
from crown.store.zset import Zset
from plans.programs.frames import Order
from plans.programs.stages import TimedStage
from plans.schema import Column

_SCANNED = 1 << 12
_LATEST = 2**63 - 1
_SINCE, _UNTIL, _TIME = 0, 1, 2  # words of a record: the root of each tree, and the time
_WORDS = 3


class Timed(Stage):
    """Runs a timed stage. ``source``: the columns that it reads. ``clock``: the columns of its clock."""

    def __init__(self, stage: TimedStage, source: Sequence[Column], clock: Sequence[Column], part: Part) -> None:
        self.stage = stage
        self.inputs: tuple[str | int, ...] = (stage.feed.source, stage.clock.source)
        self.parts: tuple[np.ndarray, ...] = (part.arena,)
        self._part = part
        self._reader = Reader(stage.feed, source, part.dictionary)
        self._clock = Reader(stage.clock, clock, part.dictionary)
        self._stored_columns = self._reader.columns
        self._width = len(self._stored_columns)
        self.columns = self._stored_columns[: self._width - stage.hidden]
        place = {column.name: i for i, column in enumerate(self._stored_columns)}
        self._since = None if stage.since is None else place[stage.since]
        self._until = None if stage.until is None else place[stage.until]
        part.open(1)
        self._record, created = part.record(int(table_at(0)) + A.T_TALLIES, _WORDS)
        if created:
            part.arena[self._record + _TIME] = NULL
        types = [column.type for column in self._stored_columns]
        indexed = [(root, at) for root, at in ((_SINCE, self._since), (_UNTIL, self._until)) if at is not None]
        self._times = [at for _, at in indexed]
        self._rows = OrderedRows(
            [
                (
                    self._record + root,
                    Trees(part, types, order_words(self._stored_columns, (Order(self._stored_columns[at].name),))),
                )
                for root, at in indexed
            ]
        )

    # -- a batch -------------------------------------------------------------------------------------------------------

    def apply(self, nets: Sequence[Zset]) -> Zset:
        """Applies a batch. O(log n) per change, O(1) per row that the clock passes. Raises MemoryBudgetError."""
        net, clock = self._reader.zset(nets[0]).net(), self._clock.zset(nets[1]).net()
        before = after = self._time()
        if len(clock):
            old_times, new_times = clock.rows[clock.weights < 0, 0], clock.rows[clock.weights > 0, 0]
            before, after = (
                (int(old_times[0]) if len(old_times) else NULL),
                (int(new_times[0]) if len(new_times) else NULL),
            )
        self._rows.change(net)
        found = [self._visible(net[self._is_valid(net, before)])]
        if before != after:
            found += self._crossed_rows(before, after)
            self._part.arena[self._record + _TIME] = after
        return Zset.gathered(found, len(self.columns)).net()

    def _time(self) -> int:
        return int(self._part.arena[self._record + _TIME])

    def _is_valid(self, rows: Zset, time: int) -> np.ndarray:
        """Returns bool[n], True for rows whose period contains the time."""
        found = np.full(len(rows), time != NULL)
        if self._since is not None:
            found &= rows.rows[:, self._since] <= time
        if self._until is not None:
            found &= rows.rows[:, self._until] > time
        return found

    def _crossed_rows(self, before: int, after: int) -> Iterator[Zset]:
        """Yields the rows that are inserted and deleted as the time changes from ``before`` to ``after``."""
        low, high = min(before, after), max(before, after)
        if low == NULL:  # without a time the stage has no rows
            for rows in self._scan(high):
                yield self._visible(rows if after == high else rows.negated())
            return
        for number, at in enumerate(self._times):
            for rows in self._between(number, low, high):
                if at != self._since and self._since is not None:  # also found by its beginning
                    starts = rows.rows[:, self._since]
                    rows = rows[(starts <= low) | (starts > high)]
                changes = self._is_valid(rows, after).astype(np.int64) - self._is_valid(rows, before)
                yield self._visible(Zset(rows.rows, rows.weights * changes)[changes != 0])

    def _between(self, number: int, low: int, high: int) -> Iterator[Zset]:
        """Yields, block by block, the rows of a tree with a time above ``low`` and not above ``high``."""
        (root, trees), at = self._rows.trees[number], self._times[number]
        cursor, above = np.zeros(3, np.int64), np.zeros(self._width, np.int64)
        above[at] = low
        room = 64
        while not cursor[2]:
            rows, weights = np.empty((room, self._width), np.int64), np.empty(room, np.int64)
            m = periods.between(
                self._part.arena, root, trees.shape, trees.spec, trees.strides(1), above,
                *self._part.dictionary.memory, trees.path, high, cursor, rows, weights,
            )  # fmt: skip
            yield Zset(rows[:m], weights[:m])
            room = min(2 * room, _SCANNED)

    def _visible(self, rows: Zset) -> Zset:
        return rows.project(range(len(self.columns)))

    # -- reading -------------------------------------------------------------------------------------------------------

    def scan(self, sources: Sequence[Iterable[Zset]] = ()) -> Iterator[Zset]:
        """Yields the rows. O(1) per row whose period has started, or per row of the stage if periods have no start."""
        return (self._visible(rows) for rows in self._scan(self._time()))

    def _scan(self, time: int) -> Iterator[Zset]:
        """Yields the rows whose period contains the time, with their hidden columns."""
        at = self._times[0]
        if time != NULL:
            low, high = (NULL, time) if at == self._since else (time, _LATEST)
            for rows in self._between(0, low, high):
                yield rows[self._is_valid(rows, time)]

    # -- maintenance ---------------------------------------------------------------------------------------------------

    @override
    def mark_values(self) -> None:
        self._rows.mark_values()

    @override
    def check_invariants(self) -> None:
        self._rows.check_invariants()

    def stats(self) -> dict[str, Any]:
        """Returns the number of distinct stored rows, inside their period or not, and the tree entries that changes
        have read."""
        return {"rows": sum(map(len, self._rows.scan())), "steps": int(self._part.arena[A.H_STEPS])}
