"""Change batches: what users hand in, checked and brought to Arrow columns.

A batch of one relation is a table (Arrow, pandas, or a list of dicts) with the relation's columns and, if it is not all
inserts, an integer column ``_weight``: +n adds n copies of the row, -n removes n. A batch is a Z-set: order within it
does not matter, weights of equal rows add up. Other columns are ignored. pandas' NaN means NULL, as everywhere in
pandas.

Checking finds every row that cannot be taken, with the reason; who asked decides whether that is an error or a
quarantine. Batches may be of one row, many thousand times a second, so nothing is worked out twice that the relation or
the names of the columns decide, and no Arrow kernel is called for an array that is what it should be.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crown.errors import ChangeError
from plans.schema import Table, arrow_type

WEIGHT = "_weight"
_REFUSED = (pa.ArrowException, TypeError, ValueError, OverflowError)  # how Arrow says that a value does not fit
MAX_WEIGHT = 2**31 - 1
_INT64 = pa.int64()

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


class Checker:
    """Checks batches of one relation, of which ``columns`` (names of ``table``) are wanted."""

    def __init__(self, table: Table, columns: Sequence[str]) -> None:
        self._relation = table.name
        kinds = {column.name: column.type for column in table.columns}
        self._wanted = [(name, kinds[name], arrow_type(kinds[name])) for name in columns]
        self._names: list[str] = []  # of the last batch, and where in it the wanted columns and the weights are
        self._places: list[int | None] = [None] * len(columns)
        self._weight: int | None = None

    def check(self, data: Any) -> CheckedBatch:
        """Bring ``data`` to the declared types; rows that do not fit are left out and listed.

        Raises ChangeError if ``data`` is no table at all, or a column is missing from all of it or has a type without
        a conversion. O(n), vectorised unless a row is bad.
        """
        names, n, column = _opened(self._relation, data)
        if names != self._names:
            self._locate(names)
        bad: dict[int, str] = {}
        out: dict[str, pa.Array] = {}
        for (name, kind, target), place in zip(self._wanted, self._places, strict=True):
            if place is not None:
                out[name] = _convert(column(place), name, kind, target, bad)
            elif n:
                raise ChangeError(
                    f"relation {self._relation!r}: column {name!r} is missing from the batch, "
                    f"which has: {', '.join(names)}"
                )
            else:
                out[name] = pa.array([], target)
        weights = np.ones(n, np.int64) if self._weight is None else _weights(column(self._weight), bad)
        if not bad:
            return CheckedBatch(out, weights)
        rows = sorted(bad)
        keep = np.ones(n, bool)
        keep[rows] = False
        mask = pa.array(keep)
        given = {name: column(i) for i, name in enumerate(names)}
        texts = [json.dumps({c: _item(values, r) for c, values in given.items()}, default=str) for r in rows]
        out = {name: array.filter(mask) for name, array in out.items()}
        return CheckedBatch(out, weights[keep], {r: bad[r] for r in rows}, texts)

    def _locate(self, names: list[str]) -> None:
        place = {name.lower(): i for i, name in enumerate(names)}
        self._places = [place.get(name.lower()) for name, _, _ in self._wanted]
        self._weight = names.index(WEIGHT) if WEIGHT in names else None
        self._names = list(names)


Column = Callable[[int], Any]  # position -> Arrow array, or a list where the values may have mixed types


def _opened(relation: str, data: Any) -> tuple[list[str], int, Column]:
    """Column names, number of rows, and access to the columns; those not asked for cost nothing."""
    if isinstance(data, pa.Table):
        names = data.schema.names
        return names, data.num_rows if names else 0, lambda i: _whole(data.column(i))
    if isinstance(data, pa.RecordBatch):
        names = data.schema.names
        return names, data.num_rows if names else 0, lambda i: _plain(data.column(i))
    if _is_frame(data):
        names = [str(c) for c in data.columns]
        series = [one for _, one in data.items()]
        return names, len(data) if names else 0, lambda i: _from_pandas(series[i])
    if isinstance(data, Mapping):
        return _opened_columns(relation, data)
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
        return _opened_rows(relation, list(data))
    raise ChangeError(
        f"relation {relation!r}: changes must be a pyarrow Table, a pandas DataFrame or a list of dicts, "
        f"not {type(data).__name__}"
    )


def _opened_columns(relation: str, data: Mapping[str, Any]) -> tuple[list[str], int, Column]:
    names = list(data)
    columns = [values if isinstance(values, list) else pa.array(values) for values in data.values()]
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        told = ", ".join(f"{name} has {len(column)}" for name, column in zip(names, columns, strict=True))
        raise ChangeError(f"relation {relation!r}: the columns of a batch must be equally long; of rows, {told}")
    return names, max(lengths, default=0), columns.__getitem__


def _opened_rows(relation: str, rows: list[Any]) -> tuple[list[str], int, Column]:
    if not (set(map(type, rows)) <= {dict} or all(isinstance(row, Mapping) for row in rows)):
        raise ChangeError(f"relation {relation!r}: a list of changes must hold dicts, one per row")
    if not rows:
        return [], 0, [].__getitem__
    keys = rows[0].keys()
    if all(row.keys() == keys for row in rows):
        names = list(keys)
        return names, len(rows), lambda i: list(map(itemgetter(names[i]), rows))
    names = list(dict.fromkeys(name for row in rows for name in row))
    absent = [1 if name == WEIGHT else _ABSENT for name in names]
    return names, len(rows), lambda i: [row.get(names[i], absent[i]) for row in rows]


class _Absent:
    """Stands for a key that a dict does not have."""


_ABSENT = _Absent()


def _whole(column: pa.ChunkedArray) -> pa.Array:
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    return _plain(array)


def _plain(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _is_frame(data: Any) -> bool:
    """Is it a pandas frame? Then pandas is loaded; otherwise there is no need to load it, which takes 0.2 s."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(data, pandas.DataFrame)


