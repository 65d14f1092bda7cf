"""Lists of rows that a group has. See ``geometry`` for the words.

Invariants: a row's position field points at its entry; a list has room for 1, or for less than three times its
length. Of the children of a bound node nobody asks which they are: they are COUNTED, and their positions, which
say that they are in V_s, point nowhere.
"""

from __future__ import annotations

from crown.kernels.arena import COUNTED, PLAIN, alloc, at32, list_least, list_room, release
from crown.kernels.geometry import (
    CHILDREN,
    OWN_LINK,
    PARENTS,
    block_handles,
    children_field,
    list_base,
    list_block,
    list_class,
    list_length,
    list_words,
    parents_field,
    set_linked_position,
    set_list_block,
    set_list_class,
    set_list_length,
)
from crown.kernels.jit import device


@device
def _list_resize(ctx, field, side, carried, new):
    """Moves a list to a block of room class ``new`` (0 = back into the field), as far as it is in the old one."""
    arena, halves = ctx.arena, ctx.halves
    present = list_class(halves, field, side)
    n = min(list_length(halves, field), list_room(present))
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
    set_list_class(halves, field, side, new)
    if present > 0:
        release(arena, old_block, list_words(present, carried))


@device
def list_fit(ctx, field, side, carried):
    """Gives a list the room that its length asks for. Entries beyond the old room MUST be written then."""
    arena, halves = ctx.arena, ctx.halves
    n = list_length(halves, field)
    present = list_class(halves, field, side)
    if n <= list_room(present):
        return
    new = present
    while n > list_room(new):
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
    if carried != PLAIN and list_class(halves, field, side) > 0:
        arena[list_block(halves, field) + at] = arena[row + carried]


@device
def list_append(ctx, field, side, carried, row):
    """Appends a row; ``field``, ``side``, ``carried`` as in ``list_base``. Position of the entry. Amortized O(1)."""
    arena, halves = ctx.arena, ctx.halves
    n = list_length(halves, field)
    room_class = list_class(halves, field, side)
    if n == list_room(room_class):
        first = list_block(halves, field)
        _list_resize(ctx, field, side, carried, room_class + 1)
        if carried != PLAIN and room_class == 0:
            arena[list_block(halves, field)] = arena[first + carried]
        room_class = room_class + 1
    halves[list_base(halves, field, side, carried) + n] = row
    if carried != PLAIN and room_class > 0:
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
    room_class = list_class(halves, field, side)
    if at != n:
        base = list_base(halves, field, side, carried)
        moved = at32(halves, base + n)
        halves[base + at] = moved
        if carried != PLAIN and room_class > 0:
            block = list_block(halves, field)
            arena[block + at] = arena[block + n]
        set_linked_position(halves, moved, link, at)
    set_list_length(halves, field, n)
    if room_class > 0 and n <= list_least(room_class):
        _list_resize(ctx, field, side, carried, room_class - 1)


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
