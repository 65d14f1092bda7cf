"""The change of the set of distinct triples, update by update: resumable, into a reused column-major buffer.

A triple appears or goes if and only if the updated tuple does and the other two are there. Insertions change the state
first and are enumerated then; deletions the other way round. A pair of values heavy on both sides has its middles in a
wedge list; any other has a list of fewer than 3 theta / 2 entries to walk. O(N^max{eps, 1 - eps}) amortized per update
and O(1) per triple. Where only the number of the middles is kept, they are sought in the shorter list if it is not 0.
"""

from __future__ import annotations

from crown.kernels.arena import H_BUDGET, H_LIVE, NONE, T_MASK, T_SLOTS, ZERO, alloc, hi, lo, release
from crown.kernels.jit import device, kernel
from crown.kernels.pointers import constants, words
from crown.kernels.tables import LOW32, find, hash_key, insert, remove, table_at
from ivm_triangle.kernels.graph import find_word, is_heavy, lookup, tag_of
from ivm_triangle.kernels.layout import (
    C_OPS,
    C_TRIPLES,
    KEYS,
    V_IN,
    V_OUT,
    WORD,
    R,
)
from ivm_triangle.kernels.maintain import add, find_edge, update
from ivm_triangle.kernels.rules import pick
from ivm_triangle.kernels.views import add_sum, first_table, listing_at, sum_at

# The cursor: an int64 array, zero at the start of a batch. OVER is 1 if the next row found the budget used up.
ROW, PHASE, POSITION, EDGE, OVER = range(5)
NEW, LISTING = 0, 1
HOLD_MIDDLES = 3  # behind the three pair views: 1 for LIST, 0 for PAIRS


@device
def _emit(M, m32, k, x, y, z, sign, count, keys, width, out, capacity, rows):
    """One triple: into the buffer as it is, or (`count` >= 0) into the count of its key. Returns the rows in use."""
    M[C_TRIPLES] += sign
    if k == 0:
        a, b, c = x, y, z
    elif k == 1:
        a, b, c = z, x, y
    else:
        a, b, c = y, z, x
    if count >= 0:
        key = WORD(1)
        if width > 0:
            key = pick(a, b, c, keys[0])
        if width > 1:
            key = (key << 32) | pick(a, b, c, keys[1])
        before = sum_at(M, count, key)
        add_sum(M, m32, count, key, sign)
        if before > 0 and before + sign > 0:
            return rows
    out[rows] = M[a]
    out[capacity + rows] = M[b]
    out[2 * capacity + rows] = M[c]
    return rows + 1


@device
def _list_triples(M, m32, pairs, k, x, y, sign, count, keys, width, cur, out, capacity, rows):
    """Enumerate the triples of the edge (x, y) of relation k from `cur[POSITION]` on. Returns (rows, finished)."""
    k1 = k + 1 if k < 2 else ZERO
    k2 = k1 + 1 if k1 < 2 else ZERO
    if is_heavy(m32, y + V_OUT) and is_heavy(m32, x + V_IN):
        key = (y << 32) | x
        group = find_word(M, first_table(pairs[k1]), tag_of(M, key), key)
        if group == 0:
            return rows, True
        if pairs[HOLD_MIDDLES]:
            w = group + 1
            i = cur[POSITION]
            while i < hi(m32, w):
                if rows == capacity:
                    cur[POSITION] = i
                    return rows, False
                z = M[lo(m32, w) + i] >> 32
                rows = _emit(M, m32, k, x, y, z, sign, count, keys, width, out, capacity, rows)
                i += 1
            M[C_OPS] += hi(m32, w)
            return rows, True
    forward = hi(m32, y + V_OUT) <= hi(m32, x + V_IN)
    w = y + V_OUT if forward else x + V_IN
    t = table_at(3 + k2) if forward else table_at(3 + k1)
    if hi(m32, y + V_OUT) == 0 or hi(m32, x + V_IN) == 0:
        return rows, True
    i = cur[POSITION]
    while i < hi(m32, w):
        z = M[lo(m32, w) + i] >> 32
        word = (z << 32) | x if forward else (y << 32) | z
        if find_word(M, t, tag_of(M, word), word) != 0:
            if rows == capacity:
                cur[POSITION] = i
                return rows, False
            rows = _emit(M, m32, k, x, y, z, sign, count, keys, width, out, capacity, rows)
        i += 1
    M[C_OPS] += 2 * hi(m32, w)
    return rows, True


