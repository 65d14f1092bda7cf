"""What a group adds up: exact integers, one per *term*, shared by all aggregates that need it.

COUNT, SUM, AVG, VAR, COVAR and what follows from them are functions of a few sums of products of arguments over the
rows where none of certain arguments is NULL and a filter is TRUE. Each such sum is a term. It is an integer of as many
limbs as 2^63 rows can need, so it cannot wrap, and does not depend on the order of events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from crown.errors import ChangeError
from crown.kernels.fixed import FLOAT_LIMBS, FLOAT_TOP
from crown.stages.columns import Frame
from crown.stages.kernels import sums
from plans.payloads.sums import ROWS, Term, limbs_of

_INFINITY = 2047 << 52
_MINUS_INFINITY = _INFINITY - 2**63
TOO_LARGE = (
    "is too large to be summed exactly, which takes absolute values below 2^80; leave such rows out with WHERE or "
    "FILTER, or scale the column"
)


class Placed(NamedTuple):
    """A term, its first word in a group's state, and its limbs."""

    term: Term
    at: int
    limbs: int


class Layout:
    """Where the terms of a stage lie in a group's state: ROWS in word 0, then the others.

    ``carried``: the limbs of those that are not added up from arguments of ``types``.
    """

    def __init__(self, terms: Iterable[Term], types: Mapping[str, str], carried: Mapping[Term, int]) -> None:
        self.terms = tuple(dict.fromkeys([ROWS, *terms]))
        self.limbs = {term: carried[term] if term in carried else limbs_of(term, types) for term in self.terms}
        self.at: dict[Term, int] = {}
        self.words = 0
        for term in self.terms:
            self.at[term] = self.words
            self.words += self.limbs[term]
        self.places = np.array([(self.at[t], self.limbs[t]) for t in self.terms], np.int64).reshape(-1)

    def placed(self, terms: Iterable[Term]) -> list[Placed]:
        """Returns terms with their places, worked out once."""
        return [Placed(term, self.at[term], self.limbs[term]) for term in terms]

    def place(self, term: Term) -> slice:
        """Returns the words of a term."""
        return slice(self.at[term], self.at[term] + self.limbs[term])


class Addends:
    """The events of a batch, as the terms need them: each column is lifted, and each filter worked out, once."""

    def __init__(self, frame: Frame, weights: np.ndarray, where: np.ndarray) -> None:
        self._frame = frame
        self._weights = weights
        self._where = where  # number of the group of each event
        self._lifted: dict[str, np.ndarray] = {}
        self._too_large: dict[str, np.ndarray] = {}  # per column where some values are
        self._valid: dict[tuple[tuple[str, ...], str | None], np.ndarray] = {}

    def add(self, terms: Iterable[Placed], deltas: np.ndarray) -> None:
        """Adds the events to ``terms`` of the groups' states, ``deltas`` int64[groups, words]. O(events * terms)."""
        words = deltas.shape[1]
        for term, at, limbs in terms:
            weights = self.weights(term.needs, term.where)
            if term.side:
                weights = weights * _beyond(self._frame[term.of].codes, term.side)
            if not term.factors:
                sums.count(self._where, weights, deltas, words, at)
                continue
            values = self._product(term.factors)
            if self._too_large:
                self._refuse_too_large(term.factors, weights)
            scratch = np.empty(limbs, np.int64)
            sums.accumulate(self._where, weights, values, values.shape[1], scratch, deltas, words, at, limbs)

    def weights(self, needs: tuple[str, ...], where: str | None) -> np.ndarray:
        """Returns the weights (int64[n]) of the events, 0 where an argument is NULL or the filter not TRUE."""
        found = self._valid.get((needs, where))
        if found is None:
            found = self._weights
            if where is not None:
                found = found * (self._frame[where].codes == 1)
            for name in needs:
                valid = self._frame[name].valid()
                found = found if valid is None else found * valid
            self._valid[needs, where] = found
        return found

    def _product(self, factors: tuple[str, ...]) -> np.ndarray:
        values = self._lift(factors[0])
        for name in factors[1:]:
            values = product(values, self._lift(name))
        return values

    def _lift(self, name: str) -> np.ndarray:
        if name not in self._lifted:
            column = self._frame[name]
            self._lifted[name] = self._lift_floats(name) if column.type == "float64" else column.words()
        return self._lifted[name]

    def _lift_floats(self, name: str) -> np.ndarray:
        """Returns a column of doubles in fixed point, int64[n, 4]; NaN, infinities, NULL and what is too large as 0."""
        codes = np.ascontiguousarray(self._frame[name].codes)
        out = np.empty((len(codes), FLOAT_LIMBS), np.int64)
        if sums.lift_floats(codes, out) >= 0:
            self._too_large[name] = too_large(codes.view(np.float64))
        return out

    def _refuse_too_large(self, factors: tuple[str, ...], weights: np.ndarray) -> None:
        """Raises ChangeError if a value that cannot be summed exactly would be."""
        for name in factors:
            if name in self._too_large and (found := self._too_large[name] & (weights != 0)).any():
                value = float(self._frame[name].codes.view(np.float64)[found.argmax()])
                raise ChangeError(f"column {name!r}: {value!r} {TOO_LARGE}")


def _beyond(codes: np.ndarray, side: int) -> np.ndarray:
    """Returns where doubles (their codes) are NaN or the infinity of a sign."""
    nan = np.isnan(codes.view(np.float64))
    return np.asarray(nan | (codes == (_INFINITY if side > 0 else _MINUS_INFINITY)))


def too_large(values: np.ndarray) -> np.ndarray:
    """Returns bool[n]: which doubles are numbers that cannot be summed exactly."""
    return np.asarray(np.isfinite(values) & (np.abs(values) >= 2.0**FLOAT_TOP))


def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Returns the products of two columns of integers (int64[n, m] and int64[n, k]), int64[n, m + k]. O(n m k)."""
    left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
    m, k = left.shape[1], right.shape[1]
    out = np.empty((len(left), m + k), np.int64)
    sums.products(left, m, right, k, np.empty(2 * (m + k), np.int64), out)
    return out
