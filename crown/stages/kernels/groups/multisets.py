"""Multisets of values, one per group and argument: the count of each value, and, if needed, the order of values.

A value is a tuple of codes: the argument, and its ORDER BY columns. If values are read by position or in order, those
of a group are rows of a tree (see ``crown.stages.kernels.trees.ordered``). Otherwise a value has a record in a table of
the stage's arena: its group's handle, the number of the multiset, the codes, and its count. If only the ends are read,
the record is also in heaps (see ``crown.stages.kernels.groups.heaps``).

A multiset takes three words of its group's state: the number of different values, and the root of its tree and an
unused word, or a word per heap.
"""

from __future__ import annotations

from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import H_BUDGET, H_LIVE, H_STEPS, NONE, T_CAPACITY, T_SLOTS, T_TALLIES, release
from crown.kernels.memory.pointers import constants, words
from crown.kernels.memory.tables import LOW32, made_in, record_in, remove_from, seek
from crown.stages.kernels.groups.heaps import HEAPS, MAXIMA, MINIMA, PUSHES, RECORD, heaps_ahead, push
from crown.stages.kernels.prefetch import look_ahead
from crown.stages.kernels.trees.ahead import near_handles
from crown.stages.kernels.trees.ordered import EXACT, copies_there, locate, put

MULTISET = 3  # words of a multiset in the state of its group
TREE = 4  # stored in a tree; the other values are sides of heaps
OWNER = 2  # words of a record before the codes: group, multiset
ROOT = 1  # the word of a multiset with the root of its tree
COPIES = 0  # the word of a record, after the codes, with the count of its value


@kernel("words, int, words, int, words, table, words, words, int, words, bytes, words, int")
def change(arena, t, strides, width, spec, keys, weights, places, kept, values, octets, flips, start):
    """Adds ``weights`` (int64[n], none of them 0) to the counts of distinct values, from position ``start`` on.

    ``keys`` int64[width, n]: group, multiset, codes. ``places[i]``: the multiset's first word in the arena. ``kept``:
    its heaps, in the order ``spec``. ``flips[i]`` receives +1 for a new value, -1 for a removed one, else 0. Returns
    the position of the first unchanged value: n, unless the budget is used up; or -1 - position, if a count would
    become negative. Expected O(1) per value, amortized O(log) with heaps.
    """
    n = weights.size
    arena, strides, keys, weights = words(arena), constants(strides), words(keys), words(weights)
    spec, places, values, octets, flips = constants(spec), words(places), words(values), words(octets), words(flips)
    return change_counts(
        arena, t, strides, width, spec[1], keys, weights, n, places, kept, values, octets, flips, start
    )


@device
def change_counts(arena, t, strides, width, order, keys, weights, n, places, kept, values, octets, flips, start):
    """Runs ``change`` for ``n`` values, which need not be distinct. ``order``: the order of their only column."""
    seen = start
    for i in range(start, n):
        if i == seen:
            heaps_ahead(arena, places, 0, kept, PUSHES, i, n)
            seen = look_ahead(arena, t, strides, width, keys, i, n, flips, i)
        if arena[H_LIVE] > arena[H_BUDGET]:
            return i
        tag = flips[i]
        slot = seek(arena, t, tag, strides, 0, width, keys, i, NONE)
        record = record_in(arena, t, slot)
        before = 0
        if record != 0:
            before = arena[record + width + COPIES]
        after = before + weights[i]
        if after < 0:
            return -1 - i
        if record == 0:
            record = made_in(arena, t, tag, slot, strides, 0, width, keys, i, RECORD)
        arena[record + width + COPIES] = after
        flips[i] = (1 if before == 0 else 0) - (1 if after == 0 else 0)
        arena[places[i]] += flips[i]
        arena[t + T_TALLIES] += flips[i]
        if before == 0:
            missing = kept & ~arena[record + HEAPS]
            if missing & MINIMA:
                push(arena, values, octets, order, MINIMA, places[i] + MINIMA, record)
            if missing & MAXIMA:
                push(arena, values, octets, order, MAXIMA, places[i] + MAXIMA, record)
        elif after == 0 and arena[record + HEAPS] == 0:
            remove_from(arena, t, slot)
            release(arena, record, RECORD)
    return n


@kernel("words, int, words, words, words, table, words, words, words, bytes, words, words, int")
def change_ordered(arena, t, shape, spec, strides, keys, weights, places, values, octets, path, flips, start):
    """Does the same as ``change`` for multisets in trees. ``keys``: only the codes. O(log n) per value.

    Table ``t`` has only their tally of values.
    """
    n, columns = weights.size, spec.size // 4
    arena, shape, spec, strides = words(arena), words(shape), constants(spec), constants(strides)
    keys, weights, places, values = words(keys), words(weights), words(places), words(values)
    octets, path, flips = words(octets), words(path), words(flips)
    near = start
    for i in range(start, n):
        if i == near:
            near = near_handles(
                arena, places, ROOT, spec, columns, EXACT, strides, shape, keys, i, n, values, octets, path
            )  # fmt: skip
        if arena[H_LIVE] > arena[H_BUDGET]:
            return i
        root_at = places[i] + ROOT
        root = arena[root_at]
        found, _, steps = locate(arena, root, shape, spec, columns, EXACT, keys, strides, i, values, octets, path)
        before = copies_there(arena, root, found, path)
        after = before + weights[i]
        if after < 0:
            return -1 - i
        steps += put(
            arena, root_at, shape, spec, columns, keys, strides, i, values, octets, found, weights[i], weights, i, path
        )  # fmt: skip
        arena[H_STEPS] += steps
        flips[i] = (1 if before == 0 else 0) - (1 if after == 0 else 0)
        arena[places[i]] += flips[i]
        arena[t + T_TALLIES] += flips[i]
    return n


@kernel("words, int, int, int, words")
def codes_of(arena, t, multiset, word, out):
    """Copies a word of the records of a multiset over all groups. Returns their number. O(table)."""
    arena, out = words(arena), words(out)
    n = 0
    slots = arena[t + T_SLOTS]
    for s in range(slots, slots + arena[t + T_CAPACITY]):
        if arena[s] != 0 and arena[(arena[s] & LOW32) + 1] == multiset:
            out[n] = arena[(arena[s] & LOW32) + word]
            n += 1
    return n


@kernel("words, int, int, int, words, words")
def recount(arena, t, multiset, width, handles, out):
    """Writes the number of values of a multiset per group of sorted ``handles``, by scanning the table. O(table
    log)."""
    n = handles.size
    arena, handles, out = words(arena), words(handles), words(out)
    slots = arena[t + T_SLOTS]
    for s in range(slots, slots + arena[t + T_CAPACITY]):
        if arena[s] != 0:
            record = arena[s] & LOW32
            if arena[record + 1] == multiset and arena[record + width + COPIES] > 0:
                low, high = 0, n
                while low < high:
                    middle = (low + high) // 2
                    if handles[middle] < arena[record]:
                        low = middle + 1
                    else:
                        high = middle
                out[low] += 1
