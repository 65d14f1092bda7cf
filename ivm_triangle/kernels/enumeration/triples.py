"""Enumeration of Delta3(a, b, c): disjoint views one after the other, each result in a constant number of steps."""

from __future__ import annotations

from crown.kernels.jit import device, kernel
from crown.kernels.memory.pointers import constants, words
from ivm_triangle.kernels.state.geometry import (
    groups_of,
    left,
    list_address,
    list_length,
    middles_of,
    multiplicity_of,
    payload,
    right,
)
from ivm_triangle.kernels.state.layout import K_SET, KIND, R, S, T
from ivm_triangle.kernels.state.views import listing_at, view_at
from ivm_triangle.kernels.update.rules import edge_of

VIEW, GROUP, MIDDLE, OPS, LAST, MAX_DELAY = range(6)  # the cursor, an int64 array, zero at the start


@device
def _put(arena, cur, a, b, c, out, capacity, row):
    r = edge_of(arena, R, a, b)
    s = edge_of(arena, S, b, c)
    t = edge_of(arena, T, c, a)
    out[row] = arena[a]
    out[capacity + row] = arena[b]
    out[2 * capacity + row] = arena[c]
    out[3 * capacity + row] = multiplicity_of(arena, r) * multiplicity_of(arena, s) * multiplicity_of(arena, t)
    cur[OPS] += 4
    cur[MAX_DELAY] = max(cur[MAX_DELAY], cur[OPS] - cur[LAST])
    cur[LAST] = cur[OPS]


@kernel("words, halves, words, words, words, words, table")
def triple_rows(arena, halves, plan, cur, views, firsts, out):
    """Fills `out` int64[4, n] column-major with (a, b, c, multiplicity). Returns the number of rows.

    `views`: the SET and ROOT views of the result. `firsts[i]`: the relation in which a tree's pairs (x, z) start. Fewer
    than n rows mean the end; call it again with the same cursor for more rows. Delay: four steps, and one per list or
    view that ends.
    """
    ends = views.size
    capacity = out.shape[1]
    arena, halves, plan, cur, out = words(arena), words(halves), constants(plan), words(cur), words(out)
    views, firsts = words(views), words(firsts)
    rows = 0
    while cur[VIEW] < ends:
        view = views[cur[VIEW]]
        w = listing_at(view)
        if plan[view_at(view) + KIND] == K_SET:
            while cur[GROUP] < list_length(halves, w):
                if rows == capacity:
                    return rows
                record = arena[list_address(halves, w) + cur[GROUP]]
                _put(arena, cur, left(arena[record]), right(arena[record]), payload(arena, record), out, capacity, rows)
                cur[GROUP] += 1
                rows += 1
        elif list_length(halves, w) > 0:
            first = firsts[cur[VIEW]]
            bucket = groups_of(arena[list_address(halves, w)])
            while cur[GROUP] < list_length(halves, bucket):
                group = arena[list_address(halves, bucket) + cur[GROUP]]
                x = left(arena[group])
                z = right(arena[group])
                while cur[MIDDLE] < list_length(halves, middles_of(group)):
                    if rows == capacity:
                        return rows
                    y = left(arena[list_address(halves, middles_of(group)) + cur[MIDDLE]])
                    if first == 0:
                        _put(arena, cur, x, y, z, out, capacity, rows)
                    elif first == 1:
                        _put(arena, cur, z, x, y, out, capacity, rows)
                    else:
                        _put(arena, cur, y, z, x, out, capacity, rows)
                    cur[MIDDLE] += 1
                    rows += 1
                cur[GROUP] += 1
                cur[OPS] += 1
                cur[MIDDLE] = 0
        cur[VIEW] += 1
        cur[OPS] += 1
        cur[GROUP] = 0
    return rows
