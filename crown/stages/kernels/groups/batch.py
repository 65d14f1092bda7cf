"""Applies a batch to a group stage: reads its rows, and writes ``-old, +new`` of the changed groups, in one call.

    rows -> groups, found or made and numbered -> their sums -> addends of the rows -> counts, checked
      -> rows of the result before and after -> sums, written back

``change`` returns early if Python must help, and continues when it is called again: for more memory, for addends or
columns that Python computes, and to report an error. Until all checks have passed, only the batch number of a group
changes. So a rejected batch leaves no trace except empty groups, which ``groups.abandon`` deletes.

A plan describes a stage: the words ``P_...``, then per column of the result the words ``V_...``.
"""

from __future__ import annotations

import math

from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import H_BUDGET, H_LIVE, NONE, ZERO
from crown.kernels.memory.pointers import constants, words
from crown.kernels.memory.tables import made_in, record_in, seek
from crown.kernels.numbers.doubles import word_of
from crown.kernels.numbers.limbs import extend, product_of_words
from crown.kernels.strings import NULL, short_number
from crown.stages.kernels.groups.groups import drop, record_words, state_at
from crown.stages.kernels.groups.rounding import is_word, ratio
from crown.stages.kernels.groups.sums import add_all_terms, carry_over
from crown.stages.kernels.prefetch import look_ahead

# Words of a plan.
(
    P_KEY_COUNT,  # number of key columns
    P_STATE_WORDS,  # words of the state of a group, which begins with its sums
    P_SUM_WORDS,  # words of the sums
    P_SINGLE_GROUP,  # 1 if the stage has one permanent group
    P_PAUSES,  # where Python always helps: PAUSE_...
    P_COLUMN_COUNT,  # number of columns of the result
    P_FIRST_COLUMN,  # the columns begin here
) = range(7)
PAUSE_ADD, PAUSE_SHOW, PAUSE_STORE = 1, 2, 4
# Words of a column.
(
    V_KIND,
    V_SOURCE,  # number of the key or of the passed column, or first word among the sums
    V_LIMBS,  # limbs of the sum
    V_COUNT_AT,  # word with the number of counted rows
    V_FACTOR,  # SHORT: bound of the value; POWER: bound of the base; SUM, AVERAGE: factor below 2^63 of the divisor
    V_SHIFT,  # POWER: exponent; SUM, AVERAGE: power of two of the quotient
    V_PLUS_INFINITIES,  # word with the number of positive infinities, or -1
    V_MINUS_INFINITIES,  # word with the number of negative infinities, or -1
    COLUMN_WORDS,
) = range(9)
# Kinds of columns.
(
    KEY,
    PASSED,  # computed by Python
    WORD,  # a word of the sums
    WHOLE,  # a sum that is an int64
    SHORT,  # a sum that is a decimal of one word
    WIDE,  # a sum that is a decimal of two words, which must be its own code
    SUM,  # a sum of doubles
    AVERAGE,  # an average of doubles
    POWER,  # a power of a word
) = range(9)
# Words of a batch.
(
    S_STEP,  # next step
    S_LOCATED,  # number of rows whose groups are found
    S_GROUPS,  # number of groups
    S_FAR_COUNT,  # number of far doubles
    S_HAD_ROW,  # 1 if the row of the single group was present before the batch
    S_HAS_ROW,  # 1 if it is present after the batch
    S_BAD_GROUP,  # group with an error, or -1
    S_BAD_COLUMN,  # column with an error
    S_ROWS,  # number of written rows
    STATE_WORDS,
) = range(10)
LOCATE, GATHER, CHECK, SHOW, DELIVER, STORE, STORED = range(7)  # steps
# Results of ``change``.
(
    DONE,
    OVER_BUDGET,  # the memory budget is used up
    NEEDS_ROOM,  # there are more groups than room
    NEEDS_ADDENDS,  # Python must add
    NEEDS_CHECK,  # Python must check counts that may be out of range
    NEEDS_COLUMNS,  # Python must compute columns
    NO_CODE,  # a value has no code
    NEEDS_DECIMALS,  # Python must compute decimals, because one is not its own code
    BEFORE_STORE,  # storing is the next step
) = range(9)
MAX_ROWS = 1 << 62
MAX_LIMBS = 8  # of a sum that is converted to a double here
_NAN = 0x7FF8 << 48


