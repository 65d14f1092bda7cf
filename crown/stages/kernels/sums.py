"""Exact sums: values of events become integers of several limbs, which are multiplied, weighted and added up.

Numbers lie in rows: ``int64[n, limbs]``, one number per row, or a state of several numbers per row, one after the
other. Near doubles are integers of four limbs, and so is the sum of 2^63 of them; far ones: see ``far``.
"""

from __future__ import annotations

from crown.kernels.fixed import FLOAT_LIMBS, lift_float
from crown.kernels.jit import kernel
from crown.kernels.limbs import (
    add,
    add_multiple,
    extend,
    high_product,
    minus,
    multiply,
    multiply_word,
    negate,
    sum_of_pairs,
    times,
)
from crown.kernels.pointers import words


@kernel("words, table, flags")
def lift_floats(codes, out, far):
    """Writes near doubles (``codes`` int64[n], their bits) as integers (``out`` int64[n, 4]); others as 0.

    ``far`` (bool[n]) says which are far, if some are. Returns how many.
    """
    n = codes.size
    codes, out = words(codes), words(out)
    found = 0
    for i in range(n):
        if lift_float(codes[i], out, FLOAT_LIMBS * i):
            if found == 0:
                far[:] = False
            far[i] = True
            found += 1
    return found


@kernel("const table, int, const table, int, words, table")
def products(left, m, right, k, scratch, out):
    """Multiplies: ``out`` (int64[n, m + k]) := products of numbers of ``m`` limbs and of ``k`` limbs, row by row."""
    limbs = m + k
    n = out.size // limbs
    left, right, scratch, out = words(left), words(right), words(scratch), words(out)
    for i in range(n):
        extend(scratch, 0, limbs, left, i * m, m)
        extend(scratch, limbs, limbs, right, i * k, k)
        multiply(out, i * limbs, scratch, 0, scratch, limbs, limbs)


@kernel("words, words, table, int, int")
def count(where, weights, state, width, at):
    """Adds the weights of events to word ``at`` of the states (``state`` int64[groups, width]) of their groups."""
    n = weights.size
    where, weights, state = words(where), words(weights), words(state)
    for i in range(n):
        state[where[i] * width + at] += weights[i]


@kernel("words, words, const table, int, words, table, int, int, int")
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


@kernel("words, words | table, int, words, words, table, int")
def carry_over(where, payload, sign, recipe, scratch, state, width):
    """Adds ``sign`` times the sums that events carry (``payload`` int64[words, n]) to the states of their groups.

    ``recipe``: how many numbers; of each its word in the state, its limbs, how many parts it is the sum of; of each
    part the first word and the limbs in the payload, then the limbs of a coefficient and that itself, or where it is in
    ``recipe`` if it has several; limbs 0 stand for a coefficient of 1; last the word that says that this is a slice of
    a far part (``loans``), or -1. ``scratch`` int64[3 * limbs]. Slices are not added. Returns how many there were.
    """
    n = where.size
    where, payload, recipe, scratch, state = words(where), words(payload), words(recipe), words(scratch), words(state)
    slices = 0
    for i in range(n):
        base = where[i] * width
        r = 1
        for _ in range(recipe[0]):
            at, limbs, parts = base + recipe[r], recipe[r + 1], recipe[r + 2]
            r += 3
            for _ in range(parts):
                word, m, c, slice_word = recipe[r], recipe[r + 1], recipe[r + 2], recipe[r + 4]
                if limbs == 1 and c == 0:
                    state[at] += sign * payload[word * n + i]
                    r += 5
                    continue
                if slice_word >= 0 and payload[slice_word * n + i] != 0:
                    slices += 1
                    r += 5
                    continue
                for x in range(min(m, limbs)):
                    scratch[x] = payload[(word + x) * n + i]
                for x in range(m, limbs):
                    scratch[x] = scratch[m - 1] >> 63
                if c == 1:
                    multiply_word(scratch, 0, limbs, recipe[r + 3])
                elif c > 1:
                    extend(scratch, limbs, limbs, recipe, recipe[r + 3], c)
                    multiply(scratch, 2 * limbs, scratch, 0, scratch, limbs, limbs)
                    extend(scratch, 0, limbs, scratch, 2 * limbs, limbs)
                if sign < 0:
                    negate(scratch, 0, limbs)
                add(state, at, scratch, 0, limbs)
                r += 5
    return slices


@kernel("table, table, int, words")
def add_states(rows, deltas, width, places):
    """Adds: ``rows += deltas``, both int64[groups, width]; ``places`` int64[2 * numbers] has word and limbs of each."""
    n = rows.size
    numbers = places.size
    rows, deltas, places = words(rows), words(deltas), words(places)
    for base in range(0, n, width):
        for p in range(0, numbers, 2):
            add(rows, base + places[p], deltas, base + places[p], places[p + 1])


@kernel("table, table, int")
def subtract(left, right, limbs):
    """Subtracts: ``left -= right``, both int64[n, limbs]; ``right`` is negated on the way."""
    n = left.size
    left, right = words(left), words(right)
    for i in range(0, n, limbs):
        negate(right, i, limbs)
        add(left, i, right, i, limbs)
