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
from crown.stages.orders import of_worths, worths
from crown.store.dictionary import Dictionary
from plans.programs import frames
from plans.programs.frames import WindowFunction
from plans.programs.stages import Aggregate
from plans.schema import Column as Declared
from plans.types import in_a_word

LookedFor = tuple[str, str, str | None]
"""MIN or MAX, its argument, and the filter of its rows."""


def looked_for(one: WindowFunction) -> LookedFor:
    """Returns what MIN or MAX looks for."""
    return one.function, one.arguments[0], one.where


class Sums:
    """The sums that the aggregates among window functions are made of, and the words of a row in a tree.

    Word ``far`` counts rows with a double that is far: of those the tree's sums lack a part. ``counts`` are the words
    that count the rows of a filter below which a function picks one. Word ``opening`` counts the rows that open a
    session, -1: there are none; ``session``: what makes them (see ``crown.stages.kernels.over.sessions``), for
    DENSE_RANK that rows are peers, by so many columns of the order, ``ordered``. Trees write that word: a row does not
    know by itself whether it opens one. ``best`` are the words of which a tree has the greatest: what MIN and MAX look
    for, in frames without a bound (``worths``). ``meant``: what the columns are in the query, for messages.
    """

    def __init__(
        self,
        functions: Sequence[WindowFunction],
        columns: Sequence[Declared],
        dictionary: Dictionary,
        meant: Mapping[str, str],
        ordered: int = 0,
    ) -> None:
        self._columns = columns
        self._dictionary = dictionary
        self._meant = meant
        types = {column.name: column.type for column in columns}
        own = (*frames.OWN, *frames.ENDS, *frames.CHOSEN)
        made = [one for one in functions if one.function not in own]
        self.rules = {one.name: Rule(Aggregate.of(one), types, (), {}) for one in made}
        terms = [term for one in made if not one.gathered for term in self.rules[one.name].terms]
        self.layout = Layout(terms, types, {})
        self._addends = Addends(self.layout.placed(self.layout.terms), types)
        self.far = self.layout.words if terms else None
        filters = [one.where for one in functions if one.function in frames.PICKED and one.where is not None]
        first = self.layout.words + 1 if terms else 0
        self.counts = {where: first + i for i, where in enumerate(dict.fromkeys(filters))}
        ends = [one for one in functions if one.function in frames.ENDS and one.frame and not one.frame.bounded]
        looked = dict.fromkeys(looked_for(one) for one in ends if in_a_word(types[one.arguments[0]]))
        self.place = {column.name: i for i, column in enumerate(columns)}
        runs = {(self.place[one.arguments[0]], one.count) for one in functions if one.function in frames.SESSIONS}
        runs |= {(-1, ordered) for one in functions if one.function == "dense_rank"}
        assert len(runs) < 2, "a stage has sessions of one gap, or ranks"
        self.opening = first + len(self.counts) if runs else -1
        self.session = np.array([*(*runs, (-1, 0))[0], self.opening], np.int64)
        self.best = {what: first + len(self.counts) + len(runs) + i for i, what in enumerate(looked)}
        self.words = first + len(self.counts) + len(runs) + len(self.best)
        numbers = [*self.layout.places.reshape(-1, 2).tolist(), [self.far, 1]] if terms else []
        numbers += [[word, 1] for word in (*self.counts.values(), *([self.opening] if runs else []))]
        numbers += [[word, 0] for word in self.best.values()]
        self.numbers = np.array([len(columns), self.words, len(numbers), *np.array(numbers, np.int64).flat], np.int64)
        summed = [one for one in functions if one.name in self.rules or one.where in self.counts or one in ends]
        summed = [one for one in summed if not one.gathered]
        unbounded = [one for one in summed if one.frame and not one.frame.bounded]
        none = np.array([len(columns), 0, 0], np.int64)
        self.shape = self.numbers if unbounded or runs else none  # of the rows in a tree
        self.tails = any(one.frame is not None and one.frame.end is None for one in unbounded if not one.from_row)

    def column(self, one: WindowFunction, totals: Totals) -> np.ndarray:
        """Returns the codes of an aggregate out of its sums. Raises ChangeError if one leaves its type."""
        try:
            return self.rules[one.name].column(totals, self._dictionary).codes
        except OutOfRange as error:
            said = ", ".join(self._meant.get(name, name) for name in one.arguments)
            raise ChangeError(f"the window function {one.function.upper()}({said}): {error}") from None

    def summed(self, one: WindowFunction) -> slice:
        """Returns which words are what SUM adds up."""
        return self.rules[one.name].summed(self.layout)

    def of(self, codes: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, Far]:
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
        for what, word in self.best.items():
            out[:, word] = np.where(weights > 0, self.worths(what, codes), 0)
        return out, far

    def worths(self, what: LookedFor, codes: np.ndarray) -> np.ndarray:
        """Returns the words of rows (codes, int64[width, n]) that MIN or MAX compares."""
        function, argument, where = what
        at = self.place[argument]
        found = worths(codes[at], self._columns[at].type, function)
        return found if where is None else np.where(codes[self.place[where]] == 1, found, 0)

    def best_codes(self, one: WindowFunction, sums: np.ndarray) -> np.ndarray:
        """Returns the codes of MIN or MAX out of sums, int64[n, words]; NULLs where a tree does not know."""
        what = looked_for(one)
        if what not in self.best or not sums.shape[1]:
            return np.full(len(sums), NULL, np.int64)
        type_ = next(column.type for column in self._columns if column.name == what[1])
        return of_worths(sums[:, self.best[what]], type_, what[0])
