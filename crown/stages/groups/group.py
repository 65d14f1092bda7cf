"""GROUP BY, and aggregates without it: one row per group, ``-old, +new`` when it changes.

    net -> feed -> events -> groups of the batch, numbered -> exact sums and multisets, old and new -> rows, old and new
    -> what differs

A batch finds each event's group once, adds everything up in dense arrays, works out the old and the new rows of the
groups it touched, vectorised, and writes the groups only when nothing can refuse it any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from typing_extensions import override

from crown.errors import ChangeError
from crown.kernels import arena as A
from crown.kernels.batches import extent
from crown.kernels.tables import table_at
from crown.results.columns import Column, Frame, Projection
from crown.stages.feeds import readers
from crown.stages.groups.addends import Addends, CarriedTerm, JoinSums
from crown.stages.groups.aggregates import OutOfRange, Rule, Totals
from crown.stages.groups.exported_sums import ImportedSums, bytes_of, digits
from crown.stages.groups.far import Far, FarParts
from crown.stages.groups.multisets import Events, Multisets
from crown.stages.groups.readings import Reading
from crown.stages.groups.terms import Layout, Placed
from crown.stages.kernels import groups
from crown.stages.kernels.multisets import TREE
from crown.stages.protocol import Part, Stage
from crown.store.codec import named_values
from crown.store.zset import Zset
from plans.payloads.carried import ExportedSum, JoinSum
from plans.payloads.sums import Values, term_of
from plans.program import GroupStage
from plans.schema import Column as Declared

_SCANNED = 1 << 12  # groups per block of a scan
_MOST_ROWS = 1 << 62
_GROUPS, _VALUES = 0, 1  # tables


class Groups(Stage):
    """Runs a group stage; ``source``: the columns of what it reads.

    A group exists while it has rows; ``whole``: the only one does from the first batch on. ``join``: the plan of the
    stage that it reads, if its rows carry sums. ``beside``: the columns of what its other feeds read.
    """

    def __init__(
        self,
        stage: GroupStage,
        source: Sequence[Declared],
        part: Part,
        carried: Sequence[CarriedTerm] = (),
        beside: Sequence[Sequence[Declared]] = (),
    ) -> None:
        self.stage = stage
        feeds = (stage.feed, *stage.values)
        self.inputs: tuple[str | int, ...] = tuple(feed.source for feed in feeds)
        self.columns = tuple(Declared(output.name, output.type) for output in stage.outputs)
        self.parts: tuple[np.ndarray, ...] = (part.arena,)
        self._part = part
        self._readers = readers(feeds, [source, *beside], part.dictionary)
        self._types = {column.name: column.type for feed in feeds for column in feed.columns}
        self._keys = tuple(Declared(name, self._types[name]) for name in stage.keys)
        self._key_places = {key.name: (i, key.type) for i, key in enumerate(self._keys)}
        types = self._types | {one.name: one.type for one in stage.summed}
        known: list[JoinSum | ExportedSum] = [*stage.join_sums, *stage.imported]
        given = {term_of(one): (one.limbs, one.doubles) for one in known}
        units = {one.name: (one.bits, one.digits, one.doubles) for one in stage.summed}
        self._rules = [Rule(aggregate, types, given, units) for aggregate in stage.aggregates]
        terms = [term for rule in self._rules for term in rule.terms]
        self._layout = Layout([*terms, *map(term_of, stage.exported)], types, given)
        self._join_sums = JoinSums(stage.join_sums, self._layout, carried) if stage.join_sums else None
        self._imported_sums = ImportedSums(stage.imported, self._layout) if stage.imported else None
        self._far = FarParts(self._layout, part)
        self._readings = tuple(dict.fromkeys(rule.reading for rule in self._rules if rule.reading is not None))
        k = self._k = len(self._keys)
        self._table = int(table_at(_GROUPS))
        self._multisets = Multisets(
            part,
            int(table_at(_VALUES)),
            self._kept(),
            self._types,
            int(groups.state_at(k)) + self._layout.words,
            lambda values: stage.read_by([*values.columns, *([] if values.where is None else [values.where])]),
        )
        self._words = self._layout.words + self._multisets.words
        self._identity = np.arange(max(k, 1), dtype=np.int64)
        placed = self._layout.placed(term for term in self._layout.terms if term not in given)
        of: dict[Values | None, list[Placed]] = {None: [], **{one.values: [] for one in self._multisets.all}}
        for one in placed:
            of[one.term.distinct].append(one)
        self._addends = {values: Addends(ones, self._types) for values, ones in of.items()}
        plain = {output.expr.value for output in stage.outputs if output.expr.op == "col"}
        self._distinct = set(stage.keys) <= plain  # no two groups have the same row
        changing = [i for i, output in enumerate(stage.outputs) if not output.expr.columns <= set(stage.keys)]
        self._changing = np.array(changing, np.int64)
        made = {one.name: one.type for one in stage.aggregates} | {
            name: "int64" for one in stage.exported for name in one.columns
        }
        made |= {one.far: "binary" for one in stage.exported if one.far is not None}
        self._projection = Projection(stage.outputs, self._types | made, self._key_places)
        if part.open(2) and stage.whole:
            self._make_whole()

    def _kept(self) -> dict[Values, int]:
        """Returns the multisets that there are, and how their values are kept in order: a tree serves all readings."""
        found: dict[Values, int] = {}
        for rule in self._rules:
            if rule.values is not None:
                found[rule.values] = found.get(rule.values, 0) | (0 if rule.reading is None else rule.reading.kept)
        return {values: TREE if kept & TREE else kept for values, kept in found.items()}

    def _read(self, handles: np.ndarray) -> dict[Reading, np.ndarray]:
        """Returns what aggregates read of the ordered values of groups, as they are now."""
        return {one: one.codes(self._multisets, handles, self._part.dictionary) for one in self._readings}

    def _make_whole(self) -> None:
        """Makes the only group, which stays."""
        handles, done = np.empty(1, np.int64), np.zeros(2, np.int64)
        keys, where = np.empty((0, 1), np.int64), np.empty(1, np.int64)
        groups.locate(self.parts[0], self._table, self._identity, 0, keys, self._words, where, handles, done)
        self.parts[0][handles[0]] = 0  # it has a number in no batch
        self.parts[0][A.H_ROOT] = handles[0]

    # A batch
    # ------------------------------------------------------------------------------------------------------------------

    def apply(self, nets: Sequence[Zset]) -> Zset:
        """Applies a batch. O(events), and O(log) per event for MIN and MAX.

        Raises ChangeError if an aggregate leaves its type, naming group and column; MemoryBudgetError.
        """
        return self._change(nets, 1)

    @override
    def undo(self, nets: Sequence[Zset]) -> Zset:
        return self._change([net.negated() for net in nets], -1)

    def _change(self, nets: Sequence[Zset], sign: int) -> Zset:
        """Adds events and returns what changes; ``sign`` -1 takes a batch back."""
        fed = [reader.frame(net) for reader, net in zip(self._readers, nets, strict=True)]
        handles, where, rows = self._located([frame for frame, _ in fed], [len(weights) for _, weights in fed])
        try:
            events = [Events(frame, weights, at) for (frame, weights), at in zip(fed, where, strict=True)]
            old, new, far = self._totals(nets[0], events, handles, rows)
            changed = self._difference(handles, old, new, sign)
            gone = self._far.stored(new.rows[len(handles) :], far, new.far) if far.sums else None
        except BaseException:
            self._multisets.take_back(handles)
            self._abandon(handles)
            raise
        arena = self.parts[0]
        empty = groups.store(
            arena, self._table, self._identity, self._k, self._words, handles, self._layout.words,
            new.rows[len(handles) :], int(self.stage.whole),
        )  # fmt: skip
        assert empty < 0, f"a group without rows is not empty: {self._named(handles[empty])}"
        if gone is not None:
            self._far.free(gone)
        if self._multisets.all:
            self._multisets.close()
        arena[A.H_VERSION] += sign
        return changed

    def _located(
        self, frames: Sequence[Frame], sizes: Sequence[int]
    ) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
        """Returns the handles of the groups of events, each once; per feed the number of each event's group; and the
        sums of the groups, int64[2 * groups, words]: room for what they become is behind what they are."""
        n, width = sum(sizes), self._layout.words
        arena, where = self.parts[0], np.zeros(n, np.int64)
        by_feed = [where] if len(sizes) == 1 else np.split(where, np.cumsum(sizes)[:-1])
        if self.stage.whole:
            handles, rows = arena[A.H_ROOT : A.H_ROOT + 1].copy(), np.empty((2, width), np.int64)
            groups.gather(arena, handles, 1, width, rows[:1])
            return handles, by_feed, rows
        every = [frame.matrix(self.stage.keys) for frame in frames]
        keys = every[0] if len(every) == 1 else np.concatenate(every, axis=1)
        strides = self._identity * n
        handles, done = np.empty(n, np.int64), np.zeros(2, np.int64)

        def work() -> bool:
            return bool(groups.locate(arena, self._table, strides, self._k, keys, self._words, where, handles, done))

        try:
            self._part.insist(work)
            handles = handles[: done[1]]
            rows = np.empty((2 * len(handles), width), np.int64)
            groups.gather(arena, handles, self._k + 1, width, rows[: len(handles)])
        except BaseException:
            self._abandon(handles[: done[1]])
            raise
        return handles, by_feed, rows

    def _abandon(self, handles: np.ndarray) -> None:
        if not self.stage.whole:
            groups.abandon(self.parts[0], self._table, self._identity, self._k, self._words, handles)

    def _totals(
        self, net: Zset, events: Sequence[Events], handles: np.ndarray, rows: np.ndarray
    ) -> tuple[Totals, Totals, Far]:
        """Returns the totals of groups before and after the events of each feed, and how their far parts change; those
        of multisets change at once. ``rows``: see ``_located``."""
        layout, n, first = self._layout, len(handles), events[0]
        old = self._as_totals(handles, rows[:n])
        after, far = rows[n:], Far(layout, n)
        after[:] = old.rows
        if self._addends[None].terms:
            self._addends[None].add(first.frame, first.weights, first.where, after, far)
        if self._join_sums is not None:
            self._join_sums.add(net, first.where, after, far)
        if self._imported_sums is not None:
            self._imported_sums.add(first.frame, first.weights, first.where, after, far)
        for values, changed, flips, of in self._multisets.apply(events, handles) if self._multisets.all else ():
            self._addends[values].add(changed, flips, of, after, far)
        self._refuse_counts(first.weights, after[:, 0], handles)
        new = old.far.plus(far) if far.sums else old.far
        return old, Totals(layout, rows, new, self._read(handles) if self._readings else {}), far

    def _refuse_counts(self, weights: np.ndarray, counts: np.ndarray, handles: np.ndarray) -> None:
        """Raises ChangeError for a group with fewer than no rows, or with more than can be counted."""
        if not len(counts):
            return
        low, high = extent(np.ascontiguousarray(counts))
        if low < 0:
            wrong = int(counts.argmin())
            raise ChangeError(
                f"{self._named(handles[wrong])} would have {counts[wrong]} rows: the batch deletes what is not there"
            )
        least, most = extent(weights) if len(weights) else (0, 0)
        if len(weights) * max(-least, most) + high <= _MOST_ROWS:
            return
        if np.abs(weights).sum(dtype=np.float64) + float(high) > _MOST_ROWS:
            raise ChangeError(f"{self._named(handles[counts.argmax()])} would have more than 2^62 rows")

    def _stored(self, handles: np.ndarray) -> Totals:
        """Returns what is stored of groups."""
        rows = np.empty((len(handles), self._layout.words), np.int64)
        groups.gather(self.parts[0], handles, self._k + 1, self._layout.words, rows)
        return self._as_totals(handles, rows)

    def _as_totals(self, handles: np.ndarray, rows: np.ndarray) -> Totals:
        """Returns what is stored of groups, whose sums are ``rows``."""
        far = self._far.loaded(rows) if self._far.words else Far(self._layout, len(rows))
        return Totals(self._layout, rows, far, self._read(handles) if self._readings else {})

    # Rows
    # ------------------------------------------------------------------------------------------------------------------

    def _difference(self, handles: np.ndarray, old: Totals, new: Totals, sign: int) -> Zset:
        """Returns what the change of groups by a batch (``sign`` -1: that is taken back) does to the stage's rows.

        ``new`` has the rows before and after.
        """
        n, batches = len(handles), int(self.parts[0][A.H_VERSION])
        read = {one: np.concatenate([old.read[one], new.read[one]]) for one in self._readings}
        far = old.far.followed_by(new.far) if old.far.sums or new.far.sums else Far(self._layout, 2 * n)
        both = Totals(self._layout, new.rows, far, read)
        if self.stage.whole:
            there = np.array([batches > 0, batches + sign > 0])
        else:
            there = both.rows[:, 0] > 0
        codes, there = self._rows(handles, both, there)
        rows, weights = np.empty_like(codes), np.empty(2 * n, np.int64)
        differing = int(groups.differing(codes, there, self._changing, rows, weights))
        changed = Zset.of_columns(rows[:, :differing], weights[:differing])
        return changed if self._distinct else changed.net()

    def _there(self, totals: Totals, begun: bool) -> np.ndarray:
        """Returns the mask of the groups that exist, before HAVING."""
        return np.full(len(totals.rows), begun) if self.stage.whole else totals.rows[:, 0] > 0

    def _rows(self, handles: np.ndarray, totals: Totals, there: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the rows (codes, int64[columns, n]) of groups in given states, and where they are there.

        There may be several states of each group: first one of every group, then another.
        """
        n, dictionary = len(totals.rows), self._part.dictionary
        keys = np.empty((len(handles), self._k), np.int64)
        groups.gather(self.parts[0], handles, 0, self._k, keys)
        columns = np.empty((self._k, n), np.int64)
        if n:
            columns.reshape(self._k, n // len(handles), len(handles))[:] = keys.T[:, None]
        made: dict[str, Column] = {}
        for rule in self._rules:
            try:
                made[rule.aggregate.name] = rule.column(totals, dictionary)
            except OutOfRange as error:
                raise ChangeError(
                    f"{self._named(handles[error.group % len(handles)])}, column {rule.aggregate.name!r}: {error}"
                ) from None
        for one in self.stage.exported:
            term = term_of(one)
            told = zip(one.columns, digits(totals.sum(term)), strict=True)
            made |= {name: Column("int64", dictionary, codes) for name, codes in told}
            if one.far is not None:
                made[one.far] = bytes_of(totals.far.sums.get(term), n, dictionary)
        frame = Frame(made, n, dictionary, columns, self._key_places)
        if self.stage.having is not None:
            there = there & frame.holds(self.stage.having)
        return frame.projected(self._projection).matrix(self._projection.names), there

    def _named(self, handle: int) -> str:
        """Returns a group, for messages."""
        words = self.parts[0][handle : handle + self._k]
        values = named_values(words, self._keys, self._part.dictionary.extern)
        return f"the group {', '.join(f'{key}={value!r}' for key, value in values.items())}" if values else "the result"

    # Reading
    # ------------------------------------------------------------------------------------------------------------------

    def _blocks(self) -> Iterator[np.ndarray]:
        """Yields the handles of all groups."""
        if self.stage.whole:
            if self.parts[0][A.H_VERSION] > 0:
                yield self.parts[0][A.H_ROOT : A.H_ROOT + 1].copy()
            return
        slot = 0
        while slot >= 0:
            handles = np.empty(_SCANNED, np.int64)
            slot, n = groups.scan(self.parts[0], self._table, slot, handles)
            yield handles[:n]

    def _present(self, handles: np.ndarray) -> np.ndarray:
        """Returns the rows of groups that exist, without those that HAVING hides: codes, int64[columns, n]."""
        totals = self._stored(handles)
        codes, there = self._rows(handles, totals, self._there(totals, True))
        return codes[:, there]

    def scan(self, sources: Sequence[Iterable[Zset]] = ()) -> Iterator[Zset]:
        """Yields the rows. O(groups)."""
        for handles in self._blocks():
            codes = self._present(handles)
            yield Zset.of_columns(codes, np.ones(codes.shape[1], np.int64))

    def multiplicity(self, row: np.ndarray, sources: Sequence[Iterable[Zset]] = ()) -> int:
        """Returns how often a row is there. O(1) if all keys are columns of the stage, else O(groups)."""
        place = {output.expr.value: i for i, output in enumerate(self.stage.outputs) if output.expr.op == "col"}
        if self._distinct and not self.stage.whole:
            blocks: Iterator[np.ndarray] = iter([self.find(row[[place[name] for name in self.stage.keys]])])
        else:
            blocks = self._blocks()
        return sum(int((self._present(handles) == row[:, None]).all(axis=0).sum()) for handles in blocks)

    def find(self, key: np.ndarray) -> np.ndarray:
        """Returns the handle of the group with a key (int64[keys], codes), as an array of none or one. O(1)."""
        handles = np.empty(1, np.int64)
        keys = np.ascontiguousarray(key, np.int64).reshape(-1, 1)
        groups.look_up(self.parts[0], self._table, self._identity, self._k, keys, handles)
        return handles[handles != 0]

    def key_columns(self) -> tuple[Declared, ...] | None:
        """Returns the output columns that are the keys, in the order of the keys; None if some key is no output."""
        outputs = zip(self.stage.outputs, self.columns, strict=True)
        named = {output.expr.value: column for output, column in outputs if output.expr.op == "col"}
        return tuple(named[key] for key in self.stage.keys) if self._distinct else None

    def row_of(self, key: np.ndarray) -> Zset:
        """Returns the row of the group with a key (int64[keys], codes), if it has one. O(1)."""
        handles = self.find(key) if self._k else np.concatenate(list(self._blocks()) or [np.empty(0, np.int64)])
        codes = self._present(handles)
        return Zset.of_columns(codes, np.ones(codes.shape[1], np.int64))

    def exact(self, name: str, *factors: str) -> int | Fraction:
        """Returns a sum of a product of arguments that aggregate ``name`` is made of; there is no GROUP BY. O(1).

        Of no argument: the rows that the aggregate counts; of the name "" all rows.
        """
        totals = self._stored(self.parts[0][A.H_ROOT : A.H_ROOT + 1].copy())
        if not name:
            return int(totals.rows[0, 0])
        return next(rule for rule in self._rules if rule.aggregate.name == name).exact(totals, *factors)

    # Care
    # ------------------------------------------------------------------------------------------------------------------

    @override
    def mark_values(self) -> None:
        self._part.mark_words(self._table, self._keys)
        self._multisets.mark_values(self._every)

    def _every(self) -> np.ndarray:
        """Returns the handles of all groups; of the only one also before the first batch."""
        every = list(self._blocks()) if not self.stage.whole else [self.parts[0][A.H_ROOT : A.H_ROOT + 1].copy()]
        return np.concatenate([np.empty(0, np.int64), *every])

    @override
    def check_invariants(self) -> None:
        handles = self._every()
        assert (self.parts[0][handles + self._k] == 0).all(), "a group has a number outside of a batch"
        assert self.stage.whole or (self._stored(handles).rows[:, 0] > 0).all(), "a group without rows is there"
        self._multisets.check_invariants(handles)

    def stats(self) -> dict[str, Any]:
        """Groups and distinct values."""
        return {"groups": int(self.parts[0][self._table + A.T_COUNT]), "values": len(self._multisets)}
