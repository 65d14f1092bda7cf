"""``FileReader``: the rows of a source's files, one file at a time, with the types of its columns.

It is used in this process and by Spark's workers, so both refuse the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crown.errors import ProjectError
from crown.ingest.tables.arrays import whole
from crown.ingest.tables.values import converted, is_text
from crown.projects.changes import nothing, schema_of
from crown.projects.locations import CSV
from crown.projects.quarantine import Quarantine, Refused
from crown.store.display import rows_shown
from plans.errors import FileError
from plans.files.delimited import UNREADABLE
from plans.files.rows import content, typed
from plans.files.unpacked import Place, unpacked, unreadable
from plans.schema import Table, why_required

_QUARANTINE = "(crown.on_bad_row: quarantine, or on_bad_row= of crown.spark.pipeline)"
_REMEDY = f"fix the file, declare another type, or quarantine such rows {_QUARANTINE}"


@dataclass(frozen=True)
class FileReader:
    """Reads the files of the source ``table``, which are of a ``kind``. ``quarantine``: where rows go that cannot be
    used; None if such a row is an error."""

    table: Table
    kind: str
    quarantine: Quarantine | None = None

    def read(self, file: Path, name: str, data: bytes | None = None) -> pa.Table:
        """Returns the rows of a file. ``name``: its name in the quarantine; ``data``: its bytes, if they were read.

        A file that has none of the source's rows, because it is damaged or has other columns, is one row in the
        quarantine. Raises FileError or ProjectError for the first row that cannot be used if there is no quarantine,
        and always if the system cannot read the file.
        """
        try:
            data = file.read_bytes() if data is None else data
        except OSError as error:
            raise unreadable(file, error) from None
        refused: list[Refused] = []
        try:
            part = content(*unpacked(data, file), Place(file))
            found = part.rows(self.table, lines=True)
            if UNREADABLE in found.column_names:
                found = found.filter(pc.is_null(found[UNREADABLE])).drop_columns([UNREADABLE])
            rows = self._typed(typed(found, self.table), file, refused)
            refused += [Refused(line.why, data=line.text) for line in part.unreadable]
        except (FileError, ProjectError) as error:
            if self.quarantine is None:
                raise ProjectError(f"{error}; or quarantine such files {_QUARANTINE}") from None
            rows, refused = nothing(self.table), [Refused(str(error))]
        if self.quarantine is not None:
            self.quarantine.put(name, refused)
        elif refused:
            first = refused[0]
            row = "" if first.row is None else f"row {first.row}: "
            raise ProjectError(f"source {self.table.name}: {file}: {row}{first.reason}: {_REMEDY}")
        return rows

    def _typed(self, found: pa.Table, file: Path, refused: list[Refused]) -> pa.Table:
        """Returns the rows whose values fit the types of their columns. A missing column is NULL, except in CSV."""
        bad: dict[int, str] = {}
        wanted, columns = schema_of(self.table), []
        for field, column in zip(wanted, self.table.columns, strict=True):
            if field.name in found.column_names:
                given = found[field.name]
                if given.type == field.type or is_text(field.type):  # a number of JSON may become a text
                    fit = given.cast(field.type)
                else:
                    fit = converted(whole(given), field.name, column.type, field.type, bad, column.rounded)
            elif self.kind == CSV:
                raise ProjectError(
                    f"source {self.table.name}: {file} has no column {field.name}; name the columns in its first line"
                )
            else:
                fit = pa.nulls(found.num_rows, field.type)
            if self.table.required(field.name) and fit.null_count:
                for row in np.flatnonzero(pc.is_null(fit).to_numpy(zero_copy_only=False)).tolist():
                    bad.setdefault(row, why_required(self.table, field.name))
            columns.append(fit)
        rows = pa.table(columns, wanted)
        if not bad:
            return rows
        refused += _shown(found, bad)
        good = np.ones(found.num_rows, bool)
        good[list(bad)] = False
        return rows.filter(pa.array(good))


def _shown(rows: pa.Table, bad: dict[int, str]) -> Sequence[Refused]:
    """Returns the bad rows, in their order."""
    numbers = sorted(bad)
    texts = [json.dumps(row, default=str, ensure_ascii=False) for row in rows_shown(rows.take(pa.array(numbers)))]
    return [Refused(bad[number], number + 1, text) for number, text in zip(numbers, texts, strict=True)]
