"""From checked changes to what the kernels take: projected, filtered, coded, consolidated tuples of each source.

Rows that a predicate rejects, or that have NULL in a join attribute, can never take part in a result and stop here.
Work that several aliases of a self-join share is done once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crown.changes import CheckedBatch, check
from crown.codec import NULL, Intern, UnencodableError, encode
from crown.errors import BadRowError, ChangeError
from crown.kernels.batches import consolidate, pick
from crown.sources import Alias, Source, sources_of
from plans.plan import Plan
from plans.schema import Table

EVERY = np.full(1, -1, np.int64)  # the mask of tuples that every alias reads


@dataclass(frozen=True)
class Rows:
    """Distinct tuples of one source and one sign: ``values`` int64[n * width] row-major, ``weights`` int64[n] > 0.

    ``masks`` int64[n], or ``EVERY`` for all: bit ``i`` says that alias ``i`` of the source reads the tuple.
    """

    values: np.ndarray
    weights: np.ndarray
    masks: np.ndarray = field(default_factory=lambda: EVERY)

    def __len__(self) -> int:
        return len(self.weights)

    def table(self) -> np.ndarray:
        """The tuples as int64[n, width]."""
        return self.values.reshape(len(self), -1) if len(self) else self.values.reshape(0, 0)

    def chosen(self, keep: np.ndarray | slice, masks: np.ndarray | None = None) -> Rows:
        """The tuples where ``keep`` (bool[n], or a slice) says so; with ``masks`` (int64[n]) as their masks."""
        if masks is None:
            masks = self.masks if self.masks is EVERY else self.masks[keep]
        return Rows(np.ascontiguousarray(self.table()[keep]).reshape(-1), self.weights[keep], masks)

    def head(self, n: int) -> Rows:
        """The first ``n`` tuples."""
        return self.chosen(slice(n)) if n < len(self) else self

    def read_by(self, bit: int) -> np.ndarray:
        """bool[n]: alias ``bit`` reads the tuple."""
        return np.broadcast_to((self.masks >> bit & 1).astype(bool), len(self))


@dataclass(frozen=True)
class SourceChange:
    """Net changes of a source. ``filtered[i]``: rows that predicate or NULL kept from alias ``i``."""

    source: Source
    deletes: Rows
    inserts: Rows
    filtered: tuple[int, ...]

    def inverse(self) -> SourceChange:
        """The change that takes this one back."""
        return SourceChange(self.source, self.inserts, self.deletes, self.filtered)

    def of_aliases(self, sign: int) -> Iterable[tuple[Alias, Rows]]:
        """What each alias reads of the deletes (``sign`` -1) or inserts, its tuples in the order of its attributes."""
        rows = self.deletes if sign < 0 else self.inserts
        for bit, alias in enumerate(self.source.aliases):
            mine = rows if rows.masks is EVERY else rows.chosen(rows.read_by(bit), EVERY)
            if alias.words != tuple(range(self.source.width)) and len(mine):
                mine = Rows(np.ascontiguousarray(mine.table()[:, alias.words]).reshape(-1), mine.weights)
            yield alias, mine


class Clamps:
    """What deletes of a batch did not find: per change (position in ``Prepared.changes``) and row, the missing copies.

    A batch can be taken back only if these are known, so they are kept with it (``to_rows`` / ``from_rows``:
    JSON-able).
    """

    def __init__(self) -> None:
        self._missing: dict[int, dict[int, int]] = {}

    def note(self, change: int, missing: np.ndarray) -> None:
        """Remember the non-zero entries of ``missing`` (int64 per delete of that change)."""
        self._missing[change] = {int(i): int(missing[i]) for i in np.flatnonzero(missing)}

    def effective(self, change: int, deletes: Rows) -> Rows:
        """The deletes as they took place."""
        found = self._missing.get(change)
        if not found:
            return deletes
        weights = deletes.weights.copy()
        weights[list(found)] -= np.array(list(found.values()))
        return Rows(deletes.values, weights, deletes.masks).chosen(weights > 0)

    def missing(self, change: int, deletes: int) -> np.ndarray:
        """Missing copies (int64) of each of that many deletes of a change."""
        found = self._missing.get(change, {})
        out = np.zeros(deletes, np.int64)
        out[list(found)] = list(found.values())
        return out

    def __bool__(self) -> bool:
        return bool(self._missing)

    def to_rows(self) -> list[list[int]]:
        """[change, row, missing] triples."""
        return [[c, r, m] for c, rows in self._missing.items() for r, m in rows.items()]

    @classmethod
    def from_rows(cls, rows: Iterable[Sequence[int]]) -> Clamps:
        """Inverse of ``to_rows``."""
        clamps = cls()
        for change, row, missing in rows:
            clamps._missing.setdefault(change, {})[row] = missing
        return clamps


@dataclass(frozen=True)
class Prepared:
    """A batch, ready to be applied.

    No error of its rows can come any more. ``rows``: rows taken; ``bad``: left out, by relation.
    """

    changes: tuple[SourceChange, ...]
    rows: int
    bad: dict[str, CheckedBatch]


class Preparer:
    """Turns change batches into ``Prepared`` ones.

    Knows the plan, not the state; ``intern`` enters new values in
    the dictionary; with ``exact_deletes`` equal deletes of a batch become one.
    """

    def __init__(self, plan: Plan, intern: Intern, exact_deletes: bool) -> None:
        self.sources = sources_of(plan)
        self._intern = intern
        self._exact_deletes = exact_deletes
        self._tables: dict[str, Table] = {table.name.lower(): table for table in plan.tables}
        self._needed: dict[str, list[str]] = {}
        self._coded: dict[str, set[str]] = {}
        for source in self.sources:
            needed = self._needed.setdefault(source.relation.lower(), [])
            predicate = () if source.predicate is None else sorted(source.predicate.columns)
            needed += [c for c in (*source.columns, *predicate) if c not in needed]
            self._coded.setdefault(source.relation.lower(), set()).update(source.columns)

    def prepare(self, changes: Mapping[str, Any], strict: bool = True) -> Prepared:
        """Check, code, filter and consolidate a batch. O(batch).

        Raises ChangeError (unknown relation, not a table) and, if ``strict``, BadRowError for the first bad row.
        """
        checked: dict[str, CheckedBatch] = {}
        for name, data in changes.items():
            table = self._tables.get(name.lower())
            if table is None:
                known = ", ".join(sorted(t.name for t in self._tables.values()))
                raise ChangeError(f"relation {name!r} is not part of this query, which reads: {known}")
            if table.name in checked:
                raise ChangeError(f"relation {name!r} occurs twice in one batch; concatenate its changes")
            batch = check(table, self._needed[table.name.lower()], data)
            if batch.bad and strict:
                row, reason = next(iter(batch.bad.items()))
                raise BadRowError(table.name, row, reason)
            checked[table.name] = batch
        codes = {name: self._encode(name, batch) for name, batch in checked.items()}
        done: dict[tuple[Any, ...], _Net] = {}
        out = []
        for source in self.sources:
            name = self._tables[source.relation.lower()].name
            if name in checked:
                key = (name, source.columns, str(source.predicate))
                if key not in done:
                    done[key] = self._net(source, checked[name], codes[name])
                out.append(_masked(source, checked[name], done[key]))
        rows = sum(len(batch.weights) for batch in checked.values())
        return Prepared(tuple(out), rows, {name: batch for name, batch in checked.items() if batch.bad})

    def _encode(self, relation: str, batch: CheckedBatch) -> dict[str, np.ndarray]:
        kinds = {column.name: column.type for column in self._tables[relation.lower()].columns}
        codes = {}
        for name in self._coded[relation.lower()]:
            try:
                codes[name] = encode(batch.columns[name], kinds[name], self._intern)
            except UnencodableError as error:
                raise BadRowError(relation, error.row, f"column {name!r}: {error.reason}") from None
        return codes

    def _net(self, source: Source, batch: CheckedBatch, codes: dict[str, np.ndarray]) -> _Net:
        n = len(batch.weights)
        arrays = [codes[c] for c in source.columns]
        weights = batch.weights
        if source.predicate is not None:
            keep = source.predicate.evaluate(batch.columns, n).fill_null(False).to_numpy(zero_copy_only=False)
            arrays = [a[keep] for a in arrays]
            weights = weights[keep]
        values = np.empty((len(weights), len(arrays)), np.int64)
        for j, a in enumerate(arrays):
            values[:, j] = a
        deletes, inserts = split_by_sign(values.reshape(-1), len(arrays), weights, self._exact_deletes)
        return _Net(deletes, inserts, n - len(weights), values)


@dataclass(frozen=True)
class _Net:
    """Net deletes and inserts of the rows that pass a predicate, how many did not, and the rows (int64[n, width])."""

    deletes: Rows
    inserts: Rows
    rejected: int
    passed: np.ndarray


def _masked(source: Source, batch: CheckedBatch, net: _Net) -> SourceChange:
    """The change of a source, with masks if some alias joins on a column that has NULLs in this batch."""
    nullable = {w for w, name in enumerate(source.columns) if batch.columns[name].null_count}
    joined = [tuple(w for w in alias.not_null if w in nullable) for alias in source.aliases]
    if not any(joined):
        return SourceChange(source, net.deletes, net.inserts, (net.rejected,) * len(joined))
    deletes, inserts = (_with_masks(rows, joined) for rows in (net.deletes, net.inserts))
    filtered = tuple(net.rejected + int(np.count_nonzero(_null(net.passed, words))) for words in joined)
    return SourceChange(source, deletes, inserts, filtered)


def _with_masks(rows: Rows, joined: list[tuple[int, ...]]) -> Rows:
    """The tuples that some alias reads: one that has no NULL in the alias's words of ``joined``."""
    if not len(rows):
        return rows
    masks = np.zeros(len(rows), np.int64)
    for bit, words in enumerate(joined):
        masks |= (~_null(rows.table(), words)).astype(np.int64) << bit
    return rows.chosen(masks != 0, masks[masks != 0])


def _null(table: np.ndarray, words: tuple[int, ...]) -> np.ndarray:
    """bool[n]: one of those words is NULL."""
    return (table[:, words] == NULL).any(axis=1)


def split_by_sign(
    values: np.ndarray, width: int, weights: np.ndarray, exact_deletes: bool = False
) -> tuple[Rows, Rows]:
    """Net deletes and inserts of a batch.

    Equal rows of one sign stay apart unless ``exact_deletes`` asks for one row each. ``values`` int64[n * width],
    ``weights`` int64[n] (not kept). O(n).
    """
    empty = Rows(values[:0], weights[:0])
    if not len(weights):
        return empty, empty
    lowest, highest = int(weights.min()), int(weights.max())
    if lowest > 0:
        return empty, Rows(values, weights)
    if lowest < 0 < highest or (lowest < 0 and exact_deletes):
        weights = weights.copy()
        consolidate(values, width, weights)
    return _picked(values, width, weights, -1), _picked(values, width, weights, 1)


def _picked(values: np.ndarray, width: int, weights: np.ndarray, sign: int) -> Rows:
    rows = np.empty_like(values)
    counts = np.empty_like(weights)
    m = pick(values, width, weights, sign, rows, counts)
    return Rows(rows[: m * width], counts[:m])
