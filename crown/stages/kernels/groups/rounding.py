"""Converts exact integers to SQL values: words, decimals, and doubles that are rounded once, to nearest even."""

from __future__ import annotations

import math

from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import ZERO
from crown.kernels.memory.pointers import words
from crown.kernels.memory.tables import LOW32
from crown.kernels.numbers.limbs import add, extend, is_zero, negate
from crown.kernels.strings import NULL

_SHORT = 1 << 31
_EXACT = 1 << 53  # integers up to this are exact doubles
_TOP = 61  # the quotient below has this many bits after its first
_LEAST = -1074  # 2^-1074 is the least double > 0
_LARGE = 900  # 63 bits times 2^900 are in the range of doubles
_QUARTER = 2.0**1022  # of the least number that is too large for a double


@kernel("table, int, words")
def narrow(rows, limbs, out):
    """Writes numbers of ``limbs`` limbs as words. Returns the position of one that is not an int64, or -1.

    -2^63 does not count as an int64: it is the code of NULL.
    """
    n = out.size
    rows, out = words(rows), words(out)
    refused = -1
    for i in range(n):
        out[i] = rows[i * limbs]
        if not is_word(rows, i * limbs, limbs):
            refused = i
    return refused


@device
def is_word(a, i, n):
    """Returns True iff a number of ``n`` limbs is an int64 other than the code of NULL."""
    sign = a[i] >> 63
    for x in range(i + 1, i + n):
        if a[x] != sign:
            return False
    return a[i] != NULL


@kernel("table, int, words, table")
def pairs(rows, limbs, bounds, out):
    """Writes numbers of ``limbs`` limbs as 128-bit decimals (``out`` int64[n, 2]).

    ``bounds``: two limbs of a bound and two of its negative. Returns the position of a number that is not between them,
    or -1.
    """
    n = out.size // 2
    rows, bounds, out = words(rows), words(bounds), words(out)
    refused = -1
    for i in range(n):
        low = rows[i * limbs]
        high = rows[i * limbs + 1] if limbs > 1 else low >> 63
        out[2 * i], out[2 * i + 1] = low, high
        for j in range(2, limbs):
            if rows[i * limbs + j] != high >> 63:
                refused = i
        if high > bounds[1] or (high == bounds[1] and _reaches(low, bounds[0])):
            refused = i
        if high < bounds[3] or (high == bounds[3] and _reaches(bounds[2], low)):
            refused = i
    return refused


@device
def _reaches(word, bound):
    """Returns True iff word >= bound, both read as unsigned."""
    return (word ^ NULL) >= (bound ^ NULL)


@device
def _length(a, i, n):
    """Returns the number of bits of a number >= 0 of ``n`` limbs; 0 for 0."""
    for x in range(n - 1, -1, -1):
        word = a[i + x]
        if word != 0:
            bits = 0
            for step in (32, 16, 8, 4, 2, 1):
                if (word >> step) & ((1 << (64 - step)) - 1) != 0:
                    word = (word >> step) & ((1 << (64 - step)) - 1)
                    bits += step
            return 64 * x + bits + 1
    return 0


@device
def _shift_left(a, i, n, bits):
    """Shifts ``a`` of ``n`` limbs left by ``bits``, in place."""
    limb, rest = bits >> 6, bits & 63
    for x in range(n - 1, -1, -1):
        word = 0
        if x >= limb:
            word = a[i + x - limb] << rest
            if rest > 0 and x > limb:
                word |= (a[i + x - limb - 1] >> (64 - rest)) & ((1 << rest) - 1)
        a[i + x] = word


@device
def _at_least(a, i, b, j, n):
    """Returns True iff a >= b, both >= 0 and of ``n`` limbs."""
    for x in range(n - 1, -1, -1):
        if a[i + x] != b[j + x]:
            return _reaches(a[i + x], b[j + x])
    return True


@device
def _quotient(scratch, limbs):
    """Returns the first 62 or 63 bits of a quotient of positive numbers, with the last bit set if more follow, and its
    exponent.

    ``scratch``: the numerator, the denominator, and room for one more number, each of ``limbs`` limbs whose top two
    bits are free. All three are overwritten.
    """
    numerator, denominator, minus = 0, limbs, 2 * limbs
    long, short = _length(scratch, numerator, limbs), _length(scratch, denominator, limbs)
    if long > short:
        _shift_left(scratch, denominator, limbs, long - short)
    else:
        _shift_left(scratch, numerator, limbs, short - long)
    extend(scratch, minus, limbs, scratch, denominator, limbs)
    negate(scratch, minus, limbs)
    quotient = 0
    for _ in range(_TOP + 2):
        quotient <<= 1
        if _at_least(scratch, numerator, scratch, denominator, limbs):
            add(scratch, numerator, scratch, minus, limbs)
            quotient |= 1
        _shift_left(scratch, numerator, limbs, 1)
    if not is_zero(scratch, numerator, limbs):
        quotient |= 1
    return quotient, long - short - _TOP - 1


