"""The output and the relations that a join tree in normal form needs: completed, and with projections."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import comb

from plans.search.decomposition import Decomposition, with_projections
from plans.search.jointree import Forest
from plans.theory.classify import free_path
from plans.theory.hypergraph import Hypergraph, acyclic

_PROJECTION_TRIES = 200


def complete(graph: Hypergraph, needed: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the smallest free-connex output that contains `needed`, and what was added.

    Every superset that is free-connex contains the inner attributes of every chordless path between two output
    attributes through others (what it left out would be such a path again), so the closure under "add them" is the
    unique minimum.
    """
    free = list(needed)
    while path := free_path(graph.edges, graph.mask(free)):
        free += [graph.names[v] for v in path[1:-1]]
    return tuple(free), tuple(free[len(needed) :])


def with_normal_form(
    graph: Hypergraph, parts: Decomposition, free: int, search: Callable[[Decomposition], Forest]
) -> tuple[Decomposition, Forest]:
    """Returns the best trees, as `search` finds them, and the relations with the projections that normal form needs.

    A virtual node's children must all contain it. If e ∩ y has to carry other children too, the engine is given
    π_y(e) as one more input relation: joined with e it changes nothing, and it is free. Projections of bags are taken
    only where those of atoms do not do: each is one more bag to maintain.
    """
    forest = search(parts)
    if forest.trees or not acyclic([*graph.edges, free]):
        return parts, forest
    mixed = [i for i, edge in enumerate(graph.edges) if edge & free and edge & ~free]

    def grown(chosen: tuple[int, ...]) -> tuple[Decomposition, Forest]:
        more = with_projections(graph, parts, free, chosen)
        return more, search(more)

    for allowed in ([i for i in mixed if parts.bags[i] is None], mixed):
        if not grown(tuple(allowed))[1].trees:
            continue  # more projections never hurt, so fewer would not do either
        for size in range(1, len(allowed) + 1):
            if comb(len(allowed), size) > _PROJECTION_TRIES:
                break
            found = [made for chosen in combinations(allowed, size) if (made := grown(chosen))[1].trees]
            if found:
                return min(found, key=lambda made: _rank(made[1]))
        chosen = tuple(allowed)
        for i in allowed:
            fewer = tuple(x for x in chosen if x != i)
            if fewer and grown(fewer)[1].trees:
                chosen = fewer
        return grown(chosen)
    return parts, forest


def _rank(forest: Forest) -> tuple[float, int, float]:
    return forest.trees[0].touches, forest.trees[0].height, forest.trees[0].cost
