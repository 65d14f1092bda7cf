"""Look-ahead: while one row of a batch is applied, the memory that the next ones need is already on its way.

A change is a chain of dependent cache misses: slot of the hash table, record, list, the row that moves in a list. A
batch knows all its keys beforehand, so the chains of several rows are walked at once, one link per stage: the farther
ahead a row is, the earlier the link. Each key is hashed once, when its tuple is ``FAR`` ahead; its tag waits in a ring
of ``RING`` tuples in the scratch array. What is fetched is a hint: a row that is looked at may have changed by the
time it is applied, but the row itself stays where it is, and so do the groups that it names.
"""

from __future__ import annotations

from crown.kernels.arena import T_MASK, T_SLOTS
from crown.kernels.geometry import (
    children_base,
    children_count,
    last_group_word,
    link_of,
    linked_group,
    linked_position,
    parents_base,
    parents_count,
    row_group,
    row_position,
)
from crown.kernels.groups import node_at
from crown.kernels.jit import device
from crown.kernels.layout import (
    N_CARRIED,
    N_CHILD,
    N_CHILDREN,
    N_GROUPS,
    N_KEY,
    N_KPOS,
    N_OFFSET,
    N_PARENT,
    N_PPOS,
    N_TAGS,
    P_IDENTITY,
    R_ALIASES,
    R_NODES,
    R_TABLE,
    R_WIDTH,
    R_WORDS,
    RING,
    X_READY,
    X_RING,
    X_STRIDE,
)
from crown.kernels.pointers import prefetch
from crown.kernels.tables import LOW32, hash_key

FAR, MIDDLE, NEAR, NEXT = 12, 8, 5, 2


@device
def ring_at(X, i):
    """Where the tags of tuple ``i`` are kept: its own, then per alias that of its group's key and its child groups'."""
    return X[X_RING] + (i & (RING - 1)) * X[X_STRIDE]


@device
def spare_tags(X):
    """Where the tags of a row are kept that is no tuple of the batch."""
    return X[X_RING] + RING * X[X_STRIDE]


@device
def group_tag(tags):
    """Where the tag of the row's own group is, in the tags of a row."""
    return tags


@device
def link_tag(tags, j):
    """Where the tag of the group of child ``j`` is, in the tags of a row."""
    return tags + 1 + j


@device
def tag_groups(M, P, X, d, src, base, at):
    """Tags of the group keys of a row whose values are ``src[base ...]``, to ``X[at ...]``."""
    if P[d + N_PARENT] >= 0:
        X[group_tag(at)] = hash_key(M, P, P[d + N_KPOS], P[d + N_KEY], src, base)
    for j in range(P[d + N_CHILDREN]):
        dc = node_at(P[P[d + N_CHILD] + j])
        X[link_tag(at, j)] = hash_key(M, P, P[dc + N_PPOS], P[dc + N_KEY], src, base)


@device
def _home(M, t, tag):
    """Word of the home slot of ``tag`` in table ``t``."""
    return M[t + T_SLOTS] + (tag & M[t + T_MASK])


@device
def _first(M, t, tag):
    """The record that the home slot of ``tag`` names, or 0."""
    return M[_home(M, t, tag)] & LOW32


@device
def _fetch(M, handle, last):
    """A small record, from its first word to word ``last``: it may lie across two lines."""
    prefetch(M, handle)
    prefetch(M, handle + last)


@device
def _fetch_children_end(m32, g, k, carried):
    """The end of a group's children list, where the next entry goes."""
    if g != 0:
        prefetch(m32, children_base(m32, g, k, carried) + children_count(m32, g, k))


@device
def _fetch_parents_end(m32, g, k):
    """The end of a group's parents list."""
    if g != 0:
        prefetch(m32, parents_base(m32, g, k) + parents_count(m32, g, k))