@device
def _locate(arena, table, plan, strides, keys, numbers, handles, n, state):
    """Numbers the groups of rows: ``numbers[i]`` receives the number of row ``i``'s group. Makes missing groups.

    Word ``j`` of a row's key is ``keys[strides[j] + i]``. Returns False if the budget is used up; call it again to
    continue.
    """
    key_count = plan[P_KEY_COUNT]
    while state[S_LOCATED] < n:
        start = state[S_LOCATED]
        stop = look_ahead(arena, table, strides, key_count, keys, start, n, numbers, start)
        for i in range(start, stop):
            tag = numbers[i]
            slot = seek(arena, table, tag, strides, 0, key_count, keys, i, NONE)
            group = record_in(arena, table, slot)
            if group == 0:
                if arena[H_LIVE] > arena[H_BUDGET]:
                    return False
                size = record_words(key_count, plan[P_STATE_WORDS])
                group = made_in(arena, table, tag, slot, strides, 0, key_count, keys, i, size)
            number = arena[group + key_count]
            if number == 0:
                handles[state[S_GROUPS]] = group
                state[S_GROUPS] += 1
                number = state[S_GROUPS]
                arena[group + key_count] = number
            numbers[i] = number - 1
            state[S_LOCATED] = i + 1
    return True


@device
def _gather(arena, plan, handles, groups, rows):
    """Copies the sums of groups twice: the old sums, and the basis of the new ones."""
    width, first = plan[P_SUM_WORDS], state_at(plan[P_KEY_COUNT])
    for i in range(groups):
        for j in range(width):
            rows[i * width + j] = arena[handles[i] + first + j]
    for i in range(groups * width):
        rows[groups * width + i] = rows[i]


@device
def _may_be_out_of_range(plan, groups, weights, n, rows):
    """Returns True if a group may have a negative number of rows, or more than can be counted."""
    width = plan[P_SUM_WORDS]
    low, high = ZERO, ZERO
    for i in range(groups, 2 * groups):
        low, high = min(low, rows[i * width]), max(high, rows[i * width])
    least, most = ZERO, ZERO
    for i in range(n):
        least, most = min(least, weights[i]), max(most, weights[i])
    largest = max(-float(least), float(most))
    return low < 0 or float(n) * largest + float(high) > float(MAX_ROWS)


@device
def _double_code(plan, column, rows, row, scratch):
    """Returns the code of a sum or an average that is a double. At least one row must count."""
    if plan[column + V_PLUS_INFINITIES] >= 0:
        plus = rows[row + plan[column + V_PLUS_INFINITIES]] > 0
        minus = rows[row + plan[column + V_MINUS_INFINITIES]] > 0
        if plus and minus:
            return ZERO + _NAN
        if plus or minus:
            return word_of(math.inf if plus else -math.inf)
    limbs = plan[column + V_LIMBS]
    room = max(limbs, 2) + 1
    low, high = ZERO + 1, ZERO
    if plan[column] == AVERAGE:
        low = rows[row + plan[column + V_COUNT_AT]]
    if plan[column + V_FACTOR] != 1:
        low, high = product_of_words(low, plan[column + V_FACTOR])
    extend(scratch, 0, room, rows, row + plan[column + V_SOURCE], limbs)
    scratch[room], scratch[room + 1] = low, high
    for x in range(room + 2, 2 * room):
        scratch[x] = ZERO
    return word_of(ratio(scratch, room, int(plan[column + V_SHIFT])) + 0.0)  # one zero


