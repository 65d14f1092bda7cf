"""Inserts and deletes paddings in a batch: deletes before its insertions, inserts after them. See ``padding``."""

from __future__ import annotations

from crown.engine.kernels.groups import node_at
from crown.engine.kernels.layout import (
    IDLE,
    N_EDGE,
    N_KEY,
    N_OFFSET,
    N_PADDED,
    N_RECORD,
    N_SHORT,
    P_COUNT,
    R_WIDTH,
    R_WORDS,
    WALKING,
    X_CAPACITY,
    X_I,
    X_PHASE,
)
from crown.engine.kernels.padding.groups import group_of, is_padded, padding_of
from crown.engine.kernels.prefetch import ahead_by_key, begin_by_key
from crown.engine.kernels.update import DONE, FULL
from crown.engine.kernels.walk import delete_walk, insert_walk, push
from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import NONE, ONE, ZERO, alloc
from crown.kernels.memory.context import Context
from crown.kernels.memory.geometry import (
    T_PADDING,
    children_count,
    parents_count,
    set_copies,
    set_row_group,
    set_row_place,
    set_row_weight,
)
from crown.kernels.memory.pointers import constants, words
from crown.kernels.strings import NULL


@kernel("words, halves, words")
def make_paddings(arena, halves, plan):
    """Makes the padding of every padded node. It is in no group yet."""
    arena, halves, plan = words(arena), words(halves), constants(plan)
    for node in range(plan[P_COUNT]):
        d = node_at(node)
        if plan[d + N_PADDED] == 1:
            rec = plan[d + N_RECORD]
            width = plan[rec + R_WIDTH]
            record = alloc(arena, plan[rec + R_WORDS])
            for j in range(plan[rec + R_WORDS]):
                arena[record + j] = 0
            for j in range(width):
                arena[record + j] = NULL
            set_copies(halves, record, width, ONE)
            row = record + plan[d + N_OFFSET]
            if plan[d + N_SHORT] == 0:
                set_row_weight(halves, row, ONE)
            set_row_place(halves, row, NONE)
            arena[plan[d + N_EDGE] + T_PADDING] = row


@device
def _begin(ctx, node, g, place):
    """Pushes the padding on the walk, as a row of group ``g``."""
    row = padding_of(ctx, node_at(node))
    set_row_group(ctx.halves, row, g)
    set_row_place(ctx.halves, row, place)
    push(ctx.scratch, row, node)
    ctx.scratch[X_PHASE] = WALKING


@kernel("words, halves, words, words, int, int, int, words, words, int, none | int, table")
def take_padding(arena, halves, plan, scratch, node, at, width, rows, masks, bit, ring, out):
    """Deletes the padding from the groups above ``node`` that tuples are about to enter, as ``delete_batch`` does.

    ``at``: the look-up by which the tuples (``rows`` int64[n * width]) find their groups. ``masks`` (int64[n] or [1]):
    the node reads a tuple if bit ``bit`` is set. Returns DONE, or FULL: call it again.
    """
    n = rows.size // width
    every = masks.size == n
    scratch[X_CAPACITY] = out.shape[1]
    arena, halves, plan, scratch, out = words(arena), words(halves), constants(plan), words(scratch), words(out)
    ctx = Context(arena, halves, plan, scratch)
    return taken(ctx, node, at, width, words(rows), n, words(masks), every, bit, ring, out)


@device
def taken(ctx, node, at, width, rows, n, masks, every, bit, ring, out):
    """Does what ``take_padding`` says for ``n`` tuples. ``every``: each has its own mask."""
    scratch, d = ctx.scratch, node_at(node)
    k = ctx.plan[d + N_KEY]
    first = begin_by_key(ctx, at, k, rows, n, width)
    while scratch[X_I] < n:
        i = scratch[X_I]
        if scratch[X_PHASE] == WALKING:
            if not delete_walk(ctx, ring, out):
                return FULL
            scratch[X_PHASE] = IDLE
        elif masks[i if every else 0] >> bit & 1:
            ahead_by_key(ctx, at, k, rows, first, n, i, width)
            g = group_of(ctx, d, at, rows, i * width)
            if g != 0 and is_padded(ctx, d, g):
                _begin(ctx, node, g, ZERO)
                continue
        scratch[X_I] = i + 1
    scratch[X_I] = 0
    return DONE


@kernel("words, halves, words, words, int, int, int, words, none | int, table")
def give_padding(arena, halves, plan, scratch, node, at, width, rows, ring, out):
    """Inserts the padding into the groups of tuples that have parents, and no row of ``node``, as ``insert_batch``
    does.

    See ``take_padding``.
    """
    n = rows.size // width
    scratch[X_CAPACITY] = out.shape[1]
    arena, halves, plan, scratch, out = words(arena), words(halves), constants(plan), words(scratch), words(out)
    return given(Context(arena, halves, plan, scratch), node, at, width, words(rows), n, ring, out)


@device
def given(ctx, node, at, width, rows, n, ring, out):
    """Does what ``give_padding`` says for ``n`` tuples."""
    scratch, d = ctx.scratch, node_at(node)
    k = ctx.plan[d + N_KEY]
    first = begin_by_key(ctx, at, k, rows, n, width)
    while scratch[X_I] < n:
        i = scratch[X_I]
        if scratch[X_PHASE] == WALKING:
            if not insert_walk(ctx, ring, out):
                return FULL
            scratch[X_PHASE] = IDLE
        else:
            ahead_by_key(ctx, at, k, rows, first, n, i, width)
            g = group_of(ctx, d, at, rows, i * width)
            if g != 0 and children_count(ctx.halves, g, k) == 0 and parents_count(ctx.halves, g, k) > 0:
                _begin(ctx, node, g, NONE)
                continue
        scratch[X_I] = i + 1
    scratch[X_I] = 0
    return DONE
