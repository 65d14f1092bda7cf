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

from crown.kernels.arena import H_BLOCKS, H_EMITTED, H_GAP, H_ROOT, H_STEPS, NONE, PLAIN, ZERO, at32
from crown.kernels.geometry import (
    carried_base,
    children_base,
    children_count,
    children_field,
    link_of,
    linked_group,
    list_block,
    live_parents,
    parents_base,
    parents_field,
    row_group,
)
from crown.kernels.groups import node_at
from crown.kernels.jit import device, kernel
from crown.kernels.layout import (
    DOWN,
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
    LEAF,
    LEAF_CARRIED,
    LEAF_COLUMNS,
    LEAF_PAIRS,
    N_CARRIED,
    N_KEY,
    O_AT,
    O_BASE,
    O_LENGTH,
    O_REPEAT,
    OPEN,
    P_COUNT,
    P_FULL,
    STEP,
    STEP_CHILD,
    STEP_KIND,
    STEP_SOURCE,
    STEP_TARGET,
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
def _open_list(M, m32, P, X, cur, loop):
    """(field, half word of the first handle, length) of the list that the step or leaf at ``loop`` runs over."""
    kind = P[loop + STEP_KIND]
    source = P[loop + STEP_SOURCE]
    if kind == DOWN:
        g = linked_group(m32, X[cur + source], link_of(P[loop + STEP_CHILD]))
        d = node_at(P[loop + STEP_TARGET])
        k = P[d + N_KEY]
        return children_field(g, k), children_base(m32, g, k, P[d + N_CARRIED]), children_count(m32, g, k)
    if kind == UP:
        g = row_group(m32, X[cur + source])
        k = P[node_at(source) + N_KEY]
        return parents_field(g, k), parents_base(m32, g, k), live_parents(m32, g, k)
    g = M[H_ROOT]
    return children_field(g, ZERO), children_base(m32, g, ZERO, PLAIN), children_count(m32, g, ZERO)


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
        field, base, n = _open_list(M, m32, P, X, cur, p)
        if P[p + LEAF_CARRIED] != PLAIN:
            base = carried_base(m32, field, P[p + LEAF_CARRIED])
        X[leaf + OPEN * i + O_BASE] = base
        X[leaf + OPEN * i + O_LENGTH] = n
        if n > X[leaf + OPEN * longest + O_LENGTH]:
            longest = i
    total = 1
    if leaves > 0:
        X[leaf + OPEN * longest + O_REPEAT] = 1
        total = X[leaf + OPEN * longest + O_LENGTH]
        for i in range(leaves - 1, -1, -1):
            if i != longest:
                X[leaf + OPEN * i + O_REPEAT] = total
                total *= X[leaf + OPEN * i + O_LENGTH]
    return total


@device
def _emit_block(M, m32, P, X, cur, leaf, prog, out, j, m, s):
    """Write tuples s .. s+m of the open block to rows j .. j+m of ``out``."""
    capacity = X[X_CAPACITY]
    q = P[prog + G_FIX0]
    for i in range(P[prog + G_FIXED]):
        p = q + FIX * i
        _fill(out, P[p + FIX_COLUMN] * capacity + j, m, M[X[cur + P[p + FIX_NODE]] + P[p + FIX_WORD]])
    q = P[prog + G_LEAF0]
    for i in range(P[prog + G_LEAVES]):
        p = q + LEAF * i
        base = X[leaf + OPEN * i + O_BASE]
        n = X[leaf + OPEN * i + O_LENGTH]
        repeat = X[leaf + OPEN * i + O_REPEAT]
        if P[p + LEAF_CARRIED] != PLAIN:
            _emit_carried(M, out, P[P[p + LEAF_PAIRS]] * capacity + j, m, s, base, n, repeat)
        else:
            for c in range(P[p + LEAF_COLUMNS]):
                pair = P[p + LEAF_PAIRS] + 2 * c
                _emit_gathered(M, m32, out, P[pair] * capacity + j, m, s, base, n, repeat, P[pair + 1])


@device
def _open_step(M, m32, P, X, cur, step, prog, depth):
    p = P[prog + G_STEP0] + STEP * depth
    _, base, n = _open_list(M, m32, P, X, cur, p)
    X[step + OPEN * depth + O_AT] = -1
    X[step + OPEN * depth + O_LENGTH] = n
    X[step + OPEN * depth + O_BASE] = base


@device
def _ahead(M, m32, P, leaf, base, at, n):
    """Fetch for the next turns of the last step.

    Rows far ahead, a leaf's group nearer, its list for the very next turn.
    """
    if at + 6 < n:
        prefetch(M, at32(m32, base + at + 6))
    if leaf != 0:
        link = link_of(P[leaf + STEP_CHILD])
        if at + 4 < n:
            prefetch(M, linked_group(m32, at32(m32, base + at + 4), link))
        if at + 2 < n:
            g = linked_group(m32, at32(m32, base + at + 2), link)
            prefetch(M, list_block(m32, children_field(g, P[node_at(P[leaf + STEP_TARGET]) + N_KEY])))


@device
def _sweep(M, m32, P, X, cur, step, prog, out, fill):
    """The common case in one tight loop: a single leaf with carried values hangs on the last step.

    Goes through the turns of the last step whose blocks fit into ``out`` as a whole; the general loop does the rest.
    Columns that are the same in all turns are written once, over all of them. The rows of ``out`` in use afterwards.
    """
    leaf = P[prog + G_LEAF0]
    capacity = X[X_CAPACITY]
    column = P[P[leaf + LEAF_PAIRS]] * capacity
    carried = P[leaf + LEAF_CARRIED]
    source = P[leaf + STEP_SOURCE]
    link = link_of(P[leaf + STEP_CHILD])
    k = P[node_at(P[leaf + STEP_TARGET]) + N_KEY]
    fix = P[prog + G_FIX0]
    varying = P[prog + G_VARYING]
    at = X[step + O_AT] + 1
    n = X[step + O_LENGTH]
    base = X[step + O_BASE]
    start = fill
    blocks = 0
    while at < n:
        _ahead(M, m32, P, leaf, base, at, n)
        row = at32(m32, base + at)
        g = linked_group(m32, row, link)
        m = children_count(m32, g, k)
        if m > capacity - fill:
            break
        values = carried_base(m32, children_field(g, k), carried)
        for x in range(m):
            out[column + fill + x] = M[values + x]
        for i in range(varying):
            p = fix + FIX * i
            _fill(out, P[p + FIX_COLUMN] * capacity + fill, m, M[row + P[p + FIX_WORD]])
        fill += m
        at += 1
        blocks += 1
    X[step + O_AT] = at - 1
    X[cur + source] = at32(m32, base + max(at - 1, 0))
    for i in range(varying, P[prog + G_FIXED]):
        p = fix + FIX * i
        _fill(out, P[p + FIX_COLUMN] * capacity + start, fill - start, M[X[cur + P[p + FIX_NODE]] + P[p + FIX_WORD]])
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
    leaf = step + OPEN * nodes
    prog = X[X_PROGRAM]
    steps = P[prog + G_STEPS]
    first = P[prog + G_STEP0]
    capacity = X[X_CAPACITY]
    depth = X[X_DEPTH]
    fill = X[X_FILL]
    gap = X[X_GAP]
    turns = 0
    done = False
    sweepable = P[prog + G_LEAVES] == 1 and P[prog + G_AHEAD] != 0 and P[P[prog + G_LEAF0] + LEAF_CARRIED] != PLAIN
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
            last = step + OPEN * depth
            before = X[last + O_AT]
            fill = _sweep(M, m32, P, X, cur, last, prog, out, fill)
            if X[last + O_AT] > before:
                turns += X[last + O_AT] - before
                if gap + 1 > M[H_GAP]:
                    M[H_GAP] = gap + 1
                gap = 0
        opened = step + OPEN * depth
        at = X[opened + O_AT] + 1
        if at < X[opened + O_LENGTH]:
            X[opened + O_AT] = at
            base = X[opened + O_BASE]
            X[cur + P[first + STEP * depth + STEP_TARGET]] = at32(m32, base + at)
            depth += 1
            if depth < steps:
                _open_step(M, m32, P, X, cur, step, prog, depth)
            else:
                _ahead(M, m32, P, P[prog + G_AHEAD], base, at, X[opened + O_LENGTH])
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
