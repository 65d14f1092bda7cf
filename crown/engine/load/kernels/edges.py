"""The edges of the tree for all rows of a batch: finds or makes their groups, and extends the lists of these.

A block of entries is scanned several times, so that its memory stays in the cache. First all bundles are found. Then,
for one edge after the other, each row gets its group and its position in a list, which determine the final length of
the list; then the list gets its room, and the row is written.
"""

from __future__ import annotations

from crown.engine.kernels.groups import bundle_get, child_at, node_at, own_group, refer, set_own_group
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
    R_NODES,
    R_WORDS,
    X_AREAS,
    X_SP,
)
from crown.engine.kernels.payloads.payload import add_value, entered
from crown.engine.kernels.payloads.row_value import begin, multiply_by_row, weight_of
from crown.engine.kernels.walk import P_UPDATE, UNION, insert_walk, push
from crown.engine.load.kernels.partition import reads
from crown.kernels.jit import device
from crown.kernels.memory.arena import COUNTED, H_ROOT, H_S_UPDATES, NONE, ONE, PLAIN, ZERO
from crown.kernels.memory.geometry import (
    CHILDREN,
    PARENTS,
    children_count,
    children_field,
    counted,
    link_of,
    linked_position,
    list_length,
    live_parents,
    parents_count,
    parents_field,
    place_outside,
    published,
    row_place,
    set_linked_group,
    set_linked_position,
    set_list_length,
    set_live_parents,
    set_row_place,
)
from crown.kernels.memory.lists import list_fit, list_write
from crown.kernels.memory.pointers import prefetch
from crown.kernels.memory.tables import LOW32, slot_of

BLOCK = 1 << 12  # entries
_FAR, _NEAR = 24, 12  # entries: how far ahead a slot and a record, and a bundle, are prefetched
TASK = 4  # words of a task
TASK_LOOK, TASK_ALIAS, TASK_CHILD = 0, 1, 2  # look-up, or -1 at the root; bit of the alias; child to be linked, or -1
TASK_PASS = 3  # number of the pass of the task


@device
def visit(ctx, ring, rec, look, tasks, first, last, entries, n, opened, out):
    """Runs tasks ``first .. last`` for all records in ``entries``, which are in the order of the table of ``look``.

    A task (see ``TASK``) inserts a row into its own group, or links it as a parent to the group of a child. ``opened``:
    room for ``BLOCK`` words. The entries are overwritten. O(n + P-updates).
    """
    plan = ctx.plan
    aliases = plan[rec + R_NODES]
    for start in range(0, n, BLOCK):
        end = min(start + BLOCK, n)
        _find_bundles(ctx, rec, look, entries, start, end, n)
        for task in range(first, last):
            node = plan[aliases + tasks[TASK * task + TASK_ALIAS]]
            j = tasks[TASK * task + TASK_CHILD]
            if j < 0:
                _enter_groups(ctx, ring, node, entries, start, end, opened, out)
            else:
                _link_parents(ctx, node, j, entries, start, end)


@device
def _find_bundles(ctx, rec, look, entries, start, end, n):
    """Replaces the tag in each entry by the bundle that the record looks up, which is made if absent."""
    arena, plan = ctx.arena, ctx.plan
    index = plan[look + LOOKUP_INDEX]
    pos = plan[look + LOOKUP_POS]
    t = plan[index + I_TABLE]
    end_of = plan[rec + R_WORDS] - 1
    for i in range(start, end):
        if i + _FAR < n:
            prefetch(arena, slot_of(arena, t, entries[i + _FAR] >> 32))
            prefetch(arena, entries[i + _FAR] & LOW32)
            prefetch(arena, (entries[i + _FAR] & LOW32) + end_of)
        if i + _NEAR < n:
            prefetch(arena, arena[slot_of(arena, t, entries[i + _NEAR] >> 32)] & LOW32)
        record = entries[i] & LOW32
        bundle = bundle_get(ctx, index, (entries[i] >> 32) & LOW32, arena, record, pos, NONE)
        entries[i] = (bundle << 32) | record


@device
def _enters(ctx, d, row):
    """Returns True if all children of a row have its key, so that it must enter V_s."""
    return row_place(ctx.halves, row) == place_outside(ctx.plan[d + N_CHILDREN])


@device
def _link_parents(ctx, node, j, entries, start, end):
    """Links the rows of ``node`` as parents to the groups above its child number ``j``.

    A row's count is the number of these groups that have children. O(end - start).
    """
    halves, plan = ctx.halves, ctx.plan
    offset = plan[node_at(node) + N_OFFSET]
    dc = node_at(child_at(plan, node_at(node), j))
    k = plan[dc + N_KEY]
    shift = plan[dc + N_SHIFT]
    link = link_of(j)
    for i in range(start, end):
        row = (entries[i] & LOW32) + offset
        g = (entries[i] >> 32) + shift
        at = parents_count(halves, g, k)
        set_list_length(halves, parents_field(g, k), at + 1)
        set_linked_group(halves, row, link, g)
        set_linked_position(halves, row, link, at)
        if children_count(halves, g, k) > 0:
            set_row_place(halves, row, counted(row_place(halves, row), ONE))
    for i in range(start, end):
        row = (entries[i] & LOW32) + offset
        field = parents_field((entries[i] >> 32) + shift, k)
        list_fit(ctx, field, PARENTS, PLAIN)
        list_write(ctx, field, PARENTS, PLAIN, linked_position(halves, row, link), row)


