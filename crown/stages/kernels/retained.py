"""The rows of a relation that are within its window, in the order in which they leave it.

What is kept of a relation is a record of words:

    ORDERED    root of the tree of its rows in the order in which they leave
    BY_ROW     root of a second tree of the same rows, by their values; only where they leave in the order of arrival
    UNDO       handle of what takes the last batch back
    MARK ...   counters, which Python reads and writes

Trees are those of ``crown.stages.kernels.trees``. Where rows leave as they arrived, their last code is a running
number: each arrival is a row of its own then, and a delete takes the one that has been there longest.
"""

from __future__ import annotations

from crown.kernels.arena import H_BUDGET, H_LIVE, H_STEPS, alloc
from crown.kernels.jit import kernel
from crown.kernels.pointers import constants, words
from crown.stages.kernels.trees import BEFORE, COPIES, add, fell, following, grow, locate

ORDERED, BY_ROW, UNDO = 0, 1, 2
MARK, NEXT, ROWS, LATE, EXPIRED, MISSING, UPDATES = 3, 4, 5, 6, 7, 8, 9
WORDS = 10
COUNTERS = WORDS - MARK


@kernel("words, int")
def block(arena, size):
    """Returns the handle of a block of that many words, all of them 0."""
    handle = alloc(arena, size)
    for i in range(size):
        arena[handle + i] = 0
    return handle


@kernel("words, int, words, words, int, table, words, words, bytes, words, int")
def change(arena, root_at, spec, strides, width, keys, changes, values, octets, taken, start):
    """Adds ``changes`` (int64[n]) to the copies of rows, from row ``start`` on; no row has fewer than 0.

    ``keys`` int64[width, n]; ``taken`` (int64[n]) becomes what took place. Returns the first row not done: n, unless
    the budget is used up. Expected O(log rows) each.
    """
    n = changes.size
    arena, spec, strides, keys = words(arena), constants(spec), constants(strides), words(keys)
    changes, values, octets, taken = words(changes), words(values), words(octets), words(taken)
    for i in range(start, n):
        d = changes[i]
        if d > 0 and arena[H_LIVE] > arena[H_BUDGET]:
            return i
        taken[i] = 0
        node, last, side, _, steps = locate(arena, arena[root_at], spec, width, keys, strides, i, values, octets)
        arena[H_STEPS] += steps
        if node == 0:
            if d <= 0:
                continue
            node = grow(arena, width, root_at, last, side, keys, strides, i)
        elif d < 0:
            d = max(d, -arena[node + width + COPIES])
        taken[i] = d
        add(arena, width, node, d)
        if arena[node + width + COPIES] == 0:
            fell(arena, width, root_at, node)
    return n


@kernel("words, int, int, int, int, int, table, words")
def front(arena, root_at, width, at, until, copies, rows, weights):
    """Writes the first rows of a tree: those whose code ``at`` is ``until`` or less, and no more than so many copies.

    The last row of ``copies`` is written with the copies that are wanted of it. Returns how many rows were written; if
    that is all there is room for there may be more. O(1) amortized per row, and O(log rows). Changes nothing.
    """
    room = weights.size
    arena, rows, weights = words(arena), words(rows), words(weights)
    m, node = 0, arena[root_at]
    while node != 0 and arena[node + width + BEFORE] != 0:
        node = arena[node + width + BEFORE]
    while node != 0 and m < room and copies > 0 and arena[node + at] <= until:
        arena[H_STEPS] += 1
        mine = min(arena[node + width + COPIES], copies)
        for c in range(width):
            rows[m * width + c] = arena[node + c]
        weights[m] = mine
        copies -= mine
        m += 1
        node = following(arena, width, node)
    return m


@kernel("words, int, words, words, int, table, words, words, bytes, table, words")
def oldest(arena, root_at, spec, strides, width, keys, wanted, values, octets, rows, weights):
    """Writes which arrivals of rows have been there longest, as many copies of each row as are ``wanted`` (int64[n]).

    ``root_at``: the tree by values, whose last code is the running number; ``keys`` int64[width, n] have NULL there,
    and no two are equal. There is room for all that can be found. ``wanted`` becomes what was not found. Returns how
    many rows were written. Expected O(log rows) per row, and O(1) per arrival. Changes nothing.
    """
    n = wanted.size
    arena, spec, strides, keys = words(arena), constants(spec), constants(strides), words(keys)
    wanted, values, octets, rows, weights = words(wanted), words(values), words(octets), words(rows), words(weights)
    m = 0
    for i in range(n):
        _, last, side, _, steps = locate(arena, arena[root_at], spec, width, keys, strides, i, values, octets)
        arena[H_STEPS] += steps
        node = last
        if node != 0 and side > 0:
            node = following(arena, width, node)
        while node != 0 and wanted[i] > 0:
            for c in range(width - 1):
                if arena[node + c] != keys[strides[c] + i]:
                    node = 0
                    break
            if node != 0:
                mine = min(arena[node + width + COPIES], wanted[i])
                for c in range(width):
                    rows[m * width + c] = arena[node + c]
                weights[m] = mine
                wanted[i] -= mine
                m += 1
                node = following(arena, width, node)
    return m
