"""The relations of a batch that is one native call: Arrow's memory in, nets that the base tables have counted out.

    per relation: scan and conditions -> net -> gate: what deletes find

A source has the words ``C_SCAN`` ... in the plan, and ``R_GIVEN`` ... in the state. What is made of it lies in the
memory of the run, from word ``R_AT`` on, column by column.
"""

from __future__ import annotations

from crown.expressions.kernels.evaluate import WORDS
from crown.ingest.kernels.scan import COLUMN, D_COLUMN0, EXPORTED, coded_texts, given_rows, release, scanned
from crown.kernels.batches import merge, write_net
from crown.kernels.jit import device
from crown.kernels.memory.arena import H_TABLES, ZERO
from crown.kernels.memory.pointers import beyond
from crown.stages.kernels.counts import tallied
from crown.stages.kernels.prefetch import AHEAD

DICTIONARY = H_TABLES  # the table of its arena
C_SCAN, C_TEXTS, C_MOST, C_WIDTH, C_NETS, C_GATE, C_CLAMPS, C_CODED, C_CODED0, C_CHOSEN, SOURCE = range(11)
"""Words of a source in the plan. Where the plan of its scan is, and the texts that this names; the largest weight; the
columns that are read; 1 if they are netted; the table of the base tables that counts its tuples, or 0, and 1 if no
count falls below 0; how many of its columns are texts, and where they are listed; where the feed is that chooses its
rows, which reads and makes its block, or 0."""
(R_GIVEN, R_ROWS, R_NULLS, R_OTHERS, R_EVENTS, R_AT, R_CODES, R_WEIGHTS, R_BEFORE, R_GATED, R_FORMS, R_SUM, READ) = (
    range(13)
)
"""Words of a *block* in the state, which is what a source has, or what is made of another block: rows that were given,
and that are read; 1 if a code is NULL; rows of other cells; tuples, after the net; where in the memory its part begins,
the codes, the weights, the copies before, and of how many tuples; where the forms of its columns are, with where each
begins (see ``crown.expressions.kernels.evaluate``); what the weights sum up to, of a block that was made."""
TEXT_WORDS = 1 << 13  # of room for texts on their way to the dictionary
ENDS = 1 << 7  # words of room for where they end


@device
def words_of_rows(width):
    """Returns how many words of the memory a row of a source takes."""
    return 2 * (2 + width) + 2


@device
def scan_all(batches, plan, first, sources, texts, dictionary, octets, memory, bytes_of_memory, at, state, r):
    """Scans the exported batches of all sources, and releases them; their words are from ``plan[first]`` and
    ``state[r]`` on. Returns where in the memory the others go on, or -1 if a batch is not what it is declared as, or
    the dictionary has no room for its texts. Before word ``at`` there is room for texts, and their ends."""
    fits = True
    ends = beyond(memory, at - TEXT_WORDS - ENDS)
    data = beyond(bytes_of_memory, 8 * (at - TEXT_WORDS))
    for s in range(sources):
        c, batch = first + SOURCE * s, batches + 8 * EXPORTED * s
        n, width = given_rows(batch), plan[c + C_WIDTH]
        for x in range(READ):
            state[r + x] = 0
        state[r + R_GIVEN], state[r + R_AT], state[r + R_CODES] = n, at, at + 2 * n
        state[r + R_FORMS] = at + words_of_rows(width) * n + width + AHEAD
        if n > 0:
            state[r + R_WEIGHTS] = at
            weights, rows, codes = beyond(memory, at), beyond(memory, at + n), beyond(memory, at + 2 * n)
            found, named = beyond(state, r + R_ROWS), beyond(texts, plan[c + C_TEXTS])
            scan = beyond(plan, plan[c + C_SCAN])
            fits = scanned(batch, scan, named, plan[c + C_MOST], codes, weights, rows, found) and fits
            k = state[r + R_ROWS]
            for x in range(plan[c + C_CODED0], plan[c + C_CODED0] + plan[c + C_CODED]):
                place, out = scan[D_COLUMN0 + COLUMN * plan[x]], beyond(codes, plan[x] * k)
                if fits:
                    fits = coded_texts(
                        batch, place, rows, k, dictionary, octets, DICTIONARY, ends, data, 8 * TEXT_WORDS, out, found
                    )
            release(batch)
            state[r + R_EVENTS] = k
        at = state[r + R_FORMS] + 2 * width
        r += READ
    return at if fits else -1


