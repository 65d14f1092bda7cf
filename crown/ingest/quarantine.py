"""Stores rejected rows with the reason: one Parquet file per batch in a side folder, never overwritten.

Columns: ``batch`` (number of the batch since the view was made), ``relation``, ``row`` (0-based position in the batch),
``reason``, ``data`` (the row as JSON text). A file is written atomically, before its batch is applied. If the bad rows
of a batch cannot be stored, the batch is rejected.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from crown.errors import ChangeError
from crown.ingest.changes import CheckedBatch
from crown.store.words_file import temporary

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
    """Writes the bad rows of batch number ``batch`` to ``folder`` (made if absent). Returns the number of rows.

    Raises ChangeError if the system refuses; no partial file is left then.
    """
    import pyarrow.parquet as pq  # imported here: it loads file systems and their clients, which only bad rows need

    rows = [
        {"batch": batch, "relation": relation, "row": row, "reason": reason, "data": data}
        for relation, checked in bad.items()
        for (row, reason), data in zip(checked.bad.items(), checked.bad_rows, strict=True)
    ]
    target = folder / f"batch-{batch:09d}-{uuid.uuid4().hex[:12]}.parquet"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with temporary(target) as partial:
            with partial.open("wb") as file:
                pq.write_table(pa.Table.from_pylist(rows, SCHEMA), file)
            os.replace(partial, target)
    except OSError as error:
        raise ChangeError(
            f"the batch has {len(rows)} bad rows, and the quarantine {folder} cannot take them "
            f"({error.strerror or error}); the batch was not applied"
        ) from error
    return len(rows)
