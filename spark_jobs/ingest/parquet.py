"""Parquet files that Arrow reads as Spark does: in the columns of a relation, without a job of Spark.

Alike are files whose columns have the type of the relation, or a narrower one. Spark reads a column that a file lacks
as NULL. It converts times that old versions of it have written in another calendar, which Arrow does not.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from plans.types import arrow_type
from spark_jobs.errors import SourceError

_OLD = {b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"}
_WITHOUT_ROWS = "put a Parquet file without rows in its place, if its rows are not to count"
_THROUGH_SPARK = "read the files through Spark: give the frame with a filter, such as frame.where('true')"


class ParquetRows:
    """The rows of a Parquet file. Raises :class:`SourceError` if it cannot be read."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self._file = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
        except FileNotFoundError:
            raise SourceError(f"{path} is gone: put it back, or {_WITHOUT_ROWS}") from None
        except (OSError, pa.ArrowException) as error:
            raise SourceError(
                f"{path} is no Parquet file that can be read ({_said(error)}): write it again, or {_WITHOUT_ROWS}"
            ) from None
        self._names = {name.lower(): name for name in reversed(self._file.schema_arrow.names)}

    @property
    def old(self) -> bool:
        """Returns True if its times may be in another calendar."""
        return bool(_OLD.intersection(self._file.metadata.metadata or ()))

    def type_of(self, column: str) -> pa.DataType | None:
        """Returns the type that a column has for Spark; None if the file lacks it."""
        name = self._names.get(column.lower())
        if name is None:
            return None
        columns = map(self._file.schema.column, range(len(self._file.schema)))
        physical = next((c.physical_type for c in columns if c.path == name), "")
        found: pa.DataType = self._file.schema_arrow.field(name).type
        return arrow_type("timestamp") if physical == "INT96" else found

    def table(self, wanted: pa.Schema) -> pa.Table:
        """Returns all rows, in columns of these names and types, which the file has."""
        names = [self._names[name.lower()] for name in wanted.names]
        return self._file.read(names).select(names).rename_columns(wanted.names).cast(wanted)

    def batches(self, wanted: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
        """Yields the rows, so many at a time, in columns of these names and types; those that the file lacks are NULL.

        Raises :class:`SourceError` for columns of types that Spark reads otherwise.
        """
        for field in wanted:
            self._demand(field)
        read = [self._names[name.lower()] for name in wanted.names if name.lower() in self._names]
        try:
            for batch in self._file.iter_batches(rows, columns=read):
                given = {name.lower(): batch.column(i) for i, name in enumerate(batch.schema.names)}
                columns = [_as(given.get(field.name.lower()), field.type, batch.num_rows) for field in wanted]
                yield pa.RecordBatch.from_arrays(columns, schema=wanted)
        except (OSError, pa.ArrowException) as error:
            raise SourceError(f"{self._path} cannot be read ({_said(error)}): put it back as it was") from None

    def _demand(self, field: pa.Field) -> None:
        given = self.type_of(field.name)
        if given is not None and not _widens(given, field.type):
            raise SourceError(
                f"{self._path}: column {field.name!r} has type {given}, and that of the relation is {field.type}: "
                f"write the file with that type, or {_THROUGH_SPARK}"
            )
        if given is not None and self.old and (pa.types.is_date(given) or pa.types.is_timestamp(given)):
            raise SourceError(
                f"{self._path}: column {field.name!r} was written by an old version of Spark, in another calendar: "
                f"{_THROUGH_SPARK}"
            )


def _said(error: Exception) -> str:
    return str(error).splitlines()[0][:200].rstrip(". ")


def _as(column: pa.Array | None, wanted: pa.DataType, rows: int) -> pa.Array:
    if column is None:
        return pa.nulls(rows, wanted)
    return column if column.type == wanted else column.cast(wanted)


def _widens(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Returns True if every value of a type is one of another type, and means the same."""
    if given == wanted:
        return True
    if pa.types.is_dictionary(given):
        return _widens(given.value_type, wanted)
    for of in (pa.types.is_signed_integer, pa.types.is_floating):
        if of(given) and of(wanted):
            return bool(given.bit_width <= wanted.bit_width)
    if pa.types.is_decimal(given) and pa.types.is_decimal(wanted):
        return bool(given.scale == wanted.scale and given.precision <= wanted.precision)
    texts, bytes_ = (pa.string(), pa.large_string(), pa.string_view()), (pa.binary(), pa.large_binary())
    return any(given in family and wanted in family for family in (texts, bytes_))
