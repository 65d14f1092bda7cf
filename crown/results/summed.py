"""Rows with weights, each once: of Arrow tables, which have no groups by values with parts."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from plans.expressions.packed import comparable
from plans.schema import WEIGHT
from plans.types import type_of_arrow

_ROW = "_row"


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
        found = keys.group_by(names, use_threads=False).aggregate([(weight, "sum")]).rename_columns([*names, weight])
        return found.filter(pc.not_equal(found[weight], 0))
    keys = keys.append_column(_ROW, pa.array(range(len(keys)), pa.int64()))
    groups = keys.group_by(names, use_threads=False).aggregate([(weight, "sum"), (_ROW, "min")])
    found = rows.select(names).take(groups[f"{_ROW}_min"]).append_column(weight, groups[f"{weight}_sum"])
    return found.filter(pc.not_equal(found[weight], 0))
