"""Rows with weights, each once: of Arrow tables, which have no groups by values with parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow._acero import AggregateNodeOptions, Declaration, TableSourceNodeOptions

from plans.expressions.packed import comparable
from plans.schema import WEIGHT
from plans.types import type_of_arrow

_ROW = "_row"


def grouped(table: pa.Table, keys: Sequence[str], aggregates: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Returns the keys and aggregates of groups, as ``pa.Table.group_by`` does in one thread. O(rows).

    ``aggregates``: columns, function, its options, and a name for each. What the table's own method imports loads
    pandas, where that is installed.
    """
    source = Declaration("table_source", TableSourceNodeOptions(table))
    groups = Declaration("aggregate", AggregateNodeOptions(list(aggregates), keys=list(keys)))
    return Declaration.from_sequence([source, groups]).to_table(use_threads=False)


def summed(rows: pa.Table, weight: str = WEIGHT) -> pa.Table:
    """Returns each row once, with the sum of its weights, which come last, where that is not 0. O(rows)."""
    names = [name for name in rows.column_names if name != weight]
    nested = [name for name in names if pa.types.is_nested(rows.schema.field(name).type)]
    keys = rows.combine_chunks() if nested else rows
    for name in nested:
        column = rows[name].combine_chunks()
        column = column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
        bytes_ = comparable(column, type_of_arrow(column.type))
        keys = keys.set_column(keys.column_names.index(name), name, bytes_)
    if not nested:
        found = grouped(keys, names, [([weight], "hash_sum", None, weight)]).rename_columns([*names, weight])
        return found.filter(pc.cast(found[weight], pa.bool_()))
    keys = keys.append_column(_ROW, pa.array(range(len(keys)), pa.int64()))
    groups = grouped(keys, names, [([weight], "hash_sum", None, "sum"), ([_ROW], "hash_min", None, "first")])
    sums, first = groups.columns[-2:]
    found = rows.select(names).take(first).append_column(weight, sums)
    return found.filter(pc.cast(found[weight], pa.bool_()))
