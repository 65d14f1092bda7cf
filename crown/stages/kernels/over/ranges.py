"""Reads rows of partitions in ranges of positions, each once with its copies (see ``partitions``)."""

from __future__ import annotations

from crown.kernels.jit import kernel
from crown.kernels.memory.arena import H_STEPS
from crown.kernels.memory.pointers import constants, words
from crown.kernels.memory.tables import find, hash_key
from crown.kernels.numbers.limbs import add, negate
from crown.stages.kernels.trees.ordered import locate, total
from crown.stages.kernels.trees.scan import emit


@kernel("words, words, int, words, words, words, words, table, words, words")
def read_ranges(arena, handles, k, shape, firsts, ends, cursor, rows, weights, owners):
    """Writes the rows at positions ``firsts`` to ``ends`` (with copies) of partitions, without their sums, with their
    copies, and the range of each row.

    ``cursor`` (int64[2]): range, and written rows of it, initially zeros. Returns the number of written rows. All rows
    are written when the cursor is after the last range. O(log n) per range, O(1) per row.
    """
    n, room = handles.size, weights.size
    arena, handles, shape, firsts = words(arena), words(handles), words(shape), words(firsts)
    ends, cursor, rows, weights, owners = words(ends), words(cursor), words(rows), words(weights), words(owners)
    m = 0
    while cursor[0] < n and m < room:
        i = cursor[0]
        first = firsts[i] + cursor[1]
        start = m
        if first < ends[i]:
            m, first = emit(arena, arena[handles[i] + k], shape, first, ends[i], 1, rows, weights, m, room)
        for x in range(start, m):
            owners[x] = i
        arena[H_STEPS] += m - start + 1
        if first >= ends[i]:
            cursor[0] = i + 1
            cursor[1] = 0
        else:
            cursor[1] = first - firsts[i]
    return m


@kernel(
    "words, int, int, words, int, words, words, int, int, words, words, words, words, table, words, words, bytes, "
    "words, words, table, words, words"
)
def find_bands(
    arena, low, high, keyed, k, low_spec, high_spec, low_mode, high_mode, strides, shape, levels, numbers, keys, codes,
    values, octets, path, cursor, rows, weights, owners,
):  # fmt: skip
    """Writes the bands that contain points, with their copies, and the point that each contains.

    ``low`` and ``high``: tables of the same bands, by keys and split, in the order of their low and high ends. ``keys``
    int64[k, n]: has room for the split, which is the last key. ``codes``: the points; ``numbers`` are in their order. A
    band is stored at the number between its ends with the most trailing zeros; ``levels`` are the numbers of trailing
    zeros that some band has. A point below a split is below the high ends of its bands, so only the low ends are
    compared; otherwise only the high ends. ``cursor`` (int64[3]): point, level and written rows of it; all are written
    when it is after the last point. O(log n) per level with bands, O(1) per band.
    """
    n, room, last = codes.size, weights.size, levels.size
    arena, keyed, low_spec, high_spec = words(arena), constants(keyed), constants(low_spec), constants(high_spec)
    strides, shape, levels, numbers, keys = (
        constants(strides), words(shape), words(levels), words(numbers), words(keys),
    )  # fmt: skip
    codes, values, octets, path = words(codes), words(values), words(octets), words(path)
    cursor, rows, weights, owners = words(cursor), words(rows), words(weights), words(owners)
    m, steps = 0, 0
    while cursor[0] < n and m < room:
        i = cursor[0]
        if cursor[1] == last:
            cursor[0] = i + 1
            cursor[1] = 0
            continue
        level = levels[cursor[1]]
        above = numbers[i] >> level
        keys[(k - 1) * n + i] = (above | 1) << level
        is_after = (above & 1) == 1
        steps += 1
        group = find(
            arena, high if is_after else low, hash_key(arena, keyed, 0, k, keys, i), keyed, 0, k, keys, i
        )  # fmt: skip
        if group != 0:
            root = arena[group + k]
            if is_after:
                _, first, more = locate(
                    arena, root, shape, high_spec, 1, high_mode, codes, strides, i, values, octets, path
                )  # fmt: skip
                end = total(arena, root)
            else:
                first = 0
                _, end, more = locate(
                    arena, root, shape, low_spec, 1, low_mode, codes, strides, i, values, octets, path
                )  # fmt: skip
            steps += more
            start, at = m, first + cursor[2]
            if at < end:
                m, at = emit(arena, root, shape, at, end, 1, rows, weights, m, room)
            for x in range(start, m):
                owners[x] = i
            steps += m - start
            if at < end:
                cursor[2] = at - first
                continue
        cursor[1] += 1
        cursor[2] = 0
    arena[H_STEPS] += steps
    return m


@kernel("words, words, words, table, table")
def add_to_rows(targets, signs, shape, sums, out):
    """Adds numbers (``sums`` int64[n, words]), times their signs, to ``targets`` of ``out``. Overwrites ``sums``."""
    n = targets.size
    targets, signs, shape, sums, out = words(targets), words(signs), words(shape), words(sums), words(out)
    size = shape[1]
    for i in range(n):
        for p in range(2, 2 + 2 * shape[2], 2):
            at, limbs = shape[p + 1], shape[p + 2]
            if signs[i] < 0:
                negate(sums, i * size + at, limbs)
            add(out, targets[i] * size + at, sums, i * size + at, limbs)
