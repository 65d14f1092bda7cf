"""Recursions of a native call: the operators of a body, which run once per round (``crown.stages.fixpoint``).

    begin: changes of the tables of the body -> operators of the body -> count: derivations -> end: changes of the rows
             ^                                                                                     |
             +---------------------------------- until no row changes -----------------------------+

With UNION ALL, a row is there as often as it is derived: the net of its derivations is the change of the rows, and rows
and derivations have no stamps.

With MIN or MAX, ``count`` makes a block of the candidates that its derivations add and remove. The operators of a top
stage, between ``count`` and ``end``, judge which rows have become the best of their groups, or no longer are.

The memory of all rounds is kept until the call returns, and each round has an entry in a log. If the call stops in a
round, Python reads the log, and continues with that round.
"""

from __future__ import annotations

from crown.engine.kernels.update import MAX_COPIES
from crown.kernels.jit import device
from crown.kernels.memory.addresses import words_at
from crown.kernels.memory.arena import H_BUDGET, H_STEPS, NONE, ZERO, release
from crown.kernels.memory.pointers import beyond
from crown.kernels.memory.tables import find, hash_key, record_in, remove_from, seek
from crown.programs.kernels.blocks import (
    B_FORMS,
    B_NULLS,
    B_TUPLES,
    B_WEIGHT_SUM,
    B_WEIGHTS,
    BLOCK_WORDS,
    HEAD_WORDS,
    STATE,
)
from crown.stages.kernels.counts import tallied
from crown.stages.kernels.prefetch import AHEAD
from crown.stages.kernels.recursions import BEST, COUNT, STAMP, deleted, founded, inserted, unfounded

# Words of a recursion in the plan, behind those of its head, which its begin and its end have in common.
(
    L_TABLE,  # the table of the rows
    L_RECORD,  # word of its arena with the last stamp
    L_WIDTH,  # columns of a row
    L_TABLE_COUNT,  # number of tables of the body besides the rows
    L_TABLES_AT,  # offset of two words per such table: number of the block with its changes; of the block of the body
    L_ROWS,  # number of the block of the body with the changes of the rows, whose last column is the stamp, if any
    L_FORMS_AT,  # offset of the forms of the columns of the rows
    L_DERIVED,  # number of the block of derivations, whose last column is the stamp, if any
    L_LEAVES,  # counts of a row; 1 with UNION ALL
    L_NET,  # number of the block with the net of the derivations without their stamps; only with MIN, MAX or UNION ALL
    L_CANDIDATES,  # number of the block of candidates, or -1 without MIN or MAX
    L_JUDGED,  # number of the block of the rows that have become the best, or no longer are
    L_OUTPUT,  # number of the block with the changes of the rows in all rounds
    ROUNDS_WORDS,
) = range(HEAD_WORDS, HEAD_WORDS + 14)
# Words of a recursion in the state.
(
    LS_ARENA,  # address of its arena
    LS_ARENA_WORDS,  # size of the arena
    LS_FIRST,  # number of the first operator of the body
    LS_ROUNDS,  # rounds that are done
    LS_LOG,  # word of the memory where the log begins
    LS_ABSENT,  # word of the memory with the rows that were not there when their derivations changed
    LS_ABSENT_COUNT,
    LS_CHANGED,  # word of the memory with the changes of the rows in all rounds
    LS_CHANGED_COUNT,
    LS_END,  # word of the memory where the room for rounds ends
    LS_COLUMNS,  # word of the memory with the words where the columns of the derivations begin
    LS_BEFORE,  # word of the memory with the counts of their rows before them
    LS_PENDING,  # 1 if the last round of the log is done, but the next one has no room
    LS_MAX_ROUNDS,  # rounds for which there is room in the log
    LS_ROOM,  # rows for which there is room among the absent rows, and among the changes of all rounds
    LS_MAX_ROWS,  # rows of a change for which there is room in a round
    LS_ROUND_WORDS,  # words of the memory that a round takes at most
    LS_ROUNDS_ROOM,  # words of the memory that all rounds have
    ROUNDS_STATE_WORDS,
) = range(19)
# Words of a round in the log.
(
    E_DERIVED,  # number of derivations
    E_COLUMNS,  # word of the memory with the words where their columns begin, the last one that of the stamps
    E_WEIGHTS,  # word of the memory with their weights
    E_FOUNDED,  # number of the founded ones among them
    E_CHOSEN,  # word of the memory with the list of these
    E_CANDIDATES,  # number of candidates that were added and removed
    E_CANDIDATE,  # word of the memory with the forms and beginnings of their columns
    E_CANDIDATE_WEIGHTS,  # word of the memory with their weights
    E_JUDGED,  # number of judged rows
    E_JUDGED_COLUMNS,  # word of the memory with the words where their columns begin
    E_JUDGED_WEIGHTS,  # word of the memory with their weights
    E_SIGN,  # -1 if the round has deleted rows, 1 if it has inserted rows
    E_CHANGES,  # number of these rows
    E_CHANGE,  # word of the memory where their columns begin: the row, its stamp, its founded derivations
    E_STRIDE,  # words between the columns
    LOG_WORDS,
) = range(16)
ENDED, CONTINUED, STOPPED = range(3)
"""Results of ``count_derived`` and ``end_round``: no row has changed, another round or operator follows, or Python must
continue."""


