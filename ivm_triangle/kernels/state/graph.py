"""Vertices, edges and their adjacency lists: contiguous, heavy other ends first, swap-remove, O(1) per change."""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.arena import T_CAPACITY, T_SLOTS, alloc, release
from crown.kernels.memory.tables import LOW32, after_slot, first, home_of, insert, remove, spread, table_at
from ivm_triangle.kernels.state.geometry import (
    clear_list,
    edge_position,
    in_list,
    list_address,
    list_capacity,
    list_extra,
    list_length,
    out_list,
    pair_of,
    right,
    set_edge_position,
    set_list_address,
    set_list_capacity,
    set_list_extra,
    set_list_length,
    set_multiplicity,
)
from ivm_triangle.kernels.state.layout import (
    COUNT_MASK,
    EDGE_WORDS,
    HEAVY,
    P_BORN,
    P_COPIES,
    VERTEX_WORDS,
    WORD,
)


@device
def after(plan, k):
    """Returns the relation (and domain) after number k in the rotation R, S, T; k itself if one relation plays all."""
    return k + 1 if k + 1 < plan[P_COPIES] else WORD(0)


@device
def before(plan, k):
    """Returns the relation that ends in domain k."""
    return k - 1 if k > 0 else plan[P_COPIES] - 1


@device
def tag_of(arena, word):
    """Returns the 32-bit tag of a key of one word; the same function as `tables.hash_key`."""
    return spread(first(arena, word))


@device
def find_word(arena, t, tag, word):
    """Returns the handle of the record with that one-word key, or 0."""
    slots = arena[t + T_SLOTS]
    capacity = arena[t + T_CAPACITY]
    s = home_of(tag, capacity)
    while True:
        slot = arena[slots + s]
        if slot == 0:
            return 0
        if ((slot >> 32) & LOW32) == tag:
            handle = right(slot)
            if arena[handle] == word:
                return handle
        s = after_slot(s, capacity)


@device
def lookup(arena, table, word):
    """Returns the handle of the record with that one-word key in table number `table`, or 0. Expected O(1)."""
    return find_word(arena, table_at(table), tag_of(arena, word), word)


# -- lists -------------------------------------------------------------------------------------------------------------


@device
def _move_block(arena, halves, w, capacity):
    length = list_length(halves, w)
    old = list_address(halves, w)
    old_capacity = list_capacity(halves, w)
    address = WORD(0)
    if capacity > 0:
        address = alloc(arena, capacity)
        for i in range(length):
            arena[address + i] = arena[old + i]
    if old_capacity > 0:
        release(arena, old, old_capacity)
    set_list_address(halves, w, address)
    set_list_capacity(halves, w, capacity)


@device
def push(arena, halves, w, entry):
    """Appends `entry` to the list at word `w`. Amortized O(1)."""
    length = list_length(halves, w)
    if length == list_capacity(halves, w):
        _move_block(arena, halves, w, max(WORD(2), 2 * length))
    arena[list_address(halves, w) + length] = entry
    set_list_length(halves, w, length + 1)


