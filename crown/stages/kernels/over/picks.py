"""Finds the rows that LAG, LEAD and similar functions pick: neighbours, filtered neighbours, ends of sessions.

A pick is seven words: its kind, ``shift`` and ``count``, the ``word`` of the sums that counts the rows of its filter
(-1: no filter), the column of the filter, and its range of outputs, from ``first`` to ``end``. An output is three
words: the column that is read, the column with the value if no row is picked (-1: NULL), and the column that is
written. For the row at position p a pick is:

    BACK    of the rows up to position p - shift, the last but count - 1 that the filter has
    AHEAD   of the rows from position p + shift on, number count that the filter has
    START   the first row of its session
    END     the last row of its session

If a shift leads away from p, positions before the first row, or after the last one, are those of that row, because a
frame ends with its partition. A session is identified by its first row, which a word of the sums counts once, for any
number of copies (see ``crown.stages.kernels.over.sessions``).
"""

from __future__ import annotations

from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import H_STEPS
from crown.kernels.memory.pointers import constants, words
from crown.kernels.numbers.limbs import clear
from crown.kernels.strings import NULL
from crown.stages.kernels.frames.affected import widen_frames
from crown.stages.kernels.frames.plan import FRAME_COUNT
from crown.stages.kernels.frames.values import write_frames
from crown.stages.kernels.over.partitions import COPIES, ENTRY, HANDLE, HIGH, LEAF, LOW, RANK
from crown.stages.kernels.over.sessions import COLUMN, WORD, before, exceeds_gap, opens, time_of
from crown.stages.kernels.trees.nodes import HEAD, LENGTH, row_at, sums_at
from crown.stages.kernels.trees.ordered import total
from crown.stages.kernels.trees.scan import at_number, at_position, here, next_copy

BACK, AHEAD, START, END = 0, 1, 2, 3  # kinds of picks
PICK_WORDS, OUTPUT_WORDS = 7, 3
_EVERY = 1 << 40  # more rows than there are


# Searches from an entry
# ----------------------------------------------------------------------------------------------------------------------


@device
def find_forward(arena, root, shape, unsummed, leaf, e, at, word, count, scratch):
    """Finds the row with copy number ``count`` (from 1) of those that a word of the sums counts, from an entry on.

    The entry's first copy is at position ``at``. Returns the leaf and the entry, the position of its first copy, and
    the number of the copy within its row; leaf 0 if there is none. O(log n), less if it is near.
    """
    length = arena[leaf + LENGTH]
    begin = e
    while e < length:
        there = arena[sums_at(arena, shape, leaf, e) + word]
        if there >= count:
            arena[H_STEPS] += e - begin + 1
            return leaf, e, at, count
        count -= there
        at += arena[leaf + HEAD + e]
        e += 1
    arena[H_STEPS] += length - begin
    clear(scratch, 0, shape[1])
    at_position(arena, root, shape, at, scratch, 0)
    position = at_number(arena, root, shape, word, scratch[word] + count - 1)
    leaf, e, before = at_position(arena, root, unsummed, position, scratch, 0)
    if leaf == 0 or e == arena[leaf + LENGTH]:
        return 0, 0, 0, 0
    return leaf, e, position - before, before + 1


@device
def find_backward(arena, root, shape, unsummed, leaf, e, at, word, count, scratch):
    """Does the same as ``ahead``, from an entry backwards. The copies of a row are numbered from its last one."""
    begin = e
    while True:
        there = arena[sums_at(arena, shape, leaf, e) + word]
        if there >= count:
            arena[H_STEPS] += begin - e + 1
            return leaf, e, at, count
        count -= there
        if e == 0:
            break
        e -= 1
        at -= arena[leaf + HEAD + e]
    arena[H_STEPS] += begin + 1
    clear(scratch, 0, shape[1])
    at_position(arena, root, shape, at, scratch, 0)
    if scratch[word] < count:
        return 0, 0, 0, 0
    position = at_number(arena, root, shape, word, scratch[word] - count)
    leaf, e, before = at_position(arena, root, unsummed, position, scratch, 0)
    return leaf, e, position - before, arena[leaf + HEAD + e] - before


