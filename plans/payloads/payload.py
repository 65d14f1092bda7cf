"""Payloads of a join core: exact integers that count and sum over bound attributes.

A *term* is a product of local factors, each a function of one attribute of a node; the value of a tuple of the output
attributes is, per term, the sum over its valuations of the multiplicities times the factors. The first term is empty:
it counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from plans.errors import PlanError
from plans.types import ONE_WORD_DIGITS, decimal_parts

COUNTED, INDICATOR, EXISTS = "counted", "indicator", "exists"
VALUE, VALID, PLUS, MINUS, UP, DOWN = "value", "valid", "plus", "minus", "up", "down"
"""What a factor is of its attribute: its value, 0 where it is NULL; or 1 where something holds, else 0.

`valid`: it is not NULL. `plus`: it is NaN or +Infinity. `minus`: it is NaN or -Infinity. `up`: it is at least 0, or
NaN. `down`: it is at most 0, or NaN. The last four follow the sign of products that are not finite.
"""
LIMB = 64
FLOAT_BITS = 112
"""A *near* double is summed as an integer, in units of 2^-FLOAT_BITS: all its bits lie between that and 2^80. A sum of
products of doubles has a *far* part beside it, for products with a factor that is not near (`crown.kernels.fixed`)."""
COUNT_BITS = 63
_FLOAT_SIZE = 192

Factor = tuple[int, str, str]
"""(node, attribute of it, what of it)."""
Term = tuple[Factor, ...]
"""Factors in order; one may occur several times."""


@dataclass(frozen=True)
class Payload:
    """The kind of every node, and the terms; `terms[0]` is empty.

    `counted`: a row weighs as many as it has copies. `indicator`: it weighs 1, and its attributes are those of counted
    nodes; virtual nodes and bags are. `exists`: it only filters, and what is below it does too.
    """

    kinds: tuple[str, ...]
    terms: tuple[Term, ...] = ((),)

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON-able form; `from_json` is its inverse."""
        return {"kinds": list(self.kinds), "terms": [[list(factor) for factor in term] for term in self.terms]}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Payload:
        """Returns the inverse of `to_json`."""
        terms = tuple(tuple((int(i), str(name), str(what)) for i, name, what in term) for term in data["terms"])
        return Payload(tuple(data["kinds"]), terms)


def factor_bits(kind: str, what: str = VALUE) -> int:
    """Returns the bits of the largest absolute value of a factor of an attribute of that type. PlanError if it has
    none."""
    if what == VALID:
        return 0
    if what in (PLUS, MINUS) and kind != "float64":
        raise PlanError(f"a value of type {kind} is always finite")
    parts = decimal_parts(kind)
    if parts and parts[0] <= ONE_WORD_DIGITS:
        bits: int | None = ceil(3.33 * parts[0])
    else:
        bits = {"bool": 0, "int32": 31, "int64": 63, "float64": _FLOAT_SIZE}.get(kind)
    if bits is None:
        raise PlanError(f"a factor must be a number of one word, not {kind}")
    return bits if what == VALUE else 0


def sum_bits(factors: Iterable[tuple[str, str]]) -> int:
    """Returns the bits, without the sign, of a sum of products of factors, given by type and what of it, while the
    count fits 63 bits."""
    return COUNT_BITS + sum(factor_bits(kind, what) for kind, what in factors)


def doubles_of(factors: Iterable[tuple[str, str]]) -> int:
    """Returns of how many doubles a product of factors, given by type and what of it, is one."""
    return sum(kind == "float64" and what == VALUE for kind, what in factors)


def limbs_of(factors: Iterable[tuple[str, str]]) -> int:
    """Returns limbs of a sum of products of factors that cannot overflow while the count fits 63 bits; without its far
    part."""
    return ceil((sum_bits(factors) + 1) / LIMB)
