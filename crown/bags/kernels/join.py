"""Generic join over hash tries: the exact change of a join's result set when a tuple is inserted or deleted.

Computes `dJ/dR_i := dR_i(t), R_1, .., R_(i-1), R_(i+1), .., R_n` by generic join. The attributes of `t` are bound, and
the others are bound one after the other. First the node of each atom for its bound attributes is looked up; in most
cases an atom has none, and the result is empty. Then at each attribute v, every atom with v has a list of its v-values
below its node. The shortest list is scanned, the other atoms are probed, and those with the value continue from the
node below. So the work is within the AGM bound of the join with `t` fixed, for any data, and no join of two atoms is
ever stored.
"""

from __future__ import annotations

from crown.bags.kernels.layout import (
    A_ATTRS,
    A_COPIES,
    A_COPIES_AT,
    A_ROWS,
    A_SET_AT,
    A_SETS,
    A_START_AT,
    A_STARTS,
    A_STEP_AT,
    A_STEPS,
    A_WIDTH,
    ATOM,
    C_DEPTH,
    C_FACTOR,
    C_OVER,
    C_PHASE,
    C_ROW,
    C_SOME,
    C_STACK,
    COPIES_AT,
    COPIES_SLOT,
    COPIES_WORDS,
    LEVEL,
    P_ATOMS,
    P_COUNTED,
    P_IDENTITY,
    P_OUT_TABLE,
    P_OUTS,
    P_OUTS_AT,
    P_SLOTS,
    P_WEIGHTED,
    PART_ATTRIBUTES,
    PART_BELOW,
    PART_CARRIED,
    PART_FIELD,
    PART_SET,
    PART_SLOT,
    PART_WORDS,
    S_COLUMNS,
    S_TABLE,
    S_WIDTH,
    START_ATTRIBUTES,
    START_SET,
    START_SLOT,
    START_WORDS,
    STEP_ATTRIBUTE,
    STEP_PART_AT,
    STEP_PARTS,
    STEP_WORDS,
    V_FIELD,
    V_PART,
    V_POSITION,
    record_at,
    value_at,
)
from crown.bags.kernels.tries import drop, store
from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import H_BUDGET, H_LIVE, H_STEPS, NONE, ONE, T_CAPACITY, T_SLOTS, ZERO, alloc, release
from crown.kernels.memory.context import Context
from crown.kernels.memory.geometry import counted_words, counter_of, list_length
from crown.kernels.memory.pointers import constants, prefetch, words
from crown.kernels.memory.tables import LOW32, find, hash_key, insert, record_in, remove, seek, slot_of
from crown.kernels.numbers.limbs import bounded_product

NEW, LISTING = 0, 1  # phases of a row
AHEAD = 6  # tuples
SLOTS, RECORDS = ZERO, ONE  # what is prefetched


@device
def _record_of(ctx, s, attributes, bound):
    """Returns the record of the set at ``s`` for the bound attributes, or 0."""
    arena, plan = ctx.arena, ctx.plan
    k = plan[s + S_WIDTH]
    tag = hash_key(arena, plan, attributes, k, bound, ZERO)
    return find(arena, plan[s + S_TABLE], tag, plan, attributes, k, bound, ZERO)


@device
def _begin(ctx, a, src, base, bound):
    """Binds the tuple of atom `a` at `src[base ..]` and starts its enumeration, which is finished if an atom has no
    match."""
    plan, cur = ctx.plan, ctx.scratch
    for j in range(plan[a + A_WIDTH]):
        bound[plan[plan[a + A_ATTRS] + j]] = src[base + j]
    cur[C_DEPTH] = 0
    cur[C_STACK + V_FIELD] = 0
    cur[C_PHASE] = LISTING
    for i in range(plan[a + A_STARTS]):
        p = plan[a + A_START_AT] + START_WORDS * i
        node = _record_of(ctx, plan[p + START_SET], plan[p + START_ATTRIBUTES], bound)
        if node == 0:
            cur[C_DEPTH] = -1
            return
        cur[plan[P_SLOTS] + plan[p + START_SLOT]] = node


@device
def _fetch(ctx, s, tag, what):
    """Prefetches the home slot of a tag in the table of the set at ``s``, or the record that is in it."""
    arena = ctx.arena
    slot = slot_of(arena, ctx.plan[s + S_TABLE], tag)
    if what == SLOTS:
        prefetch(arena, slot)
    else:
        prefetch(arena, arena[slot] & LOW32)


