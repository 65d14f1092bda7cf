"""Group stages of a native call: a block of rows in, a block of the old and new rows of changed groups out.

The words of a stage in the state begin with those of ``crown.stages.kernels.groups.batch``, up to ``S_END``.
"""

from __future__ import annotations

from crown.expressions.kernels.decimals import SCRATCH
from crown.kernels.jit import device
from crown.kernels.memory.addresses import words_at
from crown.kernels.memory.arena import H_BUDGET, H_ROOT, H_VERSION, ZERO
from crown.kernels.memory.pointers import beyond
from crown.programs.kernels.blocks import (
    B_FORMS,
    B_NULLS,
    B_TUPLES,
    B_WEIGHTS,
    BLOCK_WORDS,
    HEAD_WORDS,
    READS_AT,
    STATE,
)
from crown.stages.kernels.groups import batch as group_batch
from crown.stages.kernels.groups import outputs, values

# Words of a group stage in the plan, behind those of its head.
(
    G_TABLE,  # the table of its groups
    G_PLAN_AT,  # offset of its plan (``P_KEYS`` ... of ``batch``)
    G_EVENTS,  # number of the block of its events: the same, or made from it by a feed
    G_OUTPUT,  # number of the block of the rows of its groups
    G_KEYS_AT,  # offset of the list of the columns of events that are its keys
    G_SUMS_AT,  # offset of the recipes of its sums
    G_CARRIED_AT,  # offset of the recipes of the sums that the weights of rows carry
    G_VALUES_AT,  # offset of the plan of values that it stores, or 0
    G_OUTPUTS_AT,  # offset of the plan of computed columns, or 0
    G_FIRST_TEXT,  # number of the first text that this plan names
    G_FORMS_AT,  # offset of the forms of its columns
    GROUPS_WORDS,
) = range(HEAD_WORDS, HEAD_WORDS + 12)
# Words of a group stage in the state, behind those of its batch.
(
    GS_NUMBERS,  # word of the memory with the group number of each event
    GS_HANDLES,  # word of the memory with the handles of the groups
    GS_SUMS,  # word of the memory with the sums of the groups, old and new
    GS_OUTPUT,  # word of the memory with the rows of the groups, old and new
    GS_MAX_GROUPS,  # groups for which there is room
    GS_ARENA,  # address of its arena
    GS_ARENA_WORDS,  # size of the arena
    GROUPS_STATE_WORDS,
) = range(group_batch.STATE_WORDS, group_batch.STATE_WORDS + 8)
GROUP_NOT_EMPTY = 22  # result of ``apply_groups``: a group without rows has sums that are not 0


