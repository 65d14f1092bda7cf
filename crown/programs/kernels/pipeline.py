"""A whole batch of a linear path in one call: Arrow's memory in, a message of Arrow out.

    scan and conditions -> net -> gate: what deletes find in the base table -> group stage -> message

The operators are those of other programs, each of which has a kernel of its own besides. ``run`` comes back before it
is done where Python has to help, and says where it was. From there on the batch goes the way of other programs: what
the operators before that place have done stands, and the memory has what they made.

A plan is the words ``P_SCAN`` ..., then the plans of the operators, whose places these words say.
"""

from __future__ import annotations

from crown.ingest.kernels.scan import REFUSED, rows_of, scanned
from crown.kernels.arena import H_EMITTED, H_R_UPDATES, H_ROOT, H_ROWS, H_VERSION, ZERO
from crown.kernels.batches import merge, record, write_net
from crown.kernels.jit import device, kernel
from crown.kernels.pointers import beyond, constants, words
from crown.stages.kernels import group_batch as group
from crown.stages.kernels.counts import tallied
from crown.stages.kernels.prefetch import AHEAD

(P_SCAN, P_MOST, P_WIDTH, P_NETS, P_SECRET, P_GATE, P_CLAMPS, P_TABLE, P_GROUP, P_KEYS, P_FORMS, P_SUMS, P_NO_SUMS,
 P_IDENTITY, P_SCRATCH, P_TEMPLATE, P_HEAD, P_COLUMNS, P_LAST, P_ROW, PLAN) = range(21)  # fmt: skip
"""Words of a plan. Of the scan: its plan, the largest weight, the columns that are read. 1 if the gate or the groups
take nets, and the secret of these. Of the gate: its table, or 0, and 1 if no count falls below 0. Of the group stage:
its table, its plan, which columns are its keys, the forms of its inputs, the recipe of its sums, one of none, the
numbers 0, 1, 2, ..., the words of its scratch. Of the message: its template and the words of that, its columns and the
words of these, the words that a row takes at most."""
(R_ROWS, R_NULLS, R_EVENTS, R_CODES, R_WEIGHTS, R_BEFORE, R_GATED, R_WHERE, R_HANDLES, R_SUMS, R_OUT, R_NEEDED, R_ROOM,
 RUN) = range(group.S_END, group.S_END + 14)  # fmt: skip
"""Words of a run, behind those of the batch of the group stage: rows that are read, and if one has a NULL; events;
where in the memory their codes and weights are, the copies before, of so many events, and what the group stage works
on; the words of the message; for how many groups there is room."""
BAD, GATE, STUCK, MESSAGE, MANY = 20, 21, 22, 23, 24
"""What ``run`` comes back with, besides what a group stage does: the batch is not what it is declared as, and nothing
was done; the gate needs memory, or a delete did not find its row; a group without rows is not empty; all is done but
the message, which needs more room, or has more rows than a record batch takes."""
ALL_DONE = (group.DONE, MESSAGE, MANY)
MOST_ROWS = 1 << 16  # of a record batch


@device
def _room_of_slots(n):
    size = 8
    while size < 2 * n:
        size *= 2
    return size


@device
def _needs_net(weights, n):
    """Returns True if equal tuples may have to be summed, or deletes to be put first."""
    least = 1 + ZERO
    for i in range(n):
        least = min(least, weights[i])
    return least == 0 or (least < 0 and n > 1)


@device
def _netted(plan, memory, at, codes, weights, n, slots):
    """Nets ``n`` tuples, column by column, into the memory from word ``at`` on: weights, then columns; how many."""
    width, size = plan[P_WIDTH], _room_of_slots(n)
    for i in range(size):
        slots[i] = -1
    sums = beyond(memory, at)
    for i in range(n):
        sums[i] = weights[i]
    identity = beyond(plan, plan[P_IDENTITY])
    merge(codes, 1, n, identity, width, sums, n, slots, size, plan[P_SECRET])
    m = ZERO
    for i in range(n):
        m += sums[i] != 0
    write_net(
        codes, 1, n, identity, width, sums, n, beyond(memory, at + 2 * n), 1, m, beyond(memory, at + n)
    )  # fmt: skip
    return m


@device
def _gated(plan, base, memory, at, codes, weights, n, state):
    """Counts tuples in the base table, from word ``at`` of the memory on. Returns True if all deletes found theirs."""
    width = plan[P_WIDTH]
    before, leaf, strides = beyond(memory, at), beyond(memory, at + n), beyond(memory, at + 2 * n)
    tags = beyond(memory, at + 2 * n + width)
    for j in range(width):
        strides[j] = j * n
    for i in range(n):
        leaf[i] = 0
    state[R_BEFORE] = at
    state[R_GATED] = tallied(
        base, plan[P_GATE], strides, width, 1, codes, leaf, weights, n, plan[P_CLAMPS], before, tags, ZERO
    )
    if state[R_GATED] < n:
        return False
    least = ZERO
    if plan[P_CLAMPS] == 1:
        for i in range(n):
            least = min(least, before[i] + weights[i])
    return least >= 0


