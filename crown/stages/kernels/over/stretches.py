"""Computes deltas of picked values: finds the stretches of rows that a batch affects, and replaces them in one pass.

A *stretch* is a range of rows of a partition. Stretches do not overlap, so each is read, changed and read again before
the next one. A leaf is loaded into the cache once for all three.
"""

from __future__ import annotations

from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import LINE
from crown.kernels.memory.pointers import constants, prefetch, words
from crown.kernels.memory.tables import find, hash_key, slot_of
from crown.stages.kernels.over import partitions as places_of
from crown.stages.kernels.over.partitions import DONE, change_row
from crown.stages.kernels.over.picks import PICK_WORDS, pick_rows
from crown.stages.kernels.trees.ahead import near_keys
from crown.stages.kernels.trees.nodes import full, node_words
from crown.stages.kernels.trees.ordered import EXACT

# Words of a stretch.
(
    HANDLE,  # handle of the partition
    LOW,  # range of its rows before the batch
    HIGH,
    NEW_LOW,  # range of its rows after the batch
    NEW_HIGH,
    FIRST,  # range of its changes, by partition and rank
    END,
    SPAN_WORDS,
) = range(8)
REFUSED = 3  # result of ``replace_stretches``, besides those of ``partitions.change``: Python must compute some value
_AHEAD = 16  # number of stretches whose leaves are prefetched


@kernel("words, words, table, table")
def merge_stretches(order, changes, places, out):
    """Writes the stretches of rows that changes affect, by partition and position, with overlapping ones merged.
    Returns their number.

    ``order``: the changes by partition and rank. Every interval contains its change's rank (``places``: see
    ``partitions.place``). Changes of handle 0, which come first, are left out. O(changes).
    """
    n, room = order.size, out.shape[1]
    order, changes, places, out = words(order), words(changes), words(places), words(out)
    return merge(order, changes, places, n, out, room)


@device
def merge(order, changes, places, n, out, room):
    """Does the same as ``merge_stretches`` for ``n`` changes. ``room``: words between the rows of ``out``."""
    m, handle, shift = 0, 0, 0
    for j in range(n):
        i = order[j]
        if places[places_of.HANDLE * n + i] == 0:
            continue
        if places[places_of.HANDLE * n + i] != handle:
            handle, shift = places[places_of.HANDLE * n + i], 0
        size = places[places_of.SIZE * n + i]
        low = min(max(places[places_of.LOW * n + i], 0), size)
        high = min(max(places[places_of.HIGH * n + i], 0), size)
        since, first = shift, j
        shift += changes[i]
        while m > 0 and out[m - 1] == handle and out[HIGH * room + m - 1] >= low:
            m -= 1
            low, high = min(low, out[LOW * room + m]), max(high, out[HIGH * room + m])
            since, first = out[NEW_LOW * room + m], out[FIRST * room + m]
        out[m] = handle
        out[LOW * room + m], out[HIGH * room + m] = low, high
        out[NEW_LOW * room + m], out[NEW_HIGH * room + m] = since, shift
        out[FIRST * room + m], out[END * room + m] = first, j + 1
        m += 1
    for x in range(m):
        out[NEW_LOW * room + x] += out[LOW * room + x]
        out[NEW_HIGH * room + x] += out[HIGH * room + x]
    return m


@device
def _prefetch_stretch(arena, t, keyed, k, size, keys, spans, stride, m, c, leaves):
    """Prefetches the memory of stretch ``c``, if there is one: slot, partition, and ``size`` words of the leaf of its
    first change."""
    if c < m:
        i = spans[FIRST * stride + c]
        prefetch(arena, slot_of(arena, t, hash_key(arena, keyed, 0, k, keys, i)))
        prefetch(arena, spans[HANDLE * stride + c])
        for word in range(0, size, LINE):
            prefetch(arena, leaves[i] + word)


