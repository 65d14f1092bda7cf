"""Cyclic queries: which atoms form a bag."""

from __future__ import annotations

from dataclasses import dataclass

from plans.conjunction import Atom
from plans.errors import PlanError
from plans.hypergraph import Hypergraph, acyclic
from plans.plan import Bag


@dataclass(frozen=True)
class Decomposition:
    """The relations of the join tree: `atoms[i]` or, where that is None, `bags[i]`, with attributes `edges[i]`."""

    atoms: tuple[Atom | None, ...]
    bags: tuple[Bag | None, ...]
    edges: tuple[int, ...]
    width: float


def decompose(atoms: tuple[Atom, ...], graph: Hypergraph, free: int) -> Decomposition:
    """The query itself if it is acyclic."""
    if acyclic(graph.edges):
        return Decomposition(atoms, (None,) * len(atoms), graph.edges, 1.0)
    raise PlanError("cyclic queries are not planned")
