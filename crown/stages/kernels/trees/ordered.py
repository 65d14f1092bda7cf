"""Ordered bags of rows: a B+-tree per group, with copies and exact sums for every child (see ``nodes`` for its nodes).

The row in a child's entry may have been deleted: deletes do not change it. The row in the first child's entry has no
meaning.

``spec`` (int64[4 * columns]) is the order: per column its position, the comparison of its values (see
``crown.stages.kernels.trees.orders``), 1 if it is descending, 1 if its NULLs come last. If an order has all columns,
rows that compare equal are the same row. The searched row is ``keys[strides[c] + i]`` for column ``c``.

Two adjacent nodes below one parent are merged when a delete leaves them with at most half of one node's room in total.
So a tree has at most a constant number of words per row, after any deletes.
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.arena import alloc, release
from crown.kernels.memory.pointers import prefetch
from crown.kernels.numbers.limbs import clear
from crown.kernels.strings import NULL
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
    reaches,
    row_at,
    sums_at,
)
from crown.stages.kernels.trees.orders import BY_WORD, less

DEPTH = 24  # levels: more than 2^31 rows can make
EXACT, FIRST, BEHIND = 0, 1, 2  # search for a row; for the first position of equal rows; for the position after them


@device
def _new(arena, shape, room, level):
    node = alloc(arena, node_words(shape, room, level))
    arena[node + LEVEL] = level
    arena[node + LENGTH] = 0
    arena[node + ROOM] = room
    arena[node + NEXT] = arena[node + BACK] = 0
    return node


@device
def _free(arena, shape, node):
    release(arena, node, node_words(shape, arena[node + ROOM], arena[node + LEVEL]))


@device
def compare(arena, at, spec, columns, keys, strides, i, values, octets):
    """Compares the row with the one at ``at`` by the first ``columns`` of an order. Returns -1 if it sorts before it, 0
    if they are equal, 1 if it sorts after it."""
    for s in range(columns):
        c = spec[4 * s]
        a, b = keys[strides[c] + i], arena[at + c]
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
def same(arena, spec, columns, at, other):
    """Returns True iff two rows are peers by the first ``columns`` of an order: equal values have equal codes."""
    equal = True
    for s in range(0, 4 * columns, 4):
        equal &= arena[at + spec[s]] == arena[other + spec[s]]
    return equal


@device
def search(arena, shape, node, spec, columns, mode, keys, strides, i, values, octets):
    """Finds the position of a row in a node. Returns (found, index, entries read), as ``locate`` does."""
    inner = arena[node + LEVEL] > 0
    low, high, steps, found = (1 if inner else 0), arena[node + LENGTH], 0, False
    if columns > 0 and spec[1] == BY_WORD and spec[2] == spec[3]:  # in the order of words, or of their complements
        value = keys[strides[spec[0]] + i]
        low, steps = _not_before(arena, row_at(arena, shape, node, 0) + spec[0], shape[0], low, high, value, -spec[2])
        if low == high or arena[row_at(arena, shape, node, low) + spec[0]] != value:
            return False, (low - 1 if inner else low), steps
        if low + 1 < high and arena[row_at(arena, shape, node, low + 1) + spec[0]] != value:
            high = low + 1  # no other row has this value
        steps -= 1  # it is read once more below
    while low < high:
        middle = (low + high) // 2
        steps += 1
        side = compare(arena, row_at(arena, shape, node, middle), spec, columns, keys, strides, i, values, octets)
        right = side > 0
        if side == 0:
            if inner:
                right = mode != FIRST
            else:
                found = True
                right = mode == BEHIND
        if right:
            low = middle + 1
        else:
            high = middle
    return found, (low - 1 if inner else low), steps


@device
def _not_before(arena, at, width, low, high, value, flip):
    """Returns the first of the places from ``low`` to ``high`` whose word is not before a value, and the number of
    words that were read. The word of place p is at ``at + p * width``. With ``flip`` -1 the words fall.

    The loop selects instead of branching, because the CPU cannot predict such branches.
    """
    n, steps = high - low, 0
    while n > 0:
        half = n // 2
        before = (arena[at + (low + half) * width] ^ flip) < (value ^ flip)
        low = low + half + 1 if before else low
        n = n - half - 1 if before else half
        steps += 1
    return low, steps


@device
def copies_before(arena, node, e):
    """Returns the number of copies of the entries of a node before entry ``e``."""
    n = 0
    for c in range(node + HEAD, node + HEAD + e):
        n += arena[c]
    return n


@device
def locate(arena, root, shape, spec, columns, mode, keys, strides, i, values, octets, path):
    """Finds the position of a row by the first ``columns`` of an order. Returns (found, copies before it, entries
    read).

    ``path`` (int64[2 * DEPTH]) receives the nodes on the path, from the root, each with the index in it; in the leaf it
    is that of the first entry that is not before the row. ``found`` only in mode EXACT. O(log n).
    """
    node, depth, rank, steps = root, 0, 0, 0
    while node != 0:
        found, e, more = search(arena, shape, node, spec, columns, mode, keys, strides, i, values, octets)
        steps += more
        if arena[node + LEVEL] > 0:
            prefetch(arena, arena[child_at(arena, shape, node, e)])
        path[2 * depth], path[2 * depth + 1] = node, e
        depth += 1
        rank += copies_before(arena, node, e)
        if arena[node + LEVEL] == 0:
            return found, rank, steps
        node = arena[child_at(arena, shape, node, e)]
    return False, 0, steps


@device
def total(arena, root):
    """Returns the copies of all rows of a tree. O(1)."""
    n = 0
    if root != 0:
        for e in range(root + HEAD, root + HEAD + arena[root + LENGTH]):
            n += arena[e]
    return n


@device
def _add_entry(arena, shape, node, e, copies, sums, s):
    """Adds copies, and sums (``sums[s ...]``), to an entry."""
    arena[node + HEAD + e] += copies
    add_sums(shape, arena, sums_at(arena, shape, node, e), sums, s)


@device
def _move(arena, shape, node, e, other, o, n):
    """Moves ``n`` entries from index ``e`` of a node to index ``o`` of another node of its level, or of itself."""
    width, k = shape[0], shape[1]
    parts = 3 + (1 if arena[node + LEVEL] > 0 else 0)
    for part in range(parts):
        size, source, target = 1, node + HEAD + e, other + HEAD + o
        if part == 1:
            size, source, target = width, row_at(arena, shape, node, e), row_at(arena, shape, other, o)
        elif part == 2:
            size, source, target = k, sums_at(arena, shape, node, e), sums_at(arena, shape, other, o)
        elif part == 3:
            source, target = child_at(arena, shape, node, e), child_at(arena, shape, other, o)
        if source >= target:
            for x in range(n * size):
                arena[target + x] = arena[source + x]
        else:
            for x in range(n * size - 1, -1, -1):
                arena[target + x] = arena[source + x]


@device
def _open(arena, shape, node, e):
    """Makes an empty entry at an index. The node must have room."""
    length = arena[node + LENGTH]
    _move(arena, shape, node, e, node, e + 1, length - e)
    arena[node + LENGTH] = length + 1
    arena[node + HEAD + e] = 0
    clear(arena, sums_at(arena, shape, node, e), shape[1])


@device
def _close(arena, shape, node, e):
    """Deletes an entry."""
    length = arena[node + LENGTH]
    _move(arena, shape, node, e + 1, node, e, length - e - 1)
    arena[node + LENGTH] = length - 1


@device
def _sum_up(arena, shape, parent, e, child):
    """Writes copies and sums of a child to its parent's entry."""
    copies = 0
    at = sums_at(arena, shape, parent, e)
    clear(arena, at, shape[1])
    add_entries(arena, shape, child, arena[child + LENGTH], arena, at)
    for c in range(child + HEAD, child + HEAD + arena[child + LENGTH]):
        copies += arena[c]
    arena[parent + HEAD + e] = copies


