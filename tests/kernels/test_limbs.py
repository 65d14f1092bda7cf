"""Numbers of several limbs are integers modulo 2^(64 n): compared with Python's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crown.kernels.jit import kernel
from crown.kernels.numbers import limbs

_MOST = 6
_WORD = st.one_of(st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63), 2**32]), st.integers(-(2**63), 2**63 - 1))
_NUMBER = st.lists(_WORD, min_size=_MOST, max_size=_MOST)


@kernel
def _calculate(what, words, n, factor):
    """Words: three numbers of ``n`` limbs; what is calculated goes to the first one."""
    if what == 0:
        limbs.add(words, 0, words, n, n)
    elif what == 1:
        limbs.negate(words, 0, n)
    elif what == 2:
        limbs.multiply(words, 0, words, n, words, 2 * n, n)
    elif what == 3:
        limbs.multiply_word(words, 0, n, factor)
    elif what == 4:
        limbs.add_multiple(words, 0, words, n, n, factor)
    elif what == 5:
        low, high = limbs.sum_of_pairs(words[0], words[1], words[n], words[n + 1])
        words[0], words[1] = low, high
    elif what == 6:
        low, high = limbs.product_of_pairs(words[0], words[1], words[n], words[n + 1])
        words[0], words[1] = low, high


@kernel
def _checks(a, b):
    return limbs.sum_leaves(a, b), limbs.product_leaves(a, b)


@kernel
def _extended(words, n, m):
    limbs.extend(words, m, n, words, 0, m)
    return limbs.is_zero(words, 0, m), limbs.is_word(words, 0, m)


def _value(words: list[int]) -> int:
    """The number that the words are."""
    return sum((int(w) % 2**64) << 64 * x for x, w in enumerate(words)) - (
        (1 << 64 * len(words)) if words[-1] < 0 else 0
    )


@given(_NUMBER, _NUMBER, _NUMBER, _WORD, st.integers(1, _MOST))
@pytest.mark.parametrize("what", range(7))
def test_arithmetic_is_that_of_integers_modulo_a_power_of_two(
    what: int, one: list[int], two: list[int], three: list[int], factor: int, n: int
) -> None:
    if what >= 5:
        n = 2
    a, b, c = _value(one[:n]), _value(two[:n]), _value(three[:n])
    expected = [a + b, -a, b * c, a * factor, a + b * factor, a + b, a * b][what]
    words = np.array(one[:n] + two[:n] + three[:n], np.int64)
    _calculate(what, words, n, np.int64(factor))
    assert (_value(words[:n].tolist()) - expected) % (1 << 64 * n) == 0
    if what < 5:
        assert words[n:].tolist() == two[:n] + three[:n]


@given(_WORD, _WORD)
def test_checked_words_tell_when_a_result_leaves_63_bits(a: int, b: int) -> None:
    leaves = [not -(2**63) <= value < 2**63 for value in (a + b, a * b)]
    assert list(_checks(np.int64(a), np.int64(b))) == leaves


@given(_NUMBER, st.integers(1, _MOST), st.integers(1, _MOST))
def test_a_number_that_gets_more_limbs_keeps_its_value(number: list[int], m: int, n: int) -> None:
    words = np.array(number[:m] + [7] * n, np.int64)
    zero, word = _extended(words, n, m)
    assert zero == (_value(number[:m]) == 0)
    assert word == (_value(number[:m]) == number[0])
    assert (_value(words[m:].tolist()) - _value(number[:m])) % (1 << 64 * min(m, n) if n < m else 1 << 64 * n) == 0
