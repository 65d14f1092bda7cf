"""Delta and full enumeration with constant delay, into a reused column-major buffer.

A *program* describes the loops that lead from a witness (or from the root's group) to all its results: first the
*steps*, nested loops over lists that later loops depend on (UP: live parents of the current row's group; DOWN: children
of a group), then the *leaves*, lists on which nothing depends. With all steps bound, the leaves span a *block*: the
product of their lists (see ``blocks``), of which any range can be written. So the enumeration can stop anywhere when
the buffer is full, and be resumed later.

Invariant: no list in a program is empty (a live row has results below every child, and a group with a live parent leads
to the root), hence at most ``2 * steps + 1`` loop turns are between two blocks: the constant delay. ``H_GAP`` records
the maximum. Source: "Change Propagation Without Joins", section 5 (Algorithms 5 and 6: a program has the loops of the
algorithm, laid out by ``crown.engine.compile``).
"""

from __future__ import annotations

from crown.engine.kernels.enumeration.blocks import emit_block, open_block, open_list
from crown.engine.kernels.enumeration.factored import emit_factored, factored_rows
from crown.engine.kernels.groups import node_at
from crown.engine.kernels.layout import (
    FIX,
    FIX_COLUMN,
    FIX_NODE,
    FIX_WORD,
    G_AHEAD,
    G_FIX0,
    G_FIXED,
    G_LEAF0,
    G_LEAVES,
    G_STEP0,
    G_STEPS,
    G_VARYING,
    LEAF_CARRIED,
    LEAF_PAIRS,
    N_KEY,
    N_PROGRAM,
    O_AT,
    O_BASE,
    O_LENGTH,
    OPEN,
    P_COUNT,
    P_FULL,
    STEP,
    STEP_CHILD,
    STEP_SOURCE,
    STEP_TARGET,
    X_AT,
    X_CAPACITY,
    X_CUR,
    X_DEPTH,
    X_FACTORED,
    X_FILL,
    X_GAP,
    X_PROGRAM,
    X_TOTAL,
)
from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import H_BLOCKS, H_EMITTED, H_GAP, H_STEPS, PLAIN, ZERO, at32
from crown.kernels.memory.context import Context
from crown.kernels.memory.geometry import (
    CHILDREN,
    carried_base,
    carries_words,
    children_count,
    children_field,
    link_of,
    linked_group,
    list_block,
)
from crown.kernels.memory.pointers import constants, prefetch, words
from crown.kernels.memory.runs import copy_run, fill_run


@device
def _open_step(ctx, cur, step, prog, depth):
    plan, scratch = ctx.plan, ctx.scratch
    p = plan[prog + G_STEP0] + STEP * depth
    _, base, n = open_list(ctx, cur, p)
    scratch[step + OPEN * depth + O_AT] = -1
    scratch[step + OPEN * depth + O_LENGTH] = n
    scratch[step + OPEN * depth + O_BASE] = base


@device
def _ahead(ctx, leaf, base, at, n):
    """Prefetches for the next turns of the last step.

    Prefetches the row six turns ahead, the leaf's group four turns ahead, and the list of that group two turns ahead.
    """
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    if at + 6 < n:
        prefetch(arena, at32(halves, base + at + 6))
    if leaf != 0:
        link = link_of(plan[leaf + STEP_CHILD])
        if at + 4 < n:
            prefetch(arena, linked_group(halves, at32(halves, base + at + 4), link))
        if at + 2 < n:
            g = linked_group(halves, at32(halves, base + at + 2), link)
            prefetch(arena, list_block(halves, children_field(g, plan[node_at(plan[leaf + STEP_TARGET]) + N_KEY])))


@device
def _sweep(ctx, cur, step, prog, out, fill):
    """Runs the common case in one tight loop: a single leaf with carried values below the last step.

    Runs the turns of the last step whose blocks fit into ``out`` completely; the general loop runs the rest. Columns
    that are constant over the turns are written once, for all of them. Returns the number of rows in ``out``.
    """
    arena, halves, plan, scratch = ctx.arena, ctx.halves, ctx.plan, ctx.scratch
    leaf = plan[prog + G_LEAF0]
    capacity = scratch[X_CAPACITY]
    column = plan[plan[leaf + LEAF_PAIRS]] * capacity
    carried = plan[leaf + LEAF_CARRIED]
    source = plan[leaf + STEP_SOURCE]
    link = link_of(plan[leaf + STEP_CHILD])
    k = plan[node_at(plan[leaf + STEP_TARGET]) + N_KEY]
    fix = plan[prog + G_FIX0]
    varying = plan[prog + G_VARYING]
    at = scratch[step + O_AT] + 1
    n = scratch[step + O_LENGTH]
    base = scratch[step + O_BASE]
    start = fill
    blocks = 0
    while at < n:
        _ahead(ctx, leaf, base, at, n)
        row = at32(halves, base + at)
        g = linked_group(halves, row, link)
        m = children_count(halves, g, k)
        if m > capacity - fill:
            break
        field = children_field(g, k)
        values = carried_base(halves, field, CHILDREN, carried)
        if carries_words(halves, field, CHILDREN):
            copy_run(out, column + fill, arena, values, m)
        else:
            copy_run(out, column + fill, halves, values, m)
        for i in range(varying):
            p = fix + FIX * i
            fill_run(out, plan[p + FIX_COLUMN] * capacity + fill, m, arena[row + plan[p + FIX_WORD]])
        fill += m
        at += 1
        blocks += 1
    scratch[step + O_AT] = at - 1
    scratch[cur + source] = at32(halves, base + max(at - 1, 0))
    for i in range(varying, plan[prog + G_FIXED]):
        p = fix + FIX * i
        fill_run(
            out,
            plan[p + FIX_COLUMN] * capacity + start,
            fill - start,
            arena[scratch[cur + plan[p + FIX_NODE]] + plan[p + FIX_WORD]],
        )
    arena[H_BLOCKS] += blocks
    arena[H_EMITTED] += fill - start
    return fill