@device
def _split(arena, shape, parent, e, at_end):
    """Splits the child of an entry, which is full; the parent has room. ``at_end``: rows arrive in order, so the new
    node gets only one entry."""
    node = arena[child_at(arena, shape, parent, e)]
    length = arena[node + LENGTH]
    kept = length - 1 if at_end else length // 2
    other = _new(arena, shape, full(shape, arena[node + LEVEL]), arena[node + LEVEL])
    _move(arena, shape, node, kept, other, 0, length - kept)
    arena[node + LENGTH] = kept
    arena[other + LENGTH] = length - kept
    if arena[node + LEVEL] == 0:
        following = arena[node + NEXT]
        arena[other + NEXT], arena[other + BACK] = following, node
        arena[node + NEXT] = other
        if following != 0:
            arena[following + BACK] = other
    _open(arena, shape, parent, e + 1)
    arena[child_at(arena, shape, parent, e + 1)] = other
    source, target = row_at(arena, shape, other, 0), row_at(arena, shape, parent, e + 1)
    for x in range(shape[0]):
        arena[target + x] = arena[source + x]
    _sum_up(arena, shape, parent, e + 1, other)
    _sum_up(arena, shape, parent, e, node)


@device
def _resize(arena, root_at, shape, room):
    """Changes the room of a root that is a leaf."""
    root = arena[root_at]
    length = arena[root + LENGTH]
    other = _new(arena, shape, room, 0)
    _move(arena, shape, root, 0, other, 0, length)
    arena[other + LENGTH] = length
    _free(arena, shape, root)
    arena[root_at] = other


