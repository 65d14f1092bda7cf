"""Delta and full enumeration with constant delay, into a reused column-major buffer.

A *program* names the loops that lead from a witness (or from the root's group) to all its results: first the *steps*,
nested loops over lists that later loops depend on (UP: live parents of the current row's group; DOWN: children of a
group), then the *leaves*, lists on which nothing depends. With all steps bound, the leaves span a *block*: the
product of their lists. A block is a virtual array; any range of it is written column by column (mixed-radix digits,
the longest list innermost), so the enumeration can stop anywhere when the buffer is full and go on later.

Invariant: no list met here is empty (a live row has results below every child, a group with a live parent leads to the
root), hence at most ``2 * steps + 1`` loop turns lie between two blocks: the constant delay. ``H_GAP`` records the
most seen. Source: "Change Propagation Without Joins", section 5.3 (FULLENUM, DELTAENUM).
"""

from __future__ import annotations

from crown.kernels.arena import H_BLOCKS, H_EMITTED, H_GAP, H_ROOT, H_STEPS, NONE, PLAIN, ZERO, at32, hi, lo
from crown.kernels.groups import list_base, node_at
from crown.kernels.jit import device, kernel
from crown.kernels.layout import (
    DOWN,
    FIX,
    G_AHEAD,
    G_FIX0,
    G_FIXED,
    G_LEAF0,
    G_LEAVES,
    G_STEP0,
    G_STEPS,
    G_VARYING,
    LEAF,
    N_INLINE,
    N_KEY,
    P_COUNT,
    P_FULL,
    STEP,
    UP,
    X_AT,
    X_CAPACITY,
    X_CUR,
    X_DEPTH,
    X_FILL,
    X_GAP,
    X_PROGRAM,
    X_TOTAL,
)
from crown.kernels.pointers import constants, prefetch, words


@device
def _open_list(M, m32, P, cur, X, kind, source, target, child):
    """(group's list field, first handle's m32 index, length) of the list that a step or leaf runs over."""
    if kind == DOWN:
        row = X[cur + source]
        g = lo(m32, row + 2 + child)
        d = node_at(target)
        k = P[d + N_KEY]
        field = g + k
        return field, list_base(m32, field, 2 * (g + k + 3), P[d + N_INLINE]), hi(m32, field)
    if kind == UP:
        row = X[cur + source]
        d = node_at(source)
        g = lo(m32, row + 1)
        k = P[d + N_KEY]
        field = g + k + 1
        return field, list_base(m32, field, 2 * (g + k + 3) + 1, PLAIN), lo(m32, g + k + 2)
    field = M[H_ROOT]
    return field, list_base(m32, field, 2 * (field + 3), PLAIN), hi(m32, field)


@device
def _fill(out, at, m, v):
    """One value over words at .. at+m of the output."""
    for x in range(at, at + m):
        out[x] = v


