"""What a ring must offer, and a ring that counts how often it is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol


class Ring(Protocol):
    """A set with `+` and `*`: both associative, `+` commutative with inverses, `*` distributive over `+`.

    `zero` and `one` are the elements that change nothing in a sum and in a product. Elements compare with `==`, and no
    operation changes its operands. `commutative` says whether `a * b = b * a` for all elements. Source: Appendix A of
    F-IVM.
    """

    zero: Any
    one: Any
    commutative: bool

    def add(self, a: Any, b: Any) -> Any:
        """Returns a + b."""

    def neg(self, a: Any) -> Any:
        """Returns the element that added to a gives zero: what a deletion adds."""

    def mul(self, a: Any, b: Any) -> Any:
        """Returns a * b."""


@dataclass
class Counted:
    """The ring `inner`, with the numbers of additions and multiplications that were asked of it.

    Statements about cost are tested by counting, not by timing.
    """

    inner: Any
    additions: int = field(default=0, init=False)
    multiplications: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.zero, self.one = self.inner.zero, self.inner.one
        self.commutative = self.inner.commutative

    @property
    def operations(self) -> int:
        """Returns additions and multiplications together."""
        return self.additions + self.multiplications

    def reset(self) -> None:
        """Sets both counters to 0."""
        self.additions = self.multiplications = 0

    def add(self, a: Any, b: Any) -> Any:
        """Returns a + b."""
        self.additions += 1
        return self.inner.add(a, b)

    def neg(self, a: Any) -> Any:
        """Returns -a."""
        return self.inner.neg(a)

    def mul(self, a: Any, b: Any) -> Any:
        """Returns a * b."""
        self.multiplications += 1
        return self.inner.mul(a, b)
