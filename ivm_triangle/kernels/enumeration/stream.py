"""The change of the set of distinct triples, update by update: resumable, into a reused column-major buffer.

A triple is inserted or deleted if and only if the updated tuple is and the other two tuples are present. An insertion
changes the state first and is then enumerated; a deletion is enumerated first. A pair of values that are heavy on both
sides has its middles in a wedge list; any other pair has a list of fewer than 3 theta / 2 entries to scan. O(N^max{eps,
1 - eps}) amortized per update and O(1) per triple. If only the number of middles is stored, they are searched in the
shorter list unless it is 0.
"""

from __future__ import annotations

import numpy as np

from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import H_BUDGET, H_LIVE, NONE, T_CAPACITY, T_SLOTS, ZERO, alloc, release
from crown.kernels.memory.pointers import constants, words
from crown.kernels.memory.tables import find, hash_key, insert, remove, table_at
from crown.kernels.numbers.limbs import bounded_product
from ivm_triangle.kernels.state.context import Context
from ivm_triangle.kernels.state.geometry import (
    in_list,
    left,
    list_address,
    list_length,
    middles_of,
    multiplicity_of,
    out_list,
    pair_of,
    right,
    source,
    target,
)
from ivm_triangle.kernels.state.graph import find_word, is_heavy, lookup, tag_of
from ivm_triangle.kernels.state.layout import (
    C_OPS,
    C_TRIPLES,
    KEYS,
    WORD,
    R,
)
from ivm_triangle.kernels.state.views import add_sum, first_table, listing_at, sum_at
from ivm_triangle.kernels.update.maintain import add, find_edge, update
from ivm_triangle.kernels.update.rules import edge_of, pick

# The cursor: an int64 array, zero at the start of a batch. OVER is 1 if the next row found the budget used up. If
# results have weights, FACTOR is the changed copies of the row, and SOME is 1 if only some copies of a row were
# changed. FOUND is 1 if the triples of the row appear or disappear.
ROW, PHASE, POSITION, EDGE, OVER, FACTOR, FOUND, SOME = range(8)
NEW, LISTING = 0, 1
HOLD_MIDDLES = 3  # after the three pair views: 1 for LIST, 0 for PAIRS

# The positions of an atom's keys in its rows: the words of either key, then the columns of the first and of the second.
COLUMNS = np.int64(2)


@device
def _weight(arena, k1, k2, x, y, z, factor):
    """Returns `factor` times the copies of the edges (y, z) of relation k1 and (z, x) of relation k2."""
    one = multiplicity_of(arena, edge_of(arena, k1, y, z))
    two = multiplicity_of(arena, edge_of(arena, k2, z, x))
    return bounded_product(bounded_product(factor, one), two)


@device
def _emit(arena, halves, k, x, y, z, sign, factor, count, keys, width, out, capacity, rows):
    """Writes one triple to the buffer; with `count` >= 0, adds it to the count of its key, and writes it if the key
    appears or disappears. A `factor` other than 0 is the changed copies of (x, y): the weight of the triple follows.
    Adds `sign` to the number of triples. Returns the number of rows in `out`."""
    arena[C_TRIPLES] += sign
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
            key = pair_of(key, pick(a, b, c, keys[1]))
        before = sum_at(arena, count, key)
        add_sum(arena, halves, count, key, sign)
        if before > 0 and before + sign > 0:
            return rows
    out[rows] = arena[a]
    out[capacity + rows] = arena[b]
    out[2 * capacity + rows] = arena[c]
    if factor != 0:
        k1 = k + 1 if k < 2 else ZERO
        k2 = k1 + 1 if k1 < 2 else ZERO
        out[3 * capacity + rows] = _weight(arena, k1, k2, x, y, z, factor)
    return rows + 1


