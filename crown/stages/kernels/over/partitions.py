"""Partitions of ordered rows, for functions of the rows around a row.

A partition is a record in a table: its key (``k`` codes) and the root of the tree of its rows (see
``crown.stages.kernels.trees.ordered``). ``keyed``: the strides of the key's columns.
"""

from __future__ import annotations

from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import H_BUDGET, H_LIVE, H_STEPS, NONE, T_TALLIES, release
from crown.kernels.memory.pointers import constants, words
from crown.kernels.memory.tables import find, hash_key, made_in, record_in, remove, seek
from crown.kernels.numbers.limbs import add, carry, clear, plus
from crown.kernels.strings import NULL
from crown.stages.kernels.over.sessions import WORD, change_openings, openings_are_correct
from crown.stages.kernels.trees.ahead import located, near_handles, near_keys
from crown.stages.kernels.trees.nodes import HEAD, LENGTH, NEXT, row_at
from crown.stages.kernels.trees.ordered import EXACT, copies_there, locate, put, total
from crown.stages.kernels.trees.scan import at_number, at_position, codes, emit, in_leaf, leaves_at, sound

DONE, OVER_BUDGET, ABSENT = 0, 1, 2
# Words of a place.
(
    HANDLE,  # handle of the partition, or 0
    LEAF,  # leaf of the row
    ENTRY,  # entry of the row in the leaf
    RANK,  # number of copies before the row
    COPIES,  # copies of the row
    SIZE,  # copies of all rows of the partition
    LOW,  # position of the first copy of the row
    HIGH,  # position behind its last copy
    STOP,  # position of the row that shields all rows behind it from the change, or -1 (see ``kernels.frames``)
    PLACE_WORDS,
) = range(10)


@kernel("words, int, words, int, table, words")
def find_all(arena, t, keyed, k, keys, handles):
    """Writes the handle of each row's partition, 0 if there is none. Expected O(1) per row."""
    n = handles.size
    arena, keyed, keys, handles = words(arena), constants(keyed), words(keys), words(handles)
    for i in range(n):
        handles[i] = find(arena, t, hash_key(arena, keyed, 0, k, keys, i), keyed, 0, k, keys, i)


@kernel("words, words, int, words, int, int, words, words, table, words, bytes, words, words, words")
def locate_all(arena, handles, k, spec, columns, mode, strides, shape, keys, values, octets, path, ranks, copies):
    """Writes the number of copies before each row in a partition, by the first ``columns`` of the order (see
    ``ordered.locate``); in mode EXACT also the row's copies. Writes nothing for handle 0. O(log n) per row."""
    n = handles.size
    arena, handles, spec, strides, shape = (
        words(arena), words(handles), constants(spec), constants(strides), words(shape),
    )  # fmt: skip
    keys, values, octets, path = words(keys), words(values), words(octets), words(path)
    ranks, copies = words(ranks), words(copies)
    first = visited = 0
    for i in range(n):
        if i == visited:
            first = i
            visited = near_handles(
                arena, handles, k, spec, columns, mode, strides, shape, keys, i, n, values, octets, path
            )  # fmt: skip
        if handles[i] == 0:
            continue
        _, leaf, e, found, ranks[i] = located(
            arena, shape, spec, columns, mode, keys, strides, i, first, values, octets, path
        )  # fmt: skip
        copies[i] = arena[leaf + HEAD + e] if found else 0


@kernel("words, int, words, int, words, words, words, table, words, bytes, words, table")
def place(arena, t, keyed, k, spec, strides, shape, keys, values, octets, path, out):
    """Writes the places of rows, present or not (``HANDLE`` ...). O(log n) per row."""
    n, columns = out.shape[1], spec.size // 4
    arena, keyed, spec, strides, shape = (
        words(arena), constants(keyed), constants(spec), constants(strides), words(shape),
    )  # fmt: skip
    keys, values, octets, path, out = words(keys), words(values), words(octets), words(path), words(out)
    find_places(arena, t, keyed, k, spec, columns, strides, shape, keys, n, values, octets, path, out)


