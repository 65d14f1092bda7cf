"""Relations with a window: a batch that moves the window deletes the rows that leave it.

    net -> without late rows -> the rows inside the window, in order -> net, and deletes of expired rows

The rows inside the window are stored, so this table also decides which deletes find a row. The effect of a batch is
stored with them, so that a process that opens the state next can undo it. A change costs O(log n), and so does each
expired row. The tree is never scanned completely.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from crown.errors import MissingDeleteError
from crown.kernels.memory.arena import H_BUDGET, H_LIVE, T_TALLIES, release
from crown.kernels.strings import NULL
from crown.stages.kernels import retained as kernels
from crown.stages.kernels.retained import COUNTERS, MARK, ROWS, UNDO, block
from crown.stages.orders import order_of
from crown.stages.protocol import Part
from crown.stages.trees import OrderedRows, Trees
from crown.store.codec import decode, uses_dictionary
from crown.store.display import shown
from crown.store.zset import Zset
from plans.schema import Column
from plans.time.windows import Window

_RECORD = T_TALLIES + 2  # the word of a table that holds the handle of its relation's record
_SCANNED = 1 << 12
_ALL = 1 << 62
_LATEST = 2**63 - 1


class WindowedTable:
    """The rows of one relation inside its ``window``. ``table``: a table of the part, whose last tally is used."""

    def __init__(self, part: Part, table: int, columns: Sequence[Column], window: Window) -> None:
        self.window = window
        self._part = part
        self._columns = columns
        self._width = len(columns) + window.arrival  # with a running number after the row
        self._time_column = len(columns) if window.arrival else [column.name for column in columns].index(window.by)
        other_columns = [i for i in range(len(columns)) if i != self._time_column]
        number_column = [self._time_column] if window.arrival else []
        self._ordered = self._trees_by([self._time_column, *other_columns])
        self._by_row = self._trees_by([*other_columns, *number_column])
        self._record, created = part.record(table + _RECORD, kernels.WORDS)
        if created:
            part.arena[self._record + MARK] = NULL
        trees = [(self._record + kernels.ORDERED, self._ordered), (self._record + kernels.BY_ROW, self._by_row)]
        self._rows = OrderedRows(trees[: 1 + window.arrival])

    def _trees_by(self, places: Sequence[int]) -> Trees:
        """Returns trees in ascending order of these columns."""
        types = [*(column.type for column in self._columns), *["int64"] * self.window.arrival]
        words = [[i, order_of(types[i]), 0, 0] for i in places]
        return Trees(self._part, types, np.array(words, np.int64).reshape(-1))

    # -- a batch -------------------------------------------------------------------------------------------------------

    def apply(self, net: Zset, advance: int | None, strict: bool) -> Zset:
        """Returns the effect of a batch on the rows inside the window: effective changes and deletes of expired rows,
        net.

        ``net``: each row once if it has deletes; for a window by arrival, the rows in the order of the batch.
        ``advance``: None, or a watermark that is reached at least. ``strict``: raises MissingDeleteError for a delete
        that finds too few copies. Raises MemoryBudgetError. If it raises, nothing has changed. O(log n) per change and
        expired row.
        """
        before = self._counters().copy()
        done: list[Zset] = []
        try:
            done.append(self._apply_changes(net, advance, strict))
            for expired in self._expired():
                self._add(expired)
                self._counters()[kernels.EXPIRED - MARK] -= int(expired.weights.sum())
                done.append(expired)
            total = Zset.gathered(done, self._width).net()
            self._store_effect(total, before)
        except BaseException:
            with self._part.budget.lifted():
                for part in reversed(done):
                    self._add(part.negated())
            self._counters()[:] = before
            raise
        return self._without_numbers(total)

    def _apply_changes(self, net: Zset, advance: int | None, strict: bool) -> Zset:
        """Applies the changes, and moves the watermark. Returns the effective changes."""
        counters = self._counters()
        if not self.window.counts:
            late = net.rows[:, self._time_column] <= self.late_until()
            counters[kernels.LATE - MARK] += int(np.abs(net.weights[late]).sum())
            net = net[~late]
        counters[kernels.UPDATES - MARK] += len(net)
        changes, missing = self._with_numbers(net) if self.window.arrival else (net, np.empty(0, np.int64))
        if strict and missing.any():
            raise self._missing_delete(net, missing)
        effective = self._add(changes)
        if not self.window.arrival:
            missing = effective - changes.weights
            if strict and missing.any():
                with self._part.budget.lifted():
                    self._add(Zset(changes.rows, -effective)[effective != 0])
                raise self._missing_delete(changes, missing)
        counters[kernels.MISSING - MARK] += int(missing.sum())
        if not self.window.counts:
            inserted = changes.rows[changes.weights > 0, self._time_column]
            mark = self.window.watermark_of(int(inserted.max())) if len(inserted) else NULL
            counters[0] = max(int(counters[0]), mark, NULL if advance is None else advance)
        return Zset(changes.rows, effective)[effective != 0]

    def _with_numbers(self, net: Zset) -> tuple[Zset, np.ndarray]:
        """Returns the changes with running numbers, and the missing copies of each change of ``net``. Deletes get the
        numbers of the oldest copies, inserts get new ones."""
        deletes, inserts = _net_effect(net)
        missing = np.zeros(len(net), np.int64)
        counters = self._counters()
        found = Zset.empty(self._width)
        if len(deletes):
            deleted = net[deletes < 0]
            copies = -deletes[deletes < 0]
            keys = np.vstack([deleted.columns(), np.full(len(deleted), NULL, np.int64)])
            room = min(int(copies.sum()), int(counters[ROWS - MARK]))
            rows, weights = np.empty((room, self._width), np.int64), np.empty(room, np.int64)
            trees = self._by_row
            m = kernels.oldest(
                self._part.arena, self._record + kernels.BY_ROW, trees.shape, trees.spec, trees.strides(len(deleted)),
                keys, copies, *self._part.dictionary.memory, trees.path, rows, weights,
            )  # fmt: skip
            found = Zset(rows[:m], -weights[:m])
            missing[deletes < 0] = copies
        inserted = Zset(net.rows, inserts)[inserts > 0]
        first = int(counters[kernels.NEXT - MARK])
        numbers = np.arange(first, first + len(inserted), dtype=np.int64)
        counters[kernels.NEXT - MARK] += len(inserted)
        numbered = Zset(np.column_stack([inserted.rows, numbers]), inserted.weights)
        return Zset.gathered([found, numbered], self._width), missing

    def _expired(self) -> Iterator[Zset]:
        """Yields, block by block, deletes of the expired rows. The caller must have deleted the previous block."""
        room = 64
        while True:
            until, copies = self._expired_bounds()
            rows, weights = np.empty((room, self._width), np.int64), np.empty(room, np.int64)
            m = kernels.front(
                self._part.arena, self._record + kernels.ORDERED, self._ordered.shape, self._time_column, until, copies,
                rows, weights,
            )  # fmt: skip
            if m:
                yield Zset(rows[:m], -weights[:m])
            if m < room:
                return
            room = min(2 * room, _SCANNED)

    def _expired_bounds(self) -> tuple[int, int]:
        """Returns the bounds of expired rows: the greatest expired time, and the number of expired copies."""
        if self.window.counts:
            return _LATEST, len(self) - self.window.rows
        return self.late_until(), _ALL

    def _add(self, events: Zset) -> np.ndarray:
        """Adds copies of rows, of which none may fall below 0. Returns the effective changes (int64[n])."""
        effective = self._rows.change(events)
        self._counters()[ROWS - MARK] += int(effective.sum())
        return effective

    def _store_effect(self, total: Zset, before: np.ndarray) -> None:
        """Stores the effect of a batch, and the counters ``before`` it. O(batch)."""
        arena, n, handle = self._part.arena, len(total), 0

        def work() -> bool:
            nonlocal handle
            if arena[H_LIVE] > arena[H_BUDGET]:
                return False
            handle = int(block(arena, self._size(n)))
            return True

        self._part.run_until_done(work, self._size(n))
        arena[handle] = n
        parts = (before, total.flat(), total.weights)
        arena[handle + 1 : handle + self._size(n)] = np.concatenate(parts)
        self._release_effect()
        arena[self._record + UNDO] = handle

    def _stored_effect(self) -> tuple[Zset, np.ndarray]:
        """Returns the stored effect of the last batch, or an empty one, and the counters before it."""
        arena, handle = self._part.arena, int(self._part.arena[self._record + UNDO])
        n = int(arena[handle]) if handle else 0
        before, rows, weights = np.split(
            arena[handle + 1 : handle + self._size(n)].copy(), [COUNTERS, COUNTERS + n * self._width]
        )
        return Zset(rows.reshape(n, self._width), weights), before

    def _release_effect(self) -> None:
        arena, handle = self._part.arena, int(self._part.arena[self._record + UNDO])
        if handle:
            release(arena, handle, self._size(int(arena[handle])))
        arena[self._record + UNDO] = 0

    def _size(self, rows: int) -> int:
        return 1 + COUNTERS + rows * (self._width + 1)

    def roll_back(self) -> Zset:
        """Undoes the last batch, without regard to the budget. Returns its effect. O(batch log n)."""
        total, before = self._stored_effect()
        with self._part.budget.lifted():
            self._add(total.negated())
        self._counters()[:] = before
        self._release_effect()
        return self._without_numbers(total)

    # -- reading -------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Returns the number of rows inside the window, with copies."""
        return int(self._counters()[ROWS - MARK])

    def late_until(self) -> int:
        """Returns the greatest event time that has expired; -2^63 before there is a watermark."""
        mark = int(self._counters()[0])
        return mark if mark == NULL else self.window.expired_until(mark)

    def reached(self) -> int | None:
        """Returns the watermark as a code; None before there is one, and for a window that counts rows."""
        mark = int(self._counters()[0])
        return None if self.window.counts or mark == NULL else mark

    def watermark(self) -> Any:
        """Returns the watermark as a value of its column, or None as ``reached`` does."""
        if self.reached() is None:
            return None
        return shown(decode(self._counters()[:1].copy(), self.type, self._part.dictionary.extern)[0])

    @property
    def type(self) -> str:
        """Returns the type of the column that orders the window."""
        return self._columns[self._time_column].type

    def scan(self) -> Iterator[Zset]:
        """Yields the rows inside the window, with their copies. O(1) per row."""
        for rows in self._scan():
            yield rows.project(range(len(self._columns)))

    def _scan(self) -> Iterator[Zset]:
        return self._rows.scan()

    def _counters(self) -> np.ndarray:
        """Returns a view of the counters, the watermark first."""
        return self._part.arena[self._record + MARK : self._record + MARK + COUNTERS]

    def _without_numbers(self, rows: Zset) -> Zset:
        """Returns rows without their running numbers, net."""
        return rows.net(range(len(self._columns)))

    def _missing_delete(self, net: Zset, missing: np.ndarray) -> MissingDeleteError:
        position = int(missing.argmax())
        row = net.rows[position, : len(self._columns)]
        return self._part.missing_delete(self.window.relation, self._columns, row, -int(net.weights[position]))

    # -- maintenance ---------------------------------------------------------------------------------------------------

    def mark_values(self) -> None:
        """Marks every value in the dictionary that the rows and the stored effect of the last batch reference.
        O(state)."""
        self._rows.mark_values()
        effect = self._stored_effect()[0]
        for i, column in enumerate(self._columns):
            if uses_dictionary(column.type):
                self._part.dictionary.mark_codes(np.ascontiguousarray(effect.rows[:, i]))

    def check_invariants(self) -> None:
        """Raises AssertionError unless the trees are in order, have the same rows, and no expired row."""
        self._rows.check_invariants()
        found = list(self._scan())
        assert sum(int(rows.weights.sum()) for rows in found) == len(self), "the rows do not match their counter"
        until, copies = self._expired_bounds()
        if self.window.counts:
            assert copies <= 0, "the window has too many rows"
        else:
            assert all((rows.rows[:, self._time_column] > until).all() for rows in found), "an expired row is stored"

    def stats(self) -> dict[str, Any]:
        """Returns the window, the rows inside it, the total expired and late rows, and the watermark if it has one."""
        counters = dict(zip(_NAMES, self._counters().tolist(), strict=True))
        stats = {"window": str(self.window), "rows": counters["rows"], "expired": counters["expired"]}
        if self.window.counts:
            return stats
        mark = self.watermark()
        printed = mark if mark is None or isinstance(mark, int) else str(mark)
        return {**stats, "late": counters["late"], "watermark": printed}

    def reset_counters(self) -> None:
        """Resets the counters of received changes."""
        for number in (kernels.LATE, kernels.EXPIRED, kernels.MISSING, kernels.UPDATES):
            self._counters()[number - MARK] = 0

    @property
    def missing_deletes(self) -> int:
        """Returns the total copies that deletes did not find."""
        return int(self._counters()[kernels.MISSING - MARK])

    @property
    def updates(self) -> int:
        """Returns the total net changes."""
        return int(self._counters()[kernels.UPDATES - MARK])


