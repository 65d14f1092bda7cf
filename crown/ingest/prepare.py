"""From checked changes to what the kernels take: projected, filtered, coded, consolidated tuples of each source.

Tuples that a predicate rejects, that have NULL in a join attribute, or that no alias reads in this cell can never take
part in a result and stop here. Work that several aliases of a self-join share is done once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crown.errors import BadRowError, ChangeError
from crown.ingest.changes import CheckedBatch, Checker, relations_of
from crown.ingest.masks import EVERY, null, reads
from crown.kernels.batches import consolidate, pick
from crown.store.codec import Intern, UnencodableError, encode
from crown.store.relations import Alias, StoredRelation, stored_relations
from plans.plan import Plan
from plans.schema import Table


@dataclass(frozen=True)
class Tuples:
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

    def chosen(self, keep: np.ndarray | slice, masks: np.ndarray | None = None) -> Tuples:
        """The tuples where ``keep`` (bool[n], or a slice) says so; with ``masks`` (int64[n]) as their masks."""
        if masks is None:
            masks = self.masks if self.masks is EVERY else self.masks[keep]
        return Tuples(np.ascontiguousarray(self.table()[keep]).reshape(-1), self.weights[keep], masks)

    def head(self, n: int) -> Tuples:
        """The first ``n`` tuples."""
        return self.chosen(slice(n)) if n < len(self) else self

    def read_by(self, bit: int) -> np.ndarray:
        """bool[n]: alias ``bit`` reads the tuple."""
        return np.broadcast_to(reads(self.masks, bit), len(self))

    def readers(self, bit: int) -> int:
        """How many tuples alias ``bit`` reads."""
        return len(self) if self.masks is EVERY else int(np.count_nonzero(self.read_by(bit)))


@dataclass(frozen=True)
class RelationChange:
    """Net changes of a source. ``filtered[i]``: rows that alias ``i`` would read, but for its predicate or a NULL."""

    source: StoredRelation
    deletes: Tuples
    inserts: Tuples
    filtered: tuple[int, ...]

    def inverse(self) -> RelationChange:
        """The change that takes this one back."""
        return RelationChange(self.source, self.inserts, self.deletes, self.filtered)

    def of_aliases(self, sign: int) -> Iterable[tuple[Alias, Tuples]]:
        """What each alias reads of the deletes (``sign`` -1) or inserts, its tuples in the order of its attributes."""
        rows = self.deletes if sign < 0 else self.inserts
        for bit, alias in enumerate(self.source.aliases):
            mine = rows if rows.masks is EVERY else rows.chosen(rows.read_by(bit), EVERY)
            if alias.words != tuple(range(self.source.width)) and len(mine):
                mine = Tuples(np.ascontiguousarray(mine.table()[:, alias.words]).reshape(-1), mine.weights)
            yield alias, mine


class MissingDeletes:
    """What deletes of a batch did not find: per change (position in ``Prepared.changes``) and row, the missing copies.

    A batch can be taken back only if these are known, so they are kept with it (``to_rows`` / ``from_rows``:
    JSON-able).
    """

    def __init__(self) -> None:
        self._missing: dict[int, dict[int, int]] = {}

    def note(self, change: int, missing: np.ndarray) -> None:
        """Remember the non-zero entries of ``missing`` (int64 per delete of that change)."""
        self._missing[change] = {int(i): int(missing[i]) for i in np.flatnonzero(missing)}

    def effective(self, change: int, deletes: Tuples) -> Tuples:
        """The deletes as they took place."""
        found = self._missing.get(change)
        if not found:
            return deletes
        weights = deletes.weights.copy()
        weights[list(found)] -= np.array(list(found.values()))
        return Tuples(deletes.values, weights, deletes.masks).chosen(weights > 0)

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
    def from_rows(cls, rows: Iterable[Sequence[int]]) -> MissingDeletes:
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

    changes: tuple[RelationChange, ...]
    rows: int
    bad: dict[str, CheckedBatch]


class Preparer:
    """Turns change batches into ``Prepared`` ones.

    Knows the plan, not the state; ``intern`` enters new values in the dictionary.
    """

    def __init__(self, plan: Plan, intern: Intern) -> None:
        self.sources = stored_relations(plan)
        self._intern = intern
        self._relations: dict[str, _Relation] = {}
        for table in plan.tables:
            own = [source for source in self.sources if source.relation.lower() == table.name.lower()]
            self._relations[table.name.lower()] = _Relation(table, own)
        self._of = [self._relations[source.relation.lower()].name for source in self.sources]
        # For every source the first that takes the same tuples: bags read some that others read, too.
        first: dict[tuple[Any, ...], int] = {}
        self._same = [
            first.setdefault((name, source.columns, str(source.predicate)), i)
            for i, (name, source) in enumerate(zip(self._of, self.sources, strict=True))
        ]

    def prepare(self, changes: Mapping[str, Any], strict: bool = True) -> Prepared:
        """Check, code, filter and consolidate a batch. O(batch).

        Raises ChangeError (unknown relation, not a table) and, if ``strict``, BadRowError for the first bad row.
        """
        checked: dict[str, CheckedBatch] = {}
        for name, data in relations_of(changes).items():
            relation = self._relations.get(name.lower())
            if relation is None:
                known = ", ".join(sorted(r.name for r in self._relations.values()))
                raise ChangeError(f"relation {name!r} is not part of this query, which reads: {known}")
            if relation.name in checked:
                raise ChangeError(f"relation {name!r} occurs twice in one batch; concatenate its changes")
            batch = relation.checker.check(data)
            if batch.bad and strict:
                row, reason = next(iter(batch.bad.items()))
                raise BadRowError(relation.name, row, reason)
            checked[relation.name] = batch
        coded = {name: self._coded(name, batch) for name, batch in checked.items()}
        done: dict[int, _Net] = {}
        out = []
        for source, name, same in zip(self.sources, self._of, self._same, strict=True):
            batch_of = coded.get(name)
            if batch_of is not None:
                if same not in done:
                    done[same] = self._net(source, batch_of)
                out.append(_change(source, batch_of, done[same]))
        rows = sum(len(batch.weights) for batch in checked.values())
        return Prepared(tuple(out), rows, {name: batch for name, batch in checked.items() if batch.bad})

    def _coded(self, relation: str, batch: CheckedBatch) -> _Coded:
        codes = {}
        for name, kind in self._relations[relation.lower()].coded:
            try:
                codes[name] = encode(batch.columns[name], kind, self._intern)
            except UnencodableError as error:
                raise BadRowError(relation, error.row, f"column {name!r}: {error.reason}") from None
        return _Coded(batch, codes)

    def _net(self, source: StoredRelation, coded: _Coded) -> _Net:
        columns, weights, masks = coded.batch.columns, coded.batch.weights, coded.batch.masks
        n = len(weights)
        passed, rejected = coded.matrix(source.columns), EVERY[:0]
        if source.predicate is not None:
            verdict = source.predicate.evaluate(columns, n)
            if verdict.null_count:
                verdict = verdict.fill_null(False)
            keep = verdict.to_numpy(zero_copy_only=False)
            if np.count_nonzero(keep) < n:
                rejected = np.broadcast_to(masks, n)[~keep]
                passed, weights = passed[keep], weights[keep]
                masks = masks if masks is EVERY else masks[keep]
        deletes, inserts = split_by_sign(passed.reshape(-1), source.width, weights, masks)
        return _Net(deletes, inserts, rejected, passed, masks)


class _Relation:
    """What the sources over one relation need of its batches, worked out once."""

    def __init__(self, table: Table, sources: Sequence[StoredRelation]) -> None:
        self.name = table.name
        kinds = {column.name: column.type for column in table.columns}
        coded = dict.fromkeys(c for source in sources for c in source.columns)
        tested = [sorted(source.predicate.columns) for source in sources if source.predicate is not None]
        self.coded = [(name, kinds[name]) for name in coded]
        self.checker = Checker(table, tuple(dict.fromkeys([*coded, *(c for columns in tested for c in columns)])))


class _Coded:
    """A batch in codes. Sources of the same columns take them from the same matrix."""

    def __init__(self, batch: CheckedBatch, codes: dict[str, np.ndarray]) -> None:
        self.batch = batch
        self.nulls = any(array.null_count for array in batch.columns.values())
        self._codes = codes
        self._matrices: dict[tuple[str, ...], np.ndarray] = {}

    def matrix(self, columns: tuple[str, ...]) -> np.ndarray:
        """The codes of some columns as int64[n, columns]; not to be written to."""
        found = self._matrices.get(columns)
        if found is None:
            found = np.empty((len(self.batch.weights), len(columns)), np.int64)
            for j, name in enumerate(columns):
                found[:, j] = self._codes[name]
            self._matrices[columns] = found
        return found


@dataclass(frozen=True)
class _Net:
    """Net deletes and inserts of the rows that pass a predicate, these rows (int64[n, width]), and masks of the others.

    All masks are those that came with the batch: their bits are occurrences of the plan.
    """

    deletes: Tuples
    inserts: Tuples
    rejected: np.ndarray
    passed: np.ndarray
    masks: np.ndarray


def _change(source: StoredRelation, coded: _Coded, net: _Net) -> RelationChange:
    """The change of a source, with masks if the batch has some, or NULLs in a column on which some alias joins."""
    joined: list[tuple[int, ...]] = [()] * len(source.aliases)
    if coded.nulls:
        nullable = {w for w, name in enumerate(source.columns) if coded.batch.columns[name].null_count}
        joined = [tuple(w for w in alias.not_null if w in nullable) for alias in source.aliases]
    if net.masks is EVERY and not any(joined):
        return RelationChange(source, net.deletes, net.inserts, (len(net.rejected),) * len(source.aliases))
    deletes, inserts = (_read(rows, source.aliases, joined) for rows in (net.deletes, net.inserts))
    filtered = []
    for alias, words in zip(source.aliases, joined, strict=True):
        nulls = null(net.passed, words) & reads(net.masks, alias.occurrence)
        filtered.append(int(np.count_nonzero(nulls) + np.count_nonzero(reads(net.rejected, alias.occurrence))))
    return RelationChange(source, deletes, inserts, tuple(filtered))


def _read(rows: Tuples, aliases: Sequence[Alias], joined: Sequence[tuple[int, ...]]) -> Tuples:
    """The tuples that some alias reads, with masks of aliases: by its bit, and if none of its ``joined`` is NULL.

    Equal tuples have equal masks. What came with the batch is a function of the columns that the alias reads, for all
    rows that pass the predicate; so it does not matter which of the rows that became one tuple gave it its mask.
    """
    if not len(rows):
        return rows
    masks = np.zeros(len(rows), np.int64)
    for bit, (alias, words) in enumerate(zip(aliases, joined, strict=True)):
        mine = rows.read_by(alias.occurrence)
        if words:
            mine = mine & ~null(rows.table(), words)
        masks |= mine.astype(np.int64) << bit
    read = masks != 0
    if not read.all():
        rows, masks = rows.chosen(read, EVERY), masks[read]
    every = bool((masks == (1 << len(aliases)) - 1).all())
    return Tuples(rows.values, rows.weights, EVERY if every else masks)


def split_by_sign(
    values: np.ndarray, width: int, weights: np.ndarray, masks: np.ndarray = EVERY
) -> tuple[Tuples, Tuples]:
    """Net deletes and inserts of a batch: one row per tuple and sign, but equal inserts of a batch without deletes stay
    apart.

    ``values`` int64[n * width], ``weights`` int64[n], ``masks`` int64[n] or ``EVERY`` (none is changed). O(n).
    """
    empty = Tuples(values[:0], weights[:0])
    if not len(weights):
        return empty, empty
    if weights.min() > 0:
        return empty, Tuples(values, weights, masks)
    if len(weights) == 1 and weights[0] < 0:
        return Tuples(values, -weights, masks), empty
    weights = weights.copy()
    consolidate(values, width, weights)
    return _picked(values, width, weights, masks, -1), _picked(values, width, weights, masks, 1)


def _picked(values: np.ndarray, width: int, weights: np.ndarray, masks: np.ndarray, sign: int) -> Tuples:
    rows = np.empty_like(values)
    counts = np.empty_like(weights)
    m = pick(values, width, weights, sign, rows, counts)
    return Tuples(rows[: m * width], counts[:m], masks if masks is EVERY else masks[sign * weights > 0])
