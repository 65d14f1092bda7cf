"""The evaluation of expressions: instructions over registers, each a column of a block of rows.

    codes -> registers of inputs and constants -> instructions, one after the other -> registers of outputs -> codes

A register has two words per row: the second is that of *wide* decimals, of more than 18 digits. NULL is a value like
any other, its code; of a wide decimal it is the second word. The program is data: a *plan* of words (see
``crown.expressions.program``).
"""

from __future__ import annotations

from crown.expressions.kernels.decimals import decimal
from crown.kernels.jit import device, kernel
from crown.kernels.lookups import L_ASKED, looked_up, table_at
from crown.kernels.memory.arena import ONE, ZERO
from crown.kernels.memory.pointers import constants, words
from crown.kernels.numbers.doubles import double_of, word_of
from crown.kernels.numbers.limbs import product_leaves, sum_leaves
from crown.kernels.strings import NULL, value_word

WORDS, CODES, PAIRS = 0, 1, 2  # forms of an input: words, codes of wide decimals, wide decimals themselves
ADD, SUB, MUL, MOD, NEGATE, ABSOLUTE, NARROW = 0, 1, 2, 3, 4, 5, 6  # of whole numbers
ADD_DOUBLES, SUB_DOUBLES, MUL_DOUBLES, DIV_DOUBLES, NEGATE_DOUBLE, ABSOLUTE_DOUBLE, TO_DOUBLE = 7, 8, 9, 10, 11, 12, 13
ADD_SCALED, SUB_SCALED, MUL_SCALED = 14, 15, 16  # decimals of few digits, which cannot overflow
DECIMAL, NEGATE_WIDE, ABSOLUTE_WIDE = 17, 18, 19
EQUAL, LESS, SAME, EQUAL_DOUBLES, LESS_DOUBLES, SAME_DOUBLES, EQUAL_WIDE, LESS_WIDE, SAME_WIDE = (
    20, 21, 22, 23, 24, 25, 26, 27, 28,
)  # fmt: skip
AND, OR, NOT, IS_NULL, IS_NULL_WIDE, SELECT, YEAR, MONTH, DAY, LOOKUP = 29, 30, 31, 32, 33, 34, 35, 36, 37, 38
STEP = 13  # words of an instruction: what it does, its register, those of three operands, which are wide, parameters
P_INPUTS, P_CONSTANTS, P_TEXTS, P_STEPS, P_OUTPUTS, P_HEAD = 0, 1, 2, 3, 4, 5
BLOCK = 256  # rows
UNKNOWN = -1  # the code of a text that is in no row; that of the next one is one less, so that they differ
_NAN = 0x7FF8 << 48
_MOST32 = 2**31 - 1


@device
def _wide(low, high, wide):
    """Returns an operand as a pair of words."""
    if wide == 0:
        return low, low >> 63
    return low, high


@device
def _code_of(value):
    """Returns the code of a double: there is one zero, and one NaN."""
    if value == 0.0:
        return ZERO
    if value != value:
        return ZERO + _NAN
    return word_of(value)


@device
def _whole(op, a, b):
    """Returns ``a op b`` of 64 bits; NULL if it does not fit, or the divisor is 0."""
    if op == ADD:
        return NULL if sum_leaves(a, b) else a + b
    if op == SUB:
        return NULL if sum_leaves(a, -b) else a - b  # -b fits: -2^63 is NULL
    if op == MUL:
        return NULL if product_leaves(a, b) else a * b
    if b == 0:
        return NULL
    if b == -1:
        return ZERO
    rest = a % b
    if rest != 0 and (rest ^ a) < 0:
        rest -= b
    return rest


@device
def _on_doubles(op, a, b):
    """Returns the code of ``a op b``; NULL where the divisor is 0."""
    left, right = double_of(a), double_of(b)
    if op == ADD_DOUBLES:
        return _code_of(left + right)
    if op == SUB_DOUBLES:
        return _code_of(left - right)
    if op == MUL_DOUBLES:
        return _code_of(left * right)
    return NULL if right == 0.0 else _code_of(left / right)


@device
def _less_doubles(a, b):
    """Returns True iff a double is less than another; NaN is more than every other."""
    return double_of(a) < double_of(b) or (a != _NAN and b == _NAN)


@device
def _date(days):
    """Returns year, month and day of a number of days since 1970, by the proleptic Gregorian calendar."""
    shifted = days + 719_468  # since 0000-03-01
    era = shifted // 146_097
    of_era = shifted - era * 146_097
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return year + era * 400 + (month <= 2), month, day


