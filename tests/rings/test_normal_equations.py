"""The solver: against rational elimination for every conditioning, against lstsq up to a condition number of 1e5."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from random import Random

import numpy as np
import pytest

from crown.ml import normal
from crown.ml.normal import least_norm, solve

Exact = list[list[Fraction]]


def rational(gram: Exact, right: list[Fraction]) -> list[Fraction]:
    """Plain Gauss-Jordan elimination over fractions; the matrix is regular."""
    rows = [[*map(Fraction, row), Fraction(h)] for row, h in zip(gram, right, strict=True)]
    for i in range(len(rows)):
        at = next(k for k in range(i, len(rows)) if rows[k][i])
        rows[i], rows[at] = rows[at], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in range(len(rows)):
            if k != i:
                rows[k] = [x - rows[k][i] * y for x, y in zip(rows[k], rows[i], strict=True)]
    return [row[-1] for row in rows]


def equations(data: list[list], target: list) -> tuple[Exact, list[Fraction]]:
    columns = [[Fraction(x) for x in column] for column in zip(*data, strict=True)]
    values = [Fraction(y) for y in target]
    gram = [[sum(x * y for x, y in zip(a, b, strict=True)) for b in columns] for a in columns]
    return gram, [sum(x * y for x, y in zip(a, values, strict=True)) for a in columns]


def conditioned(chance: Random, n: int, m: int, kappa: float) -> list[list[float]]:
    """n x m doubles with this condition number."""
    source = np.random.default_rng(chance.randint(0, 10**9))
    left = np.linalg.qr(source.normal(size=(n, m)))[0]
    right = np.linalg.qr(source.normal(size=(m, m)))[0]
    return (left @ np.diag(np.geomspace(1, 1 / kappa, m)) @ right).tolist()


def rounded(solution: list[Fraction]) -> list[float]:
    return [float(x) for x in solution]


@pytest.mark.parametrize("kappa", [1e0, 1e2, 1e5, 1e7, 1e10, 1e14])
@pytest.mark.parametrize("seed", range(3))
def test_the_solution_is_the_rational_one_rounded(kappa: float, seed: int) -> None:
    chance = Random(f"{kappa} {seed}")
    m = chance.randint(1, 6)
    data = conditioned(chance, 12, m, kappa if m > 1 else 1.0)
    gram, right = equations(data, [chance.uniform(-1, 1) for _ in data])
    found, rank = solve(gram, right)
    assert rank == m
    assert rounded(found) == rounded(rational(gram, right))


@pytest.mark.parametrize("kappa", [1e1, 1e3, 1e5])
def test_the_solution_agrees_with_lstsq_up_to_a_condition_number_of_1e5(kappa: float) -> None:
    chance = Random(str(kappa))
    data = conditioned(chance, 60, 5, kappa)
    target = [chance.uniform(-1, 1) for _ in data]
    found, _ = solve(*equations(data, target))
    expected = np.linalg.lstsq(np.array(data), np.array(target), rcond=None)[0]
    np.testing.assert_allclose(rounded(found), expected, rtol=1e-9 * max(1, kappa / 1e3))


def test_an_ill_conditioned_gram_matrix_is_refined_and_needs_no_rational_elimination(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A condition number of 3e4 of the data is 1e9 of the Gram matrix: doubles alone have seven digits left.
    monkeypatch.setattr(normal, "least_norm", None)
    data = conditioned(Random(5), 40, 5, 3e4)
    gram, right = equations(data, [row[0] - row[1] + 1 for row in data])
    found, rank = solve(gram, right)
    assert rank == 5
    assert rounded(found) == rounded(rational(gram, right))


def test_refinement_takes_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    residual = normal._residual
    monkeypatch.setattr(normal, "_residual", lambda *given: steps.append(1) or residual(*given))
    gram, right = equations(conditioned(Random(6), 40, 5, 1e3), [float(i % 7) for i in range(40)])
    solve(gram, right)
    assert 1 <= len(steps) <= 3


def test_numbers_far_beyond_doubles_are_solved() -> None:
    big = 10**400
    for gram, right in (
        ([[2 * big, big], [big, 3 * big]], [5 * big, 5 * big]),
        ([[Fraction(2, big), Fraction(1, big)], [Fraction(1, big), Fraction(3, big)]], [Fraction(5, big)] * 2),
    ):
        found, rank = solve(gram, right)
        assert (rounded(found), rank) == ([2.0, 1.0], 2)


def test_columns_of_very_different_sizes_are_scaled() -> None:
    gram, right = equations([[1, 10**12], [2, 10**12 + 3], [3, 10**12 - 7], [5, 10**12]], [1, 2, 3, 4])
    found, rank = solve(gram, right)
    assert (rank, rounded(found)) == (2, rounded(rational(gram, right)))


def test_a_coefficient_of_zero_is_zero() -> None:
    rows = [list(row) for row in product((-1.5, 0.0, 2.25), repeat=3)]
    found, _ = solve(*equations(rows, [0.1 * row[0] for row in rows]))
    assert rounded(found) == rounded(rational(*equations(rows, [0.1 * row[0] for row in rows])))
    exact, _ = solve(*equations(rows, [3 * row[0] for row in rows]))
    assert rounded(exact) == [3.0, 0.0, 0.0]


@pytest.mark.parametrize("seed", range(8))
def test_dependent_columns_give_the_solution_of_least_norm(seed: int) -> None:
    chance = Random(seed)
    rank = chance.choice([1, 2])
    base = [[chance.randint(-5, 5) for _ in range(rank)] for _ in range(9)]
    mix = [[chance.randint(-2, 2) for _ in range(4)] for _ in range(rank)]
    data = [[sum(x * mix[k][j] for k, x in enumerate(row)) for j in range(4)] for row in base]
    target = [chance.randint(-9, 9) for _ in data]
    gram, right = equations(data, target)
    found, independent = solve(gram, right)
    matrix = np.array(data, float)
    assert independent == np.linalg.matrix_rank(matrix)
    np.testing.assert_allclose(rounded(found), np.linalg.pinv(matrix) @ target, atol=1e-9)
    assert [sum(x * b for x, b in zip(row, found, strict=True)) for row in gram] == right


def test_a_singular_matrix_is_found_where_its_factorization_succeeds_by_rounding() -> None:
    ranks = []
    for seed in (31, 41, 42, 43):
        chance = Random(seed)
        pairs = [(chance.randint(-(10**6), 10**6), chance.randint(-(10**6), 10**6)) for _ in range(9)]
        data = [[x, z, 3 * x + 5 * z, x - 7 * z] for x, z in pairs]
        target = [chance.randint(-9, 9) for _ in data]
        found, rank = solve(*equations(data, target))
        np.testing.assert_allclose(rounded(found), np.linalg.pinv(np.array(data, float)) @ target, rtol=1e-6)
        ranks.append(rank)
    assert ranks == [2] * 4


def test_nothing_to_explain_is_explained_by_zeros() -> None:
    assert solve([], []) == ([], 0)
    assert solve([[0]], [0]) == ([0], 0)
    assert solve([[0, 0], [0, 4]], [0, 2]) == ([0, Fraction(1, 2)], 1)


@pytest.mark.parametrize("seed", range(5))
def test_integer_elimination_equals_rational_elimination(seed: int) -> None:
    chance = Random(seed)
    n = chance.randint(1, 6)
    while True:
        matrix = [[chance.randint(-9, 9) for _ in range(n)] for _ in range(n)]
        if abs(np.linalg.det(np.array(matrix, float))) > 0.5:
            break
    right = [chance.randint(-9, 9) for _ in range(n)]
    assert least_norm(matrix, right) == (rational(matrix, right), n)
