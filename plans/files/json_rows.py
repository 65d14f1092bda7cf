"""JSON: an object per row, one after the other as in JSON lines, or in a single array.

Values are read exactly: decimals and large numbers keep all digits, texts stay texts, and a nested object or list is a
text of JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson

from plans.errors import FileError
from plans.files.delimited import Unreadable, with_unreadable
from plans.files.unpacked import Place, checked_text
from plans.files.values import fits, kind_of, whole_kind, wider
from plans.schema import Table
from plans.types import why_untyped

_WHOLE = 10**40
_EXACT = 2**53
_BLANKS = re.compile(r"[ \t\r\n]*")
_END = "\n"
_BLANK = " \t\r"
_HALF = "a text in it has half of a surrogate pair (\\ud800)"
_SHOWN = 60


@dataclass
class _Member:
    """The values of one member in all rows as texts, their types, and the range of integers."""

    texts: list[str | None] = field(default_factory=list)
    types: set[type] = field(default_factory=set)
    low: int = 0
    high: int = 0

    def put(self, row: int, value: Any) -> None:
        self.texts += [None] * (row + 1 - len(self.texts))
        self.texts[row] = _text(value)
        if value is not None:
            self.types.add(type(value))
        if type(value) is int:
            self.low, self.high = min(self.low, value), max(self.high, value)

    def kind(self, texts: pa.Array) -> str | None:
        if not self.types:
            return None
        if self.types == {str}:
            return kind_of(texts, times_only=True)
        if self.types == {bool}:
            return "bool"
        if not self.types <= {int, float, Decimal}:
            return "string"
        whole = whole_kind(self.low, self.high) if int in self.types else None
        found = wider(whole, "float64" if self.types - {int} else None)
        return found if found is not None and fits(texts, found) else "string"


class JsonRows:
    """The rows of one text. ``where``: its origin, for errors."""

    further = 0

    def __init__(self, data: bytes, where: Place) -> None:
        self._data = checked_text(data, where)
        self._where = where
        self.unreadable: list[Unreadable] = []
        """The lines that ``rows(lines=True)`` could not read."""

    def kinds(self) -> dict[str, str | None]:
        """Returns the members of the rows and the types of their values."""
        read = self._arrow
        if read is not None and all(map(_as_written, read.columns)):
            return {name: _kind(read.column(name)) for name in read.column_names}
        table, members = self._texts
        return {name: member.kind(table.column(name)) for name, member in members.items()}

    def rows(self, table: Table, lines: bool = False) -> pa.Table:
        """Returns the rows: as Arrow reads them if this keeps the values of the table's columns, else as texts.

        Raises FileError for a row that is not an object. If ``lines`` are wanted, and the text is one of JSON lines,
        the lines that are not exactly one object follow the other rows instead, as in ``Delimited.rows``.
        """
        self.unreadable = []
        kinds = {column.name.lower(): column.type for column in table.columns if why_untyped(column.type) is None}
        read = self._arrow
        if read is not None and all(_keeps(field.type, kinds.get(field.name.lower())) for field in read.schema):
            return read
        try:
            return self._texts[0]
        except FileError:
            if not lines or self._data.lstrip()[:1] == b"[":
                raise
        return with_unreadable(self._lines(table), self.unreadable)

    @cached_property
    def _arrow(self) -> pa.Table | None:
        """Returns the rows as Arrow reads them, without the times that it finds in texts; None if Arrow cannot read
        them."""
        if not self._data.strip():
            return pa.table({})
        read = self._read({})
        times = {} if read is None else {f.name: pa.string() for f in read.schema if pa.types.is_timestamp(f.type)}
        if read is not None and times:
            again = self._read(times)  # these columns come first then
            read = None if again is None else again.select(read.column_names)
        return read if read is not None and read.num_columns else None

    def _read(self, strings: dict[str, pa.DataType]) -> pa.Table | None:
        options = pajson.ParseOptions(explicit_schema=pa.schema(strings), unexpected_field_behavior="infer")
        try:
            return pajson.read_json(pa.BufferReader(self._data), parse_options=options)
        except pa.ArrowException:
            return None

    @cached_property
    def _texts(self) -> tuple[pa.Table, dict[str, _Member]]:
        """Returns the rows as texts, read one by one. The text allows any value to be checked."""
        members: dict[str, _Member] = {}
        count = 0
        for number, (line, row) in enumerate(self._objects()):
            if not isinstance(row, dict):
                raise self._where.error(f"line {line} has a row that is not a JSON object: {_json(row)[:_SHOWN]}")
            for name, value in row.items():
                members.setdefault(name, _Member()).put(number, value)
            count = number + 1
        if count and not members:
            raise self._where.error("its rows have no columns")
        try:
            return _table(members, count), members
        except UnicodeEncodeError:
            raise self._where.error(_HALF) from None

    def _lines(self, table: Table) -> pa.Table:
        """Returns the rows of JSON lines as texts. Every line is read by itself. Those that are not exactly one object
        with a column of the table are in ``unreadable``: they may be parts of an object."""
        members: dict[str, _Member] = {}
        known = {column.name.lower() for column in table.columns}
        count = 0
        for number, text in enumerate(self._data.decode().split(_END), self._where.first):
            if not text.strip(_BLANK):
                continue
            try:
                row = _DECODER.decode(text)
                _json(row).encode()
                why = None if isinstance(row, dict) else "is not a JSON object"
                if why is None and not any(name.lower() in known for name in row):
                    why = "has none of the columns"
            except UnicodeEncodeError:
                why = f"cannot be read: {_HALF}"
            except json.JSONDecodeError:
                why = "is not exactly one JSON object"
            except RecursionError:
                why = "is nested too deeply"
            except ValueError as error:
                why = str(error)
            if why is not None:
                self.unreadable.append(Unreadable(f"line {number} {why}: {text[:_SHOWN]}", text))
                continue
            for name, value in row.items():
                members.setdefault(name, _Member()).put(count, value)
            count += 1
        return _table(members, count)

    def _objects(self) -> Iterator[tuple[int, Any]]:
        """Yields all values of the text, or of an array, each with the line in which the value, or the array,
        begins."""
        text = self._data.decode()
        place = _BLANKS.match(text, 0).end()  # type: ignore[union-attr]
        line, seen = self._where.first, 0
        is_array = text[place : place + 1] == "["
        while place < len(text):
            try:
                value, end = _DECODER.raw_decode(text, place)
            except RecursionError:
                raise self._where.error("it is nested too deeply") from None
            except ValueError as error:
                place = error.pos if isinstance(error, json.JSONDecodeError) else place
                why = "is not JSON, or is truncated" if isinstance(error, json.JSONDecodeError) else str(error)
                raise self._where.error(f"line {line + text.count(_END, seen, place)} {why}") from None
            line, seen = line + text.count(_END, seen, place), place
            yield from ((line, row) for row in (value if is_array else (value,)))
            is_array = False
            place = _BLANKS.match(text, end).end()  # type: ignore[union-attr]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, _ in pairs if [other for other, _ in pairs].count(name) > 1)
        raise ValueError(f"has the member {twice!r} twice in one object")
    return found


_DECODER = json.JSONDecoder(parse_float=Decimal, object_pairs_hook=_object)


def _table(members: dict[str, _Member], count: int) -> pa.Table:
    """Returns that many rows as texts. Raises UnicodeEncodeError for a text that is not Unicode."""
    return pa.table(
        {
            name: pa.array([*member.texts, *[None] * (count - len(member.texts))], pa.string())
            for name, member in members.items()
        }
    )


def _text(value: Any) -> str | None:
    """Returns a JSON value as a text that can be parsed to the same value."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Decimal) and value == value.to_integral_value() and abs(value) < _WHOLE:
        return str(int(value))
    return _json(value)


