"""Sorts indices by two words, in memory of the caller."""

from __future__ import annotations

from crown.kernels.jit import device

_RUN = 8  # indices that are sorted by insertion, before runs are merged


@device
def _precedes(first, second, i, j):
    """Returns True iff index ``i`` comes before index ``j``."""
    return first[i] < first[j] or (first[i] == first[j] and second[i] < second[j])


@device
def sort_indices(first, second, n, order, scratch):
    """Writes the indices of ``n`` pairs to ``order``, ascending by ``first[i]``, then by ``second[i]``. Equal ones keep
    their order. ``scratch``: room for ``n`` indices. O(n log n)."""
    for begin in range(0, n, _RUN):
        for i in range(begin, min(begin + _RUN, n)):
            at = i
            while at > begin and _precedes(first, second, i, order[at - 1]):
                order[at] = order[at - 1]
                at -= 1
            order[at] = i
    size, source, target, elsewhere = _RUN, order, scratch, False
    while size < n:
        for begin in range(0, n, 2 * size):
            left, middle = begin, min(begin + size, n)
            right, end = middle, min(begin + 2 * size, n)
            for at in range(begin, end):
                if left < middle and (right == end or not _precedes(first, second, source[right], source[left])):
                    target[at] = source[left]
                    left += 1
                else:
                    target[at] = source[right]
                    right += 1
        source, target, elsewhere, size = target, source, not elsewhere, 2 * size
    if elsewhere:
        for i in range(n):
            order[i] = source[i]
