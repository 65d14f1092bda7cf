"""One side of a join by a comparison: stores its rows in the order of the compared value, or sums of them.

    keys and bounds of rows of the other side -> ranges of positions in trees -> sums of the ranges, or their rows

The *points* in a band are a range of one tree. The *bands* around a point, if they have one bound, are a prefix or a
suffix of the tree of that bound. With two bounds, the sums of the bands are the difference of two prefixes: bands that
begin before the point, less those that have ended before it. To list such bands, each is stored at the *split* of its
bounds, the number between them with the most trailing zeros. A point visits the splits that can contain it, one per
bit, and at each compares only one bound. This costs a look-up per bit, and O(1) per band.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from crown.kernels.memory.tables import table_at
from crown.kernels.strings import NULL
from crown.results.columns import Frame
from crown.stages.groups.addends import Addends
from crown.stages.groups.far import Far
from crown.stages.groups.terms import Layout
from crown.stages.kernels.over import partitions, ranges
from crown.stages.kernels.trees.ordered import BEHIND, FIRST
from crown.stages.orders import order_words, ordered
from crown.stages.protocol import Part
from crown.stages.trees import Partitions
from crown.store.dictionary import Dictionary
from crown.store.zset import Zset
from plans.payloads.payload import VALUE
from plans.payloads.sums import Term
from plans.programs.frames import Order
from plans.programs.stages import GROUPS, ROWS, Band, PairTerm
from plans.schema import Column

_WORD = np.uint64(63)
_TOP = np.uint64(1) << _WORD


class Products:
    """The sums of a side: for each term of a band, the product of the factors that are columns of this side.

    ``product_of_term``: per term, the number of its product. Number 0 is the count.
    """

    def __init__(self, terms: Sequence[PairTerm], columns: Sequence[Column], dictionary: Dictionary) -> None:
        self._columns = {column.name: (i, column.type) for i, column in enumerate(columns)}
        self._dictionary = dictionary
        factors = [tuple(factor for factor in term if factor[0] in self._columns) for term in terms]
        own_terms = [
            Term(tuple(sorted({n for n, _ in part})), None, tuple(n for n, w in part if w == VALUE)) for part in factors
        ]
        types = {name: type_ for name, (_, type_) in self._columns.items()}
        self.layout = Layout(own_terms, types, {})
        self._addends = Addends(self.layout.placed(self.layout.terms), types)
        self.product_of_term = [self.layout.terms.index(term) for term in own_terms]
        places = self.layout.places
        self.shape = np.array([len(columns), self.layout.words, len(places) // 2, *places], np.int64)

    def addends(self, codes: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Returns the addends of rows (codes, int64[width, n]) times weights, int64[n, words]."""
        out = np.zeros((len(weights), self.layout.words), np.int64)
        frame = Frame({}, len(weights), self._dictionary, codes, self._columns)
        self._addends.add(frame, weights, np.arange(len(weights)), out, Far(self.layout, len(weights)))
        return out

    def limbs(self, product: int) -> int:
        """Returns the number of limbs of one of the sums."""
        return self.layout.limbs[self.layout.terms[product]]

    def number(self, words: np.ndarray, product: int) -> np.ndarray:
        """Returns one of the sums, int64[n, limbs]."""
        return words[:, self.layout.place(self.layout.terms[product])]


@dataclass(slots=True, eq=False)
class Matches:
    """The matches of requests, which are rows of the other side: one entry per match or group of matches.

    ``request``: the number of the request. ``columns``: columns of this side (codes, int64[width, m]). ``words``: sums
    of this side, int64[m, words]. A summed side has only the columns by which it is grouped.
    """

    request: np.ndarray
    columns: np.ndarray
    words: np.ndarray


@dataclass(slots=True, eq=False)
class _Ranges:
    """Ranges of positions in partitions, each with the number of its ``request``, to be counted ``sign`` times."""

    trees: Partitions
    handles: np.ndarray
    firsts: np.ndarray
    ends: np.ndarray
    request: np.ndarray
    sign: int = 1


