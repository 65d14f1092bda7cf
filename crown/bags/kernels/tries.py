"""Tries over the rows of a bag's atoms, with shared nodes: inserts and deletes of rows.

A trie is an index by every set of columns that a search may have bound, with the values of the next column below each
node. Rows and nodes are both found in hash tables. So testing whether a value matches the bound values is one look-up,
and a pair of values has no record besides that of the row. State is linear in the rows. Its words: see `layout`.
"""

from __future__ import annotations

from crown.bags.kernels.layout import (
    A_SET_AT,
    A_SETS,
    BELOW,
    E_ABOVE,
    E_CARRIED,
    E_FIELD,
    E_LINK,
    EDGE_WORDS,
    P_IDENTITY,
    P_OWN,
    S_COLUMNS,
    S_EDGES,
    S_LIST,
    S_TABLE,
    S_WIDTH,
    S_WORDS,
    SET_WORDS,
)
from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import NONE, alloc, format_arena, release
from crown.kernels.memory.geometry import (
    counter_of,
    linked_group,
    linked_position,
    list_length,
    set_linked_group,
    set_linked_position,
)
from crown.kernels.memory.lists import list_append, list_remove
from crown.kernels.memory.pointers import words
from crown.kernels.memory.tables import hash_key, insert_in, new_table, record_in, remove, seek, table_at


@kernel("words, int, int, int")
def create_tries(arena, tables, limit, seed):
    """Makes an empty state with ``tables`` tables."""
    arena = words(arena)
    format_arena(arena, tables, limit, seed)
    for t in range(tables):
        new_table(arena, table_at(t))


@device
def edge_at(s, i):
    """Returns the offset of incoming edge ``i`` of the set at ``s``."""
    return s + SET_WORDS + EDGE_WORDS * i


@device
def _hang(ctx, s, record):
    """Inserts a record into the lists of its parent nodes, which are known (P_OWN)."""
    halves, plan, cur = ctx.halves, ctx.plan, ctx.scratch
    for i in range(plan[s + S_EDGES]):
        e = edge_at(s, i)
        above = cur[plan[P_OWN] + plan[e + E_ABOVE]]
        at = list_append(ctx, above + plan[e + E_FIELD], BELOW, plan[e + E_CARRIED], record)
        set_linked_group(halves, record, plan[e + E_LINK], above)
        set_linked_position(halves, record, plan[e + E_LINK], at)


@device
def _unhang(ctx, s, record):
    """Deletes a record from its lists. Its parent nodes are known afterwards (P_OWN)."""
    halves, plan, cur = ctx.halves, ctx.plan, ctx.scratch
    for i in range(plan[s + S_EDGES]):
        e = edge_at(s, i)
        link = plan[e + E_LINK]
        above = linked_group(halves, record, link)
        cur[plan[P_OWN] + plan[e + E_ABOVE]] = above
        at = linked_position(halves, record, link)
        list_remove(ctx, above + plan[e + E_FIELD], BELOW, plan[e + E_CARRIED], at, link)


@device
def _new_record(ctx, s, src, base):
    """Returns a new record of a set with the values of ``src[base ...]``; all other words are 0."""
    arena, plan = ctx.arena, ctx.plan
    record = alloc(arena, plan[s + S_WORDS])
    k = plan[s + S_WIDTH]
    for j in range(k):
        arena[record + j] = src[base + plan[plan[s + S_COLUMNS] + j]]
    for j in range(k, plan[s + S_WORDS]):
        arena[record + j] = 0
    return record


@device
def store(ctx, a, src, base, copies, tag, slot):
    """Stores the row ``src[base ...]`` of the atom at ``a``, and the missing nodes above it.

    ``slot``: the empty slot of its table for its ``tag``. Expected O(1), amortized.
    """
    arena, plan, cur = ctx.arena, ctx.plan, ctx.scratch
    last = plan[a + A_SETS] - 1
    for number in range(last):
        s = plan[plan[a + A_SET_AT] + number]
        t, k, columns = plan[s + S_TABLE], plan[s + S_WIDTH], plan[s + S_COLUMNS]
        key = hash_key(arena, plan, columns, k, src, base)
        where = seek(arena, t, key, plan, columns, k, src, base, NONE)
        node = record_in(arena, t, where)
        if node == 0:
            node = _new_record(ctx, s, src, base)
            insert_in(arena, t, key, node, where)
            _hang(ctx, s, node)
        cur[plan[P_OWN] + number] = node
    s = plan[plan[a + A_SET_AT] + last]
    row = _new_record(ctx, s, src, base)
    arena[counter_of(row, plan[s + S_WIDTH])] = copies
    insert_in(arena, plan[s + S_TABLE], tag, row, slot)
    _hang(ctx, s, row)


@device
def drop(ctx, a, row, tag):
    """Deletes a row, and the nodes that have no other row. Expected O(1), amortized."""
    arena, halves, plan, cur = ctx.arena, ctx.halves, ctx.plan, ctx.scratch
    last = plan[a + A_SETS] - 1
    for number in range(last):
        cur[plan[P_OWN] + number] = 0
    cur[plan[P_OWN] + last] = row
    for number in range(last, -1, -1):
        node = cur[plan[P_OWN] + number]
        s = plan[plan[a + A_SET_AT] + number]
        if node == 0 or (number < last and list_length(halves, node + plan[s + S_LIST]) > 0):
            continue  # a node that still has rows, or below which nothing was deleted
        if number < last:
            tag = hash_key(arena, plan, plan[P_IDENTITY], plan[s + S_WIDTH], arena, node)
        _unhang(ctx, s, node)
        remove(arena, plan[s + S_TABLE], tag, node)
        release(arena, node, plan[s + S_WORDS])
