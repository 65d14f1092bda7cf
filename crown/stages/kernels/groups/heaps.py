"""The least and the greatest value of a multiset: heaps of its records, if nothing else is read in order.

A heap takes an insertion in O(1) on average, which a tree cannot. It is a block in the arena: its capacity, then
handles of records. The word of a heap has the block in the low half and its length in the high half. A record is that
of a value of one column (see ``crown.stages.kernels.groups.multisets``), with one more word::

    0 1 2   its group's handle, the number of the multiset, the value (code)
    3       its count
    4       bit 0: it is in the heap of minima; bit 1: in that of maxima

A deleted value stays in a heap until it reaches the top, or until more than half of the heap is deleted values and it
is rebuilt: amortized O(log n) per change, and at most twice the live values plus 9 in a heap.
"""

from __future__ import annotations

from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import alloc, release
from crown.kernels.memory.pointers import constants, prefetch, words
from crown.kernels.memory.tables import LOW32, hash_key, remove
from crown.kernels.strings import NULL
from crown.stages.kernels.prefetch import AHEAD
from crown.stages.kernels.trees.orders import less

VALUE = 2  # word of a record with its value
VALUE_KEY = 3  # words of the key of a record
HEAPS = 4  # word with the heaps that have it
RECORD = 5  # words of a record
PUSHES, TOPS = 0, 1  # what is prefetched
_COUNT = 3  # word with its count
MINIMA, MAXIMA = 1, 2  # sides, as bits
_SLACK = 8


@device
def _before(arena, values, octets, order, side, a, b):
    """Returns True iff record ``a`` is closer to the top of the heap of ``side`` than ``b``."""
    if side == MINIMA:
        return less(values, octets, order, arena[a + VALUE], arena[b + VALUE])
    return less(values, octets, order, arena[b + VALUE], arena[a + VALUE])


@device
def _sink(arena, values, octets, order, side, block, length, at):
    """Moves the handle at ``at`` (from 1) down to its position."""
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
def _compared(arena, heap, what):
    """Returns the block of a heap, and the offset of the handle that is compared first when it gets a record
    (``PUSHES``), or loses its top."""
    word = arena[heap]
    return word & LOW32, max((word >> 32) + 1, 2) // 2 if what == PUSHES else 1


@device
def heaps_ahead(arena, multisets, place, sides, what, start, n):
    """Prefetches the memory that the heaps of the next multisets, from number ``start``, need (``PUSHES`` or ``TOPS``):
    first the compared handles, and their parents, then their records. Returns the number of the multiset after them.

    ``place``: the offset of their first word from ``multisets[i]``.
    """
    stop = min(start + AHEAD, n)
    for side in (MINIMA, MAXIMA):
        if sides & side != 0:
            for i in range(start, stop):
                block, at = _compared(arena, multisets[i] + place + side, what)
                prefetch(arena, block)
                prefetch(arena, block + at)
                prefetch(arena, block + at // 2)
            for i in range(start, stop):
                block, at = _compared(arena, multisets[i] + place + side, what)
                prefetch(arena, arena[block + at] + VALUE)
                prefetch(arena, arena[block + at // 2] + VALUE)
    return stop


@device
def push(arena, values, octets, order, side, heap, record):
    """Adds a record to a heap. ``heap``: its word."""
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
    arena[record + HEAPS] |= side


@device
def forget(arena, t, identity, record):
    """Deletes the record of a value with count 0 that is in no heap."""
    remove(arena, t, hash_key(arena, identity, 0, VALUE_KEY, arena, record), record)
    release(arena, record, RECORD)


@device
def _out_of_heap(arena, t, identity, side, record):
    arena[record + HEAPS] &= ~side
    if arena[record + HEAPS] == 0 and arena[record + _COUNT] == 0:
        forget(arena, t, identity, record)


@device
def _rebuild(arena, t, identity, values, octets, order, side, heap):
    """Removes deleted values from a heap, and orders the rest."""
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
    """Removes deleted values from the tops of the heaps of some groups, and rebuilds heaps with too many of them.

    ``place``: the offset of the multiset's first word from a group. Amortized O(log) per deleted value.
    """
    n = handles.size
    arena, identity, handles = words(arena), constants(identity), words(handles)
    settle_groups(arena, t, identity, handles, n, place, sides, words(values), words(octets), order)


@device
def settle_groups(arena, t, identity, handles, n, place, sides, values, octets, order):
    """Runs ``settle`` for ``n`` groups."""
    seen = 0
    for i in range(n):
        if i == seen:
            seen = heaps_ahead(arena, handles, place, sides, TOPS, i, n)
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
    """Writes the least (``side`` MINIMA) or greatest value of the multisets of settled groups; NULL for an empty
    one."""
    n = handles.size
    read_tops(words(arena), words(handles), n, place, side, words(out))


@device
def read_tops(arena, handles, n, place, side, out):
    """Runs ``tops`` for ``n`` groups."""
    for i in range(n):
        heap = handles[i] + place + side
        out[i] = NULL
        if arena[heap] != 0:
            out[i] = arena[arena[(arena[heap] & LOW32) + 1] + VALUE]
