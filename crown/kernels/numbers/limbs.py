"""Integers of ``n`` 64-bit words (*limbs*), little endian, in two's complement: arithmetic modulo 2^(64 n).

A number is given as an array or pointer of int64 words and the index of its lowest word. The numbers form an exact
ring: additions can be undone in any order. No function reports overflow, except those on single words that are called
*checked*.

The loops work for any ``n``. For 1 and 2 limbs there are functions on values, which stay in registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crown.kernels.jit import device, instruction

WORD_BITS = 64
MOST = 2**63 - 1
"""The largest word, which stands for all numbers above it in bounded products."""


def _python_high_product(a, b):
    """Computes the high product when kernels run as plain Python (NUMBA_DISABLE_JIT)."""
    mask = (1 << WORD_BITS) - 1
    high = (int(a) & mask) * (int(b) & mask) >> WORD_BITS
    return high - (high >> WORD_BITS - 1 << WORD_BITS)


high_product: Any = instruction(_python_high_product, "high_product")
plus: Any = instruction(lambda a, b: np.int64(a) + np.int64(b), "plus")
minus: Any = instruction(lambda a, b: np.int64(a) - np.int64(b), "minus")
times: Any = instruction(lambda a, b: np.int64(a) * np.int64(b), "times")


# Single words
# ----------------------------------------------------------------------------------------------------------------------


@device
def carry(a, b, total):
    """Returns the carry, 0 or 1, of the unsigned sum ``total`` of two words."""
    return (((a & b) | ((a | b) & ~total)) >> 63) & 1


@device
def sum_leaves(a, b):
    """Returns True iff a + b does not fit a signed word."""
    total = plus(a, b)
    return ((a ^ total) & (b ^ total)) < 0


@device
def product_of_words(a, b):
    """Returns (low, high) of the product of two signed words, which fits two."""
    high = high_product(a, b)
    if a < 0:
        high = minus(high, b)
    if b < 0:
        high = minus(high, a)
    return times(a, b), high


@device
def product_leaves(a, b):
    """Returns True iff a * b does not fit a signed word."""
    low, high = product_of_words(a, b)
    return high != low >> 63


@device
def bounded_product(a, b):
    """Returns the product of two words, or ``MOST`` or ``-MOST`` if it leaves a word. If several words are multiplied,
    none of which is 0, their order does not matter."""
    if product_leaves(a, b):
        return MOST if (a < 0) == (b < 0) else -MOST
    return a * b


# Two limbs, as values
# ----------------------------------------------------------------------------------------------------------------------


@device
def sum_of_pairs(low, high, other_low, other_high):
    """Returns (low, high) of the sum of two numbers of two limbs."""
    total = plus(low, other_low)
    return total, plus(plus(high, other_high), carry(low, other_low, total))


@device
def product_of_pairs(low, high, other_low, other_high):
    """Returns (low, high) of the product of two numbers of two limbs."""
    crossed = plus(times(low, other_high), times(high, other_low))
    return times(low, other_low), plus(high_product(low, other_low), crossed)


# Any number of limbs
# ----------------------------------------------------------------------------------------------------------------------


@device
def is_zero(a, i, n):
    """Returns True iff the ``n`` words from ``a[i]`` are all 0."""
    bits = 0
    for x in range(i, i + n):
        bits |= a[x]
    return bits == 0


@device
def clear(a, i, n):
    """Sets ``n`` words to 0."""
    for x in range(i, i + n):
        a[x] = 0


@device
def extend(out, o, n, a, i, m):
    """Writes the number of ``m`` limbs at ``a[i]`` with ``n`` limbs: sign-extended if ``n`` is larger, otherwise modulo
    2^(64 n).

    The two MUST NOT overlap, unless they begin at the same word.
    """
    for x in range(min(n, m)):
        out[o + x] = a[i + x]
    sign = a[i + m - 1] >> 63
    for x in range(m, n):
        out[o + x] = sign


@device
def add(out, o, a, i, n):
    """Adds ``a`` to ``out``, both of ``n`` limbs."""
    over = 0
    for x in range(n):
        left, right = out[o + x], a[i + x]
        part = plus(left, right)
        total = plus(part, over)
        over = carry(left, right, part) + carry(part, over, total)
        out[o + x] = total


@device
def is_word(a, i, n):
    """Returns True if ``a`` of ``n`` limbs is the number in its first limb."""
    sign, same = a[i] >> 63, True
    for x in range(i + 1, i + n):
        same &= a[x] == sign
    return same


@device
def negate(a, i, n):
    """Negates ``a`` of ``n`` limbs in place."""
    over = 1
    for x in range(i, i + n):
        flipped = ~a[x]
        total = plus(flipped, over)
        over = carry(flipped, over, total)
        a[x] = total


@device
def _add_multiple(out, o, a, i, n, word):
    """Adds ``a * word`` to ``out`` modulo 2^(64 n), both of ``n`` limbs. ``word`` is read as unsigned."""
    over = 0
    for x in range(n):
        low = times(a[i + x], word)
        before = out[o + x]
        part = plus(low, before)
        total = plus(part, over)
        over = plus(high_product(a[i + x], word), carry(low, before, part) + carry(part, over, total))
        out[o + x] = total


@device
def add_multiple(out, o, a, i, n, factor):
    """Adds ``a * factor`` to ``out`` modulo 2^(64 n). Both have ``n`` limbs and do not overlap; ``factor`` is a signed
    word."""
    if factor < 0:  # out - a * |factor| = -(-out + a * |factor|)
        negate(out, o, n)
        _add_multiple(out, o, a, i, n, minus(0, factor))
        negate(out, o, n)
    else:
        _add_multiple(out, o, a, i, n, factor)


@device
def multiply_word(a, i, n, factor):
    """Multiplies ``a`` of ``n`` limbs by a signed word, in place, modulo 2^(64 n)."""
    word = factor
    if factor < 0:
        word = minus(0, factor)
    over = 0
    for x in range(i, i + n):
        low = times(a[x], word)
        total = plus(low, over)
        over = plus(high_product(a[x], word), carry(low, over, total))
        a[x] = total
    if factor < 0:
        negate(a, i, n)


@device
def multiply(out, o, a, i, b, j, n):
    """Writes ``a * b`` modulo 2^(64 n) to ``out``, all of ``n`` limbs. ``out`` MUST NOT overlap the others. O(n^2)."""
    clear(out, o, n)
    for x in range(n):
        if a[i + x] != 0:
            _add_multiple(out, o + x, b, j, n - x, a[i + x])
