"""Normal equations from exact sums: Cholesky in doubles, refined by exact residuals until the doubles are correct.

Sums of products in doubles lose digits with the square of the condition number, so they describe another problem. Here
the sums are exact integers, and only the factorization is rounded. Its solution is corrected by the exactly computed
residual; each step gains as many digits as the factorization is accurate to. If it has no accurate digits, or too few
to distinguish the matrix from a singular one or a small entry from 0, the system is solved in integers
(`crown.ml.normal`).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm

import numpy as np

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


Exact = int | Fraction

_SINGULAR = 1e-11  # smaller squared pivots of the scaled matrix may be rounding errors
_SETTLED = Fraction(1, 1 << 55)
_VANISHED = Fraction(1, 1 << 120)
_STEPS = 40


def solve(gram: Sequence[Sequence[Exact]], right: Sequence[Exact]) -> tuple[list[Fraction], int]:
    """Returns the solution b of `gram` b = `right` as fractions that round to the correct doubles, and the rank.

    `gram`: symmetric, positive semidefinite, n x n, exact; `right`: in its range, as in normal equations. For a rank
    below n the solution is exact, and the one of least norm. Cost: O(n³) in doubles and 2 to 4 times n² exact products;
    O(n³) integer operations if the matrix is singular or nearly so, or an entry of the solution is 0.
    """
    n = len(right)
    if not n:
        return [], 0
    common = lcm(*(Fraction(x).denominator for row in (*gram, right) for x in row))
    matrix = [[int(x * common) for x in row] for row in gram]
    target = [int(x * common) for x in right]
    refined = _refined(matrix, target)
    return (refined, n) if refined is not None else least_norm(matrix, target)


def _refined(matrix: list[list[int]], target: list[int]) -> list[Fraction] | None:
    """Returns the solution by Cholesky and refinement; None if the factorization is too inaccurate."""
    n = len(target)
    if any(matrix[i][i] <= 0 for i in range(n)):
        return None
    shifts = [matrix[i][i].bit_length() // 2 for i in range(n)]  # Jacobi scaling by powers of two: exact
    scaled = [[_shifted(matrix[i][j], shifts[i] + shifts[j]) for j in range(n)] for i in range(n)]
    try:
        factor = np.linalg.cholesky(np.array(scaled))
    except np.linalg.LinAlgError:
        return None
    if float(np.min(np.diag(factor)) ** 2) < _SINGULAR * n:
        return None
    inverse = np.linalg.inv(factor)  # of a triangle; its rounding errors are corrected like those of the factor
    solution = [Fraction(0)] * n
    residual = [Fraction(x) for x in target]
    last: Fraction | None = None
    largest = Fraction(0)
    for _ in range(_STEPS):
        top = max(abs(r) / (1 << shift) for r, shift in zip(residual, shifts, strict=True))
        if not top:
            return solution
        unit = Fraction(2) ** (top.numerator.bit_length() - top.denominator.bit_length())
        wanted = np.array([float(r / unit / (1 << shift)) for r, shift in zip(residual, shifts, strict=True)])
        found = inverse.T @ (inverse @ wanted)
        step = [Fraction(float(x)) * unit / (1 << shift) for x, shift in zip(found, shifts, strict=True)]
        length = Fraction(float(np.max(np.abs(found)))) * unit
        if last is not None and 2 * length > last:
            return None  # the corrections do not shrink
        last = length
        largest = max(largest, length)
        solution = [b + d for b, d in zip(solution, step, strict=True)]
        if all(abs(d) <= _SETTLED * abs(b) for b, d in zip(solution, step, strict=True)):
            return solution
        if length <= _VANISHED * largest:
            return None  # an entry that vanishes beside the others may be 0: elimination decides
        residual = _residual(matrix, target, solution)
    return None


def _residual(matrix: list[list[int]], target: list[int], solution: list[Fraction]) -> list[Fraction]:
    """Returns h − G b, exactly. The denominators of b are powers of two, so the largest serves all entries."""
    unit = lcm(*(b.denominator for b in solution))
    whole = [b.numerator * (unit // b.denominator) for b in solution]
    return [
        Fraction(h * unit - sum(x * b for x, b in zip(row, whole, strict=True)), unit)
        for row, h in zip(matrix, target, strict=True)
    ]


def _shifted(number: int, bits: int) -> float:
    """Returns the integer times 2^-bits, rounded once."""
    return number / (1 << bits)
