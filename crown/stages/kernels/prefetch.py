"""Prefetches the memory that the next events of a batch read, before the first of them is processed."""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.pointers import prefetch
from crown.kernels.memory.tables import LOW32, hash_key, slot_of

AHEAD = 64  # events


@device
def look_ahead(arena, t, strides, k, keys, start, n, tags, at):
    """Prefetches the records of the next events, from number ``start``: first all of their slots, then the records in
    these. Returns the number of the event after them. Writes the tags of their keys to ``tags[at ...]``."""
    stop = min(start + AHEAD, n)
    for i in range(start, stop):
        tag = hash_key(arena, strides, 0, k, keys, i)
        tags[at + i - start] = tag
        prefetch(arena, slot_of(arena, t, tag))
    for i in range(stop - start):
        prefetch(arena, arena[slot_of(arena, t, tags[at + i])] & LOW32)
    return stop
