"""Chooses the tries that a generic bag keeps of its atoms, and writes the plan array that kernels read.

The search from a changed row of an atom binds attributes in a fixed order. For another atom it first knows the columns
that the row binds, then one more, and so on to all: a path of sets of columns. The trie of an atom has the sets and the
edges of the paths of all searches. So two searches that reach the same set share its nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from crown.bags.kernels import layout as L
from crown.bags.protocol import BagSpec
from crown.kernels.memory.geometry import counter_of
from crown.kernels.memory.tables import table_at

LAYOUT = 3
"""The version of the records and the plan array. State of another version is rejected."""
Set = frozenset[str]


def binding_order(spec: BagSpec, source: int) -> list[str]:
    """Returns the attributes outside atom `source` in the order in which the delta join binds them.

    The next attribute is the one with the most atoms that share a bound attribute, so that lists are short; among
    several, one of a filtered atom.
    """
    bound = set(spec.atoms[source])
    others = [i for i in range(len(spec.atoms)) if i != source]
    order: list[str] = []
    rest = [a for a in spec.attributes if a not in bound]
    while rest:
        lists = {v: [i for i in others if v in spec.atoms[i] and bound & set(spec.atoms[i])] for v in rest}
        best = max(rest, key=lambda v: (len(lists[v]), len(spec.filtered.intersection(lists[v])), -rest.index(v)))
        rest.remove(best)
        order.append(best)
        bound.add(best)
    return order


@dataclass(frozen=True)
class Trie:
    """The trie of an atom.

    ``sets``: in the order of their size, the set of all columns last. ``edges``: each from a set to the set with
    another attribute. ``first``: the number of the first set's table.
    """

    atom: tuple[str, ...]
    sets: tuple[Set, ...]
    edges: tuple[tuple[Set, str], ...]
    first: int

    def columns(self, of: Set) -> list[str]:
        """Returns the attributes of a set in the order of the atom, which is the order of values in its records."""
        return [attribute for attribute in self.atom if attribute in of]

    def whole(self, of: Set) -> bool:
        """Returns True for the set whose records are the rows."""
        return len(of) == len(self.atom)

    def incoming(self, of: Set) -> list[tuple[Set, str]]:
        """Returns the edges that end in a set."""
        return [(above, v) for above, v in self.edges if above | {v} == of]

    def leaving(self, of: Set) -> list[str]:
        """Returns the attributes that edges add to a set."""
        return [v for above, v in self.edges if above == of]

    def link(self, above: Set, v: str) -> int:
        """Returns the word of a record below an edge that holds the parent node."""
        below = above | {v}
        return L.first_link(len(below), self.whole(below)) + self.incoming(below).index((above, v))

    def field(self, above: Set, v: str) -> int:
        """Returns the word of a node that holds its list for an edge."""
        return L.list_at(len(above), len(self.incoming(above)), self.leaving(above).index(v))

    def carried(self, above: Set, v: str) -> int:
        """Returns the word of a record below an edge that holds the value stored in the list."""
        return self.columns(above | {v}).index(v)

    def table(self, of: Set) -> int:
        """Returns the number of a set's table."""
        return L.set_table(self.first, self.sets.index(of))

    @property
    def rows(self) -> int:
        """Returns the number of the table of the rows."""
        return self.table(frozenset(self.atom))

    def words(self, of: Set) -> int:
        """Returns the words of a set's records."""
        return L.record_words(len(of), self.whole(of), len(self.incoming(of)), len(self.leaving(of)))


