"""Expands pieces of partitions to rows: the old values of running functions, and the new ones."""

from __future__ import annotations

from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import H_STEPS, LINE
from crown.kernels.memory.pointers import constants, prefetch, words
from crown.kernels.numbers.limbs import clear, sum_of_pairs
from crown.kernels.strings import NULL, short_number
from crown.stages.kernels.over.sessions import before
from crown.stages.kernels.trees.nodes import HEAD, LENGTH, NEXT, add_sums, full, node_words, row_at, sums_at
from crown.stages.kernels.trees.ordered import BEHIND, FIRST, locate, same
from crown.stages.kernels.trees.scan import at_position, here, in_leaf, leaves_at

NUMBER, RANK, COUNT, SUM = 0, 1, 2, 3  # kinds of functions
# Words of a function. ROW_NUMBER and RANK use only the first.
(
    KIND,
    PEERS,  # 1 if it includes the peers of the row, 0 if it ends at the row itself
    COUNTS,  # word of the sums that counts its rows
    SUMS,  # first of the two words of its sum
    ARGUMENT,  # column that it sums
    LARGEST,  # largest absolute value of its result
    WIDE,  # 1 if results are decimals of two words, whose codes are short numbers
    FUNCTION_WORDS,
) = range(8)
# Per piece and function: the change of its number, rank or count; the two limbs of the change of its sum.
MOVED_WORDS = 3
STATE_WORDS = 4
# Words of the status of a call.
(
    NEXT_DELETE,  # position of the next delete in the output
    NEXT_INSERT,  # position of the next insert; -1 if no inserts are written
    SPLIT_COPIES,  # 1 if copies of a row were written separately, so that a row may be both deleted and inserted
    HAS_NULL,  # 1 if a NULL was written
    OVERFLOWED,  # number of a function with a sum that is too large, or -1; the output is then invalid
    ROW_COUNT,  # its count
    SUM_LOW,  # its sum
    SUM_HIGH,
    STATUS_WORDS,
) = range(9)


@kernel(
    "words, words, int, words, words, int, words, words, words, words, words, words, bytes, words, words, table, "
    "words, words, table, words"
)
def unfold(
    arena, handles, k, shape, spec, order, functions, strides, lows, highs, moved, values, octets, path, last, heads,
    scratch, status, out, weights,
):  # fmt: skip
    """Writes the rows at positions ``lows`` to ``highs`` of partitions with the old values of functions, as deletes,
    and with the new values, as inserts. Leaves out rows whose values do not change.

    ``status``: int64[STATUS_WORDS]; positions are those in ``out`` (int64[columns, n]). If ``NEXT_INSERT`` is -1, all
    rows are written.

    The first ``order`` columns of ``spec`` define peers. A piece consists of whole groups of peers, or is within one.
    ``strides``: 0, 1, 2, ... ``last`` and ``heads`` (int64[pieces, words]): zeros (see ``scan.leaves_at``).
    ``scratch``: room for sums, and STATE_WORDS words per function. O(log n) per piece, less if they ascend, O(1) per
    row.
    """
    n, room, some, shown = handles.size, weights.size, functions.size // FUNCTION_WORDS, out.shape[0]
    shown -= some
    arena, handles, shape, spec = words(arena), words(handles), words(shape), constants(spec)
    functions, strides, lows, highs = constants(functions), constants(strides), words(lows), words(highs)
    moved, values, octets, path = words(moved), words(values), words(octets), words(path)
    last, heads = words(last), words(heads)
    scratch, status, out, weights = words(scratch), words(status), words(out), words(weights)
    unfold_pieces(
        arena, handles, n, k, shape, spec, order, functions, some, strides, lows, highs, moved, values, octets, path,
        last, heads, scratch, status, out, room, shown, weights,
    )  # fmt: skip


