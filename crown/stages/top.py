"""ORDER BY ... LIMIT: the first rows of each group, kept up to date.

    net -> feed -> rows -> the trees of their groups -> what crosses the bounds of the windows

All rows are kept, in order: whatever leaves a window, its successor is known. The order is that of values, never of
codes, and ties are broken by the other columns, so that the result is a function of the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from crown.errors import ChangeError
from crown.kernels import arena as A
from crown.kernels.tables import table_at
from crown.stages.columns import order_words
from crown.stages.feeds import Reader
from crown.stages.kernels import groups
from crown.stages.kernels import tops as kernels
from crown.stages.protocol import Part, Stage
from crown.store.codec import uses_dictionary
from crown.store.zset import Zset
from plans.program import TopStage
from plans.schema import Column

_SCANNED = 1 << 12
_MOST = 1 << 62


class Top(Stage):
    """Runs a top stage; ``source``: the columns of what it reads."""

    def __init__(self, stage: TopStage, source: Sequence[Column], part: Part) -> None:
        self.stage = stage
        self.inputs: tuple[str | int, ...] = (stage.feed.source,)
        self.parts: tuple[np.ndarray, ...] = (part.arena,)
        self._part = part
        self._reader = Reader(stage.feed, source, part.dictionary)
        self._all = self._reader.columns
        self._width = len(self._all)
        self.columns = self._all[: self._width - stage.hidden]
        place = {column.name: i for i, column in enumerate(self._all)}
        self._keyed = [place[name] for name in stage.keys]
        self._spec = order_words(self._all, stage.order)
        self._identity = np.arange(max(self._width, 1), dtype=np.int64)
        self._end = stage.offset + stage.limit
        self._table = int(table_at(0))
        part.open(1)

    # A batch
    # ------------------------------------------------------------------------------------------------------------------

    def apply(self, nets: Sequence[Zset]) -> Zset:
        """Applies a batch. Expected O(log n) per row.

        Raises MemoryBudgetError, and ChangeError for a delete of a row that is not there.
        """
        net = self._reader.zset(nets[0]).net()
        done = np.zeros(2, np.int64)
        try:
            return self._changed(net, done)
        except BaseException:
            with self._part.budget.lifted():
                self._changed(net[: int(done[0])].negated(), np.zeros(2, np.int64))
            raise

    @override
    def undo(self, nets: Sequence[Zset]) -> Zset:
        with self._part.budget.lifted():
            return self.apply([net.negated() for net in nets])

    def _changed(self, net: Zset, done: np.ndarray) -> Zset:
        """Adds rows; returns what that does to the windows."""
        n, part = len(net), self._part
        keys, changes = np.ascontiguousarray(net.columns()), np.ascontiguousarray(net.weights)
        strides = self._identity * n
        keyed = np.array([*(strides[at] for at in self._keyed), 0], np.int64)
        # Of a change that many copies cross the bounds of its window at most, twice, and that many different rows.
        copies, different = np.minimum(np.abs(changes), self.stage.limit), self._size() + n
        room = int((2 * np.minimum(copies, different) + 1).sum())
        rows, weights = np.empty((room, self._width), np.int64), np.empty(room, np.int64)

        def work() -> bool:
            found = kernels.change(
                part.arena, self._table, keyed, len(self._keyed), self._spec, strides, self._width, keys, changes,
                *part.dictionary.memory, self.stage.offset, self._end, rows, weights, done,
            )  # fmt: skip
            if found == kernels.ABSENT:
                raise ChangeError("a batch deletes a row of ORDER BY ... LIMIT that is not there")
            return bool(found == kernels.DONE)

        part.insist(work)
        return self._shown(Zset(rows[: int(done[1])], weights[: int(done[1])])).net()

    def _shown(self, rows: Zset) -> Zset:
        return rows.project(range(len(self.columns)))

    # Reading
    # ------------------------------------------------------------------------------------------------------------------

    def _groups(self) -> Iterator[np.ndarray]:
        """Yields the handles of all groups."""
        slot = 0
        while slot >= 0:
            handles = np.empty(_SCANNED, np.int64)
            slot, n = groups.scan(self._part.arena, self._table, slot, handles)
            yield handles[:n]

    def _rows(self, offset: int, end: int) -> Iterator[Zset]:
        """Yields the rows at these positions of every group, group by group, in order."""
        for handles in self._groups():
            cursor = np.array([0, offset], np.int64)
            while cursor[0] < len(handles):
                rows, weights = np.empty((_SCANNED, self._width), np.int64), np.empty(_SCANNED, np.int64)
                m = kernels.windows(
                    self._part.arena, len(self._keyed), self._width, handles, cursor, offset, end, rows, weights
                )
                yield Zset(rows[:m], weights[:m])

    def scan(self, sources: Sequence[Iterable[Zset]] = ()) -> Iterator[Zset]:
        """Yields the rows in order, group by group. O(1) per row, and O(log n) per group."""
        for rows in self._rows(self.stage.offset, self._end):
            yield self._shown(rows)

    def multiplicity(self, row: np.ndarray, sources: Sequence[Iterable[Zset]] = ()) -> int:
        """Returns how often a row is there. O(log n), or O(result) where the order has hidden columns."""
        if self.stage.hidden:
            return sum(int(net.weights[(net.rows == row).all(axis=1)].sum()) for net in self.scan())
        out = np.empty(2, np.int64)
        keyed = np.array([*self._keyed, 0], np.int64)
        kernels.place(
            self._part.arena, self._table, keyed, len(self._keyed), self._spec, self._identity, self._width,
            np.ascontiguousarray(row), *self._part.dictionary.memory, out,
        )  # fmt: skip
        rank, copies = out.tolist()
        return max(0, min(rank + copies, self._end) - max(rank, self.stage.offset))

    # Care
    # ------------------------------------------------------------------------------------------------------------------

    @override
    def mark_values(self) -> None:
        marked = [i for i, column in enumerate(self._all) if uses_dictionary(column.type)]
        if marked:
            for rows in self._rows(0, _MOST):
                for i in marked:
                    self._part.dictionary.mark_codes(np.ascontiguousarray(rows.rows[:, i]))

    @override
    def check_invariants(self) -> None:
        found = 0
        for handles in self._groups():
            here = kernels.check(
                self._part.arena, len(self._keyed), self._spec, self._identity, self._width, handles,
                *self._part.dictionary.memory,
            )  # fmt: skip
            assert here >= 0, "the rows of a group are not in order"
            found += here
        assert found == self._size(), "rows are not what was counted"

    def _size(self) -> int:
        return int(self._part.arena[self._table + A.T_TALLIES])

    def stats(self) -> dict[str, Any]:
        """Groups, distinct rows, and the nodes that changes ever visited."""
        arena = self._part.arena
        return {"groups": int(arena[self._table + A.T_COUNT]), "rows": self._size(), "steps": int(arena[A.H_STEPS])}
