"""Enforced keys: rows are counted per key, and a batch that leaves more than one is rejected.

A batch is looked at while it is prepared. Where it would leave two rows with one key, its changes of that key are bad
rows, all of them, because none of them is wrong by itself; where bad rows are set aside, the rest is applied. What a
delete of an absent row would take away does not count. So the result is always that of a table which keeps its
declaration, and everything that the planner makes of a declared key holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from crown.errors import ChangeError
from crown.kernels.batches import extent
from crown.stages.protocol import Part
from crown.stages.tables.counted_tuples import CountedTuples
from crown.store.zset import Zset
from plans.schema import Column, Table


def enforced_of(tables: Iterable[Table], used: Mapping[str, Sequence[Column]]) -> dict[str, list[int]]:
    """Returns, by name in lower case, the tables whose key is enforced, and where it stands in the columns ``used``."""
    found = {}
    for table in tables:
        if table.enforced:
            place = {column.name.lower(): i for i, column in enumerate(used[table.name.lower()])}
            found[table.name.lower()] = [place[name.lower()] for name in table.told_apart_by]
    return found


class KeyCounts:
    """How many rows each key of a relation has, in table ``table`` of a part; ``words``: where it is in a tuple.

    Memory: one record per key.
    """

    def __init__(self, part: Part, table: int, words: Sequence[int]) -> None:
        self._part = part
        self._words = words
        self._copies = CountedTuples(part, table, len(words))

    def refused(self, changes: Zset) -> tuple[np.ndarray, np.ndarray] | None:
        """Returns the keys (int64[k, words]) that would not have one row or none after ``changes``, and how many they
        would have (int64[k]); None if there are none. Changes nothing. Expected O(n)."""
        keys = changes.net(self._words)
        after = self._copies.of(keys)[:, 0] + keys.weights
        if _at_most_one(after):
            return None
        wrong = (after < 0) | (after > 1)
        return keys.rows[wrong], after[wrong]

    def apply(self, changes: Zset) -> None:
        """Counts changes that take place. Expected O(n).

        Raises MemoryBudgetError, and ChangeError if a key would not have one row or none; nothing has changed then.
        """
        keys = changes.net(self._words)
        if not _at_most_one(self._add(keys) + keys.weights):
            self.take_back(changes)
            raise ChangeError(
                "another batch was applied after this one was prepared, and changed an enforced key that is in it: "
                "prepare it again"
            )

    def take_back(self, changes: Zset) -> None:
        """Takes back changes that were counted. No budget stands in its way."""
        with self._part.budget.lifted():
            self._add(changes.net(self._words).negated())

    def _add(self, keys: Zset) -> np.ndarray:
        """Returns the rows that each key had before, int64[n]."""
        return self._copies.add(keys, np.zeros(len(keys), np.int64))[:, 0]

    def mark_values(self, columns: Sequence[Column]) -> None:
        """Marks what the keys refer to in the dictionary; ``columns``: those of a tuple. O(keys)."""
        self._part.mark_words(self._copies.table, [columns[i] for i in self._words])

    def check_invariants(self, rows: Iterable[Zset] | None) -> None:
        """Raises AssertionError unless every key has one row, as the relation's ``rows`` say, if they are known."""
        counted = 0
        for _, copies in self._copies.scan():
            assert (copies == 1).all(), "an enforced key has more than one row"
            counted += len(copies)
        if rows is None:
            return
        keys = [net.project(self._words) for net in rows]
        known = Zset.gathered(keys, len(self._words)).net()
        assert len(known) == counted, "the rows by key are not those that are there"
        assert (known.weights == 1).all(), "two rows have the same enforced key"
        assert (self._copies.of(known)[:, 0] == 1).all(), "a row is there whose key is not"


def _at_most_one(rows: np.ndarray) -> bool:
    """Returns True if all of these numbers are 0 or 1."""
    if not len(rows):
        return True
    low, high = extent(np.ascontiguousarray(rows))
    return bool(low >= 0 and high <= 1)
