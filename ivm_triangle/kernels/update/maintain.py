"""Changes multiplicities, one by one and in batches, and loads in bulk: article, Figure 6, over the arena."""

from __future__ import annotations

from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import ONE, ZERO, alloc, format_arena
from crown.kernels.memory.pointers import constants, words
from crown.kernels.memory.tables import new_table, table_at
from ivm_triangle.kernels.state.context import Context
from ivm_triangle.kernels.state.geometry import (
    in_list,
    multiplicity_of,
    out_list,
    pair_of,
    set_multiplicity,
    source,
    target,
)
from ivm_triangle.kernels.state.graph import add_edge, after, drop_edge, drop_vertex_if_bare, lookup, part_of, vertex
from ivm_triangle.kernels.state.layout import (
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
from ivm_triangle.kernels.state.views import add_sum, empty_view, view_at
from ivm_triangle.kernels.update.ahead import FAR, MIDDLE, ahead, ahead_find, ahead_take
from ivm_triangle.kernels.update.rebalance import major, move, rebase, reconsider, set_limits, settle, too_low
from ivm_triangle.kernels.update.rules import edge_of, fire


@kernel("words, halves, floats, int, int")
def create(arena, halves, eps, limit, seed):
    """Makes an empty state: |D| = 0, N = 1."""
    arena, halves, eps = words(arena), words(halves), words(eps)
    format_arena(arena, TABLES, limit, seed)
    control = alloc(arena, CONTROL_WORDS)
    for w in range(control, control + CONTROL_WORDS):
        arena[w] = 0
    for t in range(TABLES):
        new_table(arena, table_at(t))
    arena[C_BASE] = 1
    set_limits(arena, eps)
    return control == CONTROL


@device
def _drop_bare_ends(ctx, k, x, y):
    """Frees the ends of a deleted edge that have no other edge."""
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    drop_vertex_if_bare(arena, halves, k, x)
    if plan[P_COPIES] == 3 or x != y:  # the ends of a loop in a shared relation are one vertex
        drop_vertex_if_bare(arena, halves, after(plan, k), y)


@device
def _add_shared(ctx, x, y, m, old, before):
    """Completes an update if one relation plays R, S and T: `d(E E E) = 3 m E E + [x = y] (3 m^2 E(x, x) + m^3)`.

    The three linear terms, with E before the update, are equal: the total contains one of them since it was `before`.
    Only a loop can occur twice in a triangle, or in a wedge.
    """
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    arena[C_TOTAL] += 2 * (arena[C_TOTAL] - before)
    if x == y:
        arena[C_TOTAL] += 3 * m * m * old + m * m * m
        if part_of(halves, x, y) == 1:
            for view in range(MAX_VIEWS):
                if plan[view_at(view) + KIND] == K_SUM:
                    add_sum(arena, halves, view, pair_of(x, x), m * m)


@device
def _change(ctx, k, x, y, e, m):
    """Adds m to the multiplicity of the edge (x, y), which is `e` (0: none). Returns the change of presence."""
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    arena[C_UPDATES] += 1
    arena[C_RATES + k] += 1
    old = multiplicity_of(arena, e) if e != 0 else WORD(0)
    flip = WORD(old + m > 0) - WORD(old > 0)
    before = arena[C_TOTAL]
    fire(ctx, k, part_of(halves, x, y), WORD(0), x, y, m, flip, WORD(REAL), WORD(1))
    if plan[P_COPIES] == 1:
        _add_shared(ctx, x, y, m, old, before)
    if flip == 0:
        set_multiplicity(arena, e, old + m)
        return flip
    arena[C_FLIPS] += 1
    arena[C_SIZE] += flip
    if flip > 0:
        add_edge(arena, halves, k, x, y, m)
        if arena[C_SIZE] > arena[C_PEAK]:
            arena[C_PEAK] = arena[C_SIZE]
    else:
        drop_edge(arena, halves, k, x, y, e)
    return flip


@device
def update(ctx, k, x, y, e, m):
    """Adds m != 0 to the multiplicity of the edge (x, y) of relation k, which is `e` (0: none); it MUST NOT become < 0.

    Amortized O(N^max{eps, 1 - eps}) for the programs of IVM^eps.
    """
    plan = ctx.plan
    flip = _change(ctx, k, x, y, e, m)
    if flip != 0:
        settle(ctx, k, x, y, flip)
    if plan[P_ADAPTIVE] == 1:
        reconsider(ctx)
    if flip < 0:
        _drop_bare_ends(ctx, k, x, y)


@device
def add(ctx, k, first, second, m):
    """Runs `update` with m > 0, given values."""
    arena, plan = ctx.arena, ctx.plan
    x = vertex(ctx, k, first)
    y = vertex(ctx, after(plan, k), second)
    update(ctx, k, x, y, edge_of(arena, k, x, y), m)


@device
def find_edge(arena, plan, k, first, second):
    """Returns the handle of the edge (first, second) of relation k by its values, or 0. Expected O(1)."""
    x = lookup(arena, k, first)
    if x == 0:
        return WORD(0)
    y = lookup(arena, after(plan, k), second)
    if y == 0:
        return WORD(0)
    return edge_of(arena, k, x, y)


@kernel("words, words, int, int, int")
def multiplicity(arena, plan, k, first, second):
    """Returns the multiplicity of the tuple (first, second) in relation k; 0 if it is absent. Expected O(1)."""
    arena, plan = words(arena), constants(plan)
    e = find_edge(arena, plan, k, first, second)
    return multiplicity_of(arena, e) if e != 0 else WORD(0)


# -- batches -----------------------------------------------------------------------------------------------------------


@kernel("words, words, table, int, words")
def find_taken(arena, plan, rows, takes, edges):
    """Finds the edges of the first `takes` rows (k, x, y, m < 0) of `rows` int64[n, 4], and writes them to `edges`
    int64[n].

    Returns the index of the first row whose multiplicity would fall below zero, or -1. Changes nothing else.
    """
    arena, plan, rows, edges = words(arena), constants(plan), words(rows), words(edges)
    for i in range(-FAR, takes):
        ahead_find(arena, plan, rows, 0, takes, i)
        if i < 0:
            continue
        row = 4 * i
        e = find_edge(arena, plan, rows[row], rows[row + 1], rows[row + 2])
        if e == 0 or multiplicity_of(arena, e) + rows[row + 3] < 0:
            return i
        edges[i] = e
    return -1


@device
def _make_light(ctx, k, first, second):
    """Runs the minor rebalancing that the deletion of (first, second) left to the end of its batch."""
    arena, plan = ctx.arena, ctx.plan
    for column in range(2):
        v = lookup(arena, after(plan, k) if column else k, second if column else first)
        if v != 0 and too_low(ctx, k, column, v + (V_IN if column else V_OUT)):
            move(ctx, k, column, v)


@kernel("words, halves, words, floats, table, int, words")
def apply_rows(arena, halves, plan, eps, rows, takes, edges):
    """Applies changes (k, x, y, m) one by one. Returns the number of applied rows. If it is not n, the multiplicity of
    the next row would fall below zero.

    The first `takes` rows are the deletions of a batch of net changes whose edges `find_taken` found, and only
    insertions follow. A batch causes at most one minor rebalancing per value and one major one. Values become heavy
    during insertions, but light only at the end, according to their final degrees. In between, light lists keep their
    bound, and heavy values were heavy before or are heavy by their degree.

    With `takes` = 0 rows are updates in the given order, each against the state before it: the article's semantics.
    """
    n = rows.shape[0]
    arena, halves, plan, eps, rows, edges = (
        words(arena),
        words(halves),
        constants(plan),
        words(eps),
        words(rows),
        words(edges),
    )
    ctx = Context(arena, halves, plan, eps)
    arena[C_EPOCH] += 1
    for i in range(-MIDDLE, takes):
        ahead_take(arena, halves, edges, takes, i)
        if i < 0:
            continue
        k = rows[4 * i]
        e = edges[i]
        x = source(arena, e)
        y = target(arena, e)
        edges[i] = 0
        if _change(ctx, k, x, y, e, rows[4 * i + 3]) < 0:
            edges[i] = too_low(ctx, k, ZERO, out_list(x)) or too_low(ctx, k, ONE, in_list(y))
            _drop_bare_ends(ctx, k, x, y)
    for i in range(takes - FAR, n):
        ahead(ctx, rows, takes, n, i)
        if i < takes:
            continue
        k = rows[4 * i]
        m = rows[4 * i + 3]
        if m > 0:
            x = vertex(ctx, k, rows[4 * i + 1])
            y = vertex(ctx, after(plan, k), rows[4 * i + 2])
            e = edge_of(arena, k, x, y)
        else:
            if m == 0:
                continue
            e = find_edge(arena, plan, k, rows[4 * i + 1], rows[4 * i + 2])
            if e == 0 or multiplicity_of(arena, e) + m < 0:
                return i
            x = source(arena, e)
            y = target(arena, e)
        update(ctx, k, x, y, e, m)
    size = arena[C_SIZE]
    if size < arena[C_BASE] // 4:
        base = arena[C_BASE] // 2 - 1
        rebase(ctx, base if base // 4 <= size < base else 2 * size + 1)
        return n
    for i in range(takes):
        if edges[i]:
            _make_light(ctx, rows[4 * i], rows[4 * i + 1], rows[4 * i + 2])
    return n


@kernel("words, halves, words, floats, table, int, words")
def load_rows(arena, halves, plan, eps, rows, takes, edges):
    """Stores a batch as in `apply_rows` and then propagates it at once: N = 2 |D| + 1. O(N^1.5)."""
    n = rows.shape[0]
    arena, halves, plan, eps, rows, edges = (
        words(arena),
        words(halves),
        constants(plan),
        words(eps),
        words(rows),
        words(edges),
    )
    ctx = Context(arena, halves, plan, eps)
    arena[C_EPOCH] += 1
    arena[C_MAJORS] += 1
    arena[C_UPDATES] += n
    for i in range(takes):
        e = edges[i]
        k = rows[4 * i]
        set_multiplicity(arena, e, multiplicity_of(arena, e) + rows[4 * i + 3])
        if multiplicity_of(arena, e) == 0:
            x = source(arena, e)
            y = target(arena, e)
            drop_edge(arena, halves, k, x, y, e)
            arena[C_SIZE] -= 1
            arena[C_FLIPS] += 1
            _drop_bare_ends(ctx, k, x, y)
    for i in range(takes - FAR, n):
        ahead(ctx, rows, takes, n, i)
        if i < takes:
            continue
        k = rows[4 * i]
        x = vertex(ctx, k, rows[4 * i + 1])
        y = vertex(ctx, after(plan, k), rows[4 * i + 2])
        e = edge_of(arena, k, x, y)
        if e == 0:
            add_edge(arena, halves, k, x, y, rows[4 * i + 3])
            arena[C_SIZE] += 1
            arena[C_FLIPS] += 1
        else:
            set_multiplicity(arena, e, multiplicity_of(arena, e) + rows[4 * i + 3])
    arena[C_PEAK] = max(arena[C_PEAK], arena[C_SIZE])
    arena[C_BASE] = 2 * arena[C_SIZE] + 1
    major(ctx, WORD(1))


@kernel("words, halves, words, floats, words")
def change_program(arena, halves, plan, eps, other):
    """Replaces the program by `other`, which has views of other kinds over the same parts. This is a major
    rebalancing."""
    arena, halves, plan, eps, other = words(arena), words(halves), constants(plan), words(eps), constants(other)
    ctx = Context(arena, halves, plan, eps)
    arena[C_EPOCH] += 1
    arena[C_MAJORS] += 1
    for view in range(MAX_VIEWS):
        if plan[view_at(view) + KIND] != K_COUNT:
            empty_view(ctx, view)
    major(Context(arena, halves, other, eps), WORD(0))
