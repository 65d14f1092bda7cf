"""Linear regression over a join, maintained incrementally."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crown.errors import ChangeError, CrownError
from crown.guards.arguments import Size
from crown.guards.uncopyable import NotCopyable
from crown.ingest.changes import CheckedBatch
from crown.ml.coefficients import Coefficients, fit
from crown.ml.monomials import ROWS, monomials, program, stage_of
from crown.programs.program import ProgramEngine
from crown.stages.groups.aggregates import NotFinite
from crown.stages.groups.group import Groups
from crown.views import View, view
from crown.views import load as load_view


def not_finite(engine: ProgramEngine, changes: Mapping[str, Any], why: BaseException | None) -> str | None:
    """Returns the sentence that names the first row of a refused batch with such a value, given the reason of the
    refusal.

    A column with the name that the model uses takes precedence. Returns None if no value of the batch is one: an
    expression made it, or the changes were a stream that can be read only once. Cost: that of checking the batch again.
    """
    if not isinstance(why, NotFinite):
        return None
    try:
        checked = engine.prepare(changes, strict=False).checked
    except CrownError:
        return None
    found = [
        (column.lower() != why.column.lower(), relation, column, row, value)
        for relation, batch in checked.items()
        for column, row, value in _values(batch)
    ]
    if not found:
        return None
    _, relation, column, row, value = min(found, key=lambda one: one[0])
    return (
        f"relation {relation!r}, row {row}: {column} is {value}, and a regression takes finite numbers; "
        "leave such rows out with WHERE"
    )


def _values(batch: CheckedBatch) -> list[tuple[str, int, float]]:
    """Returns the first value that is not finite in each column of doubles, with its row in the original batch."""
    there = np.delete(np.arange(len(batch.weights) + len(batch.bad)), sorted(batch.bad))
    found = []
    for name, column in batch.columns.items():
        if pa.types.is_floating(column.type):
            at = pc.index(pc.is_finite(column), False).as_py()
            if at >= 0:
                found.append((name, int(there[at]), column[at].as_py()))
    return found


class Sums:
    """The sums of all products of at most two of the columns `over`, over the rows without NULL in any of them."""

    def __init__(self, engine: ProgramEngine, over: Sequence[str]) -> None:
        last = engine.stages[-1]
        assert isinstance(last, Groups), "the program of a regression ends with a group"
        self.monomials = monomials(over=over)
        self.engine = engine
        self._groups = last

    @property
    def rows(self) -> int:
        """Returns the number of rows without NULL in any of the columns."""
        return int(self.sum())

    @property
    def skipped(self) -> int:
        """Returns the number of rows with a NULL in any of the columns."""
        self.engine.check_ready()
        return int(self._groups.exact("")) - self.rows

    def sum(self, *names: str) -> int | Fraction:
        """Returns the sum of the product of these columns over the rows. Raises CrownError if it is not maintained."""
        self.monomials.index(*names)
        self.engine.check_ready()
        return self._groups.exact(ROWS, *names)


class Regression(NotCopyable, instead="save(path) and crown.ml.load(path) make another one"):
    """A linear model of `target` by `features` over the rows of a query. Made by `crown.ml.regression`.

    `view` stores the sums of all products of at most two of these columns, without rounding; fitting reads nothing
    else. Regression(view) is the model of a view of `crown.ml.program(...)`, made by `crown.view`, `crown.open` or
    `crown.load`. Raises CrownError for another view.
    """

    def __init__(self, view: View) -> None:
        if not isinstance(view, View):
            raise CrownError(f"a regression is made of a view of crown.ml.program(...), not of {type(view).__name__}")
        engine = view._engine
        stage = stage_of(engine.plan)
        if stage is None:
            raise CrownError(f"{view!r} has no sums of a regression; create it from crown.ml.program(...)")
        assert isinstance(engine, ProgramEngine), "sums of all rows are in one cell"
        names = stage.aggregates[0].arguments
        self.view = view
        self.query = engine.plan.query
        self.features = names[:-1]
        self.target = names[-1]
        self._sums = Sums(engine, names)

    def apply(self, changes: Mapping[str, Any]) -> None:
        """Applies a batch of changes: relation -> table with `_weight`, as `crown.view(...).apply` accepts it.

        Errors leave the model as it was: ChangeError (unknown relation or column, or a feature that is NaN or infinite,
        with its row in the batch), BadRowError (a value that does not fit), MissingDeleteError (with
        `on_missing="raise"`). Cost: that of propagating the changes through the sums, see `explain`.
        """
        try:
            self.view.update(changes)
        except ChangeError as error:
            found = not_finite(self._sums.engine, changes, error.__context__)
            if found is None:
                raise
            raise ChangeError(found) from None

    def coefficients(self, ridge: float | Fraction = 0) -> Coefficients:
        """Returns the coefficients that minimize Σ (y − intercept − b·x)² + ridge · |b|² over the current rows.

        They are the exact solution, rounded to doubles, however ill-conditioned the data. Raises CrownError if there is
        no row yet. Issues a RankDeficientWarning if features are linearly dependent, and then takes the solution with
        the least |b|². Cost: O(features³), independent of the number of rows.
        """
        return fit(self._sums.sum, self.features, self.target, ridge)

    @property
    def intercept(self) -> float:
        """Returns the intercept of `coefficients()`; with a penalty, see `coefficients(ridge).intercept`."""
        return self.coefficients().intercept

    @property
    def rows(self) -> int:
        """Returns the number of rows to which the model is fitted: rows of the query without NULL in a feature or the
        target.
        """
        return self._sums.rows

    @property
    def skipped(self) -> int:
        """Returns the number of rows of the query that are skipped, because a feature or the target is NULL."""
        return self._sums.skipped

    @property
    def missing(self) -> int:
        """Returns the number of copies that deletes of rows that the query reads did not find."""
        return sum(self.view.stats()["missing_deletes"].values())

    def sum(self, *names: str) -> int | Fraction:
        """Returns the exact sum over the rows of the product of at most two features or target; of none, the number of
        rows.

        Raises CrownError for other names.
        """
        return self._sums.sum(*names)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model to one file (replaced atomically); `crown.ml.load` reads it. O(state)."""
        self.view.save(path)

    def explain(self) -> str:
        """Returns a description of the maintained sums, as text."""
        kept = self._sums.monomials
        return "\n".join(
            [
                f"linear regression of {self.target} on {', '.join(self.features)}",
                f"sums: {len(kept)} monomials of degree 2, exact",
                f"as SQL: SELECT {', '.join(kept.sql())}",
                self.view.explain(),
            ]
        )

    def __repr__(self) -> str:
        return f"<crown.ml.Regression of {self.target} on {', '.join(self.features)}: {self.query!r}>"


