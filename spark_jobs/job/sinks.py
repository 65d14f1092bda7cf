"""Sinks of deltas: a folder of files (exactly once), the console, or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from crown.store.display import pairs_shown
from spark_jobs.folders import local_folder
from spark_jobs.job.progress import BatchProgress
from spark_jobs.log import compacted
from spark_jobs.storage.folder import Folder

CONSOLE, NOOP = "console", "noop"
SPARK = "spark"
"""Spark's own sink; the other sinks are the formats of ``write_deltas``."""
FILE_FORMATS = ("parquet", "json", "csv", "orc")
CONSOLE_ROWS = 10
LOG = "_spark_metadata"
"""The folder in which Spark's file sink lists the files of each batch."""


def when(trigger: str | None) -> dict[str, Any]:
    """Returns arguments of Spark's ``trigger()``: for an interval, or for the data available now."""
    return {"availableNow": True} if trigger is None else {"processingTime": trigger}


def start(deltas: DataFrame, output: str, format_: str, checkpoint: Path, trigger: str | None) -> StreamingQuery:
    """Starts writing ``deltas``; ``trigger``: ``"5 seconds"``, or None to process the available data and stop.

    Files are written by Spark's file sink, whose log makes every micro-batch appear once. The console shows the deltas
    that the cells sampled (``sample=``): Spark's console sink would bring all of them to the driver, and ``show`` would
    run only some cells.
    """
    writer: DataStreamWriter = deltas.writeStream.option("checkpointLocation", str(checkpoint)).outputMode("append")
    writer = writer.trigger(**when(trigger))
    if output in (CONSOLE, NOOP):
        return writer.format(NOOP).start()
    return writer.format(format_).start(str(local_folder(output)))


def back(folder: Folder, batch: int) -> Callable[[], None]:
    """Returns a function that deletes the files of all batches after ``batch``, and then their entries in the log of
    Spark's file sink.

    Raises :class:`CheckpointError` if the log no longer lists them.
    """
    log = folder / LOG
    files = [path for path in map(compacted.local_path, compacted.files_after(log, batch)) if path is not None]

    def deleted() -> None:
        for path in files:
            Path(path).unlink(missing_ok=True)
        compacted.cut(log, batch)

    return deleted


def sample_lines(progress: BatchProgress, columns: Iterable[str], most: int) -> list[str]:
    """Returns some deltas of a batch as lines: ``+ (1, 5, 7)``, or ``- …`` for a deletion, with the weight if it is not
    ±1.
    """
    lines = []
    for *values, weight in progress.sample[:most]:
        sign, copies = ("-" if weight.startswith("-") else "+"), weight.lstrip("-")
        pairs = pairs_shown(dict(zip(columns, values, strict=True)))
        lines.append(f"    {sign} {pairs}" + (f"  × {copies}" if copies != "1" else ""))
    if lines and progress.deltas > len(lines):
        lines.append(f"      … and {progress.deltas - len(lines):,} more")
    return lines
