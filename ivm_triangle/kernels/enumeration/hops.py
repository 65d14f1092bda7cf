"""Enumeration of Delta1(a) and Delta2(a, b): the union of materialized views and hop unions over buckets.

An element of a bucket is a middle record, identified by its handle. So the hop entries of all buckets are in one
`scratch` arena, outside the state: record = element, hop to, hopped from. The end of a bucket is the negated handle of
the bucket, the end of the bucket list is -1 - tree. Lists do not change while a cursor is open, so successors are
positions.
"""

from __future__ import annotations

from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import ONE, ZERO, alloc, format_arena
from crown.kernels.memory.pointers import constants, words
from crown.kernels.memory.tables import insert, new_table, table_at
from ivm_triangle.kernels.state.geometry import (
    groups_of,
    left,
    list_address,
    list_length,
    middles_of,
    multiplicity_of,
    pair_of,
    payload,
    place_of,
    right,
)
from ivm_triangle.kernels.state.graph import find_word, part_of, tag_of
from ivm_triangle.kernels.state.layout import HL, LH, WORD, R, S, T
from ivm_triangle.kernels.state.views import first_table, listing_at, second_table, sum_at
from ivm_triangle.kernels.update.rules import edge_of, slice_of

# The cursor: an int64 array, zero at the start.
HOP_RECORD = WORD(3)
HOP_TO, HOP_FROM = WORD(1), WORD(2)
DONE, OPS, MAX_DELAY, LAST, SOURCES, HOPS = 0, 1, 2, 3, 8, 24
HOP_WORDS = 4
BUCKET, ELEMENT, STARTED = 0, 1, 2
# The trees of a query: rows of (root view, pair view, shape).
BY_S, BY_T, BY_BOTH = 0, 1, 2  # candidates: c in S^LH(b, .); c in T^HL(., a); (c, b) in T^HL(., a) x R^LH(a, .)


@kernel("words, int")
def format_scratch(scratch, limit):
    """Formats an empty scratch arena for the hops of one cursor."""
    scratch = words(scratch)
    format_arena(scratch, ONE, limit, ONE)
    new_table(scratch, table_at(ZERO))


@device
def _entry(scratch, element, make):
    t = table_at(ZERO)
    tag = tag_of(scratch, element)
    record = find_word(scratch, t, tag, element)
    if record == 0 and make:
        record = alloc(scratch, HOP_RECORD)
        scratch[record] = element
        scratch[record + HOP_TO] = 0
        scratch[record + HOP_FROM] = 0
        insert(scratch, t, tag, record)
    return record


@device
def _hop(scratch, element):
    record = _entry(scratch, element, False)
    return element if record == 0 or scratch[record + HOP_TO] == 0 else scratch[record + HOP_TO]


@device
def _skip(scratch, element, to):
    """Excludes `element`, whose successor is `to`. Merges both directions with ranges that are already excluded."""
    to = _hop(scratch, to)
    record = _entry(scratch, element, False)
    start = element if record == 0 or scratch[record + HOP_FROM] == 0 else scratch[record + HOP_FROM]
    scratch[_entry(scratch, start, True) + HOP_TO] = to
    scratch[_entry(scratch, to, True) + HOP_FROM] = start


# -- buckets -----------------------------------------------------------------------------------------------------------


@device
def _outer(arena, halves, root, shape):
    """Returns the word of the list of buckets (records, or groups if a pair is a bucket); 0 if there is none."""
    w = listing_at(root)
    if shape != BY_BOTH:
        return w
    return groups_of(arena[list_address(halves, w)]) if list_length(halves, w) > 0 else ZERO


@device
def _next_bucket(arena, halves, scratch, root, shape, tree, bucket):
    """Returns the next bucket (0: the first one) that is not excluded; -1 - tree at the end."""
    w = _outer(arena, halves, root, shape)
    i = ZERO if bucket == 0 else place_of(arena, bucket) + 1
    if w == 0 or i >= list_length(halves, w):
        return -1 - tree
    return _hop(scratch, arena[list_address(halves, w) + i])


@device
def _first(arena, halves, bucket, shape):
    group = bucket if shape == BY_BOTH else arena[list_address(halves, groups_of(bucket))]
    return right(arena[list_address(halves, middles_of(group))])


