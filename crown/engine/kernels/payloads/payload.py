"""Payloads: exact counts and sums per group of a bound edge.

Per term, the value of a row is its *own* value, ``weight * factor * product of Pub of its groups on bound edges``, and
the value of a group is the sum over its children, ``Pub + change``. ``Pub`` is the payload published to its parents.
The change is stored in an entry until the whole batch is applied (see ``publish``). A parent reads only ``Pub``. A
pending change is published to it later, so reading it here would count it twice. So the parents of a hub are scanned
once per batch.

In plain plans ``ring`` is None, a separate type, and the compiler drops the calls of these functions.

**Entry** of a changed payload (1 word, and as many as the payload)::

    0       low: the group, 0 if it has become empty    high: the next entry of the edge
    1 ..    the addend of ``Pub``

A payload is a sequence of parts. A part of doubles has one more word: the handle of its far part, or 0. The far part of
a result is a loan, which is valid until ``loans.call``.
"""

from __future__ import annotations

from crown.engine.kernels.enumeration.enumerate import (
    delta_enum,
    enumerate_resume,
)
from crown.engine.kernels.groups import node_at, own_group
from crown.engine.kernels.layout import (
    MODE_DELTAS,
    N_EDGE,
    N_FREE,
    N_KEY,
    N_OFFSET,
    N_PAYLOAD,
    N_SELF,
    P_COLUMN,
    P_VALUE,
    P_WEIGHING,
    P_WEIGHING0,
    R_ALIASES,
    R_NODES,
    X_ALIAS,
    X_CAPACITY,
    X_CHANGE,
    X_DELTA,
    X_FAR,
    X_FILL,
    X_LENDS,
    X_LINK,
    X_MODE,
    X_PHASE,
    X_RECORD,
    X_VALUE,
    X_WEIGHT,
    X_WIDE,
    X_WITNESS,
    Y_COLUMN,
    Y_DOUBLES,
    Y_LINKS,
    Y_ONES,
    Y_OTHERS,
    Y_PAIRS,
    Y_WEIGHED,
    Y_WORDS,
    Z_DOUBLES,
    Z_FAR,
    Z_LIMBS,
    Z_WORD,
)
from crown.engine.kernels.payloads.row_value import (
    begin,
    checked_product,
    far_limbs,
    first_other,
    multiply_by_row,
    part_words,
    weight_of,
)
from crown.kernels.jit import device
from crown.kernels.memory.arena import (
    H_LOANS,
    H_WRAPPED,
    NONE,
    ZERO,
    alloc,
    hi,
    lo,
    set_hi,
    set_lo,
)
from crown.kernels.memory.geometry import (
    T_ENTRIES,
    children_count,
    entry_field,
    live_parents,
    published,
    row_place,
    row_weight,
    set_row_weight,
)
from crown.kernels.numbers.far import load_far, release_far, store_far
from crown.kernels.numbers.limbs import (
    add,
    clear,
    plus,
    sum_leaves,
    sum_of_pairs,
)

WEIGHING, ENUMERATING = 3, 4  # phases of a change of weight: an alias is next, its results are being enumerated

# Groups
# ----------------------------------------------------------------------------------------------------------------------


@device
def entry_words(words):
    """Returns the words of an entry for a payload of ``words`` words."""
    return 1 + words


@device
def entry_group(halves, entry):
    """Returns the group of the entry; 0 if the group has become empty."""
    return lo(halves, entry)


@device
def set_entry_group(halves, entry, g):
    """Writes the group of the entry."""
    set_lo(halves, entry, g)


@device
def entry_next(halves, entry):
    """Returns the next entry of the edge, or 0."""
    return hi(halves, entry)


@device
def set_entry_next(halves, entry, following):
    """Writes the next entry of the edge."""
    set_hi(halves, entry, following)


@device
def entry_change(entry):
    """Returns the first word of the addend of the payload."""
    return entry + 1


