"""Values of events that a group stage stores in multisets, in a native call: DISTINCT aggregates, MIN and MAX.

    old ends of the groups -> counts of values, changed -> sums of distinct values -> new ends of the groups

If something stops the changes, all of them are undone, and Python applies the batch: it then finds the reason again. A
plan is the words ``VALUES_COUNT`` ..., then the multisets, then the readings.
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.arena import H_BUDGET, H_LIMIT, ZERO
from crown.kernels.memory.pointers import beyond
from crown.kernels.strings import NULL
from crown.stages.kernels.groups.heaps import VALUE_KEY, read_tops, settle_groups
from crown.stages.kernels.groups.multisets import change_counts
from crown.stages.kernels.groups.sums import add_all_terms

# Words of a plan.
(
    VALUES_TABLE,  # the table with the records of values
    VALUES_COUNT,  # the number of multisets of a group
    VALUES_READINGS,  # the number of readings
    VALUES_HEAD,
) = range(4)
# Words of a multiset.
(
    MULTISET_COLUMN,  # the column of the events with the values
    MULTISET_FILTER,  # the column that is TRUE for the events that count, or -1
    MULTISET_PLACE,  # the offset of its words from a group
    MULTISET_KEPT,  # the sides of its heaps
    MULTISET_ORDER,  # the order of its values
    MULTISET_SUMS_AT,  # the offset of the recipes of the sums of its distinct values
    MULTISET_WORDS,
) = range(7)
# Words of a reading.
(
    READING_PLACE,  # the offset of the words of its multiset from a group
    READING_SIDE,  # the side of the heap whose top is read
    READING_WORDS,
) = range(3)
# Arrays of one multiset in a batch, of one word per event each. The first three are the keys of values.
CHANGE_GROUP, CHANGE_MULTISET, CHANGE_CODE, CHANGE_WEIGHT, CHANGE_PLACE, CHANGE_FLIP, CHANGE_NUMBER, CHANGE_ARRAYS = (
    range(8)
)  # fmt: skip
CHANGE_HEAD = 1 + VALUE_KEY + 2  # words before the arrays: their length, the strides of keys, the forms of the code


@device
def words_of_values(multisets, readings, n, groups):
    """Returns the words of memory that a batch of ``n`` events of ``groups`` groups takes."""
    return 2 * readings * groups + multisets * (CHANGE_HEAD + CHANGE_ARRAYS * n)


@device
def change_values(
    arena, plan, identity, dictionary, octets, memory, forms, weights, n, numbers, handles, groups, free, rows, width,
    scratch,
):  # fmt: skip
    """Changes the multisets of groups by ``n`` events, and adds to the new sums of the groups, in ``rows``. Returns
    True, or False if nothing has changed in the multisets because Python must apply the batch.

    Uses the memory from word ``free`` on, which begins with the readings: each before and after the batch. ``forms``:
    of the columns of events, see ``crown.expressions.kernels.evaluate``. ``numbers``: of the groups of events. Expected
    O(1) per event, amortized O(log) with heaps.
    """
    readings, count = plan[VALUES_READINGS], plan[VALUES_COUNT]
    _read(arena, plan, memory, handles, groups, free)
    first = free + 2 * readings * groups
    for x in range(count):
        multiset = VALUES_HEAD + MULTISET_WORDS * x
        start = first + x * (CHANGE_HEAD + CHANGE_ARRAYS * n)
        _collect(plan, multiset, x, memory, forms, weights, n, numbers, handles, start)
        done = _change(arena, plan, multiset, dictionary, octets, memory, start)
        complete = done == memory[start]
        if complete:
            settle_groups(
                arena, plan[VALUES_TABLE], identity, handles, groups, plan[multiset + MULTISET_PLACE],
                plan[multiset + MULTISET_KEPT], dictionary, octets, plan[multiset + MULTISET_ORDER],
            )  # fmt: skip
            complete = _add_distinct(plan, multiset, dictionary, memory, start, rows, groups, width, scratch)
        if not complete:
            undo_values(arena, plan, identity, dictionary, octets, memory, n, handles, groups, free, x, done)
            return False
    _read(arena, plan, memory, handles, groups, free + groups)
    return True


@device
def _read(arena, plan, memory, handles, groups, start):
    """Writes the readings of groups to the memory from word ``start`` on, with room for as many words behind each."""
    first = VALUES_HEAD + MULTISET_WORDS * plan[VALUES_COUNT]
    for x in range(plan[VALUES_READINGS]):
        reading = first + READING_WORDS * x
        out = beyond(memory, start + 2 * groups * x)
        read_tops(arena, handles, groups, plan[reading + READING_PLACE], plan[reading + READING_SIDE], out)


@device
def _array(memory, start, which):
    """Returns the word at which an array of a multiset begins."""
    return start + CHANGE_HEAD + which * memory[start]


@device
def _counts(memory, codes, filter_column, filtered, i):
    """Returns True if event ``i`` has a value, and the filter is TRUE for it."""
    return memory[codes + i] != NULL and (filter_column < 0 or memory[filtered + i] == 1)


@device
def _collect(plan, multiset, number, memory, forms, weights, n, numbers, handles, start):
    """Writes the changes of a multiset, first those that insert: no count then becomes negative on the way."""
    codes = forms[2 * plan[multiset + MULTISET_COLUMN] + 1]
    filter_column, m = plan[multiset + MULTISET_FILTER], ZERO
    filtered = forms[2 * filter_column + 1] if filter_column >= 0 else ZERO
    for i in range(n):
        m += weights[i] != 0 and _counts(memory, codes, filter_column, filtered, i)
    memory[start] = m
    for j in range(VALUE_KEY):
        memory[start + 1 + j] = j * m
    out, place = start + CHANGE_HEAD, plan[multiset + MULTISET_PLACE]
    for sign in (1, -1):
        for i in range(n):
            if weights[i] * sign > 0 and _counts(memory, codes, filter_column, filtered, i):
                group = handles[numbers[i]]
                memory[out + CHANGE_GROUP * m], memory[out + CHANGE_MULTISET * m] = group, number
                memory[out + CHANGE_CODE * m], memory[out + CHANGE_WEIGHT * m] = memory[codes + i], weights[i]
                memory[out + CHANGE_PLACE * m], memory[out + CHANGE_NUMBER * m] = group + place, numbers[i]
                out += 1


@device
def _change(arena, plan, multiset, dictionary, octets, memory, start):
    """Changes the counts of values. Returns how many have changed: fewer than all if the budget is used up, or if a
    count would become negative."""
    done = change_counts(
        arena, plan[VALUES_TABLE], beyond(memory, start + 1), VALUE_KEY, plan[multiset + MULTISET_ORDER],
        beyond(memory, _array(memory, start, CHANGE_GROUP)), beyond(memory, _array(memory, start, CHANGE_WEIGHT)),
        memory[start], beyond(memory, _array(memory, start, CHANGE_PLACE)), plan[multiset + MULTISET_KEPT], dictionary,
        octets, beyond(memory, _array(memory, start, CHANGE_FLIP)), ZERO,
    )  # fmt: skip
    return done if done >= 0 else -1 - done


@device
def _add_distinct(plan, multiset, dictionary, memory, start, rows, groups, width, scratch):
    """Adds the values that are new or gone to the sums of distinct values. Returns False if one is a far double."""
    recipes = beyond(plan, plan[multiset + MULTISET_SUMS_AT])
    if recipes[0] == 0:
        return True
    forms = start + 1 + VALUE_KEY
    memory[forms], memory[forms + 1] = ZERO, _array(memory, start, CHANGE_CODE)
    far = add_all_terms(
        dictionary, beyond(memory, _array(memory, start, CHANGE_NUMBER)),
        beyond(memory, _array(memory, start, CHANGE_FLIP)), memory[start], memory, beyond(memory, forms), memory,
        recipes, scratch, rows, groups * width, width,
    )  # fmt: skip
    return far == 0


@device
def undo_values(arena, plan, identity, dictionary, octets, memory, n, handles, groups, free, last, done):
    """Undoes the first ``done`` changes of multiset number ``last``, or all if -1, and all changes of those before it.

    The memory is that of ``change_values``. The budget does not limit the changes: they need no more than there was.
    """
    first = free + 2 * plan[VALUES_READINGS] * groups
    budget = arena[H_BUDGET]
    arena[H_BUDGET] = arena[H_LIMIT]
    for x in range(last, -1, -1):
        multiset = VALUES_HEAD + MULTISET_WORDS * x
        start = first + x * (CHANGE_HEAD + CHANGE_ARRAYS * n)
        _invert(memory, start, done if x == last and done >= 0 else memory[start])
        _change(arena, plan, multiset, dictionary, octets, memory, start)
        settle_groups(
            arena, plan[VALUES_TABLE], identity, handles, groups, plan[multiset + MULTISET_PLACE],
            plan[multiset + MULTISET_KEPT], dictionary, octets, plan[multiset + MULTISET_ORDER],
        )  # fmt: skip
    arena[H_BUDGET] = budget


@device
def _invert(memory, start, done):
    """Makes the inverse of the first ``done`` changes of a multiset, in the opposite order."""
    m = memory[start]
    for which in range(CHANGE_ARRAYS):
        source, target = start + CHANGE_HEAD + which * m, start + CHANGE_HEAD + which * done
        for i in range(done):
            memory[target + i] = memory[source + i]
        for i in range(done // 2):
            one, other = target + i, target + done - 1 - i
            memory[one], memory[other] = memory[other], memory[one]
    memory[start] = done
    weights = _array(memory, start, CHANGE_WEIGHT)
    for i in range(weights, weights + done):
        memory[i] = -memory[i]
    for j in range(VALUE_KEY):
        memory[start + 1 + j] = j * done
