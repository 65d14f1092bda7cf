"""Applies a whole batch in one native call: Arrow record batches in, an Arrow IPC message out.

    record batches -> sources: scan, conditions, net -> operators that read only relations -> gate
                   -> the other operators, one after the other -> message

Python writes a *plan* per program (``crown.programs.pipelines``), and ``run`` interprets it for each batch. ``run``
stops where only Python can continue, returns why, and leaves the position in the state. Operators before that position
are done, and their blocks are in the memory. The runtime applies the rest of the batch step by step
(``crown.programs.runtime``).

Terms:

    plan      constant int64 words that describe the program. An *offset* is an index into it.
    state     int64 words that the call writes: of the run, of each block, of each operator with state
    memory    int64 words for the tuples of one batch, and scratch. An operator receives the first free word, and
              returns the next one.
    block     the tuples of a source or an operator, column by column, with weights (``blocks``)
    source    a relation of the program (``sources``)
    gate      counts the tuples of the sources in the base tables, and rejects deletes that find no tuple
    feed      an operator that projects, computes and filters the tuples of a block (``feeds``)
    net       a block in which each distinct tuple occurs once, deletes first (``unions``)
    core      the engine of a join: its arena, plan, scratch and buffer of rows (``crown.engine``, ``joins``,
              ``join_inputs``)

Constants of layouts have one prefix each: ``P_`` plan, ``R_`` run, ``B_`` block, ``S_`` source, and in the plan ``F_``
feed, ``I_`` join input, ``J_`` join, ``V_`` visit, ``N_`` net, ``G_`` groups, ``U_`` union, ``C_`` pointwise stage,
``L_`` recursion, ``O_`` stage with ordered rows, ``W_`` window functions; ``IS_``, ``JS_``, ``GS_``, ``CS_``, ``LS_``,
``OS_`` and ``WS_`` are the words of an operator in the state. ``..._AT`` is an offset in the plan, ``..._COUNT`` a
number of items, ``..._WORDS`` a size.
"""

from __future__ import annotations

from crown.expressions.kernels.evaluate import UNKNOWN
from crown.kernels.batches import record, words_of_texts
from crown.kernels.jit import device, kernel
from crown.kernels.memory.addresses import words_at
from crown.kernels.memory.arena import H_BUDGET, H_EMITTED, H_LIVE, H_R_UPDATES, H_ROWS, ZERO
from crown.kernels.memory.pointers import beyond, constants, words
from crown.kernels.strings import code_of
from crown.programs.kernels import feeds, groups, join_inputs, joins, overs, pointwise, rounds, sources, tops, unions
from crown.programs.kernels.blocks import (
    ARENA,
    B_CODES,
    B_FORMS,
    B_READ_ROWS,
    B_TUPLES,
    B_WEIGHTS,
    BLOCK_WORDS,
    READ_COUNT,
    READS_AT,
    STAGE_BLOCK,
    STATE,
)
from crown.stages.kernels.groups import batch as group_batch

