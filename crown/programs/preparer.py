"""Prepares batches for a program: reads its columns, and nets the rows in codes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from crown.errors import BadRowError, ChangeError, DuplicateKeyError, LateRowError
from crown.ingest.batch import PreparedBatch
from crown.ingest.changes import WEIGHT, CheckedBatch, Checker, Unscanned, relations_of
from crown.ingest.selection import Selection
from crown.ingest.tables.given import Dealt, Scanned, Test
from crown.stages.tables.base_tables import BaseTables
from crown.stages.tables.upsert_table import upserts_of
from crown.stages.tables.windowed_table import WindowedTable
from crown.store.codec import Intern, uses_dictionary
from crown.store.display import shown
from crown.store.zset import Zset, is_net
from plans.expressions.expr import Expr
from plans.programs.wiring import Wires
from plans.schema import Table


def without_late(batch: CheckedBatch, retained: WindowedTable, intern: Intern) -> CheckedBatch:
    """Returns a batch in which late rows are bad ones, unless the window drops them. O(rows).

    Raises LateRowError for the first of them, if the window says so.
    """
    window, until = retained.window, retained.late_until()
    if window.counts or window.late == "drop" or not len(batch.weights):
        return batch
    rows = _positions(batch) if batch.bad else None
    late = np.flatnonzero(batch.columns.coded(window.relation, window.by, intern, rows) <= until).tolist()
    array = batch.columns[window.by]
    reasons = {
        row: f"column {window.by!r}: {shown(array[row])} is late: the watermark is {retained.watermark()}"
        for row in late
    }
    if reasons and window.late == "raise":
        row, reason = next(iter(reasons.items()))
        raise LateRowError(window.relation, int(_positions(batch)[row]), reason)
    return _without(batch, reasons)


Refused = Callable[[Zset], tuple[np.ndarray, np.ndarray] | None]
"""Says of a net which enforced keys it breaks (see ``crown.stages.tables.base_tables.BaseTables.refused_keys``)."""


def broken_keys(
    batch: CheckedBatch, key: Sequence[str], found: tuple[np.ndarray, np.ndarray], intern: Intern
) -> Iterator[tuple[int, str]]:
    """Yields the changes of enforced keys that are broken (``found``): their places among the usable rows, rising, with
    the reason. O(rows), and some Python per row that is yielded."""
    after = dict(zip(map(tuple, found[0].tolist()), found[1].tolist(), strict=True))
    columns = [batch.columns.codes(name, intern) for name in key]
    near = np.logical_and.reduce([np.isin(codes, found[0][:, i]) for i, codes in enumerate(columns)])
    for row in np.flatnonzero(near).tolist():
        n = after.get(tuple(int(codes[row]) for codes in columns))
        if n is not None:
            said = ", ".join(f"{name}={shown(batch.columns[name][row])!r}" for name in key)
            if n > 0:
                why, remedy = f"{n} rows would have it", "delete the old row in the same batch, or declare upserts"
            else:
                why, remedy = "the batch deletes a row with it that is not there", "name the row as it was inserted"
            yield row, f"the key {said} is enforced, and {why}: all changes of this key are rejected; {remedy}"


def _positions(batch: CheckedBatch) -> np.ndarray:
    """Returns where the usable rows of a batch were in what came, int64[n]."""
    return np.setdiff1d(np.arange(len(batch.weights) + len(batch.bad)), list(batch.bad))


def _without(batch: CheckedBatch, reasons: Mapping[int, str]) -> CheckedBatch:
    """Returns a batch in which more rows are bad ones: those with reasons, by their places among the usable ones."""
    if not reasons:
        return batch
    keep = np.ones(len(batch.weights), bool)
    keep[list(reasons)] = False
    given = _positions(batch)
    texts = dict(zip(sorted(batch.bad), batch.bad_rows, strict=True))
    for row in reasons:
        values = {name: shown(array[row]) for name, array in batch.columns.items()}
        texts[int(given[row])] = json.dumps({**values, WEIGHT: int(batch.weights[row])}, default=str)
    bad = {**batch.bad, **{int(given[row]): reason for row, reason in reasons.items()}}
    return replace(
        batch,
        scanned=None,
        columns=batch.columns.taken(np.flatnonzero(keep)),
        weights=batch.weights[keep],
        bad={row: bad[row] for row in sorted(bad)},
        bad_rows=[texts[row] for row in sorted(bad)],
    )


class BatchPreparer:
    """Checks, codes and nets batches of base relations, of which those columns and rows are taken that ``wires`` say.

    ``base_tables``: of a program that has some, which know late rows and broken keys. ``dealt``: by relation, the rows
    of the cell, if there are several cells; the others are checked, and left out.
    """

    def __init__(
        self,
        tables: tuple[Table, ...],
        wires: Wires,
        intern: Intern,
        base_tables: BaseTables | None = None,
        dealt: Mapping[str, Dealt] = MappingProxyType({}),
    ) -> None:
        base = {name: wire for name, wire in wires.items() if isinstance(name, str)}
        self._names = {table.name.lower(): table.name for table in tables}
        self._used = {name: wire.columns for name, wire in base.items()}
        self._upserts = upserts_of(tables, self._used)
        self._intern = intern
        self._retained = {} if base_tables is None else base_tables.retained
        self._apart = {name for name, wire in base.items() if wire.may_repeat and name not in self._retained}
        self._refused: dict[str, Refused] = {}
        if base_tables is not None:
            self._refused = {name: partial(base_tables.refused_keys, name) for name in base_tables.enforced}
        kinds = {table.name.lower(): {c.name: c.type for c in table.columns} for table in tables}
        self._taken = {table.name.lower(): self._checked(table) for table in tables}
        self._interned = {
            name: [(i, column) for i, column in enumerate(of) if uses_dictionary(kinds[name][column])]
            for name, of in self._taken.items()
        }
        self._key = {table.name.lower(): table.told_apart_by for table in tables}
        self._selections = {
            name: Selection(wire.conditions, {column.name: column.type for column in wire.columns}, True)
            for name, wire in base.items()
            if wire.conditions
        }
        self._dealt = dealt
        self._checkers = {
            name: Checker(table, self._checked(table), self._tests(name), dealt.get(name))
            for name, table in zip(self._names, tables, strict=True)
        }

    def _tests(self, name: str) -> Sequence[Sequence[Test]]:
        """Returns what a scan tests of the rows of a relation."""
        return self._selections[name].tests if name in self._selections else ()

    def _checked(self, table: Table) -> tuple[str, ...]:
        """Returns the columns of a table that its batches need: those that are read, and the sequence of upserts."""
        upserts = self._upserts.get(table.name.lower())
        columns = self._used[table.name.lower()] if upserts is None else upserts.carried
        return tuple(dict.fromkeys(column.name for column in columns))

    def prepare(
        self, changes: Mapping[str, Any], strict: bool, again: bool = False, known: PreparedBatch | None = None
    ) -> PreparedBatch:
        """Returns the nets of a batch. O(batch). ``again``: it was prepared before, so none of its rows is late, and
        no key is broken. ``known``: the same batch, as another cell has prepared it.

        Raises ChangeError (unknown relation, not a table) and, if ``strict``, BadRowError for the first bad row.
        """
        nets: dict[str, Zset] = {}
        advances: dict[str, int] = {}
        filtered: dict[str, int] = {}
        checked: dict[str, CheckedBatch] = {}
        rows = 0
        for given, data in relations_of(changes).items():
            name = given.lower()
            if name not in self._checkers:
                names = ", ".join(sorted(self._names.values()))
                raise ChangeError(f"relation {given!r} is not part of this query, which reads: {names}")
            if name in nets:
                raise ChangeError(f"relation {given!r} occurs twice in one batch; concatenate its changes")
            batch = self._checkers[name].check(data) if known is None else self._again(name, data, known)
            if name in self._retained and not again:
                batch = without_late(batch, self._retained[name], self._intern)
            if batch.bad and strict:
                row, reason = next(iter(batch.bad.items()))
                raise BadRowError(self._names[name], row, reason)
            nets[name] = self._net(name, batch, filtered)
            if name in self._refused and not again:
                batch, nets[name] = self._without_broken(name, batch, nets[name], strict)
            checked[self._names[name]] = batch
            rows += len(batch.weights)
            if batch.watermark is not None:
                advances[name] = batch.watermark
        return PreparedBatch(nets, rows, checked, advances, filtered)

    def _again(self, name: str, data: Any, known: PreparedBatch) -> CheckedBatch:
        """Returns the batch of a relation that another cell has checked. Only a scan is repeated: it reads the rows of
        the cell."""
        batch = known.taken[self._names[name]]
        return batch if batch.scanned is None else self._checkers[name].check(data)

    def unscanned(self, changes: Mapping[str, Any]) -> PreparedBatch | None:
        """Returns a batch that is scanned when it is applied; None if it has to be checked first. O(columns).

        Raises ChangeError as ``prepare`` does.
        """
        found, rows, names = list[Unscanned](), 0, set[str]()
        for given, data in relations_of(changes).items():
            checker = self._checkers.get(given.lower())
            one = None if checker is None else checker.unscanned(data)
            if one is None:
                return None
            found.append(one)
            names.add(one.name)
            rows += one.batch.num_rows
        if not found or len(names) < len(found):
            return None
        return PreparedBatch({}, rows, {}, {}, {}, unscanned=tuple(found))

    def left_to_test(self, name: str) -> Expr | None:
        """Returns the condition on the rows of a relation, unless a scan tests all of it."""
        found = self._selections.get(name)
        return None if found is None or found.exact else found.condition

    def _without_broken(self, name: str, batch: CheckedBatch, net: Zset, strict: bool) -> tuple[CheckedBatch, Zset]:
        """Returns a batch without the changes of enforced keys that it would break, and the net of the rest.

        Raises DuplicateKeyError for the first of them, if ``strict``.
        """
        found = self._refused[name](net)
        if found is None:
            return batch, net
        broken = broken_keys(batch, self._key[name], found, self._intern)
        if strict:
            row, reason = next(broken)
            raise DuplicateKeyError(self._names[name], int(_positions(batch)[row]), reason)
        rest = _without(batch, dict(broken))
        return rest, self._net(name, rest, {})

    def _net(self, name: str, batch: CheckedBatch, filtered: dict[str, int]) -> Zset:
        """Returns the net of a relation; ``filtered`` gets the number of its rows that nothing reads."""
        if batch.scanned is not None:
            net = self._scanned(name, batch, batch.scanned, filtered)
        else:
            net = self._coded(name, batch, filtered)
        if name in self._upserts:
            return self._upserts[name].last(net)
        if name in self._retained and self._retained[name].window.arrival:
            return net  # the order of its rows means something
        # Equal inserts of a batch without deletes may stay apart, too.
        return net if name in self._apart or is_net(net.weights) else net.net()

    def _scanned(self, name: str, batch: CheckedBatch, scanned: Scanned, filtered: dict[str, int]) -> Zset:
        """Returns the rows of a batch that was scanned, with codes of what uses the dictionary."""
        codes, weights, rows, nulls, others = scanned
        given = batch.columns if rows is None else batch.columns.taken(rows)
        if name in self._selections and not self._selections[name].exact:
            kept = self._selections[name].rows(given, len(weights), self._intern)
            if kept is not None:
                codes, weights, given = codes.take(kept, axis=1), weights[kept], given.taken(kept)
                rows = kept if rows is None else rows[kept]
        if rows is not None:
            filtered[name] = len(batch.weights) - others - len(rows)
        for i, column in self._interned[name]:
            codes[i] = given.coded(self._names[name], column, self._intern, rows)
            nulls = nulls or batch.columns.null_count(column) > 0
        return Zset(codes.T, weights, nulls=nulls)

    def _coded(self, name: str, batch: CheckedBatch, filtered: dict[str, int]) -> Zset:
        """Returns the rows of a batch that are read, in codes."""
        given, weights, rows = batch.columns, batch.weights, None
        if name in self._dealt and len(weights):
            rows = self._dealt[name].rows(given, len(weights))
            given, weights = given.taken(rows), weights[rows]
        if name in self._selections and len(weights):
            kept = self._selections[name].rows(given, len(weights), self._intern)
            if kept is not None:
                filtered[name] = len(weights) - len(kept)
                given, weights, rows = given.taken(kept), weights[kept], kept if rows is None else rows[kept]
        codes = np.empty((len(self._taken[name]), len(weights)), np.int64)
        nulls = given.encode(self._names[name], self._taken[name], self._intern, codes, rows)
        return Zset(codes.T, weights, nulls=nulls)