@kernel
def stream_rows(M, m32, P, eps, k, codes, weights, missing, sign, pairs, count, keys, cur, out):
    """Apply the rows (codes int64[n, 2]) whose weight has `sign`; returns the rows written to `out` int64[3, cap].

    Go on with the same cursor while `cur[ROW]` < n, unless `cur[OVER]` is 1: then more is live than the budget allows,
    and the rows from `cur[ROW]` on have not been applied. `pairs`: the pair views of R, S, T, and whether they
    hold the middles (LIST) or how many there are (PAIRS); `count`: the COUNT view and
    `keys` its variables, or -1 and none. Row i of `missing` receives the copies that a delete did not find.
    """
    n = codes.shape[0]
    width = keys.size
    capacity = out.shape[1]
    M, m32, P, eps, cur, out = words(M), words(m32), constants(P), words(eps), words(cur), words(out)
    codes, weights, missing = words(codes), words(weights), words(missing)
    pairs, keys = constants(pairs), constants(keys)
    rows = ZERO
    while cur[ROW] < n:
        i = cur[ROW]
        m = weights[i]
        if m * sign <= 0:
            cur[ROW] += 1
            continue
        if cur[PHASE] == NEW:
            e = find_edge(M, P, k, codes[2 * i], codes[2 * i + 1])
            old = M[e + 1] if e != 0 else ZERO
            if old + m < 0:
                missing[i] = -(old + m)
                m = -old
            if m == 0:
                cur[ROW] += 1
                continue
            if sign > 0 or old + m > 0:
                if sign > 0:
                    if M[H_LIVE] > M[H_BUDGET]:
                        cur[OVER] = 1
                        return rows
                    add(M, m32, P, eps, k, codes[2 * i], codes[2 * i + 1], m)
                else:
                    update(M, m32, P, eps, k, M[e] >> 32, M[e] & LOW32, e, m)
                if old > 0:
                    cur[ROW] += 1
                    continue
                e = find_edge(M, P, k, codes[2 * i], codes[2 * i + 1])
            cur[PHASE] = LISTING
            cur[POSITION] = 0
            cur[EDGE] = e
        e = cur[EDGE]
        x = M[e] >> 32
        y = M[e] & LOW32
        rows, finished = _list_triples(M, m32, pairs, k, x, y, sign, count, keys, width, cur, out, capacity, rows)
        if not finished:
            return rows
        if sign < 0:
            update(M, m32, P, eps, k, x, y, e, -M[e + 1])
        cur[PHASE] = NEW
        cur[ROW] += 1
    return rows


@kernel
def quiet_rows(M, m32, P, eps, k, codes, weights, missing, sign, cur):
    """The same changes of the state as `stream_rows`, without a stream; the cursor says how far it came."""
    n = codes.shape[0]
    M, m32, P, eps, cur = words(M), words(m32), constants(P), words(eps), words(cur)
    codes, weights, missing = words(codes), words(weights), words(missing)
    for i in range(n):
        cur[ROW] = i
        m = weights[i]
        if m * sign > 0:
            e = find_edge(M, P, k, codes[2 * i], codes[2 * i + 1])
            old = M[e + 1] if e != 0 else ZERO
            if old + m < 0:
                missing[i] = -(old + m)
                m = -old
            if m > 0:
                if M[H_LIVE] > M[H_BUDGET]:
                    cur[OVER] = 1
                    return
                add(M, m32, P, eps, k, codes[2 * i], codes[2 * i + 1], m)
            elif m < 0:
                update(M, m32, P, eps, k, M[e] >> 32, M[e] & LOW32, e, m)
    cur[ROW] = n


@kernel
def walk_rows(M, m32, pairs, keys, cur, out):
    """All triples, from the cursor on, into `out` int64[3, n]: per tuple of R its wedges or its shorter list."""
    width = keys.size
    capacity = out.shape[1]
    M, m32, cur, out = words(M), words(m32), words(cur), words(out)
    pairs, keys = constants(pairs), constants(keys)
    t = table_at(3 + R)
    rows = ZERO
    while cur[ROW] <= M[t + T_MASK]:
        slot = M[M[t + T_SLOTS] + cur[ROW]]
        if slot != 0:
            word = M[slot & LOW32]
            x = word >> 32
            y = word & LOW32
            rows, finished = _list_triples(M, m32, pairs, R, x, y, ZERO, NONE, keys, width, cur, out, capacity, rows)
            if not finished:
                return rows
            cur[POSITION] = 0
        cur[ROW] += 1
    return rows


@kernel
def keyed_rows(M, m32, view, width, cur, out):
    """The keys of a COUNT view, from `cur[ROW]` on, as values in `out` int64[width, n]; returns the rows written."""
    capacity = out.shape[1]
    M, m32, cur, out = words(M), words(m32), words(cur), words(out)
    rows = ZERO
    w = listing_at(view)
    while cur[ROW] < hi(m32, w) and rows < capacity:
        key = M[M[lo(m32, w) + cur[ROW]]]
        if width == 1:
            out[rows] = M[key]
        elif width == 2:
            out[rows] = M[key >> 32]
            out[capacity + rows] = M[key & LOW32]
        rows += 1
        cur[ROW] += 1
    return rows


# -- composite keys ----------------------------------------------------------------------------------------------------


@kernel
def code_rows(M, domain, columns, flat, w, make, codes):
    """Codes of composite keys: words `columns` of each row of `flat` int64[n * w]; 0 for an unknown key if not `make`.

    A code is the handle of the record that holds the key's words, so it is decoded by looking.
    """
    n = codes.size
    k = columns.size
    M, columns, flat, codes = words(M), constants(columns), words(flat), words(codes)
    t = table_at(KEYS + domain)
    for i in range(n):
        tag = hash_key(M, columns, ZERO, k, flat, i * w)
        record = find(M, t, tag, columns, ZERO, k, flat, i * w)
        if record == 0 and make:
            record = alloc(M, k)
            for j in range(k):
                M[record + j] = flat[i * w + columns[j]]
            insert(M, t, tag, record)
        codes[i] = record


@kernel
def forget_keys(M, domain, order, codes):
    """Free the composite keys among `codes` that no tuple has any more; `order` is 0, 1, .. (words of a key)."""
    n = codes.size
    k = order.size
    M, order, codes = words(M), constants(order), words(codes)
    t = table_at(KEYS + domain)
    for i in range(n):
        code = codes[i]
        if code != 0 and lookup(M, domain, code) == 0:
            tag = hash_key(M, order, ZERO, k, M, code)
            if find(M, t, tag, order, ZERO, k, M, code) == code:
                remove(M, t, tag, code)
                release(M, code, k)
            codes[i] = 0
