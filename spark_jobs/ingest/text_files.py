"""CSV, TSV and JSON lines on Spark: Spark lists the files of a batch, and its workers read CSV and TSV with the reader
of the embedded engine.

Spark's own reader silently takes an unclosed quote for the end of a value, an empty text for NULL, and bytes that are
not UTF-8 for other characters.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from plans.errors import FileError
from plans.files.delimited import UNREADABLE, Unreadable, texts
from plans.files.formats import CSV, named
from plans.files.layout import Layout, layout
from plans.files.unpacked import SIZE, Place, checked_format, checked_text, opened, pieces, unreadable
from plans.schema import Table
from spark_jobs.ingest.source_log import LOCAL

PATH = "path"
READ, FILES = "crown_read.", "crown_files."
"""Prefixes of the names of two counters in a stream's progress: rows that were read from files of a relation, and
files.
"""
_HEAD = 1 << 20


@dataclass(frozen=True)
class TextFiles:
    """How the files of an input are read: the names of the columns in the first file, the separator (None: detected),
    and whether there is a header.
    """

    table: Table
    names: tuple[str, ...]
    mark: str | None
    header: bool

    def layout_of(self, path: Path, data: bytes) -> Layout:
        """Returns the layout of a file that begins with ``data``. Raises FileError if its columns differ from the first
        file.
        """
        if not self.header:
            return Layout(self.mark or ",", 0, self.names, False)
        found = first_layout(path, data, self.table, self.mark)
        if {name.lower() for name in found.names} != {name.lower() for name in self.names}:
            raise FileError(
                f"the first line of {path} is {', '.join(found.names)}, but that of the first file was "
                f"{', '.join(self.names)}: give all files of a folder the same columns"
            )
        return found

    def rows(self, path: Path, size: int = SIZE) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a file as texts, in the columns ``names`` and ``_unreadable``. Raises FileError if it
        cannot be read.
        """
        found: Layout | None = None
        for place, data in _pieces(path, size):
            if found is None:
                data = data.removeprefix(BOM_UTF8)
                found = self.layout_of(path, data)
                place, data = place.after(data, found.start), data[found.start :]
            wrong: list[Unreadable] = []
            read = texts(checked_text(data, place), found, place, wrong)
            names = [name.lower() for name in read.column_names]
            columns = [read.column(names.index(name.lower())) for name in self.names]
            table = pa.table([*columns, pa.nulls(read.num_rows, pa.string())], names=[*self.names, UNREADABLE])
            yield from table.to_batches()
            if wrong:
                yield pa.RecordBatch.from_pylist([{UNREADABLE: line.why} for line in wrong], table.schema)


def first_layout(path: Path, data: bytes, table: Table, mark: str | None) -> Layout:
    """Returns the layout of a file that begins with ``data``."""
    return layout(data, checked_format(data, named(path)[0] or CSV, path), table, Place(path), mark)


def head(path: Path) -> bytes:
    """Returns the first bytes of a file. Raises FileError if it cannot be read."""
    return next((data for _, data in _pieces(path, _HEAD)), b"").removeprefix(BOM_UTF8)


def _pieces(path: Path, size: int) -> Iterator[tuple[Place, bytes]]:
    try:
        with opened(path) as stream:
            yield from pieces(stream, Place(path), size)
    except OSError as error:
        if error.errno is None:  # raised by the decompressor, not by the system
            raise FileError(f"cannot read {path}: its compressed contents are damaged or truncated") from None
        raise unreadable(path, error) from None


def reader(files: TextFiles) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Returns the function for ``mapInArrow``: it maps names of files to their rows, followed by the name of the file.

    The function imports what it needs, so that a worker has one copy of it.
    """

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from spark_jobs.ingest import text_files as module

        return module.run(files, batches)

    return task


def run(files: TextFiles, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the files of one partition. ``batches``: names of files, as Spark writes them and as it logs
    them.
    """
    from spark_jobs.cell.worker_input import complete

    for batch in complete(batches):
        for path, logged in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            for rows in files.rows(Path(re.sub(LOCAL, "/", path))):
                yield rows.append_column("_file", pa.array([logged] * rows.num_rows, pa.string()))


_MEMBERS = "map<string,string>"
_LONG = "[0-9][0-9.]{16}"
"""Matches a number with more digits than a double has, or a text that looks like one."""
_MORE = r"\}\s*(?:[^\s},\]]|,\s*[^\"\s])"
"""Matches text after an object, or text that looks like it."""


def parsed_lines(lines: DataFrame) -> DataFrame:
    """Returns the nonempty lines, ``value``, and their members as texts in ``fields``, which is NULL if the line is not
    exactly one JSON object.
    """
    value = F.col("value")
    several = F.from_json(F.concat(F.lit("["), value, F.lit("]")), f"array<{_MEMBERS}>")
    alone = value.rlike(_MORE) & ~F.coalesce(F.size(several) == 1, F.lit(False))
    return lines.filter(F.trim("value") != "").withColumn("fields", F.when(~alone, members(value)))


def members(text: Column) -> Column:
    """Returns the members of an object as texts; NULL if the text is not an object. ``text``: a line's ``value`` or a
    part of it. Numbers keep the digits of a decimal.
    """
    exact = F.try_variant_get(F.try_parse_json(text), "$", _MEMBERS)
    return F.when(F.col("value").rlike(_LONG), exact).otherwise(F.from_json(text, _MEMBERS))
