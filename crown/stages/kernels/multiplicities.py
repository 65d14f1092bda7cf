"""Functions of the multiplicities of a row in several leaves: DISTINCT, UNION, EXCEPT, INTERSECT, and nests of them.

A function is a list of words in postfix order. A word is the number of a leaf, or one of the operators below, which are
negative.
"""

from __future__ import annotations

from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import ZERO
from crown.kernels.memory.pointers import constants, words

DISTINCT, UNION_ALL, UNION, EXCEPT_ALL, EXCEPT, INTERSECT_ALL, INTERSECT = range(-1, -8, -1)


@device
def _combined(operator, a, b):
    """Returns what an operator with two operands makes of their multiplicities."""
    if operator == UNION_ALL:
        return a + b
    if operator == EXCEPT_ALL:
        return max(a - b, ZERO)
    if operator == INTERSECT_ALL:
        return min(a, b)
    first, second = a > 0, b > 0
    if operator == UNION:
        return ZERO + (first or second)
    if operator == EXCEPT:
        return ZERO + (first and not second)
    return ZERO + (first and second)


@device
def multiplicity(function, size, counts, at, stack):
    """Returns a function of ``size`` words of the counts of a row, which begin at ``counts[at]``. ``stack``: room for
    ``size`` words."""
    top = ZERO
    for x in range(size):
        word = function[x]
        if word >= 0:
            stack[top] = counts[at + word]
            top += 1
        elif word == DISTINCT:
            stack[top - 1] = ZERO + (stack[top - 1] > 0)
        else:
            top -= 1
            stack[top - 1] = _combined(word, stack[top - 1], stack[top])
    return stack[0]


@kernel("words, table, words, words")
def multiplicities(function, counts, stack, out):
    """Writes a function of the counts of rows (int64[n, leaves]) to ``out`` (int64[n]). ``stack``: see
    ``multiplicity``."""
    size, n, leaves = function.size, counts.shape[0], counts.shape[1]
    function, counts, stack, out = constants(function), words(counts), words(stack), words(out)
    for i in range(n):
        out[i] = multiplicity(function, size, counts, i * leaves, stack)
