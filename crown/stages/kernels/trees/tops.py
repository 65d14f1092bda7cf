"""The first rows of groups, maintained: positions ``offset`` up to ``end`` of each group's rows in order.

A group is a partition, whose tree has no sums (see ``crown.stages.kernels.over.partitions``). A change before the end
of the window shifts the rows after it, and the rows that cross the bounds of the window are the window's change. So a
change costs O(log n) for any window, and no group is read as a whole.
"""

from __future__ import annotations

from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import H_BUDGET, H_LIVE, H_STEPS
from crown.kernels.memory.pointers import constants, words
from crown.stages.kernels.over.partitions import ABSENT, DONE, OVER_BUDGET, find_or_make, update_partition
from crown.stages.kernels.trees.ahead import near_keys
from crown.stages.kernels.trees.ordered import EXACT, copies_there, locate, put, total
from crown.stages.kernels.trees.scan import emit


@device
def _shifted(arena, root, shape, rank, copies, offset, end, sign, rows, weights, m, room):
    """Writes the rows that cross the bounds of the window when ``copies`` rows are inserted at position ``rank`` of a
    tree. ``sign`` 1: the tree is that before the insert; -1: that after a delete. Returns the number of rows in the
    output."""
    if rank >= end:
        return m
    n = total(arena, root)
    m, _ = emit(arena, root, shape, max(offset, rank, end - copies), min(end, n), -sign, rows, weights, m, room)
    m, _ = emit(
        arena, root, shape, max(rank, offset - copies), min(offset, end - copies, n), sign, rows, weights, m, room
    )
    return m


@device
def _own(width, rank, change, offset, end, keys, strides, i, rows, weights, m):
    """Writes the inserted, or deleted, copies inside the window. Returns the number of rows in the output."""
    inside = min(rank + abs(change), end) - max(rank, offset)
    if inside <= 0:
        return m
    for c in range(width):
        rows[m * width + c] = keys[strides[c] + i]
    weights[m] = inside if change > 0 else -inside
    return m + 1


@device
def changed(
    arena, t, keyed, k, spec, columns, strides, shape, keys, changes, n, values, octets, path, offset, end, rows,
    weights, room, done
):  # fmt: skip
    """Does what ``change`` does. ``columns``: those of the order; ``room``: rows for which there is room."""
    m, visited = done[1], done[0]
    for i in range(done[0], n):
        if i == visited:
            visited = near_keys(
                arena, t, keyed, k, spec, columns, EXACT, strides, shape, keys, i, n, values, octets, path
            )  # fmt: skip
        d = changes[i]
        if d > 0 and arena[H_LIVE] > arena[H_BUDGET]:
            return OVER_BUDGET
        tag, group = find_or_make(arena, t, keyed, k, keys, i, d)
        if group == 0:
            return ABSENT
        root_at = group + k
        root = arena[root_at]
        found, rank, steps = locate(arena, root, shape, spec, columns, EXACT, keys, strides, i, values, octets, path)
        before = copies_there(arena, root, found, path)
        if before + d < 0:
            return ABSENT
        if d > 0:
            m = _shifted(arena, root, shape, rank, d, offset, end, 1, rows, weights, m, room)
        m = _own(shape[0], rank, d, offset, end, keys, strides, i, rows, weights, m)
        steps += put(
            arena, root_at, shape, spec, columns, keys, strides, i, values, octets, found, d, changes, i, path
        )  # fmt: skip
        if d < 0:
            m = _shifted(arena, arena[root_at], shape, rank, -d, offset, end, -1, rows, weights, m, room)
        update_partition(arena, t, tag, k, group, before, d)
        arena[H_STEPS] += steps
        done[0] = i + 1
        done[1] = m
    return DONE


@kernel("words, int, words, int, words, words, words, table, words, words, bytes, words, int, int, table, words, words")
def change(
    arena, t, keyed, k, spec, strides, shape, keys, changes, values, octets, path, offset, end, rows, weights, done
):  # fmt: skip
    """Adds ``changes`` (int64[n]) to the copies of rows, and writes the resulting changes of their groups' windows.

    ``keys`` int64[width, n]. ``keyed``: the strides of the ``k`` columns of a group's key. ``rows`` and ``weights``
    have room for all possible changes of the batch. ``done`` (int64[2], initially zeros): changed rows, written rows.
    Returns DONE; OVER_BUDGET, call it again to continue; or ABSENT if a delete finds too few copies. O(log n) per row.
    """
    n, room, columns = changes.size, weights.size, spec.size // 4
    arena, keyed, spec, strides = words(arena), constants(keyed), constants(spec), constants(strides)
    shape, keys, changes, values = words(shape), words(keys), words(changes), words(values)
    octets, path, rows, weights, done = words(octets), words(path), words(rows), words(weights), words(done)
    return changed(
        arena, t, keyed, k, spec, columns, strides, shape, keys, changes, n, values, octets, path, offset, end, rows,
        weights, room, done
    )  # fmt: skip
