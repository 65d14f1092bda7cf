"""Applies a whole batch in one call: Arrow's memory in, an Arrow IPC message out.

    relations: scan, conditions, net, gate (``sources``) -> feeds -> join core (``tree``), group stage -> message

The operators are those of other programs, each of which has a kernel of its own besides. ``run`` comes back before it
is done where Python has to help, and says where it was. From there on the batch goes the way of other programs: what
the operators before that place have done stands, and the memory has what they made.

A plan is the words ``P_SOURCES`` ..., then the plans of the operators, whose places these words say.
"""

from __future__ import annotations

from crown.engine.kernels.layout import P_COLUMN, X_FILL
from crown.expressions.kernels.decimals import SCRATCH
from crown.expressions.kernels.evaluate import UNKNOWN
from crown.kernels.arena import (
    H_BUDGET,
    H_EMITTED,
    H_LIVE,
    H_R_UPDATES,
    H_ROOT,
    H_ROWS,
    H_VERSION,
    H_WRAPPED,
    ZERO,
)
from crown.kernels.batches import record, words_of_texts
from crown.kernels.context import Context
from crown.kernels.jit import device, kernel
from crown.kernels.pointers import beyond, constants, words
from crown.kernels.strings import code_of
from crown.programs.kernels import feeds, tree
from crown.programs.kernels import sources as of
from crown.stages.kernels.groups import batch as group
from crown.stages.kernels.groups import outputs

(P_SOURCES, P_SOURCE0, P_IDENTITY, P_SECRET, P_FIXED, P_EVALUATION, P_TEXTS, P_TEXT0, P_CODES, P_FEEDS, P_FEED0,
 P_TAKEN, P_TREE, P_TAKES, P_TAKE0, P_TURNS, P_WORDS, P_NETS, P_PLACES, P_READ, P_READS, P_ROWS, P_AFTER, P_TABLE,
 P_GROUP, P_INPUT, P_EVENTS, P_KEYS, P_SUMS, P_CARRIED, P_OUTPUTS, P_NAMED, P_TEMPLATE, P_HEAD, P_COLUMNS, P_LAST,
 P_ROW, P_WIDTH, PLAN) = range(39)  # fmt: skip
"""Words of a plan. How many sources there are, and where the first is; the numbers 0, 1, 2, ...; the secret of nets.
Where in the memory the sources begin, behind what is scratch: first that of nets and groups, then that of expressions,
which has a word for where it is. How many texts expressions name, where two words of each are listed, its first byte
among the texts and its length, and where in the memory their codes are. How many feeds make blocks of the sources, and
where the first is. The first word of the state that is of what a join core takes. Of a join core the rows of its
buffer, or 0, how many relations it stores, and where the first is; where the turns of these are listed, the words of
what its rows weigh, or 0, and 1 if they are netted, by which of their words. Of what groups read of a core, how many
columns there are, and where three words of each are: its word in the buffer, or -1, and then its only code, and the
form; the block that they become, and where the feed is that makes events of them, or 0. Of a group stage its table, its
plan, the block that it reads, that of its events, which columns of these are its keys, the recipes of its sums and of
those that rows carry, the plan of the columns that it computes, or 0, and the first of the texts that this names. Of
the message its template, or 0 words of that, its columns and the words of these, the words that a row takes, and the
columns of what is delivered, unless it lies in the buffer of the core."""
(R_WHERE, R_HANDLES, R_SUMS, R_OUT, R_NEEDED, R_ROOM, R_MOST, R_FREE, R_TREE) = range(group.S_END, group.S_END + 9)
R_SOURCE0 = R_TREE + tree.TREE
"""Words of a run, behind those of the batch of the group stage: where in the memory is what that works on; the words of
the message; for how many groups there is room, and for how many rows of a core; the first word of the memory that is
free; then those of the join core, of each block, the sources first, and of what the core takes."""
BAD, GATE, STUCK, MESSAGE, MANY, KEYS, LEFT, HELD = 20, 21, 22, 23, 24, 25, 26, 27
"""What ``run`` comes back with, besides what a group stage does: the batch is not what it is declared as, and nothing
was done; the gate needs memory, or a delete did not find its row; a group without rows is not empty; all is done but
the message, which needs more room, or has more rows than a record batch takes; a row has a NULL in a key, and nothing
was done but nets; the join core was left; all is done but what becomes of the rows in its buffer."""
ALL_DONE = (group.DONE, MESSAGE, MANY)
MOST_ROWS = 1 << 16  # of a record batch


