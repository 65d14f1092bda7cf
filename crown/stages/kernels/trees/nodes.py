"""Nodes of ordered trees: their layout, and the totals of their entries.

``shape`` (int64[3 + 2 * numbers]) says what a row has: ``width`` codes; ``k`` words of sums; how many numbers these
are; and per number its first word and its limbs. A number of no limbs is a word that is not added up: a child has the
greatest of its rows', without a sign, and 0 is nothing. A node has room for as many entries as fill its block, 32 or
more; a root that is a leaf has room for what it needs::

    LEVEL     0 of a leaf
    LENGTH    entries
    ROOM      entries that there is room for
    NEXT      of a leaf: the next one in order, or 0
    BACK      of a leaf: the one before, or 0
    then, for all entries one after the other, each part by itself:
    copies    of the row; of all rows below a child
    rows      the row; of a child a row that is not behind its first one, and behind all rows of the child before
    sums      of all copies of the row; of all rows below a child
    children  nodes; a leaf has none
"""

from __future__ import annotations

from crown.kernels.arena import class_words, size_class
from crown.kernels.jit import device
from crown.kernels.limbs import add, sum_of_pairs
from crown.kernels.strings import NULL

LEVEL, LENGTH, ROOM, NEXT, BACK, HEAD = 0, 1, 2, 3, 4, 5
FAN_OUT = 32  # entries that a node has room for at least


@device
def node_words(shape, room, level):
    """Returns the words of a node."""
    return HEAD + room * (1 + shape[0] + shape[1] + (1 if level > 0 else 0))


@device
def full(shape, level):
    """Returns the entries that a node has room for, but a root that is a leaf."""
    size = node_words(shape, 1, level) - HEAD
    return (class_words(size_class(HEAD + FAN_OUT * size)) - HEAD) // size


@device
def row_at(arena, shape, node, e):
    """Returns where the row of an entry lies."""
    return node + HEAD + arena[node + ROOM] + e * shape[0]


@device
def sums_at(arena, shape, node, e):
    """Returns where the sums of an entry lie."""
    return node + HEAD + arena[node + ROOM] * (1 + shape[0]) + e * shape[1]


@device
def child_at(arena, shape, node, e):
    """Returns where the child of an entry stands."""
    return node + HEAD + arena[node + ROOM] * (1 + shape[0] + shape[1]) + e


@device
def reaches(worth, least):
    """Returns True iff a word, without a sign, is not less than another one."""
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
    """Adds the sums of a node's first ``n`` entries to those at ``out[o ...]``, number by number: one of a limb or two
    stays in registers."""
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
