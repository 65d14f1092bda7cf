"""Nets a batch before it is applied: sums the weights of equal tuples, and puts deletes first."""

from __future__ import annotations

from crown.kernels.jit import kernel
from crown.kernels.memory.pointers import words
from crown.kernels.memory.tables import mix


@kernel("table, int, floats")
def squares_of(rows, copies, squares):
    """Adds the squared positive weights of rows (k, x, y, m) to `squares` float64[3], by relation.

    Returns False if a row has a relation outside 0 .. `copies` - 1. No other kernel may read such rows.
    """
    n = rows.shape[0]
    rows, squares = words(rows), words(squares)
    for i in range(n):
        k = rows[4 * i]
        if k < 0 or k >= copies:
            return False
        if rows[4 * i + 3] > 0:
            squares[k] += float(rows[4 * i + 3]) ** 2
    return True


@kernel("table, words, halves, table, int")
def net_rows(rows, weights, slots, out, secret):
    """Sums the weights of rows (k, x, y, m) int64[n, 4] with the same tuple, and writes the nonzero ones to `out`.

    Deletions come first, otherwise the order is kept. Returns (number of deletions, rows of `out`). `weights` int64[n]
    and `slots` int32[a power of two >= 2 n] are scratch; `slots` MUST be -1 everywhere. `secret`: see
    `crown.kernels.batches.net_tuples`. Expected O(n).
    """
    turn = secret | 1
    n = rows.shape[0]
    mask = slots.size - 1
    rows, weights, slots, out = words(rows), words(weights), words(slots), words(out)
    for i in range(n):
        weights[i] = rows[4 * i + 3]
        h = secret
        for j in range(3):
            h = mix(h, rows[4 * i + j]) * turn
        s = (h >> 32) & mask
        while slots[s] >= 0:
            other = slots[s]
            if (
                rows[4 * other + 1] == rows[4 * i + 1]
                and rows[4 * other + 2] == rows[4 * i + 2]
                and rows[4 * other] == rows[4 * i]
            ):
                weights[other] += weights[i]
                weights[i] = 0
                break
            s = (s + 1) & mask
        if slots[s] < 0:
            slots[s] = i
    takes = 0
    used = 0
    for sign in (-1, 1):
        for i in range(n):
            if weights[i] * sign > 0:
                for j in range(3):
                    out[4 * used + j] = rows[4 * i + j]
                out[4 * used + 3] = weights[i]
                used += 1
        if sign < 0:
            takes = used
    return takes, used
