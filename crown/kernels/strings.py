"""The dictionary: strings and other byte values in the arena; a value's code is the handle of its entry.

Entry: word 0 holds the length in bytes (and a mark bit while sweeping), then come the bytes. A code stays the same as
long as its entry lives. Entries are not counted per use: ``mark`` / ``sweep`` free what no row refers to, when the
dictionary has doubled since the last sweep, so a stream of fresh strings with deletes does not leak and an insert
pays nothing.
"""

from __future__ import annotations

import numpy as np

from crown.kernels.arena import H_BUDGET, H_DICT_SWEPT, H_LIVE, H_SEED, T_COUNT, T_MASK, T_SLOTS, ZERO, alloc, release
from crown.kernels.jit import allocating_kernel, device, kernel
from crown.kernels.pointers import words
from crown.kernels.tables import LOW32, insert, make_room, mix, remove

NULL = -(2**63)  # the code of NULL in every domain
MARK = 1 << 62
LENGTH = (1 << 31) - 1


@device
def _tag(M, data, start, length):
    h = M[H_SEED] ^ length
    word = ZERO
    shift = 0
    for i in range(start, start + length):
        word |= data[i] << shift
        shift += 8
        if shift == 64:
            h = mix(h, word)
            word = ZERO
            shift = 0
    h = mix(h, word)
    h = h * -4417276706812531889
    return (h >> 32) & LOW32


@device
def _bytes_at(handle):
    """Number of the first byte of an entry, in the arena as bytes."""
    return 8 * (handle + 1)


@device
def _lookup(M, m8, t, tag, data, start, length):
    slots = M[t + T_SLOTS]
    mask = M[t + T_MASK]
    s = tag & mask
    while True:
        word = M[slots + s]
        if word == 0:
            return 0
        if ((word >> 32) & LOW32) == tag:
            handle = word & LOW32
            if (M[handle] & LENGTH) == length:
                at = _bytes_at(handle)
                same = True
                for i in range(length):
                    if m8[at + i] != data[start + i]:
                        same = False
                        break
                if same:
                    return handle
        s = (s + 1) & mask


@kernel
def entry_words(length):
    """Words of an entry of ``length`` bytes."""
    return 1 + (length + 7) // 8


@kernel
def encode(M, m8, t, data, offsets, codes, add):
    """Codes (int64[n], filled) of the byte values ``data[offsets[i]:offsets[i+1]]`` (uint8, int64[n+1]).

    With ``add`` 0 unknown values are not entered and get code 0. Returns how many codes were filled: all, unless the
    budget is used up. O(bytes).
    """
    n = codes.size
    M, m8, data, offsets, codes = words(M), words(m8), words(data), words(offsets), words(codes)
    for i in range(n):
        start = offsets[i]
        length = offsets[i + 1] - start
        tag = _tag(M, data, start, length)
        handle = _lookup(M, m8, t, tag, data, start, length)
        if handle == 0 and add == 1:
            if M[H_LIVE] > M[H_BUDGET]:
                return i
            make_room(M, t)  # before the entry: an exhausted arena then leaves nothing half done
            handle = alloc(M, entry_words(length))
            M[handle] = length
            at = _bytes_at(handle)
            for b in range(length):
                m8[at + b] = data[start + b]
            insert(M, t, tag, handle)
        codes[i] = handle
    return n


@kernel
def decoded_size(M, codes, offsets):
    """Fill ``offsets`` (int64[n+1]) of the decoded values; total bytes. NULL has length 0."""
    total = 0
    for i in range(codes.size):
        offsets[i] = total
        if codes[i] != NULL:
            total += M[codes[i]] & LENGTH
    offsets[codes.size] = total
    return total


@kernel
def decode(M, m8, codes, offsets, data):
    """Copy the bytes of every code to ``data`` (uint8) at ``offsets``."""
    for i in range(codes.size):
        if codes[i] != NULL:
            at = _bytes_at(codes[i])
            start = offsets[i]
            for b in range(offsets[i + 1] - start):
                data[start + b] = m8[at + b]


@kernel
def mark(M, owner, t, attribute):
    """Mark the entries that word ``attribute`` of the records of table ``t`` in arena ``owner`` refers to. O(table)."""
    slots = owner[t + T_SLOTS]
    for s in range(slots, slots + owner[t + T_MASK] + 1):
        if owner[s] != 0:
            code = owner[(owner[s] & LOW32) + attribute]
            if code != NULL:
                M[code] |= MARK


@kernel
def mark_codes(M, codes):
    """Mark the entries of ``codes`` (int64[n])."""
    for i in range(codes.size):
        if codes[i] != NULL:
            M[codes[i]] |= MARK


@allocating_kernel
def sweep(M, t):
    """Free the entries of dictionary ``t`` without a mark and clear the marks; number of entries freed. O(table)."""
    doomed = np.empty(M[t + T_COUNT], np.int64)
    M = words(M)
    # A removal moves later slots back and may shrink the table: first find the doomed, then remove them.
    n = 0
    slots = M[t + T_SLOTS]
    for s in range(slots, slots + M[t + T_MASK] + 1):
        if M[s] != 0:
            handle = M[s] & LOW32
            if M[handle] & MARK:
                M[handle] ^= MARK
            else:
                doomed[n] = M[s]
                n += 1
    for i in range(n):
        handle = doomed[i] & LOW32
        remove(M, t, (doomed[i] >> 32) & LOW32, handle)
        release(M, handle, entry_words(M[handle] & LENGTH))
    M[H_DICT_SWEPT] = M[t + T_COUNT]
    return n
