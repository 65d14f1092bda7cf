"""How values are ordered: codes are not, so they are compared by type.

Whole numbers, dates and short decimals are their codes. Doubles are compared by their bits, NaN is the greatest.
Strings and binary values are compared by their bytes, longer decimals as numbers of 128 bits: both lie in the
dictionary, whose arena is ``values`` and whose bytes are ``octets``.
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.strings import LENGTH, NULL

BY_WORD, BY_FLOAT, BY_BYTES, BY_DECIMAL = 0, 1, 2, 3


@device
def less(values, octets, order, a, b):
    """Returns True iff value ``a`` sorts before ``b``; neither is NULL."""
    if order == BY_WORD:
        return a < b
    if order == BY_FLOAT:  # the bits of negative doubles fall as the doubles rise; NaN has the greatest bits
        return (a ^ ((a >> 63) & ~NULL)) < (b ^ ((b >> 63) & ~NULL))
    if order == BY_DECIMAL:
        if values[a + 2] != values[b + 2]:
            return values[a + 2] < values[b + 2]
        return (values[a + 1] ^ NULL) < (values[b + 1] ^ NULL)
    long, short = values[a] & LENGTH, values[b] & LENGTH
    for i in range(min(long, short)):
        left, right = octets[8 * (a + 1) + i], octets[8 * (b + 1) + i]
        if left != right:
            return left < right
    return long < short
