"""Bulk loads: R-, S- and P-updates of many insertions at once, edge by edge from the leaves up.

Insertion by insertion every tuple goes to a slot, a group and a list per edge that are anywhere in memory. Here all
tuples go through one table after the other in the order of its slots: first through the one with the records, then, the
deepest aliases first, through those of the edges below and above each alias. A group is there before its parents are
linked to it, so these are counted when they are linked, and P-updates are left for rows of former batches alone. The
state is the one that ``update.insert_batch`` leaves, but for the order in lists. No deltas, no live views.

Sources: "Change Propagation Without Joins", section 4.2; the order is that of radix-partitioned hash joins (Manegold,
Boncz, Kersten, "Optimizing Main-Memory Join on Modern Hardware", TKDE 2002).
"""

from __future__ import annotations

from crown.engine.kernels.groups import child_at, look_of, lookup_at, node_at
from crown.engine.kernels.layout import (
    I_KEY,
    I_TABLE,
    LOOKUP_INDEX,
    LOOKUP_POS,
    N_CHILDREN,
    N_OFFSET,
    N_PARENT,
    N_ROWS,
    N_SHORT,
    P_IDENTITY,
    R_ALIASES,
    R_LOOKUPS,
    R_NODES,
    R_TABLE,
    R_WIDTH,
)
from crown.engine.kernels.payload import weigh
from crown.engine.kernels.update import DONE, TOO_MANY
from crown.engine.load.kernels.distinct import add_keys, forget, new_keys
from crown.engine.load.kernels.edges import BLOCK, enter_groups, enter_root, link_parents
from crown.engine.load.kernels.partition import REGIONS, Inserted, partition, reads
from crown.engine.load.kernels.records import enter_all, merge_doubles, release_all, store_all
from crown.kernels.arena import H_EPOCH, H_R_UPDATES, NONE, ZERO
from crown.kernels.context import Context
from crown.kernels.geometry import T_ROWS, copies, set_row_count, set_row_group, set_row_position
from crown.kernels.jit import device, kernel
from crown.kernels.pointers import constants, words
from crown.kernels.tables import LOW32, reserve

WORK = max(REGIONS + 1, BLOCK)  # words that a load needs besides those for its tuples


@device
def _is_first(plan, rec, q, index):
    """Returns True if no look-up before number ``q`` goes to the index."""
    first = 0
    while plan[lookup_at(plan, rec, first) + LOOKUP_INDEX] != index:
        first += 1
    return first == q


@kernel
def reserve_tables(arena, halves, plan, scratch, rec, rows, n, sample):
    """Makes room in the tables of a source and of the edges at its aliases for what ``rows`` has of new keys.

    Returns about how many of the tuples are new. ``rows``: int64[n * width]; ``sample``: see ``distinct.new_keys``.
    O(n + slots of the tables that grow).
    """
    ctx = Context(words(arena), words(halves), constants(plan), words(scratch))
    arena, plan, rows, sample = ctx.arena, ctx.plan, words(rows), words(sample)
    width = plan[rec + R_WIDTH]
    t = plan[rec + R_TABLE]
    forget(sample)
    level, _ = add_keys(ctx, plan[P_IDENTITY], width, width, rows, n, sample, ZERO, ZERO)
    new = new_keys(arena, t, sample, level, n)
    reserve(arena, t, new)
    for q in range(plan[rec + R_LOOKUPS]):
        index = plan[lookup_at(plan, rec, q) + LOOKUP_INDEX]
        if _is_first(plan, rec, q, index):
            forget(sample)
            level, count, keys = ZERO, ZERO, ZERO
            for p in range(q, plan[rec + R_LOOKUPS]):
                look = lookup_at(plan, rec, p)
                if plan[look + LOOKUP_INDEX] == index:
                    pos, k = plan[look + LOOKUP_POS], plan[index + I_KEY]
                    level, count = add_keys(ctx, pos, k, width, rows, n, sample, level, count)
                    keys += n
            t = plan[index + I_TABLE]
            reserve(arena, t, new_keys(arena, t, sample, level, keys))
    return new


