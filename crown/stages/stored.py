"""Relations that a join stores whole: the gate asks its records what a delete finds, and counts no tuple twice.

The join's record of a tuple has its copies as they were before the batch, for the gate is asked first. What the join
does not store are the tuples that no alias of the relation reads, because a column that it joins on is NULL: those are
the *rest*, which the gate counts itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crown.engine.kernels import state as kernels
from crown.engine.state.arenas import State
from crown.engine.stored import tuples_of
from crown.ingest.masks import null
from crown.kernels.arena import T_COUNT
from crown.kernels.batches import extent
from crown.kernels.geometry import rows_table
from crown.kernels.tables import table_at
from crown.store.codec import NULL
from crown.store.relations import StoredRelation, stored_relations
from crown.store.zset import Zset
from plans.schema import Column


class StoredWhole:
    """A relation of which a join stores every column that is read, ``columns``."""

    def __init__(self, state: State, relation: StoredRelation, columns: Sequence[Column]) -> None:
        place = {column.name.lower(): i for i, column in enumerate(columns)}
        self._words = [place[name.lower()] for name in relation.columns]
        self._not_null = [alias.not_null for alias in relation.aliases]
        self._leaves = all(self._not_null)  # it does not store a tuple that no alias can use
        self._columns = [self._words.index(i) for i in range(len(columns))]
        self._state, self._relation = state, relation
        self._record = state.compiled.record[relation.aliases[0].node]
        self._table = int(table_at(rows_table(min(alias.node for alias in relation.aliases))))

    def __len__(self) -> int:
        return int(self._state.arena[self._table + T_COUNT])

    def scan(self) -> Zset:
        """Returns the tuples that the join stores, with their copies. O(tuples)."""
        return tuples_of(self._state, self._relation).project(self._columns)

    def rest(self, net: Zset) -> np.ndarray | None:
        """Returns the mask (bool[n]) of the tuples that the join does not store; None if it stores all. O(n)."""
        if not self._leaves or not net.rows.size or extent(net.words())[0] != NULL:
            return None
        rows = net.rows[:, self._words]
        return np.logical_and.reduce([null(rows, words) for words in self._not_null])

    def copies(self, net: Zset) -> np.ndarray:
        """Returns how many copies of each tuple the join has, int64[n]. Expected O(n)."""
        found = np.empty(len(net), np.int64)
        state, rows = self._state, net.project(self._words).flat()
        kernels.copies_of(state.arena, state.halves, state.plan_array, self._record, rows, found)
        return found


def stored_whole(state: State, columns: dict[str, tuple[Column, ...]]) -> dict[str, StoredWhole]:
    """Returns the relations (in lower case) that a join stores with all ``columns`` that are read of them, unfiltered.

    A bag keeps its relations in tables of its own, and is not asked; of a summed leaf no tuple is stored.
    """
    found = {}
    for relation in stored_relations(state.plan):
        name = relation.name.lower()
        names = {column.lower() for column in relation.columns}
        wanted = [column.name.lower() for column in columns.get(name, ())]
        whole = bool(wanted) and names == set(wanted) and relation.width == len(wanted)
        apart = any(a.node in state.bags or a.node in state.compiled.summed for a in relation.aliases)
        if whole and relation.predicate is None and not apart:
            found[name] = StoredWhole(state, relation, columns[name])
    return found
