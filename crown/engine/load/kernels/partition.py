"""Partitions the entries of a batch for a table by the order of its slots, so that the table stays in the cache.

An entry is one word, ``tag << 32 | number or handle``: a tuple by its number, or a record by its handle. Entries are
sorted by the *region* of their tag's home slot, some thousand slots long. So consecutive look-ups are close together,
and so are the groups that they make.
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.arena import T_CAPACITY
from crown.kernels.memory.tables import LOW32, hash_key, home_of

REGIONS = 1 << 11  # maximum number of regions of a table: a batch is written to all of them at once
_REGION = 10  # log2 of the slots of a region, unless the table is too large for that


@device
def _region_bits(arena, t):
    """Returns the number of low bits of a slot that are its position in its region."""
    bits = 0
    while (arena[t + T_CAPACITY] - 1) >> bits > 0:
        bits += 1
    return max(bits - 11, min(bits, _REGION))


@device
def reads(word, bit):
    """Returns True if the alias with that bit reads the record of a fresh word: ``mask << 32 | record``.

    ``bit`` -1 means the source itself.
    """
    return bit < 0 or (word >> 32) >> bit & 1 == 1


@device
def partition(ctx, t, pos, k, src, stride, fresh, n, bit, entries, starts):
    """Writes an entry to ``entries`` for every fresh word that alias ``bit`` reads. Returns their number. O(n).

    The key of a word is at ``src[base + plan[pos ...]]``, with ``base`` its low half times ``stride``. The low half of
    a fresh word becomes that of its entry. ``starts``: room for ``REGIONS + 1`` words.
    """
    arena, plan = ctx.arena, ctx.plan
    region = _region_bits(arena, t)
    capacity = arena[t + T_CAPACITY]
    for r in range(REGIONS + 1):
        starts[r] = 0
    for i in range(n):
        if reads(fresh[i], bit):
            tag = hash_key(arena, plan, pos, k, src, (fresh[i] & LOW32) * stride)
            starts[(home_of(tag, capacity) >> region) + 1] += 1
    for r in range(REGIONS):
        starts[r + 1] += starts[r]
    total = starts[REGIONS]
    for i in range(n):
        if reads(fresh[i], bit):
            tag = hash_key(arena, plan, pos, k, src, (fresh[i] & LOW32) * stride)
            r = home_of(tag, capacity) >> region
            entries[starts[r]] = (tag << 32) | (fresh[i] & LOW32)
            starts[r] += 1
    return total


@device
def in_order(ctx, pos, k, fresh, n, bit, entries):
    """Writes the entries of the records that alias ``bit`` reads, which are in the order of the table. Returns their
    number. O(n)."""
    arena, plan = ctx.arena, ctx.plan
    m = 0
    for i in range(n):
        if reads(fresh[i], bit):
            record = fresh[i] & LOW32
            entries[m] = (hash_key(arena, plan, pos, k, arena, record) << 32) | record
            m += 1
    return m
