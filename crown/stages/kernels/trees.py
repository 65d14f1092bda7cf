"""Ordered bags of rows: a tree per group that knows how many copies lie before each row.

A tree is a treap: ordered by its rows, and a heap by the hashes of their codes, so that its shape is that of random
insertions whatever the order in which rows come and go. A node of rows of ``width`` codes::

    0 .. width-1   the row (codes)
    width + 0      copies of the row
    width + 1      copies in the whole subtree
    width + 2, 3   children: what sorts before, what sorts after
    width + 4      parent
    width + 5      priority

``spec`` (int64[4 * width]) is the order: per column its position, how its values are compared (see
``crown.stages.kernels.orders``), 1 if it falls, 1 if its NULLs come last. It names every column, so that rows that
compare equal are equal. The row that a node is compared with is ``keys[strides[c] + i]`` for column ``c``.
"""

from __future__ import annotations

from crown.kernels.arena import ZERO, alloc, release
from crown.kernels.jit import device
from crown.kernels.strings import NULL
from crown.kernels.tables import hash_key, mix
from crown.stages.kernels.orders import less

COPIES, TOTAL, BEFORE, AFTER, PARENT, PRIORITY = 0, 1, 2, 3, 4, 5
NODE = 6  # words of a node beside its row


@device
def compare(arena, node, spec, width, keys, strides, i, values, octets):
    """Returns -1, 0 or 1: the row sorts before the node's, is the same, or sorts after it."""
    for s in range(width):
        c = spec[4 * s]
        a, b = keys[strides[c] + i], arena[node + c]
        if a == b:
            continue
        if a == NULL or b == NULL:
            first = (a == NULL) != (spec[4 * s + 3] == 1)
        elif spec[4 * s + 2] == 1:
            first = less(values, octets, spec[4 * s + 1], b, a)
        else:
            first = less(values, octets, spec[4 * s + 1], a, b)
        return -1 if first else 1
    return 0


@device
def total(arena, width, node):
    """Copies in the subtree of a node; 0 of none."""
    if node == 0:
        return 0
    return arena[node + width + TOTAL]


@device
def locate(arena, root, spec, width, keys, strides, i, values, octets):
    """Finds a row: (its node or 0, the last node on the way, whether the row sorts before that one, copies before the
    row, nodes visited). Expected O(log n)."""
    node, last, side, rank, steps = root, root, 0, 0, 0
    while node != 0:
        steps += 1
        side = compare(arena, node, spec, width, keys, strides, i, values, octets)
        if side < 0:
            last, node = node, arena[node + width + BEFORE]
            continue
        rank += total(arena, width, arena[node + width + BEFORE])
        if side == 0:
            return node, node, side, rank, steps
        rank += arena[node + width + COPIES]
        last, node = node, arena[node + width + AFTER]
    return node, last, side, rank, steps


@device
def _replace_child(arena, width, root_at, parent, old, new):
    """Puts ``new`` where ``old`` stood below ``parent``; without a parent it is the root."""
    if parent == 0:
        arena[root_at] = new
    elif arena[parent + width + BEFORE] == old:
        arena[parent + width + BEFORE] = new
    else:
        arena[parent + width + AFTER] = new
    if new != 0:
        arena[new + width + PARENT] = parent


@device
def _rise(arena, width, root_at, node):
    """Rotates a node above its parent."""
    parent = arena[node + width + PARENT]
    above = arena[parent + width + PARENT]
    mine, theirs = BEFORE, AFTER
    if arena[parent + width + BEFORE] == node:
        mine, theirs = AFTER, BEFORE
    moved = arena[node + width + mine]
    arena[parent + width + theirs] = moved
    if moved != 0:
        arena[moved + width + PARENT] = parent
    _replace_child(arena, width, root_at, above, parent, node)
    arena[node + width + mine] = parent
    arena[parent + width + PARENT] = node
    arena[node + width + TOTAL] = arena[parent + width + TOTAL]
    arena[parent + width + TOTAL] = (
        arena[parent + width + COPIES]
        + total(arena, width, arena[parent + width + BEFORE])
        + total(arena, width, arena[parent + width + AFTER])
    )


@device
def add(arena, width, node, copies):
    """Changes the copies of a row; of its node and all above it."""
    arena[node + width + COPIES] += copies
    while node != 0:
        arena[node + width + TOTAL] += copies
        node = arena[node + width + PARENT]


