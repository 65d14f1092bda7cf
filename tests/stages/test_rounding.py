"""Quotients of exact integers against fractions: doubles are rounded once, to nearest even."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from crown.stages.groups.rounded import limbs, ratio

DIVISORS = (1, 1, 2, 3, 7, 10, 100, 2**20, 2**31 - 1, 2**31, 10**18)


def rounded(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def drawn(random: Random, bits: int) -> int:
    """A number of up to so many bits; many are next to one that rounds the other way."""
    size = random.randint(0, bits)
    kind = random.randrange(4)
    if kind == 0 and size > 60:
        half = (random.getrandbits(54) | 1) << (size - 56)
        return half + random.choice((0, 1, -1, 1 << max(size - 57, 0)))
    return [random.getrandbits(size + 1), (1 << size) - 1, 1 << size, 0][kind]


@pytest.mark.parametrize("words", [1, 2, 4, 9])
def test_a_quotient_is_the_double_next_to_it(words: int) -> None:
    random = Random(words)
    for shift in (0, 60, 1074, -3):
        values = [drawn(random, 64 * words - 2) * random.choice((1, -1)) for _ in range(400)]
        divisors = [random.choice((*DIVISORS, random.randint(1, 2**31))) for _ in values]
        found = ratio(np.concatenate([limbs(value, words) for value in values]), np.array([divisors]).T, shift)
        for value, divisor, quotient in zip(values, divisors, found.tolist(), strict=True):
            assert quotient == rounded(Fraction(value, divisor) / Fraction(2) ** shift), (value, divisor, shift)


def test_what_has_no_divisor_is_nan() -> None:
    found = ratio(np.array([[5], [5], [6]]), np.array([[0], [-1], [4]]))
    assert np.isnan(found[:2]).all()
    assert found[2] == 1.5
