"""Finds the pieces of partitions between cuts (see ``crown.stages.running.cuts``), in one sweep over changes."""

from __future__ import annotations

from crown.kernels.jit import device, kernel
from crown.kernels.memory.pointers import words
from crown.kernels.numbers.limbs import clear
from crown.stages.kernels.over import surveys as places
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


@kernel("words, int, table, words, table, words, table, table, table")
def cut(order, peers, survey, weights, sums, shape, pieces, by_row, by_peers):
    """Writes the pieces between cuts (``HANDLE`` ...). Returns their number.

    ``order``: the changes by partition and position, so the positions of their rows ascend, and so do those of their
    peers, which are cuts if ``peers`` is 1. ``survey``: see ``surveys``. ``sums``: the addends of each change.
    ``by_row`` and ``by_peers`` (int64[pieces + 1, words]) receive the change of sums up to a row of a piece, and up to
    its last peer.
    """
    n, room, size, so_far = weights.size, pieces.shape[1], shape[1], (by_row.shape[0] - 1) * shape[1]
    order, survey, weights, sums = words(order), words(survey), words(weights), words(sums)
    shape, pieces, by_row, by_peers = words(shape), words(pieces), words(by_row), words(by_peers)
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
