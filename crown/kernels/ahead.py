"""Look-ahead: while one row of a batch is applied, the memory that the next ones need is already on its way.

A change is a chain of dependent cache misses: slot of the hash table, record, list. A batch knows all its keys
beforehand, so the chains of several rows are walked at once, one link per stage: rows ``FAR`` ahead get their slots
fetched, rows ``MIDDLE`` ahead the records that those slots name, rows ``NEAR`` ahead the ends of the lists that will
be changed. These are hints: a row that is looked at may have changed by the time it is applied.
"""

from __future__ import annotations

from crown.kernels.arena import NONE, T_MASK, T_SLOTS, hi, lo
from crown.kernels.groups import list_base, node_at
from crown.kernels.jit import kernel
from crown.kernels.layout import (
    N_ATTRS,
    N_CHILD,
    N_CHILDREN,
    N_GROUPS,
    N_IDENTITY,
    N_INLINE,
    N_KEY,
    N_KPOS,
    N_PARENT,
    N_PPOS,
    N_ROWS,
)
from crown.kernels.pointers import prefetch
from crown.kernels.tables import LOW32, hash_key

FAR, MIDDLE, NEAR = 12, 8, 4


@kernel
def _home(M, t, tag):
    """Word of the home slot of ``tag`` in table ``t``."""
    return M[t + T_SLOTS] + (tag & M[t + T_MASK])


@kernel
def _group_home(M, P, d, pos, rows, base):
    return _home(M, P[d + N_GROUPS], hash_key(M, P, pos, P[d + N_KEY], rows, base))


@kernel
def _fetch_group(M, P, d, pos, rows, base):
    g = M[_group_home(M, P, d, pos, rows, base)] & LOW32
    if g != 0:
        prefetch(M, g)


@kernel
def _fetch_tail(M, m32, field, log_at, inlined):
    """The end of a list, where the next entry goes."""
    at = list_base(m32, field, log_at, inlined) + hi(m32, field)
    prefetch(m32, at)


@kernel
def ahead_insert(M, m32, P, d, rows, n, i):
    """Stages for insertions of the node at descriptor ``d`` when row ``i`` of ``n`` is about to be applied."""
    a = P[d + N_ATTRS]
    if i + FAR < n:
        base = (i + FAR) * a
        prefetch(M, _home(M, P[d + N_ROWS], hash_key(M, P, P[d + N_IDENTITY], a, rows, base)))
        if P[d + N_PARENT] >= 0:
            prefetch(M, _group_home(M, P, d, P[d + N_KPOS], rows, base))
        for j in range(P[d + N_CHILDREN]):
            dc = node_at(P[P[d + N_CHILD] + j])
            prefetch(M, _group_home(M, P, dc, P[dc + N_PPOS], rows, base))
    if i + MIDDLE < n:
        base = (i + MIDDLE) * a
        if P[d + N_PARENT] >= 0:
            _fetch_group(M, P, d, P[d + N_KPOS], rows, base)
        for j in range(P[d + N_CHILDREN]):
            dc = node_at(P[P[d + N_CHILD] + j])
            _fetch_group(M, P, dc, P[dc + N_PPOS], rows, base)
    if i + NEAR < n:
        base = (i + NEAR) * a
        if P[d + N_PARENT] >= 0:
            g = M[_group_home(M, P, d, P[d + N_KPOS], rows, base)] & LOW32
            if g != 0:
                k = P[d + N_KEY]
                _fetch_tail(M, m32, g + k, 2 * (g + k + 3), P[d + N_INLINE])
        for j in range(P[d + N_CHILDREN]):
            dc = node_at(P[P[d + N_CHILD] + j])
            g = M[_group_home(M, P, dc, P[dc + N_PPOS], rows, base)] & LOW32
            if g != 0:
                k = P[dc + N_KEY]
                _fetch_tail(M, m32, g + k + 1, 2 * (g + k + 3) + 1, NONE)


@kernel
def ahead_delete(M, m32, P, d, rows, n, i):
    """Stages for deletions: slot, row, then the groups that the row names and the ends of their lists."""
    a = P[d + N_ATTRS]
    t = P[d + N_ROWS]
    if i + FAR < n:
        prefetch(M, _home(M, t, hash_key(M, P, P[d + N_IDENTITY], a, rows, (i + FAR) * a)))
    if i + MIDDLE < n:
        row = M[_home(M, t, hash_key(M, P, P[d + N_IDENTITY], a, rows, (i + MIDDLE) * a))] & LOW32
        if row != 0:
            prefetch(M, row)
    if i + NEAR < n:
        row = M[_home(M, t, hash_key(M, P, P[d + N_IDENTITY], a, rows, (i + NEAR) * a))] & LOW32
        if row != 0:
            prefetch(M, lo(m32, row + a + 1))
            for j in range(P[d + N_CHILDREN]):
                prefetch(M, lo(m32, row + a + 2 + j))
