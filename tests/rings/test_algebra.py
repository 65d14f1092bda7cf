"""The rings themselves: their laws, what their elements mean, and their lifts."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

import pytest

from tests.models.rings import check
from tests.models.rings.algebra import (
    Cofactor,
    Counted,
    Matrices,
    Product,
    Q,
    Relational,
    Triple,
    Z,
    keep_only,
    lift_one,
    lift_value,
    listing,
)


def triple(chance: Random, m: int = 3) -> Triple:
    pairs = {(i, j): chance.randint(-3, 3) for i in range(m) for j in range(i, m) if chance.random() < 0.5}
    sums = {i: chance.randint(-3, 3) for i in range(m) if chance.random() < 0.5}
    return Triple(chance.randint(-2, 2), {i: x for i, x in sums.items() if x}, {p: x for p, x in pairs.items() if x})


def samples(ring: Any, make: Any) -> tuple[Any, list[Any]]:
    chance = Random(1)
    return ring, [make(chance) for _ in range(8)]


RINGS = [
    samples(Z, lambda chance: chance.randint(-(10**30), 10**30)),
    samples(Q, lambda chance: Fraction(chance.randint(-99, 99), chance.randint(1, 99))),
    samples(Cofactor(), triple),
    samples(Product(Z, Cofactor()), lambda chance: (chance.randint(-9, 9), triple(chance))),
    samples(Relational(), lambda chance: {((chance.choice("AB"), chance.randint(0, 1)),): chance.choice([-1, 2])}),
    samples(Counted(Z), lambda chance: chance.randint(-9, 9)),
    samples(Matrices(1), lambda chance: ((chance.randint(-9, 9),),)),
]


@pytest.mark.parametrize(("ring", "elements"), RINGS, ids=[repr(ring)[:20] for ring, _ in RINGS])
def test_every_ring_keeps_the_laws(ring: Any, elements: list[Any]) -> None:
    check(ring, elements)
    check(ring, elements, exact=ring is not Q)  # fractions that become whole stay fractions: one type


def test_matrices_keep_all_laws_but_commutativity() -> None:
    chance, ring = Random(2), Matrices(3)
    elements = [ring.of([[chance.randint(-3, 3) for _ in range(3)] for _ in range(3)]) for _ in range(5)]
    check(ring, elements, commutative=False)
    assert not ring.commutative
    assert Matrices(1).commutative


def test_a_cofactor_triple_is_the_count_the_sums_and_the_sums_of_products() -> None:
    chance, ring, m = Random(3), Cofactor(), 3
    left = [tuple(chance.randint(-4, 4) for _ in range(2)) for _ in range(5)]  # variables 0 and 1
    right = [chance.randint(-4, 4) for _ in range(4)]  # variable 2

    def of(*values: tuple[int, int]) -> Triple:
        out = ring.one
        for i, value in values:
            out = ring.mul(out, ring.lift(i)(value))
        return out

    one, two = ring.zero, ring.zero
    for a, b in left:
        one = ring.add(one, of((0, a), (1, b)))
    for c in right:
        two = ring.add(two, of((2, c)))
    rows = [(a, b, c) for a, b in left for c in right]
    count, sums, products = ring.mul(one, two).dense(m)
    assert count == len(rows)
    assert sums == [sum(row[i] for row in rows) for i in range(m)]
    assert products == [[sum(row[i] * row[j] for row in rows) for j in range(m)] for i in range(m)]


def test_a_cofactor_triple_stores_no_zeros() -> None:
    ring = Cofactor()
    x = ring.lift(0)(3)
    assert ring.add(x, ring.neg(x)) == ring.zero == Triple(0, {}, {})
    assert ring.lift(0)(0) == ring.one


def test_records_of_the_relational_ring_join_where_they_agree() -> None:
    ring = Relational()
    ab, bc = {(("A", 1), ("B", 2)): 2}, {(("B", 2), ("C", 3)): 3, (("B", 9), ("C", 3)): 1}
    assert ring.mul(ab, bc) == {(("A", 1), ("B", 2), ("C", 3)): 6}
    assert listing(ring.mul(ab, bc), "CA") == {(3, 1): 6}
    assert keep_only("B", bc) == {(("B", 2),): 3, (("B", 9),): 1}
    assert keep_only("C", bc) == {(("C", 3),): 4}


@pytest.mark.parametrize(
    ("value", "exact"),
    [(3, 3), (True, 1), (0.5, Fraction(1, 2)), (2.0, 2), (0.1, Fraction(0.1)), (Decimal("0.1"), Fraction(1, 10))],
)
def test_a_value_is_lifted_to_the_number_that_it_is(value: object, exact: object) -> None:
    assert lift_value(value) == exact
    assert type(lift_value(value)) is type(exact)
    assert lift_one(value) == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), Decimal("NaN"), Decimal("-Infinity")])
def test_what_is_no_finite_number_is_not_lifted(value: object) -> None:
    with pytest.raises(ValueError, match="is no finite number"):
        lift_value(value)
    with pytest.raises(TypeError, match="'x' is no number"):
        lift_value("x")


def test_a_matrix_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="a matrix of order 2 has 2 rows of 2 numbers"):
        Matrices(2).of([[1, 2]])
