"""Look-ahead: while one row of a batch is applied, the memory that the next ones need is already on its way.

A change is a chain of dependent cache misses: slot of the hash table, record, list, the row that moves in a list. A
batch knows all its keys beforehand, so the chains of several rows are walked at once, one link per stage: the farther
ahead a row is, the earlier the link. Each key is hashed once, when its tuple is ``FAR`` ahead; its tag waits in a ring
of ``RING`` tuples in the scratch array. What is fetched is a hint: a row that is looked at may have changed by the
time it is applied, but the row itself stays where it is, and so do the groups that it names.
"""

from __future__ import annotations

from crown.engine.kernels.groups import child_at, node_at
from crown.engine.kernels.layout import (
    N_CARRIED,
    N_CHILDREN,
    N_EXTRA,
    N_FREE,
    N_GROUPS,
    N_KEY,
    N_KPOS,
    N_OFFSET,
    N_PARENT,
    N_PPOS,
    N_TAGS,
    P_IDENTITY,
    R_ALIASES,
    R_NODES,
    R_TABLE,
    R_WIDTH,
    R_WORDS,
    RING,
    X_READY,
    X_RING,
    X_STRIDE,
)
from crown.kernels.arena import COUNTED, ONE, T_MASK, T_SLOTS, ZERO, at32
from crown.kernels.geometry import (
    children_base,
    children_count,
    last_group_word,
    link_of,
    linked_group,
    linked_position,
    parents_base,
    parents_count,
    row_group,
    row_position,
)
from crown.kernels.jit import device
from crown.kernels.pointers import prefetch
from crown.kernels.tables import LOW32, hash_key

FAR, MIDDLE, NEAR, SOON, NEXT, LAST = 12, 8, 5, 3, 2, 1
ROWS, GROUPS = ZERO, ONE  # of parents: what is fetched of them
PARENTS = 4  # of a group that fills or empties, how many are fetched ahead


@device
def ring_at(scratch, i):
    """Returns where the tags of tuple ``i`` are kept: its own, then per alias those of its group and child groups."""
    return scratch[X_RING] + (i & (RING - 1)) * scratch[X_STRIDE]


@device
def spare_tags(scratch):
    """Returns where the tags of a row are kept that is no tuple of the batch."""
    return scratch[X_RING] + RING * scratch[X_STRIDE]


@device
def group_tag(tags):
    """Returns where the tag of the row's own group is, in the tags of a row."""
    return tags


@device
def link_tag(tags, j):
    """Returns where the tag of the group of child ``j`` is, in the tags of a row."""
    return tags + 1 + j


@device
def tag_groups(ctx, d, src, base, at):
    """Writes the tags of the group keys of a row with values ``src[base ...]`` to ``scratch[at ...]``."""
    arena, plan, scratch = ctx.arena, ctx.plan, ctx.scratch
    if plan[d + N_PARENT] >= 0:
        scratch[group_tag(at)] = hash_key(arena, plan, plan[d + N_KPOS], plan[d + N_KEY], src, base)
    for j in range(plan[d + N_CHILDREN]):
        dc = node_at(child_at(plan, d, j))
        scratch[link_tag(at, j)] = hash_key(arena, plan, plan[dc + N_PPOS], plan[dc + N_KEY], src, base)


@device
def _home(arena, t, tag):
    """Returns the word of the home slot of ``tag`` in table ``t``."""
    return arena[t + T_SLOTS] + (tag & arena[t + T_MASK])


@device
def _first(arena, t, tag):
    """Returns the record that the home slot of ``tag`` names, or 0."""
    return arena[_home(arena, t, tag)] & LOW32


@device
def _fetch(arena, handle, last):
    """Prefetches a small record, from its first word to word ``last``: it may lie across two lines."""
    prefetch(arena, handle)
    prefetch(arena, handle + last)


@device
def _last_word(plan, d, ring):
    """Returns the last word of a group above the node at descriptor ``d``, counted from the group."""
    if ring is None:
        return last_group_word(plan[d + N_KEY])
    return last_group_word(plan[d + N_KEY]) + plan[d + N_EXTRA]


@device
def _fetch_children_end(halves, g, k, carried):
    """Prefetches the end of a group's children list, where the next entry goes."""
    if g != 0 and carried != COUNTED:
        prefetch(halves, children_base(halves, g, k, carried) + children_count(halves, g, k))