@device
def set_forms(memory, state, r, width):
    """Writes where the columns of a source begin."""
    forms = beyond(memory, state[r + R_FORMS])
    for j in range(width):
        forms[2 * j], forms[2 * j + 1] = WORDS, state[r + R_CODES] + j * state[r + R_EVENTS]


@device
def room_of_slots(n):
    """Returns how many slots the net of ``n`` tuples takes, a power of two."""
    size = 8
    while size < 2 * n:
        size *= 2
    return size


@device
def net_of(codes, across, columns, width, weights, n, secret, slots, memory, at, out, turned):
    """Writes the net of ``n`` tuples to ``out``, what goes before what comes, and behind it the weights: one column
    after the other if ``turned``, else one tuple after the other. Returns how many tuples it has.

    Word ``j`` of tuple ``i`` is ``codes[i + columns[j] * across]``. ``memory`` from word ``at`` on: n words of scratch.
    """
    size, sums, m = room_of_slots(n), beyond(memory, at), ZERO
    for i in range(size):
        slots[i] = -1
    for i in range(n):
        sums[i] = weights[i]
    merge(codes, 1, across, columns, width, sums, n, slots, size, secret)
    for i in range(n):
        m += sums[i] != 0
    down, apart = (1, m) if turned else (width, 1)
    write_net(codes, 1, across, columns, width, sums, n, out, down, apart, beyond(out, m * width))
    return m


@device
def _needs_net(weights, n):
    """Returns True if equal tuples may have to be summed, or deletes to be put first."""
    least = 1 + ZERO
    for i in range(n):
        least = min(least, weights[i])
    return least == 0 or (least < 0 and n > 1)


@device
def net(plan, c, identity, secret, memory, state, r, slots):
    """Nets the tuples of a source that was scanned, if they need it: then they lie there a second time. ``identity``:
    where in the plan 0, 1, 2, ... is."""
    n, width = state[r + R_ROWS], plan[c + C_WIDTH]
    at = state[r + R_AT] + (2 + width) * state[r + R_GIVEN]
    codes, weights = beyond(memory, state[r + R_CODES]), beyond(memory, state[r + R_WEIGHTS])
    if plan[c + C_NETS] == 1 and _needs_net(weights, n):
        out = beyond(memory, at + n)
        m = net_of(codes, n, beyond(plan, identity), width, weights, n, secret, slots, memory, at, out, True)
        state[r + R_EVENTS], state[r + R_CODES], state[r + R_WEIGHTS] = m, at + n, at + n + width * m
    set_forms(memory, state, r, width)


@device
def counted(plan, c, base, memory, state, r):
    """Counts the tuples of a source in its base table. Returns True if all deletes found theirs."""
    n, width = state[r + R_EVENTS], plan[c + C_WIDTH]
    at = state[r + R_AT] + 2 * (2 + width) * state[r + R_GIVEN]
    before, leaf, strides = beyond(memory, at), beyond(memory, at + n), beyond(memory, at + 2 * n)
    codes, weights = beyond(memory, state[r + R_CODES]), beyond(memory, state[r + R_WEIGHTS])
    tags = beyond(memory, at + 2 * n + width)
    for j in range(width):
        strides[j] = j * n
    for i in range(n):
        leaf[i] = 0
    state[r + R_BEFORE] = at
    state[r + R_GATED] = tallied(
        base, plan[c + C_GATE], strides, width, 1, codes, leaf, weights, n, plan[c + C_CLAMPS], before, tags, ZERO
    )
    if state[r + R_GATED] < n:
        return False
    least = ZERO
    if plan[c + C_CLAMPS] == 1:
        for i in range(n):
            least = min(least, before[i] + weights[i])
    return least >= 0
