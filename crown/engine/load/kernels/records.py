"""The records of a batch: every tuple is stored, those that are there already are found, copies are added up.

A record that is new has ``NEW`` in the link of its first row until it gets its groups. One whose tuple is stored twice
is a *double*: it has no copies, in its first row the weight of its tuple, and in the link the record that stays.
"""

from __future__ import annotations

from crown.engine.kernels.layout import (
    P_IDENTITY,
    R_TABLE,
    R_WIDTH,
    R_WORDS,
    X_ALIAS,
    X_CHANGE,
    X_PHASE,
    X_RECORD,
)
from crown.engine.kernels.payload import WEIGHING, reweigh
from crown.engine.kernels.rows import store
from crown.engine.kernels.update import IDLE, MAX_COPIES
from crown.kernels.arena import NONE, ZERO, release
from crown.kernels.geometry import OWN_LINK, copies, row_count, set_copies, set_row_count
from crown.kernels.jit import device
from crown.kernels.pointers import prefetch
from crown.kernels.tables import LOW32, find, insert, remove, slot_of

NEW = NONE
_FAR = 16  # entries: how far before its turn a slot is fetched


@device
def store_all(ctx, rec, rows, weights, start, n, fresh):
    """Stores tuples ``start .. start+n`` as new records; ``fresh[i]`` becomes number and handle of tuple ``i``."""
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    width = plan[rec + R_WIDTH]
    for i in range(n):
        record = store(ctx, rec, rows, (start + i) * width, plan[P_IDENTITY])
        set_copies(halves, record, width, weights[start + i])
        arena[record + width + OWN_LINK] = NEW
        fresh[i] = ((start + i) << 32) | record


@device
def enter_all(ctx, rec, entries, n, total):
    """Enters the records of all entries in their table, but for doubles. Returns False, and changes nothing, if a tuple
    might get more copies than there may be: ``total`` more than it has."""
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    width = plan[rec + R_WIDTH]
    t = plan[rec + R_TABLE]
    identity = plan[P_IDENTITY]
    for i in range(n):
        if i + _FAR < n:
            prefetch(arena, slot_of(arena, t, entries[i + _FAR] >> 32))
        tag = (entries[i] >> 32) & LOW32
        record = entries[i] & LOW32
        there = find(arena, t, tag, plan, identity, width, arena, record)
        if there == 0:
            insert(arena, t, tag, record)
        elif copies(halves, there, width) + total > MAX_COPIES:
            for x in range(i):
                record = entries[x] & LOW32
                if copies(halves, record, width) > 0:
                    remove(arena, t, (entries[x] >> 32) & LOW32, record)
            return False
        else:
            set_row_count(halves, record + width, copies(halves, record, width))
            set_copies(halves, record, width, ZERO)
            arena[record + width + OWN_LINK] = there
    return True


@device
def merge_doubles(ctx, ring, rec, fresh, n, out):
    """Adds the copies of doubles to the records that stay, and leaves only these in ``fresh``; returns how many."""
    arena, halves, plan, scratch = ctx.arena, ctx.halves, ctx.plan, ctx.scratch
    width = plan[rec + R_WIDTH]
    doubles = 0
    for i in range(n):
        record = fresh[i] & LOW32
        if copies(halves, record, width) == 0:
            doubles += 1
            there = arena[record + width + OWN_LINK]
            change = row_count(halves, record + width)
            if ring is None or arena[there + width + OWN_LINK] == NEW:
                set_copies(halves, there, width, copies(halves, there, width) + change)
            else:
                scratch[X_RECORD] = there
                scratch[X_CHANGE] = change
                scratch[X_ALIAS] = 0
                scratch[X_PHASE] = WEIGHING
                reweigh(ctx, ring, rec, out)
                scratch[X_PHASE] = IDLE
    if doubles == 0:
        return n
    m = 0
    for i in range(n):
        record = fresh[i] & LOW32
        if copies(halves, record, width) > 0:
            fresh[m] = fresh[i]
            m += 1
        else:
            release(arena, record, plan[rec + R_WORDS])
    return m


@device
def release_all(ctx, rec, fresh, n):
    """Frees the records, which are in no table."""
    for i in range(n):
        release(ctx.arena, fresh[i] & LOW32, ctx.plan[rec + R_WORDS])
