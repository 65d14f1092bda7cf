"""The laws of a ring, tested on samples: what a ring of one's own must satisfy before a view may rely on it."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

_TRIPLES = 20_000
_TOLERANCE = 1e-9

_Law = tuple[str, int, Callable[..., Any], Callable[..., Any]]


class RingLawError(AssertionError):
    """A ring breaks one of the laws.

    Attributes: `law` (its name), `witness` (the elements for which it fails).
    """

    def __init__(self, message: str, law: str, witness: tuple[Any, ...]) -> None:
        super().__init__(message)
        self.law = law
        self.witness = witness


def check(ring: Any, samples: Iterable[Any], *, exact: bool = False, commutative: bool = True) -> None:
    """Tests the laws of a ring on samples; returns nothing if they hold.

    `ring` has `zero`, `one`, `add(a, b)`, `neg(a)` and `mul(a, b)`, see `algebra.Ring`. `samples`: elements of it, best
    ones that differ in kind: zero, one, negative, large, small; zero and one are tried as well. Raises RingLawError
    with the first law that fails, the elements for which it does, and both sides. `exact=False` lets numbers differ by
    rounding, 1e-9 of the largest of those involved. `exact=True` is for rings that claim that every addition can be
    rolled back bit by bit: all laws must hold exactly, and a + b + (-b) must be a, with the same types and signs of
    zero. `commutative=False` leaves a * b = b * a out. Cost: n³ triples of n samples; a fixed choice of 20,000 of them
    if there are more.

    >>> from tests.models.rings.algebra import Cofactor, Matrices
    >>> cofactor = Cofactor()
    >>> check(cofactor, [cofactor.lift(0)(3), cofactor.lift(1)(-2)], exact=True)
    >>> matrices = Matrices(2)
    >>> try:
    ...     check(matrices, [matrices.of([[0, 1], [0, 0]]), matrices.of([[1, 0], [0, 0]])])
    ... except RingLawError as error:
    ...     print(error.law)
    commutativity of multiplication (a * b = b * a)
    """
    for name in ("zero", "one", "add", "neg", "mul"):
        if not hasattr(ring, name):
            why = "; without it nothing can be deleted" if name == "neg" else ""
            raise RingLawError(f"the ring has no {name}{why}", name, ())
    elements = [ring.zero, ring.one, *samples]
    for law, arity, left, right in _laws(ring, exact, commutative):
        for chosen in _choices(elements, arity):
            try:
                sides = left(*chosen), right(*chosen)
                same = _equal(*sides, exact, _size((chosen, sides)))
            except Exception as error:  # the user's own function: whatever it raises is the finding
                raise RingLawError(
                    f"{law} cannot be tested: for {_shown(chosen)} the ring raises {type(error).__name__}: {error}",
                    law,
                    chosen,
                ) from error
            if not same:
                raise RingLawError(
                    f"{law} fails for {_shown(chosen)}: the left side is {sides[0]!r}, the right side {sides[1]!r}",
                    law,
                    chosen,
                )


def _laws(ring: Any, exact: bool, commutative: bool) -> list[_Law]:
    """Returns appendix A of F-IVM, and what follows from it."""
    add, mul, neg, zero, one = ring.add, ring.mul, ring.neg, ring.zero, ring.one
    laws: list[_Law] = [
        ("identity of addition (0 + a = a)", 1, lambda a: add(zero, a), lambda a: a),
        ("identity of multiplication (1 * a = a)", 1, lambda a: mul(one, a), lambda a: a),
        ("identity of multiplication (a * 1 = a)", 1, lambda a: mul(a, one), lambda a: a),
        ("inverse (a + (-a) = 0)", 1, lambda a: add(a, neg(a)), lambda a: zero),
        ("commutativity of addition (a + b = b + a)", 2, add, lambda a, b: add(b, a)),
        (
            "associativity of addition ((a + b) + c = a + (b + c))",
            3,
            lambda a, b, c: add(add(a, b), c),
            lambda a, b, c: add(a, add(b, c)),
        ),
        (
            "associativity of multiplication ((a * b) * c = a * (b * c))",
            3,
            lambda a, b, c: mul(mul(a, b), c),
            lambda a, b, c: mul(a, mul(b, c)),
        ),
        (
            "distributivity (a * (b + c) = a * b + a * c)",
            3,
            lambda a, b, c: mul(a, add(b, c)),
            lambda a, b, c: add(mul(a, b), mul(a, c)),
        ),
        (
            "distributivity ((a + b) * c = a * c + b * c)",
            3,
            lambda a, b, c: mul(add(a, b), c),
            lambda a, b, c: add(mul(a, c), mul(b, c)),
        ),
    ]
    if commutative:
        laws.append(("commutativity of multiplication (a * b = b * a)", 2, mul, lambda a, b: mul(b, a)))
    if exact:
        laws.insert(0, ("exact inverse (a + b + (-b) = a)", 2, lambda a, b: add(add(a, b), neg(b)), lambda a, b: a))
    return laws


def _choices(elements: Sequence[Any], arity: int) -> Iterable[tuple[Any, ...]]:
    if len(elements) ** arity <= _TRIPLES:
        return product(elements, repeat=arity)
    chance = random.Random(0)
    return (tuple(chance.choices(elements, k=arity)) for _ in range(_TRIPLES))


_NAMES = "abc"


def _shown(chosen: tuple[Any, ...]) -> str:
    return ", ".join(f"{name} = {element!r}" for name, element in zip(_NAMES, chosen, strict=False))


def _equal(a: Any, b: Any, exact: bool, size: float) -> bool:
    """Returns whether two elements are the same: exactly, or but for the rounding of the numbers in them."""
    a, b = _plain(a), _plain(b)
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(_equal(x, y, exact, size) for x, y in zip(a, b, strict=True))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_equal(a[key], b[key], exact, size) for key in a)
    if isinstance(a, float) and isinstance(b, float):
        if exact:
            return (a == b and math.copysign(1, a) == math.copysign(1, b)) or (a != a and b != b)
        return a == b or abs(a - b) <= _TOLERANCE * size or (a != a and b != b)
    return bool(a == b) and (not exact or type(a) is type(b))


def _size(of: Any) -> float:
    """Returns the largest finite magnitude of the floats in there."""
    of = _plain(of)
    if isinstance(of, float):
        return abs(of) if math.isfinite(of) else 0.0
    inside = of.values() if isinstance(of, Mapping) else of if isinstance(of, (tuple, list)) else ()
    return max(map(_size, inside), default=0.0)


def _plain(element: Any) -> Any:
    """Returns arrays and their scalars as Python's lists and numbers."""
    return element.tolist() if hasattr(element, "tolist") else element
