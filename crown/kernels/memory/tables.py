"""Hash tables in the arena: open addressing, linear probing, backward-shift deletion, no tombstones.

A table maps a key of int64 words to the handle of a record that *holds* that key. A slot is one word, ``tag << 32 |
handle``. The tag is 32 bits of the key's hash, which depends on secrets of the arena. So a probe reads one cache line
of slots and, on a tag match, the record itself. Growing and deleting move slots without reading records. Handle 0 is
"none".

A key is given by its location: word ``j`` is ``src[base + plan[pos + j]]`` with ``src`` the arena or a batch, and
``plan`` the array that holds the positions. In the record, the key's words are the first ones, in order.

Invariant: every record is reachable from its home slot ``tag & (capacity - 1)`` without an empty slot in between;
``count <= 3/4 * capacity``; capacity shrinks when ``count < 1/8 * capacity`` (never below ``MIN_SLOTS``).
"""

from __future__ import annotations

import numpy as np

from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import (
    H_CHAIN,
    H_HIGH,
    H_LOW,
    H_TABLES,
    NONE,
    T_CAPACITY,
    T_COUNT,
    T_SLOTS,
    TABLE_WORDS,
    ZERO,
    alloc,
    release,
)

MIN_SLOTS = np.int64(8)
LOW32 = 0xFFFFFFFF


@device
def mix(h, v):
    """Returns one round of a multiply-xorshift hash; int64 arithmetic wraps."""
    h = (h ^ v) * -7046029254386353131
    return h ^ ((h >> 32) & LOW32)


@device
def hash_key(arena, plan, pos, k, src, base):
    """Returns the 32-bit tag of a key of ``k`` words."""
    if k == 0:
        return ZERO
    tag = first(arena, src[base + plan[pos]])
    for j in range(1, k):
        tag = step(arena, tag, src[base + plan[pos + j]])
    return spread(tag)


@device
def first(arena, word):
    """Returns the tag of a key of one word, before it is spread."""
    return (_product(arena, word) >> 32) & LOW32


@device
def step(arena, tag, word):
    """Returns the tag of a key whose first words have the tag ``tag`` and whose next word is ``word``.

    The halves of the word are factors, each with a secret summand. Two keys that are chosen without the secrets collide
    only by chance, with probability 2^-32: pair-multiply-shift (Thorup, High Speed Hashing for Integers and Strings,
    3.5).
    """
    return ((_product(arena, word) + arena[H_CHAIN] * tag) >> 32) & LOW32


@device
def _product(arena, word):
    return (arena[H_LOW] + (word & LOW32)) * (arena[H_HIGH] + ((word >> 32) & LOW32))


@device
def spread(tag):
    """Returns a permuted tag, so that evenly spaced keys do not stay evenly spaced, which would harm linear probing."""
    return tag ^ (tag >> 16)


@kernel("int")
def table_at(table):
    """Returns the header word at which the descriptor of table number ``table`` starts."""
    return H_TABLES + TABLE_WORDS * table


@device
def _fresh_slots(arena, capacity):
    slots = alloc(arena, capacity)
    for s in range(slots, slots + capacity):
        arena[s] = 0
    return slots


@kernel("words, int")
def new_table(arena, t):
    """Makes the descriptor ``t`` (a header word, see ``table_at``) that of an empty table."""
    arena[t + T_SLOTS] = _fresh_slots(arena, MIN_SLOTS)
    arena[t + T_CAPACITY] = MIN_SLOTS
    arena[t + T_COUNT] = 0


@device
def home_of(tag, capacity):
    """Returns the home slot of a tag among ``capacity`` slots. Only the low bits of the tag matter."""
    return tag & (capacity - 1)


@device
def after_slot(s, capacity):
    """Returns the slot after slot ``s``."""
    return (s + 1) & (capacity - 1)


@device
def _holds(arena, word, tag, plan, pos, k, src, base):
    """Returns True if the word of a nonempty slot belongs to the key."""
    same = ((word >> 32) & LOW32) == tag
    j = 0
    while same and j < k:
        same = arena[(word & LOW32) + j] == src[base + plan[pos + j]]
        j += 1
    return same


@device
def seek(arena, t, tag, plan, pos, k, src, base, note):
    """Returns the number of the slot with the record of that key, or of the empty slot where it would be inserted.
    O(1).

    ``note``: a slot to probe first, or any other number.
    """
    slots = arena[t + T_SLOTS]
    capacity = arena[t + T_CAPACITY]
    if 0 <= note < capacity:
        word = arena[slots + note]
        if word != 0 and _holds(arena, word, tag, plan, pos, k, src, base):
            return note
    s = home_of(tag, capacity)
    while True:
        word = arena[slots + s]
        if word == 0 or _holds(arena, word, tag, plan, pos, k, src, base):
            return s
        s = after_slot(s, capacity)


@device
def record_in(arena, t, s):
    """Returns the record in slot number ``s``, or 0."""
    return arena[arena[t + T_SLOTS] + s] & LOW32


@device
def find(arena, t, tag, plan, pos, k, src, base):
    """Returns the handle of the record with that key, or 0. Expected O(1)."""
    return record_in(arena, t, seek(arena, t, tag, plan, pos, k, src, base, NONE))


