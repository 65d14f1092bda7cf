"""The window stage: maintains each row with the values of window functions over its partition.

    net -> feed -> changes -> affected positions -> values at these positions before and after -> the difference

All rows are stored in order, with exact sums, in a tree per partition. A change determines the positions that it
affects: some adjacent rows, the rows whose frames contain its value, or all later rows. The positions that several
changes affect are merged to disjoint intervals, and every change is inside of one. So values outside of the intervals
do not change, and the positions after the batch follow from those before it.

Rows are ordered by values, never by codes, and the other columns break ties, so that the result is a function of the
data. DENSE_RANK is a count over a frame: the rows up to the last peer that are the first of their peers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np

from crown.kernels.memory.tables import table_at
from crown.stages.feeds import Reader
from crown.stages.kernels.over import partitions as kernels
from crown.stages.orders import order_words
from crown.stages.over.flips import Flips
from crown.stages.over.framed import NO_FRAMES, FramePlan, NotFramed
from crown.stages.over.frames import Frames
from crown.stages.over.gathered import values_read
from crown.stages.over.native import NativeOver, native_over
from crown.stages.over.ordered_values import OrderedValues
from crown.stages.over.picks import Picks
from crown.stages.over.reach import Reach
from crown.stages.over.stretches import Affected, Stretches
from crown.stages.over.sums import Sums
from crown.stages.protocol import Part, Stage
from crown.stages.running.cuts import Pieces
from crown.stages.running.shifts import Shifts, shifted
from crown.stages.running.unfolded import Unfolding
from crown.stages.running.values import NotShort, Running
from crown.stages.trees import InOrder, Partitions
from crown.store.zset import Zset
from plans.programs.frames import RUNNING
from plans.programs.stages import OverStage
from plans.schema import Column

_SCANNED = 1 << 12


class Over(InOrder, Stage):
    """Runs an over stage. ``source``: the columns that it reads."""

    def __init__(self, stage: OverStage, source: Sequence[Column], part: Part) -> None:
        counting = {call: replace(call, frame=RUNNING) for call in stage.functions if call.function == "dense_rank"}
        stage = replace(stage, functions=tuple(counting.get(call, call) for call in stage.functions))
        self.stage = stage
        self.inputs: tuple[str | int, ...] = (stage.feed.source,)
        self.parts: tuple[np.ndarray, ...] = (part.arena,)
        self._part = part
        self._reader = Reader(stage.feed, source, part.dictionary)
        self.feed = self._reader.columns
        self._width = len(self.feed)
        self._visible = self._width - stage.hidden
        results = tuple(Column(call.name, call.type) for call in stage.functions)
        self.columns = (*self.feed[: self._visible], *results)
        self._visible_indexes = np.delete(np.arange(self._width + len(results)), np.s_[self._visible : self._width])
        place = {column.name: i for i, column in enumerate(self.feed)}
        expressions = {output.name: str(output.expr) for output in stage.feed.columns}
        self._sums = Sums(stage.functions, self.feed, part.dictionary, expressions, len(stage.order))
        functions = list(enumerate(stage.functions, self._visible))
        self._framed = [(i, call) for i, call in functions if not call.from_row]
        reads = {call: values_read(call, self._sums) for call in stage.functions if call.keeps_values}
        stored = {
            read: OrderedValues(part, int(table_at(i)), self.feed, stage.keys, *read)
            for i, read in enumerate(dict.fromkeys(reads.values()), 1)
        }  # fmt: skip
        self._ordered_values = tuple(stored.values())
        stored_of = {call: stored[read] for call, read in reads.items()}
        self._frames = Frames(
            [call for _, call in self._framed], self.feed, stage.order, self._sums, part.dictionary, stored_of
        )  # fmt: skip
        keyed = [place[name] for name in stage.keys]
        self.trees = Partitions(
            part, int(table_at(0)), [column.type for column in self.feed], keyed,
            order_words(self.feed, stage.order, keyed), self._sums.shape, self._sums.session,
        )  # fmt: skip
        self._not_framed, plan = "", NO_FRAMES  # why kernels do not compute all functions
        try:
            if self._framed:
                plan = FramePlan(self.feed, stage.order, self._sums).written(self._framed)
        except NotFramed as error:
            self._not_framed = str(error)
        picked = [(i, call) for i, call in functions if call.from_row]
        self._picks = Picks(picked, place, self._sums, self.trees, plan)
        self._reach = Reach(stage, self.feed, self._sums, self.trees, self._picks, Flips(self._sums, self.trees))
        self._running = Running(stage.functions, len(stage.order), self._sums, self.trees)
        unfolds = all(call.running for call in stage.functions) and self._running.fits_words
        self._unfolding = Unfolding(self._running, self._visible) if unfolds else None
        part.open(1 + len(self._ordered_values))

    def native_form(self) -> NativeOver | str:
        """Returns the native form of the stage, or why there is none."""
        feed = self._reader.native_feed([column.name for column in self.feed])
        if isinstance(feed, str):
            return feed
        if self._unfolding is None and self._not_framed:
            return self._not_framed
        unfolds = self._unfolding is not None
        return native_over(feed, self._visible, unfolds, self._running, self._picks, self._sums)

    # -- a batch -------------------------------------------------------------------------------------------------------

    def apply(self, nets: Sequence[Zset]) -> Zset:
        """Applies a batch. O(log n) per change, plus the cost of the rows whose values a change can change.

        Raises MemoryBudgetError, and ChangeError for a delete of an absent row, or for a sum that leaves its type.
        """
        net = self._net(nets)
        if not len(net):
            return Zset.empty(len(self.columns))
        if self._unfolding is not None:
            with suppress(NotShort):  # the sums of frames are stored in the dictionary, if they have to be
                return self._part.run_atomically(net, self._unfolded, self._change)
        elif not self._not_framed:
            with suppress(NotShort):
                return self._replaced(net, self._apply_picks)
        return self._replaced(net, self._apply_frames)

    def _replaced(self, net: Zset, work: Callable[[Affected, Zset, np.ndarray], Zset]) -> Zset:
        """Applies a batch by stretches of rows that it affects, which ``work`` replaces."""
        affected = self._reach.affected(np.ascontiguousarray(net.columns()), net.weights)
        sorted_ = Zset.of_columns(np.take(net.columns(), affected.order, axis=1), net.weights[affected.order])
        return self._part.run_atomically(sorted_, partial(work, affected), self._change)

    def shifted(self, nets: Sequence[Zset], distinguished: int) -> tuple[Zset, Shifts]:
        """Applies a batch. Returns the changes of the values of running functions: single rows, and ranges of rows that
        move by the same amount (see ``crown.stages.running.shifts``). ``distinguished``: the number of columns of the
        order by which the result distinguishes rows. O(log n) per change. Raises the errors of ``apply``.
        """

        def work(net: Zset, done: np.ndarray) -> tuple[Zset, Shifts]:
            keys = np.ascontiguousarray(net.columns())
            return shifted(
                self._running, self._rows_at, distinguished, keys, net.weights,
                lambda sums: self._change(net, done, sums),
            )  # fmt: skip

        return self._part.run_atomically(self._net(nets), work, self._change)

    def _net(self, nets: Sequence[Zset]) -> Zset:
        return self.trees.together(self._reader.zset(nets[0]).net(), self.trees.count)

    def _unfolded(self, net: Zset, done: np.ndarray) -> Zset:
        """Applies changes of rows. Returns the changes of the values of all rows, for running functions."""
        keys = np.ascontiguousarray(net.columns())
        assert self._unfolding is not None, "all functions are running"
        return self._unfolding.delta(keys, net.weights, lambda sums: self._change(net, done, sums))

    def _rows_at(self, pieces: Pieces) -> Zset:
        """Returns the present rows at pieces, with their values."""
        if not len(pieces.handles):
            return Zset.empty(len(self.columns))
        if self._unfolding is not None:
            with suppress(NotShort):
                return self._unfolding.rows(pieces)
        rows = self.page(pieces.handles, pieces.lows, pieces.highs)
        return Zset.of_columns(rows, np.ones(rows.shape[1], np.int64))

    def _apply_picks(self, affected: Affected, net: Zset, done: np.ndarray) -> Zset:
        """Applies changes of rows, in the order of ``affected``. Returns the changes of the values of all rows. Each
        stretch is read, changed and read again. Raises NotShort if only Python computes some value.
        """
        keys = np.ascontiguousarray(net.columns())
        sums = self._sums.addends(keys, net.weights)[0]
        rows, signs = self._picks.replace_stretches(
            affected, keys, net.weights, sums, self._visible, len(self.columns), done
        )
        created = self._rows_with_values(*self._created(affected, keys))
        if created.shape[1]:
            rows, signs = np.concatenate([rows, created], axis=1), np.append(signs, np.ones(created.shape[1], np.int64))
        return Zset.of_columns(rows, signs).net()

    def _apply_frames(self, affected: Affected, net: Zset, done: np.ndarray) -> Zset:
        """Does the same as ``_apply_picks`` if Python computes some function. All stretches are read, changed and read
        again."""
        keys = np.ascontiguousarray(net.columns())
        old = self._rows_with_values(*affected.old)
        self._change(net, done)
        changes, lows, highs = affected.new
        after = zip((self.trees.find(keys[:, changes]), lows, highs), self._created(affected, keys), strict=True)
        new = self._rows_with_values(*(np.concatenate(parts) for parts in after))
        weights = np.repeat(np.array([-1, 1], np.int64), [old.shape[1], new.shape[1]])
        return Zset.of_columns(np.concatenate([old, new], axis=1), weights).net()

    def _created(self, affected: Affected, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the partitions that changes have created: handles, and the start and end positions of their rows."""
        created = np.unique(self.trees.find(keys[:, : affected.creating]))
        created = created[created != 0]
        return created, np.zeros_like(created), self.trees.sizes(created)

    def _change(self, net: Zset, done: np.ndarray, sums: np.ndarray | None = None) -> None:
        """Applies changes of rows to the trees of rows and of values: to all of them, or to none."""
        if not self._ordered_values:
            self._add(net, done, sums)
            return

        def work(rows: Zset, done: np.ndarray) -> None:
            self._add(rows, done)
            self._add_values(rows, self._ordered_values)

        self._part.run_atomically(net, work, self._add)
        done[0] = len(net)

    def _add_values(self, net: Zset, stored: Sequence[OrderedValues]) -> None:
        if not stored:
            return
        first, *further = stored

        def work(values: Zset, done: np.ndarray) -> None:
            first.change(values, done)
            self._add_values(net, further)

        self._part.run_atomically(first.values_of(net), work, first.change)

    def _add(self, net: Zset, done: np.ndarray, sums: np.ndarray | None = None) -> None:
        self.trees.change(
            net, lambda keys, weights: self._sums.addends(keys, weights)[0] if sums is None else sums, done,
            "below a window function",
        )  # fmt: skip

    # -- values --------------------------------------------------------------------------------------------------------

    def _rows_with_values(self, handles: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> np.ndarray:
        """Returns the stage's rows at positions ``lows`` to ``highs`` of partitions: codes, int64[columns, n]."""
        nonempty = lows < highs
        handles, lows, highs = (np.ascontiguousarray(part[nonempty]) for part in (handles, lows, highs))
        if not len(handles):
            return np.empty((len(self.columns), 0), np.int64)
        out = np.empty((len(self.columns), int((highs - lows).sum())), np.int64)
        if not self._not_framed:
            with suppress(NotShort):
                self._picks.write(handles, lows, highs, self._visible, out, True)
                return out
        self._write_framed(handles, lows, highs, out)
        if len(self._picks.words):
            self._picks.write(handles, lows, highs, 0, out, False)
        return out

    def _write_framed(self, handles: np.ndarray, lows: np.ndarray, highs: np.ndarray, out: np.ndarray) -> None:
        """Writes the output columns of rows, and the functions that read frames."""
        sizes = self.trees.sizes(handles)
        firsts, ends = self._reach.required(handles, sizes, lows, highs)
        rows = self._stretches(handles, sizes, lows, highs, firsts, ends)
        far = self._sums.far if self._sums.shape[1] else None
        if far is not None and (rows.heads[:, far].any() or rows.tails[:, far].any()):  # doubles that are far
            rows = self._stretches(handles, sizes, lows, highs, np.zeros_like(firsts), sizes)
        out[: self._visible] = rows.columns[: self._visible, rows.requested]
        for (column, _), codes in zip(self._framed, self._frames.values(rows), strict=True):
            out[column] = codes

    def page(self, handles: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> np.ndarray:
        """Returns the stage's rows at positions of partitions: codes, int64[columns, n]. O(log n) for each, plus the
        cost of the values of functions that are not running.
        """
        if all(call.running for call in self.stage.functions):
            return self._running.rows(handles, lows, highs)[self._visible_indexes]
        return self._rows_with_values(handles, lows, highs)

    def _stretches(
        self,
        handles: np.ndarray,
        sizes: np.ndarray,
        lows: np.ndarray,
        highs: np.ndarray,
        firsts: np.ndarray,
        ends: np.ndarray,
    ) -> Stretches:
        """Returns the rows at positions ``firsts`` to ``ends`` of partitions, extended to all copies of the first and
        the last row. The values of the rows at ``lows`` to ``highs`` are requested.
        """
        arena, k, shape = self._part.arena, self.trees.k, self._sums.shape
        firsts, ends = firsts.copy(), ends.copy()
        if self.trees.copies > len(self.trees):
            kernels.align(arena, handles, k, self.trees.unsummed, firsts, 0, self.trees.path)
            kernels.align(arena, handles, k, self.trees.unsummed, ends, 1, self.trees.path)
        columns, heads = self.trees.copied(handles, firsts, ends, shape)
        tails = np.zeros_like(heads)
        if self._sums.tails:
            tails, before = self.trees.sums_before(handles, sizes), self.trees.sums_before(handles, ends)
            difference = np.zeros_like(tails)
            rows = np.concatenate([before, tails])
            kernels.add_range_sums(
                rows, shape, np.arange(len(handles)), np.arange(len(handles)) + len(handles), difference
            )
            tails = difference
            for word in self._sums.extrema.values():
                tails[:, word] = self.trees.maximum_from(handles, ends, word)
        lengths = ends - firsts
        starts = np.cumsum(lengths) - lengths
        position = np.arange(int(lengths.sum())) - np.repeat(starts - firsts, lengths)
        inside = (position >= np.repeat(lows, lengths)) & (position < np.repeat(highs, lengths))

        def at(stretches: np.ndarray, positions: np.ndarray) -> np.ndarray:
            return self.trees.row(handles[stretches], positions)

        def numbered(stretches: np.ndarray, word: int, numbers: np.ndarray) -> np.ndarray:
            return self.trees.numbered(handles[stretches], word, numbers)

        return Stretches(columns, starts, lengths, firsts, sizes, inside.nonzero()[0], heads, tails, at, numbered)

    # -- reading -------------------------------------------------------------------------------------------------------

    def mark_values(self) -> None:
        """Marks every value in the dictionary that the rows reference."""
        super().mark_values()
        for values in self._ordered_values:
            values.trees.mark_all()

    def check_invariants(self) -> None:
        """Checks the invariants of the trees. Raises AssertionError if one does not hold, or if the stored values are
        not the values of the rows.
        """
        super().check_invariants()
        partitions = [
            self.trees.copied(handles, np.zeros_like(handles), self.trees.sizes(handles), self.trees.unsummed)[0]
            for handles in self.trees.blocks()
        ]
        for values in self._ordered_values:
            values.trees.check_all()
            expected = [
                values.values_of(Zset.of_columns(rows, np.ones(rows.shape[1], np.int64))) for rows in partitions
            ]
            stored = [net.negated() for handles in values.trees.blocks() for net in values.trees.rows(handles)]
            assert not len(Zset.gathered([*expected, *stored], values.trees.width).net()), (
                "values are not those of the rows"
            )

    def scan(self, sources: Sequence[Iterable[Zset]] = ()) -> Iterator[Zset]:
        """Yields the rows in order, partition by partition. Copies with different values are separate rows."""
        for handles in self.trees.blocks():
            sizes = self.trees.sizes(handles)
            batch = np.cumsum(sizes) // _SCANNED
            for number in np.unique(batch):
                selected = batch == number
                lows = np.zeros(int(selected.sum()), np.int64)
                yield self._rows_at(Pieces(handles[selected], lows, sizes[selected]))

    def multiplicity(self, row: np.ndarray, sources: Sequence[Iterable[Zset]] = ()) -> int:
        """Returns the multiplicity of a row.

        O(log n), plus the cost of the values of one row; O(result) if the stage orders by hidden columns.
        """
        if self.stage.hidden:
            return super().multiplicity(row)
        places = self.trees.places(row[: self._width].reshape(-1, 1))
        found = self._rows_with_values(places[kernels.HANDLE], places[kernels.LOW], places[kernels.HIGH])
        return int((found == row[:, None]).all(axis=0).sum())