@device
def apply_groups(plan, op, identity, dictionary, octets, memory, scratch, texts, free, state, blocks, grown):
    """Applies a block of events to the groups. Returns a result of ``batch.advance`` or ``GROUP_NOT_EMPTY``.

    Uses the memory from word ``free`` on. ``scratch``: the word of the memory where the scratch of expressions begins;
    ``texts``: where the codes of their texts begin; ``blocks``: the word of the state where the blocks begin;
    ``grown``: the words that other parts of the program have taken during the call. They count against the budget.
    """
    stage_plan, stage = beyond(plan, plan[op + G_PLAN_AT]), beyond(state, plan[op + STATE])
    arena = words_at(stage[GS_ARENA], stage[GS_ARENA_WORDS])
    events, output = blocks + BLOCK_WORDS * plan[op + G_EVENTS], blocks + BLOCK_WORDS * plan[op + G_OUTPUT]
    keys, width, columns = (
        stage_plan[group_batch.P_KEY_COUNT], stage_plan[group_batch.P_SUM_WORDS], stage_plan[group_batch.P_COLUMN_COUNT]
    )  # fmt: skip
    n, max_groups = state[events + B_TUPLES], stage[GS_MAX_GROUPS]
    for x in range(group_batch.STATE_WORDS):
        stage[x] = 0
    read = blocks + BLOCK_WORDS * plan[plan[op + READS_AT]]
    if state[read + B_TUPLES] == 0 and stage_plan[group_batch.P_SINGLE_GROUP] == 0:
        _describe_block(plan, op, memory, free, columns, ZERO, free + 2 * columns, state, output)
        return group_batch.DONE  # a stage without input changes is skipped
    forms, weights = beyond(memory, state[events + B_FORMS]), beyond(memory, state[events + B_WEIGHTS])
    forms_at = free
    free += 2 * columns
    strides, numbers, handles = beyond(memory, free), beyond(memory, free + keys), beyond(memory, free + keys + n)
    for j in range(keys):
        strides[j] = forms[2 * plan[plan[op + G_KEYS_AT] + j] + 1]
    stage[GS_NUMBERS], stage[GS_HANDLES] = free + keys, free + keys + n
    stage[GS_SUMS] = free + keys + n + max(n, 1)
    stage[GS_OUTPUT] = stage[GS_SUMS] + 2 * max_groups * width
    if stage_plan[group_batch.P_SINGLE_GROUP] == 1:
        stage[group_batch.S_GROUPS], stage[group_batch.S_HAS_ROW] = 1, 1
        stage[group_batch.S_HAD_ROW] = arena[H_VERSION] > 0
        handles[0] = arena[H_ROOT]
        for i in range(n):
            numbers[i] = 0
    rows, out = beyond(memory, stage[GS_SUMS]), beyond(memory, stage[GS_OUTPUT])
    readings, values_plan = stage[GS_OUTPUT] + 2 * max_groups * (columns + 1), beyond(plan, plan[op + G_VALUES_AT])
    free, changed_values = readings, False
    origin, none = beyond(memory, ZERO), beyond(memory, ZERO)
    passed, having, has_having, status = none, none, False, ZERO + group_batch.NEEDS_COLUMNS
    arena[H_BUDGET] -= grown
    while status in (group_batch.NEEDS_COLUMNS, group_batch.NEEDS_ADDENDS, group_batch.BEFORE_STORE):
        status = group_batch.advance(
            arena, plan[op + G_TABLE], stage_plan, identity, stage, strides, origin, weights, n, origin,
            forms, origin, dictionary, weights, 1, beyond(plan, plan[op + G_SUMS_AT]),
            beyond(plan, plan[op + G_CARRIED_AT]), none, numbers, n, handles, passed, having, has_having, rows,
            2 * max_groups * width, out, 2 * max_groups * (columns + 1),
        )  # fmt: skip
        groups = stage[group_batch.S_GROUPS]
        if status == group_batch.NEEDS_ADDENDS:
            if plan[op + G_VALUES_AT] == 0 or stage[group_batch.S_FAR_COUNT] > 0:
                break
            changed_values = values.change_values(
                arena, values_plan, identity, dictionary, octets, memory, forms, weights, n, numbers, handles, groups,
                readings, rows, width, none,
            )  # fmt: skip
            if not changed_values:
                stage[group_batch.S_STEP], status = group_batch.GATHER, ZERO + group_batch.OVER_BUDGET
                break
            multisets, read = values_plan[values.VALUES_COUNT], values_plan[values.VALUES_READINGS]
            free = readings + values.words_of_values(multisets, read, n, groups)
        elif status == group_batch.NEEDS_COLUMNS:
            end = ZERO - 1
            if plan[op + G_OUTPUTS_AT] != 0:
                end = outputs.compute(
                    arena, dictionary, beyond(plan, plan[op + G_OUTPUTS_AT]), width, handles,
                    groups, rows, memory, readings, free,
                    beyond(memory, texts + plan[op + G_FIRST_TEXT]), beyond(memory, scratch),
                    beyond(memory, scratch + SCRATCH),
                )  # fmt: skip
            if end < 0:
                break
            passed, has_having = beyond(memory, end), True
            words_of_outputs = plan[plan[op + G_OUTPUTS_AT] + outputs.O_COLUMN_COUNT] * 2 * groups
            having = beyond(memory, end + words_of_outputs)
    if changed_values and status != group_batch.DONE:
        last = values_plan[values.VALUES_COUNT] - 1
        values.undo_values(
            arena, values_plan, identity, dictionary, octets, memory, n, handles, stage[group_batch.S_GROUPS], readings,
            last, ZERO - 1,
        )  # fmt: skip
        stage[group_batch.S_STEP], status = group_batch.GATHER, ZERO + group_batch.OVER_BUDGET
    arena[H_BUDGET] += grown
    if status != group_batch.DONE:
        return status
    if stage[group_batch.S_BAD_GROUP] >= 0:
        return GROUP_NOT_EMPTY
    arena[H_VERSION] += 1
    _describe_block(plan, op, memory, forms_at, columns, stage[group_batch.S_ROWS], stage[GS_OUTPUT], state, output)
    return group_batch.DONE


@device
def _describe_block(plan, op, memory, forms_at, columns, count, start, state, output):
    """Writes the words of the output block, whose ``count`` tuples begin at word ``start`` of the memory.

    Writes the forms of its columns at word ``forms_at``.
    """
    forms = beyond(memory, forms_at)
    for j in range(columns):
        forms[2 * j], forms[2 * j + 1] = plan[plan[op + G_FORMS_AT] + j], start + j * count
    state[output + B_FORMS], state[output + B_NULLS] = forms_at, 1
    state[output + B_TUPLES], state[output + B_WEIGHTS] = count, start + columns * count
