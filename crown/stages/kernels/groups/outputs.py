"""Columns that a group stage computes of keys and aggregates, and HAVING, where expressions have a native form.

    states of groups -> codes of keys and aggregates -> an expression program -> given columns, and which rows are shown

What is computed here is what ``group_batch.change`` is given. A plan is the words ``O_READS`` ..., then of each column
that the program reads ``VALUE`` words and its form, then of each given column 1 if it has two words, then the program.
"""

from __future__ import annotations

from crown.expressions.kernels.evaluate import evaluated
from crown.kernels.jit import device
from crown.kernels.memory.arena import ZERO
from crown.kernels.memory.pointers import beyond
from crown.kernels.strings import NULL, short_number
from crown.stages.kernels.groups.batch import VALUE, work_out

O_READS, O_HAVING, O_COLUMNS, O_WORDS, OUTPUTS = range(5)
"""Words of a plan: columns that are read; 1 if the first output is HAVING; given columns; words of all outputs."""
READ = VALUE + 1


@device
def words_of_group(reads, words, columns):
    """Returns how many words of memory a group takes. ``words``: those of the outputs."""
    return 2 * (reads + words + columns + 1)


@device
def compute(arena, dictionary, plan, width, handles, groups, rows, memory, at, texts, scratch, registers):
    """Computes the given columns of groups as they were and as they are, from word ``at`` of the memory on, and behind
    them 1 for each row that is shown. Returns where they are, or -1 if a value has no code here, or a text is looked up
    that is not known yet.

    ``width``: words of the sums of a group, which are ``rows``. ``texts``, ``scratch`` and ``registers``: see
    ``crown.expressions.kernels.evaluate``. The memory begins with scratch for quotients.
    """
    reads, total = plan[O_READS], 2 * groups
    forms = beyond(memory, at)
    at += 2 * reads
    for x in range(reads):
        o = OUTPUTS + READ * x
        forms[2 * x], forms[2 * x + 1] = plan[o + VALUE], at
        known = work_out(arena, plan, o, width, handles, groups, rows, ZERO, memory, ZERO, memory, memory, at)
        new = work_out(
            arena, plan, o, width, handles, groups, rows, groups * width, memory, ZERO, memory, memory, at + groups
        )
        if known >= 0 or new >= 0:
            return ZERO - 1
        at += total
    wide = OUTPUTS + READ * reads
    program, out = beyond(plan, wide + plan[O_COLUMNS]), at
    asked = evaluated(dictionary, program, memory, total, forms, memory, texts, registers, scratch, beyond(memory, out))
    if asked > 0:
        return ZERO - 1
    at += plan[O_WORDS] * total
    given, source = at, out + plan[O_HAVING] * total
    for c in range(plan[O_COLUMNS]):
        if plan[wide + c] == 1:
            for i in range(total):
                low, high = memory[source + 2 * i], memory[source + 2 * i + 1]
                code = ZERO + NULL
                if high != NULL:
                    code = short_number(low) if high == low >> 63 else ZERO
                    if code == 0:
                        return ZERO - 1
                memory[at + i] = code
            source += total
        else:
            for i in range(total):
                memory[at + i] = memory[source + i]
        source += total
        at += total
    for i in range(total):
        memory[at + i] = ZERO + (plan[O_HAVING] == 0 or memory[out + i] == 1)
    return given
