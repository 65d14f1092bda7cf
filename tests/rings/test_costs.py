"""The paper's statements about cost, counted: ring operations on growing inputs, and the slope of their growth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import log

import pytest

from tests.models.rings.algebra import Counted, Z
from tests.models.rings.viewtree import Factors, Relation, ViewTree, balanced, chain, variable, view_tree

SCHEMAS = {"R": ("A", "B"), "S": ("A", "C", "E"), "T": ("C", "D")}
ORDER = variable("A", "B", variable("C", "D", "E"))


def slope(cost: Callable[[int], int], small: int, large: int) -> float:
    """The exponent k of a cost that grows like n^k, between two sizes."""
    return log(cost(large) / cost(small)) / log(large / small)


def filled(ring: Counted, n: int) -> ViewTree:
    """R, S and T with n values of A, n of C, and every pair of them in S."""
    database = {
        "R": Relation(ring, SCHEMAS["R"], (((a, 0), 1) for a in range(n))),
        "S": Relation(ring, SCHEMAS["S"], (((a, c, 0), 1) for a in range(n) for c in range(n))),
        "T": Relation(ring, SCHEMAS["T"], (((c, 0), 1) for c in range(n))),
    }
    return ViewTree(ring, view_tree(ORDER, SCHEMAS), database=database)


def cost_of(update: str, row: tuple[int, ...]) -> Callable[[int], int]:
    def cost(n: int) -> int:
        ring = Counted(Z)
        tree = filled(ring, n)
        delta = Relation(ring, SCHEMAS[update], {row: 1})
        tree.apply(update, delta)  # builds the indexes
        ring.reset()
        tree.apply(update, delta)
        return ring.operations

    return cost


def test_single_tuple_updates_cost_a_constant_for_r_and_s_and_are_linear_for_t() -> None:
    # Example 4.1: an update of R or S fixes all variables on its path, one of T leaves A open.
    for relation, row in (("R", (1, 1)), ("S", (1, 1, 1))):
        assert cost_of(relation, row)(8) == cost_of(relation, row)(64)
    assert slope(cost_of("T", (1, 1)), 64, 512 // 4) == pytest.approx(1, abs=0.1)


def vectors(ring: Counted, n: int) -> Factors:
    return Factors(*(Relation(ring, (column,), (((i,), 1) for i in range(n))) for column in SCHEMAS["S"]))


def test_a_factorized_update_costs_the_sum_of_its_factors_and_not_their_product() -> None:
    # Example 5.2, with only S updatable, so that no view on the path but the root is stored.
    def tree(ring: Counted, n: int) -> ViewTree:
        full = filled(ring, n)
        database = {name: full.views[f"V_{name}@{v}"] for name, v in (("R", "B"), ("T", "D"))}
        return ViewTree(
            ring,
            view_tree(variable("A", variable("C", "E")), {"R": ("A",), "S": SCHEMAS["S"], "T": ("C",)}),
            database=database,
            updatable=["S"],
        )

    def cost(n: int, factorized: bool) -> int:
        ring = Counted(Z)
        made = tree(ring, n)
        delta = vectors(ring, n)
        update = delta if factorized else delta.expanded()
        ring.reset()
        made.apply("S", update)
        return ring.operations

    assert slope(lambda n: cost(n, True), 8, 32) == pytest.approx(1, abs=0.15)
    assert slope(lambda n: cost(n, False), 8, 32) == pytest.approx(3, abs=0.3)


def test_a_small_factor_bounds_what_is_read_of_a_large_view() -> None:
    # Example 5.2: min(|V_R|, |δS_A|) + min(|V_T|, |δS_C|) + |δS_E|.
    def cost(n: int) -> int:
        ring = Counted(Z)
        tree = filled(ring, n)
        ring.reset()
        parts = (Relation(ring, (column,), {(0,): 1, (1,): 1}) for column in SCHEMAS["S"])
        tree.apply("S", Factors(*parts))
        return ring.operations

    assert cost(4) == cost(32)


class Unread(dict):
    """A dictionary that is looked up, and never gone through."""

    def __iter__(self) -> Iterator:
        raise AssertionError("all of it was read")


def test_a_join_goes_through_its_smaller_side_only() -> None:
    large = Relation(Z, ("A", "B"), (((a, b), 1) for a in range(9) for b in range(9)))
    small = Relation(Z, ("B", "C"), {(1, 1): 1})
    whole = Relation(Z, ("B", "A"), {(1, 1): 1})
    large.join(small)  # builds the index
    large.payloads = Unread(large.payloads)
    assert len(large.join(small)) == len(small.join(large)) == 9
    assert len(large.join(whole)) == len(whole.join(large)) == 1


def matrices(ring: Counted, n: int, p: int) -> ViewTree:
    database = chain(ring, [[[1] * p for _ in range(p)] for _ in range(n)])
    schemas = {name: relation.schema for name, relation in database.items()}
    return ViewTree(ring, view_tree(balanced(n), schemas, ("X1", f"X{n + 1}")), database=database)


def rank_1(ring: Counted, k: int, p: int) -> Factors:
    return Factors(*(Relation(ring, (f"X{k + i}",), (((v,), 1) for v in range(p))) for i in (0, 1)))


def chain_cost(n: int, p: int, k: int, how: str) -> int:
    ring = Counted(Z)
    tree = matrices(ring, n, p)
    if how == "evaluation":
        ring.reset()
        matrices(ring, n, p)
        return ring.operations
    delta = rank_1(ring, k, p)
    update = delta if how == "factorized" else delta.expanded()
    if how == "one entry":
        update = Relation(ring, (f"X{k}", f"X{k + 1}"), {(0, 0): 1})
    ring.reset()
    tree.apply(f"A{k}", update)
    return ring.operations


@pytest.mark.parametrize(
    ("how", "power"), [("factorized", 2), ("multiplied out", 3), ("one entry", 2), ("evaluation", 3)]
)
def test_the_cost_of_a_chain_of_four_matrices(how: str, power: int) -> None:
    # Example 6.1: O(p²) for a rank-1 update of A2 and for one entry, O(p³) for a full update and from scratch.
    assert slope(lambda p: chain_cost(4, p, 2, how), 8, 16) == pytest.approx(power, abs=0.35)


def test_a_rank_1_update_costs_one_level_more_when_the_chain_doubles() -> None:
    # Example 6.1: O(p² log k) with a binary view tree, O(p³ k) from scratch.
    p = 6
    costs = [chain_cost(n, p, 1, "factorized") for n in (4, 8, 16)]
    assert costs[2] - costs[1] == costs[1] - costs[0] <= 8 * p * p
    assert slope(lambda n: chain_cost(n, p, 1, "evaluation"), 4, 16) == pytest.approx(1, abs=0.2)


def test_an_indicator_projection_bounds_the_view_of_a_triangle_by_its_relation() -> None:
    # Example B.3: the view of S and T has n² tuples, with the projection of R at most |R|.
    schemas = {"R": ("A", "B"), "S": ("B", "C"), "T": ("C", "A")}
    n = 12
    given = {
        "R": Relation(Z, schemas["R"], (((i, i), 1) for i in range(n))),
        "S": Relation(Z, schemas["S"], (((b, 0), 1) for b in range(n))),
        "T": Relation(Z, schemas["T"], (((0, a), 1) for a in range(n))),
    }
    sizes = {}
    for indicators in (False, True):
        root = view_tree(variable("A", variable("B", "C")), schemas, indicators=indicators)
        tree = ViewTree(Z, root, database=given)
        sizes[indicators] = len(tree.views["V_ST@C"])
        assert tree.result[()] == n
    assert sizes == {False: n * n, True: n}
