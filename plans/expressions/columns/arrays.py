"""Conversions between Arrow columns and NumPy: views of the values of a fixed-width column, without copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def words(value: pa.Array, kind: type[np.generic], width: int = 1) -> np.ndarray:
    """Returns the values of an array, `width` numbers each; 0 where the array is NULL."""
    if not len(value):
        return np.empty(0, kind)
    found = np.frombuffer(value.buffers()[1], kind)[width * value.offset : width * (value.offset + len(value))]
    if not value.null_count:
        return found
    valid = value.is_valid().to_numpy(zero_copy_only=False)
    return np.where(valid[:, None], found.reshape(-1, width), kind(0)).reshape(-1)


def validity(value: pa.Array) -> np.ndarray:
    """Returns bool[n]: True where an array is not NULL."""
    if not value.null_count:
        return np.ones(len(value), bool)
    found: np.ndarray = value.is_valid().to_numpy(zero_copy_only=False)
    return found


def float_words(values: np.ndarray) -> np.ndarray:
    """Returns doubles as words, so that equal doubles have equal words: there is one zero, and one NaN."""
    values = values + 0.0  # -0.0 + 0.0 is 0.0
    values[np.isnan(values)] = np.nan
    return values.view(np.int64)


def array_of(values: np.ndarray, type_: pa.DataType, like: pa.Array) -> pa.Array:
    """Returns an array over the buffer of contiguous NumPy values, NULL where `like` is."""
    array = pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(values)], 0)
    return pc.if_else(pc.is_valid(like), array, null(type_)) if like.null_count else array


def null(type_: pa.DataType) -> pa.Scalar:
    """Returns NULL as a value of a type. ``pa.scalar`` would load pandas if it is installed."""
    return pa.nulls(1, type_)[0]


def repeated(value: pa.Scalar, count: int) -> pa.Array:
    """Returns an array that repeats a value."""
    return pa.repeat(value, count) if count else pa.nulls(0, value.type)


def on_arrays(function: Callable[..., pa.Array], *values: Any) -> Any:
    """Applies a function of arrays to arrays and scalars. Scalars are repeated; if all are scalars, returns a
    scalar."""
    length = next((len(value) for value in values if not isinstance(value, pa.Scalar)), None)
    count = 1 if length is None else length
    found = function(*(repeated(value, count) if isinstance(value, pa.Scalar) else value for value in values))
    return found[0] if length is None else found
