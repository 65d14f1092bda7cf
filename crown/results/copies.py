"""Expands rows with multiplicities to one row per copy, or adds the column ``_weight``."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from crown.store.arrow_buffers import integers, words
from plans.schema import WEIGHT

ROWS = 1 << 16
"""The maximum number of rows of a batch of repeated rows."""


def repeated(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a batch with positive weights, without the weights, each repeated by its weight.

    O(1) per row that is yielded; memory of ``ROWS`` rows for any weights.
    """
    left = words(batch.column(WEIGHT))
    rows = batch.drop_columns([WEIGHT])
    if (left == 1).all():
        yield rows
        return
    left, at = left.copy(), 0
    while at < len(left):
        ends = np.minimum(left[at:], ROWS).cumsum()
        rest = left[at : at + int(ends.searchsorted(ROWS)) + 1]
        copies = np.diff(np.minimum(ends[: len(rest)], ROWS), prepend=0)
        yield rows.take(pa.array(np.repeat(np.arange(at, at + len(rest)), copies)))
        rest -= copies
        at += len(rest) - int(rest[-1] > 0)


def once_each(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Returns the rows of a set with the column ``_weight``, the last one of ``schema``, which is 1."""
    weights = integers(np.ones(batch.num_rows, np.int64), pa.int64())
    return pa.RecordBatch.from_arrays([*batch.columns, weights], schema=schema)
