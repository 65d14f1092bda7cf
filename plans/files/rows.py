"""A file of rows, or a folder of such files: its columns, and its rows as an Arrow table.

All readers of row files use this module: inputs of `crown run` and `crown submit`, and samples of the planner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePath

import pyarrow as pa

from plans.errors import FileError
from plans.files.delimited import UNREADABLE, Delimited, Unreadable
from plans.files.formats import ARROW, JSON, PARQUET
from plans.files.json_rows import JsonRows
from plans.files.unpacked import Place, contents, unpacked, unreadable
from plans.files.values import parsed, planned, wider
from plans.nested import is_nested
from plans.schema import CHANGE_COLUMNS, WEIGHT, Table
from plans.types import arrow_type, why_untyped


class NoColumnsError(FileError):
    """A file does not say which columns its rows have."""


class Columnar:
    """The rows of one file. ``where``: its origin, for errors."""

    further = 0
    unreadable: Sequence[Unreadable] = ()

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


Content = Columnar | Delimited | JsonRows


class RowsFile:
    """The rows at a path: a file, or all files of a folder in the order of their names, without those that begin with a
    dot or `_`. Each file is read once, and kept in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @cached_property
    def _parts(self) -> dict[Path, Content]:
        return {path: content(*contents(path), Place(path)) for path in files_of(self._path)}

    def columns(self) -> pa.Schema:
        """Returns the columns except those that describe changes. Their types are those of Parquet and Arrow files; in
        other files they are inferred from all values. A column without values has the type null.

        Raises NoColumnsError if a file has no names of columns, or no rows. Raises FileError if a file cannot be read.
        """
        found: dict[str, pa.DataType] = {}
        kinds: dict[str, str | None] = {}
        schemas = []
        for path, part in self._parts.items():
            if isinstance(part, Columnar):
                schemas.append(part.schema())
                continue
            own = part.kinds()
            if own is None:
                raise self._no_columns(path, "its first line does not name them")
            for name, kind in own.items():
                kinds[name] = wider(kinds.get(name), kind)
        for schema in schemas:
            for field in schema:
                found[field.name] = self._common(field.name, found.get(field.name, field.type), field.type)
        for name, kind in kinds.items():
            type_ = pa.null() if kind is None else arrow_type(planned(kind))
            found[name] = self._common(name, found.get(name, type_), type_)
        fields = {name: type_ for name, type_ in found.items() if name.lower() not in CHANGE_COLUMNS}
        if not fields:
            raise self._no_columns(self._path, "it has no rows")
        return pa.schema(list(fields.items()))

    def _no_columns(self, path: Path, why: str) -> NoColumnsError:
        return NoColumnsError(f"the columns cannot be read from {path}: {why}")

    def _common(self, name: str, one: pa.DataType, other: pa.DataType) -> pa.DataType:
        if one == other:
            return one
        try:
            fields = [pa.schema([(name, _decoded(type_))]) for type_ in (one, other)]
            return pa.unify_schemas(fields, promote_options="permissive").field(0).type
        except (pa.ArrowException, TypeError):
            reason = f"column {name!r} is {one} in one file and {other} in another"
            raise FileError(f"cannot read {self._path}: {reason}; declare the relation") from None

    def rows(self, table: Table, lines: bool = False) -> pa.Table:
        """Returns the rows in order, for a relation. A column has its declared type if all of its values are valid;
        otherwise its values are texts, which are checked row by row later.

        Raises FileError if a file cannot be read, or has other columns than the others. ``lines``: see
        ``plans.files.delimited.Delimited.rows``.
        """
        parts = {path: part.rows(table, lines) for path, part in self._parts.items()}
        read = {path: rows for path, rows in parts.items() if rows.num_rows} or parts  # an empty file has no columns
        return typed(self._together(read, table), table)

    def _together(self, read: Mapping[Path, pa.Table], table: Table) -> pa.Table:
        if len(read) == 1:
            return next(iter(read.values()))
        declared = {column.name.lower() for column in table.columns}
        first = next(iter(read))
        for path, rows in read.items():
            if isinstance(self._parts[path], JsonRows):  # its rows may lack members
                continue
            for name in sorted(set(rows.column_names) ^ set(read[first].column_names)):
                if (name.lower() in declared or name.startswith("_")) and name != UNREADABLE:
                    one, other = (first, path) if name in read[first].column_names else (path, first)
                    raise FileError(
                        f"cannot read {self._path}: {one.name} has a column {name!r}, but {other.name} has none: give "
                        "all files of a folder the same columns"
                    )
        try:
            return pa.concat_tables(read.values(), promote_options="default")
        except (pa.ArrowException, TypeError):
            pass  # one has numbers where another has texts
        try:
            return pa.concat_tables([_as_texts(rows) for rows in read.values()], promote_options="permissive")
        except (pa.ArrowException, TypeError):
            reason = "its files have different types for one column"
            raise FileError(f"cannot read {self._path}: {reason}") from None

    @property
    def notes(self) -> list[str]:
        """Returns notes on the rows that were read: which fields of a list were ignored."""
        further = {path: part.further for path, part in self._parts.items() if part.further > 0}
        return [
            f"{path}: {n} further {'field' if n == 1 else 'fields'} of each line {'is' if n == 1 else 'are'} ignored"
            for path, n in further.items()
        ]


