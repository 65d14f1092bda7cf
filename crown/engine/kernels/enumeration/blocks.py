"""Writes blocks of an enumeration: the product of the leaves' lists, with all steps bound.

A block is a virtual array. Any range of it is written column by column (mixed-radix digits, the longest list
innermost).
"""

from __future__ import annotations

import numpy as np

from crown.engine.kernels.groups import node_at
from crown.engine.kernels.layout import (
    DOWN,
    FIX,
    FIX_COLUMN,
    FIX_NODE,
    FIX_WORD,
    G_FIX0,
    G_FIXED,
    G_LEAF0,
    G_LEAVES,
    LEAF,
    LEAF_CARRIED,
    LEAF_COLUMNS,
    LEAF_PAIRS,
    N_CARRIED,
    N_KEY,
    O_BASE,
    O_LENGTH,
    O_REPEAT,
    O_WORDS,
    OPEN,
    STEP_CHILD,
    STEP_KIND,
    STEP_SOURCE,
    STEP_TARGET,
    UP,
    X_CAPACITY,
)
from crown.kernels.jit import device
from crown.kernels.memory.arena import H_ROOT, PLAIN, ZERO, at32
from crown.kernels.memory.geometry import (
    CHILDREN,
    carried_base,
    carries_words,
    children_base,
    children_count,
    children_field,
    link_of,
    linked_group,
    live_parents,
    parents_base,
    parents_field,
    row_group,
)
from crown.kernels.memory.runs import copy_run, fill_run


@device
def open_list(ctx, cur, loop):
    """Returns (field, half word of the first handle, length) of the list of step or leaf ``loop``."""
    arena, halves, plan, scratch = ctx.arena, ctx.halves, ctx.plan, ctx.scratch
    kind = plan[loop + STEP_KIND]
    source = plan[loop + STEP_SOURCE]
    if kind == DOWN:
        g = linked_group(halves, scratch[cur + source], link_of(plan[loop + STEP_CHILD]))
        d = node_at(plan[loop + STEP_TARGET])
        k = plan[d + N_KEY]
        return children_field(g, k), children_base(halves, g, k, plan[d + N_CARRIED]), children_count(halves, g, k)
    if kind == UP:
        g = row_group(halves, scratch[cur + source])
        k = plan[node_at(source) + N_KEY]
        return parents_field(g, k), parents_base(halves, g, k), live_parents(halves, g, k)
    g = arena[H_ROOT]
    return children_field(g, ZERO), children_base(halves, g, ZERO, PLAIN), children_count(halves, g, ZERO)


@device
def _value(ctx, entries, entry, word):
    """Returns the value of an entry of a leaf's list: the entry itself, or word ``word`` of its row unless ``word`` is
    None."""
    if word is None:
        return np.int64(entries[entry])
    return ctx.arena[at32(entries, entry) + word]


@device
def _emit_digits(ctx, out, j, m, s, entries, base, n, repeat, word):
    """Writes digits s .. s+m of a leaf, with entries from ``base``, to words j .. j+m. ``word``: see ``_value``."""
    if repeat == 1:
        at = s % n
        while m > 0:
            run = min(n - at, m)
            if word is None:
                copy_run(out, j, entries, base + at, run)
            else:
                for x in range(run):
                    out[j + x] = _value(ctx, entries, base + at + x, word)
            j += run
            m -= run
            at = 0
    else:
        at = (s // repeat) % n
        run = repeat - s % repeat
        while m > 0:
            run = min(run, m)
            fill_run(out, j, run, _value(ctx, entries, base + at, word))
            j += run
            m -= run
            run = repeat
            at += 1
            if at == n:
                at = 0


@device
def open_block(ctx, cur, leaf, prog):
    """Stores base, length and repeat of every leaf; the longest list has repeat 1. Returns the number of tuples of the
    block."""
    halves, plan, scratch = ctx.halves, ctx.plan, ctx.scratch
    leaves = plan[prog + G_LEAVES]
    q = plan[prog + G_LEAF0]
    longest = 0
    for i in range(leaves):
        p = q + LEAF * i
        field, base, n = open_list(ctx, cur, p)
        if plan[p + LEAF_CARRIED] != PLAIN:
            base = carried_base(halves, field, CHILDREN, plan[p + LEAF_CARRIED])
            scratch[leaf + OPEN * i + O_WORDS] = carries_words(halves, field, CHILDREN)
        scratch[leaf + OPEN * i + O_BASE] = base
        scratch[leaf + OPEN * i + O_LENGTH] = n
        if n > scratch[leaf + OPEN * longest + O_LENGTH]:
            longest = i
    total = 1
    if leaves > 0:
        scratch[leaf + OPEN * longest + O_REPEAT] = 1
        total = scratch[leaf + OPEN * longest + O_LENGTH]
        for i in range(leaves - 1, -1, -1):
            if i != longest:
                scratch[leaf + OPEN * i + O_REPEAT] = total
                total *= scratch[leaf + OPEN * i + O_LENGTH]
    return total


@device
def emit_block(ctx, cur, leaf, prog, out, j, m, s):
    """Writes tuples s .. s+m of the open block to rows j .. j+m of ``out``."""
    arena, halves, plan, scratch = ctx.arena, ctx.halves, ctx.plan, ctx.scratch
    capacity = scratch[X_CAPACITY]
    q = plan[prog + G_FIX0]
    for i in range(plan[prog + G_FIXED]):
        p = q + FIX * i
        fill_run(
            out, plan[p + FIX_COLUMN] * capacity + j, m, arena[scratch[cur + plan[p + FIX_NODE]] + plan[p + FIX_WORD]]
        )
    q = plan[prog + G_LEAF0]
    for i in range(plan[prog + G_LEAVES]):
        p = q + LEAF * i
        base = scratch[leaf + OPEN * i + O_BASE]
        n = scratch[leaf + OPEN * i + O_LENGTH]
        repeat = scratch[leaf + OPEN * i + O_REPEAT]
        if plan[p + LEAF_CARRIED] != PLAIN:
            column = plan[plan[p + LEAF_PAIRS]] * capacity
            if scratch[leaf + OPEN * i + O_WORDS] == 1:
                _emit_digits(ctx, out, column + j, m, s, arena, base, n, repeat, None)
            else:
                _emit_digits(ctx, out, column + j, m, s, halves, base, n, repeat, None)
        else:
            for c in range(plan[p + LEAF_COLUMNS]):
                pair = plan[p + LEAF_PAIRS] + 2 * c
                _emit_digits(ctx, out, plan[pair] * capacity + j, m, s, halves, base, n, repeat, plan[pair + 1])
