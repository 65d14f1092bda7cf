"""Multisets of values, one per group and argument: how often each value occurs, the least and the greatest.

A value that occurs, or still stands in a heap, has a record in a table of the stage's arena::

    0 1 2    its group's handle, the number of the multiset, the value (code)
    3        how often it occurs
    4        bit 0: it stands in the heap of minima; bit 1: of maxima

A multiset takes three words of its group's state: the number of values that occur, and a word per heap (its block in
the low half, its length in the high half; the block's first word is its capacity, then come handles of values). A value
that no longer occurs stays in a heap until it surfaces, or until more than half of the heap is dead, when it is built
anew: amortized O(log n) per change, and at most twice the live values and 9 in a heap.

Values are compared by type: ``order`` says how, see ``crown.stages.kernels.orders``.
"""

from __future__ import annotations

from crown.kernels.arena import H_BUDGET, H_LIVE, T_CAPACITY, T_SLOTS, alloc, release
from crown.kernels.jit import device, kernel
from crown.kernels.pointers import constants, words
from crown.kernels.strings import NULL
from crown.kernels.tables import LOW32, find, hash_key, insert, make_room, remove
from crown.stages.kernels.orders import less

MULTISET = 3  # words of a multiset in the state of its group
VALUE_KEY = 3
_COUNT, _HEAPS, _VALUE_WORDS = 3, 4, 5
MINIMA, MAXIMA = 1, 2
_SLACK = 8


@device
def _before(arena, values, octets, order, side, a, b):
    """Returns True iff record ``a`` belongs nearer to the top of the heap of ``side`` than ``b``."""
    if side == MINIMA:
        return less(values, octets, order, arena[a + 2], arena[b + 2])
    return less(values, octets, order, arena[b + 2], arena[a + 2])


@device
def _sink(arena, values, octets, order, side, block, length, at):
    """Moves the handle at ``at`` (from 1) down to its place."""
    moving = arena[block + at]
    while 2 * at <= length:
        child = 2 * at
        if child < length and _before(
            arena, values, octets, order, side, arena[block + child + 1], arena[block + child]
        ):
            child += 1
        if not _before(arena, values, octets, order, side, arena[block + child], moving):
            break
        arena[block + at] = arena[block + child]
        at = child
    arena[block + at] = moving