@device
def _of_one(op, a):
    """Returns what an instruction with one operand, which is not NULL, makes of it."""
    if op == NEGATE:
        return -a
    if op == ABSOLUTE:
        return -a if a < 0 else a
    if op == NARROW:
        return NULL if a > _MOST32 or a < -_MOST32 - 1 else a
    if op == NEGATE_DOUBLE:
        return _code_of(-double_of(a))
    if op == ABSOLUTE_DOUBLE:
        return _code_of(abs(double_of(a)))
    if op == TO_DOUBLE:
        return _code_of(float(a))
    if op == NOT:
        return ONE - a
    year, month, day = _date(a)
    if op == YEAR:
        return ZERO + year
    return ZERO + (month if op == MONTH else day)


@device
def _of_two(op, a, b):
    """Returns what an instruction with two operands that are words, neither of them NULL, makes of them."""
    if op in (EQUAL, EQUAL_DOUBLES):
        return ZERO + (a == b)
    if op == LESS:
        return ZERO + (a < b)
    if op == LESS_DOUBLES:
        return ZERO + _less_doubles(a, b)
    if op <= MOD:
        return _whole(op, a, b)
    return _on_doubles(op, a, b)


@device
def _kleene(op, a, b):
    """Returns AND or OR of three truth values."""
    decides = ZERO + (op == OR)
    if a == decides or b == decides:
        return decides
    return NULL if a == NULL or b == NULL else ONE - decides


@device
def _scaled(op, a, b, plan, at):
    """Returns ``a op b`` of decimals of few digits; ``plan[at ...]``: by what both, and then the result, are
    multiplied."""
    a, b = a * plan[at], b * plan[at + 1]
    if op == ADD_SCALED:
        return (a + b) * plan[at + 2]
    if op == SUB_SCALED:
        return (a - b) * plan[at + 2]
    return a * b * plan[at + 2]


@device
def _compared_wide(op, low, high, other_low, other_high):
    """Returns a truth value of two wide decimals of one scale, or NULL."""
    if high == NULL or other_high == NULL:
        return ZERO + (high == other_high) if op == SAME_WIDE else NULL
    if op != LESS_WIDE:
        return ZERO + (low == other_low and high == other_high)
    return ZERO + (high < other_high or (high == other_high and (low ^ NULL) < (other_low ^ NULL)))


@device
def _decimal(plan, at, registers, to, a, b, n, scratch):
    """Runs a DECIMAL instruction: ``plan[at + 4]`` is what it does, ``plan[at + 6 ...]`` the rest for ``decimal``."""
    first, second, wide = plan[at + 5] & 1, plan[at + 5] & 2, plan[at + 5] & 4
    for i in range(n):
        low, high = _wide(registers[a + i], registers[a + BLOCK + i], first)
        other_low, other_high = _wide(registers[b + i], registers[b + BLOCK + i], second)
        none = (high if first else low) == NULL or (other_high if second else other_low) == NULL
        if none:
            low, high = ZERO, ZERO + NULL
        else:
            low, high = decimal(scratch, plan[at + 4], low, high, other_low, other_high, plan, at + 6)
        if wide:
            registers[to + i], registers[to + BLOCK + i] = low, high
        else:
            registers[to + i] = NULL if high == NULL else low


@device
def _step(plan, at, registers, n, scratch):
    """Runs an instruction for the ``n`` rows of a block."""
    op, to = plan[at], plan[at + 1]
    a, b, c, wide = plan[at + 2], plan[at + 3], plan[at + 4], plan[at + 5]
    if op == DECIMAL:
        _decimal(plan, at, registers, to, a, b, n, scratch)
    elif op == LOOKUP:
        table = table_at(registers[b])
        for i in range(n):
            registers[to + i] = looked_up(table, registers[a + i])
    elif ADD_SCALED <= op <= MUL_SCALED:
        for i in range(n):
            left, right = registers[a + i], registers[b + i]
            none = left == NULL or right == NULL
            registers[to + i] = NULL if none else _scaled(op, left, right, plan, at + 6)
    elif op == SELECT:
        for i in range(n):
            chosen = b if registers[a + i] == 1 else c
            registers[to + i] = registers[chosen + i]
            if wide:
                registers[to + BLOCK + i] = registers[chosen + BLOCK + i]
    elif op in (AND, OR):
        for i in range(n):
            registers[to + i] = _kleene(op, registers[a + i], registers[b + i])
    elif op in (SAME, SAME_DOUBLES):
        for i in range(n):
            registers[to + i] = ZERO + (registers[a + i] == registers[b + i])
    elif EQUAL_WIDE <= op <= SAME_WIDE:
        for i in range(n):
            low, high = registers[a + i], registers[a + BLOCK + i]
            registers[to + i] = _compared_wide(op, low, high, registers[b + i], registers[b + BLOCK + i])
    elif op == IS_NULL:
        for i in range(n):
            registers[to + i] = ZERO + (registers[a + i] == NULL)
    elif op == IS_NULL_WIDE:
        for i in range(n):
            registers[to + i] = ZERO + (registers[a + BLOCK + i] == NULL)
    elif op in (NEGATE_WIDE, ABSOLUTE_WIDE):
        for i in range(n):
            low, high = registers[a + i], registers[a + BLOCK + i]
            if high != NULL and (op == NEGATE_WIDE or high < 0):
                low, high = -low, ~high + (low == 0)
            registers[to + i], registers[to + BLOCK + i] = low, high
    elif op in (NEGATE, ABSOLUTE, NARROW, NOT) or NEGATE_DOUBLE <= op <= TO_DOUBLE or op >= YEAR:
        for i in range(n):
            value = registers[a + i]
            registers[to + i] = NULL if value == NULL else _of_one(op, value)
    else:
        for i in range(n):
            left, right = registers[a + i], registers[b + i]
            registers[to + i] = NULL if left == NULL or right == NULL else _of_two(op, left, right)


