"""Sums of window functions: the words that each row adds to a tree, and values from their totals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from crown.errors import ChangeError
from crown.kernels.strings import NULL
from crown.results.columns import Frame
from crown.stages.groups.addends import Addends
from crown.stages.groups.aggregates import OutOfRange, Rule, Totals
from crown.stages.groups.far import Far
from crown.stages.groups.terms import Layout
from crown.stages.orders import codes_of_extremum_keys, extremum_keys
from crown.store.dictionary import Dictionary
from plans.programs import frames
from plans.programs.frames import WindowFunction
from plans.programs.stages import Aggregate
from plans.schema import Column as Declared
from plans.types import in_a_word

Extremum = tuple[str, str, str | None]
"""MIN or MAX, its argument, and the filter of its rows."""


def extremum_of(call: WindowFunction) -> Extremum:
    """Returns the key of a call of MIN or MAX. Calls with equal keys have equal values in equal frames."""
    return call.function, call.arguments[0], call.where


class Sums:
    """The sums from which the aggregates among window functions are computed, and the words of a row in a tree.

    Word ``far`` counts the rows with a far double: the tree's sums lack a part of it. ``counts``: per filter of a
    function that picks a row, the word that counts the rows that pass. Word ``opening`` counts the rows that open a
    session; -1 if there are none. ``session`` defines sessions (see ``crown.stages.kernels.over.sessions``). For
    DENSE_RANK, a session is a group of peers, by the first ``ordered`` columns of the order. Trees write this word,
    because it depends on the row before. ``extrema``: per MIN or MAX over frames without a bound, the word whose
    maximum the tree stores (``extremum_keys``). ``expressions``: the expression of each column in the query, for
    messages.
    """

    def __init__(
        self,
        functions: Sequence[WindowFunction],
        columns: Sequence[Declared],
        dictionary: Dictionary,
        expressions: Mapping[str, str],
        ordered: int = 0,
    ) -> None:
        self._columns = columns
        self._dictionary = dictionary
        self._expressions = expressions
        types = {column.name: column.type for column in columns}
        without_sums = (*frames.OWN, *frames.ENDS, *frames.CHOSEN)
        aggregates = [call for call in functions if call.function not in without_sums]
        self.rules = {call.name: Rule(Aggregate.of(call), types, (), {}) for call in aggregates}
        terms = [term for call in aggregates if not call.gathered for term in self.rules[call.name].terms]
        self.layout = Layout(terms, types, {})
        self._addends = Addends(self.layout.placed(self.layout.terms), types)
        self.far = self.layout.words if terms else None
        filters = [call.where for call in functions if call.function in frames.PICKED and call.where is not None]
        first = self.layout.words + 1 if terms else 0
        self.counts = {where: first + i for i, where in enumerate(dict.fromkeys(filters))}
        ends = [call for call in functions if call.function in frames.ENDS and call.frame and not call.frame.bounded]
        extrema = dict.fromkeys(extremum_of(call) for call in ends if in_a_word(types[call.arguments[0]]))
        self.place = {column.name: i for i, column in enumerate(columns)}
        openings = {
            (self.place[call.arguments[0]], call.count) for call in functions if call.function in frames.SESSIONS
        }
        openings |= {(-1, ordered) for call in functions if call.function == "dense_rank"}
        assert len(openings) < 2, "a stage has sessions of one gap, or ranks"
        self.opening = first + len(self.counts) if openings else -1
        self.session = np.array([*(*openings, (-1, 0))[0], self.opening], np.int64)
        self.extrema = {extremum: first + len(self.counts) + len(openings) + i for i, extremum in enumerate(extrema)}
        self.words = first + len(self.counts) + len(openings) + len(self.extrema)
        numbers = [*self.layout.places.reshape(-1, 2).tolist(), [self.far, 1]] if terms else []
        numbers += [[word, 1] for word in (*self.counts.values(), *([self.opening] if openings else []))]
        numbers += [[word, 0] for word in self.extrema.values()]
        self.numbers = np.array([len(columns), self.words, len(numbers), *np.array(numbers, np.int64).flat], np.int64)
        summed = [call for call in functions if call.name in self.rules or call.where in self.counts or call in ends]
        summed = [call for call in summed if not call.gathered]
        unbounded = [call for call in summed if call.frame and not call.frame.bounded]
        no_sums = np.array([len(columns), 0, 0], np.int64)
        self.shape = self.numbers if unbounded or openings else no_sums  # of the rows in a tree
        self.tails = any(call.frame is not None and call.frame.end is None for call in unbounded if not call.from_row)

    def recipe(self) -> tuple[np.ndarray, int]:
        """Returns how kernels compute the addends of rows from their columns (see ``Addends``), and the words of
        scratch."""
        types = {column.name: column.type for column in self._columns}
        found = Addends(self.layout.placed(self.layout.terms) if self.far is not None else (), types, self.place)
        return found.recipe, found.room

    def column(self, call: WindowFunction, totals: Totals) -> np.ndarray:
        """Returns the codes of an aggregate from its sums. Raises ChangeError if one leaves its type."""
        try:
            return self.rules[call.name].column(totals, self._dictionary).codes
        except OutOfRange as error:
            arguments = ", ".join(self._expressions.get(name, name) for name in call.arguments)
            raise ChangeError(f"the window function {call.function.upper()}({arguments}): {error}") from None

    def summed(self, call: WindowFunction) -> slice:
        """Returns the words of the sum of SUM."""
        return self.rules[call.name].summed(self.layout)

    def addends(self, codes: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, Far]:
        """Returns the addends of rows (codes, int64[width, n]) times weights, int64[n, words], and their far parts."""
        n = codes.shape[1]
        out, far = np.zeros((n, self.words), np.int64), Far(self.layout, n)
        if self.far is not None:
            places = {column.name: (i, column.type) for i, column in enumerate(self._columns)}
            frame = Frame({}, n, self._dictionary, codes, places)
            near = np.zeros((n, self.layout.words), np.int64)
            self._addends.add(frame, weights, np.arange(n), near, far)
            out[:, : self.far] = near
            if far.sums:
                rows = far.having(self.layout.terms)
                out[rows, self.far] = weights[rows]
        for where, word in self.counts.items():
            out[:, word] = weights * (codes[self.place[where]] == 1)
        for extremum, word in self.extrema.items():
            out[:, word] = np.where(weights > 0, self.extremum_keys(extremum, codes), 0)
        return out, far

    def extremum_keys(self, extremum: Extremum, codes: np.ndarray) -> np.ndarray:
        """Returns the words of rows (codes, int64[width, n]) that MIN or MAX compares."""
        function, argument, where = extremum
        at = self.place[argument]
        found = extremum_keys(codes[at], self._columns[at].type, function)
        return found if where is None else np.where(codes[self.place[where]] == 1, found, 0)

    def extremum_codes(self, call: WindowFunction, sums: np.ndarray) -> np.ndarray:
        """Returns the codes of MIN or MAX from sums, int64[n, words]; NULLs if trees do not store its maximum."""
        extremum = extremum_of(call)
        if extremum not in self.extrema or not sums.shape[1]:
            return np.full(len(sums), NULL, np.int64)
        type_ = next(column.type for column in self._columns if column.name == extremum[1])
        return codes_of_extremum_keys(sums[:, self.extrema[extremum]], type_, extremum[0])
