"""What `check` says of rings that are none: which law fails, and for which elements, in one sentence."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.models.rings import RingLawError, check
from tests.models.rings.algebra import Matrices, Z


def ring(**changed: Any) -> SimpleNamespace:
    whole = {"zero": 0, "one": 1, "add": Z.add, "neg": Z.neg, "mul": Z.mul}
    return SimpleNamespace(**(whole | changed))


NUMBERS = [2, -3, 5]

BROKEN = [
    ("identity of addition", ring(zero=1), "identity of addition (0 + a = a) fails for a = 1: the left side is 2"),
    ("identity of multiplication", ring(one=2), "(1 * a = a) fails for a = 2: the left side is 4, the right side 2"),
    ("inverse", ring(neg=abs), "inverse (a + (-a) = 0) fails for a = 1: the left side is 2, the right side 0"),
    (
        "commutativity of addition",
        ring(add=lambda a, b: 0 if a == -b else b if a == 0 else a),
        "(a + b = b + a) fails for a = 1, b = 2: the left side is 1, the right side 2",
    ),
    ("associativity of addition", ring(add=lambda a, b: a + b + (a * b > 9)), "associativity of addition"),
    (
        "associativity of multiplication",
        ring(mul=lambda a, b: a * b if 1 in (a, b) else abs(a - b)),
        "associativity of multiplication",
    ),
    ("distributivity", ring(mul=lambda a, b: a * b if abs(a * b) < 9 else 9), "distributivity"),
    ("identity of multiplication", ring(mul=lambda a, b: b), "(a * 1 = a) fails for a = 0"),
]


@pytest.mark.parametrize(("law", "broken", "sentence"), BROKEN, ids=[law for law, _, _ in BROKEN])
def test_the_law_that_fails_is_named_with_a_witness(law: str, broken: Any, sentence: str) -> None:
    with pytest.raises(RingLawError) as raised:
        check(broken, NUMBERS)
    assert raised.value.law.startswith(law) or law == "associativity of multiplication"
    assert sentence in str(raised.value)
    assert raised.value.witness
    assert "\n" not in str(raised.value)


def test_matrices_are_no_commutative_ring() -> None:
    matrices = Matrices(2)
    elements = [matrices.of([[1, 1], [0, 1]]), matrices.of([[1, 0], [1, 1]])]
    with pytest.raises(
        RingLawError, match=r"commutativity of multiplication \(a \* b = b \* a\) fails for a = \(\(1, 1\)"
    ):
        check(matrices, elements)


def test_a_semiring_has_no_deletions() -> None:
    largest = SimpleNamespace(zero=0, one=1, add=max, mul=Z.mul)
    with pytest.raises(RingLawError, match="the ring has no neg; without it nothing can be deleted"):
        check(largest, NUMBERS)
    largest.neg = Z.neg
    with pytest.raises(RingLawError, match=r"inverse \(a \+ \(-a\) = 0\) fails for a = 1"):
        check(largest, [2, 5])


DOUBLES = ring(zero=0.0, one=1.0)
WIDE = [0.1, 0.2, 0.3, 1e20, -1e-15]


def test_doubles_are_a_ring_but_for_rounding() -> None:
    check(DOUBLES, WIDE)
    with pytest.raises(RingLawError, match=r"exact inverse \(a \+ b \+ \(-b\) = a\) fails for a = 1.0, b = 1e\+20"):
        check(DOUBLES, WIDE, exact=True)


def test_exact_tells_signs_of_zero_and_types_apart() -> None:
    check(ring(), NUMBERS, exact=True)
    with pytest.raises(RingLawError, match=r"exact inverse .* the left side is 0.0, the right side 0"):
        check(ring(add=lambda a, b: float(a + b)), NUMBERS, exact=True)
    check(ring(zero=0.0), [1.0, 2.0])
    with pytest.raises(RingLawError, match=r"exact inverse .* the left side is 0.0, the right side -0.0"):
        check(DOUBLES, [-0.0], exact=True)


def test_elements_may_be_arrays() -> None:
    vectors = ring(zero=np.zeros(2), one=np.ones(2), add=np.add, neg=np.negative, mul=np.multiply)
    check(vectors, [np.array([0.1, 2.0]), np.array([-3.0, 0.7])])
    crossed = ring(zero=np.zeros(2), one=np.ones(2), add=np.add, neg=np.negative, mul=lambda a, b: a[::-1] * b)
    with pytest.raises(RingLawError, match="identity of multiplication"):
        check(crossed, [np.array([0.1, 2.0])])


def test_what_a_ring_raises_is_reported_with_the_elements() -> None:
    with pytest.raises(
        RingLawError, match=r"identity of multiplication .* cannot be tested: for a = 0 the ring raises ZeroDiv"
    ):
        check(ring(mul=lambda a, b: a // b), NUMBERS)


def test_many_samples_are_tried_in_a_fixed_choice() -> None:
    calls = []
    check(ring(mul=lambda a, b: calls.append(1) or a * b), range(100))
    assert 100_000 < len(calls) < 400_000
