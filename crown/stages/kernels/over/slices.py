"""Selects the rows of ordered trees whose running sum is below a bound, or is not.

A child has the sum of its rows, and the sum of its negative addends. So the running sums up to each of its rows are
between two numbers: with only the negative addends, and with only the others. A child with both numbers on one side of
the bound is selected, or excluded, as a whole; other children are opened. Without negative addends the sums ascend, and
only one child of each level is opened: the path to the bound.
"""

from __future__ import annotations

from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import H_STEPS, ONE, ZERO
from crown.kernels.memory.pointers import constants, words
from crown.kernels.numbers.limbs import add, clear, extend, multiply_word, negate
from crown.kernels.strings import NULL
from crown.stages.kernels.trees.nodes import HEAD, LENGTH, LEVEL, child_at, row_at, sums_at

# Words of a rule. Positions are those in the sums of a tree.
(
    SUM,  # position of the sum of all rows
    SUM_LIMBS,
    COUNT,  # position of the number of rows with a value
    FALL,  # position of the sum of negative addends
    FALL_LIMBS,
    BOUND,  # position of the sum of the bounds, of which there is one
    BOUND_LIMBS,
    BOUNDS,  # position of the number of bounds
    BOUND_COLUMN,  # column that is NULL except in the row of the bound
    LIMBS,  # enough limbs for all of these in equal units
    UNITS,  # factor that converts the sums to equal units
    BOUND_UNITS,  # factor that converts the bound to equal units
    EQUAL,  # flag: a sum equal to the bound counts as below it
    BELOW,  # flag: rows below the bound are selected
    INCLUSIVE,  # flag: a row's own value is included
    ZERO_OF_NONE,  # flag: the sum of no values is 0, not NULL
) = range(16)
OUT, IN, OPEN = 0, 1, 2


@device
def _load(arena, at, m, numbers, o, limbs, units):
    """Writes a number of ``m`` limbs, converted to equal units, to ``numbers[o ...]``."""
    extend(numbers, o, limbs, arena, at, m)
    if units != 1:
        multiply_word(numbers, o, limbs, units)


@device
def _begin(arena, root, shape, rule, numbers):
    """Writes the negative bound, the initial difference of the sum and the bound. Returns False iff there is no
    bound."""
    limbs, bounds = rule[LIMBS], ZERO
    clear(numbers, 0, limbs)
    for e in range(arena[root + LENGTH]):
        at = sums_at(arena, shape, root, e)
        bounds += arena[at + rule[BOUNDS]]
        _load(arena, at + rule[BOUND], rule[BOUND_LIMBS], numbers, limbs, limbs, rule[BOUND_UNITS])
        add(numbers, 0, numbers, limbs, limbs)
    negate(numbers, 0, limbs)
    if rule[EQUAL] == 1:
        for x in range(limbs):
            numbers[limbs + x] = -ONE
        add(numbers, 0, numbers, limbs, limbs)
    return bounds != 0


@device
def _row(arena, shape, rule, node, e, at, seen, numbers):
    """Returns whether a row is IN or OUT. ``seen``: the number of values before it, whose sum is at the beginning of
    ``numbers``."""
    if arena[row_at(arena, shape, node, e) + rule[BOUND_COLUMN]] != NULL:
        return OUT
    limbs, sign = rule[LIMBS], numbers[rule[LIMBS] - 1]
    if rule[INCLUSIVE] == 1:
        seen += arena[at + rule[COUNT]]
        _load(arena, at + rule[SUM], rule[SUM_LIMBS], numbers, limbs, limbs, rule[UNITS])
        add(numbers, limbs, numbers, 0, limbs)
        sign = numbers[2 * limbs - 1]
    if seen == 0 and rule[ZERO_OF_NONE] == 0:
        return OUT
    return IN if (sign < 0) == (rule[BELOW] == 1) else OUT


@device
def _child(arena, rule, at, seen, numbers):
    """Returns IN or OUT if it holds for all rows of a child, else OPEN."""
    if arena[at + rule[BOUNDS]] != 0:
        return OPEN
    if seen == 0 and rule[ZERO_OF_NONE] == 0:
        return OUT if arena[at + rule[COUNT]] == 0 else OPEN
    limbs = rule[LIMBS]
    least, most, fall = limbs, 2 * limbs, 3 * limbs
    _load(arena, at + rule[FALL], rule[FALL_LIMBS], numbers, fall, limbs, rule[UNITS])
    extend(numbers, least, limbs, numbers, 0, limbs)
    add(numbers, least, numbers, fall, limbs)
    negate(numbers, fall, limbs)
    _load(arena, at + rule[SUM], rule[SUM_LIMBS], numbers, most, limbs, rule[UNITS])
    add(numbers, most, numbers, fall, limbs)
    add(numbers, most, numbers, 0, limbs)
    if numbers[most + limbs - 1] < 0:
        return IN if rule[BELOW] == 1 else OUT
    if numbers[least + limbs - 1] >= 0:
        return OUT if rule[BELOW] == 1 else IN
    return OPEN


@kernel("words, words, int, words, words, words, words, table")
def selected(arena, handles, k, shape, rule, path, numbers, runs):
    """Writes the runs of rows that a rule selects, as far as there is room in ``runs`` (int64[n, 3]): the number of the
    tree, and the range of positions. Returns the number of runs. Runs do not touch.

    ``numbers``: room for four numbers. O(log n) per run if few sums cross the bound.
    """
    n, room = handles.size, runs.shape[0]
    arena, handles, shape, rule = words(arena), words(handles), words(shape), constants(rule)
    path, numbers, runs = words(path), words(numbers), words(runs)
    m, steps, limbs = 0, 0, rule[LIMBS]
    for i in range(n):
        root = arena[handles[i] + k] if handles[i] != 0 else ZERO
        if root == 0 or not _begin(arena, root, shape, rule, numbers):
            continue
        position, end, seen, depth = 0, -1, 0, 0
        path[0], path[1] = root, 0
        while depth >= 0:
            node, e = path[2 * depth], path[2 * depth + 1]
            if e == arena[node + LENGTH]:
                depth -= 1
                continue
            path[2 * depth + 1] = e + 1
            steps += 1
            at = sums_at(arena, shape, node, e)
            if arena[node + LEVEL] == 0:
                found = _row(arena, shape, rule, node, e, at, seen, numbers)
            else:
                found = _child(arena, rule, at, seen, numbers)
            if found == OPEN:
                depth += 1
                path[2 * depth], path[2 * depth + 1] = arena[child_at(arena, shape, node, e)], 0
                continue
            behind = position + arena[node + HEAD + e]
            if found == IN:
                if end != position:
                    m += 1
                    if m <= room:
                        runs[3 * m - 3], runs[3 * m - 2] = i, position
                end = behind
                if m <= room:
                    runs[3 * m - 1] = end
            position = behind
            seen += arena[at + rule[COUNT]]
            _load(arena, at + rule[SUM], rule[SUM_LIMBS], numbers, limbs, limbs, rule[UNITS])
            add(numbers, 0, numbers, limbs, limbs)
    arena[H_STEPS] += steps
    return m
