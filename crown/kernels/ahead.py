"""Look-ahead: while one row of a batch is applied, the memory that the next ones need is already on its way.

A change is a chain of dependent cache misses: slot of the hash table, record, list, the row that moves in a list. A
batch knows all its keys beforehand, so the chains of several rows are walked at once, one link per stage: the farther
ahead a row is, the earlier the link. Each key is hashed once, when its row is ``FAR`` ahead; its tag waits in a ring of
``RING`` rows in the scratch array. What is fetched is a hint: a row that is looked at may have changed by the time it
is applied, but the row itself stays where it is, and so do the groups that it names.
"""

from __future__ import annotations

from crown.kernels.arena import NONE, T_MASK, T_SLOTS, hi, lo
from crown.kernels.groups import list_base, node_at
from crown.kernels.jit import device
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
    X_READY,
    X_RING,
    X_STRIDE,
)
from crown.kernels.pointers import prefetch
from crown.kernels.tables import LOW32, hash_key

RING = 16  # rows whose tags are kept, more than FAR
FAR, MIDDLE, NEAR, NEXT = 12, 8, 5, 2


@device
def ring_at(X, i):
    """Where the tags of row ``i`` are kept: of the row, of its group's key, of its child groups' keys."""
    return X[X_RING] + (i & (RING - 1)) * X[X_STRIDE]


@device
def tag_groups(M, P, X, d, src, base, at):
    """Tags of the group keys of the row whose values are ``src[base ...]``, to ``X[at + 1 ...]``."""
    if P[d + N_PARENT] >= 0:
        X[at + 1] = hash_key(M, P, P[d + N_KPOS], P[d + N_KEY], src, base)
    for j in range(P[d + N_CHILDREN]):
        dc = node_at(P[P[d + N_CHILD] + j])
        X[at + 2 + j] = hash_key(M, P, P[dc + N_PPOS], P[dc + N_KEY], src, base)


@device
def _home(M, t, tag):
    """Word of the home slot of ``tag`` in table ``t``."""
    return M[t + T_SLOTS] + (tag & M[t + T_MASK])


@device
def _first(M, t, tag):
    """The record that the home slot of ``tag`` names, or 0."""
    return M[_home(M, t, tag)] & LOW32


@device
def _fetch_record(M, handle, last):
    """A record from its first to word ``last``."""
    prefetch(M, handle)
    prefetch(M, handle + last)


@device
def ahead_insert(M, m32, P, X, d, rows, n, i):
    """Stages for insertions of the node at descriptor ``d`` when row ``i`` of ``n`` is about to be applied."""
    a = P[d + N_ATTRS]
    children = P[d + N_CHILDREN]
    inner = P[d + N_PARENT] >= 0
    ready = X[X_READY]
    while ready < n and ready <= i + FAR:
        at = ring_at(X, ready)
        base = ready * a
        X[at] = hash_key(M, P, P[d + N_IDENTITY], a, rows, base)
        tag_groups(M, P, X, d, rows, base, at)
        prefetch(M, _home(M, P[d + N_ROWS], X[at]))
        if inner:
            prefetch(M, _home(M, P[d + N_GROUPS], X[at + 1]))
        for j in range(children):
            prefetch(M, _home(M, P[node_at(P[P[d + N_CHILD] + j]) + N_GROUPS], X[at + 2 + j]))
        ready += 1
    X[X_READY] = ready
    if i + MIDDLE < n:
        at = ring_at(X, i + MIDDLE)
        if inner:
            _fetch_record(M, _first(M, P[d + N_GROUPS], X[at + 1]), P[d + N_KEY] + 3)
        for j in range(children):
            dc = node_at(P[P[d + N_CHILD] + j])
            _fetch_record(M, _first(M, P[dc + N_GROUPS], X[at + 2 + j]), P[dc + N_KEY] + 3)
    if i + NEAR < n:
        at = ring_at(X, i + NEAR)
        if inner:
            g = _first(M, P[d + N_GROUPS], X[at + 1])
            if g != 0:
                k = P[d + N_KEY]
                prefetch(m32, list_base(m32, g + k, 2 * (g + k + 3), P[d + N_INLINE]) + hi(m32, g + k))
        for j in range(children):
            dc = node_at(P[P[d + N_CHILD] + j])
            g = _first(M, P[dc + N_GROUPS], X[at + 2 + j])
            if g != 0:
                k = P[dc + N_KEY]
                prefetch(m32, list_base(m32, g + k + 1, 2 * (g + k + 3) + 1, NONE) + hi(m32, g + k + 1))


@device
def _fetch_ends(m32, field, log_at, inlined, at):
    """Entry ``at`` of a list and its last one, which will take its place."""
    base = list_base(m32, field, log_at, inlined)
    prefetch(m32, base + at)
    prefetch(m32, base + hi(m32, field) - 1)


@device
def ahead_delete(M, m32, P, X, d, rows, n, i):
    """Stages for deletions: slot, row, the groups that the row names, the entries of their lists."""
    a = P[d + N_ATTRS]
    t = P[d + N_ROWS]
    children = P[d + N_CHILDREN]
    ready = X[X_READY]
    while ready < n and ready <= i + FAR:
        at = ring_at(X, ready)
        X[at] = hash_key(M, P, P[d + N_IDENTITY], a, rows, ready * a)
        prefetch(M, _home(M, t, X[at]))
        ready += 1
    X[X_READY] = ready
    if i + MIDDLE < n:
        row = _first(M, t, X[ring_at(X, i + MIDDLE)])
        prefetch(M, row)
        prefetch(M, row + a + 1 + children)
    if i + NEAR < n:
        row = _first(M, t, X[ring_at(X, i + NEAR)])
        if row != 0:
            _fetch_record(M, lo(m32, row + a + 1), P[d + N_KEY] + 3)
            for j in range(children):
                dc = node_at(P[P[d + N_CHILD] + j])
                _fetch_record(M, lo(m32, row + a + 2 + j), P[dc + N_KEY] + 3)
    if i + NEXT < n:
        row = _first(M, t, X[ring_at(X, i + NEXT)])
        if row != 0:
            if hi(m32, row + a + 1) >= 0:
                g = lo(m32, row + a + 1)
                k = P[d + N_KEY]
                _fetch_ends(m32, g + k, 2 * (g + k + 3), P[d + N_INLINE], hi(m32, row + a + 1))
            for j in range(children):
                h = lo(m32, row + a + 2 + j)
                k = P[node_at(P[P[d + N_CHILD] + j]) + N_KEY]
                _fetch_ends(m32, h + k + 1, 2 * (h + k + 3) + 1, NONE, hi(m32, row + a + 2 + j))
