"""What a join core maintains beside its tuples: payloads, exact integers that count and sum over bound attributes.

A *term* is a product of local factors, one attribute of a node each; the value of a tuple of the output attributes is,
per term, the sum over its valuations of the multiplicities times the factors. The first term is empty: it counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from plans.errors import PlanError
from plans.schema import decimal_parts

COUNTED, INDICATOR, EXISTS = "counted", "indicator", "exists"
LIMB = 64
_COUNT_BITS = 63

Factor = tuple[int, str]
"""(node, attribute of it): the attribute's value, 0 where it is NULL."""
Term = frozenset[Factor]


@dataclass(frozen=True)
class Payload:
    """The kind of every node, and the terms; `terms[0]` is empty.

    `counted`: a row weighs as many as it has copies. `indicator`: it weighs 1, and its attributes are those of counted
    nodes; virtual nodes and bags are. `exists`: it only filters, and what is below it does too.
    """

    kinds: tuple[str, ...]
    terms: tuple[Term, ...] = (frozenset(),)

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON-able form; `from_json` is its inverse."""
        return {"kinds": list(self.kinds), "terms": [sorted([i, name] for i, name in term) for term in self.terms]}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Payload:
        """Returns the inverse of `to_json`."""
        terms = tuple(frozenset((int(i), str(name)) for i, name in term) for term in data["terms"])
        return Payload(tuple(data["kinds"]), terms)


def factor_bits(kind: str) -> int:
    """Returns the bits of the largest absolute value of a factor of that type. Raises PlanError where it has none."""
    parts = decimal_parts(kind)
    if parts and parts[0] <= 18:
        return ceil(3.33 * parts[0])
    bits = {"bool": 0, "int32": 31, "int64": 63}.get(kind)
    if bits is None:
        raise PlanError(f"a factor must be a whole number of one word, not {kind}")
    return bits


def limbs_of(types: Iterable[str]) -> int:
    """Returns limbs of a sum of products of factors of these types that cannot overflow while the count fits 63
    bits."""
    bits = _COUNT_BITS + sum(map(factor_bits, types)) + 1
    return ceil(bits / LIMB)
