"""A driver that commits batch after batch to a table of deltas, until it is killed; alone, so that it starts fast."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa

from spark_jobs.storage.opening import folder_at
from spark_jobs.tables.deltas.commits import Commits
from spark_jobs.tables.deltas.delta import DeltaLog
from spark_jobs.tables.deltas.manifests import Manifests
from spark_jobs.tables.deltas.parts import ATTEMPTS, write_part

SCHEMA = pa.schema([("a", pa.int64()), ("_weight", pa.int64()), ("_batch", pa.int64())])
LOGS = {"delta": DeltaLog, "parquet": Manifests}
STREAM = "a-stream/crown"


def attempt(folder, batch, cell=0, schema=SCHEMA):
    """What a worker writes for a cell and batch: the same rows every time, under another name."""
    rows = pa.RecordBatch.from_pylist([{"a": 10 * batch + cell, "_weight": 1}], pa.schema(list(schema)[:-1]))
    name = f"part-{batch:08d}-{cell:04d}-{uuid.uuid4().hex}.parquet"
    return write_part(folder_at(folder) / ATTEMPTS, name, schema, batch, [rows, rows.slice(0, 0)])


def committing(form: str, folder: str) -> None:
    """Commits from the newest batch on, which Spark would give again, and says each number."""
    log = LOGS[form](Path(folder), STREAM)
    batch, table = max(log.newest(), 0), Commits(Path(folder), log)
    while True:
        table.commit(batch, [attempt(Path(folder), batch, c) for c in range(2)])
        print(batch, flush=True)
        batch += 1