@device
def _ahead(ctx, a, src, base, later, what):
    """Prefetches the memory that the tuple of atom `a` at `src[base ..]` will need. ``later``: room for its
    attributes."""
    arena, plan = ctx.arena, ctx.plan
    for j in range(plan[a + A_WIDTH]):
        later[plan[plan[a + A_ATTRS] + j]] = src[base + j]
    for i in range(plan[a + A_SETS]):
        s = plan[plan[a + A_SET_AT] + i]
        _fetch(ctx, s, hash_key(arena, plan, plan[s + S_COLUMNS], plan[s + S_WIDTH], src, base), what)
    for i in range(plan[a + A_STARTS]):
        p = plan[a + A_START_AT] + START_WORDS * i
        s = plan[p + START_SET]
        _fetch(ctx, s, hash_key(arena, plan, plan[p + START_ATTRIBUTES], plan[s + S_WIDTH], later, ZERO), what)


@device
def _stages(ctx, a, flat, first, n, i, later):
    """Prefetches the memory of the tuples after tuple ``i`` of ``n``. For the first one, ``first``, the stages run from
    ``first - 2 * AHEAD`` on. ``later``: see ``_ahead``."""
    k = ctx.plan[a + A_WIDTH]
    if first <= i + 2 * AHEAD < n:
        _ahead(ctx, a, flat, (i + 2 * AHEAD) * k, later, SLOTS)
    if first <= i + AHEAD < n:
        _ahead(ctx, a, flat, (i + AHEAD) * k, later, RECORDS)


@device
def _field_of(ctx, part):
    """Returns the list of a part below the current node of its atom."""
    plan = ctx.plan
    return ctx.scratch[plan[P_SLOTS] + plan[part + PART_SLOT]] + plan[part + PART_FIELD]


@device
def _open_level(ctx, step, level):
    """Chooses the shortest list at a step."""
    halves, plan, cur = ctx.halves, ctx.plan, ctx.scratch
    shortest = ZERO
    for i in range(plan[step + STEP_PARTS]):
        field = _field_of(ctx, plan[step + STEP_PART_AT] + PART_WORDS * i)
        length = list_length(halves, field)
        if i == 0 or length < shortest:
            shortest = length
            cur[level + V_FIELD] = field
            cur[level + V_PART] = i
    cur[level + V_POSITION] = 0


@device
def _next_value(ctx, step, bound, level):
    """Binds the step's attribute to the next value that all parts have. Returns False at the end of the list."""
    arena, halves, plan, cur = ctx.arena, ctx.halves, ctx.plan, ctx.scratch
    chosen = cur[level + V_PART]
    first = plan[step + STEP_PART_AT]
    own = first + PART_WORDS * chosen
    field, carried = cur[level + V_FIELD], plan[own + PART_CARRIED]
    length = list_length(halves, field)
    i = cur[level + V_POSITION]
    arena[H_STEPS] -= i
    while i < length:
        bound[plan[step + STEP_ATTRIBUTE]] = value_at(arena, halves, field, carried, i)
        everywhere = True
        for j in range(plan[step + STEP_PARTS]):
            if j != chosen:
                part = first + PART_WORDS * j
                below = _record_of(ctx, plan[part + PART_SET], plan[part + PART_ATTRIBUTES], bound)
                if below == 0:
                    everywhere = False
                    break
                cur[plan[P_SLOTS] + plan[part + PART_BELOW]] = below
        i += 1
        if everywhere:
            cur[plan[P_SLOTS] + plan[own + PART_BELOW]] = record_at(halves, field, carried, i - 1)
            cur[level + V_POSITION] = i
            arena[H_STEPS] += i
            return True
    arena[H_STEPS] += i
    return False


@device
def _weight(ctx, a):
    """Returns the changed copies of the bound row of atom `a`, times the copies of the other atoms' rows."""
    arena, plan, cur = ctx.arena, ctx.plan, ctx.scratch
    product = cur[C_FACTOR]
    for i in range(plan[a + A_COPIES]):
        p = plan[a + A_COPIES_AT] + COPIES_WORDS * i
        copies = arena[cur[plan[P_SLOTS] + plan[p + COPIES_SLOT]] + plan[p + COPIES_AT]]
        product = bounded_product(product, copies)
    return product


@device
def _emit(ctx, a, bound, sign, counted, out, capacity, rows):
    """Writes the bound result; with `counted` only if its projection appears or disappears. Returns the number of rows
    in `out`."""
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
    if plan[P_WEIGHTED]:
        out[width * capacity + rows] = _weight(ctx, a)
    return rows + 1


