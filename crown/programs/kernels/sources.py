"""Reads the sources of a native call: Arrow record batches in, blocks of netted and counted tuples out.

    per source: scan, conditions of the scan -> other conditions (a feed) -> net -> gate

``scan_sources`` reads the record batches of all sources. ``net_source`` merges equal tuples of one source, and
``count_tuples`` is its gate. The memory of a source begins at word ``B_START``: weights and row numbers, codes, the
net, then the copies before the batch and scratch of the gate.
"""

from __future__ import annotations

from crown.expressions.kernels.evaluate import WORDS
from crown.ingest.kernels.scan import COLUMN, D_COLUMN0, EXPORTED, coded_texts, given_rows, release, scanned
from crown.kernels.batches import count_net, merge, slots_of_net, write_net
from crown.kernels.jit import device
from crown.kernels.memory.arena import H_TABLES, ZERO
from crown.kernels.memory.pointers import beyond
from crown.programs.kernels.blocks import (
    B_CODES,
    B_COPIES_BEFORE,
    B_COUNTED,
    B_FORMS,
    B_GIVEN_ROWS,
    B_OTHER_CELLS,
    B_READ_ROWS,
    B_START,
    B_TUPLES,
    B_WEIGHTS,
    BLOCK_WORDS,
)
from crown.stages.kernels.counts import tallied
from crown.stages.kernels.prefetch import AHEAD

DICTIONARY = H_TABLES  # the table of the dictionary in its arena
# Words of a source in the plan.
(
    S_SCAN_AT,  # offset of the plan of its scan
    S_TEXTS_START,  # first byte of the texts of that plan
    S_MAX_WEIGHT,  # largest weight of a row
    S_WIDTH,  # number of columns that are read
    S_NETS,  # 1 if its tuples are netted
    S_TABLE,  # table of the base tables that counts its tuples (the gate), or 0
    S_CLAMPS,  # 1 if no count of that table falls below 0
    S_TEXT_COLUMN_COUNT,
    S_TEXT_COLUMNS_AT,  # offset of the list of these columns
    S_FILTER_AT,  # offset of the feed that tests the conditions that no scan tests, or 0; it replaces its own block
    S_UPDATES,  # word of the base tables that counts its changes, or 0
    S_FILTERED,  # word of the base tables that counts its rows that no stage reads
    SOURCE_WORDS,
) = range(13)


@device
def words_per_row(width):
    """Returns how many words of the memory a row of a source takes."""
    return 2 * (2 + width) + 2


@device
def scan_sources(batches, plan, sources_at, count, texts, dictionary, memory, free, state, block):
    """Scans the exported record batches of all sources, and releases them. O(rows).

    Their words begin at ``plan[sources_at]``, their blocks at ``state[block]``. Returns the first free word of the
    memory, or -1 if a batch does not have the declared form, or the dictionary has no room for its texts. ``free``: the
    first free word before.
    """
    ok = True
    for number in range(count):
        source, batch = sources_at + SOURCE_WORDS * number, batches + 8 * EXPORTED * number
        given, width = given_rows(batch), plan[source + S_WIDTH]
        for at in range(BLOCK_WORDS):
            state[block + at] = 0
        state[block + B_GIVEN_ROWS], state[block + B_START], state[block + B_CODES] = given, free, free + 2 * given
        state[block + B_FORMS] = free + words_per_row(width) * given + width + AHEAD
        if given > 0:
            state[block + B_WEIGHTS] = free
            weights, rows, codes = beyond(memory, free), beyond(memory, free + given), beyond(memory, free + 2 * given)
            counts, scan_texts = beyond(state, block + B_READ_ROWS), beyond(texts, plan[source + S_TEXTS_START])
            scan = beyond(plan, plan[source + S_SCAN_AT])
            ok = scanned(batch, scan, scan_texts, plan[source + S_MAX_WEIGHT], codes, weights, rows, counts) and ok
            read = state[block + B_READ_ROWS]
            texts_at = plan[source + S_TEXT_COLUMNS_AT]
            for at in range(texts_at, texts_at + plan[source + S_TEXT_COLUMN_COUNT]):
                column, out = scan[D_COLUMN0 + COLUMN * plan[at]], beyond(codes, plan[at] * read)
                if ok:
                    ok = coded_texts(batch, column, rows, read, dictionary, DICTIONARY, out, counts)
            release(batch)
            state[block + B_TUPLES] = read
        free = state[block + B_FORMS] + 2 * width
        block += BLOCK_WORDS
    return free if ok else -1


