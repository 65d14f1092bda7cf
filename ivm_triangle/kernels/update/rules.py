"""Applies the rules of an update (x, y) -> m to the views. One kernel serves all programs.

The steps are rows of the plan array (see `ivm_triangle.terms.Step`). Every scan is one contiguous slice of an adjacency
list, because heavy other ends come first; a scan from the flag that the mask excludes is empty and costs O(1).
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.tables import table_at
from ivm_triangle.kernels.state.geometry import (
    in_list,
    left,
    list_address,
    list_extra,
    list_length,
    list_of,
    multiplicity_of,
    out_list,
    pair_of,
    payload,
    right,
)
from ivm_triangle.kernels.state.graph import after, find_word, is_heavy, lookup, part_of, tag_of
from ivm_triangle.kernels.state.layout import (
    C_MARKS,
    C_OPS,
    C_TOTAL,
    COUNT_MASK,
    H0,
    H1,
    H2,
    HIT,
    K_LIST,
    K_PAIRS,
    K_ROOT,
    K_SET,
    K_SUM,
    K_TOTAL,
    KIND,
    LOAD,
    LOAD_LOOKUPS,
    LOADS,
    MARK_WORDS,
    MASK0,
    MASK1,
    MASK2,
    MOVE,
    P_STARTS,
    P_STEPS,
    SCAN,
    STEP_WORDS,
    UNLESS_HEAVY,
    W0,
    W1,
    W2,
    WORD,
    WRITE,
)
from ivm_triangle.kernels.state.views import add_sum, change_list, change_set, first_table, set_root, view_at

MARK_UP_TO, LIKE = 256, 4  # lengths for which marking is faster than probing, as measured


@device
def slice_of(halves, v, column, mask):
    """Returns (first word, length) of the entries of v's list in that column whose edges are in the parts `mask`."""
    w = list_of(v, column)
    extra = list_extra(halves, w)
    count = extra & COUNT_MASK
    length = list_length(halves, w)
    if mask == 15:
        return list_address(halves, w), length
    own = 0 if extra > COUNT_MASK else 1  # 0: heavy
    if column == 0:
        heavy = (mask >> (2 * own)) & 1
        light = (mask >> (2 * own + 1)) & 1
    else:
        heavy = (mask >> own) & 1
        light = (mask >> (2 + own)) & 1
    start = WORD(0) if heavy else count
    end = length if light else count
    return list_address(halves, w) + start, max(end - start, WORD(0))


@device
def pick(x, y, z, which):
    """Returns the vertex of role `which`: 0 is x, 1 is y, 2 is z."""
    return x if which == 0 else (y if which == 1 else z)


@device
def key_of(x, y, z, first, second):
    """Returns the key word of a view: one vertex, or two in one word (`second` < 0: one)."""
    v = pick(x, y, z, first)
    return v if second < 0 else pair_of(v, pick(x, y, z, second))


@device
def _probe_all(arena, halves, table, start, length, pivot, forward, mask):
    """Returns the sum of products over a slice: z in it, other edge z -> pivot (forward) or pivot -> z in `table`."""
    t = table_at(table)
    total = WORD(0)
    for i in range(start, start + length):
        entry = arena[i]
        z = left(entry)
        word = pair_of(z, pivot) if forward else pair_of(pivot, z)
        e = find_word(arena, t, tag_of(arena, word), word)
        if e != 0 and (mask == 15 or mask & (part_of(halves, z, pivot) if forward else part_of(halves, pivot, z))):
            total += multiplicity_of(arena, right(entry)) * multiplicity_of(arena, e)
    arena[C_OPS] += 2 * length
    return total


@device
def _mark_of(z):
    """Returns the bit number of a vertex in the bitmap."""
    return ((z * -7046029254386353131) >> 51) & (64 * MARK_WORDS - 1)


