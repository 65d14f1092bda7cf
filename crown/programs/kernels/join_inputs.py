"""Inputs of the joins of a native call: the delta of each stored relation (``crown.ingest.batch.JoinInputs``).

    block -> feed -> tuples that an alias reads, with their masks -> net, deletes first -> tuples without NULL keys

A source with a mask column says of each tuple which occurrences of the relation read it. In the delta, a tuple has a
mask with a bit per alias.
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.arena import ZERO
from crown.kernels.memory.pointers import beyond
from crown.kernels.strings import NULL
from crown.programs.kernels.blocks import B_FORMS, B_NULLS, B_TUPLES, B_WEIGHTS, BLOCK_WORDS
from crown.programs.kernels.feeds import F_INPUT, F_OUTPUT, F_WIDTH
from crown.programs.kernels.sources import net_tuples

# Words of a join input in the plan.
(
    I_FEED_AT,  # offset of the feed that makes its tuples
    I_NETS,  # 1 if they are netted
    I_RECORD,  # record descriptor of the stored relation in the core
    I_LOOKS_UP,  # 1 if deletes of the relation are looked up in this join, and not counted by a base table
    I_KEY_COUNT,  # number of columns that must not be NULL
    I_KEYS_AT,  # offset of the list of these columns
    I_ALIAS_COUNT,  # number of aliases that read the stored relation
    I_ALIASES_AT,  # offset of two words per alias: the arena words that count tuples, and tuples that were left out
    I_SUMMED,  # 1 if only sums of its rows are kept
    I_STATE,  # its first word in the state
    I_JOIN_STATE,  # first word of its join in the state
    I_DROPS_NULLS,  # 1 if tuples with a NULL in such a column are left out
    I_WIDTH,  # number of columns of the stored relation
    I_MASK_COLUMN,  # column of its source that says which occurrences read a tuple, or -1; the last one of the feed
    I_OCCURRENCES_AT,  # offset of the list of the occurrences of the aliases, if there is such a column
    JOIN_INPUT_WORDS,
) = range(16)
# Words of a join input in the state.
(
    IS_TUPLES,  # tuples of the delta
    IS_DELETED,  # deleted tuples of it, which come first
    IS_ROWS,  # word of the memory with the tuples, one after the other
    IS_WEIGHTS,  # word of the memory with their weights
    IS_AMOUNTS,  # word of the memory with the copies to delete: the weights without sign
    IS_MISSING,  # word of the memory with the copies to delete that were not there
    IS_DROPPED,  # tuples that were left out because of a NULL, or because no alias reads them
    IS_MASKS,  # word of the memory with the masks of the tuples, if they have some: bit i is set if alias i reads it
    JOIN_INPUT_STATE_WORDS,
) = range(9)


@device
def words_per_tuple(width, masked):
    """Returns how many words of the memory a tuple of a join input takes, besides those of its feed.

    ``masked``: 1 if tuples have masks, else 0.
    """
    return width + 5 + masked * (width + 2)


@device
def compute_delta(plan, stored, secret, memory, free, state, blocks, slots):
    """Writes the delta of a stored relation, which it reads from the block of a feed. Expected O(tuples).

    Uses the memory from word ``free`` on. Returns the next free word.
    """
    feed, delta = plan[stored + I_FEED_AT], plan[stored + I_STATE]
    block, width = blocks + BLOCK_WORDS * plan[feed + F_OUTPUT], plan[feed + F_WIDTH]
    m, forms = state[block + B_TUPLES], beyond(memory, state[block + B_FORMS])
    weights = beyond(memory, state[block + B_WEIGHTS])
    n, columns = m, beyond(memory, free)
    for j in range(width):
        columns[j] = forms[2 * j + 1]
    free += width
    state[delta + IS_DROPPED] = 0
    if plan[stored + I_MASK_COLUMN] >= 0:
        m = _choose_read(plan, stored, columns, width, weights, n, memory, free)
        weights, state[delta + IS_DROPPED] = beyond(memory, free + width * n), n - m
        free += (width + 1) * n
    state[delta + IS_ROWS] = free
    rows = beyond(memory, free)
    free += (width + 1) * n
    if plan[stored + I_NETS] == 1 and (m > 1 or (m == 1 and weights[0] == 0)):
        m = net_tuples(memory, 1, columns, width, weights, m, secret, slots, memory, free, rows, False)
    else:
        for j in range(width):
            first = columns[j]
            for i in range(m):
                rows[i * width + j] = memory[first + i]
        for i in range(m):
            rows[m * width + i] = weights[i]
    state[delta + IS_WEIGHTS] = state[delta + IS_ROWS] + m * width
    net_weights = beyond(memory, state[delta + IS_WEIGHTS])
    if plan[stored + I_MASK_COLUMN] >= 0:
        state[delta + IS_MASKS] = free
        _split_masks(rows, width, m, beyond(memory, free))
        free += n
    if plan[stored + I_DROPS_NULLS] == 1 and state[block + B_NULLS] != 0:
        kept = _drop_null_keys(plan, stored, rows, width, net_weights, m)
        state[delta + IS_DROPPED], m = m - kept, kept
    amounts, missing, deletes = beyond(memory, free), beyond(memory, free + n), ZERO
    while deletes < m and net_weights[deletes] < 0:
        amounts[deletes], missing[deletes] = -net_weights[deletes], 0
        deletes += 1
    state[delta + IS_TUPLES], state[delta + IS_DELETED] = m, deletes
    state[delta + IS_AMOUNTS], state[delta + IS_MISSING] = free, free + n
    return free + 2 * n


@device
def _choose_read(plan, stored, columns, width, weights, n, memory, start):
    """Copies the tuples that an alias reads to the memory from word ``start`` on, and their weights. Returns their
    number.

    The last column is the mask: a bit per occurrence in the input, a bit per alias in the copy. ``columns``: the words
    where the columns begin, which are replaced.
    """
    copies, aliases, m = beyond(memory, start), plan[stored + I_ALIAS_COUNT], ZERO
    occurrences = beyond(plan, plan[stored + I_OCCURRENCES_AT])
    for i in range(n):
        occurrence_mask, mask = memory[columns[width - 1] + i], ZERO
        for bit in range(aliases):
            mask |= (occurrence_mask >> occurrences[bit] & 1) << bit
        if mask != 0:
            for j in range(width - 1):
                copies[j * n + m] = memory[columns[j] + i]
            copies[(width - 1) * n + m], copies[width * n + m] = mask, weights[i]
            m += 1
    for j in range(width):
        columns[j] = start + j * n
    return m


@device
def _split_masks(rows, width, m, masks):
    """Moves the last column of ``m`` tuples, each of ``width`` words, to ``masks``."""
    for i in range(m):
        masks[i] = rows[i * width + width - 1]
        for j in range(width - 1):
            rows[i * (width - 1) + j] = rows[i * width + j]


@device
def _has_null_key(plan, stored, rows, start):
    """Returns True if the tuple at ``rows[start]`` has a NULL in a join column."""
    found = False
    for number in range(plan[stored + I_KEY_COUNT]):
        found |= rows[start + plan[plan[stored + I_KEYS_AT] + number]] == NULL
    return found


@device
def _drop_null_keys(plan, stored, rows, width, weights, m):
    """Moves the tuples without a NULL in a join column to the front. Returns their number."""
    kept = ZERO
    for i in range(m):
        if not _has_null_key(plan, stored, rows, i * width):
            for j in range(width):
                rows[kept * width + j] = rows[i * width + j]
            weights[kept] = weights[i]
            kept += 1
    return kept


@device
def some_unstored(plan, stored, memory, state, blocks):
    """Returns True if the stored relation may lack a tuple whose deletes are looked up in it, or a tuple has a NULL
    key."""
    feed, delta = plan[stored + I_FEED_AT], plan[stored + I_STATE]
    if plan[stored + I_LOOKS_UP] == 1 and state[delta + IS_DROPPED] > 0:
        return True
    if state[blocks + BLOCK_WORDS * plan[feed + F_OUTPUT] + B_NULLS] == 0 or plan[stored + I_DROPS_NULLS] == 1:
        return False
    rows, width = beyond(memory, state[delta + IS_ROWS]), plan[stored + I_WIDTH]
    found = False
    for i in range(state[delta + IS_TUPLES]):
        found |= _has_null_key(plan, stored, rows, i * width)
    return found


@device
def count_read(plan, stored, alias, memory, state):
    """Returns how many tuples of the delta an alias reads."""
    delta = plan[stored + I_STATE]
    if plan[stored + I_MASK_COLUMN] < 0:
        return state[delta + IS_TUPLES]
    masks, count = beyond(memory, state[delta + IS_MASKS]), ZERO
    for i in range(state[delta + IS_TUPLES]):
        count += masks[i] >> alias & 1
    return count


@device
def _count_in_block(memory, state, block, column, occurrence):
    """Returns how many tuples of a block an occurrence reads. ``column``: the one with the masks."""
    first, count = memory[state[block + B_FORMS] + 2 * column + 1], ZERO
    for i in range(state[block + B_TUPLES]):
        count += memory[first + i] >> occurrence & 1
    return count


@device
def count_rejected(plan, stored, alias, memory, state, blocks):
    """Returns how many tuples an alias does not read because of its predicate or a NULL."""
    feed = plan[stored + I_FEED_AT]
    read, output = blocks + BLOCK_WORDS * plan[feed + F_INPUT], blocks + BLOCK_WORDS * plan[feed + F_OUTPUT]
    if plan[stored + I_MASK_COLUMN] < 0:
        return state[read + B_TUPLES] - state[output + B_TUPLES] + state[plan[stored + I_STATE] + IS_DROPPED]
    occurrence = plan[plan[stored + I_OCCURRENCES_AT] + alias]
    given = _count_in_block(memory, state, read, plan[stored + I_MASK_COLUMN], occurrence)
    return given - _count_in_block(memory, state, output, plan[stored + I_WIDTH], occurrence)
