"""Nets the deltas of a micro-batch into the inserts, updates and deletes of a result's table.

With keys: a row per key, to be inserted, updated or deleted. Without keys: a row per distinct row of the result, with
the change of its number of copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crown import changes
from crown.ingest.tables.columns import WEIGHT
from crown.results.summed import numbered, summed
from crown.store.arrow_buffers import strings
from plans.schema import CHANGE_TYPE, UNTIL
from spark_jobs.errors import ANEW, ForeignRowsError, SourceError, SparkJobError

OP = "_op"
COUNT = "_count"
INSERT, UPDATE, DELETE = "i", "u", "d"
_OPS = {"insert": INSERT, "update_postimage": UPDATE, "delete": DELETE}


@dataclass(frozen=True)
class Net:
    """The net effect of a micro-batch: ``rows`` with the result's columns and ``_op`` (with keys) or ``_count``
    (without).

    ``match``: the columns by which a row is found in the table.
    """

    rows: pa.Table
    columns: tuple[str, ...]
    match: tuple[str, ...]
    keyed: bool

    def count(self, op: str) -> int:
        """Returns the number of rows with that ``_op``."""
        return int(pc.sum(pc.equal(self.rows[OP], op)).as_py() or 0)


def net_of(delta: pa.Table, keys: Sequence[str] | None, batch: int) -> Net:
    """Returns the net effect of the deltas of a micro-batch on the table. O(n log n).

    ``delta``: the result's columns and ``_weight``. ``keys``: columns that are unique in the result; None: a row may
    have several copies. Raises :class:`SourceError` if there are no weights, or no such column, and
    :class:`SparkJobError` if two rows share a key.
    """
    columns = [name for name in delta.column_names if name != WEIGHT]
    if WEIGHT not in delta.column_names or {UNTIL, changes.VERSION} <= {*delta.column_names}:
        raise SourceError("to_table() takes deltas with weights, and these have another form: leave emit= out")
    delta = pa.table({name: _plain(delta[name]) for name in [*columns, WEIGHT]})
    found = summed(delta)
    for taken in {OP, COUNT, "_nulls"} & {name.lower() for name in columns}:
        raise SourceError(f"the result has a column {taken!r}, which to_table() needs: rename it in the query")
    if keys is None:
        return Net(found.rename_columns([*columns, COUNT]), tuple(columns), tuple(columns), False)
    match = tuple(_column(columns, key) for key in keys)
    places = [str(place) for place in range(len(columns))]  # a column of the result may be called _change_type
    placed = found.rename_columns([*places, WEIGHT])
    paired = changes.as_cdf(placed, [str(columns.index(name)) for name in match])
    kinds = pc.index_in(paired[CHANGE_TYPE], value_set=strings(list(_OPS)))
    kept = pc.is_valid(kinds)
    ops = strings(list(_OPS.values())).take(kinds.filter(kept))
    rows = paired.select(places).filter(kept).rename_columns(columns)
    net = Net(rows.append_column(OP, ops), tuple(columns), match, True)
    _demand_key(net, batch)
    return net


def _demand_key(net: Net, batch: int) -> None:
    codes = numbered(net.rows[name] for name in net.match)
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    if len(counts) < net.rows.num_rows:
        worst = net.rows.slice(int(first[counts.argmax()]), 1).to_pylist()
        said = ", ".join(f"{name} = {worst[0][name]!r}" for name in net.match)
        raise SparkJobError(
            f"keys={list(net.match)} is not a key of the result: in batch {batch} several rows have {said}: "
            "name columns that no two rows share, or leave out keys=: then every row has a count of its copies"
        )


def _column(columns: Sequence[str], key: str) -> str:
    for name in columns:
        if name.lower() == key.lower():
            return name
    raise SourceError(f"keys= names {key!r}, but the result has: {', '.join(columns)}")


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns a column with instants converted to UTC, whatever the session's zone."""
    if pa.types.is_timestamp(column.type) and column.type.tz not in (None, "UTC"):
        return column.cast(pa.timestamp("us", "UTC"))
    return column


def ranges(net: Net, are: Sequence[Callable[[pa.DataType], bool]]) -> Iterator[tuple[str, pa.Scalar, pa.Scalar]]:
    """Yields the match columns of certain types, with their least and greatest values in the batch.

    Omits columns with NULL or with values that Python lacks: dates after the year 9999.
    """
    for name in net.match:
        column = net.rows[name]
        if not column.null_count and any(is_(column.type) for is_ in are):
            ends = pc.min_max(column)
            try:
                ends.as_py()
            except (OverflowError, ValueError):
                continue
            yield name, ends["min"], ends["max"]


def unfit(target: str, batch: int) -> ForeignRowsError:
    """Returns the error for a table in which a batch did not find the rows that it should, or found rows that it should
    not.
    """
    return ForeignRowsError(
        f"batch {batch} does not fit what is in {target}: a row to delete is missing, or a row to insert has the key "
        "of another one. Two rows of the result share a key, or another writer changed the table: name other keys=, "
        f"and {ANEW}"
    )


def demand_columns(target: str, fields: Iterable[Any], rows: pa.Table, other: str) -> None:
    """Raises SourceError if a table, whose schema has these ``fields``, has other columns than ``rows``. ``other``: the
    kind of place that the user should change.
    """
    has = [field.name for field in fields]
    if has != rows.column_names:
        raise SourceError(
            f"{target} has the columns {', '.join(has)}, but the result has {', '.join(rows.column_names)}: give "
            f"another {other}"
        )


def another_s(target: str, what: str) -> ForeignRowsError:
    """Returns the error for a table that holds something else than this stream's result."""
    return ForeignRowsError(
        f"{target} holds {what}: give this stream a table of its own, or use the checkpoint that belongs to it"
    )
