"""Hash tables in the arena: open addressing, linear probing, backward-shift deletion, no tombstones.

A table maps a key of int64 words to the handle of a record that *holds* that key: a slot is one word,
``tag << 32 | handle``, where the tag is 32 bits of the key's seeded hash. So a probe touches one cache line of slots
and, on a tag match, the record itself; growing and deleting move slots without reading records. Handle 0 is "none".

A key is named by where it lies: word ``j`` of it is ``src[base + P[pos + j]]`` with ``src`` the arena or a batch, and
``P`` the plan array that holds the positions. In the record, the key's words are the first ones, in order.

Invariant: every record is reachable from its home slot ``tag & mask`` without meeting an empty slot;
``count <= 3/4 * capacity``; capacity shrinks when ``count < 1/8 * capacity`` (never below ``MIN_SLOTS``).
"""

from __future__ import annotations

import numpy as np

from crown.kernels.arena import H_SEED, H_TABLES, T_COUNT, T_MASK, T_SLOTS, TABLE_WORDS, alloc, release
from crown.kernels.jit import device, kernel

MIN_SLOTS = np.int64(8)
LOW32 = 0xFFFFFFFF


@device
def mix(h, v):
    """One round of a multiply-xorshift hash; int64 arithmetic wraps."""
    h = (h ^ v) * -7046029254386353131
    return h ^ ((h >> 32) & LOW32)


@device
def hash_key(M, P, pos, k, src, base):
    """32-bit tag of a key of ``k`` words."""
    h = M[H_SEED]
    for j in range(k):
        h = mix(h, src[base + P[pos + j]])
    h = h * -4417276706812531889
    return (h >> 32) & LOW32


@kernel
def table_at(table):
    """Header word at which the descriptor of table number ``table`` starts."""
    return H_TABLES + TABLE_WORDS * table


@device
def _fresh_slots(M, capacity):
    slots = alloc(M, capacity)
    for s in range(slots, slots + capacity):
        M[s] = 0
    return slots


@kernel
def new_table(M, t):
    """Make table descriptor ``t`` (a header word, see ``table_at``) an empty table."""
    M[t + T_SLOTS] = _fresh_slots(M, MIN_SLOTS)
    M[t + T_MASK] = MIN_SLOTS - 1
    M[t + T_COUNT] = 0


@device
def find(M, t, tag, P, pos, k, src, base):
    """Handle of the record with that key, or 0. Expected O(1)."""
    slots = M[t + T_SLOTS]
    mask = M[t + T_MASK]
    s = tag & mask
    while True:
        word = M[slots + s]
        if word == 0:
            return 0
        if ((word >> 32) & LOW32) == tag:
            handle = word & LOW32
            same = True
            for j in range(k):
                if M[handle + j] != src[base + P[pos + j]]:
                    same = False
                    break
            if same:
                return handle
        s = (s + 1) & mask


@device
def _resize(M, t, capacity):
    """Move all slots to a new array. O(capacity), amortized O(1) per change."""
    old = M[t + T_SLOTS]
    old_capacity = M[t + T_MASK] + 1
    slots = _fresh_slots(M, capacity)
    mask = capacity - 1
    for i in range(old, old + old_capacity):
        word = M[i]
        if word != 0:
            s = (word >> 32) & mask
            while M[slots + s] != 0:
                s = (s + 1) & mask
            M[slots + s] = word
    release(M, old, old_capacity)
    M[t + T_SLOTS] = slots
    M[t + T_MASK] = mask


@device
def make_room(M, t):
    """See to it that the next ``insert`` allocates nothing. Amortized O(1)."""
    capacity = M[t + T_MASK] + 1
    if 4 * (M[t + T_COUNT] + 1) > 3 * capacity:
        _resize(M, t, 2 * capacity)


@device
def insert(M, t, tag, handle):
    """Add a record whose key MUST NOT be in the table. Amortized O(1)."""
    make_room(M, t)
    M[t + T_COUNT] += 1
    slots = M[t + T_SLOTS]
    mask = M[t + T_MASK]
    s = tag & mask
    while M[slots + s] != 0:
        s = (s + 1) & mask
    M[slots + s] = (tag << 32) | handle


@device
def remove(M, t, tag, handle):
    """Take out a record that MUST be in the table. Amortized O(1); later slots of the run move back."""
    slots = M[t + T_SLOTS]
    mask = M[t + T_MASK]
    word = (tag << 32) | handle
    s = tag & mask
    while M[slots + s] != word:
        s = (s + 1) & mask
    hole = s
    while True:
        s = (s + 1) & mask
        word = M[slots + s]
        if word == 0:
            break
        home = (word >> 32) & mask
        if ((s - home) & mask) >= ((s - hole) & mask):
            M[slots + hole] = word
            hole = s
    M[slots + hole] = 0
    count = M[t + T_COUNT] - 1
    M[t + T_COUNT] = count
    capacity = mask + 1
    if capacity > MIN_SLOTS and 8 * count < capacity:
        _resize(M, t, capacity // 2)
