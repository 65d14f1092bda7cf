"""The dictionary: strings and other byte values in the arena. A value's code is the handle of its entry.

In an entry, word 0 holds the length in bytes (and a mark bit during a sweep), followed by the bytes. A code is valid as
long as its entry. Entries have no reference counts: ``mark`` and ``sweep`` free unreferenced entries when the
dictionary has grown enough since the last sweep. So a stream of new strings with deletes does not leak, and an insert
has no extra cost.

A short value has no entry: it is stored in its code, which is negative, like that of NULL. There are two kinds::

    up to 7 bytes                           1 0 ... length + 1 (bits 56-59), the bytes (bits 0-55, the first one lowest)
    16 bytes, a number of 62 bits or less   1 1, the number (bits 0-61)

Most decimals of more than 18 digits are of the second kind.
"""

from __future__ import annotations

import numpy as np

from crown.kernels.jit import device, kernel
from crown.kernels.memory.addresses import load8, load32, load64
from crown.kernels.memory.arena import (
    H_BUDGET,
    H_DICT_SWEPT,
    H_LIVE,
    ONE,
    T_CAPACITY,
    T_SLOTS,
    ZERO,
    alloc,
    release,
)
from crown.kernels.memory.pointers import prefetch, words
from crown.kernels.memory.tables import (
    LOW32,
    after_slot,
    first,
    home_of,
    insert,
    make_room,
    remove,
    slot_of,
    spread,
    step,
)

NULL = -(2**63)  # the code of NULL in every domain
MARK = 1 << 62
LENGTH = (1 << 31) - 1
_MOST_SHORT = 7  # bytes
_LENGTH_AT = 56  # the bit at which the length of a short value begins
_SHORT_BYTES = (1 << _LENGTH_AT) - 1
_NUMBER = 1 << 62
_NUMBER_BYTES = 16
_BLOCK, _AHEAD = 64, 8  # values: memory that a table look-up needs is prefetched in steps over a block


@device
def _last_word(at, length):
    """Returns the bytes behind the last whole word of a value of 8 bytes or more at address ``at``, the first one
    lowest."""
    rest = 8 * (length & 7)
    return (load64(at + length - 8) >> (64 - rest)) & ((ONE << rest) - 1) if rest != 0 else ZERO


@device
def _tag(arena, at, length):
    """Returns the tag of a value that is not short."""
    tag = first(arena, length)
    for w in range(length >> 3):
        tag = step(arena, tag, load64(at + 8 * w))
    return spread(step(arena, tag, _last_word(at, length)))


@device
def length_of(arena, code):
    """Returns the length in bytes of the value of a code; 0 for NULL."""
    if code > 0:
        return arena[code] & LENGTH
    if code == NULL:
        return ZERO
    return ZERO + _NUMBER_BYTES if code & _NUMBER else ((code >> _LENGTH_AT) & 15) - 1


@device
def value_word(arena, code, w):
    """Returns word ``w`` of the bytes of a code, which is not NULL. Bits after the last byte are undefined."""
    if code > 0:
        return arena[code + 1 + w]
    if code & _NUMBER:
        number = (code << 2) >> 2
        return number if w == 0 else number >> 63
    return code & _SHORT_BYTES


@device
def value_byte(arena, octets, code, i):
    """Returns byte ``i`` of the value of a code, which is not NULL."""
    if code > 0:
        return ZERO + octets[8 * (code + 1) + i]
    return (value_word(arena, code, i >> 3) >> (8 * (i & 7))) & 255


@device
def copy_bytes(arena, octets, code, out, start):
    """Writes the bytes of a code to ``out``, from byte ``start``. Returns their number."""
    length = length_of(arena, code)
    if code > 0:
        first = 8 * (code + 1)
        for b in range(length):
            out[start + b] = octets[first + b]
    else:
        for b in range(length):
            out[start + b] = value_byte(arena, octets, code, b)
    return length


@device
def _short(at, length):
    """Returns the code of the value at address ``at``, or 0 if it is not short."""
    if length <= _MOST_SHORT:
        word, shift = ZERO, ZERO
        if length & 4:
            word, shift = load32(at) & LOW32, ZERO + 32
        if length & 2:
            word |= (load8(at + (length & 4)) | load8(at + (length & 4) + 1) << 8) << shift
            shift += 16
        if length & 1:
            word |= load8(at + length - 1) << shift
        return NULL | ((length + 1) << _LENGTH_AT) | word
    if length == _NUMBER_BYTES:
        low, high = load64(at), load64(at + 8)
        if high == low >> 63:
            return short_number(low)
    return ZERO


@device
def short_number(value):
    """Returns the code of a 16-byte number, or 0 if it needs more than 62 bits."""
    return NULL | _NUMBER | (value & (_NUMBER - 1)) if (value << 2) >> 2 == value else ZERO