@device
def ahead_insert(M, m32, P, X, r, rows, n, i):
    """Stages for insertions into the records ``r`` when tuple ``i`` of ``n`` is about to be applied."""
    width = P[r + R_WIDTH]
    aliases = P[r + R_ALIASES]
    nodes = P[r + R_NODES]
    ready = X[X_READY]
    while ready < n and ready <= i + FAR:
        at = ring_at(X, ready)
        X[at] = hash_key(M, P, P[P_IDENTITY], width, rows, ready * width)
        prefetch(M, _home(M, P[r + R_TABLE], X[at]))
        for q in range(nodes, nodes + aliases):
            d = node_at(P[q])
            tags = at + P[d + N_TAGS]
            tag_groups(M, P, X, d, rows, ready * width, tags)
            if P[d + N_PARENT] >= 0:
                prefetch(M, _home(M, P[d + N_GROUPS], X[group_tag(tags)]))
            for j in range(P[d + N_CHILDREN]):
                prefetch(M, _home(M, P[node_at(P[P[d + N_CHILD] + j]) + N_GROUPS], X[link_tag(tags, j)]))
        ready += 1
    X[X_READY] = ready
    if i + MIDDLE < n:
        at = ring_at(X, i + MIDDLE)
        for q in range(nodes, nodes + aliases):
            d = node_at(P[q])
            tags = at + P[d + N_TAGS]
            if P[d + N_PARENT] >= 0:
                _fetch(M, _first(M, P[d + N_GROUPS], X[group_tag(tags)]), last_group_word(P[d + N_KEY]))
            for j in range(P[d + N_CHILDREN]):
                dc = node_at(P[P[d + N_CHILD] + j])
                _fetch(M, _first(M, P[dc + N_GROUPS], X[link_tag(tags, j)]), last_group_word(P[dc + N_KEY]))
    if i + NEAR < n:
        at = ring_at(X, i + NEAR)
        for q in range(nodes, nodes + aliases):
            d = node_at(P[q])
            tags = at + P[d + N_TAGS]
            if P[d + N_PARENT] >= 0:
                k = P[d + N_KEY]
                g = _first(M, P[d + N_GROUPS], X[group_tag(tags)])
                _fetch_children_end(m32, g, k, P[d + N_CARRIED])
            for j in range(P[d + N_CHILDREN]):
                dc = node_at(P[P[d + N_CHILD] + j])
                k = P[dc + N_KEY]
                g = _first(M, P[dc + N_GROUPS], X[link_tag(tags, j)])
                _fetch_parents_end(m32, g, k)


@device
def _fetch_entries(m32, base, at, n):
    """Entry ``at`` of a list of length ``n`` and its last one, which will take its place."""
    prefetch(m32, base + at)
    prefetch(m32, base + n - 1)


@device
def ahead_delete(M, m32, P, X, r, rows, n, i):
    """Stages for deletions: slot, record, the groups that it names, the entries of their lists."""
    width = P[r + R_WIDTH]
    t = P[r + R_TABLE]
    aliases = P[r + R_ALIASES]
    nodes = P[r + R_NODES]
    ready = X[X_READY]
    while ready < n and ready <= i + FAR:
        at = ring_at(X, ready)
        X[at] = hash_key(M, P, P[P_IDENTITY], width, rows, ready * width)
        prefetch(M, _home(M, t, X[at]))
        ready += 1
    X[X_READY] = ready
    if i + MIDDLE < n:
        _fetch(M, _first(M, t, X[ring_at(X, i + MIDDLE)]), P[r + R_WORDS] - 1)
    if i + NEAR < n:
        record = _first(M, t, X[ring_at(X, i + NEAR)])
        if record != 0:
            for q in range(nodes, nodes + aliases):
                d = node_at(P[q])
                row = record + P[d + N_OFFSET]
                if row_group(m32, row) != 0:
                    _fetch(M, row_group(m32, row), last_group_word(P[d + N_KEY]))
                    for j in range(P[d + N_CHILDREN]):
                        dc = node_at(P[P[d + N_CHILD] + j])
                        _fetch(M, linked_group(m32, row, link_of(j)), last_group_word(P[dc + N_KEY]))
    if i + NEXT < n:
        record = _first(M, t, X[ring_at(X, i + NEXT)])
        if record != 0:
            for q in range(nodes, nodes + aliases):
                d = node_at(P[q])
                row = record + P[d + N_OFFSET]
                g = row_group(m32, row)
                if g != 0:
                    k = P[d + N_KEY]
                    at = row_position(m32, row)
                    if at >= 0:
                        base = children_base(m32, g, k, P[d + N_CARRIED])
                        _fetch_entries(m32, base, at, children_count(m32, g, k))
                    for j in range(P[d + N_CHILDREN]):
                        h = linked_group(m32, row, link_of(j))
                        k = P[node_at(P[P[d + N_CHILD] + j]) + N_KEY]
                        at = linked_position(m32, row, link_of(j))
                        _fetch_entries(m32, parents_base(m32, h, k), at, parents_count(m32, h, k))
