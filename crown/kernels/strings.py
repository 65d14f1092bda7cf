"""The dictionary: strings and other byte values in the arena; a value's code is the handle of its entry.

Entry: word 0 holds the length in bytes (and a mark bit while sweeping), then come the bytes. A code stays the same as
long as its entry lives. Entries are not counted per use: ``mark`` / ``sweep`` free what no row refers to, when the
dictionary has doubled since the last sweep, so a stream of fresh strings with deletes does not leak and an insert
pays nothing.
"""

from __future__ import annotations

import numpy as np

from crown.kernels.arena import (
    H_BUDGET,
    H_DICT_SWEPT,
    H_LIVE,
    T_CAPACITY,
    T_COUNT,
    T_SLOTS,
    ZERO,
    alloc,
    release,
)
from crown.kernels.jit import device, kernel
from crown.kernels.pointers import words
from crown.kernels.tables import LOW32, after_slot, first, home_of, insert, make_room, remove, spread, step

NULL = -(2**63)  # the code of NULL in every domain
MARK = 1 << 62
LENGTH = (1 << 31) - 1


@device
def _tag(arena, data, start, length):
    tag = first(arena, length)
    word = ZERO
    shift = 0
    for i in range(start, start + length):
        word |= data[i] << shift
        shift += 8
        if shift == 64:
            tag = step(arena, tag, word)
            word = ZERO
            shift = 0
    return spread(step(arena, tag, word))


@device
def bytes_at(handle):
    """Returns the number of the first byte of an entry, in the arena as bytes."""
    return 8 * (handle + 1)


@device
def length_of(arena, code):
    """Returns how many bytes the value of a code has; none if that is NULL."""
    return 0 if code == NULL else arena[code] & LENGTH


@device
def _lookup(arena, octets, t, tag, data, start, length):
    slots = arena[t + T_SLOTS]
    capacity = arena[t + T_CAPACITY]
    s = home_of(tag, capacity)
    while True:
        word = arena[slots + s]
        if word == 0:
            return 0
        if ((word >> 32) & LOW32) == tag:
            handle = word & LOW32
            if (arena[handle] & LENGTH) == length:
                at = bytes_at(handle)
                same = True
                for i in range(length):
                    if octets[at + i] != data[start + i]:
                        same = False
                        break
                if same:
                    return handle
        s = after_slot(s, capacity)


@kernel("int")
def entry_words(length):
    """Returns the words of an entry of ``length`` bytes."""
    return 1 + (length + 7) // 8


@kernel("words, bytes, int, const bytes, const halves | words, words, words, int, int")
def encode(arena, octets, t, data, ends, rows, codes, done, add):
    """Fills ``codes`` (int64[n]), from number ``done`` on, of the byte values ``data[ends[r]:ends[r+1]]`` (uint8; int32
    or int64), for the ``rows`` r (int64[n]), or for 0, 1, 2, ... if there are none.

    With ``add`` 0 unknown values are not entered and get code 0. Returns how many codes are filled: all, unless the
    budget is used up. O(bytes).
    """
    n, every = codes.size, rows.size == 0
    arena, octets, data, codes = words(arena), words(octets), words(data), words(codes)
    ends, rows = words(ends), words(rows)
    for i in range(done, n):
        row = i if every else rows[i]
        start = np.int64(ends[row])
        length = ends[row + 1] - start
        tag = _tag(arena, data, start, length)
        handle = _lookup(arena, octets, t, tag, data, start, length)
        if handle == 0 and add == 1:
            if arena[H_LIVE] > arena[H_BUDGET]:
                return i
            make_room(arena, t)  # before the entry: an exhausted arena then leaves nothing half done
            handle = alloc(arena, entry_words(length))
            arena[handle] = length
            at = bytes_at(handle)
            for b in range(length):
                octets[at + b] = data[start + b]
            insert(arena, t, tag, handle)
        codes[i] = handle
    return n


@kernel("words, words, words")
def decoded_size(arena, codes, offsets):
    """Fills ``offsets`` (int64[n+1]) of the decoded values; total bytes. NULL has length 0."""
    total = 0
    for i in range(codes.size):
        offsets[i] = total
        total += length_of(arena, codes[i])
    offsets[codes.size] = total
    return total


@kernel("words, bytes, words, words, bytes")
def decode(arena, octets, codes, offsets, data):
    """Copies the bytes of every code to ``data`` (uint8) at ``offsets``."""
    for i in range(codes.size):
        if codes[i] != NULL:
            at = bytes_at(codes[i])
            start = offsets[i]
            for b in range(offsets[i + 1] - start):
                data[start + b] = octets[at + b]


@kernel("words, words, int, int")
def mark(arena, owner, t, attribute):
    """Marks the entries that word ``attribute`` of the records of table ``t`` in arena ``owner`` refers to.

    0 is the code of no entry: a tombstone has it in the columns beside its key. O(table).
    """
    slots = owner[t + T_SLOTS]
    for s in range(slots, slots + owner[t + T_CAPACITY]):
        if owner[s] != 0:
            code = owner[(owner[s] & LOW32) + attribute]
            if code != NULL and code != 0:
                arena[code] |= MARK


@kernel("words, words")
def mark_codes(arena, codes):
    """Marks the entries of ``codes`` (int64[n]); 0 is that of none."""
    for i in range(codes.size):
        if codes[i] != NULL and codes[i] != 0:
            arena[codes[i]] |= MARK


@kernel("words, int, words")
def sweep(arena, t, doomed):
    """Frees the entries of dictionary ``t`` without a mark and clears the marks; number of entries freed. O(table).

    ``doomed``: room for as many words as the dictionary has entries.
    """
    arena, doomed = words(arena), words(doomed)
    # A removal moves later slots back and may shrink the table: first find the doomed, then remove them.
    n = 0
    slots = arena[t + T_SLOTS]
    for s in range(slots, slots + arena[t + T_CAPACITY]):
        if arena[s] != 0:
            handle = arena[s] & LOW32
            if arena[handle] & MARK:
                arena[handle] ^= MARK
            else:
                doomed[n] = arena[s]
                n += 1
    for i in range(n):
        handle = doomed[i] & LOW32
        remove(arena, t, (doomed[i] >> 32) & LOW32, handle)
        release(arena, handle, entry_words(arena[handle] & LENGTH))
    arena[H_DICT_SWEPT] = arena[t + T_COUNT]
    return n
