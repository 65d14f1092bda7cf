"""Kernels over a whole state: set-up, look-ups, counting, rebuilding live views."""

from __future__ import annotations

from crown.engine.kernels.groups import child_at, node_at
from crown.engine.kernels.layout import (
    I_TABLE,
    N_CARRIED,
    N_CHILDREN,
    N_FREE,
    N_INDEX,
    N_KEY,
    N_OFFSET,
    N_PADDED,
    N_PPOS,
    N_RECORD,
    N_SHIFT,
    N_VIRTUAL,
    P_COUNT,
    P_IDENTITY,
    R_TABLE,
    R_WIDTH,
)
from crown.engine.kernels.live import prefetch_groups, set_live
from crown.engine.kernels.padding.groups import padding_for
from crown.engine.kernels.payloads.row_value import occurrences
from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import (
    H_BUDGET,
    H_LIVE_ON,
    H_ROOT,
    ONE,
    PLAIN,
    T_CAPACITY,
    T_SLOTS,
    ZERO,
    alloc,
    at32,
    format_arena,
)
from crown.kernels.memory.context import Context
from crown.kernels.memory.geometry import (
    IN_WORD,
    children_base,
    children_count,
    copies,
    group_number,
    group_words,
    link_of,
    linked_group,
    parents_base,
    parents_count,
    row_place,
    set_live_parents,
)
from crown.kernels.memory.pointers import constants, prefetch, words
from crown.kernels.memory.tables import LOW32, find, hash_key, new_table, slot_of, table_at

AHEAD = 8  # distance, in tuples, between the prefetch of a record and its use


@kernel("words, halves, words, int, int, int, int")
def create(arena, halves, plan, tables, limit, budget, seed):
    """Formats an empty state: header, tables, and the root's group with its one live parent, which does not exist."""
    arena, halves, plan = words(arena), words(halves), constants(plan)
    format_arena(arena, tables, limit, seed)
    for t in range(tables):
        new_table(arena, table_at(t))
    size = group_words(ZERO, IN_WORD)
    g = alloc(arena, size)
    for j in range(size):
        arena[g + j] = 0
    set_live_parents(halves, g, ZERO, ONE)
    arena[H_ROOT] = g
    arena[H_BUDGET] = budget
    arena[H_LIVE_ON] = 1


@kernel("words, halves")
def root_size(arena, halves):
    """Returns the number of rows in V_s(root)."""
    arena, halves = words(arena), words(halves)
    return children_count(halves, arena[H_ROOT], ZERO)


@kernel("words, halves, words, int, words")
def row_in_view(arena, halves, plan, node, values):
    """Returns the row of V_s(node) with ``values`` (int64[width], in its record's order), or 0. Expected O(1)."""
    arena, halves, plan, values = words(arena), words(halves), constants(plan), words(values)
    d = node_at(node)
    if plan[d + N_VIRTUAL] == 1:  # a virtual row is in no table; it is the only parent of its first child's group
        c = child_at(plan, d, ZERO)
        dc = node_at(c)
        k = plan[dc + N_KEY]
        tag = hash_key(arena, plan, plan[dc + N_PPOS], k, values, ZERO)
        bundle = find(arena, plan[plan[dc + N_INDEX] + I_TABLE], tag, plan, plan[dc + N_PPOS], k, values, ZERO)
        g = bundle + plan[dc + N_SHIFT]
        if bundle == 0 or parents_count(halves, g, k) == 0:
            return 0
        row = at32(halves, parents_base(halves, g, k))
    else:
        rec = plan[d + N_RECORD]
        identity = plan[P_IDENTITY]
        tag = hash_key(arena, plan, identity, plan[rec + R_WIDTH], values, ZERO)
        record = find(arena, plan[rec + R_TABLE], tag, plan, identity, plan[rec + R_WIDTH], values, ZERO)
        row = record + plan[d + N_OFFSET]
        if plan[d + N_PADDED] == 1 and (record == 0 or row_place(halves, row) < 0):
            return padding_for(Context(arena, halves, plan, arena), node, values)
        if record == 0:
            return 0
    if row_place(halves, row) < 0:
        return 0
    return row


@kernel("words, halves, words, int, words, words")
def copies_of(arena, halves, plan, rec, rows, out):
    """Writes the copies of each tuple to ``out`` (int64[n]); 0 for a tuple that is not stored.

    ``rows``: int64[n * width] of record descriptor ``rec``. Expected O(n).
    """
    n = out.size
    arena, halves, plan, rows, out = words(arena), words(halves), constants(plan), words(rows), words(out)
    find_copies(arena, halves, plan, rec, rows, n, out)


