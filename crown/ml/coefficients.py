"""Coefficients of a linear regression, from exact sums of products of its columns."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from crown.errors import CrownError
from crown.ml.normal import Exact, solve
from plans.errors import levels_to_caller


class RankDeficientWarning(UserWarning):
    """The features are linearly dependent, so several models fit equally well; the one of least norm was taken."""


@dataclass(frozen=True, eq=False)
class Coefficients(Mapping[str, float]):
    """A fitted model: a coefficient per feature, as a mapping, and its statistics.

    `intercept`; `rank`: the number of features that are independent of one another and of the constant; `rows`: the
    number of rows that it was fitted to; `ridge`: its penalty. All numbers are exact results, rounded to doubles at the
    end.
    """

    values_by_name: Mapping[str, float]
    intercept: float
    rank: int
    rows: int
    ridge: float

    def __getitem__(self, feature: str) -> float:
        return self.values_by_name[feature]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def predict(self, row: Mapping[str, Any]) -> float:
        """Returns the model's value for a row (a mapping by feature; other columns are ignored).

        Raises CrownError if a feature is absent, or not a number.
        """
        total = self.intercept
        for name, coefficient in self.values_by_name.items():
            value = row.get(name) if isinstance(row, Mapping) else None
            try:
                total += coefficient * float(value)  # type: ignore[arg-type]
            except (TypeError, ValueError, OverflowError):
                raise CrownError(
                    f"predict takes a dict with a number for each of {', '.join(self.values_by_name)}; "
                    f"{name} is {value!r:.100}"
                ) from None
        return total

    def __repr__(self) -> str:
        terms = ", ".join(f"{name!r}: {b!r}" for name, b in self.values_by_name.items())
        return f"Coefficients({{{terms}}}, intercept={self.intercept!r})"


def fit(total: Callable[..., Exact], features: Sequence[str], target: str, ridge: float | Fraction = 0) -> Coefficients:
    """Returns the coefficients b and intercept a that minimize Σ (y − a − b·x)² + ridge · |b|².

    ``total``: returns the exact sum over the rows of the product of the columns of these names; of none, their number.
    The intercept, which is not penalized, is eliminated first and exactly. With n rows, Gram matrix Q and sums s, the
    system is (n Q − s s') b = n h − s t, which is far better conditioned than Q. Raises CrownError if there is no row,
    or if ridge is negative or not a number. Issues a RankDeficientWarning if the features are dependent. Cost: no pass
    over data; see `crown.ml.normal.solve`.
    """
    penalty = _penalty(ridge)
    n = int(total())
    if n < 1:
        raise CrownError("there is nothing to fit: no row of the query has a value in every feature and the target")
    single = {name: total(name) for name in (*features, target)}
    gram = [[n * total(a, b) - single[a] * single[b] for b in features] for a in features]
    for i in range(len(features)):
        gram[i][i] += n * penalty
    right = [n * total(a, target) - single[a] * single[target] for a in features]
    solution, rank = solve(gram, right)
    if rank < len(features):
        warnings.warn(
            f"only {rank} of {len(features)} features are independent over the {n} rows: several models fit equally "
            f"well, and the one with the least sum of squared coefficients was taken; leave features out, or use ridge",
            RankDeficientWarning,
            stacklevel=levels_to_caller(),
        )
    explained = sum((b * single[name] for b, name in zip(solution, features, strict=True)), Fraction(0))
    intercept = Fraction(single[target] - explained) / n
    by_name = {name: _double(b) for name, b in zip(features, solution, strict=True)}
    return Coefficients(by_name, _double(intercept), rank, n, _double(penalty))


def _double(exact: Fraction) -> float:
    """Returns the nearest double."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _penalty(ridge: Any) -> Fraction:
    try:
        exact = Fraction(ridge)
    except (TypeError, ValueError, OverflowError):
        exact = Fraction(-1)
    if exact < 0 or isinstance(ridge, (bool, str)):
        raise CrownError(f"ridge must be a number of 0 or more, not {ridge!r:.100}")
    return exact