def regression(
    query: str,
    schema: Any = None,
    *,
    target: str,
    features: Sequence[str] | None = None,
    rates: Mapping[str, float] | None = None,
    dialect: str = "spark",
    **options: Any,
) -> Regression:
    """Returns a linear regression of a column of a query on others, maintained under changes of its tables.

    `query`: a query that `crown.view` accepts, whose rows are the observations; every row counts as often as SQL
    returns it. `schema`: as for `crown.view`. `target`: the output column to explain; `features`: the columns that
    explain it (default: all others); all of them numeric. `rates` and `dialect` are passed to the planner, the other
    `options` (`on_missing`, `path`, `memory_budget`, `threads`, ...) to `crown.view`. Raises PlanError for a query that
    cannot be maintained, with the reason, and CrownError for other invalid arguments.

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
    made = program(query, schema, target=target, features=features, rates=rates, dialect=dialect)
    return Regression(view(made, schema, **options))


def load(
    path: str | os.PathLike[str],
    *,
    state_path: str | os.PathLike[str] | None = None,
    memory_budget: Size | None = None,
) -> Regression:
    """Returns the model that `Regression.save` wrote. Arguments and errors as for `crown.load`. O(state)."""
    return Regression(load_view(path, state_path=state_path, memory_budget=memory_budget))
