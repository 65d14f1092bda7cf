"""Window functions of a native call: a net in, a block of the rows whose values change out (``crown.stages.over``).

running functions     changed rows -> pieces that move -> old and new rows
other functions       places of changes -> stretches of rows -> old and new rows of each
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.addresses import words_at
from crown.kernels.memory.arena import H_BUDGET, H_STEPS, T_TALLIES, ZERO
from crown.kernels.memory.pointers import beyond
from crown.kernels.memory.tables import find, hash_key
from crown.kernels.numbers.limbs import clear
from crown.kernels.sorting import sort_indices
from crown.programs.kernels.blocks import (
    B_FORMS,
    B_NULLS,
    B_TUPLES,
    B_WEIGHT_SUM,
    B_WEIGHTS,
    BLOCK_WORDS,
    STATE,
)
from crown.programs.kernels.sources import net_tuples
from crown.programs.kernels.tops import (
    O_COLUMN_COUNT,
    O_FORMS_AT,
    O_KEY_COUNT,
    O_KEYS_AT,
    O_NET,
    O_ORDER_AT,
    O_OUTPUT,
    O_SHAPE_AT,
    O_TABLE,
    O_WIDTH,
    ORDERED_STATE_WORDS,
    ORDERED_WORDS,
    OS_ARENA,
    OS_ARENA_WORDS,
    OS_PATH,
    OS_PATH_WORDS,
    OS_ROOM,
    UNLIMITED,
)
from crown.stages.kernels.frames.affected import set_extrema
from crown.stages.kernels.frames.plan import ROOM
from crown.stages.kernels.groups.sums import add_all_terms
from crown.stages.kernels.over import cuts, partitions, stretches, surveys, unfolding
from crown.stages.kernels.over.partitions import DONE, change_rows, find_places
from crown.stages.kernels.over.picks import pick_rows, widen
from crown.stages.kernels.over.sessions import WORD
from crown.stages.kernels.trees.ordered import total
from crown.stages.kernels.trees.scan import LEAVES

# Words of a window stage in the plan, behind those of stages with ordered rows.
(
    W_COLUMNS,  # columns of the output
    W_SHOWN,  # columns of a stored row that the output has
    W_SESSION_AT,  # offset of the columns that define sessions
    W_RUNNING,  # 1 if the functions are running: changes move their values by the same amount
    W_FRAMES_AT,  # offset of the plan of those that read frames, see ``crown.stages.kernels.frames.plan``
    W_PICK_COUNT,  # number of picks
    W_PICKS_AT,  # offset of the picks, see ``crown.stages.kernels.over.picks``
    W_OUTPUTS_AT,  # offset of their outputs
    W_FILTER_COUNT,  # number of filters of picks
    W_FILTERS_AT,  # offset of two words per filter: the word of the sums that counts its rows, its column
    W_FUNCTION_COUNT,  # number of running functions
    W_FUNCTIONS_AT,  # offset of these, see ``crown.stages.kernels.over.unfolding``
    W_ADDENDS_AT,  # offset of the recipe of their sums
    W_PEER_COLUMNS,  # columns of the order in which peers are equal
    W_PEERS_AT,  # offset of these, behind those of the key
    W_NEEDS_PEERS,  # 1 if a value depends on which rows are peers
    W_APART,  # 1 if copies of a row may have different values
    W_NETS,  # 1 if different stored rows may be equal in the output
    OVER_WORDS,
) = range(ORDERED_WORDS, ORDERED_WORDS + 19)
# Words of a window stage in the state, behind those of stages with ordered rows.
(
    WS_ROWS,  # rows of the output that the batch needs, at most
    OVER_STATE_WORDS,
) = range(ORDERED_STATE_WORDS, ORDERED_STATE_WORDS + 2)
_NOT_BEGUN = -1


@device
def fixed_words(width, columns, keys, size, some, room):
    """Returns how many words of the memory a window stage takes regardless of the number of tuples. ``size``: the words
    of the sums of a row; ``some``: the number of running functions; ``room``: the words that frames take."""
    words = 3 * columns + 4 * width + keys + 4 * size + LEAVES + unfolding.STATUS_WORDS + 8
    return words + unfolding.STATE_WORDS * some + room


@device
def words_per_tuple(width, size, some):
    """Returns how many words of the memory a window stage takes for each tuple."""
    pieces = cuts.PER_CHANGE * (cuts.PIECE_WORDS + 3 * size + unfolding.MOVED_WORDS * some)
    running = surveys.SURVEY_WORDS + 3 + cuts.CHANGED_WORDS + unfolding.MOVED_WORDS * some + pieces
    picked = partitions.PLACE_WORDS + stretches.SPAN_WORDS + 4 + width
    return 1 + size + max(running, picked)


@device
def words_per_row(columns):
    """Returns how many words of the memory a window stage takes for each row of the output."""
    return 2 * (columns + 1) + 1


@device
def _set_sums(plan, op, dictionary, memory, forms, keys, weights, n, each, sums):
    """Writes the addends of ``n`` changes to the sums. Returns the number of far doubles, which are added as 0."""
    size = plan[plan[op + O_SHAPE_AT] + 1]
    if size == 0:
        return ZERO
    clear(sums, 0, n * size)
    origin = beyond(memory, ZERO)
    far = add_all_terms(
        dictionary, each, weights, n, origin, forms, origin, beyond(plan, plan[op + W_ADDENDS_AT]), origin, sums, ZERO,
        size,
    )  # fmt: skip
    set_extrema(beyond(plan, plan[op + W_FRAMES_AT]), keys, weights, n, sums)
    for f in range(plan[op + W_FILTER_COUNT]):
        word, column = plan[plan[op + W_FILTERS_AT] + 2 * f], plan[plan[op + W_FILTERS_AT] + 2 * f + 1]
        for i in range(n):
            sums[i * size + word] = weights[i] if keys[column * n + i] == 1 else 0
    return far


@device
def _change(plan, op, arena, path, dictionary, octets, keyed, strides, keys, weights, n, sums, done):
    """Applies changes of rows with their ``sums``. Returns the result of ``change_rows``."""
    done[0] = 0
    order, shape = beyond(plan, plan[op + O_ORDER_AT]), beyond(plan, plan[op + O_SHAPE_AT])
    return change_rows(
        arena, plan[op + O_TABLE], keyed, plan[op + O_KEY_COUNT], order, plan[op + O_COLUMN_COUNT], strides, shape,
        beyond(plan, plan[op + W_SESSION_AT]), keys, weights, sums, n, dictionary, octets, path, done,
    )  # fmt: skip


@device
def _take_back(
    plan, op, arena, path, dictionary, octets, memory, keyed, strides, forms, keys, weights, n, each, sums, done
):  # fmt: skip
    """Takes back the first ``done[0]`` changes of rows."""
    taken, budget = done[0], arena[H_BUDGET]
    for i in range(n):
        weights[i] = -weights[i]
    _set_sums(plan, op, dictionary, memory, forms, keys, weights, n, each, sums)
    arena[H_BUDGET] = UNLIMITED
    _change(plan, op, arena, path, dictionary, octets, keyed, strides, keys, weights, taken, sums, done)
    arena[H_BUDGET] = budget


@device
def _unfold(plan, op, arena, path, dictionary, octets, each, pieces, stride, m, moved, last, status, out, room):
    """Writes the rows of ``m`` pieces (see ``unfolding.unfold``). ``last``: scratch; ``room``: rows of the output."""
    shape, some = beyond(plan, plan[op + O_SHAPE_AT]), plan[op + W_FUNCTION_COUNT]
    size, columns = shape[1], plan[op + W_COLUMNS]
    scratch = beyond(last, LEAVES + size)
    heads = beyond(scratch, size + unfolding.STATE_WORDS * some)
    clear(last, 0, LEAVES + size)
    clear(heads, 0, m * size)
    unfolding.unfold_pieces(
        arena, pieces, m, plan[op + O_KEY_COUNT], shape, beyond(plan, plan[op + O_ORDER_AT]), plan[op + W_PEER_COLUMNS],
        beyond(plan, plan[op + W_FUNCTIONS_AT]), some, each, beyond(pieces, cuts.LOW * stride),
        beyond(pieces, cuts.HIGH * stride), moved, dictionary, octets, path, last, heads, scratch, status, out, room,
        plan[op + W_SHOWN], beyond(out, columns * room),
    )  # fmt: skip


@device
def _row_count(pieces, stride, m):
    """Returns how many rows ``m`` pieces have, with copies."""
    rows = ZERO
    for j in range(m):
        rows += pieces[cuts.HIGH * stride + j] - pieces[cuts.LOW * stride + j]
    return rows


@device
def _run(
    plan, op, secret, arena, path, dictionary, octets, memory, keyed, strides, forms, keys, weights, n, each, free,
    state, at, slots,
):  # fmt: skip
    """Applies changes of rows, for running functions: writes the deltas of ``crown.stages.running.unfolded``.

    Returns how many rows it has written, or ``_NOT_BEGUN``; the word where they begin, how many there is room for, and
    1 if they must be netted.
    """
    order, shape = beyond(plan, plan[op + O_ORDER_AT]), beyond(plan, plan[op + O_SHAPE_AT])
    size, some, room = shape[1], plan[op + W_FUNCTION_COUNT], cuts.PER_CHANGE * n
    table, k, order_columns, peers = (
        plan[op + O_TABLE], plan[op + O_KEY_COUNT], plan[op + O_COLUMN_COUNT], plan[op + W_PEER_COLUMNS]
    )  # fmt: skip
    survey, sums = beyond(memory, free), beyond(memory, free + surveys.SURVEY_WORDS * n)
    by_place, pieces = beyond(sums, size * n), beyond(sums, (size + 3) * n)
    added = beyond(pieces, cuts.PIECE_WORDS * room)
    moved = beyond(added, 2 * (room + 1) * size)
    changed = beyond(moved, room * some * unfolding.MOVED_WORDS)
    unmoved = beyond(changed, cuts.CHANGED_WORDS * n)
    status = beyond(unmoved, n * some * unfolding.MOVED_WORDS)
    done = beyond(status, unfolding.STATUS_WORDS)
    last = beyond(done, 1)
    start = free + n * (surveys.SURVEY_WORDS + size + 3 + cuts.CHANGED_WORDS + some * unfolding.MOVED_WORDS) + 1
    start += room * (cuts.PIECE_WORDS + 3 * size + some * unfolding.MOVED_WORDS) + 4 * size + LEAVES
    start += unfolding.STATUS_WORDS + unfolding.STATE_WORDS * some
    surveys.survey_rows(
        arena, table, keyed, k, order, order_columns, peers, strides, shape, keys, n, dictionary, octets, path, survey
    )  # fmt: skip
    _set_sums(plan, op, dictionary, memory, forms, keys, weights, n, each, sums)
    if plan[plan[op + W_SESSION_AT] + WORD] >= 0:
        surveys.set_openings(
            keys, weights, survey, n, beyond(plan, plan[op + W_PEERS_AT]), k + peers, secret, slots, by_place,
            plan[plan[op + W_SESSION_AT] + WORD], sums, size,
        )  # fmt: skip
    cuts.sort_changes(survey, n, by_place)
    old = cuts.changed_pieces(survey, n, by_place, changed)
    moving = cuts.move_pieces(
        plan[op + W_NEEDS_PEERS], beyond(plan, plan[op + W_FUNCTIONS_AT]), some, survey, n, weights, sums, shape,
        by_place, pieces, room, added, moved,
    )  # fmt: skip
    old_rows, moving_rows, new_rows = _row_count(changed, n, old), _row_count(pieces, room, moving), ZERO
    apart, nets = plan[op + W_APART] == 1, plan[op + W_NETS]
    for i in range(n):
        copies = survey[surveys.HIGH * n + i] - survey[surveys.LOW * n + i]
        left = max(copies + weights[i], 0)
        new_rows += left if apart else min(left, 1)
        if copies > 0 and left > 0:
            nets = 1 + ZERO
    if not apart:
        old_rows, moving_rows = min(old_rows, old), min(moving_rows, arena[table + T_TALLIES])
    deletes, needed = old_rows + moving_rows, old_rows + 2 * moving_rows + new_rows
    state[at + WS_ROWS] = needed
    if needed > state[at + OS_ROOM]:
        return ZERO + _NOT_BEGUN, start, needed, nets
    out = beyond(memory, start)
    signs = beyond(out, plan[op + W_COLUMNS] * needed)
    clear(unmoved, 0, n * some * unfolding.MOVED_WORDS)
    clear(status, 0, unfolding.STATUS_WORDS)
    status[unfolding.OVERFLOWED], status[unfolding.NEXT_INSERT] = -1, -1
    _unfold(plan, op, arena, path, dictionary, octets, each, changed, n, old, unmoved, last, status, out, needed)
    status[unfolding.NEXT_INSERT] = deletes
    _unfold(plan, op, arena, path, dictionary, octets, each, pieces, room, moving, moved, last, status, out, needed)
    if status[unfolding.OVERFLOWED] >= 0:
        return ZERO + _NOT_BEGUN, start, needed, nets
    end, first = status[unfolding.NEXT_DELETE], status[unfolding.NEXT_INSERT]
    result = _change(plan, op, arena, path, dictionary, octets, keyed, strides, keys, weights, n, sums, done)
    status[unfolding.NEXT_DELETE], status[unfolding.NEXT_INSERT] = first, -1
    if result == DONE and new_rows > 0:
        surveys.survey_rows(
            arena, table, keyed, k, order, order_columns, peers, strides, shape, keys, n, dictionary, octets, path,
            survey,
        )  # fmt: skip
        new = cuts.changed_pieces(survey, n, by_place, changed)
        _unfold(plan, op, arena, path, dictionary, octets, each, changed, n, new, unmoved, last, status, out, needed)
    if result != DONE or status[unfolding.OVERFLOWED] >= 0:
        _take_back(
            plan, op, arena, path, dictionary, octets, memory, keyed, strides, forms, keys, weights, n, each, sums, done
        )  # fmt: skip
        return ZERO + _NOT_BEGUN, start, needed, nets
    behind = status[unfolding.NEXT_DELETE]
    for i in range(first, behind):
        signs[i] = -signs[i]
    if end < deletes:  # some rows of pieces keep their values
        for column in range(0, (plan[op + W_COLUMNS] + 1) * needed, needed):
            for i in range(behind - deletes):
                out[column + end + i] = out[column + deletes + i]
    return behind - deletes + end, start, needed, nets | status[unfolding.SPLIT_COPIES]


@device
def _pick(
    plan, op, arena, path, dictionary, octets, memory, keyed, strides, forms, keys, weights, n, each, free, state, at
):  # fmt: skip
    """Applies changes of rows, for functions that are not running. Returns what ``_run`` returns."""
    order, shape = beyond(plan, plan[op + O_ORDER_AT]), beyond(plan, plan[op + O_SHAPE_AT])
    session, picks = beyond(plan, plan[op + W_SESSION_AT]), beyond(plan, plan[op + W_PICKS_AT])
    outputs, count, shown = beyond(plan, plan[op + W_OUTPUTS_AT]), plan[op + W_PICK_COUNT], plan[op + W_SHOWN]
    frames, room = beyond(plan, plan[op + W_FRAMES_AT]), plan[plan[op + W_FRAMES_AT] + ROOM]
    table, k, columns, width = plan[op + O_TABLE], plan[op + O_KEY_COUNT], plan[op + W_COLUMNS], plan[op + O_WIDTH]
    unsummed, progress, done = beyond(memory, free), beyond(memory, free + 3), beyond(memory, free + 5)
    unsummed[0], unsummed[1], unsummed[2], progress[0], progress[1], done[0] = shape[0], shape[1], 0, 0, 0, 0
    places, by_place = beyond(memory, free + 6), beyond(memory, free + 6 + partitions.PLACE_WORDS * n)
    spans, changed = beyond(by_place, 2 * n), beyond(by_place, (2 + stretches.SPAN_WORDS) * n)
    changes, leaves = beyond(changed, width * n), beyond(changed, (width + 1) * n)
    sums = beyond(leaves, n)
    sorted_forms = beyond(sums, shape[1] * n)
    scratch = beyond(sorted_forms, 2 * width)
    changed_at = free + 6 + n * (partitions.PLACE_WORDS + stretches.SPAN_WORDS + 2)
    start = changed_at + n * (width + 2 + shape[1]) + 2 * width + room
    if room > 0:
        scratch[0] = 0
    for j in range(width):
        sorted_forms[2 * j], sorted_forms[2 * j + 1] = forms[2 * j], changed_at + j * n
    find_places(
        arena, table, keyed, k, order, plan[op + O_COLUMN_COUNT], strides, shape, keys, n, dictionary, octets, path,
        places,
    )  # fmt: skip
    handles = beyond(places, partitions.HANDLE * n)
    sort_indices(handles, beyond(places, partitions.RANK * n), n, by_place, beyond(by_place, n))
    widen(
        arena, k, order, strides, shape, unsummed, picks, count, frames, session, keys, weights, by_place, n,
        dictionary, octets, path, scratch, places,
    )  # fmt: skip
    m, creating, needed = stretches.merge(by_place, weights, places, n, spans, n), ZERO, ZERO
    for c in range(m):
        needed += spans[stretches.HIGH * n + c] - spans[stretches.LOW * n + c]
        needed += spans[stretches.NEW_HIGH * n + c] - spans[stretches.NEW_LOW * n + c]
    for j in range(n):
        i = by_place[j]
        if handles[i] == 0:
            creating += 1
            needed += max(weights[i], 0)
        changes[j], leaves[j] = weights[i], places[partitions.LEAF * n + i]
        for column in range(0, width * n, n):
            changed[column + j] = keys[column + i]
    state[at + WS_ROWS] = needed
    if needed > state[at + OS_ROOM]:
        return ZERO + _NOT_BEGUN, start, needed, ZERO
    if _set_sums(plan, op, dictionary, memory, sorted_forms, changed, changes, n, each, sums) > 0:
        return ZERO + _NOT_BEGUN, start, needed, ZERO
    out = beyond(memory, start)
    result = stretches.replace(
        arena, table, keyed, k, order, plan[op + O_COLUMN_COUNT], strides, shape, unsummed, session, picks, count,
        outputs, frames, shown, changed, changes, sums, n, spans, n, m, leaves, dictionary, octets, path, scratch,
        progress, done, out, needed, columns,
    )  # fmt: skip
    rows, created = progress[1], ZERO
    for i in range(creating if result == DONE else 0):
        handles[i] = find(arena, table, hash_key(arena, keyed, 0, k, changed, i), keyed, 0, k, changed, i)
    if result == DONE:
        sort_indices(handles, handles, creating, by_place, beyond(by_place, n))
    while result == DONE and created < creating:
        handle = handles[by_place[created]]
        created += 1
        if handle == 0 or (created > 1 and handle == handles[by_place[created - 2]]):
            continue
        size = total(arena, arena[handle + k])
        complete = pick_rows(
            arena, arena[handle + k], order, shape, unsummed, picks, count, outputs, frames, dictionary, octets, ZERO,
            size, shown, rows, needed, path, scratch, out,
        )  # fmt: skip
        if not complete:
            result = ZERO + stretches.REFUSED
        for i in range(rows, rows + size):
            out[columns * needed + i] = 1
        rows += size
    if result != DONE:
        _take_back(
            plan, op, arena, path, dictionary, octets, memory, keyed, strides, sorted_forms, changed, changes, n, each,
            sums, done,
        )  # fmt: skip
        return ZERO + _NOT_BEGUN, start, needed, ZERO
    return rows, start, needed, 1 + ZERO


@device
def apply_over(plan, op, secret, dictionary, octets, memory, free, state, blocks, slots, grown):
    """Applies a net, and makes the block of the rows whose values change, a net, in the memory from word ``free`` on.

    Returns the next free word, or -1 with the stage unchanged if there is no room for the rows, the budget is used up,
    a deleted row is absent, a sum leaves its type, or only Python computes some value. ``grown``: the words that other
    parts of the program have taken during the call, which count against the budget. O(log n) per tuple, O(1) per row.
    """
    at, net = plan[op + STATE], blocks + BLOCK_WORDS * plan[op + O_NET]
    arena = words_at(state[at + OS_ARENA], state[at + OS_ARENA_WORDS])
    path = words_at(state[at + OS_PATH], state[at + OS_PATH_WORDS])
    n, width, columns, k = state[net + B_TUPLES], plan[op + O_WIDTH], plan[op + W_COLUMNS], plan[op + O_KEY_COUNT]
    forms, weights, forms_at = beyond(memory, state[net + B_FORMS]), beyond(memory, state[net + B_WEIGHTS]), free
    keys, strides = beyond(memory, forms[1]), beyond(memory, free + 2 * columns)
    keyed = beyond(strides, width)
    each, numbers = beyond(keyed, k), max(n, width, columns)
    free += 2 * columns + width + k + numbers
    for i in range(numbers):
        each[i] = i
    for j in range(width):
        strides[j] = j * n  # the columns of a net are adjacent
    for j in range(k):
        keyed[j] = strides[plan[plan[op + O_KEYS_AT] + j]]
    rows, start, stride, nets, steps = ZERO, free, ZERO, ZERO, arena[H_STEPS]
    if n > 0:
        arena[H_BUDGET] -= grown
        if plan[op + W_RUNNING] == 0:
            rows, start, stride, nets = _pick(
                plan, op, arena, path, dictionary, octets, memory, keyed, strides, forms, keys, weights, n, each, free,
                state, at,
            )  # fmt: skip
        else:
            rows, start, stride, nets = _run(
                plan, op, secret, arena, path, dictionary, octets, memory, keyed, strides, forms, keys, weights, n,
                each, free, state, at, slots,
            )  # fmt: skip
        arena[H_BUDGET] += grown
        if rows < 0:
            arena[H_STEPS] = steps
            return rows
    free = start + (columns + 1) * stride
    if nets == 1 and rows > 0:
        out = beyond(memory, start)
        signs, start = beyond(out, columns * stride), free + rows
        rows = net_tuples(
            out, stride, each, columns, signs, rows, secret, slots, memory, free, beyond(memory, start), True
        )
        stride = rows
        free = start + (columns + 1) * rows
    output, forms = blocks + BLOCK_WORDS * plan[op + O_OUTPUT], beyond(memory, forms_at)
    for j in range(columns):
        forms[2 * j], forms[2 * j + 1] = plan[plan[op + O_FORMS_AT] + j], start + j * stride
    state[output + B_TUPLES], state[output + B_NULLS], state[output + B_FORMS] = rows, 1, forms_at
    state[output + B_WEIGHTS], state[output + B_WEIGHT_SUM] = start + columns * stride, 0
    return free