@device
def _start(ctx, prog):
    """Sets up a program; ``enumerate_resume`` runs it."""
    plan, scratch = ctx.plan, ctx.scratch
    cur = scratch[X_CUR]
    scratch[X_PROGRAM] = prog
    scratch[X_DEPTH] = 0
    scratch[X_AT] = -1
    scratch[X_GAP] = 0
    if plan[prog + G_STEPS] > 0:
        _open_step(ctx, cur, cur + plan[P_COUNT], prog, ZERO)


@device
def delta_enum(ctx, node, row):
    """Sets up the enumeration of all results of a witness, ``row`` of ``node``, as Algorithm 6 (DELTAENUM) does."""
    plan, scratch = ctx.plan, ctx.scratch
    scratch[scratch[X_CUR] + node] = row
    _start(ctx, plan[node_at(node) + N_PROGRAM])


@device
def enumerate_resume(ctx, out):
    """Enumerates until all is done (True) or ``out`` is full (False). O(1) per tuple, or per entry of a factorized row.

    ``out`` is also full if it is empty and the next factorized row does not fit into it.
    """
    arena, halves, plan, scratch = ctx.arena, ctx.halves, ctx.plan, ctx.scratch
    nodes = plan[P_COUNT]
    cur = scratch[X_CUR]
    step = cur + nodes
    leaf = step + OPEN * nodes
    prog = scratch[X_PROGRAM]
    steps = plan[prog + G_STEPS]
    first = plan[prog + G_STEP0]
    capacity = scratch[X_CAPACITY]
    depth = scratch[X_DEPTH]
    fill = scratch[X_FILL]
    gap = scratch[X_GAP]
    turns = 0
    done = False
    factored = scratch[X_FACTORED] == 1
    sweepable = (
        not factored
        and plan[prog + G_LEAVES] == 1
        and plan[prog + G_AHEAD] != 0
        and plan[plan[prog + G_LEAF0] + LEAF_CARRIED] != PLAIN
    )
    while True:
        turns += 1
        gap += 1
        if depth == steps:
            at = scratch[X_AT]
            if at < 0:
                scratch[X_TOTAL] = open_block(ctx, cur, leaf, prog)
                if factored:
                    scratch[X_TOTAL] = factored_rows(ctx, leaf, prog)
                at = 0
                arena[H_BLOCKS] += 1
                if gap > arena[H_GAP]:
                    arena[H_GAP] = gap
                gap = 0
            total = scratch[X_TOTAL]
            m = min(total - at, capacity - fill)
            if factored:
                while at < total and emit_factored(ctx, cur, leaf, prog, out, at):
                    at += 1
                fill = scratch[X_FILL]
            elif m > 0:
                emit_block(ctx, cur, leaf, prog, out, fill, m, at)
                arena[H_EMITTED] += m
                fill += m
                at += m
            if at < total:
                scratch[X_AT] = at
                break
            scratch[X_AT] = -1
            depth -= 1
            if depth < 0:
                done = True
                break
        if sweepable and depth == steps - 1:
            last = step + OPEN * depth
            before = scratch[last + O_AT]
            fill = _sweep(ctx, cur, last, prog, out, fill)
            if scratch[last + O_AT] > before:
                turns += scratch[last + O_AT] - before
                if gap + 1 > arena[H_GAP]:
                    arena[H_GAP] = gap + 1
                gap = 0
        opened = step + OPEN * depth
        at = scratch[opened + O_AT] + 1
        if at < scratch[opened + O_LENGTH]:
            scratch[opened + O_AT] = at
            base = scratch[opened + O_BASE]
            scratch[cur + plan[first + STEP * depth + STEP_TARGET]] = at32(halves, base + at)
            depth += 1
            if depth < steps:
                _open_step(ctx, cur, step, prog, depth)
            else:
                _ahead(ctx, plan[prog + G_AHEAD], base, at, scratch[opened + O_LENGTH])
        else:
            depth -= 1
            if depth < 0:
                done = True
                break
    arena[H_STEPS] += turns
    scratch[X_DEPTH] = depth
    scratch[X_FILL] = fill
    scratch[X_GAP] = gap
    return done


@kernel("words, halves, words, words")
def full_enum(arena, halves, plan, scratch):
    """Sets up the enumeration of all of V_s(root), as Algorithm 5 (FULLENUM) does. Called from Python."""
    ctx = Context(words(arena), words(halves), constants(plan), words(scratch))
    _start(ctx, ctx.plan[P_FULL])


@kernel("words, halves, words, words, table")
def enumerate_block(arena, halves, plan, scratch, out):
    """Runs ``enumerate_resume`` for Python: ``out`` is int64[columns, capacity]."""
    scratch[X_CAPACITY] = out.shape[1]
    return enumerate_resume(Context(words(arena), words(halves), constants(plan), words(scratch)), words(out))
