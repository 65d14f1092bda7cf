"""Count windows: converts an append-only list to a stream of inserts and deletes.

With a window of ``W`` rows over a list of ``N`` rows, step ``i`` (counted from 1) first deletes row ``i − W`` if ``i >
W``, then inserts row ``i``. After the last row, all rows in the window are deleted. The CROWN paper measures its graph
queries on this stream (PVLDB 16(5), 2023, Section 7). The stream has ``2N`` updates, never more than ``W`` live rows,
and is empty at the end.

Update number ``u`` is a closed formula of ``u``, so any slice of the stream is computed in O(slice) without its
predecessors:

========================  ==========================  ======
updates ``u``             row                         weight
========================  ==========================  ======
``0 ≤ u < W``             ``u``                       ``+1``
``W ≤ u < 2N − W``        ``(u − W) / 2``             ``−1``  (``u − W`` even)
``W ≤ u < 2N − W``        ``W + (u − W − 1) / 2``     ``+1``  (``u − W`` odd)
``2N − W ≤ u < 2N``       ``u − N``                   ``−1``
========================  ==========================  ======
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from crown.errors import CrownError
from plans.schema import CHANGE_TYPE, ROW_KIND, WEIGHT


class WindowError(CrownError):
    """The requested window does not fit the list. The message says what to pass instead."""


def check_inserts(name: str, rows: pa.Table) -> None:
    """Raises :class:`WindowError` if the rows of a list have weights or change codes."""
    said = [column for column in rows.column_names if column.lower() in (WEIGHT, CHANGE_TYPE, ROW_KIND)]
    if said:
        raise WindowError(
            f"a window slides over rows that are all inserts, but the file of {name!r} has a column {said[0]}; leave "
            "the window out, or the column"
        )


def size(window: float | str, rows: int) -> int:
    """Returns the rows in the window: ``window`` if it is an integer, or that fraction of ``rows`` if it is below 1.

    ``size("0.2", 508_837)`` is 101,767; ``size(1000, 500)`` is 500, since a window has at most the rows of its list.
    Raises :class:`WindowError` unless ``window`` is a positive number, and an integer if it is 1 or more.
    """
    try:
        value = float(window)
    except ValueError:
        raise WindowError(
            f"window {window!r} is not a number: give rows (1000) or a fraction of the list (0.2)"
        ) from None
    if not value > 0 or value == float("inf") or (value >= 1 and value != int(value)):
        raise WindowError(f"window {window!r}: give a whole number of rows (1000) or a fraction of the list (0.2)")
    length = int(value * rows) if value < 1 else int(value)
    return max(min(length, rows), min(rows, 1))


def updates(rows: int, window: int, start: int = 0, stop: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Computes updates ``start`` to ``stop`` of the sliding-window stream over ``rows`` rows.

    Returns two int64 arrays of length ``stop − start``: row numbers and weights (``+1`` insert, ``−1`` delete).
    ``stop`` defaults to the end of the stream, ``2 · rows``. Cost O(stop − start).
    """
    total = 2 * rows
    u = np.arange(start, total if stop is None else min(stop, total), dtype=np.int64)
    steady = u - window
    odd = steady & 1
    row = np.where(odd == 1, window + (steady >> 1), steady >> 1)
    weight = np.where(odd == 1, 1, -1)
    filling, draining = u < window, u >= total - window
    row[draining], weight[draining] = u[draining] - rows, -1
    row[filling], weight[filling] = u[filling], 1
    return row, weight


def sliding(table: pa.Table, window: int, batch_rows: int) -> Iterator[pa.Table]:
    """Yields the sliding-window stream over ``table`` in file order, split into tables of ``batch_rows`` updates.

    Each table has the columns of ``table`` and the int64 column ``_weight``. Only one batch is in memory at a time;
    cost O(updates). An engine applies the net change of a batch, so a row inserted and deleted in one batch has no
    effect (see ``netted``). No batch has the last insert and a later delete: a list that is shorter than a batch fills
    its window before the window is emptied.
    """
    if batch_rows < 1:
        raise WindowError(f"a batch of {batch_rows} rows: give 1 or more")
    total = 2 * table.num_rows
    for first, last in ((0, total - window), (total - window, total)):
        for start in range(first, last, batch_rows):
            row, weight = updates(table.num_rows, window, start, min(start + batch_rows, last))
            yield table.take(pa.array(row)).append_column(WEIGHT, pa.array(weight))


def netted(name: str, rows: int, window: int, batch_rows: int) -> str | None:
    """Returns a message about a window shorter than a batch, which inserts and deletes rows within one batch; else
    None.

    A row of the list of ``rows`` rows stays for ``2 * window`` updates while the window slides.
    """
    if batch_rows <= 2 * window or rows <= window:
        return None
    return (
        f"the window of {window:,} rows over {name} is shorter than a batch of {batch_rows:,} updates: deltas are net "
        f"per batch, so rows that are inserted and deleted within one are in none; --batch-rows {window} shows all"
    )


def appended(table: pa.Table, batch_rows: int) -> Iterator[pa.Table]:
    """Yields the list without a window: inserts only, in tables of ``batch_rows`` rows with ``_weight`` = +1."""
    for piece in sliced(table, batch_rows):
        yield piece.append_column(WEIGHT, pa.array(np.ones(piece.num_rows, dtype=np.int64)))


def sliced(table: pa.Table, batch_rows: int) -> Iterator[pa.Table]:
    """Yields a table in slices of ``batch_rows`` rows."""
    if batch_rows < 1:
        raise WindowError(f"a batch of {batch_rows} rows: give 1 or more")
    for start in range(0, table.num_rows, batch_rows):
        yield table.slice(start, batch_rows)
