"""Masks: which aliases of a relation read a row.

A row that every alias reads has no mask (``EVERY``). Two things keep a row from an alias: a NULL in a column that the
alias joins on, and, in a cell of a plan that was cut, a hash that belongs to another cell. What is known of the cells
comes with the batch: an Arrow table may have a column of masks (bit ``i``: occurrence ``i`` of the plan, in the order
of ``plans.reads.occurrences``, reads the row), which it names in its metadata. A name alone would not do: any
column of the user's may have it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from crown.store.codec import NULL
from crown.store.flat import words

EVERY = np.full(1, -1, np.int64)  # the mask of tuples that every alias reads
_KEY = b"crown.masks"


def with_masks(schema: pa.Schema, name: str) -> pa.Schema:
    """Returns the schema of a table of changes whose column ``name`` (int64, without NULLs) holds masks."""
    return schema.with_metadata({_KEY: name.encode()})


def given_masks(metadata: Mapping[bytes, bytes], names: Sequence[str], column: Callable[[int], Any]) -> np.ndarray:
    """Returns the masks (int64[n]) of a batch that ``columns.opened`` has opened, if its metadata tell of some; else
    ``EVERY``."""
    if _KEY not in metadata:
        return EVERY
    masks = words(column(names.index(metadata[_KEY].decode())))
    return masks.copy()  # Arrow's is read-only, which makes it another type to a kernel


def reads(masks: np.ndarray, bit: int) -> np.ndarray:
    """Returns True (bool[n]) for every mask that has the bit."""
    found: np.ndarray = (masks >> bit & 1).astype(bool)
    return found


def readers(masks: np.ndarray, n: int, bit: int) -> int:
    """Returns how many of ``n`` rows with these masks (int64[n], or ``EVERY``) the bit's owner reads."""
    return n if masks is EVERY else int(np.count_nonzero(reads(masks, bit)))


def null(table: np.ndarray, words: tuple[int, ...]) -> np.ndarray:
    """Returns True (bool[n]) for every tuple of ``table`` (int64[n, width]) in which one of those words is NULL."""
    found: np.ndarray = (table[:, words] == NULL).any(axis=1)
    return found
