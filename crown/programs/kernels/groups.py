"""Group stages in a batch that is one native call: a block of rows in, a block of old and new rows of groups out.

An operator has the words ``G_STATE`` ... in the plan. Its words in the state are those of the batch of the group stage
(``crown.stages.kernels.groups.batch``), and ``B_WHERE`` ... behind them.
"""

from __future__ import annotations

from crown.expressions.kernels.decimals import SCRATCH
from crown.kernels.jit import device
from crown.kernels.memory.addresses import words_at
from crown.kernels.memory.arena import H_BUDGET, H_ROOT, H_VERSION, ZERO
from crown.kernels.memory.pointers import beyond
from crown.programs.kernels.sources import R_EVENTS, R_FORMS, R_NULLS, R_WEIGHTS, READ
from crown.stages.kernels.groups import batch as group
from crown.stages.kernels.groups import outputs

(G_STATE, G_TABLE, G_PLAN, G_INPUT, G_EVENTS, G_MADE, G_KEYS, G_SUMS, G_CARRIED, G_OUTPUTS, G_NAMED, G_FORMS,
 GROUPS) = range(13)  # fmt: skip
"""Words of a group stage in the plan: its first word in the state; its table; its plan; the block that it reads, that
of its events, and that of its rows; which columns of events are its keys; the recipes of its sums and of those that
rows carry; the plan of the columns that it computes, or 0, and the first of the texts that this names; the forms of its
columns."""
B_WHERE, B_HANDLES, B_SUMS, B_OUT, B_ROOM, B_ARENA, B_WORDS, BATCH = range(group.S_END, group.S_END + 8)
"""Words of a group stage in the state: where in the memory is what it works on; for how many groups there is room; the
address of its arena, and how many words that has."""
STUCK = 22
"""What ``grouped`` comes back with, besides what a group stage does: a group without rows is not empty."""


@device
def grouped(plan, g, identity, dictionary, memory, scratch, texts, at, state, blocks, grown):
    """Applies a block of events to the groups; what ``group.advance`` returns. The memory is free from word ``at`` on.

    ``scratch``: the first word of what expressions need; ``texts``: that of the codes of the texts that they name;
    ``blocks``: the first word of the state that is of blocks; ``grown``: the words that other parts have taken.
    """
    does, s = beyond(plan, plan[g + G_PLAN]), beyond(state, plan[g + G_STATE])
    arena = words_at(s[B_ARENA], s[B_WORDS])
    r, made = blocks + READ * plan[g + G_EVENTS], blocks + READ * plan[g + G_MADE]
    k, width, columns, n = does[group.P_KEYS], does[group.P_SUMS], does[group.P_COLUMNS], state[r + R_EVENTS]
    for x in range(group.S_END):
        s[x] = 0
    if state[blocks + READ * plan[g + G_INPUT] + R_EVENTS] == 0 and does[group.P_WHOLE] == 0:
        _show(plan, g, memory, at, columns, ZERO, at + 2 * columns, state, made)
        return group.DONE  # a stage that nothing comes to rests
    room, forms, weights = s[B_ROOM], beyond(memory, state[r + R_FORMS]), beyond(memory, state[r + R_WEIGHTS])
    first = at
    at += 2 * columns
    strides, where, handles = beyond(memory, at), beyond(memory, at + k), beyond(memory, at + k + n)
    for j in range(k):
        strides[j] = forms[2 * plan[plan[g + G_KEYS] + j] + 1]
    s[B_WHERE], s[B_HANDLES] = at + k, at + k + n
    s[B_SUMS] = at + k + n + max(n, 1)
    s[B_OUT] = s[B_SUMS] + 2 * room * width
    if does[group.P_WHOLE] == 1:
        s[group.S_GROUPS], s[group.S_BEFORE], s[group.S_AFTER] = 1, arena[H_VERSION] > 0, 1
        handles[0] = arena[H_ROOT]
        for i in range(n):
            where[i] = 0
    rows, out = beyond(memory, s[B_SUMS]), beyond(memory, s[B_OUT])
    every, none = beyond(memory, ZERO), beyond(memory, ZERO)
    given, shown, hides, found = none, none, False, ZERO + group.VALUES
    arena[H_BUDGET] -= grown
    while found == group.VALUES:
        found = group.advance(
            arena, plan[g + G_TABLE], does, identity, s, strides, every, weights, n, every,
            forms, every, dictionary, weights, 1, beyond(plan, plan[g + G_SUMS]), beyond(plan, plan[g + G_CARRIED]),
            none, where, n, handles, given, shown, hides, rows, 2 * room * width, out, 2 * room * (columns + 1),
        )  # fmt: skip
        if found == group.VALUES:
            end = ZERO - 1
            if plan[g + G_OUTPUTS] != 0:
                end = outputs.compute(
                    arena, dictionary, beyond(plan, plan[g + G_OUTPUTS]), width, handles, s[group.S_GROUPS], rows,
                    memory, s[B_OUT] + 2 * room * (columns + 1), beyond(memory, texts + plan[g + G_NAMED]),
                    beyond(memory, scratch), beyond(memory, scratch + SCRATCH),
                )  # fmt: skip
            if end < 0:
                break
            given, hides = beyond(memory, end), True
            shown = beyond(memory, end + plan[plan[g + G_OUTPUTS] + outputs.O_COLUMNS] * 2 * s[group.S_GROUPS])
    arena[H_BUDGET] += grown
    if found != group.DONE:
        return found
    if s[group.S_AT] >= 0:
        return STUCK
    arena[H_VERSION] += 1
    _show(plan, g, memory, first, columns, s[group.S_DELTAS], s[B_OUT], state, made)
    return group.DONE


@device
def _show(plan, g, memory, at, columns, m, out, state, made):
    """Describes the block of the rows: ``m`` tuples from word ``out`` of the memory on. Its forms are at ``at``."""
    forms = beyond(memory, at)
    for j in range(columns):
        forms[2 * j], forms[2 * j + 1] = plan[plan[g + G_FORMS] + j], out + j * m
    state[made + R_FORMS], state[made + R_NULLS] = at, 1
    state[made + R_EVENTS], state[made + R_WEIGHTS] = m, out + columns * m
