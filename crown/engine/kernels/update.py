"""Applies batches: R-UPDATE for every tuple of a source, at each of its aliases, and the walk that follows from it.

A batch kernel can return when ``out`` is full, or before a tuple that does not fit, and be called again: its position
is in ``scratch``. Source: "Change Propagation Without Joins", section 4.2 (Algorithm 4).
"""

from __future__ import annotations

from crown.engine.kernels.groups import node_at, note_of
from crown.engine.kernels.layout import (
    IDLE,
    N_OFFSET,
    P_IDENTITY,
    R_ALIASES,
    R_NODES,
    R_TABLE,
    R_WIDTH,
    R_WORDS,
    TURN,
    WALKING,
    X_ALIAS,
    X_CAPACITY,
    X_CHANGE,
    X_I,
    X_PHASE,
    X_RECORD,
)
from crown.engine.kernels.payloads.payload import WEIGHING, reweigh, weigh
from crown.engine.kernels.prefetch import ahead_delete, ahead_insert, begin_delete, begin_insert
from crown.engine.kernels.rows import r_update_delete, r_update_insert, store
from crown.engine.kernels.tags import found_at, nothing_found, ring_at
from crown.engine.kernels.walk import delete_walk, insert_walk, push
from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import H_BUDGET, H_EPOCH, H_LIVE, H_R_UPDATES, NONE, ZERO, release
from crown.kernels.memory.context import Context
from crown.kernels.memory.geometry import UNREAD, copies, row_place, set_copies, set_row_place
from crown.kernels.memory.pointers import constants, words
from crown.kernels.memory.tables import insert_in, record_in, remove_from, seek

MAX_COPIES = 2**31 - 1
DONE, FULL, OVER_BUDGET, TOO_MANY = 0, 1, 2, 3  # results of a batch kernel


@device
def _change_weight(scratch, record, change):
    """Starts the update of the record's aliases for a change of its copies."""
    scratch[X_RECORD] = record
    scratch[X_CHANGE] = change
    scratch[X_ALIAS] = 0
    scratch[X_PHASE] = WEIGHING


@kernel("words, halves, words, words, int, words, words, words, none | int, table")
def insert_batch(arena, halves, plan, scratch, rec, rows, weights, masks, ring, out):
    """Calls ``inserted`` with these arrays: ``masks`` int64[n] or [1], ``out`` int64[columns, capacity]."""
    n = weights.size
    every = masks.size == n
    scratch[X_CAPACITY] = out.shape[1]
    ctx = Context(words(arena), words(halves), constants(plan), words(scratch))
    return inserted(ctx, rec, words(rows), words(weights), n, words(masks), every, ring, words(out))


@device
def inserted(ctx, rec, rows, weights, n, masks, every, ring, out):
    """Inserts every tuple of a batch: R-UPDATE and walk at all its aliases in turn.

    ``rec``: record descriptor. ``rows`` int64[n * width]. ``weights`` int64[n] > 0. ``masks``: alias ``i`` reads the
    tuple if bit ``i`` is set; if ``every``, each tuple has its own mask, else all have the first. ``ring``: None, or 1
    for a payload plan.

    Returns DONE; or FULL: ``out`` (columns of ``scratch[X_CAPACITY]`` words, with ``scratch[X_FILL]`` rows) is full,
    empty it and call again; or OVER_BUDGET (of the state) or TOO_MANY (copies of a tuple): tuples from ``scratch[X_I]``
    on have not been applied.
    """
    arena, halves, plan, scratch = ctx.arena, ctx.halves, ctx.plan, ctx.scratch
    width = plan[rec + R_WIDTH]
    t = plan[rec + R_TABLE]
    aliases = plan[rec + R_ALIASES]
    first = begin_insert(ctx, rec, rows, n)
    while True:
        if scratch[X_PHASE] == WALKING:
            if not insert_walk(ctx, ring, out):
                return FULL
            scratch[X_PHASE] = TURN
            scratch[X_ALIAS] += 1
        if ring is not None and scratch[X_PHASE] >= WEIGHING:
            if not reweigh(ctx, ring, rec, out):
                return FULL
            scratch[X_PHASE] = IDLE
            scratch[X_I] += 1
        i = scratch[X_I]
        if scratch[X_PHASE] == TURN:
            j = scratch[X_ALIAS]
            if j == aliases:
                scratch[X_PHASE] = IDLE
                scratch[X_I] = i + 1
                continue
            node = plan[plan[rec + R_NODES] + j]
            d = node_at(node)
            if masks[i if every else 0] >> j & 1:
                weigh(ctx, ring, scratch[X_RECORD] + plan[d + N_OFFSET], weights[i])
                found = found_at(plan, scratch, ZERO)
                if r_update_insert(ctx, node, scratch[X_RECORD], ring_at(scratch, i) + 1, found):  # it enters V_s
                    push(scratch, scratch[X_RECORD] + plan[d + N_OFFSET], node)
                    scratch[X_PHASE] = WALKING
                    continue
            else:
                set_row_place(halves, scratch[X_RECORD] + plan[d + N_OFFSET], UNREAD)
            scratch[X_ALIAS] = j + 1
            continue
        if i == n:
            scratch[X_I] = 0
            return DONE
        if arena[H_LIVE] > arena[H_BUDGET]:
            return OVER_BUDGET
        ahead_insert(ctx, rec, rows, first, n, i)
        arena[H_R_UPDATES] += 1
        arena[H_EPOCH] += 1
        tag = scratch[ring_at(scratch, i)]
        s = seek(arena, t, tag, plan, plan[P_IDENTITY], width, rows, i * width, NONE)
        record = record_in(arena, t, s)
        if record != 0:
            present = copies(halves, record, width) + weights[i]
            if present > MAX_COPIES:
                return TOO_MANY
            if ring is None:
                set_copies(halves, record, width, present)
                scratch[X_I] = i + 1
            else:
                _change_weight(scratch, record, weights[i])
        else:
            record = store(ctx, rec, rows, i * width, plan[P_IDENTITY])
            set_copies(halves, record, width, weights[i])
            insert_in(arena, t, tag, record, s)
            nothing_found(ctx, rec, ZERO)
            scratch[X_RECORD] = record
            scratch[X_ALIAS] = 0
            scratch[X_PHASE] = TURN


