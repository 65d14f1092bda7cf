"""The multisets of a group stage, which DISTINCT and ordered aggregates read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from crown.errors import ChangeError
from crown.kernels.memory.arena import T_COUNT, T_TALLIES
from crown.results.columns import Column, Frame
from crown.stages.groups.addends import Addends, counted
from crown.stages.kernels.groups import heaps
from crown.stages.kernels.groups import multisets as kernels
from crown.stages.kernels.groups import values as native_values
from crown.stages.orders import order_of
from crown.stages.protocol import Part
from crown.stages.trees import Trees
from crown.store.codec import uses_dictionary
from crown.store.zset import Zset
from plans.payloads.sums import Values


@dataclass(frozen=True)
class Multiset:
    """The multiset of ``values``, whose columns have the ``types``. ``place``: the offset of its first word from a
    group.

    ``kept``: TREE for ``trees``, or the sides of its heaps, or 0; in the order ``spec``. ``feed``: the number of the
    feed of the values.
    """

    number: int
    values: Values
    types: tuple[str, ...]
    kept: int
    spec: np.ndarray
    trees: Trees
    place: int
    feed: int

    @property
    def width(self) -> int:
        """Returns the words of a value, including its group and the number of its multiset."""
        return kernels.OWNER + len(self.types)

    def roots(self, handles: np.ndarray) -> np.ndarray:
        """Returns the handles of the trees of groups."""
        return handles + (self.place + kernels.ROOT)


def _spec(values: Values, types: Sequence[str]) -> np.ndarray:
    """Returns the order of values: the declared order, then the argument, which is the first column."""
    order_columns = [(i, one.falling, one.nulls_last) for i, one in enumerate(values.order, 1)]
    words = [[at, order_of(types[at]), falling, last] for at, falling, last in (*order_columns, (0, False, False))]
    return np.array(words, np.int64).reshape(-1)


class NativeValues(NamedTuple):
    """How a kernel stores the values of events: the ``plan`` for ``crown.stages.kernels.groups.values``, its numbers of
    ``multisets`` and ``readings``, the ``columns`` of the events that it reads, and the words of ``scratch``."""

    plan: np.ndarray
    multisets: int
    readings: int
    columns: frozenset[int]
    scratch: int


@dataclass(slots=True, eq=False)
class Events:
    """The events of a feed in a batch: rows as a ``frame``, their weights, and the number of each row's group."""

    frame: Frame
    weights: np.ndarray
    where: np.ndarray


@dataclass
class _Change:
    """Changes of one multiset in a batch. The first ``done`` of them have been applied."""

    multiset: Multiset
    keys: np.ndarray
    weights: np.ndarray
    places: np.ndarray
    done: int = 0


