"""Encodes values of the user's columns as int64 codes, and decodes them. Each domain A, B, C has its own codes.

If the key of a domain is one integer column, a value is its own code. Any other key (strings, dates, several columns
together) is encoded by a dictionary. Arrow's dictionary encoding fills it, so that Python handles each distinct value
once per batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crown.ingest.conventions import code_column
from crown.ingest.tables.columns import doubtful, is_pandas
from ivm_triangle.errors import TriangleError

Columns = tuple[str, ...]


def table_of(data: Any) -> pa.Table:
    """Returns an Arrow table from a table, record batch, frame with an Arrow interface, rows, or a dict of columns."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    try:
        if isinstance(data, dict):
            return pa.table(data)
        if isinstance(data, list):
            odd = next((i for i, row in enumerate(data) if dict(row).keys() != dict(data[0]).keys()), None)
            if odd is not None:
                raise TriangleError(f"row {odd} has other keys than the first: {list(data[odd])}, not {list(data[0])}")
            return pa.Table.from_pylist(data)
        if is_pandas(data):
            return pa.Table.from_pandas(data, preserve_index=False)
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data).read_all()
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise TriangleError(f"these changes are not a table: {error}") from error
    raise TriangleError(
        f"changes must be a frame (Arrow, pandas, Polars, DuckDB), a list of dicts or a dict of columns, not as "
        f"{type(data).__name__}"
    )


class Domain:
    """The codes of one domain. The first batch fixes the types of its key columns."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.types: tuple[pa.DataType, ...] | None = None
        self.codes: dict[Any, int] = {}
        self.values: dict[int, Any] = {}
        self.fresh = 1

    @property
    def plain(self) -> bool:
        """Returns True if a value is its own code."""
        return self.types is not None and len(self.types) == 1 and pa.types.is_integer(self.types[0])

    def encode(self, columns: Sequence[pa.Array]) -> np.ndarray:
        """Returns int64 codes of the rows of `columns` (no NULLs). Raises TriangleError on a type that does not fit."""
        if self.types is None:
            self.types = tuple(column.type for column in columns)
        if len(columns) != len(self.types):
            raise TriangleError(f"domain {self.name} has a key of {len(self.types)} columns, not {len(columns)}")
        try:
            if self.plain:
                return pc.cast(columns[0], pa.int64()).to_numpy(zero_copy_only=False)
            arrays = [pc.cast(column, kind) for column, kind in zip(columns, self.types, strict=True)]
        except pa.ArrowInvalid as error:
            raise TriangleError(f"domain {self.name} holds {self.types}: {error}") from error
        except pa.ArrowNotImplementedError as error:
            raise TriangleError(f"domain {self.name} holds {self.types}; cast the column first ({error})") from error
        encoded = [array.dictionary_encode() for array in arrays]
        indices = np.stack([e.indices.to_numpy(zero_copy_only=False).astype(np.int64) for e in encoded], axis=1)
        distinct, inverse = np.unique(indices, axis=0, return_inverse=True)
        dictionaries = [e.dictionary.to_pylist() for e in encoded]
        mapped = [self._code(tuple(d[i] for d, i in zip(dictionaries, row, strict=True))) for row in distinct.tolist()]
        return np.array(mapped, dtype=np.int64)[inverse.reshape(-1)]

    def _code(self, value: tuple) -> int:
        code = self.codes.get(value)
        if code is None:
            code = self.codes[value] = self.fresh
            self.values[code] = value
            self.fresh += 1
        return code

    def decode(self, codes: np.ndarray) -> list[pa.Array]:
        """Returns the key columns of an array of codes, or the codes themselves if no batch has fixed the types."""
        if self.types is None:
            return [pa.array(codes)]
        if self.plain:
            return [pa.array(codes).cast(self.types[0])]
        rows = [self.values[code] for code in codes.tolist()]
        return [pa.array([row[i] for row in rows], type=kind) for i, kind in enumerate(self.types)]

    def show(self, code: int) -> str:
        """Returns one value as a text for messages."""
        value = code if self.plain else self.values.get(code, code)
        return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)

    def sweep(self, vertices: int, alive: Callable[[np.ndarray], np.ndarray]) -> None:
        """Deletes values that are in no tuple any more, once they are the majority. Amortized O(1) per change."""
        if len(self.codes) < 1024 or len(self.codes) <= 2 * vertices:
            return
        codes = np.fromiter(self.values, dtype=np.int64, count=len(self.values))
        for code in codes[~alive(codes)].tolist():
            del self.codes[self.values.pop(code)]


def split_rows(
    table: pa.Table, name: str, first: Columns, second: Columns, domains: tuple[Domain, Domain]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Returns (x codes, y codes, weights, rows dropped for a NULL key) of a batch of changes to one relation.

    Raises TriangleError if a column is missing or `_weight` is not an integer column.
    """
    wanted = [*first, *second]
    wrong = doubtful(table.column_names, {column.lower() for column in wanted})
    if wrong is not None:
        raise TriangleError(f"{name}: {wrong}")
    codes = code_column(table.column_names, wanted)
    if codes is not None:
        raise TriangleError(f"{name}: there is a column {codes!r}, but only weights are read here; name them '_weight'")
    absent = [column for column in wanted if column not in table.column_names]
    if absent:
        raise TriangleError(f"{name}: no column {absent[0]!r} among {table.column_names}")
    keys = [table.column(column).combine_chunks() for column in wanted]
    weights = np.ones(len(table), dtype=np.int64)
    if "_weight" in table.column_names:
        column = table.column("_weight").combine_chunks()
        if not pa.types.is_integer(column.type) or column.null_count:
            raise TriangleError(f"{name}: _weight must be an integer column without NULLs, not {column.type}")
        weights = pc.cast(column, pa.int64()).to_numpy(zero_copy_only=False)
    dropped = 0
    if any(column.null_count for column in keys):
        whole = pc.invert(pc.is_null(keys[0]))
        for column in keys[1:]:
            whole = pc.and_(whole, pc.invert(pc.is_null(column)))
        keys = [column.filter(whole) for column in keys]
        weights = weights[whole.to_numpy(zero_copy_only=False)]
        dropped = len(table) - len(weights)
    x = domains[0].encode(keys[: len(first)])
    y = domains[1].encode(keys[len(first) :])
    return x, y, weights, dropped
