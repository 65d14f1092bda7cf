"""Changes of multiplicities, one by one and in batches, and bulk load: article, Figure 6, over the arena."""

from __future__ import annotations

from crown.kernels.arena import ONE, ZERO, alloc, format_arena
from crown.kernels.jit import device, kernel
from crown.kernels.pointers import constants, words
from crown.kernels.tables import LOW32, new_table, table_at
from ivm_triangle.kernels.ahead import ahead, ahead_find, ahead_take
from ivm_triangle.kernels.graph import add_edge, after, drop_edge, drop_vertex_if_bare, lookup, part_of, vertex
from ivm_triangle.kernels.layout import (
    C_BASE,
    C_EPOCH,
    C_FLIPS,
    C_MAJORS,
    C_PEAK,
    C_RATES,
    C_SIZE,
    C_TOTAL,
    C_UPDATES,
    CONTROL,
    CONTROL_WORDS,
    K_COUNT,
    K_SUM,
    KIND,
    MAX_VIEWS,
    P_ADAPTIVE,
    P_COPIES,
    REAL,
    TABLES,
    V_IN,
    V_OUT,
    WORD,
)
from ivm_triangle.kernels.rebalance import major, move, rebase, reconsider, set_limits, settle, too_low
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


@device
def _drop_bare_ends(M, m32, P, k, x, y):
    """Free the ends of an edge that went, where no other edge is left."""
    drop_vertex_if_bare(M, m32, k, x)
    if P[P_COPIES] == 3 or x != y:  # the ends of a loop in a shared relation are one vertex
        drop_vertex_if_bare(M, m32, after(P, k), y)


@device
def _add_shared(M, m32, P, x, y, m, old, before):
    """What is left to do where one relation plays R, S and T: `// d(E E E) = 3 m E E + [x = y] (3 m^2 E(x, x) + m^3)`.

    The three linear terms are equal, E as it was before: the total has had one of them since it was `before`. Only a
    loop can stand twice in a triangle, or in a wedge.
    """
    M[C_TOTAL] += 2 * (M[C_TOTAL] - before)
    if x == y:
        M[C_TOTAL] += 3 * m * m * old + m * m * m
        if part_of(m32, x, y) == 1:
            for view in range(MAX_VIEWS):
                if P[view_at(view) + KIND] == K_SUM:
                    add_sum(M, m32, view, (x << 32) | x, m * m)


@device
def _change(M, m32, P, k, x, y, e, m):
    """Add m to the multiplicity of the edge (x, y), which is `e` (0: none). Returns the change of presence."""
    M[C_UPDATES] += 1
    M[C_RATES + k] += 1
    old = M[e + 1] if e != 0 else WORD(0)
    flip = WORD(old + m > 0) - WORD(old > 0)
    before = M[C_TOTAL]
    fire(M, m32, P, k, part_of(m32, x, y), WORD(0), x, y, m, flip, WORD(REAL), WORD(1))
    if P[P_COPIES] == 1:
        _add_shared(M, m32, P, x, y, m, old, before)
    if flip == 0:
        M[e + 1] = old + m
        return flip
    M[C_FLIPS] += 1
    M[C_SIZE] += flip
    if flip > 0:
        add_edge(M, m32, k, x, y, m)
        if M[C_SIZE] > M[C_PEAK]:
            M[C_PEAK] = M[C_SIZE]
    else:
        drop_edge(M, m32, k, x, y, e)
    return flip


@device
def update(M, m32, P, eps, k, x, y, e, m):
    """Add m != 0 to the multiplicity of the edge (x, y) of relation k, which is `e` (0: none); it MUST NOT become < 0.

    Amortized O(N^max{eps, 1 - eps}) for the programs of IVM^eps.
    """
    flip = _change(M, m32, P, k, x, y, e, m)
    if flip != 0:
        settle(M, m32, P, eps, k, x, y, flip)
    if P[P_ADAPTIVE] == 1:
        reconsider(M, m32, P, eps)
    if flip < 0:
        _drop_bare_ends(M, m32, P, k, x, y)


@device
def add(M, m32, P, eps, k, first, second, m):
    """`update` with m > 0, by values."""
    x = vertex(M, m32, P, k, first)
    y = vertex(M, m32, P, after(P, k), second)
    update(M, m32, P, eps, k, x, y, edge_of(M, k, x, y), m)


@device
def find_edge(M, P, k, first, second):
    """Handle of the edge (first, second) of relation k by its values, or 0. Expected O(1)."""
    x = lookup(M, k, first)
    if x == 0:
        return WORD(0)
    y = lookup(M, after(P, k), second)
    if y == 0:
        return WORD(0)
    return edge_of(M, k, x, y)


@kernel
def multiplicity(M, P, k, first, second):
    """Multiplicity of the tuple (first, second) in relation k; 0 if it is not there. Expected O(1)."""
    M, P = words(M), constants(P)
    e = find_edge(M, P, k, first, second)
    return M[e + 1] if e != 0 else WORD(0)


# -- batches -----------------------------------------------------------------------------------------------------------