@device
def _make_room(arena, root_at, shape, path):
    """Makes room for an entry in the leaf of a path, by splits from the lowest node with room downwards. Amortized
    O(1)."""
    root = arena[root_at]
    if root == 0:
        arena[root_at] = _new(arena, shape, 1, 0)
        return
    depth, room = arena[root + LEVEL], arena[root + ROOM]
    most = full(shape, depth)
    if room < most:  # the root is a leaf
        _resize(arena, root_at, shape, min(most, room + room // 2 + 1))
        return
    lowest = depth
    while lowest >= 0 and arena[path[2 * lowest] + LENGTH] == arena[path[2 * lowest] + ROOM]:
        lowest -= 1
    leaf = path[2 * depth]
    at_end = arena[leaf + NEXT] == 0 and path[2 * depth + 1] == arena[leaf + LENGTH]
    if lowest < 0:
        parent = _new(arena, shape, full(shape, depth + 1), depth + 1)
        arena[parent + LENGTH] = 1
        arena[child_at(arena, shape, parent, 0)] = root
        source, target = row_at(arena, shape, root, 0), row_at(arena, shape, parent, 0)
        for x in range(shape[0]):
            arena[target + x] = arena[source + x]
        _sum_up(arena, shape, parent, 0, root)
        arena[root_at] = parent
        _split(arena, shape, parent, 0, at_end)
        return
    _split(arena, shape, path[2 * lowest], path[2 * lowest + 1], at_end)


@device
def enter(arena, root_at, shape, spec, columns, keys, strides, i, values, octets, found, copies, sums, s, path):
    """Adds copies of a row, with their sums. ``found`` and ``path``: the results of ``locate`` in mode EXACT.

    Returns the number of entries read. A split changes the path. O(log n).
    """
    steps, leaf, depth = 0, 0, 0
    root = arena[root_at]
    if root != 0:
        depth = arena[root + LEVEL]
        leaf = path[2 * depth]
    if not found:
        while leaf == 0 or arena[leaf + LENGTH] == arena[leaf + ROOM]:
            _make_room(arena, root_at, shape, path)
            root = arena[root_at]
            depth = arena[root + LEVEL]
            _, _, more = locate(arena, root, shape, spec, columns, EXACT, keys, strides, i, values, octets, path)
            steps += more
            leaf = path[2 * depth]
        _open(arena, shape, leaf, path[2 * depth + 1])
        at = row_at(arena, shape, leaf, path[2 * depth + 1])
        for c in range(shape[0]):
            arena[at + c] = keys[strides[c] + i]
    for level in range(depth + 1):
        _add_entry(arena, shape, path[2 * level], path[2 * level + 1], copies, sums, s)
    return steps


@device
def leave(arena, root_at, shape, copies, sums, s, path):
    """Removes copies of a row, with their sums; both are negative. ``path`` leads to the row. O(log n)."""
    root = arena[root_at]
    depth = arena[root + LEVEL]
    for level in range(depth + 1):
        _add_entry(arena, shape, path[2 * level], path[2 * level + 1], copies, sums, s)
    leaf, e = path[2 * depth], path[2 * depth + 1]
    if arena[leaf + HEAD + e] != 0:
        return
    _close(arena, shape, leaf, e)
    _update_maxima(arena, shape, depth, path)
    level = depth
    while level > 0 and _free_or_merge(arena, shape, path[2 * (level - 1)], path[2 * (level - 1) + 1]):
        level -= 1
    root = arena[root_at]
    while arena[root + LEVEL] > 0 and arena[root + LENGTH] == 1:
        child = arena[child_at(arena, shape, root, 0)]
        _free(arena, shape, root)
        arena[root_at] = root = child
    if arena[root + LENGTH] == 0:
        _free(arena, shape, root)
        arena[root_at] = 0
    elif arena[root + LEVEL] == 0 and arena[root + LENGTH] <= arena[root + ROOM] // 4:
        _resize(arena, root_at, shape, 2 * arena[root + LENGTH])


@device
def _update_maxima(arena, shape, depth, path):
    """Recomputes the maxima in the entries on the path to a leaf from which a row was deleted. O(log n)."""
    for p in range(2, 2 + 2 * shape[2], 2):
        if shape[p + 2] == 0:
            for level in range(depth - 1, -1, -1):
                child, greatest = path[2 * (level + 1)], 0
                for c in range(arena[child + LENGTH]):
                    worth = arena[sums_at(arena, shape, child, c) + shape[p + 1]]
                    if reaches(worth, greatest):
                        greatest = worth
                arena[sums_at(arena, shape, path[2 * level], path[2 * level + 1]) + shape[p + 1]] = greatest


@device
def copies_there(arena, root, found, path):
    """Returns the copies of the row that ``locate`` has searched in mode EXACT."""
    if not found:
        return 0
    depth = arena[root + LEVEL]
    return arena[path[2 * depth] + HEAD + path[2 * depth + 1]]


@device
def put(arena, root_at, shape, spec, columns, keys, strides, i, values, octets, found, copies, sums, s, path):
    """Adds or removes copies of a row (see ``enter`` and ``leave``). Returns the number of entries read. O(log n)."""
    if copies > 0:
        return enter(
            arena, root_at, shape, spec, columns, keys, strides, i, values, octets, found, copies, sums, s, path
        )  # fmt: skip
    if copies < 0:
        leave(arena, root_at, shape, copies, sums, s, path)
    return 0


@device
def _free_or_merge(arena, shape, parent, e):
    """Returns True iff the child of an entry was empty, and was freed, or was merged with a neighbour."""
    node = arena[child_at(arena, shape, parent, e)]
    length = arena[node + LENGTH]
    if length == 0:
        _unlink(arena, node)
        _free(arena, shape, node)
        _close(arena, shape, parent, e)
        return True
    if length >= arena[node + ROOM] // 2:  # its neighbours, which are not in the cache, have rows
        return False
    if e + 1 < arena[parent + LENGTH]:
        after = arena[child_at(arena, shape, parent, e + 1)]
        if length + arena[after + LENGTH] <= arena[node + ROOM] // 2:
            _merge(arena, shape, parent, e)
            return True
    if e > 0:
        before = arena[child_at(arena, shape, parent, e - 1)]
        if length + arena[before + LENGTH] <= arena[node + ROOM] // 2:
            _merge(arena, shape, parent, e - 1)
            return True
    return False


@device
def _unlink(arena, node):
    """Removes a leaf from the list of leaves."""
    if arena[node + LEVEL] == 0:
        before, after = arena[node + BACK], arena[node + NEXT]
        if before != 0:
            arena[before + NEXT] = after
        if after != 0:
            arena[after + BACK] = before


@device
def _merge(arena, shape, parent, e):
    """Moves all entries of the child after an entry's child into the entry's child."""
    node, other = arena[child_at(arena, shape, parent, e)], arena[child_at(arena, shape, parent, e + 1)]
    length, more = arena[node + LENGTH], arena[other + LENGTH]
    if arena[node + LEVEL] > 0:  # the first row of a node has no meaning; the parent has a valid one
        source, target = row_at(arena, shape, parent, e + 1), row_at(arena, shape, other, 0)
        for x in range(shape[0]):
            arena[target + x] = arena[source + x]
    _move(arena, shape, other, 0, node, length, more)
    arena[node + LENGTH] = length + more
    arena[parent + HEAD + e] += arena[parent + HEAD + e + 1]
    add_sums(shape, arena, sums_at(arena, shape, parent, e), arena, sums_at(arena, shape, parent, e + 1))
    _unlink(arena, other)
    _free(arena, shape, other)
    _close(arena, shape, parent, e + 1)
