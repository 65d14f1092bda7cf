"""Random hypergraphs, and oracles by definition: join trees by spanning trees, generalized join trees by trying all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product

from hypothesis import strategies as st

from plans.search.cost import step_cost
from plans.search.counted.fans import Fans
from plans.theory.hypergraph import components, union


@st.composite
def hypergraphs(draw: st.DrawFn, max_edges: int = 5, max_vertices: int = 5) -> tuple[tuple[int, ...], int]:
    """Edges (masks) and output attributes, without isolated attributes."""
    n = draw(st.integers(1, max_vertices))
    edges = draw(st.lists(st.integers(1, 2**n - 1), min_size=1, max_size=max_edges))
    free = draw(st.integers(0, 2**n - 1)) & union(edges, (1 << len(edges)) - 1)
    return tuple(edges), free


@st.composite
def acyclic_hypergraphs(draw: st.DrawFn, max_edges: int = 6) -> tuple[tuple[int, ...], int]:
    """Like `hypergraphs`, grown as a join tree: each edge takes some attributes of an earlier one, and new ones."""
    edges = [draw(st.integers(1, 3))]
    fresh = 2
    for _ in range(draw(st.integers(0, max_edges - 1))):
        kept = draw(st.sampled_from(edges)) & draw(st.integers(0, 2**fresh - 1))
        new = draw(st.integers(0, 2))
        edge = kept | ((1 << new) - 1) << fresh
        fresh += new
        edges.append(edge or 1)
    free = draw(st.integers(0, 2**fresh - 1)) & union(edges, (1 << len(edges)) - 1)
    return tuple(edges), free


def has_join_tree(edges: Sequence[int]) -> bool:
    """Whether a spanning tree of the edges is a join tree (tried one by one)."""
    return any(connected(edges, parents) for parents in rooted_trees(len(edges)))


def rooted_trees(n: int) -> Iterator[tuple[int, ...]]:
    """Every rooted labelled tree on n nodes, as parents (-1 at the root)."""
    for root in range(n):
        for choice in product(range(n), repeat=n - 1):
            parents = (*choice[:root], -1, *choice[root:])
            if all(reaches(parents, i) for i in range(n)):
                yield parents


def reaches(parents: Sequence[int], node: int) -> bool:
    """Whether the root is above the node."""
    for _ in parents:
        if parents[node] < 0:
            return True
        node = parents[node]
    return parents[node] < 0


def connected(masks: Sequence[int], parents: Sequence[int]) -> bool:
    """The running intersection property: each attribute has exactly one topmost node."""
    seen = 0
    for mask, parent in zip(masks, parents, strict=True):
        top = mask & ~(masks[parent] if parent >= 0 else 0)
        if top & seen:
            return False
        seen |= top
    return True


def normal_form(masks: Sequence[int], virtual: Sequence[bool], parents: Sequence[int], free: int) -> bool:
    """The definition of a generalized join tree in normal form (without the virtual root for empty outputs)."""
    n = len(masks)
    if not connected(masks, parents):
        return False
    is_free: dict[int, bool] = {}

    def status(i: int) -> bool | None:
        if i not in is_free:
            parent = parents[i]
            above = status(parent) if parent >= 0 else True
            if masks[i] & ~free == 0 and above:
                is_free[i] = True
            elif parent >= 0 and masks[i] & free & ~masks[parent] == 0:
                is_free[i] = False
            else:
                is_free[i] = None  # type: ignore[assignment]
        return is_free[i]

    for i in range(n):
        if status(i) is None:
            return False
        children = [c for c in range(n) if parents[c] == i]
        if virtual[i] and not (children and all(masks[c] & masks[i] == masks[i] for c in children)):
            return False
    return True


@st.composite
def keyed_hypergraphs(draw: st.DrawFn, max_edges: int = 6) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
    """Like `acyclic_hypergraphs`, with a key of each edge: some of its attributes, or all."""
    edges, free = draw(acyclic_hypergraphs(max_edges))
    keys = tuple(draw(st.sampled_from([edge, edge & -edge, edge & draw(st.integers(0, edge))])) for edge in edges)
    return edges, free, keys


def fans_of(edges: Sequence[int], keys: Sequence[int] = ()) -> Fans:
    """What keys imply; without keys, that of sets."""
    fixes = [((key, edge),) for key, edge in zip(keys or edges, edges, strict=True)]
    return Fans(tuple(fixes), (False,) * len(edges))


def measure(
    masks: Sequence[int], virtual: Sequence[bool], parents: Sequence[int], keys: Sequence[int]
) -> tuple[int, float]:
    """Height and cost of a tree, all rates 1. `keys`: of the nodes; that of a virtual node is all of it.

    The height is the largest number of relations on a path up, at most to a parent that has one row per key.
    """
    height, cost = 0, 0.0
    one = [above < 0 or keys[above] & ~(mask & masks[above]) == 0 for mask, above in zip(masks, parents, strict=True)]
    for i, is_virtual in enumerate(virtual):
        path = [i]
        while parents[path[-1]] >= 0:
            path.append(parents[path[-1]])
        ends = [n for n in range(1, len(path)) if not one[path[n - 1]]]
        height = max(height, *(sum(not virtual[x] for x in path[: n + 1]) for n in ends), 1)
        if not is_virtual:
            cost += sum(step_cost(one[x]) for x in path[:-1])
    return height, cost


def best_by_trying(edges: Sequence[int], free: int, keys: Sequence[int], max_virtual: int) -> tuple[int, float] | None:
    """Least (height, cost) over every generalized join tree with few virtual nodes; None if there is no tree."""
    candidates = {a & b for a, b in combinations(edges, 2)} | {e & free for e in edges}
    candidates |= {a & b & free for a, b in combinations(edges, 2)}
    connected_query = len(components(edges, (1 << len(edges)) - 1)) == 1
    candidates = {c for c in candidates if c} if connected_query and free else candidates | {0}
    best = None
    for k in range(max_virtual + 1):
        for extra in combinations(sorted(candidates), k):
            masks = [*edges, *extra]
            virtual = [False] * len(edges) + [True] * k
            for parents in rooted_trees(len(masks)):
                if normal_form(masks, virtual, parents, free):
                    found = measure(masks, virtual, parents, [*keys, *extra])
                    best = found if best is None else min(best, found)
    return best