class Side:
    """A side of a band in a part, with rows of these ``columns``. ``keys``: the positions of the equality columns.

    Its ``TABLES`` tables begin with number ``table``. ``record``: the first of ``LEVELS`` words that count the bands of
    each level of splits.
    """

    TABLES, LEVELS = 3, 64

    def __init__(
        self, part: Part, columns: Sequence[Column], band: Band, is_bands: bool, table: int, record: int
    ) -> None:
        self.columns = tuple(columns)
        place = {column.name: i for i, column in enumerate(columns)}
        self._part = part
        self._outside = band.outside
        self._modes = (FIRST if band.outside[0] else BEHIND, BEHIND if band.outside[1] else FIRST)
        self._is_bands = is_bands
        self.keys = [place[pair[0 if is_bands else 1]] for pair in band.keys]
        names = (band.low, band.high) if is_bands else (band.point,)
        self._bounds = [None if name is None else place[name] for name in names]
        self._ends = [(number, at) for number, at in enumerate(self._bounds) if at is not None]
        self.kept = band.kept[0 if is_bands else 1]
        self.products = Products(band.terms or ((),), columns, part.dictionary)
        grouped = [place[o.name] for o in band.outputs if o.name in place and place[o.name] not in self.keys]
        self._partitioned_by = [*self.keys, *(grouped if self.kept == GROUPS else [])]
        self._splits = is_bands and None not in self._bounds and self.kept == ROWS
        self._levels = record
        if self._splits:
            columns = (*columns, Column("the split of the bounds", "int64"))
            self._partitioned_by = [*self._partitioned_by, len(columns) - 1]
        types = [column.type for column in columns]
        shape = self.products.shape if self.kept != ROWS else None
        ends = [Order(columns[at].name, nulls_last=number == 1) for number, at in self._ends]
        self._trees = [
            Partitions(
                part, int(table_at(table + i)), types, self._partitioned_by,
                order_words(columns, (end,), self._partitioned_by), shape,
            )
            for i, end in enumerate(ends)
        ]  # fmt: skip
        self._groups: Partitions | None = None
        if self.kept == GROUPS:  # the groups of each key
            named = [columns[at] for at in self._partitioned_by]
            keyed = list(range(len(self.keys)))
            self._groups = Partitions(
                part, int(table_at(table + 2)), [column.type for column in named], keyed,
                order_words(named, (), keyed),
            )  # fmt: skip

    @property
    def lists(self) -> bool:
        """Returns True if the matches of a row of the other side are one range, whose rows are listed."""
        return self.kept == ROWS and len(self._ends) == 1

    def __len__(self) -> int:
        """Returns the number of different rows."""
        return len(self._trees[0])

    # -- changes -------------------------------------------------------------------------------------------------------

    def change(self, net: Zset) -> None:
        """Adds rows, to all trees or to none. O(log n) each. Raises MemoryBudgetError, and ChangeError for a delete of
        an absent row."""
        done: list[tuple[Partitions, Zset]] = []
        stored = Zset.of_columns(self._with_splits(net.columns()), net.weights)
        todo = [(trees, stored) for trees in self._trees]
        if self._groups is not None:
            todo.append((self._groups, net.net(self._partitioned_by)))
        try:
            for trees, rows in todo:
                rows = trees.together(rows, trees.count)
                change = partial(self._change, trees)
                self._part.run_atomically(rows, change, change)
                done.append((trees, rows))
        except BaseException:
            with self._part.budget.lifted():
                for trees, rows in done:
                    self._change(trees, rows.negated(), np.zeros(2, np.int64))
            raise
        if self._splits:
            np.add.at(self._part.arena[self._levels :][: self.LEVELS], self._level(stored.columns()[-1]), net.weights)

    def _change(self, trees: Partitions, net: Zset, done: np.ndarray) -> None:
        trees.change(net, self.products.addends, done, "below a join by a comparison")

    # -- bands at their splits -----------------------------------------------------------------------------------------

    def _with_splits(self, columns: np.ndarray) -> np.ndarray:
        if not self._splits:
            return columns
        low, high = (
            np.where(columns[at] == NULL, open_, self._numbers(columns[at], at))
            for at, open_ in zip(self._bounds, (np.uint64(0), ~np.uint64(0)), strict=True) if at is not None
        )  # fmt: skip
        difference = low ^ high
        bit = _highest(np.where(difference == 0, low & -low, difference))
        split = (high >> bit) << bit
        if self._outside[0]:  # no value exceeds the greatest one: no point visits split 0
            split[difference == 0] = 0
        return np.concatenate([columns, split.view(np.int64)[None]])

    def _numbers(self, codes: np.ndarray, place: int) -> np.ndarray:
        """Returns numbers (uint64) in the order of the values."""
        return ordered(codes, self.columns[place].type, False).view(np.uint64) ^ _TOP

    @staticmethod
    def _level(splits: np.ndarray) -> np.ndarray:
        """Returns the number of trailing zeros of numbers."""
        numbers = splits.view(np.uint64)
        return _highest(numbers & -numbers).astype(np.int64)

    def _containing(self, keys: np.ndarray, codes: np.ndarray) -> tuple[Zset, np.ndarray]:
        """Returns the bands that contain points, and the point that each contains."""
        (low, high), n = self._trees, len(codes)
        place = self._bounds[0]
        assert place is not None, "a band with a split has both ends"
        levels = self._part.arena[self._levels :][: self.LEVELS].nonzero()[0]
        numbers = self._numbers(codes, place).view(np.int64)
        extended, cursor = np.concatenate([keys, np.empty((1, n), np.int64)]), np.zeros(3, np.int64)
        after_low, from_high = self._modes
        keyed, places = np.arange(low.k, dtype=np.int64) * n, np.zeros(low.width, np.int64)

        def step(rows: np.ndarray, weights: np.ndarray, requests: np.ndarray) -> int:
            return int(ranges.find_bands(
                self._part.arena, low.table, high.table, keyed, low.k, low.spec, high.spec, after_low, from_high,
                places, low.shape, levels, numbers, extended,
                np.ascontiguousarray(codes), *self._part.dictionary.memory, low.path, cursor, rows, weights, requests,
            ))  # fmt: skip

        return _collected(step, lambda: cursor[0] == n, low.width, 2 * n)

    # -- matches -------------------------------------------------------------------------------------------------------

    def matches(self, keys: np.ndarray, bounds: Sequence[np.ndarray | None]) -> Matches:
        """Returns the matches of requests with equality columns ``keys`` (codes, int64[k, n]) and these bounds, or this
        point. Must not be called if the side ``lists`` matches. O(log n) each, plus the matches."""
        request, width = np.arange(keys.shape[1]), len(self.columns)
        if self._groups is not None:
            groups = self._all_rows(self._groups, self._find(self._groups, keys), request)
            found, request = self._rows([groups], self._groups)
            keys = found.columns()
        request_bounds = [None if bound is None else bound[request] for bound in bounds]
        if self._splits:
            assert request_bounds[0] is not None, "a point is there"
            rows, at = self._containing(keys, request_bounds[0])
            return Matches(at, rows.columns()[:width], self.products.addends(rows.columns()[:width], rows.weights))
        words = np.zeros((keys.shape[1], self.products.layout.words), np.int64)
        for part in self._ranges(keys, request_bounds, np.arange(keys.shape[1])):
            for positions, sign in ((part.ends, part.sign), (part.firsts, -part.sign)):
                nonzero = (positions > 0).nonzero()[0]
                sums = self._before(part.trees, part.handles[nonzero], positions[nonzero])
                ranges.add_to_rows(part.request[nonzero], np.full(len(nonzero), sign), self.products.shape, sums, words)
        columns = np.zeros((width, keys.shape[1]), np.int64)
        columns[self._partitioned_by] = keys
        nonempty = words[:, 0] != 0
        return Matches(request[nonempty], columns[:, nonempty], words[nonempty])

    def listed_matches(
        self, keys: np.ndarray, bounds: Sequence[np.ndarray | None], identity: np.ndarray, weights: np.ndarray
    ) -> tuple[Matches, np.ndarray, np.ndarray]:
        """Returns the matching rows of pieces of the requests, and per piece its request and its weight. Overlapping
        ranges of inserted and deleted requests with equal ``identity`` (codes, int64[columns, n]) cancel. O(log n)
        each, plus the matches."""
        (places,) = self._ranges(keys, bounds, np.arange(keys.shape[1]))
        pieces, requests, weights = _disjoint(places, identity, weights)
        rows, piece = self._rows([pieces], self._trees[0])
        return Matches(piece, rows.columns(), self.products.addends(rows.columns(), rows.weights)), requests, weights

    def _ranges(self, keys: np.ndarray, bounds: Sequence[np.ndarray | None], request: np.ndarray) -> Iterator[_Ranges]:
        """Yields the ranges of matches."""
        if not self._is_bands:
            (trees,), (place,) = self._trees, self._bounds
            assert place is not None, "a point is there"
            handles = self._find(trees, keys)
            request = (handles != 0).nonzero()[0]
            handles, (low, high) = handles[request], (None if bound is None else bound[request] for bound in bounds)
            firsts, ends = np.zeros_like(handles), trees.sizes(handles)
            if low is not None:
                firsts = self._positions(trees, place, handles, low, BEHIND if self._outside[0] else FIRST)
            if high is not None:
                after = self._positions(trees, place, handles, high, FIRST if self._outside[1] else BEHIND)
                ends = np.where(high == NULL, ends, after)  # NULLs come first; a NULL bound is open
            yield _Ranges(trees, handles, firsts, np.maximum(firsts, ends), request)
            return
        (codes,) = bounds
        assert codes is not None, "a point is there"
        for trees, end in zip(self._trees, self._ends, strict=True):
            handles = self._find(trees, keys)
            present = (handles != 0).nonzero()[0]
            found = self._one_sided(trees, end, handles[present], codes[present], request[present])
            if trees is not self._trees[0]:  # bands that have begun, less bands that have ended
                found = _Ranges(trees, found.handles, np.zeros_like(found.firsts), found.firsts, found.request, -1)
            yield found

    def _one_sided(
        self, trees: Partitions, end: tuple[int, int], handles: np.ndarray, codes: np.ndarray, request: np.ndarray
    ) -> _Ranges:
        """Returns the bands whose low end (number 0, and its position) is before points, or whose high end is after
        them."""
        number, at = end
        found = self._positions(trees, at, handles, codes, self._modes[number])
        if number == 0:
            return _Ranges(trees, handles, np.zeros_like(found), found, request)
        return _Ranges(trees, handles, found, trees.sizes(handles), request)

    def _all_rows(self, trees: Partitions, handles: np.ndarray, request: np.ndarray) -> _Ranges:
        present = (handles != 0).nonzero()[0]
        return _Ranges(trees, handles[present], np.zeros_like(present), trees.sizes(handles[present]), request[present])

    # -- trees ---------------------------------------------------------------------------------------------------------

    @staticmethod
    def _find(trees: Partitions, keys: np.ndarray) -> np.ndarray:
        """Returns the partitions with these keys; 0 if there is none."""
        n = keys.shape[1]
        out = np.empty(n, np.int64)
        strides = np.arange(trees.k + 1, dtype=np.int64) * n
        partitions.find_all(trees.part.arena, trees.table, strides, trees.k, np.ascontiguousarray(keys), out)
        return out

    @staticmethod
    def _positions(trees: Partitions, place: int, handles: np.ndarray, codes: np.ndarray, mode: int) -> np.ndarray:
        """Returns the positions of values of a column, present or not. O(log n) each."""
        rows = np.zeros((trees.width, len(handles)), np.int64)
        rows[place] = codes
        return trees.located(handles, rows, 1, mode)[0]

    @staticmethod
    def _before(trees: Partitions, handles: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Returns the sums of the rows before positions, int64[n, words]. O(log n) each."""
        positions = np.ascontiguousarray(positions)
        return trees.copied(np.ascontiguousarray(handles), positions, positions, trees.shape)[1]

    def _rows(self, parts: Sequence[_Ranges], trees: Partitions) -> tuple[Zset, np.ndarray]:
        """Returns the rows in ranges of trees with equal columns, and the request of each."""
        found, requests = [Zset.empty(trees.width)], [np.empty(0, np.int64)]
        for part in parts:
            handles, firsts, ends = map(np.ascontiguousarray, (part.handles, part.firsts, part.ends))
            rows, piece = self._in_ranges(part.trees, handles, firsts, ends)
            found.append(rows)
            requests.append(part.request[piece])
        return Zset.gathered(found, trees.width), np.concatenate(requests)

    @staticmethod
    def _in_ranges(
        trees: Partitions, handles: np.ndarray, firsts: np.ndarray, ends: np.ndarray
    ) -> tuple[Zset, np.ndarray]:
        cursor = np.zeros(2, np.int64)

        def step(rows: np.ndarray, weights: np.ndarray, requests: np.ndarray) -> int:
            return int(ranges.read_ranges(
                trees.part.arena, handles, trees.k, trees.unsummed, firsts, ends, cursor, rows, weights, requests
            ))  # fmt: skip

        return _collected(step, lambda: cursor[0] == len(handles), trees.width, 2 * len(handles))

    # -- reading -------------------------------------------------------------------------------------------------------

    def scan(self) -> Iterator[Zset]:
        """Yields all rows, with their copies. O(1) per row."""
        trees, width = self._trees[0], len(self.columns)
        for handles in trees.blocks():
            rows, _ = self._rows([self._all_rows(trees, handles, np.zeros_like(handles))], trees)
            yield rows.project(range(width))

    def mark_values(self) -> None:
        """Marks every value in the dictionary that the rows reference. O(rows)."""
        self._trees[0].mark_all()

    def check_invariants(self) -> None:
        """Raises AssertionError unless all trees are valid and have the same rows. O(rows log rows)."""
        known: list[tuple[tuple[int, ...], int]] | None = None
        for trees in self._trees:
            trees.check_all()
            found: list[tuple[tuple[int, ...], int]] = []
            for handles in trees.blocks():
                rows, _ = self._rows([self._all_rows(trees, handles, np.zeros_like(handles))], trees)
                found += zip(map(tuple, rows.rows.tolist()), rows.weights.tolist(), strict=True)
                if self._splits:
                    again = self._with_splits(rows.columns()[:-1])
                    assert (again[-1] == rows.columns()[-1]).all(), "a band is not at its split"
            assert known is None or sorted(found) == known, "the orders have different rows"
            known = sorted(found)
        if self._splits:
            levels = np.zeros(self.LEVELS, np.int64)
            for row, copies in known or ():
                levels[self._level(np.array(row[-1:], np.int64))] += copies
            assert (levels == self._part.arena[self._levels :][: self.LEVELS]).all(), "levels are counted wrong"
        if self._groups is not None:
            self._groups.check_all()
            assert self._groups.copies == self._trees[0].copies, "groups lack rows"


def _disjoint(places: _Ranges, identity: np.ndarray, weights: np.ndarray) -> tuple[_Ranges, np.ndarray, np.ndarray]:
    """Returns ranges, numbered 0, 1, ..., that do not overlap for requests with equal ``identity``, and per range its
    request and its weight. O(n log n)."""
    request, weights = places.request, weights[places.request]
    if len(request) and weights.min() < 0 < weights.max():
        identity = identity[:, request]
        order = np.lexsort(identity) if len(identity) else np.arange(len(request))
        new = np.ones(len(request), np.bool_)
        new[1:] = (identity[:, order[1:]] != identity[:, order[:-1]]).any(axis=0)
        first, group = order[new], np.empty(len(request), np.int64)
        group[order] = np.cumsum(new) - 1
        if len(first) < len(request):
            at, groups = np.concatenate([places.firsts, places.ends]), np.concatenate([group, group])
            order = np.lexsort((at, groups))
            at, groups = at[order], groups[order]
            weight_sums = np.cumsum(np.concatenate([weights, -weights])[order])
            nonzero = ((weight_sums[:-1] != 0) & (groups[1:] == groups[:-1]) & (at[1:] > at[:-1])).nonzero()[0]
            owner = first[groups[nonzero]]
            places = _Ranges(places.trees, places.handles[owner], at[nonzero], at[nonzero + 1], request[owner])
            request, weights = places.request, weight_sums[nonzero]
    return _Ranges(places.trees, places.handles, places.firsts, places.ends, np.arange(len(request))), request, weights


def _collected(
    step: Callable[[np.ndarray, np.ndarray, np.ndarray], int], done: Callable[[], bool], width: int, expected: int
) -> tuple[Zset, np.ndarray]:
    """Returns the rows that a kernel writes until it is done, with their copies, and the request of each."""
    found, requests, room = [Zset.empty(width)], [np.empty(0, np.int64)], max(expected, 64)
    while not done():
        rows, weights, numbers = np.empty((room, width), np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
        m = step(rows, weights, numbers)
        found.append(Zset(rows[:m], weights[:m]))
        requests.append(numbers[:m])
        room *= 2
    return Zset.gathered(found, width), np.concatenate(requests)


def _highest(numbers: np.ndarray) -> np.ndarray:
    """Returns the positions of the highest set bits of nonzero numbers (uint64), from 0."""
    bit = np.zeros_like(numbers)
    for step in (32, 16, 8, 4, 2, 1):
        by = np.uint64(step)
        above = (numbers >> (bit + by)) != 0
        bit[above] += by
    return bit
