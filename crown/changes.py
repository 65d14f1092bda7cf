"""Converts deltas to and from other formats: Flink's RowKind, Delta's change data feed, Debezium.

A delta is a Z-set: rows with weights, without an order. With the ``key`` of the result, a deleted row and an inserted
row with the same key are paired into an update. If a key has several rows, the first deleted row is paired with the
first inserted row, and so on.

>>> import crown
>>> from crown import changes
>>> view = crown.view("SELECT a, COUNT(*) AS n FROM R GROUP BY a", {"R": {"a": "int64"}})
>>> first = view.apply({"R": [{"a": 1}]})
>>> changes.as_cdf(view.apply({"R": [{"a": 1}, {"a": 2}]}), ["a"]).to_pylist()
... # doctest: +NORMALIZE_WHITESPACE
[{'a': 1, 'n': 1, '_change_type': 'update_preimage'},
 {'a': 1, 'n': 2, '_change_type': 'update_postimage'},
 {'a': 2, 'n': 1, '_change_type': 'insert'}]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from crown.errors import ChangeError
from crown.guards.arguments import number_of
from crown.ingest.envelopes import Envelopes
from crown.ingest.tables.columns import WEIGHT
from crown.results.summed import numbered
from crown.store.arrow_buffers import combined, integers, strings, words
from plans.schema import CHANGE_TYPE, ROW_KIND, UNTIL

__all__ = ["as_cdf", "as_debezium", "as_rowkind", "from_debezium"]

INSERT, DELETE, BEFORE, AFTER = range(4)
ROW_KINDS = ("+I", "-D", "-U", "+U")
CHANGE_TYPES = ("insert", "delete", "update_preimage", "update_postimage")
MOST_ROWS = 2**31 - 1
WEIGHTS, CDC, KINDS, DEBEZIUM, RANGES = FORMATS = ("weights", "cdc", "rowkind", "debezium", "ranges")
"""The formats of deltas, by the values of ``emit``."""
VERSION = "_commit_version"


def unfit(emit: str, key: Sequence[str] | None, outputs: Sequence[str]) -> str | None:
    """Returns the error of a format and a key for a result with the columns ``outputs``, or None if they are valid."""
    if emit not in FORMATS:
        return f"emit={emit!r}: give one of {', '.join(FORMATS)}"
    if key is not None and emit in (WEIGHTS, RANGES):
        return f'key= pairs the updates of emit="cdc", "rowkind" or "debezium"; {emit} need none'
    if isinstance(key, str):
        return f"key={key!r}: give a list of columns, [{key!r}]"
    known = {name.lower() for name in outputs}
    for name in key or ():
        if name.lower() not in known:
            return f"key= names {name!r}, but the output has: {', '.join(outputs)}"
    for name in {CDC: (CHANGE_TYPE, VERSION), KINDS: (ROW_KIND, VERSION), RANGES: (UNTIL, VERSION)}.get(emit, ()):
        if name in known:
            return f"emit={emit!r} adds a column {name!r}, which the output has already: rename it there"
    return None


def emitted(delta: pa.RecordBatch | pa.Table, emit: str, key: Sequence[str] | None, version: int) -> pa.Table:
    """Returns the delta of batch ``version`` in a format that ``unfit`` has accepted.

    ``"cdc"``: ``as_cdf`` with ``_commit_version``. ``"rowkind"``: ``as_rowkind`` with ``_commit_version``.
    ``"debezium"``: ``as_debezium`` with the version in ``source.batch``. ``"weights"``: the delta itself.
    ``"ranges"``: a delta in ranges with ``_commit_version``.
    """
    if emit == WEIGHTS:
        return pa.Table.from_batches([delta]) if isinstance(delta, pa.RecordBatch) else delta
    if emit == CDC:
        return as_cdf(delta, key, version)
    if emit == RANGES:
        table = pa.Table.from_batches([delta]) if isinstance(delta, pa.RecordBatch) else delta
        return table.append_column(VERSION, pa.repeat(pa.scalar(version, pa.int64()), table.num_rows))
    rows = as_rowkind(delta, key) if emit == KINDS else as_debezium(delta, key)
    numbers = pa.repeat(pa.scalar(version, pa.int64()), rows.num_rows)
    if emit == KINDS:
        return rows.append_column(VERSION, numbers)
    return rows.append_column("source", pa.StructArray.from_arrays([numbers], names=["batch"]))


def as_rowkind(delta: pa.RecordBatch | pa.Table, key: Sequence[str] | None = None) -> pa.Table:
    """Returns a delta as Flink's changelog: its columns without the weight, and ``_row_kind`` (``+I -U +U -D``).

    ``delta``: a result of ``View.apply``. ``key``: its columns by which updates are paired. Without a key there are
    only inserts and deletes. A row of weight ±n occurs n times. The deletes of a key precede its inserts, and the two
    rows of an update are adjacent. Raises ``ChangeError``. O(n log n) in the returned rows.
    """
    rows, kinds = _paired(delta, key)
    return _with(rows, ROW_KIND, _words(kinds, ROW_KINDS))


def as_cdf(delta: pa.RecordBatch | pa.Table, key: Sequence[str] | None = None, version: int | None = None) -> pa.Table:
    """Returns a delta as a change data feed of Spark and Delta, with ``_change_type`` instead of the weight.

    The types are insert, delete, update_preimage and update_postimage. ``version``: the value of the column
    ``_commit_version`` (int64). None omits the column. Otherwise like ``as_rowkind``.
    """
    rows, kinds = _paired(delta, key)
    rows = _with(rows, CHANGE_TYPE, _words(kinds, CHANGE_TYPES))
    if version is None:
        return rows
    number = number_of(version, "version", 0, 2**63 - 1)
    return _with(rows, VERSION, pa.array(np.full(rows.num_rows, number), pa.int64()))


def as_debezium(delta: pa.RecordBatch | pa.Table, key: Sequence[str] | None = None) -> pa.Table:
    """Returns a delta as Debezium's envelopes: ``before`` and ``after`` (structs or NULL), and ``op`` (c, u, d).

    The two rows of an update are one envelope. Otherwise like ``as_rowkind``.
    """
    rows, kinds = _paired(delta, key)
    leads = np.flatnonzero(kinds != AFTER)
    ops = np.array(["c", "d", "u", "u"])[kinds[leads]]
    before = np.where(kinds[leads] == INSERT, -1, leads)
    after = np.where(kinds[leads] == INSERT, leads, np.where(kinds[leads] == BEFORE, leads + 1, -1))
    images = {"before": _structs(rows, before), "after": _structs(rows, after)}
    return pa.table({**images, "op": pa.array(ops, pa.string())})


def from_debezium(envelopes: Iterable[Mapping[str, Any] | None]) -> Envelopes:
    """Returns Debezium's envelopes (dicts) as the changes of a table, for ``View.apply``.

    ``c`` and ``r`` insert the row ``after``, ``d`` deletes the row ``before``, and ``u`` does both. Tombstones (None,
    or only NULLs) and messages (``m``) are ignored. Envelopes inside ``payload`` are also accepted. Raises
    ``ChangeError`` for any other ``op``. ``apply`` raises it if a row is missing, because an update without the row
    before it cannot be applied.

    For a table with upserts, ``u`` only inserts the row ``after``, and ``d`` needs only the key; there, envelopes that
    are delivered twice count once. For a table without a key they count twice. A table with a key that has no upserts
    and is not enforced rejects envelopes.
    """
    return Envelopes(envelopes)


def _with(rows: pa.Table, name: str, column: pa.Array) -> pa.Table:
    """Returns the rows with an additional column. Raises ChangeError if a column has this name, ignoring case."""
    if name in map(str.lower, rows.column_names):
        raise ChangeError(f"this adds a column {name!r}, which the delta has already: rename it in the query")
    return rows.append_column(name, column)


def _paired(delta: pa.RecordBatch | pa.Table, key: Sequence[str] | None) -> tuple[pa.Table, np.ndarray]:
    """Returns the rows without weights, each as often as the absolute value of its weight, and their kinds (int64)."""
    if not isinstance(delta, (pa.Table, pa.RecordBatch)):
        raise ChangeError(f"a delta is a pyarrow Table or RecordBatch, as apply returns it, not {type(delta).__name__}")
    table = pa.Table.from_batches([delta]) if isinstance(delta, pa.RecordBatch) else delta
    if WEIGHT not in table.column_names:
        raise ChangeError(f"this is not a delta: it has no column {WEIGHT!r}, but {', '.join(table.column_names)}")
    if not pa.types.is_integer(table.schema.field(WEIGHT).type) or table.column(WEIGHT).null_count:
        raise ChangeError(f"this is not a delta: its column {WEIGHT!r} has values that are not whole numbers")
    if not (key is None or (isinstance(key, (list, tuple)) and all(isinstance(name, str) for name in key))):
        raise ChangeError(f"key={key!r:.100}: give a list of columns")
    weights = words(combined(table.column(WEIGHT)))
    copies = np.abs(weights)
    if int(copies.sum()) > MOST_ROWS:
        raise ChangeError(
            f"the delta represents {int(copies.sum()):,} rows, more than {MOST_ROWS:,}: write weights instead"
        )
    rows = np.repeat(np.arange(len(weights)), copies)
    sign = np.sign(weights)[rows]
    group = _groups(table, key)[rows] if key else rows
    order = np.lexsort((np.arange(len(rows)), sign, group))
    first = np.ones(len(rows), bool)
    first[1:] = (np.diff(group[order]) != 0) | (np.diff(sign[order]) != 0)
    rank = np.empty(len(rows), np.int64)
    rank[order] = np.arange(len(rows)) - np.maximum.accumulate(np.where(first, np.arange(len(rows)), 0))
    groups = int(group.max(initial=-1)) + 1
    gone, come = (np.bincount(group[sign == s], minlength=groups) for s in (-1, 1))
    update = rank < np.minimum(gone, come)[group]
    kinds = np.where(sign < 0, np.where(update, BEFORE, DELETE), np.where(update, AFTER, INSERT))
    # without a key: all that goes before all that comes; with one: the pairs of a key first, then what is left of it
    order = np.lexsort((sign, rank, group)) if key else np.lexsort((np.arange(len(rows)), sign))
    return table.drop_columns([WEIGHT]).take(integers(rows[order], pa.int64())), kinds[order]


def _groups(table: pa.Table, key: Sequence[str]) -> np.ndarray:
    """Returns a number per row (int64[n]) that is equal where the key is; NULL is equal to NULL."""
    names = {name.lower(): name for name in table.column_names if name != WEIGHT}
    for name in key:
        if name.lower() not in names:
            raise ChangeError(f"the key has a column {name!r}, but the delta has: {', '.join(names.values())}")
    return numbered(table.column(names[name.lower()]) for name in key)


def _words(kinds: np.ndarray, said: Sequence[str]) -> pa.Array:
    return strings(said).take(integers(kinds.astype(np.int32), pa.int32()))


def _structs(rows: pa.Table, places: np.ndarray) -> pa.Array:
    """Returns the rows at ``places`` as structs; NULL for -1."""
    absent = places < 0
    taken = rows.take(pa.array(np.where(absent, 0, places), pa.int64())) if rows.num_rows else rows
    fields = [pa.field(field.name, field.type) for field in rows.schema]
    return pa.StructArray.from_arrays([combined(c) for c in taken.columns], fields=fields, mask=pa.array(absent))
