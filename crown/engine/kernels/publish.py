"""Publication: once per batch, each changed group publishes its payload to its parents, the deepest edges first.

A parent row is updated once per changed group below it, however often the group has changed. Sibling groups are
published one after the other, so that the changes of a product telescope.
"""

from __future__ import annotations

from crown.engine.kernels.enumeration.enumerate import delta_enum
from crown.engine.kernels.groups import node_at, own_group
from crown.engine.kernels.layout import (
    IDLE,
    MODE_DELTAS,
    N_EDGE,
    N_FREE,
    N_KEY,
    N_PARENT,
    N_PAYLOAD,
    P_EDGE0,
    P_EDGES,
    P_VALUE,
    P_WEIGHING,
    P_WEIGHING0,
    X_CAPACITY,
    X_DELTA,
    X_EDGE,
    X_LINK,
    X_MODE,
    X_PARENT,
    X_PHASE,
    X_VALUE,
    X_WEIGHT,
    X_WITNESS,
    Y_ABOVE,
    Y_LINK0,
    Y_LINKS,
    Y_WORDS,
)
from crown.engine.kernels.payloads.payload import (
    ENUMERATING,
    add_payload,
    entry_change,
    entry_group,
    entry_next,
    entry_words,
    first_entry,
    pend,
    release_far_parts,
    resume_deltas,
)
from crown.engine.kernels.payloads.row_value import begin, multiply_by_row, weight_of
from crown.engine.kernels.update import DONE, FULL, OVER_BUDGET
from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import H_BUDGET, H_LIVE, NONE, ONE, ZERO, at32, release, set_lo
from crown.kernels.memory.context import Context
from crown.kernels.memory.geometry import (
    T_TOUCHED,
    entry_field,
    linked_group,
    live_parents,
    parents_base,
    parents_count,
    published,
    row_place,
)
from crown.kernels.memory.pointers import constants, prefetch, words
from crown.kernels.numbers.limbs import is_zero

PUBLISHING = 2  # takes the place of a sign: all changes are applied


@device
def _publish_to_bound_rows(ctx, d, dp, g, delta):
    """Adds the effect of ``delta`` to the groups of the parents of ``g`` in V_s, which are rows of a bound node."""
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    k = plan[d + N_KEY]
    link = plan[plan[d + N_PAYLOAD] + Y_ABOVE]
    y = plan[dp + N_PAYLOAD]
    base = parents_base(halves, g, k)
    n = parents_count(halves, g, k)
    arena[plan[d + N_EDGE] + T_TOUCHED] += n
    for i in range(n):
        if i + 8 < n:
            prefetch(arena, at32(halves, base + i + 8))
        if i + 4 < n:
            prefetch(arena, own_group(ctx, dp, at32(halves, base + i + 4)))
        row = at32(halves, base + i)
        if row_place(halves, row) >= 0:
            begin(ctx, y, weight_of(ctx, y, row))
            multiply_by_row(ctx, y, row, link, delta)
            pend(ctx, dp, own_group(ctx, dp, row))


@device
def _publish_to_results(ctx, ring, d, parent, g, delta, out):
    """Enumerates the effect of ``delta`` on the results of the live parents of ``g``, which are rows of a free node.

    Returns True, or False if ``out`` is full.
    """
    halves, plan, scratch = ctx.halves, ctx.plan, ctx.scratch
    k = plan[d + N_KEY]
    above = plan[node_at(parent) + N_KEY]
    y = plan[node_at(parent) + N_PAYLOAD]
    while True:
        if scratch[X_PHASE] == ENUMERATING:
            if scratch[X_MODE] == MODE_DELTAS and not resume_deltas(ctx, ring, out):
                return False
            scratch[X_PHASE] = IDLE
            scratch[X_PARENT] += 1
        if scratch[X_MODE] != MODE_DELTAS or scratch[X_PARENT] >= parents_count(halves, g, k):
            return True
        row = at32(halves, parents_base(halves, g, k) + scratch[X_PARENT])
        ctx.arena[plan[d + N_EDGE] + T_TOUCHED] += 1
        if row_place(halves, row) < 0 or live_parents(halves, own_group(ctx, node_at(parent), row), above) == 0:
            scratch[X_PARENT] += 1  # not in a result
            continue
        delta_enum(ctx, parent, row)
        scratch[X_WITNESS] = parent
        scratch[X_WEIGHT] = weight_of(ctx, y, row)
        scratch[X_LINK] = plan[plan[d + N_PAYLOAD] + Y_ABOVE]
        scratch[X_DELTA] = delta
        scratch[X_PHASE] = ENUMERATING


@device
def _further(halves, entry, steps):
    """Returns the entry that is ``steps`` steps after an entry of an edge; 0 if there is none."""
    while entry != 0 and steps > 0:
        entry = entry_next(halves, entry)
        steps -= 1
    return entry


@device
def _fetch_published(ctx, d, g):
    """Prefetches a group, and its payload."""
    k = ctx.plan[d + N_KEY]
    prefetch(ctx.arena, g + k)
    prefetch(ctx.arena, entry_field(g, k, ctx.plan[ctx.plan[d + N_PAYLOAD] + Y_WORDS]))


