"""Where deltas go: a folder of files (exactly once), the console, or nowhere."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_jobs.errors import CheckpointError
from spark_jobs.folders import local_folder
from spark_jobs.job.progress import BatchProgress
from spark_jobs.storage.folder import Folder

CONSOLE, NOOP = "console", "noop"
SPARK = "spark"
"""The sink that is Spark's own; the others are the formats of ``write_deltas``."""
FILE_FORMATS = ("parquet", "json", "csv", "orc")
CONSOLE_ROWS = 10
LOG = "_spark_metadata"
"""The folder in which Spark's file sink keeps which files are of which batch."""
_ENTRY = re.compile(r"([0-9]+)(\.compact)?")


def when(trigger: str | None) -> dict[str, Any]:
    """Returns arguments of Spark's ``trigger()``: for an interval, or for what is there now."""
    return {"availableNow": True} if trigger is None else {"processingTime": trigger}


def start(deltas: DataFrame, output: str, format_: str, checkpoint: Path, trigger: str | None) -> StreamingQuery:
    """Starts writing ``deltas``; ``trigger``: ``"5 seconds"``, or None to take what is there and stop.

    Files go through Spark's file sink, whose log makes every micro-batch appear once. The console shows the deltas that
    the cells put aside (``sample=``): Spark's own would bring all of them to the driver, and ``show`` would run only
    some cells.
    """
    writer: DataStreamWriter = deltas.writeStream.option("checkpointLocation", str(checkpoint)).outputMode("append")
    writer = writer.trigger(**when(trigger))
    if output in (CONSOLE, NOOP):
        return writer.format(NOOP).start()
    return writer.format(format_).start(str(local_folder(output)))


def newest_logged(folder: Folder) -> int:
    """Returns the newest batch in the log of Spark's file sink; −1 if there is none."""
    return max((batch for batch, _ in _logged(folder)), default=-1)


def back(folder: Folder, batch: int) -> Callable[[], None]:
    """Returns what deletes the files of all batches after ``batch``, and then their entries in the log of Spark's file
    sink, the newest first.

    Spark writes the entries of all batches into one from time to time, and deletes the single ones later. Raises
    :class:`CheckpointError` if those up to ``batch`` are not there any more.
    """
    log, entries = folder / LOG, dict(_logged(folder))
    kept = {number: name for number, name in entries.items() if number <= batch}
    first = max((number for number, name in kept.items() if name.endswith(".compact")), default=0)
    if not kept.keys() >= {*range(first, batch + 1)}:
        raise CheckpointError(
            f"{log} does not say which files are of the batches up to {batch}: Spark has put them together with those "
            "of later ones. Give a later batch"
        )
    gone = sorted(entries.keys() - kept.keys(), reverse=True)
    stay = {path for name in kept.values() for path in _paths(log, name)}
    files = {path for number in gone for path in _paths(log, entries[number])} - stay

    def deleted() -> None:
        for path in files:
            path.unlink(missing_ok=True)
        log.delete(name for number in gone for name in (entries[number], f".{entries[number]}.crc"))

    return deleted


def _logged(folder: Folder) -> Iterable[tuple[int, str]]:
    """Yields the batches in the log of Spark's file sink, and the names of their entries."""
    found = map(_ENTRY.fullmatch, sorted((folder / LOG).files()))  # 9 before 9.compact, which has more
    return [(int(match[1]), match[0]) for match in found if match is not None]


def _paths(log: Folder, entry: str) -> list[Path]:
    """Returns the files that an entry of the log names."""
    lines = log.read(entry).decode().splitlines()[1:]
    return [Path(unquote(urlsplit(json.loads(line)["path"]).path)) for line in lines]


def sample_lines(progress: BatchProgress, columns: Iterable[str], most: int) -> list[str]:
    """Returns some deltas of a batch as lines: ``+ (1, 5, 7)``, or ``- …`` for a retraction, with the weight if it is
    not ±1.
    """
    lines = []
    for *values, weight in progress.sample[:most]:
        sign, copies = ("-" if weight.startswith("-") else "+"), weight.lstrip("-")
        pairs = ", ".join(f"{name}={value}" for name, value in zip(columns, values, strict=True))
        lines.append(f"    {sign} {pairs}" + (f"  × {copies}" if copies != "1" else ""))
    if lines and progress.deltas > len(lines):
        lines.append(f"      … and {progress.deltas - len(lines):,} more")
    return lines
