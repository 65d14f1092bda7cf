"""GROUP BY, and aggregates without it: one row per group, ``-old, +new`` when it changes.

    net -> feed -> events -> numbered groups of the batch -> exact sums and multisets, old and new -> rows, old and new
    -> difference

A batch is one call of a kernel (``kernels.change``), which looks up each event's group once, sums in dense arrays,
computes the old and the new rows of the changed groups, and writes the groups only when no error can occur any more. It
returns early where Python must help: ordered values, far doubles, sums sent between cells, computed columns, two-word
decimals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from typing_extensions import override

from crown.errors import ChangeError
from crown.kernels.memory import arena as A
from crown.kernels.memory.tables import table_at
from crown.results.columns import Column, Frame, Projection
from crown.stages.feeds import readers
from crown.stages.groups.addends import Addends, CarriedTerm, JoinSums
from crown.stages.groups.aggregates import OutOfRange, Rule, Totals, kept_in_order
from crown.stages.groups.batch import NO_FLAGS, NOTHING, Batch, Entry, NativeGroups, Room, Started, wrong_count
from crown.stages.groups.exported_sums import ImportedSums, exported_columns
from crown.stages.groups.far import Far, FarParts
from crown.stages.groups.form import Form, native_outputs
from crown.stages.groups.multisets import Events, Multisets
from crown.stages.groups.readings import Reading
from crown.stages.groups.terms import Layout, Placed
from crown.stages.kernels.groups import batch as kernels
from crown.stages.kernels.groups import groups
from crown.stages.protocol import Part, Stage
from crown.store.codec import named_values
from crown.store.zset import Zset
from plans.payloads.carried import ExportedSum, JoinSum
from plans.payloads.sums import Values, term_of
from plans.programs.stages import GroupStage
from plans.schema import Column as Declared

_SCANNED = 1 << 12  # groups per block of a scan
_NO_RECIPE = np.zeros(1, np.int64)
_GROUPS, _VALUES = 0, 1  # tables


class Groups(Stage):
    """Runs a group stage. ``source``: the columns that it reads.

    A group exists while it has rows. If the stage is ``whole``, its only group exists from the first batch on.
    ``carried``: the terms that the rows of a join carry. ``other_sources``: the columns that its other feeds read.
    """

    def __init__(
        self,
        stage: GroupStage,
        source: Sequence[Declared],
        part: Part,
        carried: Sequence[CarriedTerm] = (),
        other_sources: Sequence[Sequence[Declared]] = (),
    ) -> None:
        self.stage = stage
        feeds = (stage.feed, *stage.values)
        self.inputs: tuple[str | int, ...] = tuple(feed.source for feed in feeds)
        self.columns = tuple(Declared(output.name, output.type) for output in stage.outputs)
        self.parts: tuple[np.ndarray, ...] = (part.arena,)
        self._part = part
        self._readers = readers(feeds, [source, *other_sources], part.dictionary)
        self._types = {column.name: column.type for feed in feeds for column in feed.columns}
        self._keys = tuple(Declared(name, self._types[name]) for name in stage.keys)
        self._key_places = {key.name: (i, key.type) for i, key in enumerate(self._keys)}
        types = self._types | {one.name: one.type for one in stage.summed}
        known: list[JoinSum | ExportedSum] = [*stage.join_sums, *stage.imported]
        known_terms = {term_of(one): (one.limbs, one.doubles) for one in known}
        units = {one.name: (one.bits, one.digits, one.doubles) for one in stage.summed}
        self._rules = [Rule(aggregate, types, known_terms, units) for aggregate in stage.aggregates]
        terms = [term for rule in self._rules for term in rule.terms]
        self._layout = Layout([*terms, *map(term_of, stage.exported)], types, known_terms)
        self._join_sums = JoinSums(stage.join_sums, self._layout, carried) if stage.join_sums else None
        self._imported_sums = ImportedSums(stage.imported, self._layout) if stage.imported else None
        self._far = FarParts(self._layout, part)
        self._readings = tuple(dict.fromkeys(rule.reading for rule in self._rules if rule.reading is not None))
        k = self._k = len(self._keys)
        self._table = int(table_at(_GROUPS))
        self._multisets = Multisets(
            part,
            int(table_at(_VALUES)),
            kept_in_order(self._rules),
            self._types,
            int(groups.state_at(k)) + self._layout.words,
            lambda values: stage.read_by([*values.columns, *([] if values.where is None else [values.where])]),
        )
        self._words = self._layout.words + self._multisets.words
        self._identity = np.arange(max(k, 1), dtype=np.int64)
        placed = self._layout.placed(term for term in self._layout.terms if term not in known_terms)
        of: dict[Values | None, list[Placed]] = {None: [], **{one.values: [] for one in self._multisets.all}}
        for one in placed:
            of[one.term.distinct].append(one)
        self._addends = {values: Addends(ones, self._types) for values, ones in of.items() if values is not None}
        self._entry = Entry(self._readers[0], stage.keys, of[None], self._types)
        self._carried = _NO_RECIPE if self._join_sums is None else self._join_sums.recipe
        carried_room = 0 if self._join_sums is None else self._join_sums.room
        room = max(self._entry.sums.room, carried_room, 3 * (kernels.MAX_LIMBS + 1))
        self._scratch = np.empty(room, np.int64)
        self._room = Room(self._layout.words, len(self.columns))
        plain = {output.expr.value for output in stage.outputs if output.expr.op == "col"}
        self.shows_keys = set(stage.keys) <= plain  # different groups have different rows
        made = {one.name: one.type for one in stage.aggregates} | {
            name: "int64" for one in stage.exported for name in one.columns
        }
        made |= {one.far: "binary" for one in stage.exported if one.far is not None}
        self._projection = Projection(stage.outputs, self._types | made, self._key_places)
        helped = self._multisets.all or self._imported_sums is not None
        pauses = (kernels.PAUSE_ADD if helped else 0) | (0 if self.shows_keys else kernels.PAUSE_STORE)
        self._near, self._with_far = (
            Form.of(stage, self._rules, self._layout, self._words, pauses, far) for far in (False, True)
        )
        self.started: Started | None = None  # a batch that the next ``apply`` continues
        if part.open(2) and stage.whole:
            self._make_whole()

    def _read(self, handles: np.ndarray) -> dict[Reading, np.ndarray]:
        """Returns the readings of the ordered values of groups in their present state."""
        return {one: one.codes(self._multisets, handles, self._part.dictionary) for one in self._readings}

    def _make_whole(self) -> None:
        """Makes the only group, which is never deleted."""
        self.parts[0][A.H_ROOT] = groups.only(self.parts[0], self._table, self._words)

    # -- a batch -------------------------------------------------------------------------------------------------------

    def apply(self, nets: Sequence[Zset]) -> Zset:
        """Applies a batch. O(events), and O(log) per event for MIN and MAX.

        Raises ChangeError, with the group and column, if an aggregate leaves its type; and MemoryBudgetError.
        """
        return self._change(nets, 1)

    @override
    def undo(self, nets: Sequence[Zset]) -> Zset:
        return self._change([net.negated() for net in nets], -1)

    def native_form(self) -> NativeGroups | str:
        """Returns the stage as a kernel runs it, or why it cannot."""
        entry, (reader, *more) = self._entry, self._readers
        if more or self._imported_sums is not None or reader.feed.weight != 1:
            return "it reads several sources, rows several times, or sums of other cells"
        feed, places = entry.native_feed(self._multisets.columns)
        if isinstance(feed, str):
            return feed
        near, keys, sums, outputs = self._near, entry.key_rows, entry.sums.recipe, None
        values = self._multisets.native(places, self._addends, [(one.values, one.kept) for one in self._readings])
        scratch = max(self._scratch.size, 0 if values is None else values.scratch)
        if near.plan[kernels.P_PAUSES] & kernels.PAUSE_SHOW:
            outputs = native_outputs(self.stage, near, self._rules, self._layout, self._readings if values else ())
        return NativeGroups(feed, near.plan, self._table, keys, sums, self._carried, scratch, values, outputs)

    @property
    def holds_far(self) -> bool:
        """Returns True if a group has a sum with a far part. Rows are then computed in another form."""
        return bool(self._far.words and self.parts[0][A.H_FAR])

    def new_batch(self, nets: Sequence[Zset]) -> Batch:
        """Returns the batch of some nets with the arguments of an ``operator``. It has not started."""
        return self._entry.new_batch(nets, self._near, self._layout.words)

    def _change(self, nets: Sequence[Zset], sign: int) -> Zset:
        """Adds events and returns the changed rows. ``sign`` -1 undoes a batch."""
        started, self.started = self.started, None
        batch, status = (self._begun(nets, sign), None) if started is None else started(nets)
        try:
            if status is None:
                status = self._advanced(batch)
            while status != kernels.DONE:
                if status != kernels.OVER_BUDGET:
                    self._help(batch, status)
                status = self._advanced(batch)
        except BaseException:
            if batch.state[kernels.S_STEP] != kernels.STORED:  # else there is nothing left to abandon
                self._multisets.roll_back(batch.touched)
                self.abandon(batch.touched)
            raise
        bad_group = int(batch.state[kernels.S_BAD_GROUP])
        assert bad_group < 0, f"a group without rows is not empty: {self._named(batch.handles[bad_group])}"
        if batch.freed_far is not None:
            self._far.free(batch.freed_far)
        if self._multisets.all:
            self._multisets.close()
        self.parts[0][A.H_VERSION] += sign
        return self._changed(batch) if batch.changed is None else batch.changed

    def abandon(self, handles: np.ndarray) -> None:
        """Clears the batch numbers of groups, and deletes those that the batch has made. None has changed yet."""
        if not self.stage.whole:
            groups.abandon(self.parts[0], self._table, self._identity, self._k, self._words, handles)

    def _begun(self, nets: Sequence[Zset], sign: int) -> Batch:
        """Returns a batch that has not started."""
        batch = self._entry.new_batch(nets, self._with_far if self.holds_far else self._near, self._layout.words)
        n = len(batch.weights)
        if len(nets) > 1:
            frames = [frame for frame, _ in self._frames(batch)]
            batch.keys = np.concatenate([frame.matrix(self.stage.keys) for frame in frames], axis=1).reshape(-1)
            n = sum(frame.n for frame in frames)
            batch.strides = self._identity * n
        if self.stage.whole:
            batches = int(self.parts[0][A.H_VERSION])
            batch.state[[kernels.S_GROUPS, kernels.S_HAD_ROW, kernels.S_HAS_ROW]] = 1, batches > 0, batches + sign > 0
            batch.numbers, batch.handles = np.zeros(n, np.int64), self.parts[0][A.H_ROOT : A.H_ROOT + 1].copy()
        else:
            batch.numbers, batch.handles = np.empty(n, np.int64), np.empty(n, np.int64)
        self._room.give(batch)
        return batch

    def _frames(self, batch: Batch) -> list[tuple[Frame, np.ndarray]]:
        """Returns the events of each feed, and their weights."""
        frames = batch.frames
        for reader, net in list(zip(self._readers, batch.nets, strict=True))[len(frames) :]:
            frames.append(reader.frame(net))
        return frames

    def _advanced(self, batch: Batch) -> int:
        """Continues a batch. Returns its request. Raises MemoryBudgetError."""
        arena, dictionary = self.parts[0], self._part.dictionary.memory[0]

        def work() -> bool:
            batch.status = kernels.change(
                arena, self._table, batch.form.plan, self._identity, batch.state, batch.strides, batch.keys,
                batch.weights, batch.inputs, batch.forms, batch.pairs, dictionary, batch.payload, batch.nets[0].sign,
                self._entry.sums.recipe, self._carried, self._scratch, batch.numbers, batch.handles, batch.passed,
                batch.having, batch.rows, batch.out,
            )  # fmt: skip
            return bool(batch.status != kernels.OVER_BUDGET)

        self._part.run_until_done(work)
        return int(batch.status)

    def _help(self, batch: Batch, status: int) -> None:
        """Serves the request of a batch."""
        if status == kernels.NEEDS_ROOM:
            self._room.give(batch, int(batch.state[kernels.S_GROUPS]))
        elif status == kernels.NEEDS_ADDENDS:
            self._add(batch)
        elif status == kernels.NEEDS_CHECK:
            wrong = wrong_count(batch.weights, batch.after[:, 0])
            if wrong is not None:
                raise ChangeError(f"{self._named(batch.handles[wrong[0]])} would have {wrong[1]}")
        elif status == kernels.NEEDS_COLUMNS:
            self._give(batch)
        elif status == kernels.NEEDS_DECIMALS:
            batch.form = batch.form.demand_fallback
            self._give(batch)
        elif status == kernels.NO_CODE:
            group, column = batch.state[[kernels.S_BAD_GROUP, kernels.S_BAD_COLUMN]].tolist()
            name = self.stage.outputs[column].expr.value
            reason = next(rule.refusal for rule in self._rules if rule.aggregate.name == name)
            raise ChangeError(f"{self._named(batch.handles[group])}, column {name!r}: {reason}")
        else:
            if batch.far is not None and batch.new_far is not None and batch.far.sums:
                batch.freed_far = self._far.stored(batch.after, batch.far, batch.new_far)
            batch.changed = self._changed(batch)

    def _changed(self, batch: Batch) -> Zset:
        """Returns the rows that a batch delivers."""
        n, columns = int(batch.state[kernels.S_ROWS]), len(self.columns)
        found = batch.out[: (columns + 1) * n].reshape(columns + 1, n)
        changed = Zset.of_columns(found[:columns], found[columns])
        return changed if self.shows_keys else changed.net()

    def _add(self, batch: Batch) -> None:
        """Adds the addends that Python computes. Ordered values change at once, far parts later."""
        frames, handles, after = self._frames(batch), batch.touched, batch.after
        sizes = np.cumsum([len(weights) for _, weights in frames])[:-1]
        events = [Events(*of, at) for of, at in zip(frames, np.split(batch.numbers, sizes), strict=True)]
        first, batch.far = events[0], Far(self._layout, len(handles))
        far = batch.far
        if batch.state[kernels.S_FAR_COUNT]:
            self._entry.sums.add_far(first.frame, first.weights, first.where, far)
            if self._join_sums is not None and batch.nets[0].payload is not None:
                self._join_sums.add_far(batch.nets[0], first.where, far)
        if self._imported_sums is not None:
            self._imported_sums.add(first.frame, first.weights, first.where, after, far)
        batch.old_read = self._read(handles)
        for values, changed, flips, of in self._multisets.apply(events, handles) if self._multisets.all else ():
            self._addends[values].add(changed, flips, of, after, far)
        if far.sums:
            batch.form = self._with_far

    def _give(self, batch: Batch) -> None:
        """Computes the columns that Python passes to the kernel, before and after the batch."""
        layout, handles, n = self._layout, batch.touched, len(batch.touched)
        both = batch.both
        old_far = self._far.loaded(both[:n])
        batch.new_far = old_far if batch.far is None else old_far.plus(batch.far)
        new_read = self._read(handles)
        read = {one: np.concatenate([batch.old_read[one], new_read[one]]) for one in self._readings}
        totals = Totals(layout, both, old_far.followed_by(batch.new_far), read)
        batch.passed, batch.having = self._passed_columns(batch.form, handles, totals)

    def _stored(self, handles: np.ndarray) -> Totals:
        """Returns the stored state of groups."""
        rows = np.empty((len(handles), self._layout.words), np.int64)
        groups.gather(self.parts[0], handles, self._k + 1, self._layout.words, rows)
        return self._as_totals(handles, rows)

    def _as_totals(self, handles: np.ndarray, rows: np.ndarray) -> Totals:
        """Returns the state of groups with the sums ``rows``."""
        far = self._far.loaded(rows) if self._far.words else Far(self._layout, len(rows))
        return Totals(self._layout, rows, far, self._read(handles) if self._readings else {})

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _passed_columns(self, form: Form, handles: np.ndarray, totals: Totals) -> tuple[np.ndarray, np.ndarray]:
        """Returns the columns that Python passes to the kernel for groups in given states (codes, int64[columns * n]),
        and bool[n], True where HAVING holds, empty without HAVING.

        There may be several states of each group: first one of every group, then another.
        """
        n, dictionary = len(totals.rows), self._part.dictionary
        if not form.passed and self.stage.having is None:
            return NOTHING, NO_FLAGS
        columns: np.ndarray | None = None
        if form.keys:
            keys = np.empty((len(handles), self._k), np.int64)
            groups.gather(self.parts[0], handles, 0, self._k, keys)
            columns = np.empty((self._k, n), np.int64)
            if n:
                columns.reshape(self._k, n // len(handles), len(handles))[:] = keys.T[:, None]
        made: dict[str, Column] = {}
        for rule in form.rules:
            try:
                made[rule.aggregate.name] = rule.column(totals, dictionary)
            except OutOfRange as error:
                raise ChangeError(
                    f"{self._named(handles[error.group % len(handles)])}, column {rule.aggregate.name!r}: {error}"
                ) from None
        made |= exported_columns(self.stage.exported, totals, dictionary)
        frame = Frame(made, n, dictionary, columns, self._key_places)
        having = NO_FLAGS if self.stage.having is None else frame.holds(self.stage.having)
        if not form.passed:
            return NOTHING, having
        return frame.projected(self._projection).matrix(form.passed).reshape(-1), having

    def _named(self, handle: int) -> str:
        """Returns the name of a group for messages."""
        words = self.parts[0][handle : handle + self._k]
        values = named_values(words, self._keys, self._part.dictionary.extern)
        return f"the group {', '.join(f'{key}={value!r}' for key, value in values.items())}" if values else "the result"

    # -- reading -------------------------------------------------------------------------------------------------------

    def _blocks(self) -> Iterator[np.ndarray]:
        """Yields the handles of all groups, block by block."""
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
        """Returns the rows of present groups that HAVING keeps: codes, int64[columns, n]."""
        totals, form = self._stored(handles), self._with_far if self._far.words else self._near
        out, n = np.empty((len(self.columns) + 1) * len(handles), np.int64), -1
        while n < 0:
            passed, having = self._passed_columns(form, handles, totals)
            n = kernels.current_rows(
                self.parts[0], form.plan, handles, totals.rows, passed, having, 1, self._scratch, out
            )
            form = form if n >= 0 else form.demand_fallback
        return out[: len(self.columns) * n].reshape(len(self.columns), n)

    def scan(self, sources: Sequence[Iterable[Zset]] = ()) -> Iterator[Zset]:
        """Yields the rows. O(groups)."""
        for handles in self._blocks():
            codes = self._present(handles)
            yield Zset.of_columns(codes, np.ones(codes.shape[1], np.int64))

    def multiplicity(self, row: np.ndarray, sources: Sequence[Iterable[Zset]] = ()) -> int:
        """Returns the multiplicity of a row. O(1) if all keys are columns of the stage, else O(groups)."""
        place = {output.expr.value: i for i, output in enumerate(self.stage.outputs) if output.expr.op == "col"}
        if self.shows_keys and not self.stage.whole:
            blocks: Iterator[np.ndarray] = iter([self.find(row[[place[name] for name in self.stage.keys]])])
        else:
            blocks = self._blocks()
        return sum(int((self._present(handles) == row[:, None]).all(axis=0).sum()) for handles in blocks)

    def find(self, key: np.ndarray) -> np.ndarray:
        """Returns the handle of the group with a key (int64[keys], codes), as an array of zero or one element. O(1)."""
        handles = np.empty(1, np.int64)
        keys = np.ascontiguousarray(key, np.int64).reshape(-1, 1)
        groups.look_up(self.parts[0], self._table, self._identity, self._k, keys, handles)
        return handles[handles != 0]

    def key_columns(self) -> tuple[Declared, ...] | None:
        """Returns the output columns that are the keys, in the order of the keys, or None if some key is no output."""
        outputs = zip(self.stage.outputs, self.columns, strict=True)
        named = {output.expr.value: column for output, column in outputs if output.expr.op == "col"}
        return tuple(named[key] for key in self.stage.keys) if self.shows_keys else None

    def row_of(self, key: np.ndarray) -> Zset:
        """Returns the row of the group with a key (int64[keys], codes), if it has one. O(1)."""
        handles = self.find(key) if self._k else np.concatenate(list(self._blocks()) or [np.empty(0, np.int64)])
        codes = self._present(handles)
        return Zset.of_columns(codes, np.ones(codes.shape[1], np.int64))

    def exact(self, name: str, *factors: str) -> int | Fraction:
        """Returns the exact sum of a product of arguments of aggregate ``name``, without GROUP BY. O(1).

        Without arguments: the number of rows that the aggregate counts; for the name "" the number of all rows.
        """
        totals = self._stored(self.parts[0][A.H_ROOT : A.H_ROOT + 1].copy())
        if not name:
            return int(totals.rows[0, 0])
        return next(rule for rule in self._rules if rule.aggregate.name == name).exact(totals, *factors)

    # -- maintenance ---------------------------------------------------------------------------------------------------

    @override
    def mark_values(self) -> None:
        self._part.mark_words(self._table, self._keys)
        self._multisets.mark_values(self._every)

    def _every(self) -> np.ndarray:
        """Returns the handles of all groups, including the only group of a ``whole`` stage before the first batch."""
        every = list(self._blocks()) if not self.stage.whole else [self.parts[0][A.H_ROOT : A.H_ROOT + 1].copy()]
        return np.concatenate([np.empty(0, np.int64), *every])

    @override
    def check_invariants(self) -> None:
        handles = self._every()
        assert (self.parts[0][handles + self._k] == 0).all(), "a group has a number outside of a batch"
        assert self.stage.whole or (self._stored(handles).rows[:, 0] > 0).all(), "a group without rows is there"
        self._multisets.check_invariants(handles)

    def stats(self) -> dict[str, Any]:
        """Returns the numbers of groups and of distinct values."""
        return {"groups": int(self.parts[0][self._table + A.T_COUNT]), "values": len(self._multisets)}