@device
def _at(arena, root, unsummed, leaf, e, copy, position, target, scratch):
    """Returns the leaf, the entry and the copy at position ``wanted``. The given ones are at ``position``, which may be
    near."""
    first = position - copy
    length = arena[leaf + LENGTH]
    while e > 0 and target < first:
        e -= 1
        first -= arena[leaf + HEAD + e]
    while e < length and target >= first + arena[leaf + HEAD + e]:
        first += arena[leaf + HEAD + e]
        e += 1
    if target >= first and e < length:
        return leaf, e, target - first
    return at_position(arena, root, unsummed, target, scratch, 0)


# Affected positions
# ----------------------------------------------------------------------------------------------------------------------


@kernel(
    "words, int, words, words, words, words, words, words, words, table, words, words, words, bytes, words, words, "
    "table"
)
def widen_places(
    arena, k, spec, strides, shape, unsummed, picks, frames, session, keys, changes, order, values, octets, scratch,
    memory, places,
):  # fmt: skip
    """Widens LOW and HIGH of the ``places`` of changes (see ``partitions.place``) to the positions whose picks, or
    whose frames (see ``crown.stages.kernels.frames``), they can change.

    ``order``: the changes by partition and rank. A row that a filter excludes only shifts other rows. A row that it
    includes is picked up to the next included rows. O(log n) each.
    """
    n, count = order.size, picks.size // PICK_WORDS
    arena, spec, strides, shape = words(arena), constants(spec), constants(strides), words(shape)
    unsummed, picks, frames = words(unsummed), constants(picks), constants(frames)
    session, keys, changes, order = words(session), words(keys), words(changes), words(order)
    values, octets, scratch, memory = words(values), words(octets), words(scratch), words(memory)
    places = words(places)
    widen(
        arena, k, spec, strides, shape, unsummed, picks, count, frames, session, keys, changes, order, n, values,
        octets, scratch, memory, places,
    )  # fmt: skip


@device
def widen(
    arena, k, spec, strides, shape, unsummed, picks, count, frames, session, keys, changes, order, n, values, octets,
    scratch, memory, places,
):  # fmt: skip
    """Does the same as ``widen_places`` for ``n`` changes and ``count`` picks."""
    widen_frames(
        arena, k, shape, unsummed, spec, frames, strides, keys, changes, order, n, values, octets, scratch, memory,
        places,
    )  # fmt: skip
    for f in range(count):
        p = f * PICK_WORDS
        if picks[p] == START or picks[p] == END:
            _widen_inserted(arena, k, shape, unsummed, session, picks[p], keys, n, scratch, places)
            _widen_deleted(arena, k, shape, unsummed, session, picks[p], changes, order, n, scratch, places)
            continue
        word, far = picks[p + 3], max(picks[p + 1], 0)  # far: if no row at the shifted position is present
        close = max(-picks[p + 1], 0)
        for i in range(n):
            rank = places[RANK * n + i]
            end = rank + places[COPIES * n + i]
            low, high = rank - (close if picks[p] == BACK else far), end + (far if picks[p] == BACK else close)
            if word < 0:
                if picks[p] == BACK:
                    high += picks[p + 2] - 1
                else:
                    low -= picks[p + 2] - 1
            elif places[HANDLE * n + i] != 0 and keys[picks[p + 4] * n + i] == 1:
                edge = _edge(arena, k, shape, unsummed, picks, p, i, n, scratch, places)
                low, high = min(low, edge), max(high, edge)
            places[LOW * n + i] = min(places[LOW * n + i], low)
            places[HIGH * n + i] = max(places[HIGH * n + i], high)


@device
def _edge(arena, k, shape, unsummed, picks, p, i, n, scratch, places):
    """Returns the position up to which a row of a filter can be picked."""
    root, rank, copies = arena[places[HANDLE * n + i] + k], places[RANK * n + i], places[COPIES * n + i]
    leaf, e, shift, word, count = places[LEAF * n + i], places[ENTRY * n + i], picks[p + 1], picks[p + 3], picks[p + 2]
    if picks[p] == BACK:
        leaf, e = here(arena, leaf, e + (1 if copies > 0 else 0))
        if leaf == 0:
            return _EVERY
        leaf, e, at, copy = find_forward(arena, root, shape, unsummed, leaf, e, rank + copies, word, count, scratch)
        return at + copy - 1 + shift if leaf != 0 else _EVERY
    leaf, e = before(arena, leaf, e)
    if leaf == 0:
        return 0
    leaf, e, at, copy = find_backward(
        arena, root, shape, unsummed, leaf, e, rank - arena[leaf + HEAD + e], word, count, scratch
    )  # fmt: skip
    return at + arena[leaf + HEAD + e] - copy + 1 - shift if leaf != 0 else 0