@device
def _name_texts(plan, texts, dictionary, octets, memory):
    """Writes the codes of the texts that expressions name. One that is in no row has a code that no other value has."""
    for x in range(plan[P_TEXTS]):
        start, length = plan[plan[P_TEXT0] + 2 * x], plan[plan[P_TEXT0] + 2 * x + 1]
        code = code_of(dictionary, octets, of.DICTIONARY, texts, start, length)
        memory[plan[P_CODES] + x] = code if code != 0 else UNKNOWN - x


@device
def _fed(plan, f, dictionary, memory, at, state):
    """Makes the block of a feed, from word ``at`` of the memory on; where that goes on."""
    return feeds.fed(plan, f, dictionary, memory, plan[P_EVALUATION], plan[P_CODES], at, state, R_SOURCE0)


@device
def _chosen(plan, dictionary, memory, at, state):
    """Leaves out the rows of sources of which a condition that no scan has tested is not TRUE, from word ``at`` of the
    memory on; where that goes on."""
    for s in range(plan[P_SOURCES]):
        c, r = plan[P_SOURCE0] + of.SOURCE * s, R_SOURCE0 + of.READ * s
        if plan[c + of.C_CHOSEN] != 0:
            of.set_forms(memory, state, r, plan[c + of.C_WIDTH])
            at = _fed(plan, plan[c + of.C_CHOSEN], dictionary, memory, at, state)
            state[r + of.R_ROWS], state[r + of.R_CODES] = state[r + of.R_EVENTS], memory[state[r + of.R_FORMS] + 1]
    return at


@device
def _let_in(plan, ctx, base, dictionary, memory, at, state, slots):
    """Nets the tuples of all sources, makes what is fed of them, and asks what their deletes find; ``DONE``, or why it
    stopped. What is made lies in the memory from word ``at`` on; ``state[R_FREE]`` becomes the word behind it."""
    first, core = plan[P_SOURCE0], plan[P_TAKE0]
    taken = plan[P_TAKEN]
    for s in range(plan[P_SOURCES]):
        c, r = first + of.SOURCE * s, R_SOURCE0 + of.READ * s
        of.net(plan, c, plan[P_IDENTITY], plan[P_SECRET], memory, state, r, slots)
    for x in range(plan[P_FEEDS]):
        at = _fed(plan, plan[P_FEED0] + feeds.FEED * x, dictionary, memory, at, state)
    for x in range(plan[P_TAKES]):
        d, k = core + tree.TAKE * x, taken + tree.TAKEN * x
        at = tree.take(plan, d, plan[P_SECRET], memory, at, state, R_SOURCE0, k, slots)
        if tree.lacks_key(plan, d, memory, state, R_SOURCE0, k):
            return KEYS
    state[R_FREE] = at
    for x in range(plan[P_TAKES]):
        d, k = core + tree.TAKE * x, taken + tree.TAKEN * x
        if plan[d + tree.D_ASKS] == 1 and not tree.has_all(ctx, plan, d, memory, state, k):
            return GATE
    for s in range(plan[P_SOURCES]):
        c, r = first + of.SOURCE * s, R_SOURCE0 + of.READ * s
        if plan[c + of.C_GATE] != 0 and not of.counted(plan, c, base, memory, state, r):
            return GATE
    return group.DONE


