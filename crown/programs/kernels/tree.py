"""A join core in a batch that is one native call: nets of relations in, rows of the free attributes out.

    per stored relation: feed (``feeds``) -> net -> what deletes find
    all that goes, relation by relation -> all that comes -> the output buffer, in which what goes stands first

What each stored relation takes of a block is what ``crown.ingest.batch.JoinInputs`` makes of it, and what is done with
it what ``crown.engine.propagation`` does, in the same order. It can be left wherever that can be: the batch goes on
there. A stored relation has the words ``D_FEED`` ... in the plan, and ``K_EVENTS`` ... in the state.
"""

from __future__ import annotations

from crown.engine.kernels.layout import (
    MODE_DELTAS,
    P_COLUMN,
    X_CAPACITY,
    X_EDGE,
    X_FACTORED,
    X_FILL,
    X_I,
    X_MODE,
    X_PARENT,
)
from crown.engine.kernels.padding import batches
from crown.engine.kernels.payloads.summed_leaves import summed
from crown.engine.kernels.publish import PUBLISHING, publish
from crown.engine.kernels.state import find_copies
from crown.engine.kernels.update import DONE, deleted, inserted
from crown.kernels.jit import device
from crown.kernels.memory.addresses import constants_at, halves_at, words_at
from crown.kernels.memory.arena import H_BUDGET, H_OPEN, H_WRAPPED, ZERO
from crown.kernels.memory.context import Context
from crown.kernels.memory.pointers import beyond
from crown.kernels.strings import NULL
from crown.programs.kernels.feeds import F_BLOCK, F_MADE, F_WIDTH
from crown.programs.kernels.sources import R_EVENTS, R_FORMS, R_NULLS, R_WEIGHTS, READ, net_of

(D_FEED, D_NETS, D_RECORD, D_ASKS, D_JOINED, D_JOINED0, D_ALIASES, D_ALIAS0, D_SUMMED, D_TAKEN, D_TREE,
 D_DROPS, TAKE) = range(13)  # fmt: skip
"""Words of a stored relation in the plan: the feed that makes its tuples; 1 if they are netted; its record descriptor;
1 if it is asked what deletes find; how many of its columns must not be NULL, and where they are listed; how many
aliases read it, and where the words are listed that count what they read, and what the feed leaves out; 1 if only sums
of its rows are kept; its first word in the state, and that of its core; 1 if tuples with such a NULL are left out."""
(J_STATE, J_TAKES, J_TAKE0, J_TURNS, J_WORDS, J_DELIVERS, J_NETS, J_PLACES, J_WIDTH, J_READ, J_READS, J_MADE,
 J_SHOWN, J_PADS, J_PAD0, J_HEADED, CORE) = range(17)  # fmt: skip
"""Words of a join core in the plan: its first word in the state; how many relations it stores, and where two lists of
them are, in the order of deletions and in that of insertions; the words of what its rows weigh, or 0; 1 if its rows are
delivered, and 1 if they are netted then, by which of their words, and how many these are. If a stage reads the rows:
how many columns there are, where three words of each are: its word in the buffer, or -1, and then its only code, and
the form; the block that they become, and that of the rows of the stage. How often groups are visited that may be
padded, and where the words ``V_WHEN`` ... of each visit are listed. 1 if the next operator makes the rows of the
stage, and then lets the batch stand."""
V_WHEN, V_TAKE, V_SIGN, V_NODE, V_AT, VISIT = range(6)
"""Words of a visit: -1 before the insertions, 1 behind them; the stored relation whose tuples find the groups, and 1 if
these are the tuples that come; the padded node, and the look-up."""
K_EVENTS, K_GONE, K_ROWS, K_WEIGHTS, K_AMOUNTS, K_ABSENT, K_DROPPED, TAKEN = range(8)
"""Words of a stored relation in the state: tuples of its net, and of these that go, which come first; where in the
memory they are, one after the other, the weights, those of what goes without their sign, and what of that was not
there; and how many tuples of the net were left out."""
(T_SIGN, T_TURN, T_STATUS, T_MINUS, T_ABSENT, T_EVERY, T_MOST, T_ROOM, T_ARENA, T_PLAN, T_SCRATCH, T_OUT,
 TREE) = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)  # fmt: skip
"""Words of a core in the state: the sign and the turn at which it is, the sign ``PUBLISHING`` behind all of them, and
what the kernel there came back with; rows in the buffer that go, which stand first, if rows weigh nothing; copies that
were not there; the mask of tuples that all aliases read; for how many rows there is room that a stage reads, and how
many the buffer takes; then two words each, the address and the number of words: of the arena, the plan, the scratch and
the buffer."""
LEFT, HELD = 26, 27
"""What ``joined`` comes back with: the core was left; all is done but what becomes of the rows in its buffer."""


