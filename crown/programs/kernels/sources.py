"""The relations of a batch that is one native call: Arrow's memory in, nets that the base tables have counted out.

    per relation: scan and conditions -> net -> gate: what deletes find

A source has the words ``C_SCAN`` ... in the plan, and ``R_GIVEN`` ... in the state. What is made of it lies in the
memory of the run, from word ``R_AT`` on, column by column.
"""

from __future__ import annotations

from crown.ingest.kernels.scan import EXPORTED, REFUSED, given_rows, scanned
from crown.kernels.arena import ZERO
from crown.kernels.batches import merge, write_net
from crown.kernels.jit import device
from crown.kernels.pointers import beyond
from crown.stages.kernels.counts import tallied
from crown.stages.kernels.prefetch import AHEAD

C_SCAN, C_TEXTS, C_MOST, C_WIDTH, C_NETS, C_GATE, C_CLAMPS, SOURCE = range(8)
"""Words of a source in the plan. Where the plan of its scan is, and the texts that this names; the largest weight; the
columns that are read; 1 if they are netted; the table of the base tables that counts its tuples, or 0, and 1 if no
count falls below 0."""
R_GIVEN, R_ROWS, R_NULLS, R_EVENTS, R_AT, R_CODES, R_WEIGHTS, R_BEFORE, R_GATED, READ = range(10)
"""Words of a source in the state: rows of its batch, and of these that are read; 1 if one has a NULL; tuples of the
net; where in the memory its part begins, the codes, the weights, the copies before, and of how many tuples."""


@device
def words_of_rows(width):
    """Returns how many words of the memory a row of a source takes."""
    return 2 * (2 + width) + 2


@device
def scan_all(batches, plan, first, sources, texts, memory, at, state, r):
    """Scans the exported batches of all sources, and releases them; their words are from ``plan[first]`` and
    ``state[r]`` on. Returns where in the memory the others go on, or -1 if a batch is not what it is declared as."""
    fits = True
    for s in range(sources):
        c, batch = first + SOURCE * s, batches + 8 * EXPORTED * s
        n, width = given_rows(batch), plan[c + C_WIDTH]
        for x in range(READ):
            state[r + x] = 0
        state[r + R_GIVEN], state[r + R_AT] = n, at
        if n > 0:
            state[r + R_WEIGHTS], state[r + R_CODES] = at, at + 2 * n
            weights, rows, codes = beyond(memory, at), beyond(memory, at + n), beyond(memory, at + 2 * n)
            found, octets = beyond(state, r + R_ROWS), beyond(texts, plan[c + C_TEXTS])
            done = scanned(batch, beyond(plan, plan[c + C_SCAN]), octets, plan[c + C_MOST], codes, weights, rows, found)
            fits = fits and done != REFUSED
            state[r + R_EVENTS] = state[r + R_ROWS]
        at += words_of_rows(width) * n + width + AHEAD
        r += READ
    return at if fits else -1


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
    if plan[c + C_NETS] == 0 or not _needs_net(weights, n):
        return
    out = beyond(memory, at + n)
    m = net_of(codes, n, beyond(plan, identity), width, weights, n, secret, slots, memory, at, out, True)
    state[r + R_EVENTS], state[r + R_CODES], state[r + R_WEIGHTS] = m, at + n, at + n + width * m


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