@device
def unfold_pieces(
    arena, handles, n, k, shape, spec, order, functions, some, strides, lows, highs, moved, values, octets, path,
    last, heads, scratch, status, out, room, shown, weights,
):  # fmt: skip
    """Does the same as ``unfold`` for ``n`` pieces and ``some`` functions. ``room``: words between the columns of
    ``out``; ``shown``: columns of rows that are written."""
    both, state, steps, line = status[NEXT_INSERT] >= 0, shape[1], 0, node_words(shape, full(shape, 0), 0)
    first = near = 0
    for i in range(n):
        if i == near:
            first = i
            near = leaves_at(arena, handles, k, shape, lows, i, n, heads, last)
        root, at, stop_at = arena[handles[i] + k], lows[i], highs[i]
        if at >= stop_at:
            continue
        leaf, e, _ = in_leaf(arena, shape, i, first, heads, last)
        leaf, e = here(arena, leaf, e)
        for word in range(state):
            scratch[word] = heads[i * state + word]
        begin = at  # of the peers of the first row
        for f in range(some):
            p, t = f * FUNCTION_WORDS, state + f * STATE_WORDS
            if functions[p] == COUNT or functions[p] == SUM:
                _read_totals(functions, p, scratch, t, at)
        if _has_kind(functions, some, RANK) and _follows_peer(arena, shape, spec, order, leaf, e):
            _, begin, more = locate(
                arena, root, shape, spec, order, FIRST, arena, strides, row_at(arena, shape, leaf, e), values, octets,
                path,
            )  # fmt: skip
            steps += more
        end = at
        if _has_kind(functions, some, COUNT):
            end, known = _past_peers(arena, shape, spec, order, leaf, e, at, scratch)
            if not known:
                _, end, more = locate(
                    arena, root, shape, spec, order, BEHIND, arena, strides, row_at(arena, shape, leaf, e), values,
                    octets, path,
                )  # fmt: skip
                steps += more
                clear(scratch, 0, state)
                at_position(arena, root, shape, end, scratch, 0)
        for f in range(some):
            p, t = f * FUNCTION_WORDS, state + f * STATE_WORDS
            if functions[p] == RANK:
                scratch[t] = begin
            elif functions[p] != NUMBER and functions[p + PEERS] == 1:
                _read_totals(functions, p, scratch, t, end)
        before = row_at(arena, shape, leaf, e)
        fetched = 0
        while at < stop_at:
            leaf, e = here(arena, leaf, e)
            if leaf != fetched:
                fetched = leaf
                for word in range(0, line, LINE):
                    prefetch(arena, arena[leaf + NEXT] + word)
            copies, stop, sure = arena[leaf + HEAD + e], e + 1, not both
            apart = copies > 1 and _copies_differ(arena, shape, functions, some, leaf, e)
            lines, ahead = copies if apart else 1, at + copies
            if both:
                sure = _some_moves(functions, some, moved, i * some * MOVED_WORDS, scratch, state)
            if sure and not apart:
                length = arena[leaf + LENGTH]
                while stop < length and ahead < stop_at:
                    more = arena[leaf + HEAD + stop]
                    if more > 1 and _copies_differ(arena, shape, functions, some, leaf, stop):
                        break
                    ahead += more
                    stop += 1
                lines = stop - e
            status[SPLIT_COPIES] |= 1 if apart else 0
            a, b = status[NEXT_DELETE], status[NEXT_INSERT]
            for f in range(some):
                p, t = f * FUNCTION_WORDS, state + f * STATE_WORDS
                q, o = (i * some + f) * MOVED_WORDS, (shown + f) * room
                if functions[p] == NUMBER:
                    _write_numbers(arena, leaf, e, lines, apart, at, moved, q, out, o + a, o + b, both)
                elif functions[p] == RANK:
                    _write_ranks(
                        arena, shape, spec, order, leaf, e, lines, apart, at, before, moved, q, scratch, t, out, o + a,
                        o + b, both,
                    )  # fmt: skip
                else:
                    _write_totals(
                        arena, shape, spec, order, functions, p, f, leaf, e, lines, apart, at, moved, q, scratch, t,
                        out, o + a, o + b, both, status,
                    )  # fmt: skip
            at, before = ahead, row_at(arena, shape, leaf, stop - 1)
            steps += lines
            if sure or apart or _some_changes(out, shown, some, room, a, b):
                _write_columns(arena, shape, leaf, e, lines, apart, shown, out, room, a, b, both, status)
                for y in range(lines):
                    weights[a + y] = -1 if apart else -arena[leaf + HEAD + e + y]
                    if both:
                        weights[b + y] = -weights[a + y]
                status[NEXT_DELETE] += lines
                if both:
                    status[NEXT_INSERT] += lines
            e = stop
    arena[H_STEPS] += steps


