"""The rows of a relation inside its window, in the order in which they leave it.

A relation has a record of words:

    ORDERED   root of the tree of its rows in the order in which they leave
    BY_ROW    root of a second tree of the same rows, by their values; only if they leave in the order of arrival
    UNDO      handle of the block that undoes the last batch
    MARK      the watermark
    NEXT      the next running number
    ROWS      copies of rows in the window
    LATE      late changes
    EXPIRED   copies that have left the window
    MISSING   copies that deletes did not find
    UPDATES   changes

Python reads and writes the words from ``MARK`` on.

Trees are those of ``crown.stages.kernels.trees.ordered``, without sums. If rows leave in the order of arrival, their
last code is a running number: each arrival is then a separate row, and a delete removes the oldest one.
"""

from __future__ import annotations

from crown.kernels.jit import kernel
from crown.kernels.memory.arena import H_BUDGET, H_LIVE, H_STEPS, alloc
from crown.kernels.memory.pointers import constants, words
from crown.stages.kernels.trees.nodes import HEAD, LEVEL, row_at
from crown.stages.kernels.trees.ordered import EXACT, FIRST, copies_there, locate, put
from crown.stages.kernels.trees.scan import here, leftmost

ORDERED, BY_ROW, UNDO, MARK, NEXT, ROWS, LATE, EXPIRED, MISSING, UPDATES, WORDS = range(11)
COUNTERS = WORDS - MARK


@kernel("words, int")
def block(arena, size):
    """Returns the handle of a new block of ``size`` words, all 0."""
    handle = alloc(arena, size)
    for i in range(size):
        arena[handle + i] = 0
    return handle


@kernel("words, int, words, words, words, table, words, words, bytes, words, words, int")
def change(arena, root_at, shape, spec, strides, keys, changes, values, octets, path, taken, start):
    """Adds ``changes`` (int64[n]) to the copies of rows, from row ``start`` on. No count falls below 0.

    ``keys`` int64[width, n]. ``taken`` (int64[n]) receives the effective changes. Returns the first row that is not
    done: n, unless the budget is used up. O(log rows) each.
    """
    n, columns = changes.size, spec.size // 4
    arena, shape, spec, strides, keys = words(arena), words(shape), constants(spec), constants(strides), words(keys)
    changes, values, octets = words(changes), words(values), words(octets)
    path, taken = words(path), words(taken)
    for i in range(start, n):
        d = changes[i]
        if d > 0 and arena[H_LIVE] > arena[H_BUDGET]:
            return i
        root = arena[root_at]
        found, _, steps = locate(arena, root, shape, spec, columns, EXACT, keys, strides, i, values, octets, path)
        taken[i] = max(d, -copies_there(arena, root, found, path))
        steps += put(
            arena, root_at, shape, spec, columns, keys, strides, i, values, octets, found, taken[i], taken, i, path
        )  # fmt: skip
        arena[H_STEPS] += steps
    return n


@kernel("words, int, words, int, int, int, table, words")
def front(arena, root_at, shape, at, until, copies, rows, weights):
    """Writes the first rows of a tree: those whose code ``at`` is at most ``until``, and at most ``copies`` copies.

    The last row is written with only the copies that are still wanted. Returns the number of written rows; if they fill
    the output there may be more. O(1) per row, and O(log rows). Changes nothing.
    """
    room = weights.size
    arena, shape, rows, weights = words(arena), words(shape), words(rows), words(weights)
    m, e, width = 0, 0, shape[0]
    leaf = leftmost(arena, shape, arena[root_at])
    while leaf != 0 and m < room and copies > 0:
        source = row_at(arena, shape, leaf, e)
        if arena[source + at] > until:
            break
        arena[H_STEPS] += 1
        mine = min(arena[leaf + HEAD + e], copies)
        for c in range(width):
            rows[m * width + c] = arena[source + c]
        weights[m] = mine
        copies -= mine
        m += 1
        leaf, e = here(arena, leaf, e + 1)
    return m


@kernel("words, int, words, words, words, table, words, words, bytes, words, table, words")
def oldest(arena, root_at, shape, spec, strides, keys, wanted, values, octets, path, rows, weights):
    """Writes the oldest arrivals of rows, as many copies of each row as are ``wanted`` (int64[n]).

    ``root_at``: the tree by values, whose last code is the running number. ``keys`` int64[width, n]: different rows;
    the last code is not read. There is room for all arrivals that can be found. ``wanted`` receives the missing copies.
    Returns the number of written rows. O(log rows) per row, and O(1) per arrival. Changes nothing.
    """
    n, columns = wanted.size, spec.size // 4 - 1
    arena, shape, spec, strides, keys = words(arena), words(shape), constants(spec), constants(strides), words(keys)
    wanted, values, octets, path = words(wanted), words(values), words(octets), words(path)
    rows, weights = words(rows), words(weights)
    m, width, root = 0, shape[0], arena[root_at]
    for i in range(n):
        if root == 0:
            break
        _, _, steps = locate(arena, root, shape, spec, columns, FIRST, keys, strides, i, values, octets, path)
        arena[H_STEPS] += steps
        depth = arena[root + LEVEL]
        leaf, e = here(arena, path[2 * depth], path[2 * depth + 1])
        while leaf != 0 and wanted[i] > 0:
            source = row_at(arena, shape, leaf, e)
            same = True
            for c in range(width - 1):
                same = same and arena[source + c] == keys[strides[c] + i]
            if not same:
                break
            mine = min(arena[leaf + HEAD + e], wanted[i])
            for c in range(width):
                rows[m * width + c] = arena[source + c]
            weights[m] = mine
            wanted[i] -= mine
            m += 1
            leaf, e = here(arena, leaf, e + 1)
    return m
