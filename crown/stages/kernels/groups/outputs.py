"""Computes columns of a group stage from keys and aggregates, and HAVING, if their expressions have a native form.

    sums of groups -> codes of keys and aggregates -> an expression program -> passed columns, HAVING of each row

The results are the arguments ``passed`` and ``having`` of ``batch.advance``. A plan is the words ``O_...``, then for
each column that the program reads the words of a column (``batch.V_...``) and its form, then for each passed column 1
if it has two words, then the program.
"""

from __future__ import annotations

from crown.expressions.kernels.evaluate import evaluate_rows, write_codes
from crown.kernels.jit import device
from crown.kernels.memory.arena import ZERO
from crown.kernels.memory.pointers import beyond
from crown.stages.kernels.groups.batch import COLUMN_WORDS, PASSED, V_SOURCE, write_column

# Words of a plan.
(
    O_READ_COUNT,  # number of columns that the program reads
    O_HAVING,  # 1 if the first output is HAVING
    O_COLUMN_COUNT,  # number of passed columns
    O_OUTPUT_WORDS,  # words of all outputs, per row
    OUTPUTS_HEAD,
) = range(5)
READ_WORDS = COLUMN_WORDS + 1  # words of a column that is read


@device
def words_per_group(reads, words, columns):
    """Returns how many words of memory a group takes. ``words``: those of the outputs."""
    return 2 * (reads + words + columns + 1)


@device
def compute(arena, dictionary, plan, width, handles, groups, rows, memory, readings, free, texts, scratch, registers):
    """Computes the passed columns of groups before and after the batch, in the memory from word ``free`` on.

    Behind them stands 1 for each row for which HAVING holds. Returns where the columns begin, or -1 if a value has no
    code here, or a looked-up text is unknown.

    ``width``: words of the sums of a group, which are ``rows``. ``readings``: the word of the memory where the readings
    of ordered values begin, each before and after the batch. ``texts``, ``scratch`` and ``registers``: see
    ``crown.expressions.kernels.evaluate``. The memory begins with scratch for quotients.
    """
    reads, total, after = plan[O_READ_COUNT], 2 * groups, groups * width
    forms = beyond(memory, free)
    free += 2 * reads
    for number in range(reads):
        column = OUTPUTS_HEAD + READ_WORDS * number
        forms[2 * number], forms[2 * number + 1] = plan[column + COLUMN_WORDS], free
        read = readings + plan[column + V_SOURCE] * total if plan[column] == PASSED else ZERO
        bad_group = write_column(
            arena, plan, column, width, handles, groups, rows, ZERO, memory, read, memory, memory, free
        )
        if bad_group < 0:
            read += groups
            bad_group = write_column(
                arena, plan, column, width, handles, groups, rows, after, memory, read, memory, memory, free + groups
            )
        if bad_group >= 0:
            return ZERO - 1
        free += total
    wide = OUTPUTS_HEAD + READ_WORDS * reads
    program, out = beyond(plan, wide + plan[O_COLUMN_COUNT]), free
    unknown = evaluate_rows(
        dictionary, program, memory, total, forms, memory, texts, registers, scratch, beyond(memory, out)
    )
    if unknown > 0:
        return ZERO - 1
    free += plan[O_OUTPUT_WORDS] * total
    passed, source = free, out + plan[O_HAVING] * total
    for number in range(plan[O_COLUMN_COUNT]):
        if plan[wide + number] == 1:
            if not write_codes(memory, source, total, free):
                return ZERO - 1
            source += total
        else:
            for i in range(total):
                memory[free + i] = memory[source + i]
        source += total
        free += total
    for i in range(total):
        memory[free + i] = ZERO + (plan[O_HAVING] == 0 or memory[out + i] == 1)
    return passed
