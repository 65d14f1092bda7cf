"""The exact integers that a group sums, one per *term*, shared by all aggregates that need it.

COUNT, SUM, AVG, VAR, COVAR and related aggregates are functions of a few sums of products of arguments, over the rows
in which certain arguments are not NULL and a filter is TRUE. Each such sum is a term. It is an integer with enough
limbs for 2^63 rows, so it cannot overflow, and does not depend on the order of events. A term of doubles can also have
a far part (``crown.kernels.numbers.fixed``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from crown.kernels.numbers.fixed import FAR_LIMBS
from crown.stages.kernels.groups import sums
from plans.payloads.sums import ROWS, Term, doubles_of, limbs_of


class Placed(NamedTuple):
    """A term, its first word in a group's state, and its limbs."""

    term: Term
    at: int
    limbs: int


class Layout:
    """The positions of the terms of a stage in a group's state: ROWS in word 0, then the others.

    ``carried``: the limbs, and the number of doubles in the product, of terms that are not computed from arguments of
    ``types``.
    """

    def __init__(
        self, terms: Iterable[Term], types: Mapping[str, str], carried: Mapping[Term, tuple[int, int]]
    ) -> None:
        self.terms = tuple(dict.fromkeys([ROWS, *terms]))
        sizes = {t: carried[t] if t in carried else (limbs_of(t, types), doubles_of(t, types)) for t in self.terms}
        self.limbs = {term: limbs for term, (limbs, _) in sizes.items()}
        self.doubles = {term: doubles for term, (_, doubles) in sizes.items()}
        self.at: dict[Term, int] = {}
        self.words = 0
        for term in self.terms:
            self.at[term] = self.words
            self.words += self.limbs[term] + (self.doubles[term] > 0)
        self.places = np.array([(self.at[t], self.limbs[t]) for t in self.terms], np.int64).reshape(-1)

    def placed(self, terms: Iterable[Term]) -> list[Placed]:
        """Returns terms with their positions."""
        return [Placed(term, self.at[term], self.limbs[term]) for term in terms]

    def place(self, term: Term) -> slice:
        """Returns the words of a term."""
        return slice(self.at[term], self.at[term] + self.limbs[term])

    def far_word(self, term: Term) -> int:
        """Returns the word with the handle of the far part of a term of doubles."""
        return self.at[term] + self.limbs[term]

    def far_limbs(self, term: Term) -> int:
        """Returns the limbs of the far part of a term of doubles."""
        return self.limbs[term] + FAR_LIMBS * self.doubles[term]


def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Returns the products of two columns of integers (int64[n, m] and int64[n, k]), int64[n, m + k]. O(n m k)."""
    left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
    m, k = left.shape[1], right.shape[1]
    out = np.empty((len(left), m + k), np.int64)
    sums.products(left, m, right, k, np.empty(2 * (m + k), np.int64), out)
    return out
