"""``to_table``: a table that holds the present result, kept current by a stream of deltas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import DataFrame

from spark_jobs.errors import SourceError
from spark_jobs.storage.opening import folder_at
from spark_jobs.tables.merge import DeltaResult
from spark_jobs.tables.net import Net, net_of
from spark_jobs.tables.postgres import PostgresResult

_POSTGRES = ("postgresql://", "postgres://")


class Target(Protocol):
    """A table that holds a result."""

    def apply(self, stream: str, batch: int, net: Net) -> bool:
        """Applies a batch of a stream, which follows the one applied last, in one transaction.

        False if it was applied before: nothing happens then. Raises ``CheckpointError`` and its kin if the table is
        another stream's, lacks batches or cannot be written, and ``SparkJobError`` if the batch does not fit it.
        """
        ...


def to_table(
    target: str,
    keys: Sequence[str] | None = None,
    *,
    table: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Callable[[DataFrame, int], None]:
    """Returns a function for ``foreachBatch`` that keeps the table of a result current, once per micro-batch.

    The deltas are those of ``maintain`` with ``emit="weights"``. The function reads its batch, whole, into the driver;
    several such functions that are given the same frame read it once.

    - ``target``: a folder, or ``s3://``, ``gs://``, ``az://``, for a Delta table (needs ``deltalake``), changed by
      MERGE; or ``postgresql://user@host/db`` with ``table=``, ``name`` or ``schema.name`` (needs ``psycopg``). A table
      that is not there is made. ``storage_options``: obstore's, of an object store; by default the environment's.
    - ``keys``: columns that no two rows of the result share; then the table has the result's columns, and a batch
      inserts, updates and deletes rows by key. None: the table has a column ``_count`` more, the copies of each row.

    A batch and the note that it was applied are one transaction: a batch that Spark executes again changes nothing. The
    table belongs to the stream: changed by others, it is found out when a batch does not fit, and refused.
    """
    if isinstance(keys, str):
        raise SourceError(f"keys={keys!r}: give a list of columns, [{keys!r}]")
    if not (keys is None or (isinstance(keys, (list, tuple)) and all(isinstance(name, str) for name in keys))):
        raise SourceError(f"keys={keys!r:.100}: give a list of columns")
    if keys is not None and not keys:
        raise SourceError("keys=[]: name the columns of the key, or leave out keys=")
    where = target_at(target, table, storage_options)

    def apply(frame: DataFrame, batch: int) -> None:
        stream = str(frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId"))
        where.apply(stream, batch, net_of(_read(frame, batch), keys, batch))

    return apply


def target_at(target: str, table: str | None, storage_options: Mapping[str, str] | None = None) -> Target:
    """Returns the table that ``target`` names; the arguments are those of ``to_table``."""
    if not isinstance(target, str):
        raise SourceError(f"to_table() takes the folder of a table, or postgresql://..., not {target!r:.100}")
    if target.startswith(_POSTGRES):
        if table is None:
            raise SourceError("a database needs table=: the table that holds the result")
        return PostgresResult(target, table)
    if table is not None:
        raise SourceError(f"table={table!r} is for a database: leave it out for the folder {target}")
    return DeltaResult(folder_at(target, "target", storage_options))


_read_already: WeakKeyDictionary[DataFrame, tuple[int, pa.Table]] = WeakKeyDictionary()


def _read(frame: DataFrame, batch: int) -> pa.Table:
    """Returns the rows of a frame. Kept while the frame is there, and the batch is the same: every other execution has
    the cells take the batch back and apply it once more."""
    known, rows = _read_already.get(frame, (-1, None))
    if rows is None or known != batch:
        rows = frame.toArrow()
        _read_already[frame] = batch, rows
    return rows
