"""Updates, minor and major rebalancing, bulk load: article, Figures 6 and 7, over the arena."""

from __future__ import annotations

import math

from crown.kernels.arena import T_MASK, T_SLOTS, alloc, format_arena, hi, lo, set_hi
from crown.kernels.jit import kernel
from crown.kernels.pointers import constants, words
from crown.kernels.tables import LOW32, new_table, table_at
from ivm_triangle.kernels.ahead import ahead
from ivm_triangle.kernels.graph import (
    add_edge,
    after,
    before,
    degree,
    drop_edge,
    drop_vertex_if_bare,
    is_heavy,
    lookup,
    part_of,
    place,
    relink,
    vertex,
)
from ivm_triangle.kernels.layout import (
    C_BASE,
    C_EPOCH,
    C_FLIPS,
    C_LIMITS,
    C_MAJORS,
    C_MINORS,
    C_MOVED,
    C_PEAK,
    C_SIZE,
    C_TOTAL,
    C_UPDATES,
    CONTROL,
    CONTROL_WORDS,
    HEAVY,
    K_COUNT,
    K_SUM,
    KIND,
    LOAD,
    LOAD_LOOKUPS,
    MAX_VIEWS,
    MOVE,
    P_BORN,
    P_COPIES,
    P_PARTITIONED,
    REAL,
    TABLES,
    V_IN,
    V_OUT,
    WORD,
)
from ivm_triangle.kernels.rules import edge_of, fire
from ivm_triangle.kernels.views import add_sum, empty_view, view_at


@kernel
def create(M, m32, eps, limit, seed):
    """An empty state: |D| = 0, N = 1."""
    M, m32, eps = words(M), words(m32), words(eps)
    format_arena(M, TABLES, limit, seed)
    control = alloc(M, CONTROL_WORDS)
    for w in range(control, control + CONTROL_WORDS):
        M[w] = 0
    for t in range(TABLES):
        new_table(M, table_at(t))
    M[C_BASE] = 1
    set_limits(M, eps)
    return control == CONTROL


@kernel
def set_limits(M, eps):
    """lo, st, hi of every relation at the current N; the same numbers as `partition.Thresholds.of`."""
    size = M[C_BASE]
    for k in range(3):
        at = C_LIMITS + 3 * k
        if eps[k] == 0.0:
            M[at], M[at + 1], M[at + 2] = 0, 0, 0
            continue
        theta = float(size) if eps[k] == 1.0 else size ** eps[k]
        if abs(theta - round(theta)) < 1e-9 * theta:
            theta = float(round(theta))
        M[at] = math.ceil(theta / 2)
        M[at + 1] = math.ceil(theta)
        M[at + 2] = math.ceil(1.5 * theta)


@kernel
def _set_flag(M, m32, k, column, v, heavy):
    """Change a vertex's flag; its entries in the lists of the other ends move across their borders. O(degree)."""
    w = v + (V_OUT if column == 0 else V_IN)
    for i in range(lo(m32, w), lo(m32, w) + hi(m32, w)):
        entry = M[i]
        opposite = entry >> 32
        if column == 0:
            relink(M, m32, opposite + V_IN, entry & LOW32, heavy, WORD(1))
        else:
            relink(M, m32, opposite + V_OUT, entry & LOW32, heavy, WORD(0))
    set_hi(m32, w + 1, hi(m32, w + 1) ^ HEAVY)


@kernel
def _minor(M, m32, P, k, column, v):
    """Move the edges of a vertex whose degree left the range of its flag: into the new part, then from the old."""
    if not P[P_PARTITIONED + 2 * k + column] or P[P_BORN + 2 * k + column]:
        return
    w = v + (V_OUT if column == 0 else V_IN)
    heavy = is_heavy(m32, w)
    deg = degree(m32, w)
    if (heavy and deg >= M[C_LIMITS + 3 * k]) or (not heavy and deg < M[C_LIMITS + 3 * k + 2]):
        return
    if deg > 0:
        M[C_MINORS] += 1
        M[C_MOVED] += deg
    bit_of_column = 2 if column == 0 else 1
    for i in range(deg):
        entry = M[lo(m32, w) + i]
        opposite = entry >> 32
        x = v if column == 0 else opposite
        y = opposite if column == 0 else v
        old = part_of(m32, x, y)
        new = old << bit_of_column if heavy else old >> bit_of_column
        m = M[(entry & LOW32) + 1]
        fire(M, m32, P, k, new, old, x, y, m, WORD(1), WORD(MOVE), WORD(0))
        fire(M, m32, P, k, old, new, x, y, -m, WORD(-1), WORD(MOVE), WORD(0))
    _set_flag(M, m32, k, column, v, not heavy)