@device
def fixed_words(width, rounds, room):
    """Returns how many words of the memory a recursion takes besides those of its rounds.

    ``rounds``: those of the log. ``room``: absent rows, and changes of all rounds.
    """
    return LOG_WORDS * rounds + (2 * width + 1) * room + 2 * (width + 1)


@device
def words_per_round(width):
    """Returns how many words of the memory the count and the end of a round take in any case."""
    return 9 * (width + 1) + AHEAD


@device
def words_per_row(width):
    """Returns how many words of the memory the end of a round takes for each absent row."""
    return width + 3


@device
def words_per_derivation(width, leaves):
    """Returns how many words of the memory the count and the end of a round take for each derivation."""
    if leaves <= BEST:
        return leaves + 4 + width + 2
    return leaves + 7 + width + 1 + 4 * (width + 2)  # a candidate, three judged rows


@device
def _set_block(memory, state, block, forms_of, width, columns, stride, weights, n, free):
    """Makes a block of ``n`` tuples, whose columns begin at word ``columns`` and are ``stride`` words long. Returns the
    next free word. ``forms_of``: the forms of the columns; the last one of ``width`` is a stamp."""
    forms = beyond(memory, free)
    for j in range(width):
        forms[2 * j], forms[2 * j + 1] = forms_of[j], columns + j * stride
    state[block + B_TUPLES], state[block + B_NULLS], state[block + B_FORMS] = n, 1, free
    state[block + B_WEIGHTS], state[block + B_WEIGHT_SUM] = weights, 0
    return free + 2 * width


@device
def _row_width(plan, op):
    """Returns the columns of a row in the body: with its stamp, if rows have stamps."""
    return plan[op + L_WIDTH] + (plan[op + L_LEAVES] > 1)


@device
def begin_rounds(plan, op, number, memory, free, state, blocks):
    """Begins the first round, in which the rows have no changes. Returns the next free word. ``number``: that of the
    operator."""
    at, width = plan[op + STATE], plan[op + L_WIDTH]
    state[at + LS_FIRST], state[at + LS_ROUNDS], state[at + LS_PENDING] = number + 1, 0, 0
    state[at + LS_ABSENT_COUNT], state[at + LS_CHANGED_COUNT], state[at + LS_LOG] = 0, 0, free
    free += LOG_WORDS * state[at + LS_MAX_ROUNDS]
    state[at + LS_ABSENT] = free
    free += width * state[at + LS_ROOM]
    state[at + LS_CHANGED] = free
    free += (width + 1) * state[at + LS_ROOM]
    state[at + LS_END] = free + state[at + LS_ROUNDS_ROOM]
    for table in range(plan[op + L_TABLE_COUNT]):
        pair = plan[op + L_TABLES_AT] + 2 * table
        given, body = blocks + BLOCK_WORDS * plan[pair], blocks + BLOCK_WORDS * plan[pair + 1]
        for word in range(BLOCK_WORDS):
            state[body + word] = state[given + word]
    rows, forms = blocks + BLOCK_WORDS * plan[op + L_ROWS], beyond(plan, plan[op + L_FORMS_AT])
    return _set_block(memory, state, rows, forms, _row_width(plan, op), free, ZERO, free, ZERO, free)


@device
def _append(memory, area, room, count, width, strides, chosen, m):
    """Copies the ``m`` chosen tuples to an area, behind its ``count`` tuples. Returns their number then."""
    for j in range(width):
        target, source = area + j * room + count, strides[j]
        for k in range(m):
            memory[target + k] = memory[source + chosen[k]]
    return count + m


