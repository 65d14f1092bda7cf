"""Finds the rows whose frames contain a change.

A running MIN or MAX changes only up to the first row that is as good as a changed row (``crown.stages.over.flips``):
``FLIPS_AT`` of its frame is the offset of its extremum, or 0. The changes of a partition are read from the last to the
first, so that the row at which a change stops, if it is deleted, too, has its own stop already.
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.arena import ZERO
from crown.kernels.memory.pointers import beyond
from crown.stages.kernels.frames.plan import (
    EACH_AT,
    END_UNIT,
    EXTREMA_AT,
    EXTREMA_COUNT,
    EXTREMUM_WORDS,
    FLIPS_AT,
    FRAME_COUNT,
    FRAME_WORDS,
    FRAMES_AT,
    KEY,
    PEER_COLUMNS,
    PEERS,
    ROWS,
    START_UNIT,
    SUM_WORDS,
    UNBOUNDED,
    VALUES,
    X_COLUMN,
    X_LEAST,
    X_ORDER,
    X_WHERE,
    X_WORD,
    extremum_key,
    moved_code,
)
from crown.stages.kernels.over.partitions import COPIES, HANDLE, HIGH, LOW, RANK, STOP
from crown.stages.kernels.trees.greatest import nearest
from crown.stages.kernels.trees.nodes import row_at
from crown.stages.kernels.trees.ordered import BEHIND, FIRST, locate, total
from crown.stages.kernels.trees.scan import at_position

_EVERY = 1 << 40  # more rows than there are


@device
def _key_of_change(frames, f, keys, n, i):
    """Returns the key of a changed row for the extremum at ``frames[f]``."""
    if frames[f + X_WHERE] >= 0 and keys[frames[f + X_WHERE] * n + i] != 1:
        return ZERO
    return extremum_key(keys[frames[f + X_COLUMN] * n + i], frames[f + X_ORDER], frames[f + X_LEAST])


@device
def set_extrema(frames, keys, weights, n, sums):
    """Writes the words of ``n`` inserted rows (codes, int64[columns, n]) whose maximum the tree stores."""
    for x in range(frames[EXTREMA_COUNT]):
        f = frames[EXTREMA_AT] + EXTREMUM_WORDS * x
        for i in range(n):
            key = _key_of_change(frames, f, keys, n, i) if weights[i] > 0 else ZERO
            sums[i * frames[SUM_WORDS] + frames[f + X_WORD]] = key


@device
def widen_frames(
    arena, k, shape, unsummed, spec, frames, strides, keys, changes, order, n, values, octets, path, memory, places
):  # fmt: skip
    """Widens LOW and HIGH of the ``places`` of changes (see ``partitions.place``) to the rows whose frames contain
    them. ``order``: the changes by partition and rank. ``memory``: see ``values.write_frames``. O(log n) each."""
    for number in range(frames[FRAME_COUNT]):
        f = frames[FRAMES_AT] + FRAME_WORDS * number
        for j in range(n - 1, -1, -1):
            i = order[j]
            handle = places[HANDLE * n + i]
            if handle == 0:
                continue
            root, low, high, stop = arena[handle + k], ZERO, ZERO + _EVERY, ZERO + _EVERY
            if frames[f + FLIPS_AT] != 0:
                effective = _stop_change(
                    arena, root, shape, frames, frames[f + FLIPS_AT], keys, changes, order, n, j, places
                )
                if not effective:
                    continue
                stop = places[STOP * n + i]
            if frames[f + END_UNIT] != UNBOUNDED:
                low = _edge(
                    arena, root, shape, spec, frames, f + END_UNIT, FIRST, strides, keys, n, i, values, octets, path,
                    memory, places,
                )  # fmt: skip
            if frames[f + START_UNIT] != UNBOUNDED:
                high = _edge(
                    arena, root, shape, spec, frames, f + START_UNIT, BEHIND, strides, keys, n, i, values, octets, path,
                    memory, places,
                )  # fmt: skip
            elif stop < total(arena, root):
                high = stop
                if frames[f + END_UNIT] == PEERS:
                    leaf, e, _ = at_position(arena, root, unsummed, stop, path, 0)
                    _, high, _ = locate(
                        arena, root, shape, spec, frames[PEER_COLUMNS], FIRST, arena, beyond(frames, frames[EACH_AT]),
                        row_at(arena, shape, leaf, e), values, octets, path,
                    )  # fmt: skip
            places[LOW * n + i] = min(places[LOW * n + i], low)
            places[HIGH * n + i] = max(places[HIGH * n + i], high)


@device
def _edge(
    arena, root, shape, spec, frames, b, mode, strides, keys, n, i, values, octets, path, memory, places
):  # fmt: skip
    """Returns the position of the first row whose frame ends at change ``i`` or behind it (``mode`` FIRST, the bound at
    ``frames[b]`` is the end), or behind the last row whose frame begins at it or before it (BEHIND, the start)."""
    unit, offset, rank = frames[b], frames[b + 1], places[RANK * n + i]
    if unit == ROWS:
        if mode == FIRST:
            return rank - max(offset, 0)
        return rank + places[COPIES * n + i] + max(-offset, 0)
    if unit == VALUES:
        key = beyond(memory, KEY)
        key[spec[0]] = moved_code(keys[strides[spec[0]] + i], -offset, spec)
        _, at, _ = locate(
            arena, root, shape, spec, 1, mode, key, beyond(frames, frames[EACH_AT]), 0, values, octets, path
        )
        return at
    _, at, _ = locate(arena, root, shape, spec, frames[PEER_COLUMNS], mode, keys, strides, i, values, octets, path)
    return at


@device
def _stop_change(arena, root, shape, frames, f, keys, changes, order, n, j, places):
    """Writes the STOP of change number ``j`` of an ``order``, for the extremum at ``frames[f]``. Returns True iff the
    change affects any row but its own. O(log n)."""
    i, word = order[j], frames[f + X_WORD]
    rank, copies, key = places[RANK * n + i], places[COPIES * n + i], _key_of_change(frames, f, keys, n, i)
    deleted = copies > 0 and copies + changes[i] <= 0
    places[STOP * n + i] = -1
    if key == 0 or not (deleted or (copies == 0 and changes[i] > 0)):
        return False
    stop, size = nearest(arena, root, shape, word, rank + copies, key, True), total(arena, root)
    low, high = j + 1, n
    while deleted and low < high:  # the first change at the stop, or behind it
        middle = (low + high) // 2
        other = order[middle]
        if places[HANDLE * n + other] == places[HANDLE * n + i] and places[RANK * n + other] < stop:
            low = middle + 1
        else:
            high = middle
    while deleted and low < n and stop < size:
        other = order[low]
        if places[HANDLE * n + other] != places[HANDLE * n + i] or places[RANK * n + other] != stop:
            break
        there = places[COPIES * n + other]
        if there > 0 and there + changes[other] <= 0 and _key_of_change(frames, f, keys, n, other) == key:
            stop = places[STOP * n + other]
            break
        low += 1
    places[STOP * n + i] = stop
    return nearest(arena, root, shape, word, size - rank, key, False) == size