@device
def _grouped(plan, dictionary, arena, memory, at, codes, weights, n, state):
    """Applies events to the groups, from word ``at`` of the memory on: what ``group_batch.advance`` returns."""
    of = beyond(plan, plan[P_GROUP])
    k, width, columns = of[group.P_KEYS], of[group.P_SUMS], of[group.P_COLUMNS]
    room = state[R_ROOM]
    strides, where, handles = beyond(memory, at), beyond(memory, at + k), beyond(memory, at + k + n)
    for j in range(k):
        strides[j] = plan[plan[P_KEYS] + j] * n
    state[R_WHERE], state[R_HANDLES] = at + k, at + k + n
    state[R_SUMS] = at + k + n + max(n, 1)
    state[R_OUT] = state[R_SUMS] + 2 * room * width
    for x in range(group.S_END):
        state[x] = 0
    if of[group.P_WHOLE] == 1:
        state[group.S_GROUPS], state[group.S_BEFORE], state[group.S_AFTER] = 1, arena[H_VERSION] > 0, 1
        handles[0] = arena[H_ROOT]
        for i in range(n):
            where[i] = 0
    none, recipe = beyond(memory, ZERO), beyond(plan, plan[P_NO_SUMS])
    found = group.advance(
        arena, plan[P_TABLE], of, beyond(plan, plan[P_IDENTITY]), state, strides, codes, weights, n, codes,
        beyond(plan, plan[P_FORMS]), none, dictionary, none, 1, beyond(plan, plan[P_SUMS]), recipe,
        beyond(memory, ZERO), where, n, handles, none, none, False, beyond(memory, state[R_SUMS]), 2 * room * width,
        beyond(memory, state[R_OUT]), 2 * room * (columns + 1),
    )  # fmt: skip
    if found != group.DONE:
        return found
    if state[group.S_AT] >= 0:
        return STUCK
    m = state[group.S_DELTAS]
    arena[H_VERSION] += 1
    arena[H_R_UPDATES] += n
    arena[H_EMITTED] += m
    if arena[H_ROWS] != 0:
        come = state[R_OUT] + columns * m
        for i in range(m):
            arena[H_ROWS] += memory[come + i]
    return group.DONE


@device
def _applied(batch, plan, texts, dictionary, base, arena, memory, state, slots):
    """Applies a batch to the gate and to the groups; ``DONE``, or where it stopped."""
    n, width, at = rows_of(batch), plan[P_WIDTH], plan[P_SCRATCH]
    state[R_WEIGHTS], state[R_CODES] = at, at + 2 * n
    weights, rows, codes = beyond(memory, at), beyond(memory, at + n), beyond(memory, at + 2 * n)
    state[R_GATED], state[group.S_DELTAS], state[group.S_GROUPS] = 0, 0, 0
    found = beyond(state, R_ROWS)
    if scanned(batch, beyond(plan, plan[P_SCAN]), texts, plan[P_MOST], codes, weights, rows, found) == REFUSED:
        return BAD
    k = state[R_ROWS]
    at += (2 + width) * n
    if plan[P_NETS] == 1 and _needs_net(weights, k):
        m = _netted(plan, memory, at, codes, weights, k, slots)
        state[R_WEIGHTS], state[R_CODES] = at + k, at + 2 * k
        weights, codes = beyond(memory, at + k), beyond(memory, at + 2 * k)
        at += (2 + width) * n
        k = m
    state[R_EVENTS] = k
    if plan[P_GATE] != 0:
        if not _gated(plan, base, memory, at, codes, weights, k, state):
            return GATE
        at += 2 * n + width + AHEAD
    if k == 0 and plan[plan[P_GROUP] + group.P_WHOLE] == 0:
        return group.DONE  # a stage that nothing comes to rests
    return _grouped(plan, dictionary, arena, memory, at, codes, weights, k, state)


@kernel("int, bool, const words, const bytes, words, bytes, words, words, words, words, halves, words, bytes")
def run(
    batch, wanted, plan, texts, dictionary, octets, base, arena, memory, state, slots, message, message_octets
):  # fmt: skip
    """Applies an exported record batch with rows, and releases it; ``DONE``, or where it stopped. O(rows * terms).

    ``batch`` 0: it was applied already, but for its ``message``, which is written if it is ``wanted`` and there are
    deltas: its words are ``state[R_NEEDED]``, 0 for none. ``texts``: those that the conditions name; ``dictionary``
    and ``octets``: where its values are; ``base`` and ``arena``: of the base tables and of the group stage; ``memory``:
    room for the run, whose words are ``state``; ``slots``: room for nets.
    """
    plan, texts, dictionary, octets = constants(plan), words(texts), words(dictionary), words(octets)
    room = message.size
    base, arena, memory, state, slots = words(base), words(arena), words(memory), words(state), words(slots)
    message, message_octets = words(message), words(message_octets)
    if batch != 0:
        found = _applied(batch, plan, texts, dictionary, base, arena, memory, state, slots)
        if found != group.DONE:
            return found
    m = state[group.S_DELTAS]
    state[R_NEEDED] = 0
    if not wanted or m == 0:
        return group.DONE
    columns = plan[plan[P_GROUP] + group.P_COLUMNS]
    head, last = plan[P_HEAD], plan[P_LAST]
    if m > MOST_ROWS or head == 0:
        return MANY
    needed = head + m * plan[P_ROW] + columns * (m // 64 + 2)
    state[R_NEEDED] = needed
    if needed > room:
        return MESSAGE
    out = state[R_OUT]
    record(
        dictionary, octets, beyond(memory, out), m, 1, beyond(memory, out + columns * m), m,
        beyond(plan, plan[P_TEMPLATE]), head, beyond(plan, plan[P_COLUMNS]), last, message, message_octets,
    )  # fmt: skip
    return group.DONE
