"""Whole-state kernels: set up, look-ups, counting, rebuilding live views, walking rows."""

from __future__ import annotations

from crown.kernels.arena import (
    FORMAT,
    H_BUDGET,
    H_FORMAT,
    H_LIVE_ON,
    H_MAGIC,
    H_ROOT,
    MAGIC,
    ONE,
    PLAIN,
    T_MASK,
    T_SLOTS,
    ZERO,
    alloc,
    at32,
    format_arena,
)
from crown.kernels.geometry import (
    children_base,
    children_count,
    copies,
    group_number,
    group_words,
    link_of,
    linked_group,
    parents_base,
    parents_count,
    row_position,
    set_live_parents,
)
from crown.kernels.groups import node_at
from crown.kernels.jit import kernel
from crown.kernels.layout import (
    N_CARRIED,
    N_CHILD,
    N_CHILDREN,
    N_FREE,
    N_GROUPS,
    N_KEY,
    N_OFFSET,
    N_PPOS,
    N_RECORD,
    N_VIRTUAL,
    P_COUNT,
    P_IDENTITY,
    R_TABLE,
    R_WIDTH,
)
from crown.kernels.pointers import constants, words
from crown.kernels.tables import LOW32, find, hash_key, new_table, table_at
from crown.kernels.update import set_live


@kernel
def create(M, m32, P, tables, limit, budget, seed):
    """An empty state: header, tables, and the root's group with its one live parent that does not exist."""
    M, m32, P = words(M), words(m32), constants(P)
    format_arena(M, tables, limit, seed)
    for t in range(tables):
        new_table(M, table_at(t))
    size = group_words(ZERO)
    g = alloc(M, size)
    for j in range(size):
        M[g + j] = 0
    set_live_parents(m32, g, ZERO, ONE)
    M[H_ROOT] = g
    M[H_BUDGET] = budget
    M[H_LIVE_ON] = 1


@kernel
def root_size(M, m32):
    """Rows in V_s(root)."""
    M, m32 = words(M), words(m32)
    return children_count(m32, M[H_ROOT], ZERO)


@kernel
def in_view(M, m32, P, node, values):
    """True iff ``values`` (int64[width], in the order of the node's record) is a row of V_s(node). Expected O(1)."""
    M, m32, P, values = words(M), words(m32), constants(P), words(values)
    d = node_at(node)
    if P[d + N_VIRTUAL] == 1:  # a virtual row has no table of its own: it is the one parent of its first child's group
        c = P[P[d + N_CHILD]]
        dc = node_at(c)
        k = P[dc + N_KEY]
        tag = hash_key(M, P, P[dc + N_PPOS], k, values, ZERO)
        g = find(M, P[dc + N_GROUPS], tag, P, P[dc + N_PPOS], k, values, ZERO)
        if g == 0 or parents_count(m32, g, k) == 0:
            return False
        row = at32(m32, parents_base(m32, g, k))
    else:
        r = P[d + N_RECORD]
        identity = P[P_IDENTITY]
        tag = hash_key(M, P, identity, P[r + R_WIDTH], values, ZERO)
        record = find(M, P[r + R_TABLE], tag, P, identity, P[r + R_WIDTH], values, ZERO)
        if record == 0:
            return False
        row = record + P[d + N_OFFSET]
    return row_position(m32, row) >= 0


@kernel
def missing_copies(M, m32, P, r, rows, weights):
    """Index of the first delete (``rows`` int64[n * width] of record descriptor ``r``, ``weights`` > 0) that finds too
    few copies, or -1.

    Changes nothing.
    """
    n = weights.size
    M, m32, P, rows = words(M), words(m32), constants(P), words(rows)
    width = P[r + R_WIDTH]
    identity = P[P_IDENTITY]
    for i in range(n):
        tag = hash_key(M, P, identity, width, rows, i * width)
        record = find(M, P[r + R_TABLE], tag, P, identity, width, rows, i * width)
        if record == 0 or copies(m32, record, width) < weights[i]:
            return i
    return -1


@kernel
def clear_live(M, m32, P):
    """Forget all liveness. O(groups)."""
    M, m32, P = words(M), words(m32), constants(P)
    for c in range(1, P[P_COUNT]):
        d = node_at(c)
        k = P[d + N_KEY]
        t = P[d + N_GROUPS]
        slots = M[t + T_SLOTS]
        for s in range(slots, slots + M[t + T_MASK] + 1):
            if M[s] != 0:
                set_live_parents(m32, M[s] & LOW32, k, ZERO)
    M[H_LIVE_ON] = 0


@kernel
def rebuild_live(M, m32, P, X):
    """Make every row of V_s(root), and what hangs on it, live again after a time without live views. O(state)."""
    M, m32, P, X = words(M), words(m32), constants(P), words(X)
    root = M[H_ROOT]
    base = children_base(m32, root, ZERO, PLAIN)
    for i in range(children_count(m32, root, ZERO)):
        set_live(M, m32, P, X, ZERO, at32(m32, base + i), ONE)
    M[H_LIVE_ON] = 1


@kernel
def count_results(M, m32, P, sums, order):
    """Number of results, bottom-up without enumerating.

    Results below a row = product over its free children of the sum over the group. ``sums`` (float64 and int64 agree
    until 2^53) is zeroed scratch, int64[``group_numbers``]; ``order`` the free nodes, children first. -1
    if the count leaves 62 bits. O(state).
    """
    M, m32, P = words(M), words(m32), constants(P)
    limit = 4.0e18
    for o in range(order.size):
        node = order[o]
        d = node_at(node)
        k = P[d + N_KEY]
        groups = 1
        slots = 0
        if node > 0:
            t = P[d + N_GROUPS]
            slots = M[t + T_SLOTS]
            groups = M[t + T_MASK] + 1
        for s in range(groups):
            g = M[H_ROOT]
            if node > 0:
                if M[slots + s] == 0:
                    continue
                g = M[slots + s] & LOW32
            base = children_base(m32, g, k, P[d + N_CARRIED])
            total = 0
            estimate = 0.0
            for i in range(children_count(m32, g, k)):
                row = at32(m32, base + i)
                product = 1
                size = 1.0
                for j in range(P[d + N_CHILDREN]):
                    c = P[P[d + N_CHILD] + j]
                    if P[node_at(c) + N_FREE] == 1:
                        below = sums[group_number(linked_group(m32, row, link_of(j)))]
                        product *= below
                        size *= below
                total += product
                estimate += size
            if estimate > limit:
                return -1
            sums[group_number(g)] = total
    return sums[group_number(M[H_ROOT])]


@kernel
def is_ours(M):
    """True iff the header is one that this version of the engine wrote."""
    return M[H_MAGIC] == MAGIC and M[H_FORMAT] == FORMAT
