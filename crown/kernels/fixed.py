"""Doubles in fixed point: integers of four limbs in units of 2^-112, so that they are summed exactly."""

from __future__ import annotations

from crown.kernels.jit import device
from crown.kernels.limbs import clear, negate

FLOAT_BITS = 112  # the unit of fixed point is 2^-112
FLOAT_LIMBS = 4
FLOAT_TOP = 80  # values from 2^80 on are refused
_BIAS = 1075  # a double is mantissa * 2^(exponent - _BIAS)
_NOT_FINITE = 2047
_MANTISSA = (1 << 52) - 1


@device
def lift_float(code, out, at):
    """Writes a double (``code``, its bits) as a fixed point number at ``out[at]``; NaN, Inf and what is too large as 0.

    Halves of a unit round to even. True iff it is too large.
    """
    clear(out, at, FLOAT_LIMBS)
    exponent = (code >> 52) & 2047
    mantissa = code & _MANTISSA
    if exponent == _NOT_FINITE:
        return False
    if exponent >= FLOAT_TOP + 1023:
        return True
    if exponent == 0:
        exponent = 1
    else:
        mantissa |= _MANTISSA + 1
    shift = exponent - _BIAS + FLOAT_BITS
    if shift >= 0:
        limb, bits = shift >> 6, shift & 63
        out[at + limb] = mantissa << bits
        if bits > 11:
            out[at + limb + 1] = mantissa >> (64 - bits)
    elif shift > -55:
        kept = mantissa >> -shift
        rest = mantissa & ((1 << -shift) - 1)
        half = 1 << (-shift - 1)
        if rest > half or (rest == half and kept & 1 == 1):
            kept += 1
        out[at] = kept
    if code < 0:
        negate(out, at, FLOAT_LIMBS)
    return False