@device
def _lookup(arena, t, tag, at, length):
    """Returns the handle of the value at address ``at``, which is not short; 0 if it is unknown."""
    slots, capacity = arena[t + T_SLOTS], arena[t + T_CAPACITY]
    whole, last = length >> 3, _last_word(at, length)
    last_bits = (ONE << (8 * (length & 7))) - 1  # bits of an entry after the last byte are undefined
    s = home_of(tag, capacity)
    while True:
        word = arena[slots + s]
        if word == 0:
            return ZERO
        handle = word & LOW32
        if ((word >> 32) & LOW32) == tag and (arena[handle] & LENGTH) == length:
            w = ZERO
            while w < whole and arena[handle + 1 + w] == load64(at + 8 * w):
                w += 1
            if w == whole and (last_bits == 0 or (arena[handle + 1 + whole] ^ last) & last_bits == 0):
                return handle
        s = after_slot(s, capacity)


@device
def code_of(arena, t, at, length):
    """Returns the code of the byte value at address ``at``, 0 if it is unknown."""
    code = _short(at, length)
    return code if code != 0 else _lookup(arena, t, _tag(arena, at, length), at, length)


@kernel("int")
def entry_words(length):
    """Returns the words of an entry of ``length`` bytes."""
    return 1 + (length + 7) // 8


@kernel("words, int, int, const halves | words, words, words, int, int")
def encode(arena, t, data, ends, rows, codes, done, add):
    """Calls ``encoded`` with these arrays, and all values valid; ``rows`` are 0, 1, 2, ... if there are none."""
    n, every = codes.size, rows.size == 0
    arena, codes = words(arena), words(codes)
    return encoded(arena, t, data, ZERO, ZERO, words(ends), words(rows), every, codes, n, done, add, LENGTH)


@device
def encoded(arena, t, data, validity, first_bit, ends, rows, every, codes, n, done, add, longest):
    """Fills ``codes`` (int64[n]), from number ``done``, with the codes of the values between ``ends[r]`` and
    ``ends[r+1]`` (int32 or int64, bytes from address ``data``), for the ``rows`` r (int64[n]), or for 0, 1, 2, ... if
    ``every``.

    ``validity``: the address of a bitmap, or 0. If bit ``first_bit + r`` is 0, row r has no value, and gets the code of
    an empty one. With ``add`` 0, unknown values that are not short are not added and get code 0. Returns how many codes
    are filled: all, unless the budget is used up, or a value has more than ``longest`` bytes; the others are then
    undefined. O(bytes).
    """
    for block in range(done, n, _BLOCK):
        stop = min(block + _BLOCK, n)
        for i in range(block, stop):  # holds the tag until the entry is found
            row = i if every else rows[i]
            start, length = np.int64(ends[row]), ZERO
            if validity == 0 or load8(validity + ((first_bit + row) >> 3)) >> ((first_bit + row) & 7) & 1:
                length = ends[row + 1] - start
            codes[i] = _short(data + start, length)
            if codes[i] == 0:
                if length > longest:
                    return i
                codes[i] = _tag(arena, data + start, length)
                prefetch(arena, slot_of(arena, t, codes[i]))
        for i in range(block - _AHEAD, stop):
            coming = i + _AHEAD
            if coming < stop and codes[coming] >= 0:
                prefetch(arena, arena[slot_of(arena, t, codes[coming])] & LOW32)
            if i < block or codes[i] < 0:
                continue
            tag = codes[i]
            row = i if every else rows[i]
            start = np.int64(ends[row])
            at, length = data + start, ends[row + 1] - start
            handle = _lookup(arena, t, tag, at, length)
            if handle == 0 and add == 1:
                if arena[H_LIVE] > arena[H_BUDGET]:
                    return i
                make_room(arena, t)  # before the entry: an exhausted arena then leaves no partial change
                handle = alloc(arena, entry_words(length))
                arena[handle] = length
                for w in range(length >> 3):
                    arena[handle + 1 + w] = load64(at + 8 * w)
                if length & 7:
                    arena[handle + 1 + (length >> 3)] = _last_word(at, length)
                insert(arena, t, tag, handle)
            codes[i] = handle
    return n


@kernel("words, words, words")
def decoded_size(arena, codes, offsets):
    """Fills ``offsets`` (int64[n+1]) of the decoded values. Returns the total bytes. NULL has length 0."""
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
        copy_bytes(arena, octets, codes[i], data, offsets[i])


@kernel("words, words, int, int")
def mark(arena, owner, t, attribute):
    """Marks the entries that word ``attribute`` of the records of table ``t`` in arena ``owner`` references.

    Code 0 has no entry: a tombstone has it in its columns other than the key. O(table).
    """
    slots = owner[t + T_SLOTS]
    for s in range(slots, slots + owner[t + T_CAPACITY]):
        if owner[s] != 0:
            code = owner[(owner[s] & LOW32) + attribute]
            if code > 0:
                arena[code] |= MARK


@kernel("words, words")
def mark_codes(arena, codes):
    """Marks the entries of those ``codes`` (int64[n]) that have one."""
    for i in range(codes.size):
        if codes[i] > 0:
            arena[codes[i]] |= MARK


@kernel("words, int, words")
def sweep(arena, t, doomed):
    """Frees the unmarked entries of dictionary ``t`` and clears the marks. Returns the number of freed entries.
    O(table).

    ``doomed``: room for as many words as the dictionary has entries.
    """
    arena, doomed = words(arena), words(doomed)
    # A removal moves later slots back and may shrink the table: first find unmarked entries, then remove them.
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
    arena[H_DICT_SWEPT] = arena[H_LIVE]
    return n
