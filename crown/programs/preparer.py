"""Prepares batches for a program: checks them, reads the columns that the program needs, and nets the rows in codes."""

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
from crown.ingest.tables.given import HashPartition, Scanned, Test
from crown.stages.tables.base_tables import BaseTables
from crown.stages.tables.upsert_table import upserts_of
from crown.stages.tables.windowed_table import WindowedTable
from crown.store.codec import Intern, uses_dictionary
from crown.store.display import shown
from crown.store.zset import Zset, is_net
from plans.expressions.expr import Expr
from plans.programs.wiring import Wires
from plans.schema import Table


def reject_late_rows(batch: CheckedBatch, table: WindowedTable, intern: Intern) -> CheckedBatch:
    """Rejects the late rows of a batch, unless the window drops them. O(rows).

    Raises LateRowError for the first late row if the window is declared so.
    """
    window, late_until = table.window, table.late_until()
    if window.counts or window.late == "drop" or not len(batch.weights):
        return batch
    rows = _positions(batch) if batch.bad else None
    late = np.flatnonzero(batch.columns.coded(window.relation, window.by, intern, rows) <= late_until).tolist()
    array = batch.columns[window.by]
    reasons = {
        row: f"column {window.by!r}: {shown(array[row])} is late: the watermark is {table.watermark()}" for row in late
    }
    if reasons and window.late == "raise":
        row, reason = next(iter(reasons.items()))
        raise LateRowError(window.relation, int(_positions(batch)[row]), reason)
    return _reject_rows(batch, reasons)


FindBrokenKeys = Callable[[Zset], tuple[np.ndarray, np.ndarray] | None]
"""Returns the enforced keys that a net breaks (see ``crown.stages.tables.base_tables.BaseTables.refused_keys``)."""


def broken_key_changes(
    batch: CheckedBatch, key: Sequence[str], broken: tuple[np.ndarray, np.ndarray], intern: Intern
) -> Iterator[tuple[int, str]]:
    """Yields the changes of ``broken`` keys: their positions among the accepted rows, ascending, with the reason.

    O(rows), plus some Python per yielded row.
    """
    counts = dict(zip(map(tuple, broken[0].tolist()), broken[1].tolist(), strict=True))
    columns = [batch.columns.codes(name, intern) for name in key]
    candidates = np.logical_and.reduce([np.isin(codes, broken[0][:, i]) for i, codes in enumerate(columns)])
    for row in np.flatnonzero(candidates).tolist():
        n = counts.get(tuple(int(codes[row]) for codes in columns))
        if n is not None:
            key_text = ", ".join(f"{name}={shown(batch.columns[name][row])!r}" for name in key)
            if n > 0:
                why, remedy = f"{n} rows would have it", "delete the old row in the same batch, or declare upserts"
            else:
                why, remedy = (
                    "the batch deletes a row with this key that does not exist",
                    "delete the row with the values that were inserted",
                )
            yield row, f"the key {key_text} is enforced, and {why}: all changes of this key are rejected; {remedy}"


def _positions(batch: CheckedBatch) -> np.ndarray:
    """Returns the positions of the accepted rows of a batch in its input, int64[n]."""
    return np.setdiff1d(np.arange(len(batch.weights) + len(batch.bad)), list(batch.bad))


def _reject_rows(batch: CheckedBatch, reasons: Mapping[int, str]) -> CheckedBatch:
    """Rejects rows of a batch. ``reasons``: by position among the accepted rows."""
    if not reasons:
        return batch
    keep = np.ones(len(batch.weights), bool)
    keep[list(reasons)] = False
    positions = _positions(batch)
    row_texts = dict(zip(sorted(batch.bad), batch.bad_rows, strict=True))
    for row in reasons:
        values = {name: shown(array[row]) for name, array in batch.columns.items()}
        row_texts[int(positions[row])] = json.dumps({**values, WEIGHT: int(batch.weights[row])}, default=str)
    bad = {**batch.bad, **{int(positions[row]): reason for row, reason in reasons.items()}}
    return replace(
        batch,
        scanned=None,
        columns=batch.columns.taken(np.flatnonzero(keep)),
        weights=batch.weights[keep],
        bad={row: bad[row] for row in sorted(bad)},
        bad_rows=[row_texts[row] for row in sorted(bad)],
    )


