"""Joins of a native call: blocks of relations and stages in, the changed rows of the join out.

    per stored relation: block -> feed -> delta (``join_inputs``)
    all deletes, relation by relation -> all inserts -> buffer of rows, deleted rows first -> block or output

``apply_join`` applies the deltas in the order of ``crown.engine.propagation``. It may return after any step of it; the
propagation in Python continues from there.
"""

from __future__ import annotations

from crown.engine.kernels.layout import (
    MODE_DELTAS,
    P_COLUMN,
    X_CAPACITY,
    X_EDGE,
    X_FACTORED,
    X_FILL,
    X_I,
    X_MODE,
    X_PARENT,
)
from crown.engine.kernels.padding import batches
from crown.engine.kernels.payloads.summed_leaves import summed
from crown.engine.kernels.publish import PUBLISHING, publish
from crown.engine.kernels.state import find_copies
from crown.engine.kernels.update import DONE, deleted, inserted
from crown.kernels.jit import device
from crown.kernels.memory.addresses import constants_at, halves_at, words_at
from crown.kernels.memory.arena import H_BUDGET, H_LOANS, H_OPEN, H_WRAPPED, ZERO
from crown.kernels.memory.context import Context
from crown.kernels.memory.pointers import beyond
from crown.programs.kernels.blocks import B_FORMS, B_NULLS, B_TUPLES, B_WEIGHTS, BLOCK_WORDS, HEAD_WORDS, STATE
from crown.programs.kernels.join_inputs import (
    I_ALIAS_COUNT,
    I_ALIASES_AT,
    I_JOIN_STATE,
    I_MASK_COLUMN,
    I_RECORD,
    I_STATE,
    I_SUMMED,
    I_WIDTH,
    IS_AMOUNTS,
    IS_DELETED,
    IS_MASKS,
    IS_MISSING,
    IS_ROWS,
    IS_TUPLES,
    IS_WEIGHTS,
    count_read,
    count_rejected,
)
from crown.programs.kernels.sources import net_tuples

# Words of a join in the plan, behind those of its head.
(
    J_INPUT_COUNT,
    J_INPUTS_AT,  # offset of the list of the offsets of its inputs
    J_TURNS_AT,  # offset of two lists of numbers of inputs: in the order of the deletions, in that of the insertions
    J_WEIGHT_WORDS,  # words of the weights that rows carry, or 0: a row then has weight 1 or -1
    J_DELIVERS,  # 1 if its rows are the output of the call; else a stage reads them
    J_NETS,  # 1 if the output is netted
    J_OUTPUT_AT,  # offset of the list of the buffer columns of the output
    J_OUTPUT_WIDTH,  # number of these columns
    J_COLUMN_COUNT,  # number of columns that a stage reads
    J_COLUMNS_AT,  # offset of three words per such column: buffer column, or -1 and the code of all its values; form
    J_BLOCK,  # number of the block of the rows in the buffer
    J_VISIT_COUNT,  # number of visits to groups that may be padded
    J_VISITS_AT,  # offset of these visits
    J_HAS_FEED,  # 1 if a feed makes the rows of the stage; it is the next operator, and commits the join
    JOIN_WORDS,
) = range(HEAD_WORDS, HEAD_WORDS + 15)
# Words of a visit to groups that may be padded.
(
    V_PHASE,  # -1 before the insertions, 1 after them
    V_INPUT_AT,  # offset of the join input whose tuples find the groups
    V_SIGN,  # 1 for its inserted tuples, -1 for its deleted ones; before the insertions always 1
    V_NODE,  # padded node
    V_LOOKUP,  # look-up of the group
    V_BIT,  # before the insertions: number of the alias that reads the tuples
    VISIT_WORDS,
) = range(7)
# Words of a join in the state. The last four are pairs: an address and a number of words.
JS_SIGN = 0  # phase: -1 deletions, 1 insertions, then PUBLISHING
JS_TURN = 1  # position of the current input in the order of the phase; behind all inputs: paddings
JS_STATUS = 2  # what the engine kernel returned there
JS_DELETED_ROWS = 3  # deleted rows in the buffer, which come first, if rows carry no weights
JS_MISSING = 4  # copies to delete that were not there
JS_ALL_ALIASES = 5  # mask of tuples that all aliases read
JS_MAX_ROWS = 6  # rows that a stage may read: there is room for them in the memory
JS_BUFFER_ROWS = 7  # rows for which there is room in the buffer
JS_ARENA = 8
JS_PLAN = 10
JS_SCRATCH = 12
JS_BUFFER = 14
JOIN_STATE_WORDS = 16
# Results of ``apply_join``.
JOIN_STOPPED = 26  # the engine stopped within the batch; JS_SIGN, JS_TURN and JS_STATUS say where
JOIN_ROWS_PENDING = 27  # all changes are applied, but Python must take the rows out of the buffer


