"""Masks: which occurrences, or aliases, of a relation read a row.

A row that all of them read has no mask (``EVERY``). An occurrence does not read a row with a NULL in a column that it
joins on. In a cell of a partitioned plan, it does not read a row whose hash belongs to another cell
(``JoinStage.masks``).
"""

from __future__ import annotations

import numpy as np

from crown.store.codec import NULL

EVERY = np.full(1, -1, np.int64)  # the mask of tuples that all occurrences read


def reads(masks: np.ndarray, bit: int) -> np.ndarray:
    """Returns bool[n], True for every mask that has the bit."""
    found: np.ndarray = (masks >> bit & 1).astype(bool)
    return found


def readers(masks: np.ndarray, n: int, bit: int) -> int:
    """Returns how many of ``n`` rows with these masks (int64[n], or ``EVERY``) have the bit."""
    return n if masks is EVERY else int(np.count_nonzero(reads(masks, bit)))


def null(table: np.ndarray, words: tuple[int, ...]) -> np.ndarray:
    """Returns bool[n], True for every tuple of ``table`` (int64[n, width]) in which one of these words is NULL."""
    found: np.ndarray = (table[:, words] == NULL).any(axis=1)
    return found
