"""Outputs that are casts of columns: one that is one-to-one merges no rows, so nothing counts them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa

from plans import PlanError, arrow_type
from plans.expressions.build import Expr, cast, col
from plans.expressions.evaluate import Evaluator
from plans.queries.variables import injective

VALUES: dict[str, list[Any]] = {
    "bool": [False, True],
    "int32": [-(2**31), -1, 0, 1, 10, 2**24, 2**24 + 1, 999_999_999, 2**31 - 2, 2**31 - 1],
    "int64": [-(2**63), -(2**63) + 1, -1, 0, 1, 10, 2**53, 2**53 + 1, 10**18, 2**63 - 2, 2**63 - 1],
    "date": [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(9999, 12, 31)],
    "float64": [0.1, 1e300, 5e-324],
    "string": ["1", "01", "a"],
}
TYPES = ["bool", "int32", "int64", "float64", "string", "date", "timestamp", "timestamp_ntz"]
TYPES += [f"decimal({digits},{scale})" for digits in (1, 2, 9, 10, 11, 18, 19, 20, 21, 38) for scale in (0, 1)]


def casts() -> list[tuple[str, Expr]]:
    """Every cast there is between these types."""
    found = []
    for source in VALUES:
        for target in TYPES:
            try:
                found.append((source, cast(col("r.a", source), target)))
            except PlanError:
                continue  # there is none
    return [(source, expr) for source, expr in found if expr.op == "cast"]


def values(source: str, expr: Expr) -> list[Any]:
    """What a cast makes of the values of a type."""
    columns = {"r.a": pa.array(VALUES[source], arrow_type(source))}
    (made,) = Evaluator([expr]).evaluate(columns, len(VALUES[source]))
    return made.to_pylist()


def test_a_cast_that_tells_values_apart_loses_none_and_merges_none() -> None:
    wrong = {}
    for source, expr in casts():
        assert injective(expr) in ("r.a", None)
        if injective(expr) is not None:
            made = values(source, expr)
            if None in made or len(set(made)) < len(made):
                wrong[source, expr.type] = made
    assert wrong == {}


def test_casts_to_wider_types_and_to_text_tell_values_apart() -> None:
    told = {(source, expr.type) for source, expr in casts() if injective(expr) is not None}
    wide = {("int32", "int64"), ("bool", "int32"), ("int32", "decimal(11,1)"), ("int64", "decimal(19,0)")}
    assert told >= wide | {(source, "string") for source in ("bool", "int32", "int64", "date")}
    assert not {source for source, _ in told} & {"float64", "string"}
