"""The changes of a Delta table between two versions, as Arrow on the driver.

For a table with a change data feed, they are read from the feed. For any other table they are the rows of the added
files, minus the rows of the removed files, and the rows that deletion vectors deleted or restored. That is exact as
long as the removed files exist; VACUUM deletes them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from crown.ingest.tables.columns import WEIGHT
from plans.schema import Table
from spark_jobs.errors import SourceError
from spark_jobs.feeds.delta import delta_table
from spark_jobs.feeds.delta_rows import DataFile, data_files
from spark_jobs.feeds.delta_source import CHANGE_TYPE, columns, delta_errors, fitted, has_feed, opened, weights_of
from spark_jobs.ingest.types import supported_table
from spark_jobs.storage.address import address
from spark_jobs.tables.results.hidden import refuse_vectors_among_changes

if TYPE_CHECKING:
    from deltalake import DeltaTable


class DeltaVersions:
    """The Delta table in a folder or at a URI. See ``spark_jobs.pipelines.inputs.sources.Versions``."""

    def __init__(self, table: str) -> None:
        self._table = str(address(table, "table"))

    def frame(self, spark: SparkSession) -> DataFrame:
        """Returns the newest rows."""
        return delta_table(spark, self._table)

    def columns(self) -> T.StructType:
        """Returns the columns of the newest version."""
        return columns(opened(self._table))

    def table(self, name: str) -> Table:
        """Returns the relation of the newest version, with the columns that have a type."""
        return supported_table(name, self.columns())

    def newest(self) -> dict[str, Any]:
        """Returns the identity of the table and its newest version."""
        found = opened(self._table)
        return {"table": str(found.metadata().id), "version": int(found.version())}

    def rows(self, schema: pa.Schema, version: int) -> pa.Table:
        """Returns the rows of a version. Raises SourceError if it cannot be read."""
        with delta_errors(self._table):
            return _read(data_files(opened(self._table, version)), schema, self._table)

    def between(self, schema: pa.Schema, first: int, last: int) -> tuple[pa.Table, str] | None:
        """Returns the changes from version ``first`` to version ``last``, with ``_weight``, and how they were found.

        ``schema``: the columns that are read, with their types. None if the changes are not available because files or
        log of the versions in between were deleted. Raises :class:`SourceError` for a table that cannot be read.
        """
        if first > last:  # an older copy of the table was restored
            return None
        newest = opened(self._table, last)
        if has_feed(newest):
            try:
                return _fed(newest, self._table, schema, first, last), "change data feed"
            except SourceError:
                pass  # the feed was enabled later, or was deleted
        try:
            return _by_files(opened(self._table, first), newest, self._table, schema)
        except SourceError:
            return None

    def lag(self, version: int) -> Mapping[str, float]:
        """Returns the number of versions after ``version``, and the age of the oldest of them in seconds."""
        table = opened(self._table)
        ahead = max(int(table.version()) - version, 0)
        oldest = min((commit["timestamp"] for commit in table.history(ahead)), default=0) / 1000 if ahead else 0.0
        return {"versions": ahead, "seconds": max(time.time() - oldest, 0.0) if ahead else 0.0}


def _fed(newest: DeltaTable, table: str, schema: pa.Schema, first: int, last: int) -> pa.Table:
    coded = schema.append(pa.field(CHANGE_TYPE, pa.string()))
    with delta_errors(table):
        refuse_vectors_among_changes(newest, table, first + 1, last)
        feed = pa.RecordBatchReader.from_stream(newest.load_cdf(starting_version=first + 1, ending_version=last))
        found = pa.Table.from_batches(fitted(feed, coded, table), coded)
    return found.select(schema.names).append_column(WEIGHT, pa.array(weights_of(found[CHANGE_TYPE])))


def _by_files(oldest: DeltaTable, newest: DeltaTable, table: str, schema: pa.Schema) -> tuple[pa.Table, str]:
    with delta_errors(table):
        before, after = ({file.path: file for file in data_files(version)} for version in (oldest, newest))
        removed_files, added_files = before.keys() - after.keys(), after.keys() - before.keys()
        stay = [path for path in after.keys() & before.keys() if not after[path].same(before[path])]
        added = _read((after[path] for path in added_files), schema, table)
        removed = _read((before[path] for path in removed_files), schema, table)
        changed = [after[path].changes(before[path], schema) for path in stay]
    weights = np.repeat(np.array([1, -1], np.int64), [len(added), len(removed)])
    weights = np.concatenate([weights, *(of for _, of in changed)])
    rows = pa.concat_tables([added, removed, *(rows for rows, _ in changed)]).append_column(WEIGHT, pa.array(weights))
    how = f"{len(added_files)} files added, {len(removed_files)} removed"
    return rows, how + (f", rows of {len(stay)} deleted" if stay else "")


def _read(files: Iterable[DataFile], schema: pa.Schema, table: str) -> pa.Table:
    batches = (batch for file in files for batch in file.batches(schema))
    return pa.Table.from_batches(fitted(batches, schema, table), schema)
