"""Pointwise stages in a batch that is one native call: a block of rows of all leaves in, a block of changed rows out.

    rows -> counts per row and leaf, before -> function of the counts, before and after -> rows for which it differs

An operator has the words ``C_STATE`` ... in the plan, and ``L_COUNTED`` ... in the state. A row of the result may come
several times, in a batch in which it comes several times.
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.addresses import words_at
from crown.kernels.memory.arena import H_BUDGET, ZERO
from crown.kernels.memory.pointers import beyond
from crown.programs.kernels.sources import R_EVENTS, R_FORMS, R_NULLS, R_SUM, R_WEIGHTS, READ
from crown.stages.kernels.counts import tallied
from crown.stages.kernels.multiplicities import multiplicity
from crown.stages.kernels.prefetch import AHEAD

(C_STATE, C_TABLE, C_BLOCK, C_LEAVES, C_LEAF0, C_MADE, C_SHOWN, C_WIDTH, C_FORMS, C_FUNCTION, C_SIZE, COUNTS) = range(
    12
)
"""Words of a pointwise stage in the plan: its first word in the state; its table; the block of its events; how many
leaves there are, and where two words of each are listed, the block that it reads and that of its events; the block that
it makes, and that of its rows; how many columns these have, and where their forms are listed; where its function is,
and of how many words."""
L_COUNTED, L_BEFORE, L_ARENA, L_WORDS, COUNTED = range(5)
"""Words of a pointwise stage in the state: how many events are counted, and where in the memory the counts before are;
the address of its arena, and how many words that has."""


@device
def words_of_counts(width, size):
    """Returns how many words of the memory a pointwise stage takes for any number of tuples; ``size``: words of its
    function."""
    return 3 * width + size + AHEAD


@device
def words_of_counted(width, leaves):
    """Returns how many words of the memory a pointwise stage takes for each tuple."""
    return 3 + leaves + width


@device
def counted(plan, o, memory, at, state, blocks, grown):
    """Counts a block of events, and makes the block of the rows that change, from word ``at`` of the memory on. Returns
    where that goes on, or -1 if the budget is used up. ``grown``: the words that other parts have taken."""
    r, made, s = blocks + READ * plan[o + C_BLOCK], blocks + READ * plan[o + C_MADE], plan[o + C_STATE]
    n, width, leaves, size = state[r + R_EVENTS], plan[o + C_WIDTH], plan[o + C_LEAVES], plan[o + C_SIZE]
    given, weights = beyond(memory, state[r + R_FORMS]), beyond(memory, state[r + R_WEIGHTS])
    forms, strides, stack = beyond(memory, at), beyond(memory, at + 2 * width), beyond(memory, at + 3 * width)
    tags = beyond(memory, at + 3 * width + size)
    first = at + words_of_counts(width, size)
    leaf, chosen, counts = beyond(memory, first), beyond(memory, first + n), beyond(memory, first + 2 * n)
    out = first + (2 + leaves) * n
    for j in range(width):
        strides[j] = given[2 * j + 1]
    i = ZERO
    for x in range(leaves):
        for _ in range(state[blocks + READ * plan[plan[o + C_LEAF0] + 2 * x + 1] + R_EVENTS]):
            leaf[i] = x
            i += 1
    arena = words_at(state[s + L_ARENA], state[s + L_WORDS])
    arena[H_BUDGET] -= grown
    every = beyond(memory, ZERO)
    done = tallied(arena, plan[o + C_TABLE], strides, width, leaves, every, leaf, weights, n, ZERO, counts, tags, ZERO)
    arena[H_BUDGET] += grown
    state[s + L_COUNTED], state[s + L_BEFORE] = done, first + 2 * n
    if done < n:
        return ZERO - 1
    function, m = beyond(plan, plan[o + C_FUNCTION]), ZERO
    for i in range(n):
        row = i * leaves
        before = multiplicity(function, size, counts, row, stack)
        counts[row + leaf[i]] += weights[i]
        change = multiplicity(function, size, counts, row, stack) - before
        chosen[m], leaf[m] = i, change  # the leaves of earlier events are no longer read
        m += change != 0
    for j in range(width):
        forms[2 * j], forms[2 * j + 1] = plan[plan[o + C_FORMS] + j], out + j * m
        for i in range(m):
            memory[out + j * m + i] = memory[strides[j] + chosen[i]]
    for i in range(m):
        memory[out + width * m + i] = leaf[i]
    state[made + R_EVENTS], state[made + R_NULLS], state[made + R_FORMS] = m, state[r + R_NULLS], at
    state[made + R_WEIGHTS], state[made + R_SUM] = out + width * m, 0
    return out + (width + 1) * m
