"""The columns of a batch, checked: Arrow arrays, or words of integers that become Arrow arrays when they are read.

Lists of Python's whole numbers are what kernels take as soon as they are an array of words. An Arrow array of them is
made only where an expression reads it, or a bad row is written down: of a small batch it would be most of the work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from crown.errors import BadRowError
from crown.kernels.batches import extent
from crown.store.arrow_buffers import Texts, halves, integers, texts, valid, words
from crown.store.codec import NULL, Intern, UnencodableError, encode, uses_dictionary
from plans.types import arrow_type

Given = Any
"""An Arrow array of the declared type; or, of whole numbers of which none is NULL, their words: int32[n], int64[n]."""


WHOLE: dict[str, type[np.generic]] = {
    "int32": np.int32, "date": np.int32, "int64": np.int64, "timestamp": np.int64, "timestamp_ntz": np.int64,
}  # fmt: skip
"""Types whose values are whole numbers, and so their own codes, with the words that they have in Arrow."""


class OfBatch(dict[str, pa.Array]):
    """The columns of a record batch by declared name, each taken from it when it is read: that takes a microsecond."""

    def __init__(self, batch: pa.RecordBatch, places: Mapping[str, int]) -> None:
        super().__init__()
        self._batch = batch
        self._places = places

    def __missing__(self, name: str) -> pa.Array:
        found = self[name] = self._batch.column(self._places[name])
        return found


class Columns(Mapping[str, pa.Array]):
    """Arrow arrays by declared name, all of the same length. ``kinds``: the declared types.

    ``matrix`` int64[n, columns]: all of them, in the order of ``kinds``, if all are whole numbers, and none is NULL;
    ``given`` is empty then. ``rows`` int64[n]: where these rows are in the arrays of ``given``, if they are not all of
    them; a column that is not read is never picked.
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
        """Returns how many values of a column are NULL."""
        column = self._column(name)
        return 0 if isinstance(column, np.ndarray) else int(column.null_count)

    def codes(self, name: str, intern: Intern) -> np.ndarray:
        """Returns the codes of a column, int64[n]; not to be written to. Raises UnencodableError. O(n)."""
        kind = self._kinds[name]
        if self._rows is not None and name not in self._made and not self._given[name].null_count:
            if kind in ("string", "binary"):
                return intern(texts(self._given[name])._replace(rows=self._rows), True)
            if kind.startswith("decimal") and not uses_dictionary(kind):  # of its two words the first is the code
                return halves(self._given[name]).reshape(-1).take(2 * self._rows)
        return encode(self._column(name), kind, intern)

    def encode(
        self, relation: str, names: Sequence[str], intern: Intern, out: np.ndarray, rows: np.ndarray | None = None
    ) -> bool:
        """Writes the codes of some of a relation's columns to ``out`` (int64[columns, n]). Returns True if one is NULL.

        A value that has no code is a BadRowError. ``rows``: where these rows are in what came, if they are not all of
        it. O(codes).
        """
        plain = names
        if self._matrix is None or len(names) < len(self._kinds):
            plain = []
            for i, name in enumerate(names):
                found = self.whole(name)
                if found is None:
                    out[i] = self._coded(relation, name, intern, rows)
                else:
                    out[i] = found
                    plain.append(name)
        else:
            out[:] = self._matrix.T
        if not out.size or extent(out.ravel("K"))[0] != NULL:  # of all at once: most batches are small
            return False
        for name in plain:
            self._coded(relation, name, intern, rows)
        return True

    def _coded(self, relation: str, name: str, intern: Intern, rows: np.ndarray | None) -> np.ndarray:
        try:
            return self.codes(name, intern)
        except UnencodableError as error:
            row = error.row if rows is None else int(rows[error.row])
            raise BadRowError(relation, row, f"column {name!r}: {error.reason}") from None

    def whole(self, name: str) -> np.ndarray | None:
        """Returns the words of a column of whole numbers, dates or times, int32[n] or int64[n]; None if it is of
        another type, or has NULLs. O(1)."""
        word = WHOLE.get(self._kinds[name])
        column = None if word is None else self._column(name)
        if isinstance(column, np.ndarray):
            return column
        return None if column is None or column.null_count else words(column, word)

    def any_words(self, name: str) -> np.ndarray:
        """Returns the words of a column of whole numbers, dates, times, or decimals of one word, with any word where
        there is a NULL. Not for a column of another type. O(1)."""
        column, kind = self._column(name), self._kinds[name]
        if isinstance(column, np.ndarray):
            return column
        return halves(column)[:, 0] if kind.startswith("decimal") else words(column, WHOLE[kind])

    def valid(self, name: str) -> np.ndarray | None:
        """Returns bool[n]: where a column has a value; None if it has one everywhere. O(n)."""
        return valid(self._column(name)) if self.null_count(name) else None

    def texts(self, name: str) -> Texts:
        """Returns a column of texts, with any text where there is a NULL. O(1)."""
        return texts(self._column(name))

    def taken(self, rows: np.ndarray) -> Columns:
        """Returns the rows at some positions (int64[k]). O(1) per column, until it is read."""
        if self._matrix is not None:
            return Columns({}, self._kinds, self._matrix.take(rows, axis=0))
        return Columns(self._given, self._kinds, None, rows if self._rows is None else self._rows.take(rows))


@cache
def _word_of(kind: str) -> type[np.generic] | None:
    """Returns the words of which values of a type are made, one or two; None if they have no fixed number of bytes."""
    type_ = arrow_type(kind)
    if not (pa.types.is_primitive(type_) or pa.types.is_decimal(type_)) or type_.bit_width < 32:
        return None
    return np.int32 if type_.bit_width == 32 else np.int64


def _taken(column: Given, kind: str, rows: np.ndarray) -> Given:
    """Returns the values at some positions. NumPy takes words in a quarter of Arrow's time, and codes are words."""
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
