"""One change as a walk: S- and P-updates, and the deltas that they cause.

A change is a depth-first walk. A row enters (or leaves) V_s. If its key thereby enters (leaves) V_p, every parent row
with that key is counted up (down), and those that thereby enter (leave) V_s are walked in turn. Every row is
*finished*, its results enumerated, its liveness updated and the row linked (unlinked), before the next one starts. So
each step leaves a valid database, no result is ever reported twice, and the witness test needs no "state before the
update". A row is a witness iff its key does not change its membership in V_p and its group has a live parent.

The walk keeps its frames in ``scratch``, so it can return when the output buffer is full, and be resumed.

Insertion and deletion are separate functions, here, in ``update`` and in ``prefetch``, because deletion is not
insertion with another sign. Lists are scanned forwards and backwards, a row is linked before and unlinked after
everything else, a record is stored first and freed last. Common parts are shared.

Source: "Change Propagation Without Joins", sections 4.2 (Algorithms 2 and 3) and 5.2 (witnesses).
"""

from __future__ import annotations

from crown.engine.kernels.enumeration.enumerate import delta_enum
from crown.engine.kernels.groups import node_at, own_group
from crown.engine.kernels.layout import (
    F_NODE,
    F_PHASE,
    F_POSITION,
    F_ROW,
    FRAME,
    MODE_DELTAS,
    MODE_LIVE,
    N_CARRIED,
    N_CHILDREN,
    N_FREE,
    N_KEY,
    N_OFFSET,
    N_PARENT,
    N_VIRTUAL,
    N_VPOS,
    X_AREAS,
    X_MODE,
    X_SP,
)
from crown.engine.kernels.live import set_live
from crown.engine.kernels.payloads.payload import entered, leaves, resume_deltas, witness
from crown.engine.kernels.rows import add_virtual, drop_virtual
from crown.kernels.jit import device
from crown.kernels.memory.arena import H_P_UPDATES, H_S_UPDATES, NONE, ONE, ZERO, at32
from crown.kernels.memory.geometry import (
    children_count,
    counted,
    live_parents,
    parents_base,
    parents_count,
    place_after,
    place_outside,
    row_place,
    set_row_place,
)
from crown.kernels.memory.lists import children_append, children_remove
from crown.kernels.memory.pointers import prefetch

# Phases of a frame: the next step for its row. UNION: its key enters, or may leave, the relation of a virtual parent,
# R_e := V_p(R_e1) + .. + V_p(R_ek).
S_UPDATE, P_UPDATE, UNION, DELTA_ENUM, FINISH = 0, 1, 2, 3, 4


@device
def push(scratch, row, node):
    """Pushes a row on the walk, which is to enter or leave V_s."""
    f = X_AREAS + FRAME * scratch[X_SP]
    scratch[f + F_ROW] = row
    scratch[f + F_NODE] = node
    scratch[f + F_POSITION] = 0
    scratch[f + F_PHASE] = S_UPDATE
    scratch[X_SP] += 1


@device
def _next_phase(ctx, ring, f, d, g, sign):
    """Returns the phase after an S-UPDATE that leaves V_p unchanged: DELTA_ENUM if the row is a witness (Definition
    5.6).

    A row is a witness if it is free and its group has a live parent. Its results then begin (``sign`` 1) or end (-1).
    """
    halves, plan, scratch = ctx.halves, ctx.plan, ctx.scratch
    if scratch[X_MODE] < MODE_LIVE or plan[d + N_FREE] == 0 or live_parents(halves, g, plan[d + N_KEY]) == 0:
        return FINISH
    if scratch[X_MODE] == MODE_DELTAS:
        delta_enum(ctx, scratch[f + F_NODE], scratch[f + F_ROW])
        witness(ctx, ring, d, scratch[f + F_NODE], scratch[f + F_ROW], sign)
    scratch[f + F_PHASE] = DELTA_ENUM
    return DELTA_ENUM


@device
def s_update_insert(ctx, ring, f, d, g):
    """Inserts the row of frame ``f`` into V_s: Algorithm 2 (S-UPDATE), insertion. Returns its next phase."""
    arena, halves, plan, scratch = ctx.arena, ctx.halves, ctx.plan, ctx.scratch
    k = plan[d + N_KEY]
    row = scratch[f + F_ROW]
    at = children_append(ctx, g, k, plan[d + N_CARRIED], row)
    set_row_place(halves, row, at)
    entered(ctx, ring, d, row, g, at == 0)
    arena[H_S_UPDATES] += 1
    parent = plan[d + N_PARENT]
    if at > 0 or parent < 0:
        return _next_phase(ctx, ring, f, d, g, ONE)
    if plan[node_at(parent) + N_VIRTUAL] == 1 and parents_count(halves, g, k) == 0:
        return UNION
    scratch[f + F_PHASE] = P_UPDATE
    return P_UPDATE


