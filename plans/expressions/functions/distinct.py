"""Evaluation once per distinct value, for functions that neither Arrow nor NumPy computes as Spark does.

The columns are dictionary-encoded, a Python function is called once for each occurring combination of values, and its
results are gathered for the rows. Cost: O(rows) vectorized, plus one call per distinct combination.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.expressions.columns.characters import readable


def by_distinct(function: Callable[..., Any], type_: pa.DataType, *values: Any) -> Any:
    """Returns `function` of each row's values, as an array of `type_`; NULL where an argument is NULL or not UTF-8.

    If all arguments are scalars, returns a scalar. The function takes Python values and returns one, or None for NULL.
    """
    if all(isinstance(value, pa.Scalar) for value in values):
        plain = [value.as_py() for value in values]
        return pa.scalar(None if None in plain else function(*plain), type_)
    length = next(len(value) for value in values if not isinstance(value, pa.Scalar))
    if any(isinstance(value, pa.Scalar) and not value.is_valid for value in values):
        return pa.nulls(length, type_)
    encoded = [value if isinstance(value, pa.Scalar) else _encoded(value) for value in values]
    varied = [value for value in encoded if not isinstance(value, pa.Scalar)]
    places, combinations = (varied[0][0], [varied[0][1]]) if len(varied) == 1 else _combined(varied, length)
    columns = iter(combinations)
    given = [repeat(value.as_py()) if isinstance(value, pa.Scalar) else next(columns) for value in encoded]
    return pa.array(list(map(function, *given)), type_).take(places)


def _combined(columns: Sequence[tuple[pa.Array, list[Any]]], length: int) -> tuple[pa.Array, list[list[Any]]]:
    """Returns the combination of each row, NULL if a value is, and the values of the combinations, by column."""
    codes, known = np.zeros(length, np.int64), np.ones(length, bool)
    for indices, choices in columns:
        known &= pc.is_valid(indices).to_numpy(zero_copy_only=False)
        codes = codes * max(len(choices), 1) + pc.fill_null(indices, 0).to_numpy().astype(np.int64)
    rest, inverse = np.unique(codes[known], return_inverse=True)
    values = []
    for _, choices in reversed(columns):
        rest, chosen = np.divmod(rest, max(len(choices), 1))
        values.append(list(map(choices.__getitem__, chosen.tolist())))
    places = np.zeros(length, np.int64)
    places[known] = inverse
    return pa.array(places, mask=~known), values[::-1]


def each(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns an evaluator that calls a function of Python values once per distinct combination of values."""
    return lambda type_, *values: by_distinct(function, type_, *values)


def _encoded(value: pa.Array) -> tuple[pa.Array, list[Any]]:
    """Returns the codes of an array, and the Python values of the codes."""
    if pa.types.is_string(value.type):
        value = readable(value)
    floating = pa.types.is_floating(value.type)
    found = (value.view(pa.int64()) if floating else value).dictionary_encode()
    choices = found.dictionary.view(pa.float64()) if floating else found.dictionary
    return found.indices, choices.to_pylist()