@device
def _emit_carried(M, out, j, m, s, base, n, repeat):
    """Digits s .. s+m of a leaf whose values lie contiguously from word ``base``, to words j .. j+m."""
    if repeat == 1:
        at = s % n
        while m > 0:
            run = min(n - at, m)
            for x in range(run):
                out[j + x] = M[base + at + x]
            j += run
            m -= run
            at = 0
    else:
        at = (s // repeat) % n
        run = repeat - s % repeat
        while m > 0:
            run = min(run, m)
            _fill(out, j, run, M[base + at])
            j += run
            m -= run
            run = repeat
            at += 1
            if at == n:
                at = 0


@device
def _emit_gathered(M, m32, out, j, m, s, base, n, repeat, attribute):
    """Digits s .. s+m of a leaf whose values are read from its rows, to words j .. j+m."""
    if repeat == 1:
        at = s % n
        while m > 0:
            run = min(n - at, m)
            for x in range(run):
                out[j + x] = M[at32(m32, base + at + x) + attribute]
            j += run
            m -= run
            at = 0
    else:
        at = (s // repeat) % n
        run = repeat - s % repeat
        while m > 0:
            run = min(run, m)
            _fill(out, j, run, M[at32(m32, base + at) + attribute])
            j += run
            m -= run
            run = repeat
            at += 1
            if at == n:
                at = 0


@device
def _open_block(M, m32, P, X, cur, leaf, prog):
    """Note base, length and repeat of every leaf; the longest list gets repeat 1. Number of tuples of the block."""
    leaves = P[prog + G_LEAVES]
    q = P[prog + G_LEAF0]
    longest = 0
    for i in range(leaves):
        p = q + LEAF * i
        field, base, n = _open_list(M, m32, P, cur, X, P[p], P[p + 1], P[p + 2], P[p + 3])
        if P[p + 4] != PLAIN:  # values are carried by the list, or lie in its only row
            base = lo(m32, field)
            if lo(m32, field + 3) == 0:
                base += P[p + 4]
        X[leaf + 3 * i] = base
        X[leaf + 3 * i + 1] = n
        if n > X[leaf + 3 * longest + 1]:
            longest = i
    total = 1
    if leaves > 0:
        X[leaf + 3 * longest + 2] = 1
        total = X[leaf + 3 * longest + 1]
        for i in range(leaves - 1, -1, -1):
            if i != longest:
                X[leaf + 3 * i + 2] = total
                total *= X[leaf + 3 * i + 1]
    return total


@device
def _emit_block(M, m32, P, X, cur, leaf, prog, out, j, m, s):
    """Write tuples s .. s+m of the open block to rows j .. j+m of ``out``."""
    capacity = X[X_CAPACITY]
    q = P[prog + G_FIX0]
    for i in range(P[prog + G_FIXED]):
        p = q + FIX * i
        _fill(out, P[p] * capacity + j, m, M[X[cur + P[p + 1]] + P[p + 2]])
    q = P[prog + G_LEAF0]
    for i in range(P[prog + G_LEAVES]):
        p = q + LEAF * i
        base = X[leaf + 3 * i]
        n = X[leaf + 3 * i + 1]
        repeat = X[leaf + 3 * i + 2]
        if P[p + 4] != PLAIN:
            _emit_carried(M, out, P[P[p + 6]] * capacity + j, m, s, base, n, repeat)
        else:
            for c in range(P[p + 5]):
                pair = P[p + 6] + 2 * c
                _emit_gathered(M, m32, out, P[pair] * capacity + j, m, s, base, n, repeat, P[pair + 1])


@device
def _open_step(M, m32, P, X, cur, step, prog, depth):
    p = P[prog + G_STEP0] + STEP * depth
    _, base, n = _open_list(M, m32, P, cur, X, P[p], P[p + 1], P[p + 2], P[p + 3])
    X[step + 3 * depth] = -1
    X[step + 3 * depth + 1] = n
    X[step + 3 * depth + 2] = base


@device
def _ahead(M, m32, P, leaf, base, at, n):
    """Fetch for the next turns of the last step.

    Rows far ahead, a leaf's group nearer, its list for the very next turn.
    """
    if at + 6 < n:
        prefetch(M, at32(m32, base + at + 6))
    if leaf != 0:
        link = 2 + P[leaf + 3]
        if at + 4 < n:
            prefetch(M, lo(m32, at32(m32, base + at + 4) + link))
        if at + 2 < n:
            prefetch(M, lo(m32, lo(m32, at32(m32, base + at + 2) + link) + P[node_at(P[leaf + 2]) + N_KEY]))


@device
def _sweep(M, m32, P, X, cur, step, prog, out, fill):
    """The common case in one tight loop: a single leaf with carried values hangs on the last step.

    Goes through the turns of the last step whose blocks fit into ``out`` as a whole; the general loop does the rest.
    Columns that are the same in all turns are written once, over all of them. The rows of ``out`` in use afterwards.
    """
    leaf = P[prog + G_LEAF0]
    capacity = X[X_CAPACITY]
    column = P[P[leaf + 6]] * capacity
    attribute = P[leaf + 4]
    source = P[leaf + 1]
    link = 2 + P[leaf + 3]
    k = P[node_at(P[leaf + 2]) + N_KEY]
    fix = P[prog + G_FIX0]
    varying = P[prog + G_VARYING]
    at = X[step] + 1
    n = X[step + 1]
    base = X[step + 2]
    start = fill
    blocks = 0
    while at < n:
        _ahead(M, m32, P, leaf, base, at, n)
        row = at32(m32, base + at)
        field = lo(m32, row + link) + k
        m = hi(m32, field)
        if m > capacity - fill:
            break
        values = lo(m32, field)
        if lo(m32, field + 3) == 0:
            values += attribute
        for x in range(m):
            out[column + fill + x] = M[values + x]
        for i in range(varying):
            _fill(out, P[fix + FIX * i] * capacity + fill, m, M[row + P[fix + FIX * i + 2]])
        fill += m
        at += 1
        blocks += 1
    X[step] = at - 1
    X[cur + source] = at32(m32, base + max(at - 1, 0))
    for i in range(varying, P[prog + G_FIXED]):
        p = fix + FIX * i
        _fill(out, P[p] * capacity + start, fill - start, M[X[cur + P[p + 1]] + P[p + 2]])
    M[H_BLOCKS] += blocks
    M[H_EMITTED] += fill - start
    return fill


@device
def enumerate_start(M, m32, P, X, prog, node, row):
    """Set up the enumeration of all results of ``row`` of ``node`` (node -1: of the root's group)."""
    nodes = P[P_COUNT]
    cur = X[X_CUR]
    if node >= 0:
        X[cur + node] = row
    X[X_PROGRAM] = prog
    X[X_DEPTH] = 0
    X[X_AT] = -1
    X[X_GAP] = 0
    if P[prog + G_STEPS] > 0:
        _open_step(M, m32, P, X, cur, cur + nodes, prog, ZERO)


@device
def enumerate_on(M, m32, P, X, out):
    """Go on until the enumeration is done (True) or ``out`` is full (False). O(1) per tuple."""
    nodes = P[P_COUNT]
    cur = X[X_CUR]
    step = cur + nodes
    leaf = step + 3 * nodes
    prog = X[X_PROGRAM]
    steps = P[prog + G_STEPS]
    first = P[prog + G_STEP0]
    capacity = X[X_CAPACITY]
    depth = X[X_DEPTH]
    fill = X[X_FILL]
    gap = X[X_GAP]
    turns = 0
    done = False
    sweepable = P[prog + G_LEAVES] == 1 and P[prog + G_AHEAD] != 0 and P[P[prog + G_LEAF0] + 4] != PLAIN
    while True:
        turns += 1
        gap += 1
        if depth == steps:
            at = X[X_AT]
            if at < 0:
                X[X_TOTAL] = _open_block(M, m32, P, X, cur, leaf, prog)
                at = 0
                M[H_BLOCKS] += 1
                if gap > M[H_GAP]:
                    M[H_GAP] = gap
                gap = 0
            total = X[X_TOTAL]
            m = min(total - at, capacity - fill)
            if m > 0:
                _emit_block(M, m32, P, X, cur, leaf, prog, out, fill, m, at)
                M[H_EMITTED] += m
                fill += m
                at += m
            if at < total:
                X[X_AT] = at
                break
            X[X_AT] = -1
            depth -= 1
            if depth < 0:
                done = True
                break
        if sweepable and depth == steps - 1:
            before = X[step + 3 * depth]
            fill = _sweep(M, m32, P, X, cur, step + 3 * depth, prog, out, fill)
            if X[step + 3 * depth] > before:
                turns += X[step + 3 * depth] - before
                if gap + 1 > M[H_GAP]:
                    M[H_GAP] = gap + 1
                gap = 0
        at = X[step + 3 * depth] + 1
        if at < X[step + 3 * depth + 1]:
            X[step + 3 * depth] = at
            base = X[step + 3 * depth + 2]
            X[cur + P[first + STEP * depth + 2]] = at32(m32, base + at)
            depth += 1
            if depth < steps:
                _open_step(M, m32, P, X, cur, step, prog, depth)
            else:
                _ahead(M, m32, P, P[prog + G_AHEAD], base, at, X[step + 3 * depth - 2])
        else:
            depth -= 1
            if depth < 0:
                done = True
                break
    M[H_STEPS] += turns
    X[X_DEPTH] = depth
    X[X_FILL] = fill
    X[X_GAP] = gap
    return done


@kernel
def enumerate_all(M, m32, P, X):
    """``enumerate_start`` for the full result, called from Python."""
    P = constants(P)
    enumerate_start(words(M), words(m32), P, words(X), P[P_FULL], NONE, ZERO)


@kernel
def enumerate_block(M, m32, P, X, out):
    """``enumerate_on``, called from Python: ``out`` is int64[columns, capacity]."""
    X[X_CAPACITY] = out.shape[1]
    return enumerate_on(words(M), words(m32), constants(P), words(X), words(out))
