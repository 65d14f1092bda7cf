"""View trees against the definition, after every update, on random joins over several rings."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.models.rings.algebra import Cofactor, Matrices, Product, Q, Relational, Z, keep_only, lift_value, listing
from tests.models.rings.viewtree import Factors, Relation, ViewTree, balanced, chain, greedy_order, variable, view_tree
from tests.rings.joins import by_definition, random_row, random_schemas, times

COFACTOR = Cofactor()
RINGS: dict[str, tuple[Any, dict[str, Any]]] = {
    "count": (Z, {}),
    "sum-product": (Q, dict.fromkeys("ABD", lambda value: lift_value(value / 2))),
    "cofactor": (COFACTOR, {name: COFACTOR.lift(i) for i, name in enumerate("ABCDE")}),
    "relational": (Relational(), {name: Relational().lift(name) for name in "ACE"}),
    "pair": (Product(Z, Q), {"A": lambda value: (1, lift_value(value)), "C": lambda value: (1, lift_value(-value))}),
}


def same(tree: ViewTree, expected: dict[tuple, Any], free: tuple[str, ...]) -> bool:
    places = tree.result.places(free)
    return {tuple(row[i] for i in places): payload for row, payload in tree.result.payloads.items()} == expected


@pytest.mark.parametrize("name", RINGS)
@pytest.mark.parametrize("seed", range(12))
def test_a_view_tree_equals_the_definition_after_every_update(name: str, seed: int) -> None:
    chance = Random(f"{name} {seed}")
    ring, lifts = RINGS[name]
    schemas = random_schemas(chance)
    variables = sorted({column for schema in schemas.values() for column in schema})
    free = tuple(column for column in variables if chance.random() < 0.3)
    updatable = [relation for relation in schemas if chance.random() < 0.8] or list(schemas)
    rows: dict[str, dict[tuple, Any]] = {
        relation: {random_row(chance, schema): ring.one for _ in range(4)} for relation, schema in schemas.items()
    }
    database = {relation: Relation(ring, schema, rows[relation]) for relation, schema in schemas.items()}
    root = view_tree(
        greedy_order(schemas, free), schemas, free, compose=chance.random() < 0.5, indicators=chance.random() < 0.5
    )
    mine = {column: lift for column, lift in lifts.items() if column in variables}
    tree = ViewTree(ring, root, lifts=mine, database=database, updatable=updatable)
    assert same(tree, by_definition(ring, schemas, rows, mine, free), free)
    for _ in range(12):
        relation = chance.choice(updatable)
        delta = {random_row(chance, schemas[relation]): times(ring, chance.choice([-2, -1, 1, 1, 3])) for _ in range(2)}
        if chance.random() < 0.4:  # take something away that is there
            delta = {row: ring.neg(payload) for row, payload in list(rows[relation].items())[:2]}
        tree.apply(relation, Relation(ring, schemas[relation], delta))
        for row, payload in delta.items():
            rows[relation][row] = ring.add(rows[relation].get(row, ring.zero), payload)
            if rows[relation][row] == ring.zero:
                del rows[relation][row]
        assert same(tree, by_definition(ring, schemas, rows, mine, free), free)
        fresh = {name: Relation(ring, schema, rows[name]) for name, schema in schemas.items()}
        again = ViewTree(ring, root, lifts=mine, database=fresh, updatable=updatable)
        assert {name: view.payloads for name, view in tree.views.items()} == {
            name: view.payloads for name, view in again.views.items()
        }


@pytest.mark.parametrize("seed", range(20))
def test_a_factorized_update_changes_every_view_as_the_same_update_multiplied_out(seed: int) -> None:
    chance = Random(seed)
    schemas = {"R": ("A", "B"), "S": ("A", "C", "E"), "T": ("C", "D")}
    free = tuple(column for column in "ABCDE" if chance.random() < 0.3)
    root = view_tree(greedy_order(schemas, free), schemas, free)
    lifts = {column: lift_value for column in "BDE" if column not in free}
    trees = [ViewTree(Z, root, lifts=lifts) for _ in range(2)]
    for relation, schema in schemas.items():
        for tree in trees:
            tree.apply(relation, Relation(Z, schema, {random_row(Random(f"{seed} {i}"), schema): 1 for i in range(9)}))
    factors = Factors(*(Relation(Z, (c,), {(v,): chance.randint(-2, 2) for v in range(3)}) for c in schemas["S"]))
    deltas = trees[0].apply("S", factors)
    trees[1].apply("S", factors.expanded())
    assert trees[0].result == trees[1].result
    assert {name: view.payloads for name, view in trees[0].views.items()} == {
        name: view.payloads for name, view in trees[1].views.items()
    }
    assert set(deltas) > {"S"}


def test_an_update_of_a_relation_that_occurs_twice_goes_through_both_leaves() -> None:
    chance = Random(3)
    schemas = {"G1": ("A", "B"), "G2": ("B", "C")}
    tree = ViewTree(Z, view_tree(greedy_order(schemas), schemas))
    edges: dict[tuple, int] = {}
    for _ in range(40):
        row, weight = random_row(chance, "AB"), chance.choice([-1, 1, 2])
        edges[row] = edges.get(row, 0) + weight
        for leaf, schema in schemas.items():
            tree.apply(leaf, Relation(Z, schema, {row: weight}))
        expected = by_definition(Z, schemas, {"G1": edges, "G2": edges}, {}, ())
        assert tree.result[()] == expected.get((), 0)


@pytest.mark.parametrize("n", [2, 3, 4, 7])
def test_a_chain_of_matrices_over_a_ring_of_matrices_keeps_their_order(n: int) -> None:
    chance, ring = Random(n), Matrices(2)

    def element() -> Any:
        return ring.of([[chance.randint(-2, 2) for _ in range(2)] for _ in range(2)])

    database = chain(ring, [[[element() for _ in range(2)] for _ in range(2)] for _ in range(n)])
    schemas = {name: relation.schema for name, relation in database.items()}
    free = ("X1", f"X{n + 1}")
    tree = ViewTree(ring, view_tree(balanced(n), schemas, free), database=database)
    rows = {name: dict(relation.payloads) for name, relation in database.items()}
    for _ in range(4):
        assert same(tree, by_definition(ring, schemas, rows, {}, free), free)
        name, row, payload = f"A{chance.randint(1, n)}", (chance.randint(0, 1), chance.randint(0, 1)), element()
        tree.apply(name, Relation(ring, schemas[name], {row: payload}))
        rows[name][row] = ring.add(rows[name].get(row, ring.zero), payload)


def test_a_delta_between_many_siblings_keeps_its_place_among_the_factors() -> None:
    chance, ring = Random(5), Matrices(2)
    schemas = {f"R{i}": ("A",) for i in range(5)}

    def element() -> Any:
        return ring.of([[chance.randint(-2, 2) for _ in range(2)] for _ in range(2)])

    rows = {name: {(a,): element() for a in range(2)} for name in schemas}
    database = {name: Relation(ring, schema, rows[name]) for name, schema in schemas.items()}
    tree = ViewTree(ring, view_tree(variable("A"), schemas), database=database)
    for name in schemas:
        payload = element()
        tree.apply(name, Relation(ring, "A", {(1,): payload}))
        rows[name][(1,)] = ring.add(rows[name][(1,)], payload)
        assert same(tree, by_definition(ring, schemas, rows, {}, ()), ())


def test_a_tree_that_would_change_the_order_of_factors_is_refused() -> None:
    ring = Matrices(2)
    schemas = {"R": ("A", "B"), "S": ("B",), "T": ("A",)}
    root = view_tree(variable("A", "B"), schemas)
    database = {name: Relation(ring, schemas[name]) for name in ("R", "T", "S")}
    with pytest.raises(ValueError, match="depends on the order R, T, S, which this tree does not keep"):
        ViewTree(ring, root, database=database)
    tree = ViewTree(ring, root, database={name: Relation(ring, schemas[name]) for name in ("R", "S", "T")})
    with pytest.raises(ValueError, match="need a commutative ring"):
        tree.apply("R", Factors(Relation(ring, "A"), Relation(ring, "B")))


def test_an_order_that_is_none_of_the_join_is_refused_with_the_relation() -> None:
    schemas = {"R": ("A", "B"), "S": ("A", "C")}
    with pytest.raises(ValueError, match="variables B and C of relation T are not on one path"):
        view_tree(variable("A", "B", "C"), {**schemas, "T": ("B", "C")})
    with pytest.raises(ValueError, match="variable C of relation S is not in the order"):
        view_tree(variable("A", "B"), schemas)
    with pytest.raises(ValueError, match="variable D of the order is in no relation"):
        view_tree(variable("A", "B", "C", "D"), schemas)
    with pytest.raises(ValueError, match="has a variable twice"):
        view_tree(variable("A", "B", "C", "B"), schemas)


def test_updates_of_what_was_not_declared_are_refused() -> None:
    schemas = {"R": ("A", "B"), "S": ("A", "C")}
    tree = ViewTree(Z, view_tree(greedy_order(schemas), schemas), updatable=["R"])
    with pytest.raises(ValueError, match="S is not updatable here; updatable: R"):
        tree.apply("S", Relation(Z, ("A", "C")))
    with pytest.raises(ValueError, match="R has the columns A, B, not A, C"):
        tree.apply("R", Relation(Z, ("A", "C")))
    with pytest.raises(ValueError, match="X is none of the relations of the tree: R, S"):
        ViewTree(Z, view_tree(greedy_order(schemas), schemas), updatable=["X"])


def test_a_tree_without_updates_stores_its_result_only() -> None:
    schemas = {"R": ("A", "B"), "S": ("A", "C")}
    database = {name: Relation(Z, schema, {(1, 2): 3}) for name, schema in schemas.items()}
    tree = ViewTree(Z, view_tree(greedy_order(schemas), schemas), database=database, updatable=[])
    assert tree.stored == {"V_RS@A"}
    assert tree.result[()] == 9


def test_factorized_payloads_hold_the_rows_of_the_join_in_less_space() -> None:
    ring = Relational()
    schemas = {"R": ("A", "B"), "S": ("A", "C")}
    lifts = {column: ring.lift(column) for column in "ABC"}
    order = variable("A", "B", "C")
    n = 5
    one = {name: Relation(ring, schema, (((0, i), ring.one) for i in range(n))) for name, schema in schemas.items()}
    listed = ViewTree(ring, view_tree(order, schemas), lifts=lifts, database=one)
    factorized = ViewTree(ring, view_tree(order, schemas), lifts=lifts, database=one, keep=keep_only)
    assert listing(listed.result[()], "ABC") == {(0, b, c): 1 for b in range(n) for c in range(n)}
    assert listing(factorized.result[()], "A") == {(0,): n * n}
    assert sum(len(payload) for view in factorized.views.values() for payload in view.payloads.values()) == 2 * n + 1
