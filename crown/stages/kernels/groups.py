"""Groups in an arena: one record per key, found once per event, read and written once per batch.

A record of a stage with ``k`` key columns and ``words`` words of state::

    0 .. k-1   the key (codes)
    k          1 + the group's number in the batch that is being applied; 0 between batches
    k+1 ..     the state

A batch works on dense arrays, one row per group it touches: ``locate`` numbers the groups, ``gather`` copies their
state, and ``store`` writes it back. In between nothing of a group changes but its number, so a batch that is refused
leaves no trace but the empty groups that ``abandon`` takes out.

Keys lie in columns: word ``j`` of the key of event ``i`` is ``keys[strides[j] + i]``.
"""

from __future__ import annotations

from crown.kernels.arena import H_BUDGET, H_LIVE, T_CAPACITY, T_SLOTS, alloc, release
from crown.kernels.jit import device, kernel
from crown.kernels.pointers import constants, words
from crown.kernels.tables import LOW32, find, hash_key, insert, make_room, remove
from crown.stages.kernels.prefetch import look_ahead


@device
def record_words(k, state):
    """Returns the number of words of a record."""
    return k + 1 + state


@device
def state_at(k):
    """Returns where the state begins, counted from the record."""
    return k + 1


@kernel("words, int, words, int, table, int, words, words, words")
def locate(arena, t, strides, k, keys, state, where, handles, done):
    """Numbers the groups of events: ``where[i]`` is that of event ``i``'s group, ``handles`` has the groups by number.

    Groups that are not there are made, with zero state. ``done`` (int64[2], zeros at first) counts events and groups.
    Returns True when all events are located, False if the budget is used up; call it again to go on. O(events).
    """
    n = where.size
    arena, strides, keys, where, handles = words(arena), constants(strides), words(keys), words(where), words(handles)
    done = words(done)
    for i in range(done[0], n):
        look_ahead(arena, t, strides, k, keys, i, n)
        tag = hash_key(arena, strides, 0, k, keys, i)
        group = find(arena, t, tag, strides, 0, k, keys, i)
        if group == 0:
            if arena[H_LIVE] > arena[H_BUDGET]:
                return False
            make_room(arena, t)  # before the record: an exhausted arena then leaves nothing half done
            group = alloc(arena, record_words(k, state))
            for j in range(k):
                arena[group + j] = keys[strides[j] + i]
            for j in range(1 + state):
                arena[group + k + j] = 0
            insert(arena, t, tag, group)
        number = arena[group + k]
        if number == 0:
            handles[done[1]] = group
            done[1] += 1
            number = done[1]
            arena[group + k] = number
        where[i] = number - 1
        done[0] = i + 1
    return True


@kernel("words, int, words, int, table, words")
def look_up(arena, t, strides, k, keys, handles):
    """Returns the groups of ``keys``, or 0 where there is none. Changes nothing."""
    n = handles.size
    arena, strides, keys, handles = words(arena), constants(strides), words(keys), words(handles)
    for i in range(n):
        tag = hash_key(arena, strides, 0, k, keys, i)
        handles[i] = find(arena, t, tag, strides, 0, k, keys, i)


@kernel("words, words, int, int, table")
def gather(arena, handles, first, count, out):
    """Copies ``count`` words of each record, from word ``first`` on, to ``out`` (int64[groups, count])."""
    n = handles.size
    arena, handles, out = words(arena), words(handles), words(out)
    for i in range(n):
        for j in range(count):
            out[i * count + j] = arena[handles[i] + first + j]


@device
def _drop(arena, t, identity, k, state, group):
    tag = hash_key(arena, identity, 0, k, arena, group)
    remove(arena, t, tag, group)
    release(arena, group, record_words(k, state))


@kernel("words, int, words, int, int, words, int, table, int")
def store(arena, t, identity, k, state, handles, count, rows, keep):
    """Writes back the first ``count`` words of the state of groups, and frees those that are empty.

    ``rows`` int64[groups, count]; word 0 of a row is the group's COUNT. Empty groups stay if ``keep`` is 1. Returns
    the number of a group whose COUNT is 0 while other words are not, else -1. ``identity`` is 0, 1, 2, ...
    """
    n = handles.size
    arena, identity, handles, rows = words(arena), constants(identity), words(handles), words(rows)
    wrong = -1
    for i in range(n):
        group = handles[i]
        arena[group + k] = 0
        for j in range(count):
            arena[group + k + 1 + j] = rows[i * count + j]
        if rows[i * count] == 0:
            for j in range(state):
                if arena[group + k + 1 + j] != 0:
                    wrong = i
            if keep == 0 and wrong != i:
                _drop(arena, t, identity, k, state, group)
    return wrong


@kernel("words, int, words, int, int, words")
def abandon(arena, t, identity, k, state, handles):
    """Clears the numbers of groups, and frees those whose stored COUNT is 0: the batch has made them."""
    n = handles.size
    arena, identity, handles = words(arena), constants(identity), words(handles)
    for i in range(n):
        group = handles[i]
        arena[group + k] = 0
        if arena[group + k + 1] == 0:
            _drop(arena, t, identity, k, state, group)


@kernel("words, int, int, words")
def scan(arena, t, start, handles):
    """Copies handles of records from slot ``start`` on; returns (next slot or -1, how many).

    Constant amortized delay: a table is at least one eighth full, or minimal.
    """
    n = 0
    slots = arena[t + T_SLOTS]
    for s in range(start, arena[t + T_CAPACITY]):
        word = arena[slots + s]
        if word != 0:
            if n == handles.size:
                return s, n
            handles[n] = word & LOW32
            n += 1
    return -1, n


@kernel("table, flags, words, table, words")
def differing(codes, there, changing, out, weights):
    """Copies the rows of groups that a batch changes, first the old ones with weight -1, then the new ones with 1.

    ``codes`` int64[columns, 2n]: the rows of n groups before, then after; ``there`` bool[2n]: which of them are rows at
    all; ``changing``: the columns that can differ. ``out`` int64[columns, 2n]. Returns how many rows were copied.
    """
    n = there.size // 2
    m = 0
    for after in range(2):
        for i in range(n):
            mine = after * n + i
            other = (1 - after) * n + i
            if not there[mine]:
                continue
            differ = not there[other]
            for c in changing:
                differ |= codes[c, mine] != codes[c, other]
            if differ:
                for c in range(codes.shape[0]):
                    out[c, m] = codes[c, mine]
                weights[m] = 2 * after - 1
                m += 1
    return m
