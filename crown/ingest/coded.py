"""Changes that come as codes, from a stage before: no Arrow table, no check, no dictionary look-up.

The net of a relation is projected on the columns that are stored; the predicate is applied, and what joins on a NULL is
left out.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from crown.errors import CrownError
from crown.ingest.batch import RelationChange, for_aliases
from crown.ingest.masks import EVERY, null, readers, reads
from crown.store.arrow_buffers import flags
from crown.store.codec import Extern, decode
from crown.store.relations import StoredRelation, stored_relations
from crown.store.zset import Zset
from plans.plan import Plan
from plans.reads import Parts
from plans.schema import DERIVED


class CodedPreparer:
    """Turns nets in codes into changes of the stored relations of a plan.

    ``extern`` gives values for codes, which only predicates ask for. ``held``: conditions that all rows of a relation
    (in lower case) are known to meet. ``apart``: relations whose changes come as they are, so they are netted here.
    """

    def __init__(
        self, plan: Plan, extern: Extern, held: Mapping[str, Parts], apart: frozenset[str] = frozenset()
    ) -> None:
        self._extern = extern
        self._relations = [
            _Columns(plan, relation, held.get(relation.name.lower(), frozenset()), relation.name.lower() in apart)
            for relation in stored_relations(plan)
        ]
        self._names = frozenset(relation.name for relation in self._relations)

    def changes(self, nets: Mapping[str, tuple[Zset, np.ndarray]]) -> tuple[RelationChange, ...]:
        """Returns the changes for ``nets`` with their masks: by name of a relation in lower case, with all columns of
        its table, in their order.

        A net is exact: its deletes are there, and come first; only inserts of a base relation may be equal. Masks are
        int64[n], or ``EVERY``: bit ``o`` says that occurrence ``o`` of the plan reads the row. Several stored relations
        may take from one net. Raises CrownError for a relation that the plan does not read. O(tuples).
        """
        if not self._names.issuperset(nets):
            raise CrownError(f"the plan does not read the relation {min(set(nets) - self._names)!r}")
        return tuple([self._change(of, *nets[of.name]) for of in self._relations if of.name in nets])

    def _change(self, relation: _Columns, net: Zset, masks: np.ndarray) -> RelationChange:
        stored = relation.stored
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
            keep = flags(relation.predicate.evaluate(values, n).fill_null(False))
            net, masks = net[keep], masks if masks is EVERY else masks[keep]
        filtered = tuple([n - readers(masks, len(net), bit) for bit, n in enumerate(read)])
        if not relation.whole:
            net, masks = (net.net(relation.words), EVERY) if masks is EVERY else _netted(net, relation.words, masks)
        if net.may_have_null():
            return self._without_null(stored, net, masks, filtered)
        if masks is not EVERY:
            return for_aliases(stored, net, masks, [()] * len(stored.aliases), filtered)
        return RelationChange.of(stored, net, EVERY, filtered)

    def _without_null(
        self, stored: StoredRelation, net: Zset, masks: np.ndarray, filtered: tuple[int, ...]
    ) -> RelationChange:
        """Returns the change, in which no alias reads a row with a NULL that it joins on."""
        joined = [alias.not_null for alias in stored.aliases]
        nulls = [null(net.rows, words) & reads(masks, bit) for bit, words in enumerate(joined)]
        filtered = tuple([n + int(np.count_nonzero(of)) for n, of in zip(filtered, nulls, strict=True)])
        return for_aliases(stored, net, masks, joined, filtered)


def _of_aliases(stored: StoredRelation, masks: np.ndarray) -> np.ndarray:
    """Returns the masks (int64[n]) with a bit per alias of a stored relation for those with one per occurrence."""
    found = np.zeros_like(masks)
    for bit, alias in enumerate(stored.aliases):
        found |= (masks >> alias.occurrence & 1) << bit
    return found


def _netted(net: Zset, words: list[int], masks: np.ndarray) -> tuple[Zset, np.ndarray]:
    """Returns the net of some columns, and its masks. What is read by an alias is a function of these columns."""
    rows = np.column_stack([net.rows[:, words], masks])[masks != 0]
    found = Zset(rows, net.weights[masks != 0]).net()
    return found.project(range(len(words))), found.rows[:, -1]


class _Columns:
    """Where the columns of a stored relation stand in its table, and those that its predicate tests, with types.

    ``predicate``: its predicate, unless that is known to hold. ``apart``: equal rows of the relation stay apart.
    """

    def __init__(self, plan: Plan, stored: StoredRelation, held: Parts, apart: bool) -> None:
        self.stored = stored
        self.none = (0,) * len(stored.aliases)
        self.name = stored.name.lower()
        known = stored.predicate is None or held.issuperset(stored.predicate.conjuncts())
        self.predicate = None if known else stored.predicate
        columns = plan.table(stored.name).columns
        place = {column.name.lower(): (i, column.type) for i, column in enumerate(columns)}
        self.words = [place[name.lower()][0] for name in stored.columns]
        derived = stored.name.startswith(DERIVED)  # their deletes need not come first
        self.whole = self.words == list(range(len(columns))) and not derived and not apart  # it is net already
        tested = () if self.predicate is None else sorted(self.predicate.columns)
        self.tested = {name: place[name.lower()] for name in tested}
