"""Lists of rows that a group has. See ``geometry`` for the words.

Invariants: a row's position field points at its entry; a list has room for a power of two, at most four times its
length (or 1). Of the children of a bound node nobody asks which they are: they are COUNTED, and their positions, which
say that they are in V_s, point nowhere.
"""

from __future__ import annotations

from crown.kernels.arena import COUNTED, PLAIN, alloc, at32, release
from crown.kernels.geometry import (
    CHILDREN,
    OWN_LINK,
    PARENTS,
    block_handles,
    children_field,
    list_base,
    list_block,
    list_length,
    list_log,
    list_words,
    parents_field,
    set_linked_position,
    set_list_block,
    set_list_length,
    set_list_log,
)
from crown.kernels.jit import device


@device
def _list_resize(ctx, field, side, carried, new):
    """Moves a list to a block with room for 2^new (1 = back into the field), as far as it is in the old one."""
    arena, halves = ctx.arena, ctx.halves
    present = list_log(halves, field, side)
    n = min(list_length(halves, field), 1 << present)
    old = list_base(halves, field, side, carried)
    old_block = list_block(halves, field)
    if new == 0:
        if n > 0:
            set_list_block(halves, field, at32(halves, old))
    else:
        block = alloc(arena, list_words(new, carried))
        ids = block_handles(block, new, carried)
        if carried != PLAIN and present > 0:
            for i in range(n):
                arena[block + i] = arena[old_block + i]
        for i in range(n):
            halves[ids + i] = at32(halves, old + i)
        set_list_block(halves, field, block)
    set_list_log(halves, field, side, new)
    if present > 0:
        release(arena, old_block, list_words(present, carried))


@device
def list_fit(ctx, field, side, carried):
    """Gives a list the room that its length asks for. Entries beyond the old room MUST be written then."""
    arena, halves = ctx.arena, ctx.halves
    n = list_length(halves, field)
    present = list_log(halves, field, side)
    if n <= 1 << present:
        return
    new = present
    while n > 1 << new:
        new += 1
    first = list_block(halves, field)
    _list_resize(ctx, field, side, carried, new)
    if carried != PLAIN and present == 0 and first != 0:  # it may be empty
        arena[list_block(halves, field)] = arena[first + carried]


@device
def list_write(ctx, field, side, carried, at, row):
    """Writes entry ``at`` of a list that has room for it."""
    arena, halves = ctx.arena, ctx.halves
    halves[list_base(halves, field, side, carried) + at] = row
    if carried != PLAIN and list_log(halves, field, side) > 0:
        arena[list_block(halves, field) + at] = arena[row + carried]


@device
def list_append(ctx, field, side, carried, row):
    """Appends a row; ``field``, ``side``, ``carried`` as in ``list_base``. Position of the entry. Amortized O(1)."""
    arena, halves = ctx.arena, ctx.halves
    n = list_length(halves, field)
    log_room = list_log(halves, field, side)
    if n == 1 << log_room:
        first = list_block(halves, field)
        _list_resize(ctx, field, side, carried, log_room + 1)
        if carried != PLAIN and log_room == 0:
            arena[list_block(halves, field)] = arena[first + carried]
        log_room += 1
    halves[list_base(halves, field, side, carried) + n] = row
    if carried != PLAIN and log_room > 0:
        arena[list_block(halves, field) + n] = arena[row + carried]
    set_list_length(halves, field, n + 1)
    return n


@device
def list_remove(ctx, field, side, carried, at, link):
    """Takes out entry ``at``.

    The last entry moves there. ``link``: the row's link that holds its position. Amortized O(1).
    """
    arena, halves = ctx.arena, ctx.halves
    n = list_length(halves, field) - 1
    log_room = list_log(halves, field, side)
    if at != n:
        base = list_base(halves, field, side, carried)
        moved = at32(halves, base + n)
        halves[base + at] = moved
        if carried != PLAIN and log_room > 0:
            block = list_block(halves, field)
            arena[block + at] = arena[block + n]
        set_linked_position(halves, moved, link, at)
    set_list_length(halves, field, n)
    if log_room > 0 and 8 * n <= 3 << log_room:
        _list_resize(ctx, field, side, carried, log_room - 1)


@device
def children_append(ctx, g, k, carried, row):
    """Returns the row enters V_s: append it to the children of its group. Its position. Amortized O(1)."""
    halves = ctx.halves
    field = children_field(g, k)
    if carried == COUNTED:
        n = list_length(halves, field)
        set_list_length(halves, field, n + 1)
        return n
    return list_append(ctx, field, CHILDREN, carried, row)


@device
def children_remove(ctx, g, k, carried, at):
    """Takes out the child at position ``at``. Amortized O(1)."""
    halves = ctx.halves
    field = children_field(g, k)
    if carried == COUNTED:
        n = list_length(halves, field) - 1
        set_list_length(halves, field, n)
        return
    list_remove(ctx, field, CHILDREN, carried, at, OWN_LINK)


@device
def parents_append(ctx, g, k, row):
    """Appends a row to the parents of a group that it has a link to. Its position. Amortized O(1)."""
    field = parents_field(g, k)
    return list_append(ctx, field, PARENTS, PLAIN, row)


@device
def parents_remove(ctx, g, k, at, link):
    """Takes out the parent at position ``at``; parents have that link to the group. Amortized O(1)."""
    field = parents_field(g, k)
    list_remove(ctx, field, PARENTS, PLAIN, at, link)
