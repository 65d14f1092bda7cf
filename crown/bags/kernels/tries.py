"""Generic join over hash tries: the exact change of a join's result set when one tuple of one atom comes or goes.

`// dJ/dR_i := dR_i(t), R_1, .., R_(i-1), R_(i+1), .., R_n` by generic join: the attributes of `t` are bound, the others
are bound one after the other. At each attribute v, every atom that has v offers the list of its v-values that go with
what is bound; the shortest list is walked, the others are probed. So the work is within the AGM bound of the join with
`t` fixed, whatever the data, and no join of two atoms is ever stored.

An *index* (atom, bound attributes B, attribute v) is two tables: prefix (B) -> list of values, and pair (B, v) ->
number of rows. State is linear in the rows. Its words: see `tries_layout`.
"""

from __future__ import annotations

from crown.bags.kernels.layout import (
    A_ATTRS,
    A_CHECK_AT,
    A_CHECKS,
    A_INDEX_AT,
    A_INDICES,
    A_ROWS,
    A_STEP_AT,
    A_STEPS,
    A_WIDTH,
    ATOM,
    C_DEPTH,
    C_OVER,
    C_PHASE,
    C_ROW,
    C_STACK,
    CHECK_ATTRIBUTES,
    CHECK_TABLE,
    CHECK_WIDTH,
    CHECK_WORDS,
    I_COLUMNS,
    I_PAIR,
    I_PREFIX,
    I_WIDTH,
    LEVEL,
    P_ATOMS,
    P_COUNTED,
    P_IDENTITY,
    P_OUT_TABLE,
    P_OUTS,
    P_OUTS_AT,
    PAIRS,
    PART_ATTRIBUTES,
    PART_INDEX,
    PART_WORDS,
    STEP_ATTRIBUTE,
    STEP_PART_AT,
    STEP_PARTS,
    STEP_WORDS,
    V_PART,
    V_POSITION,
    V_PREFIX,
    pair_link,
    pair_rows,
    pair_words,
    pairs_field,
    prefix_words,
    value_at,
    value_word,
)
from crown.kernels.arena import (
    H_BUDGET,
    H_LIVE,
    ONE,
    T_CAPACITY,
    T_SLOTS,
    ZERO,
    alloc,
    format_arena,
    release,
)
from crown.kernels.context import Context
from crown.kernels.geometry import counted_words, counter_of, linked_position, list_length, set_linked_position
from crown.kernels.jit import device, kernel
from crown.kernels.lists import list_append, list_remove
from crown.kernels.pointers import constants, words
from crown.kernels.tables import LOW32, find, hash_key, insert, new_table, remove, table_at

NEW, LISTING = 0, 1  # phases of a row


@kernel
def create_tries(arena, tables, limit, seed):
    """Returns an empty state with that many tables."""
    arena = words(arena)
    format_arena(arena, tables, limit, seed)
    for t in range(tables):
        new_table(arena, table_at(t))


@device
def _found(ctx, t, columns, k, row):
    """Returns (tag, entry) of table ``t`` for the first ``k`` of the columns of a row; entry 0 if there is none."""
    arena, plan = ctx.arena, ctx.plan
    tag = hash_key(arena, plan, columns, k, arena, row)
    return tag, find(arena, t, tag, plan, columns, k, arena, row)


@device
def _index_row(ctx, index, row):
    """Enters a row (record `row`) in an index."""
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    k = plan[index + I_WIDTH]
    columns = plan[index + I_COLUMNS]
    t = plan[index + I_PAIR]
    tag, pair = _found(ctx, t, columns, k + 1, row)
    if pair != 0:
        arena[pair_rows(pair, k)] += 1
        return
    pair = alloc(arena, pair_words(k))
    for j in range(k + 1):
        arena[pair + j] = arena[row + plan[columns + j]]
    arena[pair_rows(pair, k)] = 1
    insert(arena, t, tag, pair)
    t = plan[index + I_PREFIX]
    tag, prefix = _found(ctx, t, columns, k, row)
    if prefix == 0:
        prefix = alloc(arena, prefix_words(k))
        for j in range(k):
            arena[prefix + j] = arena[row + plan[columns + j]]
        for j in range(k, prefix_words(k)):
            arena[prefix + j] = 0
        insert(arena, t, tag, prefix)
    field = pairs_field(prefix, k)
    at = list_append(ctx, field, PAIRS, value_word(k), pair)
    set_linked_position(halves, pair, pair_link(k), at)