@device
def _list_triples(arena, halves, pairs, k, x, y, sign, count, keys, width, cur, out, capacity, rows):
    """Enumerates the triples of the edge (x, y) of relation k, from `cur[POSITION]`. Returns (rows, finished).

    `sign`, `count` and the factor `cur[FACTOR]`: see `_emit`.
    """
    factor = cur[FACTOR]
    k1 = k + 1 if k < 2 else ZERO
    k2 = k1 + 1 if k1 < 2 else ZERO
    if is_heavy(halves, out_list(y)) and is_heavy(halves, in_list(x)):
        key = pair_of(y, x)
        group = find_word(arena, first_table(pairs[k1]), tag_of(arena, key), key)
        if group == 0:
            return rows, True
        if pairs[HOLD_MIDDLES]:
            w = middles_of(group)
            i = cur[POSITION]
            while i < list_length(halves, w):
                if rows == capacity:
                    cur[POSITION] = i
                    return rows, False
                z = left(arena[list_address(halves, w) + i])
                rows = _emit(arena, halves, k, x, y, z, sign, factor, count, keys, width, out, capacity, rows)
                i += 1
            arena[C_OPS] += list_length(halves, w)
            return rows, True
    forward = list_length(halves, out_list(y)) <= list_length(halves, in_list(x))
    w = out_list(y) if forward else in_list(x)
    t = table_at(3 + k2) if forward else table_at(3 + k1)
    if list_length(halves, out_list(y)) == 0 or list_length(halves, in_list(x)) == 0:
        return rows, True
    i = cur[POSITION]
    while i < list_length(halves, w):
        z = left(arena[list_address(halves, w) + i])
        word = pair_of(z, x) if forward else pair_of(y, z)
        if find_word(arena, t, tag_of(arena, word), word) != 0:
            if rows == capacity:
                cur[POSITION] = i
                return rows, False
            rows = _emit(arena, halves, k, x, y, z, sign, factor, count, keys, width, out, capacity, rows)
        i += 1
    arena[C_OPS] += 2 * list_length(halves, w)
    return rows, True


@device
def _code_of(arena, domain, places, pos, k, flat, base, make):
    """Returns the code of a composite key of `k` words: the handle of the record that holds them. A missing record is
    made if `make`, else the code is 0. So decoding is a read of the record."""
    t = table_at(KEYS + domain)
    tag = hash_key(arena, places, pos, k, flat, base)
    record = find(arena, t, tag, places, pos, k, flat, base)
    if record == 0 and make:
        record = alloc(arena, k)
        for j in range(k):
            arena[record + j] = flat[base + places[pos + j]]
        insert(arena, t, tag, record)
    return record


@device
def _code_row(arena, k, places, flat, w, i, make, codes):
    """Writes the codes of the composite keys of row `i`. Other keys are their own codes and are present already."""
    if places[0] > 1:
        codes[2 * i] = _code_of(arena, k, places, COLUMNS, places[0], flat, i * w, make)
    if places[1] > 1:
        codes[2 * i + 1] = _code_of(arena, (k + 1) % 3, places, COLUMNS + places[0], places[1], flat, i * w, make)


@kernel(
    "words, halves, words, floats, int, table, words, int, words, words, words, "
    "int, int, words, int, words, words, table"
)
def stream_rows(
    arena, halves, plan, eps, k, codes, flat, w, places, weights, missing, sign, weighted, pairs, count, keys, cur, out
):
    """Applies the rows whose weight has `sign`. Returns the number of rows written to `out` int64[3, capacity], or, if
    `weighted`, int64[4, capacity] with their weights.

    `codes` int64[n, 2]: the keys of each row. Codes of composite keys are written here when the row is applied, from
    its words in `flat` int64[n * w] (see `COLUMNS` for `places`), and stay 0 for rows that are not applied. Call it
    again with the same cursor while `cur[ROW]` < n, unless `cur[OVER]` is 1: then more words are live than the budget
    allows, and the rows from `cur[ROW]` have not been applied. `pairs`: the pair views of R, S, T, and whether they
    store the middles (LIST) or their number (PAIRS). `count`: the COUNT view and `keys` its variables, or -1 and none.
    Row i of `missing` receives the copies that a delete did not find.
    """
    n = codes.shape[0]
    width = keys.size
    capacity = out.shape[1]
    arena, halves, plan, eps, cur, out = (
        words(arena),
        words(halves),
        constants(plan),
        words(eps),
        words(cur),
        words(out),
    )
    codes, flat, weights, missing = words(codes), words(flat), words(weights), words(missing)
    ctx = Context(arena, halves, plan, eps)
    places, pairs, keys = constants(places), constants(pairs), constants(keys)
    rows = ZERO
    while cur[ROW] < n:
        i = cur[ROW]
        m = weights[i]
        if m * sign <= 0:
            cur[ROW] += 1
            continue
        if cur[PHASE] == NEW:
            if sign > 0 and arena[H_LIVE] > arena[H_BUDGET]:  # before its keys are made
                cur[OVER] = 1
                return rows
            _code_row(arena, k, places, flat, w, i, sign > 0, codes)
            e = find_edge(arena, plan, k, codes[2 * i], codes[2 * i + 1])
            old = multiplicity_of(arena, e) if e != 0 else ZERO
            if old + m < 0:
                missing[i] = -(old + m)
                m = -old
            if m == 0:
                cur[ROW] += 1
                continue
            appears = old == 0 or old + m == 0
            if sign > 0 or old + m > 0:
                if sign > 0:
                    add(ctx, k, codes[2 * i], codes[2 * i + 1], m)
                else:
                    update(ctx, k, source(arena, e), target(arena, e), e, m)
                if not appears and weighted == 0:
                    cur[ROW] += 1
                    continue
                e = find_edge(arena, plan, k, codes[2 * i], codes[2 * i + 1])
            cur[FOUND] = 1 if appears else 0
            if not appears:
                cur[SOME] = 1
            cur[FACTOR] = m if weighted else 0
            cur[PHASE] = LISTING
            cur[POSITION] = 0
            cur[EDGE] = e
        e = cur[EDGE]
        x = source(arena, e)
        y = target(arena, e)
        rows, finished = _list_triples(
            arena, halves, pairs, k, x, y, sign * cur[FOUND], count, keys, width, cur, out, capacity, rows
        )
        if not finished:
            return rows
        if sign < 0 and cur[FOUND]:
            update(ctx, k, x, y, e, -multiplicity_of(arena, e))
        cur[PHASE] = NEW
        cur[ROW] += 1
    return rows


