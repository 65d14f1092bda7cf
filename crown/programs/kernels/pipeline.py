"""Applies a whole batch in one call: Arrow's memory in, an Arrow IPC message out.

    relations: scan, conditions, net, gate (``sources``) -> operators, one after the other -> message

The operators are those of other programs, each of which has a kernel of its own besides. ``run`` comes back before it
is done where Python has to help, and says where it was. From there on the batch goes the way of other programs: what
the operators before that place have done stands, and the memory has what they made.

A plan is the words ``P_SOURCES`` ..., then the plans of the operators, whose places these words say.
"""

from __future__ import annotations

from crown.expressions.kernels.evaluate import UNKNOWN
from crown.kernels.batches import record, words_of_texts
from crown.kernels.jit import device, kernel
from crown.kernels.memory.addresses import words_at
from crown.kernels.memory.arena import H_BUDGET, H_EMITTED, H_LIVE, H_R_UPDATES, H_ROWS, ZERO
from crown.kernels.memory.pointers import beyond, constants, words
from crown.kernels.strings import code_of
from crown.programs.kernels import counts, feeds, groups, nets, tree, unions
from crown.programs.kernels import sources as of
from crown.stages.kernels.groups import batch as group

(P_SOURCES, P_SOURCE0, P_IDENTITY, P_SECRET, P_FIXED, P_EVALUATION, P_TEXTS, P_TEXT0, P_CODES, P_STEPS, P_STEP0,
 P_FIRST, P_TEMPLATE, P_HEAD, P_COLUMNS, P_LAST, P_ROW, P_WIDTH, P_SHOWN, PLAN) = range(20)  # fmt: skip
"""Words of a plan. How many sources there are, and where the first is; the numbers 0, 1, 2, ...; the secret of nets.
Where in the memory the sources begin, behind what is scratch: first that of nets and groups, then that of expressions,
which has a word for where it is. How many texts expressions name, where two words of each are listed, its first byte
among the texts and its length, and where in the memory their codes are; of a lookup the length is -1, and its address
is there. How many operators there are, where two words
of each are listed, its kind and its place in the plan, and how many of them read only relations: these come before the
base tables count. Of the message its template, or 0 words of that, its columns and the words of these, the words that a
row takes, the columns of what is delivered, and the block of it, whose columns lie one behind the other and the weights
behind them; ``-1`` if a join delivers it, ``NOTHING`` if other stages follow."""
NOTHING = -2
FEED, TAKE, CORE, NET, GROUPS, UNION, COUNTS = range(7)
"""Kinds of operators: see ``feeds``, ``tree``, ``nets``, ``groups``, ``unions`` and ``counts``."""
R_NEEDED, R_DELTAS, R_OUT, R_ACROSS, R_STEP, R_FREE, R_SOURCE0 = range(7)
"""Words of a run: the words of the message; rows that are delivered, where in the memory they are, or behind the
buffer of the last core, and how many words a column takes; the operator that runs; the first word of the memory that is
free. Behind them those of each block, the sources first, and of the operators."""
BAD, GATE, STUCK, MESSAGE, MANY, KEYS, LEFT, HELD, SPLIT, ASKED = (
    20, 21, groups.STUCK, 23, 24, 25, tree.LEFT, tree.HELD, 28, 29
)  # fmt: skip
"""What ``run`` comes back with, besides what a group stage does: the batch is not what it is declared as, and nothing
was done; the gate needs memory, or a delete did not find its row; a group without rows is not empty; all is done but
the message, which needs more room, or has more rows than a record batch takes; a row has a NULL in a key, and the
operator was not begun; a join core was left; all is done but what becomes of the rows in its buffer; all operators are
done, and other stages follow; a text is looked up that is not known yet, and the operator was not begun, or number -1,
the conditions of sources."""
ALL_DONE = (group.DONE, MESSAGE, MANY)
MOST_ROWS = 1 << 16  # of a record batch


@device
def _name_texts(plan, texts, dictionary, octets, memory):
    """Writes the codes of the texts that expressions name. One that is in no row has a code that no other value has."""
    for x in range(plan[P_TEXTS]):
        start, length = plan[plan[P_TEXT0] + 2 * x], plan[plan[P_TEXT0] + 2 * x + 1]
        if length >= 0:
            code = code_of(dictionary, octets, of.DICTIONARY, texts, start, length)
            memory[plan[P_CODES] + x] = code if code != 0 else UNKNOWN - x


