"""Change files for the embedded engine: one file per relation, read whole, handed over in batches.

A file is Parquet, CSV with a header, JSON lines, or (any other name, ``.gz``, ``.zip``) an edge list; ``-`` is standard
input, JSON lines or CSV, a line per row. Its columns are the relation's, with ``_weight`` for changes that are not all
inserts. Batch ``k`` takes rows ``k*n .. (k+1)*n`` of every file; those of standard input are read when the batch before
is done, so a stream may go on for ever. A window slides over files without ``_weight``, in the order of their rows.
"""

from __future__ import annotations

import json
import sys
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq

from crown.errors import ChangeError
from crown.ingest.changes import WEIGHT
from crown.ingest.streams import edge_lists, window
from plans.schema import Table

STANDARD_INPUT = "-"
_WHOLE = 10**40


def read(path: Path, table: Table) -> pa.Table:
    """Reads one change file, in the order of its rows.

    ChangeError if it cannot be read. Text columns stay text where they do not parse: rows are checked later.
    """
    suffix = path.suffix.lower()
    try:
        if str(path) == STANDARD_INPUT:
            return _standard_input(table)
        if suffix == ".parquet":
            return pq.read_table(path)
        if suffix == ".csv":
            return _csv(pa.py_buffer(path.read_bytes()))
        if suffix in (".json", ".jsonl", ".ndjson"):
            return _json(path.read_bytes(), table)
    except (OSError, ValueError, RecursionError, pa.ArrowException) as error:
        raise ChangeError(f"cannot read {path}: {error}") from None
    rows = edge_lists.read(path, table)
    if edge_lists.UNREADABLE in rows.column_names:
        reasons = rows.column(edge_lists.UNREADABLE).drop_null()
        if len(reasons):
            raise ChangeError(f"{path}: {reasons[0].as_py()} ({len(reasons)} such lines); mend the file")
        rows = rows.drop_columns([edge_lists.UNREADABLE])
    return rows


def _csv(data: pa.Buffer) -> pa.Table:
    """Reads CSV as text: whether a value fits its declared type is decided row by row, not guessed from the first.

    Nothing between two commas is NULL, and nothing else is: a text may be ``NA``, or empty in quotes.
    """
    names = pacsv.open_csv(pa.BufferReader(data)).schema.names
    convert = pacsv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    return pacsv.read_csv(pa.BufferReader(data), convert_options=convert)