@device
def write_column(arena, plan, column, width, handles, groups, rows, row, passed, first, scratch, out, start):
    """Writes the codes of a column of groups to ``out``, from ``out[start]``. The groups' sums begin at ``rows[row]``.

    ``passed[first]``: the first value that Python passes. Returns the number of a group whose value has no code, or -1.
    """
    kind, source = plan[column], plan[column + V_SOURCE]
    bad_group = -1
    if kind == KEY:
        for i in range(groups):
            out[start + i] = arena[handles[i] + source]
    elif kind == PASSED:
        for i in range(groups):
            out[start + i] = passed[first + i]
    elif kind == WORD:
        for i in range(groups):
            out[start + i] = rows[row + i * width + source]
    elif kind == POWER:
        exponent, largest = plan[column + V_SHIFT], plan[column + V_FACTOR]
        for i in range(groups):
            base = rows[row + i * width + source]
            power = base
            for _ in range(1, exponent):
                power *= base
            out[start + i] = power
            if base > largest:
                bad_group = i
    else:
        limbs, count, bound = plan[column + V_LIMBS], plan[column + V_COUNT_AT], plan[column + V_FACTOR]
        for i in range(groups):
            r = row + i * width
            if rows[r + count] == 0:
                out[start + i] = NULL
            elif kind in (SUM, AVERAGE):
                out[start + i] = _double_code(plan, column, rows, r, scratch)
            else:
                low = rows[r + source]
                code = short_number(low) if kind == WIDE else low
                out[start + i] = code
                too_large = code == 0 if kind == WIDE else kind == SHORT and (low >= bound or low <= -bound)
                if not is_word(rows, r + source, limbs) or too_large:
                    bad_group = i
    return bad_group


@device
def _compact(out, source, n, flags, bit, start):
    """Moves those of ``n`` words whose flags have a bit to ``out[start ...]``, which is not after them."""
    m = ZERO
    for i in range(n):
        out[start + m] = out[source + i]
        m += (out[flags + i] >> bit) & 1


@device
def _write_rows(arena, plan, handles, groups, rows, passed, having, has_having, scratch, room, out, state):
    """Writes the rows of groups that differ to ``out``, column by column, the old ones first, then the new ones.

    The weights follow, -1 and 1. Returns ``DONE``; or ``NO_CODE`` or ``NEEDS_DECIMALS`` if a value has no code here.
    Its position is then in ``state``.

    ``passed`` int64[columns, 2 * groups]: the columns that Python passes. ``having``: if ``has_having``, whether HAVING
    holds for the groups before and after. Each column of ``out`` has room for two rows of ``room`` groups. First, one
    half of a column receives the old values, and the other half the new ones; then the rows that differ are moved
    together.
    """
    columns, width, whole = plan[P_COLUMN_COUNT], plan[P_SUM_WORDS], plan[P_SINGLE_GROUP] == 1
    total, stride, after = 2 * groups, 2 * room, groups * width
    flags = columns * stride  # per group: 1 for an old row, 2 for a new one, 4 if it differs
    for c in range(columns):
        column, start = P_FIRST_COLUMN + COLUMN_WORDS * c, c * stride
        first = plan[column + V_SOURCE] * total if plan[column] == PASSED else ZERO
        old_bad_group = write_column(
            arena, plan, column, width, handles, groups, rows, ZERO, passed, first, scratch, out, start
        )
        bad_group = write_column(
            arena, plan, column, width, handles, groups, rows, after, passed, first + groups, scratch, out, start + room
        )
        if plan[column] == WIDE and max(old_bad_group, bad_group) >= 0:
            return NEEDS_DECIMALS
        if bad_group >= 0:
            state[S_BAD_GROUP], state[S_BAD_COLUMN] = bad_group, c
            return NO_CODE
    for i in range(groups):
        old = state[S_HAD_ROW] == 1 if whole else rows[i * width] > 0
        new = state[S_HAS_ROW] == 1 if whole else rows[after + i * width] > 0
        if has_having:
            old, new = old and having[i], new and having[groups + i]
        out[flags + i] = (ZERO + old) | (ZERO + new) << 1 | (ZERO + (old != new)) << 2
    for c in range(columns):
        if plan[P_FIRST_COLUMN + COLUMN_WORDS * c] != KEY:
            start = c * stride
            for i in range(groups):
                out[flags + i] |= (ZERO + (out[start + i] != out[start + room + i])) << 2
    deletes, inserts = ZERO, ZERO
    for i in range(groups):
        reported = out[flags + i] & (3 * (out[flags + i] >> 2))
        out[flags + i] = reported
        deletes += reported & 1
        inserts += reported >> 1
    m = deletes + inserts
    for c in range(columns):
        _compact(out, c * stride, groups, flags, 0, c * m)
        _compact(out, c * stride + room, groups, flags, 1, c * m + deletes)
    for i in range(m):
        out[columns * m + i] = -1 if i < deletes else 1
    state[S_ROWS] = m
    return DONE


