"""Delta tables as inputs of a query: a version of the table, and the changes after it. No jar is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from spark_jobs.errors import SourceError
from spark_jobs.feeds.delta_rows import data_files
from spark_jobs.feeds.delta_source import BATCHES_END, ChangesSource, TableSource, delta_errors, has_feed, opened
from spark_jobs.storage.address import address, masked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def delta_changes(spark: SparkSession, table: str, *, after: int = -1, versions: int | None = None) -> DataFrame:
    """Returns the change data feed of a Delta table as a stream: its columns, ``_change_type``, ``_commit_version``.

    ``maintain`` accepts the stream as it is. A version of the table is in one micro-batch, as a whole. Spark's
    checkpoint stores the last version that was read; another table at the same place is refused.

    - ``table``: the folder, or a URI (credentials from the environment), which every worker can read. It needs the
      property ``delta.enableChangeDataFeed = true``, from the version ``after + 1`` on.
    - ``after``: the version after which a new stream begins; −1: from the first version of the table. A stream that
      continues from its checkpoint ignores it.
    - ``versions``: the greatest number of versions per micro-batch, from Spark 4.2 on; default: all that exist.

    Needs the package ``deltalake`` on the driver and the workers. Raises :class:`SourceError`. A micro-batch costs
    O(changes), and the time that deltalake needs to read the table's log.
    """
    where = _where(table)
    found = opened(where)
    if not has_feed(found):
        raise SourceError(
            f"the Delta table {masked(where)} has no change data feed: set its property delta.enableChangeDataFeed = "
            "true, then load the table (delta_table)"
        )
    if not -1 <= after <= found.version():
        raise SourceError(
            f"after={after}: the Delta table {masked(where)} has versions 0 to {found.version()}; give one, or -1"
        )
    if versions is not None and versions < 1:
        raise SourceError(f"versions={versions}: give 1 or more")
    if versions is not None and not BATCHES_END:
        raise SourceError(
            f"versions={versions}: Spark {spark.version} reads all new versions at once; leave versions= out, or use "
            "Spark 4.2 or later"
        )
    spark.dataSource.register(ChangesSource)
    reader = spark.readStream.format(ChangesSource.name()).option("table", where).option("after", str(after))
    return (reader if versions is None else reader.option("versions", str(versions))).load()


def delta_table(spark: SparkSession, table: str, version: int | None = None) -> DataFrame:
    """Returns a Delta table at a version as a batch DataFrame; default: the newest version now.

    The frame stays at that version when the table is written later. ``table``: as for ``delta_changes``. Needs the
    package ``deltalake`` on the driver and the workers. Raises :class:`SourceError`.
    """
    where = _where(table)
    found = opened(where, version)
    with delta_errors(where):
        data_files(found)  # refuses an unreadable table here, and not in a worker
    spark.dataSource.register(TableSource)
    reader = spark.read.format(TableSource.name()).option("table", where)
    return reader.option("version", str(found.version())).load()


def delta_version(table: str) -> int:
    """Returns the newest version of a Delta table. Raises :class:`SourceError` if there is no table."""
    return int(opened(_where(table)).version())


def _where(table: str) -> str:
    return str(address(table, "table"))
