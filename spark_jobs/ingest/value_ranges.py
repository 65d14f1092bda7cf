"""Statistics of files: decides which conditions on a column cannot hold, without reading the column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from plans.expressions.build import MIRROR, Expr

_ORDERED = {"int32", "int64", "string", "date", "bool"}  # without doubles: NaN is greater than the maximum in a file


@dataclass(frozen=True)
class ValueRange:
    """The least and the greatest value of some rows, and the number of NULLs; None: not known, or no values.

    Values have Parquet's form, such as a date as days since 1970 and a text as bytes: Python has no dates after the
    year 9999, but files have.
    """

    least: Any
    greatest: Any
    nulls: int | None


_HOLDS: dict[str, Callable[[ValueRange, Any], bool]] = {
    "eq": lambda of, value: bool(of.least <= value <= of.greatest),
    "nseq": lambda of, value: bool(of.least <= value <= of.greatest),
    "lt": lambda of, value: bool(of.least < value),
    "le": lambda of, value: bool(of.least <= value),
    "gt": lambda of, value: bool(of.greatest > value),
    "ge": lambda of, value: bool(of.greatest >= value),
}


def may_hold(condition: Expr, known: Mapping[str, ValueRange]) -> bool:
    """Returns False only if no row whose values are in these ranges (by column in lower case) meets a condition."""
    if condition.op in ("and", "or"):
        parts = (may_hold(part, known) for part in condition.args)
        return all(parts) if condition.op == "and" else any(parts)
    if condition.op == "in":
        column, *values = condition.args
        return any(_may_compare("eq", column, value, known) for value in values)
    if condition.op == "isnull":
        of = known.get(_named(condition.args[0]))
        return of is None or of.nulls != 0
    if condition.op not in _HOLDS:
        return True
    left, right = condition.args
    mirrored = MIRROR[condition.op]
    return _may_compare(condition.op, left, right, known) and _may_compare(mirrored, right, left, known)


def _may_compare(op: str, column: Expr, value: Expr, known: Mapping[str, ValueRange]) -> bool:
    of = known.get(_named(column))
    if of is None or of.least is None or value.op != "literal" or value.type not in _ORDERED or value.value is None:
        return True
    return _HOLDS[op](of, _stored(value.scalar))


def _stored(value: Any) -> Any:
    """Returns a value in Parquet's form."""
    if pa.types.is_date(value.type):
        return value.value
    found = value.as_py()
    return found.encode() if isinstance(found, str) else found


def _named(expr: Expr) -> str:
    """Returns the name of the column that an expression reads, possibly widened; an empty text for any other
    expression.
    """
    while expr.op == "cast" and (expr.args[0].type, expr.type) == ("int32", "int64"):
        expr = expr.args[0]
    return str(expr.value).lower() if expr.op == "col" and expr.type in _ORDERED else ""
