"""Tests whether a row, given by its values, is in the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crown.errors import ChangeError
from crown.ingest.tables.values import converted
from crown.store.arrow_buffers import flags, integers
from crown.store.codec import Intern, UnencodableError, encode, uses_dictionary
from crown.store.dictionary import Dictionary
from plans.expressions.columns.intervals import carried
from plans.expressions.columns.packed import comparable
from plans.expressions.evaluate import Evaluator
from plans.plan import Output, Plan
from plans.queries.variables import injective
from plans.schema import Column
from plans.types import arrow_type, type_of_arrow


def row_of(columns: Sequence[Column | Output], values: Mapping[str, Any]) -> list[pa.Array]:
    """Returns one-row output columns for values by name, which must fit their columns as values of a batch must.

    Raises ChangeError if a name is missing or a value does not fit.
    """
    arrays = []
    for column in columns:
        if column.name not in values:
            names = ", ".join(other.name for other in columns)
            raise ChangeError(f"the row has no value for output column {column.name!r}; the result has: {names}")
        bad: dict[int, str] = {}
        target = arrow_type(column.type)
        given = converted([values[column.name]], column.name, column.type, target, bad)
        if bad:
            raise ChangeError(f"output {bad[0]}")
        arrays.append(integers(given, target) if isinstance(given, np.ndarray) else given)
    return arrays


def free_values(plan: Plan, arrays: Sequence[pa.Array]) -> dict[str, pa.Array] | None:
    """Returns the free attributes of a one-row output, or None if no enumerated row maps to it.

    Without support counts every free attribute is an output, possibly after a one-to-one cast, or is determined by
    other outputs through a declared key. Attributes of the latter kind are left out.
    """
    named: dict[str, pa.Array] = {}
    for o, array in zip(plan.output, arrays, strict=True):
        attribute = injective(o.expr)
        if attribute is None:
            continue
        try:
            named.setdefault(attribute, array.cast(arrow_type(plan.attributes[attribute].type)))
        except pa.ArrowInvalid:
            return None  # the cast cannot have made the value
    if len(named) < len(plan.free):
        return named
    if not all(predicate.evaluate(named, 1)[0].as_py() for predicate in plan.residual):
        return None
    computed = Evaluator([output.expr for output in plan.output]).evaluate(named, 1)
    same = (same_values(found.cast(wanted.type), wanted)[0] for found, wanted in zip(computed, arrays, strict=True))
    return named if all(same) else None


def where(columns: Sequence[pa.Array], n: int, wanted: Sequence[pa.Array]) -> np.ndarray:
    """Returns bool[n], True for each of ``n`` output rows that equals the one-row output ``wanted``."""
    hit = np.ones(n, bool)
    for column, value in zip(columns, wanted, strict=True):
        hit &= same_values(column, value)
    return hit


def same_values(column: pa.Array, wanted: pa.Array) -> np.ndarray:
    """Returns bool[n], True where ``column`` holds the value of the one-row array ``wanted``, as rows are compared.

    Compares values and not codes, because a value that is in no row has no code. NULL is NULL, NaN is NaN, -0.0 is 0.0.
    """
    if wanted.null_count:
        return flags(column.is_null())
    if pa.types.is_nested(column.type):
        kind = type_of_arrow(column.type)
        column, wanted = comparable(column, kind), comparable(wanted, kind)
    if pa.types.is_interval(column.type):
        column, wanted = carried(column, "months"), carried(wanted, "months")
    same = pc.equal(column, wanted[0])
    if pa.types.is_floating(column.type):
        same = pc.or_(same, pc.and_(pc.is_nan(column), pc.is_nan(wanted[0])))
    return flags(same.fill_null(False))


def code_of(array: pa.Array, kind: str, intern: Intern) -> int:
    """Returns the code of a one-row array, or 0, which is the code of no text, if the dictionary does not have the
    value.

    Raises ChangeError for a value that has no code.
    """
    try:
        return int(encode(array, kind, intern, False)[0])
    except UnencodableError as error:
        raise ChangeError(error.reason) from None


def codes_of(columns: Sequence[Column], values: Mapping[str, Any], dictionary: Dictionary) -> np.ndarray | None:
    """Returns the codes of a row given by name, or None if the dictionary does not have one of its values, so that no
    row has it. Raises ChangeError as ``row_of`` does."""
    row = np.empty(len(columns), np.int64)
    for i, (column, array) in enumerate(zip(columns, row_of(columns, values), strict=True)):
        row[i] = code_of(array, column.type, dictionary.intern)
        if row[i] == 0 and uses_dictionary(column.type):
            return None
    return row
