"""Feeds of a native call: each computes a block from another block, as a projection with a filter.

    block -> expression program -> tuples that the filter chooses -> block

A column that is only projected is not copied unless a filter leaves out tuples: the forms of both blocks point to it.
"""

from __future__ import annotations

from crown.expressions.kernels.decimals import SCRATCH
from crown.expressions.kernels.evaluate import CODES, P_INPUT_COUNT, PAIRS, WORDS, evaluate_rows, write_codes
from crown.kernels.jit import device
from crown.kernels.memory.arena import ZERO
from crown.kernels.memory.pointers import beyond
from crown.kernels.strings import NULL
from crown.programs.kernels.blocks import B_FORMS, B_NULLS, B_TUPLES, B_WEIGHT_SUM, B_WEIGHTS, BLOCK_WORDS

# Words of a feed in the plan.
(
    F_INPUT,  # number of the block that it reads
    F_OUTPUT,  # number of the block that it makes
    F_WIDTH,  # number of columns that it makes
    F_COLUMNS_AT,  # offset of two words per column: column of the input, or -1 - output words before it; form if so
    F_PROGRAM_AT,  # offset of the expression program, or 0
    F_PROGRAM_COLUMNS_AT,  # offset of the list of the columns that the program reads
    F_PROGRAM_WORDS,  # words of the outputs of the program, per tuple
    F_FILTERS,  # 1 if the first output is the filter: tuples with the value 1 are chosen
    F_FIRST_TEXT,  # number of the first text that the program names
    F_WEIGHT_WORDS,  # words of the weight of a tuple; more than one if it carries sums of a join
    F_STORES_CODES,  # 1 if computed wide decimals become codes
    F_AFTER_JOIN,  # 1 if it makes the rows of the join that is the operator before it
    FEED_WORDS,
) = range(13)
UNKNOWN_TEXT, NO_CODE = -1, -2  # what a feed returns instead of a position


@device
def fixed_words(width, inputs):
    """Returns how many words of the memory a feed takes regardless of the number of tuples."""
    return 2 * (width + inputs)


@device
def words_per_tuple(outputs, width, weight_words, codes):
    """Returns how many words of the memory a feed takes for each tuple.

    ``outputs``: words of the outputs of its program; ``width``: words of the columns that a filter copies;
    ``weight_words``: words of the weights that it copies; ``codes``: wide decimals that become codes.
    """
    return outputs + width + 1 + weight_words + codes


@device
def _set_form(forms, input_forms, outputs, n, number, columns):
    """Writes the form and the beginning of column ``number`` of a block.

    ``input_forms``: those of the block that is read, of ``n`` tuples; ``outputs``: the word of the memory where the
    outputs of the program begin.
    """
    column, form = columns[2 * number], columns[2 * number + 1]
    if column >= 0:
        forms[2 * number], forms[2 * number + 1] = input_forms[2 * column], input_forms[2 * column + 1]
    else:
        forms[2 * number], forms[2 * number + 1] = form, outputs + (-1 - column) * n


@device
def _copy_chosen(memory, forms, width, chosen, m, free):
    """Copies the ``m`` chosen tuples to the memory from word ``free`` on. Returns the next free word."""
    for j in range(width):
        first = forms[2 * j + 1]
        forms[2 * j + 1] = free
        if forms[2 * j] == PAIRS:
            for i in range(m):
                memory[free + 2 * i] = memory[first + 2 * chosen[i]]
                memory[free + 2 * i + 1] = memory[first + 2 * chosen[i] + 1]
            free += m
        else:
            for i in range(m):
                memory[free + i] = memory[first + chosen[i]]
        free += m
    return free


@device
def apply_feed(plan, feed, dictionary, memory, scratch, texts, free, state, blocks):
    """Makes the block of the feed at ``plan[feed]`` in the memory from word ``free`` on. O(tuples * instructions).

    Returns the next free word; or ``UNKNOWN_TEXT`` if a looked-up text is unknown, or ``NO_CODE`` if a decimal has to
    be stored in the dictionary. ``scratch``: the word of the memory where the
    scratch of expressions begins; ``texts``: where the codes of their texts begin; ``blocks``: the word of the state
    where the blocks begin.
    """
    read, output = blocks + BLOCK_WORDS * plan[feed + F_INPUT], blocks + BLOCK_WORDS * plan[feed + F_OUTPUT]
    n, width, columns = state[read + B_TUPLES], plan[feed + F_WIDTH], beyond(plan, plan[feed + F_COLUMNS_AT])
    input_forms, forms = beyond(memory, state[read + B_FORMS]), beyond(memory, free)
    state[output + B_FORMS], state[output + B_NULLS] = free, state[read + B_NULLS]
    state[output + B_TUPLES], state[output + B_WEIGHTS] = n, state[read + B_WEIGHTS]
    free += 2 * width
    outputs = free
    if plan[feed + F_PROGRAM_AT] != 0:
        program, inputs = beyond(plan, plan[feed + F_PROGRAM_AT]), beyond(memory, free)
        program_columns = plan[feed + F_PROGRAM_COLUMNS_AT]
        for x in range(program[P_INPUT_COUNT]):
            column = plan[program_columns + x]
            inputs[2 * x], inputs[2 * x + 1] = input_forms[2 * column], input_forms[2 * column + 1]
        outputs = free + 2 * program[P_INPUT_COUNT]
        unknown = evaluate_rows(
            dictionary, program, memory, n, inputs, memory, beyond(memory, texts + plan[feed + F_FIRST_TEXT]),
            beyond(memory, scratch + SCRATCH), beyond(memory, scratch), beyond(memory, outputs),
        )  # fmt: skip
        if unknown > 0:
            return ZERO + UNKNOWN_TEXT
        free = outputs + plan[feed + F_PROGRAM_WORDS] * n
    for j in range(width):
        _set_form(forms, input_forms, outputs, n, j, columns)
    weights = beyond(memory, state[read + B_WEIGHTS])
    if plan[feed + F_FILTERS] == 1:
        m, chosen, chosen_weights = ZERO, beyond(memory, free), beyond(memory, free + n)
        for i in range(n):
            chosen[m] = i
            m += memory[outputs + i] == 1
        for w in range(plan[feed + F_WEIGHT_WORDS]):
            for i in range(m):
                chosen_weights[w * m + i] = weights[w * n + chosen[i]]
        state[output + B_TUPLES], state[output + B_WEIGHTS] = m, free + n
        free = _copy_chosen(memory, forms, width, chosen, m, free + (1 + plan[feed + F_WEIGHT_WORDS]) * n)
        n, weights = m, chosen_weights
    total = ZERO
    for i in range(n):
        total += weights[i]
    state[output + B_WEIGHT_SUM] = total
    if plan[feed + F_STORES_CODES] == 1:
        for j in range(width):
            if forms[2 * j] == PAIRS:
                if not write_codes(memory, forms[2 * j + 1], n, free):
                    return ZERO + NO_CODE
                forms[2 * j], forms[2 * j + 1] = CODES, free
                free += n
    for j in range(width):
        if columns[2 * j] < 0 and forms[2 * j] == WORDS and state[output + B_NULLS] == 0:
            least, first = ZERO, forms[2 * j + 1]
            for i in range(n):
                least = min(least, memory[first + i])
            if least == NULL:
                state[output + B_NULLS] = 1
    return free