_NAMES = ("watermark", "next", "rows", "late", "expired", "missing", "updates")


def _net_effect(net: Zset) -> tuple[np.ndarray, np.ndarray]:
    """Returns the deletes and the inserts (int64[n] each, in the order of the batch) of a batch whose equal rows are
    summed.

    If the sum of equal rows is below 0, it is assigned to the first of them, as a delete. Otherwise it is assigned to
    the last inserts among them, because deletes of the batch remove its earliest copies.
    """
    weights, n = net.weights, len(net)
    if not n or weights.min() > 0:
        return np.zeros(n, np.int64), weights
    rows = np.ascontiguousarray(net.rows)
    group_of = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1) if net.width else np.zeros(n, np.int64)
    order = np.argsort(group_of, kind="stable")
    groups, changes = group_of[order], weights[order]
    first = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    sums = np.add.reduceat(changes, first)
    inserts = np.maximum(changes, 0)
    total = np.add.reduceat(inserts, first)
    number = np.cumsum(np.append(False, groups[1:] != groups[:-1]))
    so_far = np.cumsum(inserts) - (np.cumsum(total) - total)[number]
    later = total[number] - so_far  # the sum of the same row's later inserts
    inserted, deleted = np.zeros(n, np.int64), np.zeros(n, np.int64)
    inserted[order] = np.clip(sums[number] - later, 0, inserts)
    deleted[order[first]] = np.minimum(sums, 0)
    return deleted, inserted