@device
def _store(arena, table, plan, identity, handles, groups, rows, state):
    """Writes back the sums of groups, and deletes groups without rows, unless the stage has a single group.

    ``S_BAD_GROUP`` receives the number of a group without rows but with nonzero words, or -1.
    """
    k, size, width = plan[P_KEY_COUNT], plan[P_STATE_WORDS], plan[P_SUM_WORDS]
    first = state_at(k)
    state[S_BAD_GROUP] = -1
    for i in range(groups):
        group, row = handles[i], (groups + i) * width
        arena[group + k] = 0
        for j in range(width):
            arena[group + first + j] = rows[row + j]
        if rows[row] == 0:
            for j in range(size):
                if arena[group + first + j] != 0:
                    state[S_BAD_GROUP] = i
            if plan[P_SINGLE_GROUP] == 0 and state[S_BAD_GROUP] != i:
                drop(arena, table, identity, k, size, group)


@kernel(
    "words, int, words, words, words, words, words, words, words, words, words, words, words, int, words, words, "
    "words, words, words, words, flags, words, words"
)
def change(
    arena, table, plan, identity, state, strides, keys, weights, inputs, forms, pairs, dictionary, payload, sign, sums,
    carried, scratch, numbers, handles, passed, having, rows, out,
):  # fmt: skip
    """Calls ``advance`` with these arrays. ``numbers`` has one word per row of all feeds."""
    n, events, has_having, row_words, out_words = weights.size, numbers.size, having.size > 0, rows.size, out.size
    arena, plan, identity, strides = words(arena), constants(plan), constants(identity), words(strides)
    keys, weights, inputs, forms, pairs = words(keys), words(weights), words(inputs), words(forms), words(pairs)
    dictionary, payload, sums, carried = words(dictionary), words(payload), constants(sums), constants(carried)
    scratch, numbers, handles, passed, out = words(scratch), words(numbers), words(handles), words(passed), words(out)
    return advance(
        arena, table, plan, identity, words(state), strides, keys, weights, n, inputs, forms, pairs, dictionary,
        payload, sign, sums, carried, scratch, numbers, events, handles, passed, having, has_having, words(rows),
        row_words, out, out_words,
    )  # fmt: skip


