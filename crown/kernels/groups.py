"""Groups and their two lists. See ``geometry`` for the words.

Invariants: a row's position field points at its entry; in a parents list the first ``live`` entries are the live rows;
a group exists iff a row of R_c or of R_p has its key; list capacity is 1 or a power of two, at most four times the
length (or 1).
"""

from __future__ import annotations

from crown.kernels.arena import ONE, PLAIN, alloc, at32, release
from crown.kernels.geometry import (
    OWN_LINK,
    block_handles,
    children_field,
    children_log,
    group_words,
    list_base,
    list_block,
    list_length,
    list_words,
    parents_count,
    parents_field,
    parents_log,
    references,
    set_linked_position,
    set_list_block,
    set_list_length,
)
from crown.kernels.jit import device, kernel
from crown.kernels.layout import N_CHILD, N_GROUPS, N_KEY, ND, P_IDENTITY, P_NODES
from crown.kernels.tables import find, hash_key, insert, remove


@kernel
def node_at(node):
    """Plan offset of a node descriptor."""
    return P_NODES + ND * node


@device
def child_at(plan, d, j):
    """Node number of child ``j`` of the node at descriptor ``d``."""
    return plan[plan[d + N_CHILD] + j]


@device
def _list_resize(ctx, field, log_at, carried, log_new):
    """Move a list to a block of capacity 2^log_new (1 = back into the field)."""
    arena, halves = ctx.arena, ctx.halves
    log_old = at32(halves, log_at)
    n = list_length(halves, field)
    old = list_base(halves, field, log_at, carried)
    old_block = list_block(halves, field)
    if log_new == 0:
        if n > 0:
            set_list_block(halves, field, at32(halves, old))
        halves[log_at] = 0
    else:
        block = alloc(arena, list_words(log_new, carried))
        ids = block_handles(block, log_new, carried)
        if carried != PLAIN and log_old > 0:
            for i in range(n):
                arena[block + i] = arena[old_block + i]
        for i in range(n):
            halves[ids + i] = at32(halves, old + i)
        set_list_block(halves, field, block)
        halves[log_at] = log_new
    if log_old > 0:
        release(arena, old_block, list_words(log_old, carried))


@device
def list_append(ctx, field, log_at, carried, row):
    """Append a row; ``field``, ``log_at``, ``carried`` as in ``list_base``. Position of the entry. Amortized O(1)."""
    arena, halves = ctx.arena, ctx.halves
    n = list_length(halves, field)
    log_capacity = at32(halves, log_at)
    if n == (1 << log_capacity):
        if carried != PLAIN and log_capacity == 0:
            first = list_block(halves, field)
            _list_resize(ctx, field, log_at, carried, ONE)
            arena[list_block(halves, field)] = arena[first + carried]
        else:
            _list_resize(ctx, field, log_at, carried, log_capacity + 1)
        log_capacity += 1
    halves[list_base(halves, field, log_at, carried) + n] = row
    if carried != PLAIN and log_capacity > 0:
        arena[list_block(halves, field) + n] = arena[row + carried]
    set_list_length(halves, field, n + 1)
    return n


@device
def list_remove(ctx, field, log_at, carried, at, link):
    """Take out entry ``at``.

    The last entry moves there. ``link``: the row's link that holds its position. Amortized O(1).
    """
    arena, halves = ctx.arena, ctx.halves
    n = list_length(halves, field) - 1
    log_capacity = at32(halves, log_at)
    if at != n:
        base = list_base(halves, field, log_at, carried)
        moved = at32(halves, base + n)
        halves[base + at] = moved
        if carried != PLAIN and log_capacity > 0:
            block = list_block(halves, field)
            arena[block + at] = arena[block + n]
        set_linked_position(halves, moved, link, at)
    set_list_length(halves, field, n)
    if log_capacity > 0 and 4 * n <= (1 << log_capacity):
        _list_resize(ctx, field, log_at, carried, log_capacity - 1)


@device
def children_append(ctx, g, k, carried, row):
    """The row enters V_s: append it to the children of its group. Its position. Amortized O(1)."""
    field = children_field(g, k)
    return list_append(ctx, field, children_log(field), carried, row)


@device
def children_remove(ctx, g, k, carried, at):
    """Take out the child at position ``at``. Amortized O(1)."""
    field = children_field(g, k)
    list_remove(ctx, field, children_log(field), carried, at, OWN_LINK)


@device
def parents_append(ctx, g, k, row):
    """Append a row to the parents of a group that it has a link to. Its position. Amortized O(1)."""
    field = parents_field(g, k)
    return list_append(ctx, field, parents_log(field), PLAIN, row)


@device
def parents_remove(ctx, g, k, at, link):
    """Take out the parent at position ``at``; parents have that link to the group. Amortized O(1)."""
    field = parents_field(g, k)
    list_remove(ctx, field, parents_log(field), PLAIN, at, link)


@device
def group_get(ctx, node, tag, src, base, pos):
    """Group of the edge above ``node`` with the key at ``src[base + plan[pos + j]]``, made if absent. Expected O(1).

    ``tag``: the key's.
    """
    arena, plan = ctx.arena, ctx.plan
    d = node_at(node)
    k = plan[d + N_KEY]
    t = plan[d + N_GROUPS]
    g = find(arena, t, tag, plan, pos, k, src, base)
    if g == 0:
        size = group_words(k)
        g = alloc(arena, size)
        for j in range(k):
            arena[g + j] = src[base + plan[pos + j]]
        for j in range(k, size):
            arena[g + j] = 0
        insert(arena, t, tag, g)
    return g


@device
def group_drop(ctx, node, g):
    """Free the group if neither side refers to it any more. Both its lists are then empty and back in their fields."""
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    d = node_at(node)
    k = plan[d + N_KEY]
    if parents_count(halves, g, k) == 0 and references(halves, g, k) == 0:
        tag = hash_key(arena, plan, plan[P_IDENTITY], k, arena, g)
        remove(arena, plan[d + N_GROUPS], tag, g)
        release(arena, g, group_words(k))
