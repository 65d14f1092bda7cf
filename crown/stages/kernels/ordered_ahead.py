"""The ways to the coming rows of a batch in ordered trees, which are fetched while nothing depends on them yet."""

from __future__ import annotations

from crown.kernels.arena import LINE
from crown.kernels.jit import device
from crown.kernels.pointers import prefetch
from crown.kernels.tables import LOW32, find, hash_key, slot_of
from crown.stages.kernels.nodes import LENGTH, LEVEL, child_at, full, node_words, row_at
from crown.stages.kernels.ordered import DEPTH, compare

AHEAD = 16  # rows whose ways are fetched together
_FEW = 4  # rows for which nothing is fetched ahead


@device
def _approach(arena, shape, spec, columns, keys, strides, first, n, values, octets, path):
    """Fetches the ways to ``n`` rows from row ``first`` on, AHEAD of them at most, before they are located one by one:
    goes down their trees together, level by level, so that the misses of one are waited for with those of the others.

    The roots, 0 of none, are the words of ``path`` from ``_roots_at`` on; they are overwritten.
    """
    at, line = _roots_at(shape), node_words(shape, full(shape, 0), 0)
    busy = True
    while busy:
        busy = False
        for j in range(n):
            node = path[at + j]
            if node == 0 or arena[node + LEVEL] == 0:
                continue
            low, high = 1, arena[node + LENGTH]
            while low < high:
                middle = (low + high) // 2
                side = compare(
                    arena, row_at(arena, shape, node, middle), spec, columns, keys, strides, first + j, values, octets
                )  # fmt: skip
                if side >= 0:
                    low = middle + 1
                else:
                    high = middle
            child = arena[child_at(arena, shape, node, low - 1)]
            path[at + j] = child
            busy = True
            prefetch(arena, child)
            if arena[node + LEVEL] == 1:
                for word in range(LINE, line, LINE):
                    prefetch(arena, child + word)


@device
def _roots_at(shape):
    """Returns where the roots lie that ``approach`` begins with."""
    return 2 * DEPTH + shape[1]


@device
def near_handles(arena, handles, k, spec, columns, strides, shape, keys, i, n, values, octets, path):
    """Fetches the ways to the coming rows, from row ``i`` on, in partitions that are known; 0 is none. Returns the
    first row to which nothing was fetched."""
    end, at = min(n, i + AHEAD), _roots_at(shape) - i
    if end - i >= _FEW:
        for j in range(i, end):
            path[at + j] = 0
            if handles[j] != 0:
                path[at + j] = arena[handles[j] + k]
                prefetch(arena, path[at + j])
        _approach(arena, shape, spec, columns, keys, strides, i, end - i, values, octets, path)
    return end


@device
def near_keys(arena, t, keyed, k, spec, columns, strides, shape, keys, i, n, values, octets, path):
    """Fetches slots, partitions and ways, as ``near_handles`` does where partitions are not known."""
    end, at = min(n, i + AHEAD), _roots_at(shape) - i
    if end - i >= _FEW:
        for j in range(i, end):
            path[at + j] = hash_key(arena, keyed, 0, k, keys, j)
            prefetch(arena, slot_of(arena, t, path[at + j]))
        for j in range(i, end):
            prefetch(arena, arena[slot_of(arena, t, path[at + j])] & LOW32)
        for j in range(i, end):
            group = find(arena, t, path[at + j], keyed, 0, k, keys, j)
            path[at + j] = 0
            if group != 0:
                path[at + j] = arena[group + k]
                prefetch(arena, path[at + j])
        _approach(arena, shape, spec, columns, keys, strides, i, end - i, values, octets, path)
    return end
