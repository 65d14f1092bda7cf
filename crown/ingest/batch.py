"""A batch that is ready to be applied: a net change per stored relation, and what its deletes did not find."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from crown.ingest.changes import CheckedBatch
from crown.ingest.masks import EVERY, null, reads
from crown.kernels.batches import negatives
from crown.store.relations import Alias, StoredRelation
from crown.store.zset import Zset


@dataclass(slots=True, eq=False)
class RelationChange:
    """The net change of a stored relation: its deletes, then its inserts. Nobody changes one.

    The first ``gone`` tuples of ``net`` go, the others come. Equal inserts of a batch without deletes may stay apart.
    ``masks`` int64[n], or ``EVERY`` for all: bit ``i`` says that alias ``i`` reads the tuple. ``filtered[i]``: rows
    that alias ``i`` would read, but for its predicate or a NULL.
    """

    relation: StoredRelation
    net: Zset
    gone: int
    masks: np.ndarray
    filtered: tuple[int, ...]

    @classmethod
    def of(cls, relation: StoredRelation, net: Zset, masks: np.ndarray, filtered: tuple[int, ...]) -> RelationChange:
        """Returns the change for a net whose deletes stand before its inserts."""
        return cls(relation, net, int(negatives(net.weights)), masks, filtered)

    def count(self, sign: int) -> int:
        """Returns how many tuples go (``sign`` -1) or come."""
        return self.gone if sign < 0 else len(self.net.weights) - self.gone

    def tuples(self, sign: int) -> Zset:
        """Returns the tuples that go (``sign`` -1) or come."""
        if sign < 0:
            return self.net[: self.gone]
        return self.net[self.gone :] if self.gone else self.net

    def masks_of(self, sign: int) -> np.ndarray:
        """Returns the masks of these tuples, or ``EVERY``."""
        if self.masks is EVERY:
            return EVERY
        return self.masks[: self.gone] if sign < 0 else self.masks[self.gone :]

    def reads(self, bit: int) -> np.ndarray:
        """Returns bool[n]: alias ``bit`` reads the tuple."""
        return np.broadcast_to(reads(self.masks, bit), len(self.net))

    def readers(self, bit: int) -> int:
        """Returns how many tuples alias ``bit`` reads."""
        return len(self.net.weights) if self.masks is EVERY else int(np.count_nonzero(self.reads(bit)))

    def applied(self, deletes: int, inserts: int) -> RelationChange:
        """Returns the part of the first ``deletes`` deletes and the first ``inserts`` inserts."""
        at = np.arange(len(self.net))
        keep = (at < deletes) | ((at >= self.gone) & (at < self.gone + inserts))
        return self._chosen(keep, self.net)

    def weighted(self, weights: np.ndarray) -> RelationChange:
        """Returns the change with other ``weights`` (int64[n]) of the same signs; tuples of weight 0 are left out."""
        return self._chosen(weights != 0, Zset(self.net.rows, weights))

    def _chosen(self, keep: np.ndarray, net: Zset) -> RelationChange:
        masks = self.masks if self.masks is EVERY else self.masks[keep]
        return RelationChange(self.relation, net[keep], int(np.count_nonzero(keep[: self.gone])), masks, self.filtered)

    def inverse(self) -> RelationChange:
        """Returns the change that takes this one back."""
        inserts, deletes = self.tuples(1).negated(), self.tuples(-1).negated()
        net = Zset.gathered([inserts, deletes], self.net.width)
        masks = EVERY if self.masks is EVERY else np.concatenate([self.masks_of(1), self.masks_of(-1)])
        return RelationChange(self.relation, net, len(inserts), masks, self.filtered)

    def of_aliases(self, sign: int) -> Iterable[tuple[Alias, Zset]]:
        """Yields what each alias reads of the deletes (``sign`` -1) or inserts, in the order of its attributes."""
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
    """Returns the change of a relation, with the tuples that some alias reads: by its mask, and without a NULL.

    ``masks`` int64[n], or ``EVERY``: bit ``i`` says that alias ``i`` reads the tuple. ``joined[i]``: words of the tuple
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


@dataclass(slots=True, eq=False)
class PreparedBatch:
    """A batch, ready to be applied. Nobody changes one, and no error of its rows can come any more.

    ``nets``: the net of each relation (by name in lower case) of which there are changes. ``rows``: rows taken;
    ``checked``: what the batch was, by relation; ``advances``: watermarks that are reached; ``filtered``: rows that no
    stage reads, and that are in no net.
    """

    nets: Mapping[str, Zset]
    rows: int
    checked: dict[str, CheckedBatch]
    advances: Mapping[str, int]
    filtered: Mapping[str, int]

    @property
    def bad(self) -> dict[str, CheckedBatch]:
        """Returns the relations of which rows were left out."""
        return {name: batch for name, batch in self.checked.items() if batch.bad}


class MissingDeletes:
    """What deletes of a batch did not find: per change, by its number, and row, the missing copies.

    A batch can be taken back only if these are known, so they are kept with it (``to_rows`` / ``from_rows``:
    JSON-able).
    """

    def __init__(self) -> None:
        self._missing: dict[int, dict[int, int]] = {}

    def note(self, change: int, missing: np.ndarray) -> None:
        """Remembers the non-zero entries of ``missing`` (int64 per delete of that change)."""
        self._missing[change] = {int(i): int(missing[i]) for i in np.flatnonzero(missing)}

    def effective(self, number: int, change: RelationChange) -> RelationChange:
        """Returns change ``number`` of the batch as it took place."""
        found = self._missing.get(number)
        if not found:
            return change
        weights = change.net.weights.copy()
        weights[list(found)] += np.array(list(found.values()))
        return change.weighted(weights)

    def missing(self, change: int, deletes: int) -> np.ndarray:
        """Returns the missing copies (int64) of each of that many deletes of a change."""
        found = self._missing.get(change, {})
        out = np.zeros(deletes, np.int64)
        out[list(found)] = list(found.values())
        return out

    def __bool__(self) -> bool:
        return any(self._missing.values())

    @property
    def changes(self) -> list[int]:
        """Returns the numbers of the changes that missed something."""
        return [change for change, rows in self._missing.items() if rows]

    def to_rows(self) -> list[list[int]]:
        """Returns [change, row, missing] triples."""
        return [[c, r, m] for c, rows in self._missing.items() for r, m in rows.items()]

    @classmethod
    def from_rows(cls, rows: Iterable[Sequence[int]]) -> MissingDeletes:
        """Returns the inverse of ``to_rows``."""
        made = cls()
        for change, row, missing in rows:
            made._missing.setdefault(change, {})[row] = missing
        return made