def _json(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_json(name)}: {_json(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_json, value)) + "]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def _as_written(column: pa.ChunkedArray) -> bool:
    """Returns True if Arrow's values are those of the text. It converts large numbers to doubles."""
    kinds = pa.types
    if kinds.is_floating(column.type):
        return bool(pc.all(pc.less(pc.abs(column), _EXACT), min_count=0).as_py())
    return any(of(column.type) for of in (kinds.is_int64, kinds.is_boolean, kinds.is_string, kinds.is_null))


def _kind(column: pa.ChunkedArray) -> str | None:
    if not len(column) - column.null_count:
        return None
    if pa.types.is_int64(column.type):
        extent = pc.min_max(column)
        return whole_kind(extent["min"].as_py(), extent["max"].as_py())
    if pa.types.is_string(column.type):
        return kind_of(column, times_only=True)
    return "bool" if pa.types.is_boolean(column.type) else "float64"


def _keeps(given: pa.DataType, kind: str | None) -> bool:
    """Returns True if Arrow's values are those of the text, for a column of a type."""
    kinds = pa.types
    if kind is None or kinds.is_string(given) or kinds.is_null(given):
        return True
    if kinds.is_int64(given):
        return kind in ("int32", "int64", "float64") or kind.startswith("decimal")
    return (kinds.is_boolean(given) and kind == "bool") or (kinds.is_floating(given) and kind == "float64")
