"""What an engine stores of its relations, as Arrow; and an engine filled with that.

A stored relation (``crown.store.relations``) has the columns that its aliases read, of the rows that pass their
predicate: not the rows as they came, so they cannot be prepared once more. This is the way from one state to another
of the same plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from crown.engine.engine import Engine
from crown.engine.kernels import layout as L
from crown.engine.state.arenas import State
from crown.ingest.batch import Prepared, for_aliases
from crown.ingest.masks import EVERY
from crown.kernels import arena as A
from crown.kernels import geometry as at
from crown.kernels.tables import LOW32
from crown.store.codec import decode, encode
from crown.store.dictionary import with_room
from crown.store.flat import booleans
from crown.store.relations import StoredRelation, stored_relations
from crown.store.zset import Zset
from plans.plan import Plan


@dataclass(frozen=True)
class Stored:
    """The tuples of a stored relation: ``columns[w]`` are its words as values, ``copies`` (int64[n]) how often each is
    there.

    ``masks``: int64[n], or ``EVERY``: bit ``o`` says that occurrence ``o`` of the plan reads the tuple.
    """

    relation: StoredRelation
    columns: tuple[pa.Array, ...]
    copies: np.ndarray
    masks: np.ndarray

    def __len__(self) -> int:
        return len(self.copies)

    def chosen(self, keep: np.ndarray, masks: np.ndarray = EVERY) -> Stored:
        """Returns the tuples where ``keep`` (bool[n]) says so, with their ``masks``."""
        mask = booleans(keep)
        return Stored(self.relation, tuple(c.filter(mask) for c in self.columns), self.copies[keep], masks)


def types_of(plan: Plan, relation: StoredRelation) -> tuple[str, ...]:
    """Returns the types of the words of a stored relation."""
    columns = {column.name.lower(): column.type for column in plan.table(relation.name).columns}
    return tuple(columns[name.lower()] for name in relation.columns)


def stored(engine: Engine) -> list[Stored]:
    """Returns the tuples of all stored relations, in the order of ``stored_relations``. O(state)."""
    engine.ready()
    found = []
    for relation in stored_relations(engine.plan):
        tuples = tuples_of(engine.state, relation)
        kinds = types_of(engine.plan, relation)
        columns = tuple(
            decode(np.ascontiguousarray(tuples.rows[:, word]), kind, engine.dictionary.extern)
            for word, kind in enumerate(kinds)
        )
        found.append(Stored(relation, columns, tuples.weights, EVERY))
    return found


def tuples_of(state: State, relation: StoredRelation) -> Zset:
    """Returns the tuples of a stored relation, each with its copies. O(tuples)."""
    alias = relation.aliases[0]
    if alias.node in state.bags:
        return state.bags[alias.node].rows(alias.atom)
    record = state.compiled.record[alias.node]
    width, table = int(state.plan_array[record + L.R_WIDTH]), int(state.plan_array[record + L.R_TABLE])
    slots = int(state.arena[table + A.T_SLOTS])
    words = state.arena[slots : slots + int(state.arena[table + A.T_CAPACITY])]
    handles = words[words != 0] & LOW32
    copies = at.copies(state.halves, handles, width).astype(np.int64)
    return Zset(state.arena[handles[:, None] + np.arange(width)], copies)


def fill(engine: Engine, given: Sequence[Stored]) -> None:
    """Enters tuples into a new engine, which then has them and no others. O(tuples * lambda)."""
    prepared = with_room(engine.dictionary, lambda: _prepared(engine, given), engine.compact)
    for _ in engine.run(prepared, deltas=False):
        pass


def _prepared(engine: Engine, given: Sequence[Stored]) -> Prepared:
    changes, rows = [], 0
    for relation in given:
        columns = np.empty((len(relation.columns), len(relation)), np.int64)
        for word, kind in enumerate(types_of(engine.plan, relation.relation)):
            columns[word] = encode(relation.columns[word], kind, engine.dictionary.intern)
        joined = [alias.not_null for alias in relation.relation.aliases]
        net = Zset.of_columns(columns, relation.copies)
        changes.append(for_aliases(relation.relation, net, relation.masks, joined, (0,) * len(joined)))
        rows += len(relation)
    return Prepared(tuple(changes), rows, {})