# Words of a plan.
(
    P_SOURCE_COUNT,
    P_SOURCES_AT,  # offset of the sources, one after the other
    P_IDENTITY_AT,  # offset of the numbers 0, 1, 2, ...
    P_SECRET,  # secret of the hash function of nets
    P_BLOCKS,  # word of the memory where the sources begin, behind all scratch; the scratch of nets begins at word 0
    P_EXPRESSIONS,  # word of the memory where the scratch of expressions begins
    P_TEXT_COUNT,  # number of texts and lookups that expressions name
    P_TEXTS_AT,  # offset of two words per text: its first byte, its length; of a lookup 0, -1
    P_TEXT_CODES,  # word of the memory with a word per text: its code; of a lookup the address of its table
    P_OPERATOR_COUNT,
    P_OPERATORS_AT,  # offset of two words per operator: its kind, its offset
    P_BEFORE_GATE,  # number of operators that run before the gate: they read only relations
    P_TEMPLATE_AT,  # offset of the template of the message
    P_TEMPLATE_WORDS,  # size of the template; 0 if the program writes no message
    P_COLUMNS_AT,  # offset of the columns of the message, three words each
    P_COLUMNS_WORDS,  # size of these
    P_ROW_WORDS,  # words of the message that a row takes
    P_OUTPUT_WIDTH,  # columns of the output
    P_OUTPUT,  # number of the block that is the output, or JOIN_OUTPUT, or NO_OUTPUT
    PLAN_WORDS,
) = range(20)
JOIN_OUTPUT = -1  # the rows of the last join are the output
NO_OUTPUT = -2  # the call has no output: other stages follow
# Kinds of operators.
(
    FEED,  # see ``feeds``
    JOIN_INPUT,  # see ``join_inputs``
    JOIN,  # see ``joins``
    NET,  # see ``unions``
    GROUPS,  # see ``groups``
    UNION,  # see ``unions``
    POINTWISE,  # see ``pointwise``
    BEGIN_ROUNDS,  # see ``rounds``
    COUNT_DERIVED,  # see ``rounds``
    END_ROUND,  # see ``rounds``: the operators after the last ``BEGIN_ROUNDS`` may follow again
    TOP,  # see ``tops``
    OVER,  # see ``overs``
) = range(12)
STATEFUL = (JOIN, GROUPS, POINTWISE, COUNT_DERIVED, END_ROUND, TOP, OVER)
# Words of a run, at the beginning of the state. The blocks follow, those of sources first, then the operators.
(
    R_MESSAGE_WORDS,  # size of the message; 0 if there is none
    R_OUTPUT_ROWS,  # rows of the output
    R_OUTPUT_START,  # word of the memory where they begin; -1 - j if they are in the buffer of the join at offset j
    R_OUTPUT_STRIDE,  # words between the columns of the output
    R_OPERATOR,  # number of the operator that runs; -1 for the conditions of sources
    R_FREE,  # first free word of the memory
    R_BLOCKS,  # first word of the first block
) = range(7)
# Results of ``run``, besides those of ``crown.stages.kernels.groups.batch``.
NOT_SCANNED = 20  # a batch does not have the declared form, or its texts have no room; nothing was changed
STOPPED_AT_GATE = 21  # the gate needs memory, or a delete finds no tuple
GROUP_NOT_EMPTY = groups.GROUP_NOT_EMPTY
MESSAGE_TOO_LARGE = 23  # all is done, except that the message needs more room
NO_MESSAGE = 24  # all is done, but there is no message: it would have too many rows or texts
NULL_KEY = 25  # a row has a NULL in a join key; the join has not begun
JOIN_STOPPED = joins.JOIN_STOPPED
JOIN_ROWS_PENDING = joins.JOIN_ROWS_PENDING
STAGES_FOLLOW = 28  # all operators are done, and the program has other stages
UNKNOWN_TEXT = 29  # a looked-up text is unknown; the operator has not begun
NO_CODE = 30  # a decimal has to be stored in the dictionary; the operator has not begun
ROUNDS_STOPPED = 31  # a recursion has no room for another round
NOT_BEGUN = 32  # a stage with ordered rows has no room for its changes, or rejects them
ALL_DONE = (group_batch.DONE, MESSAGE_TOO_LARGE, NO_MESSAGE)
MAX_MESSAGE_ROWS = 1 << 16  # of a record batch


@device
def _encode_texts(plan, texts, dictionary, memory):
    """Writes the codes of the texts that expressions name, whose bytes are at address ``texts``.

    A text that no row has gets a code that no value has.
    """
    for text in range(plan[P_TEXT_COUNT]):
        start, length = plan[plan[P_TEXTS_AT] + 2 * text], plan[plan[P_TEXTS_AT] + 2 * text + 1]
        if length >= 0:
            code = code_of(dictionary, sources.DICTIONARY, texts + start, length)
            memory[plan[P_TEXT_CODES] + text] = code if code != 0 else UNKNOWN - text


