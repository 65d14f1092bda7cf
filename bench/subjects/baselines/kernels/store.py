"""Relations with indexes in the arena: what all baselines but Dynamic Yannakakis keep their tuples in.

**Row** of a relation with ``a`` attributes and ``x`` indexes (``a + 1 + x`` words): the values; a payload (how often
the tuple is there, or how many derivations it has); per index, low: its group, high: its position in the group's list.

**Group** of an index with a key of ``k`` attributes (``k + 2`` words): the key; low: list of rows, high: its length;
low: log2 capacity of the list. A list of capacity 1 is its own field.

Descriptors in the plan array ``P``: ``RD`` words per relation from ``P[P_RELATIONS]``, ``ID`` words per index from
``P[P_INDEXES]``. A tuple to be looked up lies in ``V``, one cell per attribute of the query.
"""

from __future__ import annotations

from crown.kernels.arena import ONE, ZERO, alloc, at32, hi, lo, release, set_hi, set_lo
from crown.kernels.jit import device, kernel
from crown.kernels.pointers import words
from crown.kernels.tables import find, hash_key, insert, new_table, remove, table_at

P_RELATIONS, P_INDEXES, P_ATOMS, P_OUT, P_OUTS, P_IDENTITY, P_ATTRIBUTES = 0, 1, 2, 3, 4, 5, 6
P_HEADER = 8
RD, R_WIDTH, R_TABLE, R_ATTRS, R_INDEXES, R_LIST, R_COUNTED = 6, 0, 1, 2, 3, 4, 5
ID, I_TABLE, I_KEY, I_ROWPOS, I_ATTRS, I_LINK = 5, 0, 1, 2, 3, 4


@kernel
def new_tables(M, tables):
    """Make the first ``tables`` tables empty."""
    M = words(M)
    for t in range(tables):
        new_table(M, table_at(t))


@device
def list_base(m32, field):
    """``m32`` index of the first row handle of the list whose field is word ``field``."""
    if at32(m32, 2 * field + 2) == 0:
        return 2 * field
    return 2 * lo(m32, field)


@device
def _resize(M, m32, field, log_new):
    n = hi(m32, field)
    log_old = at32(m32, 2 * field + 2)
    old = list_base(m32, field)
    block = lo(m32, field)
    if log_new == 0:
        if n > 0:
            set_lo(m32, field, at32(m32, old))
    else:
        fresh = alloc(M, 1 << (log_new - 1))
        for i in range(n):
            m32[2 * fresh + i] = at32(m32, old + i)
        set_lo(m32, field, fresh)
    m32[2 * field + 2] = log_new
    if log_old > 0:
        release(M, block, 1 << (log_old - 1))


@device
def list_append(M, m32, field, row):
    """Append a row; its position. Amortized O(1)."""
    n = hi(m32, field)
    log_capacity = at32(m32, 2 * field + 2)
    if n == (1 << log_capacity):
        _resize(M, m32, field, log_capacity + ONE)
    m32[list_base(m32, field) + n] = row
    set_hi(m32, field, n + 1)
    return n


@device
def list_remove(M, m32, field, at, link):
    """Take out entry ``at``; the last entry moves there and word ``link`` of its row learns so. Amortized O(1)."""
    n = hi(m32, field) - 1
    if at != n:
        base = list_base(m32, field)
        moved = at32(m32, base + n)
        m32[base + at] = moved
        set_hi(m32, moved + link, at)
    set_hi(m32, field, n)
    log_capacity = at32(m32, 2 * field + 2)
    if log_capacity > 0 and 4 * n <= (1 << log_capacity):
        _resize(M, m32, field, log_capacity - ONE)


@device
def group_of(M, P, x, V):
    """Group of index ``x`` (P offset) for the key in ``V``, or 0. Expected O(1)."""
    k = P[x + I_KEY]
    tag = hash_key(M, P, P[x + I_ATTRS], k, V, ZERO)
    return find(M, P[x + I_TABLE], tag, P, P[x + I_ATTRS], k, V, ZERO)


@device
def store_add(M, m32, P, r, V, weight):
    """Add ``weight`` to the payload of the tuple in ``V``: 1 if the tuple appeared, -1 if it vanished, else 0.

    A payload that would drop below zero is set to zero. Expected O(1) per index.
    """
    a = P[r + R_WIDTH]
    attrs = P[r + R_ATTRS]
    t = P[r + R_TABLE]
    tag = hash_key(M, P, attrs, a, V, ZERO)
    row = find(M, t, tag, P, attrs, a, V, ZERO)
    indexes = P[r + R_INDEXES]
    if row == 0:
        if weight <= 0:
            return 0
        row = alloc(M, a + 1 + indexes)
        for j in range(a):
            M[row + j] = V[P[attrs + j]]
        M[row + a] = weight
        insert(M, t, tag, row)
        for j in range(indexes):
            x = P[P[r + R_LIST] + j]
            k = P[x + I_KEY]
            pos = P[x + I_ATTRS]
            tag = hash_key(M, P, pos, k, V, ZERO)
            g = find(M, P[x + I_TABLE], tag, P, pos, k, V, ZERO)
            if g == 0:
                g = alloc(M, k + 2)
                for i in range(k):
                    M[g + i] = V[P[pos + i]]
                M[g + k] = 0
                M[g + k + 1] = 0
                insert(M, P[x + I_TABLE], tag, g)
            at = list_append(M, m32, g + k, row)
            set_lo(m32, row + P[x + I_LINK], g)
            set_hi(m32, row + P[x + I_LINK], at)
        return 1
    payload = M[row + a] + weight
    if payload > 0:
        M[row + a] = payload
        return 0
    remove(M, t, tag, row)
    for j in range(indexes):
        x = P[P[r + R_LIST] + j]
        k = P[x + I_KEY]
        link = P[x + I_LINK]
        g = lo(m32, row + link)
        list_remove(M, m32, g + k, hi(m32, row + link), link)
        if hi(m32, g + k) == 0:
            tag = hash_key(M, P, P[P_IDENTITY], k, M, g)
            remove(M, P[x + I_TABLE], tag, g)
            release(M, g, k + 2)
    release(M, row, a + 1 + indexes)
    return -1
