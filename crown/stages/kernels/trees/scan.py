"""Reads ordered trees (see ``ordered``) by position and in order, and checks their invariants."""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.arena import LINE
from crown.kernels.memory.pointers import prefetch
from crown.kernels.numbers.limbs import clear
from crown.stages.kernels.trees.nodes import (
    BACK,
    HEAD,
    LENGTH,
    LEVEL,
    NEXT,
    ROOM,
    add_entries,
    add_sums,
    child_at,
    full,
    node_words,
    row_at,
    sums_at,
)
from crown.stages.kernels.trees.ordered import DEPTH, compare

TOGETHER = 16  # positions whose leaves are prefetched together
KEPT = 4  # words of the last position, before its sums
LEAVES = KEPT + 2 * TOGETHER  # words of the last position, without its sums, and of the prefetched leaves


@device
def at_position(arena, root, shape, position, sums, s):
    """Returns the leaf and the entry at a position, with copies, and how many of its copies precede the position.

    After the last row it is the end of the last leaf. Adds the sums of all rows before the entry to ``sums[s ...]``.
    O(log n).
    """
    node = root
    while node != 0:
        e, length = 0, arena[node + LENGTH]
        last = length if arena[node + LEVEL] == 0 else length - 1
        while e < last and arena[node + HEAD + e] <= position:
            position -= arena[node + HEAD + e]
            e += 1
        add_entries(arena, shape, node, e, sums, s)
        if arena[node + LEVEL] == 0:
            return node, e, position
        node = arena[child_at(arena, shape, node, e)]
    return 0, 0, 0


@device
def _leaf_at(arena, root, shape, position, sums, s, last):
    """Returns the leaf at a position, with copies, or the last one, and how many copies of the leaf precede the
    position. Adds the sums of all rows before the leaf to ``sums[s ...]``.

    Starts at the previous position: ascending positions cost the distance between them. No tree may have changed since.
    ``last`` stores the previous search, initially 0: the root, the lowest node with children, the index of the child,
    the position where the child begins, and the sums of all rows before it.
    """
    if root == 0 or arena[root + LEVEL] == 0:
        return root, position
    node, e, begin = last[1], last[2], last[3]
    anew = last[0] != root or position < begin
    while True:
        if anew:
            node, e, begin = root, 0, 0
            clear(last, KEPT, shape[1])
            while arena[node + LEVEL] > 1:
                e = 0
                while e < arena[node + LENGTH] - 1 and begin + arena[node + HEAD + e] <= position:
                    begin += arena[node + HEAD + e]
                    e += 1
                add_entries(arena, shape, node, e, last, KEPT)
                node, e = arena[child_at(arena, shape, node, e)], 0
        while e < arena[node + LENGTH] - 1 and begin + arena[node + HEAD + e] <= position:
            begin += arena[node + HEAD + e]
            add_sums(shape, last, KEPT, arena, sums_at(arena, shape, node, e))
            e += 1
        if anew or position < begin + arena[node + HEAD + e]:
            break
        anew = True
    last[0], last[1], last[2], last[3] = root, node, e, begin
    add_sums(shape, sums, s, last, KEPT)
    return arena[child_at(arena, shape, node, e)], position - begin


@device
def leaves_at(arena, handles, k, shape, positions, i, n, sums, last):
    """Prefetches the leaves of the next positions of trees, from number ``i`` of ``n``, and stores them in ``last``,
    after its sums. Adds the sums of all rows before the leaf of each position to ``sums``. Returns the first number
    that was not visited."""
    end, at, size = min(n, i + TOGETHER), KEPT + shape[1] - 2 * i, node_words(shape, full(shape, 0), 0)
    for j in range(i, end):
        leaf, position = _leaf_at(
            arena, arena[handles[j] + k], shape, positions[j], sums, j * shape[1], last
        )  # fmt: skip
        last[at + 2 * j], last[at + 2 * j + 1] = leaf, position
        for word in range(0, size if leaf != 0 else 0, LINE):
            prefetch(arena, leaf + word)
    return end


@device
def in_leaf(arena, shape, i, first, sums, last):
    """Returns the leaf and the entry of position number ``i`` of those that ``leaves_at`` has stored from ``first``,
    and how many of its copies precede it. Adds the sums, as ``at_position`` does. O(1)."""
    at = KEPT + shape[1] + 2 * (i - first)
    leaf, position, e = last[at], last[at + 1], 0
    if leaf == 0:
        return 0, 0, 0
    while e < arena[leaf + LENGTH] and arena[leaf + HEAD + e] <= position:
        position -= arena[leaf + HEAD + e]
        e += 1
    add_entries(arena, shape, leaf, e, sums, i * shape[1])
    return leaf, e, position


@device
def at_number(arena, root, shape, word, number):
    """Returns the position of copy number ``number`` (from 0) among those that a word of the sums counts, each copy of
    a row once or not at all; the number of all copies if there are fewer. O(log n)."""
    node, position = root, 0
    while node != 0:
        e, length = 0, arena[node + LENGTH]
        last = length if arena[node + LEVEL] == 0 else length - 1
        while e < last and arena[sums_at(arena, shape, node, e) + word] <= number:
            number -= arena[sums_at(arena, shape, node, e) + word]
            position += arena[node + HEAD + e]
            e += 1
        if arena[node + LEVEL] == 0:
            return position + number if e < length else position
        node = arena[child_at(arena, shape, node, e)]
    return position


