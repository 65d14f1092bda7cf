"""Text with a row per line: CSV, TSV, and lists without a header, such as edge lists.

Every value is read as text. Only an empty field without quotes is NULL: a text may be `NA`, or empty in quotes. The
type of a column is determined from all rows, not from the first ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.csv as pacsv

from plans.files.layout import BLANK, Layout, fields_of, first_lines, has_header, layout, wrong_field
from plans.files.unpacked import Place, checked_text
from plans.files.values import kind_of, wider
from plans.schema import WEIGHT, Table
from plans.types import arrow_type

UNREADABLE = "_unreadable"
"""A column that a reader adds: why a line could not be read, or NULL."""


class Unreadable(NamedTuple):
    """A line that could not be read: the reason, and the line."""

    why: str
    text: str


_RUNS = re.compile(rb"[ \t]{2,}|\t")
_EDGES = re.compile(rb"(?m)^ | $| (?=\r)")
_RETURN = re.compile(rb"\r(?!\n)")
_NO_RETURN = re.compile(rb"\n")
_BLOCK = 1 << 20
_LARGEST = (1 << 31) - 1


class Delimited:
    """The text of one file. ``where``: its origin, for errors."""

    def __init__(self, data: bytes, format_: str, where: Place) -> None:
        self._data = checked_text(data, where)
        self._format = format_
        self._where = where
        self.further = 0
        """The number of fields of each line that were ignored, because they follow the columns of the table."""
        self.unreadable: list[Unreadable] = []
        """The lines that ``rows(lines=True)`` could not read."""

    def kinds(self) -> dict[str, str | None] | None:
        """Returns the names in the header and the types of their columns; {} if the text is empty, and None if its
        first line is a row.

        A line is a header if one of its fields is not a number, and if it is not a valid row: some field is not a value
        of its column's type, or, in CSV and TSV, all columns are texts.
        """
        if not self._data.strip():
            return {}
        found = first_lines(self._data, self._format, self._where)
        first = [kind_of(pa.array([name or None], pa.string())) for name in found.names]
        if "string" not in first:
            return None
        strict = has_header(self._format, found.delimiter)
        unreadable: list[Unreadable] | None = None if strict else []
        rest = self._data[found.start :]
        rows = texts(rest, found, self._where.after(self._data, found.start), unreadable)
        if unreadable:  # its first line does not tell the number of columns
            return None
        kinds = [kind_of(column) for column in rows.columns]
        if set(kinds) <= {"string", None}:
            header = strict and set(first) <= {"string", None}
        else:
            told = zip(kinds, first, strict=True)
            header = any(kind is not None and wider(kind, name) != kind for kind, name in told)
        return {name: kind for name, kind in zip(found.names, kinds, strict=True) if name} if header else None

    def rows(self, table: Table, lines: bool = False) -> pa.Table:
        """Returns the rows as texts, with the names of the header, or those of the table.

        Raises FileError for a line with another number of fields than the first. If ``lines`` are wanted, such lines
        follow the other rows instead, with the error in the column ``_unreadable``.
        """
        found = layout(self._data, self._format, table, self._where)
        self.further = found.further
        self.unreadable = []
        rest, where = self._data[found.start :], self._where.after(self._data, found.start)
        wrong = self.unreadable if lines else None
        return with_unreadable(texts(rest, found, where, wrong, _whole_numbers(rest, found, table)), self.unreadable)


def with_unreadable(rows: pa.Table, lines: Sequence[Unreadable]) -> pa.Table:
    """Returns rows, followed by lines that could not be read, if there are any."""
    if not lines:
        return rows
    rows = rows.cast(pa.schema([(name, pa.string()) for name in rows.column_names]))
    rows = rows.append_column(UNREADABLE, pa.nulls(rows.num_rows, pa.string()))
    return pa.concat_tables([rows, pa.Table.from_pylist([{UNREADABLE: line.why} for line in lines], rows.schema)])


def _whole_numbers(data: bytes, found: Layout, table: Table) -> dict[str, pa.DataType]:
    """Returns the columns that may be read directly as integers, by position. Arrow accepts `0x1F` as an integer."""
    if b"x" in data or b"X" in data:
        return {}
    kinds = {column.name.lower(): column.type for column in table.columns} | {WEIGHT: "int64"}
    own = {str(i): kinds.get(name.lower(), "") for i, name in enumerate(found.names)}
    return {place: arrow_type(kind) for place, kind in own.items() if kind in ("int32", "int64")}


def texts(
    data: bytes,
    found: Layout,
    where: Place,
    unreadable: list[Unreadable] | None = None,
    whole: Mapping[str, pa.DataType] | None = None,
) -> pa.Table:
    """Returns the rows of a text behind its header as texts, or columns of ``whole`` numbers as such if all of their
    values are. Errors of lines with another number of fields are appended to ``unreadable``; without it, such a line
    raises FileError. O(bytes)."""
    quotes = b'"' in data
    if not data.endswith((b"\n", b"\r")):  # otherwise Arrow reads a last NULL field as text
        data += b"\r" if found.returns else b"\n"
    _check(data, found, where)
    if found.delimiter == BLANK and not quotes:
        data = _EDGES.sub(b"", _RUNS.sub(b" ", data))
    width = len(found.names) + found.further
    columns = [str(i) for i in range(width)]
    wrong: list[Unreadable] = []

    def note(row: pacsv.InvalidRow) -> str:
        why = f"the line has {row.actual_columns} fields instead of {width}: {row.text[:200]!r}"
        wrong.append(Unreadable(why, row.text))
        return "skip"

    def read(types: Mapping[str, pa.DataType], block: int) -> pa.Table:
        wrong.clear()
        return pacsv.read_csv(
            pa.BufferReader(data),
            pacsv.ReadOptions(column_names=columns, block_size=block),
            pacsv.ParseOptions(
                delimiter=found.delimiter,
                quote_char='"' if quotes else False,
                newlines_in_values=quotes,
                ignore_empty_lines=width > 1,
                invalid_row_handler=note,
            ),
            pacsv.ConvertOptions(
                column_types={**dict.fromkeys(columns, pa.string()), **types},
                include_columns=columns[: len(found.names)],
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    table = pa.table({name: pa.array([], pa.string()) for name in columns[: len(found.names)]})
    ways = [(whole, _BLOCK)] if whole else []
    ways += [({}, _BLOCK), ({}, min(len(data) + 1, _LARGEST))]  # the last for a value that is longer than a block
    while ways and data.strip(b"\r\n" if width > 1 else b""):
        try:
            table, ways = read(*ways.pop(0)), []
        except pa.ArrowException as error:
            if not ways:
                raise where.error(str(error).splitlines()[0]) from None
    if unreadable is not None:
        unreadable += wrong
    elif wrong:
        raise where.error(f"{wrong[0].why} ({len(wrong)} such lines); fix the file")
    return table.rename_columns(list(found.names))


def _check(data: bytes, found: Layout, where: Place) -> None:
    """Raises FileError at the first quoted value that is not closed, or is followed by text, and at the first line with
    another line end than the first line."""
    if b'"' not in data and not (_NO_RETURN if found.returns else _RETURN).search(data):
        return
    end = fields_of(found.delimiter, found.returns).match(data).end()  # type: ignore[union-attr]
    if end < len(data):
        raise wrong_field(data, end, found.delimiter, where)
