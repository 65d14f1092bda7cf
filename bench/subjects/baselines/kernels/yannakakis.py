"""Dynamic Yannakakis: a join tree whose rows count the results of their subtrees.

Every row of a node stores ``payload`` = product over its children of the sums of their groups, 0 if it does not join. A
group stores the sum of the payloads of its rows. A change of a row's payload changes its group's sum and so the payload
of *every* parent row with that key, up to the root, even where no row starts or ceases to join. Enclosureness does not
bound that walk; CROWN stops where nothing appears or disappears.

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
from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import NONE, ZERO, alloc, at32, hi, lo, release, set_hi, set_lo
from crown.kernels.memory.pointers import constants, words
from crown.kernels.memory.tables import find, hash_key, insert, remove

Y_NODES, Y_IDENTITY = 1, 5
ND = 14
N_WIDTH, N_TABLE, N_ATTRS, N_PARENT, N_KEY, N_OWN, N_THERE, N_EDGES = 0, 1, 2, 3, 4, 5, 6, 7
N_CHILDREN, N_LIST, N_INDEX, N_FREE, N_SIDES, N_SIDE = 8, 9, 10, 11, 12, 13
FRAME, F_NODE, F_ROW, F_AT, F_FLAG = 4, 0, 1, 2, 3


@device
def node_at(plan, node):
    """Returns the offset of a node's descriptor in the plan array."""
    return plan[Y_NODES] + ND * node


@device
def _group(arena, plan, d, pos, row):
    """Returns the group of the edge above the node at ``d`` for the key at ``pos`` of ``row``; creates it if absent."""
    k = plan[d + N_KEY]
    tag = hash_key(arena, plan, pos, k, arena, row)
    g = find(arena, plan[d + N_EDGES], tag, plan, pos, k, arena, row)
    if g == 0:
        g = alloc(arena, k + 5)
        for j in range(k):
            arena[g + j] = arena[row + plan[pos + j]]
        for j in range(k, k + 5):
            arena[g + j] = 0
        insert(arena, plan[d + N_EDGES], tag, g)
    return g


@device
def _drop_group(arena, halves, plan, d, g):
    k = plan[d + N_KEY]
    if hi(halves, g + k + 1) == 0 and hi(halves, g + k + 2) == 0:
        tag = hash_key(arena, plan, plan[Y_IDENTITY], k, arena, g)
        remove(arena, plan[d + N_EDGES], tag, g)
        release(arena, g, k + 5)


@device
def _product(arena, halves, plan, d, row):
    """Returns the correct payload of a row."""
    a = plan[d + N_WIDTH]
    product = 1
    for j in range(plan[d + N_CHILDREN]):
        dc = node_at(plan, plan[plan[d + N_LIST] + j])
        product *= arena[lo(halves, row + a + 3 + j) + plan[dc + N_KEY] + 4]
    return product


@device
def _bind(arena, plan, d, row, values):
    for j in range(plan[d + N_WIDTH]):
        values[plan[plan[d + N_ATTRS] + j]] = arena[row + j]


@device
def _results(arena, halves, plan, values, cur, frames, start, sign, out, sink, factors):
    """Emits the results of the rows on the path from ``start`` to the root (in ``cur``). Constant delay."""
    d = node_at(plan, start)
    sides = plan[d + N_SIDES]
    node = start
    while node >= 0:
        dn = node_at(plan, node)
        if plan[dn + N_FREE] == 1:
            _bind(arena, plan, dn, cur[node], values)
        node = plan[dn + N_PARENT]
    depth = 0
    opening = True
    while depth >= 0:
        if depth == sides:
            emit(plan, plan[P_OUT], plan[P_OUTS], values, out, sink, factors, sign)
            depth -= 1
            opening = False
            continue
        node = plan[plan[d + N_SIDE] + depth]
        dn = node_at(plan, node)
        f = 3 * depth
        if opening:
            parent = plan[dn + N_PARENT]
            a = plan[node_at(plan, parent) + N_WIDTH]
            field = lo(halves, cur[parent] + a + 3 + plan[dn + N_INDEX]) + plan[dn + N_KEY]
            frames[f] = -1
            frames[f + 1] = hi(halves, field)
            frames[f + 2] = list_base(halves, field)
        i = frames[f] + 1
        if i == frames[f + 1]:
            depth -= 1
            opening = False
            continue
        frames[f] = i
        cur[node] = at32(halves, frames[f + 2] + i)
        _bind(arena, plan, dn, cur[node], values)
        depth += 1
        opening = True


