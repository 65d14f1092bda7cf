"""Entries: the records of a batch in the order in which a table is to be gone through, so that it stays in the cache.

An entry is one word, ``tag << 32 | record``. Entries are sorted by the *region* of their tag's home slot, some thousand
slots long: what is looked up one after the other lies together, and so do the groups that are made for it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from crown.kernels.arena import T_MASK
from crown.kernels.jit import device
from crown.kernels.tables import LOW32, hash_key

REGIONS = 1 << 11  # most regions of a table: a batch is written to all of them at once
_REGION = 10  # log2 of the slots of a region, if the table is not too large for that


@device
def _region_bits(arena, t):
    """Returns how many of a slot's low bits say where in its region it is."""
    bits = 0
    while arena[t + T_MASK] >> bits > 0:
        bits += 1
    return max(bits - 11, min(bits, _REGION))


class Inserted(NamedTuple):
    """What is inserted; kernels pass it on in registers."""

    rows: Any  # tuples, one after the other
    width: Any  # words of a tuple
    masks: Any  # which aliases read a tuple, by its number
    masked: Any  # False if all aliases read all


@device
def reads(batch, word, bit):
    """Returns True if the alias with that bit reads the tuple of a fresh record, ``word``: its number and its handle.

    ``bit`` -1 stands for the source itself.
    """
    return not batch.masked or bit < 0 or batch.masks[word >> 32] >> bit & 1 == 1


@device
def partition(ctx, t, pos, k, batch, fresh, n, bit, entries, starts):
    """Writes an entry to ``entries`` for every fresh record that alias ``bit`` reads; returns how many. O(n).

    The key is at ``plan[pos ...]`` of a tuple; ``starts``: room for ``REGIONS + 1`` words.
    """
    arena, plan = ctx.arena, ctx.plan
    rows, width = batch.rows, batch.width
    region = _region_bits(arena, t)
    mask = arena[t + T_MASK]
    for r in range(REGIONS + 1):
        starts[r] = 0
    for i in range(n):
        if reads(batch, fresh[i], bit):
            tag = hash_key(arena, plan, pos, k, rows, (fresh[i] >> 32) * width)
            starts[((tag & mask) >> region) + 1] += 1
    for r in range(REGIONS):
        starts[r + 1] += starts[r]
    total = starts[REGIONS]
    for i in range(n):
        if reads(batch, fresh[i], bit):
            tag = hash_key(arena, plan, pos, k, rows, (fresh[i] >> 32) * width)
            r = (tag & mask) >> region
            entries[starts[r]] = (tag << 32) | (fresh[i] & LOW32)
            starts[r] += 1
    return total
