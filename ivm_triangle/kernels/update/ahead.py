"""Look-ahead: prefetches the memory that the next updates need while one is applied.

An update is a chain of cache misses: slots of both values, their vertices, the slot of the edge and the lists. The
chains of several rows are followed at once: for rows `FAR` ahead the slots are prefetched, for rows `MIDDLE` ahead the
vertices in these slots, for rows `NEAR` ahead the edge's slot and the lists. These are hints and never change a result.
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.arena import ZERO
from crown.kernels.memory.pointers import prefetch
from crown.kernels.memory.tables import slot_of, table_at
from ivm_triangle.kernels.state.geometry import (
    in_list,
    list_address,
    list_length,
    out_list,
    pair_of,
    right,
    source,
    target,
)
from ivm_triangle.kernels.state.graph import after, tag_of

FAR, MIDDLE, NEAR = 15, 10, 5


@device
def _home(arena, table, word):
    return slot_of(arena, table_at(table), tag_of(arena, word))


@device
def _lists(arena, halves, x, y):
    """Prefetches the beginning of the lists that a change of (x, y) scans, and the end of those that it changes."""
    prefetch(arena, list_address(halves, out_list(y)))
    prefetch(arena, list_address(halves, in_list(x)))
    prefetch(arena, list_address(halves, out_list(x)) + list_length(halves, out_list(x)))
    prefetch(arena, list_address(halves, in_list(y)) + list_length(halves, in_list(y)))


@device
def ahead_find(arena, plan, rows, first, n, i):
    """Runs the stages that find the edges of `rows` int64[n * 4] of (relation, x, y, m) when row `i` is about to be
    applied. For the first row, `first`, they run from `first - FAR` on.

    Returns the vertices of row i + NEAR, as far as they are known, or zeros.
    """
    if first <= i + FAR < n:
        k = rows[4 * (i + FAR)]
        prefetch(arena, _home(arena, k, rows[4 * (i + FAR) + 1]))
        prefetch(arena, _home(arena, after(plan, k), rows[4 * (i + FAR) + 2]))
    if first <= i + MIDDLE < n:
        k = rows[4 * (i + MIDDLE)]
        prefetch(arena, right(arena[_home(arena, k, rows[4 * (i + MIDDLE) + 1])]))
        prefetch(arena, right(arena[_home(arena, after(plan, k), rows[4 * (i + MIDDLE) + 2])]))
    if i + NEAR < first or i + NEAR >= n:
        return ZERO, ZERO
    k = rows[4 * (i + NEAR)]
    x = right(arena[_home(arena, k, rows[4 * (i + NEAR) + 1])])
    y = right(arena[_home(arena, after(plan, k), rows[4 * (i + NEAR) + 2])])
    if x != 0 and y != 0:
        prefetch(arena, _home(arena, 3 + k, pair_of(x, y)))
    return x, y


@device
def ahead(ctx, rows, first, n, i):
    """Prefetches the same as `ahead_find`, and the lists of row i + NEAR."""
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    x, y = ahead_find(arena, plan, rows, first, n, i)
    if x != 0 and y != 0:
        _lists(arena, halves, x, y)


@device
def _last(arena, halves, w):
    """Prefetches the edge at the end of a list, which will take the place of a deleted one."""
    if list_length(halves, w) > 0:
        prefetch(arena, right(arena[list_address(halves, w) + list_length(halves, w) - 1]))


@device
def ahead_take(arena, halves, edges, n, i):
    """Runs the stages for the deletion of `edges` int64[n], whose vertices are known, from `i` = -MIDDLE on."""
    if 0 <= i + MIDDLE < n:
        e = edges[i + MIDDLE]
        _lists(arena, halves, source(arena, e), target(arena, e))
    if 0 <= i + NEAR < n:
        e = edges[i + NEAR]
        _last(arena, halves, out_list(source(arena, e)))
        _last(arena, halves, in_list(target(arena, e)))
