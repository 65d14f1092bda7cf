"""What has changed in a Delta table between two of its versions, as Arrow on the driver.

Of a table with a change data feed that is the feed. Of any other it is the rows of the files that were added, less
those of the files that were removed: exact while the removed files are there, which VACUUM deletes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crown.ingest.columns import WEIGHT
from spark_jobs.errors import SourceError
from spark_jobs.feeds.delta_source import CHANGE_TYPE, has_feed, opened, telling
from spark_jobs.tables.hidden import refuse_vectors_among_changes

if TYPE_CHECKING:
    from deltalake import DeltaTable

_INSERTS, _DELETES = ("insert", "update_postimage"), ("delete", "update_preimage")


def between(table: str, schema: pa.Schema, first: int, last: int) -> tuple[pa.Table, str] | None:
    """Returns the changes that lead from a version to another one, with ``_weight``, and how they were found.

    ``schema``: the columns that are read, with their types. None if the versions in between do not say it: their files
    or their log are gone. Raises :class:`SourceError` for a table that cannot be read.
    """
    newest = opened(table, last)
    if has_feed(newest):
        try:
            return _fed(newest, table, schema, first, last), "change data feed"
        except SourceError:
            pass  # the feed was turned on later, or is gone
    try:
        return _by_files(opened(table, first), newest, table, schema)
    except SourceError:
        return None


def rows_at(table: str, schema: pa.Schema, version: int) -> pa.Table:
    """Returns the rows of a version. Raises :class:`SourceError` if it cannot be read."""
    with telling(table):
        return _read(opened(table, version).to_pyarrow_dataset().get_fragments(), schema)


def _fed(newest: DeltaTable, table: str, schema: pa.Schema, first: int, last: int) -> pa.Table:
    with telling(table):
        refuse_vectors_among_changes(newest, table, first + 1, last)
        reader = newest.load_cdf(starting_version=first + 1, ending_version=last)
        found = pa.RecordBatchReader.from_stream(reader).read_all()
        kinds = found[CHANGE_TYPE].cast(pa.string())
        inserted = pc.is_in(kinds, pa.array(_INSERTS)).to_numpy().astype(np.int64)
        deleted = pc.is_in(kinds, pa.array(_DELETES)).to_numpy().astype(np.int64)
        return _fitted(found, schema).append_column(WEIGHT, pa.array(inserted - deleted))


def _by_files(oldest: DeltaTable, newest: DeltaTable, table: str, schema: pa.Schema) -> tuple[pa.Table, str]:
    with telling(table):
        before = {fragment.path: fragment for fragment in oldest.to_pyarrow_dataset().get_fragments()}
        after = {fragment.path: fragment for fragment in newest.to_pyarrow_dataset().get_fragments()}
        added = _read((after[path] for path in after.keys() - before.keys()), schema)
        removed = _read((before[path] for path in before.keys() - after.keys()), schema)
    weights = np.repeat(np.array([1, -1], np.int64), [len(added), len(removed)])
    rows = pa.concat_tables([added, removed]).append_column(WEIGHT, pa.array(weights))
    return rows, f"{len(after.keys() - before.keys())} files added, {len(before.keys() - after.keys())} removed"


def _read(fragments: Iterator[pa.dataset.Fragment], schema: pa.Schema) -> pa.Table:
    parts = [_fitted(fragment.to_table(schema=schema), schema) for fragment in fragments]
    return pa.concat_tables(parts) if parts else schema.empty_table()


def _fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    return rows.select(schema.names).cast(schema)