@device
def _list_results(ctx, a, bound, sign, counted, out, capacity, rows):
    """Writes the results with the bound tuple of atom `a`, from the cursor on. Returns (number of rows, finished)."""
    plan, cur = ctx.plan, ctx.scratch
    steps = plan[a + A_STEPS]
    depth = cur[C_DEPTH]
    while depth >= 0:
        if depth == steps:
            if rows == capacity:
                cur[C_DEPTH] = depth
                return rows, False
            rows = _emit(ctx, a, bound, sign, counted, out, capacity, rows)
            depth -= 1
            continue
        step = plan[a + A_STEP_AT] + STEP_WORDS * depth
        level = C_STACK + LEVEL * depth
        if cur[level + V_FIELD] == 0:
            _open_level(ctx, step, level)
        if _next_value(ctx, step, bound, level):
            depth += 1
            if depth < steps:
                cur[level + LEVEL + V_FIELD] = 0
        else:
            cur[level + V_FIELD] = 0
            depth -= 1
    return rows, True


@kernel("words, halves, words, int, words, words, words, int, int, words, words, table")
def join_rows(arena, halves, plan, atom, flat, weights, missing, sign, listing, bound, cur, out):
    """Applies the rows of `flat` int64[n * width] whose weight has `sign`. Returns the number of results written to
    `out`. With `listing` 0, it does not search for results.

    Call it again with the same cursor while `cur[C_ROW]` < n, unless `cur[C_OVER]` is 1: then more words are live than
    the budget allows, and the rows from `cur[C_ROW]` have not been applied. `bound` int64[attributes] is scratch that
    belongs to the cursor. `out`: int64[outputs, capacity], column-major; the weights follow if results have weights.
    Row i of `missing` receives the copies that a delete did not find.
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
    t = plan[a + A_ROWS]
    counted = plan[P_COUNTED] == 1
    weighted = plan[P_WEIGHTED] == 1
    first = cur[C_ROW]
    if cur[C_PHASE] == NEW:
        for i in range(first - 2 * AHEAD, first):
            _stages(ctx, a, flat, first, n, i, bound)
    while cur[C_ROW] < n:
        i = cur[C_ROW]
        m = weights[i]
        if m * sign <= 0:
            cur[C_ROW] += 1
            continue
        tag = hash_key(arena, plan, plan[P_IDENTITY], k, flat, i * k)
        slot = seek(arena, t, tag, plan, plan[P_IDENTITY], k, flat, i * k, NONE)
        row = record_in(arena, t, slot)
        if cur[C_PHASE] == NEW:
            _stages(ctx, a, flat, first, n, i, bound)
            old = arena[counter_of(row, k)] if row != 0 else ZERO
            if old + m < 0:
                missing[i] = -(old + m)
                m = -old
            if row == 0 and m > 0:
                if arena[H_LIVE] > arena[H_BUDGET]:
                    cur[C_OVER] = 1
                    return rows
                store(ctx, a, flat, i * k, m, tag, slot)
            elif row == 0:
                cur[C_ROW] += 1
                continue
            else:
                arena[counter_of(row, k)] = old + m
                if old + m > 0:
                    if not weighted:
                        cur[C_ROW] += 1
                        continue
                    cur[C_SOME] = 1
            cur[C_FACTOR] = m
            if listing:
                _begin(ctx, a, flat, i * k, bound)
            else:
                cur[C_DEPTH] = -1
        rows, finished = _list_results(ctx, a, bound, sign, counted, out, capacity, rows)
        if not finished:
            return rows
        if sign < 0 and arena[counter_of(row, k)] == 0:
            drop(ctx, a, row, tag)
        cur[C_PHASE] = NEW
        cur[C_ROW] += 1
    return rows


@kernel("words, words, int, words, words")
def find_copies(arena, plan, atom, flat, copies):
    """Writes the copies of the rows `flat` int64[n * width] of an atom to `copies` int64[n]; 0 for an absent row."""
    arena, plan, flat = words(arena), constants(plan), words(flat)
    a = P_ATOMS + ATOM * atom
    k = plan[a + A_WIDTH]
    for i in range(copies.size):
        tag = hash_key(arena, plan, plan[P_IDENTITY], k, flat, i * k)
        found = find(arena, plan[a + A_ROWS], tag, plan, plan[P_IDENTITY], k, flat, i * k)
        copies[i] = arena[counter_of(found, k)] if found != 0 else ZERO


@kernel("words, halves, words, words, words, table")
def all_rows(arena, halves, plan, bound, cur, out):
    """Writes all results from the cursor on: those of each row of atom 0, or the counted outputs.

    Returns the number of rows written.
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
                    cur[C_FACTOR] = arena[counter_of(record, plan[a + A_WIDTH])]
                    _begin(ctx, a, arena, record, bound)
                rows, finished = _list_results(ctx, a, bound, ONE, False, out, capacity, rows)
                if not finished:
                    return rows
                cur[C_PHASE] = NEW
        cur[C_ROW] += 1
    return rows
