"""Memory that the next events of a batch will read is asked for while the present one is worked on."""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.pointers import prefetch
from crown.kernels.tables import LOW32, hash_key, slot_of

_AHEAD = 8  # events


@device
def look_ahead(arena, t, strides, k, keys, i, n):
    """Starts loading what coming events will read: first their slot, then, nearer to them, the record in it."""
    if i + 2 * _AHEAD < n:
        tag = hash_key(arena, strides, 0, k, keys, i + 2 * _AHEAD)
        prefetch(arena, slot_of(arena, t, tag))
    if i + _AHEAD < n:
        tag = hash_key(arena, strides, 0, k, keys, i + _AHEAD)
        prefetch(arena, arena[slot_of(arena, t, tag)] & LOW32)
