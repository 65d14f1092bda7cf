"""Loans: far parts of sums that are lent to results, and their copies outside of the arena.

A row of a result has a handle for each far part, which is lent. ``H_LOANS`` chains blocks of two words: the next block
and the far number. Code that copies rows out of the arena writes the limbs of their far parts to separate rows.

A **slice** of a far part is some of its limbs, as a near part, followed by ``1 + x``, where ``x`` is the number of
limbs of the far part below them. A row with slices has no other value. All slices but the last are nonnegative.
"""

from __future__ import annotations

from crown.kernels.jit import kernel
from crown.kernels.memory.arena import H_LOANS, release
from crown.kernels.memory.pointers import words
from crown.kernels.numbers.far import far_words, release_far

_LOW = 2**32 - 1


@kernel("words")
def call(arena):
    """Ends all loans and frees their far numbers. O(loans)."""
    arena = words(arena)
    while arena[H_LOANS] != 0:
        loan = arena[H_LOANS]
        arena[H_LOANS] = arena[loan]
        release_far(arena, arena[loan + 1])
        release(arena, loan, 2)


@kernel("words, table, int, words")
def count(arena, payload, n, parts):
    """Returns the number of slices of the far parts of ``n`` rows.

    ``payload`` int64[words, n]. ``parts``: of each part of doubles, its first word and its limbs.
    """
    m = parts.size
    arena, payload, parts = words(arena), words(payload), words(parts)
    slices = 0
    for p in range(0, m, 2):
        word, limbs = parts[p] + parts[p + 1], parts[p + 1] - 1
        for i in range(n):
            far = payload[word * n + i]
            if far != 0:
                slices += (far_words(arena, far) + limbs - 2) // limbs
    return slices


@kernel("words, table, int, words, words, table")
def cut(arena, payload, n, parts, sources, slices):
    """Cuts the far parts of ``n`` rows into slices, as many as ``count`` has returned, and replaces their handles by 0.

    Slice ``s`` belongs to row ``sources[s]``. ``slices`` (int64[words, slices]) must be zeroed.
    """
    m, total = parts.size, sources.size
    arena, payload, parts, sources, slices = words(arena), words(payload), words(parts), words(sources), words(slices)
    s = 0
    for p in range(0, m, 2):
        first, limbs = parts[p], parts[p + 1]
        for i in range(n):
            far = payload[(first + limbs) * n + i]
            if far == 0:
                continue
            payload[(first + limbs) * n + i] = 0
            size = far_words(arena, far) - 1
            for x in range(0, size, limbs - 1):
                length = min(limbs - 1, size - x)
                for j in range(length):
                    slices[(first + j) * total + s] = arena[far + 1 + x + j]
                if x + length == size:
                    sign = arena[far + size] >> 63
                    for j in range(length, limbs):
                        slices[(first + j) * total + s] = sign
                slices[(first + limbs) * total + s] = 1 + (arena[far] & _LOW) + x
                sources[s] = i
                s += 1
