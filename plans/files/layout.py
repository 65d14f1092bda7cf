"""Detects the layout of a text of rows: its delimiter, and whether it has a header.

The first line that is not a comment is a header if it names columns of the table. A list without a header, such as an
edge list, has the table's columns in their order; its first line must be a valid row of them. A text without lines has
no rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from plans.errors import FileError
from plans.files.formats import CSV, TSV
from plans.files.unpacked import Place
from plans.files.values import fits
from plans.schema import WEIGHT, Table

COMMENTS = (b"#", b"%")
BLANK = " "
_OF_CSV = (",", ";", "|")
_DELIMITERS = {CSV: (*_OF_CSV, "\t"), TSV: ("\t",)}
_ANY_DELIMITER = ("\t", *_OF_CSV, BLANK)
_SHOWN = 100


@dataclass(frozen=True)
class Layout:
    """`delimiter` separates two fields, `start` is where the rows begin, `names` are those of the fields in order.

    `header`: the names are in the file, else they are the table's. `further`: the number of fields of a list after the
    table's columns. `returns`: lines end with a single carriage return.
    """

    delimiter: str
    start: int
    names: tuple[str, ...]
    header: bool
    further: int = 0
    returns: bool = False


@dataclass(frozen=True)
class _Line:
    end: int
    returns: bool
    fields: tuple[str, ...]


@cache
def _field(delimiter: str, ends: bytes = rb"\r\n|\r|\n") -> bytes:
    """Returns the pattern of a field and its end. A quoted field begins and ends with a quote, and contains doubled
    quotes."""
    between = re.escape(delimiter.encode())
    blanks = b"[ ]*+" if delimiter != BLANK else b""
    quoted = rb'"[^"]*+(?:""[^"]*+)*+"'
    plain = rb"(?!" + blanks + rb'")[^' + between + rb"\r\n]*+"
    return rb"(" + quoted + rb"|" + plain + rb")(" + between + rb"|" + ends + rb"|\Z)"


@cache
def fields_of(delimiter: str, returns: bool) -> re.Pattern[bytes]:
    """Returns the pattern of all fields up to the first one that is not well-formed."""
    return re.compile(rb"(?:" + _field(delimiter, rb"\r" if returns else rb"\r?\n") + rb")*+")


def layout(data: bytes, format_: str, table: Table, where: Place, delimiter: str | None = None) -> Layout:
    """Returns the layout of a text of rows of a table. Raises FileError if its first line is neither a header nor a
    row.

    `where`: its origin. `delimiter`: the delimiter, if it is known. O(first line).
    """
    declared = {column.name.lower() for column in table.columns}
    begin, comments = _begin(data)
    lines = _lines(data, begin, _delimiters(format_, table) if delimiter is None else (delimiter,), where)
    for delimiter, line in lines.items():
        named = {name.lower() for name in line.fields}
        if declared <= named or (len(line.fields) > 1 and WEIGHT in named):
            return Layout(delimiter, line.end, line.fields, True, returns=line.returns)
    delimiter, line = _likely(lines)
    if declared & {name.lower() for name in line.fields}:
        return Layout(delimiter, line.end, line.fields, True, returns=line.returns)
    if begin == len(data):  # there are no rows
        return Layout(delimiter, begin, tuple(column.name for column in table.columns), False)
    above = _line(comments, 0, delimiter)
    if above is not None and declared <= {name.lower() for name in above.fields}:
        return Layout(delimiter, begin, above.fields, True, returns=line.returns)
    _check_row(line, table, has_header(format_, delimiter), where)
    names = tuple(column.name for column in table.columns)
    return Layout(delimiter, begin, names, False, len(line.fields) - len(names), line.returns)


def first_lines(data: bytes, format_: str, where: Place) -> Layout:
    """Returns the layout of a text without a known table, as if it had a header."""
    begin, _ = _begin(data)
    delimiter, line = _likely(_lines(data, begin, _DELIMITERS.get(format_, _ANY_DELIMITER), where))
    return Layout(delimiter, line.end, line.fields, True, returns=line.returns)


def _delimiters(format_: str, table: Table) -> Sequence[str]:
    """Returns the possible delimiters. A single column of texts may contain blanks."""
    words = len(table.columns) == 1 and table.columns[0].type == "string"
    return _DELIMITERS.get(format_) or (_ANY_DELIMITER[:-1] if words else _ANY_DELIMITER)


def has_header(format_: str, delimiter: str) -> bool:
    """Returns True for CSV and TSV, which have a header, or exactly the columns of the table; False for a list."""
    return format_ in (CSV, TSV) or delimiter in _OF_CSV


def _begin(data: bytes) -> tuple[int, bytes]:
    """Returns the beginning of the first line that is neither empty nor a comment, and the comment above it."""
    start, above = 0, b""
    for line in re.finditer(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)", data):
        text = line.group().strip()
        if text and not text.startswith(COMMENTS):
            break
        above = text.lstrip(b"#% ") if text else above
        start = line.end()
        if start == len(data):
            break
    return start, above


def _lines(data: bytes, start: int, delimiters: Sequence[str], where: Place) -> dict[str, _Line]:
    """Returns the line at a position for each delimiter with which it can be read. Raises FileError if there is
    none."""
    lines = {delimiter: _line(data, start, delimiter) for delimiter in delimiters}
    found = {delimiter: line for delimiter, line in lines.items() if line is not None}
    if not found:
        raise wrong_field(data, start, delimiters[0], where)
    return found


def _line(data: bytes, start: int, delimiter: str) -> _Line | None:
    """Returns the fields from a position to the end of their line, or None if a quote is misplaced."""
    field = re.compile(_field(delimiter))
    fields, place, end = [], start, delimiter.encode()
    while end == delimiter.encode():
        found = field.match(data, place)
        if found is None:
            return None
        fields.append(found[1])
        place, end = found.end(), found[2]
    texts = [_plain(one) for one in fields]
    return _Line(place, end == b"\r", tuple(text for text in texts if text or delimiter != BLANK))


def _plain(field: bytes) -> str:
    text = field.decode(errors="replace")
    return text[1:-1].replace('""', '"') if text.startswith('"') else text.strip()


def _likely(lines: Mapping[str, _Line]) -> tuple[str, _Line]:
    """Returns the first delimiter with which a line has several fields, and that line."""
    delimiter = next((delimiter for delimiter, line in lines.items() if len(line.fields) > 1), next(iter(lines)))
    return delimiter, lines[delimiter]


def _check_row(line: _Line, table: Table, strict: bool, where: Place) -> None:
    """Raises FileError unless a line without names of columns is a row of a table."""
    columns = ", ".join(column.name for column in table.columns)
    shown = repr(" ".join(line.fields)[:_SHOWN]) if len(line.fields) == 1 else repr(list(line.fields))[:_SHOWN]
    wanted = len(table.columns)
    if len(line.fields) < wanted:
        count = len(line.fields)
        raise where.error(
            f"the first line, {shown}, has {count} field{'s'[: count - 1]}, but relation {table.name!r} has the "
            f"columns {columns}; put a header with these names on top, or declare the columns that the file has"
        )
    typed = zip(line.fields, table.columns, strict=False)
    if not all(
        fits(pa.array([field or None], pa.string()), "float64" if column.rounded else column.type)
        for field, column in typed
    ):
        raise where.error(
            f"the first line, {shown}, neither names the columns {columns} of relation "
            f"{table.name!r} nor is a row of them; put a header on top, or fix the line"
        )
    if strict and (len(line.fields) > wanted or all(column.type == "string" for column in table.columns)):
        raise where.error(
            f"the first line, {shown}, is not a header; put one with the columns {columns} of "
            f"relation {table.name!r} on top, or declare a column for each of its fields"
        )


def wrong_field(data: bytes, position: int, delimiter: str, where: Place) -> FileError:
    """Returns the error about a field at which ``fields_of`` stops."""
    line = where.line(data, position)
    if re.compile(_field(delimiter)).match(data, position):
        return where.error(f"line {line} has another line ending than the first line; fix the line")
    return where.error(
        f"line {line}: quotes must enclose the whole field, and quotes inside it must be doubled; fix the line"
    )
