"""Looks up deletes in the records of a join, for relations that a join stores completely.

The look-up precedes the join's own update, so the join's record of a tuple has the copies before the batch. The join
does not store tuples that no alias of the relation reads, because a join column is NULL. The base tables count these
tuples themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from crown.engine.kernels import layout as L
from crown.engine.kernels import state as kernels
from crown.engine.state import State
from crown.ingest.batch import EVERY, null, reads
from crown.kernels.memory import geometry as at
from crown.kernels.memory.arena import T_CAPACITY, T_COUNT, T_SLOTS
from crown.kernels.memory.geometry import rows_table
from crown.kernels.memory.tables import LOW32, table_at
from crown.stages.joins.core import Join
from crown.store.zset import Zset
from plans.programs.reads import occurrences_of_plan
from plans.programs.stored_relations import StoredRelation, stored_relations
from plans.schema import Column


class JoinAsTable:
    """A relation of which a join stores all ``columns`` that are read, in the ``states`` of its cells.

    A cell that has a tuple has all its copies; several cells may have it. ``masks``: None, or the column of the masks
    of occurrences that read a tuple, which the join's records also have.
    """

    def __init__(
        self, states: Sequence[State], relation: StoredRelation, columns: Sequence[Column], masks: str | None
    ) -> None:
        place = {column.name.lower(): i for i, column in enumerate(columns)}
        self._words = [place[name.lower()] for name in relation.columns]
        self._masks = None if masks is None else place[masks.lower()]
        self._aliases = relation.aliases
        # True if the join omits tuples that no alias can use.
        self._omits_rows = masks is not None or all(alias.not_null for alias in relation.aliases)
        self._columns = [self._words.index(i) for i in range(len(columns)) if i != self._masks]
        self._states, self._relation = states, relation
        self._record = states[0].compiled.record[relation.aliases[0].node]
        self._table = int(table_at(rows_table(min(alias.node for alias in relation.aliases))))

    def has(self, state: State, record: int) -> bool:
        """Returns whether these are the records of a join that have this descriptor."""
        return state is self._states[0] and record == self._record

    def __len__(self) -> int:
        if len(self._states) > 1:
            return len(self.scan())
        return int(self._states[0].arena[self._table + T_COUNT])

    def scan(self) -> Zset:
        """Returns the tuples that the join stores, each once, with their copies. O(tuples)."""
        if len(self._states) == 1:
            return self._scan_cell(self._states[0])
        tuples = Zset.gathered(list(map(self._scan_cell, self._states)), len(self._columns)).net()
        return Zset(tuples.rows, self.copies(tuples))

    def _scan_cell(self, state: State) -> Zset:
        handles = _handles(state, self._relation)
        width, rows = self._relation.width, state.arena[handles[:, None] + np.array(self._columns)]
        if self._masks is not None:
            masks = np.zeros(len(handles), np.int64)
            for alias in self._aliases:
                place = at.row_place(state.halves, handles + state.compiled.offset[alias.node])
                masks |= (place != at.UNREAD).astype(np.int64) << alias.occurrence
            rows = np.insert(rows, self._masks, masks, axis=1)
        return Zset(rows, at.copies(state.halves, handles, width).astype(np.int64))

    def unstored(self, net: Zset) -> np.ndarray | None:
        """Returns the mask (bool[n]) of the tuples that the join does not store, or None if it stores all. O(n)."""
        if not self._omits_rows or (self._masks is None and not net.may_have_null()):
            return None
        rows, stored = net.rows[:, self._words], np.zeros(len(net), bool)
        masks = EVERY if self._masks is None else net.rows[:, self._masks]
        for alias in self._aliases:
            stored |= reads(masks, alias.occurrence) & ~null(rows, alias.not_null)
        return None if stored.all() else ~stored

    def copies(self, net: Zset) -> np.ndarray:
        """Returns the copies of each tuple in the join, int64[n]. Expected O(n)."""
        rows = net.project(self._words).flat()
        found = self._copies_in(self._states[0], rows, len(net))
        for state in self._states[1:]:
            np.maximum(found, self._copies_in(state, rows, len(net)), out=found)
        return found

    def _copies_in(self, state: State, rows: np.ndarray, n: int) -> np.ndarray:
        found = np.empty(n, np.int64)
        kernels.copies_of(state.arena, state.halves, state.plan_array, self._record, rows, found)
        return found


def fully_stored(join: Join, columns: dict[str, tuple[Column, ...]]) -> dict[str, JoinAsTable]:
    """Returns the relations (in lower case) of which a join stores all ``columns`` that are read, and all rows: it has
    no predicate on the relation, or one that all rows are known to meet.

    Excludes relations of bags, which are stored in the bag's own tables, and of summed leaves, whose tuples are not
    stored. Also excludes a join that does not know the whole mask of a tuple, because occurrences read the relation
    through another stored relation.
    """
    found, state = {}, join.states[0]
    occurrences = Counter(atom.relation.lower() for atom in occurrences_of_plan(state.plan))
    for relation in stored_relations(state.plan):
        name = relation.name.lower()
        names = {column.lower() for column in relation.columns}
        columns_read = [
            c.name.lower() for c in columns.get(name, ()) if c.name.lower() != (join.stage.masks or "").lower()
        ]
        has_all_columns = bool(columns_read) and names == set(columns_read) and relation.width == len(columns_read)
        has_all_rows = relation.predicate is None or join.known.get(name, frozenset()).issuperset(
            relation.predicate.conjuncts()
        )
        stored_elsewhere = any(a.node in state.bags or a.node in state.compiled.summed for a in relation.aliases)
        knows_mask = join.stage.masks is None or occurrences[name] == len(relation.aliases)
        if has_all_columns and has_all_rows and knows_mask and not stored_elsewhere:
            found[name] = JoinAsTable(join.states, relation, columns[name], join.stage.masks)
    return found


def _handles(state: State, relation: StoredRelation) -> np.ndarray:
    """Returns the handles of the records of a stored relation outside of bags, int64[tuples]. O(tuples)."""
    table = int(state.plan_array[state.compiled.record[relation.aliases[0].node] + L.R_TABLE])
    slots = int(state.arena[table + T_SLOTS])
    words = state.arena[slots : slots + int(state.arena[table + T_CAPACITY])]
    found: np.ndarray = words[words != 0] & LOW32
    return found
