"""The tree search against its definition: every tree tried, one by one."""

from __future__ import annotations

from hypothesis import given, settings

from plans.search.jointree import Tree, generalized_join_trees
from plans.theory.classify import is_free_connex
from plans.theory.hypergraph import components
from tests.plans.hypergraphs import (
    acyclic_hypergraphs,
    best_by_trying,
    fans_of,
    keyed_hypergraphs,
    measure,
    normal_form,
)

Keyed = tuple[tuple[int, ...], int, tuple[int, ...]]
THREE_PATH = [0b0011, 0b0110, 0b1100]


def _flatten(tree: Tree) -> tuple[list[int], list[bool], list[int], list[int]]:
    masks, virtual, parents, atoms = [], [], [], []

    def walk(part: Tree, parent: int) -> None:
        index = len(masks)
        masks.append(part.attributes)
        virtual.append(part.atom < 0)
        parents.append(parent)
        if part.atom >= 0:
            atoms.append(part.atom)
        for child in part.children:
            walk(child, index)

    walk(tree, -1)
    return masks, virtual, parents, atoms


@given(keyed_hypergraphs())
def test_every_tree_is_a_generalized_join_tree_in_normal_form(query: Keyed) -> None:
    edges, free, keys = query
    forest = generalized_join_trees(edges, free, [1.0] * len(edges), fans_of(edges, keys), keep=200)
    assert bool(forest.trees) == bool(forest.count)
    for tree in forest.trees:
        masks, virtual, parents, atoms = _flatten(tree)
        assert sorted(atoms) == list(range(len(edges)))
        assert normal_form(masks, virtual, parents, free)
        held = dict(zip([i for i, is_virtual in enumerate(virtual) if not is_virtual], atoms, strict=True))
        known = [keys[held[i]] if i in held else mask for i, mask in enumerate(masks)]
        assert measure(masks, virtual, parents, known) == (tree.height, tree.cost)


@given(acyclic_hypergraphs())
def test_no_tree_is_listed_twice_and_the_count_is_exact(query: tuple[tuple[int, ...], int]) -> None:
    edges, free = query
    forest = generalized_join_trees(edges, free, [1.0] * len(edges), fans_of(edges), keep=1000)
    assert len(set(forest.trees)) == len(forest.trees)
    assert forest.count == len(forest.trees) or forest.count > 1000


@given(acyclic_hypergraphs())
def test_a_tree_exists_only_for_free_connex_queries(query: tuple[tuple[int, ...], int]) -> None:
    edges, free = query
    if generalized_join_trees(edges, free, [1.0] * len(edges), fans_of(edges)).trees:
        assert is_free_connex(edges, free)


@settings(max_examples=60, deadline=None)
@given(keyed_hypergraphs(max_edges=3))
def test_no_tree_at_all_is_better(query: Keyed) -> None:
    edges, free, keys = query
    forest = generalized_join_trees(edges, free, [1.0] * len(edges), fans_of(edges, keys))
    best = best_by_trying(edges, free, keys, max_virtual=3)
    found = (forest.trees[0].height, forest.trees[0].cost) if forest.trees else None
    if len(components(edges, (1 << len(edges)) - 1)) > 1 or not free:
        best = None if best is None or found is None else (best[0], found[1])  # the root [] is prescribed
    assert found == best


def test_beam_keeps_the_optimum_of_many_trees() -> None:
    edges = [0b11 << i for i in range(9)]
    wide = generalized_join_trees(edges, 2**10 - 1, [1.0] * 9, fans_of(edges), keep=10_000)
    narrow = generalized_join_trees(edges, 2**10 - 1, [1.0] * 9, fans_of(edges), keep=2)
    assert narrow.count == wide.count == 17
    assert [t.order for t in narrow.trees] == [t.order for t in wide.trees[:2]]


def test_the_published_three_path_has_three_trees_and_two_with_a_virtual_root() -> None:
    forest = generalized_join_trees(THREE_PATH, 0b1111, [1.0] * 3, fans_of(THREE_PATH))
    assert forest.count == 5
    assert sum(t.virtuals == 0 for t in forest.trees) == 3


def test_with_only_the_middle_output_the_virtual_roots_remain() -> None:
    edges = [0b001, 0b011, 0b010]
    forest = generalized_join_trees(edges, 0b011, [1.0] * 3, fans_of(edges))
    assert forest.trees[0].atom == 1


def test_rates_decide_among_trees_of_one_height() -> None:
    hot_end = generalized_join_trees(THREE_PATH, 0b1111, [100.0, 1.0, 1.0], fans_of(THREE_PATH))
    assert hot_end.trees[0].atom == -1
    assert hot_end.trees[0].attributes == 0b0010
