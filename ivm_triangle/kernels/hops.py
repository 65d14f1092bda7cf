"""Enumeration of Delta1(a) and Delta2(a, b): the union of materialized views and hop unions over buckets.

The kernel twin of `ivm_triangle.reference_enumerate`, with the same two mends. An element of a bucket is a middle
record; its handle names it, so the hop entries of all buckets lie in one scratch table `X`, outside the state:
record = element, hop to, hopped from. The end of a bucket is the negated handle of the bucket, the end of the bucket
list is -1 - tree. Lists do not change while a cursor is open, so successors are positions.
"""

from __future__ import annotations

from crown.kernels.arena import ONE, ZERO, alloc, format_arena, hi, lo
from crown.kernels.jit import device, kernel
from crown.kernels.pointers import constants, words
from crown.kernels.tables import LOW32, insert, new_table, table_at
from ivm_triangle.kernels.graph import find_word, part_of, tag_of
from ivm_triangle.kernels.layout import HL, LH, WORD, R, S, T
from ivm_triangle.kernels.rules import edge_of, slice_of
from ivm_triangle.kernels.views import first_table, listing_at, second_table, sum_at

# The cursor: an int64 array, zero at the start.
HOP_RECORD = WORD(3)
DONE, OPS, MAX_DELAY, LAST, SOURCES, HOPS = 0, 1, 2, 3, 8, 24
HOP_WORDS = 4
BUCKET, ELEMENT, STARTED = 0, 1, 2
# The trees of a query: rows of (root view, pair view, shape).
BY_S, BY_T, BY_BOTH = 0, 1, 2  # candidates: c in S^LH(b, .); c in T^HL(., a); (c, b) in T^HL(., a) x R^LH(a, .)


@kernel
def format_scratch(X, limit):
    """An empty scratch arena for the hops of one cursor."""
    X = words(X)
    format_arena(X, ONE, limit, ONE)
    new_table(X, table_at(ZERO))


@device
def _entry(X, element, make):
    t = table_at(ZERO)
    tag = tag_of(X, element)
    record = find_word(X, t, tag, element)
    if record == 0 and make:
        record = alloc(X, HOP_RECORD)
        X[record] = element
        X[record + 1] = 0
        X[record + 2] = 0
        insert(X, t, tag, record)
    return record


@device
def _hop(X, element):
    record = _entry(X, element, False)
    return element if record == 0 or X[record + 1] == 0 else X[record + 1]


@device
def _skip(X, element, to):
    """Exclude `element`, whose successor is `to`; both directions, over ranges that are already excluded."""
    to = _hop(X, to)
    record = _entry(X, element, False)
    start = element if record == 0 or X[record + 2] == 0 else X[record + 2]
    X[_entry(X, start, True) + 1] = to
    X[_entry(X, to, True) + 2] = start


# -- buckets -----------------------------------------------------------------------------------------------------------


@device
def _outer(M, m32, root, shape):
    """Word of the list of buckets: bucket records, or the groups themselves where a pair is a bucket; 0 if none."""
    w = listing_at(root)
    if shape != BY_BOTH:
        return w
    return M[lo(m32, w)] + 1 if hi(m32, w) > 0 else ZERO


@device
def _next_bucket(M, m32, X, root, shape, tree, bucket):
    """Successor of a bucket (0: the first one) that is not excluded; -1 - tree at the end."""
    w = _outer(M, m32, root, shape)
    i = ZERO if bucket == 0 else M[bucket + 3] + 1
    if w == 0 or i >= hi(m32, w):
        return -1 - tree
    return _hop(X, M[lo(m32, w) + i])


@device
def _first(M, m32, bucket, shape):
    group = bucket if shape == BY_BOTH else M[lo(m32, bucket + 1)]
    return M[lo(m32, group + 1)] & LOW32


