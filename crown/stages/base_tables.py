"""The base tables of a program: the one place that decides what a delete finds.

Several stages may read one relation, each with columns of its own. If each stage decided what a delete of an absent row
takes away, their counts would drift apart. So the base tables count the copies of every tuple, over all columns that
some stage reads, and pass on the changes that took place. A join that stores these columns is asked instead, and no
tuple is counted twice (``crown.stages.join_as_table``). A relation with upserts keeps the row of each key
(``crown.stages.upsert_table``): an upsert passes on the deleted row and the inserted one. A relation with a window
keeps the rows inside the window (``crown.stages.windowed_table``), and passes on rows that leave it. Where a key is
enforced, the rows of each key are counted, too (``crown.stages.key_counts``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from crown.errors import MissingDeleteError
from crown.ingest.batch import MissingDeletes
from crown.kernels.arena import T_TALLIES, header_words
from crown.kernels.batches import extent, negatives
from crown.kernels.tables import table_at
from crown.stages.counted_tuples import CountedTuples
from crown.stages.join_as_table import JoinAsTable
from crown.stages.key_counts import KeyCounts
from crown.stages.protocol import Part
from crown.stages.tombstones import Tombstones
from crown.stages.upsert_table import Upserts, UpsertTable
from crown.stages.windowed_table import WindowedTable
from crown.store.codec import named_values
from crown.store.memory import numbers
from crown.store.zset import Zset
from plans.schema import Column
from plans.windows import Window

_MISSING, _UPDATES, _FILTERED = T_TALLIES, T_TALLIES + 1, T_TALLIES + 2  # counters of a table


class BaseTables:
    """Counts the tuples of relations; ``columns``: of each (by name in lower case), those that are read.

    ``on_missing``: ``"ignore"`` takes away what is there, ``"raise"`` refuses the batch, ``"trust"`` lets everything
    through; then only the relations in ``kept`` are counted at all. ``upserts``: relations that are updated by key;
    ``windows``: of relations that have one; ``enforced``: where the key stands in the tuples of relations whose key is
    enforced. No relation has two of these. ``selected``: relations of which only the rows come that somebody reads.
    ``shown``: the names in statistics and errors, where they are not in lower case.
    """

    def __init__(
        self,
        part: Part,
        columns: Mapping[str, tuple[Column, ...]],
        on_missing: str,
        kept: frozenset[str],
        upserts: Mapping[str, Upserts],
        windows: Sequence[Window] = (),
        selected: Collection[str] = (),
        enforced: Mapping[str, Sequence[int]] = MappingProxyType({}),
        shown: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.on_missing = on_missing
        self._shown = shown
        self._selected = selected
        self.missing = MissingDeletes()  # of the last batch
        self._part = part
        self._columns = columns
        forgetful = [name for name, of in upserts.items() if of.behind is not None]
        first = len(columns) + len(upserts)  # of the tables that those have besides
        last = first + len(forgetful)
        part.open(last + len(enforced))
        self._header = numbers(part.arena[: header_words(last + len(enforced))])
        self._number = {name: i for i, name in enumerate(columns)}
        own = {window.relation.lower(): window for window in windows}
        self.retained = {
            name: WindowedTable(part, int(table_at(self._number[name])), columns[name], window)
            for name, window in own.items()
        }
        self._tables = {
            name: CountedTuples(part, i, len(columns[name]))
            for name, i in self._number.items()
            if name not in upserts and name not in own and (on_missing != "trust" or name in kept)
        }
        gone = {
            name: Tombstones(part, int(table_at(first + i)), len(upserts[name].key), upserts[name].behind or 0)
            for i, name in enumerate(forgetful)
        }
        self._keyed = {
            name: UpsertTable(part, self._number[name], len(columns) + i, of, gone.get(name))
            for i, (name, of) in enumerate(upserts.items())
        }
        self._unique = {name: KeyCounts(part, last + i, words) for i, (name, words) in enumerate(enforced.items())}
        self._kept: list[tuple[str, CountedTuples | UpsertTable]] = [*self._tables.items(), *self._keyed.items()]
        self._key = {name: of.key for name, of in upserts.items()}
        self._stored: dict[str, JoinAsTable] = {}

    def fill(self, apply: Callable[[], object]) -> None:
        """Has ``apply`` bring rows that were there before: deletes are those of keys that are remembered, whatever
        deletes of absent rows do."""
        on_missing, self.on_missing = self.on_missing, "ignore"
        try:
            apply()
        finally:
            self.on_missing = on_missing

    def forget_missing(self) -> None:
        """Forgets what the deletes of the last batch did not find: it is not counted."""
        self.missing = MissingDeletes()

    @property
    def absent(self) -> list[str]:
        """Returns the relations, as they are declared, in which deletes of the last batch found no row."""
        names = list(self._number)
        return [self._named(names[number]) for number in self.missing.changes]

    def _named(self, name: str) -> str:
        """Returns a relation's name as it is declared."""
        return self._shown.get(name, name)

    def ask(self, stored: Mapping[str, JoinAsTable]) -> None:
        """Has joins asked for the copies of the tuples that they store, by relation."""
        self._stored |= {name: of for name, of in stored.items() if name in self._tables}

    def apply(self, nets: Mapping[str, Zset], advances: Mapping[str, int]) -> dict[str, Zset]:
        """Returns the nets as they take place, with what leaves its window. O(tuples), with windows O(log n) each.

        ``advances``: watermarks that are reached at least. Raises MissingDeleteError, if deletes that find nothing are
        to be refused, ChangeError, if the batch was prepared for another state, and MemoryBudgetError; nothing has
        changed then.
        """
        missing, done = MissingDeletes(), {}
        for keyed in self._keyed.values():
            keyed.begin()
        try:
            for name, net in nets.items():
                if name in self.retained:
                    strict = self.on_missing == "raise"
                    done[name] = self.retained[name].apply(net, advances.get(name), strict)
                else:
                    effective = self._let_through(name, net, missing)
                    self._count_keys(name, effective)
                    done[name] = effective
        except BaseException:
            self.take_back(done)
            raise
        self.missing = missing
        return done

    def _count_keys(self, name: str, effective: Zset) -> None:
        """Counts the rows of each key, if it is enforced. If it raises, the changes of the relation are taken back."""
        if name not in self._unique:
            return
        try:
            self._unique[name].apply(effective)
        except BaseException:
            self._restore({name: effective})
            raise

    def refused_keys(self, name: str, net: Zset) -> tuple[np.ndarray, np.ndarray] | None:
        """Returns the enforced keys of a relation that would not have one row or none after a net, and how many rows
        they would have; see ``KeyCounts.refused``. Changes nothing. Expected O(n)."""
        goes = net.weights < 0
        if name in self._tables and self.on_missing != "trust" and goes.any():  # deletes that find nothing take nothing
            gone = net[goes]
            weights = net.weights.copy()
            weights[goes] = np.maximum(gone.weights, -self._copies(name, gone))
            net = _weighted(net, weights)
        return self._unique[name].refused(net)

    def _copies(self, name: str, net: Zset) -> np.ndarray:
        """Returns how many copies of each tuple are there, int64[n]. Expected O(n)."""
        table, stored = self._tables[name], self._stored.get(name)
        if stored is None:
            return table.of(net)[:, 0]
        copies, rest = stored.copies(net), stored.rest(net)
        if rest is not None:
            copies[rest] = table.of(net[rest])[:, 0]
        return copies

    def _let_through(self, name: str, net: Zset, missing: MissingDeletes) -> Zset:
        if name in self._keyed:
            return self._replaced(name, net, missing)
        if name not in self._tables:
            return net
        stored = self._stored.get(name)
        if stored is not None and stored.rest(net) is None:  # what goes stands before what comes
            gone = int(negatives(net.weights))
            if not gone:
                return net
            after = stored.copies(net[:gone]) + net.weights[:gone]
            if extent(after)[0] >= 0:
                return net
            after = np.concatenate([after, np.zeros(len(net) - gone, np.int64)])
        else:
            after = self._before(name, net)
            after += net.weights
            if self.on_missing == "trust" or not len(after) or extent(after)[0] >= 0:
                return net
        absent = np.maximum(-after, 0)
        effective = _weighted(net, net.weights + absent)
        if self.on_missing == "raise":
            self._restore({name: effective})
            at = int(absent.argmax())
            raise self._part.missing_delete(self._named(name), self._columns[name], net.rows[at], -int(net.weights[at]))
        missing.note(self._number[name], absent)
        return effective

    def _before(self, name: str, net: Zset) -> np.ndarray:
        """Returns the copies of each tuple before the batch (int64[n]), which is counted; 0 of one that a join stores
        and that comes."""
        table, clamp = self._tables[name], self.on_missing != "trust"
        if name not in self._stored:
            return table.add(net, np.zeros(len(net), np.int64), clamp)[:, 0]
        stored = self._stored[name]
        rest, before = stored.rest(net), np.zeros(len(net), np.int64)
        assert rest is not None, "else the join alone says it"
        goes = (net.weights < 0) & ~rest
        before[goes] = stored.copies(net[goes])
        before[rest] = table.add(net[rest], np.zeros(int(rest.sum()), np.int64), clamp)[:, 0]
        return before

    def _replaced(self, name: str, changes: Zset, missing: MissingDeletes) -> Zset:
        """Returns the rows that go and come where a relation is updated by key."""
        effective, absent = self._keyed[name].apply(changes)
        if self.on_missing == "raise" and absent.any():
            self._keyed[name].take_back()
            key = self._shown_key(name, changes, int(absent.argmax()))
            raise MissingDeleteError(
                f"relation {self._named(name)!r}: the batch deletes the row of the key {key}, but there is "
                'none; nothing was applied. Use on_missing="ignore" to count such deletes'
            )
        missing.note(self._number[name], absent.astype(np.int64))
        return effective

    def undo(self, nets: Mapping[str, Zset], missing: MissingDeletes) -> dict[str, Zset]:
        """Undoes the last batch, given what its deletes did not find; returns its nets as they took place."""
        effective = {name: keyed.take_back() for name, keyed in self._keyed.items()}
        effective |= {name: self.retained[name].take_back() for name in nets if name in self.retained}
        counted = {
            name: _weighted(net, net.weights + missing.missing(self._number[name], len(net)))
            for name, net in nets.items()
            if name not in effective
        }
        self._restore(counted)
        self._forget_keys(counted)
        return {**counted, **effective}

    def take_back(self, nets: Mapping[str, Zset]) -> None:
        """Takes back the open batch, whose nets took place. No budget stands in its way."""
        for name, keyed in self._keyed.items():
            if name in nets:
                keyed.take_back()
            else:
                keyed.forget()
        self._restore(nets)
        self._forget_keys(nets)

    def _forget_keys(self, nets: Mapping[str, Zset]) -> None:
        """Takes nets out of the relations whose rows are counted by key."""
        for name, unique in self._unique.items():
            if name in nets:
                unique.take_back(nets[name])

    def _restore(self, nets: Mapping[str, Zset]) -> None:
        """Takes nets out of the relations that are counted."""
        with self._part.budget.lifted():
            for name, net in nets.items():
                if name in self._tables:
                    own = net
                    if name in self._stored:
                        rest = self._stored[name].rest(net)
                        own = net[:0] if rest is None else net[rest]
                    self._tables[name].add(own.negated(), np.zeros(len(own), np.int64))
                elif name in self.retained:
                    self.retained[name].take_back()

    def tally(
        self, nets: Mapping[str, Zset], filtered: Mapping[str, int], missing: MissingDeletes, sign: int = 1
    ) -> None:
        """Counts what ``stats`` tells of a batch that stands, or (``sign`` -1) is undone; ``filtered``: the rows of
        relations that are in none of its ``nets``."""
        header = self._header
        for name, table in self._kept:
            if name in nets:
                n = nets[name].weights.size
                if missing:
                    header[table.table + _MISSING] += sign * int(missing.missing(self._number[name], n).sum())
                header[table.table + _UPDATES] += sign * n
        for name, rows in filtered.items():
            header[self._filtered(name)] += sign * rows

    def _filtered(self, name: str) -> int:
        """Returns the counter of the rows of a relation that nobody read."""
        return int(table_at(self._number[name])) + _FILTERED

    def _shown_key(self, name: str, net: Zset, at: int) -> dict[str, object]:
        """Returns the values of the key of a tuple."""
        key = self._key[name]
        columns = [self._columns[name][i] for i in key]
        return named_values(net.rows[at][list(key)], columns, self._part.dictionary.extern)

    def scan(self, name: str) -> Iterator[Zset]:
        """Yields the tuples of a relation that is counted, with their copies."""
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
        """Returns the columns of what ``changes`` yields of a relation; None if it is not counted, and for a window by
        arrival, whose rows do not say when they came."""
        if name in self._keyed:
            return self._keyed[name].carried
        timed = name in self.retained and not self.retained[name].window.arrival
        return self._columns[name] if timed or name in self._tables else None

    def changes(self, name: str) -> Iterator[Zset]:
        """Yields changes that lead to the relation as it is: its tuples; with upserts the tombstones, too; with a
        window together with ``reached``."""
        yield from self._keyed[name].changes() if name in self._keyed else self.scan(name)

    def reached(self, name: str) -> int | None:
        """Returns the watermark of a relation, a code; None if it has none."""
        return self.retained[name].reached() if name in self.retained else None

    def forget_counters(self) -> None:
        """Sets to zero what ``stats`` tells of the changes that came."""
        for _, table in self._kept:
            self._part.arena[table.table + _MISSING] = self._part.arena[table.table + _UPDATES] = 0
        for name in self._selected:
            self._part.arena[self._filtered(name)] = 0
        for retained in self.retained.values():
            retained.forget_counters()

    def mark_values(self) -> None:
        """Marks what the tuples refer to in the dictionary. O(state)."""
        for name, table in self._tables.items():
            self._part.mark_words(table.table, self._columns[name])
        for keyed in self._keyed.values():
            keyed.mark_values()
        for retained in self.retained.values():
            retained.mark_values()
        for name, unique in self._unique.items():
            unique.mark_values(self._columns[name])

    def check_invariants(self) -> None:
        """Raises AssertionError if a tuple is there less than once, or two with one enforced key."""
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
        """Returns per relation the distinct tuples (with a window: the rows that are in), the copies that deletes did
        not find, and the net changes ever; the rows ever that were left out because nobody reads them; what is known of
        windows; of those with upserts also the changes that were left out as too old, and the tombstones.
        """
        arena, kept, within = self._part.arena, self._kept, self.retained.items()
        missing = {name: int(arena[table.table + _MISSING]) for name, table in kept}
        updates = {name: int(arena[table.table + _UPDATES]) for name, table in kept}
        found: dict[str, dict[str, Any]] = {
            "rows": {name: len(table) + len(self._stored.get(name, ())) for name, table in kept}
            | {name: len(of) for name, of in within},
            "missing_deletes": missing | {name: of.missing_deletes for name, of in within},
            "updates": updates | {name: of.updates for name, of in within},
        }
        if self._selected:
            found["filtered"] = {name: int(arena[self._filtered(name)]) for name in self._selected}
        if self._keyed:
            found["late"] = {name: keyed.late for name, keyed in self._keyed.items()}
            found["tombstones"] = {name: keyed.tombstones for name, keyed in self._keyed.items()}
        if self.retained:
            found["windows"] = {name: of.stats() for name, of in within}
        return {what: {self._named(name): of for name, of in by.items()} for what, by in found.items()}


def _weighted(net: Zset, weights: np.ndarray) -> Zset:
    """Returns the tuples with other weights, without those of weight 0."""
    return Zset(net.rows, weights)[weights != 0]
