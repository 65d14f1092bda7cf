"""Checks the change batches of users and converts them to Arrow columns.

A batch of one relation is a table (Arrow, pandas, columns by name, or a list of dicts) with the relation's columns. If
its rows are not all inserts, it also has an integer column ``_weight``: +n inserts n copies of the row, -n deletes n. A
batch is a Z-set: the order of rows does not matter, and weights of equal rows add up.

The rules are the same for every form of table:

- Without a column ``_weight`` every row is one insert. With it every row needs a weight: a row without one (NULL, None,
  NaN, a dict without the key) is a bad row. Weight 0 changes nothing, but its row is checked. 1.0 is 1, and so is the
  text "1"; 1.5 and True are not weights. A change code (``crown.ingest.conventions``) is a weight of 1 or -1.
- ``Envelopes`` of Debezium are converted to rows of the relation (``crown.ingest.envelopes``).
- A column ``_change_type`` or ``_row_kind`` holds change codes instead of weights, as in change data feeds.
- In a relation declared with ``upserts``, an inserted row replaces the row with its key. Weights are 1, -1 and 0. Codes
  of rows before an update change nothing. A deleted row needs only the columns of the key (and the sequence); its other
  columns are not checked.
- A dict without a column that the query reads, and that other rows have, is a bad row; None is NULL. (Where a table
  cannot distinguish the two, as in JSON lines, both are NULL.)
- pandas' NaN means NULL, as everywhere in pandas.
- Column names are the relation's, without regard to case, each once. Other columns are ignored, unless one could be
  meant for ``_weight`` (``weight``, ``_WEIGHT``, ``_weights``) or for change codes (``op``, ``row_kind``): that is an
  error.

The check finds every bad row, with the reason; the caller decides between an error and a quarantine. Batches may have
one row and arrive many thousand times a second. So everything that depends only on the relation or on column names is
computed once, and no Arrow kernel is called for an array of the declared type.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crown.errors import ChangeError, DataWarning
from crown.ingest.conventions import CODE_COLUMNS, code_column, known, weights_of_codes
from crown.ingest.envelopes import Envelopes
from crown.ingest.tables.columns import WEIGHT, Column, doubtful, is_missing, item, opened, whole_rows
from crown.ingest.tables.frames import kept, names_of, tabular
from crown.ingest.tables.given import WHOLE, Columns, Given, HashPartition, OfBatch, Scan, Scanned, Test
from crown.ingest.tables.values import INTEGERS, converted, has_no_zone, is_text
from crown.ingest.watermarks import given_watermark
from crown.kernels.batches import extent
from crown.store.arrow_buffers import flags, integers, words
from plans.errors import levels_to_caller
from plans.nested import has_map
from plans.schema import Table, why_required
from plans.types import arrow_type

MAX_WEIGHT = 2**31 - 1
_INT64 = pa.int64()
_MAX_SCHEMAS = 4  # whose scans are kept: batches of inserts and of deletes take turns


@dataclass(slots=True, eq=False)
class CheckedBatch:
    """The usable rows of a batch.

    ``columns``: Arrow arrays by declared column name, all of the same length. ``weights``: int64[n]. ``bad``: position
    in the original batch -> reason, for the rows left out. ``bad_rows``: these rows as JSON text, in the same order.
    ``watermark``: the watermark that the batch reaches, or None (see ``crown.ingest.watermarks``). ``scanned``: the
    rows that the query reads, if the batch was scanned.
    """

    columns: Columns
    weights: np.ndarray
    bad: dict[int, str]
    bad_rows: list[str]
    watermark: int | None
    scanned: Scanned | None = None


@dataclass(slots=True, eq=False)
class Unscanned:
    """A record batch with rows of a relation (``name``, in lower case) whose columns have the declared types.

    ``scan`` reads it. ``kinds``: the types of the wanted columns. ``given``: the data that the user passed.
    """

    name: str
    batch: pa.RecordBatch
    scan: Scan
    kinds: Mapping[str, str]
    given: Any

    def checked(self, scanned: Scanned | None = None) -> CheckedBatch:
        """Returns the batch, in which no row is bad. ``scanned``: the rows that the query reads, if it was scanned."""
        if scanned is not None and scanned.rows is None:
            weights = scanned.weights
        elif self.scan.weight is None:
            weights = np.ones(self.batch.num_rows, np.int64)
        else:
            weights = words(self.batch.column(self.scan.weight))
        return CheckedBatch(Columns(OfBatch(self.batch, self.scan.places), self.kinds), weights, {}, [], None, scanned)


class Checker:
    """Checks batches of one relation. ``columns`` (names of ``table``): the wanted columns.

    ``tests``: alternatives, each a conjunction of tests; a scan reads the rows that meet one of them. Empty for all
    rows. ``partition``: a scan reads only these rows.
    """

    def __init__(
        self,
        table: Table,
        columns: Sequence[str],
        tests: Sequence[Sequence[Test]] = (),
        partition: HashPartition | None = None,
    ) -> None:
        self._relation = table.name
        self._table = table
        self._order = tuple(column.name for column in table.columns)
        self._declared = {column.name.lower() for column in table.columns}
        kinds = {column.name: column.type for column in table.columns}
        self._wanted = [(name, kinds[name], arrow_type(kinds[name])) for name in columns]
        self._kinds = {name: kinds[name] for name in columns}
        self._rounded = frozenset(column.name for column in table.columns if column.rounded)
        self._seen = frozenset(  # their values are always checked: entries of maps are sorted, months must have no days
            name for name in columns if kinds[name] == "months" or has_map(kinds[name])
        )
        self._required = [name for name in columns if table.required(name)]
        named = {name.lower() for name in table.named_by}
        self._upserts = table.upserts
        self._unseen = frozenset(name for name in columns if table.upserts and name.lower() not in named)
        self._zones: set[str] = set()  # timestamp columns for which the warning about times without a zone was given
        self._names: list[str] = []  # of the last batch; next: the positions of the wanted columns and of the weights
        self._places: list[int | None] = [None] * len(columns)
        self._weight: int | None = None
        self._says: str | None = None  # the name of the column of weights or codes
        self._read: list[int] = []  # the positions of all of them, if the batch has all
        self._tests = tests
        self._partition = partition
        self._scans: list[tuple[pa.Schema, Scan | None]] = []  # of the last schemas; None if a schema does not fit
        self._of_rows: dict[bool, tuple[pa.Schema, Scan]] = {}  # of rows of integers, by whether they have weights
        self._integers = bool(columns) and not table.upserts and all(kinds[name] in WHOLE for name in columns)
        self._small = self._integers and all(kinds[name] in INTEGERS for name in columns)
        self._narrow = [j for j, name in enumerate(columns) if kinds[name] == "int32"]

    def check(self, data: Any) -> CheckedBatch:
        """Converts ``data`` to the declared types. Rows that do not fit are left out and listed.

        Raises ChangeError if ``data`` is not a table, if a column is missing from all rows or is duplicated, or if one
        could be meant for ``_weight``. O(n), vectorised unless a row is bad.
        """
        if isinstance(data, Envelopes):
            data = data.rows(self._table)
        whole = self._at_once(data)
        if whole is not None:
            return whole
        names, n, column = opened(self._relation, tabular(self._relation, data, self._order))
        if names != self._names:
            self._locate(names)
        bad: dict[int, str] = {}
        unfit: dict[int, str] = {}
        if self._weight is None or self._says is None:
            weights = np.ones(n, np.int64)
        else:
            weights = _weights(column(self._weight), self._says, unfit, self._upserts)
        out: dict[str, Given] = {}
        for (name, kind, target), place in zip(self._wanted, self._places, strict=True):
            if place is not None:
                given = column(place)
                if isinstance(given, pa.Array) and given.type == target and name not in self._seen:
                    out[name] = given
                    continue
                found = {} if name in self._unseen else bad
                if kind == "timestamp" and name not in self._zones and has_no_zone(given):
                    self._warn_of_zone(name)
                out[name] = converted(given, name, kind, target, found, name in self._rounded)
                if found is not bad:
                    bad.update({row: why for row, why in found.items() if weights[row] > 0 and row not in bad})
            elif name in self._unseen and not (weights > 0).any():
                out[name] = pa.nulls(n, target)
            elif n:
                raise ChangeError(
                    f"relation {self._relation!r}: column {name!r} is missing from the batch, "
                    f"which has: {', '.join(names) or 'none'}"
                )
            else:
                out[name] = pa.array([], target)
        columns = Columns(out, self._kinds)
        for name in self._required:
            if columns.null_count(name):
                for row in np.flatnonzero(flags(columns[name].is_null())).tolist():
                    if name not in self._unseen or weights[row] > 0:
                        bad.setdefault(row, why_required(self._table, name))
        for row, reason in unfit.items():
            bad.setdefault(row, reason)
        metadata = data.schema.metadata if isinstance(data, (pa.Table, pa.RecordBatch)) else None
        watermark = given_watermark(metadata) if metadata else None
        if not bad:
            return CheckedBatch(columns, weights, {}, [], watermark)
        rows = sorted(bad)
        keep = np.ones(n, bool)
        keep[rows] = False
        given = {name: column(i) for i, name in enumerate(names)}
        texts = [_text({c: item(values, r) for c, values in given.items()}) for r in rows]
        rest = columns.taken(np.flatnonzero(keep))
        return CheckedBatch(rest, weights[keep], {r: bad[r] for r in rows}, texts, watermark)

    def _warn_of_zone(self, column: str) -> None:
        """Warns, once per column, that its times have no zone."""
        warnings.warn(
            f"column {column!r} of {self._relation} is a timestamp, and is given times without a zone, which are taken "
            "as UTC: give them a zone, or declare the column timestamp_ntz",
            DataWarning,
            stacklevel=levels_to_caller(),
        )
        self._zones.add(column)

    def _at_once(self, data: Any) -> CheckedBatch | None:
        """Returns a batch whose columns have the declared types and in which no row is bad, the common case. Returns
        None for any other, or if the fast path cannot tell. O(n)."""
        if isinstance(data, list):
            return self._rows_in_words(data)
        given = self.unscanned(data)
        scanned = None if given is None else given.scan.read(given.batch)
        return None if given is None or scanned is None else given.checked(scanned)

    def unscanned(self, data: Any) -> Unscanned | None:
        """Returns a table whose columns have the declared types, or rows of integers. Returns None for any other, or if
        it has no rows. O(columns), and O(values) for rows and for a table of several chunks, which are concatenated."""
        if isinstance(data, list):
            return self._rows_in_arrow(data)
        given = data
        if isinstance(data, pa.Table) and data.num_rows:
            parts = data.to_batches()
            if len(parts) > 1 and self._scan_of(data.schema) is not None:
                parts = data.combine_chunks().to_batches()
            data = parts[0] if len(parts) == 1 else None
        if not isinstance(data, pa.RecordBatch) or not data.num_rows:
            return None
        scan = self._scan_of(data.schema)
        return None if scan is None else Unscanned(self._relation.lower(), data, scan, self._kinds, given)

    def _rows_in_arrow(self, rows: list[Any]) -> Unscanned | None:
        """Returns rows of integers as a record batch; None for others."""
        words = self._words_of(rows)
        if words is None:
            return None
        weighed = self._weight is not None
        if weighed not in self._of_rows:
            fields = [(name, target) for name, _, target in self._wanted] + ([(WEIGHT, _INT64)] if weighed else [])
            places = {name: i for i, name in enumerate(self._kinds)}
            weight = len(places) if weighed else None
            scan = Scan(self._kinds, places, weight, self._required, self._tests, MAX_WEIGHT, self._partition)
            self._of_rows[weighed] = pa.schema(fields), scan
        schema, scan = self._of_rows[weighed]
        columns = list(np.ascontiguousarray(words.T))
        for j in self._narrow:
            low, high = extent(columns[j])
            if low < -(2**31) or high >= 2**31:
                return None
            columns[j] = columns[j].astype(np.int32)
        arrays = [integers(column, field.type) for column, field in zip(columns, schema, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        return Unscanned(self._relation.lower(), batch, scan, self._kinds, rows)

    def _rows_in_words(self, rows: list[Any]) -> CheckedBatch | None:
        """Returns rows of integers, checked; None for others, and if one is out of range."""
        found = self._words_of(rows)
        if found is None:
            return None
        if self._weight is None:
            return self._of_words(found, None)
        return self._of_words(found[:, :-1], found[:, -1].copy())

    def _words_of(self, rows: list[Any]) -> np.ndarray | None:
        """Returns rows of integers as int64[n, columns], with the weights, if any, last. None for other rows."""
        if not rows or not self._small:
            return None
        first = rows[0]
        tuples = type(first) is tuple
        names = names_of(self._order, len(first)) if tuples else first if type(first) is dict else None
        if names is None:
            return None
        if list(names) != self._names:
            self._locate(list(names))
        return whole_rows(rows, self._read if tuples else [self._names[place] for place in self._read])

    def _of_words(self, matrix: np.ndarray, weights: np.ndarray | None) -> CheckedBatch | None:
        """Returns the batch, or None if a weight, or a 32-bit integer, is out of range."""
        if weights is None:
            weights = np.ones(len(matrix), np.int64)
        elif not _in_range(weights):
            return None
        for j in self._narrow:
            low, high = extent(matrix[:, j].copy())
            if low < -(2**31) or high >= 2**31:
                return None
        return CheckedBatch(Columns({}, self._kinds, matrix), weights, {}, [], None)

    def _scan_of(self, schema: pa.Schema) -> Scan | None:
        """Returns the scan for batches of this schema, or None if the columns do not have the declared types or need
        more checks."""
        for earlier, scan in self._scans:
            if schema.equals(earlier, True):
                return scan
        if schema.names != self._names:
            self._locate(schema.names)
        types = schema.types
        wanted = [target for _, _, target in self._wanted] + ([] if self._weight is None else [_INT64])
        looked_at = schema.metadata or self._upserts or self._seen
        fits = not looked_at and [types[place] for place in self._read] == wanted
        self._scans = [(schema, self._new_scan() if fits else None), *self._scans[: _MAX_SCHEMAS - 1]]
        return self._scans[0][1]

    def _new_scan(self) -> Scan:
        places = dict(zip(self._kinds, self._read, strict=False))
        return Scan(self._kinds, places, self._weight, self._required, self._tests, MAX_WEIGHT, self._partition)

    def _locate(self, names: list[str]) -> None:
        wrong = doubtful(names, self._declared)
        if wrong is not None:
            raise ChangeError(f"relation {self._relation!r}: {wrong}")
        place = {name.lower(): i for i, name in enumerate(names)}
        self._places = [place.get(name.lower()) for name, _, _ in self._wanted]
        self._says = WEIGHT if WEIGHT in names else code_column(names, self._declared)
        self._weight = names.index(self._says) if self._says is not None else None
        self._names = list(names)
        self._read = [place for place in (*self._places, self._weight) if place is not None]
        if None in self._places or self._says not in (None, WEIGHT):
            self._read = []


def _in_range(weights: np.ndarray) -> bool:
    """Returns True if all weights (int64[n], n > 0) are within the limits of a batch."""
    low, high = extent(weights)
    return bool(low >= -MAX_WEIGHT and high <= MAX_WEIGHT)


def relations_of(changes: Any) -> Mapping[str, Any]:
    """Returns the argument of ``apply`` if it maps relation names to changes. Else raises ChangeError with what is
    expected."""
    if type(changes) is dict or isinstance(changes, Mapping):  # an abstract class takes a microsecond to answer
        for name in changes:
            if not isinstance(name, str):
                break
        else:
            return changes
    found = "keys that are not text" if isinstance(changes, Mapping) else f"{type(changes).__name__} {changes!r:.100}"
    raise ChangeError(
        "changes must be a dict from the name of a relation to a table or a list of dicts, such as "
        f'{{"R": [{{"a": 1, "_weight": -1}}]}}, not {found}'
    )


def _text(row: dict[str, Any]) -> str:
    """Returns a row as JSON text, for any values."""
    try:
        return json.dumps(row, default=str)
    except (TypeError, ValueError, RecursionError):
        return json.dumps({name: repr(value) for name, value in row.items()})


def _weights(column: Any, name: str, bad: dict[int, str], upserts: bool) -> np.ndarray:
    own: dict[int, str] = {}
    whole = not isinstance(column, list) and column.type == _INT64
    array = column if whole else converted(_decoded(column, upserts), name, "int64", _INT64, own)
    if isinstance(array, np.ndarray):
        weights = array
    else:
        weights = _known(column, name, array, own)
    if len(weights):
        low, high = extent(weights)
        if low < -MAX_WEIGHT or high > MAX_WEIGHT:
            for row in np.flatnonzero((weights < -MAX_WEIGHT) | (weights > MAX_WEIGHT)).tolist():
                own[row] = f"{name} {weights[row]} is out of range: give at most {MAX_WEIGHT:,} copies at a time"
        if upserts and (low < -1 or high > 1):
            once = "a relation with upserts has every row once; use 1 or -1"
            for row in np.flatnonzero((weights < -1) | (weights > 1)).tolist():
                own.setdefault(row, f"{name} {weights[row]}: {once}")
    for row, reason in own.items():
        bad.setdefault(row, reason)
    return weights


def _known(column: Any, name: str, array: pa.Array, own: dict[int, str]) -> np.ndarray:
    """Returns the weights of an array made of ``column``; 0 for missing ones, which are recorded in ``own``."""
    if array.null_count:
        for row in np.flatnonzero(~flags(array.is_valid())).tolist():
            if is_missing(item(column, row)):
                own[row] = f"{name} is missing: where a batch has this column, every row needs a value in it"
            elif row in own and isinstance(item(column, row), str):
                own[row] = (
                    f"{name}: unknown change code {item(column, row)!r:.100}; use a whole number or one of {known()}"
                )
        array = array.fill_null(0)
    return words(array).copy()  # Arrow's is read-only, which is another type to a kernel


@cache
def _codes(upserts: bool) -> tuple[pa.Array, pa.Array]:
    """Returns the change codes and their weights as text. Made on first use, since pyarrow imports pandas for it."""
    codes = weights_of_codes(upserts)
    return pa.array(codes), pa.array([str(weight) for weight in codes.values()])


def _decoded(column: Any, upserts: bool) -> Any:
    """Returns the column with each change code replaced by its weight, as text; another column unchanged."""
    if isinstance(column, list):
        if str not in set(map(type, column)):
            return column
        codes = weights_of_codes(upserts)
        return [str(codes.get(v.lower(), v)) if isinstance(v, str) else v for v in column]
    if not is_text(column.type):
        return column
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.string())
    names, weights = _codes(upserts)
    found = pc.index_in(pc.utf8_lower(column), names.cast(column.type))
    return pc.coalesce(weights.cast(column.type).take(found), column)


def all_inserted(table: Table, rows: Any) -> Any:
    """Returns the rows, in a form that can be read more than once. Raises ChangeError if they have weights or change
    codes."""
    data = kept(table.name, rows)
    _opened(table, data)
    return data


def all_deleted(table: Table, rows: Any) -> Any:
    """Returns the rows with the weight -1. Raises the errors of ``all_inserted``."""
    names, count, column = _opened(table, kept(table.name, rows))
    return {**{name: column(i) for i, name in enumerate(names)}, WEIGHT: np.full(count, -1, np.int64)}


def _opened(table: Table, data: Any) -> tuple[list[str], int, Column]:
    order = tuple(column.name for column in table.columns)
    names, count, column = opened(table.name, tabular(table.name, data, order))
    said = next((n for n in names if n in (WEIGHT, *CODE_COLUMNS) and table.column(n) is None), None)
    if said is not None:
        raise ChangeError(
            f"relation {table.name!r}: rows have a column {said!r}, but insert, delete and upsert themselves say what "
            "happens to rows; leave the column out, or use apply"
        )
    return names, count, column
