"""Between Arrow columns and NumPy: the values of a fixed-width column as they lie in memory, and back. No copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def words(value: pa.Array, kind: type[np.generic], width: int = 1) -> np.ndarray:
    """Returns the values of an array, `width` numbers each; 0 where it is NULL."""
    if not len(value):
        return np.empty(0, kind)
    found = np.frombuffer(value.buffers()[1], kind)[width * value.offset : width * (value.offset + len(value))]
    if not value.null_count:
        return found
    valid = value.is_valid().to_numpy(zero_copy_only=False)
    return np.where(valid[:, None], found.reshape(-1, width), kind(0)).reshape(-1)


def array_of(values: np.ndarray, type_: pa.DataType, like: pa.Array) -> pa.Array:
    """Returns an array over the buffer of contiguous NumPy values, NULL where `like` is."""
    array = pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(values)], 0)
    return pc.if_else(pc.is_valid(like), array, pa.scalar(None, type_)) if like.null_count else array


def on_arrays(function: Callable[..., pa.Array], *values: Any) -> Any:
    """Applies a function of arrays to arrays and scalars, which are repeated; scalars alone give a scalar."""
    length = next((len(value) for value in values if not isinstance(value, pa.Scalar)), None)
    count = 1 if length is None else length
    found = function(*(pa.repeat(value, count) if isinstance(value, pa.Scalar) else value for value in values))
    return found[0] if length is None else found
