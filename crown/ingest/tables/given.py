"""The checked columns of a batch: Arrow arrays, or words of integers that become Arrow arrays when they are read.

A record batch whose columns have the declared types is scanned: one native call tests its rows, and encodes those that
the query reads.

Lists of Python integers are converted to an array of words, which kernels read directly. An Arrow array is made only if
an expression reads the column, or a bad row is recorded: for a small batch it would be most of the work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from crown.errors import BadRowError
from crown.ingest.kernels import scan
from crown.ingest.kernels.partitions import cells_of_texts, cells_of_words
from crown.kernels.batches import extent, texts_equal
from crown.store.arrow_buffers import Texts, flags, halves, integers, texts, valid, words
from crown.store.codec import NULL, Intern, UnencodableError, encode, uses_dictionary
from plans.types import arrow_type

_FORMS = {"int32": scan.HALF, "date": scan.HALF, "bool": scan.BIT, "float64": scan.FLOAT}

Given = Any
"""An Arrow array of the declared type, or the words of integers without NULL: int32[n], int64[n]."""


WHOLE: dict[str, type[np.generic]] = {
    "int32": np.int32, "date": np.int32, "int64": np.int64, "timestamp": np.int64, "timestamp_ntz": np.int64,
    "duration": np.int64,
}  # fmt: skip
"""Types whose values are integers that equal their codes, and their dtypes in Arrow."""


class OfBatch(dict[str, pa.Array]):
    """The columns of a record batch by declared name, each made on first access, which takes a microsecond."""

    def __init__(self, batch: pa.RecordBatch, places: Mapping[str, int]) -> None:
        super().__init__()
        self._batch = batch
        self._places = places

    def __missing__(self, name: str) -> pa.Array:
        found = self[name] = self._batch.column(self._places[name])
        return found


class Columns(Mapping[str, pa.Array]):
    """Arrow arrays by declared name, all of the same length. ``kinds``: the declared types.

    ``matrix`` int64[n, columns]: all columns, in the order of ``kinds``, if all are integers without NULL; ``given`` is
    empty then. ``rows`` int64[n]: the positions of the selected rows in the arrays of ``given``, or None for all rows.
    Rows of a column that is not read are never selected.
    """

    def __init__(
        self,
        given: dict[str, Given],
        kinds: Mapping[str, str],
        matrix: np.ndarray | None = None,
        rows: np.ndarray | None = None,
    ) -> None:
        self._given = given
        self._kinds = kinds
        self._matrix = matrix
        self._rows = rows
        self._made = given if rows is None else {}

    def __getitem__(self, name: str) -> pa.Array:
        column = self._column(name)
        if isinstance(column, np.ndarray):
            column = self._made[name] = integers(column, arrow_type(self._kinds[name]))
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)

    def _column(self, name: str) -> Given:
        if self._rows is None and self._matrix is None:
            return self._given[name]
        found = self._made.get(name)
        if found is None:
            if self._matrix is not None:
                found = self._matrix[:, list(self._kinds).index(name)].astype(WHOLE[self._kinds[name]])
            else:
                assert self._rows is not None, "else all columns are there"
                found = _taken(self._given[name], self._kinds[name], self._rows)
            self._made[name] = found
        return found

    def null_count(self, name: str) -> int:
        """Returns the number of NULLs in a column."""
        column = self._column(name)
        return 0 if isinstance(column, np.ndarray) else int(column.null_count)

    def codes(self, name: str, intern: Intern) -> np.ndarray:
        """Returns the codes of a column, int64[n], which must not be written to. Raises UnencodableError. O(n)."""
        kind = self._kinds[name]
        if self._rows is not None and name not in self._made and not self._given[name].null_count:
            if kind in ("string", "binary"):
                return intern(texts(self._given[name])._replace(rows=self._rows), True)
            if kind.startswith("decimal") and not uses_dictionary(kind):  # the first of its two words is the code
                return halves(self._given[name]).reshape(-1).take(2 * self._rows)
        return encode(self._column(name), kind, intern)

    def encode(
        self, relation: str, names: Sequence[str], intern: Intern, out: np.ndarray, rows: np.ndarray | None = None
    ) -> bool:
        """Writes the codes of some of a relation's columns to ``out`` (int64[columns, n]). Returns True if one is NULL.

        Raises BadRowError for a value without a code. ``rows``: the positions of these rows in the batch, or None for
        all rows. O(codes).
        """
        plain = names
        if self._matrix is None or len(names) < len(self._kinds):
            plain = []
            for i, name in enumerate(names):
                found = self.whole(name)
                if found is None:
                    out[i] = self.coded(relation, name, intern, rows)
                else:
                    out[i] = found
                    plain.append(name)
        else:
            out[:] = self._matrix.T
        if not out.size or extent(out.ravel("K"))[0] != NULL:  # one test for all columns: most batches are small
            return False
        for name in plain:
            self.coded(relation, name, intern, rows)
        return True

    def coded(self, relation: str, name: str, intern: Intern, rows: np.ndarray | None) -> np.ndarray:
        """Returns the codes of a column, as ``codes`` does. Raises BadRowError for a value without a code. ``rows``:
        see ``encode``. O(n)."""
        try:
            return self.codes(name, intern)
        except UnencodableError as error:
            row = error.row if rows is None else int(rows[error.row])
            raise BadRowError(relation, row, f"column {name!r}: {error.reason}") from None

    def whole(self, name: str) -> np.ndarray | None:
        """Returns the words of a column of integers, dates or times, int32[n] or int64[n]; None if it has another type
        or NULLs. O(1)."""
        word = WHOLE.get(self._kinds[name])
        column = None if word is None else self._column(name)
        if isinstance(column, np.ndarray):
            return column
        return None if column is None or column.null_count else words(column, word)

    def kind(self, name: str) -> str:
        """Returns the declared type of a column."""
        return self._kinds[name]

    def any_words(self, name: str) -> np.ndarray:
        """Returns the words of a column of integers, dates, times, booleans, or one-word decimals. The words of NULLs
        are undefined. Must not be called for another type. O(1), of booleans O(n)."""
        column, kind = self._column(name), self._kinds[name]
        if isinstance(column, np.ndarray):
            return column
        if kind == "bool":
            return flags(column)
        return halves(column)[:, 0] if kind.startswith("decimal") else words(column, WHOLE[kind])

    def valid(self, name: str) -> np.ndarray | None:
        """Returns bool[n], True for a value that is not NULL, or None if all are. O(n)."""
        return valid(self._column(name)) if self.null_count(name) else None

    def texts(self, name: str) -> Texts:
        """Returns a column of texts. The texts of NULLs are undefined. O(1)."""
        return texts(self._column(name))

    def taken(self, rows: np.ndarray) -> Columns:
        """Returns the rows at some positions (int64[k]). O(1) per column until it is read."""
        if self._matrix is not None:
            return Columns({}, self._kinds, self._matrix.take(rows, axis=0))
        return Columns(self._given, self._kinds, None, rows if self._rows is None else self._rows.take(rows))


@cache
def _word_of(kind: str) -> type[np.generic] | None:
    """Returns the dtype of the one or two words of a type's values, or None if they have no fixed width."""
    type_ = arrow_type(kind)
    if pa.types.is_decimal(type_):
        return np.int64
    words_of: dict[int, type[np.generic]] = {32: np.int32, 64: np.int64}  # not bits or months
    return words_of.get(type_.bit_width) if pa.types.is_primitive(type_) else None