@device
def _ahead(ctx, d, dp, far, near, soon):
    """Prefetches the memory that later entries need: the group of ``far``, the only parent of ``near``, and the groups
    that the parent of ``soon`` references. Each is 0 for none. Returns the next entries."""
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    k = plan[d + N_KEY]
    if far != 0:
        _fetch_published(ctx, d, entry_group(halves, far))
        far = entry_next(halves, far)
    if near != 0:
        g = entry_group(halves, near)
        if g != 0 and parents_count(halves, g, k) == 1:
            prefetch(arena, at32(halves, parents_base(halves, g, k)))
        near = entry_next(halves, near)
    if soon != 0:
        g = entry_group(halves, soon)
        if g != 0 and parents_count(halves, g, k) == 1:
            row = at32(halves, parents_base(halves, g, k))
            y = plan[dp + N_PAYLOAD]
            for pair in range(plan[y + Y_LINK0], plan[y + Y_LINK0] + 2 * plan[y + Y_LINKS], 2):
                prefetch(arena, published(linked_group(halves, row, plan[pair]), plan[pair + 1]))
        soon = entry_next(halves, soon)
    return far, near, soon


@kernel("words, halves, words, words, int, table")
def publish_batch(arena, halves, plan, scratch, ring, out):
    """Publishes all changes since the last publication to the parents. ``scratch[X_EDGE]`` must be 0 at the first call.

    Returns DONE; or FULL: ``out`` (int64[columns, capacity], with ``scratch[X_FILL]`` rows) is full, empty it and call
    again; or OVER_BUDGET: some groups are not published yet. O(parents of changed groups + changed results).
    """
    scratch[X_CAPACITY] = out.shape[1]
    ctx = Context(words(arena), words(halves), constants(plan), words(scratch))
    return publish(ctx, ring, words(out))


@device
def publish(ctx, ring, out):
    """Publishes all changes to the parents: see ``publish_batch``. ``scratch[X_CAPACITY]``: the words of a column of
    ``out``."""
    arena, halves, plan, scratch = ctx.arena, ctx.halves, ctx.plan, ctx.scratch
    while scratch[X_EDGE] < plan[P_EDGES]:
        d = node_at(plan[plan[P_EDGE0] + scratch[X_EDGE]])
        parent = plan[d + N_PARENT]
        dp = node_at(parent)
        y = plan[d + N_PAYLOAD]
        head = first_entry(plan, d)
        soon = _further(halves, arena[head], 2)
        near = _further(halves, soon, 4)
        far = _further(halves, near, 6)
        while arena[head] != 0:
            if arena[H_LIVE] > arena[H_BUDGET]:
                return OVER_BUDGET
            far, near, soon = _ahead(ctx, d, dp, far, near, soon)
            entry = arena[head]
            g = entry_group(halves, entry)
            delta = entry_change(entry)
            if g != 0 and not is_zero(arena, delta, plan[y + Y_WORDS]):
                if plan[dp + N_FREE] == 0:
                    _publish_to_bound_rows(ctx, d, dp, g, delta)
                elif not _publish_to_results(ctx, ring, d, parent, g, delta, out):
                    return FULL
                add_payload(ctx, y, published(g, plan[d + N_KEY]), delta)
            if g != 0:
                set_lo(halves, entry_field(g, plan[d + N_KEY], plan[y + Y_WORDS]), ZERO)
            scratch[X_PARENT] = 0
            arena[head] = entry_next(halves, entry)
            release_far_parts(ctx, y, delta)
            release(arena, entry, entry_words(plan[y + Y_WORDS]))
        scratch[X_EDGE] += 1
    scratch[X_EDGE] = 0
    return DONE


@kernel("words, halves, words, words, int, table")
def enumerate_weighed(arena, halves, plan, scratch, ring, out):
    """Runs ``enumerate_block`` in a payload plan: every result with its payload."""
    scratch[X_CAPACITY] = out.shape[1]
    scratch[X_WITNESS] = NONE
    scratch[X_WEIGHT] = ONE
    scratch[X_LINK] = NONE
    ctx = Context(words(arena), words(halves), constants(plan), words(scratch))
    return resume_deltas(ctx, ring, words(out))


@kernel("words, halves, words, words, words, words")
def payload_of(arena, halves, plan, scratch, rows, out):
    """Writes the payload of one result to ``out``, without far parts. ``rows`` (int64): the rows of the free nodes that
    weigh, in order."""
    arena, halves, plan, scratch = words(arena), words(halves), constants(plan), words(scratch)
    rows, out = words(rows), words(out)
    ctx = Context(arena, halves, plan, scratch)
    value = plan[P_VALUE]
    weight = 1
    for x in range(plan[P_WEIGHING]):
        y = plan[node_at(plan[plan[P_WEIGHING0] + x]) + N_PAYLOAD]
        weight *= weight_of(ctx, y, rows[x])
    begin(ctx, value, weight)
    for x in range(plan[P_WEIGHING]):
        y = plan[node_at(plan[plan[P_WEIGHING0] + x]) + N_PAYLOAD]
        multiply_by_row(ctx, y, rows[x], NONE, ZERO)
    for w in range(plan[value + Y_WORDS]):
        out[w] = scratch[scratch[X_VALUE] + w]