@device
def _begin_rows(ctx, ring, rec, batch, fresh, n):
    """Makes rows of the aliases, outside V_s and without groups, of the fresh records that they read."""
    halves, plan = ctx.halves, ctx.plan
    for q in range(plan[rec + R_ALIASES]):
        ctx.arena[plan[node_at(plan[plan[rec + R_NODES] + q]) + N_ROWS] + T_ROWS] += n
    for i in range(n):
        record = fresh[i] & LOW32
        weight = copies(halves, record, batch.width)
        for q in range(plan[rec + R_ALIASES]):
            d = node_at(plan[plan[rec + R_NODES] + q])
            row = record + plan[d + N_OFFSET]
            set_row_group(halves, row, ZERO)
            set_row_position(halves, row, NONE)
            if reads(batch, fresh[i], q):
                if plan[d + N_SHORT] == 0:
                    set_row_count(halves, row, ZERO)
                weigh(ctx, ring, row, weight)
            else:
                ctx.arena[plan[d + N_ROWS] + T_ROWS] -= 1


@device
def _partition(ctx, look, batch, fresh, n, bit, entries, starts):
    """Writes the entries of a look-up, see ``partition``; returns how many."""
    plan = ctx.plan
    index = plan[look + LOOKUP_INDEX]
    pos = plan[look + LOOKUP_POS]
    return partition(ctx, plan[index + I_TABLE], pos, plan[index + I_KEY], batch, fresh, n, bit, entries, starts)


@kernel
def load_batch(
    arena, halves, plan, scratch, rec, rows, weights, masks, ring, start, n, total, order, starts, fresh, entries, out
):
    """Inserts tuples ``start .. start+n`` of a batch, all at once, without deltas and live views.

    ``rec``, ``rows``, ``weights``, ``masks``, ``ring``: as ``update.insert_batch`` takes them; ``total``: the sum of
    the weights; ``order``: the source's aliases, int64, deepest first; ``starts``: room for ``WORK`` words, ``fresh``
    and ``entries`` for ``n``; ``out``: not written. There MUST be room for all that they can need (see ``room``).

    DONE; or TOO_MANY: some tuple might get more copies than there may be, and nothing has changed.
    """
    masked = masks.size == weights.size
    ctx = Context(words(arena), words(halves), constants(plan), words(scratch))
    arena, plan = ctx.arena, ctx.plan
    weights, order, out = words(weights), words(order), words(out)
    starts, fresh, entries = words(starts), words(fresh), words(entries)
    t = plan[rec + R_TABLE]
    width = plan[rec + R_WIDTH]
    batch = Inserted(words(rows), width, words(masks), masked)
    store_all(ctx, rec, batch.rows, weights, start, n, fresh)
    partition(ctx, t, plan[P_IDENTITY], width, batch, fresh, n, NONE, entries, starts)
    if not enter_all(ctx, rec, entries, n, total):
        release_all(ctx, rec, fresh, n)
        return TOO_MANY
    arena[H_R_UPDATES] += n
    arena[H_EPOCH] += n
    n = merge_doubles(ctx, ring, rec, fresh, n, out)
    _begin_rows(ctx, ring, rec, batch, fresh, n)
    for q in range(plan[rec + R_ALIASES]):
        bit = order[q]
        node = plan[plan[rec + R_NODES] + bit]
        d = node_at(node)
        for j in range(plan[d + N_CHILDREN]):
            look = look_of(plan, rec, d, 1 + j)
            m = _partition(ctx, look, batch, fresh, n, bit, entries, starts)
            link_parents(ctx, node, child_at(plan, d, j), j, look, entries, m)
        if plan[d + N_PARENT] < 0:
            enter_root(ctx, ring, node, batch, fresh, n, bit)
            continue
        look = look_of(plan, rec, d, ZERO)
        m = _partition(ctx, look, batch, fresh, n, bit, entries, starts)
        enter_groups(ctx, ring, node, look, entries, m, starts, out)
    return DONE
