"""The query of a regression, as a program that maintains the exact sums of all products of its columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from crown.errors import CrownError
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