@device
def _mark_and_probe(arena, table, start, length, other, other_length, pivot, forward):
    """Computes the sum from both slices: marks the z of the shorter one in a bitmap, scans the longer one, and probes
    marked z.

    Scans contiguous memory twice instead of one cache miss per z. `table` has the edges of the shorter slice.
    """
    t = table_at(table)
    for i in range(start, start + length):
        mark = _mark_of(left(arena[i]))
        arena[C_MARKS + (mark >> 6)] |= WORD(1) << (mark & 63)
    total = WORD(0)
    probes = WORD(0)
    for i in range(other, other + other_length):
        entry = arena[i]
        z = left(entry)
        mark = _mark_of(z)
        if (arena[C_MARKS + (mark >> 6)] >> (mark & 63)) & 1:
            probes += 1
            word = pair_of(z, pivot) if forward else pair_of(pivot, z)
            e = find_word(arena, t, tag_of(arena, word), word)
            if e != 0:
                total += multiplicity_of(arena, right(entry)) * multiplicity_of(arena, e)
    for i in range(start, start + length):
        arena[C_MARKS + (_mark_of(left(arena[i])) >> 6)] = 0
    arena[C_OPS] += 2 * (length + other_length) + probes
    return total


@device
def common(arena, halves, k1, k2, x, y, start1, length1, start2, length2, mask1, mask2, marks):
    """Returns the sum of products over the z in both slices: K1(y, z) in [start1, ..), K2(z, x) in [start2, ..).

    O(min(length1, length2)): scans the shorter slice and probes the other. With `marks`, scans both slices if their
    lengths are similar.
    """
    first = length1 <= length2
    short = length1 if first else length2
    long = length2 if first else length1
    start = start1 if first else start2
    other = start2 if first else start1
    if marks and short <= MARK_UP_TO and long <= LIKE * short:
        return _mark_and_probe(
            arena, 3 + k1 if first else 3 + k2, start, short, other, long, y if first else x, not first
        )
    table = 3 + k2 if first else 3 + k1
    return _probe_all(arena, halves, table, start, short, x if first else y, first, mask2 if first else mask1)


@device
def scan_step(ctx, row, k, x, y, m, flip, counting):
    """Scans K1(y, .) or K2(., x), the shorter one if the rule permits both, and probes the other one."""
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    k1 = after(plan, k)
    k2 = after(plan, k1)
    mask1 = plan[row + MASK1]
    mask2 = plan[row + MASK2]
    start1, length1 = slice_of(halves, y, WORD(0), mask1)
    start2, length2 = slice_of(halves, x, WORD(1), mask2)
    way = plan[row + SCAN]
    marks = way == UNLESS_HEAVY  # such a step reads all parts
    if marks:
        if is_heavy(halves, out_list(y)) and is_heavy(halves, in_list(x)):
            return
        way = 0
    first = way == 1 or (way == 0 and length1 <= length2)
    length = length1 if first else length2
    if length == 0:
        return
    write = plan[row + WRITE]
    hit = plan[row + HIT]
    write_kind = plan[view_at(write) + KIND] if write >= 0 else -1
    hit_kind = plan[view_at(hit) + KIND] if hit >= 0 else -1
    if hit_kind == K_TOTAL and not counting:
        hit_kind = -1
    if write_kind == -1:
        if way == 0 and (length1 == 0 or length2 == 0):
            return
        if hit_kind == -1:
            return
        if hit_kind == K_TOTAL:
            arena[C_TOTAL] += m * common(
                arena, halves, k1, k2, x, y, start1, length1, start2, length2, mask1, mask2, marks
            )
            return
        arena[C_OPS] += 2 * length
    else:
        arena[C_OPS] += length if hit_kind == -1 else 2 * length
    present = WORD(1)
    start = start1 if first else start2
    t = table_at(3 + k2 if first else 3 + k1)
    work = 0
    for i in range(start, start + length):
        entry = arena[i]
        z = left(entry)
        scanned = multiplicity_of(arena, right(entry))
        group = WORD(0)
        if write_kind == K_SUM:
            add_sum(arena, halves, write, key_of(x, y, z, plan[row + W0], plan[row + W1]), m * scanned)
            work += 1
        elif write_kind == K_PAIRS:
            add_sum(arena, halves, write, key_of(x, y, z, plan[row + W0], plan[row + W1]), flip)
            work += 1
        elif write_kind == K_LIST and flip != 0:
            key = key_of(x, y, z, plan[row + W0], plan[row + W1])
            group = change_list(ctx, write, key, pick(x, y, z, plan[row + W2]), flip)
            work += 1
        if hit_kind == -1 or (flip == 0 and hit_kind >= K_SET) or (hit_kind == K_ROOT and group == 0):
            continue
        word = pair_of(z, x) if first else pair_of(y, z)
        e = find_word(arena, t, tag_of(arena, word), word)
        if e == 0:
            continue
        if first:
            if mask2 != 15 and not mask2 & part_of(halves, z, x):
                continue
        elif mask1 != 15 and not mask1 & part_of(halves, y, z):
            continue
        work += 1
        if hit_kind == K_TOTAL:
            arena[C_TOTAL] += m * scanned * multiplicity_of(arena, e)
        elif hit_kind == K_SUM:
            add_sum(
                arena,
                halves,
                hit,
                key_of(x, y, z, plan[row + H0], plan[row + H1]),
                m * scanned * multiplicity_of(arena, e),
            )
        elif hit_kind == K_SET:
            ab = key_of(x, y, z, plan[row + H0], plan[row + H1])
            change_set(arena, halves, hit, ab, pick(x, y, z, plan[row + H2]), flip)
        else:
            set_root(ctx, hit, group, present)
    arena[C_OPS] += work