@device
def _fetch_parents_end(halves, g, k):
    """Prefetches the end of a group's parents list."""
    if g != 0:
        prefetch(halves, parents_base(halves, g, k) + parents_count(halves, g, k))


@device
def _tells_bound_rows(plan, d):
    """Returns True for a leaf whose parents are rows of a bound node: there are many, and each tells its group."""
    return plan[d + N_CHILDREN] == 0 and plan[d + N_PARENT] >= 0 and plan[node_at(plan[d + N_PARENT]) + N_FREE] == 0


@device
def _fetch_parents(ctx, d, g, children, start, what, ring):
    """Prefetches parents of a group above a leaf, from entry ``start`` on, or the groups above them.

    Only if it has that many children: then the leaf's row makes its key come or go, and all parents are told.
    """
    arena, halves = ctx.arena, ctx.halves
    k = ctx.plan[d + N_KEY]
    if g == 0 or children_count(halves, g, k) != children:
        return
    base = parents_base(halves, g, k)
    for x in range(start, min(start + PARENTS, parents_count(halves, g, k))):
        row = at32(halves, base + x)
        if what == ROWS:
            prefetch(arena, row)
        else:
            above = row_group(halves, row)
            if above != 0:
                _fetch(arena, above, _last_word(ctx.plan, node_at(ctx.plan[d + N_PARENT]), ring))


@device
def _ahead_flips_insert(ctx, rec, at, what, ring):
    """Prefetches what is told when the tuple with tags at ``at`` makes keys come."""
    arena, plan, scratch = ctx.arena, ctx.plan, ctx.scratch
    nodes = plan[rec + R_NODES]
    for q in range(nodes, nodes + plan[rec + R_ALIASES]):
        d = node_at(plan[q])
        if _tells_bound_rows(plan, d):
            g = _first(arena, plan[d + N_GROUPS], scratch[group_tag(at + plan[d + N_TAGS])])
            _fetch_parents(ctx, d, g, ZERO, ZERO, what, ring)


@device
def _ahead_flips_delete(ctx, rec, record, what, ring):
    """Prefetches what is told when a record makes keys go."""
    halves, plan = ctx.halves, ctx.plan
    nodes = plan[rec + R_NODES]
    for q in range(nodes, nodes + plan[rec + R_ALIASES]):
        d = node_at(plan[q])
        if _tells_bound_rows(plan, d):
            g = row_group(halves, record + plan[d + N_OFFSET])
            if g != 0:
                start = max(parents_count(halves, g, plan[d + N_KEY]) - PARENTS, ZERO)
                _fetch_parents(ctx, d, g, ONE, start, what, ring)


@device
def ahead_insert(ctx, rec, rows, n, i, ring):
    """Stages for insertions into the records of ``rec`` when tuple ``i`` of ``n`` is about to be applied."""
    arena, halves, plan, scratch = ctx.arena, ctx.halves, ctx.plan, ctx.scratch
    width = plan[rec + R_WIDTH]
    aliases = plan[rec + R_ALIASES]
    nodes = plan[rec + R_NODES]
    ready = scratch[X_READY]
    while ready < n and ready <= i + FAR:
        at = ring_at(scratch, ready)
        scratch[at] = hash_key(arena, plan, plan[P_IDENTITY], width, rows, ready * width)
        prefetch(arena, _home(arena, plan[rec + R_TABLE], scratch[at]))
        for q in range(nodes, nodes + aliases):
            d = node_at(plan[q])
            tags = at + plan[d + N_TAGS]
            tag_groups(ctx, d, rows, ready * width, tags)
            if plan[d + N_PARENT] >= 0:
                prefetch(arena, _home(arena, plan[d + N_GROUPS], scratch[group_tag(tags)]))
            for j in range(plan[d + N_CHILDREN]):
                prefetch(
                    arena,
                    _home(arena, plan[node_at(child_at(plan, d, j)) + N_GROUPS], scratch[link_tag(tags, j)]),
                )
        ready += 1
    scratch[X_READY] = ready
    if i + MIDDLE < n:
        at = ring_at(scratch, i + MIDDLE)
        for q in range(nodes, nodes + aliases):
            d = node_at(plan[q])
            tags = at + plan[d + N_TAGS]
            if plan[d + N_PARENT] >= 0:
                _fetch(arena, _first(arena, plan[d + N_GROUPS], scratch[group_tag(tags)]), _last_word(plan, d, ring))
            for j in range(plan[d + N_CHILDREN]):
                dc = node_at(child_at(plan, d, j))
                _fetch(
                    arena, _first(arena, plan[dc + N_GROUPS], scratch[link_tag(tags, j)]), _last_word(plan, dc, ring)
                )
    if i + NEAR < n:
        at = ring_at(scratch, i + NEAR)
        for q in range(nodes, nodes + aliases):
            d = node_at(plan[q])
            tags = at + plan[d + N_TAGS]
            if plan[d + N_PARENT] >= 0:
                k = plan[d + N_KEY]
                g = _first(arena, plan[d + N_GROUPS], scratch[group_tag(tags)])
                _fetch_children_end(halves, g, k, plan[d + N_CARRIED])
            for j in range(plan[d + N_CHILDREN]):
                dc = node_at(child_at(plan, d, j))
                k = plan[dc + N_KEY]
                g = _first(arena, plan[dc + N_GROUPS], scratch[link_tag(tags, j)])
                _fetch_parents_end(halves, g, k)
    if ring is not None:
        if i + SOON < n:
            _ahead_flips_insert(ctx, rec, ring_at(scratch, i + SOON), ROWS, ring)
        if i + LAST < n:
            _ahead_flips_insert(ctx, rec, ring_at(scratch, i + LAST), GROUPS, ring)


