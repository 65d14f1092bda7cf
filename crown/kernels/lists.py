"""Lists of rows that a group has. See ``geometry`` for the words.

Invariants: a row's position field points at its entry; list capacity is 1 or a power of two, at most four times the
length (or 1). Of the children of a bound node nobody asks which they are: they are COUNTED, and their positions, which
say that they are in V_s, point nowhere.
"""

from __future__ import annotations

from crown.kernels.arena import COUNTED, ONE, PLAIN, alloc, at32, release
from crown.kernels.geometry import (
    OWN_LINK,
    block_handles,
    children_field,
    children_log,
    list_base,
    list_block,
    list_length,
    list_words,
    parents_field,
    parents_log,
    set_linked_position,
    set_list_block,
    set_list_length,
)
from crown.kernels.jit import device


@device
def _list_resize(ctx, field, log_at, carried, log_new):
    """Moves a list to a block of capacity 2^log_new (1 = back into the field), as far as it is in the old one."""
    arena, halves = ctx.arena, ctx.halves
    log_old = at32(halves, log_at)
    n = min(list_length(halves, field), 1 << log_old)
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
def list_fit(ctx, field, log_at, carried):
    """Gives a list the capacity that its length asks for. Entries beyond the old capacity MUST be written then."""
    arena, halves = ctx.arena, ctx.halves
    n = list_length(halves, field)
    log_old = at32(halves, log_at)
    if n <= 1 << log_old:
        return
    log_new = log_old
    while n > 1 << log_new:
        log_new += 1
    first = list_block(halves, field)
    _list_resize(ctx, field, log_at, carried, log_new)
    if carried != PLAIN and log_old == 0 and first != 0:  # it may be empty
        arena[list_block(halves, field)] = arena[first + carried]


@device
def list_write(ctx, field, log_at, carried, at, row):
    """Writes entry ``at`` of a list that has room for it."""
    arena, halves = ctx.arena, ctx.halves
    halves[list_base(halves, field, log_at, carried) + at] = row
    if carried != PLAIN and at32(halves, log_at) > 0:
        arena[list_block(halves, field) + at] = arena[row + carried]


@device
def list_append(ctx, field, log_at, carried, row):
    """Appends a row; ``field``, ``log_at``, ``carried`` as in ``list_base``. Position of the entry. Amortized O(1)."""
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
    """Takes out entry ``at``.

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
    """Returns the row enters V_s: append it to the children of its group. Its position. Amortized O(1)."""
    halves = ctx.halves
    field = children_field(g, k)
    if carried == COUNTED:
        n = list_length(halves, field)
        set_list_length(halves, field, n + 1)
        return n
    return list_append(ctx, field, children_log(field), carried, row)


@device
def children_remove(ctx, g, k, carried, at):
    """Takes out the child at position ``at``. Amortized O(1)."""
    halves = ctx.halves
    field = children_field(g, k)
    if carried == COUNTED:
        n = list_length(halves, field) - 1
        set_list_length(halves, field, n)
        return
    list_remove(ctx, field, children_log(field), carried, at, OWN_LINK)


@device
def parents_append(ctx, g, k, row):
    """Appends a row to the parents of a group that it has a link to. Its position. Amortized O(1)."""
    field = parents_field(g, k)
    return list_append(ctx, field, parents_log(field), PLAIN, row)


@device
def parents_remove(ctx, g, k, at, link):
    """Takes out the parent at position ``at``; parents have that link to the group. Amortized O(1)."""
    field = parents_field(g, k)
    list_remove(ctx, field, parents_log(field), PLAIN, at, link)