class Multisets:
    """The multisets of all groups, in table ``table`` (a header word) of a stage's part.

    ``kept``: how each multiset stores its values in order. ``place``: the offset of the first multiset from a group.
    ``feed_of``: returns the feed of values.
    """

    def __init__(
        self,
        part: Part,
        table: int,
        kept: Mapping[Values, int],
        types: Mapping[str, str],
        place: int,
        feed_of: Callable[[Values], int],
    ) -> None:
        self._part = part
        self._table = table
        self._changes: list[_Change] = []
        made = []
        for i, (values, how) in enumerate(kept.items()):
            kinds = tuple(types[name] for name in values.columns)
            at = place + kernels.MULTISET * i
            spec = _spec(values, kinds)
            made.append(Multiset(i, values, kinds, how, spec, Trees(part, kinds, spec), at, feed_of(values)))
        self.all = tuple(made)
        self._by_values = {multiset.values: multiset for multiset in self.all}

    @property
    def words(self) -> int:
        """Returns the words of all multisets of a group."""
        return kernels.MULTISET * len(self.all)

    def __len__(self) -> int:
        """Returns the number of different values of all groups."""
        return int(self._part.arena[self._table + T_TALLIES])

    @property
    def columns(self) -> list[str]:
        """Returns the columns of events that a kernel reads: arguments and filters."""
        read = [(one.values.argument, one.values.where) for one in self.all]
        return list(dict.fromkeys(name for pair in read for name in pair if name is not None))

    def native(
        self, places: Mapping[str, int], addends: Mapping[Values, Addends], ends: Sequence[tuple[Values, int]]
    ) -> NativeValues | None:
        """Returns how a kernel stores the values; None if there are none, or some are stored in trees.

        ``places``: the positions of columns in events. ``addends``: what distinct values add. ``ends``: the ends that
        are read, each as values and a side.
        """
        if not self.all or any(one.kept == kernels.TREE or len(one.types) > 1 for one in self.all):
            return None
        head = [self._table, len(self.all), len(ends)]
        recipes_at = len(head) + native_values.MULTISET_WORDS * len(self.all) + native_values.READING_WORDS * len(ends)
        words, recipes = list[int](), list[int]()
        for one in self.all:
            column, condition = places[one.values.argument], one.values.where
            chosen = -1 if condition is None else places[condition]
            words += [column, chosen, one.place, one.kept, int(one.spec[1]), recipes_at + len(recipes)]
            recipes += addends[one.values].recipe.tolist()
        for values, side in ends:
            words += [self._by_values[values].place, side]
        plan = np.array([*head, *words, *recipes], np.int64)
        read, scratch = frozenset(places[name] for name in self.columns), max(one.room for one in addends.values())
        return NativeValues(plan, len(self.all), len(ends), read, scratch)

    def apply(
        self, fed: Sequence[Events], handles: np.ndarray
    ) -> Iterator[tuple[Values, Frame, np.ndarray, np.ndarray]]:
        """Changes the counts of values by the events of a batch, given per feed. ``handles``: the batch's groups.

        Yields per multiset: the changed values, as a frame of one column; their flips (+1 for a new value, -1 for a
        removed one, else 0); and their groups. Raises MemoryBudgetError, and ChangeError for a delete of an absent
        value; call ``roll_back`` then. O(events log).
        """
        for multiset in self.all:
            argument, given = multiset.values.argument, fed[multiset.feed]
            weights = counted(given.frame, given.weights, (argument,), multiset.values.where)
            keep = weights != 0
            named = (given.frame[name].codes[keep] for name in multiset.values.columns)
            net = Zset.of_columns(np.stack([given.where[keep], *named]), weights[keep]).net()
            if multiset.kept == kernels.TREE:
                net = multiset.trees.together(net, len(handles), 1)
            groups, codes, *others = np.ascontiguousarray(net.columns())
            of = handles[groups]
            keys = np.stack([of, np.full(len(of), multiset.number), codes, *others])
            change = _Change(multiset, keys, net.weights, of + multiset.place)
            self._changes.append(change)
            flips = self._run(change, net.weights, len(of))
            self._settle(multiset, handles)
            column = Column(multiset.types[0], self._part.dictionary, codes)
            yield multiset.values, Frame({argument: column}, len(codes), self._part.dictionary), flips, groups

    def _run(self, change: _Change, weights: np.ndarray, n: int) -> np.ndarray:
        multiset, part = change.multiset, self._part
        trees, ordered = multiset.trees, multiset.kept == kernels.TREE
        keys = np.ascontiguousarray(change.keys[kernels.OWNER if ordered else 0 :, :n])
        flips, change.done = np.empty(n, np.int64), 0
        spec, values, strides = multiset.spec, part.dictionary.memory, np.arange(multiset.width, dtype=np.int64) * n

        def work() -> bool:
            if ordered:
                found = int(
                    kernels.change_ordered(
                        part.arena, self._table, trees.shape, spec, strides, keys, weights[:n], change.places, *values,
                        trees.path, flips, change.done,
                    )
                )  # fmt: skip
            else:
                found = int(
                    kernels.change(
                        part.arena, self._table, strides, multiset.width, spec, keys, weights[:n], change.places,
                        multiset.kept, *values, flips, change.done,
                    )
                )  # fmt: skip
            change.done = found if found >= 0 else -1 - found
            if found < 0:
                raise ChangeError(
                    f"a delete names a value of column {multiset.values.argument!r} that its group does not have; "
                    'on_missing="trust" needs deletes of existing rows: use "ignore" or "raise"'
                )
            return change.done == n

        part.run_until_done(work)
        return flips

    def roll_back(self, handles: np.ndarray) -> None:
        """Undoes the changes of ``apply`` since the last ``close``."""
        with self._part.budget.lifted():
            while self._changes:
                change = self._changes.pop()
                self._run(change, -change.weights, change.done)
                self._settle(change.multiset, handles)

    def close(self) -> None:
        """Commits the batch."""
        self._changes.clear()

    def _settle(self, multiset: Multiset, handles: np.ndarray) -> None:
        """Removes deleted values from the tops of the heaps of groups."""
        if multiset.kept & (heaps.MINIMA | heaps.MAXIMA):
            part, identity = self._part, np.arange(heaps.VALUE_KEY, dtype=np.int64)
            heaps.settle(
                part.arena, self._table, identity, handles, multiset.place, multiset.kept, *part.dictionary.memory,
                int(multiset.spec[1]),
            )  # fmt: skip

    # -- reading -------------------------------------------------------------------------------------------------------

    def end(self, values: Values, handles: np.ndarray, side: int) -> np.ndarray:
        """Returns the least (``side`` MINIMA) or greatest values (codes) of groups; NULL for an empty one. O(1) per
        group from heaps, O(log n) from a tree."""
        one = self._by_values[values]
        if one.kept == kernels.TREE:
            last = self.sizes(values, handles) - 1
            return self.values_at(values, handles, np.zeros_like(last) if side == heaps.MINIMA else last)
        out = np.empty(len(handles), np.int64)
        heaps.tops(self._part.arena, handles, one.place, side, out)
        return out

    def sizes(self, values: Values, handles: np.ndarray) -> np.ndarray:
        """Returns the number of values of groups, with copies, from trees. O(1) per group."""
        one = self._by_values[values]
        return one.trees.sizes(one.roots(handles))

    def values_at(self, values: Values, handles: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Returns the values (codes) at positions of groups, from 0, with copies; NULL if there is none. O(log n) per
        group."""
        one = self._by_values[values]
        return one.trees.at(one.roots(handles), positions, 0)

    def in_order(self, values: Values, handles: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the different values (codes) of groups in order, their copies, and the offsets at which each group's
        values begin and the last ones end. O(values)."""
        one = self._by_values[values]
        found = Zset.gathered(list(one.trees.rows(one.roots(handles))), len(one.types))
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._part.arena[handles + one.place])])
        return np.ascontiguousarray(found.rows[:, 0]), found.weights, starts

    # -- maintenance ---------------------------------------------------------------------------------------------------

    def mark_values(self, every: Callable[[], np.ndarray]) -> None:
        """Marks every value in the dictionary that the multisets of groups reference. ``every`` returns the handles of
        all groups. O(1) if they reference none, else O(state)."""
        for multiset in self.all:
            if multiset.kept == kernels.TREE:
                if multiset.trees.refers:
                    multiset.trees.mark_values(multiset.roots(every()))
            elif uses_dictionary(multiset.types[0]):
                out = np.empty(int(self._part.arena[self._table + T_COUNT]), np.int64)
                n = kernels.codes_of(self._part.arena, self._table, multiset.number, kernels.OWNER, out)
                self._part.dictionary.mark_codes(out[:n])

    def check_invariants(self, handles: np.ndarray) -> None:
        """Recounts the values of all groups, ``handles``, and checks their trees. Raises AssertionError. O(state)."""
        handles, found = np.sort(handles), 0
        for multiset in self.all:
            counted = np.zeros(len(handles), np.int64)
            if multiset.kept == kernels.TREE:
                counted = multiset.trees.check_invariants(multiset.roots(handles))
            else:
                kernels.recount(self._part.arena, self._table, multiset.number, multiset.width, handles, counted)
            assert (self._part.arena[handles + multiset.place] == counted).all(), "values are not what was counted"
            found += int(counted.sum())
            for side in (heaps.MINIMA, heaps.MAXIMA):
                if multiset.kept & side:
                    lengths = self._part.arena[handles + multiset.place + side] >> 32
                    assert ((lengths >= counted) & (lengths <= 2 * counted + 9)).all(), "a heap has the wrong length"
                    assert ((counted > 0) | (lengths == 0)).all(), "the heap of an empty multiset is there"
        assert found == len(self), "values are not what was counted"
