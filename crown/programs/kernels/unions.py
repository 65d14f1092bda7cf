"""Unions and nets of a native call.

A union makes one block of several, with the tuples of all of them. The weights of each input are multiplied by a
factor, which is negative for a subtraction. A net makes a block in which each distinct tuple occurs once: its weight is
the sum of its weights in the input. Tuples with sum 0 are left out. Deletes come first.
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.arena import ZERO
from crown.kernels.memory.pointers import beyond
from crown.programs.kernels.blocks import B_FORMS, B_NULLS, B_TUPLES, B_WEIGHT_SUM, B_WEIGHTS, BLOCK_WORDS
from crown.programs.kernels.sources import net_tuples

# Words of a union in the plan.
(
    U_TERM_COUNT,  # number of blocks that it reads
    U_TERMS_AT,  # offset of two words per block that it reads: its number, the factor of its weights
    U_OUTPUT,  # number of the block that it makes
    U_WIDTH,  # number of columns of all blocks
    U_FORMS_AT,  # offset of the forms of these columns
    UNION_WORDS,
) = range(6)
# Words of a net in the plan.
(
    N_INPUT,  # number of the block that it reads
    N_OUTPUT,  # number of the block that it makes
    N_WIDTH,  # number of columns of both
    NET_WORDS,
) = range(4)


@device
def fixed_words(width):
    """Returns how many words of the memory a union takes regardless of the number of tuples."""
    return 2 * width


@device
def words_per_tuple(width):
    """Returns how many words of the memory a union takes for each tuple."""
    return width + 1


@device
def apply_union(plan, op, memory, free, state, blocks):
    """Makes a block of the tuples of all inputs, one after the other, in the memory from word ``free`` on.

    Returns the next free word. O(tuples).
    """
    output, width, terms = blocks + BLOCK_WORDS * plan[op + U_OUTPUT], plan[op + U_WIDTH], plan[op + U_TERM_COUNT]
    n, done, nulls, total = ZERO, ZERO, ZERO, ZERO
    for number in range(terms):
        n += state[blocks + BLOCK_WORDS * plan[plan[op + U_TERMS_AT] + 2 * number] + B_TUPLES]
    forms, columns = beyond(memory, free), free + 2 * width
    weights = beyond(memory, columns + width * n)
    for j in range(width):
        forms[2 * j], forms[2 * j + 1] = plan[plan[op + U_FORMS_AT] + j], columns + j * n
    for number in range(terms):
        term = plan[op + U_TERMS_AT] + 2 * number
        read, factor = blocks + BLOCK_WORDS * plan[term], plan[term + 1]
        m, input_forms, input_weights = (
            state[read + B_TUPLES],
            beyond(memory, state[read + B_FORMS]),
            beyond(memory, state[read + B_WEIGHTS]),
        )
        for j in range(width):
            source, target = input_forms[2 * j + 1], columns + j * n + done
            for i in range(m):
                memory[target + i] = memory[source + i]
        for i in range(m):
            weights[done + i] = factor * input_weights[i]
            total += weights[done + i]
        done += m
        nulls |= state[read + B_NULLS]
    state[output + B_TUPLES], state[output + B_NULLS], state[output + B_FORMS] = n, nulls, free
    state[output + B_WEIGHTS], state[output + B_WEIGHT_SUM] = columns + width * n, total
    return columns + (width + 1) * n


@device
def fixed_words_of_net(width):
    """Returns how many words of the memory a net takes regardless of the number of tuples."""
    return 3 * width


@device
def words_per_tuple_of_net(width):
    """Returns how many words of the memory a net takes for each tuple."""
    return width + 2


@device
def apply_net(plan, op, secret, memory, free, state, blocks, slots):
    """Makes the net of a block in the memory from word ``free`` on. Returns the next free word. Expected O(tuples)."""
    read, output = blocks + BLOCK_WORDS * plan[op + N_INPUT], blocks + BLOCK_WORDS * plan[op + N_OUTPUT]
    n, width = state[read + B_TUPLES], plan[op + N_WIDTH]
    input_forms, columns = beyond(memory, state[read + B_FORMS]), beyond(memory, free)
    for j in range(width):
        columns[j] = input_forms[2 * j + 1]
    forms, m = beyond(memory, free + width), ZERO
    state[output + B_FORMS], state[output + B_NULLS] = free + width, state[read + B_NULLS]
    free += 3 * width
    if n > 0:
        weights, out = beyond(memory, state[read + B_WEIGHTS]), beyond(memory, free)
        m = net_tuples(memory, 1, columns, width, weights, n, secret, slots, memory, free + (width + 1) * n, out, True)
    for j in range(width):
        forms[2 * j], forms[2 * j + 1] = input_forms[2 * j], free + j * m
    state[output + B_TUPLES], state[output + B_WEIGHTS] = m, free + width * m
    state[output + B_WEIGHT_SUM] = state[read + B_WEIGHT_SUM]
    return free + (width + 1) * n
