"""Heavy and light: thresholds, minor and major rebalancing. Article, Figures 6 and 7, over the arena."""

from __future__ import annotations

import math

from crown.kernels.jit import device
from crown.kernels.memory.arena import T_CAPACITY, T_COUNT, T_SLOTS
from crown.kernels.memory.tables import table_at
from ivm_triangle.kernels.state.geometry import (
    in_list,
    left,
    list_address,
    list_extra,
    list_length,
    list_of,
    multiplicity_of,
    out_list,
    right,
    set_list_extra,
    source,
    target,
)
from ivm_triangle.kernels.state.graph import after, before, degree, is_heavy, part_of, place, relink
from ivm_triangle.kernels.state.layout import (
    C_BASE,
    C_LIMITS,
    C_MAJORS,
    C_MINORS,
    C_MOVED,
    C_RATES,
    C_SHIFTS,
    C_SIZE,
    C_TOTAL,
    C_WANTED,
    HEAVY,
    K_COUNT,
    KIND,
    LOAD,
    LOAD_LOOKUPS,
    MAX_SHIFT,
    MAX_VIEWS,
    MOVE,
    P_BORN,
    P_PARTITIONED,
    V_IN,
    V_OUT,
    WORD,
)
from ivm_triangle.kernels.state.views import empty_view, view_at
from ivm_triangle.kernels.update.rules import fire


@device
def set_limits(arena, eps):
    """Sets lo, st, hi of every relation at the current N, to the same numbers as `partition.Thresholds.of`."""
    size = arena[C_BASE]
    for k in range(3):
        at = C_LIMITS + 3 * k
        if eps[k] == 0.0:
            arena[at], arena[at + 1], arena[at + 2] = 0, 0, 0
            continue
        theta = float(size) if eps[k] == 1.0 else size ** eps[k]
        if abs(theta - round(theta)) < 1e-9 * theta:
            theta = float(round(theta))
        theta *= 2.0 ** arena[C_SHIFTS + k]
        arena[at] = math.ceil(theta / 2)
        arena[at + 1] = math.ceil(theta)
        arena[at + 2] = math.ceil(1.5 * theta)


@device
def _set_flag(arena, halves, k, column, v, heavy):
    """Changes a vertex's flag, and moves its entries in the lists of the other ends between heavy and light.
    O(degree)."""
    w = list_of(v, column)
    for i in range(list_address(halves, w), list_address(halves, w) + list_length(halves, w)):
        entry = arena[i]
        opposite = left(entry)
        if column == 0:
            relink(arena, halves, in_list(opposite), right(entry), heavy, WORD(1))
        else:
            relink(arena, halves, out_list(opposite), right(entry), heavy, WORD(0))
    set_list_extra(halves, w, list_extra(halves, w) ^ HEAVY)


@device
def too_low(ctx, k, column, w):
    """Returns True if the vertex with its list at word `w` is heavy in that column and its degree is below theta /
    2."""
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    return is_heavy(halves, w) and degree(halves, w) < arena[C_LIMITS + 3 * k] and not plan[P_BORN + 2 * k + column]


@device
def too_high(ctx, k, column, w):
    """Returns True iff the vertex with its list at `w` is light in a partitioned column and its degree is at least 3
    theta / 2."""
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    return (
        degree(halves, w) >= arena[C_LIMITS + 3 * k + 2]
        and not is_heavy(halves, w)
        and plan[P_PARTITIONED + 2 * k + column] == 1
    )


@device
def move(ctx, k, column, v):
    """Changes the flag of a vertex, and moves its edges: inserts them into the new part, then deletes them from the old
    one."""
    arena, halves = ctx.arena, ctx.halves
    w = list_of(v, column)
    heavy = is_heavy(halves, w)
    deg = degree(halves, w)
    if deg > 0:
        arena[C_MINORS] += 1
        arena[C_MOVED] += deg
    bit_of_column = 2 if column == 0 else 1
    for i in range(deg):
        entry = arena[list_address(halves, w) + i]
        opposite = left(entry)
        x = v if column == 0 else opposite
        y = opposite if column == 0 else v
        old = part_of(halves, x, y)
        new = old << bit_of_column if heavy else old >> bit_of_column
        m = multiplicity_of(arena, right(entry))
        fire(ctx, k, new, old, x, y, m, WORD(1), WORD(MOVE), WORD(0))
        fire(ctx, k, old, new, x, y, -m, WORD(-1), WORD(MOVE), WORD(0))
    _set_flag(arena, halves, k, column, v, not heavy)


@device
def _split(arena, halves, w, half):
    """Reorders a vertex's list: heavy other ends first."""
    count = WORD(0)
    for i in range(list_length(halves, w)):
        entry = arena[list_address(halves, w) + i]
        if is_heavy(halves, list_of(left(entry), 1 - half)):
            if count < i:
                place(arena, halves, w, i, arena[list_address(halves, w) + count], half)
                place(arena, halves, w, count, entry, half)
            count += 1
    set_list_extra(halves, w, (list_extra(halves, w) & HEAVY) | count)


