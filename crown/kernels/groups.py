"""Groups and their two lists. See ``layout`` for the words.

Invariants: a row's position field points at its entry; in a parents list the first ``live`` entries are the live rows;
a group exists iff a row of R_c or of R_p has its key; list capacity is 1 or a power of two, at most four times the
length (or 1).
"""

from __future__ import annotations

from crown.kernels.arena import alloc, release
from crown.kernels.jit import kernel
from crown.kernels.layout import N_GROUPS, N_IDENTITY, N_KEY, ND, P_NODES
from crown.kernels.tables import find, hash_key, insert, remove


@kernel
def node_at(node):
    """P offset of a node descriptor."""
    return P_NODES + ND * node


@kernel
def _list_words(log_capacity, carried):
    """Words of the block of a list with capacity 2^log_capacity > 1."""
    capacity = 1 << log_capacity
    if carried:
        return capacity + (capacity >> 1)
    return capacity >> 1


@kernel
def list_base(m32, field, log_at, carried):
    """``m32`` index of the first handle of the list whose field is word ``field`` and log-capacity is
    ``m32[log_at]``.
    """
    log_capacity = m32[log_at]
    if log_capacity == 0:
        return 2 * field
    base = 2 * m32[2 * field]
    if carried:
        base += 2 << log_capacity
    return base


@kernel
def _list_resize(M, m32, field, log_at, carried, log_new):
    """Move a list to a block of capacity 2^log_new (1 = back into the field)."""
    log_old = m32[log_at]
    n = m32[2 * field + 1]
    old = list_base(m32, field, log_at, carried)
    old_block = m32[2 * field]
    if log_new == 0:
        if n > 0:
            m32[2 * field] = m32[old]
        m32[log_at] = 0
    else:
        block = alloc(M, _list_words(log_new, carried))
        ids = 2 * block
        if carried:
            ids += 2 << log_new
            if log_old > 0:
                for i in range(n):
                    M[block + i] = M[old_block + i]
        for i in range(n):
            m32[ids + i] = m32[old + i]
        m32[2 * field] = block
        m32[log_at] = log_new
    if log_old > 0:
        release(M, old_block, _list_words(log_old, carried))


@kernel
def list_append(M, m32, field, log_at, inlined, row):
    """Append a row.

    ``inlined`` is the attribute whose value the list carries, or -1. Position of the entry. Amortized O(1).
    """
    n = m32[2 * field + 1]
    log_capacity = m32[log_at]
    carried = inlined >= 0
    if n == (1 << log_capacity):
        if carried and log_capacity == 0:
            first = m32[2 * field]
            _list_resize(M, m32, field, log_at, carried, 1)
            M[m32[2 * field]] = M[first + inlined]
        else:
            _list_resize(M, m32, field, log_at, carried, log_capacity + 1)
        log_capacity += 1
    m32[list_base(m32, field, log_at, carried) + n] = row
    if carried and log_capacity > 0:
        M[m32[2 * field] + n] = M[row + inlined]
    m32[2 * field + 1] = n + 1
    return n


@kernel
def list_remove(M, m32, field, log_at, inlined, at, link):
    """Take out entry ``at``.

    The last entry moves there. ``link`` is the row word that holds positions. Amortized O(1).
    """
    n = m32[2 * field + 1] - 1
    log_capacity = m32[log_at]
    carried = inlined >= 0
    if at != n:
        base = list_base(m32, field, log_at, carried)
        moved = m32[base + n]
        m32[base + at] = moved
        if carried and log_capacity > 0:
            block = m32[2 * field]
            M[block + at] = M[block + n]
        m32[2 * (moved + link) + 1] = at
    m32[2 * field + 1] = n
    if log_capacity > 0 and 4 * n <= (1 << log_capacity):
        _list_resize(M, m32, field, log_at, carried, log_capacity - 1)


@kernel
def group_get(M, m32, P, node, src, base, pos):
    """Group of the edge above ``node`` with the key at ``src[base + P[pos + j]]``, made if absent. Expected O(1)."""
    d = node_at(node)
    k = P[d + N_KEY]
    t = P[d + N_GROUPS]
    tag = hash_key(M, P, pos, k, src, base)
    g = find(M, t, tag, P, pos, k, src, base)
    if g == 0:
        g = alloc(M, k + 4)
        for j in range(k):
            M[g + j] = src[base + P[pos + j]]
        for j in range(k, k + 4):
            M[g + j] = 0
        insert(M, t, tag, g)
    return g


@kernel
def group_drop(M, m32, P, node, g):
    """Free the group if neither side refers to it any more. Both its lists are then empty and back in their fields."""
    d = node_at(node)
    k = P[d + N_KEY]
    if m32[2 * (g + k + 1) + 1] == 0 and m32[2 * (g + k + 2) + 1] == 0:
        tag = hash_key(M, P, P[d + N_IDENTITY], k, M, g)
        remove(M, P[d + N_GROUPS], tag, g)
        release(M, g, k + 4)