@device
def _apply_feed(plan, feed, dictionary, memory, free, state):
    """Makes the block of a feed. Returns what ``feeds.apply_feed`` returns."""
    return feeds.apply_feed(
        plan, feed, dictionary, memory, plan[P_EXPRESSIONS], plan[P_TEXT_CODES], free, state, R_BLOCKS
    )


@device
def _filter_sources(plan, dictionary, memory, free, state):
    """Applies the conditions of sources that no scan tests. Returns the next free word, or -1 as a feed does."""
    for number in range(plan[P_SOURCE_COUNT]):
        source, block = plan[P_SOURCES_AT] + sources.SOURCE_WORDS * number, R_BLOCKS + BLOCK_WORDS * number
        if plan[source + sources.S_FILTER_AT] != 0:
            sources.set_forms(memory, state, block, plan[source + sources.S_WIDTH])
            free = _apply_feed(plan, plan[source + sources.S_FILTER_AT], dictionary, memory, free, state)
            if free < 0:
                return free
            state[block + B_READ_ROWS] = state[block + B_TUPLES]
            state[block + B_CODES] = memory[state[block + B_FORMS] + 1]
    return free


@device
def _apply_stateless(plan, dictionary, memory, state, slots, number):
    """Applies operator ``number``, which keeps no state. Returns ``DONE``, or why it stopped."""
    kind, op, free = plan[plan[P_OPERATORS_AT] + 2 * number], plan[plan[P_OPERATORS_AT] + 2 * number + 1], state[R_FREE]
    state[R_OPERATOR] = number
    status = ZERO + group_batch.DONE
    if kind == FEED:
        free = _apply_feed(plan, op, dictionary, memory, free, state)
        if plan[op + feeds.F_AFTER_JOIN] == 1:
            if free < 0:
                state[R_OPERATOR] = number - 1
                return JOIN_ROWS_PENDING
            joins.commit(plan, plan[plan[P_OPERATORS_AT] + 2 * number - 1], memory, state, R_BLOCKS)
        elif free < 0:
            return UNKNOWN_TEXT if free == feeds.UNKNOWN_TEXT else NO_CODE
    elif kind == JOIN_INPUT:
        free = join_inputs.compute_delta(plan, op, plan[P_SECRET], memory, free, state, R_BLOCKS, slots)
        if join_inputs.some_unstored(plan, op, memory, state, R_BLOCKS):
            status = ZERO + NULL_KEY
    elif kind == NET:
        free = unions.apply_net(plan, op, plan[P_SECRET], memory, free, state, R_BLOCKS, slots)
    elif kind == BEGIN_ROUNDS:
        free = rounds.begin_rounds(plan, op, number, memory, free, state, R_BLOCKS)
    elif kind == UNION:
        free = unions.apply_union(plan, op, memory, free, state, R_BLOCKS)
    state[R_FREE] = free
    return status


@device
def _pass_gate(plan, base, dictionary, memory, state, slots):
    """Nets the sources, applies the operators that read only relations, and checks the deletes of the batch.

    Returns ``DONE``, or why it stopped.
    """
    sources_at, operators_at = plan[P_SOURCES_AT], plan[P_OPERATORS_AT]
    for number in range(plan[P_SOURCE_COUNT]):
        source, block = sources_at + sources.SOURCE_WORDS * number, R_BLOCKS + BLOCK_WORDS * number
        sources.net_source(plan, source, plan[P_IDENTITY_AT], plan[P_SECRET], memory, state, block, slots)
    for number in range(plan[P_BEFORE_GATE]):
        status = _apply_stateless(plan, dictionary, memory, state, slots, number)
        if status != group_batch.DONE:
            return status
    for number in range(plan[P_BEFORE_GATE]):
        op = plan[operators_at + 2 * number + 1]
        looks_up = plan[operators_at + 2 * number] == JOIN_INPUT and plan[op + join_inputs.I_LOOKS_UP] == 1
        if looks_up and not joins.all_deletes_found(plan, op, memory, state):
            return STOPPED_AT_GATE
    for number in range(plan[P_SOURCE_COUNT]):
        source, block = sources_at + sources.SOURCE_WORDS * number, R_BLOCKS + BLOCK_WORDS * number
        if plan[source + sources.S_TABLE] != 0 and not sources.count_tuples(plan, source, base, memory, state, block):
            return STOPPED_AT_GATE
    return group_batch.DONE


