"""Summed leaves: relations of which only the sums per key are stored, and no rows.

A bound leaf of a payload plan is read only through its groups: whether the key is in V_p, and the value of its rows. If
the source of the changes guarantees that every delete finds its row, the rows need not be stored. A group of a summed
leaf has one child while the count of its rows is positive, and its payload like every other group. The current tuple is
in a record of no table, made for the batch, so that all other functions treat it like a row.
"""

from __future__ import annotations

from crown.engine.kernels.groups import bundle_get, group_drop, look_of, node_at
from crown.engine.kernels.layout import (
    IDLE,
    LOOKUP_INDEX,
    LOOKUP_POS,
    N_KEY,
    N_OFFSET,
    N_PAYLOAD,
    N_SHIFT,
    R_NODES,
    R_WIDTH,
    R_WORDS,
    WALKING,
    X_CAPACITY,
    X_I,
    X_PHASE,
    X_RECORD,
    Y_WORDS,
)
from crown.engine.kernels.padding.groups import group_of
from crown.engine.kernels.payloads.payload import add_value, entry_change, pend
from crown.engine.kernels.payloads.row_value import begin, multiply_by_row
from crown.engine.kernels.prefetch import ahead_by_key, begin_by_key
from crown.engine.kernels.update import DONE, FULL, MAX_COPIES, OVER_BUDGET, TOO_MANY
from crown.engine.kernels.walk import delete_walk, insert_walk, push
from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import (
    H_BUDGET,
    H_EPOCH,
    H_LIVE,
    H_R_UPDATES,
    NONE,
    ZERO,
    alloc,
    at32,
    class_words,
    lo,
    release,
    size_class,
)
from crown.kernels.memory.context import Context
from crown.kernels.memory.geometry import (
    entry_field,
    parents_base,
    parents_count,
    place_outside,
    published,
    row_group,
    row_place,
    set_row_group,
    set_row_place,
    set_row_weight,
)
from crown.kernels.memory.pointers import constants, words
from crown.kernels.memory.tables import hash_key
from crown.kernels.numbers.limbs import sum_leaves


@device
def rows_of(ctx, d, g):
    """Returns the number of rows in a group of the summed leaf with descriptor ``d``: the count is the first part."""
    k = ctx.plan[d + N_KEY]
    entry = lo(ctx.halves, entry_field(g, k, ctx.plan[ctx.plan[d + N_PAYLOAD] + Y_WORDS]))
    rows = ctx.arena[published(g, k)]
    if entry != 0:
        rows += ctx.arena[entry_change(entry)]
    return rows


@device
def _add(ctx, d, row, g, weight):
    """Adds the value of the current row with that weight to a group that has rows.

    Adds it at once if the group has no parent, or only one outside of V_s, because no parent then reads the change.
    """
    halves, plan = ctx.halves, ctx.plan
    y, k = plan[d + N_PAYLOAD], plan[d + N_KEY]
    begin(ctx, y, weight)
    multiply_by_row(ctx, y, row, NONE, ZERO)
    parents = parents_count(halves, g, k)
    if parents == 0 or (parents == 1 and row_place(halves, at32(halves, parents_base(halves, g, k))) < 0):
        add_value(ctx, y, published(g, k))
    else:
        pend(ctx, d, g)


@device
def _fill(ctx, node, row, g, weight):
    """Begins the walk in which the current row inserts or deletes the key of its group."""
    halves, scratch = ctx.halves, ctx.scratch
    set_row_weight(halves, row, weight)
    set_row_group(halves, row, g)
    set_row_place(halves, row, place_outside(ZERO))
    push(scratch, row, node)
    scratch[X_PHASE] = WALKING


@kernel("words, halves, words, words, int, words, words, words, int, int, table")
def sum_batch(arena, halves, plan, scratch, rec, rows, weights, missing, sign, ring, out):
    """Inserts tuples into a summed leaf (``sign`` 1) as ``insert_batch`` does, or deletes them as ``delete_batch``
    does.

    ``missing``: for deletions. If a key has fewer rows than a tuple deletes, none is deleted. TOO_MANY: a key would
    have more rows than a word can count. Expected O(1) per tuple, plus the walk.
    """
    n = weights.size
    scratch[X_CAPACITY] = out.shape[1]
    ctx = Context(words(arena), words(halves), constants(plan), words(scratch))
    return summed(ctx, rec, words(rows), words(weights), n, words(missing), sign, ring, words(out))


@device
def summed(ctx, rec, rows, weights, n, missing, sign, ring, out):
    """Inserts ``n`` tuples into a summed leaf, or deletes them: see ``sum_batch``."""
    arena, halves, plan, scratch = ctx.arena, ctx.halves, ctx.plan, ctx.scratch
    node = plan[plan[rec + R_NODES]]
    d = node_at(node)
    width, k = plan[rec + R_WIDTH], plan[d + N_KEY]
    at = look_of(plan, rec, d, ZERO)
    index, pos = plan[at + LOOKUP_INDEX], plan[at + LOOKUP_POS]
    if scratch[X_PHASE] == IDLE:
        scratch[X_RECORD] = alloc(arena, plan[rec + R_WORDS])
    record = scratch[X_RECORD]
    row = record + plan[d + N_OFFSET]
    returned = class_words(size_class(plan[rec + R_WORDS]))  # freed with the record, so excluded from the budget check
    status = DONE
    first = begin_by_key(ctx, at, k, rows, n, width)
    while True:
        if scratch[X_PHASE] == WALKING:
            if sign > 0:
                if not insert_walk(ctx, ring, out):
                    return FULL
            else:
                if not delete_walk(ctx, ring, out):
                    return FULL
                group_drop(ctx, node, row_group(halves, row))
            scratch[X_PHASE] = IDLE
            scratch[X_I] += 1
        i = scratch[X_I]
        if i == n:
            scratch[X_I] = 0
            break
        if sign > 0 and arena[H_LIVE] - returned > arena[H_BUDGET]:
            status = OVER_BUDGET
            break
        ahead_by_key(ctx, at, k, rows, first, n, i, width)
        arena[H_R_UPDATES] += 1
        arena[H_EPOCH] += 1
        for j in range(width):
            arena[record + j] = rows[i * width + j]
        if sign > 0:
            tag = hash_key(arena, plan, pos, k, rows, i * width)
            g = bundle_get(ctx, index, tag, rows, i * width, pos, NONE) + plan[d + N_SHIFT]
            present = rows_of(ctx, d, g)
            if weights[i] > MAX_COPIES or sum_leaves(present, weights[i]):
                group_drop(ctx, node, g)
                status = TOO_MANY
                break
            if present == 0:
                _fill(ctx, node, row, g, weights[i])
                continue
            _add(ctx, d, row, g, weights[i])
        else:
            g = group_of(ctx, d, at, rows, i * width)
            present = ZERO
            if g != 0:
                present = rows_of(ctx, d, g)
            if present == weights[i]:
                _fill(ctx, node, row, g, weights[i])
                continue
            if present > weights[i]:
                _add(ctx, d, row, g, -weights[i])
            else:
                missing[i] = weights[i]
        scratch[X_I] = i + 1
    release(arena, record, plan[rec + R_WORDS])
    return status
