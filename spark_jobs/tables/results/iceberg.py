"""An Iceberg table that holds a result, by pyiceberg: one snapshot per batch, and the batch is a property of the table.

A batch rewrites the files that contain rows which it changes, because pyiceberg does not write delete files. The
table's bounds of the files' columns limit the files that must be read.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from crown.errors import needs
from spark_jobs.errors import CheckpointError
from spark_jobs.feeds import iceberg_versions
from spark_jobs.tables.deltas.commits import follows
from spark_jobs.tables.results.net import OP, Net, another_s, demand_columns, ranges, unfit
from spark_jobs.tables.results.rewriting import rewritten

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import FileScanTask, Table

_STREAM, _BATCH = "crown.stream", "crown.batch"


class IcebergResult:
    """The table ``CATALOG.NAMESPACE.TABLE``, whose catalog is described by pyiceberg's own configuration; created if it
    does not exist. See ``spark_jobs.tables.places.Target``.

    Cost of a batch: the files that may contain rows of its keys are read, and those that do are rewritten.
    """

    def __init__(self, name: str) -> None:
        with needs("a result in Iceberg"):
            import pyiceberg  # noqa: F401
        self._name = name

    def newest(self, stream: str) -> int:
        """Returns the newest batch of a stream in the table; −1 if there is none."""
        with iceberg_versions.catalog_errors(self._read_error):
            known, name = iceberg_versions.opened(self._name)
            if not known.table_exists(name):
                return -1
            properties = known.load_table(name).properties
            if properties.get(_STREAM, stream) != stream:
                raise another_s(self._name, f"the result of the stream {properties[_STREAM]}")
            return int(properties.get(_BATCH, -1))

    def _read_error(self, reason: str, where: str) -> CheckpointError:
        return CheckpointError(f"the Iceberg table {self._name} cannot be read ({reason}): fix that; {where}")

    def apply(self, stream: str, batch: int, net: Net, after: int | None = None) -> bool:
        """Applies a batch, once. Returns False if it was applied before."""

        def write_error(reason: str, where: str) -> CheckpointError:
            return CheckpointError(
                f"batch {batch} cannot be written to the Iceberg table {self._name} ({reason}): fix that, and start "
                f"again; {where}"
            )

        with iceberg_versions.catalog_errors(write_error):
            kept = net.rows.drop_columns([OP]) if net.keyed else net.rows
            table = self._opened(kept.schema)
            owner, newest = table.properties.get(_STREAM), int(table.properties.get(_BATCH, -1))
            if owner not in (None, stream):
                raise another_s(self._name, f"the result of the stream {owner}")
            if owner is None and table.current_snapshot() is not None:
                raise another_s(self._name, "an Iceberg table with rows that this stream has not written")
            demand_columns(f"the Iceberg table {self._name}", table.schema().fields, kept, "table")
            if not follows(self._name, newest, batch, after):
                return False
            deleted, fresh = self._changed(table, batch, net) if net.rows.num_rows else ([], None)
            self._commit(table, {_STREAM: stream, _BATCH: str(batch)}, deleted, fresh)
            return True

    def _changed(self, table: Table, batch: int, net: Net) -> tuple[list[Any], pa.Table]:
        """Returns the files that the batch replaces, and the rows that replace theirs. Raises ForeignRowsError if the
        batch does not fit the table.
        """
        schema = net.rows.select([field.name for field in table.schema().fields]).schema
        tasks = table.scan(row_filter=_bounds(net)).plan_files()
        found = rewritten(((task.file, _rows(table, task).cast(schema)) for task in tasks), net)
        if found is None:
            raise unfit(self._name, batch)
        return found

    def _commit(self, table: Table, properties: dict[str, str], deleted: list[Any], fresh: pa.Table | None) -> None:
        from pyiceberg.io.pyarrow import _dataframe_to_data_files

        with table.transaction() as transaction:
            transaction.set_properties(properties)
            if deleted or (fresh is not None and fresh.num_rows):
                made = _dataframe_to_data_files(table.metadata, fresh, table.io, uuid.uuid4())
                with transaction.update_snapshot().overwrite() as update:
                    for file in deleted:
                        update.delete_data_file(file)
                    for file in made if fresh is not None and fresh.num_rows else ():
                        update.append_data_file(file)

    def _opened(self, schema: pa.Schema) -> Table:
        known, name = iceberg_versions.opened(self._name)
        known.create_namespace_if_not_exists(name.rpartition(".")[0])
        return known.create_table_if_not_exists(name, schema)


def _bounds(net: Net) -> BooleanExpression:
    """Returns a condition that every row of the table that the batch can change meets."""
    from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, LessThanOrEqual

    found: BooleanExpression = AlwaysTrue()
    for name, low, high in ranges(net, (pa.types.is_integer, pa.types.is_string, pa.types.is_date)):
        ends = GreaterThanOrEqual(name, low.as_py()), LessThanOrEqual(name, high.as_py())  # type: ignore[call-arg, arg-type]
        found = And(found, And(*ends))
    return found


def _rows(table: Table, task: FileScanTask) -> pa.Table:
    """Returns all rows of a file, including those that the filter of a scan drops."""
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    task.residual = AlwaysTrue()
    return ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_table([task])
