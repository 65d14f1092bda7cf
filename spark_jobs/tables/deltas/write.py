"""``write_deltas``: a stream whose cells write the table of its deltas; ``read_deltas`` reads it.

Each worker fetches its own Parquet files of an object store. Spark itself would need a jar for the store, and the
credentials in its own settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Unpack

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs import cluster
from spark_jobs.errors import SourceError, SparkJobError
from spark_jobs.feeds.delta_source import columns
from spark_jobs.folders import local_folder
from spark_jobs.operator import Query, stream
from spark_jobs.options import Options, StreamOptions
from spark_jobs.session import quietly
from spark_jobs.storage.folder import Folder
from spark_jobs.storage.local import LocalFolder
from spark_jobs.storage.opening import ensure_writable, folder_at
from spark_jobs.tables.deltas import delta
from spark_jobs.tables.deltas.commits import Commits, Log
from spark_jobs.tables.deltas.manifests import MANIFESTS, Manifests, delta_files
from spark_jobs.tables.deltas.parts import footer_schema, manifest

_FILE = "file"


def fetched(spark: SparkSession, folder: Folder, files: Sequence[str]) -> DataFrame:
    """Returns the rows of the files, which must all have the columns of the first. Each file is read by one task."""
    try:
        schema = footer_schema(folder, files[0])
    except OSError as error:
        raise SourceError(f"cannot read {folder.at(files[0])}: {error.strerror}") from None
    with quietly():
        names = spark.createDataFrame([(file,) for file in files], f"{_FILE} string")
        tasks = names.repartition(max(1, min(len(files), 2 * cluster.cores(spark))))
        return tasks.mapInArrow(_reader(folder), from_arrow_schema(schema, prefer_timestamp_ntz=True))


def _reader(folder: Folder) -> Any:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for file in batch.column(_FILE).to_pylist():
                try:
                    with folder.local(file) as path:
                        yield from pq.ParquetFile(path).iter_batches()
                except OSError as error:
                    raise SourceError(f"cannot read {folder.at(file)}: {error.strerror or error}") from None

    return read


DELTA, PARQUET = "delta", "parquet"
TABLES = (DELTA, PARQUET)
_LOGS: dict[str, Callable[[Folder, str], Log]] = {DELTA: delta.DeltaLog, PARQUET: Manifests}


def write_deltas(
    spark: SparkSession,
    query: Query,
    changes: Mapping[str, DataFrame],
    path: str,
    *,
    format: str = DELTA,
    trigger: Mapping[str, Any] | None = None,
    name: str | None = None,
    **options: Unpack[StreamOptions],
) -> StreamingQuery:
    """Starts a stream that maintains ``query`` and writes its deltas to the table in the folder ``path``; returns it.

    The cells write the files themselves, bypassing Spark, and the driver commits the files of a micro-batch atomically.
    Exactly once, through retries, kills and restarts from the checkpoint.

    - ``path``: a folder of this host, or one that is mounted here and at the executors; or ``s3://``, ``gs://``,
      ``az://``. ``storage_options``: options of obstore for table and state; default: from the environment.
    - ``format``: ``"delta"``, a Delta table (needs the package ``deltalake``), whose transaction per batch contains
      stream and batch; ``"parquet"``, plain files with a manifest per batch, see ``delta_files``.
    - ``trigger``: arguments of Spark's ``trigger()``, such as ``{"availableNow": True}``; by default the next batch
      starts when one ends. ``name``: the name of the stream.
    - ``options``: those of ``maintain``: ``checkpoint``, the stream's ``checkpointLocation``, is required; also
      ``compression`` of the files (``spark_jobs.options.Output``). With ``emit="weights"`` the table has the columns of
      the output, ``_weight`` and ``_batch``; otherwise the columns of ``maintain``, and the rows pass through Spark
      once.

    A table with rows of another writer, other columns, or missing batches of this stream is refused at the first batch.
    Cost per batch: O(changes + deltas), and a commit of some 10 ms. Raises the errors of ``maintain``.
    """
    if format not in TABLES:
        raise SparkJobError(f'format={format!r}: the cells write "delta" or "parquet"')
    if cluster.remote(spark):
        raise SparkJobError(
            "write_deltas() needs a session of the classic API: with Spark Connect write the frame of maintain() with "
            "writeStream"
        )
    if format == DELTA:
        delta.require()
    return write_stream(spark, query, changes, path, Options.of("write_deltas", options), format, trigger, name)


def write_stream(
    spark: SparkSession,
    query: Query,
    changes: Mapping[str, DataFrame],
    path: str,
    options: Options,
    format: str,
    trigger: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> StreamingQuery:
    """Implements ``write_deltas``."""
    place = options.place
    folder = folder_at(path, "path", place.storage_options)
    ensure_writable(folder, "path")
    found = stream(spark, query, changes, options, str(folder))
    if not found.isStreaming:
        raise SourceError(
            "write_deltas() takes streams: write the result of batch tables with maintain(...).write, or load them "
            "with bulk_load()"
        )
    writer = found.writeStream.foreachBatch(committer(folder, format, place.operator))
    writer = writer.option("checkpointLocation", str(local_folder(str(place.checkpoint))))
    if name is not None:
        writer = writer.queryName(name)
    return (writer if trigger is None else writer.trigger(**trigger)).start()


def committer(folder: Folder, format: str, operator: str) -> Callable[[DataFrame, int], None]:
    """Returns the function for ``foreachBatch``: it has the cells write, and commits their files."""
    open_tables: dict[str, Commits] = {}

    def commit(frame: DataFrame, batch: int) -> None:
        stream = f"{frame.sparkSession.sparkContext.getLocalProperty('sql.streaming.queryId')}/{operator}"
        parts = manifest(frame.collect())  # first of all, because reading applies the batch
        if stream not in open_tables:
            open_tables[stream] = Commits(folder, _LOGS[format](folder, stream))
        open_tables[stream].commit(batch, parts)

    return commit


def read_deltas(spark: SparkSession, path: str, storage_options: Mapping[str, str] | None = None) -> DataFrame:
    """Returns the table of deltas in a folder, of either format, as a batch DataFrame: committed batches only.

    ``storage_options``: options of obstore; default: from the environment. Spark needs no package
    for Delta, and none for the store, from which the workers read. Raises :class:`SourceError` if there is no table.
    """
    folder = folder_at(path, "path", storage_options)
    try:
        plain = MANIFESTS in folder.folders()
    except OSError as error:
        raise SourceError(f"cannot read the table {folder}: {error.strerror}") from None
    files = delta_files(folder) if plain else delta.table_files(folder)
    if not files:
        raise SourceError(f"{folder} has no deltas yet: wait for the first batch")
    if isinstance(folder, LocalFolder):
        table = None if plain else delta.opened(folder)
        reader = spark.read if table is None else spark.read.schema(columns(table))  # files may have other columns
        return reader.parquet(*files)
    return fetched(spark, folder, [file.rpartition("/")[2] for file in files])
