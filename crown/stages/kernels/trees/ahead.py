"""Descends ordered trees for the next rows of a batch together, so that their cache misses overlap."""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.arena import H_STEPS, LINE
from crown.kernels.memory.pointers import prefetch
from crown.kernels.memory.tables import LOW32, find, hash_key, slot_of
from crown.stages.kernels.trees.nodes import LEVEL, child_at, full, node_words
from crown.stages.kernels.trees.ordered import DEPTH, copies_before, search

AHEAD = 16  # rows whose descents are interleaved
ROOM = 3 * AHEAD  # words that are stored for them


@device
def _approach(arena, shape, spec, columns, mode, keys, strides, first, n, values, octets, path):
    """Descends to ``n`` rows from row ``first``, at most AHEAD, in their trees together, level by level, so that their
    cache misses overlap. Prefetches their leaves.

    Stores for each row, for readers: from ``_kept_at``, its leaf (initially its root, 0 for none); AHEAD words later,
    the number of copies before the leaf; and AHEAD words after that, the partition.
    """
    at, line, steps = _kept_at(shape), node_words(shape, full(shape, 0), 0), 0
    for j in range(n):
        path[at + AHEAD + j] = 0
    busy = True
    while busy:
        busy = False
        for j in range(n):
            node = path[at + j]
            if node == 0 or arena[node + LEVEL] == 0:
                continue
            _, e, more = search(arena, shape, node, spec, columns, mode, keys, strides, first + j, values, octets)
            steps += more
            child = arena[child_at(arena, shape, node, e)]
            path[at + j] = child
            path[at + AHEAD + j] += copies_before(arena, node, e)
            busy = True
            prefetch(arena, child)
            if arena[node + LEVEL] == 1:
                for word in range(LINE, line, LINE):
                    prefetch(arena, child + word)
    return steps


@device
def _kept_at(shape):
    """Returns the position of the stored words."""
    return 2 * DEPTH + shape[1]


@device
def located(arena, shape, spec, columns, mode, keys, strides, i, first, values, octets, path):
    """Returns, for row ``i``, the result that ``near_handles`` or ``near_keys`` stored for the rows from ``first``, if
    no tree was changed since: partition, leaf and entry, found, copies before it (see ``ordered.locate``). O(1)."""
    at = _kept_at(shape) + i - first
    leaf, rank = path[at], path[at + AHEAD]
    found, e = False, 0
    if leaf != 0:
        found, e, steps = search(arena, shape, leaf, spec, columns, mode, keys, strides, i, values, octets)
        rank += copies_before(arena, leaf, e)
        arena[H_STEPS] += steps
    return path[at + 2 * AHEAD], leaf, e, found, rank


@device
def near_handles(arena, handles, k, spec, columns, mode, strides, shape, keys, i, n, values, octets, path):
    """Descends to the next rows, from row ``i``, in known partitions (0 for none). Returns the first row that was not
    visited."""
    end, at = min(n, i + AHEAD), _kept_at(shape) - i
    for j in range(i, end):
        path[at + j], path[at + 2 * AHEAD + j] = 0, handles[j]
        if handles[j] != 0:
            path[at + j] = arena[handles[j] + k]
            prefetch(arena, path[at + j])
    arena[H_STEPS] += _approach(
        arena, shape, spec, columns, mode, keys, strides, i, end - i, values, octets, path
    )  # fmt: skip
    return end


@device
def near_keys(arena, t, keyed, k, spec, columns, mode, strides, shape, keys, i, n, values, octets, path):
    """Does the same as ``near_handles`` for unknown partitions, which are looked up by their keys."""
    end, at = min(n, i + AHEAD), _kept_at(shape) - i
    for j in range(i, end):
        path[at + j] = hash_key(arena, keyed, 0, k, keys, j)
        prefetch(arena, slot_of(arena, t, path[at + j]))
    for j in range(i, end):
        prefetch(arena, arena[slot_of(arena, t, path[at + j])] & LOW32)
    for j in range(i, end):
        group = find(arena, t, path[at + j], keyed, 0, k, keys, j)
        path[at + j], path[at + 2 * AHEAD + j] = 0, group
        if group != 0:
            path[at + j] = arena[group + k]
            prefetch(arena, path[at + j])
    arena[H_STEPS] += _approach(
        arena, shape, spec, columns, mode, keys, strides, i, end - i, values, octets, path
    )  # fmt: skip
    return end