@device
def _after(M, m32, bucket, shape, element):
    """Successor of a middle record in its bucket; the negated bucket at the end."""
    group = M[element] >> 32
    i = M[element + 1] + 1
    if i < hi(m32, group + 1):
        return M[lo(m32, group + 1) + i] & LOW32
    if shape == BY_BOTH:
        return -bucket
    i = M[group + 3] + 1
    if i >= hi(m32, bucket + 1):
        return -bucket
    group = M[lo(m32, bucket + 1) + i]
    return M[lo(m32, group + 1)] & LOW32


@device
def _exclude(M, m32, X, root, shape, tree, bucket, element):
    """Exclude a result from another bucket that has it, and that bucket from the bucket list if nothing is left."""
    _skip(X, element, _after(M, m32, bucket, shape, element))
    if _hop(X, _first(M, m32, bucket, shape)) == -bucket:
        w = _outer(M, m32, root, shape)
        i = M[bucket + 3] + 1
        _skip(X, bucket, M[lo(m32, w) + i] if i < hi(m32, w) else -1 - tree)


@device
def _group(M, pair, x, z):
    """The group of a pair if it is in the root, else 0."""
    word = (x << 32) | z
    group = find_word(M, first_table(pair), tag_of(M, word), word)
    return group if group != 0 and M[group + 3] >= 0 else ZERO


@device
def candidates(M, m32, X, cur, root, pair, shape, tree, a, b, current, exclude):
    """Visit the buckets that hold a result. Returns (number of buckets, sum of products of multiplicities).

    With `exclude` the result is excluded from all of them but `current`.
    """
    found = ZERO
    weight = ZERO
    if shape == BY_BOTH:
        startb, countb = slice_of(m32, a, ZERO, LH)
        startc, countc = slice_of(m32, a, ONE, HL)
        cur[OPS] += countb * countc + 1
        for i in range(startb, startb + countb):
            b_entry = M[i]
            for j in range(startc, startc + countc):
                c_entry = M[j]
                group = _group(M, pair, c_entry >> 32, b_entry >> 32)
                if group == 0:
                    continue
                found += 1
                s = edge_of(M, S, b_entry >> 32, c_entry >> 32)
                weight += M[(b_entry & LOW32) + 1] * M[s + 1] * M[(c_entry & LOW32) + 1]
                if exclude and group != current:
                    word = (group << 32) | a
                    element = find_word(M, second_table(pair), tag_of(M, word), word)
                    _exclude(M, m32, X, root, shape, tree, group, element)
        return found, weight
    r = edge_of(M, R, a, b)
    cur[OPS] += 1
    if r == 0 or (part_of(m32, a, b) & 3 != 0) != (shape == BY_S):
        return found, weight
    if shape == BY_S:
        start, count = slice_of(m32, b, ZERO, LH)
    else:
        start, count = slice_of(m32, a, ONE, HL)
    cur[OPS] += count
    for i in range(start, start + count):
        c = M[i] >> 32
        group = _group(M, pair, a, c) if shape == BY_S else _group(M, pair, c, b)
        if group == 0:
            continue
        found += 1
        other = edge_of(M, T, c, a) if shape == BY_S else edge_of(M, S, b, c)
        weight += M[r + 1] * M[(M[i] & LOW32) + 1] * M[other + 1]
        if exclude:
            bucket = find_word(M, first_table(root), tag_of(M, c), c)
            if bucket != current:
                word = (group << 32) | (b if shape == BY_S else a)
                element = find_word(M, second_table(pair), tag_of(M, word), word)
                _exclude(M, m32, X, root, shape, tree, bucket, element)
    return found, weight


# -- iterators ---------------------------------------------------------------------------------------------------------


@device
def _result_of(M, element, shape):
    """(a, b) of a middle record; b = 0 for Delta1."""
    pair = M[M[element] >> 32]
    middle = M[element] & LOW32
    if shape == BY_S:  # pair (a, c), middle b
        return pair >> 32, middle
    if shape == BY_T:  # pair (c, b), middle a
        return middle, pair & LOW32
    return middle, ZERO


