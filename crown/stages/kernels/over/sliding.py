"""Reads the values of sliding frames: each row enters and leaves, and each frame reads its result.

Values are numbers from 0, in their order; a row with a number below 0 has no value. Frames are given in pieces: piece
``q`` of frame ``i`` has the rows from ``starts[q, i]`` to ``ends[q, i]``. A frame costs O(log n) for each row in which
it differs from the frame before it.

A frame may have more values than those of the given rows; all frames of a stretch of rows have the same additional
ones. They are described by how many of them are BELOW each given value, and how many are the SAME. UP_TO is the number
of given rows with this value or a lower one. So an additional value is identified by its position among all values.
"""

from __future__ import annotations

from crown.kernels.jit import device, kernel
from crown.kernels.memory.pointers import words
from crown.kernels.numbers.limbs import add_multiple, clear

# Results.
SELECTED = 0  # the value at a position, from 0
MOST_FREQUENT = 1  # the most frequent value, the first of several
SUMMED = 2  # the sums over the different values
# Words that describe the additional values.
BELOW, SAME, UP_TO, OUTSIDE_WORDS = range(4)
_BITS = 32  # bits of a number of rows, and of the number of a value


@device
def _add_to_counts(state, size, number, by):
    """Adds to the count of a value. A Fenwick tree has the sums of counts of lower values."""
    at = number + 1
    while at <= size:
        state[at] += by
        at += at & -at


@device
def _value_at(state, size, outside, first, end, position):
    """Returns the value at a position of a frame, of those from ``first`` to ``end``. If it is an additional value,
    returns -1 - p, where p is its position among all values; p is their number if there is no value at that
    position."""
    at, inside, step = 0, 0, 1  # the value, and the number of the frame's rows with a lower one
    while 2 * step <= size:
        step *= 2
    while step > 0:
        target = at + step
        more = inside + state[target] if target <= size else 0
        if target <= first or (target < end and outside[BELOW * size + target] + more <= position):
            at, inside = target, more
        step //= 2
    if at == end or outside[BELOW * size + at] + inside > position:
        return -1 - position
    count = _count(state, at)
    if outside[BELOW * size + at] + inside + count + outside[SAME * size + at] > position:
        return at
    return -1 - (position - inside - count + outside[UP_TO * size + at])


@device
def _count(state, number):
    """Returns the count of a value."""
    at = number + 1
    count, below = state[at], at - (at & -at)
    at -= 1
    while at != below:
        count -= state[at]
        at -= at & -at
    return count


@device
def _add_to_ranking(state, size, number, by):
    """Adds to the count of a value. A tree has the most frequent value of each of its parts."""
    at = size + number
    count = (state[at] >> _BITS) + by
    state[at] = (count << _BITS) | (size - number) if count > 0 else 0
    at //= 2
    while at > 0:
        left, right = state[2 * at], state[2 * at + 1]
        state[at] = left if left > right else right
        at //= 2


@device
def _add_to_sums(state, size, number, by, addends, shape):
    """Adds to the count of a value, and to the sums after the counts if the value enters or leaves."""
    before = state[number]
    state[number] = before + by
    if before == 0 or before + by == 0:
        for p in range(2, 2 + 2 * shape[2], 2):
            at = shape[p + 1]
            add_multiple(state, size + at, addends, number * shape[1] + at, shape[p + 2], by)


@device
def _move_row(result, state, size, number, by, addends, shape):
    """Adds a row (``by`` 1), or removes it (-1)."""
    if number >= 0:
        if result == SELECTED:
            _add_to_counts(state, size, number, by)
        elif result == MOST_FREQUENT:
            _add_to_ranking(state, size, number, by)
        else:
            _add_to_sums(state, size, number, by, addends, shape)


@kernel("int, words, table, table, words, int, table, table, table, words, words, words, words")
def slide(result, numbers, starts, ends, positions, size, outside, spans, addends, shape, current, state, out):
    """Writes the ``result`` of each frame: a value, or sums, int64[n, words]. SELECTED is -1 - p for an
    additional value, with p its position among all values.

    ``positions``: for SELECTED, 0 or more. ``outside`` (int64[OUTSIDE_WORDS, size]): describes the additional values.
    ``spans`` (int64[2, n]): the range of the values of each frame. ``size``: the number of values. ``addends`` and
    ``shape``: the addends of each value, int64[size, words], and the positions of their numbers (see
    ``partitions.running``). ``current`` int64[2 pieces] and ``state`` must be zeroed: int64[size + 1] for SELECTED,
    int64[2 size] for MOST_FREQUENT, int64[size + words] for SUMMED.
    """
    pieces, n = starts.shape
    numbers, starts, ends, positions = words(numbers), words(starts), words(ends), words(positions)
    outside, spans = words(outside), words(spans)
    addends, shape, current, state, out = words(addends), words(shape), words(current), words(state), words(out)
    if result == SUMMED:
        clear(state, size, shape[1])
    for i in range(n):
        for q in range(pieces):
            low, high = current[q], current[pieces + q]
            start = starts[q * n + i]
            end = max(start, ends[q * n + i])
            if start >= high or end <= low:
                for row in range(low, high):
                    _move_row(result, state, size, numbers[row], -1, addends, shape)
                low = high = start
            for row in range(start, low):
                _move_row(result, state, size, numbers[row], 1, addends, shape)
            for row in range(high, end):
                _move_row(result, state, size, numbers[row], 1, addends, shape)
            for row in range(low, start):
                _move_row(result, state, size, numbers[row], -1, addends, shape)
            for row in range(end, high):
                _move_row(result, state, size, numbers[row], -1, addends, shape)
            current[q], current[pieces + q] = start, end
        if result == SELECTED:
            out[i] = _value_at(state, size, outside, spans[i], spans[n + i], positions[i])
        elif result == MOST_FREQUENT:
            out[i] = size - (state[1] & ((1 << _BITS) - 1)) if state[1] > 0 else -1
        else:
            for x in range(shape[1]):
                out[i * shape[1] + x] = state[size + x]