@device
def here(arena, leaf, e):
    """Returns an entry as a leaf and an index. The end of a leaf becomes the first entry of the next leaf, or leaf
    0."""
    if leaf != 0 and e == arena[leaf + LENGTH]:
        return arena[leaf + NEXT], 0
    return leaf, e


@device
def next_copy(arena, leaf, e, copy):
    """Returns the copy after a copy of an entry, as a leaf, an entry and a copy; leaf 0 after the last one."""
    if copy + 1 < arena[leaf + HEAD + e]:
        return leaf, e, copy + 1
    leaf, e = here(arena, leaf, e + 1)
    return leaf, e, 0


@device
def emit(arena, root, shape, first, end, sign, rows, weights, m, room):
    """Writes the rows at positions ``first`` to ``end`` (with copies) of a tree without sums to the output, from row
    ``m``.

    Returns (rows in the output, the first position not written). The output has room for ``room`` rows. O(log n +
    rows).
    """
    if first >= end:
        return m, end
    leaf, e, before = at_position(arena, root, shape, first, rows, 0)
    at, width = first, shape[0]
    while at < end and m < room:
        leaf, e = here(arena, leaf, e)
        copies = min(arena[leaf + HEAD + e] - before, end - at)
        source = row_at(arena, shape, leaf, e)
        for c in range(width):
            rows[m * width + c] = arena[source + c]
        weights[m] = sign * copies
        m += 1
        at += copies
        before = 0
        e += 1
    return m, at


@device
def codes(arena, root, shape, column, path, out, m, room):
    """Writes a column of all rows of a tree, and of the rows in its children's entries, to ``out[m ...]``, as far as
    there is room. Returns the new number of codes. O(n)."""
    depth = -1
    if root != 0:
        depth, path[0], path[1] = 0, root, 0
    while depth >= 0:
        node, e = path[2 * depth], path[2 * depth + 1]
        if e == arena[node + LENGTH]:
            depth -= 1
            continue
        path[2 * depth + 1] = e + 1
        if e > 0 or arena[node + LEVEL] == 0:
            if m < room:
                out[m] = arena[row_at(arena, shape, node, e) + column]
            m += 1
        if arena[node + LEVEL] > 0:
            depth += 1
            path[2 * depth], path[2 * depth + 1] = arena[child_at(arena, shape, node, e)], 0
    return m


@device
def leftmost(arena, shape, root):
    """Returns the first leaf of a tree, 0 for an empty one. O(log n)."""
    node = root
    while node != 0 and arena[node + LEVEL] > 0:
        node = arena[child_at(arena, shape, node, 0)]
    return node


# Invariants
# ----------------------------------------------------------------------------------------------------------------------


@device
def sound(arena, root, shape, spec, columns, strides, values, octets, path):
    """Counts the rows of a tree by scanning all. Returns -1 if order, copies, sums, links or bounds are invalid.

    ``strides``: 0, 1, 2, ... ``path`` has room for sums at its end.
    """
    if root == 0:
        return 0
    found, before, leaf = 0, 0, 0
    depth = 0
    path[0], path[1] = root, 0
    while depth >= 0:
        node, e = path[2 * depth], path[2 * depth + 1]
        length = arena[node + LENGTH]
        if e == length:
            if length == 0 or length > arena[node + ROOM]:
                return -1
            depth -= 1
            continue
        path[2 * depth + 1] = e + 1
        if arena[node + HEAD + e] <= 0:
            return -1
        at = row_at(arena, shape, node, e)
        if arena[node + LEVEL] == 0:
            if before != 0 and compare(arena, before, spec, columns, arena, strides, at, values, octets) != 1:
                return -1
            before = at
            found += 1
            if e == 0:
                if arena[node + BACK] != leaf or (leaf != 0 and arena[leaf + NEXT] != node):
                    return -1
                leaf = node
            continue
        if e > 0 and compare(arena, before, spec, columns, arena, strides, at, values, octets) != 1:
            return -1
        child = arena[child_at(arena, shape, node, e)]
        if arena[child + LEVEL] != arena[node + LEVEL] - 1 or arena[child + ROOM] != full(shape, arena[child + LEVEL]):
            return -1
        if not _sums_of(arena, shape, node, e, child, path):
            return -1
        if e > 0 and not _bounded(arena, shape, at, child, spec, columns, strides, values, octets):
            return -1
        depth += 1
        path[2 * depth], path[2 * depth + 1] = child, 0
    if arena[leaf + NEXT] != 0:
        return -1
    return found


@device
def _sums_of(arena, shape, node, e, child, path):
    """Returns True iff an entry has the totals of its child's entries."""
    copies, k, room = 0, shape[1], 2 * DEPTH
    clear(path, room, k)
    for c in range(arena[child + LENGTH]):
        copies += arena[child + HEAD + c]
        add_sums(shape, path, room, arena, sums_at(arena, shape, child, c))
    at = sums_at(arena, shape, node, e)
    for x in range(k):
        if path[room + x] != arena[at + x]:
            return False
    return copies == arena[node + HEAD + e]


@device
def _bounded(arena, shape, bound, child, spec, columns, strides, values, octets):
    """Returns True iff a row is not after the first one below a child."""
    node = leftmost(arena, shape, child)
    at = row_at(arena, shape, node, 0)
    return compare(arena, bound, spec, columns, arena, strides, at, values, octets) >= 0
