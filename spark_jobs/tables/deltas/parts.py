"""Writes the deltas of a cell and micro-batch to a Parquet file, in the worker.

Rows that Spark writes pass through the JVM, and its Parquet writer takes most of a batch's time. Here only one row per
cell passes: the name of the file, its size, and the statistics that a table's log stores. A file has a name that no
other attempt has, in the hidden folder ``_attempts`` of the table. It is not read until the driver has committed the
batch (``spark_jobs.tables.deltas.commits``); the file of an attempt that loses is never read.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crown.store.arrow_buffers import integers
from spark_jobs.errors import CheckpointError
from spark_jobs.storage.folder import Folder
from spark_jobs.storage.opening import folder_at

ATTEMPTS = "_attempts"
BATCH = "_batch"
LZ4, SNAPPY, ZSTD, NONE = "lz4", "snappy", "zstd", "none"
COMPRESSIONS = (LZ4, SNAPPY, ZSTD, NONE)
"""The compressions of a file's pages; the first is the default, and the fastest."""
GROUP_ROWS = 1 << 18
"""Rows that are gathered before they are written as a row group."""
_LOOKED_AT = 1 << 16  # rows of a column that are sampled for repeated values
_REPEATS = 0.4  # a column repeats if at least this share of its rows equals the row before
_END = 1 << 16  # bytes at a file's end that mostly contain its footer
_LONGEST = 64  # length of a text that is its own bound; a longer text has none
_BOUNDED = (pa.types.is_integer, pa.types.is_date32, pa.types.is_string)
_PLAIN = (pa.types.is_integer, pa.types.is_floating)

MANIFEST = pa.schema(
    [("cell", pa.int32()), ("file", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64()), ("stats", pa.string())]
)
"""The output of the cells instead of their deltas: a row per cell, whose ``file`` is NULL if there were no deltas."""
MANIFEST_ROW = "cell int, file string, rows bigint, bytes bigint, stats string"
"""The same as a Spark schema."""


@dataclass(frozen=True)
class Part:
    """A file of deltas: its name, rows, bytes, and the statistics of its columns in Delta's form."""

    file: str
    rows: int
    bytes: int
    stats: str

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON-able form."""
        return asdict(self)


@dataclass(frozen=True)
class Parts:
    """Writes deltas into the table in ``folder``. Sent to the workers.

    ``schema``: of the files; its last column ``_batch``, if the deltas do not have it, is filled with the number of the
    micro-batch. ``options``: of the table's object store, never shown; ``spool``: a local folder through which files
    pass on their way there; ``compression``: one of ``COMPRESSIONS``.
    """

    folder: str
    schema: pa.Schema
    options: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    spool: str | None = None
    compression: str = LZ4

    def written(self, deltas: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields one row about the file of this cell and micro-batch, when the file is on disk.

        Memory: two row groups.
        """
        from pyspark import TaskContext

        context = TaskContext.get()
        batch = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
        if context is None or batch is None:
            raise CheckpointError(
                "the deltas were read outside of a micro-batch, so the number of their batch is not known: use "
                "write_deltas, which starts the stream that writes them"
            )
        cell = context.partitionId()
        name = f"part-{int(batch):08d}-{cell:04d}-{uuid.uuid4().hex}.parquet"
        empty = int(batch) == cell == 0  # otherwise a table without deltas could not be read
        attempts = folder_at(self.folder, "path", self.options, self.spool) / ATTEMPTS
        part = write_part(attempts, name, self.schema, int(batch), deltas, empty, self.compression)
        row = {"cell": cell, "file": None, "rows": 0, "bytes": 0, "stats": None} | (part.to_json() if part else {})
        yield pa.RecordBatch.from_pylist([row], MANIFEST)


def write_part(
    folder: Folder | Path,
    name: str,
    schema: pa.Schema,
    batch: int,
    deltas: Iterable[pa.RecordBatch],
    empty: bool = False,
    compression: str = LZ4,
) -> Part | None:
    """Writes the deltas of a micro-batch to one file. Returns None, and writes no file, if there are none and ``empty``
    is False.

    A thread writes one group while the next one is computed. An unfinished file is removed. Raises
    :class:`CheckpointError` if the file cannot be written.
    """
    folder = folder_at(folder)
    tables = _groups(deltas, schema, batch)
    first = next(tables, None)
    if first is None and not empty:
        return None
    try:
        with folder.spooled(name) as path:
            done: list[Any] = []
            with _writer(path, schema, done, first, compression) as writer, ThreadPoolExecutor(1, "parts") as thread:
                before: Future[None] | None = None
                for table in chain([] if first is None else [first], tables):
                    if before is not None:
                        before.result()  # no more than two groups are in memory
                    before = thread.submit(writer.write_table, table)
                if before is not None:
                    before.result()
            part = Part(name, done[0].num_rows, path.stat().st_size, json.dumps(statistics(done[0])))
    except OSError as error:
        raise CheckpointError(f"cannot write deltas to {folder}: {error.strerror or error}") from None
    return part


