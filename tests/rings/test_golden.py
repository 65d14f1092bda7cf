"""The examples of F-IVM with their known answers, where the golden cases are installed; they skip elsewhere.

The package's own cases (`test_view_trees`, `test_algebra`) compare the same things with joins by brute force.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crown.ml import monomials
from tests.models.rings.algebra import Cofactor, Q, Relational, Ring, Triple, Z, keep_only, lift_value, listing
from tests.models.rings.viewtree import Factors, Indicator, Relation, ViewTree, variable, view_tree
from tests.models.rings.viewtree.relation import Lifts
from tests.models.rings.viewtree.views import View

GOLDEN = Path(__file__).parents[3] / "shared" / "golden" / "rings.json"
pytestmark = pytest.mark.skipif(not GOLDEN.exists(), reason="golden cases are not installed")

SCHEMAS = {"R": ("A", "B"), "S": ("A", "C", "E"), "T": ("C", "D")}
ORDER = variable("A", "B", variable("C", "D", "E"))
VIEWS = ("V_R@B", "V_T@D", "V_S@E", "V_ST@C", "V_RST@A")


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    return json.loads(GOLDEN.read_text())


def rows(pairs: list) -> dict[tuple, Any]:
    return {tuple(key): payload for key, payload in pairs}


def database(golden: dict, ring: Ring, number: bool = False) -> dict[str, Relation]:
    case, values = golden["fig2_count"], golden["cofactor5"]["values"]
    value = values.__getitem__ if number else str
    return {
        name: Relation(ring, schema, ((tuple(map(value, row)), ring.one) for row in case[name]))
        for name, schema in SCHEMAS.items()
    }


def maintained(root: View, ring: Ring, given: dict[str, Relation], lifts: Lifts | None = None, **more: Any) -> ViewTree:
    """A tree that was loaded half at once and half tuple by tuple, so that evaluation and maintenance must agree."""
    halves: dict[str, list[list]] = {name: [[], []] for name in given}
    for name, relation in given.items():
        for i, item in enumerate(relation.payloads.items()):
            halves[name][i % 2].append(item)
    first = {name: Relation(ring, given[name].schema, half[0]) for name, half in halves.items()}
    tree = ViewTree(ring, root, lifts=lifts, database=first, **more)
    for name, half in halves.items():
        for item in half[1]:
            tree.apply(name, Relation(ring, given[name].schema, [item]))
    whole = ViewTree(ring, root, lifts=lifts, database=given, **more)
    assert {name: view.payloads for name, view in tree.views.items()} == {
        name: view.payloads for name, view in whole.views.items()
    }
    return tree


def test_the_counts_of_figure_2_and_the_deltas_of_example_4_1(golden: dict) -> None:
    case = golden["fig2_count"]
    tree = maintained(view_tree(ORDER, SCHEMAS), Z, database(golden, Z))
    for name in VIEWS:
        assert tree.views[name].payloads == rows(case["views"][name])
    deltas = tree.apply("T", Relation(Z, ("C", "D"), rows(case["update_T"])))
    for name, expected in case["deltas_paper"].items():
        assert deltas[name.removeprefix("d")].expanded().payloads == rows(expected)
    for name in VIEWS:
        assert tree.views[name].payloads == rows(case["views_after"][name])


def test_the_views_to_store_for_each_set_of_updatable_relations(golden: dict) -> None:
    for updatable, expected in golden["materialization"].items():
        relations = [] if updatable == "none" else list(updatable)
        tree = ViewTree(Z, view_tree(ORDER, SCHEMAS), updatable=relations, database=database(golden, Z))
        assert sorted(tree.stored) == sorted(expected)


def test_the_sum_of_products_by_two_free_variables_of_example_2_3(golden: dict) -> None:
    case = golden["sum_BDE_by_AC"]
    lifts = dict.fromkeys("BDE", lift_value)
    root = view_tree(ORDER, SCHEMAS, free="AC")
    tree = maintained(root, Z, database(golden, Z, number=True), lifts)
    assert tree.views["V_R@B"].payloads == rows(case["V_R[A]"])
    assert tree.views["V_T@D"].payloads == rows(case["V_T[C]"])
    assert tree.views["V_S@E"].payloads == rows(case["V_S[A,C]"])
    places = tree.result.places(("A", "C"))
    assert {tuple(row[i] for i in places): sum_ for row, sum_ in tree.result.payloads.items()} == rows(case["Q[A,C]"])


def dense(view: Relation) -> dict[tuple, Any]:
    return {row: tuple(triple.dense(5)) for row, triple in view.payloads.items()}


def triples(pairs: list) -> dict[tuple, Any]:
    return {tuple(key): tuple(payload) for key, payload in pairs}


@pytest.mark.parametrize("compose", [False, True])
def test_the_cofactor_triples_of_example_6_3(golden: dict, compose: bool) -> None:
    case, ring = golden["cofactor5"], Cofactor()
    lifts = {name: ring.lift(i) for i, name in enumerate(case["order"])}
    tree = maintained(view_tree(ORDER, SCHEMAS, compose=compose), ring, database(golden, ring, number=True), lifts)
    assert dense(tree.views["V_T@D"]) == triples(case["V_T@D"])
    assert dense(tree.views["V_ST@C"]) == triples(case["V_ST@C"])
    assert tree.views["V_ST@C"][(2,)].dense(5) == tuple(case["V_ST@C[a2]"])
    assert tree.result[()].dense(5) == tuple(case["root"])
    update = [(tuple(row), Triple(n, {}, {})) for row, n in case["update_T_mult"]]
    tree.apply("T", Relation(ring, ("C", "D"), update))
    assert tree.result[()].dense(5) == tuple(case["root_after"])


def test_the_numbers_of_aggregates(golden: dict) -> None:
    counts = {name: number for name, number in golden["aggregate_counts"].items() if name != "formula"}
    assert len(counts) == 3
    for name, number in counts.items():
        assert len(monomials(over=[f"x{i}" for i in range(int(name.removeprefix("m=")))])) == number


def test_the_listing_of_example_6_5(golden: dict) -> None:
    case, ring = golden["relational"], Relational()
    lifts = {name: ring.lift(name) for name in "ABCD"}
    tree = maintained(view_tree(ORDER, SCHEMAS), ring, database(golden, ring), lifts)
    found = listing(tree.result[()], "ABCD")
    assert found == rows(case["listing_root"])
    assert 4 * len(found) == case["size_listing_values"]


def test_the_factorized_result_of_example_6_6(golden: dict) -> None:
    case, ring = golden["relational"], Relational()
    lifts = {name: ring.lift(name) for name in "ABCD"}
    tree = maintained(view_tree(ORDER, SCHEMAS), ring, database(golden, ring), lifts, keep=keep_only)
    for name in VIEWS:
        shown = name.split("@")[1] if "E" not in name else ""
        found = {row: listing(payload, shown) for row, payload in tree.views[name].payloads.items()}
        assert found == {key: rows(payload) for key, payload in rows(case["factorized"][name]).items()}
    values = sum(len(payload) for name in VIEWS if "E" not in name for payload in tree.views[name].payloads.values())
    assert values == case["size_factorized_values"]


def test_union_join_and_marginalization_of_example_2_1(golden: dict) -> None:
    case = golden["example_2_1"]
    r, s, t = (Relation(Z, schema, rows(case[name])) for name, schema in (("R", "AB"), ("S", "AB"), ("T", "BC")))
    assert r.union(s).payloads == rows(case["union"])
    assert r.union(s).join(t).payloads == rows(case["join"])
    summed = r.union(s).join(t).marginalize("A", {"A": lambda value: int(value[1:])})
    weighted = {
        ("b1", "c1"): 2 * 11 * 1 + 8 * 11 * 2,
        ("b2", "c2"): 7 * 13 * 3,
    }
    assert summed.payloads == weighted == rows(case["margA"])


def test_the_decompositions_of_example_5_1(golden: dict) -> None:
    case = golden["decomposition_5_1"]
    n, m = case["n"], case["m"]

    def vector(column: str, *values: int, payload: int = 1) -> Relation:
        return Relation(Z, column, (((value,), payload) for value in values))

    both = [
        Factors(vector("A", *range(n)), vector("B", *range(m))),
        Factors(vector("A", n), vector("B", *range(m - 1))),
    ]
    over = [
        Factors(vector("A", *range(n + 1)), vector("B", *range(m))),
        Factors(vector("A", n), vector("B", m - 1, payload=-1)),
    ]
    listed, compensated = (one.expanded().union(two.expanded()) for one, two in (both, over))
    assert listed == compensated
    assert len(listed) == case["listing"]
    assert sum(map(len, both)) == case["exact_two_products"]
    assert sum(map(len, over)) == case["overapprox_minus_corner"]


def test_the_indicator_projection_of_example_b_2(golden: dict) -> None:
    indicator = Indicator(Z, "AB", "A")
    for step in golden["indicator_B2"]:
        a, b, payload = step["up"]
        change = indicator.change(Relation(Z, "AB", {(a, b): payload}))
        assert change[(a,)] == step["delta_exists_A"]
        assert len(change) == (step["delta_exists_A"] != 0)
        assert indicator.counts == {(value,): count for value, count in step["cnt"].items()}


@pytest.mark.parametrize("indicators", [False, True])
def test_the_triangle_with_and_without_an_indicator_projection(golden: dict, indicators: bool) -> None:
    case = golden["triangle_indicator"]
    n, schemas = case["n"], {"R": "AB", "S": "BC", "T": "CA"}
    root = view_tree(variable("A", variable("B", "C")), schemas, indicators=indicators)
    given = {
        "R": Relation(Z, "AB", ((tuple(row), 1) for row in case["R"])),
        "S": Relation(Z, "BC", (((b, 0), 1) for b in range(n))),
        "T": Relation(Z, "CA", (((0, a), 1) for a in range(n))),
    }
    tree = maintained(root, Z, given)
    assert tree.result[()] == case["count"]
    wanted = case["size_V_ST_with_indicator" if indicators else "size_V_ST"]
    assert len(tree.views["V_ST@C"]) == wanted


def test_zero_divisors(golden: dict) -> None:
    case, ring = golden["zero_divisors_m1"], Cofactor()
    x, y = Triple(0, {}, {(0, 0): 1}), Triple(0, {0: 1}, {})
    assert ring.mul(x, x) == ring.zero
    assert ring.mul(y, y).dense(1) == tuple(case["y*y"])


def test_a_sum_of_zero_is_no_absent_key(golden: dict) -> None:
    assert "vanishes" in golden["cancellation_in_Z"]
    relation = Relation(Q, "AB", {("a", "b1"): 1, ("a", "b2"): -1})
    assert ("a",) not in relation.marginalize("B", {})
    assert len(relation) == 2