@device
def advance(
    arena, table, plan, identity, state, strides, keys, weights, n, inputs, forms, pairs, dictionary, payload, sign,
    sums, carried, scratch, numbers, events, handles, passed, having, has_having, rows, row_words, out, out_words,
):  # fmt: skip
    """Applies a batch of ``weights`` (int64[n]) to the groups in a table, as far as possible. Returns why it returns.

    O(rows * terms + groups * columns).

    - ``state``: the words ``S_...``, initially zeros.
    - ``strides``, ``keys``: the keys of the rows of all feeds; see ``_locate``. There are ``events`` such rows, and
      ``numbers`` receives the group of each.
    - ``inputs``, ``forms``, ``pairs``, ``dictionary``: see ``sums.add_terms``. ``payload``, ``sign``: see
      ``sums.carry_over``. ``sums``, ``carried``: the recipes of both.
    - ``scratch``: room for both, and for a quotient.
    - ``passed``, ``having``, ``has_having``: see ``_write_rows``.
    - ``rows``: room of ``row_words`` for the old and new sums of groups.
    - ``out``: room of ``out_words`` for their old and new rows and weights. Receives ``S_ROWS`` rows, column by column,
      then the weights.
    - ``identity``: 0, 1, 2, ...
    """
    width, pauses = plan[P_SUM_WORDS], plan[P_PAUSES]
    if state[S_STEP] == LOCATE:
        located = True
        if plan[P_SINGLE_GROUP] == 0:
            located = _locate(arena, table, plan, strides, keys, numbers, handles, events, state)
        if not located:
            return OVER_BUDGET
        state[S_STEP] = GATHER
    groups = state[S_GROUPS]
    if state[S_STEP] == GATHER:
        if 2 * groups * width > row_words or 2 * groups * (plan[P_COLUMN_COUNT] + 1) > out_words:
            return NEEDS_ROOM
        _gather(arena, plan, handles, groups, rows)
        state[S_FAR_COUNT] = add_all_terms(
            dictionary, numbers, weights, n, inputs, forms, pairs, sums, scratch, rows, groups * width, width
        )
        if carried[0] > 0:
            state[S_FAR_COUNT] += carry_over(numbers, n, payload, sign, carried, scratch, rows, groups * width, width)
        state[S_STEP] = CHECK
        if state[S_FAR_COUNT] > 0 or pauses & PAUSE_ADD != 0:
            return NEEDS_ADDENDS
    if state[S_STEP] == CHECK:
        state[S_STEP] = SHOW
        if _may_be_out_of_range(plan, groups, weights, n, rows):
            return NEEDS_CHECK
    if state[S_STEP] == SHOW:
        state[S_STEP] = DELIVER
        if pauses & PAUSE_SHOW != 0:
            return NEEDS_COLUMNS
    if state[S_STEP] == DELIVER:
        out_words //= 2 * (plan[P_COLUMN_COUNT] + 1)
        status = _write_rows(
            arena, plan, handles, groups, rows, passed, having, has_having, scratch, out_words, out, state
        )
        if status != DONE:
            return status
        state[S_STEP] = STORE
        if pauses & PAUSE_STORE != 0:
            return BEFORE_STORE
    _store(arena, table, plan, identity, handles, groups, rows, state)
    state[S_STEP] = STORED
    return DONE


@kernel("words, words, words, table, words, flags, int, words, words")
def current_rows(arena, plan, handles, rows, passed, having, has_row, scratch, out):
    """Writes the rows of groups with the sums ``rows`` (int64[groups, sums]) to ``out``, column by column.

    ``out`` has room for one more word per group. ``passed`` int64[columns, groups] and ``having``: as in
    ``_write_rows``. ``has_row``: 1 if the single group has its row. Returns the number of rows, or -1 if a decimal is
    not its own code.
    """
    groups, has_having = handles.size, having.size > 0
    arena, plan, handles, rows = words(arena), constants(plan), words(handles), words(rows)
    passed, scratch, out = words(passed), words(scratch), words(out)
    columns, flags = plan[P_COLUMN_COUNT], plan[P_COLUMN_COUNT] * groups
    m = ZERO
    for i in range(groups):
        is_present = has_row == 1 if plan[P_SINGLE_GROUP] == 1 else rows[i * plan[P_SUM_WORDS]] > 0
        if has_having:
            is_present = is_present and having[i]
        out[flags + i] = ZERO + is_present
        m += is_present
    for c in range(columns):
        column = P_FIRST_COLUMN + COLUMN_WORDS * c
        first = plan[column + V_SOURCE] * groups if plan[column] == PASSED else ZERO
        bad_group = write_column(
            arena, plan, column, plan[P_SUM_WORDS], handles, groups, rows, ZERO, passed, first, scratch, out, c * groups
        )
        if plan[column] == WIDE and bad_group >= 0:
            return -1
        _compact(out, c * groups, groups, flags, 0, c * m)
    return m