@device
def _unindex_row(ctx, index, row):
    """Takes a row out of an index."""
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    k = plan[index + I_WIDTH]
    columns = plan[index + I_COLUMNS]
    t = plan[index + I_PAIR]
    tag, pair = _found(ctx, t, columns, k + 1, row)
    arena[pair_rows(pair, k)] -= 1
    if arena[pair_rows(pair, k)] > 0:
        return
    remove(arena, t, tag, pair)
    t = plan[index + I_PREFIX]
    tag, prefix = _found(ctx, t, columns, k, row)
    field = pairs_field(prefix, k)
    at = linked_position(halves, pair, pair_link(k))
    list_remove(ctx, field, PAIRS, value_word(k), at, pair_link(k))
    release(arena, pair, pair_words(k))
    if list_length(halves, field) == 0:
        remove(arena, t, tag, prefix)
        release(arena, prefix, prefix_words(k))


@device
def _store(ctx, a, row, tag):
    arena, plan = ctx.arena, ctx.plan
    insert(arena, plan[a + A_ROWS], tag, row)
    for i in range(plan[a + A_INDICES]):
        _index_row(ctx, plan[plan[a + A_INDEX_AT] + i], row)


@device
def _drop(ctx, a, row, tag):
    arena, plan = ctx.arena, ctx.plan
    for i in range(plan[a + A_INDICES]):
        _unindex_row(ctx, plan[plan[a + A_INDEX_AT] + i], row)
    remove(arena, plan[a + A_ROWS], tag, row)
    release(arena, row, counted_words(plan[a + A_WIDTH]))


@device
def _passes(ctx, a, bound):
    """Returns True iff the atoms that lie within the bound attributes have them."""
    arena, plan = ctx.arena, ctx.plan
    for i in range(plan[a + A_CHECKS]):
        c = plan[a + A_CHECK_AT] + CHECK_WORDS * i
        attributes = plan[c + CHECK_ATTRIBUTES]
        width = plan[c + CHECK_WIDTH]
        tag = hash_key(arena, plan, attributes, width, bound, ZERO)
        if find(arena, plan[c + CHECK_TABLE], tag, plan, attributes, width, bound, ZERO) == 0:
            return False
    return True


@device
def _part_at(plan, step, part):
    return plan[step + STEP_PART_AT] + PART_WORDS * part


@device
def _prefix_of(ctx, part, bound):
    """Returns the prefix record of a part for what is bound, or 0."""
    arena, plan = ctx.arena, ctx.plan
    index = plan[part + PART_INDEX]
    k = plan[index + I_WIDTH]
    tag = hash_key(arena, plan, plan[part + PART_ATTRIBUTES], k, bound, ZERO)
    return find(arena, plan[index + I_PREFIX], tag, plan, plan[part + PART_ATTRIBUTES], k, bound, ZERO)


@device
def _open_level(ctx, step, bound, cur, level):
    """Chooses the shortest list at a step. False if one of them is empty."""
    halves, plan = ctx.halves, ctx.plan
    best = ZERO
    shortest = ZERO
    for i in range(plan[step + STEP_PARTS]):
        part = _part_at(plan, step, i)
        prefix = _prefix_of(ctx, part, bound)
        if prefix == 0:
            return False
        length = list_length(halves, pairs_field(prefix, plan[plan[part + PART_INDEX] + I_WIDTH]))
        if best == 0 or length < shortest:
            best = prefix
            shortest = length
            cur[level + V_PART] = i
    cur[level + V_PREFIX] = best
    cur[level + V_POSITION] = 0
    return True


