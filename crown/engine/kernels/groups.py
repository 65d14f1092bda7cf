"""Groups: the only index there is, one per key value on an edge. See ``crown.kernels.geometry`` for the words.

Invariants: a group exists iff a row of R_c or of R_p has its key; in its parents list the first ``live`` entries are
the live rows.
"""

from __future__ import annotations

from crown.engine.kernels.layout import N_CHILD, N_EXTRA, N_GROUPS, N_KEY, ND, P_IDENTITY, P_NODES
from crown.kernels.arena import alloc, release
from crown.kernels.geometry import group_words, parents_count, references
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
def group_get(ctx, node, tag, src, base, pos):
    """Returns the group above ``node`` with the key at ``src[base + plan[pos + j]]``, made if absent. Expected O(1).

    ``tag``: the key's.
    """
    arena, plan = ctx.arena, ctx.plan
    d = node_at(node)
    k = plan[d + N_KEY]
    t = plan[d + N_GROUPS]
    g = find(arena, t, tag, plan, pos, k, src, base)
    if g == 0:
        size = group_words(k, plan[d + N_EXTRA])
        g = alloc(arena, size)
        for j in range(k):
            arena[g + j] = src[base + plan[pos + j]]
        for j in range(k, size):
            arena[g + j] = 0
        insert(arena, t, tag, g)
    return g


@device
def group_drop(ctx, node, g):
    """Frees the group if neither side refers to it any more. Both its lists are then empty and back in their fields."""
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    d = node_at(node)
    k = plan[d + N_KEY]
    if parents_count(halves, g, k) == 0 and references(halves, g, k) == 0:
        tag = hash_key(arena, plan, plan[P_IDENTITY], k, arena, g)
        remove(arena, plan[d + N_GROUPS], tag, g)
        release(arena, g, group_words(k, plan[d + N_EXTRA]))