@device
def _widen_inserted(arena, k, shape, unsummed, session, kind, keys, n, scratch, places):
    """Widens the places of inserted rows. Between two sessions, within the gap, an inserted row moves the start of the
    session after it (START), or the end of the one before it (END). O(log n) each."""
    for i in range(n):
        if places[HANDLE * n + i] == 0 or places[COPIES * n + i] != 0:
            continue
        root, rank, time = arena[places[HANDLE * n + i] + k], places[RANK * n + i], keys[session[COLUMN] * n + i]
        leaf, e = before(arena, places[LEAF * n + i], places[ENTRY * n + i])
        next_leaf, entry = here(arena, places[LEAF * n + i], places[ENTRY * n + i])
        if next_leaf != 0 and opens(arena, shape, session, next_leaf, entry) == 0:
            continue
        if kind == START:
            if next_leaf != 0 and not exceeds_gap(session, time, time_of(arena, shape, session, next_leaf, entry)):
                end = _end(arena, root, shape, unsummed, session, next_leaf, entry, rank, scratch)
                places[HIGH * n + i] = max(places[HIGH * n + i], end)
        elif leaf != 0 and not exceeds_gap(session, time_of(arena, shape, session, leaf, e), time):
            at = rank - arena[leaf + HEAD + e]
            _, _, at, _ = find_backward(arena, root, shape, unsummed, leaf, e, at, session[WORD], 1, scratch)
            places[LOW * n + i] = min(places[LOW * n + i], at)


@device
def _widen_deleted(arena, k, shape, unsummed, session, kind, changes, order, n, scratch, places):
    """Widens the places of deleted rows, together for rows that are directly adjacent.

    The rows after them are in another session if they have lost its first row, or the last row within the gap. The rows
    before them have another end (END) for the same reasons. O(log n) each.
    """
    j = 0
    while j < n:
        i = order[j]
        j += 1
        if not _disappears(changes, places, n, i):
            continue
        leaf, e = places[LEAF * n + i], places[ENTRY * n + i]
        handle, rank = places[HANDLE * n + i], places[RANK * n + i]
        root, last, end = arena[handle + k], i, rank + places[COPIES * n + i]
        first = opens(arena, shape, session, leaf, e)
        opening = first
        while j < n and places[HANDLE * n + order[j]] == handle and places[RANK * n + order[j]] <= end:
            if _disappears(changes, places, n, order[j]):
                last = order[j]
                end += places[COPIES * n + last]
                opening += opens(arena, shape, session, places[LEAF * n + last], places[ENTRY * n + last])
            j += 1
        leaf, e = before(arena, leaf, e)
        next_leaf, entry = here(arena, places[LEAF * n + last], places[ENTRY * n + last] + 1)
        closing = next_leaf == 0 or opens(arena, shape, session, next_leaf, entry) == 1
        if opening == 0 and not closing:  # inside a session
            since = time_of(arena, shape, session, leaf, e)
            if not exceeds_gap(session, since, time_of(arena, shape, session, next_leaf, entry)):
                continue
        if kind == START and not closing:
            end = _end(arena, root, shape, unsummed, session, next_leaf, entry, end, scratch)
            places[HIGH * n + last] = max(places[HIGH * n + last], end)
        if kind == END and first == 0:
            at = rank - arena[leaf + HEAD + e]
            _, _, at, _ = find_backward(arena, root, shape, unsummed, leaf, e, at, session[WORD], 1, scratch)
            places[LOW * n + i] = min(places[LOW * n + i], at)


@device
def _disappears(changes, places, n, i):
    """Returns True iff all copies of a row are deleted."""
    return places[COPIES * n + i] > 0 and places[COPIES * n + i] + changes[i] <= 0


