"""Doubles in fixed point, so that their sums are exact over their whole range.

A double is *near* if all its bits are between 2^-112 and 2^80: it is then an integer of four limbs, in units of 2^-112.
A finite double that is not near is *far*. In units of 2^-1136, every finite double is an integer of 35 limbs.

A sum of products of ``k`` doubles is the total of two parts. The *near part* is in units of 2^-112k. The *far part* has
31 more limbs per double, in units of 2^-1136k: the near part is 16k limbs above it. A product is added to the far part
if one of its factors is far. Most sums never have a far part, see ``far``.
"""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.numbers.limbs import clear, extend, negate

FLOAT_BITS = 112  # the unit of a near double is 2^-112
FLOAT_LIMBS = 4
FLOAT_TOP = 80  # values of at least 2^80 are far
FAR_LIMBS = 31  # limbs per double that a far part has beyond its near part
FAR_SHIFT = 16  # limbs per double between the units of a near part and its far part
_BIAS = 1075  # a double is mantissa * 2^(exponent - _BIAS)
_NOT_FINITE = 2047
_MANTISSA = (1 << 52) - 1


@device
def lift_float(code, out, at):
    """Writes a near double (``code``, its bits) to the four limbs at ``out[at]``; NaN, Inf and a far double as 0.

    Returns True iff the double is far.
    """
    clear(out, at, FLOAT_LIMBS)
    exponent = (code >> 52) & 2047
    mantissa = code & _MANTISSA
    if exponent == _NOT_FINITE:
        return False
    if exponent >= FLOAT_TOP + 1023:
        return True
    if exponent == 0:
        return mantissa != 0
    mantissa |= _MANTISSA + 1
    shift = exponent - _BIAS + FLOAT_BITS
    if shift >= 0:
        limb, bits = shift >> 6, shift & 63
        out[at + limb] = mantissa << bits
        if bits > 11:
            out[at + limb + 1] = mantissa >> (64 - bits)
    else:
        if shift < -52 or mantissa & ((1 << -shift) - 1) != 0:
            return True
        out[at] = mantissa >> -shift
    if code < 0:
        negate(out, at, FLOAT_LIMBS)
    return False


@device
def lift_far(code, out, at, n):
    """Writes a double, near or far, to ``n`` >= 35 limbs at ``out[at]``, in units of 2^-1136; NaN and Inf as 0."""
    clear(out, at, n)
    exponent = (code >> 52) & 2047
    mantissa = code & _MANTISSA
    if exponent == _NOT_FINITE:
        return
    if exponent == 0:
        exponent = 1
    else:
        mantissa |= _MANTISSA + 1
    shift = exponent - _BIAS + FLOAT_BITS + 64 * FAR_SHIFT
    limb, bits = shift >> 6, shift & 63
    out[at + limb] = mantissa << bits
    if bits > 11:
        out[at + limb + 1] = mantissa >> (64 - bits)
    if code < 0:
        negate(out, at, n)


@device
def widen(out, o, n, near, i, limbs, doubles):
    """Writes a near part of ``limbs`` limbs as a far part of ``n`` limbs. The two MUST NOT overlap."""
    shift = FAR_SHIFT * doubles
    clear(out, o, shift)
    extend(out, o + shift, n - shift, near, i, limbs)