class BatchPreparer:
    """Checks, encodes and nets batches of base relations. Reads the columns and rows that ``wires`` describe.

    ``base_tables``: find late rows and broken keys, if given. ``partitions``: by relation, the rows of this cell; the
    rows of other cells are checked, and left out.
    """

    def __init__(
        self,
        tables: tuple[Table, ...],
        wires: Wires,
        intern: Intern,
        base_tables: BaseTables | None = None,
        partitions: Mapping[str, HashPartition] = MappingProxyType({}),
    ) -> None:
        base = {name: wire for name, wire in wires.items() if isinstance(name, str)}
        self._names = {table.name.lower(): table.name for table in tables}
        self._read_columns = {name: wire.columns for name, wire in base.items()}
        self._upserts = upserts_of(tables, self._read_columns)
        self._intern = intern
        self._windows = {} if base_tables is None else base_tables.retained
        self._may_repeat = {name for name, wire in base.items() if wire.may_repeat and name not in self._windows}
        self._find_broken_keys: dict[str, FindBrokenKeys] = {}
        if base_tables is not None:
            self._find_broken_keys = {name: partial(base_tables.refused_keys, name) for name in base_tables.enforced}
        kinds = {table.name.lower(): {c.name: c.type for c in table.columns} for table in tables}
        self._columns = {table.name.lower(): self._columns_of(table) for table in tables}
        self._interned = {
            name: [(i, column) for i, column in enumerate(of) if uses_dictionary(kinds[name][column])]
            for name, of in self._columns.items()
        }
        self._key = {table.name.lower(): table.told_apart_by for table in tables}
        self._selections = {
            name: Selection(wire.conditions, {column.name: column.type for column in wire.columns}, True)
            for name, wire in base.items()
            if wire.conditions
        }
        self._partitions = partitions
        self._checkers = {
            name: Checker(table, self._columns_of(table), self._tests(name), partitions.get(name))
            for name, table in zip(self._names, tables, strict=True)
        }

    def _tests(self, name: str) -> Sequence[Sequence[Test]]:
        """Returns the tests of the rows of a relation that a scan evaluates."""
        return self._selections[name].tests if name in self._selections else ()

    def _columns_of(self, table: Table) -> tuple[str, ...]:
        """Returns the columns of a table that its batches need: those that are read, and the sequence of upserts."""
        upserts = self._upserts.get(table.name.lower())
        columns = self._read_columns[table.name.lower()] if upserts is None else upserts.carried
        return tuple(dict.fromkeys(column.name for column in columns))

    def prepare(
        self, changes: Mapping[str, Any], strict: bool, again: bool = False, known: PreparedBatch | None = None
    ) -> PreparedBatch:
        """Returns the nets of a batch. O(batch).

        ``again``: the batch was prepared before, so late rows and broken keys are not checked. ``known``: the same
        batch, prepared by another cell. Raises ChangeError (unknown relation, not a table) and, if ``strict``,
        BadRowError for the first bad row.
        """
        nets: dict[str, Zset] = {}
        advances: dict[str, int] = {}
        filtered: dict[str, int] = {}
        checked: dict[str, CheckedBatch] = {}
        rows = 0
        for relation, data in relations_of(changes).items():
            name = relation.lower()
            if name not in self._checkers:
                names = ", ".join(sorted(self._names.values()))
                raise ChangeError(f"relation {relation!r} is not part of this query, which reads: {names}")
            if name in nets:
                raise ChangeError(f"relation {relation!r} occurs twice in one batch; concatenate its changes")
            batch = self._checkers[name].check(data) if known is None else self._known_batch(name, data, known)
            if name in self._windows and not again:
                batch = reject_late_rows(batch, self._windows[name], self._intern)
            if batch.bad and strict:
                row, reason = next(iter(batch.bad.items()))
                raise BadRowError(self._names[name], row, reason)
            nets[name] = self._net(name, batch, filtered)
            if name in self._find_broken_keys and not again:
                batch, nets[name] = self._reject_broken_keys(name, batch, nets[name], strict)
            checked[self._names[name]] = batch
            rows += len(batch.weights)
            if batch.watermark is not None:
                advances[name] = batch.watermark
        return PreparedBatch(nets, rows, checked, advances, filtered)

    def _known_batch(self, name: str, data: Any, known: PreparedBatch) -> CheckedBatch:
        """Returns the batch of a relation that another cell has checked.

        Repeats only a scan, which reads the rows of one cell.
        """
        batch = known.taken[self._names[name]]
        return batch if batch.scanned is None else self._checkers[name].check(data)

    def unscanned(self, changes: Mapping[str, Any]) -> PreparedBatch | None:
        """Returns a batch that the native call will scan; None if it must be checked first. O(columns).

        Raises ChangeError as ``prepare`` does.
        """
        batches, rows, names = list[Unscanned](), 0, set[str]()
        for relation, data in relations_of(changes).items():
            checker = self._checkers.get(relation.lower())
            one = None if checker is None else checker.unscanned(data)
            if one is None:
                return None
            batches.append(one)
            names.add(one.name)
            rows += one.batch.num_rows
        if not batches or len(names) < len(batches):
            return None
        return PreparedBatch({}, rows, {}, {}, {}, unscanned=tuple(batches))

    def untested_condition(self, name: str) -> Expr | None:
        """Returns the condition on the rows of a relation, unless a scan tests all of it."""
        selection = self._selections.get(name)
        return None if selection is None or selection.exact else selection.condition

    def _reject_broken_keys(self, name: str, batch: CheckedBatch, net: Zset, strict: bool) -> tuple[CheckedBatch, Zset]:
        """Returns a batch without the changes that break enforced keys, and its net.

        Raises DuplicateKeyError for the first of them if ``strict``.
        """
        broken = self._find_broken_keys[name](net)
        if broken is None:
            return batch, net
        changes = broken_key_changes(batch, self._key[name], broken, self._intern)
        if strict:
            row, reason = next(changes)
            raise DuplicateKeyError(self._names[name], int(_positions(batch)[row]), reason)
        accepted = _reject_rows(batch, dict(changes))
        return accepted, self._net(name, accepted, {})

    def _net(self, name: str, batch: CheckedBatch, filtered: dict[str, int]) -> Zset:
        """Returns the net of a relation. ``filtered`` receives the number of its rows that no stage reads."""
        if batch.scanned is not None:
            net = self._scanned(name, batch, batch.scanned, filtered)
        else:
            net = self._coded(name, batch, filtered)
        if name in self._upserts:
            return self._upserts[name].last(net)
        if name in self._windows and self._windows[name].window.arrival:
            return net  # the order of its rows matters
        # Equal inserts of a batch without deletes may stay separate, too.
        return net if name in self._may_repeat or is_net(net.weights) else net.net()

    def _scanned(self, name: str, batch: CheckedBatch, scanned: Scanned, filtered: dict[str, int]) -> Zset:
        """Returns the rows of a scanned batch. Encodes the columns that use the dictionary."""
        codes, weights, rows, nulls, other_cells = scanned
        columns = batch.columns if rows is None else batch.columns.taken(rows)
        if name in self._selections and not self._selections[name].exact:
            selected = self._selections[name].rows(columns, len(weights), self._intern)
            if selected is not None:
                codes, weights, columns = codes.take(selected, axis=1), weights[selected], columns.taken(selected)
                rows = selected if rows is None else rows[selected]
        if rows is not None:
            filtered[name] = len(batch.weights) - other_cells - len(rows)
        for i, column in self._interned[name]:
            codes[i] = columns.coded(self._names[name], column, self._intern, rows)
            nulls = nulls or batch.columns.null_count(column) > 0
        return Zset(codes.T, weights, nulls=nulls)

    def _coded(self, name: str, batch: CheckedBatch, filtered: dict[str, int]) -> Zset:
        """Returns the rows of a batch that the program reads, in codes."""
        columns, weights, rows = batch.columns, batch.weights, None
        if name in self._partitions and len(weights):
            rows = self._partitions[name].rows(columns, len(weights))
            columns, weights = columns.taken(rows), weights[rows]
        if name in self._selections and len(weights):
            selected = self._selections[name].rows(columns, len(weights), self._intern)
            if selected is not None:
                filtered[name] = len(weights) - len(selected)
                columns, weights = columns.taken(selected), weights[selected]
                rows = selected if rows is None else rows[selected]
        codes = np.empty((len(self._columns[name]), len(weights)), np.int64)
        nulls = columns.encode(self._names[name], self._columns[name], self._intern, codes, rows)
        return Zset(codes.T, weights, nulls=nulls)
