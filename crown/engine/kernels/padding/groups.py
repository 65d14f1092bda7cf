"""Padded nodes: a group with parent rows but no row of the node gets a row of NULLs.

A padded node has one such row, the *padding*, in a record of no table. The walk of the padding treats it like any row
that enters V_s or leaves it: its group is written to it just before. So the nodes above and below work as without
padding.

Invariant between two batches: a group above a padded node has the padding as its only child iff it has parents and no
row of the node. Within a batch the padding may be missing: paddings are deleted before the insertions, and inserted
after them (``batches``). A group that loses its last parent loses its padding without a walk, since no parent reads it.
The padding is never in a group together with a row.
"""

from __future__ import annotations

from crown.engine.kernels.groups import look_of, node_at
from crown.engine.kernels.layout import (
    I_TABLE,
    LOOKUP_INDEX,
    LOOKUP_POS,
    N_CARRIED,
    N_EDGE,
    N_KEY,
    N_RECORD,
    N_SHIFT,
    R_WIDTH,
)
from crown.kernels.jit import device
from crown.kernels.memory.arena import ZERO, at32
from crown.kernels.memory.geometry import T_PADDING, children_base, children_count, parents_count
from crown.kernels.memory.lists import children_remove
from crown.kernels.memory.tables import find, hash_key
from crown.kernels.strings import NULL


@device
def padding_of(ctx, d):
    """Returns the padding of the padded node with descriptor ``d``."""
    return ctx.arena[ctx.plan[d + N_EDGE] + T_PADDING]


@device
def is_padded(ctx, d, g):
    """Returns True if the only child of group ``g`` above the padded node with descriptor ``d`` is its padding."""
    halves, plan = ctx.halves, ctx.plan
    k = plan[d + N_KEY]
    if children_count(halves, g, k) != 1:
        return False
    return at32(halves, children_base(halves, g, k, plan[d + N_CARRIED])) == padding_of(ctx, d)


@device
def forget_padding(ctx, d, g):
    """Deletes the padding from a group that has lost its last parent, if it is there."""
    plan = ctx.plan
    k = plan[d + N_KEY]
    if parents_count(ctx.halves, g, k) == 0 and is_padded(ctx, d, g):
        children_remove(ctx, g, k, plan[d + N_CARRIED], ZERO)


@device
def group_of(ctx, d, at, rows, base):
    """Returns the group above the node with descriptor ``d`` that look-up ``at`` finds for a tuple, or 0."""
    plan = ctx.plan
    index, pos = plan[at + LOOKUP_INDEX], plan[at + LOOKUP_POS]
    k = plan[d + N_KEY]
    tag = hash_key(ctx.arena, plan, pos, k, rows, base)
    bundle = find(ctx.arena, plan[index + I_TABLE], tag, plan, pos, k, rows, base)
    if bundle == 0:
        return bundle
    return bundle + plan[d + N_SHIFT]


@device
def padding_for(ctx, node, values):
    """Returns the padding of a padded node if it represents a tuple with the words ``values``; else 0."""
    plan = ctx.plan
    d = node_at(node)
    rec = plan[d + N_RECORD]
    at = look_of(plan, rec, d, ZERO)
    key = plan[at + LOOKUP_POS]
    k = plan[d + N_KEY]
    for w in range(plan[rec + R_WIDTH]):
        is_key = False
        for j in range(k):
            is_key |= plan[key + j] == w
        if not is_key and values[w] != NULL:
            return ZERO
    g = group_of(ctx, d, at, values, ZERO)
    if g == 0 or not is_padded(ctx, d, g):
        return ZERO
    return padding_of(ctx, d)
