"""A join core in a batch that is one native call: nets of relations in, rows of the free attributes out.

    per stored relation: feed (``feeds``) -> net -> what deletes find
    all that goes, relation by relation -> all that comes -> the output buffer, in which what goes stands first

What each stored relation takes of a block is what ``crown.ingest.batch.JoinInputs`` makes of it, and what is done with
it what ``crown.engine.propagation`` does, in the same order. It can be left wherever that can be: the batch goes on
there. A stored relation has the words ``D_FEED`` ... in the plan, and ``K_EVENTS`` ... in the state.
"""

from __future__ import annotations

from crown.engine.kernels.layout import MODE_DELTAS, X_CAPACITY, X_EDGE, X_FACTORED, X_FILL, X_I, X_MODE, X_PARENT
from crown.engine.kernels.payloads.summed_leaves import summed
from crown.engine.kernels.publish import PUBLISHING, publish
from crown.engine.kernels.state import find_copies
from crown.engine.kernels.update import DONE, deleted, inserted
from crown.kernels.arena import H_OPEN, ZERO
from crown.kernels.jit import device
from crown.kernels.pointers import beyond
from crown.kernels.strings import NULL
from crown.programs.kernels.feeds import F_BLOCK, F_MADE, F_WIDTH
from crown.programs.kernels.sources import R_EVENTS, R_FORMS, R_NULLS, R_WEIGHTS, READ, net_of

(D_FEED, D_NETS, D_RECORD, D_ASKS, D_JOINED, D_JOINED0, D_ALIASES, D_ALIAS0, D_SUMMED, TAKE) = range(10)
"""Words of a stored relation in the plan: the feed that makes its tuples; 1 if they are netted; its record descriptor;
1 if it is asked what deletes find; how many of its columns must not be NULL, and where they are listed; how many
aliases read it, and where the words are listed that count what they read, and what the feed leaves out; 1 if only sums
of its rows are kept."""
K_EVENTS, K_GONE, K_ROWS, K_WEIGHTS, K_AMOUNTS, K_ABSENT, TAKEN = range(7)
"""Words of a stored relation in the state: tuples of its net, and of these that go, which come first; where in the
memory they are, one after the other, the weights, those of what goes without their sign, and what of that was not
there."""
T_SIGN, T_TURN, T_STATUS, T_MINUS, T_ABSENT, T_EVERY, TREE = range(7)
"""Words of the state: the sign and the turn at which it is, the sign ``PUBLISHING`` behind all of them, and what the
kernel there came back with; rows in the buffer that go, which stand first, if rows weigh nothing; copies that were not
there; the mask of tuples that all aliases read."""


@device
def words_of_rows(width):
    """Returns how many words of the memory a tuple of a stored relation takes, besides those of its feed."""
    return width + 5


@device
def take(plan, d, secret, memory, at, state, blocks, k, slots):
    """Makes the net of a stored relation out of the block of its feed, from word ``at`` of the memory on. Returns where
    that goes on."""
    f = plan[d + D_FEED]
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
    state[k + K_WEIGHTS] = state[k + K_ROWS] + m * width
    found = beyond(memory, state[k + K_WEIGHTS])
    amounts, absent, gone = beyond(memory, at), beyond(memory, at + n), ZERO
    while gone < m and found[gone] < 0:
        amounts[gone], absent[gone] = -found[gone], 0
        gone += 1
    state[k + K_EVENTS], state[k + K_GONE], state[k + K_AMOUNTS], state[k + K_ABSENT] = m, gone, at, at + n
    return at + 2 * n


@device
def lacks_key(plan, d, memory, state, blocks, k):
    """Returns True if a tuple has a NULL where it is joined on."""
    f = plan[d + D_FEED]
    if state[blocks + READ * plan[f + F_MADE] + R_NULLS] == 0:
        return False
    rows, width = beyond(memory, state[k + K_ROWS]), plan[f + F_WIDTH]
    for x in range(plan[d + D_JOINED]):
        word = plan[plan[d + D_JOINED0] + x]
        for i in range(state[k + K_EVENTS]):
            if rows[i * width + word] == NULL:
                return True
    return False


@device
def has_all(ctx, plan, d, memory, state, k):
    """Returns True if all tuples that go are stored, with as many copies."""
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
def propagate(ctx, plan, first, takes, turns, room, memory, state, t, k, ring, out):
    """Applies the nets of all stored relations; ``DONE``, or what the kernel came back with at which it is left.

    ``room``: rows of the buffer ``out``. The words of the stored relations are from ``plan[first]`` and ``state[k]``
    on, those of what is done here from ``state[t]`` on. From ``plan[turns]`` on the relations are listed in the order
    of deletions, and then in that of insertions. ``ring``: None, or 1 for a core with payloads.
    """
    scratch = ctx.scratch
    ctx.arena[H_OPEN] = 1
    scratch[X_MODE], scratch[X_FACTORED], scratch[X_CAPACITY] = MODE_DELTAS, 0, room
    scratch[X_I], scratch[X_FILL], scratch[X_EDGE], scratch[X_PARENT] = 0, 0, 0, 0
    state[t + T_MINUS], state[t + T_ABSENT], state[t + T_EVERY] = 0, 0, -1
    for sign in (-1, 1):
        for turn in range(takes):
            x = plan[turns + (turn if sign < 0 else takes + turn)]
            d, of = first + TAKE * x, k + TAKEN * x
            n, gone, rec, rows = state[of + K_EVENTS], state[of + K_GONE], plan[d + D_RECORD], state[of + K_ROWS]
            state[t + T_SIGN], state[t + T_TURN] = sign, turn
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
        if sign < 0:
            state[t + T_MINUS] = scratch[X_FILL]
    if ring is not None:
        state[t + T_SIGN], state[t + T_TURN] = PUBLISHING, 0
        state[t + T_STATUS] = publish(ctx, ring, out)
        return state[t + T_STATUS]
    return DONE


@device
def settle(arena, plan, first, takes, state, blocks, k):
    """Lets a batch that is done stand, and counts it, per alias."""
    arena[H_OPEN] = 0
    for x in range(takes):
        d, of = first + TAKE * x, k + TAKEN * x
        f = plan[d + D_FEED]
        r, made = blocks + READ * plan[f + F_BLOCK], blocks + READ * plan[f + F_MADE]
        rejected = state[r + R_EVENTS] - state[made + R_EVENTS]
        for at in range(plan[d + D_ALIAS0], plan[d + D_ALIAS0] + 2 * plan[d + D_ALIASES], 2):
            arena[plan[at]] += state[of + K_EVENTS]
            arena[plan[at + 1]] += rejected
