"""Look-ahead: prefetches the memory that the next rows of a batch need while one row is applied.

A change is a chain of dependent cache misses: slot of the hash table, record, list, the row that moves in a list. A
batch knows all its keys in advance, so the chains of several rows are followed at once, one link per stage: the farther
ahead a row is, the earlier the link. Each key is hashed once, when its tuple is ``FAR`` ahead; its tag is stored in a
ring of ``RING`` tuples in the scratch array. A prefetch is a hint: a row that is read may have changed when it is
applied, but the row itself does not move, and neither do the groups that it references.

A state of at most ``P_CACHED`` words is in the caches of the processor anyway. Then only the keys are hashed.
"""

from __future__ import annotations

from crown.engine.kernels.groups import child_at, lookup_at, node_at, note_of, own_group
from crown.engine.kernels.layout import (
    I_TABLE,
    I_WORDS,
    IDLE,
    LOOKUP_INDEX,
    LOOKUP_POS,
    N_CARRIED,
    N_CHILDREN,
    N_EXTRA,
    N_INDEX,
    N_KEY,
    N_LOOKUPS,
    N_OFFSET,
    N_PARENT,
    N_REFERENCES,
    N_SHIFT,
    P_CACHED,
    P_IDENTITY,
    R_ALIASES,
    R_LOOKUPS,
    R_NODES,
    R_TABLE,
    R_WIDTH,
    R_WORDS,
    X_I,
    X_PHASE,
    X_READY,
)
from crown.engine.kernels.tags import ring_at, tag_groups
from crown.kernels.jit import device
from crown.kernels.memory.arena import COUNTED, H_LIVE, ONE, PLAIN, ZERO, at32
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
    references,
    row_place,
)
from crown.kernels.memory.pointers import prefetch
from crown.kernels.memory.tables import LOW32, hash_key, slot_of, tagged

FAR, MIDDLE, NEAR, SOON, NEXT, LAST = 12, 8, 5, 3, 2, 1
ROWS, GROUPS = ZERO, ONE  # what is prefetched of parents
LINE = 8  # words of a cache line
FEW = 3  # rows of a group that are probably deleted together
PARENTS = 4  # number of parents prefetched for a group whose key is inserted or deleted


@device
def _first(scratch):
    """Returns the first tuple whose change has not begun."""
    return scratch[X_I] + (scratch[X_PHASE] != IDLE)


@device
def _is_cached(ctx):
    """Returns True if the state probably is in the caches of the processor."""
    return ctx.arena[H_LIVE] <= ctx.plan[P_CACHED]