@device
def _fed(plan, f, dictionary, memory, at, state):
    """Makes the block of a feed, from word ``at`` of the memory on; where that goes on."""
    return feeds.fed(plan, f, dictionary, memory, plan[P_EVALUATION], plan[P_CODES], at, state, R_SOURCE0)


@device
def _chosen(plan, dictionary, memory, at, state):
    """Leaves out the rows of sources of which a condition that no scan has tested is not TRUE, from word ``at`` of the
    memory on; where that goes on, or -1 as a feed."""
    for s in range(plan[P_SOURCES]):
        c, r = plan[P_SOURCE0] + of.SOURCE * s, R_SOURCE0 + of.READ * s
        if plan[c + of.C_CHOSEN] != 0:
            of.set_forms(memory, state, r, plan[c + of.C_WIDTH])
            at = _fed(plan, plan[c + of.C_CHOSEN], dictionary, memory, at, state)
            if at < 0:
                return at
            state[r + of.R_ROWS], state[r + of.R_CODES] = state[r + of.R_EVENTS], memory[state[r + of.R_FORMS] + 1]
    return at


@device
def _ran(plan, dictionary, memory, state, slots, x):
    """Runs operator number ``x``; ``DONE``, or how it stopped."""
    kind, o, at = plan[plan[P_STEP0] + 2 * x], plan[plan[P_STEP0] + 2 * x + 1], state[R_FREE]
    state[R_STEP] = x
    found = ZERO + group.DONE
    if kind == FEED:
        at = _fed(plan, o, dictionary, memory, at, state)
        if plan[o + feeds.F_HEAD] == 1:
            if at < 0:
                state[R_STEP] = x - 1
                return HELD
            tree.settle(plan, plan[plan[P_STEP0] + 2 * x - 1], state, R_SOURCE0)
        elif at < 0:
            return ASKED
    elif kind == TAKE:
        at = tree.take(plan, o, plan[P_SECRET], memory, at, state, R_SOURCE0, slots)
        if tree.lacks_key(plan, o, memory, state, R_SOURCE0):
            found = ZERO + KEYS
    elif kind == NET:
        at = nets.netted(plan, o, plan[P_SECRET], memory, at, state, R_SOURCE0, slots)
    elif kind == UNION:
        at = unions.united(plan, o, memory, at, state, R_SOURCE0)
    state[R_FREE] = at
    return found


@device
def _let_in(plan, base, dictionary, memory, state, slots):
    """Nets the tuples of all sources, makes what is made of them alone, and asks what their deletes find; ``DONE``, or
    why it stopped."""
    first, steps = plan[P_SOURCE0], plan[P_STEP0]
    for s in range(plan[P_SOURCES]):
        c, r = first + of.SOURCE * s, R_SOURCE0 + of.READ * s
        of.net(plan, c, plan[P_IDENTITY], plan[P_SECRET], memory, state, r, slots)
    for x in range(plan[P_FIRST]):
        found = _ran(plan, dictionary, memory, state, slots, x)
        if found != group.DONE:
            return found
    for x in range(plan[P_FIRST]):
        d = plan[steps + 2 * x + 1]
        if plan[steps + 2 * x] == TAKE and plan[d + tree.D_ASKS] == 1 and not tree.has_all(plan, d, memory, state):
            return GATE
    for s in range(plan[P_SOURCES]):
        c, r = first + of.SOURCE * s, R_SOURCE0 + of.READ * s
        if plan[c + of.C_GATE] != 0 and not of.counted(plan, c, base, memory, state, r):
            return GATE
    return group.DONE


@device
def _joined(plan, j, memory, state, slots, grown):
    """Applies what a join core has taken, and makes a block of its rows, or lets them be delivered; ``DONE``, or how it
    stopped."""
    found = tree.joined(plan, j, memory, state, R_SOURCE0, grown)
    if found != group.DONE:
        return found
    if plan[j + tree.J_DELIVERS] == 1:
        room = state[plan[j + tree.J_STATE] + tree.T_ROOM]
        m = tree.placed(plan, j, plan[P_SECRET], plan[P_HEAD] != 0, memory, state, slots)
        if m < 0:
            return HELD
        nets = plan[j + tree.J_NETS] == 1
        state[R_DELTAS], state[R_OUT], state[R_ACROSS] = m, 2 * room if nets else -1 - j, m if nets else room
    else:
        at = tree.passed_on(plan, j, memory, state[R_FREE], state, R_SOURCE0)
        if at < 0:
            return HELD
        state[R_FREE] = at
    if plan[j + tree.J_HEADED] == 0:
        tree.settle(plan, j, state, R_SOURCE0)
    return group.DONE