@device
def _priority(tag):
    """Returns the priority of a row whose hash is ``tag``.

    Tags of rows that come in order are steps of an arithmetic progression, whose records are not those of random
    numbers: the spine of a tree with such priorities can be ten times as long.
    """
    return mix(mix(ZERO, tag), ZERO)


@device
def grow(arena, width, root_at, last, side, keys, strides, i):
    """Returns a new node for a row, without copies, below the node that ``locate`` met last."""
    node = alloc(arena, width + NODE)
    for c in range(width):
        arena[node + c] = keys[strides[c] + i]
    for j in range(NODE):
        arena[node + width + j] = 0
    arena[node + width + PRIORITY] = _priority(hash_key(arena, strides, 0, width, keys, i))
    arena[node + width + PARENT] = last
    if last == 0:
        arena[root_at] = node
    elif side < 0:
        arena[last + width + BEFORE] = node
    else:
        arena[last + width + AFTER] = node
    while arena[node + width + PARENT] != 0 and (
        arena[arena[node + width + PARENT] + width + PRIORITY] < arena[node + width + PRIORITY]
    ):
        _rise(arena, width, root_at, node)
    return node


@device
def fell(arena, width, root_at, node):
    """Takes out the node of a row without copies."""
    while True:
        left, right = arena[node + width + BEFORE], arena[node + width + AFTER]
        if left == 0 or right == 0:
            break
        if arena[left + width + PRIORITY] < arena[right + width + PRIORITY]:
            _rise(arena, width, root_at, right)
        else:
            _rise(arena, width, root_at, left)
    _replace_child(arena, width, root_at, arena[node + width + PARENT], node, left | right)
    release(arena, node, width + NODE)


@device
def leftmost(arena, width, root):
    """Returns the node of the first row in order; 0 of an empty tree. Expected O(log n)."""
    node = root
    while node != 0 and arena[node + width + BEFORE] != 0:
        node = arena[node + width + BEFORE]
    return node


@device
def following(arena, width, node):
    """Returns the node of the next row in order; 0 behind the last one. Amortized O(1) over a range."""
    after = arena[node + width + AFTER]
    if after != 0:
        return leftmost(arena, width, after)
    above = arena[node + width + PARENT]
    while above != 0 and arena[above + width + AFTER] == node:
        node, above = above, arena[above + width + PARENT]
    return above


@device
def emit(arena, width, root, first, end, sign, rows, weights, m, room):
    """Writes the rows at positions ``first`` to ``end`` (copies counted) of a tree, from row ``m`` of the output on.

    Returns (rows in the output, the first position not written): the output has room for ``room`` rows. Expected
    O(log n + rows).
    """
    if first >= end:
        return m, end
    node, position = root, first
    while True:
        before = total(arena, width, arena[node + width + BEFORE])
        if position < before:
            node = arena[node + width + BEFORE]
        elif position < before + arena[node + width + COPIES]:
            position -= before
            break
        else:
            position -= before + arena[node + width + COPIES]
            node = arena[node + width + AFTER]
    at = first
    while at < end and m < room:
        copies = min(arena[node + width + COPIES] - position, end - at)
        for c in range(width):
            rows[m * width + c] = arena[node + c]
        weights[m] = sign * copies
        m += 1
        at += copies
        position = 0
        node = following(arena, width, node)
    return m, at


@device
def sound(arena, width, root, spec, strides, values, octets):
    """Counts the rows of a tree by going over all; -1 if it is none: order, totals, links, priorities.

    ``strides`` is 0, 1, 2, ...
    """
    if root != 0 and arena[root + width + PARENT] != 0:
        return -1
    node, before, found = leftmost(arena, width, root), 0, 0
    while node != 0:
        found += 1
        if arena[node + width + COPIES] <= 0:
            return -1
        sum_ = arena[node + width + COPIES]
        for side in (BEFORE, AFTER):
            child = arena[node + width + side]
            sum_ += total(arena, width, child)
            if child != 0 and arena[child + width + PARENT] != node:
                return -1
            if child != 0 and arena[child + width + PRIORITY] > arena[node + width + PRIORITY]:
                return -1
        if sum_ != arena[node + width + TOTAL]:
            return -1
        if before != 0 and compare(arena, before, spec, width, arena, strides, node, values, octets) != 1:
            return -1
        before = node
        node = following(arena, width, node)
    return found
