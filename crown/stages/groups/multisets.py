"""The multisets of a group stage: behind MIN, MAX and DISTINCT."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from crown.errors import ChangeError
from crown.kernels.arena import T_COUNT
from crown.stages.columns import Column, Frame
from crown.stages.groups.addends import Addends
from crown.stages.groups.aggregates import order_of
from crown.stages.kernels import multisets as kernels
from crown.stages.protocol import Part
from crown.store.codec import uses_dictionary
from crown.store.zset import Zset
from plans.payloads.sums import Values

_IDENTITY = np.arange(kernels.VALUE_KEY, dtype=np.int64)


@dataclass(frozen=True)
class Multiset:
    """The values of ``values``, of ``type``, with heaps on ``sides``; ``place``: its first word, from a group.

    ``feed``: the number of the feed that they come from.
    """

    number: int
    values: Values
    type: str
    sides: int
    place: int
    feed: int


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

    ``sides``: the heaps that each needs; ``place``: where the first begins, counted from a group; ``feed_of``: says
    which feed values come from.
    """

    def __init__(
        self,
        part: Part,
        table: int,
        sides: Mapping[Values, int],
        types: Mapping[str, str],
        place: int,
        feed_of: Callable[[Values], int],
    ) -> None:
        self._part = part
        self._table = table
        self._changes: list[_Change] = []
        self.all = tuple(
            Multiset(i, values, types[values.argument], side, place + kernels.MULTISET * i, feed_of(values))
            for i, (values, side) in enumerate(sides.items())
        )

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
            events = np.stack([given.where[keep], given.frame[argument].codes[keep]])
            net = Zset.of_columns(events, weights[keep]).net()
            groups, codes = np.ascontiguousarray(net.columns())
            of = handles[groups]
            keys = np.stack([of, np.full(len(of), multiset.number), codes])
            change = _Change(multiset, keys, net.weights, of + multiset.place)
            self._changes.append(change)
            flips = self._run(change, net.weights, len(of))
            self._settle(multiset, handles)
            column = Column(multiset.type, self._part.dictionary, codes)
            yield multiset.values, Frame({argument: column}, len(codes), self._part.dictionary), flips, groups

    def _run(self, change: _Change, weights: np.ndarray, n: int) -> np.ndarray:
        multiset, part = change.multiset, self._part
        keys = np.ascontiguousarray(change.keys[:, :n])
        strides = np.arange(kernels.VALUE_KEY, dtype=np.int64) * n
        flips, change.done = np.empty(n, np.int64), 0
        order = order_of(multiset.type)

        def work() -> bool:
            found = int(
                kernels.change(
                    part.arena, self._table, strides, _IDENTITY, keys, weights[:n], change.places, multiset.sides,
                    *part.dictionary.memory, order, flips, change.done,
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
        part, order = self._part, order_of(multiset.type)
        memory = part.dictionary.memory
        kernels.settle(part.arena, self._table, _IDENTITY, handles, multiset.place, multiset.sides, *memory, order)

    def tops(self, wanted: Sequence[tuple[Values, int]], handles: np.ndarray) -> dict[tuple[Values, int], np.ndarray]:
        """Returns per multiset and side the codes of the first values of groups; NULL of an empty one."""
        place = {multiset.values: multiset.place for multiset in self.all}
        found = {}
        for values, side in wanted:
            found[values, side] = np.empty(len(handles), np.int64)
            kernels.tops(self._part.arena, handles, place[values], side, found[values, side])
        return found

    def mark_values(self) -> None:
        """Marks what the multisets refer to in the dictionary. O(state)."""
        for multiset in self.all:
            if uses_dictionary(multiset.type):
                self._part.dictionary.mark_codes(self._codes(multiset))

    def _codes(self, multiset: Multiset) -> np.ndarray:
        out = np.empty(len(self), np.int64)
        return out[: kernels.codes_of(self._part.arena, self._table, multiset.number, out)]

    def check_invariants(self, handles: np.ndarray) -> None:
        """Recounts the values of all groups, ``handles``, and looks at their heaps. Raises AssertionError. O(state)."""
        handles = np.sort(handles)
        for multiset in self.all:
            counted = np.zeros(len(handles), np.int64)
            kernels.recount(self._part.arena, self._table, multiset.number, handles, counted)
            assert (self._part.arena[handles + multiset.place] == counted).all(), "values are not what was counted"
            for side in (kernels.MINIMA, kernels.MAXIMA):
                if multiset.sides & side:
                    lengths = self._part.arena[handles + multiset.place + side] >> 32
                    assert ((lengths >= counted) & (lengths <= 2 * counted + 9)).all(), "a heap has the wrong length"
                    assert ((counted > 0) | (lengths == 0)).all(), "the heap of an empty multiset is there"
