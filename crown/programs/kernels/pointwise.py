"""Pointwise stages of a native call: a block of events of all leaves in, a block of changed rows out.

    events -> counts of their tuples per leaf, before -> function of the counts, before and after -> rows that change

A *leaf* is an input of the stage, an *event* a tuple of one leaf with its weight. If a tuple has several events in a
batch, the result has a row for each of them that changes the value of the function.
"""

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
from crown.stages.kernels.counts import tallied
from crown.stages.kernels.multiplicities import multiplicity
from crown.stages.kernels.prefetch import AHEAD

# Words of a pointwise stage in the plan, behind those of its head.
(
    C_TABLE,  # the table of its counts
    C_EVENTS,  # number of the block of the events of all leaves
    C_LEAF_COUNT,
    C_LEAVES_AT,  # offset of the list of the blocks of the events of each leaf
    C_OUTPUT,  # number of the block of changed rows
    C_WIDTH,  # number of columns
    C_FORMS_AT,  # offset of their forms
    C_FUNCTION_AT,  # offset of the function of the counts
    C_FUNCTION_WORDS,
    POINTWISE_WORDS,
) = range(HEAD_WORDS, HEAD_WORDS + 10)
# Words of a pointwise stage in the state.
(
    CS_COUNTED,  # events that are counted
    CS_COUNTS,  # word of the memory with the counts before each event
    CS_ARENA,  # address of its arena
    CS_ARENA_WORDS,  # size of the arena
    POINTWISE_STATE_WORDS,
) = range(5)


@device
def fixed_words(width, size):
    """Returns how many words of the memory a pointwise stage takes regardless of the number of events.

    ``size``: words of its function.
    """
    return 3 * width + size + AHEAD


@device
def words_per_tuple(width, leaves):
    """Returns how many words of the memory a pointwise stage takes for each event."""
    return 3 + leaves + width


@device
def apply_pointwise(plan, op, memory, free, state, blocks, grown):
    """Counts a block of events, and makes the block of changed rows in the memory from word ``free`` on.

    Returns the next free word, or -1 if the budget is used up. ``grown``: the words that other parts of the program
    have taken during the call. They count against the budget. Expected O(events * leaves).
    """
    events, output = blocks + BLOCK_WORDS * plan[op + C_EVENTS], blocks + BLOCK_WORDS * plan[op + C_OUTPUT]
    n, width, leaves = state[events + B_TUPLES], plan[op + C_WIDTH], plan[op + C_LEAF_COUNT]
    size, state_at = plan[op + C_FUNCTION_WORDS], plan[op + STATE]
    input_forms, weights = beyond(memory, state[events + B_FORMS]), beyond(memory, state[events + B_WEIGHTS])
    forms, strides, stack = beyond(memory, free), beyond(memory, free + 2 * width), beyond(memory, free + 3 * width)
    tags = beyond(memory, free + 3 * width + size)
    first = free + fixed_words(width, size)
    leaf, chosen, counts = beyond(memory, first), beyond(memory, first + n), beyond(memory, first + 2 * n)
    columns = first + (2 + leaves) * n
    for j in range(width):
        strides[j] = input_forms[2 * j + 1]
    i = ZERO
    for number in range(leaves):
        for _ in range(state[blocks + BLOCK_WORDS * plan[plan[op + C_LEAVES_AT] + number] + B_TUPLES]):
            leaf[i] = number
            i += 1
    arena = words_at(state[state_at + CS_ARENA], state[state_at + CS_ARENA_WORDS])
    arena[H_BUDGET] -= grown
    keys = beyond(memory, ZERO)
    counted = tallied(
        arena, plan[op + C_TABLE], strides, width, leaves, keys, leaf, weights, n, ZERO, counts, tags, ZERO
    )
    arena[H_BUDGET] += grown
    state[state_at + CS_COUNTED], state[state_at + CS_COUNTS] = counted, first + 2 * n
    if counted < n:
        return ZERO - 1
    function, m = beyond(plan, plan[op + C_FUNCTION_AT]), ZERO
    for i in range(n):
        row = i * leaves
        before = multiplicity(function, size, counts, row, stack)
        counts[row + leaf[i]] += weights[i]
        change = multiplicity(function, size, counts, row, stack) - before
        chosen[m], leaf[m] = i, change  # the leaves of earlier events are no longer read
        m += change != 0
    for j in range(width):
        forms[2 * j], forms[2 * j + 1] = plan[plan[op + C_FORMS_AT] + j], columns + j * m
        for i in range(m):
            memory[columns + j * m + i] = memory[strides[j] + chosen[i]]
    for i in range(m):
        memory[columns + width * m + i] = leaf[i]
    state[output + B_TUPLES], state[output + B_NULLS], state[output + B_FORMS] = m, state[events + B_NULLS], free
    state[output + B_WEIGHTS], state[output + B_WEIGHT_SUM] = columns + width * m, 0
    return columns + (width + 1) * m
