"""Nets of a native call: a block in, a block out in which each distinct tuple occurs once.

The weight of a tuple is the sum of its weights in the input. Tuples with sum 0 are left out. Deletes come first.
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.arena import ZERO
from crown.kernels.memory.pointers import beyond
from crown.programs.kernels.blocks import B_FORMS, B_NULLS, B_TUPLES, B_WEIGHT_SUM, B_WEIGHTS, BLOCK_WORDS
from crown.programs.kernels.sources import net_tuples

# Words of a net in the plan.
(
    N_INPUT,  # number of the block that it reads
    N_OUTPUT,  # number of the block that it makes
    N_WIDTH,  # number of columns of both
    NET_WORDS,
) = range(4)


@device
def fixed_words(width):
    """Returns how many words of the memory a net takes regardless of the number of tuples."""
    return 3 * width


@device
def words_per_tuple(width):
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