@kernel("words, halves, words, words, int, words, words, words, none | int, table")
def delete_batch(arena, halves, plan, scratch, rec, rows, weights, missing, ring, out):
    """Calls ``deleted`` with these arrays."""
    n = weights.size
    scratch[X_CAPACITY] = out.shape[1]
    ctx = Context(words(arena), words(halves), constants(plan), words(scratch))
    return deleted(ctx, rec, words(rows), words(weights), n, words(missing), ring, words(out))


@device
def deleted(ctx, rec, rows, weights, n, missing, ring, out):
    """Deletes a batch as ``inserted`` inserts. ``missing[i]`` (int64) receives the number of absent copies."""
    arena, halves, plan, scratch = ctx.arena, ctx.halves, ctx.plan, ctx.scratch
    width = plan[rec + R_WIDTH]
    t = plan[rec + R_TABLE]
    aliases = plan[rec + R_ALIASES]
    first = begin_delete(ctx, rec, rows, n)
    while True:
        if scratch[X_PHASE] == WALKING:
            if not delete_walk(ctx, ring, out):
                return FULL
            node = plan[plan[rec + R_NODES] + scratch[X_ALIAS]]
            r_update_delete(ctx, node, scratch[X_RECORD] + plan[node_at(node) + N_OFFSET])
            scratch[X_PHASE] = TURN
            scratch[X_ALIAS] += 1
        if ring is not None and scratch[X_PHASE] >= WEIGHING:
            if not reweigh(ctx, ring, rec, out):
                return FULL
            scratch[X_PHASE] = IDLE
            scratch[X_I] += 1
        i = scratch[X_I]
        if scratch[X_PHASE] == TURN:
            j = scratch[X_ALIAS]
            if j == aliases:
                release(arena, scratch[X_RECORD], plan[rec + R_WORDS])
                scratch[X_PHASE] = IDLE
                scratch[X_I] = i + 1
                continue
            node = plan[plan[rec + R_NODES] + j]
            row = scratch[X_RECORD] + plan[node_at(node) + N_OFFSET]
            if row_place(halves, row) >= 0:  # it leaves V_s first
                push(scratch, row, node)
                scratch[X_PHASE] = WALKING
                continue
            if row_place(halves, row) != UNREAD:
                r_update_delete(ctx, node, row)
            scratch[X_ALIAS] = j + 1
            continue
        if i == n:
            scratch[X_I] = 0
            return DONE
        ahead_delete(ctx, rec, rows, first, n, i)
        arena[H_R_UPDATES] += 1
        arena[H_EPOCH] += 1
        tag = scratch[ring_at(scratch, i)]
        note = scratch[note_of(scratch, ring_at(scratch, i))]
        s = seek(arena, t, tag, plan, plan[P_IDENTITY], width, rows, i * width, note)
        record = record_in(arena, t, s)
        present = 0
        if record != 0:
            present = copies(halves, record, width)
        if present > weights[i]:
            if ring is None:
                set_copies(halves, record, width, present - weights[i])
                scratch[X_I] = i + 1
            else:
                _change_weight(scratch, record, -weights[i])
            continue
        missing[i] = weights[i] - present
        if record == 0:
            scratch[X_I] = i + 1
            continue
        remove_from(arena, t, s)
        scratch[X_RECORD] = record
        scratch[X_ALIAS] = 0
        scratch[X_PHASE] = TURN