@device
def _grouped(plan, dictionary, arena, memory, state):
    """Applies a block of events to the groups; what ``group_batch.advance`` returns."""
    does, at, r = beyond(plan, plan[P_GROUP]), state[R_FREE], R_SOURCE0 + of.READ * plan[P_EVENTS]
    k, width, columns, n = does[group.P_KEYS], does[group.P_SUMS], does[group.P_COLUMNS], state[r + of.R_EVENTS]
    read = state[R_SOURCE0 + of.READ * plan[P_INPUT] + of.R_EVENTS]
    if read == 0 and does[group.P_WHOLE] == 0:
        return group.DONE  # a stage that nothing comes to rests
    room, forms, weights = state[R_ROOM], beyond(memory, state[r + of.R_FORMS]), beyond(memory, state[r + of.R_WEIGHTS])
    strides, where, handles = beyond(memory, at), beyond(memory, at + k), beyond(memory, at + k + n)
    for j in range(k):
        strides[j] = forms[2 * plan[plan[P_KEYS] + j] + 1]
    state[R_WHERE], state[R_HANDLES] = at + k, at + k + n
    state[R_SUMS] = at + k + n + max(n, 1)
    state[R_OUT] = state[R_SUMS] + 2 * room * width
    if does[group.P_WHOLE] == 1:
        state[group.S_GROUPS], state[group.S_BEFORE], state[group.S_AFTER] = 1, arena[H_VERSION] > 0, 1
        handles[0] = arena[H_ROOT]
        for i in range(n):
            where[i] = 0
    rows, out = beyond(memory, state[R_SUMS]), beyond(memory, state[R_OUT])
    every, none = beyond(memory, ZERO), beyond(memory, ZERO)
    given, shown, hides, found = none, none, False, ZERO + group.VALUES
    while found == group.VALUES:
        found = group.advance(
            arena, plan[P_TABLE], does, beyond(plan, plan[P_IDENTITY]), state, strides, every, weights, n, every,
            forms, every, dictionary, weights, 1, beyond(plan, plan[P_SUMS]), beyond(plan, plan[P_CARRIED]), none,
            where, n, handles, given, shown, hides, rows, 2 * room * width, out, 2 * room * (columns + 1),
        )  # fmt: skip
        if found == group.VALUES:
            at = ZERO - 1
            if plan[P_OUTPUTS] != 0:
                texts, scratch = beyond(memory, plan[P_CODES] + plan[P_NAMED]), beyond(memory, plan[P_EVALUATION])
                at = outputs.compute(
                    arena, dictionary, beyond(plan, plan[P_OUTPUTS]), width, handles, state[group.S_GROUPS], rows,
                    memory, state[R_OUT] + 2 * room * (columns + 1), texts, scratch, beyond(scratch, SCRATCH),
                )  # fmt: skip
            if at < 0:
                return found
            given, hides = beyond(memory, at), True
            shown = beyond(memory, at + plan[plan[P_OUTPUTS] + outputs.O_COLUMNS] * 2 * state[group.S_GROUPS])
    if found != group.DONE:
        return found
    if state[group.S_AT] >= 0:
        return STUCK
    m = state[group.S_DELTAS]
    arena[H_VERSION] += 1
    arena[H_R_UPDATES] += read
    arena[H_EMITTED] += m
    if arena[H_ROWS] != 0:
        come = state[R_OUT] + columns * m
        for i in range(m):
            arena[H_ROWS] += memory[come + i]
    return group.DONE


@device
def _propagated(plan, ctx, memory, state, out):
    """Applies the nets to the join core; ``DONE``, or where it stopped."""
    room, first, takes, turns = plan[P_TREE], plan[P_TAKE0], plan[P_TAKES], plan[P_TURNS]
    taken = plan[P_TAKEN]
    if plan[P_WORDS] > 0:
        found = tree.propagate(ctx, plan, first, takes, turns, room, memory, state, R_TREE, taken, 1, out)
    else:
        found = tree.propagate(ctx, plan, first, takes, turns, room, memory, state, R_TREE, taken, None, out)
    if found != group.DONE:
        return LEFT
    if state[R_TREE + tree.T_ABSENT] > 0 or ctx.arena[H_WRAPPED] != 0:
        return HELD
    return group.DONE


