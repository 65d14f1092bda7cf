"""Lists of rows that a group has. See ``geometry`` for the words.

Invariants: a row's position field is the index of its entry. A list has room for a power of two, at most four times its
length (or 1). A list that carries values is wide from the first value that does not fit a half word until the list is
back in its field. No kernel reads the entries of a bound node's children list: it is COUNTED, and the positions of its
rows only show that they are in V_s.
"""

from __future__ import annotations

from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import COUNTED, PLAIN, ZERO, alloc, at32, release
from crown.kernels.memory.geometry import (
    CHILDREN,
    OWN_LINK,
    PARENTS,
    WIDE,
    block_handles,
    children_field,
    list_base,
    list_block,
    list_length,
    list_room,
    list_words,
    parents_field,
    room_log,
    set_linked_position,
    set_list_block,
    set_list_length,
    set_list_room,
)


@kernel("int")
def least_entries(log_room):
    """Returns the length at which a list with that log2 room, above 0, is moved to half of the room."""
    if log_room < 5:
        return 3 << log_room >> 3
    return 7 << log_room >> 4


@device
def _wide(value):
    """Returns ``WIDE`` if a value does not fit a half word, else 0."""
    if -(2**31) <= value < 2**31:
        return 0
    return WIDE


@device
def _carry(ctx, block, room, at, value):
    """Writes the carried value number ``at`` of a block."""
    if room & WIDE:
        ctx.arena[block + at] = value
    else:
        ctx.halves[2 * block + at] = value


@device
def _list_resize(ctx, field, side, carried, new):
    """Moves a list to a block with room ``new`` (0 = back into the field), including the entries of the old block.

    The new block MUST be wide if the old one is, or if the list is in its field and its only value needs it.
    """
    arena, halves = ctx.arena, ctx.halves
    present = list_room(halves, field, side)
    n = min(list_length(halves, field), 1 << room_log(present))
    old = list_base(halves, field, side, carried)
    old_block = list_block(halves, field)
    if new == 0:
        if n > 0:
            set_list_block(halves, field, at32(halves, old))
    else:
        block = alloc(arena, list_words(new, carried))
        ids = block_handles(block, new, carried)
        if carried != PLAIN:
            if present == 0:
                if old_block != 0:  # the list may be empty
                    _carry(ctx, block, new, ZERO, arena[old_block + carried])
            elif present & WIDE:
                for i in range(n):
                    arena[block + i] = arena[old_block + i]
            elif new & WIDE:
                for i in range(n):
                    arena[block + i] = at32(halves, 2 * old_block + i)
            else:
                for i in range(n):
                    halves[2 * block + i] = at32(halves, 2 * old_block + i)
        for i in range(n):
            halves[ids + i] = at32(halves, old + i)
        set_list_block(halves, field, block)
    set_list_room(halves, field, side, new)
    if present > 0:
        release(arena, old_block, list_words(present, carried))


@device
def _room_with(ctx, field, carried, room, log_room):
    """Returns the room of a list with ``room``, extended to ``log_room`` if that is more, and wide if a value needs
    it."""
    if log_room > room_log(room):
        if carried != PLAIN and room == 0 and list_block(ctx.halves, field) != 0:
            room = _wide(ctx.arena[list_block(ctx.halves, field) + carried])
        room = log_room | room & WIDE
    return room


@device
def list_fit(ctx, field, side, carried):
    """Extends the room of a list to its length. Entries beyond the old room MUST be written afterwards."""
    halves = ctx.halves
    n = list_length(halves, field)
    room = list_room(halves, field, side)
    log_room = room_log(room)
    if n > 1 << log_room:
        while n > 1 << log_room:
            log_room += 1
        _list_resize(ctx, field, side, carried, _room_with(ctx, field, carried, room, log_room))


@device
def _write(ctx, field, side, carried, at, row, room, new):
    """Writes entry ``at`` of a list with ``room``, which gets room ``new``, and becomes wide if the row's value needs
    it."""
    arena, halves = ctx.arena, ctx.halves
    value = ZERO
    if carried != PLAIN and new > 0:
        value = arena[row + carried]
        new |= _wide(value)
    if new != room:
        _list_resize(ctx, field, side, carried, new)
    if new == 0:
        set_list_block(halves, field, row)
        return
    block = list_block(halves, field)
    if carried != PLAIN:
        _carry(ctx, block, new, at, value)
    halves[block_handles(block, new, carried) + at] = row


@device
def list_write(ctx, field, side, carried, at, row):
    """Writes entry ``at`` of a list that has room for it."""
    room = list_room(ctx.halves, field, side)
    _write(ctx, field, side, carried, at, row, room, room)


@device
def list_append(ctx, field, side, carried, row):
    """Appends a row. ``field``, ``side``, ``carried``: as in ``list_base``. Returns the position of the entry.
    Amortized O(1)."""
    halves = ctx.halves
    n = list_length(halves, field)
    room = list_room(halves, field, side)
    new = room
    if n == 1 << room_log(room):
        new = _room_with(ctx, field, carried, room, room_log(room) + 1)
    _write(ctx, field, side, carried, n, row, room, new)
    set_list_length(halves, field, n + 1)
    return n


@device
def list_remove(ctx, field, side, carried, at, link):
    """Deletes entry ``at``.

    The last entry takes its place. ``link``: the row's link that holds its position. Amortized O(1).
    """
    arena, halves = ctx.arena, ctx.halves
    n = list_length(halves, field) - 1
    room = list_room(halves, field, side)
    if at != n:
        base = list_base(halves, field, side, carried)
        moved = at32(halves, base + n)
        halves[base + at] = moved
        if carried != PLAIN and room > 0:
            block = list_block(halves, field)
            if room & WIDE:
                arena[block + at] = arena[block + n]
            else:
                halves[2 * block + at] = at32(halves, 2 * block + n)
        set_linked_position(halves, moved, link, at)
    set_list_length(halves, field, n)
    log_room = room_log(room)
    if log_room > 0 and n <= least_entries(log_room):
        _list_resize(ctx, field, side, carried, ZERO if log_room == 1 else room - 1)
    if n == 0:
        set_list_block(halves, field, ZERO)  # shows that no row has a carried value


@device
def children_append(ctx, g, k, carried, row):
    """Appends a row that enters V_s to the children of its group. Returns its position. Amortized O(1)."""
    halves = ctx.halves
    field = children_field(g, k)
    if carried == COUNTED:
        n = list_length(halves, field)
        set_list_length(halves, field, n + 1)
        return n
    return list_append(ctx, field, CHILDREN, carried, row)


@device
def children_remove(ctx, g, k, carried, at):
    """Deletes the child at position ``at``. Amortized O(1)."""
    halves = ctx.halves
    field = children_field(g, k)
    if carried == COUNTED:
        n = list_length(halves, field) - 1
        set_list_length(halves, field, n)
        return
    list_remove(ctx, field, CHILDREN, carried, at, OWN_LINK)


@device
def parents_append(ctx, g, k, row):
    """Appends a row to the parents of a group to which it has a link. Returns its position. Amortized O(1)."""
    field = parents_field(g, k)
    return list_append(ctx, field, PARENTS, PLAIN, row)


@device
def parents_remove(ctx, g, k, at, link):
    """Deletes the parent at position ``at``. ``link``: the link of parents to the group. Amortized O(1)."""
    field = parents_field(g, k)
    list_remove(ctx, field, PARENTS, PLAIN, at, link)
