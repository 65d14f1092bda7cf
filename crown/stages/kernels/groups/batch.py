"""Applies a batch to a group stage: reads its rows, and writes ``-old, +new`` of the changed groups, in one call.

rows -> groups, found or made and numbered -> their states -> addends of the rows -> counts, checked
  -> rows of the result before and after -> states, written back

``change`` returns early if Python must help, and continues when it is called again: for more memory, for addends or
columns that Python computes, and to report an error. Until all checks have passed, only the batch number of a group
changes. So a rejected batch leaves no trace except empty groups, which ``groups.abandon`` deletes.

A plan describes a stage: the words ``P_KEYS`` ..., then ``VALUE`` words per column of the result, ``V_KIND`` ....
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

P_KEYS, P_STATE, P_SUMS, P_WHOLE, P_PAUSES, P_COLUMNS, P_HEAD = 0, 1, 2, 3, 4, 5, 6
"""Words of a plan: key columns; words of a state, and of the sums at its beginning; 1 if the stage has one permanent
group; where Python always helps; columns of the result."""
PAUSE_ADD, PAUSE_SHOW, PAUSE_STORE = 1, 2, 4
V_KIND, V_AT, V_LIMBS, V_COUNT, V_FACTOR, V_SHIFT, V_ABOVE, V_BELOW, VALUE = 0, 1, 2, 3, 4, 5, 6, 7, 8
"""Words of a column: its kind; the key, the word or the given column; limbs; the word with the number of counted rows.
For a quotient: a factor below 2^63 of the divisor; the power of two; and the words with the numbers of infinities of
both signs, or -1."""
KEY, GIVEN, WORD, WHOLE, SHORT, WIDE, SUM, AVERAGE, POWER = 0, 1, 2, 3, 4, 5, 6, 7, 8
"""Kinds: a key; a column that Python passes; a word; a sum that is an int64, a decimal of one word (below the factor),
or a decimal of two words that is its own code; a sum and an average of doubles; a power of a word, which is at most
``V_FACTOR``: the exponent is ``V_SHIFT``."""
S_STEP, S_FOUND, S_GROUPS, S_FAR, S_BEFORE, S_AFTER, S_AT, S_COLUMN, S_DELTAS, S_END = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
"""Words of a batch: the next step; rows whose groups are found, and groups; number of far doubles; of the only group, 1
if its row is present before, and after; group and column with an error; delivered rows."""
LOCATE, GATHER, CHECK, SHOW, DELIVER, STORE, STORED = 0, 1, 2, 3, 4, 5, 6  # steps
DONE, BUDGET, ROOM, ADD, COUNTS, VALUES, REFUSED, LONG, STANDS = 0, 1, 2, 3, 4, 5, 6, 7, 8
"""Results of ``change``: done; the budget is used up; there are more groups than room; Python must add; must check
counts that are out of range; must pass columns; a value has no code; Python must pass decimals, of which one is not its
own code; storing is the next step."""
MOST_ROWS = 1 << 62
MOST_LIMBS = 8  # of a sum that is converted to a double here
_NAN = 0x7FF8 << 48


@device
def _located(arena, t, plan, strides, keys, where, handles, n, state):
    """Numbers the groups of rows: ``where[i]`` receives the number of row ``i``'s group. Makes missing groups.

    Word ``j`` of a row's key is ``keys[strides[j] + i]``. Returns False if the budget is used up; call it again to
    continue.
    """
    k = plan[P_KEYS]
    while state[S_FOUND] < n:
        start = state[S_FOUND]
        stop = look_ahead(arena, t, strides, k, keys, start, n, where, start)
        for i in range(start, stop):
            tag = where[i]
            slot = seek(arena, t, tag, strides, 0, k, keys, i, NONE)
            group = record_in(arena, t, slot)
            if group == 0:
                if arena[H_LIVE] > arena[H_BUDGET]:
                    return False
                group = made_in(arena, t, tag, slot, strides, 0, k, keys, i, record_words(k, plan[P_STATE]))
            number = arena[group + k]
            if number == 0:
                handles[state[S_GROUPS]] = group
                state[S_GROUPS] += 1
                number = state[S_GROUPS]
                arena[group + k] = number
            where[i] = number - 1
            state[S_FOUND] = i + 1
    return True


@device
def _gathered(arena, plan, handles, groups, rows):
    """Copies the sums of groups twice: the old sums, and the basis of the new ones."""
    width, first = plan[P_SUMS], state_at(plan[P_KEYS])
    for i in range(groups):
        for j in range(width):
            rows[i * width + j] = arena[handles[i] + first + j]
    for i in range(groups * width):
        rows[groups * width + i] = rows[i]


@device
def _doubtful(plan, groups, weights, n, rows):
    """Returns True if a group may have a negative number of rows, or more than can be counted."""
    width = plan[P_SUMS]
    low, high = ZERO, ZERO
    for i in range(groups, 2 * groups):
        low, high = min(low, rows[i * width]), max(high, rows[i * width])
    least, most = ZERO, ZERO
    for i in range(n):
        least, most = min(least, weights[i]), max(most, weights[i])
    largest = max(-float(least), float(most))
    return low < 0 or float(n) * largest + float(high) > float(MOST_ROWS)


@device
def _double(plan, o, rows, r, scratch):
    """Returns the code of a sum or an average that is a double. At least one row must count."""
    if plan[o + V_ABOVE] >= 0:
        above, below = rows[r + plan[o + V_ABOVE]] > 0, rows[r + plan[o + V_BELOW]] > 0
        if above and below:
            return ZERO + _NAN
        if above or below:
            return word_of(math.inf if above else -math.inf)
    limbs = plan[o + V_LIMBS]
    room = max(limbs, 2) + 1
    low, high = ZERO + 1, ZERO
    if plan[o] == AVERAGE:
        low = rows[r + plan[o + V_COUNT]]
    if plan[o + V_FACTOR] != 1:
        low, high = product_of_words(low, plan[o + V_FACTOR])
    extend(scratch, 0, room, rows, r + plan[o + V_AT], limbs)
    scratch[room], scratch[room + 1] = low, high
    for x in range(room + 2, 2 * room):
        scratch[x] = ZERO
    return word_of(ratio(scratch, room, int(plan[o + V_SHIFT])) + 0.0)  # one zero


@device
def work_out(arena, plan, o, width, handles, groups, rows, row, given, at, scratch, out, to):
    """Writes the codes of a column of groups to ``out``, from ``out[to]``. The groups' sums begin at ``rows[row]``.
    Returns the number of a group whose value has no code, or -1. ``given[at]``: the first value that Python passes."""
    kind, word = plan[o], plan[o + V_AT]
    refused = -1
    if kind == KEY:
        for i in range(groups):
            out[to + i] = arena[handles[i] + word]
    elif kind == GIVEN:
        for i in range(groups):
            out[to + i] = given[at + i]
    elif kind == WORD:
        for i in range(groups):
            out[to + i] = rows[row + i * width + word]
    elif kind == POWER:
        exponent, largest = plan[o + V_SHIFT], plan[o + V_FACTOR]
        for i in range(groups):
            base = rows[row + i * width + word]
            power = base
            for _ in range(1, exponent):
                power *= base
            out[to + i] = power
            if base > largest:
                refused = i
    else:
        limbs, count, bound = plan[o + V_LIMBS], plan[o + V_COUNT], plan[o + V_FACTOR]
        for i in range(groups):
            r = row + i * width
            if rows[r + count] == 0:
                out[to + i] = NULL
            elif kind in (SUM, AVERAGE):
                out[to + i] = _double(plan, o, rows, r, scratch)
            else:
                low = rows[r + word]
                code = short_number(low) if kind == WIDE else low
                out[to + i] = code
                beyond = code == 0 if kind == WIDE else kind == SHORT and (low >= bound or low <= -bound)
                if not is_word(rows, r + word, limbs) or beyond:
                    refused = i
    return refused


@device
def _packed(out, source, n, flags, bit, to):
    """Moves those of ``n`` words whose flags have a bit to ``out[to ...]``, which is not after them."""
    m = ZERO
    for i in range(n):
        out[to + m] = out[source + i]
        m += (out[flags + i] >> bit) & 1


@device
def _delivered(arena, plan, handles, groups, rows, given, shown, hides, scratch, room, out, state):
    """Writes the rows of groups that differ to ``out``, column by column, the old ones first, then the new ones, and
    then the weights, -1 and 1. Returns DONE; or REFUSED or LONG if a value has no code here, with its position in
    ``state``.

    ``given`` int64[columns, 2 * groups]. ``shown``: for the groups before and after, whether HAVING holds, if
    ``hides``. Each column of ``out`` has room for two rows of ``room`` groups. First, one half of a column receives the
    old values, and the other half the new ones; then the rows that differ are moved together.
    """
    columns, width, whole = plan[P_COLUMNS], plan[P_SUMS], plan[P_WHOLE] == 1
    total, stride, after = 2 * groups, 2 * room, groups * width
    flags = columns * stride  # per group: 1 for an old row, 2 for a new one, 4 if it differs
    for c in range(columns):
        o, place = P_HEAD + VALUE * c, c * stride
        at = plan[o + V_AT] * total if plan[o] == GIVEN else ZERO
        known = work_out(arena, plan, o, width, handles, groups, rows, ZERO, given, at, scratch, out, place)
        refused = work_out(
            arena, plan, o, width, handles, groups, rows, after, given, at + groups, scratch, out, place + room
        )
        if plan[o] == WIDE and max(known, refused) >= 0:
            return LONG
        if refused >= 0:
            state[S_AT], state[S_COLUMN] = refused, c
            return REFUSED
    for i in range(groups):
        old = state[S_BEFORE] == 1 if whole else rows[i * width] > 0
        new = state[S_AFTER] == 1 if whole else rows[after + i * width] > 0
        if hides:
            old, new = old and shown[i], new and shown[groups + i]
        out[flags + i] = (ZERO + old) | (ZERO + new) << 1 | (ZERO + (old != new)) << 2
    for c in range(columns):
        if plan[P_HEAD + VALUE * c] != KEY:
            place = c * stride
            for i in range(groups):
                out[flags + i] |= (ZERO + (out[place + i] != out[place + room + i])) << 2
    gone, come = ZERO, ZERO
    for i in range(groups):
        told = out[flags + i] & (3 * (out[flags + i] >> 2))
        out[flags + i] = told
        gone += told & 1
        come += told >> 1
    m = gone + come
    for c in range(columns):
        _packed(out, c * stride, groups, flags, 0, c * m)
        _packed(out, c * stride + room, groups, flags, 1, c * m + gone)
    for i in range(m):
        out[columns * m + i] = -1 if i < gone else 1
    state[S_DELTAS] = m
    return DONE


@device
def _stored(arena, t, plan, identity, handles, groups, rows, state):
    """Writes back the sums of groups, and deletes groups without rows, unless the stage's group is permanent. ``state``
    receives the number of a group without rows but with nonzero words, or -1."""
    k, size, width = plan[P_KEYS], plan[P_STATE], plan[P_SUMS]
    first = state_at(k)
    state[S_AT] = -1
    for i in range(groups):
        group, row = handles[i], (groups + i) * width
        arena[group + k] = 0
        for j in range(width):
            arena[group + first + j] = rows[row + j]
        if rows[row] == 0:
            for j in range(size):
                if arena[group + first + j] != 0:
                    state[S_AT] = i
            if plan[P_WHOLE] == 0 and state[S_AT] != i:
                drop(arena, t, identity, k, size, group)


@kernel(
    "words, int, words, words, words, words, words, words, words, words, words, words, words, int, words, words, "
    "words, words, words, words, flags, words, words"
)
def change(
    arena, t, plan, identity, state, strides, keys, weights, inputs, forms, pairs, dictionary, payload, sign, sums,
    carried, scratch, where, handles, given, shown, rows, out,
):  # fmt: skip
    """Calls ``advance`` with these arrays. ``where`` has one word per row of all feeds."""
    n, events, hides, held, room = weights.size, where.size, shown.size > 0, rows.size, out.size
    arena, plan, identity, strides = words(arena), constants(plan), constants(identity), words(strides)
    keys, weights, inputs, forms, pairs = words(keys), words(weights), words(inputs), words(forms), words(pairs)
    dictionary, payload, sums, carried = words(dictionary), words(payload), constants(sums), constants(carried)
    scratch, where, handles, given, out = words(scratch), words(where), words(handles), words(given), words(out)
    return advance(
        arena, t, plan, identity, words(state), strides, keys, weights, n, inputs, forms, pairs, dictionary, payload,
        sign, sums, carried, scratch, where, events, handles, given, shown, hides, words(rows), held, out, room,
    )  # fmt: skip


@device
def advance(
    arena, t, plan, identity, state, strides, keys, weights, n, inputs, forms, pairs, dictionary, payload, sign, sums,
    carried, scratch, where, events, handles, given, shown, hides, rows, held, out, room,
):  # fmt: skip
    """Applies a batch of ``weights`` (int64[n]) to the groups in table ``t``, as far as possible. Returns the reason
    for returning. O(rows * terms + groups * columns).

    ``state``: the words ``S_STEP`` ..., initially zeros. ``strides`` and ``keys``: the rows of all feeds, with a
    ``where`` each; see ``_located``. ``inputs``, ``forms``, ``pairs`` and ``dictionary``: see ``sums.add_terms``.
    ``payload`` and ``sign``: see ``sums.carry_over``. ``sums`` and ``carried``: the recipes of both. ``scratch``: room
    for both, and for a quotient. ``given`` and ``shown``: see ``_delivered``. ``rows``: room for the old and new sums
    of groups. ``out``: room for their old and new rows and weights; receives as many as ``state`` says, column by
    column, then the weights. ``identity``: 0, 1, 2, ... There are ``events`` rows of all feeds, ``held`` words of
    ``rows``, and ``room`` words of ``out``.
    """
    width, pauses = plan[P_SUMS], plan[P_PAUSES]
    if state[S_STEP] == LOCATE:
        if plan[P_WHOLE] == 0 and not _located(arena, t, plan, strides, keys, where, handles, events, state):
            return BUDGET
        state[S_STEP] = GATHER
    groups = state[S_GROUPS]
    if state[S_STEP] == GATHER:
        if 2 * groups * width > held or 2 * groups * (plan[P_COLUMNS] + 1) > room:
            return ROOM
        _gathered(arena, plan, handles, groups, rows)
        state[S_FAR] = add_all_terms(
            dictionary, where, weights, n, inputs, forms, pairs, sums, scratch, rows, groups * width, width
        )
        if carried[0] > 0:
            state[S_FAR] += carry_over(where, n, payload, sign, carried, scratch, rows, groups * width, width)
        state[S_STEP] = CHECK
        if state[S_FAR] > 0 or pauses & PAUSE_ADD != 0:
            return ADD
    if state[S_STEP] == CHECK:
        state[S_STEP] = SHOW
        if _doubtful(plan, groups, weights, n, rows):
            return COUNTS
    if state[S_STEP] == SHOW:
        state[S_STEP] = DELIVER
        if pauses & PAUSE_SHOW != 0:
            return VALUES
    if state[S_STEP] == DELIVER:
        room //= 2 * (plan[P_COLUMNS] + 1)
        found = _delivered(arena, plan, handles, groups, rows, given, shown, hides, scratch, room, out, state)
        if found != DONE:
            return found
        state[S_STEP] = STORE
        if pauses & PAUSE_STORE != 0:
            return STANDS
    _stored(arena, t, plan, identity, handles, groups, rows, state)
    state[S_STEP] = STORED
    return DONE


@kernel("words, words, words, table, words, flags, int, words, words")
def present(arena, plan, handles, rows, given, shown, begun, scratch, out):
    """Writes the rows of groups with the sums ``rows`` (int64[groups, sums]) to ``out``, column by column. Returns
    their number, or -1 if a decimal is not its own code. ``out`` has room for one more word per group.

    ``given`` int64[columns, groups] and ``shown``: as in ``_delivered``. ``begun``: 1 if the only group has its row.
    """
    groups, hides = handles.size, shown.size > 0
    arena, plan, handles, rows = words(arena), constants(plan), words(handles), words(rows)
    given, scratch, out = words(given), words(scratch), words(out)
    columns, flags = plan[P_COLUMNS], plan[P_COLUMNS] * groups
    m = ZERO
    for i in range(groups):
        there = begun == 1 if plan[P_WHOLE] == 1 else rows[i * plan[P_SUMS]] > 0
        if hides:
            there = there and shown[i]
        out[flags + i] = ZERO + there
        m += there
    for c in range(columns):
        o = P_HEAD + VALUE * c
        at = plan[o + V_AT] * groups if plan[o] == GIVEN else ZERO
        long = work_out(arena, plan, o, plan[P_SUMS], handles, groups, rows, ZERO, given, at, scratch, out, c * groups)
        if plan[o] == WIDE and long >= 0:
            return -1
        _packed(out, c * groups, groups, flags, 0, c * m)
    return m
