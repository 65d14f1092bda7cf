"""Finds the pieces of partitions between cuts (see ``crown.stages.running.cuts``), in one sweep over changes."""

from __future__ import annotations

from crown.kernels.jit import device, kernel
from crown.kernels.memory.pointers import beyond, constants, words
from crown.kernels.numbers.limbs import clear
from crown.kernels.sorting import sort_indices
from crown.stages.kernels.over import surveys as places
from crown.stages.kernels.over.unfolding import (
    COUNTS,
    FUNCTION_WORDS,
    KIND,
    MOVED_WORDS,
    NUMBER,
    PEERS,
    RANK,
    SUM,
    SUMS,
)
from crown.stages.kernels.trees.nodes import add_sums

# Words of a piece.
(
    HANDLE,  # handle of the partition
    LOW,  # first position
    HIGH,  # position behind the last one
    CHANGE,  # number of a change of the partition
    ROWS,  # change of the number of copies before the rows of the piece
    RANKS,  # change of the number of copies before their peers
    PIECE_WORDS,
) = range(7)


PER_CHANGE = 4  # pieces between cuts, at most
CHANGED_WORDS = 3  # words of a piece of equal rows: HANDLE, LOW and HIGH


@kernel("int, table, words, table, words, words, table, words")
def cut(peers, survey, weights, sums, shape, order, pieces, added):
    """Writes the pieces between cuts (``HANDLE`` ...). Returns their number. O(n log n).

    ``survey``: see ``surveys``. Peers of changes are cuts, too, if ``peers`` is 1. ``sums``: the addends of each
    change. ``order``: scratch, int64[3 n]. ``added`` (int64[2, pieces + 1, words]) receives the change of sums up to
    a row of a piece, and up to its last peer.
    """
    n, room = weights.size, pieces.shape[1]
    survey, weights, sums, shape = words(survey), words(weights), words(sums), words(shape)
    order, pieces, added = words(order), words(pieces), words(added)
    sort_changes(survey, n, order)
    return cut_partitions(order, n, peers, survey, weights, sums, shape, pieces, room, added)


@kernel("int, words, table, words, table, words, words, table, words, words")
def move(peers, functions, survey, weights, sums, shape, order, pieces, added, moved):
    """Writes the pieces that move, and how far each of the ``functions`` does (see ``unfolding``). Returns their
    number. For the other arguments see ``cut``. O(n log n)."""
    n, room, some = weights.size, pieces.shape[1], functions.size // FUNCTION_WORDS
    functions, survey, weights, sums = constants(functions), words(survey), words(weights), words(sums)
    shape, order, pieces, added, moved = words(shape), words(order), words(pieces), words(added), words(moved)
    sort_changes(survey, n, order)
    return move_pieces(peers, functions, some, survey, n, weights, sums, shape, order, pieces, room, added, moved)


@device
def sort_changes(survey, n, order):
    """Writes the changes by partition and position: the positions of their rows ascend, and so do those of their peers.
    ``order``: int64[3 n], whose end is scratch."""
    positions = beyond(order, n)
    for i in range(n):
        positions[i] = survey[places.LOW * n + i] + survey[places.HIGH * n + i]
        positions[i] += survey[places.BEGIN * n + i] + survey[places.END * n + i]
    sort_indices(beyond(survey, places.HANDLE * n), positions, n, order, beyond(order, 2 * n))