@device
def major(ctx, totals):
    """Partitions strictly at the current N and computes every view from its definition; the total only if `totals`."""
    arena, halves, plan, eps = ctx.arena, ctx.halves, ctx.plan, ctx.eps
    set_limits(arena, eps)
    for split in range(2):
        for d in range(3):
            t = table_at(d)
            for s in range(arena[t + T_SLOTS], arena[t + T_SLOTS] + arena[t + T_CAPACITY]):
                if arena[s] == 0:
                    continue
                v = right(arena[s])
                for column in range(2):
                    w = list_of(v, column)
                    k = d if column == 0 else before(plan, d)
                    if split:
                        _split(arena, halves, w, column)
                    elif plan[P_PARTITIONED + 2 * k + column]:
                        heavy = degree(halves, w) >= arena[C_LIMITS + 3 * k + 1]
                        set_list_extra(halves, w, HEAVY if heavy else 0)
    for view in range(MAX_VIEWS):
        if plan[view_at(view) + KIND] != K_COUNT:  # counted by the stream of deltas; moving tuples changes nothing
            empty_view(ctx, view)
    if totals:
        arena[C_TOTAL] = 0
    for mode in range(LOAD, LOAD_LOOKUPS + 1):
        for k in range(3):
            t = table_at(3 + k)
            for s in range(arena[t + T_SLOTS], arena[t + T_SLOTS] + arena[t + T_CAPACITY]):
                if arena[s] != 0:
                    e = right(arena[s])
                    x = source(arena, e)
                    y = target(arena, e)
                    fire(
                        ctx,
                        k,
                        part_of(halves, x, y),
                        WORD(0),
                        x,
                        y,
                        multiplicity_of(arena, e),
                        WORD(1),
                        mode,
                        totals,
                    )


@device
def _scan_cost(arena, plan, shifts):
    """Returns the worst-case length of all scans of the counted updates, with the shifts at word `shifts`.

    `r (2 |T| / theta_T + 1.5 theta_S) + s (2 |R| / theta_R + 1.5 theta_T) + t (2 |S| / theta_S + 1.5 theta_R)`
    """
    cost = 0.0
    for k in range(3):
        theta = math.sqrt(arena[C_BASE]) * 2.0 ** arena[shifts + k]
        size = arena[table_at(3 + k) + T_COUNT]
        cost += arena[C_RATES + after(plan, k)] * 2.0 * size / theta + arena[C_RATES + before(plan, k)] * 1.5 * theta
    return cost


@device
def _follow_rates(arena, plan):
    """Chooses the shifts that minimize `_scan_cost`, if that gains a quarter. Returns True if they changed.

    Shifts are within 2^-3 .. 2^3, so that all bounds hold up to a constant, and 2^0 if rates and sizes are equal. At
    the minimum both terms of a theta are equal.
    """
    for k in range(3):
        share = (3.0 * arena[table_at(3 + k) + T_COUNT] + 1) / (arena[C_SIZE] + 1)
        ratio = share * (arena[C_RATES + after(plan, k)] + 1) / (arena[C_RATES + before(plan, k)] + 1)
        arena[C_WANTED + k] = min(max(round(0.5 * math.log2(ratio)), -MAX_SHIFT), MAX_SHIFT)
    better = _scan_cost(arena, plan, C_WANTED) < 0.75 * _scan_cost(arena, plan, C_SHIFTS)
    for k in range(3):
        arena[C_RATES + k] = 0
        if better:
            arena[C_SHIFTS + k] = arena[C_WANTED + k]
    return better


@device
def reconsider(ctx):
    """Runs a major rebalancing at the same N, after N / 4 updates, if other thresholds fit the rates better."""
    arena, plan = ctx.arena, ctx.plan
    base = arena[C_BASE]
    if 4 * (arena[C_RATES] + arena[C_RATES + 1] + arena[C_RATES + 2]) >= base and _follow_rates(arena, plan):
        rebase(ctx, base)


@device
def rebase(ctx, base):
    """Runs a major rebalancing at threshold base `base`, without changing the total. O(N^1.5), every N / 4 updates."""
    arena = ctx.arena
    arena[C_BASE] = base
    arena[C_MAJORS] += 1
    major(ctx, WORD(0))


@device
def settle(ctx, k, x, y, flip):
    """Rebalances after edge (x, y) of relation k was inserted (`flip` > 0) or deleted: a major rebalancing, or minor
    ones of its ends."""
    arena = ctx.arena
    size = arena[C_SIZE]
    base = arena[C_BASE]
    if size == base or size < base // 4:
        rebase(ctx, 2 * base if size == base else base // 2 - 1)
        return
    for column in range(2):
        v = y if column else x
        w = v + (V_IN if column else V_OUT)
        if too_high(ctx, k, column, w) if flip > 0 else too_low(ctx, k, column, w):
            move(ctx, k, column, v)
