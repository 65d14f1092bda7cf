"""Writes factorized rows of an open block: values that all of its tuples share, and a list per branch.

A *branch* is a leaf of the full enumeration with the output columns that it adds. In a factorized row these columns are
lists of one length; the row represents the product of its branches. A program that starts at a witness may reach a
branch as a step or above its witness: the list then has one entry. A leaf that is not a branch is expanded.
"""

from __future__ import annotations

from crown.engine.kernels.layout import (
    FIX,
    FIX_COLUMN,
    FIX_NODE,
    FIX_WORD,
    G_FIX0,
    G_FIXED,
    G_LEAF0,
    G_LEAVES,
    LEAF,
    LEAF_BRANCH,
    LEAF_CARRIED,
    LEAF_COLUMNS,
    LEAF_PAIRS,
    O_BASE,
    O_LENGTH,
    O_WORDS,
    OPEN,
    P_BRANCH0,
    P_BRANCHES,
    P_ENDS,
    X_CAPACITY,
    X_FILL,
    X_LISTS,
)
from crown.kernels.jit import device
from crown.kernels.memory.arena import H_EMITTED, PLAIN, at32
from crown.kernels.memory.runs import copy_run, fill_run


@device
def factored_rows(ctx, leaf, prog):
    """Returns the number of factorized rows of the open block: the product of the leaves that are not branches."""
    plan, scratch = ctx.plan, ctx.scratch
    rows = 1
    for i in range(plan[prog + G_LEAVES]):
        if plan[plan[prog + G_LEAF0] + LEAF * i + LEAF_BRANCH] < 0:
            rows *= scratch[leaf + OPEN * i + O_LENGTH]
    return rows


@device
def _entry(ctx, p, opened, at, word):
    """Returns the value of entry ``at`` of the list of leaf ``p``: the entry itself, or word ``word`` of its row."""
    scratch = ctx.scratch
    at += scratch[opened + O_BASE]
    if ctx.plan[p + LEAF_CARRIED] == PLAIN:
        return ctx.arena[at32(ctx.halves, at) + word]
    if scratch[opened + O_WORDS] == 1:
        return ctx.arena[at]
    return at32(ctx.halves, at)


@device
def _put(ctx, out, column, value):
    """Writes a value that is constant within the row: once, or once per entry of its branch."""
    plan, scratch = ctx.plan, ctx.scratch
    at = column * scratch[X_CAPACITY]
    branch = plan[plan[P_BRANCH0] + column]
    if branch < 0:
        out[at + scratch[X_FILL]] = value
    else:
        used = scratch[X_LISTS] + 2 * branch
        fill_run(out, at + scratch[used], scratch[used + 1], value)


@device
def _put_list(ctx, out, at, p, opened, n, word):
    """Writes the values of a leaf's list of ``n`` entries to ``out``, from word ``at``."""
    start = ctx.scratch[opened + O_BASE]
    if ctx.plan[p + LEAF_CARRIED] == PLAIN:
        for x in range(n):
            out[at + x] = ctx.arena[at32(ctx.halves, start + x) + word]
    elif ctx.scratch[opened + O_WORDS] == 1:
        copy_run(out, at, ctx.arena, start, n)
    else:
        copy_run(out, at, ctx.halves, start, n)


@device
def emit_factored(ctx, cur, leaf, prog, out, s):
    """Writes factorized row ``s`` of the open block after the rows in ``out``. Returns False if it does not fit.

    ``out``: a scalar column has a word per row. A column of a branch has the entries of all rows, one after the other.
    The columns from ``P_ENDS`` on have, per branch, the ends of each row's entries. O(entries).
    """
    arena, plan, scratch = ctx.arena, ctx.plan, ctx.scratch
    capacity, fill = scratch[X_CAPACITY], scratch[X_FILL]
    branches, lists = plan[P_BRANCHES], scratch[X_LISTS]
    for b in range(branches):
        if fill == 0:
            scratch[lists + 2 * b] = 0
        scratch[lists + 2 * b + 1] = 1
    for i in range(plan[prog + G_LEAVES]):
        b = plan[plan[prog + G_LEAF0] + LEAF * i + LEAF_BRANCH]
        if b >= 0:
            scratch[lists + 2 * b + 1] = scratch[leaf + OPEN * i + O_LENGTH]
    fits = fill < capacity
    tuples = 1
    for b in range(branches):
        tuples *= scratch[lists + 2 * b + 1]
        fits &= scratch[lists + 2 * b] + scratch[lists + 2 * b + 1] <= capacity
    if not fits:
        return False
    for i in range(plan[prog + G_FIXED]):
        p = plan[prog + G_FIX0] + FIX * i
        _put(ctx, out, plan[p + FIX_COLUMN], arena[scratch[cur + plan[p + FIX_NODE]] + plan[p + FIX_WORD]])
    for i in range(plan[prog + G_LEAVES]):
        p = plan[prog + G_LEAF0] + LEAF * i
        opened = leaf + OPEN * i
        n = scratch[opened + O_LENGTH]
        b = plan[p + LEAF_BRANCH]
        for c in range(plan[p + LEAF_COLUMNS]):
            pair = plan[p + LEAF_PAIRS] + 2 * c
            if b < 0:
                _put(ctx, out, plan[pair], _entry(ctx, p, opened, s % n, plan[pair + 1]))
            else:
                _put_list(ctx, out, plan[pair] * capacity + scratch[lists + 2 * b], p, opened, n, plan[pair + 1])
        if b < 0:
            s //= n
    for b in range(branches):
        scratch[lists + 2 * b] += scratch[lists + 2 * b + 1]
        out[(plan[P_ENDS] + b) * capacity + fill] = scratch[lists + 2 * b]
    scratch[X_FILL] = fill + 1
    arena[H_EMITTED] += tuples
    return True