@device
def _fetch_entries(halves, base, at, n):
    """Prefetches entry ``at`` of a list of length ``n`` and its last one, which will take its place."""
    prefetch(halves, base + at)
    prefetch(halves, base + n - 1)


@device
def ahead_delete(ctx, rec, rows, n, i, ring):
    """Stages for deletions: slot, record, the groups that it names, the entries of their lists."""
    arena, halves, plan, scratch = ctx.arena, ctx.halves, ctx.plan, ctx.scratch
    width = plan[rec + R_WIDTH]
    t = plan[rec + R_TABLE]
    aliases = plan[rec + R_ALIASES]
    nodes = plan[rec + R_NODES]
    ready = scratch[X_READY]
    while ready < n and ready <= i + FAR:
        at = ring_at(scratch, ready)
        scratch[at] = hash_key(arena, plan, plan[P_IDENTITY], width, rows, ready * width)
        prefetch(arena, _home(arena, t, scratch[at]))
        ready += 1
    scratch[X_READY] = ready
    if i + MIDDLE < n:
        _fetch(arena, _first(arena, t, scratch[ring_at(scratch, i + MIDDLE)]), plan[rec + R_WORDS] - 1)
    if i + NEAR < n:
        record = _first(arena, t, scratch[ring_at(scratch, i + NEAR)])
        if record != 0:
            for q in range(nodes, nodes + aliases):
                d = node_at(plan[q])
                row = record + plan[d + N_OFFSET]
                if row_group(halves, row) != 0:
                    _fetch(arena, row_group(halves, row), _last_word(plan, d, ring))
                    for j in range(plan[d + N_CHILDREN]):
                        dc = node_at(child_at(plan, d, j))
                        _fetch(arena, linked_group(halves, row, link_of(j)), _last_word(plan, dc, ring))
    if i + NEXT < n:
        record = _first(arena, t, scratch[ring_at(scratch, i + NEXT)])
        if record != 0:
            for q in range(nodes, nodes + aliases):
                d = node_at(plan[q])
                row = record + plan[d + N_OFFSET]
                g = row_group(halves, row)
                if g != 0:
                    k = plan[d + N_KEY]
                    at = row_position(halves, row)
                    if at >= 0 and plan[d + N_CARRIED] != COUNTED:
                        base = children_base(halves, g, k, plan[d + N_CARRIED])
                        _fetch_entries(halves, base, at, children_count(halves, g, k))
                    for j in range(plan[d + N_CHILDREN]):
                        h = linked_group(halves, row, link_of(j))
                        k = plan[node_at(child_at(plan, d, j)) + N_KEY]
                        at = linked_position(halves, row, link_of(j))
                        _fetch_entries(halves, parents_base(halves, h, k), at, parents_count(halves, h, k))
    if ring is not None:
        if i + SOON < n:
            record = _first(arena, t, scratch[ring_at(scratch, i + SOON)])
            if record != 0:
                _ahead_flips_delete(ctx, rec, record, ROWS, ring)
        if i + LAST < n:
            record = _first(arena, t, scratch[ring_at(scratch, i + LAST)])
            if record != 0:
                _ahead_flips_delete(ctx, rec, record, GROUPS, ring)
