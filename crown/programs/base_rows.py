"""Exports the rows of a program's base tables as Arrow tables of changes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from crown.ingest.tables.columns import WEIGHT
from crown.ingest.watermarks import with_watermark
from crown.programs.runtime import ProgramRuntime
from crown.store.arrow_buffers import integers
from crown.store.codec import decode


def kept(engine: ProgramRuntime, masks: bool = False) -> dict[str, pa.Table]:
    """Returns, by name, the rows of the base relations that the base tables count: the columns that are read, and how
    often each row is there as ``_weight``. O(state).

    Of a relation with upserts they are the changes that lead to its present rows, deletes of what is gone included; of
    one with a window they bring its watermark. A relation that is not counted (``on_missing="trust"``) is left out, and
    one whose rows leave in the order in which they came. ``masks``: with the column that says which occurrences read a
    row in a cell, as far as that is known.
    """
    found = {table.name: kept_of(engine, table.name.lower(), masks) for table in engine.plan.tables}
    return {name: rows for name, rows in found.items() if rows is not None}


def kept_of(engine: ProgramRuntime, name: str, masks: bool = False) -> pa.Table | None:
    """Returns what ``kept`` does of one relation, by its lower-case name; None if it is left out. O(its rows)."""
    engine.ready()
    columns = engine.base_tables.carried(name)
    if columns is None:
        return None
    extern, join = engine.memory.dictionary.extern, engine.plan.only_join
    parts = list(engine.base_tables.changes(name))
    rows = np.concatenate([part.rows for part in parts]) if parts else np.empty((0, len(columns)), np.int64)
    weights = np.concatenate([part.weights for part in parts]) if parts else np.empty(0, np.int64)
    arrays = {  # the sequence of upserts may be there twice: the last, which tombstones have, too, is the one
        column.name: decode(np.ascontiguousarray(rows[:, i]), column.type, extern)
        for i, column in enumerate(columns)
        if masks or join is None or column.name != join.masks
    }
    changes = pa.table({**arrays, WEIGHT: integers(weights, pa.int64())})
    mark = engine.base_tables.reached(name)
    return changes if mark is None else with_watermark(changes, mark)
