"""Reads Parquet files with Arrow as Spark would read them: in the columns of a relation, without a Spark job.

The results are equal for files whose columns have the type of the relation, or a narrower one. Spark reads a column
that a file lacks as NULL. Spark converts times that its old versions have written in another calendar; Arrow does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from plans.types import arrow_type
from spark_jobs.errors import SourceError
from spark_jobs.ingest.value_ranges import ValueRange

_OLD = {b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"}
_WITHOUT_ROWS = "put a Parquet file without rows in its place, if its rows must not count"
_THROUGH_SPARK = "read the files through Spark: give the frame with a filter, such as frame.where('true')"


class ParquetRows:
    """The rows of a Parquet file. Raises :class:`SourceError` if it cannot be read."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self._file = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
        except FileNotFoundError:
            raise SourceError(f"{path} is missing: restore it, or {_WITHOUT_ROWS}") from None
        except (OSError, pa.ArrowException) as error:
            raise SourceError(
                f"{path} is not a readable Parquet file ({_reason(error)}): write it again, or {_WITHOUT_ROWS}"
            ) from None
        self._names = {name.lower(): name for name in reversed(self._file.schema_arrow.names)}

    @property
    def old(self) -> bool:
        """Returns True if the times in the file may be in another calendar."""
        return bool(_OLD.intersection(self._file.metadata.metadata or ()))

    def type_of(self, column: str) -> pa.DataType | None:
        """Returns the type of a column as Spark reads it; None if the file lacks the column."""
        name = self._names.get(column.lower())
        if name is None:
            return None
        columns = map(self._file.schema.column, range(len(self._file.schema)))
        physical = next((c.physical_type for c in columns if c.path == name), "")
        found: pa.DataType = self._file.schema_arrow.field(name).type
        return arrow_type("timestamp") if physical == "INT96" else found

    def table(self, wanted: pa.Schema) -> pa.Table:
        """Returns all rows, in columns of these names and types. The file must have all of them."""
        names = [self._names[name.lower()] for name in wanted.names]
        return self._file.read(names).select(names).rename_columns(wanted.names).cast(wanted)

    @property
    def rows(self) -> int:
        """Returns the number of rows of the file."""
        return int(self._file.metadata.num_rows)

    def batches(
        self, wanted: pa.Schema, rows: int, reads: Callable[[Mapping[str, ValueRange]], bool] = lambda _: True
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows in batches of ``rows``, in columns of these names and types; columns that the file lacks are
        NULL.

        ``reads``: decides whether a row group is read, given the statistics of its columns by name in lower case.
        Raises :class:`SourceError` for columns of types that Spark reads differently.
        """
        for field in wanted:
            self._demand(field)
        read = [self._names[name.lower()] for name in wanted.names if name.lower() in self._names]
        groups = [group for group in range(self._file.num_row_groups) if reads(self._ranges(group, wanted))]
        try:
            for batch in self._file.iter_batches(rows, row_groups=groups, columns=read):
                given = {name.lower(): batch.column(i) for i, name in enumerate(batch.schema.names)}
                columns = [_as(given.get(field.name.lower()), field.type, batch.num_rows) for field in wanted]
                yield pa.RecordBatch.from_arrays(columns, schema=wanted)
        except (OSError, pa.ArrowException) as error:
            raise SourceError(f"{self._path} cannot be read ({_reason(error)}): restore the original file") from None

    def _ranges(self, group: int, wanted: pa.Schema) -> dict[str, ValueRange]:
        """Returns the statistics of a row group, by column in lower case."""
        chunk = self._file.metadata.row_group(group)
        places = {chunk.column(i).path_in_schema: i for i in range(chunk.num_columns)}
        found = {}
        for name in map(str.lower, wanted.names):
            place = places.get(self._names.get(name))
            if name not in self._names:
                found[name] = ValueRange(None, None, chunk.num_rows)
            elif place is not None and chunk.column(place).is_stats_set:
                stats = chunk.column(place).statistics
                least, greatest = (stats.min_raw, stats.max_raw) if stats.has_min_max else (None, None)
                found[name] = ValueRange(least, greatest, stats.null_count if stats.has_null_count else None)
        return found

    def _demand(self, field: pa.Field) -> None:
        given = self.type_of(field.name)
        if given is not None and not _widens(given, field.type):
            raise SourceError(
                f"{self._path}: column {field.name!r} has type {given}, but the relation declares {field.type}: write "
                f"the file with that type, or {_THROUGH_SPARK}"
            )
        if given is not None and self.old and (pa.types.is_date(given) or pa.types.is_timestamp(given)):
            raise SourceError(
                f"{self._path}: column {field.name!r} was written by an old version of Spark, in another calendar: "
                f"{_THROUGH_SPARK}"
            )


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0][:200].rstrip(". ")


def _as(column: pa.Array | None, wanted: pa.DataType, rows: int) -> pa.Array:
    if column is None:
        return pa.nulls(rows, wanted)
    return column if column.type == wanted else column.cast(wanted)


def _widens(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Returns True if every value of type ``given`` is a value of type ``wanted`` with the same meaning."""
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
