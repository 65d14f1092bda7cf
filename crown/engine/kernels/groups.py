"""Groups: one per key value of an edge, stored in bundles. They are the only index. See
``crown.kernels.memory.geometry``.

Invariants: a group is in use iff a row of R_c or of R_p has its key, and a bundle exists iff one of its groups is in
use. In a group's parents list the first ``live`` entries are the live rows.
"""

from __future__ import annotations

from crown.engine.kernels.layout import (
    GROUP,
    GROUP_REFERENCES,
    GROUP_SHIFT,
    I_GROUP0,
    I_GROUPS,
    I_KEY,
    I_TABLE,
    I_WORDS,
    LOOKUP,
    LOOKUP_INDEX,
    LOOKUP_POS,
    N_CHILD,
    N_INDEX,
    N_KEY,
    N_LOOKUPS,
    N_PARENT,
    N_RECORD,
    N_REFERENCES,
    N_SHIFT,
    N_SHORT,
    ND,
    P_IDENTITY,
    P_NODES,
    R_LOOKUP0,
    RING,
    X_STRIDE,
)
from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import H_ROOT, release
from crown.kernels.memory.geometry import change_references, parents_count, references, row_group, set_row_group
from crown.kernels.memory.tables import hash_key, made_in, record_in, remove, seek


@kernel("int")
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
    """Returns the plan offset of the look-up of group ``q`` of a record at the node with descriptor ``d``: 0 is its own
    group, then those of its children."""
    return lookup_at(plan, rec, plan[plan[d + N_LOOKUPS] + q])


@device
def own_group(ctx, d, row):
    """Returns the group of a row of the node with descriptor ``d`` as a child, in V_s or not."""
    if ctx.plan[d + N_PARENT] < 0:
        return ctx.arena[H_ROOT]
    return row_group(ctx.halves, row)


@device
def set_own_group(ctx, d, row, g):
    """Writes the group of a row as a child, unless the row has no word for it."""
    if ctx.plan[d + N_PARENT] >= 0 or ctx.plan[d + N_SHORT] == 0:
        set_row_group(ctx.halves, row, g)


@device
def refer(ctx, d, g, change):
    """Changes the number of child rows that reference a group above the node with descriptor ``d``."""
    change_references(ctx.halves, g, ctx.plan[d + N_KEY], ctx.plan[d + N_REFERENCES], change)


@device
def note_of(scratch, at):
    """Returns the word that holds the slot in which the tag at ``scratch[at]`` of a row of the ring was found."""
    return at + (RING + 1) * scratch[X_STRIDE]


@device
def bundle_get(ctx, index, tag, src, base, pos, note):
    """Returns the bundle of an index with the key at ``src[base + plan[pos + j]]``. Makes it if absent. Expected O(1).

    ``tag``: the key's tag. ``note``: see ``tables.seek``.
    """
    arena, plan = ctx.arena, ctx.plan
    k = plan[index + I_KEY]
    t = plan[index + I_TABLE]
    s = seek(arena, t, tag, plan, pos, k, src, base, note)
    bundle = record_in(arena, t, s)
    if bundle == 0:
        bundle = made_in(arena, t, tag, s, plan, pos, k, src, base, plan[index + I_WORDS])
    return bundle


@device
def bundle_of(ctx, d, q, record, tags, found):
    """Returns the bundle with group ``q`` of a record at the node with descriptor ``d``: 0 is its own group, then those
    of its children.

    ``tags``, ``found``: the positions in ``scratch`` of the tags of the record's look-ups, and of the bundles found so
    far (0 for none).
    """
    plan, scratch = ctx.plan, ctx.scratch
    i = plan[plan[d + N_LOOKUPS] + q]
    bundle = scratch[found + i]
    if bundle == 0:
        at = lookup_at(plan, plan[d + N_RECORD], i)
        tag, note = scratch[tags + i], scratch[note_of(scratch, tags + i)]
        bundle = bundle_get(ctx, plan[at + LOOKUP_INDEX], tag, ctx.arena, record, plan[at + LOOKUP_POS], note)
        scratch[found + i] = bundle
    return bundle


@device
def group_drop(ctx, node, g):
    """Frees the bundle of a group if neither end of any of its edges references it any more.

    All lists are then empty and stored in their fields.
    """
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    d = node_at(node)
    k = plan[d + N_KEY]
    if parents_count(halves, g, k) != 0 or references(halves, g, k, plan[d + N_REFERENCES]) != 0:
        return
    index = plan[d + N_INDEX]
    bundle = g - plan[d + N_SHIFT]
    group = plan[index + I_GROUP0]
    for _ in range(plan[index + I_GROUPS]):
        other = bundle + plan[group + GROUP_SHIFT]
        where = plan[group + GROUP_REFERENCES]
        if parents_count(halves, other, k) != 0 or references(halves, other, k, where) != 0:
            return
        group += GROUP
    tag = hash_key(arena, plan, plan[P_IDENTITY], k, arena, bundle)
    remove(arena, plan[index + I_TABLE], tag, bundle)
    release(arena, bundle, plan[index + I_WORDS])