@device
def find_places(arena, t, keyed, k, spec, columns, strides, shape, keys, n, values, octets, path, out):
    """Does the same as ``place``. ``columns``: those of the order."""
    first = near = 0
    for i in range(n):
        if i == near:
            first = i
            near = near_keys(
                arena, t, keyed, k, spec, columns, EXACT, strides, shape, keys, i, n, values, octets, path
            )  # fmt: skip
        for word in range(PLACE_WORDS):
            out[word * n + i] = 0
        group, leaf, e, found, rank = located(
            arena, shape, spec, columns, EXACT, keys, strides, i, first, values, octets, path
        )  # fmt: skip
        if group == 0:
            continue
        copies = arena[leaf + HEAD + e] if found else 0
        out[HANDLE * n + i], out[LEAF * n + i], out[ENTRY * n + i] = group, leaf, e
        out[RANK * n + i], out[COPIES * n + i], out[SIZE * n + i] = rank, copies, total(arena, arena[group + k])
        out[LOW * n + i], out[HIGH * n + i] = rank, rank + copies


@kernel("words, int, words, int, words, words, words, words, table, words, table, words, bytes, words, words")
def change(arena, t, keyed, k, spec, strides, shape, session, keys, changes, sums, values, octets, path, done):
    """Adds ``changes`` (int64[n]) to the copies of rows, and their ``sums`` (int64[n, words], the totals of the
    changes). The words that mark rows which open sessions are computed here (``session``: see ``sessions``).

    ``keys`` int64[columns, n]. ``done`` (int64[1], initially 0): changed rows. Returns DONE; OVER_BUDGET, call it again
    to continue; or ABSENT if a delete finds too few copies. O(log n) per row.
    """
    n, columns = changes.size, spec.size // 4
    arena, keyed, spec, strides, shape = (
        words(arena),
        constants(keyed),
        constants(spec),
        constants(strides),
        words(shape),
    )
    keys, changes, sums, values = words(keys), words(changes), words(sums), words(values)
    octets, path, done, session = words(octets), words(path), words(done), words(session)
    return change_rows(
        arena, t, keyed, k, spec, columns, strides, shape, session, keys, changes, sums, n, values, octets, path, done
    )  # fmt: skip


@device
def change_rows(
    arena, t, keyed, k, spec, columns, strides, shape, session, keys, changes, sums, n, values, octets, path, done
):  # fmt: skip
    """Does the same as ``change``. ``columns``: those of the order."""
    visited = done[0]
    for i in range(done[0], n):
        if i == visited:
            visited = near_keys(
                arena, t, keyed, k, spec, columns, EXACT, strides, shape, keys, i, n, values, octets, path
            )  # fmt: skip
        status = change_row(
            arena, t, keyed, k, spec, columns, strides, shape, session, keys, changes, sums, i, values, octets, path
        )  # fmt: skip
        if status != DONE:
            return status
        done[0] = i + 1
    return DONE


@device
def change_row(
    arena, t, keyed, k, spec, columns, strides, shape, session, keys, changes, sums, i, values, octets, path
):  # fmt: skip
    """Changes the copies of one row (see ``change``). Returns DONE, or OVER_BUDGET or ABSENT with nothing changed.
    O(log n)."""
    d, size = changes[i], shape[1]
    if d > 0 and arena[H_LIVE] > arena[H_BUDGET]:
        return OVER_BUDGET
    tag, group = find_or_make(arena, t, keyed, k, keys, i, d)
    if group == 0:
        return ABSENT
    root_at = group + k
    root = arena[root_at]
    found, _, steps = locate(arena, root, shape, spec, columns, EXACT, keys, strides, i, values, octets, path)
    before = copies_there(arena, root, found, path)
    if before + d < 0:
        return ABSENT
    if session[WORD] >= 0:
        sums[i * size + session[WORD]] = change_openings(
            arena, root, shape, spec, session, keys, strides, i, before, d, path
        )  # fmt: skip
    steps += put(
        arena, root_at, shape, spec, columns, keys, strides, i, values, octets, found, d, sums, i * size, path
    )  # fmt: skip
    update_partition(arena, t, tag, k, group, before, d)
    arena[H_STEPS] += steps
    return DONE


@device
def find_or_make(arena, t, keyed, k, keys, i, d):
    """Returns tag and handle of the partition of a row whose copies change by ``d``.

    An insert makes a missing partition, without rows. For a delete from a missing partition the handle is 0. Amortized
    O(1).
    """
    tag = hash_key(arena, keyed, 0, k, keys, i)
    slot = seek(arena, t, tag, keyed, 0, k, keys, i, NONE)
    group = record_in(arena, t, slot)
    if group == 0 and d >= 0:
        group = made_in(arena, t, tag, slot, keyed, 0, k, keys, i, k + 1)
    return tag, group


@device
def update_partition(arena, t, tag, k, group, before, d):
    """Updates the tallies for the change ``d`` of a row that had ``before`` copies, and deletes a partition without
    rows.

    Expected O(1).
    """
    arena[t + T_TALLIES] += (1 if before == 0 else 0) - (1 if before + d == 0 else 0)
    arena[t + T_TALLIES + 1] += d
    if arena[group + k] == 0:
        remove(arena, t, tag, group)
        release(arena, group, k + 1)


