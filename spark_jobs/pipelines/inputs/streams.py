"""``StreamingTable``: a source of a pipeline that consists of one or more streams of Spark. It has all rows that the
streams have delivered.

Spark stores the rows of each flow in a folder of Parquet files, and the position of its stream in a checkpoint. A run
reads the streams up to their current end. Rows are only appended, and each row is computed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from spark_jobs.errors import SourceError


class StreamingTable:
    """The table of the streams ``flows``, by name, each in a folder of its own."""

    def __init__(self, name: str, flows: Mapping[str, DataFrame], folder: Path) -> None:
        own = folder / name.lower()
        self._flows: dict[Path, DataFrame] = {}
        for flow, stream in flows.items():
            if not isinstance(stream, DataFrame) or not stream.isStreaming:
                raise SourceError(
                    f"the streaming table {name} is not defined by a stream: read with readStream or STREAM(...), "
                    "or declare a materialized view"
                )
            self._flows[own if flow == name else own / "flows" / flow.lower()] = stream
        self._columns, *others = [stream.schema for stream in self._flows.values()]
        known = {column.name: column.dataType for column in self._columns}
        for columns in others:
            if {column.name: column.dataType for column in columns} != known:
                raise SourceError(
                    f"the flows of the streaming table {name} have other columns: {columns.simpleString()} and "
                    f"{self._columns.simpleString()}; give all the same"
                )

    @property
    def columns(self) -> T.StructType:
        """Returns the columns of the streams, without reading them."""
        return self._columns

    def read(self) -> DataFrame:
        """Returns all rows, after each stream was read to its current end. Raises the errors of Spark."""
        read = [_read(folder, stream) for folder, stream in self._flows.items()]
        if len(read) == 1:
            return read[0]
        files = [file for rows in read for file in rows.inputFiles()]
        return read[0].sparkSession.read.schema(self._columns).parquet(*files) if files else read[0]


def _read(folder: Path, stream: DataFrame) -> DataFrame:
    """Returns the rows of one stream, read to its current end."""
    rows = folder / "rows"
    rows.mkdir(parents=True, exist_ok=True)
    writer = stream.writeStream.format("parquet").option("path", str(rows))
    writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()
    return stream.sparkSession.read.schema(stream.schema).parquet(str(rows))