@device
def move_pieces(peers, functions, some, survey, n, weights, sums, shape, order, pieces, room, added, moved):
    """Does the same as ``move`` for changes in ``order``, and ``some`` functions."""
    found, m, size = cut_partitions(order, n, peers, survey, weights, sums, shape, pieces, room, added), 0, shape[1]
    for j in range(found):
        moves = False
        for f in range(some):
            p, q = f * FUNCTION_WORDS, (m * some + f) * MOVED_WORDS
            by = size * (functions[p + PEERS] * (room + 1) + j)
            moved[q + 1], moved[q + 2] = 0, 0
            if functions[p + KIND] == NUMBER:
                moved[q] = pieces[ROWS * room + j]
            elif functions[p + KIND] == RANK:
                moved[q] = pieces[RANKS * room + j]
            else:
                moved[q] = added[by + functions[p + COUNTS]]
            if functions[p + KIND] == SUM:
                moved[q + 1], moved[q + 2] = added[by + functions[p + SUMS]], added[by + functions[p + SUMS] + 1]
            moves |= moved[q] != 0 or moved[q + 1] != 0 or moved[q + 2] != 0
        if moves:
            pieces[HANDLE * room + m], pieces[LOW * room + m] = pieces[HANDLE * room + j], pieces[LOW * room + j]
            pieces[HIGH * room + m] = pieces[HIGH * room + j]
            m += 1
    return m


@device
def changed_pieces(survey, n, order, pieces):
    """Writes the rows that equal changes and are present: handle, first position and the position behind, each in ``n``
    words of ``pieces``. Returns their number."""
    m = 0
    for j in range(n):
        i = order[j]
        if survey[places.LOW * n + i] < survey[places.HIGH * n + i]:
            pieces[HANDLE * n + m], pieces[LOW * n + m] = survey[places.HANDLE * n + i], survey[places.LOW * n + i]
            pieces[HIGH * n + m] = survey[places.HIGH * n + i]
            m += 1
    return m


@device
def cut_partitions(order, n, peers, survey, weights, sums, shape, pieces, room, added):
    """Does the same as ``cut`` for changes in ``order``. There is room for ``room`` pieces."""
    size, by_row = shape[1], added
    so_far, by_peers = room * size, beyond(added, (room + 1) * size)
    m, x = 0, 0
    while x < n:
        change = order[x]
        handle, behind = survey[places.HANDLE * n + change], x + 1
        while behind < n and survey[places.HANDLE * n + order[behind]] == handle:
            behind += 1
        row = end = begin = last = x
        x = behind
        if handle == 0:
            continue
        if peers == 0:
            begin = last = behind
        rows, ranks, whole = 0, 0, survey[places.SIZE * n + change]
        clear(by_row, so_far, size)
        clear(by_peers, so_far, size)
        at = _next(survey, n, order, row, end, begin, last, behind, whole)
        while at < whole:
            changed = False  # the rows of a change are not part of a piece
            while row < behind and survey[places.LOW * n + order[row]] == at:
                i = order[row]
                rows += weights[i]
                add_sums(shape, by_row, so_far, sums, i * size)
                changed |= survey[places.HIGH * n + i] > at
                row += 1
            while end < behind and survey[places.HIGH * n + order[end]] == at:
                end += 1
            while begin < behind and survey[places.BEGIN * n + order[begin]] == at:
                add_sums(shape, by_peers, so_far, sums, order[begin] * size)
                begin += 1
            while last < behind and survey[places.END * n + order[last]] == at:
                ranks += weights[order[last]]
                last += 1
            low, at = at, _next(survey, n, order, row, end, begin, last, behind, whole)
            if changed:
                continue
            pieces[HANDLE * room + m], pieces[LOW * room + m], pieces[HIGH * room + m] = handle, low, at
            pieces[CHANGE * room + m], pieces[ROWS * room + m], pieces[RANKS * room + m] = change, rows, ranks
            for word in range(size):
                by_row[m * size + word] = by_row[so_far + word]
                by_peers[m * size + word] = by_peers[so_far + word]
            m += 1
    return m


@device
def _next(survey, n, order, row, end, begin, last, behind, whole):
    """Returns the first remaining edge of a partition, or its size."""
    at = whole
    if row < behind:
        at = min(at, survey[places.LOW * n + order[row]])
    if end < behind:
        at = min(at, survey[places.HIGH * n + order[end]])
    if begin < behind:
        at = min(at, survey[places.BEGIN * n + order[begin]])
    if last < behind:
        at = min(at, survey[places.END * n + order[last]])
    return at
