"""Converts data of other libraries to tables: Arrow's C interface, NumPy arrays, tuples, dataclasses.

``tabular`` converts data to the few forms that ``crown.ingest.tables.columns.opened`` reads. Columns with an Arrow
interface are not copied. Values are not checked here, but in ``crown.ingest.changes``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from crown.errors import ChangeError
from crown.ingest.tables.arrays import REFUSED, inferred, is_pandas, is_polars
from crown.ingest.tables.columns import ABSENT, WEIGHT, opened
from plans.errors import PlanError
from plans.schema import CHANGE_COLUMNS
from plans.types import type_of_python, untyped

_READY = (pa.Table, pa.RecordBatch)


def tabular(relation: str, data: Any, columns: Sequence[str]) -> Any:
    """Returns rows of a relation as an Arrow table or batch, a pandas or Polars frame, columns by name, or a list of
    dicts.

    ``columns``: the relation's columns, in the order of values in tuples. Raises ChangeError if ``data`` is not a
    table.
    """
    data = kept(relation, data)
    if isinstance(data, np.ndarray):
        return _of_array(relation, data, columns)
    return _rows(relation, data, columns) if isinstance(data, list) else data


def kept(relation: str, data: Any) -> Any:
    """Returns the same rows in a form that can be read more than once. Reads a stream to its end.

    Raises ChangeError if ``data`` is not a table.
    """
    if isinstance(data, (list, np.ndarray, *_READY)) or is_pandas(data) or is_polars(data):
        return data
    if isinstance(data, Mapping):
        once = any(isinstance(values, Iterator) for values in data.values())
        return {n: list(v) if isinstance(v, Iterator) else v for n, v in data.items()} if once else data
    if is_polars(data, "LazyFrame"):
        return _collected(relation, data)
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return _of_arrow(relation, data)
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes, type)):
        return list(data)
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
        raise _no_table(relation, data, error) from None
    except OSError as error:
        raise ChangeError(f"relation {relation!r}: {type(data).__name__} cannot be read to its end: {error}") from None


def _no_table(relation: str, data: Any, error: Exception) -> ChangeError:
    return ChangeError(
        f"relation {relation!r}: {type(data).__name__} cannot be read as columns ({error}); give a frame or an array "
        "of structs"
    )


def _collected(relation: str, data: Any) -> Any:
    try:
        return data.collect()
    except Exception as error:
        raise ChangeError(f"relation {relation!r}: the LazyFrame cannot be collected: {error}") from error


def _of_array(relation: str, data: np.ndarray, columns: Sequence[str]) -> Mapping[str, Any]:
    if data.dtype.names is not None and data.ndim == 1:
        return {name: data[name] for name in data.dtype.names}
    names = names_of(columns, data.shape[1]) if data.ndim == 2 else None
    if names is None:
        raise ChangeError(
            f"relation {relation!r}: a NumPy array of shape {data.shape} is not a table; give a structured array, "
            f"or one of shape (n, {len(columns)}) with {_wanted(columns)}"
        )
    return {name: data[:, i] for i, name in enumerate(names)}


def _of_rows(relation: str, rows: list[Any], columns: Sequence[str]) -> Any:
    """Converts rows that are not dicts: dataclasses, tuples, named tuples, or other mappings."""
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
    if isinstance(row, np.void) and row.dtype.names is not None:
        return {name: row[name] for name in row.dtype.names}
    named = getattr(row, "_fields", None)
    if named is not None and isinstance(row, tuple):
        return dict(zip(named, row, strict=True))
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
    """Returns the names of the columns of a row with ``values`` values, or None if the number does not fit."""
    if values == len(columns):
        return columns
    return (*columns, WEIGHT) if values == len(columns) + 1 else None


def _wanted(columns: Sequence[str]) -> str:
    return f"({', '.join(columns)}) or ({', '.join([*columns, WEIGHT])})"


# Schemas of frames
# ----------------------------------------------------------------------------------------------------------------------


def schemas(given: Any) -> Any:
    """Returns a schema in which frames, rows or classes are replaced by the types of their columns."""
    if not isinstance(given, Mapping) or not any(map(is_frame, given.values())):
        return given
    return {name: schema_of(name, data) if is_frame(data) else data for name, data in given.items()}


def with_tables(schema: Any, tables: Any, known: Iterable[str]) -> tuple[Any, dict[str, Any]]:
    """Returns a schema extended by the tables that it does not have, and the tables in a form that can be read more
    than once.

    ``known``: relations whose columns are known already. Raises ChangeError if an entry of ``tables`` is not a table.
    """
    if not isinstance(tables, Mapping) or not all(isinstance(name, str) for name in tables):
        raise ChangeError(
            f'tables= takes a dict from the name of a relation to a frame or rows, such as {{"R": [{{"a": 1}}]}}, not '
            f"{tables!r:.100}"
        )
    data = {name: kept(name, rows) for name, rows in tables.items()}
    declared = schemas(schema)
    if not (declared is None or isinstance(declared, Mapping)):
        return declared, data
    there = {str(name).lower() for name in (*known, *(declared or ()))}
    found = {name: schema_of(name, rows) for name, rows in data.items() if name.lower() not in there}
    return {**found, **(declared or {})}, data


def schema_of(relation: str, data: Any) -> Mapping[str, Any]:
    """Returns the types of a frame's columns by name, without columns of weights or change codes.

    Does not read a one-shot reader.

    A column whose values do not determine a type gets a type that a query must not read.
    """
    if isinstance(data, type):
        return _of_class(relation, data)
    types = _told(relation, data)
    if types is None:
        names, _, column = opened(relation, tabular(relation, data, ()))
        types = {name: _type_of(column(i)) for i, name in enumerate(names)}
    found = {name: type_ for name, type_ in types.items() if name.lower() not in CHANGE_COLUMNS}
    if not found:
        raise ChangeError(f"relation {relation!r}: there are no rows from which to read its columns; give schema=")
    return found


def _told(relation: str, data: Any) -> dict[str, Any] | None:
    """Returns the column types of data that declares them without being read, else None."""
    if isinstance(data, (*_READY, pa.RecordBatchReader)):
        schema = data.schema
    elif is_pandas(data) or is_polars(data) or not hasattr(data, "__arrow_c_stream__"):
        return None
    else:
        try:
            own = hasattr(data, "__arrow_c_schema__")  # otherwise a one-shot stream would be consumed
            schema = pa.schema(data) if own else pa.RecordBatchReader.from_stream(data).schema
        except (*REFUSED, OSError) as error:
            raise _no_table(relation, data, error) from None
    return {field.name: field.type for field in schema}


def _type_of(values: Any) -> Any:
    """Returns the type of values, or the marker for values without a type."""
    if not isinstance(values, list):
        return values.type
    try:
        return inferred([None if value is ABSENT else value for value in values]).type
    except REFUSED as error:
        return untyped(f"its values have several types ({error}); declare the columns of its table in the schema")


def _of_class(relation: str, kind: type) -> dict[str, Any]:
    """Returns the columns of a dataclass or named tuple, by the types of its fields."""
    from typing import get_type_hints

    fields: dict[str, Any] = {}
    for name, hint in get_type_hints(kind).items():
        try:
            fields[name] = type_of_python(hint)
        except PlanError:
            fields[name] = untyped(f"it is a field of {kind.__name__} whose declared type is not a type of a column")
    fields.pop(WEIGHT, None)
    return fields


def is_frame(data: Any) -> bool:
    """Returns True for a frame, rows, or a class of rows, False for a declaration of columns."""
    if isinstance(data, type):
        return dataclasses.is_dataclass(data) or hasattr(data, "_fields")
    if isinstance(data, Mapping):
        return bool(data) and all(isinstance(values, _COLUMNS) for values in data.values())
    speaks = hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__") or is_pandas(data)
    return speaks or isinstance(data, (list, np.ndarray)) or is_polars(data, "LazyFrame")


_COLUMNS = (list, np.ndarray, pa.Array, pa.ChunkedArray)
