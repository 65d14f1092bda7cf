"""What has changed in a Delta table between two of its versions, as Arrow on the driver.

Of a table with a change data feed that is the feed. Of any other it is the rows of the files that were added, less
those of the files that were removed: exact while the removed files are there, which VACUUM deletes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.dataset

from crown.ingest.columns import WEIGHT
from crown.ingest.conventions import CODES
from spark_jobs.errors import SourceError
from spark_jobs.feeds.delta_source import CHANGE_TYPE, fitted, has_feed, opened, telling
from spark_jobs.tables.hidden import refuse_vectors_among_changes

if TYPE_CHECKING:
    from deltalake import DeltaTable


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
        return _read(opened(table, version).to_pyarrow_dataset().get_fragments(), schema, table)


def _fed(newest: DeltaTable, table: str, schema: pa.Schema, first: int, last: int) -> pa.Table:
    coded = schema.append(pa.field(CHANGE_TYPE, pa.string()))
    with telling(table):
        refuse_vectors_among_changes(newest, table, first + 1, last)
        feed = pa.RecordBatchReader.from_stream(newest.load_cdf(starting_version=first + 1, ending_version=last))
        found = pa.Table.from_batches(fitted(feed, coded, table), coded)
    codes = found[CHANGE_TYPE].combine_chunks().dictionary_encode()
    weights = np.array([CODES[code] for code in codes.dictionary.to_pylist()], np.int64)[codes.indices.to_numpy()]
    return found.select(schema.names).append_column(WEIGHT, pa.array(weights))


def _by_files(oldest: DeltaTable, newest: DeltaTable, table: str, schema: pa.Schema) -> tuple[pa.Table, str]:
    with telling(table):
        before = {fragment.path: fragment for fragment in oldest.to_pyarrow_dataset().get_fragments()}
        after = {fragment.path: fragment for fragment in newest.to_pyarrow_dataset().get_fragments()}
        gone, fresh = before.keys() - after.keys(), after.keys() - before.keys()
        added = _read((after[path] for path in fresh), schema, table)
        removed = _read((before[path] for path in gone), schema, table)
    weights = np.repeat(np.array([1, -1], np.int64), [len(added), len(removed)])
    rows = pa.concat_tables([added, removed]).append_column(WEIGHT, pa.array(weights))
    return rows, f"{len(fresh)} files added, {len(gone)} removed"


def _read(fragments: Iterable[pa.dataset.Fragment], schema: pa.Schema, table: str) -> pa.Table:
    batches = (batch for fragment in fragments for batch in fragment.to_batches(schema=schema))
    return pa.Table.from_batches(fitted(batches, schema, table), schema)