@device
def _after(arena, halves, bucket, shape, element):
    """Returns the successor of a middle record in its bucket; the negated bucket at the end."""
    group = left(arena[element])
    i = payload(arena, element) + 1
    if i < list_length(halves, middles_of(group)):
        return right(arena[list_address(halves, middles_of(group)) + i])
    if shape == BY_BOTH:
        return -bucket
    i = place_of(arena, group) + 1
    if i >= list_length(halves, groups_of(bucket)):
        return -bucket
    group = arena[list_address(halves, groups_of(bucket)) + i]
    return right(arena[list_address(halves, middles_of(group))])


@device
def _exclude(arena, halves, scratch, root, shape, tree, bucket, element):
    """Excludes a result from another bucket that contains it, and that bucket from the bucket list if no result
    remains."""
    _skip(scratch, element, _after(arena, halves, bucket, shape, element))
    if _hop(scratch, _first(arena, halves, bucket, shape)) == -bucket:
        w = _outer(arena, halves, root, shape)
        i = place_of(arena, bucket) + 1
        _skip(scratch, bucket, arena[list_address(halves, w) + i] if i < list_length(halves, w) else -1 - tree)


@device
def _group(arena, pair, x, z):
    """Returns the group of a pair if it is in the root, else 0."""
    word = pair_of(x, z)
    group = find_word(arena, first_table(pair), tag_of(arena, word), word)
    return group if group != 0 and place_of(arena, group) >= 0 else ZERO


@device
def candidates(arena, halves, scratch, cur, root, pair, shape, tree, a, b, current, exclude):
    """Visits the buckets that contain a result. Returns (number of buckets, sum of products of multiplicities).

    With `exclude` the result is excluded from all of them except `current`.
    """
    found = ZERO
    weight = ZERO
    if shape == BY_BOTH:
        startb, countb = slice_of(halves, a, ZERO, LH)
        startc, countc = slice_of(halves, a, ONE, HL)
        cur[OPS] += countb * countc + 1
        for i in range(startb, startb + countb):
            b_entry = arena[i]
            for j in range(startc, startc + countc):
                c_entry = arena[j]
                group = _group(arena, pair, left(c_entry), left(b_entry))
                if group == 0:
                    continue
                found += 1
                s = edge_of(arena, S, left(b_entry), left(c_entry))
                weight += (
                    multiplicity_of(arena, right(b_entry))
                    * multiplicity_of(arena, s)
                    * multiplicity_of(arena, right(c_entry))
                )
                if exclude and group != current:
                    word = pair_of(group, a)
                    element = find_word(arena, second_table(pair), tag_of(arena, word), word)
                    _exclude(arena, halves, scratch, root, shape, tree, group, element)
        return found, weight
    r = edge_of(arena, R, a, b)
    cur[OPS] += 1
    if r == 0 or (part_of(halves, a, b) & 3 != 0) != (shape == BY_S):
        return found, weight
    if shape == BY_S:
        start, count = slice_of(halves, b, ZERO, LH)
    else:
        start, count = slice_of(halves, a, ONE, HL)
    cur[OPS] += count
    for i in range(start, start + count):
        c = left(arena[i])
        group = _group(arena, pair, a, c) if shape == BY_S else _group(arena, pair, c, b)
        if group == 0:
            continue
        found += 1
        other = edge_of(arena, T, c, a) if shape == BY_S else edge_of(arena, S, b, c)
        weight += multiplicity_of(arena, r) * multiplicity_of(arena, right(arena[i])) * multiplicity_of(arena, other)
        if exclude:
            bucket = find_word(arena, first_table(root), tag_of(arena, c), c)
            if bucket != current:
                word = pair_of(group, b if shape == BY_S else a)
                element = find_word(arena, second_table(pair), tag_of(arena, word), word)
                _exclude(arena, halves, scratch, root, shape, tree, bucket, element)
    return found, weight


# -- iterators ---------------------------------------------------------------------------------------------------------


@device
def _result_of(arena, element, shape):
    """Returns (a, b) of a middle record; b = 0 for Delta1."""
    pair = arena[left(arena[element])]
    middle = right(arena[element])
    if shape == BY_S:  # pair (a, c), middle b
        return left(pair), middle
    if shape == BY_T:  # pair (c, b), middle a
        return middle, right(pair)
    return middle, ZERO