def _taken(column: Given, kind: str, rows: np.ndarray) -> Given:
    """Returns the values at some positions. NumPy selects words in a quarter of Arrow's time, and codes are words."""
    if isinstance(column, np.ndarray):
        return column.take(rows)
    word = None if column.null_count else _word_of(kind)
    if word is None:
        return column.take(pa.array(rows))
    given = halves(column) if kind.startswith("decimal") else words(column, word)
    picked = given.take(rows, axis=0)
    if kind == "float64" or picked.ndim == 2:
        return pa.Array.from_buffers(column.type, len(rows), [None, pa.py_buffer(picked)], 0)
    return picked


@dataclass(frozen=True)
class Test:
    """A condition on one column, or on two. ``kind``: a constant of ``crown.ingest.kernels.scan``.

    ``column``: its declared name. ``low``, ``high``: the range of WITHIN. ``other``: the second column of BEFORE and
    EQUAL. ``words``: the values of ONE_OF. ``texts``: the values of TEXT. ``negated``: the condition must not hold. A
    test other than IS_NULL never holds for NULL.
    """

    kind: int
    column: str
    low: int = 0
    high: int = 0
    other: str = ""
    words: tuple[int, ...] = ()
    texts: tuple[bytes, ...] = ()
    negated: bool = False

    def holds(self, columns: Columns, n: int) -> np.ndarray:
        """Returns bool[n], True where the condition holds. O(n)."""
        there = columns.valid(self.column)
        if self.kind == scan.IS_NULL:
            if there is None:
                return np.full(n, self.negated)
            return there if self.negated else ~there
        if self.kind == scan.TEXT:
            found, given, same = np.zeros(n, bool), columns.texts(self.column), np.empty(n, bool)
            for text in self.texts:
                texts_equal(given.ends, given.data, np.array(bytearray(text), np.uint8), True, same)
                found |= same
        elif self.kind == scan.WITHIN:
            values = columns.any_words(self.column)
            found = (values >= self.low) & (values <= self.high)
        elif self.kind == scan.ONE_OF:
            found = np.isin(columns.any_words(self.column), self.words)
        else:
            values, other = columns.any_words(self.column), columns.any_words(self.other)
            others = columns.valid(self.other)
            found = values < other if self.kind == scan.BEFORE else values == other
            there = others if there is None else there if others is None else there & others
        if self.negated:
            found = ~found
        return found if there is None else found & there