@device
def _next_hop(M, m32, X, cur, at, root, pair, shape, tree):
    """Next result of a hop union as (a, b); (0, 0) at the end."""
    if cur[at + STARTED] == 0:
        cur[at + STARTED] = 1
        cur[at + BUCKET] = _next_bucket(M, m32, X, root, shape, tree, ZERO)
    bucket = cur[at + BUCKET]
    if bucket < 0:
        return ZERO, ZERO
    cur[OPS] += 1
    element = cur[at + ELEMENT]
    element = _hop(X, _first(M, m32, bucket, shape) if element == 0 else _after(M, m32, bucket, shape, element))
    if element < 0:
        bucket = _next_bucket(M, m32, X, root, shape, tree, bucket)
        cur[at + BUCKET] = bucket
        cur[at + ELEMENT] = 0
        if bucket < 0:
            return ZERO, ZERO
        element = _hop(X, _first(M, m32, bucket, shape))
    cur[at + ELEMENT] = element
    a, b = _result_of(M, element, shape)
    candidates(M, m32, X, cur, root, pair, shape, tree, a, b, bucket, True)
    return a, b


@device
def _next_sum(M, m32, cur, i, view, pairs):
    """Next key of a materialized view as (a, b); (0, 0) at the end."""
    w = listing_at(view)
    at = cur[SOURCES + i]
    cur[OPS] += 1
    if at >= hi(m32, w):
        return ZERO, ZERO
    cur[SOURCES + i] = at + 1
    key = M[M[lo(m32, w) + at]]
    return (key >> 32, key & LOW32) if pairs else (key, ZERO)


@kernel
def union_rows(M, m32, X, cur, sums, trees, pairs, out):
    """Fill `out` int64[3 or 2, n] column-major with results and multiplicities; returns the number of rows.

    Fewer than n rows: the end. Call again with the same cursor to go on. Delay: a constant number of steps plus the
    visits of candidate buckets; `cur[MAX_DELAY]` is the largest number of steps between two rows.
    """
    n = sums.size
    roots = trees.shape[0]
    capacity = out.shape[1]
    M, m32, X, cur, out = words(M), words(m32), words(X), words(cur), words(out)
    sums, trees = constants(sums), constants(trees)
    rows = ZERO
    while rows < capacity and cur[DONE] == 0:
        a, b = _next_sum(M, m32, cur, ZERO, sums[0], pairs)
        for i in range(1, n):
            word = (a << 32) | b if pairs else a
            cur[OPS] += 1
            if a == 0 or find_word(M, first_table(sums[i]), tag_of(M, word), word) != 0:
                a, b = _next_sum(M, m32, cur, i, sums[i], pairs)
        for t in range(roots):
            root, pair, shape = trees[3 * t], trees[3 * t + 1], trees[3 * t + 2]
            inside = False
            if a != 0:
                found, _ = candidates(M, m32, X, cur, root, pair, shape, t, a, b, ZERO, False)
                inside = found > 0
            if a == 0 or inside:
                a, b = _next_hop(M, m32, X, cur, HOPS + HOP_WORDS * t, root, pair, shape, t)
        if a == 0:
            cur[DONE] = 1
            break
        weight = ZERO
        word = (a << 32) | b if pairs else a
        for i in range(n):
            weight += sum_at(M, sums[i], word)
        for t in range(roots):
            root, pair, shape = trees[3 * t], trees[3 * t + 1], trees[3 * t + 2]
            _, more = candidates(M, m32, X, cur, root, pair, shape, t, a, b, ZERO, False)
            weight += more
        cur[OPS] += n
        cur[MAX_DELAY] = max(cur[MAX_DELAY], cur[OPS] - cur[LAST])
        cur[LAST] = cur[OPS]
        out[rows] = M[a]
        if pairs:
            out[capacity + rows] = M[b]
            out[2 * capacity + rows] = weight
        else:
            out[capacity + rows] = weight
        rows += 1
    return rows
