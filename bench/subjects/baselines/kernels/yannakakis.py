"""Dynamic Yannakakis: a join tree whose rows count the results of their subtrees.

Every row of a node carries ``payload`` = product over its children of the sums of their groups, 0 if it does not join;
a group carries the sum of the payloads of its rows. A change of a row's payload changes its group's sum and so the
payload of *every* parent row with that key, up to the root, also where no row starts or ceases to join. That walk is
what enclosureness does not bound; CROWN stops where nothing appears or disappears.

**Row** of a node with ``a`` attributes and children ``0..n-1`` (``a + 3 + n`` words): the values; payload;
multiplicity; low: group of the edge to the parent, high: position in its children, -1 if payload 0; per child, low:
group, high: position in its parents.

**Group** of an edge with a key of ``k`` attributes (``k + 5`` words): the key; children list (two words, the second
one's high half counts the rows of R_c with that key); parents list (two words); sum.

Source: Idris, Ugarte, Vansummeren, "The Dynamic Yannakakis Algorithm", SIGMOD 2017, Sections 4 and 5.
"""

from __future__ import annotations

from bench.subjects.baselines.kernels.sink import S_CAPACITY, S_TOUCHED, S_WIDTH, emit, flush
from bench.subjects.baselines.kernels.store import P_OUT, P_OUTS, list_append, list_base, list_remove
from crown.kernels.arena import NONE, ZERO, alloc, at32, hi, lo, release, set_hi, set_lo
from crown.kernels.jit import device, kernel
from crown.kernels.pointers import constants, words
from crown.kernels.tables import find, hash_key, insert, remove

Y_NODES, Y_IDENTITY = 1, 5
ND = 14
N_WIDTH, N_TABLE, N_ATTRS, N_PARENT, N_KEY, N_OWN, N_THERE, N_EDGES = 0, 1, 2, 3, 4, 5, 6, 7
N_CHILDREN, N_LIST, N_INDEX, N_FREE, N_SIDES, N_SIDE = 8, 9, 10, 11, 12, 13
FRAME, F_NODE, F_ROW, F_AT, F_FLAG = 4, 0, 1, 2, 3


@device
def node_at(P, node):
    """P offset of a node's descriptor."""
    return P[Y_NODES] + ND * node


@device
def _group(M, P, d, pos, row):
    """Group of the edge above the node at ``d`` for the key at positions ``pos`` of ``row``, made if absent."""
    k = P[d + N_KEY]
    tag = hash_key(M, P, pos, k, M, row)
    g = find(M, P[d + N_EDGES], tag, P, pos, k, M, row)
    if g == 0:
        g = alloc(M, k + 5)
        for j in range(k):
            M[g + j] = M[row + P[pos + j]]
        for j in range(k, k + 5):
            M[g + j] = 0
        insert(M, P[d + N_EDGES], tag, g)
    return g


@device
def _drop_group(M, m32, P, d, g):
    k = P[d + N_KEY]
    if hi(m32, g + k + 1) == 0 and hi(m32, g + k + 2) == 0:
        tag = hash_key(M, P, P[Y_IDENTITY], k, M, g)
        remove(M, P[d + N_EDGES], tag, g)
        release(M, g, k + 5)


@device
def _product(M, m32, P, d, row):
    """What the payload of a row ought to be."""
    a = P[d + N_WIDTH]
    product = 1
    for j in range(P[d + N_CHILDREN]):
        dc = node_at(P, P[P[d + N_LIST] + j])
        product *= M[lo(m32, row + a + 3 + j) + P[dc + N_KEY] + 4]
    return product


@device
def _bind(M, P, d, row, V):
    for j in range(P[d + N_WIDTH]):
        V[P[P[d + N_ATTRS] + j]] = M[row + j]


@device
def _results(M, m32, P, V, cur, F, start, sign, out, sink, factors):
    """Emit the results of the rows on the path from ``start`` to the root (in ``cur``). Constant delay."""
    d = node_at(P, start)
    sides = P[d + N_SIDES]
    node = start
    while node >= 0:
        dn = node_at(P, node)
        if P[dn + N_FREE] == 1:
            _bind(M, P, dn, cur[node], V)
        node = P[dn + N_PARENT]
    depth = 0
    opening = True
    while depth >= 0:
        if depth == sides:
            emit(P, P[P_OUT], P[P_OUTS], V, out, sink, factors, sign)
            depth -= 1
            opening = False
            continue
        node = P[P[d + N_SIDE] + depth]
        dn = node_at(P, node)
        f = 3 * depth
        if opening:
            parent = P[dn + N_PARENT]
            a = P[node_at(P, parent) + N_WIDTH]
            field = lo(m32, cur[parent] + a + 3 + P[dn + N_INDEX]) + P[dn + N_KEY]
            F[f] = -1
            F[f + 1] = hi(m32, field)
            F[f + 2] = list_base(m32, field)
        i = F[f] + 1
        if i == F[f + 1]:
            depth -= 1
            opening = False
            continue
        F[f] = i
        cur[node] = at32(m32, F[f + 2] + i)
        _bind(M, P, dn, cur[node], V)
        depth += 1
        opening = True


