"""Represents a prepared batch: the net changes of base relations, and the changes of a join's stored relations.

    PreparedBatch -> nets of the inputs of a join, in codes -> a RelationChange per stored relation

The conversion needs no Arrow table, no check and no dictionary look-up. The net of an input is projected on the stored
columns; the predicate is applied, and rows with a NULL in a join column are left out.

Masks: which occurrences, or aliases, of a relation read a row.

A row that all of them read has no mask (``EVERY``). An occurrence does not read a row with a NULL in a column that it
joins on. In a cell of a partitioned plan, it does not read a row whose hash belongs to another cell
(``JoinStage.masks``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from crown.ingest.changes import CheckedBatch, Unscanned
from crown.kernels.batches import negatives
from crown.store.arrow_buffers import flags, valid
from crown.store.codec import NULL, Extern, decode
from crown.store.zset import Zset
from plans.plan import Plan
from plans.programs.stored_relations import Alias, StoredRelation, stored_relations
from plans.programs.wiring import Wire, Wires
from plans.schema import DERIVED, Table, source_of

EVERY = np.full(1, -1, np.int64)  # the mask of tuples that all occurrences read


def reads(masks: np.ndarray, bit: int) -> np.ndarray:
    """Returns bool[n], True for every mask that has the bit."""
    found: np.ndarray = (masks >> bit & 1).astype(bool)
    return found


def readers(masks: np.ndarray, n: int, bit: int) -> int:
    """Returns how many of ``n`` rows with these masks (int64[n], or ``EVERY``) have the bit."""
    return n if masks is EVERY else int(np.count_nonzero(reads(masks, bit)))


def null(table: np.ndarray, words: tuple[int, ...]) -> np.ndarray:
    """Returns bool[n], True for every tuple of ``table`` (int64[n, width]) in which one of these words is NULL."""
    found: np.ndarray = (table[:, words] == NULL).any(axis=1)
    return found


class CountedPart(NamedTuple):
    """The part of a net that a base table has counted: its first ``done`` tuples, and their copies ``before`` the
    batch."""

    done: int
    before: np.ndarray


@dataclass(slots=True, eq=False)
class PreparedBatch:
    """A batch, ready to be applied. Once it has been scanned, it is not changed, and its rows raise no more errors.

    ``nets``: the net of each changed relation, by name in lower case. ``rows``: the number of accepted rows. ``taken``:
    the checked input, by relation. ``advances``: watermarks that the batch reaches. ``filtered``: rows that no stage
    reads, and that are in no net. ``fills``: its rows were present before, so it counts as no change, and a delete
    restores a tombstone. ``unscanned``: record batches that are scanned when the batch is applied. The scan returns the
    ``nets`` and the part of them that the base tables have already counted (``counted_parts``, by relation), and notes
    ``filtered`` and ``counted``.
    ``passed``: the base tables have accepted the whole batch, and stages have applied it: ``made`` has their nets, by
    number. ``counted``: the number of changes of relations whose nets may not have been made. ``cells``: the batch as
    each of several cells has prepared it; this is the last of them, from which all rows were left out that any of them
    refuses.
    """

    nets: Mapping[str, Zset]
    rows: int
    taken: dict[str, CheckedBatch]
    advances: Mapping[str, int]
    filtered: Mapping[str, int]
    fills: bool = False
    unscanned: tuple[Unscanned, ...] = ()
    counted_parts: Mapping[str, CountedPart] = field(default_factory=dict)
    passed: bool = False
    made: Mapping[int, Zset] = field(default_factory=dict)
    counted: Mapping[str, int] = field(default_factory=dict)
    cells: tuple[PreparedBatch, ...] = ()

    @property
    def checked(self) -> dict[str, CheckedBatch]:
        """Returns the checked input of the batch, by relation."""
        return {one.name: one.checked() for one in self.unscanned} if self.unscanned else self.taken

    @property
    def bad(self) -> dict[str, CheckedBatch]:
        """Returns the relations from which rows were left out."""
        return {name: batch for name, batch in self.taken.items() if batch.bad}


@dataclass(slots=True, eq=False)
class RelationChange:
    """The net change of a stored relation: its deletes, then its inserts. Immutable.

    The first ``deletes`` tuples of ``net`` are deleted, the others are inserted. Equal inserts of a batch without
    deletes may stay separate. ``masks`` int64[n], or ``EVERY`` for all: bit ``i`` is set if alias ``i`` reads the
    tuple. ``filtered[i]``: the number of rows that alias ``i`` does not read because of its predicate or a NULL.
    """

    relation: StoredRelation
    net: Zset
    deletes: int
    masks: np.ndarray
    filtered: tuple[int, ...]

    @classmethod
    def of(cls, relation: StoredRelation, net: Zset, masks: np.ndarray, filtered: tuple[int, ...]) -> RelationChange:
        """Returns the change for a net whose deletes precede its inserts."""
        return cls(relation, net, int(negatives(net.weights)), masks, filtered)

    def count(self, sign: int) -> int:
        """Returns the number of deleted (``sign`` -1) or inserted tuples."""
        return self.deletes if sign < 0 else len(self.net.weights) - self.deletes

    def tuples(self, sign: int) -> Zset:
        """Returns the deleted (``sign`` -1) or inserted tuples."""
        if sign < 0:
            return self.net[: self.deletes]
        return self.net[self.deletes :] if self.deletes else self.net

    def masks_of(self, sign: int) -> np.ndarray:
        """Returns the masks of the deleted (``sign`` -1) or inserted tuples, or ``EVERY``."""
        if self.masks is EVERY:
            return EVERY
        return self.masks[: self.deletes] if sign < 0 else self.masks[self.deletes :]

    def reads(self, bit: int) -> np.ndarray:
        """Returns bool[n], True if alias ``bit`` reads the tuple."""
        return np.broadcast_to(reads(self.masks, bit), len(self.net))

    def readers(self, bit: int) -> int:
        """Returns how many tuples alias ``bit`` reads."""
        return len(self.net.weights) if self.masks is EVERY else int(np.count_nonzero(self.reads(bit)))

    def applied(self, deletes: int, inserts: int) -> RelationChange:
        """Returns the part of the first ``deletes`` deletes and the first ``inserts`` inserts."""
        at = np.arange(len(self.net))
        keep = (at < deletes) | ((at >= self.deletes) & (at < self.deletes + inserts))
        return self._chosen(keep, self.net)

    def without(self, missing: np.ndarray) -> RelationChange:
        """Returns the change without the copies (int64[deletes]) that its deletes did not find."""
        weights = self.net.weights.copy()
        weights[: self.deletes] += missing
        return self._chosen(weights != 0, Zset(self.net.rows, weights))

    def _chosen(self, keep: np.ndarray, net: Zset) -> RelationChange:
        masks = self.masks if self.masks is EVERY else self.masks[keep]
        return RelationChange(
            self.relation, net[keep], int(np.count_nonzero(keep[: self.deletes])), masks, self.filtered
        )

    def inverse(self) -> RelationChange:
        """Returns the change that undoes this one."""
        inserts, deletes = self.tuples(1).negated(), self.tuples(-1).negated()
        net = Zset.gathered([inserts, deletes], self.net.width)
        masks = EVERY if self.masks is EVERY else np.concatenate([self.masks_of(1), self.masks_of(-1)])
        return RelationChange(self.relation, net, len(inserts), masks, self.filtered)

    def of_aliases(self, sign: int) -> Iterable[tuple[Alias, Zset]]:
        """Yields, per alias, the deletes (``sign`` -1) or inserts that it reads, in the order of its attributes."""
        tuples, masks = self.tuples(sign), self.masks_of(sign)
        for bit, alias in enumerate(self.relation.aliases):
            mine = tuples if masks is EVERY else tuples[reads(masks, bit)]
            yield alias, mine.project(alias.words)


def for_aliases(
    relation: StoredRelation,
    net: Zset,
    masks: np.ndarray,
    joined: Sequence[tuple[int, ...]],
    filtered: tuple[int, ...],
) -> RelationChange:
    """Returns the change of a relation, with the tuples that some alias reads: its mask bit is set, and no join word is
    NULL.

    ``masks`` int64[n], or ``EVERY``: bit ``i`` is set if alias ``i`` reads the tuple. ``joined[i]``: words of the tuple
    that must not be NULL for alias ``i``.
    """
    if (masks is EVERY and not any(joined)) or not len(net):
        return RelationChange.of(relation, net, EVERY, filtered)
    found = np.zeros(len(net), np.int64)
    for bit, words in enumerate(joined):
        mine = np.broadcast_to(reads(masks, bit), len(net))
        if words:
            mine = mine & ~null(net.rows, words)
        found |= mine.astype(np.int64) << bit
    read = found != 0
    if not read.all():
        net, found = net[read], found[read]
    every = bool((found == (1 << len(relation.aliases)) - 1).all())
    return RelationChange.of(relation, net, EVERY if every else found, filtered)


class JoinInputs:
    """Converts the nets of a join's inputs into changes of its stored relations.

    ``wires``: the columns that its sources deliver. ``plan``: the join's plan, over tables with these columns only.
    ``inputs``: the sources, in the order of the nets. ``extern`` decodes codes, for predicates only. ``known``:
    conditions that all rows of a relation (in lower case) meet. ``masks``: None, or the column whose bit ``o`` is set
    if occurrence ``o`` of the plan reads the row. ``stored``: the stored relations with the positions of their columns.
    """

    def __init__(self, plan: Plan, wires: Wires, extern: Extern, masks: str | None = None) -> None:
        self.plan = plan = _narrowed(plan, wires)
        self._extern = extern
        names = [table.name.lower() for table in plan.tables]
        self.inputs = tuple(map(source_of, names))
        self.known = {name: wires[source].known for name, source in zip(names, self.inputs, strict=True)}
        self.stored = [
            StoredInput(stored, names.index(stored.name.lower()), wires[source_of(stored.name.lower())], masks)
            for stored in stored_relations(plan)
        ]

    def changes(self, nets: Sequence[Zset]) -> list[RelationChange]:
        """Returns the changes of the stored relations that change, for the nets of the inputs.

        A net is exact: its deletes are present, and come first; only inserts of a base relation may be equal. Several
        stored relations may read one net. O(tuples).
        """
        return [self._change(of, net) for of in self.stored if (net := nets[of.input]).weights.size]

    def _change(self, relation: StoredInput, net: Zset) -> RelationChange:
        stored = relation.stored
        masks = EVERY if relation.mask is None else net.rows[:, relation.mask]
        if masks is EVERY and relation.predicate is None:
            net = net if relation.whole else net.net(relation.words)
            if not net.may_have_null():
                return RelationChange.of(stored, net, EVERY, relation.none)
            return self._without_null(stored, net, masks, relation.none)
        n = len(net)
        if masks is not EVERY:
            masks = _of_aliases(stored, masks)
        read = [readers(masks, n, bit) for bit in range(len(stored.aliases))]
        if relation.predicate is not None and n:
            columns = net.columns()
            values = {
                name: decode(columns[i].copy(), kind, self._extern) for name, (i, kind) in relation.tested.items()
            }
            said = relation.predicate.evaluate(values, n)
            keep = flags(said) & valid(said) if said.null_count else flags(said)
            net, masks = net[keep], masks if masks is EVERY else masks[keep]
        filtered = tuple([n - readers(masks, len(net), bit) for bit, n in enumerate(read)])
        if relation.whole:
            net = net.project(relation.words)
        else:
            net, masks = (net.net(relation.words), EVERY) if masks is EVERY else _netted(net, relation.words, masks)
        if net.may_have_null():
            return self._without_null(stored, net, masks, filtered)
        if masks is not EVERY:
            return for_aliases(stored, net, masks, [()] * len(stored.aliases), filtered)
        return RelationChange.of(stored, net, EVERY, filtered)

    def _without_null(
        self, stored: StoredRelation, net: Zset, masks: np.ndarray, filtered: tuple[int, ...]
    ) -> RelationChange:
        """Returns the change without the rows that an alias cannot read because of a NULL in its join columns."""
        joined = [alias.not_null for alias in stored.aliases]
        nulls = [null(net.rows, words) & reads(masks, bit) for bit, words in enumerate(joined)]
        filtered = tuple([n + int(np.count_nonzero(of)) for n, of in zip(filtered, nulls, strict=True)])
        return for_aliases(stored, net, masks, joined, filtered)


def _of_aliases(stored: StoredRelation, masks: np.ndarray) -> np.ndarray:
    """Returns masks (int64[n]) with a bit per alias of a stored relation, for masks with a bit per occurrence."""
    found = np.zeros_like(masks)
    for bit, alias in enumerate(stored.aliases):
        found |= (masks >> alias.occurrence & 1) << bit
    return found


def _netted(net: Zset, words: list[int], masks: np.ndarray) -> tuple[Zset, np.ndarray]:
    """Returns the net of some columns, and its masks. These columns determine which aliases read a row."""
    rows = np.column_stack([net.rows[:, words], masks])[masks != 0]
    found = Zset(rows, net.weights[masks != 0]).net()
    return found.project(range(len(words))), found.rows[:, -1]


class StoredInput:
    """The positions, in input number ``input``, of the columns of a stored relation and of its predicate's columns.

    ``moves``: the columns are not all columns of the input in the same order. ``predicate``: its predicate, or None if
    all rows are known to meet it. ``mask``: the position of the masks. ``whole``: the rows are net without netting.
    """

    def __init__(self, stored: StoredRelation, number: int, wire: Wire, masks: str | None) -> None:
        self.stored = stored
        self.input = number
        self.none = (0,) * len(stored.aliases)
        known = stored.predicate is None or wire.known.issuperset(stored.predicate.conjuncts())
        self.predicate = None if known else stored.predicate
        place = {column.name.lower(): (i, column.type) for i, column in enumerate(wire.columns)}
        self.mask = None if masks is None else place[masks.lower()][0]
        self.words = [place[name.lower()][0] for name in stored.columns]
        every = [i for i in range(len(wire.columns)) if i != self.mask]
        derived = stored.name.startswith(DERIVED)  # their deletes need not come first
        self.moves = self.words != every
        self.whole = not self.moves and not derived and not wire.may_repeat  # it is net already
        tested = () if self.predicate is None else sorted(self.predicate.columns)
        self.tested = {name: place[name.lower()] for name in tested}


def _narrowed(plan: Plan, wires: Wires) -> Plan:
    """Returns the plan over tables that have only the delivered columns."""
    come = [{c.name.lower() for c in wires[source_of(table.name.lower())].columns} for table in plan.tables]
    tables = tuple(
        Table(
            table.name,
            tuple(
                replace(column, required=table.required(column.name))
                for column in table.columns
                if column.name.lower() in names
            ),
        )
        for table, names in zip(plan.tables, come, strict=True)
    )
    return replace(plan, tables=tables)
