"""Linear systems over the integers, solved without rounding: fraction-free elimination (Bareiss 1968)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm

Ints = Sequence[Sequence[int]]


def least_norm(matrix: Ints, right: Sequence[int]) -> tuple[list[Fraction], int]:
    """Returns the solution of a consistent system with the least sum of squares, and the rank of the matrix.

    `matrix`: n x n; there is one solution if its rank is n. Every intermediate entry is a minor of the matrix, so
    numbers are no longer than a determinant. Cost: n³ multiplications and exact divisions of such integers.
    """
    n = len(matrix)
    rows, pivots = _reduced([[*row, value] for row, value in zip(matrix, right, strict=True)], n)
    scale = rows[0][pivots[0]] if pivots else 1
    solution = [Fraction(0)] * n
    for row, column in zip(rows, pivots, strict=False):
        solution[column] = Fraction(row[n], scale)
    rest = [column for column in range(n) if column not in pivots]
    if not rest:
        return solution, n
    return _projected(solution, [_kernel_vector(rows, pivots, column, scale, n) for column in rest]), len(pivots)


def _reduced(rows: list[list[int]], n: int) -> tuple[list[list[int]], list[int]]:
    """Eliminates the first n columns by Gauss-Jordan. At the end all pivots are the same number, and each is alone in
    its column.
    """
    pivots: list[int] = []
    last = 1
    for column in range(n):
        at = next((i for i in range(len(pivots), n) if rows[i][column]), None)
        if at is None:
            continue
        top = len(pivots)
        rows[top], rows[at] = rows[at], rows[top]
        head, pivot = rows[top], rows[top][column]
        for i, row in enumerate(rows):
            if i != top:
                factor = row[column]
                rows[i] = [(pivot * x - factor * y) // last for x, y in zip(row, head, strict=True)]
        pivots.append(column)
        last = pivot
    return rows, pivots


def _kernel_vector(rows: list[list[int]], pivots: list[int], column: int, scale: int, n: int) -> list[int]:
    """Returns the solution of the homogeneous system with `scale` in a column that has no pivot, 0 in the others."""
    vector = [0] * n
    vector[column] = scale
    for row, pivot in zip(rows, pivots, strict=False):
        vector[pivot] = -row[column]
    return vector


def _projected(solution: list[Fraction], kernel: list[list[int]]) -> list[Fraction]:
    """Returns the solution minus its projection on the kernel, which is the solution of least norm."""
    common = lcm(*(x.denominator for x in solution))
    whole = [int(x * common) for x in solution]
    products = [sum(x * y for x, y in zip(vector, whole, strict=True)) for vector in kernel]
    gram = [[sum(x * y for x, y in zip(a, b, strict=True)) for b in kernel] for a in kernel]
    weights, _ = least_norm(gram, products)
    return [
        x - sum((w * vector[i] for w, vector in zip(weights, kernel, strict=True)), Fraction(0)) / common
        for i, x in enumerate(solution)
    ]
