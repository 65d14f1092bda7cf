"""UNION ALL in a batch that is one native call: several blocks of tuples in, one block out.

An operator has the words ``U_TERMS`` ... in the plan.
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.arena import ZERO
from crown.kernels.memory.pointers import beyond
from crown.programs.kernels.sources import R_EVENTS, R_FORMS, R_NULLS, R_SUM, R_WEIGHTS, READ

U_TERMS, U_TERM0, U_MADE, U_WIDTH, U_FORMS, UNION = range(6)
"""Words of the operator in the plan: how many blocks it reads, and where two words of each are listed, its number and
what its weights are multiplied by; the block that it makes; how many columns all of them have, and where the forms of
these are listed."""


@device
def words_of_union(width):
    """Returns how many words of the memory a union takes for any number of tuples."""
    return 2 * width


@device
def words_of_tuple(width):
    """Returns how many words of the memory a union takes for each tuple."""
    return width + 1


@device
def united(plan, o, memory, at, state, blocks):
    """Makes a block of the tuples of several, one block after the other, from word ``at`` of the memory on. Returns
    where that goes on."""
    made, width, terms = blocks + READ * plan[o + U_MADE], plan[o + U_WIDTH], plan[o + U_TERMS]
    n, done, nulls, total = ZERO, ZERO, ZERO, ZERO
    for x in range(terms):
        n += state[blocks + READ * plan[plan[o + U_TERM0] + 2 * x] + R_EVENTS]
    forms, out = beyond(memory, at), at + 2 * width
    weights = beyond(memory, out + width * n)
    for j in range(width):
        forms[2 * j], forms[2 * j + 1] = plan[plan[o + U_FORMS] + j], out + j * n
    for x in range(terms):
        term = plan[o + U_TERM0] + 2 * x
        r, factor = blocks + READ * plan[term], plan[term + 1]
        m, given, read = state[r + R_EVENTS], beyond(memory, state[r + R_FORMS]), beyond(memory, state[r + R_WEIGHTS])
        for j in range(width):
            source, target = given[2 * j + 1], out + j * n + done
            for i in range(m):
                memory[target + i] = memory[source + i]
        for i in range(m):
            weights[done + i] = factor * read[i]
            total += weights[done + i]
        done += m
        nulls |= state[r + R_NULLS]
    state[made + R_EVENTS], state[made + R_NULLS], state[made + R_FORMS] = n, nulls, at
    state[made + R_WEIGHTS], state[made + R_SUM] = out + width * n, total
    return out + (width + 1) * n
