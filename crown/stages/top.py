"""Top-k: maintains the first rows of each group in an order.

    net -> feed -> rows -> the trees of their groups -> rows that cross the bounds of the windows

All rows are stored, in order, so the successor of a row that leaves a window is known. The order is that of values,
never of codes, and the other columns break ties, so that the result is a function of the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from crown.errors import ChangeError
from crown.kernels.memory.tables import table_at
from crown.results.columns import NativeFeed
from crown.stages.feeds import Reader
from crown.stages.kernels.trees import tops as kernels
from crown.stages.kernels.trees.ordered import EXACT
from crown.stages.orders import order_words
from crown.stages.protocol import Part, Stage
from crown.stages.trees import InOrder, Partitions
from crown.store.zset import Zset
from plans.programs.stages import TopStage
from plans.schema import Column


class Top(InOrder, Stage):
    """Runs a top stage. ``source``: the columns that it reads."""

    def __init__(self, stage: TopStage, source: Sequence[Column], part: Part) -> None:
        self.stage = stage
        self.inputs: tuple[str | int, ...] = (stage.feed.source,)
        self.parts: tuple[np.ndarray, ...] = (part.arena,)
        self._part = part
        self._reader = Reader(stage.feed, source, part.dictionary)
        self._stored_columns = self._reader.columns
        self._width = len(self._stored_columns)
        self.columns = self._stored_columns[: self._width - stage.hidden]
        place = {column.name: i for i, column in enumerate(self._stored_columns)}
        keyed = [place[name] for name in stage.keys]
        self.trees = Partitions(
            part,
            int(table_at(0)),
            self.stored_types,
            keyed,
            order_words(self._stored_columns, stage.order, keyed),
        )
        self._end = stage.offset + stage.limit
        part.open(1)

    @property
    def stored_types(self) -> list[str]:
        """Returns the types of the columns that it stores, the first of which are those of its rows."""
        return [column.type for column in self._stored_columns]

    def native_feed(self) -> NativeFeed | str:
        """Returns how a kernel makes the rows that it stores, or why it cannot."""
        return self._reader.native_feed([column.name for column in self._stored_columns])

    # -- a batch -------------------------------------------------------------------------------------------------------

    def apply(self, nets: Sequence[Zset]) -> Zset:
        """Applies a batch. O(log n) per row.

        Raises MemoryBudgetError, and ChangeError for a delete of an absent row.
        """
        net = self.trees.together(self._reader.zset(nets[0]).net(), self.trees.count)
        return self._part.run_atomically(net, self._changed, self._changed)

    def _changed(self, net: Zset, done: np.ndarray) -> Zset:
        """Adds rows. Returns the changes of the windows."""
        n, part, trees = len(net), self._part, self.trees
        keys, changes = np.ascontiguousarray(net.columns()), np.ascontiguousarray(net.weights)
        # A change moves at most that many copies, and that many different rows, across each of its window's two bounds.
        copies, different = np.minimum(np.abs(changes), self.stage.limit), len(trees) + n
        room = int((2 * np.minimum(copies, different) + 1).sum())
        rows, weights = np.empty((room, self._width), np.int64), np.empty(room, np.int64)

        def work() -> bool:
            found = kernels.change(
                part.arena, trees.table, trees.keyed(n), trees.k, trees.spec, trees.strides(n), trees.shape, keys,
                changes, *part.dictionary.memory, trees.path, self.stage.offset, self._end, rows, weights, done,
            )  # fmt: skip
            if found == kernels.ABSENT:
                raise ChangeError("a batch deletes a row that ORDER BY ... LIMIT does not have")
            return bool(found == kernels.DONE)

        part.run_until_done(work)
        return self._visible(Zset(rows[: int(done[1])], weights[: int(done[1])])).net()

    def _visible(self, rows: Zset) -> Zset:
        return rows.project(range(len(self.columns)))

    # -- reading -------------------------------------------------------------------------------------------------------

    def scan(self, sources: Sequence[Iterable[Zset]] = ()) -> Iterator[Zset]:
        """Yields the rows in order, group by group. O(1) per row, and O(log n) per group."""
        for handles in self.trees.blocks():
            for rows in self.trees.rows(handles, self.stage.offset, self._end):
                yield self._visible(rows)

    def multiplicity(self, row: np.ndarray, sources: Sequence[Iterable[Zset]] = ()) -> int:
        """Returns the multiplicity of a row. O(log n), or O(result) if the order has hidden columns."""
        if self.stage.hidden:
            return super().multiplicity(row)
        trees, key = self.trees, row.reshape(-1, 1)
        (rank,), (copies,) = trees.located(trees.find(key), key, len(trees.spec) // 4, EXACT)
        return max(0, min(int(rank + copies), self._end) - max(int(rank), self.stage.offset))
