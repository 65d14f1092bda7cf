"""Exports the rows of the base tables of a program as Arrow tables of changes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from crown.ingest.tables.columns import WEIGHT
from crown.ingest.watermarks import with_watermark
from crown.programs.runtime import ProgramRuntime
from crown.store.arrow_buffers import integers
from crown.store.codec import decode


def base_rows(engine: ProgramRuntime, masks: bool = False) -> dict[str, pa.Table]:
    """Returns, by name, the rows of the relations that the base tables count. O(state).

    A table has the columns that the program reads, and the number of copies of each row as ``_weight``. For a relation
    with upserts it has the changes that lead to the current rows, including deletes that leave tombstones. For a
    relation with a window it restores the watermark. Leaves out relations that are not counted
    (``on_missing="trust"``), and those whose rows expire in the order of arrival. ``masks``: includes the column that
    says which occurrences read a row in a cell, if it is known.
    """
    by_name = {table.name: base_rows_of(engine, table.name.lower(), masks) for table in engine.plan.tables}
    return {name: rows for name, rows in by_name.items() if rows is not None}


def base_rows_of(engine: ProgramRuntime, name: str, masks: bool = False) -> pa.Table | None:
    """Returns the rows of one relation, given its lower-case name; None if it is left out. O(rows).

    See ``base_rows``.
    """
    engine.check_ready()
    columns = engine.base_tables.carried(name)
    if columns is None:
        return None
    extern, join = engine.memory.dictionary.extern, engine.plan.only_join
    nets = list(engine.base_tables.changes(name))
    rows = np.concatenate([part.rows for part in nets]) if nets else np.empty((0, len(columns)), np.int64)
    weights = np.concatenate([part.weights for part in nets]) if nets else np.empty(0, np.int64)
    arrays = {  # the sequence of upserts may occur twice; the last one is valid, because tombstones have it too
        column.name: decode(np.ascontiguousarray(rows[:, i]), column.type, extern)
        for i, column in enumerate(columns)
        if masks or join is None or column.name != join.masks
    }
    changes = pa.table({**arrays, WEIGHT: integers(weights, pa.int64())})
    watermark = engine.base_tables.reached(name)
    return changes if watermark is None else with_watermark(changes, watermark)