@device
def find_copies(arena, halves, plan, rec, rows, n, out):
    """Writes the copies of ``n`` tuples: see ``copies_of``."""
    width = plan[rec + R_WIDTH]
    identity = plan[P_IDENTITY]
    t = plan[rec + R_TABLE]
    for far in range(n + 2 * AHEAD):
        if far < n:  # a tuple is hashed once: its tag is stored where its copies will be
            out[far] = hash_key(arena, plan, identity, width, rows, far * width)
            prefetch(arena, slot_of(arena, t, out[far]))
        near = far - AHEAD
        if near >= 0 and near < n:
            prefetch(arena, arena[slot_of(arena, t, out[near])] & LOW32)
        i = near - AHEAD
        if i >= 0:
            record = find(arena, t, out[i], plan, identity, width, rows, i * width)
            out[i] = 0
            if record != 0:
                out[i] = copies(halves, record, width)


@kernel("words, halves, words")
def clear_live(arena, halves, plan):
    """Clears all live views. O(groups)."""
    arena, halves, plan = words(arena), words(halves), constants(plan)
    for c in range(1, plan[P_COUNT]):
        d = node_at(c)
        k = plan[d + N_KEY]
        t = plan[plan[d + N_INDEX] + I_TABLE]
        slots = arena[t + T_SLOTS]
        for s in range(slots, slots + arena[t + T_CAPACITY]):
            if arena[s] != 0:
                set_live_parents(halves, (arena[s] & LOW32) + plan[d + N_SHIFT], k, ZERO)
    arena[H_LIVE_ON] = 0


@kernel("words, halves, words, words")
def rebuild_live(arena, halves, plan, scratch):
    """Makes every row of V_s(root), and the rows below, live again after a time without live views. O(state)."""
    arena, halves, plan, scratch = words(arena), words(halves), constants(plan), words(scratch)
    ctx = Context(arena, halves, plan, scratch)
    root = arena[H_ROOT]
    base = children_base(halves, root, ZERO, PLAIN)
    n = children_count(halves, root, ZERO)
    for i in range(n):
        if i + 2 * AHEAD < n:
            prefetch(arena, at32(halves, base + i + 2 * AHEAD))
            prefetch_groups(ctx, ZERO, at32(halves, base + i + AHEAD))
        set_live(ctx, ZERO, at32(halves, base + i), ONE)
    arena[H_LIVE_ON] = 1


@kernel("words, halves, words, words, none | int, words, words")
def count_results(arena, halves, plan, scratch, ring, sums, order):
    """Returns the number of results, bottom-up without enumerating; in a payload plan with multiplicities.

    The number of results below a row is the product over its free children of the sum over the group. ``sums`` (float64
    and int64 agree up to 2^53) is zeroed scratch, int64[``group_numbers``]. ``order``: the free nodes, children first.
    Returns -1 if the count leaves 62 bits. O(state).
    """
    arena, halves, plan, scratch = words(arena), words(halves), constants(plan), words(scratch)
    ctx = Context(arena, halves, plan, scratch)
    limit = 4.0e18
    for o in range(order.size):
        node = order[o]
        d = node_at(node)
        k = plan[d + N_KEY]
        groups = 1
        slots = 0
        if node > 0:
            t = plan[plan[d + N_INDEX] + I_TABLE]
            slots = arena[t + T_SLOTS]
            groups = arena[t + T_CAPACITY]
        for s in range(groups):
            g = arena[H_ROOT]
            if node > 0:
                if arena[slots + s] == 0:
                    continue
                g = (arena[slots + s] & LOW32) + plan[d + N_SHIFT]
            base = children_base(halves, g, k, plan[d + N_CARRIED])
            total = 0
            estimate = 0.0
            for i in range(children_count(halves, g, k)):
                row = at32(halves, base + i)
                product = occurrences(ctx, ring, d, row)
                size = float(product)
                for j in range(plan[d + N_CHILDREN]):
                    c = child_at(plan, d, j)
                    if plan[node_at(c) + N_FREE] == 1:
                        below = sums[group_number(linked_group(halves, row, link_of(j)))]
                        product *= below
                        size *= below
                total += product
                estimate += size
            if estimate > limit:
                return -1
            sums[group_number(g)] = total
    return sums[group_number(arena[H_ROOT])]
