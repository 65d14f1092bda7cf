"""Vertices, edges and their adjacency lists: contiguous, heavy other ends first, swap-remove, O(1) per change."""

from __future__ import annotations

from crown.kernels.arena import H_SEED, T_MASK, T_SLOTS, alloc, at32, hi, lo, release, set_hi, set_lo
from crown.kernels.jit import device
from crown.kernels.tables import LOW32, insert, mix, remove, table_at
from ivm_triangle.kernels.layout import (
    COUNT_MASK,
    EDGE_WORDS,
    HEAVY,
    P_BORN,
    P_COPIES,
    V_IN,
    V_OUT,
    VERTEX_WORDS,
    WORD,
)


@device
def after(P, k):
    """The relation (and domain) that follows number k in the rotation R, S, T; itself where one plays all."""
    return k + 1 if k + 1 < P[P_COPIES] else WORD(0)


@device
def before(P, k):
    """The relation that leads to domain k."""
    return k - 1 if k > 0 else P[P_COPIES] - 1


@device
def tag_of(M, word):
    """32-bit tag of a key of one word; the same function as `tables.hash_key`."""
    return ((mix(M[H_SEED], word) * -4417276706812531889) >> 32) & LOW32


@device
def find_word(M, t, tag, word):
    """Handle of the record with that one-word key, or 0."""
    slots = M[t + T_SLOTS]
    mask = M[t + T_MASK]
    s = tag & mask
    while True:
        slot = M[slots + s]
        if slot == 0:
            return 0
        if ((slot >> 32) & LOW32) == tag:
            handle = slot & LOW32
            if M[handle] == word:
                return handle
        s = (s + 1) & mask


@device
def lookup(M, table, word):
    """Handle of the record with that one-word key in table number `table`, or 0. Expected O(1)."""
    return find_word(M, table_at(table), tag_of(M, word), word)


# -- lists -------------------------------------------------------------------------------------------------------------


@device
def clear_list(M, w):
    """Make the list at word `w` empty, without a block."""
    M[w] = 0
    M[w + 1] = 0


@device
def _move_block(M, m32, w, capacity):
    length = hi(m32, w)
    old = lo(m32, w)
    old_capacity = lo(m32, w + 1)
    address = WORD(0)
    if capacity > 0:
        address = alloc(M, capacity)
        for i in range(length):
            M[address + i] = M[old + i]
    if old_capacity > 0:
        release(M, old, old_capacity)
    set_lo(m32, w, address)
    set_lo(m32, w + 1, capacity)


@device
def push(M, m32, w, entry):
    """Append `entry` to the list at word `w`. Amortized O(1)."""
    length = hi(m32, w)
    if length == lo(m32, w + 1):
        _move_block(M, m32, w, max(WORD(2), 2 * length))
    M[lo(m32, w) + length] = entry
    set_hi(m32, w, length + 1)


