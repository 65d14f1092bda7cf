"""Other people's frames as tables: whatever speaks Arrow's C interface, NumPy arrays, tuples and dataclasses.

``plain`` brings them to the few forms that ``crown.ingest.columns.opened`` reads. Columns that speak Arrow are not
copied. Values are not looked at here; ``crown.ingest.changes`` checks them.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from crown.errors import ChangeError
from crown.ingest.columns import REFUSED, WEIGHT, is_pandas, opened
from plans.schema import CHANGE_COLUMNS

_READY = (pa.Table, pa.RecordBatch, Mapping)


def plain(relation: str, data: Any, columns: Sequence[str]) -> Any:
    """Returns rows of a relation as an Arrow table or batch, a pandas frame, columns by name, or a list of dicts.

    ``columns``: the relation's, in the order in which tuples have them. ChangeError for what is no table.
    """
    if isinstance(data, list):
        return _rows(relation, data, columns)
    if isinstance(data, _READY) or is_pandas(data):
        return data
    if isinstance(data, np.ndarray):
        return _of_array(relation, data, columns)
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return _of_arrow(relation, data)
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
        return _rows(relation, list(data), columns)
    hint = "; collect() it first" if hasattr(data, "collect") else ""
    raise ChangeError(
        f"relation {relation!r}: changes must be a table (Arrow, pandas, Polars, DuckDB, or columns by name), a NumPy "
        f"array, or a list of dicts, tuples or dataclasses, not {type(data).__name__}{hint}"
    )


def _rows(relation: str, rows: list[Any], columns: Sequence[str]) -> Any:
    return rows if not rows or isinstance(rows[0], dict) else _of_rows(relation, rows, columns)


def _of_arrow(relation: str, data: Any) -> Any:
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data).read_all()
        return pa.record_batch(data)
    except REFUSED as error:
        raise ChangeError(
            f"relation {relation!r}: {type(data).__name__} is no table of columns ({error}); a frame or an array of "
            "structs is wanted"
        ) from None


def _of_array(relation: str, data: np.ndarray, columns: Sequence[str]) -> Mapping[str, Any]:
    if data.dtype.names is not None and data.ndim == 1:
        return {name: _column(data[name]) for name in data.dtype.names}
    names = names_of(columns, data.shape[1]) if data.ndim == 2 else None
    if names is None:
        raise ChangeError(
            f"relation {relation!r}: a NumPy array of shape {data.shape} is no table; a structured array is wanted, "
            f"or one of shape (n, {len(columns)}) with {_wanted(columns)}"
        )
    return {name: _column(data[:, i]) for i, name in enumerate(names)}


def _column(values: np.ndarray) -> Any:
    return values.tolist() if values.dtype == object else pa.array(np.ascontiguousarray(values))


def _of_rows(relation: str, rows: list[Any], columns: Sequence[str]) -> Any:
    """Returns rows that are no dicts: dataclasses, tuples with or without names; or mappings of another kind."""
    if set(map(type, rows)) <= {tuple, list} and len(lengths := set(map(len, rows))) == 1:
        names = names_of(columns, lengths.pop())
        if names is not None:
            return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    if all(isinstance(row, pa.RecordBatch) for row in rows):
        return pa.Table.from_batches(rows)
    return [_row(relation, row, columns) for row in rows]


def _row(relation: str, row: Any, columns: Sequence[str]) -> Mapping[str, Any]:
    if isinstance(row, Mapping):
        return row
    if dataclasses.is_dataclass(row) and not isinstance(row, type):
        return {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
    named = row.dtype.names if isinstance(row, np.void) else getattr(row, "_fields", None)
    if named is not None and isinstance(row, (tuple, np.void)):
        return dict(zip(named, row.item() if isinstance(row, np.void) else row, strict=True))
    found = repr(row) if len(repr(row)) < 80 else type(row).__name__
    if isinstance(row, (tuple, list)):
        names = names_of(columns, len(row))
        if names is not None:
            return dict(zip(names, row, strict=True))
        found = f"{len(row)} values: {found}"
    raise ChangeError(
        f"relation {relation!r}: a row is a dict, a dataclass, or a tuple of {_wanted(columns)}, not {found}"
    )


def names_of(columns: Sequence[str], values: int) -> Sequence[str] | None:
    """Returns what that many values in a row are called; None if they cannot be all columns."""
    if values == len(columns):
        return columns
    return (*columns, WEIGHT) if values == len(columns) + 1 else None


def _wanted(columns: Sequence[str]) -> str:
    return f"({', '.join(columns)}) or ({', '.join([*columns, WEIGHT])})"


def zone_hint(kind: str, value: Any) -> str:
    """Returns what to do where a time has no zone and should have one, or the other way round; else nothing."""
    if not isinstance(value, dt.datetime):
        return ""
    if kind == "timestamp" and value.tzinfo is None:
        return ": it has no time zone; declare the column timestamp_ntz, or give the time a zone"
    if kind == "timestamp_ntz" and value.tzinfo is not None:
        return ": it has a time zone; declare the column timestamp, or take the zone off"
    return ""


# Schemas of frames
# ----------------------------------------------------------------------------------------------------------------------


def schemas(given: Any) -> Any:
    """Returns a schema in which tables that were given as frames, rows or classes stand with their columns' types."""
    if not isinstance(given, Mapping) or not any(map(is_frame, given.values())):
        return given
    return {name: schema_of(name, data) if is_frame(data) else data for name, data in given.items()}


