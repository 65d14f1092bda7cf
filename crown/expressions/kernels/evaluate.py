"""Evaluates expressions: runs instructions over registers, each of which is a column of a block of rows.

    codes -> registers of inputs and constants -> instructions, one after the other -> registers of outputs -> codes

A register has two words per row. The second is used only for *wide* decimals, of more than 18 digits. NULL is a value
like any other, its code; of a wide decimal it is the second word. The program is a *plan* of words (see
``crown.expressions.program``): its head ``P_...``, then

    per constant      its register, its two words
    per text          its register. Lookups follow the texts in the same way.
    per instruction   the words ``I_...``
    per output        its register, 1 if it is wide
"""

from __future__ import annotations

from crown.expressions.kernels.decimals import decimal
from crown.kernels.jit import device, kernel
from crown.kernels.lookups import L_ASKED, looked_up, table_at
from crown.kernels.memory.arena import ONE, ZERO
from crown.kernels.memory.pointers import constants, words
from crown.kernels.numbers.doubles import double_of, word_of
from crown.kernels.numbers.limbs import product_leaves, sum_leaves
from crown.kernels.strings import NULL, short_number, value_word

WORDS, CODES, PAIRS = 0, 1, 2  # forms of an input: words, codes of wide decimals, wide decimals themselves
ADD, SUB, MUL, MOD, NEGATE, ABSOLUTE, NARROW = 0, 1, 2, 3, 4, 5, 6  # of whole numbers
ADD_DOUBLES, SUB_DOUBLES, MUL_DOUBLES, DIV_DOUBLES, NEGATE_DOUBLE, ABSOLUTE_DOUBLE, TO_DOUBLE = 7, 8, 9, 10, 11, 12, 13
ADD_SCALED, SUB_SCALED, MUL_SCALED = 14, 15, 16  # decimals of few digits, which cannot overflow
DECIMAL, NEGATE_WIDE, ABSOLUTE_WIDE = 17, 18, 19
EQUAL, LESS, SAME, EQUAL_DOUBLES, LESS_DOUBLES, SAME_DOUBLES, EQUAL_WIDE, LESS_WIDE, SAME_WIDE = (
    20, 21, 22, 23, 24, 25, 26, 27, 28,
)  # fmt: skip
AND, OR, NOT, IS_NULL, IS_NULL_WIDE, SELECT, YEAR, MONTH, DAY, LOOKUP = 29, 30, 31, 32, 33, 34, 35, 36, 37, 38
FLOOR_DIVIDE = 39  # of whole numbers, by a positive one
# Words of an instruction. Operands are registers.
(
    I_OPERATION,
    I_TARGET,  # register of the result
    I_A,
    I_B,
    I_C,  # third operand; of DECIMAL its operation (see ``decimals``)
    I_WIDE,  # SELECT: 1 if the values are wide; DECIMAL: bits 0, 1, 2 for wide first and second operand, and result
    I_PARAMETERS,  # up to seven more words
) = range(7)
INSTRUCTION_WORDS = 13
# Words of the head of a plan.
(
    P_INPUT_COUNT,
    P_CONSTANT_COUNT,
    P_TEXT_COUNT,  # texts and lookups
    P_INSTRUCTION_COUNT,
    P_OUTPUT_COUNT,
    P_HEAD,
) = range(6)
BLOCK_ROWS = 256
UNKNOWN = -1  # code of the first text that no row has; each further one has a code that is one less
_NAN = 0x7FF8 << 48
_MAX_INT32 = 2**31 - 1


@device
def _wide(low, high, wide):
    """Returns an operand as a pair of words."""
    if wide == 0:
        return low, low >> 63
    return low, high


@device
def write_codes(memory, pairs, n, out):
    """Writes the codes of ``n`` wide decimals of two words each. Returns False if one is not its own code."""
    for i in range(n):
        low, high = memory[pairs + 2 * i], memory[pairs + 2 * i + 1]
        code = ZERO + NULL
        if high != NULL:
            code = short_number(low) if high == low >> 63 else ZERO
            if code == 0:
                return False
        memory[out + i] = code
    return True


@device
def _code_of(value):
    """Returns the code of a double: there is one zero, and one NaN."""
    if value == 0.0:
        return ZERO
    if value != value:
        return ZERO + _NAN
    return word_of(value)


