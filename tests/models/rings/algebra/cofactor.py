"""The degree-m matrix ring: count, sums and sums of products of m variables as one payload.

F-IVM, Definition 6.2. The matrix of products is symmetric, so only `i <= j` is stored; zeros are not stored at all, so
the payload of a view holds the blocks of the variables below it and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.models.rings.algebra.numbers import Number, lift_value

_Pair = tuple[int, int]


@dataclass(frozen=True)
class Triple:
    """(c, s, Q): `count` of the tuples, `sums[i]` of variable i, `products[i, j]` (i <= j) of variables i and j.

    What a mapping does not hold is 0.
    """

    count: Number
    sums: Mapping[int, Number]
    products: Mapping[_Pair, Number]

    def product(self, i: int, j: int) -> Number:
        """Returns the sum of the products of variables i and j, in either order."""
        return self.products.get((min(i, j), max(i, j)), 0)

    def dense(self, m: int) -> tuple[Number, list[Number], list[list[Number]]]:
        """Returns count, vector (m) and matrix (m x m) with their zeros."""
        indices = range(m)
        return (
            self.count,
            [self.sums.get(i, 0) for i in indices],
            [[self.product(i, j) for j in indices] for i in indices],
        )


class Cofactor:
    """The ring of `Triple`.

    a + b adds componentwise. a * b = (c_a c_b, c_b s_a + c_a s_b, c_b Q_a + c_a Q_b + s_a s_b' + s_b s_a'): over
    the pairs of a tuple below a and one below b, that is their number, the sums of their variables, and the sums of
    the products. Cost of a product: the stored entries of a and b, and the pairs of their sums.
    """

    zero = Triple(0, {}, {})
    one = Triple(1, {}, {})
    commutative = True

    def add(self, a: Triple, b: Triple) -> Triple:
        """Returns a + b."""
        return Triple(a.count + b.count, _sum(a.sums, b.sums), _sum(a.products, b.products))

    def neg(self, a: Triple) -> Triple:
        """Returns -a."""
        return Triple(-a.count, {i: -x for i, x in a.sums.items()}, {ij: -x for ij, x in a.products.items()})

    def mul(self, a: Triple, b: Triple) -> Triple:
        """Returns a * b."""
        products = _sum(_scaled(a.products, b.count), _scaled(b.products, a.count))
        for i, x in a.sums.items():
            for j, y in b.sums.items():
                at = (i, j) if i <= j else (j, i)
                term = 2 * x * y if i == j else x * y
                products[at] = products.get(at, 0) + term
        sums = _sum(_scaled(a.sums, b.count), _scaled(b.sums, a.count))
        return Triple(a.count * b.count, sums, {at: x for at, x in products.items() if x})

    def lift(self, i: int) -> Callable[[object], Triple]:
        """Returns the lift of variable i: x becomes (1, x at i, x² at (i, i)), with x as an exact number."""

        def lifted(value: object) -> Triple:
            x = lift_value(value)
            return Triple(1, {i: x}, {(i, i): x * x}) if x else self.one

        return lifted

    def __repr__(self) -> str:
        return "cofactor"


def _scaled(entries: Mapping, by: Number) -> dict:
    if by == 1:
        return dict(entries)
    return {at: x * by for at, x in entries.items()} if by else {}


def _sum(a: Mapping, b: Mapping) -> dict:
    total = dict(a)
    for at, x in b.items():
        if both := total.get(at, 0) + x:
            total[at] = both
        else:
            total.pop(at, None)
    return total
