"""From checked changes to what the kernels take: projected, filtered, coded, netted tuples.

Tuples that a predicate rejects, that have NULL in a join attribute, or that no alias reads in this cell can never take
part in a result and stop here. Work that several aliases of a self-join share is done once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from crown.errors import BadRowError, ChangeError
from crown.ingest.batch import Prepared, RelationChange, for_aliases
from crown.ingest.changes import CheckedBatch, Checker, relations_of
from crown.ingest.given import Columns
from crown.ingest.masks import EVERY, null, readers, reads
from crown.ingest.selection import Selection
from crown.kernels.batches import extent
from crown.store.codec import Intern
from crown.store.relations import StoredRelation, stored_relations
from crown.store.zset import Zset
from plans.plan import Plan
from plans.schema import Table


class Preparer:
    """Turns change batches into ``Prepared`` ones.

    Knows the plan, not the state; ``intern`` enters new values in the dictionary.
    """

    def __init__(self, plan: Plan, intern: Intern) -> None:
        self.relations = stored_relations(plan)
        self._intern = intern
        self._tables: dict[str, _Table] = {}
        for declared in plan.tables:
            own = [relation for relation in self.relations if relation.name.lower() == declared.name.lower()]
            self._tables[declared.name.lower()] = _Table(declared, own)
        # For every relation the first that takes the same tuples: bags read some that others read, too.
        first: dict[tuple[Any, ...], int] = {}
        self._parts: list[tuple[StoredRelation, str, int, Selection | None]] = []
        for i, relation in enumerate(self.relations):
            table = self._tables[relation.name.lower()]
            same = first.setdefault((table.name, relation.columns, str(relation.predicate)), i)
            self._parts.append((relation, table.name, same, table.selection_of(relation)))

    def prepare(self, changes: Mapping[str, Any], strict: bool = True) -> Prepared:
        """Checks, codes, filters and nets a batch. O(batch).

        Raises ChangeError (unknown relation, not a table) and, if ``strict``, BadRowError for the first bad row.
        """
        checked: dict[str, CheckedBatch] = {}
        given: list[tuple[_Table, CheckedBatch]] = []
        rows = 0
        for name, data in relations_of(changes).items():
            table = self._tables.get(name.lower())
            if table is None:
                known = ", ".join(sorted(t.name for t in self._tables.values()))
                raise ChangeError(f"relation {name!r} is not part of this query, which reads: {known}")
            if table.name in checked:
                raise ChangeError(f"relation {name!r} occurs twice in one batch; concatenate its changes")
            batch = table.checker.check(data)
            if batch.bad and strict:
                row, reason = next(iter(batch.bad.items()))
                raise BadRowError(table.name, row, reason)
            checked[table.name] = batch
            given.append((table, batch))
            rows += len(batch.weights)
        coded = {table.name: self._coded(table, batch) for table, batch in given}
        nets: dict[int, _Net] = {}
        changed = []
        for relation, table_name, same, selection in self._parts:
            batch_of = coded.get(table_name)
            if batch_of is not None:
                net = nets.get(same)
                if net is None:
                    net = nets[same] = self._net(relation, selection, batch_of)
                changed.append(_change(relation, batch_of, net))
        return Prepared(tuple(changed), rows, checked)

    def _coded(self, table: _Table, batch: CheckedBatch) -> _Coded:
        """Returns the codes of the rows that some relation of a table takes."""
        columns, weights, masks, rejected = batch.columns, batch.weights, batch.masks, _NONE_REJECTED
        n = len(weights)
        rows = table.selection.rows(columns, n, self._intern) if table.selection is not None and n else None
        if rows is not None:
            rejected, masks = _Rejected.of(masks, n, rows), _taken(masks, rows)
            columns, weights = columns.taken(rows), weights[rows]
        codes = np.empty((len(weights), len(table.coded)), np.int64)
        nulls = columns.encode(table.name, table.coded, self._intern, codes.T, rows)
        return _Coded(columns, weights, masks, rejected, table.coded, codes, nulls)

    def _net(self, relation: StoredRelation, selection: Selection | None, coded: _Coded) -> _Net:
        weights, masks, passed = coded.weights, coded.masks, coded.matrix(relation.columns)
        rejected, n = [coded.rejected], len(weights)
        rows = selection.rows(coded.columns, n, self._intern) if selection is not None and n else None
        if rows is not None:
            rejected.append(_Rejected.of(masks, n, rows))
            passed, weights, masks = passed.take(rows, axis=0), weights[rows], _taken(masks, rows)
        net, gone, kept = parted(Zset(passed, weights), masks)
        return _Net(net, gone, kept, rejected, passed, masks)


def parted(given: Zset, masks: np.ndarray) -> tuple[Zset, int, np.ndarray]:
    """Returns a batch with its deletes before its inserts, how many deletes it has, and the masks (int64[n], or
    ``EVERY``) in the same order.

    Equal tuples are summed; in a batch without deletes they stay apart, which costs O(1). Else expected O(n).
    """
    weights = given.weights
    if is_net(weights):
        return given, int(len(weights) == 1 and weights.item() < 0), masks
    net, gone, sums = given.netted()
    if masks is not EVERY:
        masks = np.concatenate([masks[sums < 0], masks[sums > 0]])
    return net, gone, masks


def is_net(weights: np.ndarray) -> bool:
    """Returns True iff a batch with these weights (int64[n]) needs no netting: it has inserts only, or one delete."""
    n = len(weights)
    if n == 1:
        return bool(weights.item())
    return n == 0 or extent(weights)[0] > 0


class _Table:
    """What the stored relations of one table need of its batches, worked out once."""

    def __init__(self, table: Table, relations: Sequence[StoredRelation]) -> None:
        self.name = table.name
        coded = dict.fromkeys(c for relation in relations for c in relation.columns)
        predicates = [relation.predicate for relation in relations if relation.predicate is not None]
        tested = [sorted(predicate.columns) for predicate in predicates]
        conditions = {frozenset(predicate.conjuncts()) for predicate in predicates}
        whole = not relations or len(predicates) < len(relations)
        kinds = {column.name: column.type for column in table.columns}
        self.selection = None if whole else Selection(conditions, kinds, False)
        self._alike = not whole and len(conditions) == 1  # a row that one relation takes all take
        self._kinds = kinds
        self.coded = tuple(coded)
        self.checker = Checker(table, tuple(dict.fromkeys([*coded, *(c for columns in tested for c in columns)])))

    def selection_of(self, relation: StoredRelation) -> Selection | None:
        """Returns which of the rows that some relation takes this one takes; None for all of them."""
        if relation.predicate is None or self._alike:
            return None
        return Selection({frozenset(relation.predicate.conjuncts())}, self._kinds, False)


class _Rejected(NamedTuple):
    """Rows that came and are not taken: how many, and their masks (int64[n], or ``EVERY``)."""

    n: int
    masks: np.ndarray

    @classmethod
    def of(cls, masks: np.ndarray, n: int, rows: np.ndarray) -> _Rejected:
        """Returns those of ``n`` rows that are not at the positions ``rows``."""
        return cls(n - len(rows), EVERY if masks is EVERY else np.delete(masks, rows))


_NONE_REJECTED = _Rejected(0, EVERY)


def _taken(masks: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return masks if masks is EVERY else masks[rows]


class _Coded:
    """A batch in codes (``codes`` int64[n, columns], of ``names``); relations of the same columns take the same matrix.

    ``rejected``: rows that came, too, but that no relation takes; ``nulls``: some code is NULL.
    """

    def __init__(
        self,
        columns: Columns,
        weights: np.ndarray,
        masks: np.ndarray,
        rejected: _Rejected,
        names: tuple[str, ...],
        codes: np.ndarray,
        nulls: bool,
    ) -> None:
        self.columns = columns
        self.weights = weights
        self.masks = masks
        self.rejected = rejected
        self.nulls = nulls
        self._names = names
        self._matrices = {names: codes}

    def matrix(self, columns: tuple[str, ...]) -> np.ndarray:
        """Returns the codes of some columns as int64[n, columns]; not to be written to."""
        found = self._matrices.get(columns)
        if found is None:
            places = [self._names.index(name) for name in columns]
            found = self._matrices[columns] = np.ascontiguousarray(self._matrices[self._names][:, places])
        return found


@dataclass(slots=True)
class _Net:
    """The net of the rows that pass a predicate with its masks, these rows (int64[n, width]) and their masks, and the
    others.

    All masks are those that came with the batch: their bits are occurrences of the plan.
    """

    net: Zset
    gone: int  # the first of them are deletes
    masks: np.ndarray
    rejected: list[_Rejected]
    passed: np.ndarray
    passed_masks: np.ndarray


def _change(relation: StoredRelation, coded: _Coded, found: _Net) -> RelationChange:
    """Returns the change of a relation.

    It has masks if the batch has some, or NULLs in a column on which some alias joins.
    """
    if found.masks is EVERY and not coded.nulls:
        rejected = sum([one.n for one in found.rejected])
        return RelationChange(relation, found.net, found.gone, EVERY, (rejected,) * len(relation.aliases))
    joined: list[tuple[int, ...]] = [()] * len(relation.aliases)
    if coded.nulls:
        nullable = {w for w, name in enumerate(relation.columns) if coded.columns.null_count(name)}
        joined = [tuple(w for w in alias.not_null if w in nullable) for alias in relation.aliases]
    filtered = []
    for alias, words in zip(relation.aliases, joined, strict=True):
        nulls = null(found.passed, words) & reads(found.passed_masks, alias.occurrence)
        rejected = sum([readers(one.masks, one.n, alias.occurrence) for one in found.rejected])
        filtered.append(int(np.count_nonzero(nulls)) + rejected)
    return for_aliases(relation, found.net, found.masks, joined, tuple(filtered))
