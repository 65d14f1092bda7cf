"""Nets of blocks in a batch that is one native call: of rows that a stage passes on, each once.

An operator that nets has the words ``N_BLOCK`` ... in the plan.
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.arena import ZERO
from crown.kernels.memory.pointers import beyond
from crown.programs.kernels.sources import R_EVENTS, R_FORMS, R_NULLS, R_SUM, R_WEIGHTS, READ, net_of

N_BLOCK, N_MADE, N_WIDTH, NET = range(4)
"""Words of the operator in the plan: the block that it reads, the one that it makes, how many columns both have."""


@device
def words_of_net(width):
    """Returns how many words of the memory a net takes for any number of tuples."""
    return 3 * width


@device
def words_of_netted(width):
    """Returns how many words of the memory a net takes for each tuple."""
    return width + 2


@device
def netted(plan, o, secret, memory, at, state, blocks, slots):
    """Makes the net of a block, from word ``at`` of the memory on, column by column. Returns where that goes on."""
    r, made, width = blocks + READ * plan[o + N_BLOCK], blocks + READ * plan[o + N_MADE], plan[o + N_WIDTH]
    n, given, columns = state[r + R_EVENTS], beyond(memory, state[r + R_FORMS]), beyond(memory, at)
    for j in range(width):
        columns[j] = given[2 * j + 1]
    forms, m = beyond(memory, at + width), ZERO
    state[made + R_FORMS], state[made + R_NULLS] = at + width, state[r + R_NULLS]
    at += 3 * width
    if n > 0:
        weights, out = beyond(memory, state[r + R_WEIGHTS]), beyond(memory, at)
        m = net_of(memory, 1, columns, width, weights, n, secret, slots, memory, at + (width + 1) * n, out, True)
    for j in range(width):
        forms[2 * j], forms[2 * j + 1] = given[2 * j], at + j * m
    state[made + R_EVENTS], state[made + R_WEIGHTS], state[made + R_SUM] = m, at + width * m, state[r + R_SUM]
    return at + (width + 1) * n
