"""Look-ahead: prefetches the memory that the next rows of a batch need while one row is applied.

A change is a chain of dependent cache misses: slot of the hash table, record, list, the row that moves in a list. A
batch knows all its keys in advance, so the chains of several rows are followed at once, one link per stage: the farther
ahead a row is, the earlier the link. Each key is hashed once, when its tuple is ``FAR`` ahead; its tag is stored in a
ring of ``RING`` tuples in the scratch array. A prefetch is a hint: a row that is read may have changed when it is
applied, but the row itself does not move, and neither do the groups that it references.
"""

from __future__ import annotations

from crown.engine.kernels.groups import child_at, lookup_at, node_at, note_of, own_group
from crown.engine.kernels.layout import (
    I_KEY,
    I_TABLE,
    I_WORDS,
    LOOKUP_INDEX,
    LOOKUP_POS,
    N_CARRIED,
    N_CHILDREN,
    N_EXTRA,
    N_FREE,
    N_KEY,
    N_LOOKUPS,
    N_OFFSET,
    N_PARENT,
    N_SHIFT,
    P_COUNT,
    P_IDENTITY,
    R_ALIASES,
    R_LOOKUPS,
    R_NODES,
    R_TABLE,
    R_WIDTH,
    R_WORDS,
    RING,
    X_FOUND,
    X_READY,
    X_RING,
    X_STRIDE,
)
from crown.kernels.jit import device
from crown.kernels.memory.arena import COUNTED, ONE, PLAIN, ZERO, at32
from crown.kernels.memory.geometry import (
    CHILDREN,
    OWN_LINK,
    UNREAD,
    carried_base,
    carries_words,
    children_base,
    children_count,
    children_field,
    last_group_word,
    link_of,
    linked_group,
    linked_position,
    parents_base,
    parents_count,
    row_place,
)
from crown.kernels.memory.pointers import prefetch
from crown.kernels.memory.tables import LOW32, hash_key, slot_of, tagged

FAR, MIDDLE, NEAR, SOON, NEXT, LAST = 12, 8, 5, 3, 2, 1
ROWS, GROUPS = ZERO, ONE  # what is prefetched of parents
LINE = 8  # words of a cache line
PARENTS = 4  # number of parents prefetched for a group whose key is inserted or deleted


@device
def ring_at(scratch, i):
    """Returns the position of the tag of tuple ``i``; those of its look-ups follow."""
    return scratch[X_RING] + (i & (RING - 1)) * scratch[X_STRIDE]


@device
def spare_tags(scratch):
    """Returns the position of the tags of the look-ups of a row that is not a tuple of the batch."""
    return scratch[X_RING] + RING * scratch[X_STRIDE]


@device
def nothing_found(ctx, rec, which):
    """Clears the bundles that a record of ``rec`` has looked up. Returns their position.

    ``which``: 0 for a tuple of the batch, 1 for a virtual row.
    """
    plan, scratch = ctx.plan, ctx.scratch
    found = found_at(plan, scratch, which)
    for i in range(found, found + plan[rec + R_LOOKUPS]):
        scratch[i] = 0
    return found


@device
def found_at(plan, scratch, which):
    """Returns the position of the bundles that have been looked up."""
    return scratch[X_FOUND] + 2 * plan[P_COUNT] * which


@device
def tag_groups(ctx, rec, src, base, at):
    """Writes the tags of the look-ups of a record with values ``src[base ...]`` to ``scratch[at ...]``."""
    arena, plan, scratch = ctx.arena, ctx.plan, ctx.scratch
    for i in range(plan[rec + R_LOOKUPS]):
        look = lookup_at(plan, rec, i)
        k = plan[plan[look + LOOKUP_INDEX] + I_KEY]
        scratch[at + i] = hash_key(arena, plan, plan[look + LOOKUP_POS], k, src, base)


@device
def _record_ahead(ctx, t, i):
    """Returns the record of tuple ``i`` in table ``t`` by its tag alone, or 0."""
    at = ring_at(ctx.scratch, i)
    return tagged(ctx.arena, t, ctx.scratch[at], ctx.scratch, note_of(ctx.scratch, at))