@device
def _apply_join(plan, join, memory, state, slots, grown):
    """Applies the deltas of a join, and makes its rows a block, or the output. Returns ``DONE``, or why it stopped."""
    status = joins.apply_join(plan, join, memory, state, R_BLOCKS, grown)
    if status != group_batch.DONE:
        return status
    if plan[join + joins.J_DELIVERS] == 1:
        room = state[plan[join + STATE] + joins.JS_BUFFER_ROWS]
        count = joins.place_output(plan, join, plan[P_SECRET], plan[P_TEMPLATE_WORDS] != 0, memory, state, slots)
        if count < 0:
            return JOIN_ROWS_PENDING
        nets = plan[join + joins.J_NETS] == 1
        state[R_OUTPUT_ROWS], state[R_OUTPUT_STRIDE] = count, count if nets else room
        state[R_OUTPUT_START] = 2 * room if nets else -1 - join
    else:
        free = joins.copy_rows(plan, join, memory, state[R_FREE], state, R_BLOCKS)
        if free < 0:
            return JOIN_ROWS_PENDING
        state[R_FREE] = free
    if plan[join + joins.J_HAS_FEED] == 0:
        joins.commit(plan, join, memory, state, R_BLOCKS)
    return group_batch.DONE


@device
def _apply_groups(plan, op, dictionary, octets, memory, state, grown):
    """Applies a block of events to a group stage. Returns what ``groups.apply_groups`` returns."""
    identity, scratch, text_codes = beyond(plan, plan[P_IDENTITY_AT]), plan[P_EXPRESSIONS], plan[P_TEXT_CODES]
    status = groups.apply_groups(
        plan, op, identity, dictionary, octets, memory, scratch, text_codes, state[R_FREE], state, R_BLOCKS, grown
    )
    if status == group_batch.DONE:
        output = R_BLOCKS + BLOCK_WORDS * plan[op + groups.G_OUTPUT]
        state[R_FREE] = state[output + B_WEIGHTS] + state[output + B_TUPLES]
    return status


@device
def _apply_small(kind, plan, op, dictionary, octets, memory, state, slots, grown):
    """Applies a block to a pointwise, top or window stage. Returns ``DONE``, or why it stopped."""
    free = state[R_FREE]
    if kind == TOP:
        free = tops.apply_top(plan, op, dictionary, octets, memory, free, state, R_BLOCKS, grown)
    elif kind == OVER:
        secret = plan[P_SECRET]
        free = overs.apply_over(plan, op, secret, dictionary, octets, memory, free, state, R_BLOCKS, slots, grown)
    else:
        free = pointwise.apply_pointwise(plan, op, memory, free, state, R_BLOCKS, grown)
    if free < 0:
        return ZERO + (group_batch.OVER_BUDGET if kind == POINTWISE else NOT_BEGUN)
    state[R_FREE] = free
    return ZERO + group_batch.DONE


@device
def _end_round(plan, op, memory, state):
    """Ends a round of a recursion. Returns ``DONE``, or why it stopped; and the number of the operator that is next."""
    result, free = rounds.end_round(plan, op, memory, state[R_FREE], state, R_BLOCKS)
    state[R_FREE] = free
    if result == rounds.CONTINUED:
        return ZERO + group_batch.DONE, state[plan[op + STATE] + rounds.LS_FIRST]
    return ZERO + (ROUNDS_STOPPED if result == rounds.STOPPED else group_batch.DONE), state[R_OPERATOR] + 1