@device
def p_update_insert(ctx, f, d, g):
    """Counts up the parents, from the frame's position on: Algorithm 3 (P-UPDATE), insertion. Returns the next phase.

    Returns S_UPDATE if a parent enters its V_s; the parent is then on top of the walk. A parent that becomes live moves
    before those that are not yet counted.
    """
    arena, halves, plan, scratch = ctx.arena, ctx.halves, ctx.plan, ctx.scratch
    k = plan[d + N_KEY]
    parent = plan[d + N_PARENT]
    full = place_outside(plan[node_at(parent) + N_CHILDREN])
    n = parents_count(halves, g, k)
    base = parents_base(halves, g, k)
    i = scratch[f + F_POSITION]
    while i < n:
        if i + 8 < n:
            prefetch(arena, at32(halves, base + i + 8))
        above = at32(halves, base + i)
        i += 1
        arena[H_P_UPDATES] += 1
        place = counted(row_place(halves, above), ONE)
        set_row_place(halves, above, place)
        if place == full:
            scratch[f + F_POSITION] = i
            push(scratch, above, parent)
            return S_UPDATE
    return FINISH


@device
def insert_walk(ctx, ring, out):
    """Walks an insertion until no frame is left (True) or ``out`` is full (False)."""
    halves, plan, scratch = ctx.halves, ctx.plan, ctx.scratch
    while scratch[X_SP] > 0:
        f = X_AREAS + FRAME * (scratch[X_SP] - 1)
        row = scratch[f + F_ROW]
        node = scratch[f + F_NODE]
        d = node_at(node)
        g = own_group(ctx, d, row)
        phase = scratch[f + F_PHASE]
        if phase == S_UPDATE:
            phase = s_update_insert(ctx, ring, f, d, g)
        if phase == P_UPDATE:
            phase = p_update_insert(ctx, f, d, g)
        if phase == UNION:
            parent = plan[d + N_PARENT]
            above = add_virtual(ctx, parent, row - plan[d + N_OFFSET], plan[d + N_VPOS])
            scratch[f + F_PHASE] = FINISH
            if row_place(halves, above) == place_outside(plan[node_at(parent) + N_CHILDREN]):
                push(scratch, above, parent)
                phase = S_UPDATE
        if phase == S_UPDATE:  # of the row on top
            continue
        if phase == DELTA_ENUM:
            if scratch[X_MODE] == MODE_DELTAS and not resume_deltas(ctx, ring, out):
                return False
            set_live(ctx, node, row, ONE)
        scratch[X_SP] -= 1
    return True


@device
def s_update_delete(ctx, ring, f, d, g):
    """Tests if the key of frame ``f``'s row leaves V_p: Algorithm 2 (S-UPDATE), deletion. Returns its next phase.

    The row itself leaves V_s after everything else, see ``delete_walk``.
    """
    halves, plan, scratch = ctx.halves, ctx.plan, ctx.scratch
    k = plan[d + N_KEY]
    if children_count(halves, g, k) > 1 or plan[d + N_PARENT] < 0:
        return _next_phase(ctx, ring, f, d, g, NONE)
    scratch[f + F_POSITION] = parents_count(halves, g, k) - 1
    scratch[f + F_PHASE] = P_UPDATE
    return P_UPDATE


@device
def p_update_delete(ctx, f, d, g):
    """Counts down the parents, from the frame's position back: Algorithm 3 (P-UPDATE), deletion. Returns the next
    phase.

    Returns S_UPDATE if a parent leaves its V_s; the parent is then on top of the walk. The last entry comes first, so
    that a parent that stops being live is already in place.
    """
    arena, halves, plan, scratch = ctx.arena, ctx.halves, ctx.plan, ctx.scratch
    k = plan[d + N_KEY]
    parent = plan[d + N_PARENT]
    base = parents_base(halves, g, k)
    i = scratch[f + F_POSITION]
    while i >= 0:
        if i >= 8:
            prefetch(arena, at32(halves, base + i - 8))
        above = at32(halves, base + i)
        i -= 1
        arena[H_P_UPDATES] += 1
        place = row_place(halves, above)
        if place < 0:
            set_row_place(halves, above, counted(place, NONE))
        else:
            scratch[f + F_POSITION] = i
            push(scratch, above, parent)
            return S_UPDATE
    return UNION if plan[node_at(parent) + N_VIRTUAL] == 1 else FINISH


@device
def delete_walk(ctx, ring, out):
    """Walks a deletion until no frame is left (True) or ``out`` is full (False). A row is unlinked after everything
    else."""
    arena, halves, plan, scratch = ctx.arena, ctx.halves, ctx.plan, ctx.scratch
    while scratch[X_SP] > 0:
        f = X_AREAS + FRAME * (scratch[X_SP] - 1)
        row = scratch[f + F_ROW]
        node = scratch[f + F_NODE]
        d = node_at(node)
        g = own_group(ctx, d, row)
        phase = scratch[f + F_PHASE]
        if phase == S_UPDATE:
            phase = s_update_delete(ctx, ring, f, d, g)
        if phase == P_UPDATE:
            phase = p_update_delete(ctx, f, d, g)
        if phase == UNION:
            above = at32(halves, parents_base(halves, g, plan[d + N_KEY]))
            if row_place(halves, above) == place_outside(ZERO):
                drop_virtual(ctx, plan[d + N_PARENT], above)
        if phase == S_UPDATE:  # of the row on top
            continue
        if phase == DELTA_ENUM:
            if scratch[X_MODE] == MODE_DELTAS and not resume_deltas(ctx, ring, out):
                return False
            set_live(ctx, node, row, ZERO)
        leaves(ctx, ring, d, row, g)
        children_remove(ctx, g, plan[d + N_KEY], plan[d + N_CARRIED], row_place(halves, row))
        set_row_place(halves, row, place_after(plan[d + N_CHILDREN]))
        arena[H_S_UPDATES] += 1
        scratch[X_SP] -= 1
    return True
