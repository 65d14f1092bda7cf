"""Monomials: the sums of products from which means, variances, correlations and regressions are computed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from math import comb, prod
from typing import Any

from crown.errors import CrownError
from crown.guards.arguments import number_of
from crown.ingest.tables.frames import schemas
from plans import PlanError, parse
from plans import program as make_program
from plans.expressions.build import col
from plans.payloads.sums import COFACTOR
from plans.program import Program
from plans.programs.stages import Aggregate, GroupStage
from plans.queries.algebra import Group, Query, Relation
from plans.schema import Column
from plans.types import decimal_parts

_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class Monomials:
    """All products of at most `degree` of the columns `over`, as plain data.

    `products` lists them as tuples of names, shortest first: `()` is the count of the rows, `("a",)` the sum of a,
    `("a", "b")` the sum of a * b. Each product is listed once, regardless of the order of its factors.
    """

    over: tuple[str, ...]
    degree: int
    products: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        return len(self.products)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(self.products)

    def index(self, *names: str) -> int:
        """Returns the position of the product of these columns, in any order. Raises CrownError for any other
        product.
        """
        rank = {name: i for i, name in enumerate(self.over)}
        if all(isinstance(name, str) and name in rank for name in names):
            wanted = tuple(sorted(names, key=rank.__getitem__))
            if wanted in self.products:
                return self.products.index(wanted)
        raise CrownError(
            f"there is no product of {', '.join(map(repr, names))}: name at most {self.degree} of "
            f"{', '.join(self.over)}"
        )

    def names(self) -> tuple[str, ...]:
        """Returns a name for the column of each sum: `n`, `sum_a`, `sum_a_b`; numbered if two would be equal."""
        out: dict[str, None] = {}
        for factors in self.products:
            name = "_".join(("sum", *(re.sub(r"\W", "_", factor) for factor in factors))) if factors else "n"
            taken, number = name, 1
            while taken.lower() in out:
                number += 1
                taken = f"{name}_{number}"
            out[taken.lower()] = None
        return tuple(out)

    def sql(self) -> tuple[str, ...]:
        """Returns the items of a SELECT list that compute the sums, in order: `COUNT(*) AS n`, `SUM(a * b) AS sum_a_b`.

        SQL skips NULLs product by product. If columns can be NULL, filter them out in WHERE, because sums over
        different rows do not form one matrix.
        """
        sums = (
            "SUM(" + " * ".join(map(_quoted, factors)) + ")" if factors else "COUNT(*)" for factors in self.products
        )
        return tuple(f"{term} AS {name}" for term, name in zip(sums, self.names(), strict=True))

    def of(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """Returns the contribution of one row to each sum: the product of its values, 1 for the count. Raises
        CrownError if the row lacks a column.
        """
        absent = [name for name in self.over if not isinstance(row, Mapping) or name not in row]
        if absent:
            raise CrownError(f"a row is a dict with a number for each of {', '.join(self.over)}, not {row!r:.100}")
        return tuple(prod(row[name] for name in factors) for factors in self.products)


_MOST_FACTORS, _MOST_PRODUCTS = 64, 1_000_000


def monomials(degree: int = 2, *, over: Sequence[str]) -> Monomials:
    """Returns the monomials of a degree over m columns: 1 + m + m(m+1)/2 of them for degree 2.

    Degree 1 is enough for means, degree 2 for variances, covariances, correlations and linear regression. Raises
    CrownError for a degree that is not from 1 to 64, for more than a million monomials, for an empty list of columns,
    or for a column that is named twice.

    >>> made = monomials(over=["a", "b"])
    >>> made.products
    ((), ('a',), ('b',), ('a', 'a'), ('a', 'b'), ('b', 'b'))
    >>> made.sql()[:2], made.sql()[4]
    (('COUNT(*) AS n', 'SUM(a) AS sum_a'), 'SUM(a * b) AS sum_a_b')
    >>> made.index("a", "b") == made.index("b", "a") == 4
    True
    """
    degree = number_of(degree, "degree", 1, _MOST_FACTORS)
    names = tuple(over) if isinstance(over, Iterable) and not isinstance(over, str) else ()
    if not isinstance(over, Iterable) or isinstance(over, str) or not all(isinstance(name, str) for name in names):
        raise CrownError(f"over must be a list of names of columns, not {over!r:.100}")
    if not names:
        raise CrownError("over names no column; monomials are products of columns")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise CrownError(f"over names {twice} twice; name every column once")
    if comb(len(names) + degree, degree) > _MOST_PRODUCTS:
        raise CrownError(
            f"there are more than {_MOST_PRODUCTS:,} products of degree {degree} over {len(names)} columns"
        )
    products = (combinations_with_replacement(names, k) for k in range(degree + 1))
    return Monomials(names, degree, tuple(factors for of_degree in products for factors in of_degree))


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"


ROWS = "rows"
"""The only output column of the program: the number of rows without NULL in a feature or the target."""
_NUMBERS = ("bool", "int32", "int64", "float64")


def program(
    query: str,
    schema: Any = None,
    *,
    target: str,
    features: Sequence[str] | None = None,
    rates: Mapping[str, float] | None = None,
    dialect: str = "spark",
) -> Program:
    """Returns the program of a regression, which `crown.open` stores in a folder for `Regression`.

    Arguments as for `crown.ml.regression`. Raises PlanError for a query that cannot be maintained, and CrownError for
    names that are not its columns. Its one result row counts the rows without NULL in a feature or the target.
    """
    relation = parse(query, schemas(schema), dialect=dialect)
    columns = _chosen(relation.columns, target, features)
    for column in columns:
        if column.type not in _NUMBERS and decimal_parts(column.type) is None:
            raise PlanError(
                f"column {column.name} is of type {column.type}; a regression takes numbers",
                hint="give it to features= only after turning it into a number, or leave it out of features=",
            )
    names = tuple(column.name for column in columns)
    call = Aggregate(ROWS, "int64", COFACTOR, names)
    group = Group(_narrowed(relation, names), (), (call,), ((ROWS, col(ROWS, "int64")),), None, True)
    return make_program(group, rates=rates, dialect=dialect)


def stage_of(made: Program) -> GroupStage | None:
    """Returns the stage that maintains the sums, None if the program is not that of a regression."""
    last = made.stages[-1] if made.stages else None
    found = isinstance(last, GroupStage) and last.whole and [call.function for call in last.aggregates] == [COFACTOR]
    return last if found and isinstance(last, GroupStage) else None


def _narrowed(relation: Relation, names: Sequence[str]) -> Relation:
    """Returns the relation without columns that no sum needs, if its rows stay the same."""
    if not isinstance(relation, Query) or relation.distinct:
        return relation
    return replace(relation, outputs=tuple((name, expr) for name, expr in relation.outputs if name in names))


def _chosen(columns: Sequence[Column], target: Any, features: Any) -> list[Column]:
    """Returns the columns that are used, the target last."""
    known = {column.name.lower(): column for column in columns}
    if features is not None and (isinstance(features, str) or not isinstance(features, Sequence)):
        raise CrownError(f"features must be a list of output columns, not {features!r:.100}")
    wanted = [*([n for n in known if n != str(target).lower()] if features is None else features), target]
    for name in wanted:
        if not isinstance(name, str) or name.lower() not in known:
            names = ", ".join(column.name for column in columns)
            raise CrownError(f"{name!r} is not a column of the query, which has: {names}")
    twice = next((name for name, times in Counter(name.lower() for name in wanted).items() if times > 1), None)
    if twice is not None:
        raise CrownError(f"{twice!r} is named twice among features and target; name every column once")
    return [known[name.lower()] for name in wanted]
