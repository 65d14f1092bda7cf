"""Computes window functions that read frames: rows in order are read once, and every frame is a difference.

    rows around a stretch -> their addends -> sums of the first 0, 1, 2, ... rows -> a difference per frame -> values

A stretch is read in chunks, so that the memory of a call does not depend on its length. The sums of the rows before a
chunk are those of the tree, which stores sums iff some frame has no bound on one side.
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.arena import H_STEPS, ZERO
from crown.kernels.memory.pointers import beyond
from crown.kernels.numbers.doubles import word_of
from crown.kernels.numbers.limbs import add, add_multiple, clear, sum_of_pairs
from crown.kernels.strings import NULL
from crown.stages.kernels.frames.plan import (
    AHEAD,
    BACK,
    BEST,
    CHUNK,
    EACH_AT,
    END_FUNCTION,
    EXTREMA_AT,
    EXTREMA_COUNT,
    EXTREMUM_WORDS,
    F_COUNT,
    F_KIND,
    F_MORE,
    F_OUT,
    FAR,
    FIRST_FUNCTION,
    FRAME_COUNT,
    FRAME_WORDS,
    FRAMES_AT,
    FUNCTION_WORDS,
    FUNCTIONS_AT,
    KEY,
    MEASURES,
    NUMBER,
    NUMBER_COUNT,
    NUMBERS_AT,
    OPENING,
    PEER_COLUMNS,
    PEERS,
    RANK_OF_PEERS,
    READ_COUNT,
    READS_AT,
    RECIPE_AT,
    ROWS,
    SHARE_BEFORE,
    SHARE_UP_TO,
    SPAN,
    START_UNIT,
    SUM,
    SUM_WORDS,
    SUMMED,
    UNBOUNDED,
    VALUES,
    X_COLUMN,
    X_LEAST,
    X_ORDER,
    X_WHERE,
    X_WORD,
    extremum_key,
    is_moved_out,
    moved_code,
)
from crown.stages.kernels.groups.batch import write_column
from crown.stages.kernels.groups.sums import add_all_terms
from crown.stages.kernels.over.partitions import add_difference
from crown.stages.kernels.over.sessions import before
from crown.stages.kernels.trees.nodes import HEAD, LENGTH, add_entries, reaches, row_at, sums_at
from crown.stages.kernels.trees.ordered import BEHIND, FIRST, locate, same, total
from crown.stages.kernels.trees.orders import BY_FLOAT
from crown.stages.kernels.trees.scan import at_position, next_copy

_BEYOND, _BEFORE, _ALL, _NONE, OTHER_SUMS = 1, 2, 3, 4, 5  # sums behind those of a chunk
_FEWEST = 1 << 7  # rows of a chunk: Python reads wider frames once, instead of anew for each few rows


@device
def _code_of_key(word, order, least):
    """Returns the value with this ``extremum_key``."""
    if word == 0:
        return ZERO + NULL
    key = word ^ NULL
    if least == 1:
        key = -key
    if order == BY_FLOAT:
        key ^= (key >> 63) & ~NULL
    return key


@device
def write_frames(
    arena, root, shape, spec, frames, values, octets, leaf, e, copy, low, rows, x, room, path, memory, out
):  # fmt: skip
    """Writes the functions of ``rows`` rows of a tree to ``out``, from row ``x`` on: those from a copy of an entry on,
    which is at position ``low``. Returns True, or False if some value has no code here: then Python computes all of
    them. O(log n) per chunk, O(1) per row. ``memory``: ``ROOM`` words, of which the first is 0 at first."""
    size, done = total(arena, root), ZERO
    while done < rows:
        at, some = low + done, min(frames[CHUNK], rows - done)
        first, end = max(at - frames[BACK], 0), min(at + some + frames[AHEAD], size)
        if frames[MEASURES] == 1:
            first, end = _measure(
                arena, root, shape, spec, frames, values, octets, row_at(arena, shape, leaf, e), at + some - 1, first,
                end, path, memory,
            )  # fmt: skip
            while end - first > frames[SPAN] and some > _FEWEST:  # the rows of half a chunk are fewer
                some //= 2
                first, end = _measure(
                    arena, root, shape, spec, frames, values, octets, row_at(arena, shape, leaf, e), at + some - 1,
                    max(at - frames[BACK], 0), min(at + some + frames[AHEAD], size), path, memory,
                )  # fmt: skip
            if end - first > frames[SPAN]:
                return False
        complete = _write_chunk(
            arena, root, size, shape, spec, frames, values, octets, leaf, e, copy, first, end, at, some, x + done, room,
            path, memory, out,
        )  # fmt: skip
        if not complete:
            return False
        done += some
        if done < rows:
            leaf, e, copy = at_position(arena, root, shape, low + done, beyond(memory, KEY + shape[0]), 0)
    return True


@device
def _measure(
    arena, root, shape, spec, frames, values, octets, head, last, first, end, path, memory
):  # fmt: skip
    """Returns the range of rows from ``first`` to ``end``, widened to the bounds of a chunk that are measured in
    values. ``head``: the first row of the chunk; ``last``: the position of its last one."""
    key, each = beyond(memory, KEY), beyond(frames, frames[EACH_AT])
    leaf, e, _ = at_position(arena, root, shape, last, beyond(memory, KEY + shape[0]), 0)
    tail = row_at(arena, shape, leaf, e)
    for number in range(2 * frames[FRAME_COUNT]):
        b = frames[FRAMES_AT] + FRAME_WORDS * (number >> 1) + 2 * (number & 1)
        if frames[b] == VALUES:
            mode = BEHIND if number & 1 == 1 else FIRST
            key[spec[0]] = moved_code(arena[head + spec[0]], frames[b + 1], spec)
            _, at, _ = locate(arena, root, shape, spec, 1, mode, key, each, 0, values, octets, path)
            first = min(first, at)
            key[spec[0]] = moved_code(arena[tail + spec[0]], frames[b + 1], spec)
            _, at, _ = locate(arena, root, shape, spec, 1, mode, key, each, 0, values, octets, path)
            end = max(end, at)
    return first, end


@device
def _write_chunk(
    arena, root, size, shape, spec, frames, values, octets, leaf, e, copy, first, end, low, some, x, room, path, memory,
    out,
):  # fmt: skip
    """Does the same as ``write_frames`` for the rows of a chunk, from the rows at ``first`` to ``end``."""
    k, m, width, span = frames[SUM_WORDS], end - first, shape[0], frames[SPAN]
    each = beyond(memory, KEY + width + k)
    ones = beyond(each, span)
    for y in range(memory[0], m):
        each[y], ones[y] = y, 1
    memory[0] = max(memory[0], m)
    sums = beyond(ones, span)
    columns = beyond(sums, (m + OTHER_SUMS) * k)
    forms = beyond(columns, frames[READ_COUNT] * m)
    begins = beyond(forms, 2 * width)
    peers = beyond(begins, m)
    bounds = beyond(peers, 2 * some)
    totals = beyond(bounds, 4 * some)
    keys = beyond(totals, some * k)
    scratch = beyond(keys, 2 * m)
    arena[H_STEPS] += m
    clear(sums, 0, (m + OTHER_SUMS) * k)
    if shape[1] > 0:
        leaf, e, copy = at_position(arena, root, shape, first, sums, 0)
    else:
        leaf, e, copy = _back(arena, leaf, e, copy, low - first)
    last = _read(arena, shape, spec, frames, leaf, e, copy, first, m, sums, columns, forms, begins)
    if not _add_up(arena, shape, frames, values, leaf, e, copy, m, sums, columns, forms, each, ones, scratch):
        return False
    if shape[1] > 0:
        add_entries(arena, shape, root, arena[root + LENGTH], sums, (m + _ALL) * k)
        if frames[FAR] >= 0 and sums[(m + _ALL) * k + frames[FAR]] != 0:
            return False
    if frames[PEER_COLUMNS] >= 0:
        _find_peers(
            arena, root, size, shape, spec, frames, values, octets, row_at(arena, shape, leaf, e), last, first, end,
            low, some, path, sums, begins, peers,
        )  # fmt: skip
    for number in range(frames[FRAME_COUNT]):
        f = frames[FRAMES_AT] + FRAME_WORDS * number
        _set_bounds(frames, f, low, some, first, end, size, peers, bounds)
        for side in range(2):
            if frames[f + 2 * side] == VALUES:
                _measure_bounds(
                    frames, spec, frames[f + 2 * side + 1], side, low, some, first, m,
                    beyond(columns, forms[2 * spec[0] + 1]), peers, bounds,
                )  # fmt: skip
        if frames[f + SUMMED] == 1:
            _subtract(frames, some, sums, bounds, totals)
        for function in range(frames[f + FIRST_FUNCTION], frames[f + END_FUNCTION]):
            g = frames[FUNCTIONS_AT] + FUNCTION_WORDS * function
            kind, o = frames[g + F_KIND], frames[g + F_OUT] * room + x
            if kind == SUM:
                bad_row = write_column(
                    arena, frames, g + F_MORE, k, each, some, totals, ZERO, each, ZERO, scratch, out, o
                )
                if bad_row >= 0:
                    return False
            elif kind == BEST:
                _write_best(frames, f, g + F_MORE, some, m, sums, columns, forms, bounds, keys, out, o)
            else:
                _write_place(kind, frames[g + F_COUNT], low, some, size, peers, out, o)
    return True


@device
def _back(arena, leaf, e, copy, rows):
    """Returns the copy that is so many ``rows`` before a copy of an entry, as a leaf, an entry and a copy."""
    while rows > copy:
        rows -= copy + 1
        leaf, e = before(arena, leaf, e)
        copy = arena[leaf + HEAD + e] - 1
    return leaf, e, copy - rows


@device
def _read(arena, shape, spec, frames, leaf, e, copy, first, m, sums, columns, forms, begins):
    """Reads ``m`` rows from an entry on: their columns, whether they begin a group of peers, and their openings.
    Returns the last row."""
    reads, k, opening, peers = frames[READS_AT], frames[SUM_WORDS], frames[OPENING], frames[PEER_COLUMNS]
    for r in range(frames[READ_COUNT]):
        forms[2 * frames[reads + r]], forms[2 * frames[reads + r] + 1] = 0, r * m
    previous = row_at(arena, shape, leaf, e)
    for y in range(m):
        row = row_at(arena, shape, leaf, e)
        for r in range(frames[READ_COUNT]):
            columns[r * m + y] = arena[row + frames[reads + r]]
        if opening >= 0 and copy == 0:
            sums[(y + 1) * k + opening] = arena[sums_at(arena, shape, leaf, e) + opening]
        if peers >= 0:
            begins[y] = 0 if row == previous or same(arena, spec, peers, row, previous) else 1
        previous = row
        if y + 1 < m:
            leaf, e, copy = next_copy(arena, leaf, e, copy)
    if first == 0 and m > 0:
        begins[0] = 1
    return previous


@device
def _add_up(arena, shape, frames, values, leaf, e, copy, m, sums, columns, forms, each, ones, scratch):
    """Makes the sums of the first rows from their columns, and from the sums of the rows before them, of which ``copy``
    are copies of the first row. Returns False if a double is far."""
    k = frames[SUM_WORDS]
    far = add_all_terms(
        values, each, ones, m, columns, forms, columns, beyond(frames, frames[RECIPE_AT]), scratch, sums,
        k, k,
    )  # fmt: skip
    if far > 0:
        return False
    for number in range(frames[EXTREMA_COUNT]):
        f = frames[EXTREMA_AT] + EXTREMUM_WORDS * number
        for y in range(m):
            sums[(y + 1) * k + frames[f + X_WORD]] = _key_at(frames, f, columns, forms, y)
    if copy > 0 and shape[1] > 0 and frames[OPENING] >= 0:
        sums[frames[OPENING]] += arena[sums_at(arena, shape, leaf, e) + frames[OPENING]]
    for number in range(frames[NUMBER_COUNT]):
        p = frames[NUMBERS_AT] + 2 * number
        at, limbs = frames[p], frames[p + 1]
        if copy > 0 and shape[1] > 0 and limbs > 0:
            add_multiple(sums, at, sums, k + at, limbs, copy)
        elif copy > 0 and shape[1] > 0 and reaches(sums[k + at], sums[at]):
            sums[at] = sums[k + at]
        if limbs == 1:
            for i in range(at, at + m * k, k):
                sums[i + k] += sums[i]
        elif limbs == 2:
            for i in range(at, at + m * k, k):
                sums[i + k], sums[i + k + 1] = sum_of_pairs(sums[i], sums[i + 1], sums[i + k], sums[i + k + 1])
        elif limbs == 0:
            for i in range(at, at + m * k, k):
                if reaches(sums[i], sums[i + k]):
                    sums[i + k] = sums[i]
        else:
            for i in range(at, at + m * k, k):
                add(sums, i + k, sums, i, limbs)
    return True


@device
def _key_at(frames, f, columns, forms, y):
    """Returns the key of a row that has been read, for the extremum at ``frames[f]``."""
    if frames[f + X_WHERE] >= 0 and columns[forms[2 * frames[f + X_WHERE] + 1] + y] != 1:
        return ZERO
    return extremum_key(columns[forms[2 * frames[f + X_COLUMN] + 1] + y], frames[f + X_ORDER], frames[f + X_LEAST])


@device
def _find_peers(
    arena, root, size, shape, spec, frames, values, octets, head, last, first, end, low, some, path, sums, begins, peers
):  # fmt: skip
    """Writes where the peers of each row of a chunk begin and end. ``head``, ``last``: the first and the last row that
    have been read. Reads the sums up to positions outside of them from the tree."""
    count, m, k, each = frames[PEER_COLUMNS], end - first, frames[SUM_WORDS], beyond(frames, frames[EACH_AT])
    y, start = low - first, ZERO
    while y > 0 and begins[y] == 0:
        y -= 1
    start = first + y
    if y == 0 and first > 0:
        _, start, steps = locate(arena, root, shape, spec, count, FIRST, arena, each, head, values, octets, path)
        arena[H_STEPS] += steps
        at_position(arena, root, shape, start, sums, (m + _BEFORE) * k)
    for i in range(some):
        if begins[low - first + i] == 1:
            start = low + i
        peers[i] = start
    y = low - first + some
    while y < m and begins[y] == 0:
        y += 1
    stop = first + y
    if y == m and end < size:
        _, stop, steps = locate(arena, root, shape, spec, count, BEHIND, arena, each, last, values, octets, path)
        arena[H_STEPS] += steps
        at_position(arena, root, shape, stop, sums, (m + _BEYOND) * k)
    for i in range(some - 1, -1, -1):
        peers[some + i] = stop
        if begins[low - first + i] == 1:
            stop = low + i


@device
def _set_bounds(frames, f, low, some, first, end, size, peers, bounds):
    """Writes the bounds of the frames of a chunk: where they start and end, and the numbers of the sums up to
    there."""
    m = end - first
    for side in range(2):
        unit, offset, o = frames[f + 2 * side], frames[f + 2 * side + 1] + side, side * some
        for y in range(some):
            at, number = size * side, m + (_ALL if side == 1 else _NONE)
            if unit == ROWS:
                at = min(max(low + y + offset, 0), size)
                number = min(max(at, first), end) - first
            elif unit == PEERS:
                at = peers[o + y]
                number = at - first
                if at < first:
                    number = m + _BEFORE
                elif at > end:
                    number = m + _BEYOND
            bounds[o + y], bounds[2 * some + o + y] = at, number


@device
def _measure_bounds(frames, spec, offset, side, low, some, first, m, codes, peers, bounds):
    """Writes the bounds of frames at a distance ``offset`` from the values of rows: ``codes``, of all rows that have
    been read. The frames of NULL have its peers."""
    falls, nulls_last, read, o = -spec[2], spec[3] == 1, ZERO, side * some
    for y in range(some):
        code, at = codes[low - first + y], peers[o + y]
        if code != NULL:
            target, out = moved_code(code, offset, spec) ^ falls, is_moved_out(code, offset, spec)
            while read < m:
                other = codes[read] ^ falls
                if codes[read] == NULL:
                    before_it = not nulls_last
                elif out:
                    before_it = offset > 0
                else:
                    before_it = other < target or (side == 1 and other == target)
                if not before_it:
                    break
                read += 1
            at = first + read
        bounds[o + y], bounds[2 * some + o + y] = at, min(max(at - first, 0), m)


@device
def _subtract(frames, some, sums, bounds, totals):
    """Writes the sums of frames: the differences of the sums up to their bounds."""
    k = frames[SUM_WORDS]
    clear(totals, 0, some * k)
    for number in range(frames[NUMBER_COUNT]):
        p = frames[NUMBERS_AT] + 2 * number
        at, limbs = frames[p], frames[p + 1]
        for y in range(some):
            if bounds[y] >= bounds[some + y]:
                continue
            o, i, j = y * k + at, bounds[2 * some + y] * k + at, bounds[3 * some + y] * k + at
            if limbs == 1:
                totals[o] = sums[j] - sums[i]
            elif limbs == 2:
                less, lower = sum_of_pairs(~sums[i], ~sums[i + 1], 1, 0)
                totals[o], totals[o + 1] = sum_of_pairs(sums[j], sums[j + 1], less, lower)
            elif limbs > 0:
                add_difference(totals, o, sums, j, i, limbs)


@device
def _write_best(frames, f, extremum, some, m, sums, columns, forms, bounds, keys, out, o):
    """Writes MIN or MAX of frames. A frame that begins with the partition reads a maximum of the first rows. The others
    slide: a queue has the rows of a frame that are better than all rows after them."""
    order, least, k = frames[extremum + X_ORDER], frames[extremum + X_LEAST], frames[SUM_WORDS]
    if frames[f + START_UNIT] == UNBOUNDED:
        word = frames[extremum + X_WORD]
        for y in range(some):
            out[o + y] = _code_of_key(sums[bounds[3 * some + y] * k + word], order, least)
        return
    head, tail, read = ZERO, ZERO, ZERO
    for y in range(some):
        start, end = bounds[2 * some + y], bounds[3 * some + y]
        while read < end:
            keys[read] = _key_at(frames, extremum, columns, forms, read)
            while tail > head and reaches(keys[read], keys[keys[m + tail - 1]]):
                tail -= 1
            keys[m + tail] = read
            tail += 1
            read += 1
        while head < tail and keys[m + head] < start:
            head += 1
        best = keys[keys[m + head]] if head < tail and start < end else ZERO
        out[o + y] = _code_of_key(best, order, least)


@device
def _write_place(kind, count, low, some, size, peers, out, o):
    """Writes functions of the number of a row, of its peers, and of the rows of the partition."""
    small, larger = size // max(count, 1), size % max(count, 1)
    border = larger * (small + 1)
    for y in range(some):
        at = low + y
        if kind == NUMBER:
            out[o + y] = at + 1
        elif kind == RANK_OF_PEERS:
            out[o + y] = peers[y] + 1
        elif kind == SHARE_BEFORE:
            out[o + y] = word_of(float(peers[y]) / float(max(size - 1, 1)))
        elif kind == SHARE_UP_TO:
            out[o + y] = word_of(float(peers[some + y]) / float(size))
        elif at < border:
            out[o + y] = at // (small + 1) + 1
        else:
            out[o + y] = (at - border) // max(small, 1) + larger + 1