def _from_pandas(series: Any) -> Any:
    try:
        array = pa.Array.from_pandas(series)
        return _whole(array) if isinstance(array, pa.ChunkedArray) else array
    except _REFUSED:
        return [None if value is sys.modules["pandas"].NA else value for value in series]


def _item(column: Any, row: int) -> Any:
    value = column[row]
    if value is _ABSENT:
        return None
    return value.as_py() if isinstance(value, pa.Scalar) else value


def _convert(column: Any, name: str, kind: str, target: pa.DataType, bad: dict[int, str]) -> pa.Array:
    """The column as ``target``, which is ``kind``'s; rows that do not fit are noted in ``bad`` and become NULL."""
    try:
        return _cast(column if isinstance(column, pa.Array) else _array(column, target), target)
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


_INTEGERS = {pa.int32(): np.int32, pa.int64(): np.int64}
_NATURAL: dict[pa.DataType | None, set[type]] = {
    pa.int32(): {int, type(None)},
    pa.int64(): {int, type(None)},
    pa.float64(): {float, type(None)},
    pa.string(): {str, type(None)},
}
"""Python types whose values need no look at their kind before they become an array: they fit, or Arrow refuses."""


def integers(values: np.ndarray, target: pa.DataType) -> pa.Array:
    """Arrow array over the buffer of an int32 or int64 array, of a type as wide. ``pa.array`` would load pandas, if it
    is there, which takes 0.2 s of the first batch.
    """
    return pa.Array.from_buffers(target, len(values), [None, pa.py_buffer(values)], 0)


def _array(values: list[Any], target: pa.DataType | None = None) -> pa.Array:
    """Python values as an array, of type ``target`` if that is theirs by nature.

    Arrow would drop the nanoseconds of a pandas Timestamp without a word.
    """
    kinds = set(map(type, values))
    if kinds == {int} and target in _INTEGERS:
        return integers(np.array(values, _INTEGERS[target]), target)
    if kinds <= _NATURAL.get(target, set()):
        return pa.array(values, target)
    array = pa.array(values)
    if pa.types.is_timestamp(array.type) and any(getattr(value, "nanosecond", 0) for value in values):
        raise pa.ArrowInvalid("nanoseconds")
    return array


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    """A cast that changes no value.

    Kinds do not mix (text parses, but nothing becomes text), and going back gives the same.
    """
    source = array.type
    if source == target:
        return array
    if pa.types.is_null(source):
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


def _weights(column: Any, bad: dict[int, str]) -> np.ndarray:
    array = _convert(column, WEIGHT, "int64", _INT64, bad)
    if array.null_count:
        for row in np.flatnonzero(~array.is_valid().to_numpy(zero_copy_only=False)):
            bad.setdefault(int(row), f"{WEIGHT} is NULL")
        array = array.fill_null(0)
    weights = array.to_numpy().copy()  # Arrow's is read-only, which makes it another type to a kernel
    if len(weights) and (weights.min() < -MAX_WEIGHT or weights.max() > MAX_WEIGHT):
        for row in np.flatnonzero((weights < -MAX_WEIGHT) | (weights > MAX_WEIGHT)):
            bad.setdefault(int(row), f"{WEIGHT} {weights[row]} is out of range")
    return weights