@device
def core_context(state, core):
    """Returns the state of a core in the form that the kernels of the engine take."""
    size = state[core + JS_ARENA + 1]
    arena, halves = words_at(state[core + JS_ARENA], size), halves_at(state[core + JS_ARENA], 2 * size)
    core_plan = constants_at(state[core + JS_PLAN], state[core + JS_PLAN + 1])
    return Context(arena, halves, core_plan, words_at(state[core + JS_SCRATCH], state[core + JS_SCRATCH + 1]))


@device
def all_deletes_found(plan, stored, memory, state):
    """Returns True if all deleted tuples of a join input are stored, with as many copies."""
    ctx, delta = core_context(state, plan[stored + I_JOIN_STATE]), plan[stored + I_STATE]
    deletes, copies = state[delta + IS_DELETED], beyond(memory, state[delta + IS_MISSING])
    amounts, rows = beyond(memory, state[delta + IS_AMOUNTS]), beyond(memory, state[delta + IS_ROWS])
    find_copies(ctx.arena, ctx.halves, ctx.plan, plan[stored + I_RECORD], rows, deletes, copies)
    all_found = True
    for i in range(deletes):
        all_found = all_found and copies[i] >= amounts[i]
        copies[i] = 0
    return all_found


@device
def _delete(ctx, summed_only, record, rows, amounts, n, missing, ring, out):
    """Deletes tuples of a stored relation, or takes them from its sums if only these are kept. Returns the status."""
    if ring is not None and summed_only == 1:
        return summed(ctx, record, rows, amounts, n, missing, -1, ring, out)
    return deleted(ctx, record, rows, amounts, n, missing, ring, out)


@device
def _insert(ctx, summed_only, record, rows, weights, n, masks, masked, ring, out):
    """Inserts tuples, or adds them to sums, as ``_delete`` deletes them. Returns the status.

    ``masks``: a mask per tuple if they are ``masked``, else one mask for all.
    """
    if ring is not None and summed_only == 1:
        return summed(ctx, record, rows, weights, n, masks, 1, ring, out)
    return inserted(ctx, record, rows, weights, n, masks, masked, ring, out)


@device
def _masks_of(plan, stored, memory, state, core, first):
    """Returns the masks of the tuples of a join input from tuple ``first`` on, or the mask that all of them have."""
    masks = beyond(state, core + JS_ALL_ALIASES)
    if plan[stored + I_MASK_COLUMN] >= 0:
        masks = beyond(memory, state[plan[stored + I_STATE] + IS_MASKS] + first)
    return masks


@device
def _update_paddings(ctx, plan, join, memory, state, sign, ring, buffer):
    """Removes paddings before the insertions (``sign`` -1), or adds them after the insertions (1).

    Returns ``DONE``, or the status with which it stopped.
    """
    core = plan[join + STATE]
    for number in range(plan[join + J_VISIT_COUNT]):
        visit = plan[join + J_VISITS_AT] + VISIT_WORDS * number
        if plan[visit + V_PHASE] == sign:
            stored = plan[visit + V_INPUT_AT]
            delta, width = plan[stored + I_STATE], plan[stored + I_WIDTH]
            n, first = state[delta + IS_DELETED], ZERO
            if plan[visit + V_SIGN] > 0:
                n, first = state[delta + IS_TUPLES] - n, n
            node, lookup = plan[visit + V_NODE], plan[visit + V_LOOKUP]
            tuples = beyond(memory, state[delta + IS_ROWS] + first * width)
            ctx.scratch[X_I] = 0
            if sign < 0:
                masks, masked = _masks_of(plan, stored, memory, state, core, first), plan[stored + I_MASK_COLUMN] >= 0
                bit = plan[visit + V_BIT]
                status = batches.taken(ctx, node, lookup, width, tuples, n, masks, masked, bit, ring, buffer)
            else:
                status = batches.given(ctx, node, lookup, width, tuples, n, ring, buffer)
            if status != DONE:
                return status
    return DONE


