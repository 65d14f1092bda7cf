"""Groups: per key value of an edge one, in bundles, the only index there is. See ``crown.kernels.geometry``.

Invariants: a group is in use iff a row of R_c or of R_p has its key, and a bundle exists iff a group of it is in use.
In a group's parents list the first ``live`` entries are the live rows.
"""

from __future__ import annotations

from crown.engine.kernels.layout import (
    I_GROUPS,
    I_KEY,
    I_SHIFT0,
    I_TABLE,
    I_WORDS,
    LOOKUP,
    LOOKUP_INDEX,
    LOOKUP_POS,
    N_CHILD,
    N_INDEX,
    N_KEY,
    N_LOOKUPS,
    N_RECORD,
    N_SHIFT,
    ND,
    P_IDENTITY,
    P_NODES,
    R_LOOKUP0,
)
from crown.kernels.arena import alloc, release
from crown.kernels.geometry import parents_count, references
from crown.kernels.jit import device, kernel
from crown.kernels.tables import find, hash_key, insert, remove


@kernel
def node_at(node):
    """Returns the plan offset of a node descriptor."""
    return P_NODES + ND * node


@device
def child_at(plan, d, j):
    """Returns the node number of child ``j`` of the node at descriptor ``d``."""
    return plan[plan[d + N_CHILD] + j]


@device
def lookup_at(plan, rec, i):
    """Returns the plan offset of look-up ``i`` of the records of ``rec``."""
    return plan[rec + R_LOOKUP0] + LOOKUP * i


@device
def look_of(plan, rec, d, q):
    """Returns the plan offset of the look-up of group ``q`` of a record at the node with descriptor ``d``: 0 its own,
    then of children."""
    return lookup_at(plan, rec, plan[plan[d + N_LOOKUPS] + q])


@device
def bundle_get(ctx, index, tag, src, base, pos):
    """Returns the bundle of an index with the key at ``src[base + plan[pos + j]]``, made if absent. Expected O(1).

    ``tag``: the key's.
    """
    arena, plan = ctx.arena, ctx.plan
    k = plan[index + I_KEY]
    t = plan[index + I_TABLE]
    bundle = find(arena, t, tag, plan, pos, k, src, base)
    if bundle == 0:
        size = plan[index + I_WORDS]
        bundle = alloc(arena, size)
        for j in range(k):
            arena[bundle + j] = src[base + plan[pos + j]]
        for j in range(k, size):
            arena[bundle + j] = 0
        insert(arena, t, tag, bundle)
    return bundle


@device
def bundle_of(ctx, d, q, record, tags, found):
    """Returns the bundle with group ``q`` of a record at the node with descriptor ``d``: 0 its own, then of children.

    ``tags``, ``found``: where in ``scratch`` the tags of the record's look-ups are, and what they have found so far: 0
    is nothing yet.
    """
    plan, scratch = ctx.plan, ctx.scratch
    i = plan[plan[d + N_LOOKUPS] + q]
    bundle = scratch[found + i]
    if bundle == 0:
        at = lookup_at(plan, plan[d + N_RECORD], i)
        bundle = bundle_get(ctx, plan[at + LOOKUP_INDEX], scratch[tags + i], ctx.arena, record, plan[at + LOOKUP_POS])
        scratch[found + i] = bundle
    return bundle


@device
def group_drop(ctx, node, g):
    """Frees the bundle of a group if neither side of any of its edges refers to it any more.

    All lists are then empty and back in their fields.
    """
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    d = node_at(node)
    k = plan[d + N_KEY]
    if parents_count(halves, g, k) != 0 or references(halves, g, k) != 0:
        return
    index = plan[d + N_INDEX]
    bundle = g - plan[d + N_SHIFT]
    shifts = plan[index + I_SHIFT0]
    for i in range(shifts, shifts + plan[index + I_GROUPS]):
        other = bundle + plan[i]
        if parents_count(halves, other, k) != 0 or references(halves, other, k) != 0:
            return
    tag = hash_key(arena, plan, plan[P_IDENTITY], k, arena, bundle)
    remove(arena, plan[index + I_TABLE], tag, bundle)
    release(arena, bundle, plan[index + I_WORDS])