@device
def drop_last(M, m32, w):
    """Forget the last entry; the block shrinks when three quarters of it are empty. Amortized O(1)."""
    length = hi(m32, w) - 1
    set_hi(m32, w, length)
    capacity = lo(m32, w + 1)
    if length == 0:
        _move_block(M, m32, w, WORD(0))
    elif capacity > 8 and 4 * length <= capacity:
        _move_block(M, m32, w, capacity // 2)


@device
def place(M, m32, w, i, entry, half):
    """Put an edge entry at position `i`; `half` 0: the list is an out list, 1: an in list."""
    M[lo(m32, w) + i] = entry
    m32[2 * ((entry & LOW32) + 2) + half] = i


@device
def link(M, m32, w, entry, heavy, half):
    """Add an edge entry to a vertex's list, among the heavy or the light other ends."""
    push(M, m32, w, entry)
    last = hi(m32, w) - 1
    if heavy:
        count = hi(m32, w + 1) & COUNT_MASK
        if count < last:
            place(M, m32, w, last, M[lo(m32, w) + count], half)
        place(M, m32, w, count, entry, half)
        set_hi(m32, w + 1, hi(m32, w + 1) + 1)
    else:
        m32[2 * ((entry & LOW32) + 2) + half] = last


@device
def unlink(M, m32, w, edge, half):
    """Take an edge out of a vertex's list."""
    at = at32(m32, 2 * (edge + 2) + half)
    count = hi(m32, w + 1) & COUNT_MASK
    last = hi(m32, w) - 1
    if at < count:
        count -= 1
        if at < count:
            place(M, m32, w, at, M[lo(m32, w) + count], half)
        set_hi(m32, w + 1, hi(m32, w + 1) - 1)
        at = count
    if at < last:
        place(M, m32, w, at, M[lo(m32, w) + last], half)
    drop_last(M, m32, w)


@device
def relink(M, m32, w, edge, heavy, half):
    """The other end of an edge changed its flag: move its entry across the border between heavy and light."""
    at = at32(m32, 2 * (edge + 2) + half)
    count = hi(m32, w + 1) & COUNT_MASK
    border = count if heavy else count - 1
    entry = M[lo(m32, w) + at]
    if at != border:
        place(M, m32, w, at, M[lo(m32, w) + border], half)
        place(M, m32, w, border, entry, half)
    set_hi(m32, w + 1, hi(m32, w + 1) + (1 if heavy else -1))


@device
def is_heavy(m32, w):
    """Flag of the vertex whose list in that column is at word `w`."""
    return (hi(m32, w + 1) & HEAVY) != 0


@device
def degree(m32, w):
    """Length of the list at word `w`."""
    return hi(m32, w)


@device
def part_of(m32, x, y):
    """Bit of the part (HH 1, HL 2, LH 4, LL 8) of an edge from vertex x to vertex y."""
    return 1 << (2 * (not is_heavy(m32, x + V_OUT)) + (not is_heavy(m32, y + V_IN)))


# -- vertices and edges ------------------------------------------------------------------------------------------------


@device
def vertex(M, m32, P, domain, value):
    """Handle of the vertex with that value, made if it is new. Expected O(1)."""
    t = table_at(domain)
    tag = tag_of(M, value)
    v = find_word(M, t, tag, value)
    if v == 0:
        v = alloc(M, WORD(VERTEX_WORDS))
        M[v] = value
        clear_list(M, v + V_OUT)
        clear_list(M, v + V_IN)
        if P[P_BORN + 2 * domain]:
            set_hi(m32, v + V_OUT + 1, HEAVY)
        if P[P_BORN + 2 * before(P, domain) + 1]:
            set_hi(m32, v + V_IN + 1, HEAVY)
        insert(M, t, tag, v)
    return v


@device
def drop_vertex_if_bare(M, m32, domain, v):
    """Free a vertex that has no edges left."""
    if hi(m32, v + V_OUT) == 0 and hi(m32, v + V_IN) == 0:
        remove(M, table_at(domain), tag_of(M, M[v]), v)
        release(M, v, WORD(VERTEX_WORDS))


@device
def add_edge(M, m32, k, x, y, m):
    """Make an edge with multiplicity m; it MUST NOT exist. Returns its handle."""
    e = alloc(M, WORD(EDGE_WORDS))
    key = (x << 32) | y
    M[e] = key
    M[e + 1] = m
    link(M, m32, x + V_OUT, (y << 32) | e, is_heavy(m32, y + V_IN), WORD(0))
    link(M, m32, y + V_IN, (x << 32) | e, is_heavy(m32, x + V_OUT), WORD(1))
    insert(M, table_at(3 + k), tag_of(M, key), e)
    return e


@device
def drop_edge(M, m32, k, x, y, e):
    """Remove an edge; its vertices stay."""
    unlink(M, m32, x + V_OUT, e, WORD(0))
    unlink(M, m32, y + V_IN, e, WORD(1))
    remove(M, table_at(3 + k), tag_of(M, M[e]), e)
    release(M, e, WORD(EDGE_WORDS))
