"""Counted tuples: per tuple of a table its count in each of several leaves.

A record has the tuple (``width`` codes) and one count per leaf. It is stored while some count is not 0. Tuples are
given by columns: word ``j`` of tuple ``i`` is ``keys[strides[j] + i]``.
"""

from __future__ import annotations

from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import H_BUDGET, H_LIVE, NONE, T_CAPACITY, T_SLOTS, ZERO, release
from crown.kernels.memory.pointers import constants, words
from crown.kernels.memory.tables import LOW32, find, hash_key, made_in, record_in, remove_from, seek
from crown.stages.kernels.prefetch import AHEAD, look_ahead


@kernel("words, int, words, int, int, table, words, words, int, table, words, int")
def tally(arena, t, strides, width, leaves, keys, leaf, weights, clamp, before, tags, start):
    """Calls ``tallied`` with these arrays."""
    n = weights.size
    arena, strides, keys = words(arena), constants(strides), words(keys)
    leaf, weights, before, tags = words(leaf), words(weights), words(before), words(tags)
    return tallied(arena, t, strides, width, leaves, keys, leaf, weights, n, clamp, before, tags, start)


@device
def tallied(arena, t, strides, width, leaves, keys, leaf, weights, n, clamp, before, tags, start):
    """Adds ``weights`` (int64[n]) to the counts of tuples in leaf ``leaf[i]``, from event ``start`` on.

    ``before`` (int64[n, leaves]) receives the tuple's counts before the event. With ``clamp`` 1 no count falls below 0:
    missing copies are not deleted. ``tags``: room for ``AHEAD`` words. Returns the first event that is not done: n,
    unless the budget is used up. Expected O(leaves) per event.
    """
    seen = start
    for i in range(start, n):
        if i == seen:
            seen = look_ahead(arena, t, strides, width, keys, i, n, tags, ZERO)
        tag = tags[(i - start) & (AHEAD - 1)]
        slot = seek(arena, t, tag, strides, 0, width, keys, i, NONE)
        record = record_in(arena, t, slot)
        if record == 0:
            if weights[i] == 0 or (clamp == 1 and weights[i] < 0):
                for c in range(leaves):
                    before[i * leaves + c] = 0
                continue
            if arena[H_LIVE] > arena[H_BUDGET]:
                return i
            record = made_in(arena, t, tag, slot, strides, 0, width, keys, i, width + leaves)
        some = 0
        for c in range(leaves):
            count = arena[record + width + c]
            before[i * leaves + c] = count
            if c == leaf[i]:
                count += weights[i]
                if clamp == 1 and count < 0:
                    count = 0
                arena[record + width + c] = count
            some |= count
        if some == 0:
            remove_from(arena, t, slot)
            release(arena, record, width + leaves)
    return n


@kernel("words, int, words, int, int, table, table, words, int")
def put(arena, t, strides, width, leaves, keys, counts, tags, start):
    """Sets the counts of different tuples to ``counts`` (int64[n, leaves]), from tuple ``start`` on.

    A tuple whose last count becomes 0 is deleted. ``tags``: room for ``AHEAD`` words. Returns the first tuple that is
    not done: n, unless the budget is used up. Expected O(leaves) per tuple.
    """
    n = counts.shape[0]
    arena, strides, keys, counts, tags = words(arena), constants(strides), words(keys), words(counts), words(tags)
    seen = start
    for i in range(start, n):
        if i == seen:
            seen = look_ahead(arena, t, strides, width, keys, i, n, tags, ZERO)
        tag = tags[(i - start) & (AHEAD - 1)]
        slot = seek(arena, t, tag, strides, 0, width, keys, i, NONE)
        record = record_in(arena, t, slot)
        if counts[i * leaves + leaves - 1] == 0:
            if record != 0:
                remove_from(arena, t, slot)
                release(arena, record, width + leaves)
            continue
        if record == 0:
            if arena[H_LIVE] > arena[H_BUDGET]:
                return i
            record = made_in(arena, t, tag, slot, strides, 0, width, keys, i, width + leaves)
        for c in range(leaves):
            arena[record + width + c] = counts[i * leaves + c]
    return n


@kernel("words, int, words, int, int, table, table")
def counts_of(arena, t, strides, width, leaves, keys, out):
    """Writes the counts of tuples to ``out`` (int64[n, leaves]). Changes nothing."""
    n = out.shape[0]
    arena, strides, keys, out = words(arena), constants(strides), words(keys), words(out)
    for i in range(n):
        tag = hash_key(arena, strides, 0, width, keys, i)
        record = find(arena, t, tag, strides, 0, width, keys, i)
        for c in range(leaves):
            out[i * leaves + c] = 0
            if record != 0:
                out[i * leaves + c] = arena[record + width + c]


@kernel("words, int, int, int, int, table, table")
def scan(arena, t, width, leaves, start, rows, counts):
    """Copies tuples from slot ``start`` on to ``rows`` (int64[capacity, width]), ``counts`` (int64[capacity, leaves]).

    Returns (next slot or -1, number of tuples). Constant amortized delay: a table is at least one eighth full, or
    minimal.
    """
    n = 0
    slots = arena[t + T_SLOTS]
    for s in range(start, arena[t + T_CAPACITY]):
        word = arena[slots + s]
        if word != 0:
            if n == rows.shape[0]:
                return s, n
            record = word & LOW32
            for j in range(width):
                rows[n, j] = arena[record + j]
            for c in range(leaves):
                counts[n, c] = arena[record + width + c]
            n += 1
    return -1, n
