"""CSV and JSON files that Spark lists, and that its workers read as ``crown run`` does.

Spark's own readers take `1,1` for 11.00, drop the second object of a line, and read a file whose values may have line
ends in one task. Streams are read here, and the files of stores, of folders with partitions, and of patterns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.sql.streaming import DataStreamReader

from crown.projects.locations import Location
from crown.projects.reader import FileReader
from plans.schema import Table
from spark_jobs.ingest.source_log import LOCAL
from spark_jobs.ingest.sources import AGELESS, BINARY
from spark_jobs.ingest.types import spark_type
from spark_jobs.session import quietly

_PATH, _CONTENT = "path", "content"


def columns_of(table: Table) -> T.StructType:
    """Returns the columns of a relation as Spark's."""
    return T.StructType([T.StructField(column.name, spark_type(column.type)) for column in table.columns])


def listed(spark: SparkSession, location: Location, files: FileReader) -> DataFrame:
    """Returns the files, of which ``rows_of`` makes rows."""
    found = spark.read.format("binaryFile").load(location.where)
    if files.quarantine is not None:
        files.quarantine.keep([_name(row.path, location.where) for row in found.select(_PATH).collect()])
    return found


def stream_of(spark: SparkSession, location: Location, files: FileReader) -> DataFrame:
    """Returns the stream of the rows of new files."""
    reader: DataStreamReader = spark.readStream.format("binaryFile").schema(BINARY)
    return rows_of(reader.options(**AGELESS).load(location.where), location, files)


def rows_of(listed: DataFrame, location: Location, files: FileReader) -> DataFrame:
    """Returns the rows of files. The values of partitions are further columns."""
    partitions = listed.schema.fields[len(BINARY) :]
    here = "://" not in location.where
    wanted = [_PATH] if here else [_PATH, _CONTENT]
    listed = listed.select(*wanted, *(f"`{field.name}`" for field in partitions))
    schema = T.StructType([*columns_of(files.table), *partitions])
    with quietly():
        return listed.mapInArrow(_task(location.where, files, len(wanted)), schema)


def _task(where: str, files: FileReader, known: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Returns the function for ``mapInArrow``. It imports what it needs, so that a worker has one copy of it."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from spark_jobs.pipelines.inputs import texts as module

        return module.run(where, files, known, batches)

    return task


def run(where: str, files: FileReader, known: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the files of one partition. ``batches``: the names of files, their bytes if ``known`` is 2,
    and the values of their partitions."""
    from spark_jobs.cell.worker_input import complete

    for batch in complete(batches):
        for row in range(batch.num_rows):
            path = batch.column(0)[row].as_py()
            data = batch.column(1)[row].as_py() if known > 1 else None
            rows = files.read(Path(re.sub(LOCAL, "/", path)), _name(path, where), data)
            for i in range(known, batch.num_columns):
                value = batch.column(i)[row]
                rows = rows.append_column(batch.schema.field(i), pa.repeat(value, rows.num_rows))
            yield from rows.to_batches()


def _name(path: str, where: str) -> str:
    """Returns the name of a file in its folder; its whole path if it is not directly in the folder."""
    folder, _, name = path.rpartition("/")
    return name if folder.rstrip("/").endswith(where.rstrip("/")) else path
