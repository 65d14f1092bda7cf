"""Completes the output, and adds the projections that a join tree in normal form needs."""

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
    """Returns the smallest free-connex output that contains `needed`, and the attributes that were added.

    Every free-connex superset contains the inner attributes of every chordless path between two output attributes
    through other attributes (an attribute left out would lie on such a path again). So the closure under adding them is
    the unique minimum.
    """
    free = list(needed)
    while path := free_path(graph.edges, graph.mask(free)):
        free += [graph.names[v] for v in path[1:-1]]
    return tuple(free), tuple(free[len(needed) :])


def with_normal_form(
    graph: Hypergraph, parts: Decomposition, free: int, search: Callable[[Decomposition], Forest]
) -> tuple[Decomposition, Forest]:
    """Returns the relations with the projections that normal form needs, and the best trees that `search` finds for
    them.

    The children of a virtual node must all contain it. If e ∩ y must have other children too, π_y(e) becomes one more
    input relation: the join with it changes nothing, and it is free. Projections of bags are used only if those of
    atoms do not suffice, because each is one more bag to maintain.
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
            continue  # a superset of projections never hurts, so a subset does not suffice either
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
