"""Edge lists as they are published: text with comment lines on top, one edge per line, maybe gzipped or zipped."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.csv as pacsv

from crown.errors import CrownError
from plans.schema import Table, arrow_type

COMMENTS = (b"#", b"%")
UNREADABLE = "_unreadable"
"""Column that a source adds: why a record could not be read, or NULL."""


class EdgeListError(CrownError):
    """The file cannot be read as an edge list."""


def read(path: Path, table: Table) -> pa.Table:
    """Returns the list as a table with the columns of the relation, in file order.

    The first fields of a line are the relation's columns, further ones (times, weights) are ignored. If every line fits
    the declared types the columns have them; otherwise all are text, with a column ``_unreadable`` that says what is
    wrong with lines of another number of fields, and the rows are checked like any others.
    """
    skip, first = _start(path)
    delimiter, width = _shape(first, path, table)
    names = [column.name for column in table.columns]
    unreadable: list[str] = []

    def note(row: Any) -> str:
        unreadable.append(f"the line has {row.actual_columns} fields instead of {width}: {row.text[:200]!r}")
        return "skip"

    def load(types: dict[str, pa.DataType]) -> pa.Table:
        unreadable.clear()
        with _opened(path) as file:
            return pacsv.read_csv(
                file,
                read_options=pacsv.ReadOptions(
                    skip_rows=skip, column_names=names + [f"_{i}" for i in range(width - len(names))]
                ),
                parse_options=pacsv.ParseOptions(delimiter=delimiter, quote_char=False, invalid_row_handler=note),
                convert_options=pacsv.ConvertOptions(include_columns=names, column_types=types),
            )

    if first is None:
        return pa.table({column.name: pa.array([], arrow_type(column.type)) for column in table.columns})
    try:
        edges = load({column.name: arrow_type(column.type) for column in table.columns})
        if not unreadable:
            return edges
    except pa.ArrowInvalid:
        pass  # some value does not fit: hand all of them on as text, to be checked one by one
    try:
        edges = load({name: pa.string() for name in names})
    except pa.ArrowInvalid as error:
        raise EdgeListError(f"{path} cannot be read as an edge list: {error}") from None
    schema = pa.schema([(name, pa.string()) for name in names] + [(UNREADABLE, pa.string())])
    good = edges.append_column(UNREADABLE, pa.nulls(edges.num_rows, pa.string()))
    bad = pa.Table.from_pylist([{UNREADABLE: reason} for reason in unreadable], schema)
    return pa.concat_tables([good.cast(schema), bad])


def _start(path: Path) -> tuple[int, bytes | None]:
    """Returns how many comment and empty lines stand on top, and the first line after them."""
    skip = 0
    with _opened(path) as file:
        for line in file:
            if line.strip() and not line.lstrip().startswith(COMMENTS):
                return skip, line
            skip += 1
    return skip, None


def _shape(first: bytes | None, path: Path, table: Table) -> tuple[str, int]:
    """Returns the delimiter and the number of fields of the first line."""
    text = (first or b"").decode(errors="replace").rstrip("\r\n")
    delimiter = next((mark for mark in ("\t", ",", ";") if mark in text), " ")
    width = len(text.split(delimiter))
    if first is not None and width < len(table.columns):
        columns = ", ".join(column.name for column in table.columns)
        raise EdgeListError(
            f"{path}: the first line, {text[:200]!r}, has {width} fields, but relation {table.name!r} has the columns "
            f"{columns}"
        )
    return delimiter, width


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """Yields the list's bytes: plain, gzipped, or the only file in a zip archive."""
    try:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                members = [name for name in archive.namelist() if not name.endswith("/")]
                if len(members) != 1:
                    raise EdgeListError(f"{path} holds {len(members)} files: unpack it and name the one to read")
                with archive.open(members[0]) as file:
                    yield file
        elif path.suffix == ".gz":
            with gzip.open(path) as packed:
                yield cast(IO[bytes], packed)
        else:
            with path.open("rb") as plain:
                yield plain
    except (OSError, zipfile.BadZipFile, EOFError) as error:
        raise EdgeListError(f"cannot read {path}: {error}") from None
