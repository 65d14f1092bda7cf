"""What a program takes of its base relations: which columns, and batches as nets in codes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from crown.errors import BadRowError, ChangeError, DuplicateKeyError, LateRowError
from crown.ingest.batch import PreparedBatch
from crown.ingest.changes import WEIGHT, CheckedBatch, Checker, relations_of
from crown.ingest.selection import Selection
from crown.stages.upsert_table import upserts_of
from crown.stages.windowed_table import WindowedTable
from crown.store.codec import Intern
from crown.store.display import shown
from crown.store.relations import stored_relations
from crown.store.zset import Zset, is_net
from plans.program import GroupStage, JoinStage, LinearStage, Program
from plans.reads import Parts, occurrences, only_read_by, sources
from plans.schema import Column, Table


def used_columns(program: Program, whole: bool) -> dict[str, tuple[Column, ...]]:
    """Returns per base relation (in lower case) the columns that some stage reads, in the order of the table.

    If ``whole``, all of them that have a type. Of a table with upserts, or an enforced key, those of the key are read
    in any case.
    """
    tables = {table.name.lower(): table for table in program.tables}
    used: dict[str, set[str]] = {name: set() for name in tables}
    for atom in occurrences(program):
        read = () if atom.predicate is None else atom.predicate.columns
        used[atom.relation.lower()] |= {name.lower() for name in (*atom.columns, *read)}
    for stage in program.stages:
        if isinstance(stage, JoinStage) and stage.masks is not None:
            for table in stage.plan.tables:
                used[table.name.lower()].add(stage.masks.lower())
    for name, table in tables.items():
        if table.by_key:
            used[name] |= {column.lower() for column in table.told_apart_by}
        if whole:
            used[name] |= {column.lower() for column in table.typed}
    return {name: tuple(c for c in table.columns if c.name.lower() in used[name]) for name, table in tables.items()}


def without_late(batch: CheckedBatch, retained: WindowedTable, intern: Intern) -> CheckedBatch:
    """Returns a batch in which late rows are bad ones, unless the window drops them. O(rows).

    Raises LateRowError for the first of them, if the window says so.
    """
    window, until = retained.window, retained.late_until()
    if window.counts or window.late == "drop" or not len(batch.weights):
        return batch
    late = np.flatnonzero(batch.columns.codes(window.by, intern) <= until).tolist()
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
"""Says of a net which enforced keys it breaks (see ``crown.stages.base_tables.BaseTables.refused_keys``)."""


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
        columns=batch.columns.taken(np.flatnonzero(keep)),
        weights=batch.weights[keep],
        bad={row: bad[row] for row in sorted(bad)},
        bad_rows=[texts[row] for row in sorted(bad)],
    )


class BatchPreparer:
    """Checks, codes and nets batches of base relations, of which ``used`` columns are taken.

    ``apart``: relations that those who read them net, and of which nobody looks for absent deletes: equal rows of them
    may stay apart. ``retained``: those with windows. ``selected``: those of which only rows are taken that meet the
    conditions of one who reads them. ``refused``: of those with an enforced key, which keys a net would break.
    """

    def __init__(
        self,
        tables: tuple[Table, ...],
        used: Mapping[str, tuple[Column, ...]],
        intern: Intern,
        apart: frozenset[str] = frozenset(),
        retained: Mapping[str, WindowedTable] | None = None,
        selected: Mapping[str, frozenset[Parts]] | None = None,
        refused: Mapping[str, Refused] | None = None,
    ) -> None:
        self._names = {table.name.lower(): table.name for table in tables}
        self._used = used
        self._upserts = upserts_of(tables, used)
        self._checkers = {table.name.lower(): Checker(table, self._checked(table)) for table in tables}
        self._intern = intern
        self._retained = retained or {}
        self._apart = apart - set(self._retained)
        self._refused = refused or {}
        self._taken = {table.name.lower(): self._checked(table) for table in tables}
        self._key = {table.name.lower(): table.told_apart_by for table in tables}
        self._selections = {
            name: Selection(conditions, {column.name: column.type for column in used[name]}, True)
            for name, conditions in (selected or {}).items()
        }

    def _checked(self, table: Table) -> tuple[str, ...]:
        """Returns the columns of a table that its batches need: those that are read, and the sequence of upserts."""
        upserts = self._upserts.get(table.name.lower())
        columns = self._used[table.name.lower()] if upserts is None else upserts.carried
        return tuple(dict.fromkeys(column.name for column in columns))

    def prepare(self, changes: Mapping[str, Any], strict: bool, again: bool = False) -> PreparedBatch:
        """Returns the nets of a batch. O(batch). ``again``: it was prepared before, so none of its rows is late, and
        no key is broken.

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
                known = ", ".join(sorted(self._names.values()))
                raise ChangeError(f"relation {given!r} is not part of this query, which reads: {known}")
            if name in nets:
                raise ChangeError(f"relation {given!r} occurs twice in one batch; concatenate its changes")
            batch = self._checkers[name].check(data)
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
        """Returns the net of a relation; ``filtered`` gets the number of its rows that nobody reads."""
        given, weights, rows = batch.columns, batch.weights, None
        if name in self._selections and len(weights):
            rows = self._selections[name].rows(given, len(weights), self._intern)
            if rows is not None:
                filtered[name] = len(weights) - len(rows)
                given, weights = given.taken(rows), weights[rows]
        codes = np.empty((len(self._taken[name]), len(weights)), np.int64)
        nulls = given.encode(self._names[name], self._taken[name], self._intern, codes, rows)
        net = Zset(codes.T, weights, nulls=nulls)
        if name in self._upserts:
            return self._upserts[name].last(net)
        if name in self._retained and self._retained[name].window.arrival:
            return net  # the order of its rows means something
        # Equal inserts of a batch without deletes may stay apart, too.
        return net if name in self._apart or is_net(net.weights) else net.net()


SUMMING = (GroupStage, JoinStage)
"""Stages that take rows of other stages as they come: groups add them up, and joins net them."""


def added_relations(program: Program) -> frozenset[str]:
    """Returns the relations (in lower case) whose rows need not be net: groups alone read them, which add them up, or
    linear stages whose own rows need not be net either."""
    readers: dict[str, set[bool]] = {}
    for number, stage in enumerate(program.stages):
        passing = isinstance(stage, LinearStage) and only_read_by(program, number, SUMMING)
        for source in sources(stage):
            if isinstance(source, str):
                readers.setdefault(source.lower(), set()).add(passing or isinstance(stage, GroupStage))
    return frozenset(name for name, found in readers.items() if found == {True})


def netted_by_joins(program: Program) -> frozenset[str]:
    """Returns the relations (in lower case) that one join stage alone reads, as one stored relation: it nets what it
    takes of them, so nobody before it has to. None with an enforced key, whose nets are looked at."""
    found: set[str] = set()
    for stage in program.stages:
        if isinstance(stage, JoinStage) and stage.plan.count is None:
            stored = Counter(relation.name.lower() for relation in stored_relations(stage.plan))
            found |= {name for name, times in stored.items() if times == 1}
    reads = Counter(s.lower() for stage in program.stages for s in sources(stage) if isinstance(s, str))
    return frozenset(t.name.lower() for t in program.tables if not t.by_key and reads[t.name.lower()] == 1) & found