@device
def words_of_rows(width):
    """Returns how many words of the memory a tuple of a stored relation takes, besides those of its feed."""
    return width + 5


@device
def take(plan, d, secret, memory, at, state, blocks, slots):
    """Makes the net of a stored relation out of the block of its feed, from word ``at`` of the memory on. Returns where
    that goes on."""
    f, k = plan[d + D_FEED], plan[d + D_TAKEN]
    r, width = blocks + READ * plan[f + F_MADE], plan[f + F_WIDTH]
    m, weights, forms = state[r + R_EVENTS], beyond(memory, state[r + R_WEIGHTS]), beyond(memory, state[r + R_FORMS])
    n, columns = m, beyond(memory, at)
    for j in range(width):
        columns[j] = forms[2 * j + 1]
    at += width
    state[k + K_ROWS] = at
    rows = beyond(memory, at)
    at += (width + 1) * n
    if plan[d + D_NETS] == 1 and (m > 1 or (m == 1 and weights[0] == 0)):
        m = net_of(memory, 1, columns, width, weights, m, secret, slots, memory, at, rows, False)
    else:
        for j in range(width):
            first = columns[j]
            for i in range(m):
                rows[i * width + j] = memory[first + i]
        for i in range(m):
            rows[m * width + i] = weights[i]
    state[k + K_WEIGHTS], state[k + K_DROPPED] = state[k + K_ROWS] + m * width, 0
    found = beyond(memory, state[k + K_WEIGHTS])
    if plan[d + D_DROPS] == 1 and state[r + R_NULLS] != 0:
        kept = _with_keys(plan, d, rows, width, found, m)
        state[k + K_DROPPED], m = m - kept, kept
    amounts, absent, gone = beyond(memory, at), beyond(memory, at + n), ZERO
    while gone < m and found[gone] < 0:
        amounts[gone], absent[gone] = -found[gone], 0
        gone += 1
    state[k + K_EVENTS], state[k + K_GONE], state[k + K_AMOUNTS], state[k + K_ABSENT] = m, gone, at, at + n
    return at + 2 * n


@device
def _lacks(plan, d, rows, at):
    """Returns True if the tuple at ``rows[at]`` has a NULL where it is joined on."""
    found = False
    for x in range(plan[d + D_JOINED]):
        found |= rows[at + plan[plan[d + D_JOINED0] + x]] == NULL
    return found


@device
def _with_keys(plan, d, rows, width, weights, m):
    """Moves the tuples without a NULL where they are joined on to the front; how many there are."""
    kept = ZERO
    for i in range(m):
        if not _lacks(plan, d, rows, i * width):
            for j in range(width):
                rows[kept * width + j] = rows[i * width + j]
            weights[kept] = weights[i]
            kept += 1
    return kept


@device
def lacks_key(plan, d, memory, state, blocks):
    """Returns True if a tuple that was not left out has a NULL where it is joined on."""
    f, k = plan[d + D_FEED], plan[d + D_TAKEN]
    if state[blocks + READ * plan[f + F_MADE] + R_NULLS] == 0 or plan[d + D_DROPS] == 1:
        return False
    rows, width = beyond(memory, state[k + K_ROWS]), plan[f + F_WIDTH]
    found = False
    for i in range(state[k + K_EVENTS]):
        found |= _lacks(plan, d, rows, i * width)
    return found


@device
def context(state, t):
    """Returns the state of a core, as the kernels of the engine take it."""
    size = state[t + T_ARENA + 1]
    arena, halves = words_at(state[t + T_ARENA], size), halves_at(state[t + T_ARENA], 2 * size)
    core = constants_at(state[t + T_PLAN], state[t + T_PLAN + 1])
    return Context(arena, halves, core, words_at(state[t + T_SCRATCH], state[t + T_SCRATCH + 1]))


@device
def has_all(plan, d, memory, state):
    """Returns True if all tuples that go are stored, with as many copies."""
    ctx, k = context(state, plan[d + D_TREE]), plan[d + D_TAKEN]
    gone, found = state[k + K_GONE], beyond(memory, state[k + K_ABSENT])
    amounts = beyond(memory, state[k + K_AMOUNTS])
    find_copies(ctx.arena, ctx.halves, ctx.plan, plan[d + D_RECORD], beyond(memory, state[k + K_ROWS]), gone, found)
    every = True
    for i in range(gone):
        every = every and found[i] >= amounts[i]
        found[i] = 0
    return every


