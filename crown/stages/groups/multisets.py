"""The multisets of a group stage: behind DISTINCT and all aggregates that read values in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from crown.errors import ChangeError
from crown.kernels.arena import T_COUNT
from crown.stages.columns import Column, Frame, order_of
from crown.stages.groups.addends import Addends
from crown.stages.kernels import heaps
from crown.stages.kernels import multisets as kernels
from crown.stages.protocol import Part
from crown.store.codec import uses_dictionary
from crown.store.zset import Zset
from plans.payloads.sums import Values


@dataclass(frozen=True)
class Multiset:
    """The values of ``values``, whose columns have the ``types``; ``place``: its first word, from a group.

    ``kept``: in a tree, of the order ``spec`` (see ``crown.stages.kernels.trees``), or in heaps of these sides.
    ``feed``: the number of the feed that they come from.
    """

    number: int
    values: Values
    types: tuple[str, ...]
    kept: int
    spec: np.ndarray
    place: int
    feed: int

    @property
    def width(self) -> int:
        """Returns the words of a value with the group and the multiset that has it."""
        return kernels.OWNER + len(self.types)


def _spec(values: Values, types: Sequence[str]) -> np.ndarray:
    """Returns the order of values: what is said, then the argument; whose they are comes last, it is the same."""
    said = [(kernels.OWNER + i, i, one.falling, one.nulls_last) for i, one in enumerate(values.order, 1)]
    words = [[at, order_of(types[i]), falling, last] for at, i, falling, last in (*said, (kernels.OWNER, 0, 0, 0))]
    return np.array([*words, *([at, 0, 0, 0] for at in range(kernels.OWNER))], np.int64).reshape(-1)


@dataclass(slots=True, eq=False)
class Events:
    """What a feed brings in a batch: rows as a ``frame``, in form for sums, and the number of each row's group."""

    addends: Addends
    frame: Frame
    where: np.ndarray


@dataclass
class _Change:
    """Changes of one multiset in a batch: the first ``done`` of them have taken place."""

    multiset: Multiset
    keys: np.ndarray
    weights: np.ndarray
    places: np.ndarray
    done: int = 0