@device
def _end(arena, root, shape, unsummed, session, leaf, e, at, scratch):
    """Returns the position after the session of an entry at position ``at``."""
    at += arena[leaf + HEAD + e]
    leaf, e = here(arena, leaf, e + 1)
    if leaf == 0:
        return at
    leaf, e, at, _ = find_forward(arena, root, shape, unsummed, leaf, e, at, session[WORD], 1, scratch)
    return at if leaf != 0 else total(arena, root)


# Values
# ----------------------------------------------------------------------------------------------------------------------


@kernel(
    "words, int, words, words, words, words, words, words, words, words, words, words, bytes, int, words, words, table"
)
def write_picks(
    arena, k, spec, shape, unsummed, picks, outputs, frames, handles, lows, highs, values, octets, shown, scratch,
    memory, out,
):  # fmt: skip
    """Writes, for the rows at positions ``lows`` to ``highs`` of partitions one after the other, their first ``shown``
    columns, the picks of functions, and those that read ``frames``. Returns False if Python must compute the latter.
    O(log n) each, O(1) per row close to its pick."""
    n, room, some = handles.size, out.shape[1], picks.size // PICK_WORDS
    arena, spec, shape, unsummed = words(arena), constants(spec), words(shape), words(unsummed)
    picks, outputs, frames, handles = constants(picks), constants(outputs), constants(frames), words(handles)
    lows, highs, values, octets = words(lows), words(highs), words(values), words(octets)
    scratch, memory, out = words(scratch), words(memory), words(out)
    x = 0
    for i in range(n):
        rows = highs[i] - lows[i]
        complete = pick_rows(
            arena, arena[handles[i] + k], spec, shape, unsummed, picks, some, outputs, frames, values, octets, lows[i],
            rows, shown, x, room, scratch, memory, out,
        )  # fmt: skip
        if not complete:
            return False
        x += rows
    return True


@device
def pick_rows(
    arena, root, spec, shape, unsummed, picks, some, outputs, frames, values, octets, low, rows, shown, x, room,
    scratch, memory, out,
):  # fmt: skip
    """Does the same as ``write_picks`` for ``rows`` rows of a tree from position ``low``, with ``some`` picks."""
    leaf, e, copy = at_position(arena, root, unsummed, low, scratch, 0)
    arena[H_STEPS] += rows
    if shown > 0:
        _show(arena, shape, leaf, e, copy, rows, shown, x, room, out)
    for f in range(some):
        p = f * PICK_WORDS
        if picks[p + 3] < 0:
            _by_place(
                arena, root, shape, unsummed, picks, p, outputs, leaf, e, copy, low, rows, x, room, scratch, out
            )  # fmt: skip
        elif picks[p] == BACK or picks[p] == AHEAD:
            _by_filter(
                arena, root, shape, unsummed, picks, p, outputs, leaf, e, copy, low, rows, x, room, scratch, out
            )  # fmt: skip
        else:
            _by_session(
                arena, root, shape, unsummed, picks, p, outputs, leaf, e, copy, low, rows, x, room, scratch, out
            )  # fmt: skip
    if frames[FRAME_COUNT] == 0:
        return True
    return write_frames(
        arena, root, shape, spec, frames, values, octets, leaf, e, copy, low, rows, x, room, scratch, memory, out
    )  # fmt: skip


@device
def _show(arena, shape, leaf, e, copy, rows, shown, x, room, out):
    """Writes the first columns of rows from an entry on."""
    for y in range(rows):
        row = row_at(arena, shape, leaf, e)
        for c in range(shown):
            out[c * room + x + y] = arena[row + c]
        leaf, e, copy = next_copy(arena, leaf, e, copy)


@device
def _write(arena, picks, p, outputs, seen, own, x, room, out):
    """Writes the outputs of a pick of row ``seen`` (0: none) for row ``own``."""
    for o in range(picks[p + 5], picks[p + 6], OUTPUT_WORDS):
        value = NULL
        if seen != 0:
            value = arena[seen + outputs[o]]
        elif outputs[o + 1] >= 0:
            value = arena[own + outputs[o + 1]]
        out[outputs[o + 2] * room + x] = value


