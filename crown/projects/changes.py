"""Finds the changes of a source since it was last read, as rows with ``_weight``.

If a table keeps versions, the changes between two versions are read. Otherwise all rows are read and compared with the
rows in the state.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crown.errors import ProjectError
from crown.ingest.tables.columns import WEIGHT
from crown.results.summed import summed
from crown.store.arrow_buffers import integers, words
from plans.schema import Table
from plans.types import arrow_type

Files = dict[str, list[int]]
"""Size and time of files by name."""
_FILES = "files"


@dataclass(frozen=True)
class Changed:
    """The changes of a source, its position after them, and how they were found.

    ``lost``: the table keeps versions, but those since it was last read were removed.
    """

    rows: pa.Table
    position: Any
    how: str
    lost: bool = False


class Versions(Protocol):
    """A table that keeps versions, such as one of Delta or Iceberg."""

    def table(self, name: str) -> Table:
        """Returns the relation of its newest rows, with the columns that have a type."""
        ...

    def newest(self) -> dict[str, Any]:
        """Returns ``table``, which identifies it among tables at the same place, and ``version``, its newest."""
        ...

    def rows(self, schema: pa.Schema, version: int) -> pa.Table:
        """Returns the rows of a version."""
        ...

    def between(self, schema: pa.Schema, first: int, last: int) -> tuple[pa.Table, str] | None:
        """Returns the changes between two versions, and how they were found; None if the table does not record them."""
        ...

    def lag(self, version: int) -> Mapping[str, float]:
        """Returns how many ``versions`` are newer, and how many ``seconds`` the oldest of them has waited."""
        ...


def changes_of_versions(of: Versions, table: Table, position: Any, known: Callable[[], pa.Table]) -> Changed:
    """Returns the changes of a table with versions since ``position``. ``known`` returns the rows that the state has,
    with ``_weight``; it is called only if the whole table is compared."""
    schema, at = schema_of(table), of.newest()
    if at == position:
        return Changed(with_weights(nothing(table), 1), at, "no new version")
    if position and position.get("table") == at["table"]:
        found = of.between(schema, position["version"], at["version"])
        if found is not None:
            return Changed(found[0], at, found[1])
    return replace(compared(of.rows(schema, at["version"]), table, at, known), lost=bool(position))


def compared(found: pa.Table, table: Table, position: Any, known: Callable[[], pa.Table]) -> Changed:
    """Returns the changes that turn the rows of the state into the rows ``found``. Raises ProjectError if two rows
    share the key."""
    if table.key:
        counted = found.group_by(list(table.key)).aggregate([([], "count_all")])
        shared = counted.filter(pc.greater(counted["count_all"], 1)).slice(0, 1).to_pylist()
        if shared:
            values = ", ".join(f"{name} = {shared[0][name]!r}" for name in table.key)
            raise ProjectError(
                f"source {table.name}: {shared[0]['count_all']} of its rows have {values}, and ?key= says that no two "
                "share it: name other columns, or leave out ?key="
            )
    rows, before = with_weights(found, 1), known()
    if not before.num_rows:
        return Changed(rows, position, "read in full")
    return Changed(difference(rows, before), position, "read in full and compared")


def at_files(files: Files) -> dict[str, str]:
    """Returns the position of a source that has read these files. It is in every version, so it is compressed: some 11
    bytes per file. Equal files have equal positions."""
    names = sorted(files)
    columns = [names, *([files[name][i] for name in names] for i in range(2))]
    return {_FILES: b64encode(zlib.compress(json.dumps(columns).encode(), 1)).decode()}


def files_at(position: Any) -> Files:
    """Returns the files that a position has; those of a position of another kind are no files of a folder."""
    if position is None:
        return {}
    if not isinstance(position.get(_FILES), str):
        return dict(position)
    names, sizes, times = json.loads(zlib.decompress(b64decode(position[_FILES])))
    return {name: [size, time] for name, size, time in zip(names, sizes, times, strict=True)}


def schema_of(table: Table) -> pa.Schema:
    """Returns the columns of a relation as an Arrow schema."""
    return pa.schema([(column.name, arrow_type(column.type)) for column in table.columns])


def nothing(table: Table) -> pa.Table:
    """Returns a table of a relation without rows."""
    return pa.Table.from_batches([], schema_of(table))


def with_weights(rows: pa.Table, weight: int) -> pa.Table:
    """Returns rows with the same weight for all."""
    return rows.append_column(WEIGHT, integers(np.full(len(rows), weight, np.int64), pa.int64()))


def unweighted(rows: pa.Table) -> pa.Table:
    """Returns every row as many times as its weight. O(copies)."""
    weights = np.concatenate([np.empty(0, np.int64), *map(words, rows[WEIGHT].chunks)])
    return rows.drop_columns([WEIGHT]).take(pa.array(np.repeat(np.arange(len(rows)), weights)))


def fitted(rows: pa.Table, before: Table, now: Table) -> pa.Table:
    """Returns rows with weights of a table in other columns: a column that was not there, or had another type, is NULL.

    No rows if this may not be NULL, or if rows must not be equal: then every view that reads the table is a new one.
    """
    if before == now:
        return rows
    missing = {c.name for c in now.columns if (old := before.column(c.name)) is None or old.type != c.type}
    required = {c.name for c in now.columns if now.required(c.name)}
    if now.distinct or now.key != before.key or any(n in missing or not before.required(n) for n in required):
        return with_weights(nothing(now), 1)
    given = dict(zip((name.lower() for name in rows.column_names), rows.columns, strict=True))
    columns = [
        pa.nulls(rows.num_rows, field.type) if field.name in missing else given[field.name.lower()]
        for field in schema_of(now)
    ]
    return pa.table(columns, schema_of(now)).append_column(WEIGHT, rows[WEIGHT])


def difference(now: pa.Table, before: pa.Table) -> pa.Table:
    """Returns the changes that turn the rows ``before`` into the rows ``now``, both with weights. O(rows)."""
    names = [name for name in now.column_names if name != WEIGHT]
    weights = before.column_names.index(WEIGHT)
    deleted = before.set_column(weights, WEIGHT, pc.negate(before[WEIGHT])).select(now.column_names).cast(now.schema)
    both = pa.concat_tables([now, deleted])
    return summed(both.select([*names, WEIGHT]))