class Multisets:
    """The multisets of all groups, in table ``table`` (a header word) of a stage's part.

    ``kept``: how the values of each are kept in order; ``place``: where the first begins, counted from a group;
    ``feed_of``: says which feed values come from.
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
            made.append(Multiset(i, values, kinds, how, _spec(values, kinds), at, feed_of(values)))
        self.all = tuple(made)
        self._by_values = {multiset.values: multiset for multiset in self.all}

    @property
    def words(self) -> int:
        """Returns words of all multisets of a group."""
        return kernels.MULTISET * len(self.all)

    def __len__(self) -> int:
        return int(self._part.arena[self._table + T_COUNT])

    def apply(
        self, fed: Sequence[Events], handles: np.ndarray
    ) -> Iterator[tuple[Values, Frame, np.ndarray, np.ndarray]]:
        """Changes the counts of values by the events of a batch, by feed, whose groups are ``handles``.

        Yields per multiset the values that changed, as a frame of one column; their flips (+1 where a value appeared,
        -1 where it vanished, else 0); and their groups. Raises MemoryBudgetError, and ChangeError for a delete of a
        value that is not there; call ``take_back`` then. O(events log).
        """
        for multiset in self.all:
            argument, given = multiset.values.argument, fed[multiset.feed]
            weights = given.addends.weights((argument,), multiset.values.where)
            keep = weights != 0
            named = (given.frame[name].codes[keep] for name in multiset.values.columns)
            net = Zset.of_columns(np.stack([given.where[keep], *named]), weights[keep]).net()
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
        keys = np.ascontiguousarray(change.keys[:, :n])
        identity = np.arange(multiset.width, dtype=np.int64)
        strides = identity * n
        flips, change.done = np.empty(n, np.int64), 0

        def work() -> bool:
            found = int(
                kernels.change(
                    part.arena, self._table, strides, multiset.width, multiset.spec, keys, weights[:n], change.places,
                    multiset.kept, *part.dictionary.memory, flips, change.done,
                )
            )  # fmt: skip
            change.done = found if found >= 0 else -1 - found
            if found < 0:
                raise ChangeError(
                    f"a delete names a value of column {multiset.values.argument!r} that its group does not have; the "
                    'stream is not what on_missing="trust" takes it for'
                )
            return change.done == n

        part.insist(work)
        return flips

    def take_back(self, handles: np.ndarray) -> None:
        """Undoes what ``apply`` did since ``close``."""
        with self._part.budget.lifted():
            while self._changes:
                change = self._changes.pop()
                self._run(change, -change.weights, change.done)
                self._settle(change.multiset, handles)

    def close(self) -> None:
        """Lets the batch stand."""
        self._changes.clear()

    def _settle(self, multiset: Multiset, handles: np.ndarray) -> None:
        """Removes values that are gone from the tops of the heaps of groups."""
        if multiset.kept & (heaps.MINIMA | heaps.MAXIMA):
            part, identity = self._part, np.arange(heaps.VALUE_KEY, dtype=np.int64)
            heaps.settle(
                part.arena, self._table, identity, handles, multiset.place, multiset.kept, *part.dictionary.memory,
                int(multiset.spec[1]),
            )  # fmt: skip

    # Reading
    # ------------------------------------------------------------------------------------------------------------------

    def end(self, values: Values, handles: np.ndarray, side: int) -> np.ndarray:
        """Returns the least (``side`` MINIMA) or greatest values (codes) of groups; NULL of an empty one. O(1) per
        group from heaps, expected O(log n) from a tree."""
        one = self._by_values[values]
        if one.kept == kernels.TREE:
            last = self.sizes(values, handles) - 1
            return self.values_at(values, handles, np.zeros_like(last) if side == heaps.MINIMA else last)
        out = np.empty(len(handles), np.int64)
        heaps.tops(self._part.arena, handles, one.place, side, out)
        return out

    def sizes(self, values: Values, handles: np.ndarray) -> np.ndarray:
        """Returns how many values groups have, copies counted. O(1) per group."""
        one, out = self._by_values[values], np.empty(len(handles), np.int64)
        kernels.sizes(self._part.arena, handles, one.place, one.width, out)
        return out

    def values_at(self, values: Values, handles: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Returns the values (codes) at positions of groups, from 0, copies counted; NULL where there is none. Expected
        O(log n) per group."""
        one, out = self._by_values[values], np.empty(len(handles), np.int64)
        kernels.values_at(self._part.arena, handles, one.place, one.width, positions, out)
        return out

    def in_order(self, values: Values, handles: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the different values (codes) of groups in order, how often each is there, and where each group's
        begin and the last ones end. O(values)."""
        one, arena = self._by_values[values], self._part.arena
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(arena[handles + one.place])])
        codes, copies = np.empty(int(starts[-1]), np.int64), np.empty(int(starts[-1]), np.int64)
        kernels.in_order(arena, handles, one.place, one.width, starts, codes, copies)
        return codes, copies, starts

    # Care
    # ------------------------------------------------------------------------------------------------------------------

    def mark_values(self) -> None:
        """Marks what the multisets refer to in the dictionary. O(state)."""
        for multiset in self.all:
            for i, type_ in enumerate(multiset.types):
                if uses_dictionary(type_):
                    self._part.dictionary.mark_codes(self._codes(multiset, kernels.OWNER + i))

    def _codes(self, multiset: Multiset, word: int) -> np.ndarray:
        out = np.empty(len(self), np.int64)
        return out[: kernels.codes_of(self._part.arena, self._table, multiset.number, word, out)]

    def check_invariants(self, handles: np.ndarray) -> None:
        """Recounts the values of all groups, ``handles``, and walks their trees. Raises AssertionError. O(state)."""
        handles = np.sort(handles)
        for multiset in self.all:
            counted, nodes = np.zeros(len(handles), np.int64), np.empty(len(handles), np.int64)
            kernels.recount(self._part.arena, self._table, multiset.number, multiset.width, handles, counted)
            assert (self._part.arena[handles + multiset.place] == counted).all(), "values are not what was counted"
            for side in (heaps.MINIMA, heaps.MAXIMA):
                if multiset.kept & side:
                    lengths = self._part.arena[handles + multiset.place + side] >> 32
                    assert ((lengths >= counted) & (lengths <= 2 * counted + 9)).all(), "a heap has the wrong length"
                    assert ((counted > 0) | (lengths == 0)).all(), "the heap of an empty multiset is there"
            if multiset.kept == kernels.TREE:
                identity = np.arange(multiset.width, dtype=np.int64)
                kernels.check(
                    self._part.arena, handles, multiset.place, multiset.width, multiset.spec, identity,
                    *self._part.dictionary.memory, nodes,
                )  # fmt: skip
                assert (nodes == counted).all(), "the values of a group are not in order"
