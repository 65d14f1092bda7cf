"""Relations with indexes in the arena, which store the tuples of all baselines except Dynamic Yannakakis.

**Row** of a relation with ``a`` attributes and ``x`` indexes (``a + 1 + x`` words): the values; a payload (the number
of copies or of derivations of the tuple); per index, low: its group, high: its position in the group's list.

**Group** of an index with a key of ``k`` attributes (``k + 2`` words): the key; low: list of rows, high: its length;
low: log2 capacity of the list. A list of capacity 1 is its own field.

Descriptors in the plan array: ``RD`` words per relation from ``plan[P_RELATIONS]``, ``ID`` words per index from
``plan[P_INDEXES]``. A tuple to be looked up is in ``values``, one cell per attribute of the query.
"""

from __future__ import annotations

from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import ONE, ZERO, alloc, at32, hi, lo, release, set_hi, set_lo
from crown.kernels.memory.pointers import words
from crown.kernels.memory.tables import find, hash_key, insert, new_table, remove, table_at

P_RELATIONS, P_INDEXES, P_ATOMS, P_OUT, P_OUTS, P_IDENTITY, P_ATTRIBUTES = 0, 1, 2, 3, 4, 5, 6
P_HEADER = 8
RD, R_WIDTH, R_TABLE, R_ATTRS, R_INDEXES, R_LIST, R_COUNTED = 6, 0, 1, 2, 3, 4, 5
ID, I_TABLE, I_KEY, I_ROWPOS, I_ATTRS, I_LINK = 5, 0, 1, 2, 3, 4


@kernel
def new_tables(arena, tables):
    """Creates the first ``tables`` tables, empty."""
    arena = words(arena)
    for t in range(tables):
        new_table(arena, table_at(t))


@device
def list_base(halves, field):
    """Returns the half word of the first row handle of the list whose field is word ``field``."""
    if at32(halves, 2 * field + 2) == 0:
        return 2 * field
    return 2 * lo(halves, field)


@device
def _resize(arena, halves, field, log_new):
    n = hi(halves, field)
    log_old = at32(halves, 2 * field + 2)
    old = list_base(halves, field)
    block = lo(halves, field)
    if log_new == 0:
        if n > 0:
            set_lo(halves, field, at32(halves, old))
    else:
        fresh = alloc(arena, 1 << (log_new - 1))
        for i in range(n):
            halves[2 * fresh + i] = at32(halves, old + i)
        set_lo(halves, field, fresh)
    halves[2 * field + 2] = log_new
    if log_old > 0:
        release(arena, block, 1 << (log_old - 1))


@device
def list_append(arena, halves, field, row):
    """Appends a row. Returns its position. Amortized O(1)."""
    n = hi(halves, field)
    log_capacity = at32(halves, 2 * field + 2)
    if n == (1 << log_capacity):
        _resize(arena, halves, field, log_capacity + ONE)
    halves[list_base(halves, field) + n] = row
    set_hi(halves, field, n + 1)
    return n


@device
def list_remove(arena, halves, field, at, link):
    """Removes entry ``at``: moves the last entry there and updates word ``link`` of its row. Amortized O(1)."""
    n = hi(halves, field) - 1
    if at != n:
        base = list_base(halves, field)
        moved = at32(halves, base + n)
        halves[base + at] = moved
        set_hi(halves, moved + link, at)
    set_hi(halves, field, n)
    log_capacity = at32(halves, 2 * field + 2)
    if log_capacity > 0 and 4 * n <= (1 << log_capacity):
        _resize(arena, halves, field, log_capacity - ONE)


@device
def group_of(arena, plan, x, values):
    """Returns the group of index ``x`` (an offset in the plan array) for the key in ``values``, or 0. Expected O(1)."""
    k = plan[x + I_KEY]
    tag = hash_key(arena, plan, plan[x + I_ATTRS], k, values, ZERO)
    return find(arena, plan[x + I_TABLE], tag, plan, plan[x + I_ATTRS], k, values, ZERO)


@device
def store_add(arena, halves, plan, relation, values, weight):
    """Adds ``weight`` to the payload of the tuple in ``values``. Returns 1 if the tuple appeared, -1 if it vanished,
    else 0.

    A payload that would drop below zero is set to zero. Expected O(1) per index.
    """
    a = plan[relation + R_WIDTH]
    attrs = plan[relation + R_ATTRS]
    t = plan[relation + R_TABLE]
    tag = hash_key(arena, plan, attrs, a, values, ZERO)
    row = find(arena, t, tag, plan, attrs, a, values, ZERO)
    indexes = plan[relation + R_INDEXES]
    if row == 0:
        if weight <= 0:
            return 0
        row = alloc(arena, a + 1 + indexes)
        for j in range(a):
            arena[row + j] = values[plan[attrs + j]]
        arena[row + a] = weight
        insert(arena, t, tag, row)
        for j in range(indexes):
            x = plan[plan[relation + R_LIST] + j]
            k = plan[x + I_KEY]
            pos = plan[x + I_ATTRS]
            tag = hash_key(arena, plan, pos, k, values, ZERO)
            g = find(arena, plan[x + I_TABLE], tag, plan, pos, k, values, ZERO)
            if g == 0:
                g = alloc(arena, k + 2)
                for i in range(k):
                    arena[g + i] = values[plan[pos + i]]
                arena[g + k] = 0
                arena[g + k + 1] = 0
                insert(arena, plan[x + I_TABLE], tag, g)
            at = list_append(arena, halves, g + k, row)
            set_lo(halves, row + plan[x + I_LINK], g)
            set_hi(halves, row + plan[x + I_LINK], at)
        return 1
    payload = arena[row + a] + weight
    if payload > 0:
        arena[row + a] = payload
        return 0
    remove(arena, t, tag, row)
    for j in range(indexes):
        x = plan[plan[relation + R_LIST] + j]
        k = plan[x + I_KEY]
        link = plan[x + I_LINK]
        g = lo(halves, row + link)
        list_remove(arena, halves, g + k, hi(halves, row + link), link)
        if hi(halves, g + k) == 0:
            tag = hash_key(arena, plan, plan[P_IDENTITY], k, arena, g)
            remove(arena, plan[x + I_TABLE], tag, g)
            release(arena, g, k + 2)
    release(arena, row, a + 1 + indexes)
    return -1
