"""Feeds in a batch that is one native call: a block of tuples in, a block of others out.

    columns -> an expression program -> the tuples that are chosen -> forms of the columns, weights

Columns that stay as they are are not copied, unless some tuples are left out: the forms of a block say where each of
its columns is. Blocks have the words ``R_GIVEN`` ... in the state (``sources``), a feed ``F_BLOCK`` ... in the plan.
"""

from __future__ import annotations

from crown.expressions.kernels.decimals import SCRATCH
from crown.expressions.kernels.evaluate import P_INPUTS, PAIRS, WORDS, evaluated
from crown.kernels.jit import device
from crown.kernels.memory.arena import ZERO
from crown.kernels.memory.pointers import beyond
from crown.kernels.strings import NULL
from crown.programs.kernels.sources import R_EVENTS, R_FORMS, R_NULLS, R_SUM, R_WEIGHTS, READ

(F_BLOCK, F_MADE, F_WIDTH, F_COLUMNS, F_PROGRAM, F_READS, F_WORDS, F_CHOOSES, F_TEXT0, F_WEIGHS, F_HEAD, FEED) = range(
    12
)
"""Words of a feed in the plan: the block that it reads, and the one that it makes; how many columns it makes, and where
two words of each are listed: its column in that block, or one less than minus the words of outputs that stand before
it, and its form then; where the expression program is, or 0, the list of the columns that this reads, and the words of
its outputs; 1 if the first of these says which tuples are chosen; the first of its texts; the words that a tuple
weighs; 1 if it makes the rows of the join core that is the operator before it."""


@device
def words_of_feed(width, reads):
    """Returns how many words of the memory a feed takes for any number of tuples."""
    return 2 * (width + reads)


@device
def words_of_chosen(outputs, width, weighs):
    """Returns how many words of the memory a feed takes for each tuple; ``width``: words of its columns, ``weighs``: of
    what it weighs."""
    return outputs + width + 1 + weighs


@device
def _set_form(forms, given, out, n, j, columns):
    """Writes the form of column ``j`` of a block, and where it begins. ``given``: the forms of the block that is read,
    of ``n`` tuples; ``out``: where the outputs are."""
    place, form = columns[2 * j], columns[2 * j + 1]
    if place >= 0:
        forms[2 * j], forms[2 * j + 1] = given[2 * place], given[2 * place + 1]
    else:
        forms[2 * j], forms[2 * j + 1] = form, out + (-1 - place) * n


@device
def _moved(memory, forms, width, chosen, m, at):
    """Copies the ``m`` tuples that are chosen, from word ``at`` of the memory on; where it goes on."""
    for j in range(width):
        first = forms[2 * j + 1]
        forms[2 * j + 1] = at
        if forms[2 * j] == PAIRS:
            for i in range(m):
                memory[at + 2 * i] = memory[first + 2 * chosen[i]]
                memory[at + 2 * i + 1] = memory[first + 2 * chosen[i] + 1]
            at += m
        else:
            for i in range(m):
                memory[at + i] = memory[first + chosen[i]]
        at += m
    return at


@device
def fed(plan, f, dictionary, memory, scratch, texts, at, state, blocks):
    """Makes the block of the feed at ``plan[f]``, from word ``at`` of the memory on. Returns where that goes on, or -1
    if a text is looked up that is not known yet.

    ``scratch``: the first word of what expressions need; ``texts``: that of the codes of the texts that they name;
    ``blocks``: the first word of the state that is of blocks.
    """
    r, made = blocks + READ * plan[f + F_BLOCK], blocks + READ * plan[f + F_MADE]
    n, width, columns = state[r + R_EVENTS], plan[f + F_WIDTH], beyond(plan, plan[f + F_COLUMNS])
    given, forms = beyond(memory, state[r + R_FORMS]), beyond(memory, at)
    state[made + R_FORMS], state[made + R_NULLS] = at, state[r + R_NULLS]
    state[made + R_EVENTS], state[made + R_WEIGHTS] = n, state[r + R_WEIGHTS]
    at += 2 * width
    out = at
    if plan[f + F_PROGRAM] != 0:
        program, reads, inputs = beyond(plan, plan[f + F_PROGRAM]), plan[f + F_READS], beyond(memory, at)
        for x in range(program[P_INPUTS]):
            column = plan[reads + x]
            inputs[2 * x], inputs[2 * x + 1] = given[2 * column], given[2 * column + 1]
        out = at + 2 * program[P_INPUTS]
        asked = evaluated(
            dictionary, program, memory, n, inputs, memory, beyond(memory, texts + plan[f + F_TEXT0]),
            beyond(memory, scratch + SCRATCH), beyond(memory, scratch), beyond(memory, out),
        )  # fmt: skip
        if asked > 0:
            return ZERO - 1
        at = out + plan[f + F_WORDS] * n
    for j in range(width):
        _set_form(forms, given, out, n, j, columns)
    weights = beyond(memory, state[r + R_WEIGHTS])
    if plan[f + F_CHOOSES] == 1:
        m, chosen, amounts = ZERO, beyond(memory, at), beyond(memory, at + n)
        for i in range(n):
            chosen[m] = i
            m += memory[out + i] == 1
        for w in range(plan[f + F_WEIGHS]):
            for i in range(m):
                amounts[w * m + i] = weights[w * n + chosen[i]]
        state[made + R_EVENTS], state[made + R_WEIGHTS] = m, at + n
        at = _moved(memory, forms, width, chosen, m, at + (1 + plan[f + F_WEIGHS]) * n)
        n, weights = m, amounts
    total = ZERO
    for i in range(n):
        total += weights[i]
    state[made + R_SUM] = total
    for j in range(width):
        if columns[2 * j] < 0 and forms[2 * j] == WORDS and state[made + R_NULLS] == 0:
            least, first = ZERO, forms[2 * j + 1]
            for i in range(n):
                least = min(least, memory[first + i])
            if least == NULL:
                state[made + R_NULLS] = 1
    return at