@device
def drop_last(arena, halves, w):
    """Deletes the last entry. The block shrinks when three quarters of it are empty. Amortized O(1)."""
    length = list_length(halves, w) - 1
    set_list_length(halves, w, length)
    capacity = list_capacity(halves, w)
    if length == 0:
        _move_block(arena, halves, w, WORD(0))
    elif capacity > 8 and 4 * length <= capacity:
        _move_block(arena, halves, w, capacity // 2)


@device
def place(arena, halves, w, i, entry, half):
    """Writes an edge entry at position `i`; `half` 0: the list is an out list, 1: an in list."""
    arena[list_address(halves, w) + i] = entry
    set_edge_position(halves, right(entry), half, i)


@device
def link(arena, halves, w, entry, heavy, half):
    """Adds an edge entry to a vertex's list, to the heavy or the light other ends."""
    push(arena, halves, w, entry)
    last = list_length(halves, w) - 1
    if heavy:
        count = list_extra(halves, w) & COUNT_MASK
        if count < last:
            place(arena, halves, w, last, arena[list_address(halves, w) + count], half)
        place(arena, halves, w, count, entry, half)
        set_list_extra(halves, w, list_extra(halves, w) + 1)
    else:
        set_edge_position(halves, right(entry), half, last)


@device
def unlink(arena, halves, w, edge, half):
    """Deletes an edge from a vertex's list."""
    at = edge_position(halves, edge, half)
    count = list_extra(halves, w) & COUNT_MASK
    last = list_length(halves, w) - 1
    if at < count:
        count -= 1
        if at < count:
            place(arena, halves, w, at, arena[list_address(halves, w) + count], half)
        set_list_extra(halves, w, list_extra(halves, w) - 1)
        at = count
    if at < last:
        place(arena, halves, w, at, arena[list_address(halves, w) + last], half)
    drop_last(arena, halves, w)


@device
def relink(arena, halves, w, edge, heavy, half):
    """Moves an entry between the heavy and the light part of a list, because the other end of its edge has changed its
    flag."""
    at = edge_position(halves, edge, half)
    count = list_extra(halves, w) & COUNT_MASK
    border = count if heavy else count - 1
    entry = arena[list_address(halves, w) + at]
    if at != border:
        place(arena, halves, w, at, arena[list_address(halves, w) + border], half)
        place(arena, halves, w, border, entry, half)
    set_list_extra(halves, w, list_extra(halves, w) + (1 if heavy else -1))


@device
def is_heavy(halves, w):
    """Returns the flag of the vertex whose list in that column is at word `w`."""
    return (list_extra(halves, w) & HEAVY) != 0


@device
def degree(halves, w):
    """Returns the length of the list at word `w`."""
    return list_length(halves, w)


@device
def part_of(halves, x, y):
    """Returns the bit of the part (HH 1, HL 2, LH 4, LL 8) of an edge from vertex x to vertex y."""
    return 1 << (2 * (not is_heavy(halves, out_list(x))) + (not is_heavy(halves, in_list(y))))


# -- vertices and edges ------------------------------------------------------------------------------------------------


@device
def vertex(ctx, domain, value):
    """Returns the handle of the vertex with that value. Makes it if it is new. Expected O(1)."""
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    t = table_at(domain)
    tag = tag_of(arena, value)
    v = find_word(arena, t, tag, value)
    if v == 0:
        v = alloc(arena, WORD(VERTEX_WORDS))
        arena[v] = value
        clear_list(arena, out_list(v))
        clear_list(arena, in_list(v))
        if plan[P_BORN + 2 * domain]:
            set_list_extra(halves, out_list(v), HEAVY)
        if plan[P_BORN + 2 * before(plan, domain) + 1]:
            set_list_extra(halves, in_list(v), HEAVY)
        insert(arena, t, tag, v)
    return v


@device
def drop_vertex_if_bare(arena, halves, domain, v):
    """Frees a vertex that has no edges left."""
    if list_length(halves, out_list(v)) == 0 and list_length(halves, in_list(v)) == 0:
        remove(arena, table_at(domain), tag_of(arena, arena[v]), v)
        release(arena, v, WORD(VERTEX_WORDS))


@device
def add_edge(arena, halves, k, x, y, m):
    """Makes an edge with multiplicity m; it MUST NOT exist. Returns its handle."""
    e = alloc(arena, WORD(EDGE_WORDS))
    key = pair_of(x, y)
    arena[e] = key
    set_multiplicity(arena, e, m)
    link(arena, halves, out_list(x), pair_of(y, e), is_heavy(halves, in_list(y)), WORD(0))
    link(arena, halves, in_list(y), pair_of(x, e), is_heavy(halves, out_list(x)), WORD(1))
    insert(arena, table_at(3 + k), tag_of(arena, key), e)
    return e


@device
def drop_edge(arena, halves, k, x, y, e):
    """Deletes an edge. Its vertices stay."""
    unlink(arena, halves, out_list(x), e, WORD(0))
    unlink(arena, halves, in_list(y), e, WORD(1))
    remove(arena, table_at(3 + k), tag_of(arena, arena[e]), e)
    release(arena, e, WORD(EDGE_WORDS))