@device
def _weighed(plan, ctx, memory, at, state, out):
    """Copies what the rows in the buffer weigh, column by column, to the memory from word ``at`` on."""
    m, room, words = ctx.scratch[X_FILL], plan[P_TREE], plan[P_WORDS]
    weights = beyond(memory, at)
    for w in range(words):
        for i in range(m):
            weights[w * m + i] = out[(ctx.plan[P_COLUMN] + w) * room + i]
    if words == 0:
        for i in range(m):
            weights[i] = -1 if i < state[R_TREE + tree.T_MINUS] else 1


@device
def _placed(plan, ctx, memory, state, slots, out):
    """Lets the rows of a join core be delivered; ``DONE``, or ``HELD`` if that is left to others."""
    m, room, nets = ctx.scratch[X_FILL], plan[P_TREE], plan[P_NETS] == 1
    if m > 0 and (plan[P_HEAD] == 0 or (2 * m >= room and not nets)):
        return HELD
    state[group.S_DELTAS], state[R_OUT] = m, 0
    _weighed(plan, ctx, memory, ZERO, state, out)
    if nets and m > 0:
        state[R_OUT] = 2 * room
        state[group.S_DELTAS] = of.net_of(
            out, room, beyond(plan, plan[P_PLACES]), plan[P_WIDTH], beyond(memory, ZERO), m, plan[P_SECRET], slots,
            memory, room, beyond(memory, 2 * room), True,
        )  # fmt: skip
    return group.DONE


@device
def _added(plan, dictionary, ctx, groups, memory, state, out):
    """Applies the rows of a join core to the groups; what ``_grouped`` returns, or ``HELD`` if they are too many."""
    m, room, columns, at = ctx.scratch[X_FILL], plan[P_TREE], plan[P_READ], state[R_FREE]
    if m > state[R_MOST]:
        return HELD
    r, forms = R_SOURCE0 + of.READ * plan[P_ROWS], beyond(memory, at)
    state[r + of.R_EVENTS], state[r + of.R_NULLS], state[r + of.R_FORMS] = m, 1, at
    at += 2 * columns
    for j in range(columns):
        read, codes = plan[P_READS] + 3 * j, beyond(memory, at)
        place, code = plan[read], plan[read + 1]
        for i in range(m):
            codes[i] = out[place * room + i] if place >= 0 else code
        forms[2 * j], forms[2 * j + 1] = plan[read + 2], at
        at += m
    state[r + of.R_WEIGHTS] = at
    weights = beyond(memory, at)
    _weighed(plan, ctx, memory, at, state, out)
    at += max(plan[P_WORDS], 1) * m
    if plan[P_AFTER] != 0:
        at = _fed(plan, plan[P_AFTER], dictionary, memory, at, state)
    state[R_FREE] = at
    found = _grouped(plan, dictionary, groups, memory, state)
    if found == group.DONE and ctx.arena[H_ROWS] != 0:
        for i in range(m):
            ctx.arena[H_ROWS] += weights[i]
    return found


