"""Heavy and light: thresholds, minor and major rebalancing. Article, Figures 6 and 7, over the arena."""

from __future__ import annotations

import math

from crown.kernels.arena import T_COUNT, T_MASK, T_SLOTS, hi, lo, set_hi
from crown.kernels.jit import device
from crown.kernels.tables import LOW32, table_at
from ivm_triangle.kernels.graph import after, before, degree, is_heavy, part_of, place, relink
from ivm_triangle.kernels.layout import (
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
from ivm_triangle.kernels.rules import fire
from ivm_triangle.kernels.views import empty_view, view_at


@device
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
        theta *= 2.0 ** M[C_SHIFTS + k]
        M[at] = math.ceil(theta / 2)
        M[at + 1] = math.ceil(theta)
        M[at + 2] = math.ceil(1.5 * theta)


@device
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


@device
def too_low(M, m32, P, k, column, w):
    """True if the vertex with its list at word `w` is heavy in that column and below theta / 2."""
    return is_heavy(m32, w) and degree(m32, w) < M[C_LIMITS + 3 * k] and not P[P_BORN + 2 * k + column]


@device
def too_high(M, m32, P, k, column, w):
    """True if the vertex with its list at word `w` is light in a partitioned column and at 3 theta / 2 or above."""
    return degree(m32, w) >= M[C_LIMITS + 3 * k + 2] and not is_heavy(m32, w) and P[P_PARTITIONED + 2 * k + column] == 1


@device
def move(M, m32, P, k, column, v):
    """Change the flag of a vertex, and move its edges: into the new part, then from the old."""
    w = v + (V_OUT if column == 0 else V_IN)
    heavy = is_heavy(m32, w)
    deg = degree(m32, w)
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


@device
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


@device
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


@device
def _scan_cost(M, P, shifts):
    """Worst-case length of all scans of the updates counted, if the shifts are those at word `shifts` of the arena.

    `// r (2 |T| / theta_T + 1.5 theta_S) + s (2 |R| / theta_R + 1.5 theta_T) + t (2 |S| / theta_S + 1.5 theta_R)`
    """
    cost = 0.0
    for k in range(3):
        theta = math.sqrt(M[C_BASE]) * 2.0 ** M[shifts + k]
        size = M[table_at(3 + k) + T_COUNT]
        cost += M[C_RATES + after(P, k)] * 2.0 * size / theta + M[C_RATES + before(P, k)] * 1.5 * theta
    return cost


@device
def _follow_rates(M, P):
    """Choose the shifts that make `_scan_cost` least, if that gains a quarter. Returns whether they changed.

    Within 2^-3 .. 2^3, so that all bounds stay, up to a constant; 2^0 where rates and sizes are equal. The minimum is
    where both terms of a theta are in proportion.
    """
    for k in range(3):
        share = (3.0 * M[table_at(3 + k) + T_COUNT] + 1) / (M[C_SIZE] + 1)
        ratio = share * (M[C_RATES + after(P, k)] + 1) / (M[C_RATES + before(P, k)] + 1)
        M[C_WANTED + k] = min(max(round(0.5 * math.log2(ratio)), -MAX_SHIFT), MAX_SHIFT)
    better = _scan_cost(M, P, C_WANTED) < 0.75 * _scan_cost(M, P, C_SHIFTS)
    for k in range(3):
        M[C_RATES + k] = 0
        if better:
            M[C_SHIFTS + k] = M[C_WANTED + k]
    return better


@device
def reconsider(M, m32, P, eps):
    """After N / 4 updates: a major rebalancing at the same N if other thresholds suit the rates better."""
    base = M[C_BASE]
    if 4 * (M[C_RATES] + M[C_RATES + 1] + M[C_RATES + 2]) >= base and _follow_rates(M, P):
        rebase(M, m32, P, eps, base)


@device
def rebase(M, m32, P, eps, base):
    """A major rebalancing at threshold base `base`; the total is what it is. O(N^1.5), every N / 4 updates."""
    M[C_BASE] = base
    M[C_MAJORS] += 1
    major(M, m32, P, eps, WORD(0))


@device
def settle(M, m32, P, eps, k, x, y, flip):
    """After the edge (x, y) of relation k came (`flip` > 0) or went: major rebalancing, or minor ones of its ends."""
    size = M[C_SIZE]
    base = M[C_BASE]
    if size == base or size < base // 4:
        rebase(M, m32, P, eps, 2 * base if size == base else base // 2 - 1)
        return
    for column in range(2):
        v = y if column else x
        w = v + (V_IN if column else V_OUT)
        if too_high(M, m32, P, k, column, w) if flip > 0 else too_low(M, m32, P, k, column, w):
            move(M, m32, P, k, column, v)
