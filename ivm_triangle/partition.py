"""Thresholds of the heavy/light partition: theta = N^eps and the integer bounds that decide every flag.

A value of a partitioned column is *heavy* or *light* by its degree in the whole relation. Between rebalancings the flag
is loose (TODS article, Definition 11): heavy values have degree >= theta / 2, light ones have degree < 3 theta / 2.
After a load or a major rebalancing it is strict: heavy if and only if degree >= theta. Two bounds follow, on which all
costs depend: a light list has fewer than 3 theta / 2 entries, and a column has at most 2 N / theta heavy values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ivm_triangle.errors import TriangleError

R, S, T = 0, 1, 2
RELATIONS = "RST"
"""Relation k joins domain k (A, B, C) with domain k + 1 (mod 3): R(A, B), S(B, C), T(C, A)."""


@dataclass(frozen=True)
class Thresholds:
    """Integer thresholds of one relation at one N, computed once per major rebalancing.

    `lo = ceil(theta / 2)`, `st = ceil(theta)`, `hi = ceil(3 theta / 2)`, so that "degree < theta / 2" is `degree < lo`
    and so on without further rounding. `eps = 0` makes every value heavy and `eps = 1` every value light. Both are
    classical first-order maintenance, and are computed without powers to avoid rounding.
    """

    theta: float
    lo: int
    st: int
    hi: int

    @staticmethod
    def of(size: int, epsilon: float, shift: int = 0) -> Thresholds:
        """Returns the thresholds at base `size` (N >= 1) and `epsilon` in [0, 1], theta times 2^shift. O(1)."""
        if epsilon == 0.0:
            return Thresholds(1.0, 0, 0, 0)
        theta = float(size) if epsilon == 1.0 else size**epsilon
        if abs(theta - round(theta)) < 1e-9 * theta:  # 64 ** (1 / 3) is 3.9999999999999996
            theta = float(round(theta))
        theta *= 2.0**shift
        return Thresholds(theta, math.ceil(theta / 2), math.ceil(theta), math.ceil(1.5 * theta))


def epsilons(epsilon: float | str | dict[str, float]) -> tuple[float, float, float]:
    """Returns one eps per relation, from a number or from `{"R": .., "S": .., "T": ..}`. Raises TriangleError outside
    [0, 1]."""
    given: tuple[Any, ...]
    if isinstance(epsilon, dict):
        if set(epsilon) != set(RELATIONS):
            raise TriangleError(f"epsilon names {sorted(map(str, epsilon))}; give one number for each of R, S and T")
        given = tuple(epsilon[name] for name in RELATIONS)
    else:
        given = (epsilon,) * 3
    if not all(isinstance(value, (int, float, np.number)) and not isinstance(value, bool) for value in given):
        raise TriangleError(f'epsilon is {epsilon!r:.100}; give a number, one for each of R, S and T, or "auto"')
    values = tuple(min(max(value, -1), 2) for value in given)  # a float compares exactly to these
    for value in values:
        if not 0.0 <= value <= 1.0:
            raise TriangleError(f"epsilon is {value}; choose it between 0 and 1 (1/2 is worst-case optimal)")
    return tuple(map(float, values))  # type: ignore[return-value]