@device
def _fetch(arena, handle, last):
    """Prefetches a small record, from its first word to word ``last``, since it may span two lines."""
    prefetch(arena, handle)
    prefetch(arena, handle + last)


@device
def _fetch_group(ctx, d, g):
    """Prefetches a group above the node with descriptor ``d``, since it may span two lines."""
    k = ctx.plan[d + N_KEY]
    prefetch(ctx.arena, children_field(g, k))
    prefetch(ctx.arena, last_group_word(g, k) + ctx.plan[d + N_EXTRA])


@device
def _group_ahead(ctx, rec, d, node_of_edge, q, at):
    """Returns group ``q`` (see ``bundle_of``) of a tuple with tags at ``at`` by its tag alone, or 0."""
    arena, plan, scratch = ctx.arena, ctx.plan, ctx.scratch
    i = plan[plan[d + N_LOOKUPS] + q]
    index = plan[lookup_at(plan, rec, i) + LOOKUP_INDEX]
    bundle = tagged(arena, plan[index + I_TABLE], scratch[at + 1 + i], scratch, note_of(scratch, at + 1 + i))
    if bundle == 0:
        return 0
    return bundle + plan[node_of_edge + N_SHIFT]


@device
def _fetch_carried(ctx, field, carried, at, last):
    """Prefetches two of the carried values of the children list with field ``field``."""
    first = carried_base(ctx.halves, field, CHILDREN, carried)
    if carries_words(ctx.halves, field, CHILDREN):
        prefetch(ctx.arena, first + at)
        prefetch(ctx.arena, first + last)
    else:
        prefetch(ctx.halves, first + at)
        prefetch(ctx.halves, first + last)


@device
def _fetch_children_end(ctx, g, k, carried):
    """Prefetches the end of a group's children list, where the next entry is written."""
    halves = ctx.halves
    if g != 0 and carried != COUNTED:
        n = children_count(halves, g, k)
        prefetch(halves, children_base(halves, g, k, carried) + n)
        if carried != PLAIN:
            _fetch_carried(ctx, children_field(g, k), carried, n, n)


@device
def _fetch_parents_end(halves, g, k):
    """Prefetches the end of a group's parents list."""
    if g != 0:
        prefetch(halves, parents_base(halves, g, k) + parents_count(halves, g, k))


@device
def _publishes_to_bound_rows(plan, d):
    """Returns True for a leaf whose parents are rows of a bound node: there are many, and each updates its own
    group."""
    return plan[d + N_CHILDREN] == 0 and plan[d + N_PARENT] >= 0 and plan[node_at(plan[d + N_PARENT]) + N_FREE] == 0


@device
def _fetch_parents(ctx, d, g, children, start, target):
    """Prefetches parents of a group above a leaf, from entry ``start``, or the groups above them.

    Does so only if the group has ``children`` children: the leaf's row then inserts or deletes its key in all parents.
    """
    arena, halves = ctx.arena, ctx.halves
    k = ctx.plan[d + N_KEY]
    if g == 0 or children_count(halves, g, k) != children:
        return
    base = parents_base(halves, g, k)
    for x in range(start, min(start + PARENTS, parents_count(halves, g, k))):
        row = at32(halves, base + x)
        if target == ROWS:
            prefetch(arena, row)
        else:
            dp = node_at(ctx.plan[d + N_PARENT])
            _fetch_group(ctx, dp, own_group(ctx, dp, row))


@device
def _ahead_flips_insert(ctx, rec, at, target):
    """Prefetches the parents that are updated if the tuple with tags at ``at`` inserts keys."""
    plan = ctx.plan
    nodes = plan[rec + R_NODES]
    for q in range(nodes, nodes + plan[rec + R_ALIASES]):
        d = node_at(plan[q])
        if _publishes_to_bound_rows(plan, d):
            _fetch_parents(ctx, d, _group_ahead(ctx, rec, d, d, ZERO, at), ZERO, ZERO, target)


