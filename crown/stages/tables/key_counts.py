"""Enforces keys: counts the rows of each key, and rejects a batch that would leave more than one.

A batch is checked while it is prepared. If it would leave two rows with one key, all its changes of that key are bad
rows, because none of them is wrong by itself. With a quarantine, the rest of the batch is applied. Missing deletes do
not count. So the result is always that of a table which satisfies its declaration, and every plan that relies on the
declared key is correct.
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
    """Returns the tables with an enforced key, by name in lower case, and the positions of the key in the columns
    ``used``."""
    found = {}
    for table in tables:
        if table.enforced:
            place = {column.name.lower(): i for i, column in enumerate(used[table.name.lower()])}
            found[table.name.lower()] = [place[name.lower()] for name in table.told_apart_by]
    return found


class KeyCounts:
    """The number of rows of each key of a relation, in table ``table`` of a part. ``words``: the key's positions in a
    tuple.

    Memory: one record per key.
    """

    def __init__(self, part: Part, table: int, words: Sequence[int]) -> None:
        self._part = part
        self._words = words
        self._copies = CountedTuples(part, table, len(words))

    def violations(self, changes: Zset) -> tuple[np.ndarray, np.ndarray] | None:
        """Returns the keys (int64[k, words]) that would not have 0 or 1 rows after ``changes``, and their
        numbers of rows (int64[k]), or None if there are none. Changes nothing. Expected O(n)."""
        keys = changes.net(self._words)
        after = self._copies.counts_of(keys)[:, 0] + keys.weights
        if _at_most_one(after):
            return None
        wrong = (after < 0) | (after > 1)
        return keys.rows[wrong], after[wrong]

    def apply(self, changes: Zset) -> None:
        """Counts effective changes. Expected O(n).

        Raises MemoryBudgetError, and ChangeError if a key would not have 0 or 1 rows. Nothing is changed then.
        """
        keys = changes.net(self._words)
        if not _at_most_one(self._add(keys) + keys.weights):
            self.roll_back(changes)
            raise ChangeError(
                "another batch was applied after this one was prepared, and changed an enforced key of this batch: "
                "prepare this batch again"
            )

    def roll_back(self, changes: Zset) -> None:
        """Undoes counted changes, without regard to the budget."""
        with self._part.budget.lifted():
            self._add(changes.net(self._words).negated())

    def _add(self, keys: Zset) -> np.ndarray:
        """Adds the weights of keys. Returns the number of rows that each key had before, int64[n]."""
        return self._copies.add(keys, np.zeros(len(keys), np.int64))[:, 0]

    def mark_values(self, columns: Sequence[Column]) -> None:
        """Marks the values in the dictionary that the keys reference. ``columns``: the columns of a tuple. O(keys)."""
        self._part.mark_words(self._copies.table, [columns[i] for i in self._words])

    def check_invariants(self, rows: Iterable[Zset] | None) -> None:
        """Raises AssertionError unless every key has one row. Compares with the relation's ``rows`` if they are
        given."""
        counted = 0
        for _, copies in self._copies.scan():
            assert (copies == 1).all(), "an enforced key has more than one row"
            counted += len(copies)
        if rows is None:
            return
        keys = [net.project(self._words) for net in rows]
        known = Zset.gathered(keys, len(self._words)).net()
        assert len(known) == counted, "the counted keys do not match the rows"
        assert (known.weights == 1).all(), "two rows have the same enforced key"
        assert (self._copies.counts_of(known)[:, 0] == 1).all(), "the key of a row is not counted"


def _at_most_one(rows: np.ndarray) -> bool:
    """Returns True if all of these numbers are 0 or 1."""
    if not len(rows):
        return True
    low, high = extent(np.ascontiguousarray(rows))
    return bool(low >= 0 and high <= 1)
