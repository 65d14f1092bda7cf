"""Rows of ordered trees by a word of which every child has the greatest (see ``crown.stages.kernels.ordered``)."""

from __future__ import annotations

from crown.kernels.arena import H_STEPS
from crown.kernels.jit import kernel
from crown.kernels.pointers import words
from crown.stages.kernels.nodes import HEAD, LENGTH, LEVEL, child_at, reaches, sums_at
from crown.stages.kernels.ordered import total


@kernel("words, words, int, words, int, words, words, words")
def ahead(arena, handles, k, shape, word, positions, least, out):
    """Writes the position of the first row of trees, from ``positions`` on, whose word is not below ``least``; the size
    of the tree if there is none. O(log n) each."""
    n = handles.size
    arena, handles, shape, positions = words(arena), words(handles), words(shape), words(positions)
    least, out = words(least), words(out)
    for i in range(n):
        root = arena[handles[i] + k]
        node, at, other, there, steps = (
            root,
            0,
            0,
            0,
            0,
        )  # ``other``: the nearest child that has one, which is ``there``
        wanted, out[i] = positions[i], total(arena, root)
        while node != 0:
            level, length = arena[node + LEVEL], arena[node + LENGTH]
            below, started, found = 0, 0, False
            for e in range(length):
                steps += 1
                behind = at + arena[node + HEAD + e]
                if behind > wanted and reaches(arena[sums_at(arena, shape, node, e) + word], least[i]):
                    if level == 0:
                        out[i], found = at, True
                        break
                    if at >= wanted:
                        other, there = arena[child_at(arena, shape, node, e)], at
                        break
                    below, started = arena[child_at(arena, shape, node, e)], at
                at = behind
            if found:
                break
            if below != 0:
                node, at = below, started
            else:
                node, at, other = other, there, 0
        arena[H_STEPS] += steps


@kernel("words, words, int, words, int, words, words, words")
def back(arena, handles, k, shape, word, positions, least, out):
    """Writes the position behind the last row of trees, before ``positions``, whose word is not below ``least``; 0 if
    there is none. O(log n) each."""
    n = handles.size
    arena, handles, shape, positions = words(arena), words(handles), words(shape), words(positions)
    least, out = words(least), words(out)
    for i in range(n):
        root = arena[handles[i] + k]
        node, at, other, there, steps = root, total(arena, root), 0, 0, 0
        wanted, out[i] = positions[i], 0
        while node != 0:
            level, length = arena[node + LEVEL], arena[node + LENGTH]
            below, started, found = 0, 0, False
            for e in range(length - 1, -1, -1):
                steps += 1
                before = at - arena[node + HEAD + e]
                if before < wanted and reaches(arena[sums_at(arena, shape, node, e) + word], least[i]):
                    if level == 0:
                        out[i], found = at, True
                        break
                    if at <= wanted:
                        other, there = arena[child_at(arena, shape, node, e)], at
                        break
                    below, started = arena[child_at(arena, shape, node, e)], at
                at = before
            if found:
                break
            if below != 0:
                node, at = below, started
            else:
                node, at, other = other, there, 0
        arena[H_STEPS] += steps


@kernel("words, words, int, words, int, words, words")
def rest(arena, handles, k, shape, word, positions, out):
    """Writes the greatest word of the rows of trees from ``positions`` on; 0 if there is none. O(log n) each."""
    n = handles.size
    arena, handles, shape, positions, out = words(arena), words(handles), words(shape), words(positions), words(out)
    for i in range(n):
        node, at, greatest, steps = arena[handles[i] + k], 0, 0, 0
        while node != 0:
            below, started = 0, 0
            for e in range(arena[node + LENGTH]):
                steps += 1
                behind = at + arena[node + HEAD + e]
                if behind > positions[i]:
                    if at < positions[i] and arena[node + LEVEL] > 0:
                        below, started = arena[child_at(arena, shape, node, e)], at
                    else:
                        worth = arena[sums_at(arena, shape, node, e) + word]
                        if reaches(worth, greatest):
                            greatest = worth
                at = behind
            if below != 0:
                at = started
            node = below
        out[i] = greatest
        arena[H_STEPS] += steps