@device
def _fetch_slots(arena, t, tag):
    """Prefetches the home slot of a tag, and the next line if the search probably ends there."""
    s = slot_of(arena, t, tag)
    prefetch(arena, s)
    prefetch(arena, s + LINE // 2)


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
def _has_grandparent(plan, d):
    """Returns True if the rows above the node with descriptor ``d`` are in groups."""
    parent = plan[d + N_PARENT]
    return parent >= 0 and plan[node_at(parent) + N_PARENT] >= 0


@device
def _fetch_parents(ctx, d, g, most, start, target):
    """Prefetches parents of group ``g``, from entry ``start``, or the groups above them.

    Does so only if the group has at most ``most`` children: a row below it then probably inserts or deletes its key in
    all parents.
    """
    arena, halves = ctx.arena, ctx.halves
    k = ctx.plan[d + N_KEY]
    if g == 0 or children_count(halves, g, k) > most:
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
def _fetch_last_parents(ctx, d, g, target):
    """Prefetches what a deletion from group ``g`` needs of its parents, if it has few children."""
    start = max(parents_count(ctx.halves, g, ctx.plan[d + N_KEY]) - PARENTS, ZERO)
    _fetch_parents(ctx, d, g, ZERO + FEW, start, target)


@device
def begin_insert(ctx, rec, rows, n):
    """Runs the stages for the first tuples, so that these do not wait for memory one after the other.

    Returns the first tuple of a batch of ``n`` whose change has not begun.
    """
    first = _first(ctx.scratch)
    ctx.scratch[X_READY] = first
    if first + 1 < n and not _is_cached(ctx):
        for i in range(first - FAR, first):
            ahead_insert(ctx, rec, rows, first, n, i)
    return first


@device
def ahead_insert(ctx, rec, rows, first, n, i):
    """Runs the stages for insertions into the records of ``rec`` when tuple ``i`` of ``n`` is about to be applied.

    ``first``: what ``begin_insert`` returned.
    """
    arena, halves, plan, scratch = ctx.arena, ctx.halves, ctx.plan, ctx.scratch
    width = plan[rec + R_WIDTH]
    aliases = plan[rec + R_ALIASES]
    nodes = plan[rec + R_NODES]
    ready = scratch[X_READY]
    lookups = plan[rec + R_LOOKUPS]
    while ready < n and ready <= i + FAR:
        at = ring_at(scratch, ready)
        scratch[at] = hash_key(arena, plan, plan[P_IDENTITY], width, rows, ready * width)
        _fetch_slots(arena, plan[rec + R_TABLE], scratch[at])
        tag_groups(ctx, rec, rows, ready * width, at + 1)
        for q in range(lookups):
            index = plan[lookup_at(plan, rec, q) + LOOKUP_INDEX]
            _fetch_slots(arena, plan[index + I_TABLE], scratch[at + 1 + q])
        ready += 1
    scratch[X_READY] = ready
    if _is_cached(ctx):
        return
    if first <= i + MIDDLE < n:
        at = ring_at(scratch, i + MIDDLE)
        for q in range(lookups):
            index = plan[lookup_at(plan, rec, q) + LOOKUP_INDEX]
            bundle = tagged(arena, plan[index + I_TABLE], scratch[at + 1 + q], scratch, note_of(scratch, at + 1 + q))
            for w in range(bundle, bundle + plan[index + I_WORDS], LINE):
                prefetch(arena, w)
            prefetch(arena, bundle + plan[index + I_WORDS] - 1)
    if first <= i + NEAR < n:
        at = ring_at(scratch, i + NEAR)
        for q in range(nodes, nodes + aliases):
            d = node_at(plan[q])
            if plan[d + N_PARENT] >= 0:
                g = _group_ahead(ctx, rec, d, d, ZERO, at)
                _fetch_children_end(ctx, g, plan[d + N_KEY], plan[d + N_CARRIED])
                _fetch_parents(ctx, d, g, ZERO, ZERO, ROWS)
            for j in range(plan[d + N_CHILDREN]):
                dc = node_at(child_at(plan, d, j))
                _fetch_parents_end(halves, _group_ahead(ctx, rec, d, dc, 1 + j, at), plan[dc + N_KEY])
    if first <= i + SOON < n:
        at = ring_at(scratch, i + SOON)
        for q in range(nodes, nodes + aliases):
            d = node_at(plan[q])
            if _has_grandparent(plan, d):
                _fetch_parents(ctx, d, _group_ahead(ctx, rec, d, d, ZERO, at), ZERO, ZERO, GROUPS)


@device
def _fetch_slot_of_small(ctx, d, g):
    """Prefetches the slot of group ``g`` above the node with descriptor ``d`` if few rows reference it: it is then
    probably dropped with them."""
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    k = plan[d + N_KEY]
    if parents_count(halves, g, k) + references(halves, g, k, plan[d + N_REFERENCES]) <= FEW:
        tag = hash_key(arena, plan, plan[P_IDENTITY], k, arena, g - plan[d + N_SHIFT])
        _fetch_slots(arena, plan[plan[d + N_INDEX] + I_TABLE], tag)


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
        if _has_grandparent(plan, d):
            _fetch_last_parents(ctx, d, g, GROUPS)
        for j in range(plan[d + N_CHILDREN]):
            h = linked_group(halves, row, link_of(j))
            k = plan[node_at(child_at(plan, d, j)) + N_KEY]
            end = parents_base(halves, h, k) + parents_count(halves, h, k)
            prefetch(arena, at32(halves, end - 1) + link_of(j))


@device
def begin_delete(ctx, rec, rows, n):
    """Does what ``begin_insert`` does, for deletions."""
    first = _first(ctx.scratch)
    ctx.scratch[X_READY] = first
    if first + 1 < n and not _is_cached(ctx):
        for i in range(first - FAR, first):
            ahead_delete(ctx, rec, rows, first, n, i)
    return first


@device
def ahead_delete(ctx, rec, rows, first, n, i):
    """Runs the stages for deletions: slot, record, its groups, the entries of their lists. See ``ahead_insert``."""
    arena, halves, plan, scratch = ctx.arena, ctx.halves, ctx.plan, ctx.scratch
    width = plan[rec + R_WIDTH]
    t = plan[rec + R_TABLE]
    aliases = plan[rec + R_ALIASES]
    nodes = plan[rec + R_NODES]
    ready = scratch[X_READY]
    while ready < n and ready <= i + FAR:
        at = ring_at(scratch, ready)
        scratch[at] = hash_key(arena, plan, plan[P_IDENTITY], width, rows, ready * width)
        _fetch_slots(arena, t, scratch[at])
        ready += 1
    scratch[X_READY] = ready
    if _is_cached(ctx):
        return
    if first <= i + MIDDLE < n:
        _fetch(arena, _record_ahead(ctx, t, i + MIDDLE), plan[rec + R_WORDS] - 1)
    if first <= i + NEAR < n:
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
    if first <= i + NEXT < n:
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
                    if plan[d + N_PARENT] >= 0:
                        _fetch_last_parents(ctx, d, g, ROWS)
                        _fetch_slot_of_small(ctx, d, g)
                    for j in range(plan[d + N_CHILDREN]):
                        h = linked_group(halves, row, link_of(j))
                        dc = node_at(child_at(plan, d, j))
                        k = plan[dc + N_KEY]
                        at = linked_position(halves, row, link_of(j))
                        _fetch_entries(halves, parents_base(halves, h, k), at, parents_count(halves, h, k))
                        _fetch_slot_of_small(ctx, dc, h)
    if first <= i + LAST < n:
        record = _record_ahead(ctx, t, i + LAST)
        if record != 0:
            _ahead_moves(ctx, rec, record)


@device
def begin_by_key(ctx, at, k, rows, n, width):
    """Does what ``begin_insert`` does, for ``ahead_by_key``."""
    first = _first(ctx.scratch)
    if first + 1 < n and not _is_cached(ctx):
        for i in range(first - 2 * MIDDLE, first):
            ahead_by_key(ctx, at, k, rows, first, n, i, width)
    return first


@device
def ahead_by_key(ctx, at, k, rows, first, n, i, width):
    """Prefetches, for the tuples after tuple ``i`` of ``n``, the slots and bundles that look-up ``at`` reads.

    ``first``: what ``begin_by_key`` returned.
    """
    if _is_cached(ctx):
        return
    arena, plan = ctx.arena, ctx.plan
    pos, t = plan[at + LOOKUP_POS], plan[plan[at + LOOKUP_INDEX] + I_TABLE]
    far, near = i + 2 * MIDDLE, i + MIDDLE
    if first <= far < n:
        prefetch(arena, slot_of(arena, t, hash_key(arena, plan, pos, k, rows, far * width)))
    if first <= near < n:
        tag = hash_key(arena, plan, pos, k, rows, near * width)
        prefetch(arena, arena[slot_of(arena, t, tag)] & LOW32)
