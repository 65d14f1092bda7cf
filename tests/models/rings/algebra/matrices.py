"""Square matrices of one order as a ring: the example in which the order of factors matters."""

from __future__ import annotations

from collections.abc import Sequence

from tests.models.rings.algebra.numbers import Number

Matrix = tuple[tuple[Number, ...], ...]


class Matrices:
    """The ring of n x n matrices of exact numbers; not commutative for n > 1. A product costs n³ multiplications."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.zero: Matrix = tuple((0,) * n for _ in range(n))
        self.one: Matrix = tuple(tuple(int(i == j) for j in range(n)) for i in range(n))
        self.commutative = n == 1

    def of(self, rows: Sequence[Sequence[Number]]) -> Matrix:
        """Returns the element with these rows; ValueError if they are not n rows of n numbers."""
        if len(rows) != self.n or any(len(row) != self.n for row in rows):
            raise ValueError(f"a matrix of order {self.n} has {self.n} rows of {self.n} numbers")
        return tuple(tuple(row) for row in rows)

    def add(self, a: Matrix, b: Matrix) -> Matrix:
        """Returns a + b."""
        return tuple(tuple(x + y for x, y in zip(p, q, strict=True)) for p, q in zip(a, b, strict=True))

    def neg(self, a: Matrix) -> Matrix:
        """Returns -a."""
        return tuple(tuple(-x for x in row) for row in a)

    def mul(self, a: Matrix, b: Matrix) -> Matrix:
        """Returns a * b."""
        columns = tuple(zip(*b, strict=True))
        return tuple(tuple(sum(x * y for x, y in zip(row, col, strict=True)) for col in columns) for row in a)

    def __repr__(self) -> str:
        return f"matrices of order {self.n}"
