"""Reads rows of files in the cell itself. Spark passes one row per file and cell, which names the file.

Spark hands a million rows a second to Python, and Arrow reads several millions a second from a file. So every cell
reads every file, and keeps its own rows: no row is shuffled. Every cell checks all rows, so no cell starts a batch that
another cell rejects.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crown.errors import ChangeError
from crown.ingest.changes import MAX_WEIGHT, Checker
from crown.store.codec import NULL
from crown.store.display import rows_shown
from plans.expressions.build import Expr
from plans.program import Program
from plans.programs.reads import occurrences
from plans.schema import Table
from plans.search.cells.cuts import Role
from plans.search.cells.shares import Grid
from plans.types import arrow_type
from spark_jobs.cell.worker_input import read_ahead
from spark_jobs.dispatch.envelope import CELL, FILE, MASK, TAG, WEIGHT, Envelope
from spark_jobs.errors import SourceError
from spark_jobs.feeds.delta_files import CODED
from spark_jobs.feeds.delta_source import CHANGE_TYPE, weights_of
from spark_jobs.ingest.parquet import ParquetRows
from spark_jobs.ingest.value_ranges import ValueRange, may_hold

if TYPE_CHECKING:
    from spark_jobs.dispatch.placed import Placed

AHEAD = 128 << 20
"""Bytes of a table that are read ahead while earlier rows enter the engine."""
_ROWS = 1 << 17


@dataclass(frozen=True)
class Filed:
    """A base relation whose rows the cells read themselves.

    ``table``: the columns that they read; ``weighted``: the files have weights; ``tags``: the relations of the cells
    that are made of it, with the ``roles`` of each, empty where masks place the rows; ``folder``: the folder of a
    stream's files, which has no partitions; ``signed``: every file has a sign for all of its rows, or 0: then a column
    of codes gives the sign of each row.
    """

    table: Table
    weighted: bool
    tags: tuple[int, ...]
    roles: tuple[Role, ...]
    folder: str | None = None
    signed: bool = False

    def wanted(self, sign: int) -> pa.Schema:
        """Returns the schema that is read of a file."""
        columns = [(column.name, arrow_type(column.type)) for column in self.table.columns]
        if self.signed:
            return pa.schema([*columns, *([(CHANGE_TYPE, pa.string())] if sign == CODED else [])])
        return pa.schema([*columns, *([(WEIGHT, pa.int64())] if self.weighted else [])])

    def with_weights(self, rows: pa.RecordBatch, sign: int) -> pa.RecordBatch:
        """Returns the rows of a file with ``_weight``, unless each row is inserted once."""
        if not self.signed:
            return rows
        if sign != CODED:
            return rows.append_column(WEIGHT, pa.array(np.full(rows.num_rows, sign, np.int64)))
        weights = weights_of(rows.column(CHANGE_TYPE))
        return rows.drop_columns([CHANGE_TYPE]).append_column(WEIGHT, pa.array(weights))

    def demand_no_partition(self, file: str) -> None:
        """Raises :class:`SourceError` for a file of a partition, whose path contains column values."""
        inside = Path(file.removeprefix(self.folder or file)).parent.parts
        if any("=" in part for part in inside):
            raise SourceError(
                f"{file} is in a partition, but {self.folder} had no partitions when the stream was built: start it "
                "again"
            )


class Reader:
    """Reads the rows of files for one cell. ``program``: what the cell runs. ``read``: the number of rows read,
    including rows of other cells.
    """

    def __init__(self, filed: Sequence[Filed], envelope: Envelope, grid: Grid, program: Program) -> None:
        self._filed = {one.tags[0]: one for one in filed}
        self._envelope = envelope
        self._grid = grid
        self._program = program
        self.read = 0

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the same batches without the rows that name files, then the rows of these files."""
        if not self._filed:
            yield from batches
            return
        named: list[tuple[int, int, str, int]] = []
        for batch in batches:
            files = batch.column(FILE)
            if files.null_count < len(files):
                mine = batch.filter(files.is_valid())
                tags = mine.column(TAG).to_pylist() if self._envelope.tagged else [0] * mine.num_rows
                cells = [stamped % self._grid.cells for stamped in mine.column(CELL).to_pylist()]
                files_here, signs = mine.column(FILE).to_pylist(), mine.column(WEIGHT).to_pylist()
                named += zip(tags, cells, files_here, signs, strict=True)
                batch = batch.filter(files.is_null())
            if batch.num_rows:
                yield batch
        if named:
            yield from read_ahead(self._of_files(sorted(named)), AHEAD)

    def _of_files(self, named: Iterable[tuple[int, int, str, int]]) -> Iterator[pa.RecordBatch]:
        for tag, cell, file, sign in named:
            filed = self._filed[tag]
            checker = Checker(filed.table, [column.name for column in filed.table.columns])
            filed.demand_no_partition(file)
            found, wanted = ParquetRows(file), filed.wanted(sign)
            conditions = self._conditions(filed)
            for given in found.batches(wanted, _ROWS, partial(_reads, filed.table, wanted, conditions)):
                rows = filed.with_weights(given, sign)
                _demand_good(checker, filed.table.name, rows)
                yield from self._of_cell(filed, cell, _kept(rows, () if self._envelope.masked else conditions))
            self.read += found.rows

    def _conditions(self, filed: Filed) -> tuple[list[Expr], ...]:
        """Returns the conditions by which rows are dropped here: a row is kept if it meets all conditions of one
        element. Empty if all rows are kept.
        """
        from spark_jobs.dispatch.placed import demanded

        if self._envelope.whole:
            return ()
        names = {self._envelope.relations[tag].lower() for tag in filed.tags}
        return demanded(atom for atom in occurrences(self._program) if atom.relation.lower() in names)

    def _of_cell(self, filed: Filed, cell: int, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yields the rows that belong to a cell, in the form in which Spark's shuffle delivers rows."""
        if self._grid.cells == 1:
            yield self._enveloped(filed.tags[0], rows, None)
        elif not filed.roles:
            masks = self._placed(filed, rows).masks(cell)
            here = np.flatnonzero(masks)
            yield self._enveloped(filed.tags[0], rows.take(pa.array(here)), masks[here])
        else:
            from spark_jobs.dispatch.placed import of_role

            table = pa.Table.from_batches([rows])
            for tag, role in zip(filed.tags, filed.roles, strict=True):
                belongs = of_role(role, self._grid.cells, table)
                mine = rows if belongs is None else rows.filter(pa.array(belongs == cell))
                yield self._enveloped(tag, mine, None)

    def _placed(self, filed: Filed, rows: pa.RecordBatch) -> Placed:
        from spark_jobs.dispatch.placed import of_plan

        join = self._program.only_join
        assert join is not None, "what has masks is one join"
        return of_plan(join.plan, self._grid, filed.table.name, pa.Table.from_batches([rows]), self._envelope.whole)

    def _enveloped(self, tag: int, rows: pa.RecordBatch, masks: np.ndarray | None) -> pa.RecordBatch:
        columns = {f"s{slot}": rows.column(name) for name, slot in self._envelope.placed[tag].items()}
        if self._envelope.tagged:
            columns[TAG] = pa.array(np.full(rows.num_rows, tag, np.int32))
        if masks is not None:
            columns[MASK] = pa.array(masks)
        ones = WEIGHT not in rows.schema.names
        columns[WEIGHT] = pa.array(np.ones(rows.num_rows, np.int64)) if ones else rows.column(WEIGHT)
        return pa.RecordBatch.from_pydict(columns)


def _reads(
    table: Table, wanted: pa.Schema, conditions: Sequence[Sequence[Expr]], known: Mapping[str, ValueRange]
) -> bool:
    """Returns True if a row group may have a row that is read, or one that must be rejected."""
    if any(all(may_hold(condition, known) for condition in each) for each in conditions):
        return True
    return not (conditions and all(_sound(table, field, known.get(field.name.lower())) for field in wanted))


def _sound(table: Table, field: pa.Field, known: ValueRange | None) -> bool:
    """Returns True if no value of a column can make a row bad."""
    if field.name == CHANGE_TYPE or known is None:
        return False
    if (field.name == WEIGHT or table.required(field.name)) and known.nulls != 0:
        return False
    least, most = (-MAX_WEIGHT, MAX_WEIGHT) if field.name == WEIGHT else (NULL + 1, -(NULL + 1))
    return field.type != pa.int64() or (known.least is not None and least <= known.least <= known.greatest <= most)


def _kept(rows: pa.RecordBatch, conditions: Sequence[Sequence[Expr]]) -> pa.RecordBatch:
    """Returns the rows that meet all conditions of one occurrence; all rows if there are no conditions."""
    if not conditions:
        return rows
    from spark_jobs.dispatch.placed import met

    columns = {name.lower(): column for name, column in zip(rows.schema.names, rows.columns, strict=True)}
    reads = np.logical_or.reduce([met(each, columns, rows.num_rows) for each in conditions])
    return rows if reads.all() else rows.filter(pa.array(reads))


def _demand_good(checker: Checker, relation: str, rows: pa.RecordBatch) -> None:
    """Raises ChangeError for the first bad row."""
    found = checker.check(rows)
    if found.bad:
        row, reason = next(iter(found.bad.items()))
        raise _bad(relation, rows, row, reason)
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if column.type == pa.int64() and pc.min(column).as_py() == NULL:
            row = pc.index(column, NULL).as_py()
            raise _bad(relation, rows, row, f"column {name!r}: the int64 value {NULL} is reserved for NULL")


def _bad(relation: str, rows: pa.RecordBatch, row: int, reason: str) -> ChangeError:
    (shown,) = rows_shown(rows.slice(row, 1))
    return ChangeError(f"bad row in relation {relation!r}: {reason}; row: {json.dumps(shown, default=str)}")
