"""A Delta table that holds a result: one commit per micro-batch, which contains the batch's number.

Files with rows that a batch changes are rewritten. If deltalake has to write more than files of rows, such as a change
feed or partitions, deltalake merges the batch.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crown.store.arrow_buffers import booleans, combined, flags
from spark_jobs.storage.folder import Folder
from spark_jobs.storage.opening import ensure_writable
from spark_jobs.tables.deltas.commits import beaten, entries, follows
from spark_jobs.tables.deltas.delta import by_batch, holds, newest_batch, opened, options_of, require, uncommitted
from spark_jobs.tables.deltas.parts import SNAPPY, write_part
from spark_jobs.tables.results.net import (
    COUNT,
    DELETE,
    INSERT,
    OP,
    UPDATE,
    Net,
    another_s,
    demand_columns,
    ranges,
    unfit,
)
from spark_jobs.tables.results.rewriting import rewritten

if TYPE_CHECKING:
    from deltalake import DeltaTable

_BROKEN = "/broken"
_NEW, _OLD = "s", "t"
_HARMLESS = {"timestampNtz", "appendOnly", "invariants"}
"""Features of a table that alone require nothing of its writers."""
_RANGED = (pa.types.is_signed_integer, pa.types.is_date32)
"""Types of columns whose ranges decide which files are read."""
_TRUE = booleans(np.ones(1, bool))[0]  # made from a Python value, it would load pandas
_FAR = 1 << 62
"""Numbers from here on are not written into conditions, where the least 64-bit number would be misread."""


class DeltaResult:
    """The Delta table in ``folder``. See ``spark_jobs.tables.places.Target``.

    Cost of a batch: the files that may contain rows of its keys are read, and those that do are rewritten. Files whose
    ranges of whole numbers and dates exclude all rows of the batch are not read.
    """

    def __init__(self, folder: Folder) -> None:
        require()
        ensure_writable(folder, "target")
        self._folder = folder

    def newest(self, stream: str) -> int:
        """Returns the newest batch of a stream in the table; −1 if there is none."""
        return newest_batch(self._folder, stream)

    def apply(self, stream: str, batch: int, net: Net, after: int | None = None) -> bool:
        """Merges a batch, once. Returns False if it was merged before."""
        from deltalake import DeltaTable, Schema
        from deltalake.exceptions import DeltaError

        table = opened(self._folder)
        kept = net.rows.drop_columns([OP]) if net.keyed else net.rows
        if table is None:
            if strange := sorted(entries(self._folder)):
                raise another_s(str(self._folder), f"other files ({strange[0]}, for example), but no Delta table")
            where, options = str(self._folder), options_of(self._folder)
            table = DeltaTable.create(where, Schema.from_arrow(kept.schema), storage_options=options)
        known = table.transaction_version(stream)
        newest = -1 if known is None else int(known)
        if newest < 0 and table.file_uris():
            raise another_s(str(self._folder), "a Delta table with rows that this stream has not written")
        broken = table.transaction_version(stream + _BROKEN)
        if broken is not None:
            raise unfit(str(self._folder), int(broken))
        demand_columns(f"the Delta table {self._folder}", table.schema().fields, kept, "folder")
        if not follows(self._folder, newest, batch, after):
            return False
        try:
            if not net.rows.num_rows:
                table.create_write_transaction([], "append", table.schema(), commit_properties=by_batch(stream, batch))
                return True
            if _is_plain(table):
                if self._rewrite(table, stream, batch, net, kept.schema):
                    return True
                if newest_batch(self._folder, stream) == batch:
                    raise beaten(self._folder, batch)
                return self.apply(stream, batch, net, after)
            done = self._merged(table, stream, batch, net)
            if done != net.rows.num_rows:  # written to the table, because the batch is committed
                table = opened(self._folder) or table
                mark = by_batch(stream + _BROKEN, batch)
                table.create_write_transaction([], "append", table.schema(), commit_properties=mark)
                raise unfit(str(self._folder), batch)
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise uncommitted(self._folder, batch, error) from None
        return True

    def _rewrite(self, table: DeltaTable, stream: str, batch: int, net: Net, schema: pa.Schema) -> bool:
        """Replaces the files that contain rows of the batch. Returns False if the table has a newer version meanwhile.
        Raises ForeignRowsError if the batch does not fit the table.
        """
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import AddAction, RemoveAction

        found = rewritten(((file, self._rows(file, schema)) for file in _files(table, net)), net)
        if found is None:
            raise unfit(str(self._folder), batch)
        gone, rows = found
        now, name = int(time.time() * 1000), f"part-{batch:08d}-{uuid.uuid4().hex}.parquet"
        part = write_part(self._folder, name, schema, batch, rows.to_batches(), compression=SNAPPY)
        actions: list[AddAction | RemoveAction] = [RemoveAction(file, True, now) for file in gone]
        if part is not None:
            actions.append(AddAction(part.file, part.bytes, {}, now, True, part.stats))
        said, read = by_batch(stream, batch), table.version()
        said.max_commit_retries = 0  # after an OPTIMIZE, which has moved the rows, both would be in the table
        try:
            table.create_write_transaction(actions, "append", table.schema(), commit_properties=said)
        except CommitFailedError:
            newest = opened(self._folder)
            if newest is None or newest.version() == read:
                raise
            if part is not None and not holds(newest, part.file):  # a store's response may have got lost
                self._folder.delete([part.file])
            return False
        return True

    def _rows(self, file: str, schema: pa.Schema) -> pa.Table:
        with self._folder.local(file) as path:
            return pq.ParquetFile(path).read().select(schema.names).cast(schema)

    @staticmethod
    def _merged(table: DeltaTable, stream: str, batch: int, net: Net) -> int:
        """Merges the rows of a batch; returns the number of rows of the table that were changed."""
        source, match = net.rows, " AND ".join([*(_same(net.rows, name) for name in net.match), *_bounds(net)])
        merge = table.merge(source, match, _NEW, _OLD, commit_properties=by_batch(stream, batch))
        values = {_quoted(name): _of(_NEW, name) for name in net.columns}
        if net.keyed:
            op = _of(_NEW, OP)
            merge = merge.when_matched_delete(f"{op} = '{DELETE}'").when_matched_update(values, f"{op} = '{UPDATE}'")
            merge = merge.when_not_matched_insert(values, f"{op} = '{INSERT}'")
        else:
            count, left = _of(_NEW, COUNT), f"({_of(_OLD, COUNT)} + {_of(_NEW, COUNT)})"
            merge = merge.when_matched_delete(f"{left} = 0").when_matched_update({_quoted(COUNT): left}, f"{left} > 0")
            merge = merge.when_not_matched_insert({**values, _quoted(COUNT): count}, f"{count} > 0")
        said = merge.execute()
        return sum(int(said[f"num_target_rows_{what}"]) for what in ("inserted", "updated", "deleted"))


def _is_plain(table: DeltaTable) -> bool:
    """Returns True if a table consists of files of rows, and requires nothing else of its writers."""
    about, features = table.metadata(), {*(table.protocol().writer_features or ())}
    told = any(field.metadata for field in table.schema().fields)
    return not (about.partition_columns or about.configuration or told or features - _HARMLESS)


def _files(table: DeltaTable, net: Net) -> list[str]:
    """Returns the files that may contain rows of the batch, by the ranges of their columns."""
    files = pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()
    may = np.ones(files.num_rows, bool)
    for name, low, high in ranges(net, _RANGED):
        least, most = f"min.{name}", f"max.{name}"
        if {least, most} <= {*files.column_names}:
            inside = pc.and_kleene(pc.less_equal(files[least], high), pc.greater_equal(files[most], low))
            may &= flags(combined(pc.fill_null(inside, _TRUE)))
    return files["path"].filter(booleans(may)).to_pylist()


def _same(rows: pa.Table, name: str) -> str:
    equals = "IS NOT DISTINCT FROM" if rows[name].null_count else "="
    return f"({_of(_OLD, name)} {equals} {_of(_NEW, name)})"


def _bounds(net: Net) -> Iterator[str]:
    """Yields conditions that every row of the table that equals a row of the batch meets.

    Files whose statistics exclude such rows are not read, so new rows with new keys cost only their own size.
    """
    for name, *found in ranges(net, _RANGED):
        ends = [end.as_py() for end in found]
        if isinstance(ends[0], int) and not -_FAR < ends[0] <= ends[1] < _FAR:
            continue
        low, high = (str(end) if isinstance(end, int) else f"DATE '{end}'" for end in ends)
        yield f"{_of(_OLD, name)} >= {low} AND {_of(_OLD, name)} <= {high}"


def _of(alias: str, name: str) -> str:
    return f"{alias}.{_quoted(name)}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
