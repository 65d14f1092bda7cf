"""Finds the positions of changed rows in their partitions, and their peers."""

from __future__ import annotations

from crown.kernels.batches import merge, slots_of_net
from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import H_STEPS
from crown.kernels.memory.pointers import constants, words
from crown.stages.kernels.trees.ahead import located, near_keys
from crown.stages.kernels.trees.nodes import BACK, HEAD, LENGTH, LEVEL, row_at
from crown.stages.kernels.trees.ordered import BEHIND, FIRST, compare, locate, total
from crown.stages.kernels.trees.scan import here

# Words of the survey of a row.
(
    HANDLE,  # handle of the partition; 0 if there is none, and all other words are 0
    LOW,  # first position of the rows that are equal in the columns of the order
    HIGH,  # position behind them
    BEGIN,  # first position of its peers
    END,  # position behind them
    SIZE,  # copies of all rows of the partition
    SURVEY_WORDS,
) = range(7)


@kernel("words, int, words, int, words, int, int, words, words, table, words, bytes, words, table")
def survey(arena, t, keyed, k, spec, order_columns, peers, strides, shape, keys, values, octets, path, out):
    """Writes the survey of each row (``HANDLE`` ...). O(log n) per row: one descent if only the row itself matches.

    Two rows are equal if their first ``order_columns`` columns of the order are, and peers if their first ``peers``
    columns are. ``peers`` is at most ``order_columns``.
    """
    n = out.shape[1]
    arena, keyed, spec, strides, shape = (
        words(arena), constants(keyed), constants(spec), constants(strides), words(shape),
    )  # fmt: skip
    keys, values, octets, path, out = words(keys), words(values), words(octets), words(path), words(out)
    survey_rows(arena, t, keyed, k, spec, order_columns, peers, strides, shape, keys, n, values, octets, path, out)


@device
def survey_rows(arena, t, keyed, k, spec, order_columns, peers, strides, shape, keys, n, values, octets, path, out):
    """Does the same as ``survey`` for ``n`` rows."""
    first = visited = 0
    for i in range(n):
        if i == visited:
            first = i
            visited = near_keys(
                arena, t, keyed, k, spec, order_columns, FIRST, strides, shape, keys, i, n, values, octets, path
            )  # fmt: skip
        for word in range(SURVEY_WORDS):
            out[word * n + i] = 0
        group, leaf, e, _, low = located(
            arena, shape, spec, order_columns, FIRST, keys, strides, i, first, values, octets, path
        )  # fmt: skip
        if group == 0:
            continue
        root, steps = arena[group + k], 0
        begin = low
        if _equals(arena, shape, leaf, e, -1, spec, peers, keys, strides, i, values, octets):
            _, begin, more = locate(arena, root, shape, spec, peers, FIRST, keys, strides, i, values, octets, path)
            steps += more
        high = low
        if _equals(arena, shape, leaf, e, 0, spec, order_columns, keys, strides, i, values, octets):
            leaf, e = here(arena, leaf, e)
            high = low + arena[leaf + HEAD + e]
            e += 1
            if _equals(arena, shape, leaf, e, 0, spec, order_columns, keys, strides, i, values, octets):
                _, high, more = locate(
                    arena, root, shape, spec, order_columns, BEHIND, keys, strides, i, values, octets, path
                )
                leaf, e = path[2 * arena[root + LEVEL]], path[2 * arena[root + LEVEL] + 1]
                steps += more
        end = high
        if _equals(arena, shape, leaf, e, 0, spec, peers, keys, strides, i, values, octets):
            _, end, more = locate(arena, root, shape, spec, peers, BEHIND, keys, strides, i, values, octets, path)
            steps += more
        arena[H_STEPS] += steps
        out[HANDLE * n + i], out[SIZE * n + i] = group, total(arena, root)
        out[LOW * n + i], out[HIGH * n + i] = low, high
        out[BEGIN * n + i], out[END * n + i] = begin, end


@kernel("table, words, table, words, int, halves, words, int, table")
def open_peers(keys, weights, surveyed, columns, secret, slots, merged, word, sums):
    """Writes to a word of the addends of changes, int64[n, words], by how much the number of groups of peers changes.
    Expected O(n).

    ``keys``: the rows, int64[width, n]. Peers have equal ``columns``. ``surveyed``: see ``survey``. Scratch: ``slots``,
    ``slots_of_net``, int32; ``merged`` int64[n].
    """
    n, count, size = weights.size, columns.size, sums.shape[1]
    keys, weights, surveyed, columns = words(keys), words(weights), words(surveyed), constants(columns)
    slots, merged, sums = words(slots), words(merged), words(sums)
    set_openings(keys, weights, surveyed, n, columns, count, secret, slots, merged, word, sums, size)


@device
def set_openings(keys, weights, surveyed, n, columns, count, secret, slots, merged, word, sums, size):
    """Does the same as ``open_peers`` for ``n`` changes and ``count`` columns."""
    room = slots_of_net(n)
    for s in range(room):
        slots[s] = -1
    for i in range(n):
        merged[i] = weights[i]
    merge(keys, 1, n, columns, count, merged, n, slots, room, secret)
    for i in range(n):
        before = surveyed[END * n + i] - surveyed[BEGIN * n + i]
        sums[i * size + word] = (1 if before + merged[i] > 0 else 0) - (1 if before > 0 else 0)


@device
def _equals(arena, shape, leaf, e, by, spec, columns, keys, strides, i, values, octets):
    """Returns True if an entry, or the one before it (``by`` -1), equals a row in the first ``columns`` columns."""
    if by == 0:
        leaf, e = here(arena, leaf, e)
    elif e > 0:
        e -= 1
    else:
        leaf = arena[leaf + BACK]
        e = arena[leaf + LENGTH] - 1
    if leaf == 0:
        return False
    return compare(arena, row_at(arena, shape, leaf, e), spec, columns, keys, strides, i, values, octets) == 0
