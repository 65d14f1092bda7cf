"""Files of typed columns: Parquet and Arrow."""

from __future__ import annotations

import pyarrow as pa

from plans.files.formats import PARQUET
from plans.files.unpacked import Place
from plans.schema import Table


class Columnar:
    """The rows of one file. ``where``: its origin, for errors."""

    further = 0

    def __init__(self, data: bytes, format_: str, where: Place) -> None:
        self._data = data
        self._format = format_
        self._where = where

    def schema(self) -> pa.Schema:
        """Returns the columns. Raises FileError if the file is damaged. Cost: for Parquet, reading the end of the
        file."""
        return self._opened(True).schema

    def rows(self, table: Table, lines: bool = False) -> pa.Table:
        """Returns all rows, with all columns."""
        return self._opened(False)

    def _opened(self, empty: bool) -> pa.Table:
        try:
            table = self._table(empty)
            table.schema.names  # noqa: B018  raises if a name is not text
            table.validate(full=True)  # offsets of damaged columns point anywhere
        except (pa.ArrowException, OSError, ValueError):
            raise self._where.error(f"it is damaged or truncated, or not a file of {self._format}") from None
        return table

    def _table(self, empty: bool) -> pa.Table:
        if self._format == PARQUET:
            import pyarrow.parquet as pq  # loads file systems and their clients

            file = pq.ParquetFile(pa.BufferReader(self._data))
            return file.schema_arrow.empty_table() if empty else file.read()
        opened = pa.ipc.open_file if self._data.startswith(b"ARROW1") else pa.ipc.open_stream
        reader = opened(pa.BufferReader(self._data))
        return reader.schema.empty_table() if empty else reader.read_all()