@device
def count_derived(plan, op, memory, free, state, blocks, grown):
    """Counts the derivations of a round, and makes the block of candidates. Expected O(derivations).

    Returns the result, and the next free word. It has changed nothing if it stops. ``grown``: the words that other
    parts of the program have taken during the call, which count against the budget.
    """
    at, width, leaves = plan[op + STATE], plan[op + L_WIDTH], plan[op + L_LEAVES]
    arena = words_at(state[at + LS_ARENA], state[at + LS_ARENA_WORDS])
    summed = leaves == 1
    derived = blocks + BLOCK_WORDS * plan[op + (L_NET if summed else L_DERIVED)]
    n, forms, weights = (
        state[derived + B_TUPLES],
        beyond(memory, state[derived + B_FORMS]),
        beyond(memory, state[derived + B_WEIGHTS]),
    )
    # With MIN or MAX, the judged rows are at most three for each derivation.
    most = n if plan[op + L_CANDIDATES] < 0 else 4 * n
    if state[at + LS_ROUNDS] == state[at + LS_MAX_ROUNDS] or state[at + LS_ABSENT_COUNT] + most > state[at + LS_ROOM]:
        return STOPPED, free
    strides, before = beyond(memory, free), beyond(memory, free + width + 1)
    for j in range(_row_width(plan, op)):
        strides[j] = forms[2 * j + 1]
    scratch = free + width + 1 + leaves * n
    leaf, tags, inverse = beyond(memory, scratch), beyond(memory, scratch + n), beyond(memory, scratch + n + AHEAD)
    for i in range(n):
        leaf[i] = COUNT
    keys, table = beyond(memory, ZERO), plan[op + L_TABLE]
    arena[H_BUDGET] -= grown
    counted = tallied(arena, table, strides, width, leaves, keys, leaf, weights, n, ZERO, before, tags, ZERO)
    arena[H_BUDGET] += grown
    fits = counted == n
    if summed and fits:
        for i in range(n):
            fits = fits and before[i] + weights[i] <= MAX_COPIES
    if not fits:
        for i in range(counted):
            inverse[i] = -weights[i]
        tallied(arena, table, strides, width, leaves, keys, leaf, inverse, counted, ZERO, before, tags, ZERO)
        return STOPPED, free
    arena[H_STEPS] += n
    state[at + LS_COLUMNS], state[at + LS_BEFORE] = free, free + width + 1
    free = scratch
    if plan[op + L_CANDIDATES] >= 0:
        free = _make_candidates(plan, op, arena, memory, free, state, blocks)
    return CONTINUED, free


@device
def _make_candidates(plan, op, arena, memory, free, state, blocks):
    """Makes the block of the rows that have become candidates, with the weight 1, or no longer are, with -1. Returns
    the next free word."""
    width = plan[op + L_WIDTH]
    net, candidates = blocks + BLOCK_WORDS * plan[op + L_NET], blocks + BLOCK_WORDS * plan[op + L_CANDIDATES]
    n, forms, weights = (
        state[net + B_TUPLES],
        beyond(memory, state[net + B_FORMS]),
        beyond(memory, state[net + B_WEIGHTS]),
    )
    strides, columns, keys, m = beyond(memory, free), free + width, beyond(memory, ZERO), ZERO
    for j in range(width):
        strides[j] = forms[2 * j + 1]
    table = plan[op + L_TABLE]
    for i in range(n):
        record = find(arena, table, hash_key(arena, strides, 0, width, keys, i), strides, 0, width, keys, i)
        after = arena[record + width + COUNT] if record != 0 else ZERO
        change = ZERO + (after > 0) - (after > weights[i])
        if change != 0:
            for j in range(width):
                memory[columns + j * n + m] = keys[strides[j] + i]
            memory[columns + width * n + m] = change
            m += 1
    free = columns + (width + 1) * n
    forms_of = beyond(plan, plan[op + L_FORMS_AT])
    return _set_block(memory, state, candidates, forms_of, width, columns, n, columns + width * n, m, free)