def _writer(
    path: Path, schema: pa.Schema, done: list[Any], first: pa.Table | None, compression: str
) -> pq.ParquetWriter:
    """Returns a writer with the encodings that were fastest for rows like those of the ``first`` group.

    Neighboring rows share values. Whole numbers that mostly repeat are written plainly, and the compression finds the
    repetitions: half the time of any other encoding, in no more bytes. Other whole numbers are written as differences,
    which are small. Floating-point numbers are written plainly, and all other types use a dictionary.
    """
    whole = [field.name for field in schema if pa.types.is_integer(field.type)]
    return pq.ParquetWriter(
        path,
        schema,
        compression=compression,
        use_dictionary=[field.name for field in schema if not any(is_(field.type) for is_ in _PLAIN)],
        column_encoding={n: "DELTA_BINARY_PACKED" for n in whole if first is None or not _repeats(first.column(n))},
        metadata_collector=done,
    )


def _repeats(column: pa.ChunkedArray) -> bool:
    """Returns True if the sampled rows mostly equal the row before. The column must have a row."""
    some = column.slice(0, _LOOKED_AT)
    same = pc.sum(pc.equal(some.slice(1), some.slice(0, len(some) - 1))).as_py() or 0
    return same >= _REPEATS * len(some)


def _groups(deltas: Iterable[pa.RecordBatch], schema: pa.Schema, batch: int) -> Iterator[pa.Table]:
    """Yields the deltas in tables of about ``GROUP_ROWS`` rows."""
    held: list[pa.RecordBatch] = []
    number = integers(np.full(0, batch, np.int64), pa.int64())
    for rows in deltas:
        if rows.num_rows > len(number):
            number = integers(np.full(rows.num_rows, batch, np.int64), pa.int64())
        if rows.num_rows:
            held.append(_typed(rows, schema, number))
        if sum(part.num_rows for part in held) >= GROUP_ROWS:
            yield pa.Table.from_batches(held, schema)
            held = []
    if held:
        yield pa.Table.from_batches(held, schema)


def _typed(rows: pa.RecordBatch, schema: pa.Schema, number: pa.Array) -> pa.RecordBatch:
    """Returns the rows in the file's columns; ``number``: the number of the micro-batch, repeated at least once per
    row.
    """
    arrays = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(rows.columns, schema, strict=False)
    ]
    if len(arrays) < len(schema):
        arrays.append(number.slice(0, rows.num_rows))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def statistics(written: pq.FileMetaData) -> dict[str, Any]:
    """Returns the statistics of a file: rows, and by column the least and greatest value and the number of NULLs.

    Bounds that could be wrong or long are omitted: of floating-point numbers (NaN), times (units), long texts, and
    values that Python lacks.
    """
    if written.num_row_groups == 0:
        return {"numRecords": 0}
    schema = written.schema.to_arrow_schema()
    flat = {written.row_group(0).column(i).path_in_schema: i for i in range(written.num_columns)}
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for field in schema:
        if field.name not in flat:
            continue  # a struct
        found = [written.row_group(g).column(flat[field.name]).statistics for g in range(written.num_row_groups)]
        if any(one is None or not one.has_null_count for one in found):
            continue
        nulls[field.name] = sum(one.null_count for one in found)
        bounds = _bounds(found) if any(is_(field.type) for is_ in _BOUNDED) else []
        if len(bounds) == sum(one.num_values > 0 for one in found) > 0:
            low, high = min(a for a, _ in bounds), max(b for _, b in bounds)
            if not isinstance(high, str) or max(len(low), len(high)) <= _LONGEST:
                least[field.name], greatest[field.name] = _json_value(low), _json_value(high)
    return {"numRecords": written.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}


def _bounds(found: Iterable[Any]) -> list[tuple[Any, Any]]:
    """Returns the least and greatest values of row groups that have them; none if Python lacks such values: dates after
    the year 9999, texts that are not UTF-8.
    """
    try:
        return [(one.min, one.max) for one in found if one.has_min_max]
    except (OverflowError, ValueError):
        return []


def _json_value(value: Any) -> Any:
    return value.isoformat() if isinstance(value, dt.date) else value


def manifest(rows: Iterable[Any]) -> list[Part]:
    """Returns the files that the cells of a micro-batch have reported, given the collected rows of ``MANIFEST``.

    Raises :class:`CheckpointError` if a cell has not reported.
    """
    reported = {int(row["cell"]): row for row in rows}
    lacking = sorted(set(range(max(reported, default=-1) + 1)) - set(reported))
    if lacking:
        raise CheckpointError(
            f"cell {lacking[0]} has not reported what it wrote: the micro-batch was not read completely"
        )
    found = (reported[cell] for cell in sorted(reported))
    return [Part(row["file"], int(row["rows"]), int(row["bytes"]), row["stats"]) for row in found if row["file"]]


def schema_of(folder: Folder, part: Part) -> pa.Schema:
    """Returns the columns of a file that has just been written."""
    return footer_schema(folder / ATTEMPTS, part.file)


def footer_schema(folder: Folder, file: str) -> pa.Schema:
    """Returns the columns of a Parquet file. Reads only its end."""
    end = folder.tail(file, _END)
    footer = 8 + int.from_bytes(end[-8:-4], "little")
    if footer > len(end):
        end = folder.tail(file, footer)
    return pq.read_schema(pa.BufferReader(end)).remove_metadata()
