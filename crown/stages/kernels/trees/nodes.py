"""Nodes of ordered trees: their layout, and the totals of their entries.

``shape`` (int64[3 + 2 * numbers]) describes a row: ``width`` codes; ``k`` words of sums; the count of these numbers;
and per number its first word and its limbs. A number of 0 limbs is a word that is not summed: a child has the maximum
of its rows' words, read as unsigned, and 0 means nothing. A node has room for as many entries as fill its block, at
least 32; a root that is a leaf has only the room that it needs::

    LEVEL    0 for a leaf
    LENGTH   entries
    ROOM     entries that there is room for
    NEXT     of a leaf: the next one in order, or 0
    BACK     of a leaf: the one before, or 0
    then, for all entries one after the other, each part separately:
    copies   of the row; of all rows below a child
    rows     the row; of a child a row that is not after its first one, and after all rows of the child before
    sums     of all copies of the row; of all rows below a child
    children nodes; a leaf has none
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.arena import class_words, size_class
from crown.kernels.numbers.limbs import add, sum_of_pairs
from crown.kernels.strings import NULL

LEVEL, LENGTH, ROOM, NEXT, BACK, HEAD = 0, 1, 2, 3, 4, 5
FAN_OUT = 32  # minimum number of entries that a node has room for


@device
def node_words(shape, room, level):
    """Returns the words of a node."""
    return HEAD + room * (1 + shape[0] + shape[1] + (1 if level > 0 else 0))


@device
def full(shape, level):
    """Returns the entries that a node has room for, unless it is a root and a leaf."""
    size = node_words(shape, 1, level) - HEAD
    return (class_words(size_class(HEAD + FAN_OUT * size)) - HEAD) // size


@device
def row_at(arena, shape, node, e):
    """Returns the position of the row of an entry."""
    return node + HEAD + arena[node + ROOM] + e * shape[0]


@device
def sums_at(arena, shape, node, e):
    """Returns the position of the sums of an entry."""
    return node + HEAD + arena[node + ROOM] * (1 + shape[0]) + e * shape[1]


@device
def child_at(arena, shape, node, e):
    """Returns the position of the child of an entry."""
    return node + HEAD + arena[node + ROOM] * (1 + shape[0] + shape[1]) + e


@device
def reaches(worth, least):
    """Returns True iff a word is at least another one, both read as unsigned."""
    return worth ^ NULL >= least ^ NULL


@device
def add_sums(shape, out, o, given, i):
    """Adds the sums ``given[i ...]`` to those at ``out[o ...]``."""
    for p in range(2, 2 + 2 * shape[2], 2):
        at, limbs = shape[p + 1], shape[p + 2]
        if limbs == 1:
            out[o + at] += given[i + at]
        elif limbs == 0:
            if reaches(given[i + at], out[o + at]):
                out[o + at] = given[i + at]
        else:
            add(out, o + at, given, i + at, limbs)


@device
def add_entries(arena, shape, node, n, out, o):
    """Adds the sums of a node's first ``n`` entries to those at ``out[o ...]``, number by number. A number of one or
    two limbs stays in registers."""
    k, first = shape[1], sums_at(arena, shape, node, 0)
    for p in range(2, 2 + 2 * shape[2], 2):
        at, limbs = shape[p + 1], shape[p + 2]
        begin = first + at
        end = begin + n * k
        if limbs == 1:
            total = out[o + at]
            for x in range(begin, end, k):
                total += arena[x]
            out[o + at] = total
        elif limbs == 2:
            low, high = out[o + at], out[o + at + 1]
            for x in range(begin, end, k):
                low, high = sum_of_pairs(low, high, arena[x], arena[x + 1])
            out[o + at], out[o + at + 1] = low, high
        elif limbs == 0:
            for x in range(begin, end, k):
                if reaches(arena[x], out[o + at]):
                    out[o + at] = arena[x]
        else:
            for x in range(begin, end, k):
                add(out, o + at, arena, x, limbs)
