"""Evaluation once per distinct value, for functions that neither Arrow nor NumPy computes as Spark does.

The columns are dictionary-encoded, a Python function is called once for each occurring combination of values, and its
results are gathered for the rows. Cost: O(rows) vectorized, plus one call per distinct combination.
"""

from __future__ import annotations

from collections.abc import Callable
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
    codes, known = np.zeros(length, np.int64), np.ones(length, bool)
    for value in encoded:
        if not isinstance(value, pa.Scalar):
            indices, choices = value
            known &= pc.is_valid(indices).to_numpy(zero_copy_only=False)
            codes = codes * max(len(choices), 1) + pc.fill_null(indices, 0).to_numpy().astype(np.int64)
    found, inverse = np.unique(codes[known], return_inverse=True)
    columns: list[Any] = []
    rest = found
    for value in reversed(encoded):
        if isinstance(value, pa.Scalar):
            columns.append([value.as_py()] * len(found))
        else:
            size = max(len(value[1]), 1)
            columns.append([value[1][i] for i in (rest % size).tolist()])
            rest = rest // size
    results = pa.array([function(*row) for row in zip(*reversed(columns), strict=True)], type_)
    places = np.zeros(length, np.int64)
    places[known] = inverse
    return results.take(pa.array(places, mask=~known))


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