@device
def _gone(ctx, sums, rec, rows, amounts, n, absent, ring, out):
    """Deletes tuples of a stored relation, of which only ``sums`` are kept, or the rows; what the kernel returns."""
    if ring is not None and sums == 1:
        return summed(ctx, rec, rows, amounts, n, absent, -1, ring, out)
    return deleted(ctx, rec, rows, amounts, n, absent, ring, out)


@device
def _come(ctx, sums, rec, rows, weights, n, every, ring, out):
    """Inserts tuples as ``_gone`` deletes them."""
    if ring is not None and sums == 1:
        return summed(ctx, rec, rows, weights, n, every, 1, ring, out)
    return inserted(ctx, rec, rows, weights, n, every, False, ring, out)


@device
def _padded(ctx, plan, j, memory, state, sign, ring, out):
    """Deletes paddings before the insertions (``sign`` -1), or inserts them; ``DONE``, or ``FULL``."""
    every = beyond(state, plan[j + J_STATE] + T_EVERY)
    for x in range(plan[j + J_PADS]):
        v = plan[j + J_PAD0] + VISIT * x
        if plan[v + V_WHEN] == sign:
            d = plan[v + V_TAKE]
            of, width = plan[d + D_TAKEN], plan[plan[d + D_FEED] + F_WIDTH]
            n, rows = state[of + K_GONE], state[of + K_ROWS]
            if plan[v + V_SIGN] > 0:
                n, rows = state[of + K_EVENTS] - n, rows + n * width
            node, at, tuples = plan[v + V_NODE], plan[v + V_AT], beyond(memory, rows)
            ctx.scratch[X_I] = 0
            if sign < 0:
                found = batches.taken(ctx, node, at, width, tuples, n, every, False, ZERO, ring, out)
            else:
                found = batches.given(ctx, node, at, width, tuples, n, ring, out)
            if found != DONE:
                return found
    return DONE


@device
def _propagated(ctx, plan, j, memory, state, ring, out):
    """Applies the nets of all stored relations; ``DONE``, or what the kernel came back with at which it is left. The
    turn of paddings is behind those of all relations.

    ``ring``: None, or 1 for a core with payloads.
    """
    scratch, t, takes = ctx.scratch, plan[j + J_STATE], plan[j + J_TAKES]
    ctx.arena[H_OPEN] = 1
    scratch[X_MODE], scratch[X_FACTORED], scratch[X_CAPACITY] = MODE_DELTAS, 0, state[t + T_ROOM]
    scratch[X_I], scratch[X_FILL], scratch[X_EDGE], scratch[X_PARENT] = 0, 0, 0, 0
    state[t + T_MINUS], state[t + T_ABSENT], state[t + T_EVERY] = 0, 0, -1
    for sign in (-1, 1):
        state[t + T_SIGN] = sign
        for turn in range(takes):
            d = plan[plan[j + J_TAKE0] + plan[plan[j + J_TURNS] + (turn if sign < 0 else takes + turn)]]
            of = plan[d + D_TAKEN]
            n, gone, rec, rows = state[of + K_EVENTS], state[of + K_GONE], plan[d + D_RECORD], state[of + K_ROWS]
            state[t + T_TURN] = turn
            found = DONE
            if sign < 0 and gone > 0:
                amounts, absent = beyond(memory, state[of + K_AMOUNTS]), beyond(memory, state[of + K_ABSENT])
                found = _gone(ctx, plan[d + D_SUMMED], rec, beyond(memory, rows), amounts, gone, absent, ring, out)
                for i in range(gone):
                    state[t + T_ABSENT] += absent[i]
            elif sign > 0 and n > gone:
                come, weights = (
                    beyond(memory, rows + gone * plan[plan[d + D_FEED] + F_WIDTH]),
                    beyond(memory, state[of + K_WEIGHTS] + gone),
                )
                every = beyond(state, t + T_EVERY)
                found = _come(ctx, plan[d + D_SUMMED], rec, come, weights, n - gone, every, ring, out)
            if found != DONE:
                state[t + T_STATUS] = found
                return found
        found = _padded(ctx, plan, j, memory, state, sign, ring, out)
        if found != DONE:
            state[t + T_TURN], state[t + T_STATUS] = takes, found
            return found
        if sign < 0:
            state[t + T_MINUS] = scratch[X_FILL]
    if ring is not None:
        state[t + T_SIGN], state[t + T_TURN] = PUBLISHING, 0
        state[t + T_STATUS] = publish(ctx, ring, out)
        return state[t + T_STATUS]
    return DONE


