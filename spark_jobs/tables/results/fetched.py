"""Parquet files of an object store as a DataFrame: each worker fetches its own files.

Spark itself would need a jar for the store, and the credentials in its own settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from spark_jobs import cluster
from spark_jobs.errors import SourceError
from spark_jobs.session import quietly
from spark_jobs.storage.folder import Folder
from spark_jobs.tables.deltas.parts import footer_schema

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
