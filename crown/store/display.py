"""Formats values for messages, tables and files of rejected rows.

Columns hold values that Python cannot represent: dates before year 1 or after 9999, and texts that are not UTF-8.
Formatting such a value must never fail, least of all while a batch is rejected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa


def shown(value: pa.Scalar) -> Any:
    """Returns the Python value, or a text that identifies a value that Python cannot represent."""
    try:
        return value.as_py()
    except (OverflowError, ValueError):  # includes UnicodeDecodeError
        pass
    if isinstance(value, pa.StructScalar):
        return {name: shown(part) for name, part in value.items()}
    if isinstance(value, pa.ListScalar):
        return [shown(part) for part in value.values]
    if pa.types.is_temporal(value.type):
        return f"{value.value} ({value.type})"  # microseconds or days since 1970
    return bytes(value.cast(pa.large_binary()).as_py()).decode("utf-8", "backslashreplace")


def all_shown(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Returns the values of a column as ``shown`` does. O(n)."""
    try:
        found: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        return [shown(value) for value in column]
    return found


def pairs_shown(row: Mapping[str, Any]) -> str:
    """Returns a row as a line: ``a=1, b=NULL``."""
    return ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in row.items())


def rows_shown(rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Returns rows as dicts of values as ``shown`` returns them. O(values)."""
    try:
        found: list[dict[str, Any]] = rows.to_pylist()
    except (OverflowError, ValueError):
        columns = [all_shown(column) for column in rows.columns]
        names = rows.schema.names
        return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    return found