@device
def _judge(plan, op, arena, memory, free, state, blocks):
    """Counts which rows are the best. Returns the number of judged rows. Uses the memory from word ``free`` on."""
    width, leaves = plan[op + L_WIDTH], plan[op + L_LEAVES]
    judged = blocks + BLOCK_WORDS * plan[op + L_JUDGED]
    n, forms = state[judged + B_TUPLES], beyond(memory, state[judged + B_FORMS])
    strides, weights, keys = beyond(memory, free), beyond(memory, state[judged + B_WEIGHTS]), beyond(memory, ZERO)
    for j in range(width):
        strides[j] = forms[2 * j + 1]
    for i in range(n):
        slot = seek(
            arena, plan[op + L_TABLE], hash_key(arena, strides, 0, width, keys, i), strides, 0, width, keys, i, NONE
        )
        record = record_in(arena, plan[op + L_TABLE], slot)
        arena[record + width + BEST] += weights[i]
        some = ZERO
        for c in range(leaves):
            some |= arena[record + width + c]
        if some == 0:
            remove_from(arena, plan[op + L_TABLE], slot)
            release(arena, record, width + leaves)
    return n


@device
def _insert_absent(plan, op, arena, memory, free, state):
    """Inserts those of the absent rows that are derived or, with MIN or MAX, are the best. None is absent then.

    Returns the word of the memory where the columns of the inserted rows begin, the words between them, their sign, and
    their number. Uses the memory from word ``free`` on.
    """
    at, width, wanted = plan[op + STATE], plan[op + L_WIDTH], ZERO + COUNT
    if plan[op + L_CANDIDATES] >= 0:
        wanted = ZERO + BEST
    room, count, record = state[at + LS_ROOM], state[at + LS_ABSENT_COUNT], plan[op + L_RECORD]
    strides, every, out = beyond(memory, free), beyond(memory, free + width), free + width + count
    for j in range(width):
        strides[j] = state[at + LS_ABSENT] + j * room
    for k in range(count):
        every[k] = k
    done = inserted(
        arena, plan[op + L_TABLE], strides, width, beyond(memory, ZERO), every, count, wanted, arena[record] + 1,
        beyond(memory, out), count,
    )  # fmt: skip
    arena[record] += done > 0
    state[at + LS_ABSENT_COUNT] = 0
    return out, count, ZERO + 1, done


@device
def end_round(plan, op, memory, free, state, blocks):
    """Ends a round, whose derivations are counted: deletes rows, or else inserts some. Expected O(derivations).

    Returns the result, and the next free word.
    """
    if plan[op + L_LEAVES] == 1:
        return _end_sums(plan, op, memory, free, state, blocks)
    at, width, leaves = plan[op + STATE], plan[op + L_WIDTH], plan[op + L_LEAVES]
    arena = words_at(state[at + LS_ARENA], state[at + LS_ARENA_WORDS])
    derived = blocks + BLOCK_WORDS * plan[op + L_DERIVED]
    n, weights = state[derived + B_TUPLES], beyond(memory, state[derived + B_WEIGHTS])
    rounds, room, absent = state[at + LS_ROUNDS], state[at + LS_ROOM], state[at + LS_ABSENT]
    keys, table = beyond(memory, ZERO), plan[op + L_TABLE]
    strides, before = beyond(memory, state[at + LS_COLUMNS]), beyond(memory, state[at + LS_BEFORE])
    judges = plan[op + L_CANDIDATES] >= 0
    judged, judged_at, chosen_at = ZERO, free, free + width
    judged_strides = beyond(memory, judged_at)
    if judges:
        judged = _judge(plan, op, arena, memory, free, state, blocks)
    chosen, lost = beyond(memory, chosen_at), beyond(memory, chosen_at + n)
    free = chosen_at + 2 * n
    stamps = beyond(memory, strides[width])
    m = founded(arena, table, strides, width, leaves, keys, stamps, weights, before, n, chosen)
    for k in range(m):
        lost[k] = chosen[k]
    left = unfounded(arena, table, strides, width, keys, weights, lost, m)
    listed_judged = beyond(memory, free)
    worse, stride, sign = ZERO, left, ZERO - 1
    judged_weights = weights
    if judges:
        judged_weights = beyond(memory, state[blocks + BLOCK_WORDS * plan[op + L_JUDGED] + B_WEIGHTS])
        for i in range(judged):
            listed_judged[worse] = i
            worse += judged_weights[i] < 0
        free += judged
        stride += worse
    out = free
    done = deleted(arena, table, strides, width, leaves, keys, lost, left, beyond(memory, out), stride)
    done += deleted(
        arena, table, judged_strides, width, leaves, keys, listed_judged, worse, beyond(memory, out + done), stride
    )
    count, listed = state[at + LS_ABSENT_COUNT], ZERO
    if judges:
        for i in range(judged):
            listed_judged[listed] = i
            listed += judged_weights[i] > 0
        count = _append(memory, absent, room, count, width, judged_strides, listed_judged, listed)
    else:
        for i in range(n):
            if before[i * leaves + STAMP] == 0:
                lost[listed] = i
                listed += 1
        count = _append(memory, absent, room, count, width, strides, lost, listed)
    if done > 0:
        for j in range(width):
            for k in range(done):
                memory[absent + j * room + count + k] = memory[out + j * stride + k]
        state[at + LS_ABSENT_COUNT] = count + done
    else:
        state[at + LS_ABSENT_COUNT] = count
        out, stride, sign, done = _insert_absent(plan, op, arena, memory, free, state)
    free = out + (width + 2) * stride
    entry = beyond(memory, state[at + LS_LOG] + LOG_WORDS * rounds)
    entry[E_DERIVED], entry[E_COLUMNS], entry[E_WEIGHTS] = n, state[at + LS_COLUMNS], state[derived + B_WEIGHTS]
    entry[E_FOUNDED], entry[E_CHOSEN] = m, chosen_at
    entry[E_SIGN], entry[E_CHANGES], entry[E_CHANGE], entry[E_STRIDE] = sign, done, out, stride
    if judges:
        candidates = blocks + BLOCK_WORDS * plan[op + L_CANDIDATES]
        entry[E_CANDIDATES], entry[E_CANDIDATE] = state[candidates + B_TUPLES], state[candidates + B_FORMS]
        entry[E_CANDIDATE_WEIGHTS] = state[candidates + B_WEIGHTS]
        entry[E_JUDGED], entry[E_JUDGED_COLUMNS] = judged, judged_at
        entry[E_JUDGED_WEIGHTS] = state[blocks + BLOCK_WORDS * plan[op + L_JUDGED] + B_WEIGHTS]
    for k in range(done):
        memory[free + k] = sign
    return _next_round(plan, op, memory, free + done, state, blocks, out, stride, done, free)