@device
def _add_near(ctx, y, o, src, i):
    """Adds the payload at ``src[i]``, without far parts, to the one at ``arena[o]``, part by part."""
    arena, plan = ctx.arena, ctx.plan
    ones = plan[y + Y_ONES]
    for w in range(ones):
        if sum_leaves(arena[o + w], src[i + w]):
            arena[H_WRAPPED] = 1
        arena[o + w] = plus(arena[o + w], src[i + w])
    if plan[y + Y_WORDS] > ones:
        for q in range(plan[y + Y_PAIRS]):
            w = ones + 2 * q
            low, high = sum_of_pairs(arena[o + w], arena[o + w + 1], src[i + w], src[i + w + 1])
            arena[o + w] = low
            arena[o + w + 1] = high
        z = first_other(plan, y)
        for _ in range(plan[y + Y_OTHERS]):
            add(arena, o + plan[z + Z_WORD], src, i + plan[z + Z_WORD], plan[z + Z_LIMBS])
            z += part_words(plan[y + Y_LINKS])


@device
def _add_far(ctx, field, src, i, n):
    """Adds the far part of ``n`` limbs at ``src[i]`` to the far part with the handle ``arena[field]``."""
    scratch = ctx.scratch
    total = scratch[X_WIDE]
    load_far(ctx.arena, ctx.arena[field], scratch, total, n)
    add(scratch, total, src, i, n)
    made = store_far(ctx.arena, scratch, total, n)
    release_far(ctx.arena, ctx.arena[field])
    ctx.arena[field] = made


@device
def add_value(ctx, y, o):
    """Adds the calculated value to the payload at ``arena[o]``."""
    plan, scratch = ctx.plan, ctx.scratch
    _add_near(ctx, y, o, scratch, scratch[X_VALUE])
    if plan[y + Y_DOUBLES] == 0:
        return
    z = first_other(plan, y)
    for _ in range(plan[y + Y_OTHERS]):
        word = plan[z + Z_WORD] + plan[z + Z_LIMBS]
        if plan[z + Z_DOUBLES] > 0 and scratch[scratch[X_VALUE] + word] != 0:
            _add_far(ctx, o + word, scratch, scratch[X_FAR] + plan[z + Z_FAR], far_limbs(plan, z))
        z += part_words(plan[y + Y_LINKS])


@device
def add_payload(ctx, y, o, i):
    """Adds the payload at ``arena[i]`` to the one at ``arena[o]``."""
    arena, plan, scratch = ctx.arena, ctx.plan, ctx.scratch
    _add_near(ctx, y, o, arena, i)
    if plan[y + Y_DOUBLES] == 0:
        return
    z = first_other(plan, y)
    for _ in range(plan[y + Y_OTHERS]):
        word = plan[z + Z_WORD] + plan[z + Z_LIMBS]
        if plan[z + Z_DOUBLES] > 0 and arena[i + word] != 0:
            n = far_limbs(plan, z)
            load_far(arena, arena[i + word], scratch, scratch[X_WIDE] + n, n)
            _add_far(ctx, o + word, scratch, scratch[X_WIDE] + n, n)
        z += part_words(plan[y + Y_LINKS])


@device
def _write_value(ctx, y, o):
    """Writes the calculated value as a new payload to ``arena[o]``."""
    arena, plan, scratch = ctx.arena, ctx.plan, ctx.scratch
    at = scratch[X_VALUE]
    for w in range(plan[y + Y_WORDS]):
        arena[o + w] = scratch[at + w]
    if plan[y + Y_DOUBLES] == 0:
        return
    z = first_other(plan, y)
    for _ in range(plan[y + Y_OTHERS]):
        word = plan[z + Z_WORD] + plan[z + Z_LIMBS]
        if plan[z + Z_DOUBLES] > 0 and scratch[at + word] != 0:
            arena[o + word] = store_far(arena, scratch, scratch[X_FAR] + plan[z + Z_FAR], far_limbs(plan, z))
        z += part_words(plan[y + Y_LINKS])


@device
def release_far_parts(ctx, y, o):
    """Frees the far parts of the payload at ``arena[o]``."""
    arena, plan = ctx.arena, ctx.plan
    if plan[y + Y_DOUBLES] == 0:
        return
    z = first_other(plan, y)
    for _ in range(plan[y + Y_OTHERS]):
        if plan[z + Z_DOUBLES] > 0:
            release_far(arena, arena[o + plan[z + Z_WORD] + plan[z + Z_LIMBS]])
        z += part_words(plan[y + Y_LINKS])