@device
def _grouped(plan, g, dictionary, memory, state, grown):
    """Applies a block of events to a group stage; what ``groups.grouped`` returns."""
    identity, scratch, texts = beyond(plan, plan[P_IDENTITY]), plan[P_EVALUATION], plan[P_CODES]
    found = groups.grouped(
        plan, g, identity, dictionary, memory, scratch, texts, state[R_FREE], state, R_SOURCE0, grown
    )
    if found == group.DONE:
        r = R_SOURCE0 + of.READ * plan[g + groups.G_MADE]
        state[R_FREE] = state[r + of.R_WEIGHTS] + state[r + of.R_EVENTS]
    return found


@device
def _counted(plan, c, memory, state, grown):
    """Applies a block of rows to a pointwise stage; ``DONE``, or ``BUDGET``."""
    at = counts.counted(plan, c, memory, state[R_FREE], state, R_SOURCE0, grown)
    if at < 0:
        return group.BUDGET
    state[R_FREE] = at
    return group.DONE


@device
def _show(plan, state):
    """Notes where the rows are that are delivered, unless a join delivers them."""
    if plan[P_SHOWN] >= 0:
        r = R_SOURCE0 + of.READ * plan[P_SHOWN]
        m = state[r + of.R_EVENTS]
        state[R_DELTAS], state[R_OUT], state[R_ACROSS] = m, state[r + of.R_WEIGHTS] - plan[P_WIDTH] * m, m


@device
def _arena_of(plan, state, kind, o):
    """Returns the arena of a stage with memory, whose first word in the plan says where its words in the state are."""
    at = plan[o] + tree.T_ARENA
    if kind == GROUPS:
        at = plan[o] + groups.B_ARENA
    elif kind == COUNTS:
        at = plan[o] + counts.L_ARENA
    return words_at(state[at], state[at + 1])


@device
def _tally(plan, memory, state):
    """Counts what the stages of a batch that is done have read and passed on."""
    for x in range(plan[P_FIRST], plan[P_STEPS]):
        kind, o = plan[plan[P_STEP0] + 2 * x], plan[plan[P_STEP0] + 2 * x + 1]
        if kind == GROUPS:
            arena, made = _arena_of(plan, state, kind, o), plan[o + groups.G_MADE]
            arena[H_R_UPDATES] += _rows_of(state, plan[o + groups.G_INPUT])
            arena[H_EMITTED] += _rows_of(state, made)
            _add_rows(arena, memory, state, made)
        elif kind == COUNTS:
            arena, made = _arena_of(plan, state, kind, o), plan[o + counts.C_SHOWN]
            for leaf in range(plan[o + counts.C_LEAVES]):
                arena[H_R_UPDATES] += _rows_of(state, plan[plan[o + counts.C_LEAF0] + 2 * leaf])
            arena[H_EMITTED] += _rows_of(state, made)
            _add_rows(arena, memory, state, made)
        elif kind == CORE and plan[o + tree.J_DELIVERS] == 0:
            _add_rows(_arena_of(plan, state, kind, o), memory, state, plan[o + tree.J_SHOWN])


@device
def _rows_of(state, block):
    """Returns how many tuples a block has."""
    return state[R_SOURCE0 + of.READ * block + of.R_EVENTS]


@device
def _add_rows(arena, memory, state, block):
    """Adds the rows of a block to those that a stage has, if their number is known."""
    r = R_SOURCE0 + of.READ * block
    if arena[H_ROWS] != 0:
        weights = beyond(memory, state[r + of.R_WEIGHTS])
        for i in range(state[r + of.R_EVENTS]):
            arena[H_ROWS] += weights[i]