@device
def joined(plan, j, memory, state, blocks, grown):
    """Applies the nets of what a core stores; ``DONE``, or how it stopped. ``grown``: the words that other parts have
    taken."""
    t = plan[j + J_STATE]
    ctx, out = context(state, t), words_at(state[t + T_OUT], state[t + T_OUT + 1])
    ctx.arena[H_BUDGET] -= grown
    if plan[j + J_WORDS] > 0:
        found = _propagated(ctx, plan, j, memory, state, 1, out)
    else:
        found = _propagated(ctx, plan, j, memory, state, None, out)
    ctx.arena[H_BUDGET] += grown
    if found != DONE:
        return LEFT
    if state[t + T_ABSENT] > 0 or ctx.arena[H_WRAPPED] != 0:
        return HELD
    return DONE


@device
def _weighed(plan, j, ctx, memory, at, state, out):
    """Copies what the rows in the buffer weigh, column by column, to the memory from word ``at`` on."""
    t, words = plan[j + J_STATE], plan[j + J_WORDS]
    m, room, weights = ctx.scratch[X_FILL], state[t + T_ROOM], beyond(memory, at)
    for w in range(words):
        for i in range(m):
            weights[w * m + i] = out[(ctx.plan[P_COLUMN] + w) * room + i]
    if words == 0:
        for i in range(m):
            weights[i] = -1 if i < state[t + T_MINUS] else 1


@device
def placed(plan, j, secret, message, memory, state, slots):
    """Lets the rows of a core be delivered, of which a ``message`` can be made. Returns how many there are, or -1 if
    that is left to others. They are in the buffer, and what they weigh is at word 0 of the memory; or, if they are
    netted, both are behind twice the room of the buffer."""
    t = plan[j + J_STATE]
    ctx, out = context(state, t), words_at(state[t + T_OUT], state[t + T_OUT + 1])
    m, room, nets = ctx.scratch[X_FILL], state[t + T_ROOM], plan[j + J_NETS] == 1
    if m > 0 and (not message or (2 * m >= room and not nets)):
        return ZERO - 1
    _weighed(plan, j, ctx, memory, ZERO, state, out)
    if nets and m > 0:
        places, at = beyond(plan, plan[j + J_PLACES]), 2 * room
        m = net_of(
            out, room, places, plan[j + J_WIDTH], beyond(memory, ZERO), m, secret, slots, memory, room,
            beyond(memory, at), True,
        )  # fmt: skip
    return m


@device
def passed_on(plan, j, memory, at, state, blocks):
    """Makes a block of the rows in the buffer of a core, from word ``at`` of the memory on. Returns where that goes on,
    or -1 if they are too many."""
    t = plan[j + J_STATE]
    ctx, out = context(state, t), words_at(state[t + T_OUT], state[t + T_OUT + 1])
    m, room, columns = ctx.scratch[X_FILL], state[t + T_ROOM], plan[j + J_READ]
    if m > state[t + T_MOST]:
        return ZERO - 1
    r, forms = blocks + READ * plan[j + J_MADE], beyond(memory, at)
    state[r + R_EVENTS], state[r + R_NULLS], state[r + R_FORMS] = m, 1, at
    at += 2 * columns
    for c in range(columns):
        read, codes = plan[j + J_READS] + 3 * c, beyond(memory, at)
        place, code = plan[read], plan[read + 1]
        for i in range(m):
            codes[i] = out[place * room + i] if place >= 0 else code
        forms[2 * c], forms[2 * c + 1] = plan[read + 2], at
        at += m
    state[r + R_WEIGHTS] = at
    _weighed(plan, j, ctx, memory, at, state, out)
    return at + max(plan[j + J_WORDS], 1) * m


@device
def settle(plan, j, state, blocks):
    """Lets a batch that a core has applied stand, and counts it, per alias."""
    arena = context(state, plan[j + J_STATE]).arena
    arena[H_OPEN] = 0
    for x in range(plan[j + J_TAKES]):
        d = plan[plan[j + J_TAKE0] + x]
        f, of = plan[d + D_FEED], plan[d + D_TAKEN]
        r, made = blocks + READ * plan[f + F_BLOCK], blocks + READ * plan[f + F_MADE]
        rejected = state[r + R_EVENTS] - state[made + R_EVENTS] + state[of + K_DROPPED]
        for at in range(plan[d + D_ALIAS0], plan[d + D_ALIAS0] + 2 * plan[d + D_ALIASES], 2):
            arena[plan[at]] += state[of + K_EVENTS]
            arena[plan[at + 1]] += rejected
