"""Exact arithmetic of decimals, one row at a time: 256 bits on the way, rounded once, half up.

An operand is a word or a pair of words, sign and all. The numbers on the way have four limbs in ``scratch``; the
planner keeps them below 2^255 (``plans.expressions.coercion.QUOTIENT_DIGITS``).
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.memory.arena import ONE, ZERO
from crown.kernels.numbers.limbs import add, clear, extend, multiply, multiply_word, negate, plus, product_of_words
from crown.kernels.strings import NULL

LIMBS = 4
# Positions of numbers in scratch.
A = 0  # first operand
B = 4  # second operand
RESULT = 8
REMAINDER = 12
DIVISOR = 16  # absolute value of the second operand
SCRATCH = 20  # words
ADD, SUB, MUL, DIV, MOD, KEEP = 0, 1, 2, 3, 4, 5
_MAX_POWER = 10**18
_DIGIT = 32  # bits; a divisor below 2^31 leaves remainders that fit beside one
_LOW = (1 << _DIGIT) - 1
_NANO, _NANO_DIGITS = 10**9, 9


@device
def _less(a, i, b, j, n):
    """Returns True iff a number of ``n`` limbs is less than another, both read as unsigned."""
    for x in range(n - 1, -1, -1):
        if a[i + x] != b[j + x]:
            return (a[i + x] ^ NULL) < (b[j + x] ^ NULL)
    return False


@device
def _double(a, i, n, bit):
    """Doubles a number of ``n`` limbs, and adds a bit."""
    for x in range(i, i + n):
        top = (a[x] >> 63) & 1
        a[x] = (a[x] << 1) | bit
        bit = top


@device
def scale_up(a, i, full, rest):
    """Multiplies a number of four limbs by 10^(18 ``full``) and by ``rest``."""
    for _ in range(full):
        multiply_word(a, i, LIMBS, _MAX_POWER)
    if rest != 1:
        multiply_word(a, i, LIMBS, rest)


@device
def divide_small(a, i, divisor):
    """Divides a number >= 0 of four limbs by a word from 1 to 2^31 - 1; returns the remainder."""
    rest = ZERO
    for x in range(i + LIMBS - 1, i - 1, -1):
        if rest == 0 and a[x] == 0:
            continue
        upper = (rest << _DIGIT) | ((a[x] >> _DIGIT) & _LOW)
        first = upper // divisor
        lower = ((upper - first * divisor) << _DIGIT) | (a[x] & _LOW)
        second = lower // divisor
        rest = lower - second * divisor
        a[x] = (first << _DIGIT) | second
    return rest


@device
def _divide(a, i, s):
    """Divides the number >= 0 at ``a[i]`` by the one > 0 at ``s[DIVISOR]``; the remainder goes to ``s[REMAINDER]``."""
    clear(s, REMAINDER, LIMBS)
    for x in range(i + LIMBS - 1, i - 1, -1):
        word = a[x]
        if (
            word == 0
            and s[REMAINDER] == 0
            and s[REMAINDER + 1] == 0
            and s[REMAINDER + 2] == 0
            and s[REMAINDER + 3] == 0
        ):
            continue
        quotient = ZERO
        for b in range(63, -1, -1):
            _double(s, REMAINDER, LIMBS, (word >> b) & 1)
            quotient <<= 1
            if not _less(s, REMAINDER, s, DIVISOR, LIMBS):
                extend(s, B, LIMBS, s, DIVISOR, LIMBS)
                negate(s, B, LIMBS)
                add(s, REMAINDER, s, B, LIMBS)
                quotient |= 1
        a[x] = quotient


@device
def round_off(a, i, drop):
    """Divides a number >= 0 of four limbs by 10^``drop``, rounded half up: by the first digit that is dropped."""
    if drop == 0:
        return
    left = drop - 1
    while left >= _NANO_DIGITS:
        divide_small(a, i, _NANO)
        left -= _NANO_DIGITS
    power = ONE
    for _ in range(left):
        power *= 10
    if power > 1:
        divide_small(a, i, power)
    if divide_small(a, i, 10) >= 5:
        _increase(a, i)


@device
def _increase(a, i):
    """Adds 1 to a number of four limbs."""
    for x in range(i, i + LIMBS):
        a[x] = plus(a[x], 1)
        if a[x] != 0:
            return


@device
def _is_short(low, high):
    """Returns True iff a pair of words says no more than the low one."""
    return high == low >> 63


@device
def _quotient(s):
    """Divides the number at ``s[A]``, not 0, by the one at ``s[B]``, half up, into ``s[RESULT]``."""
    negative = (s[A + LIMBS - 1] ^ s[B + LIMBS - 1]) < 0
    _to_size(s)
    extend(s, RESULT, LIMBS, s, A, LIMBS)
    if s[DIVISOR + 1] == 0 and s[DIVISOR + 2] == 0 and s[DIVISOR + 3] == 0 and 0 < s[DIVISOR] < 1 << 31:
        divisor = s[DIVISOR]
        if 2 * divide_small(s, RESULT, divisor) >= divisor:
            _increase(s, RESULT)
    else:
        _divide(s, RESULT, s)
        _double(s, REMAINDER, LIMBS, 0)
        if not _less(s, REMAINDER, s, DIVISOR, LIMBS):
            _increase(s, RESULT)
    if negative:
        negate(s, RESULT, LIMBS)


@device
def _to_size(s):
    """Makes the number at ``s[A]`` one >= 0, and writes the size of the one at ``s[B]`` to ``s[DIVISOR]``."""
    extend(s, DIVISOR, LIMBS, s, B, LIMBS)
    if s[DIVISOR + LIMBS - 1] < 0:
        negate(s, DIVISOR, LIMBS)
    if s[A + LIMBS - 1] < 0:
        negate(s, A, LIMBS)


@device
def _remainder(s):
    """Writes the remainder of the number at ``s[A]`` by the one at ``s[B]``, with the sign of the first."""
    negative = s[A + LIMBS - 1] < 0
    _to_size(s)
    _divide(s, A, s)
    extend(s, RESULT, LIMBS, s, REMAINDER, LIMBS)
    if negative:
        negate(s, RESULT, LIMBS)


@device
def fits(low, high, bound_low, bound_high):
    """Returns True iff the size of a pair of words is less than the bound, which is > 0."""
    if high < 0:
        low, high = -low, ~high + (low == 0)
    return high < bound_high or (high == bound_high and (low ^ NULL) < (bound_low ^ NULL))


@device
def decimal(s, op, low, high, other_low, other_high, plan, at):
    """Returns ``a op b`` as a pair of words; (0, NULL) if that does not fit, or the divisor is 0.

    ``plan[at ...]``: by what ``a``, and then ``b``, are multiplied first (see ``scale_up``), how many digits of the
    result are dropped, and the bound of its size. KEEP is ``a`` alone.
    """
    drop, bound_low, bound_high = plan[at + 4], plan[at + 5], plan[at + 6]
    if op == MUL and drop == 0 and _is_short(low, high) and _is_short(other_low, other_high):
        low, high = product_of_words(low, other_low)
        if fits(low, high, bound_low, bound_high):
            return low, high
        return ZERO, ZERO + NULL
    if op >= DIV and op != KEEP and other_low == 0 and other_high == 0:
        return ZERO, ZERO + NULL
    s[A], s[A + 1] = low, high
    extend(s, A, LIMBS, s, A, 2)
    scale_up(s, A, plan[at], plan[at + 1])
    if op == KEEP:
        extend(s, RESULT, LIMBS, s, A, LIMBS)
    else:
        s[B], s[B + 1] = other_low, other_high
        extend(s, B, LIMBS, s, B, 2)
        scale_up(s, B, plan[at + 2], plan[at + 3])
        if op == MUL:
            multiply(s, RESULT, s, A, s, B, LIMBS)
        elif op == DIV:
            _quotient(s)
        elif op == MOD:
            _remainder(s)
        else:
            if op == SUB:
                negate(s, B, LIMBS)
            extend(s, RESULT, LIMBS, s, A, LIMBS)
            add(s, RESULT, s, B, LIMBS)
    if drop > 0:
        negative = s[RESULT + LIMBS - 1] < 0
        if negative:
            negate(s, RESULT, LIMBS)
        round_off(s, RESULT, drop)
        if negative:
            negate(s, RESULT, LIMBS)
    low, high = s[RESULT], s[RESULT + 1]
    sign = high >> 63
    if s[RESULT + 2] != sign or s[RESULT + 3] != sign or not fits(low, high, bound_low, bound_high):
        return ZERO, ZERO + NULL
    return low, high
