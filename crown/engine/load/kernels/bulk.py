"""Bulk loads: R-, S- and P-updates of many insertions at once, edge by edge from the leaves up.

Inserting tuple by tuple accesses a slot, a group and a list per edge anywhere in memory. A bulk load passes all tuples
through one table after the other in the order of its slots. Tuples are stored in the order of the table with the most
passes, so that records are read in sequence there. A group has all its children before its parents are linked to it, so
children are counted during linking, and P-updates are needed only for rows of earlier batches. The resulting state is
that of ``update.insert_batch``, except for the order in lists. No deltas, no live views.

Sources: "Change Propagation Without Joins", section 4.2; the order is that of radix-partitioned hash joins (Manegold,
Boncz, Kersten, "Optimizing Main-Memory Join on Modern Hardware", TKDE 2002).
"""

from __future__ import annotations

from crown.engine.kernels.groups import lookup_at, node_at
from crown.engine.kernels.layout import (
    I_KEY,
    I_TABLE,
    LOOKUP_INDEX,
    LOOKUP_POS,
    N_ROWS,
    P_IDENTITY,
    R_LOOKUPS,
    R_NODES,
    R_TABLE,
    R_WIDTH,
)
from crown.engine.kernels.update import DONE, TOO_MANY
from crown.engine.load.kernels.distinct import add_keys, forget, new_keys
from crown.engine.load.kernels.edges import BLOCK, TASK, TASK_ALIAS, TASK_CHILD, TASK_LOOK, TASK_PASS, enter_root, visit
from crown.engine.load.kernels.partition import REGIONS, in_order, partition
from crown.engine.load.kernels.records import Inserted, enter_all, leave_out, merge_doubles, release_all, store_all
from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import H_EPOCH, H_R_UPDATES, NONE, ONE, ZERO
from crown.kernels.memory.context import Context
from crown.kernels.memory.geometry import T_ROWS
from crown.kernels.memory.pointers import constants, words
from crown.kernels.memory.tables import reserve

WORK = max(REGIONS + 1, BLOCK)  # words that a load needs besides those for its tuples


@device
def _is_first(plan, rec, q, index):
    """Returns True if look-up number ``q`` is the first one into the index."""
    first = 0
    while plan[lookup_at(plan, rec, first) + LOOKUP_INDEX] != index:
        first += 1
    return first == q


@kernel("words, halves, words, words, int, words, int, words")
def reserve_tables(arena, halves, plan, scratch, rec, rows, n, sample):
    """Reserves room in the tables of a source, and of the edges at its aliases, for the new keys of ``rows``.

    Returns the estimated number of new tuples. ``rows``: int64[n * width]. ``sample``: see ``distinct.new_keys``. O(n +
    slots of the tables that grow).
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


@kernel(
    "words, halves, words, words, int, words, words, words, none | int, int, int, int, words, words, "
    "words, words, table"
)
def load_batch(
    arena, halves, plan, scratch, rec, rows, weights, masks, ring, start, n, total, tasks, starts, fresh, entries, out
):
    """Inserts tuples ``start .. start+n`` of a batch, all at once, without deltas and live views.

    ``rec``, ``rows``, ``weights``, ``masks``, ``ring``: as for ``update.insert_batch``. ``total``: the sum of the
    weights. ``tasks``: int64, the tasks (see ``edges.TASK``) in the order of the passes, then the look-up in whose
    order tuples are stored, or -1. ``starts``: room for ``WORK`` words; ``fresh`` and ``entries``: for ``n`` words.
    ``out``: not written. There MUST be room for everything that the tuples can need (see ``room``).

    Returns DONE; or TOO_MANY: some tuple might get too many copies, and nothing has changed.
    """
    masked = masks.size == weights.size
    number = tasks.size // TASK
    ctx = Context(words(arena), words(halves), constants(plan), words(scratch))
    arena, plan = ctx.arena, ctx.plan
    batch = Inserted(words(rows), words(weights), words(masks), masked, start)
    tasks, out, starts, fresh, entries = words(tasks), words(out), words(starts), words(fresh), words(entries)
    home = tasks[TASK * number]
    _order(ctx, rec, batch, home, n, starts, fresh, entries)
    store_all(ctx, ring, rec, batch, entries, n, fresh)
    doubles = enter_all(ctx, rec, fresh, entries, n, total)
    if doubles < 0:
        release_all(ctx, rec, fresh, n)
        return TOO_MANY
    arena[H_R_UPDATES] += n
    arena[H_EPOCH] += n
    if doubles > 0:
        n = merge_doubles(ctx, ring, rec, entries, doubles, fresh, n, out)
    if masked:
        leave_out(ctx, rec, fresh, n)
    task = 0
    while task < number:
        bit = tasks[TASK * task + TASK_ALIAS]
        node = plan[plan[rec + R_NODES] + bit]
        q = tasks[TASK * task + TASK_LOOK]
        first = task
        task += 1
        if q < 0:
            arena[plan[node_at(node) + N_ROWS] + T_ROWS] += enter_root(ctx, ring, node, fresh, n, bit)
            continue
        number_of = tasks[TASK * first + TASK_PASS]
        while task < number and tasks[TASK * task + TASK_PASS] == number_of and not masked:
            task += 1
        look = lookup_at(plan, rec, q)
        index = plan[look + LOOKUP_INDEX]
        pos = plan[look + LOOKUP_POS]
        if q == home:
            m = in_order(ctx, pos, plan[index + I_KEY], fresh, n, bit, entries)
        else:
            m = partition(
                ctx, plan[index + I_TABLE], pos, plan[index + I_KEY], arena, ONE, fresh, n, bit, entries, starts
            )
        visit(ctx, ring, rec, look, tasks, first, task, entries, m, starts, out)
        for other in range(first, task):
            if tasks[TASK * other + TASK_CHILD] < 0:
                node = plan[plan[rec + R_NODES] + tasks[TASK * other + TASK_ALIAS]]
                arena[plan[node_at(node) + N_ROWS] + T_ROWS] += m
    return DONE


@device
def _order(ctx, rec, batch, home, n, starts, fresh, entries):
    """Writes the numbers of the tuples to ``entries``, in the order of the table of look-up ``home`` unless it is
    -1."""
    plan = ctx.plan
    width = plan[rec + R_WIDTH]
    for i in range(n):
        fresh[i] = batch.start + i
    if home < 0:
        for i in range(n):
            entries[i] = fresh[i]
        return
    look = lookup_at(plan, rec, home)
    index = plan[look + LOOKUP_INDEX]
    pos = plan[look + LOOKUP_POS]
    partition(ctx, plan[index + I_TABLE], pos, plan[index + I_KEY], batch.rows, width, fresh, n, NONE, entries, starts)