@device
def _end_sums(plan, op, memory, free, state, blocks):
    """Does what ``end_round`` does with UNION ALL: the net of the derivations is the change of the rows."""
    at, width, net = plan[op + STATE], plan[op + L_WIDTH], blocks + BLOCK_WORDS * plan[op + L_NET]
    n, forms, weights = state[net + B_TUPLES], beyond(memory, state[net + B_FORMS]), state[net + B_WEIGHTS]
    for j in range(width):
        for i in range(n):
            memory[free + j * n + i] = memory[forms[2 * j + 1] + i]
    entry = beyond(memory, state[at + LS_LOG] + LOG_WORDS * state[at + LS_ROUNDS])
    entry[E_CHANGES], entry[E_CHANGE], entry[E_WEIGHTS] = n, free, weights
    return _next_round(plan, op, memory, free + width * n, state, blocks, free, n, n, weights)


@device
def _next_round(plan, op, memory, free, state, blocks, out, stride, done, weights_at):
    """Makes the ``done`` changes of the rows the input of another round, if there are some. Returns what ``end_round``
    returns. ``weights_at``: the word of the memory with their weights."""
    at, width, forms = plan[op + STATE], plan[op + L_WIDTH], beyond(plan, plan[op + L_FORMS_AT])
    room, changed, total = state[at + LS_ROOM], state[at + LS_CHANGED], state[at + LS_CHANGED_COUNT]
    state[at + LS_ROUNDS] += 1
    if done == 0:
        output = blocks + BLOCK_WORDS * plan[op + L_OUTPUT]
        return ENDED, _set_block(
            memory, state, output, forms, width, changed, room, changed + width * room, total, free
        )
    if done > state[at + LS_MAX_ROWS] or total + done > room or free + state[at + LS_ROUND_WORDS] > state[at + LS_END]:
        state[at + LS_PENDING] = 1
        return STOPPED, free
    for k in range(done):
        memory[changed + width * room + total + k] = memory[weights_at + k]
    for j in range(width):
        for k in range(done):
            memory[changed + j * room + total + k] = memory[out + j * stride + k]
    state[at + LS_CHANGED_COUNT] = total + done
    rows = blocks + BLOCK_WORDS * plan[op + L_ROWS]
    for table in range(plan[op + L_TABLE_COUNT]):
        state[blocks + BLOCK_WORDS * plan[plan[op + L_TABLES_AT] + 2 * table + 1] + B_TUPLES] = 0
    return CONTINUED, _set_block(memory, state, rows, forms, _row_width(plan, op), out, stride, weights_at, done, free)
