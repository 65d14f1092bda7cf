"""Reads files of changes for the embedded engine: one file or folder per relation, read in full, applied in batches.

``plans.files`` lists the supported files; ``-`` is standard input. The columns are the relation's, with ``_weight`` for
changes that are not all inserts. Batch ``k`` has rows ``k*n .. (k+1)*n`` of every file. A batch of standard input is
read when the previous one is done, so a stream of lines may be endless. A window slides over files without ``_weight``,
in the order of their rows.
"""

from __future__ import annotations

import sys
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import BinaryIO

import pyarrow as pa

from crown.errors import ChangeError
from crown.ingest.streams import window
from plans.files.delimited import texts
from plans.files.formats import JSON, TEXT, format_of, packing_of
from plans.files.json_rows import JsonRows
from plans.files.layout import COMMENTS, layout
from plans.files.rows import rows_of, typed
from plans.files.unpacked import Place, checked_text
from plans.schema import Table

STANDARD_INPUT = "-"
_WHERE = "standard input"


def standard_input(table: Table) -> pa.Table:
    """Reads standard input to its end, as a file. Raises FileError if it cannot be read, ChangeError if it is
    closed."""
    return rows_of(_standard_stream().read(), _WHERE, table)


def _standard_stream() -> BinaryIO:
    if sys.stdin is None:  # the shell has closed it
        raise ChangeError("cannot read standard input: it is closed; give a file, or pipe a stream into it")
    return sys.stdin.buffer


def piped(batch_rows: int, table: Table) -> Iterator[pa.Table]:
    """Yields standard input in tables of ``batch_rows`` lines, each as soon as its lines have arrived.

    Input that is not text, or is one JSON array, is read to its end first. Raises FileError for lines that cannot be
    read.
    """
    stream = _standard_stream()
    head = b""
    for line in stream:
        head += line
        if line.strip() and not line.removeprefix(BOM_UTF8).lstrip().startswith(COMMENTS):
            break
    start = head.removeprefix(BOM_UTF8)
    format_ = format_of(start)
    if packing_of(start) is not None or format_ not in (None, JSON) or start.lstrip()[:1] == b"[":
        rows = rows_of(head + stream.read(), _WHERE, table)
        yield from window.sliced(rows, batch_rows)
    elif format_ == JSON:
        for where, data in _pieces(start, stream, batch_rows, Place(_WHERE)):
            yield typed(JsonRows(data, where).rows(table), table)
    elif start.strip():
        place = Place(_WHERE)
        found = layout(checked_text(start, place), TEXT, table, place)
        for where, data in _pieces(start[found.start :], stream, batch_rows, place.after(start, found.start)):
            yield typed(texts(checked_text(data, where), found, where), table)


def _pieces(first: bytes, stream: BinaryIO, lines: int, place: Place) -> Iterator[tuple[Place, bytes]]:
    """Yields blocks of ``lines`` lines with their position. Does not split a quoted value that spans lines."""
    taken = [first] if first else []
    while taken := [*taken, *islice(stream, lines - len(taken))]:
        quotes = sum(line.count(b'"') for line in taken)
        while quotes % 2 and (line := next(stream, b"")):
            taken.append(line)
            quotes += line.count(b'"')
        yield place, (data := b"".join(taken))
        place, taken = place.after(data, len(data)), []


def batches(
    files: Mapping[str, pa.Table | Iterator[pa.Table]], batch_rows: int, span: str | None
) -> Iterator[dict[str, pa.Table]]:
    """Yields batches of all files in step. An iterator yields its own batches, and has no window.

    ``span``: window over the rows of each file (a number, or a fraction); None: no window.

    Raises ChangeError or WindowError before the first batch if the numbers are invalid, or if a file with a window has
    deletes.
    """
    if batch_rows < 1:
        raise ChangeError(f"a batch of {batch_rows} rows: give 1 or more")
    if span is None:
        return _in_step(
            {
                name: window.sliced(rows, batch_rows) if isinstance(rows, pa.Table) else rows
                for name, rows in files.items()
            }
        )
    whole = {name: rows for name, rows in files.items() if isinstance(rows, pa.Table)}
    for name, rows in whole.items():
        window.check_inserts(name, rows)
    lengths = {name: window.size(span, rows.num_rows) for name, rows in whole.items()}
    return _in_step({name: window.sliding(rows, lengths[name], batch_rows) for name, rows in whole.items()})


def netted(files: Mapping[str, pa.Table], batch_rows: int, span: str) -> list[str]:
    """Returns messages about windows that are shorter than a batch; see ``crown.ingest.streams.window.netted``."""
    told = (
        window.netted(name, rows.num_rows, window.size(span, rows.num_rows), batch_rows) for name, rows in files.items()
    )
    return [note for note in told if note is not None]


def _in_step(streams: dict[str, Iterator[pa.Table]]) -> Iterator[dict[str, pa.Table]]:
    while streams:
        batch = {name: next(stream, None) for name, stream in streams.items()}
        streams = {name: stream for name, stream in streams.items() if batch[name] is not None}
        taken = {name: table for name, table in batch.items() if table is not None}
        if taken:
            yield taken
