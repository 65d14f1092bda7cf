"""Enumeration of Delta3(a, b, c): disjoint views one after the other, each result in a constant number of steps."""

from __future__ import annotations

from crown.kernels.arena import hi, lo
from crown.kernels.jit import device, kernel
from crown.kernels.pointers import constants, words
from crown.kernels.tables import LOW32
from ivm_triangle.kernels.layout import K_SET, KIND, R, S, T
from ivm_triangle.kernels.rules import edge_of
from ivm_triangle.kernels.views import listing_at, view_at

VIEW, GROUP, MIDDLE, OPS, LAST, MAX_DELAY = range(6)  # the cursor, an int64 array, zero at the start


@device
def _put(M, cur, a, b, c, out, capacity, row):
    r = edge_of(M, R, a, b)
    s = edge_of(M, S, b, c)
    t = edge_of(M, T, c, a)
    out[row] = M[a]
    out[capacity + row] = M[b]
    out[2 * capacity + row] = M[c]
    out[3 * capacity + row] = M[r + 1] * M[s + 1] * M[t + 1]
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
    ends = views.size
    capacity = out.shape[1]
    M, m32, P, cur, out = words(M), words(m32), constants(P), words(cur), words(out)
    views, firsts = words(views), words(firsts)
    rows = 0
    while cur[VIEW] < ends:
        view = views[cur[VIEW]]
        w = listing_at(view)
        if P[view_at(view) + KIND] == K_SET:
            while cur[GROUP] < hi(m32, w):
                if rows == capacity:
                    return rows
                record = M[lo(m32, w) + cur[GROUP]]
                _put(M, cur, M[record] >> 32, M[record] & LOW32, M[record + 1], out, capacity, rows)
                cur[GROUP] += 1
                rows += 1
        elif hi(m32, w) > 0:
            first = firsts[cur[VIEW]]
            bucket = M[lo(m32, w)] + 1
            while cur[GROUP] < hi(m32, bucket):
                group = M[lo(m32, bucket) + cur[GROUP]]
                x = M[group] >> 32
                z = M[group] & LOW32
                while cur[MIDDLE] < hi(m32, group + 1):
                    if rows == capacity:
                        return rows
                    y = M[lo(m32, group + 1) + cur[MIDDLE]] >> 32
                    if first == 0:
                        _put(M, cur, x, y, z, out, capacity, rows)
                    elif first == 1:
                        _put(M, cur, z, x, y, out, capacity, rows)
                    else:
                        _put(M, cur, y, z, x, out, capacity, rows)
                    cur[MIDDLE] += 1
                    rows += 1
                cur[GROUP] += 1
                cur[OPS] += 1
                cur[MIDDLE] = 0
        cur[VIEW] += 1
        cur[OPS] += 1
        cur[GROUP] = 0
    return rows
