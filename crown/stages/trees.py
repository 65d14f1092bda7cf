"""Ordered rows of stages: trees of one layout, several orders of the same rows, one tree per partition.

Holds the arguments that kernels take for a tree, and the operations that all stages share: read it in order, mark its
values, check it. A stage with sums in its trees, or one that reads while it changes, has its own kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from crown.errors import ChangeError
from crown.kernels.memory.arena import H_STEPS, T_COUNT, T_TALLIES
from crown.stages.kernels.groups import groups
from crown.stages.kernels.over import partitions as kernels
from crown.stages.kernels.over import surveys
from crown.stages.kernels.retained import change
from crown.stages.kernels.trees import greatest, orders
from crown.stages.kernels.trees.ahead import ROOM
from crown.stages.kernels.trees.ordered import DEPTH
from crown.stages.kernels.trees.scan import LEAVES
from crown.stages.protocol import Part
from crown.store.codec import uses_dictionary
from crown.store.zset import Zset

Addends = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Returns the addends of rows, given by codes and weights, to the sums of a tree: int64[n, words]."""
_SCANNED = 1 << 12
_MOST = 1 << 62
_SORTED = 512  # rows of a batch from which sorting them pays
_MANY = 4  # and rows of the batch per tree


class Trees:
    """Trees of rows of these ``types`` in a part, of the order ``spec`` (see ``crown.stages.kernels.trees.nodes``).

    A handle identifies a tree: its root is in the word ``k`` words after the handle. ``shape``: the sums of its rows.
    ``session``: the columns that define sessions (see ``crown.stages.kernels.over.sessions``).
    """

    def __init__(
        self,
        part: Part,
        types: Sequence[str],
        spec: np.ndarray,
        k: int = 0,
        shape: np.ndarray | None = None,
        session: np.ndarray | None = None,
    ) -> None:
        self.part = part
        self.width = len(types)
        self.spec = spec
        self.k = k
        self.shape = np.array([self.width, 0, 0], np.int64) if shape is None else shape
        self.unsummed = np.array([*self.shape[:2], 0], np.int64)  # the same shape for reading without sums
        self.session = np.array([-1, 0, -1], np.int64) if session is None else session
        self.path = np.zeros(2 * DEPTH + int(self.shape[1]) + ROOM, np.int64)  # kernels store the path to a row here
        self._each = np.arange(max(self.width, 1), dtype=np.int64)
        self._marked = [i for i, type_ in enumerate(types) if uses_dictionary(type_)]

    def together(self, net: Zset, trees: int, first: int = 0) -> Zset:
        """Returns rows sorted so that neighbours often share a leaf, if there are many rows per tree, else the rows
        unchanged. The columns of the trees begin at column ``first``. O(n log n)."""
        if (
            len(net) < self.sorted_from(trees)
            or not len(self.spec)
            or self.spec[1] not in (orders.BY_WORD, orders.BY_FLOAT)
        ):
            return net
        order = np.argsort(net.columns()[first + int(self.spec[0])])
        return Zset.of_columns(np.take(net.columns(), order, axis=1), net.weights[order])

    def sorted_from(self, trees: int) -> int:
        """Returns the number of rows from which rows for so many trees are sorted first."""
        return max(_SORTED, _MANY * trees)

    def strides(self, n: int) -> np.ndarray:
        """Returns the offsets of the columns of ``n`` rows, int64[width, n] in one piece."""
        return self._each * n

    def sizes(self, handles: np.ndarray) -> np.ndarray:
        """Returns the number of rows of each tree, with copies; 0 for handle 0. O(1) each."""
        out = np.empty(len(handles), np.int64)
        kernels.sizes(self.part.arena, handles, self.k, out)
        return out

    def located(self, handles: np.ndarray, keys: np.ndarray, columns: int, mode: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the number of copies before rows in trees, by the first ``columns`` of the order, and the copies of
        the rows (see ``ordered.locate``); 0 for handle 0. O(log n) each."""
        ranks, copies = np.zeros_like(handles), np.zeros_like(handles)
        kernels.locate_all(
            self.part.arena, handles, self.k, self.spec, columns, mode, self.strides(len(handles)), self.shape,
            np.ascontiguousarray(keys), *self.part.dictionary.memory, self.path, ranks, copies,
        )  # fmt: skip
        return ranks, copies

    def numbered(self, handles: np.ndarray, word: int, numbers: np.ndarray) -> np.ndarray:
        """Returns the positions of rows from their numbers among the rows that a word of the sums counts. O(log n)
        each."""
        out = np.empty_like(numbers)
        kernels.positions_of(self.part.arena, handles, self.k, self.shape, word, numbers, out)
        return out

    def ahead(self, handles: np.ndarray, positions: np.ndarray, word: int, threshold: np.ndarray) -> np.ndarray:
        """Returns, for each start position, the position of the first row from there whose word is at least
        ``threshold``; the size of the tree if there is none (see ``crown.stages.kernels.trees.greatest``). O(log n)
        each."""
        out = np.empty_like(positions)
        greatest.first_at_least(self.part.arena, handles, self.k, self.shape, word, positions, threshold, out)
        return out

    def back(self, handles: np.ndarray, positions: np.ndarray, word: int, threshold: np.ndarray) -> np.ndarray:
        """Returns, for each end position, the position after the last row before it whose word is at least
        ``threshold``; 0 if there is none. O(log n) each."""
        out = np.empty_like(positions)
        greatest.last_at_least(self.part.arena, handles, self.k, self.shape, word, positions, threshold, out)
        return out

    def maximum_from(self, handles: np.ndarray, positions: np.ndarray, word: int) -> np.ndarray:
        """Returns the maximum of a word over the rows from each position to the end; 0 if there are none. O(log n)
        each."""
        out = np.empty_like(positions)
        greatest.maximum_from(self.part.arena, handles, self.k, self.shape, word, positions, out)
        return out

    def at(self, handles: np.ndarray, positions: np.ndarray, column: int) -> np.ndarray:
        """Returns a column of the rows at positions of trees (from 0, with copies), and NULL after the last row. O(log
        n) each."""
        out = np.empty(len(handles), np.int64)
        kernels.codes_at(
            self.part.arena, handles, self.k, self.unsummed, np.ascontiguousarray(positions), column, self.path, out
        )  # fmt: skip
        return out

    def copied(
        self, handles: np.ndarray, firsts: np.ndarray, ends: np.ndarray, shape: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the rows in ranges of positions of trees, each copy separately, codes, int64[width, n], and the sums
        of the rows before each range, int64[trees, words] of a ``shape``. O(log n + rows) each. Each range must begin
        at the first copy of a row."""
        lengths = ends - firsts
        starts = np.cumsum(lengths) - lengths
        rows = np.empty((self.width, int(lengths.sum())), np.int64)
        heads = np.empty((len(handles), int(shape[1])), np.int64)
        last = np.zeros(LEAVES + int(shape[1]), np.int64)
        kernels.copy_rows(self.part.arena, handles, self.k, shape, firsts, ends, starts, last, rows, heads)
        return rows, heads

    def sums_before(self, handles: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Returns the sums of the rows before positions of trees, int64[n, words]. O(log n) each."""
        return self.copied(handles, positions, positions, self.shape)[1]

    def row(self, handles: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Returns the rows at some positions of trees, codes, int64[width, n]. O(log n) each."""
        return self.copied(handles, positions, positions + 1, self.unsummed)[0]

    def rows(self, handles: np.ndarray, offset: int = 0, end: int = _MOST) -> Iterator[Zset]:
        """Yields the rows at positions ``offset`` to ``end`` of each tree, tree by tree, in order, with their copies.
        O(log n) per tree, O(1) per row."""
        cursor = np.array([0, offset], np.int64)
        while cursor[0] < len(handles):
            rows, weights = np.empty((_SCANNED, self.width), np.int64), np.empty(_SCANNED, np.int64)
            m = kernels.scan(self.part.arena, handles, self.k, self.shape, cursor, offset, end, rows, weights)
            yield Zset(rows[:m], weights[:m])

    @property
    def refers(self) -> bool:
        """Returns True if rows may reference the dictionary."""
        return bool(self._marked)

    def mark_values(self, handles: np.ndarray) -> None:
        """Marks every value in the dictionary that the rows of trees reference. O(rows)."""
        for column in self._marked:
            out = np.empty(0, np.int64)
            while True:
                found = int(
                    kernels.codes_of(self.part.arena, handles, self.k, self.shape, column, self.path, out)
                )  # fmt: skip
                if found <= len(out):
                    break
                out = np.empty(found, np.int64)
            self.part.dictionary.mark_codes(out[:found])

    def check_invariants(self, handles: np.ndarray) -> np.ndarray:
        """Returns the number of different rows of each tree. Raises AssertionError for an invalid tree. O(rows)."""
        out = np.empty(len(handles), np.int64)
        kernels.check(
            self.part.arena, self.k, self.spec, self.strides(1), self.shape, self.session, handles,
            *self.part.dictionary.memory, self.path, out,
        )  # fmt: skip
        assert (out >= 0).all(), "the rows are not in order, or have wrong sums"
        return out


class OrderedRows:
    """Rows of a part with their copies, in one or several orders. ``trees``: for each order the word with its root.

    All trees have the same rows. A change is applied to all of them or to none.
    """

    def __init__(self, trees: Sequence[tuple[int, Trees]]) -> None:
        self.trees = tuple(trees)
        _, first = self.trees[0]
        self.width = first.width
        self._part = first.part
        self._root = np.array([self.trees[0][0]], np.int64)

    def change(self, events: Zset) -> np.ndarray:
        """Adds copies of rows, of which none may fall below 0. Returns the effective changes (int64[n]).

        ``events``: different rows, or inserts only. Raises MemoryBudgetError, with nothing changed. O(log n) each.
        """
        n, keys, weights = len(events), np.ascontiguousarray(events.columns()), np.ascontiguousarray(events.weights)
        taken = np.zeros(n, np.int64)

        def back(number: int, done: int) -> None:
            for tree in range(number + 1):
                inverse = np.where(np.arange(n) < done, -taken, 0) if tree == number else -taken
                self._part.run_rows(n, self._step(tree, keys, inverse, np.zeros_like(taken)), lambda _: None)

        for number in range(len(self.trees) if n else 0):
            self._part.run_rows(n, self._step(number, keys, weights, taken), partial(back, number))
        return taken

    def _step(self, number: int, keys: np.ndarray, weights: np.ndarray, taken: np.ndarray) -> Callable[[int], int]:
        """Returns a function that changes one tree, beginning at a given row."""
        (root, trees), part, n = self.trees[number], self._part, len(weights)
        return lambda done: change(
            part.arena, root, trees.shape, trees.spec, trees.strides(n), keys, weights, *part.dictionary.memory,
            trees.path, taken, done,
        )  # fmt: skip

    def scan(self) -> Iterator[Zset]:
        """Yields the rows in the first order, with their copies. O(1) per row."""
        return self.trees[0][1].rows(self._root)

    def mark_values(self) -> None:
        """Marks every value in the dictionary that the rows reference. O(rows)."""
        self.trees[0][1].mark_values(self._root)

    def check_invariants(self) -> None:
        """Raises AssertionError unless the rows are in order, and the same in every order. O(rows log rows)."""
        expected: list[tuple[tuple[int, ...], int]] | None = None
        for root, trees in self.trees:
            (distinct,) = trees.check_invariants(np.array([root], np.int64))
            found = Zset.gathered(list(trees.rows(np.array([root], np.int64))), self.width)
            rows = list(zip(map(tuple, found.rows.tolist()), found.weights.tolist(), strict=True))
            assert distinct == len(dict(rows)) == len(rows), "a row is stored twice"
            assert all(n > 0 for _, n in rows), "a row without copies is stored"
            assert expected is None or sorted(rows) == expected, "the orders have different rows"
            expected = sorted(rows)


class Partitions(Trees):
    """Partitions of a stage's rows. A record of a table has the key of a partition, the columns ``keyed``, and its
    tree.

    ``table``: a header word. The table counts the different rows, and all copies.
    """

    def __init__(
        self,
        part: Part,
        table: int,
        types: Sequence[str],
        keyed: Sequence[int],
        spec: np.ndarray,
        shape: np.ndarray | None = None,
        session: np.ndarray | None = None,
    ) -> None:
        super().__init__(part, types, spec, len(keyed), shape, session)
        self.table = table
        self._keyed = np.array([*keyed, 0], np.int64)

    def __len__(self) -> int:
        """Returns the number of different rows."""
        return int(self.part.arena[self.table + T_TALLIES])

    @property
    def copies(self) -> int:
        """Returns the number of rows, with copies."""
        return int(self.part.arena[self.table + T_TALLIES + 1])

    @property
    def count(self) -> int:
        """Returns the number of partitions."""
        return int(self.part.arena[self.table + T_COUNT])

    def keyed(self, n: int) -> np.ndarray:
        """Returns the offsets of the key columns among the columns of ``n`` rows."""
        return self._keyed * n

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Returns the handles of the partitions of rows, int64[width, n]; 0 if there is none. O(1) each."""
        n = keys.shape[1]
        out = np.empty(n, np.int64)
        kernels.find_all(self.part.arena, self.table, self.keyed(n), self.k, np.ascontiguousarray(keys), out)
        return out

    def change(self, net: Zset, addends: Addends, done: np.ndarray, clause: str) -> None:
        """Adds copies of rows, and their sums, which ``addends`` computes from codes, int64[width, n], and weights.
        ``done`` receives the progress. O(log n) each.

        Raises MemoryBudgetError, and ChangeError for a delete of an absent row. ``clause``: ends its message.
        """
        n, keys, weights = len(net), np.ascontiguousarray(net.columns()), np.ascontiguousarray(net.weights)
        sums = addends(keys, weights) if self.shape[1] else np.empty((n, 0), np.int64)

        def step() -> int:
            return int(
                kernels.change(
                    self.part.arena, self.table, self.keyed(n), self.k, self.spec, self.strides(n), self.shape,
                    self.session, keys, weights, sums, *self.part.dictionary.memory, self.path, done,
                )
            )  # fmt: skip

        self.run_until_done(step, clause)

    def run_until_done(self, step: Callable[[], int], clause: str) -> None:
        """Calls ``step``, a kernel that changes rows (see ``partitions.change``), until all of them are changed. Raises
        the errors of ``change``."""

        def work() -> bool:
            found = step()
            if found == kernels.ABSENT:
                raise ChangeError(f"a batch deletes an absent row {clause}")
            return found == kernels.DONE

        self.part.run_until_done(work)

    def places(self, keys: np.ndarray) -> np.ndarray:
        """Returns the places of rows, int64[width, n], present or not: int64[words, n], see ``partitions.place``. O(log
        n) each."""
        n = keys.shape[1]
        out = np.empty((kernels.PLACE_WORDS, n), np.int64)
        kernels.place(
            self.part.arena, self.table, self.keyed(n), self.k, self.spec, self.strides(n), self.shape,
            np.ascontiguousarray(keys), *self.part.dictionary.memory, self.path, out,
        )  # fmt: skip
        return out

    def survey(self, keys: np.ndarray, distinguished: int, peers: int) -> np.ndarray:
        """Returns the places of rows, int64[width, n], among their peers: int64[words, n], see ``surveys.survey``.
        O(log n) each."""
        n = keys.shape[1]
        out = np.empty((surveys.SURVEY_WORDS, n), np.int64)
        surveys.survey(
            self.part.arena, self.table, self.keyed(n), self.k, self.spec, distinguished, peers, self.strides(n),
            self.shape, np.ascontiguousarray(keys), *self.part.dictionary.memory, self.path, out,
        )  # fmt: skip
        return out

    def blocks(self) -> Iterator[np.ndarray]:
        """Yields the handles of all partitions, block by block."""
        slot = 0
        while slot >= 0:
            handles = np.empty(_SCANNED, np.int64)
            slot, n = groups.scan(self.part.arena, self.table, slot, handles)
            yield handles[:n]

    def mark_all(self) -> None:
        """Marks every value in the dictionary that the rows reference. O(rows)."""
        for handles in self.blocks() if self._marked else ():
            self.mark_values(handles)

    def check_all(self) -> None:
        """Raises AssertionError unless every partition has its rows in order, and the counts match. O(rows)."""
        found = copies = 0
        for handles in self.blocks():
            sizes = self.check_invariants(handles)
            assert (sizes > 0).all(), "an empty partition is stored"
            found += int(sizes.sum())
            copies += int(self.sizes(handles).sum())
        assert (found, copies) == (len(self), self.copies), "the rows do not match their counter"


class InOrder:
    """The common methods of stages with ordered rows, in one part with one tree per partition."""

    _part: Part
    trees: Partitions

    def mark_values(self) -> None:
        """Marks every value in the dictionary that the rows reference. O(rows)."""
        self.trees.mark_all()

    def check_invariants(self) -> None:
        """Raises AssertionError if an invariant of the trees does not hold."""
        self.trees.check_all()

    def stats(self) -> dict[str, Any]:
        """Returns the number of partitions, of distinct rows, and of tree entries that changes have read."""
        steps = int(self._part.arena[H_STEPS])
        return {"groups": self.trees.count, "rows": len(self.trees), "steps": steps}
