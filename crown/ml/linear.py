"""Linear regression over a join, kept up to date."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from crown.ml.coefficients import Coefficients, ExactSums, fit
from crown.ml.sums import maintained_sums
from crown.uncopyable import NotCopyable


class Regression(NotCopyable, instead="crown.ml.regression makes another one"):
    """A linear model of `target` by `features` over the rows of a query. Made by `crown.ml.regression`.

    What is kept are the sums of all products of at most two of these columns, without rounding; fitting reads nothing
    else.
    """

    def __init__(self, query: str, features: Sequence[str], target: str, sums: ExactSums) -> None:
        self.query = query
        self.features = tuple(features)
        self.target = target
        self._sums = sums

    def apply(self, changes: Mapping[str, Any]) -> None:
        """Applies a batch of changes: relation -> table with `_weight`, as `crown.view(...).apply` takes it.

        Errors leave the model as it was: ChangeError (unknown relation or column), BadRowError (a value that does not
        fit, or a feature that is NaN or infinite), MissingDeleteError (with `on_missing="raise"`). Cost: that of
        propagating the changes through the sums; no result row is formed.
        """
        self._sums.apply(changes)

    def coefficients(self, ridge: float | Fraction = 0) -> Coefficients:
        """Returns the coefficients that minimize Σ (y − intercept − b·x)² + ridge · |b|² over the present rows.

        They are the exact solution, rounded to doubles, however ill-conditioned the data. Raises CrownError where there
        is no row yet. Issues a RankDeficientWarning where features depend on one another, and then takes the solution
        with the least |b|². Cost: O(features³), whatever the number of rows.
        """
        return fit(self._sums, self.features, self.target, ridge)

    @property
    def intercept(self) -> float:
        """Returns the intercept of `coefficients()`; with a penalty, see `coefficients(ridge).intercept`."""
        return self.coefficients().intercept

    @property
    def rows(self) -> int:
        """Returns the number of rows that the model is fitted to: those of the query without NULL in feature or
        target."""
        return self._sums.rows

    @property
    def skipped(self) -> int:
        """Returns the number of rows of the query that have a NULL in a feature or in the target, and are left out."""
        return self._sums.skipped

    @property
    def missing(self) -> int:
        """Returns the number of copies of rows that deletes wanted to remove and did not find."""
        return self._sums.missing

    def sum(self, *names: str) -> int | Fraction:
        """Returns the exact sum over the rows of the product of at most two features or target; of none, their number.

        Raises KeyError for other names.
        """
        return self._sums.sum(*names)

    def explain(self) -> str:
        """Returns what is maintained, and how, as text."""
        return f"linear regression of {self.target} on {', '.join(self.features)}\n{self._sums.explain()}"

    def __repr__(self) -> str:
        return f"<crown.ml.Regression of {self.target} on {', '.join(self.features)}: {self.query!r}>"


def regression(
    query: str,
    schema: Any = None,
    *,
    target: str,
    features: Sequence[str] | None = None,
    on_missing: str = "ignore",
) -> Regression:
    """Returns a linear regression of a column of a query on others, kept up to date under changes of its tables.

    `query`: SQL without DISTINCT and without conditions between relations but equality, whose output columns are
    numbers; every row counts as often as SQL returns it. `schema`: as for `crown.view`. `target`: the output column to
    explain; `features`: those that explain it (none given: all others). `on_missing`: `"ignore"` counts deletes of
    absent rows and leaves them out, `"raise"` refuses their batch. Raises PlanError for a query that cannot be
    maintained so, with the reason, and CrownError for other arguments that make no sense.

    >>> schema = {"house": {"street": "int64", "rooms": "int64", "price": "int64"},
    ...           "street": {"street": "int64", "trees": "int64"}}
    >>> model = regression("SELECT rooms, trees, price FROM house JOIN street USING (street)", schema, target="price")
    >>> model.apply({
    ...     "street": [{"street": 1, "trees": 0}, {"street": 2, "trees": 9}],
    ...     "house": [{"street": 1, "rooms": 2, "price": 110}, {"street": 1, "rooms": 4, "price": 210},
    ...               {"street": 2, "rooms": 3, "price": 205}, {"street": 2, "rooms": 5, "price": 305}],
    ... })
    >>> model.coefficients()
    Coefficients({'rooms': 50.0, 'trees': 5.0}, intercept=10.0)
    >>> model.apply({"house": [{"street": 2, "rooms": 5, "price": 305, "_weight": -1}]})
    >>> model.rows, model.sum("rooms", "price"), model.sum("trees")
    (3, 1675, 9)
    """
    sums, chosen, explained = maintained_sums(query, schema, target, features, on_missing)
    return Regression(query, chosen, explained, sums)
