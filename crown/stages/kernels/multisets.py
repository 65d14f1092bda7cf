"""Multisets of values, one per group and argument: how often each value occurs, and, where asked for, in which order.

A value is a tuple of codes: the argument, and what it is ordered by besides. One that occurs has a record in a table of
the stage's arena: its group's handle, the number of the multiset, the codes, and how often it occurs. Where values are
read by position or in order, the record is also a node of the multiset's tree (see ``crown.stages.kernels.trees``), as
a row of that ``width``. Where only the ends are read, it stands in heaps (see ``crown.stages.kernels.heaps``).

A multiset takes three words of its group's state: the number of different values, and the root of its tree and nothing,
or a word per heap.
"""

from __future__ import annotations

from crown.kernels.arena import H_BUDGET, H_LIVE, T_CAPACITY, T_SLOTS, alloc, release
from crown.kernels.jit import kernel
from crown.kernels.pointers import constants, words
from crown.kernels.strings import NULL
from crown.kernels.tables import LOW32, find, hash_key, insert, make_room, remove
from crown.stages.kernels.heaps import HEAPS, MAXIMA, MINIMA, RECORD, push
from crown.stages.kernels.trees import (
    AFTER,
    BEFORE,
    COPIES,
    add,
    fell,
    following,
    grow,
    leftmost,
    locate,
    sound,
    total,
)

MULTISET = 3  # words of a multiset in the state of its group
TREE = 4  # kept in a tree; beside the sides of heaps
OWNER = 2  # words of a record in front of the codes: group, multiset
_ROOT = 1


@kernel("words, int, words, int, words, table, words, words, int, words, bytes, words, int")
def change(arena, t, strides, width, spec, keys, weights, places, kept, values, octets, flips, start):
    """Adds ``weights`` (int64[n], none of them 0) to the counts of distinct values, from position ``start`` on.

    ``keys`` int64[width, n]: group, multiset, codes; ``places[i]``: the multiset's first word in the arena;
    ``kept``: TREE, or the heaps that it has, in the order ``spec``. ``flips[i]`` becomes +1 where a value appears, -1
    where it vanishes, else 0. Returns the position of the first value not changed: n, unless the budget is used up; or
    -1 - position, if a count would become negative. Expected O(log) per value, O(1) without an order.
    """
    n = weights.size
    arena, strides, keys, weights = words(arena), constants(strides), words(keys), words(weights)
    spec, places, values, octets, flips = constants(spec), words(places), words(values), words(octets), words(flips)
    for i in range(start, n):
        if arena[H_LIVE] > arena[H_BUDGET]:
            return i
        tag = hash_key(arena, strides, 0, width, keys, i)
        record = find(arena, t, tag, strides, 0, width, keys, i)
        before = 0
        if record != 0:
            before = arena[record + width + COPIES]
        after = before + weights[i]
        if after < 0:
            return -1 - i
        root_at = places[i] + _ROOT
        if record == 0:
            make_room(arena, t)
            if kept == TREE:
                _, last, side, _, _ = locate(arena, arena[root_at], spec, width, keys, strides, i, values, octets)
                record = grow(arena, width, root_at, last, side, keys, strides, i)
            else:
                record = alloc(arena, RECORD)
                for j in range(width):
                    arena[record + j] = keys[strides[j] + i]
                arena[record + width + COPIES] = arena[record + HEAPS] = 0
            insert(arena, t, tag, record)
        if kept == TREE:
            add(arena, width, record, weights[i])
        else:
            arena[record + width + COPIES] = after
        flips[i] = 0
        if before == 0:
            flips[i] = 1
            arena[places[i]] += 1
            missing = 0
            if kept != TREE:
                missing = kept & ~arena[record + HEAPS]
            if missing & MINIMA:
                push(arena, values, octets, spec[1], MINIMA, places[i] + MINIMA, record)
            if missing & MAXIMA:
                push(arena, values, octets, spec[1], MAXIMA, places[i] + MAXIMA, record)
        elif after == 0:
            flips[i] = -1
            arena[places[i]] -= 1
            if kept == TREE:
                remove(arena, t, tag, record)
                fell(arena, width, root_at, record)
            elif arena[record + HEAPS] == 0:
                remove(arena, t, tag, record)
                release(arena, record, RECORD)
    return n


@kernel("words, words, int, int, words")
def sizes(arena, handles, place, width, out):
    """Writes how many values, copies counted, the ordered multisets of groups have. O(1) per group."""
    n = handles.size
    arena, handles, out = words(arena), words(handles), words(out)
    for i in range(n):
        out[i] = total(arena, width, arena[handles[i] + place + _ROOT])


@kernel("words, words, int, int, words, words")
def values_at(arena, handles, place, width, positions, out):
    """Writes the values at ``positions`` (from 0, copies counted) of the ordered multisets of groups, NULL where there
    is none. Expected O(log n) per group."""
    n = handles.size
    arena, handles, positions, out = words(arena), words(handles), words(positions), words(out)
    for i in range(n):
        node, position = arena[handles[i] + place + _ROOT], positions[i]
        out[i] = NULL
        while node != 0 and position >= 0:
            before = total(arena, width, arena[node + width + BEFORE])
            if position < before:
                node = arena[node + width + BEFORE]
                continue
            position -= before
            if position < arena[node + width + COPIES]:
                out[i] = arena[node + OWNER]
                break
            position -= arena[node + width + COPIES]
            node = arena[node + width + AFTER]


@kernel("words, words, int, int, words, words, words")
def in_order(arena, handles, place, width, starts, out, copies):
    """Writes the different values of the ordered multisets of groups, and how often each is there, in order; those of
    group i from ``starts[i]`` on. O(values)."""
    n = handles.size
    arena, handles, starts, out, copies = words(arena), words(handles), words(starts), words(out), words(copies)
    for i in range(n):
        node, m = leftmost(arena, width, arena[handles[i] + place + _ROOT]), starts[i]
        while node != 0:
            out[m] = arena[node + OWNER]
            copies[m] = arena[node + width + COPIES]
            m += 1
            node = following(arena, width, node)


@kernel("words, int, int, int, words")
def codes_of(arena, t, multiset, word, out):
    """Copies a word of the records of a multiset over all groups; returns how many. O(table)."""
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
    """Returns per group of sorted ``handles`` how many values of a multiset occur, by going over all. O(table log)."""
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


@kernel("words, words, int, int, words, words, words, bytes, words")
def check(arena, handles, place, width, spec, strides, values, octets, out):
    """Writes how many nodes the tree of each group has; -1 where it is none (see ``trees.sound``)."""
    n = handles.size
    arena, handles, spec, strides = words(arena), words(handles), constants(spec), constants(strides)
    values, octets, out = words(values), words(octets), words(out)
    for i in range(n):
        out[i] = sound(arena, width, arena[handles[i] + place + _ROOT], spec, strides, values, octets)
