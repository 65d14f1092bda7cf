"""Recursions: the rows that a body of stages derives from the inputs and from these rows themselves.

A batch runs in rounds. In each, the rows that changed in the round before go through the body, whose stages deliver the
derivations that they gain or lose. With UNION ALL, a row is there as often as it is derived, and the rounds end when no
row changes.

With UNION, a row is there if it is derived at all. Rows that only derive each other must not stay, so every row has a
stamp when it is inserted, greater than those of all rows that are there, and two counts: of its derivations, and of
those that are *founded*, whose rows all have smaller stamps than its own.

- While there are rows without a founded derivation, these are deleted: their derivations of others are lost with them.
- Then rows that are not there, and have derivations, are inserted with a new stamp.

All rows that stay have a founded derivation, so by induction on their stamps each follows from the inputs. A row that
was deleted and has another derivation comes back in the second step: the net has neither change. This is a counting
algorithm in the sense of Hu, Motik and Horrocks (AAAI 2018) without backward evaluation.

With MIN or MAX, the rows that have derivations are candidates, and only the best candidate of each group can be there.
The first step also deletes a row when a better candidate is derived, and the second step inserts the best candidates.
The value of each row that stays is that of a derivation from the inputs, and no derivation has a better one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np
from typing_extensions import override

from crown.engine.kernels.update import MAX_COPIES
from crown.errors import ChangeError
from crown.kernels.memory.arena import H_STEPS, T_TALLIES
from crown.results.columns import NativeFeed
from crown.stages.feeds import native_feeds, readers
from crown.stages.groups.group import Groups
from crown.stages.joins.core import Join
from crown.stages.kernels.recursions import BEST, COUNT, FOUNDED, STAMP
from crown.stages.protocol import REFUSALS, Part, Stage
from crown.stages.tables.derived_rows import DerivedRows
from crown.stages.top import Top
from crown.store.zset import Zset
from plans.programs.reads import key_of
from plans.programs.stages import FixpointStage
from plans.schema import Column

MOST_ROUNDS = 10_000
"""A batch with more rounds is rejected: it does not end, as far as can be known."""
_ENDLESS = {
    "union": "does not end; nothing was applied. Add a condition that ends it",
    "union all": "with UNION ALL does not end; nothing was applied. Rows derive themselves in a circle, or a condition "
    "that ends it is missing; UNION has each row once, also in a circle",
    "best": "with MIN or MAX does not end; nothing was applied. Rows derive better values for themselves in a circle, "
    "or a condition that ends it is missing",
}


@dataclass
class Started:
    """What a native call has done of a batch: rounds, and stages of the body in the next one.

    ``log``, ``applied``, ``judged``: see `Fixpoint`. ``changed``: the changes of the rows. ``absent``: rows that may
    have to be inserted. ``pending``: the changes of the tables of the body in the next round. ``made``: by number, what
    stages of the body have made of them.
    """

    log: list[tuple[Zset, int]] = field(default_factory=list)
    applied: list[Sequence[Zset]] = field(default_factory=list)
    judged: list[Zset] = field(default_factory=list)
    changed: list[Zset] = field(default_factory=list)
    absent: list[Zset] = field(default_factory=list)
    pending: Sequence[Zset] = ()
    made: dict[int, Zset] = field(default_factory=dict)


class Fixpoint(Stage):
    """Runs a recursion. ``sources``: the columns that each feed reads.

    ``body``: the stages that derive rows. ``tables``: the columns of each of its tables, the last of which has the rows
    of this stage. ``best``: selects the rows with the best values. ``check``: raises to stop a batch. ``undone``: True
    after a batch that was stopped there and undone, until the next one begins.
    """

    def __init__(
        self,
        stage: FixpointStage,
        sources: Sequence[Sequence[Column]],
        body: Sequence[Stage],
        tables: Sequence[Sequence[Column]],
        best: Top | None,
        part: Part,
        check: Callable[[], None],
    ) -> None:
        self.stage = stage
        self.inputs = tuple(feed.source for feed in stage.feeds)
        self.columns = body[-1].columns[: len(body[-1].columns) - stage.distinct]
        self.body = body
        self.best = best
        self._inner = body if best is None else (*body, best)
        self.parts = (part.arena, *(arena for inner in self._inner for arena in inner.parts))
        self.undone = False
        self._check = check
        self._stopped = False  # True if what stops the batch does so at a place where its state is known
        self.started: Started | None = None  # what a native call has done of the batch that is applied next
        self.tables = tables
        self._part = part
        self._readers = readers(stage.feeds, sources, part.dictionary)
        self._names = [table.name.lower() for table in stage.tables]
        rows = [column.name.lower() for column in stage.tables[-1].columns]
        self._read = [rows.index(column.name.lower()) for column in tables[-1]]
        self._empty_change = Zset.empty(len(self.columns) + 1)
        self._empty = [Zset.empty(len(columns)) for columns in tables]
        self._sources = [tuple(key_of(source) for source in inner.inputs) for inner in body]
        self._idle = [None if has_first_row(inner) else Zset.empty(len(inner.columns)) for inner in body]
        part.open(1)
        self.counts = 1 if not stage.distinct else 3 if best is None else 4
        self._rows = DerivedRows(part, 0, len(self.columns), self.counts)
        self.record, _ = part.record(self._rows.table + T_TALLIES, 1)
        self._log: list[tuple[Zset, int]] = []  # what this batch has added to the counts of rows: events, and the count
        self._applied: list[Sequence[Zset]] = []  # the changes of the tables of the body, in this batch
        self._judged: list[Zset] = []  # the changes of the candidates, in this batch

    @property
    def table(self) -> int:
        """Returns the table of its rows."""
        return self._rows.table

    @property
    def resumes(self) -> bool:
        """Returns True if a native call has applied a part of a batch with which the stage has not continued yet."""
        return self.started is not None

    def uncount(self, derived: Zset) -> None:
        """Takes back that a native call has counted derivations."""
        with self._part.budget.lifted():
            rows = _without_last(derived) if self.stage.distinct else derived
            self._rows.add(rows.negated(), np.full(len(derived), COUNT))

    def native_feeds(self) -> Sequence[NativeFeed] | str:
        """Returns how a kernel makes the rows of each table of the body, or why it cannot run the recursion."""
        return native_feeds(self._readers)

    @property
    def columns_read(self) -> tuple[int, ...] | None:
        """Returns the columns of its rows that the body reads; None if it reads all."""
        return None if self._read == list(range(len(self.columns) + self.stage.distinct)) else tuple(self._read)

    def read(self, change: Zset) -> Zset:
        """Returns what the body reads of a change of the rows."""
        return change if self.columns_read is None else change.project(self._read).net()

    # -- a batch -------------------------------------------------------------------------------------------------------

    def apply(self, nets: Sequence[Zset]) -> Zset:
        """Applies a batch. O(rows that are derived from what changes, once per round in which they change). Raises
        ChangeError if the rounds do not end."""
        self.undone = self._stopped = False
        started, self.started = self.started or Started(), None
        self._log, self._applied, self._judged = started.log, started.applied, started.judged
        try:
            pending = started.pending
            if not pending:
                given = [reader.zset(net).net() for reader, net in zip(self._readers, nets, strict=True)]
                pending = [*given, self._empty[-1]]
            derived = self._derived(pending, started.made)
            changed = self._in_stamps(derived, started) if self.stage.distinct else self._in_sums(derived, started)
            return Zset.gathered(changed, len(self.columns)).net()
        except BaseException as error:
            if self._stopped or isinstance(error, REFUSALS):  # otherwise it is unknown what was done
                with self._part.budget.lifted():
                    self._undo_rounds()
                self.undone = self._stopped
            raise
        finally:
            self._log, self._applied, self._judged = [], [], []

    def _in_sums(self, derived: Zset, started: Started) -> list[Zset]:
        """Returns the changes of the rows, which are as often there as they are derived."""
        changed = started.changed
        for _ in self._rounds():
            net = derived.net()
            if not len(net):
                return changed
            if (self._add(net, COUNT)[:, COUNT] + net.weights).max() > MAX_COPIES:
                self._refuse(f"a row would have more than {MAX_COPIES:,} copies")
            changed.append(net)
            derived = self._derived_by(net)
        raise AssertionError("the rounds end, or raise an error")

    def _in_stamps(self, derived: Zset, started: Started) -> list[Zset]:
        """Returns the changes of the rows, which are there if they are derived."""
        changed, absent = started.changed, started.absent
        for _ in self._rounds():
            lost, missing = self._counted(derived)
            change = self._deleted(lost)
            absent += missing
            if len(change):
                absent.append(_without_last(change))
            else:
                change = self._inserted(Zset.gathered(absent, len(self.columns)))
                absent = []
                if not len(change):
                    return changed
            changed.append(_without_last(change))
            derived = self._derived_by(change)
        raise AssertionError("the rounds end, or raise an error")

    def _rounds(self) -> Iterator[int]:
        for number in range(MOST_ROUNDS):
            self._stopped = True
            self._check()
            self._stopped = False
            yield number
        self._refuse(f"it took {MOST_ROUNDS:,} rounds")

    def _refuse(self, why: str) -> NoReturn:
        kind = "best" if self.best is not None else "union" if self.stage.distinct else "union all"
        raise ChangeError(f"a recursion {_ENDLESS[kind]} ({why})")

    def _counted(self, derived: Zset) -> tuple[Zset, list[Zset]]:
        """Adds gained and lost derivations to the counts of their rows. Returns rows that must be deleted if they are
        there, and rows that are not there and may have to be inserted."""
        rows = _without_last(derived)
        before = self._add(rows, COUNT)
        founded, lost = self._rows.add_founded(rows, derived.rows[:, -1], before)
        self._log.append((founded, FOUNDED))
        if self.best is None:
            return lost, [rows[before[:, STAMP] == 0]]
        judged = self._judge(self.best, rows.net())
        worse = judged[judged.weights < 0]
        return Zset.gathered([lost, worse], len(self.columns)), [judged[judged.weights > 0]]

    def _judge(self, best: Top, net: Zset) -> Zset:
        """Counts which rows are the best, after their derivations have changed. Returns the rows that have become the
        best, with the weight 1, and those that no longer are, with -1."""
        after = self._rows.counts_of(net)[:, COUNT]
        candidates = (after > 0).astype(np.int64) - (after > net.weights)
        change = Zset(net.rows, candidates)[candidates != 0]
        judged = best.apply([change])
        self._judged.append(change)
        self._add(judged, BEST)
        return judged

    def _deleted(self, rows: Zset) -> Zset:
        """Deletes those rows that are there. Returns them with their stamps, as a change of the last table of the
        body."""
        if not len(rows):
            return self._empty_change
        change, founded = self._rows.delete(rows)
        deleted = _without_last(change)
        self._log += (Zset(deleted.rows, -change.rows[:, -1]), STAMP), (Zset(deleted.rows, -founded), FOUNDED)
        return change

    def _inserted(self, rows: Zset) -> Zset:
        """Inserts those rows that are not there, and have derivations or, with MIN or MAX, are the best, with a new
        stamp. Returns them with it, as a change of the last table of the body."""
        if not len(rows):
            return self._empty_change
        arena, wanted = self._part.arena, COUNT if self.best is None else BEST
        change, counts = self._rows.insert(rows, wanted, int(arena[self.record]) + 1)
        inserted = _without_last(change)
        self._log += (Zset(inserted.rows, change.rows[:, -1]), STAMP), (Zset(inserted.rows, counts), FOUNDED)
        arena[self.record] += len(change) > 0
        return change

    def _add(self, events: Zset, count: int) -> np.ndarray:
        """Adds the weights of events to a count of their rows. Returns their counts before."""
        before = self._rows.add(events, np.full(len(events), count))
        self._log.append((events, count))
        return before

    def _derived_by(self, change: Zset) -> Zset:
        """Returns the derivations that are gained and lost by a change of the rows."""
        return self._derived([*self._empty[:-1], self.read(change)])

    def _derived(self, nets: Sequence[Zset], made: Mapping[int, Zset] = MappingProxyType({})) -> Zset:
        """Applies changes of the tables of the body. Returns the derivations that are gained and lost. If it raises,
        the body is unchanged. ``made``: by number, what stages have made of them already."""
        found: dict[str | int, Zset] = dict(zip(self._names, nets, strict=True))
        done: list[tuple[Stage, list[Zset]]] = []
        inner: Stage | None = None
        try:
            for number, (inner, sources) in enumerate(zip(self.body, self._sources, strict=True)):
                inputs = [found[source] for source in sources]
                idle = self._idle[number]
                if number not in made and idle is not None and not any(map(len, inputs)):
                    found[number] = idle
                    continue
                found[number] = made[number] if number in made else inner.apply(inputs)
                done.append((inner, inputs))
        except BaseException:
            with self._part.budget.lifted():
                for earlier, inputs in reversed(done):
                    earlier.undo(inputs)
            self._stopped = isinstance(inner, (Join, Fixpoint)) and inner.undone
            raise
        self._applied.append(nets)
        derived = found[len(self.body) - 1]
        self._part.arena[H_STEPS] += len(derived)
        return derived

    def _undo_rounds(self) -> None:
        """Undoes the rounds of this batch."""
        for events, count in reversed(self._log):
            self._rows.add(events.negated(), np.full(len(events), count))
        if self._applied:
            applied = zip(*self._applied, strict=True)
            self._derived([Zset.gathered(nets, nets[0].width).negated().net() for nets in applied])
        if self.best is not None and self._judged:
            self.best.apply([Zset.gathered(self._judged, len(self.columns)).negated().net()])

    # -- results -------------------------------------------------------------------------------------------------------

    def scan(self, sources: Sequence[Iterable[Zset]] = ()) -> Iterator[Zset]:
        """Yields the rows. O(rows)."""
        for rows, counts in self._rows.scan():
            weights = self._weights(counts)
            yield Zset(rows, weights)[weights != 0]

    def multiplicity(self, row: np.ndarray, sources: Sequence[Iterable[Zset]] = ()) -> int:
        """Returns the multiplicity of a row. O(1)."""
        return int(self._weights(self._rows.counts_of(Zset(row.reshape(1, -1), np.ones(1, np.int64))))[0])

    def _weights(self, counts: np.ndarray) -> np.ndarray:
        return (counts[:, STAMP] > 0).astype(np.int64) if self.stage.distinct else counts[:, COUNT]

    # -- maintenance ---------------------------------------------------------------------------------------------------

    @override
    def mark_values(self) -> None:
        for inner in self._inner:
            inner.mark_values()
        self._part.mark_words(self._rows.table, self.columns)

    @override
    def check_invariants(self) -> None:
        for inner in self._inner:
            inner.check_invariants()
        best = [rows.rows for rows in self.best.scan()] if self.best is not None else []
        wanted = {tuple(row) for rows in best for row in rows.tolist()}
        for rows, counts in self._rows.scan():
            assert (counts[:, COUNT] > 0).all(), "a row without derivations is stored"
            if self.stage.distinct:
                there = counts[:, STAMP] > 0
                judged = counts[:, BEST] == 1 if self.best is not None else np.ones(len(rows), bool)
                assert (there == judged).all(), "a derived row is not there"
                assert ((counts[:, FOUNDED] > 0) == there).all(), "a row has no founded derivation"
                assert (counts[:, FOUNDED] <= counts[:, COUNT]).all(), "more derivations are founded than there are"
                found = set(map(tuple, rows[judged].tolist()))
                assert self.best is None or found <= wanted, "a row that is there is not the best of its group"
                wanted -= found
        assert not wanted, "the best row of a group is not there"

    def stats(self) -> dict[str, Any]:
        """Returns the number of rows, and its steps: the derivations that were gained or lost."""
        return {"rows": len(self._rows), "steps": int(self._part.arena[H_STEPS])}


def has_first_row(stage: Stage) -> bool:
    """Returns whether a stage has a row before its inputs have any, which its first batch delivers."""
    if isinstance(stage, Fixpoint):
        return any(map(has_first_row, stage.body))
    return isinstance(stage, Groups) and stage.stage.whole


def _without_last(rows: Zset) -> Zset:
    return Zset(rows.rows[:, :-1], rows.weights)