@kernel("words, words, int, words")
def sizes(arena, handles, k, out):
    """Writes the number of rows of partitions, with copies; 0 for handle 0. O(1) each."""
    n = handles.size
    arena, handles, out = words(arena), words(handles), words(out)
    for i in range(n):
        out[i] = 0
        if handles[i] != 0:
            out[i] = total(arena, arena[handles[i] + k])


@kernel("words, words, int, words, words, int, words")
def align(arena, handles, k, shape, positions, up, scratch):
    """Moves positions between copies of a row before all of them, or (``up`` 1) after all of them. O(log n) each."""
    n = handles.size
    arena, handles, shape, positions, scratch = (
        words(arena), words(handles), words(shape), words(positions), words(scratch),
    )  # fmt: skip
    for i in range(n):
        leaf, e, before = at_position(arena, arena[handles[i] + k], shape, positions[i], scratch, 0)
        if before > 0:
            positions[i] -= before
            if up == 1:
                positions[i] += arena[leaf + HEAD + e]


@kernel("words, words, int, words, int, words, words")
def positions_of(arena, handles, k, shape, word, numbers, out):
    """Writes the positions of the rows with these ``numbers`` (from 0) among those that a word of the sums counts, or
    the size of the partition if there are fewer. O(log n) each."""
    n = handles.size
    arena, handles, shape = words(arena), words(handles), words(shape)
    numbers, out = words(numbers), words(out)
    for i in range(n):
        out[i] = at_number(arena, arena[handles[i] + k], shape, word, numbers[i])


@kernel("words, words, int, words, words, int, words, words")
def codes_at(arena, handles, k, shape, positions, column, scratch, out):
    """Writes a column of the rows at ``positions`` (from 0, with copies) of trees, NULL if there is none. O(log n)
    each. ``scratch``: room for the sums before them."""
    n = handles.size
    arena, handles, shape, positions = words(arena), words(handles), words(shape), words(positions)
    scratch, out = words(scratch), words(out)
    for i in range(n):
        out[i] = NULL
        if positions[i] >= 0:
            leaf, e, _ = at_position(arena, arena[handles[i] + k], shape, positions[i], scratch, 0)
            if leaf != 0 and e < arena[leaf + LENGTH]:
                out[i] = arena[row_at(arena, shape, leaf, e) + column]


@kernel("words, words, int, words, words, int, int, table, words")
def scan(arena, handles, k, shape, cursor, offset, end, rows, weights):
    """Writes the rows of partitions at positions ``offset`` to ``end``, with their copies, partition by partition and
    in order. Their trees have no sums.

    ``cursor`` (int64[2]): partition and position of the next row, initially (0, ``offset``). Returns the number of
    written rows. All rows are written when the cursor is after the last partition. O(log n) per partition, O(1) per
    row.
    """
    n, room = handles.size, weights.size
    arena, handles, shape, cursor = words(arena), words(handles), words(shape), words(cursor)
    rows, weights = words(rows), words(weights)
    m = 0
    while cursor[0] < n and m < room:
        root = arena[handles[cursor[0]] + k]
        last = min(end, total(arena, root))
        m, at = emit(arena, root, shape, cursor[1], last, 1, rows, weights, m, room)
        if at >= last:
            cursor[0] += 1
            cursor[1] = offset
        else:
            cursor[1] = at
    return m


@kernel("words, words, int, words, words, words, words, words, table, table")
def copy_rows(arena, handles, k, shape, firsts, ends, starts, last, rows, heads):
    """Writes the rows at positions ``firsts`` to ``ends`` of partitions, each copy separately, to ``rows``
    (int64[width, n]) from row ``starts``; and the sums of the rows before them to ``heads`` (int64[partitions, words]).
    O(log n + rows) each, less if ``firsts`` ascend. Each range must begin at the first copy of a row. ``last``: zeros
    (see ``scan.leaves_at``)."""
    n, stride = handles.size, rows.shape[1]
    arena, handles, shape, firsts = words(arena), words(handles), words(shape), words(firsts)
    ends, starts, last, rows, heads = words(ends), words(starts), words(last), words(rows), words(heads)
    width = shape[0]
    clear(heads, 0, n * shape[1])
    first = visited = 0
    for i in range(n):
        if i == visited:
            first = i
            visited = leaves_at(arena, handles, k, shape, firsts, i, n, heads, last)
        leaf, e, before = in_leaf(arena, shape, i, first, heads, last)
        at, remaining = starts[i], ends[i] - firsts[i]
        arena[H_STEPS] += remaining
        while remaining > 0:
            if e == arena[leaf + LENGTH]:
                leaf, e = arena[leaf + NEXT], 0
                continue
            source = row_at(arena, shape, leaf, e)
            for _ in range(min(remaining, arena[leaf + HEAD + e] - before)):
                for c in range(width):
                    rows[at + c * stride] = arena[source + c]
                at += 1
                remaining -= 1
            before = 0
            e += 1


