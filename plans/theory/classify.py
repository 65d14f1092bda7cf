"""Classifies a query, with a witness for every class to which it does not belong.

acyclic: GYO. free-connex: acyclic, and still acyclic with one more edge, the output attributes (Brault-Baron; Bagan,
Durand, Grandjean CSL 2007). hierarchical: for two attributes, the sets of atoms that contain them are disjoint or
nested. q-hierarchical: hierarchical, and an attribute whose atoms include those of an output attribute is an output
attribute, too (Berkholz, Keppeler, Schweikardt PODS 2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from plans.theory.hypergraph import Hypergraph, acyclic, bits, chordless_path, cycle, neighbours, union


@dataclass(frozen=True)
class QueryClass:
    """The class of a query. A witness is empty if the query belongs to its class."""

    acyclic: bool
    free_connex: bool
    hierarchical: bool
    q_hierarchical: bool
    cycle: str = ""
    free_path: str = ""
    pair: str = ""
    q_pair: str = ""

    @property
    def name(self) -> str:
        """Returns the smallest class to which the query belongs."""
        if not self.acyclic:
            return "cyclic"
        if not self.free_connex:
            return "acyclic, not free-connex"
        return "q-hierarchical" if self.q_hierarchical else "free-connex"

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON-able form."""
        return asdict(self)


def classify(graph: Hypergraph, atoms: Sequence[str], free: int) -> QueryClass:
    """Returns the class of the query whose atom i is named `atoms[i]` and whose output attributes are the mask
    `free`."""
    around = cycle(graph.edges)
    path = () if around else free_path(graph.edges, free)
    pair = hierarchy_violation(graph.edges)
    q_pair = output_violation(graph.edges, free) if pair is None else None
    return QueryClass(
        acyclic=not around,
        free_connex=not around and not path,
        hierarchical=pair is None,
        q_hierarchical=pair is None and q_pair is None,
        cycle=_cycle_text(graph, atoms, around),
        free_path=" - ".join(graph.names[v] for v in path),
        pair=_pair_text(graph, atoms, pair),
        q_pair=_q_pair_text(graph, atoms, q_pair),
    )


def is_free_connex(edges: Sequence[int], free: int) -> bool:
    """Returns whether acyclic edges stay acyclic when the output attributes become an edge."""
    return acyclic([*edges, free])


def free_path(edges: Sequence[int], free: int) -> tuple[int, ...]:
    """Returns a chordless path between two output attributes that share no edge, through non-output attributes.

    An acyclic query has such a path if and only if it is not free-connex. The path is empty if there is none.
    """
    everything = union(edges, (1 << len(edges)) - 1)
    near = {v: neighbours(edges, v) for v in bits(everything)}
    best: tuple[int, ...] = ()
    for one, two in combinations(bits(free & everything), 2):
        if near[one] >> two & 1:
            continue
        path = chordless_path(near, one, two, ~free)
        if path and (not best or len(path) < len(best)):
            best = path
    return best


def hierarchy_violation(edges: Sequence[int]) -> tuple[int, int] | None:
    """Returns two attributes whose sets of atoms overlap without one containing the other."""
    holders = _holders(edges)
    for one, two in combinations(sorted(holders), 2):
        a, b = holders[one], holders[two]
        if a & b and a & ~b and b & ~a:
            return one, two
    return None


def output_violation(edges: Sequence[int], free: int) -> tuple[int, int] | None:
    """Returns an output attribute and a non-output attribute that is in every atom of the first and in more."""
    holders = _holders(edges)
    for one in sorted(holders):
        for two in sorted(holders):
            inside = holders[one] & ~holders[two] == 0 and holders[one] != holders[two]
            if inside and free >> one & 1 and not free >> two & 1:
                return one, two
    return None


def _holders(edges: Sequence[int]) -> dict[int, int]:
    holders: dict[int, int] = {}
    for i, edge in enumerate(edges):
        for vertex in bits(edge):
            holders[vertex] = holders.get(vertex, 0) | 1 << i
    return holders


def _cycle_text(graph: Hypergraph, atoms: Sequence[str], around: tuple[int, ...]) -> str:
    if not around:
        return ""
    pairs = list(zip(around, around[1:] + around[:1], strict=True))
    parts = []
    for one, two in pairs:
        by = next(atoms[i] for i, edge in enumerate(graph.edges) if edge >> one & 1 and edge >> two & 1)
        parts.append(f"{graph.names[one]} -{by}-")
    return " ".join(parts) + f" {graph.names[around[0]]}"


def _pair_text(graph: Hypergraph, atoms: Sequence[str], pair: tuple[int, int] | None) -> str:
    if pair is None:
        return ""
    one, two = pair
    only = [next(a for a, e in zip(atoms, graph.edges, strict=True) if e >> x & 1 and not e >> y & 1)
            for x, y in ((one, two), (two, one))]  # fmt: skip
    shared = next(a for a, e in zip(atoms, graph.edges, strict=True) if e >> one & 1 and e >> two & 1)
    x, y = graph.names[one], graph.names[two]
    return f"{x} and {y} meet in {shared}, but {only[0]} has only {x} and {only[1]} only {y}"


def _q_pair_text(graph: Hypergraph, atoms: Sequence[str], pair: tuple[int, int] | None) -> str:
    if pair is None:
        return ""
    one, two = (graph.names[v] for v in pair)
    return f"{two} is in every atom of the output attribute {one} and in more, but is not output"
