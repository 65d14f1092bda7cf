"""The columns of a batch, checked: Arrow arrays, or words of integers that become Arrow arrays if somebody asks.

Lists of Python's whole numbers are what kernels take as soon as they are an array of words. An Arrow array of them is
made only where an expression reads it, or a bad row is written down: of a small batch it would be most of the work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from crown.errors import BadRowError
from crown.store.codec import Intern, UnencodableError, encode
from crown.store.flat import halves, words
from plans.schema import arrow_type

Given = Any
"""An Arrow array of the declared type; or, of whole numbers of which none is NULL, their words: int32[n], int64[n]."""


class Columns(Mapping[str, pa.Array]):
    """Arrow arrays by declared name, all of the same length. ``kinds``: the declared types."""

    def __init__(self, given: dict[str, Given], kinds: Mapping[str, str]) -> None:
        self._given = given
        self._kinds = kinds

    def __getitem__(self, name: str) -> pa.Array:
        column = self._given[name]
        if isinstance(column, np.ndarray):
            column = self._given[name] = integers(column, arrow_type(self._kinds[name]))
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    def null_count(self, name: str) -> int:
        """Returns how many values of a column are NULL."""
        column = self._given[name]
        return 0 if isinstance(column, np.ndarray) else int(column.null_count)

    def codes(self, name: str, intern: Intern) -> np.ndarray:
        """Returns the codes of a column, int64[n]; not to be written to. Raises UnencodableError. O(n)."""
        return encode(self._given[name], self._kinds[name], intern)

    def coded(self, relation: str, name: str, intern: Intern, rows: np.ndarray | None = None) -> np.ndarray:
        """Returns the same of a relation's column, but a value that has no code is a BadRowError. O(n).

        ``rows``: where these rows are in what came, if they are not all of it.
        """
        try:
            return encode(self._given[name], self._kinds[name], intern)
        except UnencodableError as error:
            row = error.row if rows is None else int(rows[error.row])
            raise BadRowError(relation, row, f"column {name!r}: {error.reason}") from None

    def whole(self, name: str) -> np.ndarray | None:
        """Returns the words of a column of whole numbers, dates or times, int32[n] or int64[n]; None if it is of
        another type, or has NULLs. O(1)."""
        kind = self._kinds[name]
        return None if kind == "float64" or kind.startswith("decimal") else _words(self._given[name], kind)

    def taken(self, rows: np.ndarray) -> Columns:
        """Returns the rows at some positions (int64[k])."""
        return Columns(
            {name: _taken(column, self._kinds[name], rows) for name, column in self._given.items()}, self._kinds
        )


@cache
def _word_of(kind: str) -> type[np.generic] | None:
    """Returns the words of which values of a type are made, one or two; None if they have no fixed number of bytes."""
    type_ = arrow_type(kind)
    if not (pa.types.is_primitive(type_) or pa.types.is_decimal(type_)) or type_.bit_width < 32:
        return None
    return np.int32 if type_.bit_width == 32 else np.int64


def _words(column: Given, kind: str) -> np.ndarray | None:
    """Returns the words of a column without NULLs, int32[n], int64[n] or int64[n, 2]; None if it has others."""
    if isinstance(column, np.ndarray):
        return column
    word = _word_of(kind)
    if word is None or column.null_count:
        return None
    return halves(column) if kind.startswith("decimal") else words(column, word)


def _taken(column: Given, kind: str, rows: np.ndarray) -> Given:
    """Returns the values at some positions. NumPy takes words in a quarter of Arrow's time, and codes are words."""
    given = _words(column, kind)
    if given is None:
        return column.take(pa.array(rows))
    picked = given.take(rows, axis=0)
    if kind == "float64" or picked.ndim == 2:
        return pa.Array.from_buffers(column.type, len(rows), [None, pa.py_buffer(picked)], 0)
    return picked


def integers(values: np.ndarray, target: pa.DataType) -> pa.Array:
    """Returns an Arrow array over the buffer of an int32 or int64 array, of a type as wide.

    ``pa.array`` would load pandas, if it is there, which takes 0.2 s of the first batch.
    """
    return pa.Array.from_buffers(target, len(values), [None, pa.py_buffer(values)], 0)