def _json(data: bytes, table: Table) -> pa.Table:
    """Reads JSON lines as Arrow does; as text, to be decided row by row as CSV is, where Arrow takes values for others
    than the declared ones, and so would change some, or finds no rows of one shape.

    Raises ValueError for a line that is no object.
    """
    data = data.removeprefix(BOM_UTF8)
    kinds = {column.name.lower(): column.type for column in table.columns}
    try:
        rows = pajson.read_json(pa.BufferReader(data)) if data.strip() else pa.table({})
        if all(_keeps(field.type, kinds.get(field.name.lower())) for field in rows.schema) and rows.num_columns:
            return rows
    except pa.ArrowException:
        pass
    values: dict[str, list[str | None]] = {}
    lines = [line for line in data.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        row = json.loads(line, parse_float=Decimal)
        if not isinstance(row, dict):
            raise ValueError(f"row {number + 1} is no JSON object: {line[:60].decode('utf-8', 'backslashreplace')}")
        for name, value in row.items():
            column = values.setdefault(name, [])
            column += [None] * (number + 1 - len(column))
            column[number] = _text(value)
    if lines and not values:
        raise ValueError("its rows have no columns")
    every = {name: [*column, *[None] * (len(lines) - len(column))] for name, column in values.items()}
    return pa.table({name: pa.array(column, pa.string()) for name, column in every.items()})


def _keeps(given: pa.DataType, kind: str | None) -> bool:
    """Returns True if what Arrow has made of values of JSON still is what they were, for a column of a type."""
    if kind is None or pa.types.is_string(given) or pa.types.is_null(given) or pa.types.is_integer(given):
        return True
    if pa.types.is_timestamp(given):
        return kind in ("date", "timestamp", "timestamp_ntz")
    return kind == "float64" if pa.types.is_floating(given) else True


def _text(value: Any) -> str | None:
    """Returns a value of JSON as a text from which it can be read again."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Decimal) and value.is_finite():
        return str(int(value)) if value == value.to_integral_value() and abs(value) < _WHOLE else str(value)
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


def _standard_input(table: Table) -> pa.Table:
    """Reads JSON lines, if the first character is a brace or a bracket, else CSV with a header."""
    data = _standard_stream().read()
    return _parsed(data, _is_json(data), table)


def _standard_stream() -> BinaryIO:
    if sys.stdin is None:  # the shell has closed it
        raise ChangeError("cannot read standard input: it is closed; give a file, or a stream behind a pipe")
    return sys.stdin.buffer


def piped(batch_rows: int, table: Table) -> Iterator[pa.Table]:
    """Yields standard input in tables of so many lines, each as soon as its lines are there.

    ChangeError for lines that cannot be read.
    """
    lines = (line for line in _standard_stream() if line.strip())
    first = next(lines, b"")
    is_json = _is_json(first)
    head, taken = (b"", [first]) if is_json else (first, [])
    number = 1
    while taken := [*taken, *islice(lines, batch_rows - len(taken))]:
        try:
            yield _parsed(head + b"".join(taken), is_json, table)
        except (ValueError, RecursionError, pa.ArrowException) as error:
            last = number + len(taken) - 1
            raise ChangeError(f"cannot read standard input, rows {number} to {last}: {error}") from None
        number, taken = number + len(taken), []


def _is_json(data: bytes) -> bool:
    return data.removeprefix(BOM_UTF8).lstrip()[:1] in (b"{", b"[")


def _parsed(data: bytes, is_json: bool, table: Table) -> pa.Table:
    return _json(data, table) if is_json else _csv(pa.py_buffer(data))


def columns_of(path: Path) -> pa.Schema | None:
    """Returns the columns of a change file but ``_weight``, of CSV and JSON lines as Arrow guesses them; None if it has
    none of its own.

    ChangeError if it cannot be read. Cost: the head of the file; JSON lines are read whole.
    """
    suffix = path.suffix.lower()
    if str(path) == STANDARD_INPUT:
        return None
    if not path.exists():
        raise ChangeError(f"cannot read {path}: there is no such file")
    try:
        if suffix == ".parquet":
            found = pq.read_schema(path)
        elif suffix == ".csv":
            found = pacsv.open_csv(path).schema
        elif suffix in (".json", ".jsonl", ".ndjson"):
            found = pajson.read_json(path).schema
        else:
            return None
    except (OSError, pa.ArrowException) as error:
        raise ChangeError(f"cannot read {path}: {error}") from None
    return pa.schema([column for column in found if column.name.lower() != WEIGHT])


def batches(
    files: Mapping[str, pa.Table | Iterator[pa.Table]], batch_rows: int, span: str | None
) -> Iterator[dict[str, pa.Table]]:
    """Yields batches of all files in step; what is an iterator has its batches already, and no window.

    ``span``: window over the rows of each (a number, or a fraction); None: no window.

    Raises ChangeError or WindowError at once, before the first batch, if the numbers make no sense or a window was
    asked for over a file that has deletes of its own.
    """
    if batch_rows < 1:
        raise ChangeError(f"a batch of {batch_rows} rows: give 1 or more")
    if span is None:
        return _in_step(
            {name: _sliced(rows, batch_rows) if isinstance(rows, pa.Table) else rows for name, rows in files.items()}
        )
    whole = {name: rows for name, rows in files.items() if isinstance(rows, pa.Table)}
    for name, rows in whole.items():
        if WEIGHT in rows.column_names:
            raise ChangeError(
                f"a window slides over rows that are all inserts, but the file of {name!r} has a column {WEIGHT}; "
                "leave the window out, or the column"
            )
    lengths = {name: window.size(span, rows.num_rows) for name, rows in whole.items()}
    return _in_step({name: window.sliding(rows, lengths[name], batch_rows) for name, rows in whole.items()})


def netted(files: Mapping[str, pa.Table], batch_rows: int, span: str) -> list[str]:
    """Returns what to say of windows that are shorter than a batch; see ``crown.ingest.streams.window.netted``."""
    told = (
        window.netted(name, rows.num_rows, window.size(span, rows.num_rows), batch_rows) for name, rows in files.items()
    )
    return [note for note in told if note is not None]


def _sliced(rows: pa.Table, batch_rows: int) -> Iterator[pa.Table]:
    return (rows.slice(start, batch_rows) for start in range(0, rows.num_rows, batch_rows))


def _in_step(streams: dict[str, Iterator[pa.Table]]) -> Iterator[dict[str, pa.Table]]:
    while streams:
        batch = {name: next(stream, None) for name, stream in streams.items()}
        streams = {name: stream for name, stream in streams.items() if batch[name] is not None}
        taken = {name: table for name, table in batch.items() if table is not None}
        if taken:
            yield taken
