"""Change batches: what users hand in, checked and brought to Arrow columns.

A batch of one relation is a table (Arrow, pandas, or a list of dicts) with the relation's columns and, if it is not all
inserts, an integer column ``_weight``: +n adds n copies of the row, -n removes n. A batch is a Z-set: order within it
does not matter, weights of equal rows add up. Other columns are ignored. pandas' NaN means NULL, as everywhere in
pandas.

Checking finds every row that cannot be taken, with the reason; who asked decides whether that is an error or a
quarantine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from crown.errors import ChangeError
from plans.schema import Table, arrow_type

WEIGHT = "_weight"
_REFUSED = (pa.ArrowException, TypeError, ValueError, OverflowError)  # how Arrow says that a value does not fit
MAX_WEIGHT = 2**31 - 1

CODES: dict[str, int] = {
    "+": 1, "-": -1, "+1": 1, "-1": -1, "1": 1,
    "insert": 1, "delete": -1, "i": 1, "d": -1,
    "+I": 1, "-U": -1, "+U": 1, "-D": -1,  # Flink RowKind
    "c": 1, "r": 1,  # Debezium create and snapshot read; its updates carry two rows and must be unwrapped before
    "update_preimage": -1, "update_postimage": 1,  # Delta change data feed
}  # fmt: skip
"""Codes of a change column and the weights they stand for (the table is shared with the Spark sources)."""


@dataclass
class CheckedBatch:
    """The usable rows of a batch.

    ``columns``: Arrow arrays by declared column name, all of the same length; ``weights`` int64[n]; ``bad``: position
    in the original batch -> reason, for the rows left out; ``bad_rows``: those rows as JSON text, in the same order.
    """

    columns: dict[str, pa.Array]
    weights: np.ndarray
    bad: dict[int, str] = field(default_factory=dict)
    bad_rows: list[str] = field(default_factory=list)


def check(table: Table, columns: Sequence[str], data: Any) -> CheckedBatch:
    """Bring ``data`` to the declared types of ``columns`` (names of ``table``); rows that do not fit are left out and
    listed.

    Raises ChangeError if ``data`` is no table at all, or a column is missing from all of it or has a type without a
    conversion. O(n), vectorised unless a row is bad.
    """
    names, source = _as_columns(table.name, data)
    lookup = {name.lower(): name for name in names}
    n = len(source[names[0]]) if names else 0
    bad: dict[int, str] = {}
    out: dict[str, pa.Array] = {}
    kinds = {column.name: column.type for column in table.columns}
    for name in columns:
        found = lookup.get(name.lower())
        if found is None:
            if n:
                missing = (
                    f"relation {table.name!r}: column {name!r} is missing from the batch, which has: {', '.join(names)}"
                )
                raise ChangeError(missing)
            out[name] = pa.array([], arrow_type(kinds[name]))
            continue
        out[name] = _convert(source[found], name, kinds[name], bad)
    weights = _weights(source.get(WEIGHT), n, bad)
    if not bad:
        return CheckedBatch(out, weights)
    rows = sorted(bad)
    keep = np.ones(n, bool)
    keep[rows] = False
    mask = pa.array(keep)
    texts = [json.dumps({c: _item(source[c], r) for c in names}, default=str) for r in rows]
    out = {name: array.filter(mask) for name, array in out.items()}
    return CheckedBatch(out, weights[keep], {r: bad[r] for r in rows}, texts)


def _as_columns(relation: str, data: Any) -> tuple[list[str], dict[str, Any]]:
    """Column names and columns (Arrow arrays, or lists where the values have mixed types)."""
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return data.column_names, {name: _whole(data.column(name)) for name in data.column_names}
    if isinstance(data, pd.DataFrame):
        names = [str(c) for c in data.columns]
        return names, {name: _from_pandas(data.iloc[:, i]) for i, name in enumerate(names)}
    if isinstance(data, Mapping):
        return list(data), {name: pa.array(values) for name, values in data.items()}
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
        rows = list(data)
        if not all(isinstance(row, Mapping) for row in rows):
            raise ChangeError(f"relation {relation!r}: a list of changes must hold dicts, one per row")
        names = list(dict.fromkeys(name for row in rows for name in row))
        return names, {name: [row.get(name, 1 if name == WEIGHT else _ABSENT) for row in rows] for name in names}
    raise ChangeError(
        f"relation {relation!r}: changes must be a pyarrow Table, a pandas DataFrame or a list of dicts, "
        f"not {type(data).__name__}"
    )


class _Absent:
    """Stands for a key that a dict does not have."""


_ABSENT = _Absent()


def _whole(column: pa.ChunkedArray) -> pa.Array:
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _from_pandas(series: pd.Series) -> Any:
    try:
        array = pa.Array.from_pandas(series)
        return _whole(array) if isinstance(array, pa.ChunkedArray) else array
    except _REFUSED:
        return [None if value is pd.NA else value for value in series]


def _item(column: Any, row: int) -> Any:
    value = column[row]
    if value is _ABSENT:
        return None
    return value.as_py() if isinstance(value, pa.Scalar) else value


def _convert(column: Any, name: str, kind: str, bad: dict[int, str]) -> pa.Array:
    """The column as ``arrow_type(kind)``; rows that do not fit are noted in ``bad`` and become NULL."""
    target = arrow_type(kind)
    try:
        return _cast(column if isinstance(column, pa.Array) else _array(column), target)
    except _REFUSED:
        pass  # find the rows that are to blame
    values = []
    for row in range(len(column)):
        value = column[row]
        fitting = None
        if value is _ABSENT:
            bad.setdefault(row, f"column {name!r} is missing")
        else:
            try:
                single = pa.array([value.as_py()], value.type) if isinstance(value, pa.Scalar) else _array([value])
                fitting = _cast(single, target)[0].as_py()
            except _REFUSED:
                bad.setdefault(row, f"column {name!r}: {_item(column, row)!r} does not fit {kind}")
        values.append(fitting)
    return pa.array(values, target)


def _array(values: list[Any]) -> pa.Array:
    """Python values as an array; Arrow would drop the nanoseconds of a pandas Timestamp without a word."""
    array = pa.array(values)
    if pa.types.is_timestamp(array.type) and any(getattr(value, "nanosecond", 0) for value in values):
        raise pa.ArrowInvalid("nanoseconds")
    return array


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    """A cast that changes no value.

    Kinds do not mix (text parses, but nothing becomes text), and going back gives the same.
    """
    source = array.type
    if source == target or pa.types.is_null(source):
        return array.cast(target)
    if pa.types.is_dictionary(source):
        return _cast(array.dictionary_decode(), target)
    if _is_text(source):
        return array.cast(target, safe=True)
    if _family(source) != _family(target):
        raise pa.ArrowInvalid(f"{source} is no {target}")
    out = array.cast(target, safe=True)
    back = out.cast(source, safe=False)
    same = pc.equal(array, back)
    if pa.types.is_floating(source):
        same = pc.or_(same, pc.and_(pc.is_nan(array), pc.is_nan(back)))
    if not pc.all(same, min_count=0).as_py():
        raise pa.ArrowInvalid(f"a value of {source} does not fit {target}")
    return out


def _is_text(type_: pa.DataType) -> bool:
    kinds = pa.types
    return bool(kinds.is_string(type_) or kinds.is_large_string(type_) or kinds.is_string_view(type_))


def _family(type_: pa.DataType) -> str:
    """Types between which a conversion makes sense."""
    kinds = pa.types
    if kinds.is_boolean(type_):
        return "bool"
    if kinds.is_integer(type_) or kinds.is_floating(type_) or kinds.is_decimal(type_):
        return "number"
    if kinds.is_timestamp(type_):
        return "instant" if type_.tz else "wall clock"
    if kinds.is_date(type_):
        return "wall clock"
    if kinds.is_binary(type_) or kinds.is_large_binary(type_) or kinds.is_fixed_size_binary(type_):
        return "binary"
    return str(type_)


def _weights(column: Any, n: int, bad: dict[int, str]) -> np.ndarray:
    if column is None:
        return np.ones(n, np.int64)
    array = _convert(column, WEIGHT, "int64", bad)
    weights = array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if array.null_count:
        for row in np.flatnonzero(~array.is_valid().to_numpy(zero_copy_only=False)):
            bad.setdefault(int(row), f"{WEIGHT} is NULL")
    for row in np.flatnonzero(np.abs(weights) > MAX_WEIGHT):
        bad.setdefault(int(row), f"{WEIGHT} {weights[row]} is out of range")
    return weights
