"""Rare operations of the Spark operator's cells: filled from existing tables, and rebuilt on a host without them.

Generated tables, as many keys as rows: a row joins one other on average, and the result is as large as the tables. One
cell. The start of Java and Python workers is not counted, because a small job of the same kind runs before. Nor is the
time of a virtual machine to get memory back from its host (``bench.subjects.resident.touch``).
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.subjects.loading import SHAPES, tables
from bench.subjects.peers.foreign import scratch
from bench.subjects.resident import touch
from bench.subjects.spark_path import session
from bench.subjects.subject import Progress, SkipError
from crown.errors import CrownError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SMALL = 20_000  # rows of the job that runs before
_TOUCHED = 1_000  # bytes per row: tables, state, snapshot, and data in transit
_CORES = 2


def run(spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Measures a cell of mode *backfill* or *restored*; its arguments are ``shape`` and ``rows``."""
    measured = {"backfill": _backfilled, "restored": _restored}[spec["mode"]]
    given = spec["arguments"]
    try:
        spark = session(_CORES)
        with scratch() as folder:
            measured(spark, Path(folder) / "before", given["shape"], _SMALL)
            progress(0, given["rows"])
            found = measured(spark, Path(folder) / "counted", given["shape"], given["rows"])
    except SkipError as error:
        return {"status": "skipped", "reason": str(error)}
    except CrownError as error:
        return {"status": "failed", "reason": str(error).splitlines()[0]}
    rate = given["rows"] / found["seconds"]
    return found | {
        "status": "ok",
        "check": {"status": "not asked for"},
        "of": given["rows"],
        "updates": given["rows"],
        "live_tuples": given["rows"],
        "repeats": 1,
        "seconds": [round(found["seconds"], 3)],
        "updates_per_s": rate,
        "updates_per_s_median": rate,
        "updates_per_s_all": [rate],
    }


def _backfilled(spark: SparkSession, folder: Path, shape: str, rows: int) -> dict[str, Any]:
    """Returns the time of ``bulk_load`` of Parquet files, and the size of its snapshot."""
    from spark_jobs import bulk_load

    frames = {}
    for name, table in tables(shape, "single", rows).items():
        file = _written(folder / "tables" / name, 0, table)
        frames[name] = spark.read.parquet(str(file))
    touched = touch(_TOUCHED * rows)
    started = time.perf_counter()
    whole = bulk_load(spark, SHAPES[shape][0], frames, checkpoint=str(folder / "state"), cells=1)
    whole.write.format("noop").mode("overwrite").save()
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "snapshot_bytes": _snapshot(folder), "touched_s_per_gib": touched}


def _restored(spark: SparkSession, folder: Path, shape: str, rows: int) -> dict[str, Any]:
    """Returns how much longer a batch takes if its cell must first be rebuilt from its snapshot and log.

    The stream is stopped after its rows, and continues with an empty scratch folder, as on another host.
    """
    for number, n in enumerate((rows, 10)):
        _append(folder, shape, n, number)
    _drained(spark, folder, shape, "one host")
    for number in (2, 3):
        _append(folder, shape, 10, number)
    _drained(spark, folder, shape, "another host")
    notes = [_note(folder, batch) for batch in (2, 3)]
    return {
        "seconds": (notes[0]["total_ms"] - notes[1]["total_ms"]) / 1000,
        "batch_ms": notes[1]["total_ms"],
        "replayed": notes[0]["restored"],
        "state_peak_bytes": notes[0]["state"]["live_bytes"],
        "snapshot_bytes": _snapshot(folder),
    }


def _append(folder: Path, shape: str, rows: int, number: int) -> None:
    for name, table in tables(shape, "single", rows, number).items():
        _written(folder / "changes" / name, number, table)


def _drained(spark: SparkSession, folder: Path, shape: str, host: str) -> None:
    """Runs the stream over all existing files, a micro-batch each, with the live engines on some ``host``."""
    from spark_jobs import maintain

    frames = {}
    for name in SHAPES[shape][1]:
        path = str(folder / "changes" / name)
        stream = spark.readStream.schema(spark.read.parquet(path).schema).option("maxFilesPerTrigger", 1)
        frames[name] = stream.parquet(path)
    state, live = str(folder / "state"), str(folder / host)
    deltas = maintain(spark, SHAPES[shape][0], frames, checkpoint=state, cells=1, scratch=live)
    writer = deltas.writeStream.format("noop").option("checkpointLocation", state)
    writer.trigger(availableNow=True).start().awaitTermination()


def _written(folder: Path, number: int, table: pa.Table) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{number:06}.parquet"
    pq.write_table(table, file)
    return file


def _note(folder: Path, batch: int) -> dict[str, Any]:
    """Returns the cell's note about a batch."""
    (file,) = folder.glob(f"state/crown/*/crown/0/{batch}.json")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def _snapshot(folder: Path) -> int:
    """Returns the bytes of the newest snapshot; 0 if there is none."""
    files = sorted(folder.glob("state/crown/**/*.snapshot"), key=lambda file: file.stat().st_mtime)
    return files[-1].stat().st_size if files else 0
