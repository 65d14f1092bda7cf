"""Matrix chains as joins: A1[X1, X2] ⊗ A2[X2, X3] ⊗ ..., with X2, ..., Xn marginalized (F-IVM, 6.1)."""

from __future__ import annotations

from collections.abc import Sequence

from tests.models.rings.algebra.ring import Ring
from tests.models.rings.viewtree.order import Variable
from tests.models.rings.viewtree.relation import Relation


def chain(ring: Ring, matrices: Sequence[Sequence[Sequence[object]]]) -> dict[str, Relation]:
    """Returns the matrices as relations A1[X1, X2], A2[X2, X3], ..., keyed by row and column numbers from 0."""
    return {
        f"A{k}": Relation(
            ring,
            (f"X{k}", f"X{k + 1}"),
            (((i, j), value) for i, row in enumerate(matrix) for j, value in enumerate(row)),
        )
        for k, matrix in enumerate(matrices, 1)
    }


def balanced(n: int) -> Variable:
    """Returns the variable order of least depth of a chain of n >= 2 matrices: X1 - X(n+1) - the middle - both halves.

    Its view tree is binary, with the products of half chains as views. With a rank-1 update of one matrix, given as
    `Factors` of two vectors, every level costs O(p²) for matrices of order p, against O(p³) for a matrix product.
    """

    def between(first: int, last: int) -> tuple[Variable, ...]:
        if last - first < 2:
            return ()
        middle = (first + last) // 2
        return (Variable(f"X{middle}", between(first, middle) + between(middle, last)),)

    if n < 2:
        raise ValueError("a chain has at least two matrices")
    return Variable("X1", (Variable(f"X{n + 1}", between(1, n + 1)),))
