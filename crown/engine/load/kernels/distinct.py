"""Estimates the new keys of a batch from a sample of hash values, so that a table grows at most once.

A key is in the sample if the last bits of its tag are 0. Whenever the sample is full, one more bit must be 0. So the
sample is uniform over the distinct keys, however often each occurs, and has all keys if there are at most ``ROOM``.
Source: Gibbons, "Distinct Sampling for Highly-Accurate StageReader to Distinct Values Queries and Event Reports" (VLDB
2001).
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.tables import hash_key, tagged

ROOM = 1 << 13
SLOTS = 2 * ROOM
WORDS = SLOTS + ROOM  # of the array that holds the sample
_MARGIN = 4  # an estimate is increased by 2^-4 of itself: four times its standard deviation


@device
def _sample(sample, tag):
    """Adds a tag. Returns 1 if it is new, else 0."""
    s = (tag >> 13) & (SLOTS - 1)
    while sample[s] >= 0:
        if sample[s] == tag:
            return 0
        s = (s + 1) & (SLOTS - 1)
    sample[s] = tag
    return 1


@device
def _thin(sample, level):
    """Removes the tags that are not of ``level``. Returns the number of remaining tags. O(SLOTS)."""
    n = 0
    for s in range(SLOTS):
        tag = sample[s]
        if tag >= 0:
            sample[s] = -1
            if tag & ((1 << level) - 1) == 0:
                sample[SLOTS + n] = tag
                n += 1
    for i in range(n):
        _sample(sample, sample[SLOTS + i])
    return n


@device
def forget(sample):
    """Empties the sample, an array of ``WORDS`` words. O(SLOTS)."""
    for s in range(SLOTS):
        sample[s] = -1


@device
def add_keys(ctx, pos, k, width, rows, n, sample, level, count):
    """Adds the keys of ``rows`` to a sample of ``count`` tags of ``level``, initially 0 and 0. Returns the new level
    and count. O(n).

    ``pos``: the plan offset of the key's positions in a row.
    """
    arena, plan = ctx.arena, ctx.plan
    for i in range(n):
        tag = hash_key(arena, plan, pos, k, rows, i * width)
        if tag & ((1 << level) - 1) == 0:
            count += _sample(sample, tag)
            while count == ROOM:
                level += 1
                count = _thin(sample, level)
    return level, count


@device
def new_keys(arena, t, sample, level, limit):
    """Returns the estimated number of keys that are not in table ``t``, rather too many than too few; at most
    ``limit``."""
    absent = 0
    sample[SLOTS] = 0
    for s in range(SLOTS):
        if sample[s] >= 0 and tagged(arena, t, sample[s], sample, SLOTS) == 0:
            absent += 1
    absent <<= level
    if level > 0:
        absent += absent >> _MARGIN
    return min(absent, limit)