@device
def _follows_peer(arena, shape, spec, order, leaf, e):
    """Returns True iff an entry is not the first one of its peers."""
    first, place = before(arena, leaf, e)
    return first != 0 and same(arena, spec, order, row_at(arena, shape, first, place), row_at(arena, shape, leaf, e))


@device
def _past_peers(arena, shape, spec, order, leaf, e, at, sums):
    """Returns the position after the peers of an entry at position ``at``, and True, and adds their sums to ``sums``.
    Returns False if the peers continue in the next leaf."""
    row, place = row_at(arena, shape, leaf, e), e
    while place < arena[leaf + LENGTH] and same(arena, spec, order, row, row_at(arena, shape, leaf, place)):
        add_sums(shape, sums, 0, arena, sums_at(arena, shape, leaf, place))
        at += arena[leaf + HEAD + place]
        place += 1
    behind, place = here(arena, leaf, place)
    return at, behind in (0, leaf) or not same(arena, spec, order, row, row_at(arena, shape, behind, place))


@device
def _read_totals(functions, p, scratch, t, end):
    """Takes count and sum of a function, up to a position, from sums."""
    scratch[t], scratch[t + 1], scratch[t + 2], scratch[t + 3] = scratch[functions[p + COUNTS]], 0, 0, end
    if functions[p] == SUM:
        scratch[t + 1], scratch[t + 2] = scratch[functions[p + SUMS]], scratch[functions[p + SUMS] + 1]


@device
def _has_kind(functions, some, kind):
    """Returns True iff some function needs peers: a rank, or (COUNT) a count or sum up to the last peer."""
    for p in range(0, some * FUNCTION_WORDS, FUNCTION_WORDS):
        if functions[p + PEERS] == 1 and (functions[p] == RANK) == (kind == RANK):
            return True
    return False


@device
def _copies_differ(arena, shape, functions, some, leaf, e):
    """Returns True iff some function has different values for the copies of an entry's row."""
    row, entry = row_at(arena, shape, leaf, e), sums_at(arena, shape, leaf, e)
    for p in range(0, some * FUNCTION_WORDS, FUNCTION_WORDS):
        kind = functions[p]
        counted = kind != RANK and functions[p + PEERS] == 0 and arena[entry + functions[p + COUNTS]] != 0
        if kind == NUMBER or (counted and (kind == COUNT or arena[row + functions[p + ARGUMENT]] != 0)):
            return True
    return False


@device
def _some_moves(functions, some, moved, q, scratch, state):
    """Returns True iff some function changes in all remaining rows of a piece. A sum may be NULL in some."""
    for f in range(some):
        p, t = f * FUNCTION_WORDS, state + f * STATE_WORDS
        if functions[p] != SUM:
            if moved[q] != 0:
                return True
        elif (moved[q + 1] != 0 or moved[q + 2] != 0) and scratch[t] > 0 and scratch[t] + moved[q] > 0:
            return True
        q += MOVED_WORDS
    return False


@device
def _some_changes(out, shown, some, room, a, b):
    """Returns True iff the value of some function changes."""
    changed = False
    for column in range(shown * room, (shown + some) * room, room):
        changed |= out[column + a] != out[column + b]
    return changed


@device
def _write_columns(arena, shape, leaf, e, lines, apart, shown, out, room, a, b, both, status):
    """Writes the columns of rows, from an entry on."""
    first, step = row_at(arena, shape, leaf, e), 0 if apart else shape[0]
    least = 0
    for c in range(shown):
        o = c * room
        for y in range(lines):
            value = arena[first + y * step + c]
            least = min(least, value)
            out[o + a + y] = value
        if both:
            for y in range(lines):
                out[o + b + y] = out[o + a + y]
    if least == NULL:
        status[HAS_NULL] = 1