@device
def _walk(arena, halves, plan, values, cur, walks, frames, node, row, payload, deltas, sign, out, sink, factors):
    """Sets the payload of a row, and updates the payloads of all rows above it."""
    start = node
    sp = 0
    flag = (arena[row + plan[node_at(plan, node) + N_WIDTH]] == 0) != (payload == 0)
    while sp >= 0:
        f = FRAME * sp
        d = node_at(plan, node)
        a = plan[d + N_WIDTH]
        k = plan[d + N_KEY]
        if row >= 0:  # a new frame
            old = arena[row + a]
            arena[row + a] = payload
            cur[node] = row
            sink[S_TOUCHED] += 1
            walks[f + F_NODE] = node
            walks[f + F_ROW] = row
            walks[f + F_AT] = 0
            walks[f + F_FLAG] = flag
            if plan[d + N_PARENT] < 0:
                if flag and deltas:
                    _results(arena, halves, plan, values, cur, frames, start, sign, out, sink, factors)
                sp -= 1
                row = -1
            else:
                g = lo(halves, row + a + 2)
                if old == 0:
                    set_hi(halves, row + a + 2, list_append(arena, halves, g + k, row))
                elif payload == 0:
                    list_remove(arena, halves, g + k, hi(halves, row + a + 2), a + 2)
                    set_hi(halves, row + a + 2, NONE)
                arena[g + k + 4] += payload - old
                row = -1
        else:
            g = lo(halves, walks[f + F_ROW] + a + 2)
            i = walks[f + F_AT]
            if i == hi(halves, g + k + 2):
                sp -= 1
            else:
                walks[f + F_AT] = i + 1
                parent = plan[d + N_PARENT]
                dp = node_at(plan, parent)
                above = at32(halves, list_base(halves, g + k + 2) + i)
                payload = _product(arena, halves, plan, dp, above)
                before = arena[above + plan[dp + N_WIDTH]]
                sink[S_TOUCHED] += 1
                if payload != before:
                    flag = walks[f + F_FLAG] == 1
                    if plan[d + N_FREE] == 0:
                        flag = (before == 0) != (payload == 0)
                    row = above
                    sp += 1
                    node = parent
                    continue
        if sp >= 0:
            node = walks[FRAME * sp + F_NODE]


@kernel
def apply_rows(arena, halves, plan, values, cur, walks, frames, node, rows, weights, deltas, sign, out, sink, factors):
    """Inserts (``sign`` 1) or deletes (-1) tuples of a node (``rows`` int64[n * a]), one after the other."""
    changes = weights.size
    sink[S_WIDTH], sink[S_CAPACITY] = out.shape
    arena, halves, plan, values, cur, walks, frames = (
        words(arena),
        words(halves),
        constants(plan),
        words(values),
        words(cur),
        words(walks),
        words(frames),
    )
    rows, weights, out, sink, factors = words(rows), words(weights), words(out), words(sink), words(factors)
    d = node_at(plan, node)
    a = plan[d + N_WIDTH]
    identity = plan[Y_IDENTITY]
    n = plan[d + N_CHILDREN]
    for i in range(changes):
        tag = hash_key(arena, plan, identity, a, rows, i * a)
        row = find(arena, plan[d + N_TABLE], tag, plan, identity, a, rows, i * a)
        if sign > 0:
            if row != 0:
                arena[row + a + 1] += weights[i]
                continue
            row = alloc(arena, a + 3 + n)
            for j in range(a):
                arena[row + j] = rows[i * a + j]
            arena[row + a] = 0
            arena[row + a + 1] = weights[i]
            insert(arena, plan[d + N_TABLE], tag, row)
            if plan[d + N_PARENT] >= 0:
                g = _group(arena, plan, d, plan[d + N_OWN], row)
                k = plan[d + N_KEY]
                set_hi(halves, g + k + 1, hi(halves, g + k + 1) + 1)
                set_lo(halves, row + a + 2, g)
                set_hi(halves, row + a + 2, NONE)
            for j in range(n):
                dc = node_at(plan, plan[plan[d + N_LIST] + j])
                g = _group(arena, plan, dc, plan[dc + N_THERE], row)
                set_lo(halves, row + a + 3 + j, g)
                set_hi(halves, row + a + 3 + j, list_append(arena, halves, g + plan[dc + N_KEY] + 2, row))
            payload = _product(arena, halves, plan, d, row)
            if payload != 0:
                _walk(
                    arena,
                    halves,
                    plan,
                    values,
                    cur,
                    walks,
                    frames,
                    node,
                    row,
                    payload,
                    deltas,
                    sign,
                    out,
                    sink,
                    factors,
                )
            continue
        if row == 0:
            continue
        arena[row + a + 1] -= weights[i]
        if arena[row + a + 1] > 0:
            continue
        if arena[row + a] != 0:
            _walk(arena, halves, plan, values, cur, walks, frames, node, row, ZERO, deltas, sign, out, sink, factors)
        remove(arena, plan[d + N_TABLE], tag, row)
        for j in range(n):
            dc = node_at(plan, plan[plan[d + N_LIST] + j])
            g = lo(halves, row + a + 3 + j)
            list_remove(arena, halves, g + plan[dc + N_KEY] + 2, hi(halves, row + a + 3 + j), a + 3 + j)
            _drop_group(arena, halves, plan, dc, g)
        if plan[d + N_PARENT] >= 0:
            g = lo(halves, row + a + 2)
            k = plan[d + N_KEY]
            set_hi(halves, g + k + 1, hi(halves, g + k + 1) - 1)
            _drop_group(arena, halves, plan, d, g)
        release(arena, row, a + 3 + n)
    flush(out, sink, factors, sign)