@dataclass(frozen=True)
class HashPartition:
    """The rows of a relation that one of several ``cells`` has: those whose value of a column hashes to its number.

    The first cell also has the rows in which the column is NULL.
    """

    column: str
    cells: int
    cell: int

    def rows(self, columns: Columns, n: int) -> np.ndarray:
        """Returns the ascending positions of the rows of the cell, int64[k]. O(n)."""
        cells, there = np.empty(n, np.int64), columns.valid(self.column)
        if columns.kind(self.column) in ("string", "binary"):
            texts = columns.texts(self.column)
            cells_of_texts(texts.ends, texts.data, self.cells, cells)
        else:
            cells_of_words(columns.any_words(self.column).astype(np.int64), self.cells, cells)
        if there is not None:
            cells[~there] = 0
        return np.flatnonzero(cells == self.cell)


class Scanned(NamedTuple):
    """The rows of a batch that the query reads.

    ``codes`` int64[columns, k], those of dictionary columns not yet written. ``weights`` int64[k]. ``rows`` int64[k]:
    their ascending positions in the batch, or None for all rows. ``nulls``: True if a code is NULL. ``others``: the
    number of rows of other cells.
    """

    codes: np.ndarray
    weights: np.ndarray
    rows: np.ndarray | None
    nulls: bool
    others: int


class Scan:
    """Scans batches of one schema.

    ``columns``: the wanted columns, with their types. ``places``: the positions of wanted and tested columns in a
    batch. ``weight``: the position of the weights, or None. ``required``: columns that must not be NULL. ``tests``:
    alternatives, each a conjunction of tests; empty for all rows. ``most``: the largest allowed weight. ``partition``:
    the rows of the cell, if there are several cells.

    ``plan`` and ``texts`` are read by the kernel.
    """

    def __init__(
        self,
        columns: Mapping[str, str],
        places: Mapping[str, int],
        weight: int | None,
        required: Sequence[str],
        tests: Sequence[Sequence[Test]],
        most: int,
        partition: HashPartition | None = None,
    ) -> None:
        self.places = places
        self.weight = weight
        self.most = most
        self._width = len(columns)
        self.coded = [name for name, kind in columns.items() if uses_dictionary(kind)]
        plan, lists, octets = [-1 if weight is None else weight, len(columns)], list[int](), bytearray()
        plan += [-1, 0, 1, 0]
        if partition is not None:
            plan[scan.D_PARTITION :] = [
                places[partition.column],
                form_of(columns[partition.column]),
                partition.cells,
                partition.cell,
            ]
        first = scan.D_COLUMN0 + scan.COLUMN * len(columns) + 1 + sum(1 + scan.TEST * len(of) for of in tests)
        for name, kind in columns.items():
            plan += [places[name], form_of(kind), name in required]
        plan.append(len(tests))
        for alternative in tests:
            plan.append(len(alternative))
            for test in alternative:
                low, high = test.low, test.high
                if test.kind in (scan.TEXT, scan.ONE_OF):
                    low, high = first + len(lists), len(test.texts) or len(test.words)
                    lists += test.words
                    for text in test.texts:
                        lists += [len(octets), len(text)]
                        octets += text
                elif test.other:
                    low, high = places[test.other], form_of(columns[test.other])
                plan += [test.kind, places[test.column], form_of(columns[test.column]), low, high, -int(test.negated)]
        self.plan = np.array([*plan, *lists], np.int64)
        self.texts = np.frombuffer(bytes(octets) or b"\0", np.uint8)

    def read(self, batch: pa.RecordBatch) -> Scanned | None:
        """Returns the rows of a non-empty batch that the query reads. Returns None if a value needs the checks of
        ``Checker.check``. O(rows)."""
        n, exported = batch.num_rows, np.zeros(scan.EXPORTED, np.int64)  # per call: the kernel runs without the GIL
        out, weights = np.empty(self._width * n, np.int64), np.empty(n, np.int64)
        rows, found = np.empty(n, np.int64), np.empty(3, np.int64)
        address = exported.ctypes.data
        batch._export_to_c(address)
        if scan.scan(address, self.plan, self.texts, self.most, out, weights, rows, found) == scan.REFUSED:
            return None
        k, nulls, others = found.tolist()
        codes = out[: self._width * k].reshape(self._width, k)
        return Scanned(codes, weights[:k], None if k == n else rows[:k], bool(nulls), others)


def form_of(kind: str) -> int:
    """Returns the form in which Arrow stores values of a type."""
    if uses_dictionary(kind):
        return scan.OTHER
    return scan.PAIR if kind.startswith("decimal") else _FORMS.get(kind, scan.WORD)