@device
def _write_numbers(arena, leaf, e, lines, apart, at, moved, q, out, o, x, both):
    """Writes the numbers of rows, from an entry on."""
    by = moved[q]
    for y in range(lines):
        at += 1
        out[o + y] = at
        if both:
            out[x + y] = at + by
        at += 0 if apart else arena[leaf + HEAD + e + y] - 1


@device
def _write_ranks(arena, shape, spec, order, leaf, e, lines, apart, at, before, moved, q, scratch, t, out, o, x, both):
    """Writes the ranks of rows, from an entry on; ``before``: the row before it, or its own."""
    begin, by, row = scratch[t], moved[q], row_at(arena, shape, leaf, e)
    for y in range(lines):
        if not same(arena, spec, order, before, row):
            begin = at
        out[o + y] = begin + 1
        if both:
            out[x + y] = begin + 1 + by
        before = row
        if not apart:
            at += arena[leaf + HEAD + e + y]
            row += shape[0]
    scratch[t] = begin


@device
def _write_totals(
    arena, shape, spec, order, functions, p, f, leaf, e, lines, apart, at, moved, q, scratch, t, out, o, x, both, status
):  # fmt: skip
    """Writes counts or sums of rows, from an entry on."""
    count, low, high, end = scratch[t], scratch[t + 1], scratch[t + 2], scratch[t + 3]
    peers, summed, wide, most = (
        functions[p + PEERS] == 1, functions[p] == SUM, functions[p + WIDE] == 1, functions[p + LARGEST]
    )  # fmt: skip
    entry, row = sums_at(arena, shape, leaf, e), row_at(arena, shape, leaf, e)
    counted, sums, argument = functions[p + COUNTS], functions[p + SUMS], functions[p + ARGUMENT]
    copies, more, less, width, size = moved[q], moved[q + 1], moved[q + 2], shape[0], shape[1]
    for y in range(lines):
        if not peers:
            if not apart:
                count += arena[entry + counted]
                if summed:
                    low, high = sum_of_pairs(low, high, arena[entry + sums], arena[entry + sums + 1])
            elif arena[entry + counted] != 0:
                count += 1
                if summed:
                    value = arena[row + argument]
                    low, high = sum_of_pairs(low, high, value, value >> 63)
        elif at == end:  # the first of new peers
            peer, place, other, following, length = leaf, e + y, entry, row, arena[leaf + LENGTH]
            more_peers = True
            while more_peers:
                count += arena[other + counted]
                if summed:
                    low, high = sum_of_pairs(low, high, arena[other + sums], arena[other + sums + 1])
                end += arena[peer + HEAD + place]
                place, other, following = place + 1, other + size, following + width
                if place == length and arena[peer + NEXT] != 0:
                    peer, place = arena[peer + NEXT], 0
                    other, following = sums_at(arena, shape, peer, 0), row_at(arena, shape, peer, 0)
                    length = arena[peer + LENGTH]
                more_peers = place < length and same(arena, spec, order, row, following)
        value, after = count, count + copies
        if summed:
            value = NULL
            if count != 0:
                value = low
                if high != low >> 63 or low > most or low < -most:
                    status[OVERFLOWED], status[ROW_COUNT], status[SUM_LOW], status[SUM_HIGH] = f, count, low, high
            if after != 0:
                after, above = sum_of_pairs(low, high, more, less)
                if both and (above != after >> 63 or after > most or after < -most):
                    status[OVERFLOWED], status[ROW_COUNT] = f, count + copies
                    status[SUM_LOW], status[SUM_HIGH] = after, above
            else:
                after = NULL
            if count == 0 or after == NULL:
                status[HAS_NULL] = 1
            if wide and count != 0:
                value = short_number(value)
            if wide and after != NULL:
                after = short_number(after)
        out[o + y] = value
        if both:
            out[x + y] = after
        if not apart:
            at += arena[leaf + HEAD + e + y]
            entry += size
            row += width
    scratch[t], scratch[t + 1], scratch[t + 2], scratch[t + 3] = count, low, high, end