@device
def _word_from(a, i, n, bit):
    """Returns 64 bits of a number of ``n`` limbs, from bit ``bit``; bits after its last are 0."""
    limb, rest = bit >> 6, bit & 63
    word = ZERO
    if limb < n:
        word = a[i + limb]
        if rest > 0:
            word = (word >> rest) & ((1 << (64 - rest)) - 1)
            if limb + 1 < n:
                word |= a[i + limb + 1] << (64 - rest)
    return word


@device
def _has_bits_below(a, i, bit):
    """Returns True iff a number has a set bit below bit ``bit``."""
    limb, rest = bit >> 6, bit & 63
    for x in range(limb):
        if a[i + x] != 0:
            return True
    return rest > 0 and a[i + limb] << (64 - rest) != 0


@device
def _quotient_by_word(scratch, limbs, divisor):
    """Returns the result of ``_quotient`` for the positive number at ``scratch[0]``, which is overwritten, and a
    divisor from 1 to 2^31 - 1."""
    size = ZERO
    while divisor >> size != 0:
        size += 1
    exponent = _length(scratch, 0, limbs) - _TOP - 1 - size  # the quotient of the bits from there on has 62 or 63 bits
    if exponent < 0:
        _shift_left(scratch, 0, limbs, -exponent)
    start = max(exponent, 0)
    low, rest = _word_from(scratch, 0, limbs, start), _word_from(scratch, 0, limbs, start + 64)  # rest < divisor
    upper = (rest << 32) | ((low >> 32) & LOW32)
    first = upper // divisor
    lower = ((upper - first * divisor) << 32) | (low & LOW32)
    second = lower // divisor
    quotient = (first << 32) | second
    if lower != second * divisor or _has_bits_below(scratch, 0, start):
        quotient |= 1
    return quotient, exponent


@device
def _rounded(quotient, exponent):
    """Returns quotient * 2^exponent, rounded once.

    ``quotient``: 0, or a number of 62 or 63 bits, with the last bit set if more bits follow.
    """
    lost = _LEAST - exponent  # bits below the last one of any double
    if quotient == 0 or lost > 63:
        return 0.0
    if lost >= 10:
        kept, rest, half = quotient >> lost, quotient & ((1 << lost) - 1), 1 << (lost - 1)
        if rest > half or (rest == half and kept & 1 == 1):
            kept += 1
        return math.ldexp(float(kept), _LEAST)
    value = float(quotient)
    if exponent > _LARGE and (exponent > 962 or math.ldexp(value, int(exponent) - 2) >= _QUARTER):
        return math.inf
    return math.ldexp(value, int(exponent))


@kernel("table, int, table, int, int, words, floats")
def ratios(rows, m, divisors, k, shift, scratch, out):
    """Writes the quotients of two integers, times 2^-shift, rounded once, to ``out`` (float64[n]).

    ``rows`` int64[n, m]. ``divisors`` int64[n, k]; unless one is positive, the quotient is NaN. ``scratch`` int64[3 *
    (max(m, k) + 1)].
    """
    n = out.size
    limbs = max(m, k) + 1
    rows, divisors, scratch, out = words(rows), words(divisors), words(scratch), words(out)
    for i in range(n):
        extend(scratch, 0, limbs, rows, i * m, m)
        extend(scratch, limbs, limbs, divisors, i * k, k)
        out[i] = ratio(scratch, limbs, shift)


@device
def ratio(scratch, limbs, shift):
    """Returns the quotient of the two integers at the beginning of ``scratch``, times 2^-shift, rounded once; NaN
    unless the second is positive.

    Each has ``limbs`` limbs, of which the last is spare, and is followed by room for one more number.
    """
    if scratch[2 * limbs - 1] < 0 or is_zero(scratch, limbs, limbs):
        return math.nan
    top, bottom = scratch[0], scratch[limbs]
    small = _small(scratch, limbs, limbs)
    if small and -_LARGE <= shift <= _LARGE and _small(scratch, 0, limbs):
        return math.ldexp(top / bottom, -shift)  # two exact doubles: the division rounds once
    sign = scratch[limbs - 1] >> 63
    if sign < 0:
        negate(scratch, 0, limbs)
    quotient, exponent = 0, 0
    if not is_zero(scratch, 0, limbs):
        if small and bottom < _SHORT:
            quotient, exponent = _quotient_by_word(scratch, limbs, bottom)
        else:
            quotient, exponent = _quotient(scratch, limbs)
    value = _rounded(quotient, exponent - shift)
    return -value if sign < 0 else value


@device
def _small(a, i, n):
    """Returns True iff a number of ``n`` limbs is at most 2^53 in absolute value, so that its lowest limb is its
    value."""
    low = a[i]
    for x in range(1, n):
        if a[i + x] != low >> 63:
            return False
    return -_EXACT <= low <= _EXACT