@device
def set_forms(memory, state, block, width):
    """Writes the forms and the beginnings of the columns of a source."""
    forms = beyond(memory, state[block + B_FORMS])
    for j in range(width):
        forms[2 * j], forms[2 * j + 1] = WORDS, state[block + B_CODES] + j * state[block + B_TUPLES]


@device
def net_tuples(codes, stride, columns, width, weights, n, secret, slots, memory, scratch, out, by_column):
    """Writes the net of ``n`` tuples to ``out``, deletes before inserts, and then their weights. Returns its size.

    Word ``j`` of tuple ``i`` is ``codes[i + columns[j] * stride]``. The net is written column by column if
    ``by_column``, else tuple by tuple. ``memory[scratch ...]``: n words of scratch; ``slots``: ``slots_of_net(n)``.
    """
    size, sums = slots_of_net(n), beyond(memory, scratch)
    for i in range(size):
        slots[i] = -1
    for i in range(n):
        sums[i] = weights[i]
    merge(codes, 1, stride, columns, width, sums, n, slots, size, secret)
    deletes, m = count_net(sums, n)
    row_stride, column_stride = (1, m) if by_column else (width, 1)
    write_net(
        codes, 1, stride, columns, width, sums, n, deletes, out, row_stride, column_stride, beyond(out, m * width)
    )
    return m


@device
def _needs_net(weights, n):
    """Returns True if equal tuples may have to be merged, or deletes to be moved to the front."""
    least = 1 + ZERO
    for i in range(n):
        least = min(least, weights[i])
    return least == 0 or (least < 0 and n > 1)


@device
def net_source(plan, source, identity_at, secret, memory, state, block, slots):
    """Nets the tuples of a source that was scanned, if needed. The net is a second copy of them.

    ``identity_at``: the plan offset of the numbers 0, 1, 2, ...
    """
    n, width = state[block + B_READ_ROWS], plan[source + S_WIDTH]
    free = state[block + B_START] + (2 + width) * state[block + B_GIVEN_ROWS]
    codes, weights = beyond(memory, state[block + B_CODES]), beyond(memory, state[block + B_WEIGHTS])
    if plan[source + S_NETS] == 1 and _needs_net(weights, n):
        out = beyond(memory, free + n)
        m = net_tuples(codes, n, beyond(plan, identity_at), width, weights, n, secret, slots, memory, free, out, True)
        state[block + B_TUPLES], state[block + B_CODES], state[block + B_WEIGHTS] = m, free + n, free + n + width * m
    set_forms(memory, state, block, width)


@device
def count_tuples(plan, source, base, memory, state, block):
    """Counts the tuples of a source in its base table. Returns True if all deletes find their tuples.

    It returns False too if the table needs memory. ``B_COUNTED`` is the number of tuples that were counted.
    """
    n, width = state[block + B_TUPLES], plan[source + S_WIDTH]
    free = state[block + B_START] + 2 * (2 + width) * state[block + B_GIVEN_ROWS]
    copies_before, leaf, strides = beyond(memory, free), beyond(memory, free + n), beyond(memory, free + 2 * n)
    codes, weights = beyond(memory, state[block + B_CODES]), beyond(memory, state[block + B_WEIGHTS])
    tags = beyond(memory, free + 2 * n + width)
    for j in range(width):
        strides[j] = j * n
    for i in range(n):
        leaf[i] = 0
    state[block + B_COPIES_BEFORE] = free
    state[block + B_COUNTED] = tallied(
        base, plan[source + S_TABLE], strides, width, 1, codes, leaf, weights, n, plan[source + S_CLAMPS],
        copies_before, tags, ZERO,
    )  # fmt: skip
    if state[block + B_COUNTED] < n:
        return False
    least = ZERO
    if plan[source + S_CLAMPS] == 1:
        for i in range(n):
            least = min(least, copies_before[i] + weights[i])
    return least >= 0


@device
def tally(plan, source, base, state, block):
    """Adds the rows of a source to the counters of the base tables."""
    if plan[source + S_UPDATES] != 0:
        base[plan[source + S_UPDATES]] += state[block + B_TUPLES]
    dropped = state[block + B_GIVEN_ROWS] - state[block + B_OTHER_CELLS] - state[block + B_READ_ROWS]
    base[plan[source + S_FILTERED]] += dropped
