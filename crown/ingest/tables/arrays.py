"""Converts columns of any library to Arrow arrays of plain values, or to Python lists if Arrow has no such type.

Dictionary and run-end encoded arrays are decoded. Nothing is raised here: a value that does not fit its column is
reported when the column is converted to its declared type.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crown.store.arrow_buffers import bits
from plans.types import STORED, plain_type

REFUSED = (pa.ArrowException, TypeError, ValueError, OverflowError)  # the errors of Arrow for a value that does not fit

_NATIVE = frozenset("iuf")  # NumPy's integers and floats
_VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
"""Types for which Arrow has few functions, and types with the same values."""


def plain(array: pa.Array) -> pa.Array:
    """Returns an array with decoded values. O(n) for dictionary and run-end encodings, else O(1)."""
    if isinstance(array, pa.DictionaryArray):
        return _unviewed(plain(array.dictionary)).take(array.indices)
    if isinstance(array, pa.RunEndEncodedArray):
        values = _unviewed(plain(array.values))
        ends = array.run_ends.to_numpy()
        return values.take(pa.array(ends.searchsorted(np.arange(array.offset, array.offset + len(array)), "right")))
    if isinstance(array, pa.ExtensionArray) and array.type.extension_name in STORED:
        storage = plain(array.storage)
        return pc.not_equal(storage, 0) if array.type.extension_name == "arrow.bool8" else storage
    return array


def _unviewed(array: pa.Array) -> pa.Array:
    return array.cast(_VIEWS[array.type]) if array.type in _VIEWS else array


NATURAL: dict[str, set[type]] = {
    "int32": {int, type(None)},
    "int64": {int, type(None)},
    "float64": {float, type(None)},
    "string": {str, type(None)},
}
"""Python types that fit a kind by nature: Arrow accepts or rejects each value."""


def natural(values: list[Any], target: pa.DataType) -> pa.Array:
    """Returns integers, floats or texts, and None, as an array of their type. Raises the errors of Arrow.

    Arrow's own function first imports pandas if it is installed, which takes a third of a second.
    """
    if target == pa.string():
        builder = pa.lib.StringBuilder()
        builder.append_values(values)
        return builder.finish()
    there = np.array([value is not None for value in values], bool)
    numbers = values if there.all() else [0 if value is None else value for value in values]
    held = np.array(numbers, target.to_pandas_dtype())
    return pa.Array.from_buffers(target, len(values), [None if there.all() else bits(there), pa.py_buffer(held)])


def whole(column: pa.ChunkedArray) -> Any:
    """Returns a column of several chunks as one array of plain values, or a list if Arrow cannot concatenate them."""
    if column.num_chunks == 1:
        return plain(column.chunk(0))
    try:
        return pa.concat_arrays([plain(chunk) for chunk in column.chunks] or [pa.nulls(0, plain_type(column.type))])
    except REFUSED:
        return column.to_pylist()


def of_pandas(series: Any) -> Any:
    """Returns a pandas column, or a list if its values have different types."""
    try:
        if series.dtype.kind in _NATIVE and not hasattr(series.dtype, "na_value"):
            return pa.array(series.to_numpy(), from_pandas=True)  # ten times faster than pa.Array.from_pandas
        array = pa.Array.from_pandas(series)
        return whole(array) if isinstance(array, pa.ChunkedArray) else plain(array)
    except REFUSED:
        return list(series)


def of_polars(series: Any) -> Any:
    """Returns a Polars column, or a list if Arrow has no type for its values, such as 128-bit integers."""
    try:
        if series.dtype != sys.modules["polars"].Object:  # Arrow would return the addresses of the objects
            array = series.to_arrow()
            return whole(array) if isinstance(array, pa.ChunkedArray) else plain(array)
    except REFUSED:
        pass
    return series.to_list()


def of_numpy(values: np.ndarray) -> Any:
    """Returns a one-dimensional NumPy array, with masked values as NULL, or a list if Arrow has no such type."""
    if values.dtype == object:
        return values.tolist()
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    try:
        if isinstance(values, np.ma.MaskedArray):
            return pa.array(np.ascontiguousarray(values.data), mask=np.ascontiguousarray(np.ma.getmaskarray(values)))
        return pa.array(np.ascontiguousarray(values))
    except REFUSED:
        return values.tolist()


_MISSING = ("NAType", "NaTType")  # of pandas


def inferred(values: list[Any]) -> pa.Array:
    """Returns Python values as an array of their inferred type, with pandas' NA and NaT as NULL. Raises ``REFUSED``."""
    kinds = set(map(type, values))
    if any(kind.__name__ in _MISSING for kind in kinds):
        values = [None if type(value).__name__ in _MISSING else value for value in values]
        kinds = set(map(type, values))
    if np.datetime64 in kinds and kinds <= {np.datetime64, type(None)}:
        return pa.array(np.array(values, "M8"))  # of a list Arrow accepts only a few units
    try:
        array = pa.array(values)
    except REFUSED:
        if not kinds <= {int, type(None)}:
            raise
        array = pa.array(values, pa.decimal128(38, 0))
    return whole(array) if isinstance(array, pa.ChunkedArray) else array


def of_values(values: Any) -> Any:
    """Returns a column of any sequence of values. O(n), without copies for arrays."""
    if isinstance(values, list):
        return values
    if isinstance(values, pa.Array):
        return plain(values)
    if isinstance(values, pa.ChunkedArray):
        return whole(values)
    if isinstance(values, np.ndarray):
        return of_numpy(values)
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and isinstance(values, (pandas.Series, pandas.Index)):
        return of_pandas(values if isinstance(values, pandas.Series) else values.to_series())
    if polars is not None and isinstance(values, polars.Series):
        return of_polars(values)
    try:
        if hasattr(values, "__arrow_c_stream__"):
            return whole(pa.chunked_array(values))
        if hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_array__"):
            array = pa.array(values)
            return whole(array) if isinstance(array, pa.ChunkedArray) else plain(array)
    except REFUSED:
        pass
    return list(values)


def is_pandas(data: Any) -> bool:
    """Returns True for a pandas frame.

    If ``data`` is a pandas frame, pandas is loaded already, so the test never loads it, which takes 0.2 s.
    """
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(data, pandas.DataFrame)


def is_polars(data: Any, kind: str = "DataFrame") -> bool:
    """Returns True for a Polars frame, or for an object of another ``kind``."""
    polars = sys.modules.get("polars")
    return polars is not None and isinstance(data, getattr(polars, kind))