@device
def _whole_numbers(op, a, b):
    """Returns ``a op b`` of 64 bits; NULL if it does not fit, or the divisor is 0."""
    if op == ADD:
        return NULL if sum_leaves(a, b) else a + b
    if op == SUB:
        return NULL if sum_leaves(a, -b) else a - b  # -b fits: -2^63 is NULL
    if op == MUL:
        return NULL if product_leaves(a, b) else a * b
    if b == 0:
        return NULL
    if op == FLOOR_DIVIDE:
        return a // b
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
def _unary(op, a):
    """Returns what an instruction with one operand, which is not NULL, makes of it."""
    if op == NEGATE:
        return -a
    if op == ABSOLUTE:
        return -a if a < 0 else a
    if op == NARROW:
        return NULL if a > _MAX_INT32 or a < -_MAX_INT32 - 1 else a
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
def _binary(op, a, b):
    """Returns what an instruction with two operands that are words, neither of them NULL, makes of them."""
    if op in (EQUAL, EQUAL_DOUBLES):
        return ZERO + (a == b)
    if op == LESS:
        return ZERO + (a < b)
    if op == LESS_DOUBLES:
        return ZERO + _less_doubles(a, b)
    if op <= MOD or op == FLOOR_DIVIDE:
        return _whole_numbers(op, a, b)
    return _on_doubles(op, a, b)


@device
def _three_valued(op, a, b):
    """Returns AND or OR of three truth values."""
    decides = ZERO + (op == OR)
    if a == decides or b == decides:
        return decides
    return NULL if a == NULL or b == NULL else ONE - decides


@device
def _scaled(op, a, b, plan, factors_at):
    """Returns ``a op b`` of decimals of few digits.

    ``plan[factors_at ...]``: the factors of both operands, then of the result.
    """
    a, b = a * plan[factors_at], b * plan[factors_at + 1]
    if op == ADD_SCALED:
        return (a + b) * plan[factors_at + 2]
    if op == SUB_SCALED:
        return (a - b) * plan[factors_at + 2]
    return a * b * plan[factors_at + 2]


@device
def _compared_wide(op, low, high, other_low, other_high):
    """Returns a truth value of two wide decimals of one scale, or NULL."""
    if high == NULL or other_high == NULL:
        return ZERO + (high == other_high) if op == SAME_WIDE else NULL
    if op != LESS_WIDE:
        return ZERO + (low == other_low and high == other_high)
    return ZERO + (high < other_high or (high == other_high and (low ^ NULL) < (other_low ^ NULL)))


@device
def _decimal(plan, instruction, registers, target, a, b, n, scratch):
    """Runs a DECIMAL instruction for the ``n`` rows of a block."""
    first, second, wide = plan[instruction + I_WIDE] & 1, plan[instruction + I_WIDE] & 2, plan[instruction + I_WIDE] & 4
    for i in range(n):
        low, high = _wide(registers[a + i], registers[a + BLOCK_ROWS + i], first)
        other_low, other_high = _wide(registers[b + i], registers[b + BLOCK_ROWS + i], second)
        is_null = (high if first else low) == NULL or (other_high if second else other_low) == NULL
        if is_null:
            low, high = ZERO, ZERO + NULL
        else:
            low, high = decimal(
                scratch, plan[instruction + I_C], low, high, other_low, other_high, plan, instruction + I_PARAMETERS
            )
        if wide:
            registers[target + i], registers[target + BLOCK_ROWS + i] = low, high
        else:
            registers[target + i] = NULL if high == NULL else low


@device
def _run(plan, instruction, registers, n, scratch):
    """Runs an instruction for the ``n`` rows of a block."""
    op, target = plan[instruction + I_OPERATION], plan[instruction + I_TARGET]
    a, b, c = plan[instruction + I_A], plan[instruction + I_B], plan[instruction + I_C]
    wide = plan[instruction + I_WIDE]
    if op == DECIMAL:
        _decimal(plan, instruction, registers, target, a, b, n, scratch)
    elif op == LOOKUP:
        table = table_at(registers[b])
        for i in range(n):
            registers[target + i] = looked_up(table, registers[a + i])
    elif ADD_SCALED <= op <= MUL_SCALED:
        for i in range(n):
            left, right = registers[a + i], registers[b + i]
            none = left == NULL or right == NULL
            registers[target + i] = NULL if none else _scaled(op, left, right, plan, instruction + I_PARAMETERS)
    elif op == SELECT:
        for i in range(n):
            chosen = b if registers[a + i] == 1 else c
            registers[target + i] = registers[chosen + i]
            if wide:
                registers[target + BLOCK_ROWS + i] = registers[chosen + BLOCK_ROWS + i]
    elif op in (AND, OR):
        for i in range(n):
            registers[target + i] = _three_valued(op, registers[a + i], registers[b + i])
    elif op in (SAME, SAME_DOUBLES):
        for i in range(n):
            registers[target + i] = ZERO + (registers[a + i] == registers[b + i])
    elif EQUAL_WIDE <= op <= SAME_WIDE:
        for i in range(n):
            low, high = registers[a + i], registers[a + BLOCK_ROWS + i]
            registers[target + i] = _compared_wide(op, low, high, registers[b + i], registers[b + BLOCK_ROWS + i])
    elif op == IS_NULL:
        for i in range(n):
            registers[target + i] = ZERO + (registers[a + i] == NULL)
    elif op == IS_NULL_WIDE:
        for i in range(n):
            registers[target + i] = ZERO + (registers[a + BLOCK_ROWS + i] == NULL)
    elif op in (NEGATE_WIDE, ABSOLUTE_WIDE):
        for i in range(n):
            low, high = registers[a + i], registers[a + BLOCK_ROWS + i]
            if high != NULL and (op == NEGATE_WIDE or high < 0):
                low, high = -low, ~high + (low == 0)
            registers[target + i], registers[target + BLOCK_ROWS + i] = low, high
    elif op in (NEGATE, ABSOLUTE, NARROW, NOT) or NEGATE_DOUBLE <= op <= TO_DOUBLE or YEAR <= op <= DAY:
        for i in range(n):
            value = registers[a + i]
            registers[target + i] = NULL if value == NULL else _unary(op, value)
    else:
        for i in range(n):
            left, right = registers[a + i], registers[b + i]
            registers[target + i] = NULL if left == NULL or right == NULL else _binary(op, left, right)