@device
def _next_value(ctx, step, bound, cur, level):
    """Binds the step's attribute to the next value that all parts have. False at the end of the list."""
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    chosen = cur[level + V_PART]
    k = plan[plan[_part_at(plan, step, chosen) + PART_INDEX] + I_WIDTH]
    field = pairs_field(cur[level + V_PREFIX], k)
    length = list_length(halves, field)
    while cur[level + V_POSITION] < length:
        i = cur[level + V_POSITION]
        cur[level + V_POSITION] += 1
        bound[plan[step + STEP_ATTRIBUTE]] = value_at(arena, halves, field, k, i)
        everywhere = True
        for j in range(plan[step + STEP_PARTS]):
            if j != chosen:
                part = _part_at(plan, step, j)
                index = plan[part + PART_INDEX]
                attributes = plan[part + PART_ATTRIBUTES]
                w = plan[index + I_WIDTH] + 1
                tag = hash_key(arena, plan, attributes, w, bound, ZERO)
                if find(arena, plan[index + I_PAIR], tag, plan, attributes, w, bound, ZERO) == 0:
                    everywhere = False
                    break
        if everywhere:
            return True
    return False


@device
def _emit(ctx, bound, sign, counted, out, capacity, rows):
    """Writes the bound result; with `counted` only if its projection appears or goes. Returns the rows in use."""
    arena, plan = ctx.arena, ctx.plan
    width = plan[P_OUTS]
    outs = plan[P_OUTS_AT]
    if counted:
        t = plan[P_OUT_TABLE]
        tag = hash_key(arena, plan, outs, width, bound, ZERO)
        record = find(arena, t, tag, plan, outs, width, bound, ZERO)
        if record == 0:
            record = alloc(arena, counted_words(width))
            for j in range(width):
                arena[record + j] = bound[plan[outs + j]]
            arena[counter_of(record, width)] = 1
            insert(arena, t, tag, record)
        else:
            arena[counter_of(record, width)] += sign
            if arena[counter_of(record, width)] > 0:
                return rows
            remove(arena, t, tag, record)
            release(arena, record, counted_words(width))
    for j in range(width):
        out[j * capacity + rows] = bound[plan[outs + j]]
    return rows + 1


@device
def _list_results(ctx, a, bound, sign, counted, cur, out, capacity, rows):
    """Writes the results with the bound tuple of atom `a`, from the cursor on. Returns (rows in use, finished)."""
    plan = ctx.plan
    steps = plan[a + A_STEPS]
    depth = cur[C_DEPTH]
    while depth >= 0:
        if depth == steps:
            if rows == capacity:
                cur[C_DEPTH] = depth
                return rows, False
            rows = _emit(ctx, bound, sign, counted, out, capacity, rows)
            depth -= 1
            continue
        step = plan[a + A_STEP_AT] + STEP_WORDS * depth
        level = C_STACK + LEVEL * depth
        if cur[level + V_PREFIX] == 0 and not _open_level(ctx, step, bound, cur, level):
            depth -= 1
            continue
        if _next_value(ctx, step, bound, cur, level):
            depth += 1
            if depth < steps:
                cur[level + LEVEL + V_PREFIX] = 0
        else:
            cur[level + V_PREFIX] = 0
            depth -= 1
    return rows, True


@device
def _begin(plan, a, src, base, bound, cur):
    """Binds the tuple of atom `a` at `src[base ..]` and start its enumeration."""
    for j in range(plan[a + A_WIDTH]):
        bound[plan[plan[a + A_ATTRS] + j]] = src[base + j]
    cur[C_DEPTH] = 0
    cur[C_STACK + V_PREFIX] = 0
    cur[C_PHASE] = LISTING


