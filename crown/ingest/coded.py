"""Changes that come as codes, from a stage before: no Arrow table, no check, no dictionary look-up.

What ``Preparer`` does for the rows of a user is done here for the net of a relation: project on the columns that are
stored, apply the predicate, leave out what joins on a NULL.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from crown.errors import CrownError
from crown.ingest.batch import RelationChange, for_aliases
from crown.ingest.masks import EVERY, null
from crown.kernels.batches import extent
from crown.store.codec import NULL, Extern, decode
from crown.store.flat import flags
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

    def changes(self, nets: Mapping[str, Zset]) -> tuple[RelationChange, ...]:
        """Returns the changes for ``nets``: by name of a relation, with all columns of its table, in their order.

        A net is exact: its deletes are there, and come first; only inserts of a base relation may be equal. Several
        stored relations may take from one net. Raises CrownError for a relation that the plan does not read. O(tuples).
        """
        given = {name.lower(): net for name, net in nets.items()}
        if not self._names.issuperset(given):
            raise CrownError(f"the plan does not read the relation {min(set(given) - self._names)!r}")
        return tuple([self._change(of, given[of.name]) for of in self._relations if of.name in given])

    def _change(self, relation: _Columns, net: Zset) -> RelationChange:
        stored, n = relation.stored, len(net)
        if relation.predicate is not None and n:
            columns = net.columns()
            values = {
                name: decode(columns[i].copy(), kind, self._extern) for name, (i, kind) in relation.tested.items()
            }
            net = net[flags(relation.predicate.evaluate(values, n).fill_null(False))]
        rejected = n - len(net)
        if not relation.whole:
            net = net.net(relation.words)
        if not net.rows.size or extent(net.words())[0] != NULL:
            return RelationChange.of(stored, net, EVERY, (rejected,) * len(stored.aliases))
        joined = [alias.not_null for alias in stored.aliases]
        filtered = tuple(rejected + int(np.count_nonzero(null(net.rows, words))) for words in joined)
        return for_aliases(stored, net, EVERY, joined, filtered)


class _Columns:
    """Where the columns of a stored relation stand in its table, and those that its predicate tests, with types.

    ``predicate``: its predicate, unless that is known to hold. ``apart``: equal rows of the relation stay apart.
    """

    def __init__(self, plan: Plan, stored: StoredRelation, held: Parts, apart: bool) -> None:
        self.stored = stored
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
