"""Products of rings: several payloads side by side, each with its own arithmetic."""

from __future__ import annotations

from typing import Any

from tests.models.rings.algebra.ring import Ring


class Product:
    """The ring of tuples with one element of each of `rings`, added and multiplied component by component.

    One pass over the keys maintains all components: COUNT next to SUM, which is how a group that is gone is told from
    one whose sum is 0.
    """

    def __init__(self, *rings: Ring) -> None:
        self.rings = rings
        self.zero = tuple(ring.zero for ring in rings)
        self.one = tuple(ring.one for ring in rings)
        self.commutative = all(ring.commutative for ring in rings)

    def add(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns a + b."""
        return tuple(ring.add(x, y) for ring, x, y in zip(self.rings, a, b, strict=True))

    def neg(self, a: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns -a."""
        return tuple(ring.neg(x) for ring, x in zip(self.rings, a, strict=True))

    def mul(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns a * b."""
        return tuple(ring.mul(x, y) for ring, x, y in zip(self.rings, a, b, strict=True))

    def __repr__(self) -> str:
        return " x ".join(map(repr, self.rings))
