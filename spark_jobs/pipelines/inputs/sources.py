"""Reads the changes of a source since the last run.

A table of Delta or Iceberg is read by its versions. If files were only added to a table of files, the new files are
read. Any other table is read in full and compared with the rows in the state, which costs a scan of the table.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from crown.projects.changes import Changed, Files, at_files, compared, files_at, nothing, schema_of, with_weights
from crown.projects.changes import Versions as Arrow
from plans.frontends.catalyst.tree import read
from plans.schema import Table
from spark_jobs.errors import SourceError, cause_of
from spark_jobs.ingest.parquet import ParquetRows
from spark_jobs.job.failures import failure
from spark_jobs.storage.address import masked

PADDED = "__CHAR_VARCHAR_TYPE_STRING"
_WRITTEN = b"org.apache.spark.sql.parquet.row.metadata"
_NANOSECONDS = "timestamp[ns"  # which Spark refuses, or reads as microseconds
_HIDDEN = re.compile(r"\..*|_[^=]*|.*\._COPYING_", re.DOTALL)
_PLAIN = re.compile(r"[\w/.=+-]*", re.ASCII)
_FILE = re.compile(r"FAILED_READ_FILE\S* .*? file (?:file://)?(\S+)\. ")


class ParquetFolder:
    """The Parquet files of a local folder. For a folder with partitions or other features, its methods return None,
    and Spark must be used."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(os.path.abspath(folder))

    def columns(self) -> T.StructType | None:
        """Returns the columns that Spark would find, which are those of the first file. None if Spark must be used."""
        files = self.files()
        if not files:
            return None
        try:
            schema = pq.read_schema(min(files).removeprefix("file:"))
            written = (schema.metadata or {}).get(_WRITTEN)
            if written is None and any(_NANOSECONDS in str(field.type) for field in schema):
                return None
            found = from_arrow_schema(schema) if written is None else T.StructType.fromJson(json.loads(written))
        except (OSError, ValueError, PySparkException):
            return None
        return None if any(PADDED in field.metadata for field in found.fields) else found

    def files(self) -> Files | None:
        """Returns size and time of every file, by the name that Spark has for it. None if Spark must be used, which is
        the case for a folder with partitions or summary files.
        """
        found = {}
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if entry.name.startswith("_") and "metadata" in entry.name:
                        return None
                    if _HIDDEN.fullmatch(entry.name):
                        continue
                    if entry.is_dir() or _PLAIN.fullmatch(entry.path) is None:
                        return None
                    stamp = entry.stat()
                    found[f"file:{entry.path}"] = [stamp.st_size, stamp.st_mtime_ns]
        except OSError:
            return None
        return found


_BARE = ("SubqueryAlias", "LogicalRelation")
_OF_FILES = "HadoopFsRelation"


class Versions(Arrow, Protocol):
    """A table that keeps versions, also for Spark."""

    def frame(self, spark: SparkSession) -> DataFrame:
        """Returns the newest rows."""
        ...

    def columns(self) -> T.StructType:
        """Returns the columns of the newest rows, without Spark."""
        ...


def changes(
    read: Callable[[], DataFrame],
    table: Table,
    position: Any,
    known: Callable[[], pa.Table],
    folder: ParquetFolder | None = None,
    rows: Callable[[DataFrame], DataFrame] | None = None,
) -> Changed:
    """Returns the changes of a source since ``position``.

    ``read`` returns its current rows or, with ``rows``, the files of which ``rows`` makes these; ``table``: its
    relation; ``known`` returns the rows that the state has, with ``_weight``, and is called only if the whole table is
    compared. ``folder``: where its files are, if a project names it; then Spark is used only if it is necessary. The
    position has exactly the files whose rows are returned, even if files are added meanwhile.
    """
    frame = cache(read)  # Spark lists the files when it makes a frame
    made = (lambda some: some) if rows is None else rows
    files, plain = None if folder is None else folder.files(), rows is None
    if files is None:
        files = _files(frame())
        plain = plain and not any(PADDED in field.metadata for field in frame().schema.fields)
    before = files_at(position)
    if files is not None and position is not None and files == before:
        return Changed(with_weights(nothing(table), 1), at_files(files), "no new file")
    if files is not None and before and all(files.get(name) == stamp for name, stamp in before.items()):
        new = [name for name in files if name not in before]
        added = _plain(new, table) if plain else None
        if added is None:
            added = arrow_of(made(frame().where(F.col("_metadata.file_path").isin(new))), table)
        return Changed(with_weights(added, 1), at_files(files), f"{len(new)} new files")
    found = _plain(list(files), table) if files is not None and plain else None
    if found is None and folder is not None:
        files = _files(frame())
    at = None if files is None else at_files(files)
    return compared(arrow_of(made(frame()), table) if found is None else found, table, at, known)


def arrow_of(frame: DataFrame, table: Table) -> pa.Table:
    """Returns the rows of a DataFrame as Arrow columns of a relation. Raises SourceError if Spark fails."""
    try:
        rows = frame.select(*(F.col(f"`{column.name}`") for column in table.columns)).toArrow()
    except (PySparkException, Py4JError) as error:
        ours = failure(error)
        if ours is not None:
            raise SourceError(str(ours)) from None
        raise SourceError(f"Spark cannot read the rows of {table.name}{why(error)}: fix that, and run again") from None
    return rows.cast(schema_of(table))


def why(error: Exception) -> str:
    """Returns the file that Spark could not read, if its error names one, and in parentheses the first cause."""
    report = masked(f"{error}\n{getattr(error, '_stackTrace', '')}").strip()  # a stream's error has its causes there
    first = report.partition("\n")[0].rpartition("terminated with exception: ")[2].strip()
    cause = cause_of(report) or first[:300].rstrip(". ") or type(error).__name__
    file = _FILE.search(report)
    return f"{f' in {file[1]}' if file and file[1] not in cause else ''} ({cause})"


def _plain(names: list[str], table: Table) -> pa.Table | None:
    """Returns the rows of Parquet files that Spark and Arrow read alike, without a job of Spark; None for other tables.

    Spark and Arrow read files alike if they have every column with exactly the type of the table. Files may lack values
    of partitions, or have values in the calendar of old versions of Spark.
    """
    wanted = schema_of(table)
    parts = []
    for name in names:
        path = unquote(urlsplit(name).path)
        if any(f"/{column.lower()}=" in path.lower() for column in wanted.names):
            return None
        try:
            file = ParquetRows(path)
        except SourceError:
            return None
        if file.old or any(file.type_of(field.name) != field.type for field in wanted):
            return None
        parts.append(file.table(wanted))
    return pa.concat_tables(parts) if parts else nothing(table)


def _files(frame: DataFrame) -> Files | None:
    """Returns size and time of every file of a table; None if the frame is more than a table of local files."""
    plan: Any = frame._jdf.queryExecution().analyzed()
    if any(node.kind not in _BARE for node in read(json.loads(plan.toJSON())).walk()):
        return None
    if plan.collectLeaves().head().relation().getClass().getSimpleName() != _OF_FILES:
        return None  # of a database, which has no files either way
    found = {}
    for name in frame.inputFiles():
        parts = urlsplit(name)
        if parts.scheme != "file":
            return None
        try:
            stamp = os.stat(unquote(parts.path))
        except OSError:
            return None
        found[f"file:{parts.path}"] = [stamp.st_size, stamp.st_mtime_ns]  # as _metadata.file_path has it
    return found
