"""``StreamingTable``: a source of a pipeline that is a stream of Spark: the rows that it has ever had.

Spark keeps them in a folder of Parquet files, and in a checkpoint how far the stream was read. A run takes what the
stream has then, and ends. Rows are only appended, and each is computed once.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from spark_jobs.errors import SourceError


class StreamingTable:
    """The table of one stream, in a folder of its own."""

    def __init__(self, name: str, stream: DataFrame, folder: Path) -> None:
        if not isinstance(stream, DataFrame) or not stream.isStreaming:
            raise SourceError(
                f"the streaming table {name} is defined by what is no stream: read with readStream or STREAM(...), or "
                "declare a materialized view"
            )
        self._stream = stream
        self._folder = folder / name.lower()

    @property
    def columns(self) -> T.StructType:
        """Returns the columns of the stream, which is not read for that."""
        return self._stream.schema

    def read(self) -> DataFrame:
        """Returns all rows, when the stream has been read to its present end. Raises what Spark raises."""
        rows = self._folder / "rows"
        rows.mkdir(parents=True, exist_ok=True)
        writer = self._stream.writeStream.format("parquet").option("path", str(rows))
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
        return self._stream.sparkSession.read.schema(self.columns).parquet(str(rows))
