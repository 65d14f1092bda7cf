"""One edge of the tree for all rows of a batch: their groups are found or made, and the lists of these grow.

A block of entries is gone through twice. First each row gets its group and its place in a list, whose length says then
how long it will be; then the list gets the room, and the row is written. What both touch stays in the cache.
"""

from __future__ import annotations

from crown.engine.kernels.groups import bundle_get, node_at
from crown.engine.kernels.layout import (
    F_PHASE,
    FRAME,
    I_TABLE,
    LOOKUP_INDEX,
    LOOKUP_POS,
    N_CARRIED,
    N_CHILDREN,
    N_FREE,
    N_KEY,
    N_OFFSET,
    N_PARENT,
    N_PAYLOAD,
    N_SHIFT,
    N_VIRTUAL,
    X_AREAS,
    X_SP,
    X_VALUE,
)
from crown.engine.kernels.payload import add_parts, entered
from crown.engine.kernels.walk import P_UPDATE, UNION, insert_walk, push
from crown.engine.kernels.worth import begin, multiply_by_row, weight_of
from crown.engine.load.kernels.partition import reads
from crown.kernels.arena import COUNTED, H_ROOT, H_S_UPDATES, NONE, ONE, PLAIN, ZERO
from crown.kernels.geometry import (
    children_count,
    children_field,
    children_log,
    link_of,
    linked_group,
    linked_position,
    list_length,
    live_parents,
    parents_count,
    parents_field,
    parents_log,
    published,
    references,
    row_count,
    row_group,
    row_position,
    set_linked_group,
    set_linked_position,
    set_list_length,
    set_live_parents,
    set_references,
    set_row_count,
    set_row_group,
    set_row_position,
)
from crown.kernels.jit import device
from crown.kernels.lists import list_fit, list_write
from crown.kernels.pointers import prefetch
from crown.kernels.tables import LOW32, slot_of

BLOCK = 1 << 12  # entries
_FAR, _NEAR = 24, 12  # entries: how far before its turn a slot and a row, and a group, are fetched


@device
def _ahead(ctx, t, entries, i, n, offset):
    arena = ctx.arena
    if i + _FAR < n:
        prefetch(arena, slot_of(arena, t, entries[i + _FAR] >> 32))
        prefetch(arena, entries[i + _FAR] & LOW32)
        prefetch(arena, (entries[i + _FAR] & LOW32) + offset)
    if i + _NEAR < n:
        prefetch(arena, arena[slot_of(arena, t, entries[i + _NEAR] >> 32)] & LOW32)


@device
def _group(ctx, d, look, entry):
    """Returns the group above the node with descriptor ``d`` that an entry's record looks up, made if absent."""
    plan = ctx.plan
    tag = (entry >> 32) & LOW32
    bundle = bundle_get(ctx, plan[look + LOOKUP_INDEX], tag, ctx.arena, entry & LOW32, plan[look + LOOKUP_POS])
    return bundle + plan[d + N_SHIFT]


@device
def _enters(ctx, d, row):
    """Returns True if all children of a row have its key: it is to enter V_s."""
    return ctx.plan[d + N_CHILDREN] == 0 or row_count(ctx.halves, row) == ctx.plan[d + N_CHILDREN]


@device
def link_parents(ctx, node, child, j, look, entries, n):
    """Lets the rows of ``node`` in ``entries`` be parents of the groups above ``child``, its child number ``j``.

    ``look``: their look-up of it. Their counts say which of these have children. O(n).
    """
    halves, plan = ctx.halves, ctx.plan
    offset = plan[node_at(node) + N_OFFSET]
    dc = node_at(child)
    k = plan[dc + N_KEY]
    index = plan[look + LOOKUP_INDEX]
    t = plan[index + I_TABLE]
    link = link_of(j)
    for start in range(0, n, BLOCK):
        end = min(start + BLOCK, n)
        for i in range(start, end):
            _ahead(ctx, t, entries, i, n, offset)
            record = entries[i] & LOW32
            row = record + offset
            g = _group(ctx, dc, look, entries[i])
            at = parents_count(halves, g, k)
            set_list_length(halves, parents_field(g, k), at + 1)
            set_linked_group(halves, row, link, g)
            set_linked_position(halves, row, link, at)
            if children_count(halves, g, k) > 0:
                set_row_count(halves, row, row_count(halves, row) + 1)
        for i in range(start, end):
            row = (entries[i] & LOW32) + offset
            field = parents_field(linked_group(halves, row, link), k)
            log_at = parents_log(field)
            list_fit(ctx, field, log_at, PLAIN)
            list_write(ctx, field, log_at, PLAIN, linked_position(halves, row, link), row)


