"""Computes VAR, STDDEV, COVAR, CORR, REGR, SKEWNESS and KURTOSIS from exact integer sums, rounded once.

All follow from n, Σx, Σy, Σx², Σy², Σxy. With Vx = n Σx² − (Σx)², Vy likewise and Cxy = n Σxy − Σx Σy: VAR_POP is
Vx / n², VAR_SAMP is Vx / n(n−1), COVAR likewise, SLOPE is Cxy / Vx, INTERCEPT is (Σy Σx² − Σx Σxy) / Vx, R2 is
Cxy² / (Vx Vy), in which the arguments' scales cancel. STDDEV and CORR are square roots of such quotients, which may
exceed the range of doubles.

SKEWNESS and KURTOSIS are T / Vx^(3/2) and F / Vx² − 3, with T = n² Σx³ − 3 n Σx Σx² + 2 (Σx)³ and
F = n³ Σx⁴ − 4 n² Σx Σx³ + 6 n (Σx)² Σx² − 3 (Σx)⁴. Those of samples are corrected by factors of n.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crown.stages.groups.rounded import minus, ratio, scaled, widened
from crown.stages.groups.terms import product

Result = tuple[np.ndarray, np.ndarray]  # values, and True where they are NULL
Scale = tuple[int, int]  # an integer is a value times 2^b times 10^s


@dataclass(frozen=True)
class Moments:
    """The sums of groups, each int64[groups, limbs], and the scales of the two arguments.

    ``n``: the number of rows. ``sum(i, j)``: Σ x^i y^j.
    """

    n: np.ndarray
    sum: Callable[[int, int], np.ndarray]
    scale_x: Scale
    scale_y: Scale

    def count(self) -> np.ndarray:
        """Returns n as integers of one limb."""
        return np.ascontiguousarray(self.n.reshape(-1, 1))

    def spread(self, i: int, j: int) -> np.ndarray:
        """Returns n Σ x^i y^j minus the product of the sums of both factors: Vx for 2, 0; Vy for 0, 2; Cxy for 1, 1."""
        one, other = (1, 0) if i else (0, 1), (0, 1) if j else (1, 0)
        return minus(product(self.count(), self.sum(i, j)), product(self.sum(*one), self.sum(*other)))

    def third(self) -> np.ndarray:
        """Returns T."""
        n, x = self.count(), self.sum(1, 0)
        return _total((1, n, n, self.sum(3, 0)), (-3, n, x, self.sum(2, 0)), (2, x, x, x))

    def fourth(self) -> np.ndarray:
        """Returns F."""
        n, x, xx, xxx = self.count(), self.sum(1, 0), self.sum(2, 0), self.sum(3, 0)
        return _total((1, n, n, n, self.sum(4, 0)), (-4, n, n, x, xxx), (6, n, x, x, xx), (-3, x, x, x, x))

    def over(self, rows: np.ndarray, divisors: np.ndarray, x: int, y: int, more: int = 0) -> np.ndarray:
        """Returns the quotients of integers with the scale of x^``x`` y^``y``, times 2^-``more``, as doubles."""
        shift = x * self.scale_x[0] + y * self.scale_y[0]
        power = x * self.scale_x[1] + y * self.scale_y[1]
        return ratio(scaled(rows, 10 ** max(-power, 0)), scaled(divisors, 10 ** max(power, 0)), shift + more)


def _total(*parts: tuple[int | np.ndarray, ...]) -> np.ndarray:
    """Returns the sum of products, each an integer and columns of integers."""
    found = np.zeros((1, 1), np.int64)
    for factor, first, *others in parts:
        assert isinstance(factor, int), "a product begins with a number"
        rows = np.asarray(first)
        for other in others:
            rows = product(rows, np.asarray(other))
        rows = scaled(rows, abs(factor))
        room = max(rows.shape[1], found.shape[1]) + 1
        found = widened(np.broadcast_to(found, (len(rows), found.shape[1])), room)
        other = widened(rows, room) if factor < 0 else minus(np.zeros_like(rows), widened(rows, room))
        found = minus(found, other)
    return found


def _zero(rows: np.ndarray) -> np.ndarray:
    return np.asarray(~rows.any(axis=1))


_FAR = 1200  # 2^1200 times the least variance of doubles is not small; 2^-1200 times the largest fits in a double
_SMALL = 2.0**-1000


def _root(quotients: Callable[[int], np.ndarray]) -> np.ndarray:
    """Returns the square roots of ``quotients(0)``. ``quotients(b)`` returns the same quotients times 2^-b.

    So a root is correct even if its square is too large or too small for a double.
    """
    values = quotients(0)
    roots = np.sqrt(values)
    for far, bits in ((values == np.inf, _FAR), (values < _SMALL, -_FAR)):
        if far.any():
            roots[far] = np.ldexp(np.sqrt(quotients(bits)[far]), bits // 2)
    return np.asarray(roots)


def _variance(m: Moments, sample: int) -> Result:
    divisors = product(m.count(), m.count() - sample)
    return m.over(m.spread(2, 0), divisors, 2, 0), m.n <= sample


def _deviation(m: Moments, sample: int) -> Result:
    spread, divisors = m.spread(2, 0), product(m.count(), m.count() - sample)
    return _root(lambda more: m.over(spread, divisors, 2, 0, more)), m.n <= sample


def _covariance(m: Moments, sample: int) -> Result:
    return m.over(m.spread(1, 1), product(m.count(), m.count() - sample), 1, 1), m.n <= sample


def _correlation(m: Moments) -> Result:
    joint, x, y = m.spread(1, 1), m.spread(2, 0), m.spread(0, 2)
    above, below = product(joint, joint), product(x, y)
    return np.copysign(_root(lambda more: ratio(above, below, more)), joint[:, -1]), _zero(x) | _zero(y)


def _r2(m: Moments) -> Result:
    joint, x, y = m.spread(1, 1), m.spread(2, 0), m.spread(0, 2)
    return np.where(_zero(y), 1.0, ratio(product(joint, joint), product(x, y))), _zero(x)


def _slope(m: Moments) -> Result:
    spread = m.spread(2, 0)
    return m.over(m.spread(1, 1), spread, -1, 1), _zero(spread)


def _intercept(m: Moments) -> Result:
    spread = m.spread(2, 0)
    return m.over(minus(product(m.sum(0, 1), m.sum(2, 0)), product(m.sum(1, 0), m.sum(1, 1))), spread, 0, 1), _zero(
        spread
    )


def _power(rows: np.ndarray, times: int) -> np.ndarray:
    return rows if times == 1 else product(rows, _power(rows, times - 1))


def _skewness(m: Moments, sample: bool) -> Result:
    spread, third, n = m.spread(2, 0), m.third(), m.count()
    above, below = product(third, third), _power(spread, 3)
    if sample:
        above, below = product(above, product(n, n - 1)), product(below, product(n - 2, n - 2))
    few = m.n < (3 if sample else 1)
    return np.copysign(_root(lambda more: ratio(above, below, more)), third[:, -1]), _zero(spread) | few


def _kurtosis(m: Moments, sample: bool) -> Result:
    spread, n = m.spread(2, 0), m.count()
    below = _power(spread, 2)
    above = _total((1, m.fourth()), (-3, below))
    if sample:
        above = product(_total((1, n + 1, above), (6, below)), n - 1)
        below = product(below, product(n - 2, n - 3))
    few = m.n < (4 if sample else 1)
    return ratio(above, below), _zero(spread) | few


MOMENTS: dict[str, Callable[[Moments], Result]] = {
    "var_pop": lambda m: _variance(m, 0),
    "var_samp": lambda m: _variance(m, 1),
    "stddev_pop": lambda m: _deviation(m, 0),
    "stddev_samp": lambda m: _deviation(m, 1),
    "covar_pop": lambda m: _covariance(m, 0),
    "covar_samp": lambda m: _covariance(m, 1),
    "corr": _correlation,
    "regr_r2": _r2,
    "regr_slope": _slope,
    "regr_intercept": _intercept,
    "regr_avgx": lambda m: (m.over(m.sum(1, 0), m.count(), 1, 0), m.n == 0),
    "regr_avgy": lambda m: (m.over(m.sum(0, 1), m.count(), 0, 1), m.n == 0),
    "regr_sxx": lambda m: (m.over(m.spread(2, 0), m.count(), 2, 0), m.n == 0),
    "regr_syy": lambda m: (m.over(m.spread(0, 2), m.count(), 0, 2), m.n == 0),
    "regr_sxy": lambda m: (m.over(m.spread(1, 1), m.count(), 1, 1), m.n == 0),
    "skewness": lambda m: _skewness(m, False),
    "skewness_samp": lambda m: _skewness(m, True),
    "kurtosis": lambda m: _kurtosis(m, False),
    "kurtosis_samp": lambda m: _kurtosis(m, True),
}
"""The aggregates of this file by name. REGR_COUNT is a COUNT. NULL for too few rows."""
