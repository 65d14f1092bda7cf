"""The base tables of a program, the only place that decides whether a delete finds its row.

Several stages may read one relation, each with its own columns. If each stage decided what a delete of an absent row
removes, their counts would diverge. So the base tables count the copies of every tuple, over all columns that some
stage reads, and pass on the effective changes. If a join stores these columns, its records are looked up instead, and
no tuple is counted twice (``crown.stages.tables.join_as_table``). A relation with upserts stores the row of each key
(``crown.stages.tables.upsert_table``): an upsert passes on the deleted row and the inserted one. A relation with a
window stores the rows inside the window (``crown.stages.tables.windowed_table``), and passes on deletes of expired
rows. For an enforced key, the rows of each key are also counted (``crown.stages.tables.key_counts``).

The last batch can be undone. The copies that its deletes did not find are stored in the arena, so the effective changes
can be computed from the given batch. A batch whose deletes all found their rows stores nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from crown.errors import MissingDeleteError, UnusableStateError
from crown.ingest.batch import CountedPart, PreparedBatch
from crown.kernels.batches import extent, negatives
from crown.kernels.memory.arena import T_COUNT, T_TALLIES, header_words
from crown.kernels.memory.tables import table_at
from crown.stages.protocol import Part
from crown.stages.tables.counted_tuples import CountedTuples
from crown.stages.tables.join_as_table import JoinAsTable
from crown.stages.tables.key_counts import KeyCounts, enforced_of
from crown.stages.tables.tombstones import Tombstones
from crown.stages.tables.upsert_table import UpsertTable, upserts_of
from crown.stages.tables.windowed_table import WindowedTable
from crown.store.codec import named_values
from crown.store.memory import numbers
from crown.store.zset import Zset
from plans.program import Program
from plans.programs.wiring import Wires
from plans.schema import Column

_MISSING, _UPDATES, _FILTERED = T_TALLIES, T_TALLIES + 1, T_TALLIES + 2  # counters of a table
_UNDOABLE = T_TALLIES  # in the table of missing deletes: 1 while the table is that of the last batch


class BaseTables:
    """Counts the tuples of the relations of a program, with the columns that ``wires`` lists.

    ``on_missing``: ``"ignore"`` deletes the copies that are present, ``"raise"`` rejects the batch, ``"trust"`` accepts
    every delete; then only relations that are read again are counted. A relation has at most one of upserts, a window
    and an enforced key. ``enforced``: for relations with an enforced key, its positions in a tuple.
    """

    def __init__(self, part: Part, program: Program, wires: Wires, on_missing: str) -> None:
        base = {name: wire for name, wire in wires.items() if isinstance(name, str)}
        columns = {name: wire.columns for name, wire in base.items()}
        upserts, enforced = upserts_of(program.tables, columns), enforced_of(program.tables, columns)
        self.on_missing = on_missing
        self.enforced = enforced
        self._declared = {table.name.lower(): table.name for table in program.tables}
        self._selected = [name for name, wire in base.items() if wire.conditions]
        self.missing: dict[str, np.ndarray] = {}  # per tuple, copies that deletes of the last batch did not find
        self._part = part
        self._columns = columns
        expiring = [name for name, upsert in upserts.items() if upsert.retention is not None]
        first_extra = len(columns) + len(upserts)  # number of the first extra table of these relations
        first_enforced = first_extra + len(expiring)
        part.open(first_enforced + len(enforced) + 1)
        self._header = numbers(part.arena[: header_words(first_enforced + len(enforced) + 1)])
        self._number = {name: i for i, name in enumerate(columns)}
        self._filtered = {name: int(table_at(i)) + _FILTERED for name, i in self._number.items()}
        windows = {window.relation.lower(): window for window in program.windows}
        self.retained = {
            name: WindowedTable(part, int(table_at(self._number[name])), columns[name], window)
            for name, window in windows.items()
        }
        self._tables = {
            name: CountedTuples(part, i, len(columns[name]))
            for name, i in self._number.items()
            if name not in upserts and name not in windows and (on_missing != "trust" or base[name].read_again)
        }
        tombstones = {
            name: Tombstones(part, int(table_at(first_extra + i)), len(upserts[name].key), upserts[name].retention or 0)
            for i, name in enumerate(expiring)
        }
        self._keyed = {
            name: UpsertTable(part, self._number[name], len(columns) + i, upsert, tombstones.get(name))
            for i, (name, upsert) in enumerate(upserts.items())
        }
        self._unique = {
            name: KeyCounts(part, first_enforced + i, words) for i, (name, words) in enumerate(enforced.items())
        }
        self._absent = CountedTuples(part, first_enforced + len(enforced), 2)  # relation, position in its net -> copies
        self._undoable = self._absent.table + _UNDOABLE
        self._counted: list[tuple[str, CountedTuples | UpsertTable]] = [*self._tables.items(), *self._keyed.items()]
        self._key = {name: upsert.key for name, upsert in upserts.items()}
        self._stored: dict[str, JoinAsTable] = {}

    @property
    def absent(self) -> list[str]:
        """Returns the declared names of the relations in which deletes of the last batch found no row."""
        return list(map(self._declared_name, self.missing))

    def _declared_name(self, name: str) -> str:
        """Returns the declared name of a relation."""
        return self._declared.get(name, name)

    def gate(self, name: str) -> tuple[int, bool] | None:
        """Returns the table that counts the tuples of a relation, and True if no count falls below 0. Returns None if
        they are not counted. Must not be called for a relation with upserts, a window or an enforced key, or one that a
        join stores."""
        return (self._tables[name].table, self.on_missing != "trust") if name in self._tables else None

    def counters(self, name: str) -> tuple[int, int]:
        """Returns the words that count the changes of a relation (0 if none does), and its rows that no stage reads."""
        return self._tables[name].table + _UPDATES if name in self._tables else 0, self._filtered[name]

    def counts_alone(self, name: str) -> bool:
        """Returns True if only counted tuples, or a join, determine which deletes of a relation find a row."""
        return not any(name in other for other in (self._keyed, self.retained, self._unique))

    def lookup(self, name: str) -> JoinAsTable | None:
        """Returns the join in which deletes of a relation are looked up, or None."""
        return self._stored.get(name)

    def record_complete(self) -> None:
        """Records that all deletes of a batch have found their rows."""
        if self._header[self._absent.table + T_COUNT]:
            self._store_missing({})
        self._header[self._undoable] = 1
        self.missing = {}

    def use_joins(self, stored: Mapping[str, JoinAsTable]) -> None:
        """Registers joins whose records hold the copies of a relation's tuples, by relation."""
        self._stored |= {name: join for name, join in stored.items() if name in self._tables}

    def apply(self, batch: PreparedBatch) -> dict[str, Zset]:
        """Returns the effective nets, including rows that leave their window. O(tuples), with windows O(log n) each.

        Raises MissingDeleteError if missing deletes are to be rejected, ChangeError if the batch was prepared for
        another state, and MemoryBudgetError. The tables are then unchanged.
        """
        if batch.passed:
            self.record_complete()
            return dict(batch.nets)
        strict = self.on_missing == "raise" and not batch.fills
        missing: dict[str, np.ndarray] = {}
        done: dict[str, Zset] = {}
        self._header[self._undoable] = 0
        for keyed in self._keyed.values():
            keyed.begin()
        try:
            for name, net in batch.nets.items():
                if name in self.retained:
                    done[name] = self.retained[name].apply(net, batch.advances.get(name), strict)
                    continue
                effective = self._effective_net(name, net, strict, missing, batch.counted_parts.get(name))
                if name in self._unique:
                    self._count_keys(name, effective)
                done[name] = effective
            if batch.fills:
                missing = {}
            if missing or self._header[self._absent.table + T_COUNT]:
                self._store_missing(missing)
            self._header[self._undoable] = 1
        except BaseException:
            self._roll_back(done)
            raise
        self.missing = missing
        return done

    def _store_missing(self, missing: Mapping[str, np.ndarray]) -> None:
        """Stores the missing deletes of a batch in place of those of the batch before. Amortized O(missing).

        Raises MemoryBudgetError; the stored missing deletes are then undefined.
        """
        for rows, counts in list(self._absent.scan()):
            self._absent.put(_with_weight_one(rows), counts, np.zeros_like(counts))
        for name, absent in missing.items():
            at = np.flatnonzero(absent)
            rows = np.column_stack([np.full(len(at), self._number[name]), at])
            counts = absent[at].reshape(-1, 1)
            self._absent.put(_with_weight_one(rows), np.zeros_like(counts), counts)

    def _stored_missing(self, nets: Mapping[str, Zset]) -> dict[str, np.ndarray]:
        """Returns, by relation and per tuple of its net, the copies that the deletes of the last batch did not find."""
        found: dict[str, np.ndarray] = {}
        names = list(self._number)
        for rows, counts in self._absent.scan() if len(self._absent) else ():
            for number in np.unique(rows[:, 0]).tolist():
                of_relation, name = rows[:, 0] == number, names[number]
                absent = found.setdefault(name, np.zeros(len(nets[name]), np.int64))
                absent[rows[of_relation, 1]] = counts[of_relation, 0]
        return found

    def _count_keys(self, name: str, effective: Zset) -> None:
        """Counts the rows of each enforced key. If it raises, the changes of the relation are undone."""
        try:
            self._unique[name].apply(effective)
        except BaseException:
            self._uncount({name: effective})
            raise

    def refused_keys(self, name: str, net: Zset) -> tuple[np.ndarray, np.ndarray] | None:
        """Returns the enforced keys of a relation that would not have 0 or 1 rows after a net, and their
        numbers of rows; see ``KeyCounts.refused``. Changes nothing. Expected O(n)."""
        is_delete = net.weights < 0
        if name in self._tables and self.on_missing != "trust" and is_delete.any():  # a missing delete removes nothing
            deletes = net[is_delete]
            weights = net.weights.copy()
            weights[is_delete] = np.maximum(deletes.weights, -self._copies(name, deletes))
            net = _weighted(net, weights)
        return self._unique[name].violations(net)

    def _copies(self, name: str, net: Zset) -> np.ndarray:
        """Returns the present copies of each tuple, int64[n]. Expected O(n)."""
        table, stored = self._tables[name], self._stored.get(name)
        if stored is None:
            return table.counts_of(net)[:, 0]
        copies, unstored = stored.copies(net), stored.unstored(net)
        if unstored is not None:
            copies[unstored] = table.counts_of(net[unstored])[:, 0]
        return copies

    def _effective_net(
        self, name: str, net: Zset, strict: bool, missing: dict[str, np.ndarray], counted_part: CountedPart | None
    ) -> Zset:
        """Returns the effective net of a relation. Stores the copies that its deletes did not find in ``missing``.
        ``counted_part``: the part of the net that was counted before."""
        if name in self._keyed:
            return self._apply_upserts(name, net, strict, missing)
        if name not in self._tables:
            return net
        stored = self._stored.get(name)
        if stored is not None and stored.unstored(net) is None:  # deletes precede inserts
            deletes = int(negatives(net.weights))
            if not deletes:
                return net
            after = stored.copies(net[:deletes]) + net.weights[:deletes]
            if extent(after)[0] >= 0:
                return net
            after = np.concatenate([after, np.zeros(len(net) - deletes, np.int64)])
        else:
            after = self._count_net(name, net, counted_part)
            after += net.weights
            if self.on_missing == "trust" or not len(after) or extent(after)[0] >= 0:
                return net
        absent = np.maximum(-after, 0)
        effective = _weighted(net, net.weights + absent)
        if strict:
            self._uncount({name: effective})
            at = int(absent.argmax())
            raise self._part.missing_delete(
                self._declared_name(name), self._columns[name], net.rows[at], -int(net.weights[at])
            )
        missing[name] = absent
        return effective

    def _count_net(self, name: str, net: Zset, counted_part: CountedPart | None) -> np.ndarray:
        """Counts a net. Returns the copies of each tuple before the batch (int64[n]); 0 for an insert that a join
        stores."""
        table, clamp = self._tables[name], self.on_missing != "trust"
        if name not in self._stored:
            return table.add(net, np.zeros(len(net), np.int64), clamp, counted_part)[:, 0]
        stored = self._stored[name]
        unstored, before = stored.unstored(net), np.zeros(len(net), np.int64)
        assert unstored is not None, "the join stores all tuples"
        is_delete = (net.weights < 0) & ~unstored
        before[is_delete] = stored.copies(net[is_delete])
        before[unstored] = table.add(net[unstored], np.zeros(int(unstored.sum()), np.int64), clamp)[:, 0]
        return before

    def _apply_upserts(self, name: str, changes: Zset, strict: bool, missing: dict[str, np.ndarray]) -> Zset:
        """Returns the deleted and inserted rows of an update by key."""
        effective, absent = self._keyed[name].apply(changes)
        if not absent.any():
            return effective
        if strict:
            self._keyed[name].roll_back()
            key = self._key_values(name, changes, int(absent.argmax()))
            raise MissingDeleteError(
                f"relation {self._declared_name(name)!r}: the batch deletes the row of the key {key}, but there is "
                'none; nothing was applied. Use on_missing="ignore" to count such deletes'
            )
        missing[name] = absent.astype(np.int64)
        return effective

    def check_undo(self) -> None:
        """Raises UnusableStateError if the last batch cannot be undone, because it was undone already, or a later one
        was rejected."""
        if not self._header[self._undoable]:
            raise UnusableStateError(
                "the last batch cannot be undone: it was undone before, or a later batch was rejected"
            )

    def undo(self, nets: Mapping[str, Zset]) -> dict[str, Zset]:
        """Undoes the last batch, which had these nets, without regard to the budget. Returns the effective nets."""
        self.missing = missing = self._stored_missing(nets)
        effective = {name: keyed.roll_back() for name, keyed in self._keyed.items()}
        effective |= {name: self.retained[name].roll_back() for name in nets if name in self.retained}
        counted = {
            name: _weighted(net, net.weights + missing[name]) if name in missing else net
            for name, net in nets.items()
            if name not in effective
        }
        self._uncount(counted)
        self._uncount_keys(counted)
        self._header[self._undoable] = 0
        return {**counted, **effective}

    def _roll_back(self, done: Mapping[str, Zset]) -> None:
        """Undoes the effective changes of the relations in ``done`` when a batch is rejected."""
        for name, keyed in self._keyed.items():
            if name in done:
                keyed.roll_back()
            else:
                keyed.discard_undo()
        for name in done:
            if name in self.retained:
                self.retained[name].roll_back()
        self._uncount(done)
        self._uncount_keys(done)

    def _uncount_keys(self, nets: Mapping[str, Zset]) -> None:
        """Subtracts nets from the relations whose rows are counted by key."""
        for name, unique in self._unique.items():
            if name in nets:
                unique.roll_back(nets[name])

    def _uncount(self, nets: Mapping[str, Zset]) -> None:
        """Subtracts nets from the relations that are counted."""
        with self._part.budget.lifted():
            for name, net in nets.items():
                if name in self._tables:
                    counted = net
                    if name in self._stored:
                        unstored = self._stored[name].unstored(net)
                        counted = net[:0] if unstored is None else net[unstored]
                    self._tables[name].add(counted.negated(), np.zeros(len(counted), np.int64))

    def tally(self, batch: PreparedBatch, sign: int = 1) -> None:
        """Updates the counters of ``stats`` for the last batch, which is committed, or (``sign`` -1) undone."""
        header, nets, counted = self._header, batch.nets, batch.counted
        for name, table in self._counted:
            if name in counted or name in nets:
                changes = counted[name] if name in counted else nets[name].weights.size
                header[table.table + _UPDATES] += sign * changes
                if name in self.missing:
                    header[table.table + _MISSING] += sign * int(self.missing[name].sum())
        for name, rows in batch.filtered.items():
            header[self._filtered[name]] += sign * rows

    def _key_values(self, name: str, net: Zset, at: int) -> dict[str, object]:
        """Returns the values of the key of a tuple, by column name."""
        key = self._key[name]
        columns = [self._columns[name][i] for i in key]
        return named_values(net.rows[at][list(key)], columns, self._part.dictionary.extern)

    def scan(self, name: str) -> Iterator[Zset]:
        """Yields the tuples of a counted relation, with their copies."""
        if name in self._keyed:
            yield from self._keyed[name].scan()
            return
        if name in self.retained:
            yield from self.retained[name].scan()
            return
        for rows, counts in self._tables[name].scan():
            yield Zset(rows, counts[:, 0])
        if name in self._stored:
            yield self._stored[name].scan()

    def carried(self, name: str) -> tuple[Column, ...] | None:
        """Returns the columns of the rows that ``changes`` yields for a relation. Returns None if it is not counted,
        and for a window by arrival, whose rows do not have their time."""
        if name in self._keyed:
            return self._keyed[name].carried
        timed = name in self.retained and not self.retained[name].window.arrival
        return self._columns[name] if timed or name in self._tables else None

    def changes(self, name: str) -> Iterator[Zset]:
        """Yields changes that produce the relation's state: its tuples; with upserts also the tombstones; with a window
        together with ``reached``."""
        yield from self._keyed[name].changes() if name in self._keyed else self.scan(name)

    def reached(self, name: str) -> int | None:
        """Returns the watermark of a relation as a code, or None."""
        return self.retained[name].reached() if name in self.retained else None

    def reset_counters(self) -> None:
        """Resets the counters of received changes that ``stats`` reports."""
        for _, table in self._counted:
            self._part.arena[table.table + _MISSING] = self._part.arena[table.table + _UPDATES] = 0
        for name in self._selected:
            self._part.arena[self._filtered[name]] = 0
        for retained in self.retained.values():
            retained.reset_counters()

    def mark_values(self) -> None:
        """Marks every value in the dictionary that the tuples reference. O(state)."""
        for name, table in self._tables.items():
            self._part.mark_words(table.table, self._columns[name])
        for keyed in self._keyed.values():
            keyed.mark_values()
        for retained in self.retained.values():
            retained.mark_values()
        for name, unique in self._unique.items():
            unique.mark_values(self._columns[name])

    def check_invariants(self) -> None:
        """Raises AssertionError if a stored tuple has less than one copy, or an enforced key has two rows."""
        for keyed in self._keyed.values():
            keyed.check_invariants()
        for name in self._tables:
            for net in self.scan(name):
                assert self.on_missing == "trust" or (net.weights > 0).all(), f"a tuple of {name} has no copy"
        for retained in self.retained.values():
            retained.check_invariants()
        for name, unique in self._unique.items():
            unique.check_invariants(self.scan(name) if name in self._tables else None)

    def stats(self) -> dict[str, dict[str, Any]]:
        """Returns statistics per relation: the distinct tuples (with a window: the rows inside it); total missing
        deletes, net changes, and rows that no stage reads; statistics of windows; with upserts also late changes and
        tombstones."""
        arena, counted, windowed = self._part.arena, self._counted, self.retained.items()
        missing = {name: int(arena[table.table + _MISSING]) for name, table in counted}
        updates = {name: int(arena[table.table + _UPDATES]) for name, table in counted}
        found: dict[str, dict[str, Any]] = {
            "rows": {name: len(table) + len(self._stored.get(name, ())) for name, table in counted}
            | {name: len(table) for name, table in windowed},
            "missing_deletes": missing | {name: table.missing_deletes for name, table in windowed},
            "updates": updates | {name: table.updates for name, table in windowed},
        }
        if self._selected:
            found["filtered"] = {name: int(arena[self._filtered[name]]) for name in self._selected}
        if self._keyed:
            found["late"] = {name: keyed.late for name, keyed in self._keyed.items()}
            found["tombstones"] = {name: keyed.tombstones for name, keyed in self._keyed.items()}
        if self.retained:
            found["windows"] = {name: table.stats() for name, table in windowed}
        return {key: {self._declared_name(name): n for name, n in tables.items()} for key, tables in found.items()}


def _with_weight_one(rows: np.ndarray) -> Zset:
    """Returns rows with weight 1."""
    return Zset(rows, np.ones(len(rows), np.int64))


def _weighted(net: Zset, weights: np.ndarray) -> Zset:
    """Returns the tuples with other weights, without those of weight 0."""
    return Zset(net.rows, weights)[weights != 0]
