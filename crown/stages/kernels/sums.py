"""Exact sums: values of events become integers of several limbs, which are multiplied, weighted and added up.

Numbers lie in rows: ``int64[n, limbs]``, one number per row, or a state of several numbers per row, one after the
other. Floats are fixed point, in units of 2^-112: a value below 2^80 takes four limbs, and so does the sum of 2^63.
"""

from __future__ import annotations

from crown.kernels.jit import kernel
from crown.kernels.limbs import (
    add,
    add_multiple,
    clear,
    extend,
    high_product,
    minus,
    multiply,
    negate,
    sum_of_pairs,
    times,
)
from crown.kernels.pointers import words

FLOAT_BITS = 112  # the unit of fixed point is 2^-112
FLOAT_LIMBS = 4
FLOAT_TOP = 80  # values from 2^80 on are refused
_BIAS = 1075  # a double is mantissa * 2^(exponent - _BIAS)
_NOT_FINITE = 2047
_MANTISSA = (1 << 52) - 1


@kernel
def lift_floats(codes, out):
    """Writes doubles (``codes`` int64[n], their bits) as fixed point numbers (``out`` int64[n, 4]); NaN and Inf as 0.

    Halves of a unit round to even. Returns the position of a value too large, else -1.
    """
    n = codes.size
    codes, out = words(codes), words(out)
    refused = -1
    for i in range(n):
        at = FLOAT_LIMBS * i
        clear(out, at, FLOAT_LIMBS)
        exponent = (codes[i] >> 52) & 2047
        mantissa = codes[i] & _MANTISSA
        if exponent == _NOT_FINITE:
            continue
        if exponent >= FLOAT_TOP + 1023:
            refused = i
            continue
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
        if codes[i] < 0:
            negate(out, at, FLOAT_LIMBS)
    return refused


@kernel
def products(left, m, right, k, scratch, out):
    """Multiplies: ``out`` (int64[n, m + k]) := products of numbers of ``m`` limbs and of ``k`` limbs, row by row."""
    limbs = m + k
    n = out.size // limbs
    left, right, scratch, out = words(left), words(right), words(scratch), words(out)
    for i in range(n):
        extend(scratch, 0, limbs, left, i * m, m)
        extend(scratch, limbs, limbs, right, i * k, k)
        multiply(out, i * limbs, scratch, 0, scratch, limbs, limbs)


@kernel
def count(where, weights, state, width, at):
    """Adds the weights of events to word ``at`` of the states (``state`` int64[groups, width]) of their groups."""
    n = weights.size
    where, weights, state = words(where), words(weights), words(state)
    for i in range(n):
        state[where[i] * width + at] += weights[i]


@kernel
def accumulate(where, weights, values, m, scratch, state, width, at, limbs):
    """Adds weight times value to the numbers of ``limbs`` limbs at word ``at`` of the states of the events' groups.

    ``values`` int64[n, m], with m <= limbs; ``scratch`` int64[limbs].
    """
    n = weights.size
    where, weights, values, state, scratch = (
        words(where),
        words(weights),
        words(values),
        words(state),
        words(scratch),
    )
    for i in range(n):
        weight = weights[i]
        place = where[i] * width + at
        if weight == 0:
            continue
        if m == 1 and limbs == 2:
            value = values[i]
            low, high = times(value, weight), high_product(value, weight)
            high = minus(minus(high, (value >> 63) & weight), (weight >> 63) & value)
            state[place], state[place + 1] = sum_of_pairs(state[place], state[place + 1], low, high)
        else:
            extend(scratch, 0, limbs, values, i * m, m)
            add_multiple(state, place, scratch, 0, limbs, weight)


@kernel
def add_states(rows, deltas, width, places):
    """Adds: ``rows += deltas``, both int64[groups, width]; ``places`` int64[2 * numbers] has word and limbs of each."""
    n = rows.size
    numbers = places.size
    rows, deltas, places = words(rows), words(deltas), words(places)
    for base in range(0, n, width):
        for p in range(0, numbers, 2):
            add(rows, base + places[p], deltas, base + places[p], places[p + 1])


@kernel
def subtract(left, right, limbs):
    """Subtracts: ``left -= right``, both int64[n, limbs]; ``right`` is negated on the way."""
    n = left.size
    left, right = words(left), words(right)
    for i in range(0, n, limbs):
        negate(right, i, limbs)
        add(left, i, right, i, limbs)
