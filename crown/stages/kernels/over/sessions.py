"""Sessions in ordered trees: rows that follow each other, each within a gap of the one before; and peers likewise.

``session`` (int64[3]) says what makes them: the column of the time, which the order goes by first and which is never
NULL; the gap; and the word of the sums that counts rows that open a session, once however many copies there are. The
word is -1 where no function asks for sessions. The column is -1 where the rows of a session are peers, which have the
same values in the first columns of the order: the gap is how many these are. A row opens a session by what is before
it: so a change of rows changes the word of the row behind them, too.
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.limbs import minus
from crown.stages.kernels.trees.nodes import BACK, LENGTH, LEVEL, child_at, row_at, sums_at
from crown.stages.kernels.trees.ordered import same
from crown.stages.kernels.trees.scan import here, leftmost

COLUMN, GAP, WORD = 0, 1, 2


@device
def before(arena, leaf, e):
    """Returns the entry before one, as a leaf and a place; leaf 0 before the first."""
    if leaf == 0 or e > 0:
        return leaf, e - 1
    leaf = arena[leaf + BACK]
    return leaf, (arena[leaf + LENGTH] - 1 if leaf != 0 else 0)


@device
def time_of(arena, shape, session, leaf, e):
    """Returns the time of an entry."""
    return arena[row_at(arena, shape, leaf, e) + session[COLUMN]]


@device
def apart(session, earlier, later):
    """Returns True iff between two times lies more than the gap; their difference may be more than a word."""
    difference = minus(later, earlier)
    return difference < 0 or difference > session[GAP]


@device
def _parted(arena, shape, spec, session, leaf, e, behind, entry):
    """Returns True iff two entries, one directly behind the other, are of different sessions."""
    row, other = row_at(arena, shape, leaf, e), row_at(arena, shape, behind, entry)
    if session[COLUMN] < 0:
        return not same(arena, spec, session[GAP], row, other)
    return apart(session, arena[row + session[COLUMN]], arena[other + session[COLUMN]])


@device
def _parts(arena, shape, spec, session, keys, strides, i, leaf, e, behind):
    """Returns True iff row ``i`` is of another session than the entry directly ``behind`` it, or directly before it."""
    row = row_at(arena, shape, leaf, e)
    if session[COLUMN] < 0:
        other = False
        for s in range(0, 4 * session[GAP], 4):
            other |= keys[strides[spec[s]] + i] != arena[row + spec[s]]
        return other
    time, beside = keys[strides[session[COLUMN]] + i], arena[row + session[COLUMN]]
    return apart(session, time, beside) if behind else apart(session, beside, time)


@device
def opens(arena, shape, session, leaf, e):
    """Returns 1 if an entry opens a session, or 0."""
    return arena[sums_at(arena, shape, leaf, e) + session[WORD]]


@device
def _tell(arena, root, shape, session, path, e, opening):
    """Makes the entry at place ``e`` of a path's leaf, which may be the first one of the next leaf, open a session or
    not. O(log n)."""
    depth = arena[root + LEVEL]
    leaf, place = here(arena, path[2 * depth], e)
    if leaf == 0:
        return
    d = opening - opens(arena, shape, session, leaf, place)
    if d == 0:
        return
    arena[sums_at(arena, shape, leaf, place) + session[WORD]] += d
    level = depth - 1
    if leaf != path[2 * depth]:  # the way to the next leaf leaves the path
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
def opened(arena, root, shape, spec, session, keys, strides, i, there, change, path):
    """Returns by how much the change of the copies of row ``i`` changes its word, and changes that of the row behind.

    ``path`` leads to the row, which is there so many times before. O(log n).
    """
    if there > 0 and there + change > 0:
        return 0
    if root == 0:
        return 1
    depth = arena[root + LEVEL]
    leaf, e = path[2 * depth], path[2 * depth + 1]
    first, place = before(arena, leaf, e)
    if there == 0:
        behind, entry = here(arena, leaf, e)
        if behind != 0:
            opening = _parts(arena, shape, spec, session, keys, strides, i, behind, entry, True)
            _tell(arena, root, shape, session, path, e, 1 if opening else 0)
        if first != 0 and not _parts(arena, shape, spec, session, keys, strides, i, first, place, False):
            return 0
        return 1
    behind, entry = here(arena, leaf, e + 1)
    if behind != 0:
        opening = first == 0 or _parted(arena, shape, spec, session, first, place, behind, entry)
        _tell(arena, root, shape, session, path, e + 1, 1 if opening else 0)
    return -opens(arena, shape, session, leaf, e)


@device
def told(arena, root, shape, spec, session):
    """Returns True iff every row of a tree says rightly whether it opens a session. O(n)."""
    leaf = leftmost(arena, shape, root)
    first, place = 0, 0
    while leaf != 0:
        for e in range(arena[leaf + LENGTH]):
            opening = first == 0 or _parted(arena, shape, spec, session, first, place, leaf, e)
            if opens(arena, shape, session, leaf, e) != (1 if opening else 0):
                return False
            first, place = leaf, e
        leaf, _ = here(arena, leaf, arena[leaf + LENGTH])
    return True
