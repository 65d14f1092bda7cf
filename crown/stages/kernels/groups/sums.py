"""Exact sums: values of events are converted to integers of several limbs, multiplied, weighted and summed.

Numbers are in rows: ``int64[n, limbs]``, one number per row, or a state of several numbers per row, one after the
other. Near doubles are integers of four limbs, which also suffice for the sum of 2^63 of them. For far doubles see
``far``.
"""

from __future__ import annotations

from crown.expressions.kernels.evaluate import PAIRS
from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import ZERO
from crown.kernels.memory.pointers import constants, words
from crown.kernels.numbers.fixed import FLOAT_LIMBS, lift_float
from crown.kernels.numbers.limbs import (
    add,
    add_multiple,
    extend,
    multiply,
    multiply_word,
    negate,
    product_of_words,
    sum_of_pairs,
)
from crown.kernels.strings import NULL, value_word

_INFINITY = 2047 << 52
_MANTISSA = (1 << 52) - 1
# Words of a term.
(
    T_FIRST,  # its first word in a state
    T_LIMBS,  # limbs of its sum
    T_CONDITION,  # input that must be TRUE, or -1
    T_NEEDED,  # number of inputs that must not be NULL
    T_FACTORS,  # number of factors
    T_INFINITY,  # sign of the infinities that are counted, or 0
    T_INFINITY_INPUT,  # input that has them
    TERM_HEAD,
) = range(8)
# Kinds of inputs.
WHOLE, DOUBLE, WIDE = 0, 1, 2


@kernel("words, table, flags")
def lift_floats(codes, out, far):
    """Writes near doubles (``codes`` int64[n], their bits) as integers (``out`` int64[n, 4]); others as 0.

    ``far`` (bool[n]) is written only if some double is far. Returns the number of far doubles.
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


@device
def _multiply_by(scratch, limbs, a, i, m):
    """Multiplies the number of ``limbs`` limbs at the beginning of ``scratch`` by the number of ``m`` limbs at
    ``a[i]``, in place. ``scratch`` has room for two more numbers."""
    extend(scratch, limbs, limbs, a, i, m)
    multiply(scratch, 2 * limbs, scratch, 0, scratch, limbs, limbs)
    extend(scratch, 0, limbs, scratch, 2 * limbs, limbs)


@kernel("const table, int, const table, int, words, table")
def products(left, m, right, k, scratch, out):
    """Writes the products of numbers of ``m`` limbs and of ``k`` limbs, row by row, to ``out`` (int64[n, m + k])."""
    limbs = m + k
    n = out.size // limbs
    left, right, scratch, out = words(left), words(right), words(scratch), words(out)
    for i in range(n):
        extend(scratch, 0, limbs, left, i * m, m)
        extend(scratch, limbs, limbs, right, i * k, k)
        multiply(out, i * limbs, scratch, 0, scratch, limbs, limbs)


@kernel("words, words, const table, int, words, table, int, int, int")
def accumulate(where, weights, values, m, scratch, state, width, at, limbs):
    """Adds weight times value to the numbers of ``limbs`` limbs at word ``at`` of the states of the events' groups.

    ``values`` int64[n, m], with m <= limbs. ``scratch`` int64[limbs].
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
            low, high = product_of_words(value, weight)
            state[place], state[place + 1] = sum_of_pairs(state[place], state[place + 1], low, high)
        else:
            extend(scratch, 0, limbs, values, i * m, m)
            add_multiple(state, place, scratch, 0, limbs, weight)


@device
def _is_null(inputs, forms, pairs, column, i):
    """Returns True iff an input is NULL in a row."""
    if forms[2 * column] == PAIRS:
        return pairs[forms[2 * column + 1] + 2 * i + 1] == NULL
    return inputs[forms[2 * column + 1] + i] == NULL


@device
def _is_beyond(code, side):
    """Returns True iff a double (its bits) is NaN or the infinity of sign ``side``."""
    if code & _INFINITY != _INFINITY:
        return False
    return code & _MANTISSA != 0 or (code < 0) == (side < 0)


@device
def _counted(inputs, forms, pairs, weights, recipe, r, i):
    """Returns the weight of row ``i`` for the term at ``recipe[r]``; 0 if the term does not count it."""
    if recipe[r + T_CONDITION] >= 0 and inputs[forms[2 * recipe[r + T_CONDITION] + 1] + i] != 1:
        return ZERO
    for x in range(r + TERM_HEAD, r + TERM_HEAD + recipe[r + T_NEEDED]):
        if _is_null(inputs, forms, pairs, recipe[x], i):
            return ZERO
    if recipe[r + T_INFINITY] != 0 and not _is_beyond(
        inputs[forms[2 * recipe[r + T_INFINITY_INPUT] + 1] + i], recipe[r + T_INFINITY]
    ):
        return ZERO
    return weights[i]


