"""Normal equations from exact sums: Cholesky in doubles, refined by exact residuals until the doubles are correct.

Sums of products in doubles lose digits with the square of the condition number, so they describe another problem. Here
the sums are exact integers, and only the factorization is rounded. Its solution is corrected by the exactly computed
residual; each step gains as many digits as the factorization is accurate to. If it has no accurate digits, or too few
to distinguish the matrix from a singular one or a small entry from 0, the system is solved in integers
(`crown.ml.exact`).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm

import numpy as np

from crown.ml.exact import least_norm

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
