"""Look-ahead: while one update is applied, the memory that the next ones need is already on its way.

An update is a chain of cache misses: slots of both values, their vertices, the slot of the edge and the lists. The
chains of several rows are walked at once: rows `FAR` ahead get slots fetched, rows `MIDDLE` ahead the vertices that the
slots name, rows `NEAR` ahead the edge's slot and the lists. These are hints and never change a result.
"""

from __future__ import annotations

from crown.kernels.arena import T_MASK, T_SLOTS, ZERO, hi, lo
from crown.kernels.jit import device
from crown.kernels.pointers import prefetch
from crown.kernels.tables import LOW32, table_at
from ivm_triangle.kernels.graph import after, tag_of
from ivm_triangle.kernels.layout import V_IN, V_OUT

FAR, MIDDLE, NEAR = 15, 10, 5


@device
def _home(M, table, word):
    t = table_at(table)
    return M[t + T_SLOTS] + (tag_of(M, word) & M[t + T_MASK])


@device
def _lists(M, m32, x, y):
    """Both ends of the lists that a change of (x, y) walks, the end of those that it only lengthens or shortens."""
    prefetch(M, lo(m32, y + V_OUT))
    prefetch(M, lo(m32, x + V_IN))
    prefetch(M, lo(m32, x + V_OUT) + hi(m32, x + V_OUT))
    prefetch(M, lo(m32, y + V_IN) + hi(m32, y + V_IN))


@device
def ahead_find(M, P, rows, n, i):
    """Stages that find the edges of `rows` int64[n * 4] of (relation, x, y, m) when row `i` is about to be applied.

    Returns the vertices of row i + NEAR, as far as they are known, or zeros.
    """
    if i + FAR < n:
        k = rows[4 * (i + FAR)]
        prefetch(M, _home(M, k, rows[4 * (i + FAR) + 1]))
        prefetch(M, _home(M, after(P, k), rows[4 * (i + FAR) + 2]))
    if i + MIDDLE < n:
        k = rows[4 * (i + MIDDLE)]
        prefetch(M, M[_home(M, k, rows[4 * (i + MIDDLE) + 1])] & LOW32)
        prefetch(M, M[_home(M, after(P, k), rows[4 * (i + MIDDLE) + 2])] & LOW32)
    if i + NEAR >= n:
        return ZERO, ZERO
    k = rows[4 * (i + NEAR)]
    x = M[_home(M, k, rows[4 * (i + NEAR) + 1])] & LOW32
    y = M[_home(M, after(P, k), rows[4 * (i + NEAR) + 2])] & LOW32
    if x != 0 and y != 0:
        prefetch(M, _home(M, 3 + k, (x << 32) | y))
    return x, y


@device
def ahead(M, m32, P, rows, n, i):
    """The same, and the lists of row i + NEAR."""
    x, y = ahead_find(M, P, rows, n, i)
    if x != 0 and y != 0:
        _lists(M, m32, x, y)


@device
def _last(M, m32, w):
    """The edge at the end of a list, which will take the place of one that goes."""
    if hi(m32, w) > 0:
        prefetch(M, M[lo(m32, w) + hi(m32, w) - 1] & LOW32)


@device
def ahead_take(M, m32, edges, n, i):
    """Stages for the deletion of `edges` int64[n]: where an edge is found, its vertices are at hand."""
    if i + MIDDLE < n:
        e = edges[i + MIDDLE]
        _lists(M, m32, M[e] >> 32, M[e] & LOW32)
    if i + NEAR < n:
        e = edges[i + NEAR]
        _last(M, m32, (M[e] >> 32) + V_OUT)
        _last(M, m32, (M[e] & LOW32) + V_IN)
