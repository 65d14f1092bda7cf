"""Enumeration of Delta3(a, b, c): disjoint views one after the other, each result in a constant number of steps."""

from __future__ import annotations

from crown.kernels.jit import kernel
from crown.kernels.tables import LOW32
from ivm_triangle.kernels.layout import K_SET, KIND
from ivm_triangle.kernels.rules import edge_of
from ivm_triangle.kernels.views import listing_at, view_at

VIEW, GROUP, MIDDLE, OPS, LAST, MAX_DELAY = range(6)  # the cursor, an int64 array, zero at the start


@kernel
def _put(M, cur, a, b, c, out, row):
    r = edge_of(M, 0, a, b)
    s = edge_of(M, 1, b, c)
    t = edge_of(M, 2, c, a)
    out[0, row] = M[a]
    out[1, row] = M[b]
    out[2, row] = M[c]
    out[3, row] = M[r + 1] * M[s + 1] * M[t + 1]
    cur[OPS] += 4
    cur[MAX_DELAY] = max(cur[MAX_DELAY], cur[OPS] - cur[LAST])
    cur[LAST] = cur[OPS]


@kernel
def triple_rows(M, m32, P, cur, views, firsts, out):
    """Fill `out` int64[4, n] column-major with (a, b, c, multiplicity); returns the number of rows.

    `views` are the SET and ROOT views of the result; `firsts[i]` is the relation a tree's pairs (x, z) start in.
    Fewer than n rows: the end. Call again with the same cursor to go on. Delay: four steps, and one per list or view
    that ends.
    """
    rows = 0
    while cur[VIEW] < views.size:
        view = views[cur[VIEW]]
        w = listing_at(view)
        if P[view_at(view) + KIND] == K_SET:
            while cur[GROUP] < m32[2 * w + 1]:
                if rows == out.shape[1]:
                    return rows
                record = M[m32[2 * w] + cur[GROUP]]
                _put(M, cur, M[record] >> 32, M[record] & LOW32, M[record + 1], out, rows)
                cur[GROUP] += 1
                rows += 1
        elif m32[2 * w + 1] > 0:
            first = firsts[cur[VIEW]]
            bucket = M[m32[2 * w]] + 1
            while cur[GROUP] < m32[2 * bucket + 1]:
                group = M[m32[2 * bucket] + cur[GROUP]]
                x = M[group] >> 32
                z = M[group] & LOW32
                while cur[MIDDLE] < m32[2 * (group + 1) + 1]:
                    if rows == out.shape[1]:
                        return rows
                    y = M[m32[2 * (group + 1)] + cur[MIDDLE]] >> 32
                    if first == 0:
                        _put(M, cur, x, y, z, out, rows)
                    elif first == 1:
                        _put(M, cur, z, x, y, out, rows)
                    else:
                        _put(M, cur, y, z, x, out, rows)
                    cur[MIDDLE] += 1
                    rows += 1
                cur[GROUP] += 1
                cur[OPS] += 1
                cur[MIDDLE] = 0
        cur[VIEW] += 1
        cur[OPS] += 1
        cur[GROUP] = 0
    return rows
