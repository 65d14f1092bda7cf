"""From checked changes to what each node's kernel takes: projected, filtered, coded, consolidated rows.

Every input node sees the projection of its relation on the columns it uses; rows that its predicate rejects, or that
have NULL in a join attribute, can never take part in a result and stop here. Work that two aliases of a self-join
share is done once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crown.changes import CheckedBatch, check
from crown.codec import Intern, UnencodableError, encode
from crown.errors import BadRowError, ChangeError
from crown.kernels.batches import consolidate, pick
from plans.expressions import Expr
from plans.plan import BagAtom, Node, Plan
from plans.schema import Table


@dataclass(frozen=True)
class Rows:
    """Distinct tuples of one node and one sign: ``values`` int64[n * width] row-major, ``weights`` int64[n] > 0."""

    values: np.ndarray
    weights: np.ndarray

    def __len__(self) -> int:
        return len(self.weights)

    def table(self) -> np.ndarray:
        """The tuples as int64[n, width]."""
        return self.values.reshape(len(self), -1) if len(self) else self.values.reshape(0, 0)

    def head(self, n: int) -> Rows:
        """The first ``n`` tuples."""
        width = len(self.values) // max(len(self), 1)
        return Rows(self.values[: n * width], self.weights[:n])


@dataclass(frozen=True)
class NodeChange:
    """Net changes of an input of the engine: node index, and the atom of a bag node (else 0)."""

    node: int
    atom: int
    deletes: Rows
    inserts: Rows
    filtered: int  # rows that the predicate or a NULL join attribute kept out

    def inverse(self) -> NodeChange:
        """The change that takes this one back."""
        return NodeChange(self.node, self.atom, self.inserts, self.deletes, self.filtered)


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
        keep = weights > 0
        width = len(deletes.values) // len(deletes)
        values = deletes.values.reshape(len(deletes), width)[keep].reshape(-1)
        return Rows(values, weights[keep])

    def total(self, change: int) -> int:
        """Missing copies of a change."""
        return sum(self._missing.get(change, {}).values())

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
class Input:
    """What a node takes from a relation."""

    node: int
    atom: int
    relation: str
    columns: tuple[str, ...]
    predicate: Expr | None
    not_null: tuple[int, ...]  # positions of join attributes

    @property
    def shared(self) -> tuple[Any, ...]:
        """Inputs with equal ``shared`` take the same rows."""
        return (self.relation, self.columns, None if self.predicate is None else str(self.predicate), self.not_null)


@dataclass(frozen=True)
class Prepared:
    """A batch, ready to be applied.

    No error of its rows can come any more. ``rows``: rows taken; ``bad``: left out, by relation.
    """

    changes: tuple[NodeChange, ...]
    rows: int
    bad: dict[str, CheckedBatch]


def inputs_of(plan: Plan) -> tuple[Input, ...]:
    """The engine's inputs in node order (the order in which an update reaches the copies of a self-join)."""
    atoms: list[tuple[int, int, Node | BagAtom]] = []
    for i, node in enumerate(plan.nodes):
        if node.kind == "input":
            atoms.append((i, 0, node))
        elif node.bag is not None:
            atoms += [(i, j, atom) for j, atom in enumerate(node.bag.atoms)]
    uses = Counter(a for _, _, atom in atoms for a in atom.attributes)
    return tuple(
        Input(
            i,
            j,
            atom.relation,
            tuple(atom.columns),
            atom.predicate,
            tuple(p for p, a in enumerate(atom.attributes) if uses[a] > 1 and not plan.attributes[a].null_safe),
        )
        for i, j, atom in atoms
    )


class Preparer:
    """Turns change batches into ``Prepared`` ones.

    Knows the plan, not the state; ``intern`` enters new values in
    the dictionary; with ``exact_deletes`` equal deletes of a batch become one.
    """

    def __init__(self, plan: Plan, intern: Intern, exact_deletes: bool) -> None:
        self.inputs = inputs_of(plan)
        self._intern = intern
        self._exact_deletes = exact_deletes
        self._tables: dict[str, Table] = {table.name.lower(): table for table in plan.tables}
        self._needed: dict[str, list[str]] = {}
        for item in self.inputs:
            needed = self._needed.setdefault(item.relation.lower(), [])
            predicate = () if item.predicate is None else sorted(item.predicate.columns)
            needed += [c for c in (*item.columns, *predicate) if c not in needed]

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
        done: dict[tuple[Any, ...], tuple[Rows, Rows, int]] = {}
        out = []
        for item in self.inputs:
            name = self._tables[item.relation.lower()].name
            if name not in checked:
                continue
            if item.shared not in done:
                done[item.shared] = self._node_rows(item, checked[name], codes[name])
            out.append(NodeChange(item.node, item.atom, *done[item.shared]))
        rows = sum(len(batch.weights) for batch in checked.values())
        return Prepared(tuple(out), rows, {name: batch for name, batch in checked.items() if batch.bad})

    def _encode(self, relation: str, batch: CheckedBatch) -> dict[str, np.ndarray]:
        kinds = {column.name: column.type for column in self._tables[relation.lower()].columns}
        wanted = {c for item in self.inputs if item.relation.lower() == relation.lower() for c in item.columns}
        codes = {}
        for name in wanted:
            try:
                codes[name] = encode(batch.columns[name], kinds[name], self._intern)
            except UnencodableError as error:
                raise BadRowError(relation, error.row, f"column {name!r}: {error.reason}") from None
        return codes

    def _node_rows(self, item: Input, batch: CheckedBatch, codes: dict[str, np.ndarray]) -> tuple[Rows, Rows, int]:
        n = len(batch.weights)
        keep: np.ndarray | None = None
        if item.predicate is not None:
            verdict = item.predicate.evaluate(batch.columns, n)
            keep = verdict.fill_null(False).to_numpy(zero_copy_only=False)
        for position in item.not_null:
            array = batch.columns[item.columns[position]]
            if array.null_count:
                valid = array.is_valid().to_numpy(zero_copy_only=False)
                keep = valid if keep is None else keep & valid
        arrays = [codes[c] for c in item.columns]
        weights = batch.weights
        if keep is not None:
            arrays = [a[keep] for a in arrays]
            weights = weights[keep]
        m = len(weights)
        width = len(arrays)
        values = np.empty((m, width), np.int64)
        for j, a in enumerate(arrays):
            values[:, j] = a
        deletes, inserts = split_by_sign(values.reshape(-1), width, weights, self._exact_deletes)
        return deletes, inserts, n - m


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