@device
def _propagate(ctx, plan, join, memory, state, ring, buffer):
    """Applies the deltas of all join inputs; returns ``DONE``, or the status with which the engine stopped.

    ``ring``: None, or 1 for a core with payloads. The paddings of a phase follow its last input.
    """
    scratch, core, count = ctx.scratch, plan[join + STATE], plan[join + J_INPUT_COUNT]
    ctx.arena[H_OPEN] = 1
    scratch[X_MODE], scratch[X_FACTORED], scratch[X_CAPACITY] = MODE_DELTAS, 0, state[core + JS_BUFFER_ROWS]
    scratch[X_I], scratch[X_FILL], scratch[X_EDGE], scratch[X_PARENT] = 0, 0, 0, 0
    state[core + JS_DELETED_ROWS], state[core + JS_MISSING], state[core + JS_ALL_ALIASES] = 0, 0, -1
    for sign in (-1, 1):
        state[core + JS_SIGN] = sign
        for turn in range(count):
            number = plan[plan[join + J_TURNS_AT] + (turn if sign < 0 else count + turn)]
            stored = plan[plan[join + J_INPUTS_AT] + number]
            delta, record, summed_only = plan[stored + I_STATE], plan[stored + I_RECORD], plan[stored + I_SUMMED]
            n, deletes, start = state[delta + IS_TUPLES], state[delta + IS_DELETED], state[delta + IS_ROWS]
            state[core + JS_TURN] = turn
            status = DONE
            if sign < 0 and deletes > 0:
                amounts, missing = beyond(memory, state[delta + IS_AMOUNTS]), beyond(memory, state[delta + IS_MISSING])
                rows = beyond(memory, start)
                status = _delete(ctx, summed_only, record, rows, amounts, deletes, missing, ring, buffer)
                for i in range(deletes):
                    state[core + JS_MISSING] += missing[i]
            elif sign > 0 and n > deletes:
                rows = beyond(memory, start + deletes * plan[stored + I_WIDTH])
                weights = beyond(memory, state[delta + IS_WEIGHTS] + deletes)
                masks, masked = _masks_of(plan, stored, memory, state, core, deletes), plan[stored + I_MASK_COLUMN] >= 0
                status = _insert(ctx, summed_only, record, rows, weights, n - deletes, masks, masked, ring, buffer)
            if status != DONE:
                state[core + JS_STATUS] = status
                return status
        status = _update_paddings(ctx, plan, join, memory, state, sign, ring, buffer)
        if status != DONE:
            state[core + JS_TURN], state[core + JS_STATUS] = count, status
            return status
        if sign < 0:
            state[core + JS_DELETED_ROWS] = scratch[X_FILL]
    if ring is not None:
        state[core + JS_SIGN], state[core + JS_TURN] = PUBLISHING, 0
        state[core + JS_STATUS] = publish(ctx, ring, buffer)
        return state[core + JS_STATUS]
    return DONE


@device
def apply_join(plan, join, memory, state, blocks, grown):
    """Applies the deltas of all join inputs. Returns ``DONE``, ``JOIN_STOPPED`` or ``JOIN_ROWS_PENDING``.

    ``grown``: the words that other parts of the program have taken during the call, which count against the budget.
    """
    core = plan[join + STATE]
    ctx, buffer = core_context(state, core), words_at(state[core + JS_BUFFER], state[core + JS_BUFFER + 1])
    ctx.arena[H_BUDGET] -= grown
    if plan[join + J_WEIGHT_WORDS] > 0:
        status = _propagate(ctx, plan, join, memory, state, 1, buffer)
    else:
        status = _propagate(ctx, plan, join, memory, state, None, buffer)
    ctx.arena[H_BUDGET] += grown
    if status != DONE:
        return JOIN_STOPPED
    if state[core + JS_MISSING] > 0 or ctx.arena[H_WRAPPED] != 0 or ctx.arena[H_LOANS] != 0:
        return JOIN_ROWS_PENDING
    return DONE


