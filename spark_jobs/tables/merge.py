"""A Delta table that holds a result, kept current by MERGE: one commit per micro-batch, which says which one it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.storage.folder import Folder
from spark_jobs.storage.opening import ready
from spark_jobs.tables.commits import entries, follows
from spark_jobs.tables.delta import by_batch, newest_batch, opened, options_of, require, uncommitted
from spark_jobs.tables.net import COUNT, DELETE, INSERT, OP, UPDATE, Net, another_s, demand_columns, unfit

if TYPE_CHECKING:
    from deltalake import DeltaTable

_BROKEN = "/broken"
_NEW, _OLD = "s", "t"
_FAR = 1 << 62
"""Numbers from here on are not written into conditions, in which the least one of 64 bits would be read as another."""


class DeltaResult:
    """The Delta table in ``folder``. See ``spark_jobs.tables.results.Target``.

    Cost of a batch: what MERGE reads of the table, which may be all of it, and the files that it writes anew. Files in
    whose range of whole numbers and dates no row of the batch falls are not read.
    """

    def __init__(self, folder: Folder) -> None:
        require()
        ready(folder, "target")
        self._folder = folder

    def newest(self, stream: str) -> int:
        """Returns the newest batch of a stream in the table; −1 if there is none."""
        return newest_batch(self._folder, stream)

    def apply(self, stream: str, batch: int, net: Net, after: int | None = None) -> bool:
        """Merges a batch, once. False if it was merged before."""
        from deltalake import DeltaTable, Schema
        from deltalake.exceptions import DeltaError

        table = opened(self._folder)
        kept = net.rows.drop_columns([OP]) if net.keyed else net.rows
        if table is None:
            if strange := sorted(entries(self._folder)):
                raise another_s(str(self._folder), f"files of others ({strange[0]}, for one), but no Delta table")
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
            done = self._merged(table, stream, batch, net)
            if done != net.rows.num_rows:  # said in the table, because the batch is committed
                table = opened(self._folder) or table
                mark = by_batch(stream + _BROKEN, batch)
                table.create_write_transaction([], "append", table.schema(), commit_properties=mark)
                raise unfit(str(self._folder), batch)
        except (DeltaError, OSError) as error:
            raise uncommitted(self._folder, batch, error) from None
        return True

    @staticmethod
    def _merged(table: DeltaTable, stream: str, batch: int, net: Net) -> int:
        """Merges the rows of a batch; returns how many rows of the table that has changed."""
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


def _same(rows: pa.Table, name: str) -> str:
    equals = "IS NOT DISTINCT FROM" if rows[name].null_count else "="
    return f"({_of(_OLD, name)} {equals} {_of(_NEW, name)})"


def _bounds(net: Net) -> Iterator[str]:
    """Yields what holds of every row of the table that equals one of the batch.

    Files whose statistics say that they have no such row are not read: new rows with new keys cost what they are.
    """
    for name in net.match:
        column = net.rows[name]
        if not column.null_count and (pa.types.is_signed_integer(column.type) or pa.types.is_date32(column.type)):
            ends = pc.min_max(column).as_py()
            if isinstance(ends["min"], int) and not -_FAR < ends["min"] <= ends["max"] < _FAR:
                continue
            low, high = (str(end) if isinstance(end, int) else f"DATE '{end}'" for end in ends.values())
            yield f"{_of(_OLD, name)} >= {low} AND {_of(_OLD, name)} <= {high}"


def _of(alias: str, name: str) -> str:
    return f"{alias}.{_quoted(name)}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
