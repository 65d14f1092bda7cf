"""Groups and their two lists. See ``layout`` for the words.

Invariants: a row's position field points at its entry; in a parents list the first ``live`` entries are the live rows;
a group exists iff a row of R_c or of R_p has its key; list capacity is 1 or a power of two, at most four times the
length (or 1).
"""

from __future__ import annotations

from crown.kernels.arena import ONE, PLAIN, alloc, at32, hi, lo, release, set_hi, set_lo
from crown.kernels.jit import device, kernel
from crown.kernels.layout import N_GROUPS, N_KEY, ND, P_IDENTITY, P_NODES
from crown.kernels.tables import find, hash_key, insert, remove


@kernel
def node_at(node):
    """P offset of a node descriptor."""
    return P_NODES + ND * node


@device
def _list_words(log_capacity, inlined):
    """Words of the block of a list with capacity 2^log_capacity > 1."""
    capacity = 1 << log_capacity
    if inlined != PLAIN:
        return capacity + (capacity >> 1)
    return capacity >> 1


@device
def list_base(m32, field, log_at, inlined):
    """``m32`` index of the first handle of the list whose field is word ``field`` and log-capacity is
    ``m32[log_at]``.
    """
    log_capacity = at32(m32, log_at)
    if log_capacity == 0:
        return 2 * field
    base = 2 * lo(m32, field)
    if inlined != PLAIN:
        base += 2 << log_capacity
    return base


@device
def _list_resize(M, m32, field, log_at, inlined, log_new):
    """Move a list to a block of capacity 2^log_new (1 = back into the field)."""
    log_old = at32(m32, log_at)
    n = hi(m32, field)
    old = list_base(m32, field, log_at, inlined)
    old_block = lo(m32, field)
    if log_new == 0:
        if n > 0:
            set_lo(m32, field, at32(m32, old))
        m32[log_at] = 0
    else:
        block = alloc(M, _list_words(log_new, inlined))
        ids = 2 * block
        if inlined != PLAIN:
            ids += 2 << log_new
            if log_old > 0:
                for i in range(n):
                    M[block + i] = M[old_block + i]
        for i in range(n):
            m32[ids + i] = at32(m32, old + i)
        set_lo(m32, field, block)
        m32[log_at] = log_new
    if log_old > 0:
        release(M, old_block, _list_words(log_old, inlined))


@device
def list_append(M, m32, field, log_at, inlined, row):
    """Append a row.

    ``inlined`` is the word, counted from the row, whose value the list carries, or PLAIN. Position of the entry.
    Amortized O(1).
    """
    n = hi(m32, field)
    log_capacity = at32(m32, log_at)
    if n == (1 << log_capacity):
        if inlined != PLAIN and log_capacity == 0:
            first = lo(m32, field)
            _list_resize(M, m32, field, log_at, inlined, ONE)
            M[lo(m32, field)] = M[first + inlined]
        else:
            _list_resize(M, m32, field, log_at, inlined, log_capacity + 1)
        log_capacity += 1
    m32[list_base(m32, field, log_at, inlined) + n] = row
    if inlined != PLAIN and log_capacity > 0:
        M[lo(m32, field) + n] = M[row + inlined]
    set_hi(m32, field, n + 1)
    return n


@device
def list_remove(M, m32, field, log_at, inlined, at, link):
    """Take out entry ``at``.

    The last entry moves there. ``link`` is the row word that holds positions. Amortized O(1).
    """
    n = hi(m32, field) - 1
    log_capacity = at32(m32, log_at)
    if at != n:
        base = list_base(m32, field, log_at, inlined)
        moved = at32(m32, base + n)
        m32[base + at] = moved
        if inlined != PLAIN and log_capacity > 0:
            block = lo(m32, field)
            M[block + at] = M[block + n]
        set_hi(m32, moved + link, at)
    set_hi(m32, field, n)
    if log_capacity > 0 and 4 * n <= (1 << log_capacity):
        _list_resize(M, m32, field, log_at, inlined, log_capacity - 1)


@device
def group_get(M, m32, P, node, tag, src, base, pos):
    """Group of the edge above ``node`` with the key at ``src[base + P[pos + j]]``, whose tag is known, made if absent.
    Expected O(1).
    """
    d = node_at(node)
    k = P[d + N_KEY]
    t = P[d + N_GROUPS]
    g = find(M, t, tag, P, pos, k, src, base)
    if g == 0:
        g = alloc(M, k + 4)
        for j in range(k):
            M[g + j] = src[base + P[pos + j]]
        for j in range(k, k + 4):
            M[g + j] = 0
        insert(M, t, tag, g)
    return g


@device
def group_drop(M, m32, P, node, g):
    """Free the group if neither side refers to it any more. Both its lists are then empty and back in their fields."""
    d = node_at(node)
    k = P[d + N_KEY]
    if hi(m32, g + k + 1) == 0 and hi(m32, g + k + 2) == 0:
        tag = hash_key(M, P, P[P_IDENTITY], k, M, g)
        remove(M, P[d + N_GROUPS], tag, g)
        release(M, g, k + 4)
