"""Reads the columns of a table given as Arrow, pandas, Polars, columns by name, or a list of dicts.

A column that the query does not read is never converted, and may have any type. ``crown.ingest.changes`` checks values.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set, Sized
from itertools import chain, repeat
from operator import eq, itemgetter, methodcaller
from typing import Any

import numpy as np
import pyarrow as pa

from crown.errors import ChangeError
from crown.ingest.conventions import CODE_COLUMNS, meant_for_codes, meant_for_weight
from crown.ingest.tables.arrays import is_pandas, is_polars, of_pandas, of_polars, of_values, plain, whole
from crown.store.display import shown
from plans.schema import CHANGE_TYPE, WEIGHT


class _Absent:
    """Marks a key that a dict does not have."""


ABSENT = _Absent()

_keys = methodcaller("keys")
Column = Callable[[int], Any]  # position -> Arrow array, or a list where the values may have mixed types


def whole_rows(rows: list[Any], keys: Sequence[Any]) -> np.ndarray | None:
    """Returns the values of tuples or dicts at these ``keys`` as int64[n, keys]. Returns None if there are no keys, if
    rows have another type or other keys than the first, or if a value is not a 64-bit integer. O(values)."""
    if not keys:
        return None
    kinds = set(map(type, rows))
    if kinds == {tuple}:
        if len(set(map(len, rows))) > 1:
            return None
    elif kinds != {dict} or not all(map(eq, map(_keys, rows), repeat(rows[0].keys()))):
        return None
    if kinds == {tuple} and list(keys) == list(range(len(rows[0]))):
        values = list(chain.from_iterable(rows))
    else:
        found = map(itemgetter(*keys), rows)
        values = list(found) if len(keys) == 1 else list(chain.from_iterable(found))
    if set(map(type, values)) != {int}:
        return None
    try:
        return np.array(values, np.int64).reshape(len(rows), len(keys))
    except OverflowError:
        return None


def opened(relation: str, data: Any) -> tuple[list[str], int, Column]:
    """Returns column names, number of rows, and a column reader, for data returned by
    ``crown.ingest.tables.frames.tabular``.

    Columns that are not read cost nothing.
    """
    if isinstance(data, list):
        return _opened_rows(relation, data)
    if isinstance(data, pa.Table):
        names = data.schema.names
        return names, data.num_rows, lambda i: whole(data.column(i))
    if isinstance(data, pa.RecordBatch):
        names = data.schema.names
        return names, data.num_rows, lambda i: plain(data.column(i))
    if is_pandas(data):
        names = [str(c) for c in data.columns]
        series = [one for _, one in data.items()]
        return names, len(data), lambda i: of_pandas(series[i])
    if is_polars(data):
        return data.columns, data.height, lambda i: of_polars(data.to_series(i))
    return _opened_columns(relation, data)


def _opened_columns(relation: str, data: Mapping[str, Any]) -> tuple[list[str], int, Column]:
    names = list(data)
    columns = [_column(relation, name, values) for name, values in data.items()]
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        told = ", ".join(f"{name} has {len(column)}" for name, column in zip(names, columns, strict=True))
        raise ChangeError(f"relation {relation!r}: the columns of a batch must be equally long; of rows, {told}")
    return names, max(lengths, default=0), lambda i: of_values(columns[i])


def _opened_rows(relation: str, rows: list[Any]) -> tuple[list[str], int, Column]:
    if not (set(map(type, rows)) <= {dict} or all(isinstance(row, Mapping) for row in rows)):
        raise ChangeError(f"relation {relation!r}: a list of changes must hold dicts, one per row")
    if not rows:
        return [], 0, [].__getitem__
    keys = rows[0].keys()
    if all(map(eq, map(_keys, rows), repeat(keys))):
        names = list(keys)
        return names, len(rows), lambda i: list(map(itemgetter(names[i]), rows))
    names = list(dict.fromkeys(name for row in rows for name in row))
    return names, len(rows), lambda i: [row.get(names[i], ABSENT) for row in rows]


def _column(relation: str, name: str, values: Any) -> Any:
    """Returns the values in a form with a known length."""
    scalar = isinstance(values, (str, bytes, Mapping, Set)) or not isinstance(values, Iterable)
    if not scalar and getattr(values, "ndim", 1) == 1:
        return values if isinstance(values, Sized) else list(values)
    raise ChangeError(
        f"relation {relation!r}: column {name!r} must be a list or an array, not {type(values).__name__} "
        f"{values!r:.100}; one row alone is written as [{{...}}]"
    )


def doubtful(names: Iterable[str], declared: Collection[str]) -> str | None:
    """Returns what is wrong with the column names of a batch, some of which would be silently ignored.

    Returns None if nothing is wrong. ``declared``: the columns of the relation, in lower case.
    """
    seen: dict[str, str] = {}
    for name in names:
        if not isinstance(name, str):
            return f"a column is called {name!r}; name it by a text"
        known = name.lower() in declared
        key = name.lower() if known else name
        if key in seen:
            return f"the batch has two columns {seen[key]!r} and {name!r}; leave one out"
        seen[key] = name
        if not known and name != WEIGHT and meant_for_weight(name):
            return (
                f"the batch has a column {name!r}; rename it to {WEIGHT!r} if it holds how many copies of a row are "
                "inserted or deleted; if it does not, leave it out or declare it in the schema"
            )
    coded = [name for name in seen.values() if name.lower() not in declared and meant_for_codes(name)]
    said = [name for name in (WEIGHT, *CODE_COLUMNS) if name in seen.values() and name not in declared]
    if len(said) > 1:
        both = f"{said[0]!r} and {said[1]!r}, which both say whether a row is inserted or deleted"
        return f"the batch has {both}; leave one out"
    if coded and not said:
        return (
            f"the batch has a column {coded[0]!r}; rename it to {CHANGE_TYPE!r} (or name it with change=) if it says "
            "whether a row is inserted or deleted, and leave it out (or declare it in the schema) if it does not"
        )
    return None


def is_missing(value: Any) -> bool:
    """Returns True iff a Python value means NULL: None, NaN, or a null value of pandas."""
    pandas = sys.modules.get("pandas")
    if value is None or (pandas is not None and value is pandas.NA):
        return True
    try:
        return bool(value != value)
    except (ArithmeticError, TypeError, ValueError):  # a value that cannot be compared with itself
        return False


def item(column: Any, row: int) -> Any:
    """Returns one value of a column as a Python value, or None if a dict lacks the key."""
    value = column[row]
    if value is ABSENT:
        return None
    return shown(value) if isinstance(value, pa.Scalar) else value