class Tries:
    """The tries of all atoms of a bag, the paths that searches take in them, and the plan array."""

    def __init__(self, spec: BagSpec) -> None:
        self.spec = spec
        self.orders = [binding_order(spec, source) for source in range(len(spec.atoms))]
        self.tries: list[Trie] = []
        first = 0
        for number, atom in enumerate(spec.atoms):
            paths = [self._path(source, number) for source in range(len(spec.atoms)) if source != number]
            sets = {frozenset(atom)}.union(*paths)
            edges = {(above, next(iter(below - above))) for path in paths for above, below in pairwise(path)}
            ordered = sorted(sets, key=lambda of: (len(of), sorted(of)))
            trie = Trie(atom, tuple(ordered), tuple(sorted(edges, key=lambda edge: (sorted(edge[0]), edge[1]))), first)
            first += len(trie.sets)
            self.tries.append(trie)
        self.sets = first

    def _path(self, source: int, atom: int) -> list[Set]:
        """Returns the sets of columns of an atom that the search from another atom knows, in order."""
        mine = frozenset(self.spec.atoms[atom])
        path = [mine & set(self.spec.atoms[source])]
        for attribute in self.orders[source]:
            if attribute in mine:
                path.append(path[-1] | {attribute})
        return path

    @property
    def tables(self) -> int:
        """Returns how many tables the state has."""
        return L.table_total(self.sets)

    @property
    def counted(self) -> bool:
        """Returns True if several results may have the same outputs, so that outputs are counted."""
        return set(self.spec.outputs) != set(self.spec.attributes)

    @property
    def slots_at(self) -> int:
        """Returns the word of a cursor at which the slots begin."""
        return L.C_STACK + L.LEVEL * (len(self.spec.attributes) + 1)

    @cached_property
    def _slots(self) -> int:
        """Returns how many slots a search needs at most: one per set that it reaches."""
        atoms = range(len(self.spec.atoms))
        return max(sum(len(self._path(source, atom)) for atom in atoms if atom != source) for source in atoms)

    @property
    def cursor_words(self) -> int:
        """Returns the words of a cursor."""
        return self.slots_at + self._slots + max(len(trie.sets) for trie in self.tries)

    def array(self) -> np.ndarray:
        """Returns the plan array (see ``layout``)."""
        spec, number = self.spec, {a: i for i, a in enumerate(self.spec.attributes)}
        words = _Words(L.P_ATOMS + L.ATOM * len(spec.atoms))
        sets = [{of: words.place(self._set(trie, of, words)) for of in trie.sets} for trie in self.tries]
        header = {
            L.P_ATTRS: len(number),
            L.P_OUTS: len(spec.outputs),
            L.P_OUTS_AT: words.place([number[a] for a in spec.outputs]),
            L.P_COUNTED: int(self.counted),
            L.P_WEIGHTED: int(spec.weighted),
            L.P_OUT_TABLE: int(table_at(L.output_table(self.sets))),
            L.P_IDENTITY: words.place(range(len(number) + 1)),
            L.P_SLOTS: self.slots_at,
            L.P_OWN: self.slots_at + self._slots,
        }
        for position, value in header.items():
            words.words[position] = value
        for source, trie in enumerate(self.tries):
            starts, steps, copies = self._search(source, sets, words)
            at = L.P_ATOMS + L.ATOM * source
            words.words[at : at + L.ATOM] = [
                len(trie.atom),
                int(table_at(trie.rows)),
                words.place([number[a] for a in trie.atom]),
                len(trie.sets),
                words.place([sets[source][of] for of in trie.sets]),
                len(starts) // L.START_WORDS,
                words.place(starts),
                len(steps) // L.STEP_WORDS,
                words.place(steps),
                len(copies) // L.COPIES_WORDS,
                words.place(copies),
            ]
        return np.array(words.words, dtype=np.int64)

    def _set(self, trie: Trie, of: Set, words: _Words) -> list[int]:
        """Returns the words of a set and of the edges that lead to it."""
        columns, incoming, leaving = trie.columns(of), trie.incoming(of), trie.leaving(of)
        edges: list[int] = []
        for above, v in incoming:
            edges += [trie.sets.index(above), trie.link(above, v), trie.field(above, v), trie.carried(above, v)]
        return [
            int(table_at(trie.table(of))),
            len(columns),
            words.place([trie.atom.index(a) for a in columns]),
            trie.words(of),
            len(incoming),
            trie.field(of, leaving[0]) if leaving else 0,
            *edges,
        ]

    def _search(
        self, source: int, sets: Sequence[dict[Set, int]], words: _Words
    ) -> tuple[list[int], list[int], list[int]]:
        """Returns the starts and the steps of the search from a row of atom ``source``, and where it finds copies."""
        number = {a: i for i, a in enumerate(self.spec.attributes)}
        bound = set(self.spec.atoms[source])
        slot: dict[tuple[int, Set], int] = {}

        def slot_of(atom: int, of: Set) -> int:
            return slot.setdefault((atom, of), len(slot))

        def attributes(atom: int, of: Set) -> int:
            return words.place([number[a] for a in self.tries[atom].columns(of)])

        starts: list[int] = []
        others = [atom for atom in range(len(self.tries)) if atom != source]
        # An atom with more bound columns is more likely to have no match, so it is tested first.
        for atom in sorted(others, key=lambda atom: -len(bound & set(self.spec.atoms[atom]))):
            of = frozenset(self.spec.atoms[atom]) & bound
            starts += [sets[atom][of], attributes(atom, of), slot_of(atom, of)]
        steps: list[int] = []
        for v in self.orders[source]:
            parts: list[int] = []
            with_it = [atom for atom in others if v in self.spec.atoms[atom]]
            for atom in with_it:
                trie, above = self.tries[atom], frozenset(self.spec.atoms[atom]) & bound
                below = above | {v}
                parts += [slot_of(atom, above), trie.field(above, v), trie.carried(above, v)]
                parts += [sets[atom][below], attributes(atom, below), slot_of(atom, below)]
            steps += [number[v], len(with_it), words.place(parts)]
            bound.add(v)
        copies: list[int] = []
        for atom in others:
            row = frozenset(self.spec.atoms[atom])
            copies += [slot[atom, row], counter_of(0, len(row))]
        return starts, steps, copies


class _Words:
    """An append-only array of words. Lists are identified by their offset."""

    def __init__(self, size: int) -> None:
        self.words = [0] * size

    def place(self, values: Sequence[int]) -> int:
        self.words.extend(values)
        return len(self.words) - len(values)
