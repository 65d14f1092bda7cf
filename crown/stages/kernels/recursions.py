"""The rows of a recursion, with the counts that decide which of them are there (``crown.stages.fixpoint``).

A row is a counted tuple (``crown.stages.kernels.counts``), whose counts are those below. It is *there* while its stamp
is not 0. Each function receives tuples by their numbers in a list, in which a tuple may occur several times: the
first occurrence changes it, and the others find that it is changed.
"""

from __future__ import annotations

from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import NONE, ZERO, release
from crown.kernels.memory.pointers import constants, words
from crown.kernels.memory.tables import find, hash_key, record_in, remove_from, seek

# Counts of a row.
(
    COUNT,  # its derivations
    FOUNDED,  # of these, the derivations from rows with smaller stamps
    STAMP,  # when it was inserted; 0 if it is not there
    BEST,  # with MIN or MAX: 1 if it is the best of its group
) = range(4)


@device
def founded(arena, t, strides, width, leaves, keys, stamps, weights, before, n, chosen):
    """Adds the founded ones of some derivations to their rows, whose derivations are counted already.

    ``stamps``: int64[n], the greatest stamp of the rows that each derivation reads. ``before``: int64[n, leaves], the
    counts before. Writes the numbers of the founded derivations to ``chosen``, and returns how many there are. O(n).
    """
    m = ZERO
    for i in range(n):
        if stamps[i] < before[i * leaves + STAMP]:
            record = find(arena, t, hash_key(arena, strides, 0, width, keys, i), strides, 0, width, keys, i)
            arena[record + width + FOUNDED] += weights[i]
            chosen[m] = i
            m += 1
    return m


@device
def unfounded(arena, t, strides, width, keys, weights, chosen, m):
    """Reduces the list ``chosen`` of derivations to those that are lost, and whose rows have no founded one left.

    Returns their number. O(m).
    """
    left = ZERO
    for k in range(m):
        i = chosen[k]
        if weights[i] < 0:
            record = find(arena, t, hash_key(arena, strides, 0, width, keys, i), strides, 0, width, keys, i)
            if record != 0 and arena[record + width + FOUNDED] == 0:
                chosen[left] = i
                left += 1
    return left


@device
def deleted(arena, t, strides, width, leaves, keys, chosen, m, out, room):
    """Deletes those of the chosen rows that are there. Returns their number. O(m).

    Writes them to ``out``, column by column with ``room`` words each: the row, its stamp, its founded derivations.
    """
    done = ZERO
    for k in range(m):
        i = chosen[k]
        slot = seek(arena, t, hash_key(arena, strides, 0, width, keys, i), strides, 0, width, keys, i, NONE)
        record = record_in(arena, t, slot)
        if record != 0 and arena[record + width + STAMP] != 0:
            for j in range(width):
                out[j * room + done] = keys[strides[j] + i]
            out[width * room + done] = arena[record + width + STAMP]
            out[(width + 1) * room + done] = arena[record + width + FOUNDED]
            arena[record + width + STAMP], arena[record + width + FOUNDED] = 0, 0
            done += 1
            some = ZERO
            for c in range(leaves):
                some |= arena[record + width + c]
            if some == 0:
                remove_from(arena, t, slot)
                release(arena, record, width + leaves)
    return done


@device
def inserted(arena, t, strides, width, keys, chosen, m, wanted, stamp, out, room):
    """Inserts those of the chosen rows that are not there, and whose count ``wanted`` is not 0. Returns their number.

    Writes them to ``out`` as ``deleted`` does: the row, its stamp, its derivations, which are all founded. O(m).
    """
    done = ZERO
    for k in range(m):
        i = chosen[k]
        record = find(arena, t, hash_key(arena, strides, 0, width, keys, i), strides, 0, width, keys, i)
        if record != 0 and arena[record + width + STAMP] == 0 and arena[record + width + wanted] > 0:
            for j in range(width):
                out[j * room + done] = keys[strides[j] + i]
            count = arena[record + width + COUNT]
            out[width * room + done], out[(width + 1) * room + done] = stamp, count
            arena[record + width + STAMP] = stamp
            arena[record + width + FOUNDED] += count
            done += 1
    return done


@kernel("words, int, words, int, int, table, words, words, table, words, words")
def count_founded(arena, t, strides, width, leaves, keys, stamps, weights, before, chosen, lost):
    """Calls ``founded``, and ``unfounded`` for a copy of its list, ``lost``. Returns the lengths of both lists."""
    arena, strides, keys, n = words(arena), constants(strides), words(keys), weights.size
    stamps, weights, before = words(stamps), words(weights), words(before)
    chosen, lost = words(chosen), words(lost)
    m = founded(arena, t, strides, width, leaves, keys, stamps, weights, before, n, chosen)
    for k in range(m):
        lost[k] = chosen[k]
    return m, unfounded(arena, t, strides, width, keys, weights, lost, m)


@kernel("words, int, words, int, int, table, words, table")
def delete(arena, t, strides, width, leaves, keys, chosen, out):
    """Calls ``deleted``. ``out``: int64[width + 2, rows]. Returns the number of rows."""
    room, arena, strides, keys = chosen.size, words(arena), constants(strides), words(keys)
    return deleted(arena, t, strides, width, leaves, keys, words(chosen), room, words(out), room)


@kernel("words, int, words, int, table, words, int, int, table")
def insert(arena, t, strides, width, keys, chosen, wanted, stamp, out):
    """Calls ``inserted``. ``out``: int64[width + 2, rows]. Returns the number of rows."""
    room, arena, strides, keys = chosen.size, words(arena), constants(strides), words(keys)
    return inserted(arena, t, strides, width, keys, words(chosen), room, wanted, stamp, words(out), room)