@device
def _load(arena, form, values, first, pairs, n, registers, target):
    """Fills the register of an input with ``n`` rows, from row ``first`` on."""
    if form == PAIRS:
        for i in range(n):
            registers[target + i], registers[target + BLOCK_ROWS + i] = pairs[first + 2 * i], pairs[first + 2 * i + 1]
    elif form == CODES:
        for i in range(n):
            code = values[first + i]
            low, high = ZERO, ZERO + NULL
            if code != NULL:
                low, high = value_word(arena, code, 0), value_word(arena, code, 1)
            registers[target + i], registers[target + BLOCK_ROWS + i] = low, high
    else:
        for i in range(n):
            registers[target + i] = values[first + i]


@kernel("words, const words, const table, const words, const words, const words, words, words, words")
def evaluate(arena, plan, inputs, forms, pairs, texts, registers, scratch, out):
    """Calls ``evaluate_rows`` with these arrays. ``inputs``: int64[inputs, n]."""
    n = inputs.shape[1]
    arena, plan, inputs, forms, pairs = words(arena), constants(plan), words(inputs), constants(forms), words(pairs)
    return evaluate_rows(
        arena, plan, inputs, n, forms, pairs, words(texts), words(registers), words(scratch), words(out)
    )


@device
def evaluate_rows(arena, plan, inputs, n, forms, pairs, texts, registers, scratch, out):
    """Evaluates a program for ``n`` rows. O(rows * instructions).

    Returns how many lookups met an unknown code. If there is one, the outputs are void: Python must decide these codes
    (see ``crown.store.lookups``), and call again.

    - ``arena``: the arena of the dictionary, which has the values of wide decimals.
    - ``forms``: two words per input: its form, and where it begins, in ``pairs`` if the form is PAIRS, else in
      ``inputs``.
    - ``texts``: the codes of the texts that the program names, then the addresses of its lookup tables.
    - ``registers``, ``scratch``: room.
    - ``out``: receives the outputs one after the other, ``n`` words each; a wide one has 2n words, low and high
      alternating.
    """
    input_count, constant_count, text_count, instruction_count, output_count = (
        plan[P_INPUT_COUNT],
        plan[P_CONSTANT_COUNT],
        plan[P_TEXT_COUNT],
        plan[P_INSTRUCTION_COUNT],
        plan[P_OUTPUT_COUNT],
    )
    at = P_HEAD
    for _ in range(constant_count):
        for i in range(min(n, BLOCK_ROWS)):
            registers[plan[at] + i], registers[plan[at] + BLOCK_ROWS + i] = plan[at + 1], plan[at + 2]
        at += 3
    for number in range(text_count):
        for i in range(min(n, BLOCK_ROWS)):
            registers[plan[at] + i] = texts[number]
        at += 1
    instructions_at = at
    outputs_at = instructions_at + INSTRUCTION_WORDS * instruction_count
    for first_row in range(0, n, BLOCK_ROWS):
        rows = min(n - first_row, BLOCK_ROWS)
        for number in range(input_count):
            start = forms[2 * number + 1] + (2 * first_row if forms[2 * number] == PAIRS else first_row)
            _load(arena, forms[2 * number], inputs, start, pairs, rows, registers, 2 * BLOCK_ROWS * number)
        at = instructions_at
        for _ in range(instruction_count):
            _run(plan, at, registers, rows, scratch)
            at += INSTRUCTION_WORDS
        at, position = outputs_at, ZERO
        for _ in range(output_count):
            register = plan[at]
            if plan[at + 1] == 1:
                for i in range(rows):
                    out[position + 2 * (first_row + i)] = registers[register + i]
                    out[position + 2 * (first_row + i) + 1] = registers[register + BLOCK_ROWS + i]
                position += 2 * n
            else:
                for i in range(rows):
                    out[position + first_row + i] = registers[register + i]
                position += n
            at += 2
    unknown, at = ZERO, instructions_at
    for _ in range(instruction_count if n > 0 else 0):
        if plan[at + I_OPERATION] == LOOKUP:
            table = table_at(registers[plan[at + I_B]])
            unknown += table[L_ASKED]
        at += INSTRUCTION_WORDS
    return unknown
