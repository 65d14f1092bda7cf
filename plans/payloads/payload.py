"""Payloads of a join core: exact integers that count and sum over bound attributes.

A *term* is a product of local factors, each a function of one attribute of a node. The value of a tuple of the output
attributes is, for each term, the sum over its valuations of the multiplicities times the factors. The first term is
empty: it counts.
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
"""The kinds of factors: the value of an attribute, 0 where it is NULL; or 1 where a property holds, else 0.

`valid`: the attribute is not NULL. `plus`: it is NaN or +Infinity. `minus`: it is NaN or -Infinity. `up`: it is at
least 0, or NaN. `down`: it is at most 0, or NaN. The last four determine the sign of products that are not finite.
"""
LIMB = 64
FLOAT_BITS = 112
"""A *near* double is summed as an integer, in units of 2^-FLOAT_BITS: all its bits lie between this unit and 2^80. A
sum of products of doubles also has a *far* part, for products with a factor that is not near
(`crown.kernels.numbers.fixed`).
"""
COUNT_BITS = 63
_FLOAT_SIZE = 192

Factor = tuple[int, str, str]
"""(node, its attribute, kind of factor)"""
Term = tuple[Factor, ...]
"""Factors in order. A factor may occur several times."""


@dataclass(frozen=True)
class Payload:
    """The kind of every node, and the terms. `terms[0]` is empty.

    `counted`: the weight of a row is its number of copies. `indicator`: the weight is 1, and the attributes are those
    of counted nodes; virtual nodes and bags are of this kind. `exists`: the node only filters, and so do the nodes
    below it.
    """

    kinds: tuple[str, ...]
    terms: tuple[Term, ...] = ((),)

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON-able form; `from_json` is its inverse."""
        return {"kinds": list(self.kinds), "terms": [[list(factor) for factor in term] for term in self.terms]}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Payload:
        """Returns the payload of a JSON-able form that `to_json` returned."""
        terms = tuple(tuple((int(i), str(name), str(what)) for i, name, what in term) for term in data["terms"])
        return Payload(tuple(data["kinds"]), terms)


def factor_bits(kind: str, what: str = VALUE) -> int:
    """Returns the bits of the largest absolute value of a factor of an attribute of type `kind`. Raises PlanError if
    the type has no such factor."""
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
    """Returns the bits, without the sign, of a sum of products of factors, given as (type, kind), while the count fits
    63 bits."""
    return COUNT_BITS + sum(factor_bits(kind, what) for kind, what in factors)


def doubles_of(factors: Iterable[tuple[str, str]]) -> int:
    """Returns the number of doubles in a product of factors, given as pairs (type, kind)."""
    return sum(kind == "float64" and what == VALUE for kind, what in factors)


def limbs_of(factors: Iterable[tuple[str, str]]) -> int:
    """Returns the number of limbs of a sum of products of factors that cannot overflow while the count fits 63 bits,
    without its far part."""
    return ceil((sum_bits(factors) + 1) / LIMB)
