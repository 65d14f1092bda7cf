"""Decomposes aggregates into sums of products of their arguments. Aggregates that need the same sum share it.

COUNT, SUM, AVG, VAR, COVAR and the aggregates derived from them are functions of sums of products of arguments over the
rows where certain arguments are not NULL and a filter is TRUE. MIN, MAX, DISTINCT, percentiles, joined texts and bits
need the values themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement

from plans.payloads.carried import KnownSum
from plans.payloads.payload import COUNT_BITS, FLOAT_BITS
from plans.programs.frames import Order
from plans.programs.stages import Aggregate
from plans.types import ONE_WORD_DIGITS, decimal_parts

COUNTS = ("count", "count_if", "regr_count")
ONCE = ("min", "max")
"""Aggregates that ignore duplicate values."""
BITS = ("bit_and", "bit_or", "bit_xor")
LISTED = ("string_agg", "array_agg", *BITS)
"""Aggregates that read all values of a group."""
ORDERED = (*ONCE, "percentile", "percentile_trunc", "percentile_disc", *LISTED)
"""Aggregates that read the values of a group in order. Only those of `ONCE` can be computed from parts."""
COFACTOR = "cofactor"
"""The number of rows without NULL in an argument, accompanied by the sums of all products of at most two arguments."""

SHAPES = {"skewness": 3, "skewness_samp": 3, "kurtosis": 4, "kurtosis_samp": 4}
"""Aggregates of one argument that are computed from the sums of its powers, up to this one."""
DISTINCT = ("count", "sum", "avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop", *SHAPES, "bit_xor")
"""Aggregates that may read each value once, and then have another result."""
FEWEST = {"var_samp": 2, "stddev_samp": 2, "covar_samp": 2, "skewness_samp": 3, "kurtosis_samp": 4}
"""The least number of values for which an aggregate is not NULL. The others need one."""


@dataclass(frozen=True)
class Values:
    """The multiset of the values of `argument` where `where` is TRUE.

    The values are ordered by `order` first, then by the argument, ascending. `order` does not begin with the argument.
    """

    argument: str
    where: str | None
    order: tuple[Order, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Returns the columns of which a value consists."""
        return (self.argument, *(one.column for one in self.order))


@dataclass(frozen=True)
class Term:
    """The sum of the product of `factors` over the rows where none of `needs` is NULL and `where` is TRUE.

    `side`: +1 or -1 counts instead the rows where the argument `of` is NaN or the infinity of that sign. `distinct`:
    the sum is over the distinct values of a multiset instead of over rows.
    """

    needs: tuple[str, ...] = ()
    where: str | None = None
    factors: tuple[str, ...] = ()
    side: int = 0
    of: str = ""
    distinct: Values | None = None

    def __post_init__(self) -> None:
        parts = (self.needs, self.where, self.factors, self.side, self.of, self.distinct)
        object.__setattr__(self, "_hash", hash(parts))

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined]


ROWS = Term()
DIGIT = 60
"""Bits of a digit of a sum of several limbs. Digits are nonnegative except for the highest, and never the int64 that
encodes NULL."""
_FLOAT_SIZE = 192  # bits of the absolute value of a double in fixed point


def term_of(known: KnownSum) -> Term:
    """Returns the term of a sum that a stage receives."""
    return Term(known.needs, known.where, known.factors, known.side, known.of)


def limbs_of(term: Term, types: Mapping[str, str]) -> int:
    """Returns the number of limbs of a sum, without its far part, that cannot overflow while the count fits 63 bits."""
    if not term.factors:
        return 1
    return (COUNT_BITS + sum(_bits(types[name]) for name in term.factors) + 1 + 63) // 64


def doubles_of(term: Term, types: Mapping[str, str]) -> int:
    """Returns the number of doubles in each product that a sum adds up."""
    return sum(types[name] == "float64" for name in term.factors)


def _bits(type_: str) -> int:
    """Returns the bits of the absolute value of an argument."""
    if type_ == "float64":
        return _FLOAT_SIZE
    parts = decimal_parts(type_)
    return 63 if parts is None or parts[0] <= ONE_WORD_DIGITS else 127


def digits_of(limbs: int) -> int:
    """Returns the number of digits that encode so many limbs. One limb, a count, is one digit."""
    return 1 if limbs == 1 else -(-64 * limbs // DIGIT)


Unit = tuple[int, int, int]
"""(b, s, d): a value is represented by the integer value · 2^b · 10^s; in a far part, where the value is a product of
`d` doubles, by 2^(1024 d) times that."""


def unit(type_: str) -> Unit:
    """Returns the unit of the values of a type."""
    parts, floating = decimal_parts(type_), type_ == "float64"
    return (FLOAT_BITS if floating else 0, 0 if parts is None else parts[1], int(floating))


class Sums:
    """The sums from which an aggregate, whose arguments have the `types`, is computed.

    `needs`: the arguments that must not be NULL; `values`: the multiset from which it is computed, if any; `terms`: its
    sums.
    """

    def __init__(self, aggregate: Aggregate, types: Mapping[str, str]) -> None:
        self._types = types
        arguments, where = aggregate.arguments, aggregate.where
        if aggregate.function == "count_if":
            where, arguments = arguments[0], ()
        self.arguments = arguments
        self.needs = tuple(sorted(set(arguments)))
        ordered = aggregate.function in ORDERED
        own = bool(aggregate.order) and aggregate.order[0].column == arguments[0]
        order = () if own else aggregate.order
        self.values = Values(arguments[0], where, order) if aggregate.distinct or ordered else None
        self._distinct = self.values if aggregate.distinct and not ordered else None
        self._where = None if self._distinct else where
        self.terms = () if ordered else self._terms(aggregate.function)

    def term(self, *factors: str, side: int = 0, of: str = "") -> Term:
        """Returns the term that sums the product of arguments over the rows of the aggregate."""
        return Term(self.needs, self._where, tuple(sorted(factors)), side, of, self._distinct)

    def sides(self, name: str) -> tuple[Term, ...]:
        """Returns the terms that count the values of an argument that are not finite."""
        floating = self._types[name] == "float64"
        return tuple(self.term(side=side, of=name) for side in (1, -1)) if floating else ()

    def _terms(self, function: str) -> tuple[Term, ...]:
        found = [self.term()]
        if function in ("sum", "avg"):
            found.append(self.term(*self.arguments))
        elif function == COFACTOR:
            found += [self.term(*c) for n in (1, 2) for c in combinations_with_replacement(self.arguments, n)]
        elif function in SHAPES:
            found += [self.term(*self.arguments * power) for power in range(1, SHAPES[function] + 1)]
        elif function not in COUNTS:
            y, x = self.arguments[0], self.arguments[-1]
            found += [self.term(*factors) for factors in ((x,), (y,), (x, x), (y, y), (x, y))]
        if function not in COUNTS:
            found += [term for name in self.needs for term in self.sides(name)]
        return tuple(dict.fromkeys(found))
