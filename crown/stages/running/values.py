"""Values of running functions: each is a sum over the rows before a position of the partition.

These are ROW_NUMBER, RANK, and exact COUNT and SUM from the first row on (``WindowFunction.running``). Their values do
not depend on the rows near a row, so the value of a row costs one search for a position.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crown.kernels.batches import slots_of_net
from crown.stages.groups.aggregates import Totals
from crown.stages.groups.far import Far
from crown.stages.kernels.over import partitions as kernels
from crown.stages.kernels.over import surveys, unfolding
from crown.stages.kernels.trees.ordered import BEHIND, FIRST
from crown.stages.over.sums import Sums
from crown.stages.trees import Partitions
from crown.store.codec import uses_dictionary
from crown.store.zset import SECRET
from plans.programs.frames import WindowFunction
from plans.types import decimal_parts

_MOST, _MOST_SHORT = 2**63 - 1, 2**61 - 1


class NotShort(Exception):
    """No kernel computes the value of a function: only the dictionary can store a sum, or a double is far."""


class Running:
    """The running ``functions`` of the rows in ``trees``. Rows with equal first ``peer_columns`` columns of the order
    are peers."""

    def __init__(
        self,
        functions: Sequence[WindowFunction],
        peer_columns: int,
        sums: Sums,
        trees: Partitions,
    ) -> None:
        self.functions = functions
        self.peer_columns = peer_columns
        self.sums = sums
        self.trees = trees

    @property
    def needs_peers(self) -> bool:
        """Returns whether a value depends on which rows are peers."""
        return any(call.function == "rank" or (call.frame is not None and call.frame.peers) for call in self.functions)

    def count_word(self, call: WindowFunction) -> int:
        """Returns the word of the sums that counts the rows of SUM, COUNT or DENSE_RANK."""
        if call.function == "dense_rank":
            return self.sums.opening
        return self.sums.rules[call.name].counted(self.sums.layout)

    def summed_words(self, call: WindowFunction) -> slice:
        """Returns the words of the sums that hold the result of COUNT, SUM or DENSE_RANK."""
        if call.function == "sum":
            return self.sums.summed(call)
        return slice(self.count_word(call), self.count_word(call) + 1)

    @property
    def fits_words(self) -> bool:
        """Returns whether each value is a number of rows, or a sum of words."""
        sums = [self.sums.summed(call) for call in self.functions if call.function == "sum"]
        return all(words.stop - words.start == 2 for words in sums)

    @property
    def distinguishing(self) -> np.ndarray:
        """Returns the columns that are equal in peers."""
        return np.append(self.trees.keyed(1)[: self.trees.k], self.trees.spec[: 4 * self.peer_columns : 4])

    def encoded(self) -> np.ndarray:
        """Returns the functions for kernels, int64[functions, words] (see ``kernels.unfolding``)."""
        found = np.zeros((len(self.functions), unfolding.FUNCTION_WORDS), np.int64)
        for i, call in enumerate(self.functions):
            if call.frame is None:
                number = call.function == "row_number"
                found[i, :2] = (unfolding.NUMBER, 0) if number else (unfolding.RANK, 1)
                continue
            found[i, :3] = unfolding.COUNT, int(call.frame.peers), self.count_word(call)
            if call.function == "sum":
                digits, wide = decimal_parts(call.type), uses_dictionary(call.type)
                maximum = _MOST if digits is None else _MOST_SHORT if wide else 10 ** digits[0] - 1
                found[i, 0] = unfolding.SUM
                found[i, 3:] = self.sums.summed(call).start, self.sums.place[call.arguments[0]], maximum, wide
        return found

    def addends(self, keys: np.ndarray, weights: np.ndarray, surveyed: np.ndarray) -> np.ndarray:
        """Returns the addends of changes of rows (codes, int64[width, n]) to the sums, int64[n, words]. ``surveyed``:
        where the rows are before the batch (see ``crown.stages.kernels.over.surveys``). O(n)."""
        sums, _ = self.sums.addends(keys, weights)
        if self.sums.opening >= 0:
            slots = np.empty(slots_of_net(len(weights)), np.int32)
            surveys.open_peers(
                keys, np.ascontiguousarray(weights), surveyed, self.distinguishing, SECRET, slots,
                np.empty(len(weights), np.int64), self.sums.opening, sums,
            )  # fmt: skip
        return sums

    def raise_overflow(self, number: int, total: np.ndarray) -> None:
        """Raises ChangeError for function ``number``, whose sum leaves its type, or NotShort. ``total``: its count, and
        the two limbs of its sum."""
        call = self.functions[number]
        sums = np.zeros((1, self.sums.words), np.int64)
        sums[0, self.count_word(call)], sums[0, self.sums.summed(call)] = total[0], total[1:]
        self.column(call, sums)
        raise NotShort

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
        stretch = np.repeat(np.arange(len(handles)), lengths)
        positions = np.arange(len(stretch)) - (np.cumsum(lengths) - lengths - lows)[stretch]
        located = _LocatedRows(self, handles, positions, codes, heads, stretch)
        out = np.concatenate([codes, np.empty((len(self.functions), len(stretch)), np.int64)])
        for i, call in enumerate(self.functions, trees.width):
            out[i] = located.values(call)
        return out if (lows == firsts).all() else out[:, positions >= firsts[stretch]]

    def column(self, call: WindowFunction, sums: np.ndarray) -> np.ndarray:
        """Returns the codes of COUNT, SUM or DENSE_RANK from sums, int64[n, words]. Raises ChangeError if one leaves
        its type."""
        if call.function == "dense_rank":
            return sums[:, self.sums.opening]
        layout = self.sums.layout
        totals = Totals(layout, np.ascontiguousarray(sums[:, : layout.words]), Far(layout, len(sums)), {})
        return self.sums.column(call, totals)


class _LocatedRows:
    """Rows of stretches with their positions. ``stretch``: the number of the stretch of each row. ``heads``: the sums
    before the first row of each stretch."""

    def __init__(
        self,
        running: Running,
        handles: np.ndarray,
        positions: np.ndarray,
        codes: np.ndarray,
        heads: np.ndarray,
        stretch: np.ndarray,
    ) -> None:
        self._running = running
        self._handles, self._positions, self._codes = handles[stretch], positions, codes
        self._heads, self._stretch = heads, stretch
        self._sums: dict[str, np.ndarray] = {}  # up to the row, by the unit of the frame

    def values(self, call: WindowFunction) -> np.ndarray:
        """Returns the codes of a function."""
        if call.function == "row_number":
            return self._positions + 1
        if call.function == "rank":
            return self._edge(FIRST) + 1
        assert call.frame is not None, "it reads a frame"
        unit = call.frame.unit
        if unit not in self._sums:
            self._sums[unit] = self._to_row() if unit == "rows" else self._to_peers()
        return self._running.column(call, self._sums[unit])

    def _edge(self, mode: int) -> np.ndarray:
        return self._running.trees.located(self._handles, self._codes, self._running.peer_columns, mode)[0]

    def _to_peers(self) -> np.ndarray:
        """Returns the sums up to the last peer of each row."""
        ends = self._edge(BEHIND)
        return self._running.trees.copied(self._handles, ends, ends, self._running.sums.shape)[1]

    def _to_row(self) -> np.ndarray:
        """Returns the sums up to each row, itself included.

        Computes running sums over one list: per stretch, the sums before it, then the addends of its rows.
        """
        sums, stretch = self._running.sums, self._stretch
        addends, _ = sums.addends(self._codes, np.ones(len(stretch), np.int64))
        listed = np.zeros((len(stretch) + len(self._heads), sums.words), np.int64)
        listed[np.arange(len(stretch)) + stretch + 1] = addends
        begins = np.searchsorted(stretch, np.arange(len(self._heads))) + np.arange(len(self._heads))
        listed[begins] = self._heads
        running, out = np.empty((len(listed) + 1, sums.words), np.int64), np.zeros_like(addends)
        kernels.prefix_sums(listed, sums.numbers, running)
        kernels.add_range_sums(running, sums.numbers, begins[stretch], np.arange(len(stretch)) + stretch + 2, out)
        return out
