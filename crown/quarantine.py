"""Rows that could not be taken, kept with the reason: one Parquet file per batch in a side folder, never overwritten.

Columns: ``batch`` (number of the batch since the view was made), ``relation``, ``row`` (0-based position in the
batch), ``reason``, ``data`` (the row as JSON text).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from crown.changes import CheckedBatch

SCHEMA = pa.schema(
    [
        ("batch", pa.int64()),
        ("relation", pa.string()),
        ("row", pa.int64()),
        ("reason", pa.string()),
        ("data", pa.string()),
    ]
)


def write(folder: Path, batch: int, bad: Mapping[str, CheckedBatch]) -> int:
    """Write the bad rows of batch number ``batch`` to ``folder`` (made if absent); number of rows written."""
    rows = [
        {"batch": batch, "relation": relation, "row": row, "reason": reason, "data": data}
        for relation, checked in bad.items()
        for (row, reason), data in zip(checked.bad.items(), checked.bad_rows, strict=True)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), folder / f"batch-{batch:09d}-{uuid.uuid4().hex[:12]}.parquet")
    return len(rows)
