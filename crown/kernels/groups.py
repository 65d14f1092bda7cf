"""Groups and their two lists. See ``geometry`` for the words.

Invariants: a row's position field points at its entry; in a parents list the first ``live`` entries are the live rows;
a group exists iff a row of R_c or of R_p has its key; list capacity is 1 or a power of two, at most four times the
length (or 1).
"""

from __future__ import annotations

from crown.kernels.arena import ONE, PLAIN, alloc, at32, release
from crown.kernels.geometry import (
    OWN_LINK,
    block_handles,
    children_field,
    children_log,
    group_words,
    list_base,
    list_block,
    list_length,
    list_words,
    parents_count,
    parents_field,
    parents_log,
    references,
    set_linked_position,
    set_list_block,
    set_list_length,
)
from crown.kernels.jit import device, kernel
from crown.kernels.layout import N_GROUPS, N_KEY, ND, P_IDENTITY, P_NODES
from crown.kernels.tables import find, hash_key, insert, remove


@kernel
def node_at(node):
    """P offset of a node descriptor."""
    return P_NODES + ND * node


@device
def _list_resize(M, m32, field, log_at, carried, log_new):
    """Move a list to a block of capacity 2^log_new (1 = back into the field)."""
    log_old = at32(m32, log_at)
    n = list_length(m32, field)
    old = list_base(m32, field, log_at, carried)
    old_block = list_block(m32, field)
    if log_new == 0:
        if n > 0:
            set_list_block(m32, field, at32(m32, old))
        m32[log_at] = 0
    else:
        block = alloc(M, list_words(log_new, carried))
        ids = block_handles(block, log_new, carried)
        if carried != PLAIN and log_old > 0:
            for i in range(n):
                M[block + i] = M[old_block + i]
        for i in range(n):
            m32[ids + i] = at32(m32, old + i)
        set_list_block(m32, field, block)
        m32[log_at] = log_new
    if log_old > 0:
        release(M, old_block, list_words(log_old, carried))


@device
def list_append(M, m32, field, log_at, carried, row):
    """Append a row; ``field``, ``log_at``, ``carried`` as in ``list_base``. Position of the entry. Amortized O(1)."""
    n = list_length(m32, field)
    log_capacity = at32(m32, log_at)
    if n == (1 << log_capacity):
        if carried != PLAIN and log_capacity == 0:
            first = list_block(m32, field)
            _list_resize(M, m32, field, log_at, carried, ONE)
            M[list_block(m32, field)] = M[first + carried]
        else:
            _list_resize(M, m32, field, log_at, carried, log_capacity + 1)
        log_capacity += 1
    m32[list_base(m32, field, log_at, carried) + n] = row
    if carried != PLAIN and log_capacity > 0:
        M[list_block(m32, field) + n] = M[row + carried]
    set_list_length(m32, field, n + 1)
    return n


@device
def list_remove(M, m32, field, log_at, carried, at, link):
    """Take out entry ``at``.

    The last entry moves there. ``link``: the row's link that holds its position. Amortized O(1).
    """
    n = list_length(m32, field) - 1
    log_capacity = at32(m32, log_at)
    if at != n:
        base = list_base(m32, field, log_at, carried)
        moved = at32(m32, base + n)
        m32[base + at] = moved
        if carried != PLAIN and log_capacity > 0:
            block = list_block(m32, field)
            M[block + at] = M[block + n]
        set_linked_position(m32, moved, link, at)
    set_list_length(m32, field, n)
    if log_capacity > 0 and 4 * n <= (1 << log_capacity):
        _list_resize(M, m32, field, log_at, carried, log_capacity - 1)


@device
def children_append(M, m32, g, k, carried, row):
    """The row enters V_s: append it to the children of its group. Its position. Amortized O(1)."""
    field = children_field(g, k)
    return list_append(M, m32, field, children_log(field), carried, row)


@device
def children_remove(M, m32, g, k, carried, at):
    """Take out the child at position ``at``. Amortized O(1)."""
    field = children_field(g, k)
    list_remove(M, m32, field, children_log(field), carried, at, OWN_LINK)


@device
def parents_append(M, m32, g, k, row):
    """Append a row to the parents of a group that it has a link to. Its position. Amortized O(1)."""
    field = parents_field(g, k)
    return list_append(M, m32, field, parents_log(field), PLAIN, row)


@device
def parents_remove(M, m32, g, k, at, link):
    """Take out the parent at position ``at``; parents have that link to the group. Amortized O(1)."""
    field = parents_field(g, k)
    list_remove(M, m32, field, parents_log(field), PLAIN, at, link)


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
        size = group_words(k)
        g = alloc(M, size)
        for j in range(k):
            M[g + j] = src[base + P[pos + j]]
        for j in range(k, size):
            M[g + j] = 0
        insert(M, t, tag, g)
    return g


@device
def group_drop(M, m32, P, node, g):
    """Free the group if neither side refers to it any more. Both its lists are then empty and back in their fields."""
    d = node_at(node)
    k = P[d + N_KEY]
    if parents_count(m32, g, k) == 0 and references(m32, g, k) == 0:
        tag = hash_key(M, P, P[P_IDENTITY], k, M, g)
        remove(M, P[d + N_GROUPS], tag, g)
        release(M, g, group_words(k))
