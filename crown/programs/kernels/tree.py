"""A join core in a batch that is one native call: nets of relations in, rows of the free attributes out.

    per stored relation: conditions -> columns -> net -> what deletes find
    all that goes, relation by relation -> all that comes -> the output buffer, in which what goes stands first

What each stored relation takes of a source is what ``crown.ingest.batch.JoinInputs`` makes of it, and what is done with
it what ``crown.engine.propagation`` does, in the same order. It can be left wherever that can be: the batch goes on
there. A stored relation has the words ``D_SOURCE`` ... in the plan, and ``K_TESTED`` ... in the state.
"""

from __future__ import annotations

from crown.engine.kernels.layout import MODE_DELTAS, X_CAPACITY, X_EDGE, X_FACTORED, X_FILL, X_I, X_MODE, X_PARENT
from crown.engine.kernels.payloads.summed_leaves import summed
from crown.engine.kernels.publish import PUBLISHING, publish
from crown.engine.kernels.state import find_copies
from crown.engine.kernels.update import DONE, deleted, inserted
from crown.ingest.kernels.scan import BEFORE, IS_NULL, ONE_OF, TEST, WITHIN
from crown.kernels.arena import H_OPEN, ZERO
from crown.kernels.jit import device
from crown.kernels.pointers import beyond
from crown.kernels.strings import NULL
from crown.programs.kernels.sources import R_CODES, R_EVENTS, R_NULLS, R_WEIGHTS, READ, net_of

(D_SOURCE, D_WIDTH, D_WORD0, D_MOVES, D_NETS, D_TESTS, D_TEST0, D_RECORD, D_ASKS, D_JOINED, D_JOINED0, D_ALIASES,
 D_ALIAS0, D_SUMMED, TAKE) = range(15)  # fmt: skip
"""Words of a stored relation in the plan: its source; how many columns of that it has, where they are listed, and 1 if
they are not all in their order; 1 if it is netted; how many tests must hold, and where they are; its record
descriptor; 1 if it is asked what deletes find; how many of its columns must not be NULL, and where they are listed; how
many aliases read it, and where the words are listed that count what they read, and what the tests reject; 1 if only
sums of its rows are kept."""
K_TESTED, K_EVENTS, K_GONE, K_ROWS, K_WEIGHTS, K_AMOUNTS, K_ABSENT, TAKEN = range(8)
"""Words of a stored relation in the state: tuples for which the tests hold; tuples of its net, and of these that go,
which come first; where in the memory they are, one after the other, the weights, those of what goes without their sign,
and what of that was not there."""
T_SIGN, T_TURN, T_STATUS, T_MINUS, T_ABSENT, T_EVERY, TREE = range(7)
"""Words of the state: the sign and the turn at which it is, the sign ``PUBLISHING`` behind all of them, and what the
kernel there came back with; rows in the buffer that go, which stand first, if rows weigh nothing; copies that were not
there; the mask of tuples that all aliases read."""


@device
def words_of_rows(width):
    """Returns how many words of the memory a tuple of a stored relation takes."""
    return 2 * width + 6


@device
def _holds(plan, at, codes, n, i):
    """Returns True if the test at ``plan[at]`` is TRUE of tuple ``i`` of ``n``. A test has the words that it has in a
    scan, but for the form of the column."""
    kind, code = plan[at], codes[plan[at + 1] * n + i]
    holds = code != NULL
    if kind == IS_NULL:
        return holds if plan[at + 5] != 0 else not holds
    found = False
    if kind == WITHIN:
        found = code >= plan[at + 3] and code <= plan[at + 4]
    elif kind == ONE_OF:
        for x in range(plan[at + 3], plan[at + 3] + plan[at + 4]):
            found = found or code == plan[x]
    else:
        other = codes[plan[at + 3] * n + i]
        holds = holds and other != NULL
        found = code < other if kind == BEFORE else code == other
    return holds and (found != (plan[at + 5] != 0))


@device
def _chosen(plan, d, codes, weights, n, out, amounts):
    """Writes the columns of a stored relation, and the weights, of those of ``n`` tuples for which its tests hold; how
    many. Column ``j`` begins at ``out[j * n]``."""
    width, k = plan[d + D_WIDTH], ZERO
    for i in range(n):
        holds = True
        for x in range(plan[d + D_TESTS]):
            holds = holds and _holds(plan, plan[d + D_TEST0] + TEST * x, codes, n, i)
        if holds:
            for j in range(width):
                out[j * n + k] = codes[plan[plan[d + D_WORD0] + j] * n + i]
            amounts[k] = weights[i]
            k += 1
    return k


@device
def take(plan, d, identity, secret, memory, at, state, r, k, slots):
    """Makes the net of a stored relation out of that of its source, from word ``at`` of the memory on. ``identity``:
    where in the plan 0, 1, 2, ... is. Returns where the memory goes on."""
    n, width = state[r + R_EVENTS], plan[d + D_WIDTH]
    codes, weights = beyond(memory, state[r + R_CODES]), beyond(memory, state[r + R_WEIGHTS])
    m, columns = n, beyond(plan, identity)
    if plan[d + D_MOVES] == 1 or plan[d + D_TESTS] > 0:
        chosen, amounts = beyond(memory, at), beyond(memory, at + width * n)
        m = _chosen(plan, d, codes, weights, n, chosen, amounts)
        codes, weights = chosen, amounts
    at += (width + 1) * n
    state[k + K_TESTED], state[k + K_ROWS] = m, at
    rows = beyond(memory, at)
    at += (width + 1) * n
    if plan[d + D_NETS] == 1 and (m > 1 or (m == 1 and weights[0] == 0)):
        m = net_of(codes, n, columns, width, weights, m, secret, slots, memory, at, rows, False)
    else:
        for j in range(width):
            for i in range(m):
                rows[i * width + j] = codes[j * n + i]
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
def lacks_key(plan, d, memory, state, r, k):
    """Returns True if a tuple has a NULL where it is joined on."""
    if state[r + R_NULLS] == 0:
        return False
    rows, width = beyond(memory, state[k + K_ROWS]), plan[d + D_WIDTH]
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
                    beyond(memory, rows + gone * plan[d + D_WIDTH]),
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
def settle(arena, plan, first, takes, state, r, k):
    """Lets a batch that is done stand, and counts it, per alias."""
    arena[H_OPEN] = 0
    for x in range(takes):
        d, of = first + TAKE * x, k + TAKEN * x
        rejected = state[r + READ * plan[d + D_SOURCE] + R_EVENTS] - state[of + K_TESTED]
        for at in range(plan[d + D_ALIAS0], plan[d + D_ALIAS0] + 2 * plan[d + D_ALIASES], 2):
            arena[plan[at]] += state[of + K_EVENTS]
            arena[plan[at + 1]] += rejected
