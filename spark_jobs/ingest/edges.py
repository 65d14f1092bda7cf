"""Converts edge lists and other files without a Spark reader to change files that Spark reads.

A file is read once (``plans.files``) and written as a folder of change files (Parquet, ``--batch-rows`` updates each,
in order), from which a stream then reads one file per micro-batch. With a window the updates are those of a sliding
window over the list (``crown.ingest.streams.window``). The folder is part of the checkpoint: a restarted job continues
with the same files.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from crown.ingest.streams import window
from plans.errors import FileError
from plans.files.rows import NoColumnsError, RowsFile
from plans.schema import CHANGE_TYPE, ROW_KIND, WEIGHT, Table
from spark_jobs.errors import ANEW, SourceError

_FIRST_FILE = 1_000_000_000  # seconds since 1970, the first file's time; the stream reads files in the order of time


def stage(
    path: Path, table: Table, folder: Path, *, batch_rows: int, span: str | None = None, change: str | None = None
) -> int:
    """Writes the list as change files into ``folder``, unless the folder exists; returns the number of updates.

    ``span``: the window, in rows or as a fraction of the list; None for no window. ``change``: a column of the list
    that says whether a row is inserted or deleted. Raises :class:`SourceError` if the list cannot be read, or if the
    folder was staged from another list or with another window. O(updates); the whole list is in memory while it is
    staged.
    """
    status = path.stat()
    wanted = {
        "source": str(path),
        "bytes": status.st_size,
        "modified": status.st_mtime_ns,
        "window": span,
        "batch_rows": batch_rows,
    }
    manifest = folder / "_manifest.json"
    if manifest.exists():
        try:
            found = json.loads(manifest.read_text())
        except ValueError:
            raise SourceError(f"{manifest} is damaged: delete its folder, which is created again") from None
        if {key: found.get(key) for key in wanted} != wanted:
            raise SourceError(
                f"the checkpoint was started with {found['source']} (window {found['window']}, {found['batch_rows']} "
                f"rows per batch); now it is {path} (window {span}, {batch_rows} rows per batch). Use the same, or "
                f"{ANEW}"
            )
        return int(found["updates"])
    try:
        source = RowsFile(path)
        edges = source.rows(table, lines=True)
    except FileError as error:
        raise SourceError(str(error)) from None
    if span is not None:
        window.check_inserts(table.name, edges)
        batches = window.sliding(edges, window.size(span, edges.num_rows), batch_rows)
    else:
        says = {WEIGHT, CHANGE_TYPE, ROW_KIND, change} & set(edges.column_names)
        batches = window.sliced(edges, batch_rows) if says else window.appended(edges, batch_rows)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(mode=0o700, parents=True)
    updates = 0
    for number, batch in enumerate(batches):
        file = partial / f"{number:06d}.parquet"
        pq.write_table(batch, file, compression="lz4")
        os.utime(file, (_FIRST_FILE + number, _FIRST_FILE + number))
        updates += batch.num_rows
    (partial / manifest.name).write_text(json.dumps({**wanted, "updates": updates, "notes": source.notes}))
    os.replace(partial, folder)
    return updates


def columns(path: Path) -> pa.Schema | None:
    """Returns the columns that a file names; None for a list without a header or rows. Raises SourceError if the
    file cannot be read. Cost: all values of a file with a header are read.
    """
    try:
        return RowsFile(path).columns()
    except NoColumnsError:
        return None
    except FileError as error:
        raise SourceError(str(error)) from None


def notes(name: str, folder: Path, batch_rows: int, span: str | None) -> list[str]:
    """Returns notes about a list that is staged in ``folder``: fields that are ignored, and a window that is shorter
    than a batch.
    """
    manifest = json.loads((folder / "_manifest.json").read_text())
    told = list(manifest["notes"])
    if span is not None:
        rows = int(manifest["updates"]) // 2
        netted = window.netted(name, rows, window.size(span, rows), batch_rows)
        told += [] if netted is None else [netted]
    return told
