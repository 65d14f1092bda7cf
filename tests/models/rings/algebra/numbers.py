"""Numbers as rings, and the lifts with which they count and sum products.

`Z` with `lift_one` on every variable is COUNT(*); `Z` (or `Q`) with `lift_value` on some of them is the SUM of their
product. Floats are lifted into `Q` as the fractions that they are, so sums of them have no rounding.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

Number = int | Fraction


class _Numbers:
    """Python's own arithmetic as a ring."""

    commutative = True

    def __init__(self, name: str, zero: Number, one: Number) -> None:
        self._name = name
        self.zero = zero
        self.one = one

    def add(self, a: Number, b: Number) -> Number:
        """Returns a + b."""
        return a + b

    def neg(self, a: Number) -> Number:
        """Returns -a."""
        return -a

    def mul(self, a: Number, b: Number) -> Number:
        """Returns a * b."""
        return a * b

    def __repr__(self) -> str:
        return self._name


Z = _Numbers("Z", 0, 1)
"""The integers, without a limit of size."""

Q = _Numbers("Q", Fraction(0), Fraction(1))
"""The fractions, without a limit of size."""


def lift_one(value: object) -> int:
    """Returns 1 for every value: the lift of COUNT."""
    return 1


def lift_value(value: object) -> Number:
    """Returns the number that the value is, exactly: an integer as it is, a float or decimal as a fraction.

    Raises ValueError for NaN and infinities, TypeError for what is no number.
    """
    if isinstance(value, int):
        return int(value)
    if isinstance(value, (float, Decimal, Fraction)):
        try:
            exact = Fraction(value)
        except (OverflowError, ValueError):
            raise ValueError(f"{value} is no finite number") from None
        return exact.numerator if exact.denominator == 1 else exact
    raise TypeError(f"{value!r} is no number")
