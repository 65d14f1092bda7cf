"""Hypergraphs as bit masks, and the GYO reduction.

A vertex (attribute) is a bit; an edge (atom) is the mask of its attributes. `gyo` decides alpha-acyclicity: it
repeatedly removes a vertex that is in only one edge, and an edge that is contained in another. The hypergraph is
acyclic if nothing is left. Sources: Graham; Yu and Ozsoyoglu; Beeri, Fagin, Maier, Yannakakis (JACM 1983) for chordal
and conformal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations


def bits(mask: int) -> Iterator[int]:
    """Yields the positions of the set bits, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@dataclass(frozen=True)
class Hypergraph:
    """`edges[i]` is the mask of the attributes of atom i. `names` are the attributes by bit."""

    names: tuple[str, ...]
    edges: tuple[int, ...]

    @staticmethod
    def of(names: tuple[str, ...], edges: Iterable[Sequence[str]]) -> Hypergraph:
        """Returns the hypergraph whose edges have these attributes."""
        vertices = Hypergraph(names, ())
        return Hypergraph(names, tuple(vertices.mask(edge) for edge in edges))

    def mask(self, attributes: Sequence[str] | frozenset[str]) -> int:
        """Returns the mask of a set of attributes."""
        wanted = set(attributes)
        return sum(1 << i for i, name in enumerate(self.names) if name in wanted)

    def attributes(self, mask: int) -> tuple[str, ...]:
        """Returns the attributes of a mask, in order."""
        return tuple(self.names[i] for i in bits(mask))

    def label(self, mask: int) -> str:
        """Returns `[A,B]`."""
        return "[" + ",".join(self.attributes(mask)) + "]"


def gyo(edges: Sequence[int]) -> tuple[int, ...]:
    """Returns the edges that the GYO reduction leaves: none if and only if the edges are alpha-acyclic. Cost O(m^2 *
    sweeps)."""
    left = list(edges)
    while True:
        once, twice = 0, 0
        for edge in left:
            twice |= once & edge
            once |= edge
        reduced = [edge & twice for edge in left]
        kept: list[int] = []
        for edge in sorted(set(reduced), key=lambda e: -e.bit_count()):
            if edge and not any(edge & ~other == 0 for other in kept):
                kept.append(edge)
        if len(kept) <= 1:
            return ()
        if sorted(kept) == sorted(left):
            return tuple(kept)
        left = kept


def acyclic(edges: Sequence[int]) -> bool:
    """Returns whether the hypergraph is alpha-acyclic."""
    return not gyo(edges)


def components(edges: Sequence[int], members: int, separator: int = 0) -> list[int]:
    """Returns the connected components of the atoms in mask `members` after the attributes of `separator` are
    removed."""
    out: list[int] = []
    todo = members
    while todo:
        first = todo & -todo
        group, attributes = first, edges[first.bit_length() - 1] & ~separator
        todo ^= first
        grown = True
        while grown and todo:
            grown = False
            for i in bits(todo):
                if edges[i] & attributes:
                    group |= 1 << i
                    attributes |= edges[i] & ~separator
                    todo ^= 1 << i
                    grown = True
        out.append(group)
    return out


def union(edges: Sequence[int], members: int) -> int:
    """Returns the attributes of the atoms in mask `members`."""
    attributes = 0
    for i in bits(members):
        attributes |= edges[i]
    return attributes


def neighbours(edges: Sequence[int], vertex: int) -> int:
    """Returns the vertices that share an edge with `vertex`, itself excluded."""
    near = 0
    for edge in edges:
        if edge >> vertex & 1:
            near |= edge
    return near & ~(1 << vertex)


def cycle(edges: Sequence[int]) -> tuple[int, ...]:
    """Returns a witness that the edges are not alpha-acyclic.

    The witness is the vertices of a chordless cycle of the primal graph (length >= 4), or of a clique that no edge
    covers (in which every pair of vertices shares an edge, not only consecutive ones). A hypergraph is acyclic if and
    only if its primal graph is chordal and every clique is contained in an edge, so one of the two exists. Empty if the
    edges are acyclic.
    """
    core = gyo(edges)
    if not core:
        return ()
    near = {v: neighbours(core, v) for v in bits(union(core, (1 << len(core)) - 1))}
    clique = _uncovered_clique(core)
    if len(clique) == 3:
        return clique
    best: tuple[int, ...] = ()
    for vertex, around in near.items():
        for one, two in combinations(bits(around), 2):
            if near[one] >> two & 1:
                continue
            path = chordless_path(near, one, two, ~(around | 1 << vertex))
            if path and (not best or len(path) + 1 < len(best)):
                best = (vertex, *path)
    return best if best and (not clique or len(best) <= len(clique)) else clique


def chordless_path(near: dict[int, int], start: int, goal: int, allowed: int) -> tuple[int, ...]:
    """Returns a shortest, hence chordless, path whose inner vertices are in `allowed`, or an empty path if there is
    none."""
    before = {start: -1}
    queue = [start]
    for vertex in queue:
        if vertex == goal:
            path = [vertex]
            while before[path[-1]] >= 0:
                path.append(before[path[-1]])
            return tuple(reversed(path))
        for other in bits(near[vertex] & (allowed | 1 << goal)):
            if other not in before:
                before[other] = vertex
                queue.append(other)
    return ()


def _uncovered_clique(edges: Sequence[int]) -> tuple[int, ...]:
    """Returns a clique (size >= 3) of the primal graph that no edge covers although every smaller subset is covered;
    empty if there is none.

    Gilmore's criterion (Berge, Hypergraphs, 1989): unless every clique is contained in an edge, there are three edges
    whose pairwise intersections lie in no common edge.
    """
    best: tuple[int, ...] = ()
    for a, b, c in combinations(edges, 3):
        clique = (a & b) | (b & c) | (a & c)
        if any(clique & ~edge == 0 for edge in edges):
            continue
        for v in bits(clique):
            smaller = clique & ~(1 << v)
            if not any(smaller & ~edge == 0 for edge in edges):
                clique = smaller
        if not best or clique.bit_count() < len(best):
            best = tuple(bits(clique))
            if len(best) == 3:
                break
    return best