@kernel(
    "words, int, words, int, words, words, words, words, words, words, words, words, int, table, words, table, table,"
    "words, words, bytes, words, words, words, words, table"
)
def replace_stretches(
    arena, t, keyed, k, spec, strides, shape, unsummed, session, picks, outputs, frames, shown, keys, changes, sums,
    spans, leaves, values, octets, path, memory, progress, done, out,
):  # fmt: skip
    """Applies changes of rows (see ``partitions.change``), sorted by partition and rank, stretch by stretch. Writes the
    contents of each stretch before and after its changes: rows with the values of functions (see
    ``picks.write_picks``), and in the last row of ``out`` -1 for old rows and 1 for new ones.

    The first changes, which are in no stretch, belong to missing partitions; nothing is written for them. ``leaves``:
    the leaf of each change's row. ``progress`` (int64[2], initially 0): finished stretches, and written rows. ``done``
    and the result: as in ``change``, or REFUSED. O(log n) per change and per written row.
    """
    n, m, room, columns = changes.size, spans.shape[1], out.shape[1], spec.size // 4
    sign, count = out.shape[0] - 1, picks.size // PICK_WORDS
    arena, keyed, spec, strides, shape = (
        words(arena), constants(keyed), constants(spec), constants(strides), words(shape),
    )  # fmt: skip
    unsummed, session, keys, changes, sums = words(unsummed), words(session), words(keys), words(changes), words(sums)
    picks, outputs, frames = constants(picks), constants(outputs), constants(frames)
    spans, leaves = words(spans), words(leaves)
    values, octets, path, memory, out = words(values), words(octets), words(path), words(memory), words(out)
    progress, done = words(progress), words(done)
    return replace(
        arena, t, keyed, k, spec, columns, strides, shape, unsummed, session, picks, count, outputs, frames, shown,
        keys, changes, sums, n, spans, m, m, leaves, values, octets, path, memory, progress, done, out, room, sign,
    )  # fmt: skip


@device
def replace(
    arena, t, keyed, k, spec, columns, strides, shape, unsummed, session, picks, count, outputs, frames, shown, keys,
    changes, sums, n, spans, stride, m, leaves, values, octets, path, memory, progress, done, out, room, sign,
):  # fmt: skip
    """Does the same as ``replace_stretches`` for ``n`` changes in ``m`` stretches. ``columns``: those of the order;
    ``stride``: words between the rows of ``spans``; ``room``: words between those of ``out``; ``sign``: the number of
    its last row."""
    size = node_words(shape, full(shape, 0), 0)
    i = near = done[0]
    while i < (spans[FIRST * stride] if m > 0 else n):
        if i == near:
            near = near_keys(arena, t, keyed, k, spec, columns, EXACT, strides, shape, keys, i, n, values, octets, path)
        status = change_row(
            arena, t, keyed, k, spec, columns, strides, shape, session, keys, changes, sums, i, values, octets, path
        )  # fmt: skip
        if status != DONE:
            return status
        i += 1
        done[0] = i
    for c in range(_AHEAD):
        _prefetch_stretch(arena, t, keyed, k, size, keys, spans, stride, m, progress[0] + c, leaves)
    while progress[0] < m:
        c, x = progress[0], progress[1]
        _prefetch_stretch(arena, t, keyed, k, size, keys, spans, stride, m, c + _AHEAD, leaves)
        first, low = spans[FIRST * stride + c], spans[NEW_LOW * stride + c]
        old, new = spans[HIGH * stride + c] - spans[LOW * stride + c], spans[NEW_HIGH * stride + c] - low
        if i == first and old > 0:  # all changes before it are done
            group = find(arena, t, hash_key(arena, keyed, 0, k, keys, first), keyed, 0, k, keys, first)
            complete = pick_rows(
                arena, arena[group + k], spec, shape, unsummed, picks, count, outputs, frames, values, octets, low,
                old, shown, x, room, path, memory, out,
            )  # fmt: skip
            if not complete:
                return REFUSED
            for y in range(x, x + old):
                out[sign * room + y] = -1
        x += old
        while i < spans[END * stride + c]:
            status = change_row(
                arena, t, keyed, k, spec, columns, strides, shape, session, keys, changes, sums, i, values, octets,
                path,
            )  # fmt: skip
            if status != DONE:
                return status
            i += 1
            done[0] = i
        if new > 0:
            group = find(arena, t, hash_key(arena, keyed, 0, k, keys, first), keyed, 0, k, keys, first)
            complete = pick_rows(
                arena, arena[group + k], spec, shape, unsummed, picks, count, outputs, frames, values, octets, low,
                new, shown, x, room, path, memory, out,
            )  # fmt: skip
            if not complete:
                return REFUSED
            for y in range(x, x + new):
                out[sign * room + y] = 1
        progress[0], progress[1] = c + 1, x + new
    return DONE