def schema_of(relation: str, data: Any) -> pa.Schema:
    """Returns the Arrow schema of a frame's columns but those that say how a row changes.

    ChangeError if a column has no values that tell its type.
    """
    if isinstance(data, type):
        return _of_class(relation, data)
    names, _, column = opened(relation, plain(relation, data, ()))
    fields = []
    for i, name in enumerate(names):
        if name.lower() in CHANGE_COLUMNS:
            continue
        values = column(i)
        try:
            array = pa.array(values) if isinstance(values, list) else values
        except REFUSED as error:
            raise ChangeError(
                f"relation {relation!r}: column {name!r} has no one type ({error}); give schema="
            ) from None
        if pa.types.is_null(array.type):
            raise ChangeError(f"relation {relation!r}: column {name!r} has no value that tells its type; give schema=")
        fields.append(pa.field(name, array.type))
    if not fields:
        raise ChangeError(f"relation {relation!r}: there are no rows that tell its columns; give schema=")
    return pa.schema(fields)


_CLASSES = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    dt.date: pa.date32(),
    dt.datetime: pa.timestamp("us"),
}


def _of_class(relation: str, kind: type) -> pa.Schema:
    """Returns the columns of a dataclass or named tuple, by the types that its fields are declared with."""
    from typing import get_type_hints

    fields = []
    for name, hint in get_type_hints(kind).items():
        options = [part for part in getattr(hint, "__args__", (hint,)) if part is not type(None)]
        if len(options) != 1 or options[0] not in _CLASSES:
            raise ChangeError(
                f"relation {relation!r}: field {name!r} of {kind.__name__} has no column type; give schema="
            )
        if name != WEIGHT:
            fields.append(pa.field(name, _CLASSES[options[0]]))
    return pa.schema(fields)


def is_frame(data: Any) -> bool:
    """Returns True for what is a frame, rows, or a class of rows, and not a declaration of columns."""
    if isinstance(data, type):
        return dataclasses.is_dataclass(data) or hasattr(data, "_fields")
    if isinstance(data, Mapping):
        return bool(data) and all(isinstance(values, (list, np.ndarray, pa.Array)) for values in data.values())
    speaks = hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__") or is_pandas(data)
    return speaks or isinstance(data, (list, np.ndarray))