@device
def _applied(batches, plan, texts, dictionary, octets, base, memory, bytes_of_memory, state, slots):
    """Applies a batch; ``DONE``, or where it stopped. The words that one part takes no other may take: the budget is
    one of all."""
    state[R_STEP], state[R_DELTAS] = 0, 0
    known = dictionary[H_LIVE]
    at = of.scan_all(
        batches, plan, plan[P_SOURCE0], plan[P_SOURCES], texts, dictionary, octets, memory, bytes_of_memory,
        plan[P_FIXED], state, R_SOURCE0,
    )  # fmt: skip
    if at < 0:
        return BAD
    _name_texts(plan, texts, dictionary, octets, memory)
    at = _chosen(plan, dictionary, memory, at, state)
    if at < 0:
        state[R_STEP] = -1
        return ASKED
    state[R_FREE] = at
    known = dictionary[H_LIVE] - known
    live = base[H_LIVE]
    base[H_BUDGET] -= known
    found = _let_in(plan, base, dictionary, memory, state, slots)
    base[H_BUDGET] += known
    grown = known + base[H_LIVE] - live
    for x in range(plan[P_FIRST], plan[P_STEPS]):
        if found != group.DONE:
            break
        kind, o = plan[plan[P_STEP0] + 2 * x], plan[plan[P_STEP0] + 2 * x + 1]
        if kind in (CORE, GROUPS, COUNTS):
            state[R_STEP] = x
            arena = _arena_of(plan, state, kind, o)
            live = arena[H_LIVE]
            if kind == CORE:
                found = _joined(plan, o, memory, state, slots, grown)
            elif kind == GROUPS:
                found = _grouped(plan, o, dictionary, memory, state, grown)
            else:
                found = _counted(plan, o, memory, state, grown)
            grown += arena[H_LIVE] - live
        else:
            found = _ran(plan, dictionary, memory, state, slots, x)
    if found == group.DONE and plan[P_SHOWN] == NOTHING:
        return SPLIT
    if found == group.DONE:
        _show(plan, state)
        _tally(plan, memory, state)
    return found


@kernel("int, bool, const words, const bytes, words, bytes, words, words, bytes, words, halves, words, bytes")
def run(
    batches, wanted, plan, texts, dictionary, octets, base, memory, bytes_of_memory, state, slots, message,
    message_octets,
):  # fmt: skip
    """Applies exported record batches with rows, and releases them; ``DONE``, or where it stopped. O(rows * terms),
    and what the stages do.

    ``batches`` 0: it was applied already, but for its ``message``, which is written if it is ``wanted`` and there are
    deltas: its words are ``state[R_NEEDED]``, 0 for none. ``texts``: those that the conditions name; ``dictionary``
    and ``octets``: where its values are; ``base``: of the base tables; ``memory`` and ``bytes_of_memory``: room for the
    run, whose words are ``state``; ``slots``: room for nets.
    """
    plan, texts, dictionary, octets = constants(plan), words(texts), words(dictionary), words(octets)
    room = message.size
    base, memory, bytes_of_memory = words(base), words(memory), words(bytes_of_memory)
    state, slots = words(state), words(slots)
    message, message_octets = words(message), words(message_octets)
    if batches != 0:
        found = _applied(batches, plan, texts, dictionary, octets, base, memory, bytes_of_memory, state, slots)
        if found != group.DONE:
            return found
    m, out, across = state[R_DELTAS], state[R_OUT], state[R_ACROSS]
    state[R_NEEDED] = 0
    if not wanted or m == 0:
        return group.DONE
    head, last = plan[P_HEAD], plan[P_LAST]
    if m > MOST_ROWS or head == 0:
        return MANY
    columns = beyond(plan, plan[P_COLUMNS])
    if out >= 0:
        values, weights = beyond(memory, out), beyond(memory, out + plan[P_WIDTH] * m)
    else:
        t = plan[-1 - out + tree.J_STATE]
        values, weights = words_at(state[t + tree.T_OUT], state[t + tree.T_OUT + 1]), beyond(memory, ZERO)
    texts_of_rows = words_of_texts(dictionary, values, across, 1, m, columns, last)
    if texts_of_rows < 0:
        return MANY
    needed = head + m * plan[P_ROW] + (last // 3) * (m // 64 + 2) + texts_of_rows
    state[R_NEEDED] = needed
    if needed > room:
        return MESSAGE
    record(
        dictionary, octets, values, across, 1, weights, m, beyond(plan, plan[P_TEMPLATE]), head,
        columns, last, message, message_octets,
    )  # fmt: skip
    return group.DONE
