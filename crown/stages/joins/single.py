"""Scalar subqueries: checks that each key has at most one row.

The output is the input. The stage stores the row of each key, so that a batch that would leave a second one is rejected
before anything changes, and the error contains the rows. Memory: one record per row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from crown.errors import ChangeError, SeveralRowsError
from crown.stages.feeds import Reader
from crown.stages.protocol import Part, Stage
from crown.stages.tables.counted_tuples import CountedTuples
from crown.store.codec import named_values
from crown.store.zset import Zset
from plans.programs.stages import SingleStage
from plans.schema import Column

_SHOWN = 3  # rows in a message


class Single(Stage):
    """Runs a single stage. ``source``: the columns that it reads.

    A record has the codes of the key, those of the other columns, and 1.
    """

    def __init__(self, stage: SingleStage, source: Sequence[Column], part: Part) -> None:
        self.stage = stage
        self.inputs: tuple[str | int, ...] = (stage.feed.source,)
        self.parts: tuple[np.ndarray, ...] = (part.arena,)
        self._part = part
        self._reader = Reader(stage.feed, source, part.dictionary)
        self.columns = self._reader.columns
        self._key = [i for i, column in enumerate(self.columns) if column.name in stage.keys]
        self._others = [i for i in range(len(self.columns)) if i not in self._key]
        part.open(1)
        self._rows = CountedTuples(part, 0, len(self._key), len(self._others) + 1)

    # -- a batch -------------------------------------------------------------------------------------------------------

    def apply(self, nets: Sequence[Zset]) -> Zset:
        """Applies a batch. Expected O(changed rows).

        Raises SeveralRowsError, MemoryBudgetError, and ChangeError for a delete of an absent row.
        """
        net = self._reader.zset(nets[0]).net()
        keys = net.net(self._key)
        after = self._rows.counts_of(keys)[:, -1] + keys.weights
        if (after > 1).any():
            raise self._several_rows(net, keys.rows[np.argmax(after)])
        if (after < 0).any():
            raise ChangeError("a batch deletes an absent row of a subquery")
        deleted, inserted = net[net.weights < 0], net[net.weights > 0]
        self._put(deleted, 0)
        try:
            self._put(inserted, 1)
        except BaseException:
            with self._part.budget.lifted():
                self._put(deleted, 1)
            raise
        return net

    def _put(self, rows: Zset, count: int) -> None:
        """Stores rows under their keys, or deletes them if ``count`` is 0."""
        records = np.ones((len(rows), len(self._others) + 1), np.int64)
        records[:, :-1] = rows.rows[:, self._others]
        absent = np.zeros_like(records)
        self._rows.put(rows.project(self._key), *((absent, records) if count else (records, absent)))

    def _several_rows(self, net: Zset, key: np.ndarray) -> SeveralRowsError:
        """Returns the error for a batch that leaves several rows with a key (int64[key], codes)."""
        changes = net[(net.rows[:, self._key] == key).all(axis=1)]
        left = Zset.gathered([self._row_of(key), changes], len(self.columns)).net()
        rows = [named_values(row, self.columns, self._part.dictionary.extern) for row in left.rows[:_SHOWN]]
        copies = [
            f"{n} times {row}" if n > 1 else str(row) for row, n in zip(rows, left.weights.tolist(), strict=False)
        ]
        suffix = ", ..." if len(left) > _SHOWN else ""
        return SeveralRowsError(
            f"a subquery that is used as a value would have {int(left.weights.sum())} rows: "
            f"{', '.join(copies)}{suffix}; nothing was applied. Let the subquery return one row: use an aggregate, or "
            "ORDER BY ... LIMIT 1"
        )

    # -- reading -------------------------------------------------------------------------------------------------------

    def _row_of(self, key: np.ndarray) -> Zset:
        """Returns the row of a key (int64[key], codes), if there is one."""
        records = self._rows.counts_of(Zset(key.reshape(1, -1), np.ones(1, np.int64)))
        present = records[:, -1] > 0
        return self._joined(key.reshape(1, -1)[present], records[present])

    def _joined(self, keys: np.ndarray, records: np.ndarray) -> Zset:
        rows = np.empty((len(keys), len(self.columns)), np.int64)
        rows[:, self._key], rows[:, self._others] = keys, records[:, :-1]
        return Zset(rows, records[:, -1].copy())

    def scan(self, sources: Sequence[Iterable[Zset]] = ()) -> Iterator[Zset]:
        """Yields the rows. O(rows)."""
        for keys, records in self._rows.scan():
            yield self._joined(keys, records)

    def multiplicity(self, row: np.ndarray, sources: Sequence[Iterable[Zset]] = ()) -> int:
        """Returns the multiplicity of a row. O(1)."""
        return int((self._row_of(row[self._key]).rows == row).all(axis=1).sum())

    # -- maintenance ---------------------------------------------------------------------------------------------------

    @override
    def mark_values(self) -> None:
        self._part.mark_words(self._rows.table, [self.columns[i] for i in (*self._key, *self._others)])

    @override
    def check_invariants(self) -> None:
        for _, records in self._rows.scan():
            assert (records[:, -1] == 1).all(), "a key has another number of rows than one"
        assert self._key or len(self._rows) <= 1, "there are several rows without a key"

    def stats(self) -> dict[str, Any]:
        """Returns the number of rows."""
        return {"rows": len(self._rows)}
