"""First rows in order of a native call: a net in, a block of the changes of the windows out (``crown.stages.top``)."""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.addresses import words_at
from crown.kernels.memory.arena import H_BUDGET, ZERO
from crown.kernels.memory.pointers import beyond
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
from crown.stages.kernels.over.partitions import DONE
from crown.stages.kernels.trees.tops import changed

# Words of a stage with ordered rows in the plan, behind those of its head.
(
    O_TABLE,  # the table of its groups, or partitions
    O_NET,  # number of the block with the net of its feed
    O_OUTPUT,  # number of the block of the rows that change
    O_WIDTH,  # columns of a stored row
    O_FORMS_AT,  # offset of the forms of the output
    O_KEY_COUNT,  # columns of the key of a group
    O_KEYS_AT,  # offset of the list of these
    O_COLUMN_COUNT,  # columns of the order
    O_ORDER_AT,  # offset of the order, see ``crown.stages.kernels.trees.nodes``
    O_SHAPE_AT,  # offset of the shape of a tree
    ORDERED_WORDS,
) = range(HEAD_WORDS, HEAD_WORDS + 11)
# Words of a top stage in the plan, behind those.
(
    O_OFFSET,  # position of the first row of a window
    O_END,  # position after the last one
    TOP_WORDS,
) = range(ORDERED_WORDS, ORDERED_WORDS + 3)
# Words of a stage with ordered rows in the state.
(
    OS_ARENA,  # address of its arena
    OS_ARENA_WORDS,  # size of the arena
    OS_PATH,  # address of the scratch in which the path to a row is stored
    OS_PATH_WORDS,  # size of it
    OS_ROOM,  # rows for which there is room in the output
    ORDERED_STATE_WORDS,
) = range(6)
ROWS_PER_CHANGE = 3  # of the output, for a change by one copy
UNLIMITED = 1 << 62  # a budget


@device
def fixed_words(width, keys):
    """Returns how many words of the memory a top stage takes regardless of the number of tuples."""
    return 3 * width + keys + 4


@device
def words_per_tuple(width):
    """Returns how many words of the memory a top stage takes for each tuple."""
    return 1 + 2 * ROWS_PER_CHANGE * (width + 1)


@device
def _room(weights, n, limit):
    """Returns how many rows the changes of ``n`` tuples may have."""
    room = ZERO
    for i in range(n):
        room += 2 * min(abs(weights[i]), limit) + 1
    return room


@device
def _apply(plan, op, arena, path, dictionary, octets, memory, keys, strides, weights, n, rows, room, done):
    """Changes the windows. Returns what ``changed`` returns."""
    order, shape = beyond(plan, plan[op + O_ORDER_AT]), beyond(plan, plan[op + O_SHAPE_AT])
    done[0], done[1] = 0, 0
    return changed(
        arena, plan[op + O_TABLE], keys, plan[op + O_KEY_COUNT], order, plan[op + O_COLUMN_COUNT], strides, shape,
        beyond(memory, ZERO), weights, n, dictionary, octets, path, plan[op + O_OFFSET], plan[op + O_END], rows,
        beyond(rows, room * plan[op + O_WIDTH]), room, done,
    )  # fmt: skip


@device
def apply_top(plan, op, dictionary, octets, memory, free, state, blocks, grown):
    """Applies a net, and makes the block of the changes in the memory from word ``free`` on. O(log n) per tuple.

    Returns the next free word, or -1 with the stage unchanged if there is no room for the changes, the budget is used
    up, or a deleted row is absent. ``grown``: the words that other parts of the program have taken during the call,
    which count against the budget.
    """
    at, net = plan[op + STATE], blocks + BLOCK_WORDS * plan[op + O_NET]
    arena = words_at(state[at + OS_ARENA], state[at + OS_ARENA_WORDS])
    path = words_at(state[at + OS_PATH], state[at + OS_PATH_WORDS])
    n, width, weights = state[net + B_TUPLES], plan[op + O_WIDTH], beyond(memory, state[net + B_WEIGHTS])
    room = _room(weights, n, plan[op + O_END] - plan[op + O_OFFSET])
    if room > state[at + OS_ROOM]:
        return ZERO - 1
    forms_at, input_forms, forms = free, beyond(memory, state[net + B_FORMS]), beyond(memory, free)
    strides, keys = beyond(memory, free + 2 * width), beyond(memory, free + 3 * width)
    done = beyond(keys, plan[op + O_KEY_COUNT])
    for j in range(width):
        strides[j] = input_forms[2 * j + 1]
    for j in range(plan[op + O_KEY_COUNT]):
        keys[j] = strides[plan[plan[op + O_KEYS_AT] + j]]
    free += fixed_words(width, plan[op + O_KEY_COUNT])
    rows = beyond(memory, free)
    budget = arena[H_BUDGET]
    arena[H_BUDGET] = budget - grown
    status = _apply(plan, op, arena, path, dictionary, octets, memory, keys, strides, weights, n, rows, room, done)
    if status != DONE:
        taken, inverse = done[0], beyond(memory, free + (width + 1) * room)
        for i in range(taken):
            inverse[i] = -weights[i]
        arena[H_BUDGET] = UNLIMITED
        _apply(plan, op, arena, path, dictionary, octets, memory, keys, strides, inverse, taken, rows, room, done)
    arena[H_BUDGET] = budget
    if status != DONE:
        return ZERO - 1
    m, found = done[1], beyond(rows, room * width)
    free += (width + 1) * room
    columns, output = beyond(memory, free), blocks + BLOCK_WORDS * plan[op + O_OUTPUT]
    for j in range(width):
        forms[2 * j], forms[2 * j + 1] = plan[plan[op + O_FORMS_AT] + j], free + j * m
        for i in range(m):
            columns[j * m + i] = rows[i * width + j]
    for i in range(m):
        columns[width * m + i] = found[i]
    state[output + B_TUPLES], state[output + B_NULLS], state[output + B_FORMS] = m, state[net + B_NULLS], forms_at
    state[output + B_WEIGHTS], state[output + B_WEIGHT_SUM] = free + width * m, 0
    return free + (width + 1) * m
