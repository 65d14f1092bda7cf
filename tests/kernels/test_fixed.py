"""Doubles in fixed point are the integers that fractions say they are, up to the last value that is near."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import numpy as np

from crown.kernels.jit import kernel
from crown.kernels.numbers import fixed
from tests.marks import every

_LIMBS = 35
_EDGES = [
    *(0.0, -0.0, 1.0, 5e-324, 2.0**-1022, 2.0**1023, math.inf, -math.inf, math.nan),
    *(2.0**-112, 2.0**-113, 1.5 * 2.0**-112, 1.25 * 2.0**-110, 2.0**-60, math.nextafter(2.0**-60, 0)),
    *(2.0**80, math.nextafter(2.0**80, 0), math.nextafter(2.0**80, math.inf), 2.0**79, 2.0**16, 2.0**-48, 2.0**-49),
]
_random = Random(3)
_DRAWN = [math.ldexp(_random.random() - 0.5, _random.randint(-120, 90)) for _ in range(300)]
_VALUES = [sign * value for value in (*_EDGES, *_DRAWN) for sign in (1, -1)]


@kernel
def _lifted(code, near, far):
    fixed.lift_far(code, far, 0, _LIMBS)
    return fixed.lift_float(code, near, 0)


@kernel
def _widened(near, far):
    fixed.widen(far, 0, _LIMBS, near, 0, fixed.FLOAT_LIMBS, 1)


def number(words: np.ndarray) -> int:
    return int.from_bytes(words.tobytes(), "little", signed=True)


@every(_VALUES)
def test_a_double_is_the_integer_that_it_is_in_units_of_its_limbs(value: float) -> None:
    near, far = np.full(fixed.FLOAT_LIMBS, 7, np.int64), np.full(_LIMBS, 7, np.int64)
    is_far = _lifted(np.float64(value).view(np.int64), near, far)
    exact = Fraction(value) if math.isfinite(value) else Fraction(0)
    units = exact * 2**fixed.FLOAT_BITS
    fits = units.denominator == 1 and abs(exact) < 2**fixed.FLOAT_TOP
    assert is_far == (not fits)
    assert number(near) == (units if fits else 0) or is_far
    assert number(far) == exact * 2 ** (fixed.FLOAT_BITS + 64 * fixed.FAR_SHIFT)
    if fits:
        wide = np.full(_LIMBS, 7, np.int64)
        _widened(near, wide)
        assert number(wide) == number(far)
