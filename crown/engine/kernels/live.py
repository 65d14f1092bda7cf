"""Live views: which rows of V_s have results. Section 5.2 of "Change Propagation Without Joins", Lemma 5.5.

V_l is not stored. A row of V_s is live iff its group has a live parent. The live parents of a group come first in its
list, so their number represents them.
"""

from __future__ import annotations

from crown.engine.kernels.groups import child_at, node_at
from crown.engine.kernels.layout import (
    LF_CHILD,
    LF_NODE,
    LF_POSITION,
    LF_ROW,
    LFRAME,
    N_CARRIED,
    N_CHILDREN,
    N_FREE,
    N_INNER,
    N_KEY,
    X_LFRAMES,
)
from crown.kernels.jit import device
from crown.kernels.memory.arena import H_LIVE_FLIPS, at32
from crown.kernels.memory.geometry import (
    children_base,
    children_count,
    last_group_word,
    link_of,
    linked_group,
    linked_position,
    live_parents,
    parents_base,
    set_linked_position,
    set_live_parents,
)
from crown.kernels.memory.pointers import prefetch


@device
def _swap_parents(halves, base, i, j, link):
    """Exchanges entries i and j of a parents list."""
    if i != j:
        x = at32(halves, base + i)
        y = at32(halves, base + j)
        halves[base + i] = y
        halves[base + j] = x
        set_linked_position(halves, y, link, i)
        set_linked_position(halves, x, link, j)


@device
def _push_live(scratch, f, row, node):
    scratch[f + LF_ROW] = row
    scratch[f + LF_NODE] = node
    scratch[f + LF_CHILD] = 0
    scratch[f + LF_POSITION] = -1


@device
def prefetch_groups(ctx, node, row):
    """Prefetches the groups to which ``set_live`` moves from a row."""
    plan = ctx.plan
    d = node_at(node)
    for j in range(plan[d + N_CHILDREN]):
        k = plan[node_at(child_at(plan, d, j)) + N_KEY]
        prefetch(ctx.arena, last_group_word(linked_group(ctx.halves, row, link_of(j)), k))


@device
def set_live(ctx, node, row, on):
    """Makes a row of V_s live (``on`` 1) or not live (0), and all rows below whose liveness depends on it alone.

    A live row is among the first ``live`` parents of each free child's group. When the number of a group's live parents
    changes from 0 to 1, its children become live. O(1) per row that changes.
    """
    arena, halves, plan, scratch = ctx.arena, ctx.halves, ctx.plan, ctx.scratch
    top = scratch[X_LFRAMES]
    f = top
    _push_live(scratch, f, row, node)
    while f >= top:
        d = node_at(scratch[f + LF_NODE])
        j = scratch[f + LF_CHILD]
        if j == plan[d + N_CHILDREN]:
            f -= LFRAME
            continue
        c = child_at(plan, d, j)
        dc = node_at(c)
        if plan[dc + N_FREE] == 0:
            scratch[f + LF_CHILD] = j + 1
            continue
        row = scratch[f + LF_ROW]
        k = plan[dc + N_KEY]
        link = link_of(j)
        h = linked_group(halves, row, link)
        i = scratch[f + LF_POSITION]
        if i < 0:
            at = linked_position(halves, row, link)
            live = live_parents(halves, h, k)
            base = parents_base(halves, h, k)
            arena[H_LIVE_FLIPS] += 1
            if on == 1:
                _swap_parents(halves, base, at, live, link)
                set_live_parents(halves, h, k, live + 1)
                turned = live == 0
            else:
                _swap_parents(halves, base, at, live - 1, link)
                set_live_parents(halves, h, k, live - 1)
                turned = live == 1
            if not turned or plan[dc + N_INNER] == 0:
                scratch[f + LF_CHILD] = j + 1
                continue
            i = 0
        if i < children_count(halves, h, k):
            scratch[f + LF_POSITION] = i + 1
            base = children_base(halves, h, k, plan[dc + N_CARRIED])
            f += LFRAME
            _push_live(scratch, f, at32(halves, base + i), c)
        else:
            scratch[f + LF_CHILD] = j + 1
            scratch[f + LF_POSITION] = -1