@device
def first_entry(plan, d):
    """Returns the header word with the first entry of the edge above the node at descriptor ``d``."""
    return plan[d + N_EDGE] + T_ENTRIES


@device
def pend(ctx, d, g):
    """Records that the calculated value is to be added to the payload of the group when the batch is published."""
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    y = plan[d + N_PAYLOAD]
    n = plan[y + Y_WORDS]
    field = entry_field(g, plan[d + N_KEY], n)
    entry = lo(halves, field)
    if entry != 0:
        add_value(ctx, y, entry_change(entry))
        return
    entry = alloc(arena, entry_words(n))
    head = first_entry(plan, d)
    set_entry_group(halves, entry, g)
    set_entry_next(halves, entry, arena[head])
    arena[head] = entry
    set_lo(halves, field, entry)
    _write_value(ctx, y, entry_change(entry))


@device
def entered(ctx, ring, d, row, g, first):
    """Accounts for a row that has entered V_s as a child of ``g``. ``first``: it is the only child, so no parent
    changes."""
    if ring is None:
        return
    arena, plan = ctx.arena, ctx.plan
    y = plan[d + N_PAYLOAD]
    if y == 0:
        return
    if plan[d + N_FREE] == 1:
        arena[row + plan[d + N_SELF]] = row
        return
    begin(ctx, y, weight_of(ctx, y, row))
    multiply_by_row(ctx, y, row, NONE, ZERO)
    if first:
        _write_value(ctx, y, published(g, plan[d + N_KEY]))
    else:
        pend(ctx, d, g)


@device
def leaves(ctx, ring, d, row, g):
    """Accounts for a row that is about to be deleted from the children of ``g``.

    If it is the last child, all parents have left V_s already, with the published payload.
    """
    if ring is None:
        return
    arena, halves, plan = ctx.arena, ctx.halves, ctx.plan
    y = plan[d + N_PAYLOAD]
    if y == 0 or plan[d + N_FREE] == 1:
        return
    k = plan[d + N_KEY]
    if children_count(halves, g, k) > 1:
        begin(ctx, y, -weight_of(ctx, y, row))
        multiply_by_row(ctx, y, row, NONE, ZERO)
        pend(ctx, d, g)
        return
    release_far_parts(ctx, y, published(g, k))
    clear(arena, published(g, k), plan[y + Y_WORDS])
    field = entry_field(g, k, plan[y + Y_WORDS])
    entry = lo(halves, field)
    if entry != 0:
        set_entry_group(halves, entry, ZERO)
        set_lo(halves, field, ZERO)


# Results
# ----------------------------------------------------------------------------------------------------------------------


@device
def witness(ctx, ring, d, node, row, sign):
    """Records that the results to be enumerated are inserted (``sign`` 1) or deleted (-1) with a row of ``node``."""
    if ring is None:
        return
    plan, scratch = ctx.plan, ctx.scratch
    y = plan[d + N_PAYLOAD]
    scratch[X_WITNESS] = node
    scratch[X_WEIGHT] = sign
    if y != 0:
        scratch[X_WEIGHT] = sign * weight_of(ctx, y, row)
    scratch[X_LINK] = NONE


@device
def _lend(ctx, y, out, at):
    """Writes the handles of the far parts of the value, which are loans, to a row of ``out``.

    Writes 0 for a far part that is 0, and if loans are not enabled.
    """
    arena, plan, scratch = ctx.arena, ctx.plan, ctx.scratch
    z = first_other(plan, y)
    for _ in range(plan[y + Y_OTHERS]):
        word = plan[z + Z_WORD] + plan[z + Z_LIMBS]
        if plan[z + Z_DOUBLES] > 0 and scratch[scratch[X_VALUE] + word] != 0:
            number = ZERO
            if scratch[X_LENDS] == 1:
                number = store_far(arena, scratch, scratch[X_FAR] + plan[z + Z_FAR], far_limbs(plan, z))
            if number != 0:
                loan = alloc(arena, 2)
                arena[loan], arena[loan + 1] = arena[H_LOANS], number
                arena[H_LOANS] = loan
            out[at + word * scratch[X_CAPACITY]] = number
        z += part_words(plan[y + Y_LINKS])