@kernel("words, int, words, words, words, words, words, words, bytes, words, words")
def check(arena, k, spec, strides, shape, session, handles, values, octets, path, out):
    """Writes the number of different rows of each tree, by scanning all of them; -1 if the tree is invalid (see
    ``scan.sound``), or if a row is marked wrongly as opening a session. ``path`` has room for sums at its end."""
    n, columns = handles.size, spec.size // 4
    arena, spec, strides, shape = words(arena), constants(spec), constants(strides), words(shape)
    handles, values, octets, path, out = words(handles), words(values), words(octets), words(path), words(out)
    session = words(session)
    for g in range(n):
        root = arena[handles[g] + k]
        out[g] = sound(arena, root, shape, spec, columns, strides, values, octets, path)
        if session[WORD] >= 0 and not openings_are_correct(arena, root, shape, spec, session):
            out[g] = -1


@kernel("words, words, int, words, int, words, words")
def codes_of(arena, handles, k, shape, column, path, out):
    """Writes a column of all rows and entries of the trees of partitions, as far as there is room. Returns the number
    of codes. O(rows)."""
    n, room = handles.size, out.size
    arena, handles, shape, path, out = words(arena), words(handles), words(shape), words(path), words(out)
    m = 0
    for i in range(n):
        m = codes(arena, arena[handles[i] + k], shape, column, path, out, m, room)
    return m


@kernel("table, words, table")
def prefix_sums(rows, shape, out):
    """Writes the sums of the first 0, 1, ... n rows of numbers: ``out`` int64[n + 1, words]."""
    n = rows.shape[0]
    rows, shape, out = words(rows), words(shape), words(out)
    size = shape[1]
    clear(out, 0, size)
    for i in range(n):
        for x in range(size):
            out[(i + 1) * size + x] = out[i * size + x]
        for p in range(2, 2 + 2 * shape[2], 2):
            add(out, (i + 1) * size + shape[p + 1], rows, i * size + shape[p + 1], shape[p + 2])


@device
def add_difference(out, o, sums, i, j, n):
    """Adds the difference of the numbers at ``sums[i]`` and ``sums[j]`` to ``out[o ...]``, all of ``n`` limbs, in one
    pass."""
    over, lent = 0, 1
    for x in range(n):
        update_partition, right, before = sums[i + x], ~sums[j + x], out[o + x]
        part = plus(update_partition, right)
        difference = plus(part, lent)
        lent = carry(update_partition, right, part) + carry(part, lent, difference)
        part = plus(before, difference)
        total = plus(part, over)
        over = carry(before, difference, part) + carry(part, over, total)
        out[o + x] = total


@kernel("table, words, words, words, table")
def add_range_sums(sums, shape, starts, ends, out):
    """Adds the sums of the rows from ``starts`` to ``ends`` to numbers (``out`` int64[n, words]). ``sums``: the output
    of ``prefix_sums``."""
    n = starts.size
    sums, shape, starts, ends, out = words(sums), words(shape), words(starts), words(ends), words(out)
    size = shape[1]
    for i in range(n):
        if starts[i] < ends[i]:
            for p in range(2, 2 + 2 * shape[2], 2):
                at, limbs = shape[p + 1], shape[p + 2]
                add_difference(out, i * size + at, sums, ends[i] * size + at, starts[i] * size + at, limbs)


@kernel("words, words, words, words, int, words")
def search_sorted(keys, firsts, ends, targets, after, out):
    """Writes per target the first position from ``firsts`` to ``ends`` of ascending keys whose key is at least the
    target, or greater than it if ``behind`` is 1. O(log n) each."""
    n = targets.size
    keys, firsts, ends, targets, out = words(keys), words(firsts), words(ends), words(targets), words(out)
    for i in range(n):
        low, high = firsts[i], ends[i]
        while low < high:
            middle = (low + high) // 2
            if keys[middle] < targets[i] or (after == 1 and keys[middle] == targets[i]):
                low = middle + 1
            else:
                high = middle
        out[i] = low
