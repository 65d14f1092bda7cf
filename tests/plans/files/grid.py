"""Files of the same rows in every form (format, packing, header, quotes, ends of lines), and what DuckDB reads."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import io
import json
import zipfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from plans.schema import Schema, Table
from plans.types import arrow_type
from tests.oracles import duck

Row = tuple[Any, ...]
KINDS = {
    "i": "int64", "n": "int32", "f": "float64", "s": "string", "b": "bool", "d": "date", "t": "timestamp_ntz",
    "m": "decimal(30,5)",
}  # fmt: skip
TABLE: Table = Schema.of({"r": KINDS})["r"]
_SQL = {
    "int64": "BIGINT", "int32": "INTEGER", "float64": "DOUBLE", "string": "VARCHAR", "bool": "BOOLEAN", "date": "DATE",
    "timestamp_ntz": "TIMESTAMP", "decimal(30,5)": "DECIMAL(30,5)",
}  # fmt: skip

ROWS: list[Row] = [
    (1, 2, 0.5, "x", True, dt.date(2020, 2, 29), dt.datetime(2020, 1, 1, 12, 30), Decimal("1.25000")),
    (2**63 - 1, -(2**31), -1e300, "NA", False, dt.date(1, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), None),
    (-(2**63) + 1, None, None, "null", None, None, None, Decimal("12345678901234567890.12345")),
    (None, 0, 1e-300, "007", True, dt.date(9999, 12, 31), dt.datetime(2020, 1, 1), Decimal("-0.00001")),
    (0, 7, 3.0, "été ☃ 𝄞", False, None, None, Decimal("0.00000")),
]
TEXTS: list[Row] = [
    (3, 1, 1.5, 'say "x"', True, None, None, None),
    (4, 1, 1.5, "a,b;c\td|e", True, None, None, None),
    (5, 1, 1.5, "two\n\nlines", True, None, None, None),
    (6, 1, 1.5, " blanks around ", True, None, None, None),
    (7, 1, 1.5, "", True, None, None, None),
    (8, 1, 1.5, '""', True, None, None, None),
    (9, 1, 1.5, None, True, None, None, None),
]
"""Rows whose texts can only be written in quotes."""


def text_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def delimited(rows: list[Row], mark: str, quotes: str, header: bool, end: str) -> bytes:
    """Rows as text. `quotes`: "none", "needed" or "all"."""

    def field(value: Any) -> str:
        if value is None:
            return ""
        text = text_of(value)
        needed = text == "" or text != text.strip() or any(sign in text for sign in (mark, '"', "\n", "\r"))
        quoted = quotes == "all" or (quotes == "needed" and needed)
        return '"' + text.replace('"', '""') + '"' if quoted else text

    lines = [mark.join(KINDS)] if header else []
    lines += [mark.join(map(field, row)) for row in rows]
    return end.join([*lines, ""]).encode()


def json_lines(rows: list[Row], array: bool = False) -> bytes:
    def member(name: str, value: Any) -> str:
        plain = value is None or isinstance(value, (bool, int, float, Decimal))
        written = json.dumps(value) if plain and not isinstance(value, Decimal) else str(value) if plain else ""
        return f'"{name}": {written or json.dumps(str(value))}'

    objects = ["{" + ", ".join(member(n, v) for n, v in zip(KINDS, row, strict=True)) + "}" for row in rows]
    return ("[" + ",\n".join(objects) + "]" if array else "\n".join([*objects, ""])).encode()


def arrow_of(rows: list[Row], chunk: int = 2) -> pa.Table:
    """Rows in chunks of a few rows each."""
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in KINDS.items()])
    dicts = [dict(zip(KINDS, row, strict=True)) for row in rows]
    parts = [pa.RecordBatch.from_pylist(dicts[i : i + chunk], schema) for i in range(0, len(dicts), chunk)]
    return pa.Table.from_batches(parts, schema)


def parquet(rows: list[Row]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(arrow_of(rows), sink, row_group_size=2)
    return sink.getvalue()


def arrow_file(rows: list[Row], stream: bool) -> bytes:
    sink = io.BytesIO()
    table = arrow_of(rows)
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _zip(data: bytes) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__MACOSX/._inside", b"\x00\x05\x16\x07")
        archive.writestr("inside", data)
    return sink.getvalue()


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda data: bytes(pa.compress(data, "zstd", asbytes=True)),
    ".zip": _zip,
}


def duckdb_reads(path: Path, reader: str) -> list[Row]:
    """What DuckDB reads from a file that is not packed, with the types said."""
    columns = ", ".join(f"'{name}': '{_SQL[kind]}'" for name, kind in KINDS.items())
    with duck.connected() as cursor:
        options = reader.format(columns="{" + columns + "}")
        return cursor.sql(f"FROM {options.replace('PATH', str(path))}").fetchall()