@device
def lookup_step(ctx, row, x, y, m, flip, counting):
    """Applies the contents of the pair view of K1 and K2 at (y, x): every z at once."""
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    hit = plan[row + HIT]
    hit_kind = plan[view_at(hit) + KIND]
    if hit_kind == K_TOTAL and not counting:
        return
    mask1 = plan[row + MASK1]
    mask2 = plan[row + MASK2]
    if not mask1 & (3 if is_heavy(halves, out_list(y)) else 12) or not mask2 & (
        5 if is_heavy(halves, in_list(x)) else 10
    ):
        return
    key = pair_of(y, x)
    record = find_word(arena, first_table(plan[row + WRITE]), tag_of(arena, key), key)
    if record == 0:
        return
    arena[C_OPS] += 1
    if hit_kind == K_TOTAL:
        arena[C_TOTAL] += m * payload(arena, record)
    elif hit_kind == K_SUM:
        add_sum(arena, halves, hit, key_of(x, y, WORD(0), plan[row + H0], plan[row + H1]), m * payload(arena, record))
    elif flip != 0:
        set_root(ctx, hit, record, WORD(flip > 0))


@device
def fire(ctx, k, bit, other, x, y, m, flip, mode, counting):
    """Updates the views for (x, y) -> m in the part `bit` of relation k. `flip` is the change of presence.

    MOVE skips steps that also apply to the part `other`. LOAD runs the steps that fill views from one relation, and
    LOAD_LOOKUPS those that read these views. The total changes only if `counting`.
    """
    arena, plan = ctx.arena, ctx.plan
    for s in range(plan[P_STARTS + k], plan[P_STARTS + k + 1]):
        row = P_STEPS + STEP_WORDS * s
        mask0 = plan[row + MASK0]
        if mask0 & bit == 0 or (mode == MOVE and mask0 & other != 0):
            continue
        reads = plan[row + SCAN] < 0
        if mode in (LOAD, LOAD_LOOKUPS) and (plan[row + LOADS] == 0 or reads != (mode == LOAD_LOOKUPS)):
            continue
        arena[C_OPS] += 1
        if reads:
            lookup_step(ctx, row, x, y, m, flip, counting)
        else:
            scan_step(ctx, row, k, x, y, m, flip, counting)


@device
def edge_of(arena, k, x, y):
    """Returns the handle of the edge of relation k from vertex x to vertex y, or 0."""
    return lookup(arena, 3 + k, pair_of(x, y))