@device
def _ahead_flips_delete(ctx, rec, record, target):
    """Prefetches the parents that are updated if a record's deletion deletes keys."""
    halves, plan = ctx.halves, ctx.plan
    nodes = plan[rec + R_NODES]
    for q in range(nodes, nodes + plan[rec + R_ALIASES]):
        d = node_at(plan[q])
        if _publishes_to_bound_rows(plan, d):
            row = record + plan[d + N_OFFSET]
            if row_place(halves, row) != UNREAD:
                g = own_group(ctx, d, row)
                start = max(parents_count(halves, g, plan[d + N_KEY]) - PARENTS, ZERO)
                _fetch_parents(ctx, d, g, ONE, start, target)


@device
def ahead_insert(ctx, rec, rows, n, i, ring):
    """Runs the stages for insertions into the records of ``rec`` when tuple ``i`` of ``n`` is about to be applied."""
    arena, halves, plan, scratch = ctx.arena, ctx.halves, ctx.plan, ctx.scratch
    width = plan[rec + R_WIDTH]
    aliases = plan[rec + R_ALIASES]
    nodes = plan[rec + R_NODES]
    ready = scratch[X_READY]
    lookups = plan[rec + R_LOOKUPS]
    while ready < n and ready <= i + FAR:
        at = ring_at(scratch, ready)
        scratch[at] = hash_key(arena, plan, plan[P_IDENTITY], width, rows, ready * width)
        prefetch(arena, slot_of(arena, plan[rec + R_TABLE], scratch[at]))
        tag_groups(ctx, rec, rows, ready * width, at + 1)
        for q in range(lookups):
            index = plan[lookup_at(plan, rec, q) + LOOKUP_INDEX]
            prefetch(arena, slot_of(arena, plan[index + I_TABLE], scratch[at + 1 + q]))
        ready += 1
    scratch[X_READY] = ready
    if i + MIDDLE < n:
        at = ring_at(scratch, i + MIDDLE)
        for q in range(lookups):
            index = plan[lookup_at(plan, rec, q) + LOOKUP_INDEX]
            bundle = tagged(arena, plan[index + I_TABLE], scratch[at + 1 + q], scratch, note_of(scratch, at + 1 + q))
            for w in range(bundle, bundle + plan[index + I_WORDS], LINE):
                prefetch(arena, w)
            prefetch(arena, bundle + plan[index + I_WORDS] - 1)
    if i + NEAR < n:
        at = ring_at(scratch, i + NEAR)
        for q in range(nodes, nodes + aliases):
            d = node_at(plan[q])
            if plan[d + N_PARENT] >= 0:
                g = _group_ahead(ctx, rec, d, d, ZERO, at)
                _fetch_children_end(ctx, g, plan[d + N_KEY], plan[d + N_CARRIED])
            for j in range(plan[d + N_CHILDREN]):
                dc = node_at(child_at(plan, d, j))
                _fetch_parents_end(halves, _group_ahead(ctx, rec, d, dc, 1 + j, at), plan[dc + N_KEY])
    if ring is not None:
        if i + SOON < n:
            _ahead_flips_insert(ctx, rec, ring_at(scratch, i + SOON), ROWS)
        if i + LAST < n:
            _ahead_flips_insert(ctx, rec, ring_at(scratch, i + LAST), GROUPS)


@device
def _fetch_entries(entries, base, at, n):
    """Prefetches entry ``at`` of a list of length ``n``, and its last entry, which will take its place."""
    prefetch(entries, base + at)
    prefetch(entries, base + n - 1)


@device
def _ahead_moves(ctx, rec, record):
    """Prefetches the rows that will take the places of a record's rows in their lists, since their positions are
    written."""
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    nodes = plan[rec + R_NODES]
    for q in range(nodes, nodes + plan[rec + R_ALIASES]):
        d = node_at(plan[q])
        row = record + plan[d + N_OFFSET]
        if row_place(halves, row) == UNREAD:
            continue
        g = own_group(ctx, d, row)
        k = plan[d + N_KEY]
        carried = plan[d + N_CARRIED]
        if row_place(halves, row) >= 0 and carried != COUNTED:
            end = children_base(halves, g, k, carried) + children_count(halves, g, k)
            prefetch(arena, at32(halves, end - 1) + OWN_LINK)
        for j in range(plan[d + N_CHILDREN]):
            h = linked_group(halves, row, link_of(j))
            k = plan[node_at(child_at(plan, d, j)) + N_KEY]
            end = parents_base(halves, h, k) + parents_count(halves, h, k)
            prefetch(arena, at32(halves, end - 1) + link_of(j))