@device
def _walk(M, m32, P, V, cur, W, F, node, row, payload, deltas, sign, out, sink, factors):
    """Give a row a new payload, and all rows above it theirs."""
    start = node
    sp = 0
    flag = (M[row + P[node_at(P, node) + N_WIDTH]] == 0) != (payload == 0)
    while sp >= 0:
        f = FRAME * sp
        d = node_at(P, node)
        a = P[d + N_WIDTH]
        k = P[d + N_KEY]
        if row >= 0:  # a new frame
            old = M[row + a]
            M[row + a] = payload
            cur[node] = row
            sink[S_TOUCHED] += 1
            W[f + F_NODE] = node
            W[f + F_ROW] = row
            W[f + F_AT] = 0
            W[f + F_FLAG] = flag
            if P[d + N_PARENT] < 0:
                if flag and deltas:
                    _results(M, m32, P, V, cur, F, start, sign, out, sink, factors)
                sp -= 1
                row = -1
            else:
                g = lo(m32, row + a + 2)
                if old == 0:
                    set_hi(m32, row + a + 2, list_append(M, m32, g + k, row))
                elif payload == 0:
                    list_remove(M, m32, g + k, hi(m32, row + a + 2), a + 2)
                    set_hi(m32, row + a + 2, NONE)
                M[g + k + 4] += payload - old
                row = -1
        else:
            g = lo(m32, W[f + F_ROW] + a + 2)
            i = W[f + F_AT]
            if i == hi(m32, g + k + 2):
                sp -= 1
            else:
                W[f + F_AT] = i + 1
                parent = P[d + N_PARENT]
                dp = node_at(P, parent)
                above = at32(m32, list_base(m32, g + k + 2) + i)
                payload = _product(M, m32, P, dp, above)
                before = M[above + P[dp + N_WIDTH]]
                sink[S_TOUCHED] += 1
                if payload != before:
                    flag = W[f + F_FLAG] == 1
                    if P[d + N_FREE] == 0:
                        flag = (before == 0) != (payload == 0)
                    row = above
                    sp += 1
                    node = parent
                    continue
        if sp >= 0:
            node = W[FRAME * sp + F_NODE]


@kernel
def apply_rows(M, m32, P, V, cur, W, F, node, rows, weights, deltas, sign, out, sink, factors):
    """Insert (``sign`` 1) or delete (-1) tuples of a node (``rows`` int64[n * a]), one after the other."""
    changes = weights.size
    sink[S_WIDTH], sink[S_CAPACITY] = out.shape
    M, m32, P, V, cur, W, F = words(M), words(m32), constants(P), words(V), words(cur), words(W), words(F)
    rows, weights, out, sink, factors = words(rows), words(weights), words(out), words(sink), words(factors)
    d = node_at(P, node)
    a = P[d + N_WIDTH]
    identity = P[Y_IDENTITY]
    n = P[d + N_CHILDREN]
    for i in range(changes):
        tag = hash_key(M, P, identity, a, rows, i * a)
        row = find(M, P[d + N_TABLE], tag, P, identity, a, rows, i * a)
        if sign > 0:
            if row != 0:
                M[row + a + 1] += weights[i]
                continue
            row = alloc(M, a + 3 + n)
            for j in range(a):
                M[row + j] = rows[i * a + j]
            M[row + a] = 0
            M[row + a + 1] = weights[i]
            insert(M, P[d + N_TABLE], tag, row)
            if P[d + N_PARENT] >= 0:
                g = _group(M, P, d, P[d + N_OWN], row)
                k = P[d + N_KEY]
                set_hi(m32, g + k + 1, hi(m32, g + k + 1) + 1)
                set_lo(m32, row + a + 2, g)
                set_hi(m32, row + a + 2, NONE)
            for j in range(n):
                dc = node_at(P, P[P[d + N_LIST] + j])
                g = _group(M, P, dc, P[dc + N_THERE], row)
                set_lo(m32, row + a + 3 + j, g)
                set_hi(m32, row + a + 3 + j, list_append(M, m32, g + P[dc + N_KEY] + 2, row))
            payload = _product(M, m32, P, d, row)
            if payload != 0:
                _walk(M, m32, P, V, cur, W, F, node, row, payload, deltas, sign, out, sink, factors)
            continue
        if row == 0:
            continue
        M[row + a + 1] -= weights[i]
        if M[row + a + 1] > 0:
            continue
        if M[row + a] != 0:
            _walk(M, m32, P, V, cur, W, F, node, row, ZERO, deltas, sign, out, sink, factors)
        remove(M, P[d + N_TABLE], tag, row)
        for j in range(n):
            dc = node_at(P, P[P[d + N_LIST] + j])
            g = lo(m32, row + a + 3 + j)
            list_remove(M, m32, g + P[dc + N_KEY] + 2, hi(m32, row + a + 3 + j), a + 3 + j)
            _drop_group(M, m32, P, dc, g)
        if P[d + N_PARENT] >= 0:
            g = lo(m32, row + a + 2)
            k = P[d + N_KEY]
            set_hi(m32, g + k + 1, hi(m32, g + k + 1) - 1)
            _drop_group(M, m32, P, d, g)
        release(M, row, a + 3 + n)
    flush(out, sink, factors, sign)
