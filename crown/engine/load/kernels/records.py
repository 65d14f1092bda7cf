"""The records of a batch: stores new tuples, finds existing ones, and sums copies.

Rows of a new record have ``NEW`` as their own group until they enter one, and their counts of children are 0. A record
whose tuple is stored already is a *double*: it has no copies, and one of its words has the copies of its tuple and the
record that stays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from crown.engine.kernels.groups import node_at, set_own_group
from crown.engine.kernels.layout import (
    IDLE,
    N_OFFSET,
    P_IDENTITY,
    R_ALIASES,
    R_NODES,
    R_TABLE,
    R_WIDTH,
    R_WORDS,
    X_ALIAS,
    X_CHANGE,
    X_PHASE,
    X_RECORD,
)
from crown.engine.kernels.payloads.payload import WEIGHING, reweigh, weigh
from crown.engine.kernels.rows import store
from crown.engine.kernels.update import MAX_COPIES
from crown.engine.load.kernels.partition import reads
from crown.kernels.jit import device
from crown.kernels.memory.arena import NONE, ZERO, align, release
from crown.kernels.memory.geometry import OWN_LINK, UNREAD, copies, place_outside, row_group, set_copies, set_row_place
from crown.kernels.memory.pointers import prefetch
from crown.kernels.memory.tables import LOW32, find, hash_key, insert, remove, slot_of

NEW = NONE
_FAR = 16  # entries: how far ahead a slot, or a tuple, is prefetched


class Inserted(NamedTuple):
    """The inserted tuples, from number ``start``. Kernels pass it in registers."""

    rows: Any  # tuples, row by row
    weights: Any  # copies of a tuple
    masks: Any  # the aliases that read a tuple
    masked: Any  # False if all aliases read all tuples
    start: Any


@device
def store_all(ctx, ring, rec, batch, entries, n, fresh):
    """Stores tuples as new records, in the order of ``entries``, with rows that are in no group yet.

    ``fresh[i]`` becomes ``mask << 32 | record``, ``entries[i]`` the record's entry for its table. O(n).
    """
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    rows, weights = batch.rows, batch.weights
    width = plan[rec + R_WIDTH]
    identity = plan[P_IDENTITY]
    align(arena)
    for i in range(n):
        if i + _FAR < n:
            ahead = entries[i + _FAR] & LOW32
            prefetch(rows, ahead * width)
            prefetch(weights, ahead)
        number = entries[i] & LOW32
        record = store(ctx, rec, rows, number * width, identity)
        for q in range(plan[rec + R_ALIASES]):
            d = node_at(plan[plan[rec + R_NODES] + q])
            row = record + plan[d + N_OFFSET]
            set_own_group(ctx, d, row, NEW)
            set_row_place(halves, row, place_outside(ZERO))
        set_copies(halves, record, width, weights[number])
        weigh_rows(ctx, ring, rec, record)
        mask = batch.masks[number] if batch.masked else NONE
        fresh[i] = (mask << 32) | record
        entries[i] = (hash_key(arena, plan, identity, width, arena, record) << 32) | record


@device
def weigh_rows(ctx, ring, rec, record):
    """Accounts for all rows of a new record with its copies."""
    if ring is None:
        return
    plan = ctx.plan
    weight = copies(ctx.halves, record, plan[rec + R_WIDTH])
    for q in range(plan[rec + R_ALIASES]):
        weigh(ctx, ring, record + plan[node_at(plan[plan[rec + R_NODES] + q]) + N_OFFSET], weight)


@device
def _double_word(record, width):
    """Returns the word of a double that identifies the record that stays: a value, or its row's link if it has no
    value."""
    if width == 0:
        return record + OWN_LINK
    return record


@device
def enter_all(ctx, rec, fresh, entries, n, total):
    """Inserts the records of all entries into their table, except doubles. Returns the number of doubles.

    The first of ``entries`` are then the positions of doubles in ``fresh``. Returns -1, with nothing changed, if a
    tuple might get too many copies: ``total`` more than it has.
    """
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    width = plan[rec + R_WIDTH]
    t = plan[rec + R_TABLE]
    identity = plan[P_IDENTITY]
    doubles = 0
    for i in range(n):
        if i + _FAR < n:
            prefetch(arena, slot_of(arena, t, entries[i + _FAR] >> 32))
        tag = (entries[i] >> 32) & LOW32
        record = entries[i] & LOW32
        existing = find(arena, t, tag, plan, identity, width, arena, record)
        if existing == 0:
            insert(arena, t, tag, record)
        elif copies(halves, existing, width) + total > MAX_COPIES:
            for x in range(i):
                record = fresh[x] & LOW32
                if copies(halves, record, width) > 0:
                    remove(arena, t, hash_key(arena, plan, identity, width, arena, record), record)
            return NONE
        else:
            arena[_double_word(record, width)] = (copies(halves, record, width) << 32) | existing
            set_copies(halves, record, width, ZERO)
            entries[doubles] = i
            doubles += 1
    return doubles


@device
def merge_doubles(ctx, ring, rec, doubles, number, fresh, n, out):
    """Adds the copies of doubles to the records that stay, and removes the doubles from ``fresh``. Returns the
    remaining number.

    ``doubles``: their positions, ascending. ``number``: how many they are, at least 1.
    """
    arena, halves, plan, scratch = ctx.arena, ctx.halves, ctx.plan, ctx.scratch
    width = plan[rec + R_WIDTH]
    for x in range(number):
        record = fresh[doubles[x]] & LOW32
        existing = arena[_double_word(record, width)] & LOW32
        change = arena[_double_word(record, width)] >> 32
        fresh[doubles[x]] = 0
        release(arena, record, plan[rec + R_WORDS])
        if ring is None or row_group(halves, existing + width) == NEW:
            set_copies(halves, existing, width, copies(halves, existing, width) + change)
            weigh_rows(ctx, ring, rec, existing)
        else:
            scratch[X_RECORD] = existing
            scratch[X_CHANGE] = change
            scratch[X_ALIAS] = 0
            scratch[X_PHASE] = WEIGHING
            reweigh(ctx, ring, rec, out)
            scratch[X_PHASE] = IDLE
    m = doubles[0]
    for i in range(m, n):
        if fresh[i] != 0:
            fresh[m] = fresh[i]
            m += 1
    return m


@device
def leave_out(ctx, rec, fresh, n):
    """Sets the place of rows whose alias does not read the record to ``UNREAD``."""
    plan = ctx.plan
    for i in range(n):
        for q in range(plan[rec + R_ALIASES]):
            if not reads(fresh[i], q):
                d = node_at(plan[plan[rec + R_NODES] + q])
                row = (fresh[i] & LOW32) + plan[d + N_OFFSET]
                set_own_group(ctx, d, row, ZERO)
                set_row_place(ctx.halves, row, UNREAD)


@device
def release_all(ctx, rec, fresh, n):
    """Frees the records, which are in no table."""
    for i in range(n):
        release(ctx.arena, fresh[i] & LOW32, ctx.plan[rec + R_WORDS])
