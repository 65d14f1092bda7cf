"""Values of running functions: each is a sum over the rows before a position of the partition.

These are ROW_NUMBER, RANK, and exact COUNT and SUM from the first row on (``WindowFunction.running``). What other rows
lie around a row does not matter to them, so a row costs as much as finding that place.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crown.stages.groups.aggregates import Totals
from crown.stages.groups.far import Far
from crown.stages.kernels.over import partitions as kernels
from crown.stages.kernels.over import unfolding
from crown.stages.kernels.trees.ordered import BEHIND, FIRST
from crown.stages.over.sums import Sums
from crown.stages.trees import Partitions
from crown.store.codec import uses_dictionary
from plans.programs.frames import WindowFunction
from plans.types import decimal_parts

_MOST = 2**63 - 1


class Running:
    """Running ``functions`` of rows in ``trees`` whose first ``order`` columns make peers."""

    def __init__(
        self,
        functions: Sequence[WindowFunction],
        order: int,
        sums: Sums,
        trees: Partitions,
    ) -> None:
        self.functions = functions
        self.order = order
        self.sums = sums
        self.trees = trees

    @property
    def peers(self) -> bool:
        """Returns whether it matters which rows are peers."""
        return any(one.function == "rank" or (one.frame is not None and one.frame.peers) for one in self.functions)

    def count(self, one: WindowFunction) -> int:
        """Returns which word of the sums counts what SUM adds up, or DENSE_RANK."""
        if one.function == "dense_rank":
            return self.sums.opening
        return self.sums.rules[one.name].counted(self.sums.layout)

    def added(self, one: WindowFunction) -> slice:
        """Returns which words of the sums are what COUNT, SUM or DENSE_RANK adds up."""
        if one.function == "sum":
            return self.sums.summed(one)
        return slice(self.count(one), self.count(one) + 1)

    @property
    def in_words(self) -> bool:
        """Returns whether each value is one word, which is its own code."""
        return all(one.function != "sum" or not uses_dictionary(one.type) for one in self.functions)

    def words(self) -> np.ndarray:
        """Returns the functions as kernels read them, int64[functions, words] (see ``kernels.unfolding``)."""
        found = np.zeros((len(self.functions), unfolding.FUNCTION), np.int64)
        for i, one in enumerate(self.functions):
            if one.frame is None:
                number = one.function == "row_number"
                found[i, :2] = (unfolding.NUMBER, 0) if number else (unfolding.RANK, 1)
                continue
            found[i, :3] = unfolding.COUNT, int(one.frame.peers), self.count(one)
            if one.function == "sum":
                digits = decimal_parts(one.type)
                most = _MOST if digits is None else 10 ** digits[0] - 1
                found[i, 0] = unfolding.SUM
                found[i, 3:] = self.sums.summed(one).start, self.sums.place[one.arguments[0]], most
        return found

    def addends(self, keys: np.ndarray, weights: np.ndarray, peers: np.ndarray) -> np.ndarray:
        """Returns what changes of rows (codes, int64[width, n]) add to the sums, int64[n, words]; ``peers``: how many
        peers each has before the batch. O(n log n) for DENSE_RANK, O(n) otherwise."""
        sums, _ = self.sums.of(keys, weights)
        if self.sums.opening >= 0:
            said = [*self.trees.keyed(1)[: self.trees.k], *self.trees.spec[: 4 * self.order : 4]]
            order = np.lexsort(keys[said])
            new = np.ones(len(order), np.bool_)
            new[1:] = (keys[said][:, order[1:]] != keys[said][:, order[:-1]]).any(axis=0)
            begins = new.nonzero()[0]
            first = order[begins]
            there = peers[first] + np.add.reduceat(weights[order], begins)
            sums[first, self.sums.opening] = (there > 0).astype(np.int64) - (peers[first] > 0)
        return sums

    def refuse(self, number: int, found: np.ndarray) -> None:
        """Raises ChangeError for a function that has a count and a sum (two limbs) that leaves its type."""
        one = self.functions[number]
        sums = np.zeros((1, self.sums.words), np.int64)
        sums[0, self.count(one)], sums[0, self.sums.summed(one)] = found[0], found[1:]
        self.column(one, sums)
        raise AssertionError("a sum that was refused has a value")

    def rows(
        self,
        handles: np.ndarray,
        firsts: np.ndarray,
        ends: np.ndarray,
    ) -> np.ndarray:
        """Returns the rows at positions ``firsts`` to ``ends`` of partitions, with their values: codes, int64[columns
        and functions, n]. O(log n) per row. Raises ChangeError if a sum leaves its type."""
        trees, lows = self.trees, firsts.copy()
        if trees.copies > len(trees):
            kernels.align(trees.part.arena, handles, trees.k, trees.unsummed, lows, 0, trees.path)
        codes, heads = trees.copied(handles, lows, ends, self.sums.shape)
        lengths = ends - lows
        of = np.repeat(np.arange(len(handles)), lengths)
        positions = np.arange(len(of)) - (np.cumsum(lengths) - lengths - lows)[of]
        places = _Places(self, handles, positions, codes, heads, of)
        out = np.concatenate([codes, np.empty((len(self.functions), len(of)), np.int64)])
        for i, one in enumerate(self.functions, trees.width):
            out[i] = places.values(one)
        return out if (lows == firsts).all() else out[:, positions >= firsts[of]]

    def column(self, one: WindowFunction, sums: np.ndarray) -> np.ndarray:
        """Returns the codes of COUNT, SUM or DENSE_RANK out of sums, int64[n, words]. Raises ChangeError if one leaves
        its type."""
        if one.function == "dense_rank":
            return sums[:, self.sums.opening]
        layout = self.sums.layout
        totals = Totals(layout, np.ascontiguousarray(sums[:, : layout.words]), Far(layout, len(sums)), {})
        return self.sums.column(one, totals)


class _Places:
    """Rows of stretches with their positions; ``heads``: the sums before the first row of each stretch; row i is one
    ``of`` them."""

    def __init__(
        self,
        given: Running,
        handles: np.ndarray,
        positions: np.ndarray,
        codes: np.ndarray,
        heads: np.ndarray,
        of: np.ndarray,
    ) -> None:
        self._given = given
        self._handles, self._positions, self._codes = handles[of], positions, codes
        self._heads, self._of = heads, of
        self._sums: dict[str, np.ndarray] = {}  # up to the row, by the unit of the frame

    def values(self, one: WindowFunction) -> np.ndarray:
        """Returns the codes of a function."""
        if one.function == "row_number":
            return self._positions + 1
        if one.function == "rank":
            return self._edge(FIRST) + 1
        assert one.frame is not None, "it reads a frame"
        unit = one.frame.unit
        if unit not in self._sums:
            self._sums[unit] = self._to_row() if unit == "rows" else self._to_peers()
        return self._given.column(one, self._sums[unit])

    def _edge(self, mode: int) -> np.ndarray:
        return self._given.trees.located(self._handles, self._codes, self._given.order, mode)[0]

    def _to_peers(self) -> np.ndarray:
        """Returns the sums up to the last peer of each row."""
        ends = self._edge(BEHIND)
        return self._given.trees.copied(self._handles, ends, ends, self._given.sums.shape)[1]

    def _to_row(self) -> np.ndarray:
        """Returns the sums up to each row, itself included: of the list that has, of each stretch, what is before it,
        and then its rows."""
        sums, of = self._given.sums, self._of
        each, _ = sums.of(self._codes, np.ones(len(of), np.int64))
        listed = np.zeros((len(of) + len(self._heads), sums.words), np.int64)
        listed[np.arange(len(of)) + of + 1] = each
        begins = np.searchsorted(of, np.arange(len(self._heads))) + np.arange(len(self._heads))
        listed[begins] = self._heads
        running, out = np.empty((len(listed) + 1, sums.words), np.int64), np.zeros_like(each)
        kernels.running(listed, sums.numbers, running)
        kernels.between(running, sums.numbers, begins[of], np.arange(len(of)) + of + 2, out)
        return out
