"""Searches rows of ordered trees by a word whose maximum every child has (see ``ordered``)."""

from __future__ import annotations

from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import H_STEPS
from crown.kernels.memory.pointers import words
from crown.stages.kernels.trees.nodes import HEAD, LENGTH, LEVEL, child_at, reaches, sums_at
from crown.stages.kernels.trees.ordered import total


@device
def nearest(arena, root, shape, word, start, least, forward):
    """Returns the number of rows before the first row whose word is at least ``least``, among the rows after the first
    ``start`` ones; counted from the first row, or backwards from the last one. Returns the size of the tree if there is
    none."""
    node, at, steps, found = root, 0, 0, -1
    other_child, other_at = 0, 0  # the nearest child with such a row, and the number of rows before it
    while node != 0 and found < 0:
        level, length = arena[node + LEVEL], arena[node + LENGTH]
        below, started = 0, 0
        for x in range(length):
            e = x if forward else length - 1 - x
            steps += 1
            next_at = at + arena[node + HEAD + e]
            if next_at > start and reaches(arena[sums_at(arena, shape, node, e) + word], least):
                if level == 0:
                    found = at
                    break
                if at >= start:
                    other_child, other_at = arena[child_at(arena, shape, node, e)], at
                    break
                below, started = arena[child_at(arena, shape, node, e)], at
            at = next_at
        if below != 0:
            node, at = below, started
        else:
            node, at, other_child = other_child, other_at, 0
    arena[H_STEPS] += steps
    return total(arena, root) if found < 0 else found


@kernel("words, words, int, words, int, words, words, words")
def first_at_least(arena, handles, k, shape, word, positions, least, out):
    """Writes the position of the first row of trees, from ``positions``, whose word is at least ``least``; the size of
    the tree if there is none. O(log n) each."""
    n = handles.size
    arena, handles, shape, positions = words(arena), words(handles), words(shape), words(positions)
    least, out = words(least), words(out)
    for i in range(n):
        out[i] = nearest(arena, arena[handles[i] + k], shape, word, positions[i], least[i], True)


@kernel("words, words, int, words, int, words, words, words")
def last_at_least(arena, handles, k, shape, word, positions, least, out):
    """Writes the position after the last row of trees, before ``positions``, whose word is at least ``least``; 0 if
    there is none. O(log n) each."""
    n = handles.size
    arena, handles, shape, positions = words(arena), words(handles), words(shape), words(positions)
    least, out = words(least), words(out)
    for i in range(n):
        root = arena[handles[i] + k]
        size = total(arena, root)
        out[i] = size - nearest(arena, root, shape, word, size - positions[i], least[i], False)


@kernel("words, words, int, words, int, words, words")
def maximum_from(arena, handles, k, shape, word, positions, out):
    """Writes the maximum of a word over the rows of trees from ``positions``; 0 if there are none. O(log n) each."""
    n = handles.size
    arena, handles, shape, positions, out = words(arena), words(handles), words(shape), words(positions), words(out)
    for i in range(n):
        node, at, greatest, steps = arena[handles[i] + k], 0, 0, 0
        while node != 0:
            below, started = 0, 0
            for e in range(arena[node + LENGTH]):
                steps += 1
                next_at = at + arena[node + HEAD + e]
                if next_at > positions[i]:
                    if at < positions[i] and arena[node + LEVEL] > 0:
                        below, started = arena[child_at(arena, shape, node, e)], at
                    else:
                        value = arena[sums_at(arena, shape, node, e) + word]
                        if reaches(value, greatest):
                            greatest = value
                at = next_at
            if below != 0:
                at = started
            node = below
        out[i] = greatest
        arena[H_STEPS] += steps