@device
def tagged(arena, t, tag, notes, at):
    """Returns a record with that tag, or 0, without comparing the key, which would read the record. Expected O(1).

    ``notes[at]``: a slot to probe first, or any other number. Receives the slot where the search ended.
    """
    slots = arena[t + T_SLOTS]
    capacity = arena[t + T_CAPACITY]
    s = notes[at]
    if 0 <= s < capacity:
        word = arena[slots + s]
        if word != 0 and ((word >> 32) & LOW32) == tag:
            return word & LOW32
    s = home_of(tag, capacity)
    while True:
        word = arena[slots + s]
        if word == 0 or ((word >> 32) & LOW32) == tag:
            notes[at] = s
            return word & LOW32
        s = after_slot(s, capacity)


@device
def _resize(arena, t, capacity):
    """Moves all slots to a new array. O(capacity), amortized O(1) per change."""
    old = arena[t + T_SLOTS]
    old_capacity = arena[t + T_CAPACITY]
    slots = _fresh_slots(arena, capacity)
    for i in range(old, old + old_capacity):
        word = arena[i]
        if word != 0:
            s = home_of(word >> 32, capacity)
            while arena[slots + s] != 0:
                s = after_slot(s, capacity)
            arena[slots + s] = word
    release(arena, old, old_capacity)
    arena[t + T_SLOTS] = slots
    arena[t + T_CAPACITY] = capacity


@kernel("int, int")
def is_full(count, capacity):
    """Returns True if ``count`` records are too many for ``capacity`` slots."""
    return 4 * count > 3 * capacity


@device
def make_room(arena, t):
    """Ensures that the next ``insert`` does not allocate. Amortized O(1)."""
    capacity = arena[t + T_CAPACITY]
    if is_full(arena[t + T_COUNT] + 1, capacity):
        _resize(arena, t, 2 * capacity)


@device
def reserve(arena, t, more):
    """Ensures that the next ``more`` calls of ``insert`` do not allocate. O(capacity) if the table must grow."""
    capacity = arena[t + T_CAPACITY]
    while is_full(arena[t + T_COUNT] + more, capacity):
        capacity *= 2
    if capacity > arena[t + T_CAPACITY]:
        _resize(arena, t, capacity)


@device
def slot_of(arena, t, tag):
    """Returns the word of the home slot of a tag. Only the low bits of the tag matter."""
    return arena[t + T_SLOTS] + home_of(tag, arena[t + T_CAPACITY])


@device
def _first_empty(arena, t, tag):
    """Returns the number of the slot for a new record with that tag."""
    slots = arena[t + T_SLOTS]
    capacity = arena[t + T_CAPACITY]
    s = home_of(tag, capacity)
    while arena[slots + s] != 0:
        s = after_slot(s, capacity)
    return s


@device
def insert(arena, t, tag, handle):
    """Adds a record whose key MUST NOT be in the table. Amortized O(1)."""
    make_room(arena, t)
    arena[t + T_COUNT] += 1
    arena[arena[t + T_SLOTS] + _first_empty(arena, t, tag)] = (tag << 32) | handle


@device
def made_in(arena, t, tag, s, plan, pos, k, src, base, size):
    """Adds a record of ``size`` words for a key without one, and returns it. ``s`` is the empty slot at which the
    search for the key ended. The words after the key are 0. Amortized O(size).

    The table grows before the record is allocated: an exhausted arena then leaves no partial change.
    """
    if is_full(arena[t + T_COUNT] + 1, arena[t + T_CAPACITY]):
        make_room(arena, t)
        s = _first_empty(arena, t, tag)
    record = alloc(arena, size)
    for j in range(k):
        arena[record + j] = src[base + plan[pos + j]]
    for j in range(k, size):
        arena[record + j] = 0
    arena[t + T_COUNT] += 1
    arena[arena[t + T_SLOTS] + s] = (tag << 32) | record
    return record


@device
def insert_in(arena, t, tag, handle, s):
    """Adds a record as ``insert`` does. ``s``: the empty slot at which the search for its key ended. Amortized O(1)."""
    if is_full(arena[t + T_COUNT] + 1, arena[t + T_CAPACITY]):
        insert(arena, t, tag, handle)
    else:
        arena[t + T_COUNT] += 1
        arena[arena[t + T_SLOTS] + s] = (tag << 32) | handle


@device
def remove_from(arena, t, hole):
    """Removes the record in slot number ``hole``. Amortized O(1); later slots of the run move back."""
    slots = arena[t + T_SLOTS]
    capacity = arena[t + T_CAPACITY]
    s = hole
    while True:
        s = after_slot(s, capacity)
        word = arena[slots + s]
        if word == 0:
            break
        home = home_of(word >> 32, capacity)
        if (s - home) & (capacity - 1) >= (s - hole) & (capacity - 1):
            arena[slots + hole] = word
            hole = s
    arena[slots + hole] = 0
    count = arena[t + T_COUNT] - 1
    arena[t + T_COUNT] = count
    if capacity > MIN_SLOTS and 8 * count < capacity:
        _resize(arena, t, capacity // 2)


@device
def remove(arena, t, tag, handle):
    """Removes a record that MUST be in the table. Amortized O(1)."""
    slots = arena[t + T_SLOTS]
    capacity = arena[t + T_CAPACITY]
    word = (tag << 32) | handle
    s = home_of(tag, capacity)
    while arena[slots + s] != word:
        s = after_slot(s, capacity)
    remove_from(arena, t, s)
