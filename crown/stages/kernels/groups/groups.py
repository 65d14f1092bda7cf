"""Groups in an arena: one record per key.

A record of a stage with ``k`` key columns and ``words`` words of state::

    0 .. k-1   the key (codes)
    k          1 + the group's number in the batch that is being applied; 0 between batches
    k+1 ..     the state

A batch (``batch``) works on dense arrays, with one row per group. Meanwhile only the number of a group changes, so a
rejected batch leaves no trace except empty groups, which ``abandon`` deletes.
"""

from __future__ import annotations

from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import T_CAPACITY, T_SLOTS, alloc, release
from crown.kernels.memory.pointers import constants, words
from crown.kernels.memory.tables import LOW32, find, hash_key, insert, remove


@device
def record_words(k, state):
    """Returns the words of a record."""
    return k + 1 + state


@device
def state_at(k):
    """Returns the offset of the state from the record."""
    return k + 1


@kernel("words, int, int")
def only(arena, t, state):
    """Makes the only group of an empty table, without key and with zero state, and returns it."""
    group = alloc(arena, record_words(0, state))
    for j in range(record_words(0, state)):
        arena[group + j] = 0
    insert(arena, t, hash_key(arena, arena, 0, 0, arena, group), group)
    return group


@kernel("words, int, words, int, table, words")
def look_up(arena, t, strides, k, keys, handles):
    """Writes the groups of ``keys`` to ``handles``, or 0 if there is none. Changes nothing."""
    n = handles.size
    arena, strides, keys, handles = words(arena), constants(strides), words(keys), words(handles)
    for i in range(n):
        tag = hash_key(arena, strides, 0, k, keys, i)
        handles[i] = find(arena, t, tag, strides, 0, k, keys, i)


@kernel("words, words, int, int, table")
def gather(arena, handles, first, count, out):
    """Copies ``count`` words of each record, from word ``first``, to ``out`` (int64[groups, count])."""
    n = handles.size
    arena, handles, out = words(arena), words(handles), words(out)
    for i in range(n):
        for j in range(count):
            out[i * count + j] = arena[handles[i] + first + j]


@device
def drop(arena, t, identity, k, state, group):
    """Deletes a group."""
    tag = hash_key(arena, identity, 0, k, arena, group)
    remove(arena, t, tag, group)
    release(arena, group, record_words(k, state))


@kernel("words, int, words, int, int, words")
def abandon(arena, t, identity, k, state, handles):
    """Clears the batch numbers of groups, and deletes those whose stored COUNT is 0, which the batch has made."""
    n = handles.size
    arena, identity, handles = words(arena), constants(identity), words(handles)
    for i in range(n):
        group = handles[i]
        arena[group + k] = 0
        if arena[group + k + 1] == 0:
            drop(arena, t, identity, k, state, group)


@kernel("words, int, int, words")
def scan(arena, t, start, handles):
    """Copies handles of records from slot ``start`` on. Returns (next slot or -1, number of handles).

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