@device
def _push(arena, values, octets, order, side, heap, record):
    """Adds a record to a heap (``heap``: its word)."""
    block, length = arena[heap] & LOW32, arena[heap] >> 32
    if length == 0:
        block = alloc(arena, 4)
        arena[block] = 3
    elif length == arena[block]:
        larger = alloc(arena, 2 * length + 2)
        for j in range(1, length + 1):
            arena[larger + j] = arena[block + j]
        arena[larger] = 2 * length + 1
        release(arena, block, length + 1)
        block = larger
    length += 1
    at = length
    while at > 1 and _before(arena, values, octets, order, side, record, arena[block + at // 2]):
        arena[block + at] = arena[block + at // 2]
        at //= 2
    arena[block + at] = record
    arena[heap] = (length << 32) | block
    arena[record + _HEAPS] |= side


@device
def _forget(arena, t, identity, record):
    """Takes out the record of a value that does not occur and stands in no heap."""
    remove(arena, t, hash_key(arena, identity, 0, VALUE_KEY, arena, record), record)
    release(arena, record, _VALUE_WORDS)


@device
def _out_of_heap(arena, t, identity, side, record):
    arena[record + _HEAPS] &= ~side
    if arena[record + _HEAPS] == 0 and arena[record + _COUNT] == 0:
        _forget(arena, t, identity, record)


@kernel("words, int, words, words, table, words, words, int, words, bytes, int, words, int")
def change(arena, t, strides, identity, keys, weights, places, sides, values, octets, order, flips, start):
    """Adds ``weights`` (int64[n], none of them 0) to the counts of distinct values, from position ``start`` on.

    ``keys`` int64[3, n]: group, multiset, value; ``places[i]``: the multiset's first word in the arena; ``sides``: the
    heaps it has. ``flips[i]`` becomes +1 where a value appears, -1 where it vanishes, else 0. Returns the position of
    the first value not changed: n, unless the budget is used up; or -1 - position, if a count would become negative.
    O(log) per value.
    """
    n = weights.size
    arena, strides, identity, keys, weights = (
        words(arena),
        constants(strides),
        constants(identity),
        words(keys),
        words(weights),
    )
    places, values, octets, flips = words(places), words(values), words(octets), words(flips)
    for i in range(start, n):
        if arena[H_LIVE] > arena[H_BUDGET]:
            return i
        tag = hash_key(arena, strides, 0, VALUE_KEY, keys, i)
        record = find(arena, t, tag, strides, 0, VALUE_KEY, keys, i)
        before = 0
        if record != 0:
            before = arena[record + _COUNT]
        if before + weights[i] < 0:
            return -1 - i
        if record == 0:
            make_room(arena, t)
            record = alloc(arena, _VALUE_WORDS)
            for j in range(VALUE_KEY):
                arena[record + j] = keys[strides[j] + i]
            arena[record + _COUNT] = arena[record + _HEAPS] = 0
            insert(arena, t, tag, record)
        arena[record + _COUNT] = before + weights[i]
        flips[i] = 0
        if before == 0:
            flips[i] = 1
            arena[places[i]] += 1
            missing = sides & ~arena[record + _HEAPS]
            if missing & MINIMA:
                _push(arena, values, octets, order, MINIMA, places[i] + 1, record)
            if missing & MAXIMA:
                _push(arena, values, octets, order, MAXIMA, places[i] + 2, record)
        elif before + weights[i] == 0:
            flips[i] = -1
            arena[places[i]] -= 1
            if arena[record + _HEAPS] == 0:
                _forget(arena, t, identity, record)
    return n


@device
def _rebuild(arena, t, identity, values, octets, order, side, heap):
    """Takes what is dead out of a heap, and orders the rest."""
    block, length = arena[heap] & LOW32, arena[heap] >> 32
    kept = 0
    for j in range(1, length + 1):
        record = arena[block + j]
        if arena[record + _COUNT] != 0:
            kept += 1
            arena[block + kept] = record
        else:
            _out_of_heap(arena, t, identity, side, record)
    for j in range(kept // 2, 0, -1):
        _sink(arena, values, octets, order, side, block, kept, j)
    arena[heap] = (kept << 32) | block
    if kept == 0:
        release(arena, block, arena[block] + 1)
        arena[heap] = 0


@kernel("words, int, words, words, int, int, words, bytes, int")
def settle(arena, t, identity, handles, place, sides, values, octets, order):
    """See to it that what is on top of each heap of some groups occurs, and that not too much in it is dead.

    ``place``: the multiset's first word, counted from a group. Amortized O(log) per value that has vanished.
    """
    n = handles.size
    arena, identity, handles = words(arena), constants(identity), words(handles)
    values, octets = words(values), words(octets)
    for i in range(n):
        multiset = handles[i] + place
        for side in (MINIMA, MAXIMA):
            heap = multiset + side
            if sides & side == 0 or arena[heap] == 0:
                continue
            if (arena[heap] >> 32) > 2 * arena[multiset] + _SLACK or arena[multiset] == 0:
                _rebuild(arena, t, identity, values, octets, order, side, heap)
                continue
            block, length = arena[heap] & LOW32, arena[heap] >> 32
            while arena[arena[block + 1] + _COUNT] == 0:
                record = arena[block + 1]
                arena[block + 1] = arena[block + length]
                length -= 1
                _sink(arena, values, octets, order, side, block, length, 1)
                _out_of_heap(arena, t, identity, side, record)
            arena[heap] = (length << 32) | block


@kernel("words, words, int, int, words")
def tops(arena, handles, place, side, out):
    """Writes the least (``side`` MINIMA) or greatest value of the multisets of settled groups, NULL of an empty one."""
    n = handles.size
    arena, handles, out = words(arena), words(handles), words(out)
    for i in range(n):
        heap = handles[i] + place + side
        out[i] = NULL
        if arena[heap] != 0:
            out[i] = arena[arena[(arena[heap] & LOW32) + 1] + 2]


@kernel("words, int, int, words")
def codes_of(arena, t, multiset, out):
    """Copies the values of a multiset over all groups, the dead ones in heaps, too; returns how many. O(table)."""
    n = 0
    slots = arena[t + T_SLOTS]
    for s in range(slots, slots + arena[t + T_CAPACITY]):
        if arena[s] != 0 and arena[(arena[s] & LOW32) + 1] == multiset:
            out[n] = arena[(arena[s] & LOW32) + 2]
            n += 1
    return n


@kernel("words, int, int, words, words")
def recount(arena, t, multiset, handles, out):
    """Returns per group of sorted ``handles`` how many values of a multiset occur, by going over all. O(table log)."""
    slots = arena[t + T_SLOTS]
    for s in range(slots, slots + arena[t + T_CAPACITY]):
        if arena[s] != 0:
            record = arena[s] & LOW32
            if arena[record + 1] == multiset and arena[record + _COUNT] > 0:
                low, high = 0, handles.size
                while low < high:
                    middle = (low + high) // 2
                    if handles[middle] < arena[record]:
                        low = middle + 1
                    else:
                        high = middle
                out[low] += 1
