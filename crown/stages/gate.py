"""The gate: the one place of a program that decides what a delete finds.

Several stages may read one relation, each with columns of its own. If each decided for itself what a delete of an
absent row takes away, they would part for ever. So the gate counts the copies of every tuple, over all columns that
some stage reads, and lets through what took place. Of a relation with a window it knows the rows that are within, and
lets through what leaves as well (``crown.stages.retained``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from crown.ingest.batch import MissingDeletes
from crown.kernels.arena import T_TALLIES
from crown.kernels.batches import extent
from crown.kernels.tables import table_at
from crown.stages.counts import Counts
from crown.stages.protocol import Part
from crown.stages.retained import Retained
from crown.store.zset import Zset
from plans.schema import Column
from plans.windows import Window

_MISSING, _UPDATES = T_TALLIES, T_TALLIES + 1  # counters of a table


class Gate:
    """Counts the tuples of relations; ``columns``: of each (by name in lower case), those that are read.

    ``on_missing``: ``"ignore"`` takes away what is there, ``"raise"`` refuses the batch, ``"trust"`` lets everything
    through; then only the relations in ``kept`` are counted at all. ``windows``: of relations that have one.
    """

    def __init__(
        self,
        part: Part,
        columns: Mapping[str, tuple[Column, ...]],
        on_missing: str,
        kept: frozenset[str],
        windows: Sequence[Window] = (),
    ) -> None:
        self.on_missing = on_missing
        self.missing = MissingDeletes()  # of the last batch
        self._part = part
        self._columns = columns
        part.open(len(columns))
        self._number = {name: i for i, name in enumerate(columns)}
        own = {window.relation.lower(): window for window in windows}
        self.retained = {
            name: Retained(part, int(table_at(self._number[name])), columns[name], window)
            for name, window in own.items()
        }
        self._tables = {
            name: Counts(part, i, len(of))
            for i, (name, of) in enumerate(columns.items())
            if name not in own and (on_missing != "trust" or name in kept)
        }

    def apply(self, nets: Mapping[str, Zset], advances: Mapping[str, int]) -> dict[str, Zset]:
        """Returns the nets as they take place, with what leaves its window. O(tuples), with windows O(log n) each.

        ``advances``: watermarks that are reached at least. Raises MissingDeleteError, if deletes that find nothing are
        to be refused, and MemoryBudgetError; nothing has changed then.
        """
        missing, done = MissingDeletes(), {}
        try:
            for name, net in nets.items():
                if name in self.retained:
                    strict = self.on_missing == "raise"
                    done[name] = self.retained[name].apply(net, advances.get(name), strict)
                else:
                    done[name] = self._let_through(name, net, missing)
        except BaseException:
            self.take_back(done)
            raise
        self._tally(nets, missing, 1)
        self.missing = missing
        return done

    def _let_through(self, name: str, net: Zset, missing: MissingDeletes) -> Zset:
        if name not in self._tables:
            return net
        table, leaf = self._tables[name], np.zeros(len(net), np.int64)
        trusted = self.on_missing == "trust"
        before = table.add(net, leaf, clamp=not trusted)[:, 0]
        after = before + net.weights
        if trusted or not len(after) or extent(after)[0] >= 0:
            return net
        absent = np.maximum(-after, 0)
        effective = _weighted(net, net.weights + absent)
        if self.on_missing == "raise":
            self.take_back({name: effective})
            at = int(absent.argmax())
            raise self._part.missing_delete(name, self._columns[name], net.rows[at], -int(net.weights[at]))
        missing.note(self._number[name], absent)
        return effective

    def undo(self, nets: Mapping[str, Zset], missing: MissingDeletes) -> dict[str, Zset]:
        """Undoes the last batch, given what its deletes did not find; returns its nets as they took place."""
        effective = {
            name: _weighted(net, net.weights + missing.missing(self._number[name], len(net)))
            for name, net in nets.items()
            if name not in self.retained
        }
        self.take_back(effective)
        self._tally(nets, missing, -1)
        return effective | {name: self.retained[name].take_back() for name in nets if name in self.retained}

    def take_back(self, nets: Mapping[str, Zset]) -> None:
        """Undoes nets that took place. No budget stands in its way."""
        with self._part.budget.lifted():
            for name, net in nets.items():
                if name in self._tables:
                    self._tables[name].add(net.negated(), np.zeros(len(net), np.int64))
                elif name in self.retained:
                    self.retained[name].take_back()

    def _tally(self, nets: Mapping[str, Zset], missing: MissingDeletes, sign: int) -> None:
        """Counts what ``stats`` tells."""
        for name, table in self._tables.items():
            if name in nets:
                n, arena = len(nets[name]), self._part.arena
                if missing:
                    arena[table.table + _MISSING] += sign * int(missing.missing(self._number[name], n).sum())
                arena[table.table + _UPDATES] += sign * n

    def scan(self, name: str) -> Iterator[Zset]:
        """Yields the tuples of a relation that is counted, with their copies."""
        if name in self.retained:
            yield from self.retained[name].scan()
            return
        for rows, counts in self._tables[name].scan():
            yield Zset(rows, counts[:, 0])

    def mark_values(self) -> None:
        """Marks what the tuples refer to in the dictionary. O(state)."""
        for name, table in self._tables.items():
            self._part.mark_words(table.table, self._columns[name])
        for retained in self.retained.values():
            retained.mark_values()

    def check_invariants(self) -> None:
        """Raises AssertionError if a tuple is there less than once."""
        for name in self._tables:
            for net in self.scan(name):
                assert self.on_missing == "trust" or (net.weights > 0).all(), f"a tuple of {name} has no copy"
        for retained in self.retained.values():
            retained.check_invariants()

    def stats(self) -> dict[str, dict[str, Any]]:
        """Returns per relation the distinct tuples (with a window: the rows that are in), the copies that deletes did
        not find, and the net changes ever; and what is known of windows."""
        arena, kept = self._part.arena, self.retained.items()
        missing = {name: int(arena[table.table + _MISSING]) for name, table in self._tables.items()}
        updates = {name: int(arena[table.table + _UPDATES]) for name, table in self._tables.items()}
        told = {
            "rows": {name: len(table) for name, table in self._tables.items()} | {name: len(of) for name, of in kept},
            "missing_deletes": missing | {name: of.missing_deletes for name, of in kept},
            "updates": updates | {name: of.updates for name, of in kept},
        }
        return {**told, "windows": {name: of.stats() for name, of in kept}} if kept else told


def _weighted(net: Zset, weights: np.ndarray) -> Zset:
    """Returns the tuples with other weights, without those of weight 0."""
    return Zset(net.rows, weights)[weights != 0]