@kernel
def find_taken(M, P, rows, takes, edges):
    """Find the edges of the first `takes` rows (k, x, y, m < 0) of `rows` int64[n, 4], into `edges` int64[n].

    Returns the index of the first row that would go below zero, or -1. Changes nothing else.
    """
    M, P, rows, edges = words(M), constants(P), words(rows), words(edges)
    for i in range(takes):
        ahead_find(M, P, rows, takes, i)
        r = 4 * i
        e = find_edge(M, P, rows[r], rows[r + 1], rows[r + 2])
        if e == 0 or M[e + 1] + rows[r + 3] < 0:
            return i
        edges[i] = e
    return -1


@device
def _make_light(M, m32, P, k, first, second):
    """The minor rebalancing that the deletion of (first, second) left to the end of its batch."""
    for column in range(2):
        v = lookup(M, after(P, k) if column else k, second if column else first)
        if v != 0 and too_low(M, m32, P, k, column, v + (V_IN if column else V_OUT)):
            move(M, m32, P, k, column, v)


@kernel
def apply_rows(M, m32, P, eps, rows, takes, edges):
    """Changes (k, x, y, m) one by one; returns the number of rows applied. Less than all: the next would go below zero.

    The first `takes` rows are the deletions of a batch of net changes whose edges `find_taken` found, and only
    insertions follow. At most one minor rebalancing per value and one major is done for a batch: values become heavy
    when an insertion takes them there, but light at the end only, as their final degrees ask. In between a light list
    is as short as ever, and the values that are heavy were so before or are by their degree.

    With `takes` = 0 rows are updates in the order in which they came, each against the state before it: the article's
    semantics.
    """
    n = rows.shape[0]
    M, m32, P, eps, rows, edges = words(M), words(m32), constants(P), words(eps), words(rows), words(edges)
    M[C_EPOCH] += 1
    for i in range(takes):
        ahead_take(M, m32, edges, takes, i)
        k = rows[4 * i]
        e = edges[i]
        x = M[e] >> 32
        y = M[e] & LOW32
        edges[i] = 0
        if _change(M, m32, P, k, x, y, e, rows[4 * i + 3]) < 0:
            edges[i] = too_low(M, m32, P, k, ZERO, x + V_OUT) or too_low(M, m32, P, k, ONE, y + V_IN)
            _drop_bare_ends(M, m32, P, k, x, y)
    for i in range(takes, n):
        ahead(M, m32, P, rows, n, i)
        k = rows[4 * i]
        m = rows[4 * i + 3]
        if m > 0:
            x = vertex(M, m32, P, k, rows[4 * i + 1])
            y = vertex(M, m32, P, after(P, k), rows[4 * i + 2])
            e = edge_of(M, k, x, y)
        else:
            if m == 0:
                continue
            e = find_edge(M, P, k, rows[4 * i + 1], rows[4 * i + 2])
            if e == 0 or M[e + 1] + m < 0:
                return i
            x = M[e] >> 32
            y = M[e] & LOW32
        update(M, m32, P, eps, k, x, y, e, m)
    size = M[C_SIZE]
    if size < M[C_BASE] // 4:
        base = M[C_BASE] // 2 - 1
        rebase(M, m32, P, eps, base if base // 4 <= size < base else 2 * size + 1)
        return n
    for i in range(takes):
        if edges[i]:
            _make_light(M, m32, P, rows[4 * i], rows[4 * i + 1], rows[4 * i + 2])
    return n


@kernel
def load_rows(M, m32, P, eps, rows, takes, edges):
    """A batch as in `apply_rows`, stored first and then propagated at once: N = 2 |D| + 1. O(N^1.5)."""
    n = rows.shape[0]
    M, m32, P, eps, rows, edges = words(M), words(m32), constants(P), words(eps), words(rows), words(edges)
    M[C_EPOCH] += 1
    M[C_MAJORS] += 1
    M[C_UPDATES] += n
    for i in range(takes):
        e = edges[i]
        k = rows[4 * i]
        M[e + 1] += rows[4 * i + 3]
        if M[e + 1] == 0:
            x = M[e] >> 32
            y = M[e] & LOW32
            drop_edge(M, m32, k, x, y, e)
            M[C_SIZE] -= 1
            M[C_FLIPS] += 1
            _drop_bare_ends(M, m32, P, k, x, y)
    for i in range(takes, n):
        ahead(M, m32, P, rows, n, i)
        k = rows[4 * i]
        x = vertex(M, m32, P, k, rows[4 * i + 1])
        y = vertex(M, m32, P, after(P, k), rows[4 * i + 2])
        e = edge_of(M, k, x, y)
        if e == 0:
            add_edge(M, m32, k, x, y, rows[4 * i + 3])
            M[C_SIZE] += 1
            M[C_FLIPS] += 1
        else:
            M[e + 1] += rows[4 * i + 3]
    M[C_PEAK] = max(M[C_PEAK], M[C_SIZE])
    M[C_BASE] = 2 * M[C_SIZE] + 1
    major(M, m32, P, eps, WORD(1))


@kernel
def change_program(M, m32, P, eps, other):
    """Go on with the program `other`, which has views of other kinds over the same parts. A major rebalancing."""
    M, m32, P, eps, other = words(M), words(m32), constants(P), words(eps), constants(other)
    M[C_EPOCH] += 1
    M[C_MAJORS] += 1
    for view in range(MAX_VIEWS):
        if P[view_at(view) + KIND] != K_COUNT:
            empty_view(M, m32, P, view)
    major(M, m32, other, eps, WORD(0))