def files_of(path: Path) -> Sequence[Path]:
    """Returns the data files of a folder in order of name, or the file itself. Raises FileError if there are none."""
    if not path.is_dir():
        return [path]
    try:
        inside = sorted(file for file in path.iterdir() if file.name[0] not in "._")
    except OSError as error:
        raise unreadable(path, error) from None
    folders = [file.name for file in inside if file.is_dir()]
    if folders:
        raise FileError(f"cannot read {path}: there is a folder in it, {folders[0]}; name a folder of files")
    if not inside:
        raise FileError(f"cannot read {path}: the folder is empty")
    return inside


def content(format_: str, data: bytes, where: Place) -> Content:
    """Returns the content of a file of a format. ``where``: its origin, for errors."""
    if format_ in (PARQUET, ARROW):
        return Columnar(data, format_, where)
    return JsonRows(data, where) if format_ == JSON else Delimited(data, format_, where)


def rows_of(data: bytes, where: str, table: Table) -> pa.Table:
    """Returns the rows of a file with these bytes, for a relation. See ``RowsFile.rows``."""
    return typed(content(*unpacked(data, PurePath(where)), Place(where)).rows(table), table)


def typed(rows: pa.Table, table: Table) -> pa.Table:
    """Returns the rows with declared types in place of texts, for columns in which all values are valid. O(n)."""
    for i, field in enumerate(rows.schema):
        column = None if field.name.lower() == WEIGHT else table.column(field.name)
        kind = "int64" if field.name == WEIGHT else None if column is None else column.type
        read = kind is not None and why_untyped(kind) is None and not is_nested(kind)  # nested values are JSON texts
        if kind is not None and read and pa.types.is_string(field.type):
            try:
                rows = rows.set_column(i, field.name, parsed(rows.column(i), arrow_type(kind)))
            except pa.ArrowInvalid:
                continue
    return rows


def _decoded(type_: pa.DataType) -> pa.DataType:
    """Returns the type of values that may be in a dictionary. All text types are one type."""
    type_ = type_.value_type if pa.types.is_dictionary(type_) else type_
    return pa.string() if type_ in (pa.large_string(), pa.string_view()) else type_


def _as_texts(rows: pa.Table) -> pa.Table:
    """Returns rows whose numbers and booleans are texts."""
    kinds = {field.name: _decoded(field.type) for field in rows.schema}
    loose = {name: pa.string() if pa.types.is_primitive(kind) else kind for name, kind in kinds.items()}
    return rows.cast(pa.schema(list(loose.items())))
