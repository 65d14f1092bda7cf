"""Computes aggregates as functions of a group's terms and multisets: which they need, and their values.

Everything is exact until the last step. A value is a pure function of the group's state, so recomputing the old row of
a group gives exactly the row that was delivered before.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from crown.errors import ChangeError
from crown.kernels.numbers.fixed import FAR_SHIFT
from crown.results.columns import Column
from crown.stages.groups import rounded
from crown.stages.groups.far import Far
from crown.stages.groups.moments import MOMENTS, Moments, Result, Scale
from crown.stages.groups.readings import Reading, reading
from crown.stages.groups.terms import Layout
from crown.stages.kernels.groups import batch as kernels
from crown.stages.kernels.groups import far as far_kernels
from crown.stages.kernels.groups import rounding
from crown.stages.kernels.groups.multisets import TREE
from crown.store.codec import NULL, uses_dictionary
from crown.store.dictionary import Dictionary
from plans.payloads.sums import COFACTOR, COUNTS, FEWEST, Sums, Term, Unit, Values, unit
from plans.programs.stages import Aggregate
from plans.types import ONE_WORD_DIGITS, decimal_parts

SumOf = Callable[..., np.ndarray]
"""Returns the sum of a product of arguments, given by name, int64[groups, limbs]."""


@dataclass(slots=True, eq=False)
class Totals:
    """The states of groups: ``rows`` int64[groups, words], the far parts of their sums, and the readings of their
    ordered values."""

    layout: Layout
    rows: np.ndarray
    far: Far
    read: Mapping[Reading, np.ndarray]

    def count(self, term: Term) -> np.ndarray:
        """Returns a term of one limb, int64[groups]."""
        return self.rows[:, self.layout.at[term]]

    def sum(self, term: Term) -> np.ndarray:
        """Returns a term, int64[groups, limbs], without its far part."""
        return self.rows[:, self.layout.place(term)]

    def whole(self, groups: np.ndarray, term: Term) -> np.ndarray:
        """Returns a term of some groups, int64[groups, limbs]. A term of doubles includes its far part, and has its
        unit."""
        layout, near = self.layout, np.ascontiguousarray(self.sum(term)[groups])
        if not layout.doubles[term]:
            return near
        limbs = layout.far_limbs(term)
        found = np.empty((len(groups), limbs), np.int64)
        far_kernels.widen_all(near, layout.limbs[term], layout.doubles[term], limbs, found)
        if term in self.far.sums:
            far_kernels.add_all(found, self.far.sums[term].dense(groups), limbs)
        return found


class OutOfRange(ChangeError):
    """An aggregate of the group at position ``group`` has no value of its type."""

    def __init__(self, group: int, reason: str) -> None:
        self.group = group
        super().__init__(reason)


class NotFinite(OutOfRange):
    """A value of ``column`` is NaN or infinite, which an exact sum cannot represent."""

    def __init__(self, group: int, column: str) -> None:
        self.column = column
        super().__init__(group, f"{column} is NaN or infinite in a row; leave such rows out with WHERE")


class Rule:
    """An aggregate with arguments of the ``types``. Arguments whose sums are ``carried`` have the units ``given``.

    ``reading``: how it reads ordered values; None if it is computed from sums.
    """

    def __init__(
        self, aggregate: Aggregate, types: Mapping[str, str], carried: Container[Term], given: Mapping[str, Unit]
    ) -> None:
        self.aggregate = aggregate
        self._sums = Sums(aggregate, types)
        self.values = self._sums.values
        self.terms = self._sums.terms
        known = bool(self.terms) and all(term in carried for term in self.terms)
        self.reading = reading(aggregate, self.values, types[aggregate.arguments[0]] if aggregate.arguments else "")
        self._counts = aggregate.function in (*COUNTS, COFACTOR)
        self._largest = _root(aggregate.power)
        self._terms: dict[tuple[str, ...], Term] = {}  # by their factors
        units = {name: given[name] if known else unit(types[name]) for name in aggregate.arguments}
        self._near = {name: (bits, digits) for name, (bits, digits, _) in units.items()}
        self._layout: Layout | None = None  # the layout to which the next two attributes refer
        self._count = 0  # the word of the number of counted rows; next: the words of the sum of the arguments
        self._sum = slice(0, 0)
        self._whole = {name: (bits + 64 * FAR_SHIFT * n, digits) for name, (bits, digits, n) in units.items()}

    def _bind(self, layout: Layout) -> None:
        """Looks up the positions of its terms in the states of groups."""
        self._layout, self._count = layout, self.counted(layout)
        whole = self._term(*self._sums.arguments)
        if whole in layout.at:
            self._sum = layout.place(whole)

    def counted(self, layout: Layout) -> int:
        """Returns the word of a group's state that counts the rows that the aggregate reads."""
        return layout.at[self._term()]

    def native(self, layout: Layout) -> list[int] | None:
        """Returns the plan words with which kernels compute the value from a group's state, or None if none does."""
        function, type_ = self.aggregate.function, self.aggregate.type
        if self.reading is not None or (function not in ("sum", "avg") and function not in COUNTS):
            return None
        self._bind(layout)
        if self._counts and self.aggregate.power > 1:
            return [kernels.POWER, self._count, 1, self._count, self._largest, self.aggregate.power]
        if self._counts:
            return [kernels.WORD, self._count]
        at, limbs, count = self._sum.start, self._sum.stop - self._sum.start, self._count
        if type_ == "int64":
            return [kernels.WHOLE, at, limbs, count]
        if type_ != "float64":
            parts = decimal_parts(type_)
            assert parts is not None, "a sum is an int64, a double or a decimal"
            if uses_dictionary(type_):
                return [kernels.WIDE, at, limbs, count]
            return [kernels.SHORT, at, limbs, count, 10 ** parts[0]]
        shift, power = self._near[self._sums.arguments[0]]
        if limbs > kernels.MAX_LIMBS or power > ONE_WORD_DIGITS:
            return None
        sides = [layout.at[term] for term in self._sums.sides(self._sums.arguments[0])] or [-1, -1]
        return [kernels.AVERAGE if function == "avg" else kernels.SUM, at, limbs, count, 10**power, shift, *sides]

    @property
    def refusal(self) -> str:
        """Returns why an aggregate has no value of its type."""
        if self._counts:
            return "the count does not fit a BIGINT; leave such keys out with WHERE"
        parts = decimal_parts(self.aggregate.type)
        if parts is None:
            return 'the sum is no int64; cast the argument to "decimal(38,0)"'
        return f"the sum has more than {parts[0]} digits"

    def summed(self, layout: Layout) -> slice:
        """Returns the words of a group's state with the sum of its argument."""
        return layout.place(self._term(*self._sums.arguments))

    def column(self, totals: Totals, dictionary: Dictionary) -> Column:
        """Returns the values, one per group. Raises OutOfRange."""
        aggregate = self.aggregate
        if self.reading is not None:
            return Column(aggregate.type, dictionary, totals.read[self.reading])
        if self._layout is not totals.layout:
            self._bind(totals.layout)
        count = totals.rows[:, self._count]
        if aggregate.function == COFACTOR:
            self._refuse_not_finite(totals)
        if self._counts and aggregate.power > 1:
            refused = np.flatnonzero(count > self._largest)
            if len(refused):
                raise OutOfRange(int(refused[0]), self.refusal)
            count = count**aggregate.power
        if self._counts:
            return Column(aggregate.type, dictionary, np.ascontiguousarray(count))
        if aggregate.function == "sum" and aggregate.type != "float64":
            return self._exact(totals, count == 0, dictionary)
        values, null = self._rounded(count, lambda *factors: totals.sum(self._term(*factors)), self._near)
        if totals.far.sums and len(groups := totals.far.having(self.terms)):
            values[groups], null[groups] = self._rounded(
                count[groups], lambda *factors: totals.whole(groups, self._term(*factors)), self._whole
            )
        return Column(aggregate.type, dictionary, self._codes(totals, count, values, null))

    def _rounded(self, count: np.ndarray, sums: SumOf, scales: Mapping[str, Scale]) -> Result:
        """Returns the values for finite arguments, and bool[n], True for NULL."""
        function = self.aggregate.function
        if function not in ("sum", "avg"):
            return MOMENTS[function](self._moments(count, sums, scales))
        name = self._sums.arguments[0]
        shift, power = scales[name]
        divisors = count.reshape(-1, 1) if function == "avg" else np.ones((len(count), 1), np.int64)
        return rounded.ratio(sums(name), rounded.scaled(divisors, 10**power), shift), count == 0

    def _codes(self, totals: Totals, count: np.ndarray, values: np.ndarray, null: np.ndarray) -> np.ndarray:
        """Returns values as codes. Infinities and NaN among the arguments have the effect of IEEE arithmetic."""
        function = self.aggregate.function
        if function in ("sum", "avg"):
            sides = self._sums.sides(self._sums.arguments[0])
            if sides:
                plus, minus = (totals.count(term) > 0 for term in sides)
                values[plus], values[minus], values[plus & minus] = np.inf, -np.inf, np.nan
            return rounded.float_codes(values, null)
        few = count < FEWEST.get(function, 1)
        for term in (term for name in self._sums.needs for term in self._sums.sides(name)):
            special = totals.count(term) != 0
            values[special] = np.nan
            null = null & (few | ~special)
        return rounded.float_codes(values, null)

    def exact(self, totals: Totals, *factors: str) -> int | Fraction:
        """Returns the exact sum of a product of arguments (of no argument: the number of rows) in the first group.

        The aggregate must be computed from this sum.
        """
        shift, power = (sum(part) for part in zip((0, 0), *(self._whole[name] for name in factors), strict=True))
        words = totals.whole(np.zeros(1, np.int64), self._term(*factors))[0]
        found = Fraction(int.from_bytes(words.tobytes(), "little", signed=True), 10**power << shift)
        return found.numerator if found.denominator == 1 else found

    def _refuse_not_finite(self, totals: Totals) -> None:
        """Raises NotFinite for a group with NaN or an infinity."""
        for name in self._sums.needs:
            for side in self._sums.sides(name):
                found = totals.count(side) != 0
                if found.any():
                    raise NotFinite(int(found.argmax()), name)

    def _term(self, *factors: str) -> Term:
        """Returns the sum of a product of arguments."""
        term = self._terms.get(factors)
        if term is None:
            term = self._terms[factors] = self._sums.term(*sorted(factors))
        return term

    def _exact(self, totals: Totals, null: np.ndarray, dictionary: Dictionary) -> Column:
        """Returns SUM of integers or decimals."""
        rows, type_ = totals.rows[:, self._sum], self.aggregate.type
        if type_ == "int64":
            codes, refused = _words(rows, null)
            if refused >= 0:
                raise OutOfRange(refused, self.refusal)
            return Column(type_, dictionary, codes)
        parts = decimal_parts(type_)
        assert parts is not None, "a sum is an int64, a double or a decimal"
        codes, refused = rounded.decimals(rows, null, parts[0], dictionary.intern if uses_dictionary(type_) else None)
        if refused >= 0:
            raise OutOfRange(refused, self.refusal)
        return Column(type_, dictionary, codes)

    def _moments(self, count: np.ndarray, sums: SumOf, scales: Mapping[str, Scale]) -> Moments:
        y, x = self._sums.arguments[0], self._sums.arguments[-1]
        return Moments(count, cache(lambda i, j: sums(*[x] * i, *[y] * j)), scales[x], scales[y])


def _root(power: int) -> int:
    """Returns the largest integer whose power is an int64."""
    largest = round(float(1 << 63) ** (1 / power))
    while largest**power >= 1 << 63:
        largest -= 1
    return largest


def _words(rows: np.ndarray, null: np.ndarray) -> tuple[np.ndarray, int]:
    """Returns integers as codes of int64, and the first row that does not fit, or -1."""
    rows = np.ascontiguousarray(rows)
    out = np.empty(len(rows), np.int64)
    refused = int(rounding.narrow(rows, rows.shape[1], out))
    if np.count_nonzero(null):  # a tenth of the time of `any`
        out[null] = NULL
    return out, refused


def kept_in_order(rules: Sequence[Rule]) -> dict[Values, int]:
    """Returns the multisets that aggregates read, and how their values are stored in order. A tree serves all
    readings."""
    found: dict[Values, int] = {}
    for rule in rules:
        if rule.values is not None:
            found[rule.values] = found.get(rule.values, 0) | (0 if rule.reading is None else rule.reading.kept)
    return {values: TREE if kept & TREE else kept for values, kept in found.items()}
