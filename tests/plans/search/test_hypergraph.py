"""GYO, classes, witnesses and widths against their definitions."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given

from plans.search.decomposition import cyclic_parts
from plans.search.jointree import generalized_join_trees
from plans.search.normal_form import complete
from plans.theory.classify import free_path, hierarchy_violation, is_free_connex, output_violation
from plans.theory.hypergraph import Hypergraph, acyclic, bits, components, cycle, gyo, neighbours, union
from plans.theory.widths import edge_covers, fhtw
from tests.marks import every
from tests.plans.hypergraphs import acyclic_hypergraphs, fans_of, has_join_tree, hypergraphs

Query = tuple[tuple[int, ...], int]
TRIANGLE = (0b011, 0b110, 0b101)
FOUR_CYCLE = (0b0011, 0b0110, 0b1100, 0b1001)
FOUR_CLIQUE = (*FOUR_CYCLE, 0b0101, 0b1010)
LOOMIS_WHITNEY = (0b0111, 0b1110, 0b1101, 0b1011)
FIVE_CYCLE = (0b00011, 0b00110, 0b01100, 0b11000, 0b10001)
DUMBBELL = (0b000011, 0b000110, 0b000101, 0b001100, 0b011000, 0b110000, 0b101000)


@given(hypergraphs())
def test_gyo_says_acyclic_exactly_if_a_join_tree_exists(query: Query) -> None:
    assert acyclic(query[0]) == has_join_tree(query[0])


@given(hypergraphs(max_edges=6))
def test_the_cycle_is_a_chordless_cycle_or_an_uncovered_clique(query: Query) -> None:
    edges, _ = query
    found = cycle(edges)
    assert bool(found) == bool(gyo(edges))
    if not found:
        return
    near = {v: neighbours(edges, v) for v in found}
    n = len(found)
    assert len(set(found)) == n >= 3
    assert all(near[found[i]] >> found[(i + 1) % n] & 1 for i in range(n))
    clique = all(near[a] >> b & 1 for a, b in combinations(found, 2))
    mask = sum(1 << v for v in found)
    if clique:
        assert not any(mask & ~edge == 0 for edge in edges)
    else:
        chords = [(i, j) for i, j in combinations(range(n), 2) if j - i not in (1, n - 1)]
        assert not any(near[found[i]] >> found[j] & 1 for i, j in chords)


@given(acyclic_hypergraphs())
def test_a_free_path_exists_exactly_if_the_query_is_not_free_connex(query: Query) -> None:
    edges, free = query
    path = free_path(edges, free)
    assert bool(path) == (not is_free_connex(edges, free))
    if path:
        assert free >> path[0] & 1
        assert free >> path[-1] & 1
        assert not any(free >> v & 1 for v in path[1:-1])
        assert not neighbours(edges, path[0]) >> path[-1] & 1


@given(acyclic_hypergraphs(max_edges=5))
def test_completion_adds_the_fewest_attributes(query: Query) -> None:
    edges, free = query
    names = tuple(f"x{i}" for i in range(max(edges).bit_length()))
    graph = Hypergraph(names, edges)
    _, added = complete(graph, graph.attributes(free))
    rest = list(bits(union(edges, (1 << len(edges)) - 1) & ~free))
    smallest = next(
        size
        for size in range(len(rest) + 1)
        for more in combinations(rest, size)
        if is_free_connex(edges, free | sum(1 << v for v in more))
    )
    assert len(added) == smallest
    assert is_free_connex(edges, free | graph.mask(added))


@given(acyclic_hypergraphs())
def test_height_one_is_possible_exactly_for_q_hierarchical_queries(query: Query) -> None:
    edges, free = query
    if not is_free_connex(edges, free):
        return
    forest = generalized_join_trees(edges, free, [1.0] * len(edges), fans_of(edges))
    hierarchical = hierarchy_violation(edges) is None and output_violation(edges, free) is None
    assert hierarchical == (bool(forest.trees) and forest.trees[0].height == 1)


@every(
    [
        (TRIANGLE, 1.5, 1.5),
        (FOUR_CYCLE, 2.0, 2.0),
        (FOUR_CLIQUE, 2.0, 2.0),
        (LOOMIS_WHITNEY, 4 / 3, 4 / 3),
        (FIVE_CYCLE, 2.5, 2.0),
        (DUMBBELL, 3.0, 1.5),
    ]
)
def test_widths_are_the_known_ones(edges: tuple[int, ...], cover: float, width: float) -> None:
    area = union(edges, (1 << len(edges)) - 1)
    assert edge_covers(edges, [area])[0][0] == pytest.approx(cover)
    assert fhtw(edges) == pytest.approx(width)


def test_the_dumbbell_falls_into_two_triangles() -> None:
    assert sorted(len(part) for part in cyclic_parts(DUMBBELL)) == [3, 3]


@given(hypergraphs(max_edges=6))
def test_bags_and_remaining_atoms_form_a_tree(query: Query) -> None:
    edges, _ = query
    areas = [union(part, (1 << len(part)) - 1) for part in cyclic_parts(edges)]
    assert bool(areas) == bool(gyo(edges))
    assert acyclic([*edges, *areas])
    assert all(len(components(part, (1 << len(part)) - 1)) == 1 for part in cyclic_parts(edges))