@kernel
def _split(M, m32, w, half):
    """Order a vertex's list anew: heavy other ends first."""
    count = WORD(0)
    for i in range(hi(m32, w)):
        entry = M[lo(m32, w) + i]
        if is_heavy(m32, (entry >> 32) + (V_IN if half == 0 else V_OUT)):
            if count < i:
                place(M, m32, w, i, M[lo(m32, w) + count], half)
                place(M, m32, w, count, entry, half)
            count += 1
    set_hi(m32, w + 1, (hi(m32, w + 1) & HEAVY) | count)


@kernel
def major(M, m32, P, eps, totals):
    """Strict partition at the current N and every view from its definition; the total too if `totals`."""
    set_limits(M, eps)
    for split in range(2):
        for d in range(3):
            t = table_at(d)
            for s in range(M[t + T_SLOTS], M[t + T_SLOTS] + M[t + T_MASK] + 1):
                if M[s] == 0:
                    continue
                v = M[s] & LOW32
                for column in range(2):
                    w = v + (V_OUT if column == 0 else V_IN)
                    k = d if column == 0 else before(P, d)
                    if split:
                        _split(M, m32, w, column)
                    elif P[P_PARTITIONED + 2 * k + column]:
                        heavy = degree(m32, w) >= M[C_LIMITS + 3 * k + 1]
                        set_hi(m32, w + 1, HEAVY if heavy else 0)
    for view in range(MAX_VIEWS):
        if P[view_at(view) + KIND] != K_COUNT:  # counted by the stream of deltas; moving tuples changes nothing
            empty_view(M, m32, P, view)
    if totals:
        M[C_TOTAL] = 0
    for mode in range(LOAD, LOAD_LOOKUPS + 1):
        for k in range(3):
            t = table_at(3 + k)
            for s in range(M[t + T_SLOTS], M[t + T_SLOTS] + M[t + T_MASK] + 1):
                if M[s] != 0:
                    e = M[s] & LOW32
                    x = M[e] >> 32
                    y = M[e] & LOW32
                    fire(M, m32, P, k, part_of(m32, x, y), WORD(0), x, y, M[e + 1], WORD(1), mode, totals)


@kernel
def _drop_bare_ends(M, m32, P, k, x, y):
    """Free the ends of an edge that went, where no other edge is left."""
    drop_vertex_if_bare(M, m32, k, x)
    if P[P_COPIES] == 3 or x != y:  # the ends of a loop in a shared relation are one vertex
        drop_vertex_if_bare(M, m32, after(P, k), y)


@kernel
def settle(M, m32, P, eps, k, x, y):
    """After a presence flip at the edge (x, y) of relation k: major or minor rebalancing, bare vertices go."""
    size = M[C_SIZE]
    base = M[C_BASE]
    if size == base or size < base // 4:
        M[C_BASE] = 2 * base if size == base else base // 2 - 1
        M[C_MAJORS] += 1
        major(M, m32, P, eps, WORD(0))
    else:
        _minor(M, m32, P, k, WORD(0), x)
        _minor(M, m32, P, k, WORD(1), y)
    _drop_bare_ends(M, m32, P, k, x, y)


@kernel
def _fire_shared(M, m32, P, x, y, m, old):
    """An update of the one relation that plays R, S and T: `// d(E E E) = 3 m E E + [x = y] (3 m^2 E(x, x) + m^3)`.

    The three linear terms are equal, E as it was before. Only a loop can stand twice in a triangle, or in a wedge.
    """
    before = M[C_TOTAL]
    bit = part_of(m32, x, y)
    fire(M, m32, P, WORD(0), bit, WORD(0), x, y, m, WORD(0), WORD(REAL), WORD(1))
    M[C_TOTAL] += 2 * (M[C_TOTAL] - before)
    if x == y:
        M[C_TOTAL] += 3 * m * m * old + m * m * m
        if bit == 1:
            for view in range(MAX_VIEWS):
                if P[view_at(view) + KIND] == K_SUM:
                    add_sum(M, m32, view, (x << 32) | x, m * m)