@device
def _locate_output(plan, memory, state):
    """Notes where the output is, if it is a block. Its columns are equally far apart, and the weights follow them."""
    if plan[P_OUTPUT] >= 0:
        output = R_BLOCKS + BLOCK_WORDS * plan[P_OUTPUT]
        stride, forms = state[output + B_TUPLES], beyond(memory, state[output + B_FORMS])
        state[R_OUTPUT_ROWS] = stride
        if plan[P_OUTPUT_WIDTH] > 1:
            stride = forms[3] - forms[1]
        state[R_OUTPUT_STRIDE] = stride
        state[R_OUTPUT_START] = state[output + B_WEIGHTS] - plan[P_OUTPUT_WIDTH] * stride


@device
def _arena_of(plan, state, op):
    """Returns the arena of an operator with state."""
    words = plan[op + STATE] + plan[op + ARENA]
    return words_at(state[words], state[words + 1])


@device
def _update_counters(plan, base, memory, state):
    """Updates the statistics of the base tables, and of all operators with state: tuples read and passed on, rows of
    the stage."""
    for number in range(plan[P_SOURCE_COUNT]):
        source, block = plan[P_SOURCES_AT] + sources.SOURCE_WORDS * number, R_BLOCKS + BLOCK_WORDS * number
        sources.tally(plan, source, base, state, block)
    for number in range(plan[P_BEFORE_GATE], plan[P_OPERATOR_COUNT]):
        kind, op = plan[plan[P_OPERATORS_AT] + 2 * number], plan[plan[P_OPERATORS_AT] + 2 * number + 1]
        if kind in STATEFUL and plan[op + STAGE_BLOCK] >= 0:
            arena, rows = _arena_of(plan, state, op), plan[op + STAGE_BLOCK]
            if plan[op + READ_COUNT] >= 0:
                for read in range(plan[op + READ_COUNT]):
                    arena[H_R_UPDATES] += _tuple_count(state, plan[plan[op + READS_AT] + read])
                arena[H_EMITTED] += _tuple_count(state, rows)
            _add_to_row_count(arena, memory, state, rows)


@device
def _tuple_count(state, block):
    """Returns how many tuples block number ``block`` has."""
    return state[R_BLOCKS + BLOCK_WORDS * block + B_TUPLES]


@device
def _add_to_row_count(arena, memory, state, block):
    """Adds the weights of block number ``block`` to the row count of a stage, if that is kept."""
    words = R_BLOCKS + BLOCK_WORDS * block
    if arena[H_ROWS] != 0:
        weights = beyond(memory, state[words + B_WEIGHTS])
        for i in range(state[words + B_TUPLES]):
            arena[H_ROWS] += weights[i]


@device
def _apply_batch(batches, plan, texts, text_address, dictionary, octets, base, memory, state, slots):
    """Applies a batch. Returns ``DONE``, or why it stopped.

    All parts of a program share one budget of memory. So the words that a part has taken are subtracted from the budget
    of each later part.
    """
    state[R_OPERATOR], state[R_OUTPUT_ROWS] = 0, 0
    learned = dictionary[H_LIVE]
    free = sources.scan_sources(
        batches, plan, plan[P_SOURCES_AT], plan[P_SOURCE_COUNT], texts, dictionary, memory, plan[P_BLOCKS], state,
        R_BLOCKS,
    )  # fmt: skip
    if free < 0:
        return NOT_SCANNED
    _encode_texts(plan, text_address, dictionary, memory)
    free = _filter_sources(plan, dictionary, memory, free, state)
    if free < 0:
        state[R_OPERATOR] = -1
        return UNKNOWN_TEXT
    state[R_FREE] = free
    learned = dictionary[H_LIVE] - learned
    live = base[H_LIVE]
    base[H_BUDGET] -= learned
    status = _pass_gate(plan, base, dictionary, memory, state, slots)
    base[H_BUDGET] += learned
    grown = learned + base[H_LIVE] - live
    following = plan[P_BEFORE_GATE]
    while status == group_batch.DONE and following < plan[P_OPERATOR_COUNT]:
        number, following = following, following + 1
        kind, op = plan[plan[P_OPERATORS_AT] + 2 * number], plan[plan[P_OPERATORS_AT] + 2 * number + 1]
        if kind in STATEFUL:
            state[R_OPERATOR] = number
            arena = _arena_of(plan, state, op)
            live = arena[H_LIVE]
            if kind == JOIN:
                status = _apply_join(plan, op, memory, state, slots, grown)
            elif kind == GROUPS:
                status = _apply_groups(plan, op, dictionary, octets, memory, state, grown)
            elif kind == END_ROUND:
                status, following = _end_round(plan, op, memory, state)
            elif kind == COUNT_DERIVED:
                result, free = rounds.count_derived(plan, op, memory, state[R_FREE], state, R_BLOCKS, grown)
                state[R_FREE] = free
                status = ZERO + (ROUNDS_STOPPED if result == rounds.STOPPED else group_batch.DONE)
            else:
                status = _apply_small(kind, plan, op, dictionary, octets, memory, state, slots, grown)
            grown += arena[H_LIVE] - live
        else:
            status = _apply_stateless(plan, dictionary, memory, state, slots, number)
    if status == group_batch.DONE and plan[P_OUTPUT] == NO_OUTPUT:
        return STAGES_FOLLOW
    if status == group_batch.DONE:
        _locate_output(plan, memory, state)
        _update_counters(plan, base, memory, state)
    return status