@device
def _load(arena, form, values, first, pairs, n, registers, to):
    """Fills the register of an input with the rows of a block; ``first``: where they begin."""
    if form == PAIRS:
        for i in range(n):
            registers[to + i], registers[to + BLOCK + i] = pairs[first + 2 * i], pairs[first + 2 * i + 1]
    elif form == CODES:
        for i in range(n):
            code = values[first + i]
            low, high = ZERO, ZERO + NULL
            if code != NULL:
                low, high = value_word(arena, code, 0), value_word(arena, code, 1)
            registers[to + i], registers[to + BLOCK + i] = low, high
    else:
        for i in range(n):
            registers[to + i] = values[first + i]


@kernel("words, const words, const table, const words, const words, const words, words, words, words")
def evaluate(arena, plan, inputs, forms, pairs, texts, registers, scratch, out):
    """Calls ``evaluated`` with these arrays; ``inputs`` int64[inputs, n]."""
    n = inputs.shape[1]
    arena, plan, inputs, forms, pairs = words(arena), constants(plan), words(inputs), constants(forms), words(pairs)
    return evaluated(arena, plan, inputs, n, forms, pairs, words(texts), words(registers), words(scratch), words(out))


@device
def evaluated(arena, plan, inputs, n, forms, pairs, texts, registers, scratch, out):
    """Evaluates a program for ``n`` rows. Returns how often a code was looked up that is not known yet. If there is
    one, the outputs are void, and Python has to decide it (see ``crown.store.lookups``). O(rows * instructions).

    ``arena``: where the dictionary is, in which codes of wide decimals are looked up. Of each input ``forms`` has the
    form, and where it begins: in ``inputs``, or for PAIRS in ``pairs``. ``texts``: the codes of the texts that the
    program names, then the addresses of its lookups. ``registers`` and ``scratch``: room. ``out``: the outputs one
    after the other, of ``n`` words each, or of 2n if it is wide: low and high by turns.
    """
    given, fixed, named, steps, outputs = (
        plan[P_INPUTS],
        plan[P_CONSTANTS],
        plan[P_TEXTS],
        plan[P_STEPS],
        plan[P_OUTPUTS],
    )
    at = P_HEAD
    for _ in range(fixed):
        for i in range(min(n, BLOCK)):
            registers[plan[at] + i], registers[plan[at] + BLOCK + i] = plan[at + 1], plan[at + 2]
        at += 3
    for x in range(named):
        for i in range(min(n, BLOCK)):
            registers[plan[at] + i] = texts[x]
        at += 1
    first_step = at
    first_output = first_step + STEP * steps
    for block in range(0, n, BLOCK):
        size = min(n - block, BLOCK)
        for x in range(given):
            first = forms[2 * x + 1] + (2 * block if forms[2 * x] == PAIRS else block)
            _load(arena, forms[2 * x], inputs, first, pairs, size, registers, 2 * BLOCK * x)
        at = first_step
        for _ in range(steps):
            _step(plan, at, registers, size, scratch)
            at += STEP
        at, to = first_output, ZERO
        for _ in range(outputs):
            register = plan[at]
            if plan[at + 1] == 1:
                for i in range(size):
                    out[to + 2 * (block + i)] = registers[register + i]
                    out[to + 2 * (block + i) + 1] = registers[register + BLOCK + i]
                to += 2 * n
            else:
                for i in range(size):
                    out[to + block + i] = registers[register + i]
                to += n
            at += 2
    asked, at = ZERO, first_step
    for _ in range(steps if n > 0 else 0):
        if plan[at] == LOOKUP:
            table = table_at(registers[plan[at + 3]])
            asked += table[L_ASKED]
        at += STEP
    return asked
