"""Joins of a native call: blocks of relations and stages in, the changed rows of the join out.

    per stored relation: block -> feed -> join input: net, deletes that find no tuple
    all deletes, relation by relation -> all inserts -> buffer of rows, deleted rows first -> block or output

Each *join input* is the delta of one stored relation (``crown.ingest.batch.JoinInputs`` computes the same in Python).
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
from crown.kernels.memory.arena import H_BUDGET, H_OPEN, H_WRAPPED, ZERO
from crown.kernels.memory.context import Context
from crown.kernels.memory.pointers import beyond
from crown.kernels.strings import NULL
from crown.programs.kernels.blocks import B_FORMS, B_NULLS, B_TUPLES, B_WEIGHTS, BLOCK_WORDS
from crown.programs.kernels.feeds import F_INPUT, F_OUTPUT, F_WIDTH
from crown.programs.kernels.sources import net_tuples

# Words of a join input in the plan.
(
    I_FEED_AT,  # offset of the feed that makes its tuples
    I_NETS,  # 1 if they are netted
    I_RECORD,  # record descriptor of the stored relation in the core
    I_LOOKS_UP,  # 1 if deletes of the relation are looked up in this join, and not counted by a base table
    I_KEY_COUNT,  # number of columns that must not be NULL
    I_KEYS_AT,  # offset of the list of these columns
    I_ALIAS_COUNT,  # number of aliases that read the stored relation
    I_ALIASES_AT,  # offset of two words per alias: the arena words that count tuples, and tuples that were left out
    I_SUMMED,  # 1 if only sums of its rows are kept
    I_STATE,  # its first word in the state
    I_JOIN_STATE,  # first word of its join in the state
    I_DROPS_NULLS,  # 1 if tuples with a NULL in such a column are left out
    JOIN_INPUT_WORDS,
) = range(13)
# Words of a join in the plan.
(
    J_STATE,  # its first word in the state
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
    J_STAGE_BLOCK,  # number of the block of the rows of the stage
    J_VISIT_COUNT,  # number of visits to groups that may be padded
    J_VISITS_AT,  # offset of these visits
    J_HAS_FEED,  # 1 if a feed makes the rows of the stage; it is the next operator, and commits the join
    JOIN_WORDS,
) = range(17)
# Words of a visit to groups that may be padded.
(
    V_PHASE,  # -1 before the insertions, 1 after them
    V_INPUT_AT,  # offset of the join input whose tuples find the groups
    V_SIGN,  # 1 for its inserted tuples, -1 for its deleted ones; before the insertions always 1
    V_NODE,  # padded node
    V_LOOKUP,  # look-up of the group
    VISIT_WORDS,
) = range(6)
# Words of a join input in the state.
(
    IS_TUPLES,  # tuples of the delta
    IS_DELETED,  # deleted tuples of it, which come first
    IS_ROWS,  # word of the memory with the tuples, one after the other
    IS_WEIGHTS,  # word of the memory with their weights
    IS_AMOUNTS,  # word of the memory with the copies to delete: the weights without sign
    IS_MISSING,  # word of the memory with the copies to delete that were not there
    IS_DROPPED,  # tuples that were left out because of a NULL
    JOIN_INPUT_STATE_WORDS,
) = range(8)
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
def words_per_tuple(width):
    """Returns how many words of the memory a tuple of a join input takes, besides those of its feed."""
    return width + 5


@device
def apply_join_input(plan, stored, secret, memory, free, state, blocks, slots):
    """Writes the delta of a stored relation, which it reads from the block of a feed. Expected O(tuples).

    Uses the memory from word ``free`` on. Returns the next free word.
    """
    feed, delta = plan[stored + I_FEED_AT], plan[stored + I_STATE]
    block, width = blocks + BLOCK_WORDS * plan[feed + F_OUTPUT], plan[feed + F_WIDTH]
    m, forms = state[block + B_TUPLES], beyond(memory, state[block + B_FORMS])
    weights = beyond(memory, state[block + B_WEIGHTS])
    n, columns = m, beyond(memory, free)
    for j in range(width):
        columns[j] = forms[2 * j + 1]
    free += width
    state[delta + IS_ROWS] = free
    rows = beyond(memory, free)
    free += (width + 1) * n
    if plan[stored + I_NETS] == 1 and (m > 1 or (m == 1 and weights[0] == 0)):
        m = net_tuples(memory, 1, columns, width, weights, m, secret, slots, memory, free, rows, False)
    else:
        for j in range(width):
            first = columns[j]
            for i in range(m):
                rows[i * width + j] = memory[first + i]
        for i in range(m):
            rows[m * width + i] = weights[i]
    state[delta + IS_WEIGHTS], state[delta + IS_DROPPED] = state[delta + IS_ROWS] + m * width, 0
    net_weights = beyond(memory, state[delta + IS_WEIGHTS])
    if plan[stored + I_DROPS_NULLS] == 1 and state[block + B_NULLS] != 0:
        kept = _drop_null_keys(plan, stored, rows, width, net_weights, m)
        state[delta + IS_DROPPED], m = m - kept, kept
    amounts, missing, deletes = beyond(memory, free), beyond(memory, free + n), ZERO
    while deletes < m and net_weights[deletes] < 0:
        amounts[deletes], missing[deletes] = -net_weights[deletes], 0
        deletes += 1
    state[delta + IS_TUPLES], state[delta + IS_DELETED] = m, deletes
    state[delta + IS_AMOUNTS], state[delta + IS_MISSING] = free, free + n
    return free + 2 * n


@device
def _has_null_key(plan, stored, rows, start):
    """Returns True if the tuple at ``rows[start]`` has a NULL in a join column."""
    found = False
    for number in range(plan[stored + I_KEY_COUNT]):
        found |= rows[start + plan[plan[stored + I_KEYS_AT] + number]] == NULL
    return found


@device
def _drop_null_keys(plan, stored, rows, width, weights, m):
    """Moves the tuples without a NULL in a join column to the front. Returns their number."""
    kept = ZERO
    for i in range(m):
        if not _has_null_key(plan, stored, rows, i * width):
            for j in range(width):
                rows[kept * width + j] = rows[i * width + j]
            weights[kept] = weights[i]
            kept += 1
    return kept


@device
def some_null_key(plan, stored, memory, state, blocks):
    """Returns True if a tuple of the delta has a NULL in a join column."""
    feed, delta = plan[stored + I_FEED_AT], plan[stored + I_STATE]
    if state[blocks + BLOCK_WORDS * plan[feed + F_OUTPUT] + B_NULLS] == 0 or plan[stored + I_DROPS_NULLS] == 1:
        return False
    rows, width = beyond(memory, state[delta + IS_ROWS]), plan[feed + F_WIDTH]
    found = False
    for i in range(state[delta + IS_TUPLES]):
        found |= _has_null_key(plan, stored, rows, i * width)
    return found


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
def _insert(ctx, summed_only, record, rows, weights, n, all_aliases, ring, out):
    """Inserts tuples, or adds them to sums, as ``_delete`` deletes them. Returns the status."""
    if ring is not None and summed_only == 1:
        return summed(ctx, record, rows, weights, n, all_aliases, 1, ring, out)
    return inserted(ctx, record, rows, weights, n, all_aliases, False, ring, out)


@device
def _update_paddings(ctx, plan, join, memory, state, sign, ring, buffer):
    """Removes paddings before the insertions (``sign`` -1), or adds them after the insertions (1).

    Returns ``DONE``, or the status with which it stopped.
    """
    all_aliases = beyond(state, plan[join + J_STATE] + JS_ALL_ALIASES)
    for number in range(plan[join + J_VISIT_COUNT]):
        visit = plan[join + J_VISITS_AT] + VISIT_WORDS * number
        if plan[visit + V_PHASE] == sign:
            stored = plan[visit + V_INPUT_AT]
            delta, width = plan[stored + I_STATE], plan[plan[stored + I_FEED_AT] + F_WIDTH]
            n, rows = state[delta + IS_DELETED], state[delta + IS_ROWS]
            if plan[visit + V_SIGN] > 0:
                n, rows = state[delta + IS_TUPLES] - n, rows + n * width
            node, lookup, tuples = plan[visit + V_NODE], plan[visit + V_LOOKUP], beyond(memory, rows)
            ctx.scratch[X_I] = 0
            if sign < 0:
                status = batches.taken(ctx, node, lookup, width, tuples, n, all_aliases, False, ZERO, ring, buffer)
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
    scratch, core, count = ctx.scratch, plan[join + J_STATE], plan[join + J_INPUT_COUNT]
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
                rows = beyond(memory, start + deletes * plan[plan[stored + I_FEED_AT] + F_WIDTH])
                weights = beyond(memory, state[delta + IS_WEIGHTS] + deletes)
                all_aliases = beyond(state, core + JS_ALL_ALIASES)
                status = _insert(ctx, summed_only, record, rows, weights, n - deletes, all_aliases, ring, buffer)
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
    core = plan[join + J_STATE]
    ctx, buffer = core_context(state, core), words_at(state[core + JS_BUFFER], state[core + JS_BUFFER + 1])
    ctx.arena[H_BUDGET] -= grown
    if plan[join + J_WEIGHT_WORDS] > 0:
        status = _propagate(ctx, plan, join, memory, state, 1, buffer)
    else:
        status = _propagate(ctx, plan, join, memory, state, None, buffer)
    ctx.arena[H_BUDGET] += grown
    if status != DONE:
        return JOIN_STOPPED
    if state[core + JS_MISSING] > 0 or ctx.arena[H_WRAPPED] != 0:
        return JOIN_ROWS_PENDING
    return DONE


@device
def _copy_weights(plan, join, ctx, memory, start, state, buffer):
    """Copies the weights of the rows in the buffer to the memory from word ``start`` on, column by column."""
    core, words = plan[join + J_STATE], plan[join + J_WEIGHT_WORDS]
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
    core = plan[join + J_STATE]
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
    core = plan[join + J_STATE]
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
def commit(plan, join, state, blocks):
    """Commits the batch of a join, and adds its tuples to the counters of the aliases."""
    arena = core_context(state, plan[join + J_STATE]).arena
    arena[H_OPEN] = 0
    for number in range(plan[join + J_INPUT_COUNT]):
        stored = plan[plan[join + J_INPUTS_AT] + number]
        feed, delta = plan[stored + I_FEED_AT], plan[stored + I_STATE]
        read, output = blocks + BLOCK_WORDS * plan[feed + F_INPUT], blocks + BLOCK_WORDS * plan[feed + F_OUTPUT]
        rejected = state[read + B_TUPLES] - state[output + B_TUPLES] + state[delta + IS_DROPPED]
        for counters in range(
            plan[stored + I_ALIASES_AT], plan[stored + I_ALIASES_AT] + 2 * plan[stored + I_ALIAS_COUNT], 2
        ):
            arena[plan[counters]] += state[delta + IS_TUPLES]
            arena[plan[counters + 1]] += rejected