@device
def _by_place(arena, root, shape, unsummed, picks, p, outputs, leaf, e, copy, low, rows, x, room, scratch, out):
    """Writes the outputs of a pick without a filter for rows from an entry on, with a second cursor at the picked
    row."""
    size, last = total(arena, root), -2
    near, entry, number = leaf, e, copy
    for y in range(rows):
        if picks[p] == BACK:
            at = min(low + y - picks[p + 1], size - 1) - picks[p + 2] + 1
        else:
            at = max(low + y + picks[p + 1], 0) + picks[p + 2] - 1
        seen = 0
        if 0 <= at < size:
            if at == last + 1:
                near, entry, number = next_copy(arena, near, entry, number)
            elif at != last:
                near, entry, number = _at(arena, root, unsummed, leaf, e, copy, low + y, at, scratch)
            last = at
            seen = row_at(arena, shape, near, entry)
        _write(arena, picks, p, outputs, seen, row_at(arena, shape, leaf, e), x + y, room, out)
        leaf, e, copy = next_copy(arena, leaf, e, copy)


@device
def _by_filter(arena, root, shape, unsummed, picks, p, outputs, leaf, e, copy, low, rows, x, room, scratch, out):
    """Writes the outputs of a pick with a filter for rows from an entry on. Searches for the picked row again only if a
    row of the filter enters or leaves the range."""
    size, last, seen, kind, count, word = total(arena, root), -2, 0, picks[p], picks[p + 2], picks[p + 3]
    near, entry, number = leaf, e, copy
    for y in range(rows):
        if kind == BACK:
            at = min(low + y - picks[p + 1], size - 1)
        else:
            at = max(low + y + picks[p + 1], 0)
        if at < 0 or at >= size:
            seen = 0
        elif at != last:
            new = kind == AHEAD and last >= 0 and arena[sums_at(arena, shape, near, entry) + word] == 0
            if at == last + 1:
                near, entry, number = next_copy(arena, near, entry, number)
            else:
                near, entry, number = _at(arena, root, unsummed, leaf, e, copy, low + y, at, scratch)
            passes = arena[sums_at(arena, shape, near, entry) + word] != 0
            if last < 0 or (passes if kind == BACK else not new):
                beside = count
                if passes:
                    beside += number if kind == AHEAD else arena[near + HEAD + entry] - 1 - number
                if kind == BACK:
                    found, place, _, _ = find_backward(
                        arena, root, shape, unsummed, near, entry, at - number, word, beside, scratch
                    )  # fmt: skip
                else:
                    found, place, _, _ = find_forward(
                        arena, root, shape, unsummed, near, entry, at - number, word, beside, scratch
                    )  # fmt: skip
                seen = row_at(arena, shape, found, place) if found != 0 else 0
            last = at
        _write(arena, picks, p, outputs, seen, row_at(arena, shape, leaf, e), x + y, room, out)
        leaf, e, copy = next_copy(arena, leaf, e, copy)


@device
def _by_session(arena, root, shape, unsummed, picks, p, outputs, leaf, e, copy, low, rows, x, room, scratch, out):
    """Writes the outputs of the first or last rows of sessions for rows from an entry on."""
    seen, word = 0, picks[p + 3]
    for y in range(rows):
        opening = copy == 0 and arena[sums_at(arena, shape, leaf, e) + word] == 1
        if y == 0 or opening:
            if picks[p] == START:
                found, place, _, _ = find_backward(
                    arena, root, shape, unsummed, leaf, e, low + y - copy, word, 1, scratch
                )
            else:
                found, place = here(arena, leaf, e + 1)
                if found != 0:
                    at = low + y - copy + arena[leaf + HEAD + e]
                    found, place, _, _ = find_forward(arena, root, shape, unsummed, found, place, at, word, 1, scratch)
                if found == 0:
                    found, place, _ = at_position(arena, root, unsummed, total(arena, root), scratch, 0)
                found, place = before(arena, found, place)
            seen = row_at(arena, shape, found, place)
        _write(arena, picks, p, outputs, seen, row_at(arena, shape, leaf, e), x + y, room, out)
        leaf, e, copy = next_copy(arena, leaf, e, copy)