@kernel
def join_rows(arena, halves, plan, atom, flat, weights, missing, sign, bound, cur, out):
    """Applies the rows of `flat` int64[n * width] whose weight has `sign`; returns the results written to `out`.

    Go on with the same cursor while `cur[C_ROW]` < n, unless `cur[C_OVER]` is 1: then more is live than the budget
    allows, and the rows from `cur[C_ROW]` on have not been applied. `bound` int64[attributes] is scratch that lives
    with the cursor, `out` int64[outputs, cap] column-major. Row i of `missing` receives the copies that a delete did
    not find.
    """
    n = weights.size
    capacity = out.shape[1]
    arena, halves, plan = words(arena), words(halves), constants(plan)
    bound, cur, out = words(bound), words(cur), words(out)
    ctx = Context(arena, halves, plan, cur)
    flat, weights, missing = words(flat), words(weights), words(missing)
    rows = ZERO
    a = P_ATOMS + ATOM * atom
    k = plan[a + A_WIDTH]
    counted = plan[P_COUNTED] == 1
    while cur[C_ROW] < n:
        i = cur[C_ROW]
        m = weights[i]
        if m * sign <= 0:
            cur[C_ROW] += 1
            continue
        tag = hash_key(arena, plan, plan[P_IDENTITY], k, flat, i * k)
        row = find(arena, plan[a + A_ROWS], tag, plan, plan[P_IDENTITY], k, flat, i * k)
        if cur[C_PHASE] == NEW:
            old = arena[counter_of(row, k)] if row != 0 else ZERO
            if old + m < 0:
                missing[i] = -(old + m)
                m = -old
            if row == 0 and m > 0:
                if arena[H_LIVE] > arena[H_BUDGET]:
                    cur[C_OVER] = 1
                    return rows
                row = alloc(arena, counted_words(k))
                for j in range(k):
                    arena[row + j] = flat[i * k + j]
                arena[counter_of(row, k)] = m
                _store(ctx, a, row, tag)
            elif row == 0 or old + m > 0:
                if row != 0:
                    arena[counter_of(row, k)] = old + m
                cur[C_ROW] += 1
                continue
            _begin(plan, a, flat, i * k, bound, cur)
            if not _passes(ctx, a, bound):
                cur[C_DEPTH] = -1
        rows, finished = _list_results(ctx, a, bound, sign, counted, cur, out, capacity, rows)
        if not finished:
            return rows
        if sign < 0:
            _drop(ctx, a, row, tag)
        cur[C_PHASE] = NEW
        cur[C_ROW] += 1
    return rows


@kernel
def missing_rows(arena, plan, atom, flat, weights):
    """Returns the index of the first delete (weights > 0) that finds too few copies, or -1."""
    n = weights.size
    arena, plan, flat, weights = words(arena), constants(plan), words(flat), words(weights)
    a = P_ATOMS + ATOM * atom
    k = plan[a + A_WIDTH]
    for i in range(n):
        tag = hash_key(arena, plan, plan[P_IDENTITY], k, flat, i * k)
        row = find(arena, plan[a + A_ROWS], tag, plan, plan[P_IDENTITY], k, flat, i * k)
        if row == 0 or arena[counter_of(row, k)] < weights[i]:
            return i
    return -1


@kernel
def all_rows(arena, halves, plan, bound, cur, out):
    """Returns all results from the cursor on: those of each row of atom 0, or the counted outputs.

    Returns the rows written.
    """
    capacity = out.shape[1]
    arena, halves, plan = words(arena), words(halves), constants(plan)
    bound, cur, out = words(bound), words(cur), words(out)
    ctx = Context(arena, halves, plan, cur)
    rows = ZERO
    counted = plan[P_COUNTED] == 1
    a = P_ATOMS
    t = plan[P_OUT_TABLE] if counted else plan[a + A_ROWS]
    while cur[C_ROW] < arena[t + T_CAPACITY]:
        word = arena[arena[t + T_SLOTS] + cur[C_ROW]]
        if word != 0:
            record = word & LOW32
            if counted:
                if rows == capacity:
                    return rows
                for j in range(plan[P_OUTS]):
                    out[j * capacity + rows] = arena[record + j]
                rows += 1
            else:
                if cur[C_PHASE] == NEW:
                    _begin(plan, a, arena, record, bound, cur)
                    if not _passes(ctx, a, bound):
                        cur[C_DEPTH] = -1
                rows, finished = _list_results(ctx, a, bound, ONE, False, cur, out, capacity, rows)
                if not finished:
                    return rows
                cur[C_PHASE] = NEW
        cur[C_ROW] += 1
    return rows
