"""``to_table``: a table that holds the current result, updated by a stream of deltas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.sql import DataFrame

from spark_jobs.errors import SourceError
from spark_jobs.ingest.names import key_columns
from spark_jobs.tables.places import place_at
from spark_jobs.tables.results.net import net_of


def to_table(
    target: str,
    keys: Sequence[str] | None = None,
    *,
    table: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Callable[[DataFrame, int], None]:
    """Returns a function for ``foreachBatch`` that keeps the table of a result current, once per micro-batch.

    The deltas are those of ``maintain`` with ``emit="weights"``. The function reads the whole batch into the driver;
    several such functions that receive the same frame read it once.

    - ``target``: a folder, or ``s3://``, ``gs://``, ``az://``, for a Delta table (needs ``deltalake``), whose changed
      files are rewritten; ``postgresql://user@host/db?table=name`` (needs ``psycopg``), where ``table=`` may name the
      table instead; or ``kafka://host:9092/topic`` (needs ``confluent-kafka``): a record per key, without a value for a
      deleted row; or ``iceberg:CATALOG.NAMESPACE.TABLE`` (needs ``pyiceberg``), with a catalog of pyiceberg's. A
      missing table is created. ``storage_options``: options of obstore; default: from the environment.
    - ``keys``: columns that are unique in the result; then the table has the result's columns, and a batch inserts,
      updates and deletes rows by key. None: the table has another column ``_count``, the copies of each row.

    A batch and the note that it was applied are one transaction: a batch that Spark executes again changes nothing. The
    table belongs to the stream. If another writer changes the table, a batch that does not fit it is refused.
    """
    if isinstance(keys, str):
        raise SourceError(f"keys={keys!r}: give a list of columns, [{keys!r}]")
    if not (keys is None or (isinstance(keys, (list, tuple)) and all(isinstance(name, str) for name in keys))):
        raise SourceError(f"keys={keys!r:.100}: give a list of columns")
    if keys is not None and not keys:
        raise SourceError("keys=[]: name the columns of the key, or leave out keys=")
    place = place_at(target, table, storage_options)
    if keys is not None and place.keys is not None:
        raise SourceError(f"keys={keys!r}, and {place.name}: say the key once")
    by = place.keys if keys is None else key_columns(keys, place.name)
    if place.needs_key and by is None:
        raise SourceError(f"{place.name} needs keys=: columns that no two rows of the result share")
    where = place.target()

    def apply(frame: DataFrame, batch: int) -> None:
        stream = str(frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId"))
        where.apply(stream, batch, net_of(_read(frame, batch), by, batch))

    return apply


_read_already: WeakKeyDictionary[DataFrame, tuple[int, pa.Table]] = WeakKeyDictionary()


def _read(frame: DataFrame, batch: int) -> pa.Table:
    """Returns the rows of a frame. They are cached for the frame and batch, because another execution would have the
    cells undo the batch and apply it once more.
    """
    known, rows = _read_already.get(frame, (-1, None))
    if rows is None or known != batch:
        rows = frame.toArrow()
        _read_already[frame] = batch, rows
    return rows
