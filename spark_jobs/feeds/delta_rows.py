"""The files of a version of a Delta table, and their rows that deletion vectors leave.

``deltalake`` cannot read single files of a table with deletion vectors. Its log lists the files, its vectors give the
rows that stay, and Arrow reads the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.fs as fs

if TYPE_CHECKING:
    from deltalake import DeltaTable

_VECTORS = "deletionVectors"


@dataclass(frozen=True)
class DataFile:
    """A file of a table: its path in the table, its rows, and flags for the rows that exist; None: all rows exist."""

    path: str
    _fragment: Any
    _kept: np.ndarray | None

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yields the rows that exist."""
        if self._kept is None:
            yield from self._fragment.to_batches(schema=schema)
        else:
            rows = self._all(schema)
            yield from rows.filter(pa.array(self._live(rows.num_rows))).to_batches()

    def changes(self, before: DataFile, schema: pa.Schema) -> tuple[pa.Table, np.ndarray]:
        """Returns the rows that exist in one of the two versions only, and their weights."""
        rows = self._all(schema)
        weights = self._live(rows.num_rows).astype(np.int64) - before._live(rows.num_rows)
        return rows.filter(pa.array(weights != 0)).cast(schema), weights[weights != 0]

    def same(self, before: DataFile) -> bool:
        """Returns True if the same rows exist in both versions."""
        if self._kept is None or before._kept is None:
            return self._kept is before._kept
        return np.array_equal(self._kept, before._kept)

    def _all(self, schema: pa.Schema) -> pa.Table:
        return self._fragment.to_table(schema=schema, use_threads=False)

    def _live(self, rows: int) -> np.ndarray:
        found = np.ones(rows, bool)
        if self._kept is not None:
            found[: len(self._kept)] = self._kept  # a vector ends with the last deleted row, or later
        return found


def data_files(table: DeltaTable) -> list[DataFile]:
    """Returns the files of a version. Raises the errors of ``deltalake`` for a table that it cannot read."""
    protocol = table.protocol()
    if _VECTORS not in (protocol.reader_features or ()):
        return [DataFile(found.path, found, None) for found in table.to_pyarrow_dataset().get_fragments()]
    import pyarrow.dataset as ds  # takes a quarter of a second
    from deltalake.exceptions import DeltaProtocolError
    from deltalake.fs import DeltaStorageHandler
    from deltalake.table import SUPPORTED_READER_FEATURES

    strange = {*(protocol.reader_features or ())} - SUPPORTED_READER_FEATURES - {_VECTORS}
    if strange:
        raise DeltaProtocolError(f"it has the reader features {', '.join(sorted(strange))}")
    vectors = pa.RecordBatchReader.from_stream(table.deletion_vectors()).read_all()
    root = unquote(table.table_uri)
    kept = {
        unquote(uri).removeprefix(root): mask.values.to_numpy(zero_copy_only=False)
        for uri, mask in zip(vectors["filepath"].to_pylist(), vectors["selection_vector"], strict=True)
    }
    files = fs.PyFileSystem(DeltaStorageHandler(table.table_uri))
    schema = pa.schema(table.schema().to_arrow())
    found = [
        DataFile(path, ds.ParquetFileFormat().make_fragment(path, files, where), kept.pop(path, None))
        for path, where in table._table.dataset_partitions(schema, None)
    ]
    if kept:
        raise DeltaProtocolError(f"rows of {min(kept)} are deleted, but it is not a file of the table")
    return found
