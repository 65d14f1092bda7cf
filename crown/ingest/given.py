"""The columns of a batch, checked: Arrow arrays, or words of integers that become Arrow arrays if somebody asks.

Lists of Python's whole numbers are what kernels take as soon as they are an array of words. An Arrow array of them is
made only where an expression reads it, or a bad row is written down: of a small batch it would be most of the work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from crown.store.codec import Intern, encode
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

    def chosen(self, keep: np.ndarray) -> Columns:
        """Returns the rows where ``keep`` (bool[n]) says so."""
        mask = pa.array(keep)
        return Columns({name: self[name].filter(mask) for name in self}, self._kinds)


def integers(values: np.ndarray, target: pa.DataType) -> pa.Array:
    """Returns an Arrow array over the buffer of an int32 or int64 array, of a type as wide.

    ``pa.array`` would load pandas, if it is there, which takes 0.2 s of the first batch.
    """
    return pa.Array.from_buffers(target, len(values), [None, pa.py_buffer(values)], 0)
