"""The window stage: maintains each row with the values of window functions over its partition.

    net -> feed -> changes -> positions that they reach -> values there before and after -> the difference

All rows are stored in order, with exact sums, in a tree per partition. A change determines the positions that it
reaches: some adjacent rows, the rows whose frames contain its value, or all later rows. The positions that several
changes reach are disjoint intervals, and every change is inside of one. So values outside of the intervals do not
change, and the positions after the batch follow from those before it.

The order is that of values, never of codes, and the other columns break ties, so that the result is a function of the
data. DENSE_RANK is a count over a frame: of the rows up to the last peer that are the first of their peers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from crown.kernels.memory.tables import table_at
from crown.stages.feeds import Reader
from crown.stages.kernels.over import partitions as kernels
from crown.stages.orders import order_words
from crown.stages.over.flips import Flips
from crown.stages.over.frames import Frames
from crown.stages.over.gathered import read_in_order
from crown.stages.over.kept import Kept
from crown.stages.over.picks import Picks
from crown.stages.over.reach import Reach
from crown.stages.over.stretches import Stretches
from crown.stages.over.sums import Sums
from crown.stages.over.touched import Touched
from crown.stages.protocol import Part, Stage
from crown.stages.running.cuts import Pieces
from crown.stages.running.shifts import Shifts, shifted
from crown.stages.running.unfolded import Unfolding
from crown.stages.running.values import Running
from crown.stages.trees import InOrder, Partitions
from crown.store.zset import Zset
from plans.programs.frames import RUNNING
from plans.programs.stages import OverStage
from plans.schema import Column

_SCANNED = 1 << 12


class Over(InOrder, Stage):
    """Runs an over stage. ``source``: the columns that it reads."""

    def __init__(self, stage: OverStage, source: Sequence[Column], part: Part) -> None:
        counting = {one: replace(one, frame=RUNNING) for one in stage.functions if one.function == "dense_rank"}
        stage = replace(stage, functions=tuple(counting.get(one, one) for one in stage.functions))
        self.stage = stage
        self.inputs: tuple[str | int, ...] = (stage.feed.source,)
        self.parts: tuple[np.ndarray, ...] = (part.arena,)
        self._part = part
        self._reader = Reader(stage.feed, source, part.dictionary)
        self._all = self._reader.columns
        self._width = len(self._all)
        self._shown = self._width - stage.hidden
        made = tuple(Column(one.name, one.type) for one in stage.functions)
        self.columns = (*self._all[: self._shown], *made)
        self._told = np.delete(np.arange(self._width + len(made)), np.s_[self._shown : self._width])
        place = {column.name: i for i, column in enumerate(self._all)}
        meant = {output.name: str(output.expr) for output in stage.feed.columns}
        self._sums = Sums(stage.functions, self._all, part.dictionary, meant, len(stage.order))
        functions = list(enumerate(stage.functions, self._shown))
        self._framed = [(i, one) for i, one in functions if not one.from_row]
        reads = {one: read_in_order(one, self._sums) for one in stage.functions if one.keeps_values}
        kept = {
            read: Kept(part, int(table_at(i)), self._all, stage.keys, *read)
            for i, read in enumerate(dict.fromkeys(reads.values()), 1)
        }  # fmt: skip
        self._kept = tuple(kept.values())
        of_values = {one: kept[read] for one, read in reads.items()}
        self._frames = Frames(
            [one for _, one in self._framed], self._all, stage.order, self._sums, part.dictionary, of_values
        )  # fmt: skip
        keyed = [place[name] for name in stage.keys]
        self._trees = Partitions(
            part, int(table_at(0)), [column.type for column in self._all], keyed,
            order_words(self._all, stage.order, keyed), self._sums.shape, self._sums.session,
        )  # fmt: skip
        self._picks = Picks([(i, one) for i, one in functions if one.from_row], place, self._sums, self._trees)
        self._reach = Reach(stage, self._all, self, self._picks, Flips(self._sums, self._trees))
        self._running = Running(stage.functions, len(stage.order), self._sums, self._trees)
        alike = all(one.running for one in stage.functions) and self._running.fits_words
        self._unfolding = Unfolding(self._running, self._shown) if alike else None
        part.open(1 + len(self._kept))

    # A batch
    # ------------------------------------------------------------------------------------------------------------------

    def apply(self, nets: Sequence[Zset]) -> Zset:
        """Applies a batch. O(log n) per change, plus the cost of the rows whose values a change can change.

        Raises MemoryBudgetError, and ChangeError for a delete of an absent row, or for a sum that leaves its type.
        """
        net = self._given(nets)
        if not len(net):
            return Zset.empty(len(self.columns))
        if self._unfolding is not None:
            return self._part.run_atomically(net, self._unfolded, self._change)
        touched = self._reach.of(np.ascontiguousarray(net.columns()), net.weights)
        sorted_ = Zset.of_columns(np.take(net.columns(), touched.order, axis=1), net.weights[touched.order])
        work = self._valued_anew if self._framed else self._picked_anew
        return self._part.run_atomically(sorted_, partial(work, touched), self._change)

    def shifted(self, nets: Sequence[Zset], told: int) -> tuple[Zset, Shifts]:
        """Applies a batch. Returns the changes of the values of running functions: single rows, and ranges of rows that
        move by the same amount (see ``crown.stages.running.shifts``). O(log n) per change. Raises the errors of
        ``apply``.
        """

        def work(net: Zset, done: np.ndarray) -> tuple[Zset, Shifts]:
            keys = np.ascontiguousarray(net.columns())
            return shifted(
                self._running, self._written, told, keys, net.weights, lambda sums: self._change(net, done, sums)
            )  # fmt: skip

        return self._part.run_atomically(self._given(nets), work, self._change)

    def _given(self, nets: Sequence[Zset]) -> Zset:
        return self._trees.together(self._reader.zset(nets[0]).net(), self._trees.count)

    def _unfolded(self, net: Zset, done: np.ndarray) -> Zset:
        """Adds rows. Returns the changes of the values of all rows, for running functions."""
        keys = np.ascontiguousarray(net.columns())
        assert self._unfolding is not None, "all functions are running"
        return self._unfolding.delta(keys, net.weights, lambda sums: self._change(net, done, sums))

    def _written(self, here: Pieces) -> Zset:
        """Returns rows with the present values of running functions."""
        if not len(here.handles):
            return Zset.empty(len(self.columns))
        if self._unfolding is not None:
            return self._unfolding.rows(here)
        rows = self._running.rows(here.handles, here.lows, here.highs)[self._told]
        return Zset.of_columns(rows, np.ones(rows.shape[1], np.int64))

    def _picked_anew(self, touched: Touched, net: Zset, done: np.ndarray) -> Zset:
        """Adds rows, sorted as they are ``touched``. Returns the changes of the values of all rows, for functions that
        pick: each stretch is read, changed and read again.
        """
        keys = np.ascontiguousarray(net.columns())
        sums = self._sums.of(keys, net.weights)[0]
        rows, signs = self._picks.replaced(touched, keys, net.weights, sums, self._shown, len(self.columns), done)
        made = self._valued(*self._made(touched, keys))
        if made.shape[1]:
            rows, signs = np.concatenate([rows, made], axis=1), np.append(signs, np.ones(made.shape[1], np.int64))
        return Zset.of_columns(rows, signs).net()

    def _valued_anew(self, touched: Touched, net: Zset, done: np.ndarray) -> Zset:
        """Does the same as ``_picked_anew`` for functions that read frames: reads rows, changes them, reads again."""
        keys = np.ascontiguousarray(net.columns())
        old = self._valued(*touched.old)
        self._change(net, done)
        some, lows, highs = touched.new
        after = zip((self._trees.find(keys[:, some]), lows, highs), self._made(touched, keys), strict=True)
        new = self._valued(*(np.concatenate(parts) for parts in after))
        weights = np.repeat(np.array([-1, 1], np.int64), [old.shape[1], new.shape[1]])
        return Zset.of_columns(np.concatenate([old, new], axis=1), weights).net()

    def _made(self, touched: Touched, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the partitions that changes have made: handles, and the start and the end positions of their rows."""
        made = np.unique(self._trees.find(keys[:, : touched.fresh]))
        made = made[made != 0]
        return made, np.zeros_like(made), self.sizes(made)

    def _change(self, net: Zset, done: np.ndarray, sums: np.ndarray | None = None) -> None:
        """Adds rows, and the stored values of them: all, or none."""
        if not self._kept:
            self._add(net, done, sums)
            return

        def work(rows: Zset, done: np.ndarray) -> None:
            self._add(rows, done)
            self._keep(rows, self._kept)

        self._part.run_atomically(net, work, self._add)
        done[0] = len(net)

    def _keep(self, net: Zset, kept: Sequence[Kept]) -> None:
        if not kept:
            return
        first, *rest = kept

        def work(values: Zset, done: np.ndarray) -> None:
            first.change(values, done)
            self._keep(net, rest)

        self._part.run_atomically(first.of(net), work, first.change)

    def _add(self, net: Zset, done: np.ndarray, sums: np.ndarray | None = None) -> None:
        self._trees.change(
            net, lambda keys, weights: self._sums.of(keys, weights)[0] if sums is None else sums, done,
            "below a window function",
        )  # fmt: skip

    @property
    def feed(self) -> Sequence[Column]:
        """Returns the columns of the stored rows."""
        return self._all

    def places(self, keys: np.ndarray) -> np.ndarray:
        """Returns the places of rows. O(log n) each."""
        return self._trees.places(keys)

    def bounds(self, handles: np.ndarray, keys: np.ndarray, columns: int, mode: int) -> np.ndarray:
        """Returns the places that rows would have. O(log n) each."""
        return self._trees.located(handles, keys, columns, mode)[0]

    # Values
    # ------------------------------------------------------------------------------------------------------------------

    def _valued(self, handles: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> np.ndarray:
        """Returns the stage's rows at positions ``lows`` to ``highs`` of partitions: codes, int64[columns, n]."""
        some = lows < highs
        handles, lows, highs = (np.ascontiguousarray(part[some]) for part in (handles, lows, highs))
        if not len(handles):
            return np.empty((len(self.columns), 0), np.int64)
        out = np.empty((len(self.columns), int((highs - lows).sum())), np.int64)
        if self._framed:
            self._write_framed(handles, lows, highs, out)
        if self._picks or not self._framed:
            self._picks.write(handles, lows, highs, 0 if self._framed else self._shown, out)
        return out

    def _write_framed(self, handles: np.ndarray, lows: np.ndarray, highs: np.ndarray, out: np.ndarray) -> None:
        """Writes the output columns of rows, and the functions that read frames."""
        sizes = self.sizes(handles)
        firsts, ends = self._reach.around(handles, sizes, lows, highs)
        rows = self._stretches(handles, sizes, lows, highs, firsts, ends)
        far = self._sums.far if self._sums.shape[1] else None
        if far is not None and (rows.heads[:, far].any() or rows.tails[:, far].any()):  # doubles that are far
            rows = self._stretches(handles, sizes, lows, highs, np.zeros_like(firsts), sizes)
        out[: self._shown] = rows.columns[: self._shown, rows.wanted]
        for (column, _), codes in zip(self._framed, self._frames.values(rows), strict=True):
            out[column] = codes

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Returns the handles of the partitions of rows; 0 if there is none. O(1) each."""
        return self._trees.find(keys)

    def page(self, handles: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> np.ndarray:
        """Returns the stage's rows at positions of partitions: codes, int64[columns, n]. O(log n) for each, plus the
        cost of the values of functions that are not running.
        """
        if all(one.running for one in self.stage.functions):
            return self._running.rows(handles, lows, highs)[self._told]
        return self._valued(handles, lows, highs)

    def rows(self, handles: np.ndarray, firsts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Returns the rows at some places. O(log n + rows) each."""
        return self._trees.copied(handles, firsts, ends, self._trees.unsummed)[0]

    def sizes(self, handles: np.ndarray) -> np.ndarray:
        """Returns the number of rows of partitions. O(1) each."""
        return self._trees.sizes(handles)

    def counted(self, handles: np.ndarray, positions: np.ndarray, where: str) -> np.ndarray:
        """Returns the number of rows before positions that pass a filter. O(log n) each."""
        return self._sums_before(handles, positions)[:, self._sums.counts[where]]

    def numbered(self, handles: np.ndarray, where: str, numbers: np.ndarray) -> np.ndarray:
        """Returns the positions of rows from their numbers among the rows that pass a filter. O(log n) each."""
        return self._trees.numbered(handles, self._sums.counts[where], numbers)

    def _sums_before(self, handles: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Returns the sums of the rows before positions of partitions, int64[n, words]. O(log n) each."""
        return self._trees.copied(handles, positions, positions, self._sums.shape)[1]

    def _stretches(
        self,
        handles: np.ndarray,
        sizes: np.ndarray,
        lows: np.ndarray,
        highs: np.ndarray,
        firsts: np.ndarray,
        ends: np.ndarray,
    ) -> Stretches:
        """Returns the rows at positions ``firsts`` to ``ends`` of partitions, or some more. The values of the rows at
        ``lows`` to ``highs`` are wanted.
        """
        arena, k, shape = self._part.arena, self._trees.k, self._sums.shape
        firsts, ends = firsts.copy(), ends.copy()
        if self._trees.copies > len(self._trees):
            kernels.align(arena, handles, k, self._trees.unsummed, firsts, 0, self._trees.path)
            kernels.align(arena, handles, k, self._trees.unsummed, ends, 1, self._trees.path)
        columns, heads = self._trees.copied(handles, firsts, ends, shape)
        tails = np.zeros_like(heads)
        if self._sums.tails:
            tails, before = self._sums_before(handles, sizes), self._sums_before(handles, ends)
            lost = np.zeros_like(tails)
            rows = np.concatenate([before, tails])
            kernels.between(rows, shape, np.arange(len(handles)), np.arange(len(handles)) + len(handles), lost)
            tails = lost
            for word in self._sums.best.values():
                tails[:, word] = self._trees.rest(handles, ends, word)
        lengths = ends - firsts
        starts = np.cumsum(lengths) - lengths
        position = np.arange(int(lengths.sum())) - np.repeat(starts - firsts, lengths)
        inside = (position >= np.repeat(lows, lengths)) & (position < np.repeat(highs, lengths))

        def at(stretches: np.ndarray, positions: np.ndarray) -> np.ndarray:
            return self.rows(handles[stretches], positions, positions + 1)

        def numbered(stretches: np.ndarray, word: int, numbers: np.ndarray) -> np.ndarray:
            return self._trees.numbered(handles[stretches], word, numbers)

        return Stretches(columns, starts, lengths, firsts, sizes, inside.nonzero()[0], heads, tails, at, numbered)

    # Reading
    # ------------------------------------------------------------------------------------------------------------------

    def mark_values(self) -> None:
        """Marks every value in the dictionary that the rows reference."""
        super().mark_values()
        for kept in self._kept:
            kept.trees.mark_all()

    def check_invariants(self) -> None:
        """Checks the invariants of its trees. Raises AssertionError if one does not hold, or if the stored values are
        not those of the rows.
        """
        super().check_invariants()
        every = [self.rows(handles, np.zeros_like(handles), self.sizes(handles)) for handles in self._trees.blocks()]
        for kept in self._kept:
            kept.trees.check_all()
            wanted = [kept.of(Zset.of_columns(rows, np.ones(rows.shape[1], np.int64))) for rows in every]
            there = [net.negated() for handles in kept.trees.blocks() for net in kept.trees.rows(handles)]
            assert not len(Zset.gathered([*wanted, *there], kept.trees.width).net()), "values are not those of the rows"

    def scan(self, sources: Sequence[Iterable[Zset]] = ()) -> Iterator[Zset]:
        """Yields the rows in order, partition by partition. Copies with different values are separate rows."""
        for handles in self._trees.blocks():
            sizes = self.sizes(handles)
            batch = np.cumsum(sizes) // _SCANNED
            for number in np.unique(batch):
                mine = batch == number
                if self._unfolding is not None:
                    yield self._unfolding.rows(Pieces(handles[mine], np.zeros(int(mine.sum()), np.int64), sizes[mine]))
                    continue
                rows = self._valued(handles[mine], np.zeros(int(mine.sum()), np.int64), sizes[mine])
                yield Zset.of_columns(rows, np.ones(rows.shape[1], np.int64))

    def multiplicity(self, row: np.ndarray, sources: Sequence[Iterable[Zset]] = ()) -> int:
        """Returns the multiplicity of a row.

        O(log n), plus the cost of the values of one row; O(result) if the stage orders by hidden columns.
        """
        if self.stage.hidden:
            return sum(int(net.weights[(net.rows == row).all(axis=1)].sum()) for net in self.scan())
        places = self.places(row[: self._width].reshape(-1, 1))
        found = self._valued(places[kernels.HANDLE], places[kernels.LOW], places[kernels.HIGH])
        return int((found == row[:, None]).all(axis=0).sum())
