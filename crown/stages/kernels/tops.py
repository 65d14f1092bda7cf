"""The first rows of groups, maintained: positions ``offset`` up to ``end`` of each group's rows in order.

A group is a record in a table: its key (``k`` codes) and the root of the tree of its rows (see
``crown.stages.kernels.trees``). Rows that come or go in front of the window's end shift what lies behind them: the rows
that cross the bounds of the window are its change. So a change costs O(log n), whatever the window holds; no group is
read as a whole.
"""

from __future__ import annotations

from crown.kernels.arena import H_BUDGET, H_LIVE, H_STEPS, T_TALLIES, alloc, release
from crown.kernels.jit import device, kernel
from crown.kernels.pointers import constants, words
from crown.kernels.tables import find, hash_key, insert, make_room, remove
from crown.stages.kernels.trees import COPIES, add, emit, fell, grow, locate, sound, total

DONE, OVER_BUDGET, ABSENT = 0, 1, 2


@device
def _shifted(arena, width, root, rank, copies, offset, end, sign, rows, weights, m, room):
    """Returns what crosses the bounds of the window when ``copies`` rows come at position ``rank`` of a tree: with
    sign 1 as it is before they come, with -1 as it is after they went."""
    n = total(arena, width, root)
    m, _ = emit(arena, width, root, max(offset, rank, end - copies), min(end, n), -sign, rows, weights, m, room)
    m, _ = emit(
        arena, width, root, max(rank, offset - copies), min(offset, end - copies, n), sign, rows, weights, m, room
    )
    return m


@device
def _own(width, rank, copies, offset, end, sign, keys, strides, i, rows, weights, m):
    """Returns the copies that come, or go, inside of the window."""
    inside = min(rank + copies, end) - max(rank, offset)
    if inside <= 0:
        return m
    for c in range(width):
        rows[m * width + c] = keys[strides[c] + i]
    weights[m] = sign * inside
    return m + 1


@kernel("words, int, words, int, words, words, int, table, words, words, bytes, int, int, table, words, words")
def change(arena, t, keyed, k, spec, strides, width, keys, changes, values, octets, offset, end, rows, weights, done):
    """Adds ``changes`` (int64[n]) to the copies of rows, and writes what that does to the windows of their groups.

    ``keys`` int64[width, n]; ``keyed``: the strides of the ``k`` columns that are the key of a group; ``rows`` and
    ``weights`` have room for all that can come of the batch. ``done`` (int64[2], zeros at first): rows changed, rows
    written. Returns DONE; OVER_BUDGET, call it again to go on; or ABSENT, where a delete finds too few copies. Expected
    O(log n) per row.
    """
    n, room = changes.size, weights.size
    arena, keyed, spec, strides, keys = words(arena), constants(keyed), constants(spec), constants(strides), words(keys)
    changes, values, octets, rows, weights = words(changes), words(values), words(octets), words(rows), words(weights)
    done = words(done)
    m = done[1]
    for i in range(done[0], n):
        d = changes[i]
        if d > 0 and arena[H_LIVE] > arena[H_BUDGET]:
            return OVER_BUDGET
        tag = hash_key(arena, keyed, 0, k, keys, i)
        group = find(arena, t, tag, keyed, 0, k, keys, i)
        if group == 0:
            if d < 0:
                return ABSENT
            make_room(arena, t)
            group = alloc(arena, k + 1)
            for j in range(k):
                arena[group + j] = keys[keyed[j] + i]
            arena[group + k] = 0
            insert(arena, t, tag, group)
        root_at = group + k
        node, last, side, rank, steps = locate(arena, arena[root_at], spec, width, keys, strides, i, values, octets)
        arena[H_STEPS] += steps
        if d > 0:
            m = _shifted(arena, width, arena[root_at], rank, d, offset, end, 1, rows, weights, m, room)
            m = _own(width, rank, d, offset, end, 1, keys, strides, i, rows, weights, m)
            if node == 0:
                node = grow(arena, width, root_at, last, side, keys, strides, i)
                arena[t + T_TALLIES] += 1
            add(arena, width, node, d)
        else:
            if node == 0 or arena[node + width + COPIES] + d < 0:
                return ABSENT
            m = _own(width, rank, -d, offset, end, -1, keys, strides, i, rows, weights, m)
            add(arena, width, node, d)
            if arena[node + width + COPIES] == 0:
                fell(arena, width, root_at, node)
                arena[t + T_TALLIES] -= 1
            m = _shifted(arena, width, arena[root_at], rank, -d, offset, end, -1, rows, weights, m, room)
            if arena[root_at] == 0:
                remove(arena, t, tag, group)
                release(arena, group, k + 1)
        done[0] = i + 1
        done[1] = m
    return DONE


@kernel("words, int, int, words, words, int, int, table, words")
def windows(arena, k, width, handles, cursor, offset, end, rows, weights):
    """Writes the rows of groups at positions ``offset`` to ``end``, with their copies, group by group and in order.

    ``cursor`` (int64[2]) is how far it got: group and position, (0, ``offset``) at first. Returns the rows written;
    all is done when the cursor is behind the last group. O(log n) per group, O(1) per row.
    """
    n, room = handles.size, weights.size
    arena, handles, cursor, rows, weights = words(arena), words(handles), words(cursor), words(rows), words(weights)
    m = 0
    while cursor[0] < n and m < room:
        root = arena[handles[cursor[0]] + k]
        last = min(end, total(arena, width, root))
        m, at = emit(arena, width, root, cursor[1], last, 1, rows, weights, m, room)
        if at >= last:
            cursor[0] += 1
            cursor[1] = offset
        else:
            cursor[1] = at
    return m


@kernel("words, int, words, int, words, words, int, words, words, bytes, words")
def place(arena, t, keyed, k, spec, strides, width, keys, values, octets, out):
    """Writes to ``out`` (int64[2]) how many copies lie before a row in its group, and how often it is there itself."""
    arena, keyed, spec, strides, keys = words(arena), constants(keyed), constants(spec), constants(strides), words(keys)
    values, octets, out = words(values), words(octets), words(out)
    out[0] = out[1] = 0
    group = find(arena, t, hash_key(arena, keyed, 0, k, keys, 0), keyed, 0, k, keys, 0)
    if group != 0:
        node, _, _, rank, _ = locate(arena, arena[group + k], spec, width, keys, strides, 0, values, octets)
        if node != 0:
            out[0] = rank
            out[1] = arena[node + width + COPIES]


@kernel("words, int, words, words, int, words, words, bytes")
def check(arena, k, spec, strides, width, handles, values, octets):
    """Counts the rows of groups by going over all of them; -1 if a tree is empty or none (see ``trees.sound``)."""
    n = handles.size
    arena, spec, strides, handles = words(arena), constants(spec), constants(strides), words(handles)
    values, octets = words(values), words(octets)
    found = 0
    for g in range(n):
        here = sound(arena, width, arena[handles[g] + k], spec, strides, values, octets)
        if here <= 0:
            return -1
        found += here
    return found