@kernel("int, bool, const words, const bytes, words, bytes, words, words, words, halves, words, bytes")
def run(
    batches, wanted, plan, texts, dictionary, octets, base, memory, state, slots, message, message_octets
):  # fmt: skip
    """Applies exported record batches, and releases them. Returns ``DONE``, or why it stopped.

    O(rows * terms), plus the costs of the operators.

    - ``batches``: the address of one ``ArrowArray`` per source; 0 if the batch is already applied, and only its message
      is missing.
    - ``wanted``: True if the message is to be written.
    - ``texts``: the bytes of the texts that conditions name.
    - ``dictionary``, ``octets``: the arena and the bytes of the dictionary.
    - ``base``: the arena of the base tables.
    - ``memory``: the memory of the run.
    - ``slots``: int32 scratch of nets.
    - ``message``, ``message_octets``: room for the message, as words and as bytes; uses ``R_MESSAGE_WORDS``.
    """
    text_address = texts.ctypes.data
    plan, texts, dictionary, octets = constants(plan), words(texts), words(dictionary), words(octets)
    room = message.size
    base, memory, state, slots = words(base), words(memory), words(state), words(slots)
    message, message_octets = words(message), words(message_octets)
    if batches != 0:
        status = _apply_batch(batches, plan, texts, text_address, dictionary, octets, base, memory, state, slots)
        if status != group_batch.DONE:
            return status
    count, start, stride = state[R_OUTPUT_ROWS], state[R_OUTPUT_START], state[R_OUTPUT_STRIDE]
    state[R_MESSAGE_WORDS] = 0
    if not wanted or count == 0:
        return group_batch.DONE
    template_words, columns_words = plan[P_TEMPLATE_WORDS], plan[P_COLUMNS_WORDS]
    if count > MAX_MESSAGE_ROWS or template_words == 0:
        return NO_MESSAGE
    columns = beyond(plan, plan[P_COLUMNS_AT])
    if start >= 0:
        values, weights = beyond(memory, start), beyond(memory, start + plan[P_OUTPUT_WIDTH] * stride)
    else:
        core = plan[-1 - start + STATE]
        values = words_at(state[core + joins.JS_BUFFER], state[core + joins.JS_BUFFER + 1])
        weights = beyond(memory, ZERO)
    text_words = words_of_texts(dictionary, values, stride, 1, count, columns, columns_words)
    if text_words < 0:
        return NO_MESSAGE
    message_words = template_words + count * plan[P_ROW_WORDS] + (columns_words // 3) * (count // 64 + 2) + text_words
    state[R_MESSAGE_WORDS] = message_words
    if message_words > room:
        return MESSAGE_TOO_LARGE
    record(
        dictionary, octets, values, stride, 1, weights, count, beyond(plan, plan[P_TEMPLATE_AT]), template_words,
        columns, columns_words, message, message_octets,
    )  # fmt: skip
    return group_batch.DONE
