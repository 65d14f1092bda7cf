"""Copies the sums of results out of the arena: far parts of doubles become separate rows.

In an enumerated payload, each part of doubles has a word after its limbs. The word is 0, or marks the limbs as a slice
of a far part (``crown.engine.kernels.enumeration.loans``). Rows are summed, so a row and its slices have the value of
the original.
"""

from __future__ import annotations

import numpy as np

from crown.engine.kernels.enumeration import loans
from crown.engine.payload import Parts
from crown.store.zset import Zset


def with_slices(block: Zset, arena: np.ndarray, parts: Parts) -> Zset:
    """Returns the rows of a block of results whose far parts are lent from ``arena``, and their slices, in new memory.

    Ends the loans. O(rows + far parts).
    """
    assert block.payload is not None, "a plan with sums of doubles carries them"
    payload, n = np.ascontiguousarray(block.payload), len(block)
    if payload is block.payload:
        payload = payload.copy()
    places = np.array(parts.far, np.int64).reshape(-1)
    total = int(loans.count(arena, payload, n, places))
    sources, slices = np.empty(total, np.int64), np.zeros((len(payload), total), np.int64)
    loans.cut(arena, payload, n, places, sources, slices)
    loans.call(arena)
    rows, weights = block.columns(), np.concatenate([block.weights, np.zeros(total, np.int64)])
    columns = np.concatenate([rows, rows[:, sources]], axis=1)
    return Zset.of_columns(columns, weights, np.concatenate([payload, slices], axis=1))
