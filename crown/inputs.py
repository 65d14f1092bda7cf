"""Change files for the embedded engine: one file per relation, read whole, handed over in batches.

A file is Parquet, CSV with a header, JSON lines, or (any other name, ``.gz``, ``.zip``) an edge list. Its columns are
the relation's, with ``_weight`` for changes that are not all inserts. Batch ``k`` takes rows ``k*n .. (k+1)*n`` of
every file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq

from crown import edge_lists, window
from crown.changes import WEIGHT
from crown.errors import ChangeError
from plans.schema import Table


@dataclass(frozen=True)
class ChangeFile:
    """A relation's changes: the table, and whether it came as an append-only list that a window can slide over."""

    rows: pa.Table
    is_list: bool


def read(path: Path, table: Table) -> ChangeFile:
    """Read one change file.

    ChangeError if it cannot be read. Text columns stay text where they do not parse: rows are checked later.
    """
    suffix = path.suffix.lower()
    try:
        if suffix == ".parquet":
            return ChangeFile(pq.read_table(path), False)
        if suffix == ".csv":
            # As text: whether a value fits its declared type is decided row by row, not guessed from the first ones.
            names = pacsv.open_csv(path).schema.names
            convert = pacsv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True)
            return ChangeFile(pacsv.read_csv(path, convert_options=convert), False)
        if suffix in (".json", ".jsonl", ".ndjson"):
            return ChangeFile(pajson.read_json(path), False)
    except (OSError, pa.ArrowInvalid) as error:
        raise ChangeError(f"cannot read {path}: {error}") from None
    rows = edge_lists.read(path, table)
    if edge_lists.UNREADABLE in rows.column_names:
        reasons = rows.column(edge_lists.UNREADABLE).drop_null()
        if len(reasons):
            raise ChangeError(f"{path}: {reasons[0].as_py()} ({len(reasons)} such lines); mend the file")
        rows = rows.drop_columns([edge_lists.UNREADABLE])
    return ChangeFile(rows, True)


def batches(files: Mapping[str, ChangeFile], batch_rows: int, span: str | None) -> Iterator[dict[str, pa.Table]]:
    """Batches of all files in step. ``span``: window over the lists (rows, or a fraction); None: inserts only."""
    streams = {}
    for name, file in files.items():
        if WEIGHT in file.rows.column_names or not file.is_list:
            if batch_rows < 1:
                raise ChangeError(f"a batch of {batch_rows} rows: give 1 or more")
            streams[name] = iter(
                [file.rows.slice(start, batch_rows) for start in range(0, file.rows.num_rows, batch_rows)]
            )
        elif span is None:
            streams[name] = window.appended(file.rows, batch_rows)
        else:
            streams[name] = window.sliding(file.rows, window.size(span, file.rows.num_rows), batch_rows)
    while streams:
        batch = {name: next(stream, None) for name, stream in streams.items()}
        streams = {name: stream for name, stream in streams.items() if batch[name] is not None}
        taken = {name: table for name, table in batch.items() if table is not None}
        if taken:
            yield taken