@kernel
def update(M, m32, P, eps, k, first, second, m):
    """Add m != 0 to the multiplicity of (first, second) in relation k; the result MUST NOT be negative.

    Amortized O(N^max{eps, 1 - eps}) for the programs of IVM^eps.
    """
    M[C_UPDATES] += 1
    x = vertex(M, m32, P, k, first)
    y = vertex(M, m32, P, after(P, k), second)
    e = edge_of(M, k, x, y)
    old = M[e + 1] if e != 0 else 0
    flip = int(old + m > 0) - int(old > 0)
    if P[P_COPIES] == 1:
        _fire_shared(M, m32, P, x, y, m, old)
    else:
        fire(M, m32, P, k, part_of(m32, x, y), WORD(0), x, y, m, flip, WORD(REAL), WORD(1))
    if flip == 0:
        M[e + 1] = old + m
        return
    M[C_FLIPS] += 1
    M[C_SIZE] += flip
    if flip > 0:
        add_edge(M, m32, k, x, y, m)
        if M[C_SIZE] > M[C_PEAK]:
            M[C_PEAK] = M[C_SIZE]
    else:
        drop_edge(M, m32, k, x, y, e)
    settle(M, m32, P, eps, k, x, y)


@kernel
def multiplicity(M, P, k, first, second):
    """Multiplicity of the tuple (first, second) in relation k; 0 if it is not there. Expected O(1)."""
    M, P = words(M), constants(P)
    x = lookup(M, k, first)
    if x == 0:
        return 0
    y = lookup(M, after(P, k), second)
    if y == 0:
        return 0
    e = edge_of(M, k, x, y)
    return M[e + 1] if e != 0 else 0


@kernel
def missing(M, P, rows):
    """Index of the first row (k, x, y, m) of `rows` int64[n, 4] that would go below zero, or -1. Changes nothing."""
    n = rows.shape[0]
    M, P, rows = words(M), constants(P), words(rows)
    for i in range(n):
        r = 4 * i
        if rows[r + 3] < 0 and multiplicity(M, P, rows[r], rows[r + 1], rows[r + 2]) + rows[r + 3] < 0:
            return i
    return -1


@kernel
def apply_rows(M, m32, P, eps, rows):
    """A batch of net changes, checked before: deletions first, then insertions, one by one."""
    n = rows.shape[0]
    M, m32, P, eps, rows = words(M), words(m32), constants(P), words(eps), words(rows)
    M[C_EPOCH] += 1
    for sign in (-1, 1):
        for i in range(n):
            ahead(M, m32, P, rows, n, i)
            r = 4 * i
            if rows[r + 3] * sign > 0:
                update(M, m32, P, eps, rows[r], rows[r + 1], rows[r + 2], rows[r + 3])


@kernel
def replay_rows(M, m32, P, eps, rows):
    """Updates in the order in which they came, each against the state before it: the article's semantics.

    Returns the number of rows applied; less than all: the next one would go below zero.
    """
    n = rows.shape[0]
    M, m32, P, eps, rows = words(M), words(m32), constants(P), words(eps), words(rows)
    M[C_EPOCH] += 1
    for i in range(n):
        ahead(M, m32, P, rows, n, i)
        r = 4 * i
        m = rows[r + 3]
        if m < 0 and multiplicity(M, P, rows[r], rows[r + 1], rows[r + 2]) + m < 0:
            return i
        if m != 0:
            update(M, m32, P, eps, rows[r], rows[r + 1], rows[r + 2], m)
    return n


@kernel
def load_rows(M, m32, P, eps, rows):
    """A batch of net changes, checked before, stored first and then propagated at once: N = 2 |D| + 1. O(N^1.5)."""
    n = rows.shape[0]
    M, m32, P, eps, rows = words(M), words(m32), constants(P), words(eps), words(rows)
    M[C_EPOCH] += 1
    M[C_MAJORS] += 1
    for sign in (-1, 1):
        for i in range(n):
            m = rows[4 * i + 3]
            if m * sign <= 0:
                continue
            M[C_UPDATES] += 1
            k = rows[4 * i]
            x = vertex(M, m32, P, k, rows[4 * i + 1])
            y = vertex(M, m32, P, after(P, k), rows[4 * i + 2])
            e = edge_of(M, k, x, y)
            if e == 0:
                add_edge(M, m32, k, x, y, m)
                M[C_SIZE] += 1
                M[C_FLIPS] += 1
            elif M[e + 1] + m > 0:
                M[e + 1] += m
            else:
                drop_edge(M, m32, k, x, y, e)
                M[C_SIZE] -= 1
                M[C_FLIPS] += 1
                _drop_bare_ends(M, m32, P, k, x, y)
    M[C_PEAK] = max(M[C_PEAK], M[C_SIZE])
    M[C_BASE] = 2 * M[C_SIZE] + 1
    major(M, m32, P, eps, WORD(1))
