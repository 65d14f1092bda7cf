"""``ParquetFolder``: a local folder of Parquet files as Spark reads it, without Spark."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

PADDED = "__CHAR_VARCHAR_TYPE_STRING"
_WRITTEN = b"org.apache.spark.sql.parquet.row.metadata"
_NANOSECONDS = "timestamp[ns"  # which Spark refuses, or reads as microseconds
_HIDDEN = re.compile(r"\..*|_[^=]*|.*\._COPYING_", re.DOTALL)
_PLAIN = re.compile(r"[\w/.=+-]*", re.ASCII)


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

    def files(self) -> dict[str, list[int]] | None:
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
