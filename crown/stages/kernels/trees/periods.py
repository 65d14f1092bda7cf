"""Rows ordered by a time: one tree of all rows, searched by ranges of times.

Trees are those of ``crown.stages.kernels.trees.ordered``, without sums, in ascending order of one word of the rows,
then of all others.
"""

from __future__ import annotations

from crown.kernels.jit import kernel
from crown.kernels.memory.arena import H_STEPS
from crown.kernels.memory.pointers import constants, words
from crown.stages.kernels.trees.nodes import HEAD, LEVEL, row_at
from crown.stages.kernels.trees.ordered import BEHIND, locate
from crown.stages.kernels.trees.scan import here


@kernel("words, int, words, words, words, words, words, bytes, words, int, words, table, words")
def between(arena, root_at, shape, spec, strides, low, values, octets, path, high, cursor, rows, weights):
    """Writes the rows of a tree whose time is greater than that of the row ``low`` and at most ``high``, with their
    copies, in order.

    ``cursor`` (int64[3]): leaf and entry of the next row, initially 0, and 1 when all rows are written. Returns the
    number of written rows; there is room for ``weights.size``. O(log rows) for the first call, O(1) per row. Changes
    nothing.
    """
    room = weights.size
    arena, shape, spec, strides, low = words(arena), words(shape), constants(spec), constants(strides), words(low)
    values, octets, path = words(values), words(octets), words(path)
    cursor, rows, weights = words(cursor), words(rows), words(weights)
    leaf, e, width, at = cursor[0], cursor[1], shape[0], spec[0]
    root = arena[root_at]
    if leaf == 0 and root != 0:
        _, _, steps = locate(arena, root, shape, spec, 1, BEHIND, low, strides, 0, values, octets, path)
        arena[H_STEPS] += steps
        depth = arena[root + LEVEL]
        leaf, e = path[2 * depth], path[2 * depth + 1]
    m = 0
    cursor[2] = 1
    leaf, e = here(arena, leaf, e)
    while leaf != 0 and arena[row_at(arena, shape, leaf, e) + at] <= high:
        if m == room:
            cursor[2] = 0
            break
        arena[H_STEPS] += 1
        source = row_at(arena, shape, leaf, e)
        for c in range(width):
            rows[m * width + c] = arena[source + c]
        weights[m] = arena[leaf + HEAD + e]
        m += 1
        leaf, e = here(arena, leaf, e + 1)
    cursor[0], cursor[1] = leaf, e
    return m
