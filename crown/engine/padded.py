"""Finds the groups that a batch may pad or unpad, and runs the kernels of ``kernels.padding``.

Before the insertions, the groups of inserted tuples of a padded relation are visited. After them, the groups of its
deleted tuples, and the groups that have new parent rows. A group is found by its key, so visiting it without need, or
twice, does no harm. O(changes).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from crown.engine.compile import CompiledPlan
from crown.engine.kernels import layout as L
from crown.engine.kernels.groups import node_at
from crown.ingest.batch import EVERY, RelationChange
from crown.store.zset import Zset
from plans.programs.stored_relations import Alias


@dataclass(frozen=True)
class Visit:
    """Tuples whose groups above the padded ``node`` are visited.

    ``lookup``: the plan offset of the look-up that finds the groups. Only tuples with bit ``bit`` in their masks count.
    """

    node: int
    lookup: int
    tuples: Zset
    masks: np.ndarray
    bit: int

    def words(self) -> tuple[int, np.ndarray]:
        """Returns the number of words of a tuple, and the words of all tuples. A tuple without columns has a word that
        nothing reads."""
        width = self.tuples.width
        return (width, self.tuples.flat()) if width else (1, np.zeros(len(self.tuples), np.int64))


class Paddings:
    """The padded nodes of a compiled plan."""

    def __init__(self, compiled: CompiledPlan) -> None:
        words = compiled.array
        self._own_lookups: dict[int, int] = {}  # padded node -> its records' look-up of its group
        # node -> (padded child, look-up of the child's group)
        self._child_lookups: dict[int, list[tuple[int, int]]] = {}
        for node in range(len(compiled.words)):
            d = int(node_at(node))
            if not words[d + L.N_PADDED]:
                continue
            parent = int(words[d + L.N_PARENT])
            self._own_lookups[node] = _lookup_at(words, node, 0)
            link = 1 + compiled.children[parent].index(node)
            self._child_lookups.setdefault(parent, []).append((node, _lookup_at(words, parent, link)))

    def __bool__(self) -> bool:
        return bool(self._own_lookups)

    @property
    def unfinished(self) -> Visit:
        """Returns a visit in which a kernel does nothing but finish the group within which it was left."""
        node, lookup = next(iter(self._own_lookups.items()))
        return Visit(node, lookup, Zset(np.zeros((1, 1), np.int64), np.ones(1, np.int64)), EVERY, 0)

    def before_insertions(self, aliases: Sequence[Alias]) -> Iterator[tuple[int, int, int]]:
        """Yields the visits for inserted tuples of a relation before the insertions: number of the alias, padded node
        and look-up."""
        for bit, alias in enumerate(aliases):
            if alias.node in self._own_lookups:
                yield bit, alias.node, self._own_lookups[alias.node]

    def after_insertions(self, aliases: Sequence[Alias]) -> Iterator[tuple[int, int, int]]:
        """Yields the visits for tuples of a relation after the insertions: sign of the tuples, padded node and
        look-up."""
        for alias in aliases:
            if alias.node in self._own_lookups:
                yield -1, alias.node, self._own_lookups[alias.node]
            for node, lookup in self._child_lookups.get(alias.node, ()):
                yield 1, node, lookup

    def visits_before(self, changes: Sequence[RelationChange]) -> Iterator[Visit]:
        """Yields the visits for inserted tuples of padded relations."""
        for change in changes:
            for bit, node, lookup in self.before_insertions(change.relation.aliases):
                yield Visit(node, lookup, change.tuples(1), change.masks_of(1), bit)

    def visits_after(self, changes: Sequence[RelationChange], undone: Sequence[RelationChange]) -> Iterator[Visit]:
        """Yields the visits for deleted tuples of padded relations, and for inserted rows above padded nodes.

        Also yields those for tuples that ``undone`` changes had inserted.
        """
        for change in changes:
            for sign, node, lookup in self.after_insertions(change.relation.aliases):
                yield Visit(node, lookup, change.tuples(sign), EVERY, 0)
        for change in undone:
            for alias in change.relation.aliases:
                if alias.node in self._own_lookups:
                    yield Visit(alias.node, self._own_lookups[alias.node], change.tuples(1), EVERY, 0)


def _lookup_at(words: np.ndarray, node: int, q: int) -> int:
    """Returns the plan offset of look-up ``q`` of a node's records: 0 for its own group, then those of its children."""
    d = int(node_at(node))
    number = int(words[words[d + L.N_LOOKUPS] + q])
    return int(words[words[d + L.N_RECORD] + L.R_LOOKUP0]) + L.LOOKUP * number
