"""Aggregates as functions of a group's terms and multisets: which they need, and their values, for many groups at once.

Everything is exact until the last step. A value is a pure function of the group's state, so the old row of a group,
worked out anew, is the row that was told before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from crown.errors import ChangeError
from crown.kernels.strings import NULL
from crown.stages.columns import Column
from crown.stages.groups import rounded
from crown.stages.groups.moments import MOMENTS, Moments
from crown.stages.groups.terms import Layout, Term, Values
from crown.stages.kernels import multisets, orders
from crown.stages.kernels.sums import FLOAT_BITS
from crown.store.codec import uses_dictionary
from crown.store.dictionary import Dictionary
from plans.program import Aggregate
from plans.schema import arrow_type, decimal_parts

COUNTS = ("count", "count_if", "regr_count")


@dataclass(frozen=True)
class Totals:
    """The states of groups: ``rows`` int64[groups, words], and the least and greatest values of their multisets."""

    layout: Layout
    rows: np.ndarray
    tops: Mapping[tuple[Values, int], np.ndarray]

    def count(self, term: Term) -> np.ndarray:
        """Returns a term of one limb, int64[groups]."""
        return self.rows[:, self.layout.at[term]]

    def sum(self, term: Term) -> np.ndarray:
        """Returns a term, int64[groups, limbs]."""
        at = self.layout.at[term]
        return self.rows[:, at : at + self.layout.limbs[term]]


class OutOfRange(ChangeError):
    """An aggregate of group ``group`` (position) has no value of its type."""

    def __init__(self, group: int, reason: str) -> None:
        self.group = group
        super().__init__(reason)


class Rule:
    """An aggregate whose arguments have the ``types`` of feed columns."""

    def __init__(self, aggregate: Aggregate, types: Mapping[str, str]) -> None:
        self.aggregate = aggregate
        self._types = types
        arguments, function = aggregate.arguments, aggregate.function
        where = aggregate.where
        if function == "count_if":
            where, arguments = arguments[0], ()
        self._side = {"min": multisets.MINIMA, "max": multisets.MAXIMA}.get(function, 0)
        valued = aggregate.distinct or self._side
        self.values = Values(arguments[0], where) if valued else None
        self._distinct = self.values if aggregate.distinct and not self._side else None
        self._where = None if self._distinct else where
        self._needs = tuple(sorted(set(arguments)))
        self._arguments = arguments
        self.terms = () if self._side else self._terms()

    @property
    def top(self) -> tuple[Values, int] | None:
        """Returns the multiset and the side of it whose first value this is; None if it is none of MIN and MAX."""
        return (self.values, self._side) if self.values is not None and self._side else None

    def _term(self, *factors: str, side: int = 0, of: str = "") -> Term:
        return Term(self._needs, self._where, tuple(sorted(factors)), side, of, self._distinct)

    def _sides(self, name: str) -> tuple[Term, ...]:
        """Returns the terms that count what is not finite."""
        floating = self._types[name] == "float64"
        return tuple(self._term(side=side, of=name) for side in (1, -1)) if floating else ()

    def _terms(self) -> tuple[Term, ...]:
        function = self.aggregate.function
        found = [self._term()]
        if function in ("sum", "avg"):
            found.append(self._term(*self._arguments))
        if function in MOMENTS:
            y, x = self._arguments[0], self._arguments[-1]
            found += [self._term(*factors) for factors in ((x,), (y,), (x, x), (y, y), (x, y))]
        if function not in COUNTS:
            found += [term for name in self._needs for term in self._sides(name)]
        return tuple(dict.fromkeys(found))

    def column(self, totals: Totals, dictionary: Dictionary) -> Column:
        """Returns the values, one per group. Raises OutOfRange."""
        aggregate = self.aggregate
        if self.top is not None:
            return Column(aggregate.type, dictionary, totals.tops[self.top])
        count = totals.count(self._term())
        if aggregate.function in COUNTS:
            return Column(aggregate.type, dictionary, np.ascontiguousarray(count))
        null = count == 0
        if aggregate.function == "sum" and aggregate.type != "float64":
            return self._exact(totals, null, dictionary)
        if aggregate.function in ("sum", "avg"):
            values = self._quotient(totals, count)
        else:
            values, null = MOMENTS[aggregate.function](self._moments(totals, count))
            few = count <= aggregate.function.endswith("_samp")
            for term in (term for name in self._needs for term in self._sides(name)):
                special = totals.count(term) != 0
                values[special] = np.nan
                null = null & (few | ~special)
        return Column(aggregate.type, dictionary, rounded.float_codes(values, null))

    def _exact(self, totals: Totals, null: np.ndarray, dictionary: Dictionary) -> Column:
        """Returns SUM of whole numbers or decimals."""
        rows, type_ = totals.sum(self._term(*self._arguments)), self.aggregate.type
        parts = decimal_parts(type_)
        if parts is None:
            codes, refused = rounded.words(rows, null)
            if refused >= 0:
                raise OutOfRange(refused, 'the sum is no int64; cast the argument to "decimal(38,0)"')
            return Column(type_, dictionary, codes)
        array, refused = rounded.decimals(rows, null, arrow_type(type_))
        if refused >= 0:
            raise OutOfRange(refused, f"the sum has more than {parts[0]} digits")
        if uses_dictionary(type_):
            return Column(type_, dictionary, None, array)
        return Column(type_, dictionary, np.where(null, NULL, rows[:, 0]))

    def _quotient(self, totals: Totals, count: np.ndarray) -> np.ndarray:
        """Returns SUM or AVG as doubles; infinities and NaN as in IEEE arithmetic."""
        name = self._arguments[0]
        average = self.aggregate.function == "avg"
        divisors = count.reshape(-1, 1) if average else np.ones((len(count), 1), np.int64)
        shift, power = unit(self._types[name])
        values = rounded.ratio(totals.sum(self._term(name)), rounded.scaled(divisors, 10**power), shift)
        sides = self._sides(name)
        if sides:
            plus, minus = (totals.count(term) > 0 for term in sides)
            values[plus], values[minus], values[plus & minus] = np.inf, -np.inf, np.nan
        return values

    def _moments(self, totals: Totals, count: np.ndarray) -> Moments:
        y, x = self._arguments[0], self._arguments[-1]
        sx, sy, sxx, syy, sxy = (totals.sum(self._term(*factors)) for factors in ((x,), (y,), (x, x), (y, y), (x, y)))
        return Moments(count, sx, sy, sxx, syy, sxy, unit(self._types[x]), unit(self._types[y]))


def unit(type_: str) -> tuple[int, int]:
    """Returns (b, s): the integer that stands for a value of a type is the value times 2^b times 10^s."""
    parts = decimal_parts(type_)
    return (FLOAT_BITS if type_ == "float64" else 0, 0 if parts is None else parts[1])


def order_of(type_: str) -> int:
    """Returns how multisets compare values of a type."""
    if type_ == "float64":
        return orders.BY_FLOAT
    if not uses_dictionary(type_):
        return orders.BY_WORD
    return orders.BY_BYTES if decimal_parts(type_) is None else orders.BY_DECIMAL