@device
def _next_hop(arena, halves, scratch, cur, at, root, pair, shape, tree):
    """Returns the next result of a hop union as (a, b); (0, 0) at the end."""
    if cur[at + STARTED] == 0:
        cur[at + STARTED] = 1
        cur[at + BUCKET] = _next_bucket(arena, halves, scratch, root, shape, tree, ZERO)
    bucket = cur[at + BUCKET]
    if bucket < 0:
        return ZERO, ZERO
    cur[OPS] += 1
    element = cur[at + ELEMENT]
    element = _hop(
        scratch, _first(arena, halves, bucket, shape) if element == 0 else _after(arena, halves, bucket, shape, element)
    )
    if element < 0:
        bucket = _next_bucket(arena, halves, scratch, root, shape, tree, bucket)
        cur[at + BUCKET] = bucket
        cur[at + ELEMENT] = 0
        if bucket < 0:
            return ZERO, ZERO
        element = _hop(scratch, _first(arena, halves, bucket, shape))
    cur[at + ELEMENT] = element
    a, b = _result_of(arena, element, shape)
    candidates(arena, halves, scratch, cur, root, pair, shape, tree, a, b, bucket, True)
    return a, b


@device
def _next_sum(arena, halves, cur, i, view, pairs):
    """Returns the next key of a materialized view as (a, b); (0, 0) at the end."""
    w = listing_at(view)
    at = cur[SOURCES + i]
    cur[OPS] += 1
    if at >= list_length(halves, w):
        return ZERO, ZERO
    cur[SOURCES + i] = at + 1
    key = arena[arena[list_address(halves, w) + at]]
    return (left(key), right(key)) if pairs else (key, ZERO)


@kernel("words, halves, words, words, words, table, bool, table")
def union_rows(arena, halves, scratch, cur, sums, trees, pairs, out):
    """Fills `out` int64[3 or 2, n] column-major with results and multiplicities. Returns the number of rows.

    Fewer than n rows mean the end; call it again with the same cursor for more rows. Delay: a constant number of steps
    plus the visits of candidate buckets. `cur[MAX_DELAY]` is the maximum number of steps between two rows.
    """
    n = sums.size
    roots = trees.shape[0]
    capacity = out.shape[1]
    arena, halves, scratch, cur, out = words(arena), words(halves), words(scratch), words(cur), words(out)
    sums, trees = constants(sums), constants(trees)
    rows = ZERO
    while rows < capacity and cur[DONE] == 0:
        a, b = _next_sum(arena, halves, cur, ZERO, sums[0], pairs)
        for i in range(1, n):
            word = pair_of(a, b) if pairs else a
            cur[OPS] += 1
            if a == 0 or find_word(arena, first_table(sums[i]), tag_of(arena, word), word) != 0:
                a, b = _next_sum(arena, halves, cur, i, sums[i], pairs)
        for t in range(roots):
            root, pair, shape = trees[3 * t], trees[3 * t + 1], trees[3 * t + 2]
            inside = False
            if a != 0:
                found, _ = candidates(arena, halves, scratch, cur, root, pair, shape, t, a, b, ZERO, False)
                inside = found > 0
            if a == 0 or inside:
                a, b = _next_hop(arena, halves, scratch, cur, HOPS + HOP_WORDS * t, root, pair, shape, t)
        if a == 0:
            cur[DONE] = 1
            break
        weight = ZERO
        word = pair_of(a, b) if pairs else a
        for i in range(n):
            weight += sum_at(arena, sums[i], word)
        for t in range(roots):
            root, pair, shape = trees[3 * t], trees[3 * t + 1], trees[3 * t + 2]
            _, more = candidates(arena, halves, scratch, cur, root, pair, shape, t, a, b, ZERO, False)
            weight += more
        cur[OPS] += n
        cur[MAX_DELAY] = max(cur[MAX_DELAY], cur[OPS] - cur[LAST])
        cur[LAST] = cur[OPS]
        out[rows] = arena[a]
        if pairs:
            out[capacity + rows] = arena[b]
            out[2 * capacity + rows] = weight
        else:
            out[capacity + rows] = weight
        rows += 1
    return rows
