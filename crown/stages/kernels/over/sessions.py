"""Sessions in ordered trees: consecutive rows, each within a gap of the one before; and peers in the same way.

``session`` (int64[3]) defines them: the column of the time, which is the first column of the order and never NULL; the
gap; and the word of the sums that counts rows which open a session, once for any number of copies. The word is -1 if no
function needs sessions. The column is -1 if the rows of a session are peers, which have the same values in the first
columns of the order; the gap is then the number of these columns. Whether a row opens a session depends on the row
before it, so a change of a row also changes the word of the next row.
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.numbers.limbs import minus
from crown.stages.kernels.trees.nodes import BACK, LENGTH, LEVEL, child_at, row_at, sums_at
from crown.stages.kernels.trees.ordered import same
from crown.stages.kernels.trees.scan import here, leftmost

COLUMN, GAP, WORD = 0, 1, 2  # words of ``session``


@device
def before(arena, leaf, e):
    """Returns the entry before an entry, as a leaf and an index; leaf 0 before the first."""
    if leaf == 0 or e > 0:
        return leaf, e - 1
    leaf = arena[leaf + BACK]
    return leaf, (arena[leaf + LENGTH] - 1 if leaf != 0 else 0)


@device
def time_of(arena, shape, session, leaf, e):
    """Returns the time of an entry."""
    return arena[row_at(arena, shape, leaf, e) + session[COLUMN]]


@device
def exceeds_gap(session, earlier, later):
    """Returns True iff two times differ by more than the gap. Their difference may exceed a word."""
    difference = minus(later, earlier)
    return difference < 0 or difference > session[GAP]


@device
def _in_different_sessions(arena, shape, spec, session, leaf, e, behind, entry):
    """Returns True iff two adjacent entries are in different sessions."""
    row, other = row_at(arena, shape, leaf, e), row_at(arena, shape, behind, entry)
    if session[COLUMN] < 0:
        return not same(arena, spec, session[GAP], row, other)
    return exceeds_gap(session, arena[row + session[COLUMN]], arena[other + session[COLUMN]])


@device
def _separates(arena, shape, spec, session, keys, strides, i, leaf, e, behind):
    """Returns True iff row ``i`` is in another session than the entry directly ``behind`` it, or directly before it."""
    row = row_at(arena, shape, leaf, e)
    if session[COLUMN] < 0:
        other = False
        for s in range(0, 4 * session[GAP], 4):
            other |= keys[strides[spec[s]] + i] != arena[row + spec[s]]
        return other
    time, neighbour = keys[strides[session[COLUMN]] + i], arena[row + session[COLUMN]]
    return exceeds_gap(session, time, neighbour) if behind else exceeds_gap(session, neighbour, time)


@device
def opens(arena, shape, session, leaf, e):
    """Returns 1 if an entry opens a session, or 0."""
    return arena[sums_at(arena, shape, leaf, e) + session[WORD]]


@device
def _mark(arena, root, shape, session, path, e, opening):
    """Makes entry ``e`` of a path's leaf, which may be the first one of the next leaf, open a session or not. O(log
    n)."""
    depth = arena[root + LEVEL]
    leaf, place = here(arena, path[2 * depth], e)
    if leaf == 0:
        return
    d = opening - opens(arena, shape, session, leaf, place)
    if d == 0:
        return
    arena[sums_at(arena, shape, leaf, place) + session[WORD]] += d
    level = depth - 1
    if leaf != path[2 * depth]:  # the path to the next leaf branches off
        while path[2 * level + 1] + 1 == arena[path[2 * level] + LENGTH]:
            level -= 1
        node = path[2 * level]
        entry = path[2 * level + 1] + 1
        arena[sums_at(arena, shape, node, entry) + session[WORD]] += d
        node = arena[child_at(arena, shape, node, entry)]
        while arena[node + LEVEL] > 0:
            arena[sums_at(arena, shape, node, 0) + session[WORD]] += d
            node = arena[child_at(arena, shape, node, 0)]
        level -= 1
    while level >= 0:
        arena[sums_at(arena, shape, path[2 * level], path[2 * level + 1]) + session[WORD]] += d
        level -= 1


@device
def change_openings(arena, root, shape, spec, session, keys, strides, i, copies, change, path):
    """Returns the change of the word of row ``i`` if its copies change, and updates the word of the next row.

    ``path`` leads to the row, which has ``copies`` copies before the change. O(log n).
    """
    if copies > 0 and copies + change > 0:
        return 0
    if root == 0:
        return 1
    depth = arena[root + LEVEL]
    leaf, e = path[2 * depth], path[2 * depth + 1]
    first, place = before(arena, leaf, e)
    if copies == 0:
        next_leaf, entry = here(arena, leaf, e)
        if next_leaf != 0:
            opening = _separates(arena, shape, spec, session, keys, strides, i, next_leaf, entry, True)
            _mark(arena, root, shape, session, path, e, 1 if opening else 0)
        if first != 0 and not _separates(arena, shape, spec, session, keys, strides, i, first, place, False):
            return 0
        return 1
    next_leaf, entry = here(arena, leaf, e + 1)
    if next_leaf != 0:
        opening = first == 0 or _in_different_sessions(arena, shape, spec, session, first, place, next_leaf, entry)
        _mark(arena, root, shape, session, path, e + 1, 1 if opening else 0)
    return -opens(arena, shape, session, leaf, e)


@device
def openings_are_correct(arena, root, shape, spec, session):
    """Returns True iff every row of a tree is marked correctly as opening a session or not. O(n)."""
    leaf = leftmost(arena, shape, root)
    first, place = 0, 0
    while leaf != 0:
        for e in range(arena[leaf + LENGTH]):
            opening = first == 0 or _in_different_sessions(arena, shape, spec, session, first, place, leaf, e)
            if opens(arena, shape, session, leaf, e) != (1 if opening else 0):
                return False
            first, place = leaf, e
        leaf, _ = here(arena, leaf, arena[leaf + LENGTH])
    return True
