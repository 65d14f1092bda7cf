"""Inserts and deletes rows: records with their values, and the groups of a row.

Source: "Change Propagation Without Joins", section 4.2 (Algorithm 4).
"""

from __future__ import annotations

from crown.engine.kernels.groups import bundle_of, child_at, group_drop, node_at, own_group, refer, set_own_group
from crown.engine.kernels.layout import (
    N_CHILDREN,
    N_KEY,
    N_OFFSET,
    N_PADDED,
    N_PARENT,
    N_RECORD,
    N_ROWS,
    N_SHIFT,
    R_WIDTH,
    R_WORDS,
)
from crown.engine.kernels.padding.groups import forget_padding
from crown.engine.kernels.tags import nothing_found, spare_tags, tag_groups
from crown.kernels.jit import device
from crown.kernels.memory.arena import H_ROOT, NONE, ONE, ZERO, alloc, release
from crown.kernels.memory.geometry import (
    T_ROWS,
    children_count,
    link_of,
    linked_group,
    linked_position,
    place_outside,
    set_copies,
    set_linked_group,
    set_linked_position,
    set_row_place,
)
from crown.kernels.memory.lists import parents_append, parents_remove


@device
def store(ctx, rec, src, base, pos):
    """Stores a record with its values: word ``j`` is ``src[base + plan[pos + j]]``. Returns the record."""
    arena, plan = ctx.arena, ctx.plan
    record = alloc(arena, plan[rec + R_WORDS])
    for j in range(plan[rec + R_WIDTH]):
        arena[record + j] = src[base + plan[pos + j]]
    return record


@device
def r_update_insert(ctx, node, record, tags, found):
    """Inserts a row (Algorithm 4, R-UPDATE) into its groups, and counts the children that have its key in V_p.

    Returns True if all children have its key, so that the row must enter V_s (line 5: see ``update``). ``tags``,
    ``found``: see ``bundle_of``.
    """
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    d = node_at(node)
    row = record + plan[d + N_OFFSET]
    if plan[d + N_PARENT] >= 0:
        g = bundle_of(ctx, d, ZERO, record, tags, found) + plan[d + N_SHIFT]
    else:
        g = arena[H_ROOT]
    refer(ctx, d, g, ONE)
    set_own_group(ctx, d, row, g)
    children = plan[d + N_CHILDREN]
    count = 0
    for j in range(children):
        dc = node_at(child_at(plan, d, j))
        k = plan[dc + N_KEY]
        h = bundle_of(ctx, d, 1 + j, record, tags, found) + plan[dc + N_SHIFT]
        set_linked_group(halves, row, link_of(j), h)
        set_linked_position(halves, row, link_of(j), parents_append(ctx, h, k, row))
        if children_count(halves, h, k) > 0:
            count += 1
    set_row_place(halves, row, place_outside(count))
    arena[plan[d + N_ROWS] + T_ROWS] += 1
    return count == children


@device
def r_update_delete(ctx, node, row):
    """Deletes a row (Algorithm 4, R-UPDATE) from its groups, and frees unused groups.

    The row MUST be outside V_s; a row in V_s must leave it first (line 8: see ``update``).
    """
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    d = node_at(node)
    for j in range(plan[d + N_CHILDREN]):
        c = child_at(plan, d, j)
        k = plan[node_at(c) + N_KEY]
        link = link_of(j)
        h = linked_group(halves, row, link)
        parents_remove(ctx, h, k, linked_position(halves, row, link), link)
        if plan[node_at(c) + N_PADDED] == 1:
            forget_padding(ctx, node_at(c), h)
        group_drop(ctx, c, h)
    g = own_group(ctx, d, row)
    refer(ctx, d, g, NONE)
    if plan[d + N_PARENT] >= 0:
        group_drop(ctx, node, g)
    arena[plan[d + N_ROWS] + T_ROWS] -= 1


@device
def add_virtual(ctx, node, child, pos):
    """Inserts the row of a virtual node for a child's record, and returns it. ``pos``: the positions of its values
    there."""
    arena, halves, plan, scratch = ctx.arena, ctx.halves, ctx.plan, ctx.scratch
    d = node_at(node)
    rec = plan[d + N_RECORD]
    record = store(ctx, rec, arena, child, pos)
    set_copies(halves, record, plan[rec + R_WIDTH], ONE)
    tags = spare_tags(scratch)
    tag_groups(ctx, rec, arena, record, tags)
    r_update_insert(ctx, node, record, tags, nothing_found(ctx, rec, ONE))
    return record + plan[d + N_OFFSET]


@device
def drop_virtual(ctx, node, row):
    """Deletes a virtual row that no child needs any more."""
    arena, plan = ctx.arena, ctx.plan
    d = node_at(node)
    r_update_delete(ctx, node, row)
    release(arena, row - plan[d + N_OFFSET], plan[plan[d + N_RECORD] + R_WORDS])
