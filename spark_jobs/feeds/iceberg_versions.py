"""Iceberg tables by pyiceberg: the rows of a snapshot, and the changes between two snapshots, as Arrow on the driver.

A snapshot is a set of data files, each with the files that delete rows of it. The changes between two snapshots are the
rows of the added files minus the rows of the removed files. A data file whose delete files changed counts as both. That
is exact as long as both snapshots and their files exist; expiring snapshots deletes them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from crown.errors import needs
from crown.ingest.tables.columns import WEIGHT
from plans import schema as relations
from spark_jobs.errors import SourceError
from spark_jobs.ingest.types import supported_table
from spark_jobs.storage.address import in_a_line

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


def opened(name: str) -> tuple[Catalog, str]:
    """Returns the catalog of ``CATALOG.NAMESPACE.TABLE``, and the name of the table in it."""
    from pyiceberg.catalog import load_catalog

    catalog, _, table = name.partition(".")
    return load_catalog(catalog), table


@contextmanager
def catalog_errors(to_error: Callable[[str, str], Exception]) -> Iterator[None]:
    """Turns the errors of pyiceberg into the exception that ``to_error`` makes of the reason, and of the place where
    catalogs are described.
    """
    import pyiceberg.exceptions as raised

    ours = tuple(one for one in vars(raised).values() if isinstance(one, type) and issubclass(one, Exception))
    try:
        yield
    except (*ours, ValueError, OverflowError, OSError, pa.ArrowException) as error:
        reason = in_a_line(error)[:300].rstrip(". ")
        where = "its catalog is described in .pyiceberg.yaml, or in the environment (PYICEBERG_CATALOG__...)"
        raise to_error(reason, where) from None


if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask, Table


class IcebergVersions:
    """The table ``CATALOG.NAMESPACE.TABLE``, whose catalog is described by pyiceberg's own configuration.

    See ``spark_jobs.pipelines.inputs.sources.Versions``. A version is the number of a snapshot, 0 for a table without
    one.
    """

    def __init__(self, name: str) -> None:
        if name.count(".") < 2:
            raise SourceError(f"iceberg:{name}: write iceberg:CATALOG.NAMESPACE.TABLE, with a catalog of pyiceberg's")
        self._name = name

    def frame(self, spark: SparkSession) -> DataFrame:
        """Returns the newest rows, which are read into the driver's memory when the frame is made."""
        with self._source_errors():
            return spark.createDataFrame(_plain(self._opened().scan().to_arrow()))

    def columns(self) -> T.StructType:
        """Returns the columns of the newest version."""
        with self._source_errors():
            return from_arrow_schema(self._opened().schema().as_arrow())

    def table(self, name: str) -> relations.Table:
        """Returns the relation of the newest version, with the columns that have a type."""
        return supported_table(name, self.columns())

    def newest(self) -> dict[str, Any]:
        """Returns the identity of the table and its newest version."""
        with self._source_errors():
            table = self._opened()
            return {"table": str(table.metadata.table_uuid), "version": _newest(table)}

    def rows(self, schema: pa.Schema, version: int) -> pa.Table:
        """Returns the rows of a version. Raises SourceError if it cannot be read."""
        with self._source_errors():
            table = self._opened()
            return _read(table, _tasks(table, version).values(), schema)

    def between(self, schema: pa.Schema, first: int, last: int) -> tuple[pa.Table, str] | None:
        """Returns the changes from one version to another, and how they were found; None if the table no longer has
        them.
        """
        table = self._opened()
        try:
            before, after = _tasks(table, first), _tasks(table, last)
            fresh, gone = after.keys() - before.keys(), before.keys() - after.keys()
            added = _read(table, (after[key] for key in fresh), schema)
            removed = _read(table, (before[key] for key in gone), schema)
        except (ValueError, OSError):  # a snapshot expired, or its files were deleted
            return None
        weights = np.repeat(np.array([1, -1], np.int64), [len(added), len(removed)])
        rows = pa.concat_tables([added, removed]).append_column(WEIGHT, pa.array(weights))
        return rows, f"{len(fresh)} files added, {len(gone)} removed"

    def lag(self, version: int) -> Mapping[str, float]:
        """Returns the number of versions after ``version``, and the age of the oldest of them in seconds."""
        with self._source_errors():
            later = []
            table = self._opened()
            at = table.current_snapshot()
            while at is not None and at.snapshot_id != version:
                later.append(at.timestamp_ms / 1000)
                at = None if at.parent_snapshot_id is None else table.snapshot_by_id(at.parent_snapshot_id)
        return {"versions": len(later), "seconds": max(time.time() - later[-1], 0.0) if later else 0.0}

    def _opened(self) -> Table:
        catalog, name = opened(self._name)
        return catalog.load_table(name)

    @contextmanager
    def _source_errors(self) -> Iterator[None]:
        """Turns the errors of pyiceberg into a :class:`SourceError` of one sentence."""
        with needs("an Iceberg table"):
            import pyiceberg  # noqa: F401

        def read_error(reason: str, where: str) -> SourceError:
            return SourceError(f"the Iceberg table {self._name} cannot be read ({reason}): fix that; {where}")

        with catalog_errors(read_error):
            yield


def _newest(table: Table) -> int:
    snapshot = table.current_snapshot()
    return 0 if snapshot is None else snapshot.snapshot_id


def _tasks(table: Table, version: int) -> dict[tuple[str, ...], FileScanTask]:
    """Returns the scan tasks of a version, keyed by data file and the files that delete rows of it.

    Raises ValueError if the version has expired.
    """
    if not version:
        return {}
    if table.snapshot_by_id(version) is None:
        raise ValueError(f"snapshot {version} has expired")  # a scan of it would find no files
    found = table.scan(snapshot_id=version).plan_files()
    return {(task.file.file_path, *sorted(one.file_path for one in task.delete_files)): task for task in found}


def _read(table: Table, tasks: Iterable[FileScanTask], schema: pa.Schema) -> pa.Table:
    """Returns the rows of some files, in the columns of the current schema."""
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    wanted = table.schema().select(*schema.names)
    scan = ArrowScan(table.metadata, table.io, wanted, AlwaysTrue())
    return _plain(scan.to_table(list(tasks))).select(schema.names).cast(schema)


def _plain(rows: pa.Table) -> pa.Table:
    """Returns rows whose strings and binaries have the types that Spark gives them."""
    small = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    fields = [pa.field(field.name, small.get(field.type, field.type)) for field in rows.schema]
    return rows.cast(pa.schema(fields))
