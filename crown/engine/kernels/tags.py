"""Tags of the tuples ahead of a batch, in a ring of the scratch array, and the bundles that a tuple has looked up."""

from __future__ import annotations

from crown.engine.kernels.groups import lookup_at
from crown.engine.kernels.layout import (
    I_KEY,
    LOOKUP_INDEX,
    LOOKUP_POS,
    P_COUNT,
    R_LOOKUPS,
    RING,
    X_FOUND,
    X_RING,
    X_STRIDE,
)
from crown.kernels.jit import device
from crown.kernels.memory.tables import hash_key


@device
def ring_at(scratch, i):
    """Returns the position of the tag of tuple ``i``; those of its look-ups follow."""
    return scratch[X_RING] + (i & (RING - 1)) * scratch[X_STRIDE]


@device
def spare_tags(scratch):
    """Returns the position of the tags of the look-ups of a row that is not a tuple of the batch."""
    return scratch[X_RING] + RING * scratch[X_STRIDE]


@device
def nothing_found(ctx, rec, which):
    """Clears the bundles that a record of ``rec`` has looked up. Returns their position.

    ``which``: 0 for a tuple of the batch, 1 for a virtual row.
    """
    plan, scratch = ctx.plan, ctx.scratch
    found = found_at(plan, scratch, which)
    for i in range(found, found + plan[rec + R_LOOKUPS]):
        scratch[i] = 0
    return found


@device
def found_at(plan, scratch, which):
    """Returns the position of the bundles that have been looked up."""
    return scratch[X_FOUND] + 2 * plan[P_COUNT] * which


@device
def tag_groups(ctx, rec, src, base, at):
    """Writes the tags of the look-ups of a record with values ``src[base ...]`` to ``scratch[at ...]``."""
    arena, plan, scratch = ctx.arena, ctx.plan, ctx.scratch
    for i in range(plan[rec + R_LOOKUPS]):
        look = lookup_at(plan, rec, i)
        k = plan[plan[look + LOOKUP_INDEX] + I_KEY]
        scratch[at + i] = hash_key(arena, plan, plan[look + LOOKUP_POS], k, src, base)