@device
def _multiply_rows(ctx, ring, out, start):
    """Writes the payloads of the results in ``out``, from row ``start``. Their rows contain the handles of the joined
    rows."""
    if ring is None:
        return
    plan, scratch = ctx.plan, ctx.scratch
    capacity = scratch[X_CAPACITY]
    value = plan[P_VALUE]
    weighing = plan[P_WEIGHING0]
    count = plan[P_WEIGHING]
    for i in range(start, scratch[X_FILL]):
        weight = scratch[X_WEIGHT]
        for x in range(weighing, weighing + count):
            y = plan[node_at(plan[x]) + N_PAYLOAD]
            if plan[x] != scratch[X_WITNESS]:
                weight = checked_product(ctx, weight, weight_of(ctx, y, out[plan[y + Y_COLUMN] * capacity + i]))
        begin(ctx, value, weight)
        for x in range(weighing, weighing + count):
            y = plan[node_at(plan[x]) + N_PAYLOAD]
            if plan[y + Y_LINKS] > 0:
                link = NONE
                if plan[x] == scratch[X_WITNESS]:
                    link = scratch[X_LINK]
                multiply_by_row(ctx, y, out[plan[y + Y_COLUMN] * capacity + i], link, scratch[X_DELTA])
        for w in range(plan[value + Y_WORDS]):
            out[(plan[P_COLUMN] + w) * capacity + i] = scratch[scratch[X_VALUE] + w]
        if plan[value + Y_DOUBLES] > 0:
            _lend(ctx, value, out, plan[P_COLUMN] * capacity + i)


@device
def resume_deltas(ctx, ring, out):
    """Runs ``enumerate_resume``. In a payload plan it also writes the payloads of the results."""
    start = ctx.scratch[X_FILL]
    done = enumerate_resume(ctx, out)
    _multiply_rows(ctx, ring, out, start)
    return done


# Weights
# ----------------------------------------------------------------------------------------------------------------------


@device
def weigh(ctx, ring, row, weight):
    """Accounts for a new row with weight ``weight``."""
    if ring is None:
        return
    set_row_weight(ctx.halves, row, weight)


@device
def reweigh(ctx, ring, rec, out):
    """Updates the aliases of a record, one after the other, for a change of its copies by ``scratch[X_CHANGE]``.

    Aliases that are not updated yet multiply with the old weight. Returns True, or False if ``out`` is full: call it
    again.
    """
    halves, plan, scratch = ctx.halves, ctx.plan, ctx.scratch
    change = scratch[X_CHANGE]
    while scratch[X_ALIAS] < plan[rec + R_ALIASES]:
        node = plan[plan[rec + R_NODES] + scratch[X_ALIAS]]
        d = node_at(node)
        y = plan[d + N_PAYLOAD]
        row = scratch[X_RECORD] + plan[d + N_OFFSET]
        if scratch[X_PHASE] == ENUMERATING:
            if scratch[X_MODE] == MODE_DELTAS and not resume_deltas(ctx, ring, out):
                return False
            scratch[X_PHASE] = WEIGHING
        elif y != 0 and plan[y + Y_WEIGHED] == 1 and row_place(halves, row) >= 0:
            g = own_group(ctx, d, row)
            if plan[d + N_FREE] == 0:
                begin(ctx, y, change)
                multiply_by_row(ctx, y, row, NONE, ZERO)
                pend(ctx, d, g)
            elif scratch[X_MODE] == MODE_DELTAS and live_parents(halves, g, plan[d + N_KEY]) > 0:
                delta_enum(ctx, node, row)
                scratch[X_WITNESS] = node
                scratch[X_WEIGHT] = change
                scratch[X_LINK] = NONE
                scratch[X_PHASE] = ENUMERATING
                continue
        set_row_weight(halves, row, row_weight(halves, row) + change)
        scratch[X_ALIAS] += 1
    return True
