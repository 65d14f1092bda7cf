"""Applies a batch to a table of immutable files: each file with changed rows is rewritten."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crown.results.summed import numbered
from crown.store.arrow_buffers import booleans, combined, flags, integers, strings, words
from spark_jobs.tables.results.net import COUNT, DELETE, INSERT, OP, Net

File = TypeVar("File")


def rewritten(files: Iterable[tuple[File, pa.Table]], net: Net) -> tuple[list[File], pa.Table] | None:
    """Returns the files that a batch replaces, and the rows that replace theirs. Returns None if the batch does not fit
    the table: a row to delete or update is missing, or a row to insert exists.

    ``files``: files that may contain rows of the batch, with their rows.
    """
    found, replaced, rest = np.zeros(net.rows.num_rows, bool), [], []
    counts = np.zeros(net.rows.num_rows, np.int64)
    for file, rows in files:
        at = _matched(rows, net)
        hit = at >= 0
        if not hit.any():
            continue
        found[at[hit]] = True
        if not net.keyed:
            counts[at[hit]] += words(combined(rows[COUNT]))[hit]
        replaced.append(file)
        rest.append(rows.filter(booleans(~hit)))
    if net.keyed:
        inserts, deletes = (flags(combined(pc.equal(net.rows[OP], strings([op])[0]))) for op in (INSERT, DELETE))
        if (found == inserts).any():
            return None
        come = net.rows.filter(booleans(~deletes)).drop_columns([OP])
    else:
        left = words(combined(net.rows[COUNT])) + counts
        if (left < 0).any():
            return None
        place = net.rows.column_names.index(COUNT)
        come = net.rows.set_column(place, COUNT, integers(left, pa.int64())).filter(booleans(left > 0))
    return replaced, pa.concat_tables([*rest, come])


def _matched(rows: pa.Table, net: Net) -> np.ndarray:
    """Returns for each row the row of the batch with its key, −1 if there is none. NULL equals NULL."""
    found = np.full(rows.num_rows, -1, np.int64)
    near = _near(rows, net)
    few = rows.select(net.match).filter(booleans(near))
    if not few.num_rows:
        return found
    codes = numbered(pa.chunked_array([*few[name].chunks, *net.rows[name].chunks]) for name in net.match)
    places = np.full(int(codes.max(initial=0)) + 1, -1, np.int64)
    places[codes[few.num_rows :]] = np.arange(net.rows.num_rows)
    found[near] = places[codes[: few.num_rows]]
    return found


def _near(rows: pa.Table, net: Net) -> np.ndarray:
    """Returns a flag for each row that shares the value of a column with a row of the batch: a cheap test that most
    rows fail.
    """
    for name in net.match:
        column = net.rows[name]
        if pa.types.is_integer(column.type) and not column.null_count:
            return flags(combined(pc.is_in(rows[name], value_set=combined(column))))
    return np.ones(rows.num_rows, bool)
