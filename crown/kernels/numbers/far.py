"""Far numbers: the far parts of sums (``fixed``) in an arena. The block of one stores only its nontrivial limbs.

**Far number** (1 word, and its limbs)::

    0       low: number of zero limbs below the stored ones    high: number of stored limbs
    1 ..    the stored limbs; the highest has the sign

The number 0 has no block: its handle is 0. ``H_FAR`` counts the blocks.
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.arena import H_FAR, alloc, release

_LOW = 2**32 - 1


@device
def load_far(arena, handle, out, at, n):
    """Writes the number to ``n`` limbs at ``out[at]``."""
    below, here, sign = 0, 0, 0
    if handle != 0:
        below, here = arena[handle] & _LOW, arena[handle] >> 32
        sign = arena[handle + here] >> 63
    for x in range(below):
        out[at + x] = 0
    for x in range(here):
        out[at + below + x] = arena[handle + 1 + x]
    for x in range(below + here, n):
        out[at + x] = sign


@device
def far_words(arena, handle):
    """Returns the words of the block of a nonzero number."""
    return 1 + (arena[handle] >> 32)


@device
def release_far(arena, handle):
    """Frees the block of a number."""
    if handle != 0:
        arena[H_FAR] -= 1
        release(arena, handle, far_words(arena, handle))


@device
def store_far(arena, src, at, n):
    """Stores the number of ``n`` limbs at ``src[at]``. Returns its handle; 0 if the number is 0."""
    below = 0
    while below < n and src[at + below] == 0:
        below += 1
    if below == n:
        return 0
    top = n
    while top > below + 1 and src[at + top - 1] == src[at + top - 2] >> 63:
        top -= 1
    handle = alloc(arena, 1 + top - below)
    arena[handle] = (top - below) << 32 | below
    for x in range(below, top):
        arena[handle + 1 + x - below] = src[at + x]
    arena[H_FAR] += 1
    return handle