@kernel("words, words, int, table, words, int, words, words")
def find_copies(arena, plan, k, codes, flat, w, places, copies):
    """Writes the copies of rows of relation k to `copies` int64[n]; 0 for an absent row. The other arguments are those
    of `stream_rows`."""
    arena, plan, codes, flat, places = words(arena), constants(plan), words(codes), words(flat), constants(places)
    for i in range(copies.size):
        _code_row(arena, k, places, flat, w, i, False, codes)
        e = find_edge(arena, plan, k, codes[2 * i], codes[2 * i + 1])
        copies[i] = multiplicity_of(arena, e) if e != 0 else ZERO


@kernel("words, halves, int, words, words, words, table")
def walk_rows(arena, halves, weighted, pairs, keys, cur, out):
    """Writes all triples, from the cursor on, to `out` int64[3, n], or, if `weighted`, int64[4, n] with their weights:
    per tuple of R its wedges or its shorter list."""
    width = keys.size
    capacity = out.shape[1]
    arena, halves, cur, out = words(arena), words(halves), words(cur), words(out)
    pairs, keys = constants(pairs), constants(keys)
    t = table_at(3 + R)
    rows = ZERO
    while cur[ROW] < arena[t + T_CAPACITY]:
        slot = arena[arena[t + T_SLOTS] + cur[ROW]]
        if slot != 0:
            word = arena[right(slot)]
            x = left(word)
            y = right(word)
            cur[FACTOR] = multiplicity_of(arena, right(slot)) if weighted else 0
            rows, finished = _list_triples(
                arena, halves, pairs, R, x, y, ZERO, NONE, keys, width, cur, out, capacity, rows
            )
            if not finished:
                return rows
            cur[POSITION] = 0
        cur[ROW] += 1
    return rows


@kernel("words, halves, int, int, words, table")
def keyed_rows(arena, halves, view, width, cur, out):
    """Writes the keys of a COUNT view, from `cur[ROW]`, as values to `out` int64[width, n]. Returns their number."""
    capacity = out.shape[1]
    arena, halves, cur, out = words(arena), words(halves), words(cur), words(out)
    rows = ZERO
    w = listing_at(view)
    while cur[ROW] < list_length(halves, w) and rows < capacity:
        key = arena[arena[list_address(halves, w) + cur[ROW]]]
        if width == 1:
            out[rows] = arena[key]
        elif width == 2:
            out[rows] = arena[left(key)]
            out[capacity + rows] = arena[right(key)]
        rows += 1
        cur[ROW] += 1
    return rows


# -- composite keys ----------------------------------------------------------------------------------------------------


@kernel("words, int, words, words")
def forget_keys(arena, domain, order, codes):
    """Frees the composite keys among `codes` that no tuple has any more. `order` is 0, 1, .. (words of a key)."""
    n = codes.size
    k = order.size
    arena, order, codes = words(arena), constants(order), words(codes)
    t = table_at(KEYS + domain)
    for i in range(n):
        code = codes[i]
        if code != 0 and lookup(arena, domain, code) == 0:
            tag = hash_key(arena, order, ZERO, k, arena, code)
            if find(arena, t, tag, order, ZERO, k, arena, code) == code:
                remove(arena, t, tag, code)
                release(arena, code, k)
            codes[i] = 0
