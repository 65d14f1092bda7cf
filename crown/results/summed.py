"""Adds up the weights of equal rows of Arrow tables, including rows with nested values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow._acero import AggregateNodeOptions, Declaration, TableSourceNodeOptions

from crown.store.arrow_buffers import combined, words
from plans.expressions.columns.packed import comparable
from plans.schema import WEIGHT
from plans.types import type_of_arrow

_ROW = "_row"


def grouped(table: pa.Table, keys: Sequence[str], aggregates: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Returns the keys and aggregates of groups, as ``pa.Table.group_by`` does in one thread. O(rows).

    ``aggregates``: columns, function, its options, and a name for each. The table's own method loads pandas if it is
    installed; this function does not.
    """
    source = Declaration("table_source", TableSourceNodeOptions(table))
    groups = Declaration("aggregate", AggregateNodeOptions(list(aggregates), keys=list(keys)))
    return Declaration.from_sequence([source, groups]).to_table(use_threads=False)


def numbered(columns: Iterable[pa.ChunkedArray]) -> np.ndarray:
    """Returns a number per row (int64[rows]). Rows have the same number iff they are equal in all columns. NULL equals
    NULL. O(n log n)."""
    found = np.zeros(1, np.int64)
    for column in columns:
        values = _flat(column).dictionary_encode(null_encoding="encode")
        codes = words(values.indices, np.int32).astype(np.int64)
        found = np.unique(found * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1]
    return found


def summed(rows: pa.Table, weight: str = WEIGHT) -> pa.Table:
    """Returns each distinct row once, with the sum of its weights in the last column. Omits rows whose sum is 0.
    O(rows)."""
    names = [name for name in rows.column_names if name != weight]
    nested = [name for name in names if pa.types.is_nested(rows.schema.field(name).type)]
    keys = rows.combine_chunks() if nested else rows
    for name in nested:
        keys = keys.set_column(keys.column_names.index(name), name, _flat(rows[name]))
    if not nested:
        found = grouped(keys, names, [([weight], "hash_sum", None, weight)]).rename_columns([*names, weight])
        return found.filter(pc.cast(found[weight], pa.bool_()))
    keys = keys.append_column(_ROW, pa.array(range(len(keys)), pa.int64()))
    groups = grouped(keys, names, [([weight], "hash_sum", None, "sum"), ([_ROW], "hash_min", None, "first")])
    sums, first = groups.columns[-2:]
    found = rows.select(names).take(first).append_column(weight, sums)
    return found.filter(pc.cast(found[weight], pa.bool_()))


def _flat(column: pa.ChunkedArray) -> pa.Array:
    """Returns the values as one array. Values with parts become bytes that are equal iff the values are."""
    array = combined(column)
    return comparable(array, type_of_arrow(array.type)) if pa.types.is_nested(array.type) else array
