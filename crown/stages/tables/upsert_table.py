"""Upserts: stores the row of each key, so that an update can delete it.

A change gives the new row of a key, or deletes the key. Other stages need the deleted row, which is looked up here,
inside the transaction. So a batch that is applied again produces the same rows, and undoing a batch restores the
previous rows. With a sequence, a change that is older than the last one of its key is ignored and counted. For this
check, the last sequence of a deleted key is kept, too (a *tombstone*). Memory is linear in the keys: one record per
live row, one per tombstone, and copies of the records that the last batch changed, to undo it.

A relation may limit the retention of tombstones (``crown.stages.tables.tombstones``). A change of a key without a
record that is older than the retention may precede an expired deletion, so it is ignored as late, too.

A record has the codes of the key, the codes of the other columns that are read, the sequence (0 without one), and a
state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from crown.kernels.memory.arena import T_TALLIES
from crown.stages.protocol import Part
from crown.stages.tables.counted_tuples import CountedTuples
from crown.stages.tables.tombstones import Tombstones
from crown.store.codec import NULL
from crown.store.zset import Zset
from plans.schema import Column, Table

LIVE, DELETED, WAS_ABSENT = 1, 2, 3
"""States of a record: a live row; a tombstone; in the table of previous records, that there was no record. 0: no
record."""
_LATE = T_TALLIES + 2  # of the rows' table, after the counters of the base tables: late changes
_TOMBSTONES, _LATE_NOW = T_TALLIES, T_TALLIES + 1  # of the table of previous records


class Upserts:
    """The positions of the parts of a change. ``used``: the columns of a table that are read.

    ``carried``: the columns of a change: ``used``, followed by the sequence if it is ``ordered`` by one. ``key`` and
    ``nonkey``: positions in ``columns``. ``retention``: the difference from the greatest sequence at which tombstones
    expire, or None if they never do.
    """

    def __init__(self, table: Table, used: Sequence[Column]) -> None:
        place = {column.name.lower(): i for i, column in enumerate(used)}
        sequence = None if table.sequence is None else table.column(table.sequence)
        self.columns = tuple(used)
        self.ordered = sequence is not None
        self.retention = table.kept_behind
        self.carried: tuple[Column, ...] = self.columns if sequence is None else (*self.columns, sequence)
        self.key = [place[name.lower()] for name in table.key]
        self.nonkey = [i for i in range(len(used)) if i not in self.key]

    def last(self, changes: Zset) -> Zset:
        """Returns the last change of each key, in the order of the batch: by sequence, deletes first, then by position.

        Without a sequence the position alone decides. Omits changes of weight 0. O(n log n).
        """
        changes = changes[changes.weights != 0]
        rows, n = changes.rows, len(changes)
        order = [np.arange(n), *([changes.weights, rows[:, -1]] if self.ordered else [])]
        keys = [rows[:, i] for i in self.key]
        by_key = np.lexsort([*order, *keys])
        last = np.ones(n, bool)
        last[:-1] = np.any([key[by_key][1:] != key[by_key][:-1] for key in keys], axis=0)
        return changes[np.sort(by_key[last])].copy()


def upserts_of(tables: Iterable[Table], used: Mapping[str, Sequence[Column]]) -> dict[str, Upserts]:
    """Returns the tables with upserts, by name in lower case. ``used``: the columns that are read."""
    return {table.name.lower(): Upserts(table, used[table.name.lower()]) for table in tables if table.upserts}


class UpsertTable:
    """The rows of a relation by key, in table ``current``; the records before the last batch, in table ``before``.

    ``expiring``: its tombstones in order, or None if they never expire.
    """

    def __init__(
        self, part: Part, current: int, before: int, upserts: Upserts, expiring: Tombstones | None = None
    ) -> None:
        self._part = part
        self._upserts = upserts
        self._expiring = expiring
        words = len(upserts.nonkey) + 2
        self._rows = CountedTuples(part, current, len(upserts.key), words)
        self._before = CountedTuples(part, before, len(upserts.key), words)

    @property
    def table(self) -> int:
        """Returns the table of the rows."""
        return self._rows.table

    def __len__(self) -> int:
        return len(self._rows) - self.tombstones

    @property
    def tombstones(self) -> int:
        """Returns the number of tombstones."""
        return int(self._part.arena[self._before.table + _TOMBSTONES])

    @property
    def late(self) -> int:
        """Returns the number of changes that were ignored because they were older than the last one of their key."""
        return int(self._part.arena[self._rows.table + _LATE])

    # -- a batch -------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Discards the previous batch, and begins one that can be undone. Amortized O(1) per change."""
        self.discard_undo()
        if self._expiring is not None:
            self._expiring.begin()

    def discard_undo(self) -> None:
        """Discards the records before the last batch. The batch can then no longer be undone."""
        before = self._before
        self._part.arena[before.table + _LATE_NOW] = 0
        if len(before):
            for rows, words in list(before.scan()):
                before.put(_with_weight_one(rows), words, np.zeros_like(words))

    def apply(self, changes: Zset) -> tuple[Zset, np.ndarray]:
        """Returns the deleted rows, then the inserted rows, and bool[n], True for deletes that found no row.

        ``changes``: at most one per key, the result of ``Upserts.last``. Raises MemoryBudgetError. No row has changed
        then, and the caller must call ``discard_undo``. Expected O(n).
        """
        keys = changes.project(self._upserts.key)
        old = self._rows.counts_of(keys)
        new, late = self._records_after(changes, old)
        absent = (changes.weights < 0) & ~late & (old[:, -1] != LIVE)
        rows, was, now = self._with_expired(keys.rows, old, new, changes)
        changed = (now != was).any(axis=1)
        rows, was, now = rows[changed], was[changed], now[changed]
        previous = was.copy()
        previous[previous[:, -1] == 0, -1] = WAS_ABSENT
        keyed = _with_weight_one(rows)
        self._before.put(keyed, np.zeros_like(previous), previous)
        self._move_tombstones(rows, was, now)
        try:
            self._rows.put(keyed, was, now)
        except BaseException:
            with self._part.budget.lifted():
                self._move_tombstones(rows, now, was)
            raise
        if self._expiring is not None and len(changes):
            self._expiring.record_greatest(int(changes.rows[:, -1].max()))
        self._count(was, now, int(np.count_nonzero(late)))
        return self._difference(rows, was, now), absent

    def _with_expired(
        self, keys: np.ndarray, old: np.ndarray, new: np.ndarray, changes: Zset
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the keys and their records before and after the batch, without expired tombstones."""
        if self._expiring is None or not len(changes):
            return keys, old, new
        expiry = self._expiring.expiry(int(changes.rows[:, -1].max()))
        new[(new[:, -1] == DELETED) & (new[:, -2] <= expiry)] = 0
        expired = self._expiring.up_to(expiry)[:, 1:]
        if len(keys) and len(expired):  # keys that the batch changes are listed already
            distinct, number = np.unique(np.concatenate([keys, expired]), axis=0, return_inverse=True)
            listed = np.zeros(len(distinct), bool)
            number = number.reshape(-1)
            listed[number[: len(keys)]] = True
            expired = expired[~listed[number[len(keys) :]]]
        before = self._rows.counts_of(_with_weight_one(expired))
        return (
            np.concatenate([keys, expired]),
            np.concatenate([old, before]),
            np.concatenate([new, np.zeros_like(before)]),
        )

    def _move_tombstones(self, keys: np.ndarray, old: np.ndarray, new: np.ndarray) -> None:
        """Updates the order of tombstones for records that change from ``old`` to ``new``. Raises MemoryBudgetError,
        with nothing changed."""
        if self._expiring is None:
            return
        removed, added = old[:, -1] == DELETED, new[:, -1] == DELETED
        rows = np.concatenate(
            [np.column_stack([records[moved, -2], keys[moved]]) for records, moved in ((old, removed), (new, added))]
        )
        self._expiring.change(rows, np.repeat(np.array([-1, 1]), [np.count_nonzero(removed), np.count_nonzero(added)]))

    def roll_back(self) -> Zset:
        """Undoes the last batch, without regard to the budget. Returns the rows that it deleted and inserted.
        O(changes)."""
        found = list(self._before.scan())
        rows = np.concatenate([keys for keys, _ in found])
        old = np.concatenate([words for _, words in found])
        keys = _with_weight_one(rows)
        new = self._rows.counts_of(keys)
        old[old[:, -1] == WAS_ABSENT] = 0
        with self._part.budget.lifted():
            self._rows.put(keys, new, old)
            self._move_tombstones(rows, new, old)
        if self._expiring is not None:
            self._expiring.restore_greatest()
        self._count(new, old, -int(self._part.arena[self._before.table + _LATE_NOW]))
        self.discard_undo()
        return self._difference(rows, old, new)

    def _records_after(self, changes: Zset, old: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the records of the keys after the batch (int64[n, words]), and bool[n], True for late changes."""
        ordered, valid = self._upserts.ordered, changes.weights > 0
        new = np.zeros_like(old)
        new[:, :-2] = np.where(valid[:, None], changes.rows[:, self._upserts.nonkey], NULL)
        new[:, -2] = changes.rows[:, -1] if ordered else 0
        new[:, -1] = np.where(valid, LIVE, DELETED)
        if not ordered:
            new[~valid] = 0
        late = (old[:, -1] != 0) & (new[:, -2] < old[:, -2])
        if self._expiring is not None:
            late |= (old[:, -1] == 0) & (new[:, -2] <= self._expiring.expiry())
        new[late] = old[late]
        return new, late

    def _difference(self, keys: np.ndarray, old: np.ndarray, new: np.ndarray) -> Zset:
        """Returns the deleted rows, then the inserted rows, for records that change from ``old`` to ``new``."""
        upserts, n = self._upserts, len(self._upserts.nonkey)
        was, now = old[:, -1] == LIVE, new[:, -1] == LIVE
        same = was & now & (old[:, :n] == new[:, :n]).all(axis=1)
        deleted, inserted = was & ~same, now & ~same
        weights = np.repeat(np.array([-1, 1]), [np.count_nonzero(deleted), np.count_nonzero(inserted)])
        rows = np.empty((len(weights), len(upserts.columns)), np.int64)
        rows[:, upserts.key] = np.concatenate([keys[deleted], keys[inserted]])
        rows[:, upserts.nonkey] = np.concatenate([old[deleted, :n], new[inserted, :n]])
        return Zset(rows, weights)

    def _count(self, old: np.ndarray, new: np.ndarray, late: int) -> None:
        arena = self._part.arena
        gained = np.count_nonzero(new[:, -1] == DELETED) - np.count_nonzero(old[:, -1] == DELETED)
        arena[self._before.table + _TOMBSTONES] += gained
        arena[self._before.table + _LATE_NOW] = late
        arena[self._rows.table + _LATE] += late

    # -- reading -------------------------------------------------------------------------------------------------------

    def scan(self) -> Iterator[Zset]:
        """Yields the live rows, each once."""
        for keys, words in self._rows.scan():
            yield self._difference(keys, np.zeros_like(words), words)

    @property
    def carried(self) -> tuple[Column, ...]:
        """Returns the columns of a change."""
        return self._upserts.carried

    def changes(self) -> Iterator[Zset]:
        """Yields changes that produce this relation from an empty one. Changes of weight -1 leave a tombstone."""
        upserts = self._upserts
        for keys, words in self._rows.scan():
            rows = np.full((len(keys), len(upserts.carried)), NULL, np.int64)
            rows[:, upserts.key] = keys
            rows[:, upserts.nonkey] = words[:, :-2]
            if upserts.ordered:
                rows[:, -1] = words[:, -2]
            yield Zset(rows, np.where(words[:, -1] == LIVE, 1, -1))

    def mark_values(self) -> None:
        """Marks every value in the dictionary that rows, and the records before the last batch, reference. O(state)."""
        columns = [self._upserts.columns[i] for i in (*self._upserts.key, *self._upserts.nonkey)]
        for table in (self._rows, self._before):
            self._part.mark_words(table.table, columns)

    def check_invariants(self) -> None:
        """Raises AssertionError unless the counters match the records. O(state)."""
        states = np.concatenate([words[:, -1] for _, words in self._rows.scan()])
        assert np.isin(states, [LIVE, DELETED]).all(), "a record has an unknown state"
        assert np.count_nonzero(states == DELETED) == self.tombstones, "the tombstones do not match their counter"
        if self._expiring is not None:
            found = [
                np.column_stack([words[:, -2], keys])[words[:, -1] == DELETED] for keys, words in self._rows.scan()
            ]
            expected = sorted(map(tuple, np.concatenate(found).tolist()))
            assert expected == list(map(tuple, self._expiring.all().tolist())), "the tombstones are not in order"
            assert all(row[0] > self._expiring.expiry() for row in expected), "an expired tombstone is stored"


def _with_weight_one(keys: np.ndarray) -> Zset:
    """Returns keys with weight 1."""
    return Zset(keys, np.ones(len(keys), np.int64))