@device
def enter_groups(ctx, ring, node, look, entries, n, opened, out):
    """Lets the rows of ``node`` in ``entries`` enter their groups, and V_s where all children have their key.

    Groups that were without children tell their parents. ``look``: the rows' look-up of their groups; ``opened``: room
    for ``BLOCK`` words. O(n + P-updates).
    """
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    d = node_at(node)
    offset = plan[d + N_OFFSET]
    k = plan[d + N_KEY]
    index = plan[look + LOOKUP_INDEX]
    t = plan[index + I_TABLE]
    carried = plan[d + N_CARRIED]
    for start in range(0, n, BLOCK):
        end = min(start + BLOCK, n)
        first = 0
        for i in range(start, end):
            _ahead(ctx, t, entries, i, n, offset)
            record = entries[i] & LOW32
            row = record + offset
            g = _group(ctx, d, look, entries[i])
            set_references(halves, g, k, references(halves, g, k) + 1)
            set_row_group(halves, row, g)
            if _enters(ctx, d, row):
                at = children_count(halves, g, k)
                set_list_length(halves, children_field(g, k), at + 1)
                set_row_position(halves, row, at)
                if at == 0:
                    opened[first] = row
                    first += 1
                    _mark(ctx, ring, d, g, ONE)
        for i in range(start, end):
            row = (entries[i] & LOW32) + offset
            at = row_position(halves, row)
            if at >= 0:
                g = row_group(halves, row)
                if carried != COUNTED:
                    field = children_field(g, k)
                    log_at = children_log(field)
                    list_fit(ctx, field, log_at, carried)
                    list_write(ctx, field, log_at, carried, at, row)
                _account(ctx, ring, d, row, g)
                arena[H_S_UPDATES] += 1
        for i in range(first):
            _mark(ctx, ring, d, row_group(halves, opened[i]), ZERO)
            _tell(ctx, ring, node, opened[i], out)


@device
def enter_root(ctx, ring, node, batch, fresh, n, bit):
    """Lets the rows of the root enter V_s where all children have their key. O(n)."""
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    d = node_at(node)
    offset = plan[d + N_OFFSET]
    carried = plan[d + N_CARRIED]
    g = arena[H_ROOT]
    field = children_field(g, ZERO)
    size = list_length(halves, field)
    rows = 0
    for i in range(n):
        if reads(batch, fresh[i], bit):
            row = (fresh[i] & LOW32) + offset
            rows += 1
            set_row_group(halves, row, g)
            if _enters(ctx, d, row):
                set_row_position(halves, row, size)
                size += 1
    arena[H_S_UPDATES] += size - list_length(halves, field)
    set_references(halves, g, ZERO, references(halves, g, ZERO) + rows)
    set_list_length(halves, field, size)
    log_at = children_log(field)
    list_fit(ctx, field, log_at, carried)
    for i in range(n):
        if reads(batch, fresh[i], bit):
            row = (fresh[i] & LOW32) + offset
            at = row_position(halves, row)
            if at >= 0:
                list_write(ctx, field, log_at, carried, at, row)
                entered(ctx, ring, d, row, g, False)


@device
def _mark(ctx, ring, d, g, on):
    """Marks a group with a payload whose parents are still to be told that there is one.

    The mark is where a bound edge, which has no live parents, would count them.
    """
    if ring is None:
        return
    if ctx.plan[d + N_PAYLOAD] != 0 and ctx.plan[d + N_FREE] == 0:
        set_live_parents(ctx.halves, g, ctx.plan[d + N_KEY], on)


@device
def _account(ctx, ring, d, row, g):
    """Accounts for a row that has entered V_s as a child of ``g``, as ``payload.entered`` does.

    In a marked group its worth counts at once.
    """
    if ring is None:
        return
    arena, halves, plan, scratch = ctx.arena, ctx.halves, ctx.plan, ctx.scratch
    y = plan[d + N_PAYLOAD]
    k = plan[d + N_KEY]
    if y == 0 or plan[d + N_FREE] == 1 or live_parents(halves, g, k) == 0:
        entered(ctx, ring, d, row, g, False)
        return
    begin(ctx, y, weight_of(ctx, y, row))
    multiply_by_row(ctx, y, row, NONE, ZERO)
    add_parts(ctx, y, arena, published(g, k), scratch, scratch[X_VALUE])


@device
def _tell(ctx, ring, node, row, out):
    """Has the group that ``row`` has opened count up its parents, and what follows from that."""
    halves, plan, scratch = ctx.halves, ctx.plan, ctx.scratch
    d = node_at(node)
    phase = P_UPDATE
    if parents_count(halves, row_group(halves, row), plan[d + N_KEY]) == 0:
        if plan[node_at(plan[d + N_PARENT]) + N_VIRTUAL] == 0:
            return
        phase = UNION
    f = X_AREAS + FRAME * scratch[X_SP]
    push(scratch, row, node)
    scratch[f + F_PHASE] = phase
    insert_walk(ctx, ring, out)