@device
def _load(dictionary, inputs, forms, pairs, column, kind, i, out, at):
    """Writes a factor as an integer to ``out[at ...]``. Returns its limbs, and 1 if it is a far double, which is
    written as 0, else 0."""
    first = forms[2 * column + 1]
    if forms[2 * column] == PAIRS:
        out[at], out[at + 1] = pairs[first + 2 * i], pairs[first + 2 * i + 1]
        return 2, ZERO
    code = inputs[first + i]
    if kind == DOUBLE:
        return FLOAT_LIMBS, ZERO + lift_float(code, out, at)
    if kind == WHOLE:
        out[at] = code
        return 1, ZERO
    out[at], out[at + 1] = value_word(dictionary, code, 0), value_word(dictionary, code, 1)
    return 2, ZERO


@device
def _add_term(dictionary, where, weights, n, inputs, forms, pairs, recipe, r, scratch, state, first_word, width):
    """Adds ``n`` rows to the term at ``recipe[r]`` of states that begin at word ``first_word``. Returns the number of
    far doubles."""
    at, limbs, needs, factors = recipe[r + T_FIRST], recipe[r + T_LIMBS], recipe[r + T_NEEDED], recipe[r + T_FACTORS]
    at += first_word
    first = r + TERM_HEAD + needs
    far = ZERO
    if factors == 0:
        for i in range(n):
            state[where[i] * width + at] += _counted(inputs, forms, pairs, weights, recipe, r, i)
        return far
    if factors == 1 and limbs == 2 and recipe[first + 1] == WHOLE:
        column = forms[2 * recipe[first] + 1]
        for i in range(n):
            weight = _counted(inputs, forms, pairs, weights, recipe, r, i)
            if weight != 0:
                value, place = inputs[column + i], where[i] * width + at
                low, high = product_of_words(value, weight)
                state[place], state[place + 1] = sum_of_pairs(state[place], state[place + 1], low, high)
        return far
    for i in range(n):
        weight = _counted(inputs, forms, pairs, weights, recipe, r, i)
        if weight == 0:
            continue
        for f in range(first, first + 2 * factors, 2):
            m, beyond = _load(dictionary, inputs, forms, pairs, recipe[f], recipe[f + 1], i, scratch, limbs)
            far += beyond
            if f == first:
                extend(scratch, 0, limbs, scratch, limbs, m)
            elif m == 1:
                multiply_word(scratch, 0, limbs, scratch[limbs])
            else:
                _multiply_by(scratch, limbs, scratch, limbs, m)
        add_multiple(state, where[i] * width + at, scratch, 0, limbs, weight)
    return far


@kernel("words, words, words, table, words, words, const words, words, table")
def add_terms(dictionary, where, weights, inputs, forms, pairs, recipe, scratch, state):
    """Adds rows, times their weights, to the sums of their groups (``where`` int64[n]).

    ``dictionary``: holds wide decimals. ``inputs``, ``forms``, ``pairs``: the columns, see
    ``crown.expressions.kernels.evaluate``. ``recipe``: the number of sums; for each the words ``T_...``, then the
    inputs that must not be NULL, then its factors: the input, and ``WHOLE``, ``DOUBLE`` or ``WIDE``. ``scratch``: room
    for three numbers, and four limbs. ``state`` int64[groups, width]. Returns the number of far doubles, which are
    added as 0. O(n * factors).
    """
    n, width = where.size, state.shape[1]
    dictionary, where, weights, inputs = words(dictionary), words(where), words(weights), words(inputs)
    forms, pairs, recipe, scratch, state = words(forms), words(pairs), constants(recipe), words(scratch), words(state)
    return add_all_terms(dictionary, where, weights, n, inputs, forms, pairs, recipe, scratch, state, ZERO, width)


@device
def add_all_terms(dictionary, where, weights, n, inputs, forms, pairs, recipe, scratch, state, first_word, width):
    """Does the same as ``add_terms``. The first state begins at word ``first_word``, each has ``width`` words."""
    far, r = ZERO, 1
    for _ in range(recipe[0]):
        far += _add_term(
            dictionary, where, weights, n, inputs, forms, pairs, recipe, r, scratch, state, first_word, width
        )
        r += TERM_HEAD + recipe[r + T_NEEDED] + 2 * recipe[r + T_FACTORS]
    return far


@device
def carry_over(where, n, payload, sign, recipe, scratch, state, first_word, width):
    """Adds ``sign`` times the sums that ``n`` events carry (``payload`` int64[words, n]) to the states of their groups,
    of which the first begins at word ``first_word``.

    ``recipe``: the number of sums; for each its word in the state, its limbs, the number of its parts; for each part
    the first word and the limbs in the payload, then the limbs of a coefficient and its value, or its position in
    ``recipe`` if it has several limbs (limbs 0 mean the coefficient 1), and the word that marks a slice of a far part
    (``loans``), or -1. ``scratch`` int64[3 * limbs]. Slices are not added. Returns their number.
    """
    slices = ZERO
    for i in range(n):
        base = first_word + where[i] * width
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
                    _multiply_by(scratch, limbs, recipe, recipe[r + 3], c)
                if sign < 0:
                    negate(scratch, 0, limbs)
                add(state, at, scratch, 0, limbs)
                r += 5
    return slices


@kernel("table, table, int")
def subtract(left, right, limbs):
    """Subtracts ``right`` from ``left``, both int64[n, limbs]. Negates ``right`` in place."""
    n = left.size
    left, right = words(left), words(right)
    for i in range(0, n, limbs):
        negate(right, i, limbs)
        add(left, i, right, i, limbs)