@device
def _copy_weights(plan, join, ctx, memory, start, state, buffer):
    """Copies the weights of the rows in the buffer to the memory from word ``start`` on, column by column."""
    core, words = plan[join + STATE], plan[join + J_WEIGHT_WORDS]
    m, room, weights = ctx.scratch[X_FILL], state[core + JS_BUFFER_ROWS], beyond(memory, start)
    for w in range(words):
        for i in range(m):
            weights[w * m + i] = buffer[(ctx.plan[P_COLUMN] + w) * room + i]
    if words == 0:
        for i in range(m):
            weights[i] = -1 if i < state[core + JS_DELETED_ROWS] else 1


@device
def place_output(plan, join, secret, message, memory, state, slots):
    """Makes the rows of the join the output of the call. Returns their number, or -1 if Python must deliver them.

    Netted rows and their weights are written behind twice the room of the buffer. Other rows stay in the buffer, and
    their weights are written to word 0 of the memory. ``message``: True if the program can write a message.
    """
    core = plan[join + STATE]
    ctx, buffer = core_context(state, core), words_at(state[core + JS_BUFFER], state[core + JS_BUFFER + 1])
    m, room, nets = ctx.scratch[X_FILL], state[core + JS_BUFFER_ROWS], plan[join + J_NETS] == 1
    if m > 0 and (not message or (2 * m >= room and not nets)):
        return ZERO - 1
    _copy_weights(plan, join, ctx, memory, ZERO, state, buffer)
    if nets and m > 0:
        output_columns, start = beyond(plan, plan[join + J_OUTPUT_AT]), 2 * room
        m = net_tuples(
            buffer, room, output_columns, plan[join + J_OUTPUT_WIDTH], beyond(memory, ZERO), m, secret, slots,
            memory, room, beyond(memory, start), True,
        )  # fmt: skip
    return m


@device
def copy_rows(plan, join, memory, free, state, blocks):
    """Copies the rows in the buffer to a block in the memory from word ``free`` on.

    Returns the next free word, or -1 if there are more than ``JS_MAX_ROWS``.
    """
    core = plan[join + STATE]
    ctx, buffer = core_context(state, core), words_at(state[core + JS_BUFFER], state[core + JS_BUFFER + 1])
    m, room, columns = ctx.scratch[X_FILL], state[core + JS_BUFFER_ROWS], plan[join + J_COLUMN_COUNT]
    if m > state[core + JS_MAX_ROWS]:
        return ZERO - 1
    block, forms = blocks + BLOCK_WORDS * plan[join + J_BLOCK], beyond(memory, free)
    state[block + B_TUPLES], state[block + B_NULLS], state[block + B_FORMS] = m, 1, free
    free += 2 * columns
    for number in range(columns):
        column, codes = plan[join + J_COLUMNS_AT] + 3 * number, beyond(memory, free)
        word, code = plan[column], plan[column + 1]
        for i in range(m):
            codes[i] = buffer[word * room + i] if word >= 0 else code
        forms[2 * number], forms[2 * number + 1] = plan[column + 2], free
        free += m
    state[block + B_WEIGHTS] = free
    _copy_weights(plan, join, ctx, memory, free, state, buffer)
    return free + max(plan[join + J_WEIGHT_WORDS], 1) * m


@device
def commit(plan, join, memory, state, blocks):
    """Commits the batch of a join, and adds its tuples to the counters of the aliases."""
    arena = core_context(state, plan[join + STATE]).arena
    arena[H_OPEN] = 0
    for number in range(plan[join + J_INPUT_COUNT]):
        stored = plan[plan[join + J_INPUTS_AT] + number]
        for alias in range(plan[stored + I_ALIAS_COUNT]):
            counters = plan[stored + I_ALIASES_AT] + 2 * alias
            arena[plan[counters]] += count_read(plan, stored, alias, memory, state)
            arena[plan[counters + 1]] += count_rejected(plan, stored, alias, memory, state, blocks)
