"""Compares values by their type, since codes are not ordered.

Integers, dates and short decimals are compared by their codes. Doubles are compared by their bits; NaN is the greatest.
Strings and binary values are compared by their bytes, longer decimals as 128-bit numbers. Both are stored in the
dictionary, whose arena is ``values`` and whose bytes are ``octets``, or in their codes.
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.strings import NULL, length_of, value_byte, value_word

BY_WORD, BY_FLOAT, BY_BYTES, BY_DECIMAL = 0, 1, 2, 3


@device
def less(values, octets, order, a, b):
    """Returns True iff value ``a`` sorts before ``b``; neither is NULL."""
    if order == BY_WORD:
        return a < b
    if order == BY_FLOAT:  # the bits of negative doubles descend as the doubles ascend; NaN has the greatest bits
        return (a ^ ((a >> 63) & ~NULL)) < (b ^ ((b >> 63) & ~NULL))
    if order == BY_DECIMAL:
        high, other = value_word(values, a, 1), value_word(values, b, 1)
        if high != other:
            return high < other
        return (value_word(values, a, 0) ^ NULL) < (value_word(values, b, 0) ^ NULL)
    long, short = length_of(values, a), length_of(values, b)
    for i in range(min(long, short)):
        left, right = value_byte(values, octets, a, i), value_byte(values, octets, b, i)
        if left != right:
            return left < right
    return long < short