@device
def ahead_delete(ctx, rec, rows, n, i, ring):
    """Runs the stages for deletions: slot, record, its groups, the entries of their lists."""
    arena, halves, plan, scratch = ctx.arena, ctx.halves, ctx.plan, ctx.scratch
    width = plan[rec + R_WIDTH]
    t = plan[rec + R_TABLE]
    aliases = plan[rec + R_ALIASES]
    nodes = plan[rec + R_NODES]
    ready = scratch[X_READY]
    while ready < n and ready <= i + FAR:
        at = ring_at(scratch, ready)
        scratch[at] = hash_key(arena, plan, plan[P_IDENTITY], width, rows, ready * width)
        prefetch(arena, slot_of(arena, t, scratch[at]))
        ready += 1
    scratch[X_READY] = ready
    if i + MIDDLE < n:
        _fetch(arena, _record_ahead(ctx, t, i + MIDDLE), plan[rec + R_WORDS] - 1)
    if i + NEAR < n:
        record = _record_ahead(ctx, t, i + NEAR)
        if record != 0:
            for q in range(nodes, nodes + aliases):
                d = node_at(plan[q])
                row = record + plan[d + N_OFFSET]
                if row_place(halves, row) != UNREAD:
                    _fetch_group(ctx, d, own_group(ctx, d, row))
                    for j in range(plan[d + N_CHILDREN]):
                        dc = node_at(child_at(plan, d, j))
                        _fetch_group(ctx, dc, linked_group(halves, row, link_of(j)))
    if i + NEXT < n:
        record = _record_ahead(ctx, t, i + NEXT)
        if record != 0:
            for q in range(nodes, nodes + aliases):
                d = node_at(plan[q])
                row = record + plan[d + N_OFFSET]
                if row_place(halves, row) != UNREAD:
                    g = own_group(ctx, d, row)
                    k = plan[d + N_KEY]
                    at = row_place(halves, row)
                    carried = plan[d + N_CARRIED]
                    if at >= 0 and carried != COUNTED:
                        size = children_count(halves, g, k)
                        _fetch_entries(halves, children_base(halves, g, k, carried), at, size)
                        if carried != PLAIN:
                            _fetch_carried(ctx, children_field(g, k), carried, at, size - 1)
                    for j in range(plan[d + N_CHILDREN]):
                        h = linked_group(halves, row, link_of(j))
                        k = plan[node_at(child_at(plan, d, j)) + N_KEY]
                        at = linked_position(halves, row, link_of(j))
                        _fetch_entries(halves, parents_base(halves, h, k), at, parents_count(halves, h, k))
    if i + LAST < n:
        record = _record_ahead(ctx, t, i + LAST)
        if record != 0:
            _ahead_moves(ctx, rec, record)
    if ring is not None:
        if i + SOON < n:
            record = _record_ahead(ctx, t, i + SOON)
            if record != 0:
                _ahead_flips_delete(ctx, rec, record, ROWS)
        if i + LAST < n:
            record = _record_ahead(ctx, t, i + LAST)
            if record != 0:
                _ahead_flips_delete(ctx, rec, record, GROUPS)


@device
def ahead_by_key(ctx, at, k, rows, base, remaining, width):
    """Prefetches, for the tuples after the one at ``base``, the slots and bundles that look-up ``at`` reads.
    ``remaining``: the number of these tuples."""
    arena, plan = ctx.arena, ctx.plan
    pos, t = plan[at + LOOKUP_POS], plan[plan[at + LOOKUP_INDEX] + I_TABLE]
    if remaining > 2 * MIDDLE:
        prefetch(arena, slot_of(arena, t, hash_key(arena, plan, pos, k, rows, base + 2 * MIDDLE * width)))
    if remaining > MIDDLE:
        tag = hash_key(arena, plan, pos, k, rows, base + MIDDLE * width)
        prefetch(arena, arena[slot_of(arena, t, tag)] & LOW32)