@device
def _applied(
    batches, plan, texts, dictionary, octets, base, ctx, groups, memory, bytes_of_memory, state, out, slots
):  # fmt: skip
    """Applies a batch; ``DONE``, or where it stopped. The words that one part takes no other may take: the budget is
    one of all."""
    for x in range(group.S_END):
        state[x] = 0
    known = dictionary[H_LIVE]
    at = of.scan_all(
        batches, plan, plan[P_SOURCE0], plan[P_SOURCES], texts, dictionary, octets, memory, bytes_of_memory,
        plan[P_FIXED], state, R_SOURCE0,
    )  # fmt: skip
    if at < 0:
        return BAD
    _name_texts(plan, texts, dictionary, octets, memory)
    at = _chosen(plan, dictionary, memory, at, state)
    known = dictionary[H_LIVE] - known
    arena, live = ctx.arena, base[H_LIVE]
    base[H_BUDGET] -= known
    found = _let_in(plan, ctx, base, dictionary, memory, at, state, slots)
    base[H_BUDGET] += known
    if found != group.DONE:
        return found
    counted = known + base[H_LIVE] - live
    arena[H_BUDGET] -= counted
    if plan[P_TREE] == 0:
        found = _grouped(plan, dictionary, groups, memory, state)
    else:
        live = arena[H_LIVE]
        found = _propagated(plan, ctx, memory, state, out)
        if found == group.DONE and plan[P_TABLE] == 0:
            found = _placed(plan, ctx, memory, state, slots, out)
        elif found == group.DONE:
            more = counted + arena[H_LIVE] - live
            groups[H_BUDGET] -= more
            found = _added(plan, dictionary, ctx, groups, memory, state, out)
            groups[H_BUDGET] += more
        if found == group.DONE:
            tree.settle(arena, plan, plan[P_TAKE0], plan[P_TAKES], state, R_SOURCE0, plan[P_TAKEN])
    arena[H_BUDGET] += counted
    return found


@kernel(
    "int, bool, const words, const bytes, words, bytes, words, words, halves, words, words, words, bytes, words, "
    "words, words, halves, words, bytes"
)
def run(
    batches, wanted, plan, texts, dictionary, octets, base, arena, halves, groups, core, memory, bytes_of_memory, state,
    scratch, out, slots, message, message_octets,
):  # fmt: skip
    """Applies exported record batches with rows, and releases them; ``DONE``, or where it stopped. O(rows * terms),
    and what a join core does.

    ``batches`` 0: it was applied already, but for its ``message``, which is written if it is ``wanted`` and there are
    deltas: its words are ``state[R_NEEDED]``, 0 for none. ``texts``: those that the conditions name; ``dictionary``
    and ``octets``: where its values are; ``base``, ``arena`` and ``groups``: of the base tables, of the only or first
    stage, and of the last one; ``halves``: the second as half words; ``core``, ``scratch`` and
    ``out``: the plan of a join core, its scratch and its buffer; ``memory`` and ``bytes_of_memory``: room for the run,
    whose words are ``state``; ``slots``: room for nets.
    """
    plan, texts, dictionary, octets = constants(plan), words(texts), words(dictionary), words(octets)
    room = message.size
    base, arena, halves, groups = words(base), words(arena), words(halves), words(groups)
    core, memory, bytes_of_memory = constants(core), words(memory), words(bytes_of_memory)
    state, scratch, out, slots = words(state), words(scratch), words(out), words(slots)
    message, message_octets = words(message), words(message_octets)
    if batches != 0:
        ctx = Context(arena, halves, core, scratch)
        found = _applied(
            batches, plan, texts, dictionary, octets, base, ctx, groups, memory, bytes_of_memory, state, out, slots
        )
        if found != group.DONE:
            return found
    m = state[group.S_DELTAS]
    state[R_NEEDED] = 0
    if not wanted or m == 0:
        return group.DONE
    head, last = plan[P_HEAD], plan[P_LAST]
    if m > MOST_ROWS or head == 0:
        return MANY
    values, across, columns = beyond(memory, state[R_OUT]), m, beyond(plan, plan[P_COLUMNS])
    weights = beyond(memory, state[R_OUT] + plan[P_WIDTH] * m)
    if plan[P_TREE] != 0 and plan[P_NETS] == 0 and plan[P_TABLE] == 0:  # they are all there is
        values, across = out, plan[P_TREE]
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