@device
def _enter_groups(ctx, ring, node, entries, start, end, opened, out):
    """Inserts the rows of ``node`` into their groups, and into V_s if all children have their key.

    Groups that had no children count up their parents. O(end - start + P-updates).
    """
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    d = node_at(node)
    offset = plan[d + N_OFFSET]
    k = plan[d + N_KEY]
    shift = plan[d + N_SHIFT]
    carried = plan[d + N_CARRIED]
    first = 0
    for i in range(start, end):
        row = (entries[i] & LOW32) + offset
        g = (entries[i] >> 32) + shift
        refer(ctx, d, g, ONE)
        set_own_group(ctx, d, row, g)
        if _enters(ctx, d, row):
            at = children_count(halves, g, k)
            set_list_length(halves, children_field(g, k), at + 1)
            set_row_place(halves, row, at)
            if at == 0:
                opened[first] = row
                first += 1
                _mark(ctx, ring, d, g, ONE)
    for i in range(start, end):
        row = (entries[i] & LOW32) + offset
        at = row_place(halves, row)
        if at >= 0:
            g = (entries[i] >> 32) + shift
            if carried != COUNTED:
                field = children_field(g, k)
                list_fit(ctx, field, CHILDREN, carried)
                list_write(ctx, field, CHILDREN, carried, at, row)
            _account(ctx, ring, d, row, g)
            arena[H_S_UPDATES] += 1
    for i in range(first):
        _mark(ctx, ring, d, own_group(ctx, d, opened[i]), ZERO)
        _count_up_parents(ctx, ring, node, opened[i], out)


@device
def enter_root(ctx, ring, node, fresh, n, bit):
    """Inserts the rows of the root into V_s if all children have their key. Returns the number of inserted rows.
    O(n)."""
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    d = node_at(node)
    offset = plan[d + N_OFFSET]
    carried = plan[d + N_CARRIED]
    g = arena[H_ROOT]
    field = children_field(g, ZERO)
    size = list_length(halves, field)
    rows = 0
    for i in range(n):
        if reads(fresh[i], bit):
            row = (fresh[i] & LOW32) + offset
            rows += 1
            set_own_group(ctx, d, row, g)
            if _enters(ctx, d, row):
                set_row_place(halves, row, size)
                size += 1
    arena[H_S_UPDATES] += size - list_length(halves, field)
    refer(ctx, d, g, rows)
    set_list_length(halves, field, size)
    list_fit(ctx, field, CHILDREN, carried)
    for i in range(n):
        if reads(fresh[i], bit):
            row = (fresh[i] & LOW32) + offset
            at = row_place(halves, row)
            if at >= 0:
                list_write(ctx, field, CHILDREN, carried, at, row)
                entered(ctx, ring, d, row, g, False)
    return rows


@device
def _mark(ctx, ring, d, g, on):
    """Marks a group with a payload whose parents are not yet counted up.

    The mark is stored as the number of live parents, which a bound edge does not have.
    """
    if ring is None:
        return
    if ctx.plan[d + N_PAYLOAD] != 0 and ctx.plan[d + N_FREE] == 0:
        set_live_parents(ctx.halves, g, ctx.plan[d + N_KEY], on)


@device
def _account(ctx, ring, d, row, g):
    """Accounts for a row that has entered V_s as a child of ``g``, as ``payload.entered`` does.

    In a marked group its value is published at once.
    """
    if ring is None:
        return
    halves, plan = ctx.halves, ctx.plan
    y = plan[d + N_PAYLOAD]
    k = plan[d + N_KEY]
    if y == 0 or plan[d + N_FREE] == 1 or live_parents(halves, g, k) == 0:
        entered(ctx, ring, d, row, g, False)
        return
    begin(ctx, y, weight_of(ctx, y, row))
    multiply_by_row(ctx, y, row, NONE, ZERO)
    add_value(ctx, y, published(g, k))


@device
def _count_up_parents(ctx, ring, node, row, out):
    """Counts up the parents of the group that ``row`` has opened, and runs the walk that follows."""
    halves, plan, scratch = ctx.halves, ctx.plan, ctx.scratch
    d = node_at(node)
    phase = P_UPDATE
    if parents_count(halves, own_group(ctx, d, row), plan[d + N_KEY]) == 0:
        if plan[node_at(plan[d + N_PARENT]) + N_VIRTUAL] == 0:
            return
        phase = UNION
    f = X_AREAS + FRAME * scratch[X_SP]
    push(scratch, row, node)
    scratch[f + F_PHASE] = phase
    insert_walk(ctx, ring, out)
