"""Rows in the order of a time that they have: one tree of all rows, searched by a range of times.

Trees are those of ``crown.stages.kernels.trees``, in the order of one word of the rows, then of all others.
"""

from __future__ import annotations

from crown.kernels.arena import H_STEPS
from crown.kernels.jit import kernel
from crown.kernels.pointers import words
from crown.stages.kernels.trees import AFTER, BEFORE, COPIES, following


@kernel("words, int, int, int, int, int, words, table, words")
def between(arena, root_at, width, at, low, high, cursor, rows, weights):
    """Writes the rows of a tree whose word ``at`` is above ``low`` and not above ``high``, with their copies, in order.

    ``cursor`` (int64[2]): the next node, 0 to begin with, and 1 when all is written. Returns how many rows were
    written; there is room for ``weights.size``. O(log rows) to begin with, O(1) amortized per row. Changes nothing.
    """
    room = weights.size
    arena, cursor, rows, weights = words(arena), words(cursor), words(rows), words(weights)
    node = cursor[0]
    if node == 0:
        below = arena[root_at]
        while below != 0:
            arena[H_STEPS] += 1
            if arena[below + at] > low:
                node, below = below, arena[below + width + BEFORE]
            else:
                below = arena[below + width + AFTER]
    m = 0
    while node != 0 and m < room and arena[node + at] <= high:
        arena[H_STEPS] += 1
        for c in range(width):
            rows[m * width + c] = arena[node + c]
        weights[m] = arena[node + width + COPIES]
        m += 1
        node = following(arena, width, node)
    cursor[0] = node
    cursor[1] = 1 if node == 0 or arena[node + at] > high else 0
    return m
