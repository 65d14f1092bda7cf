"""Base tables and stages of a program over its memory: a batch goes through all of them, or through none.

    nets in codes -> base tables -> stages in topological order -> the net of every stage

Between stages travel codes; one dictionary serves all. If a stage refuses a batch, it has changed nothing, and the
base tables and the stages before it take back what they had. All parts lie in one mapping of memory: for the
dictionary, the base tables, and each stage.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Generator, Mapping
from functools import partial
from typing import Any
from weakref import ref

import numpy as np
import pyarrow as pa

from crown.engine.delivery import LOST, is_running, refuse
from crown.errors import ChangeError, CrownError, MemoryBudgetError, SnapshotError, UnusableStateError
from crown.guards.arguments import path_of, same_file
from crown.guards.interrupts import Uninterrupted
from crown.guards.uncopyable import NotCopyable
from crown.ingest.batch import MissingDeletes, PreparedBatch
from crown.kernels import arena as A
from crown.programs.preparer import SUMMING, BatchPreparer, added_relations, netted_by_joins, used_columns
from crown.programs.selected import selected
from crown.programs.tallies import Tallies
from crown.stages.base_tables import BaseTables
from crown.stages.cyclic import CyclicCount
from crown.stages.groups.group import Groups
from crown.stages.join import Join
from crown.stages.join_as_table import stored_whole
from crown.stages.key_counts import enforced_of
from crown.stages.linear import Linear
from crown.stages.over import Over
from crown.stages.pointwise import Pointwise
from crown.stages.protocol import Stage
from crown.stages.state import saving
from crown.stages.state.memory import OWN_PARTS, ProgramMemory, parts_of
from crown.stages.timed import Timed
from crown.stages.top import Top
from crown.stages.upsert_table import upserts_of
from crown.store.budget import Budget
from crown.store.dictionary import with_room
from crown.store.zset import Zset
from plans.clock import reads_clock
from plans.program import GroupStage, JoinStage, LinearStage, OverStage, Program, TimedStage, TopStage
from plans.program import Stage as Planned
from plans.reads import Parts, holding, only_read_by
from plans.schema import Column
from plans.search.shares import Grid, grids_of

_REFUSALS = (ChangeError, MemoryBudgetError, pa.ArrowException)  # the last: an expression that cannot be evaluated


class ProgramRuntime(NotCopyable, instead="save(path) and crown.load(path) make another one"):
    """Runs the stages of a program. Not thread-safe.

    ``on_missing``: what a delete does that finds fewer copies than it removes: ``"ignore"`` removes what is there and
    counts the rest, ``"raise"`` refuses the whole batch, ``"trust"`` takes the stream's word that there is none, and
    stores no tuples for it. ``threads``: in how many cells each join stage that can be cut is applied at the same
    time. ``whole``: the base tables take all columns of the relations, whoever reads them. ``selecting``: rows that
    nobody reads are dropped first (see ``crown.programs.selected``), where that may be.
    """

    def __init__(
        self,
        program: Program,
        memory: ProgramMemory,
        on_missing: str = "ignore",
        threads: int = 1,
        selecting: bool = True,
        whole: bool = False,
    ) -> None:
        if on_missing not in ("ignore", "raise", "trust"):
            raise CrownError(f'on_missing must be "ignore", "raise" or "trust", not {on_missing!r}')
        self._program = program
        self.on_missing = on_missing
        self.reads_clock = reads_clock(program.tables)
        self.memory = memory
        self.selecting = selecting
        self.batches = 0  # applied by this object, or since its owner began to count
        self.uninterrupted = Uninterrupted()
        self._used, chosen = kept_of(program, on_missing, selecting, whole)
        self._held = holding(program, chosen)
        self._unchanged: dict[str | int, Zset] = {name: Zset.empty(len(of)) for name, of in self._used.items()}
        trusted = on_missing == "trust"
        upserts, enforced = upserts_of(program.tables, self._used), enforced_of(program.tables, self._used)
        self._apart = netted_by_joins(program) if trusted and threads == 1 else frozenset()
        apart = self._apart | (added_relations(program) if trusted else frozenset())
        again, windows = self._read_again(), program.windows
        shown = {table.name.lower(): table.name for table in program.tables}
        self.base_tables = BaseTables(
            memory.part(1), self._used, on_missing, again, upserts, windows, chosen, enforced, shown
        )
        intern = memory.dictionary.intern
        refused = {name: partial(self.base_tables.refused_keys, name) for name in enforced}
        self._preparer = BatchPreparer(
            program.tables, self._used, intern, apart, self.base_tables.retained, chosen, refused
        )
        self.threads = threads
        self.stages: list[Stage] = []
        first = OWN_PARTS
        for stage, grid in zip(program.stages, grids_of(program, threads), strict=True):
            self.stages.append(self._running(stage, first, grid))
            first += grid.cells * parts_of(stage)
        if on_missing != "trust" and not whole:
            self._ask_joins()
        self._sources = [tuple(_lower(source) for source in stage.inputs) for stage in self.stages]
        self._resting = [not (isinstance(stage, Groups) and stage.stage.whole) for stage in self.stages]
        self._nothing_of = [Zset.empty(len(stage.columns)) for stage in self.stages]
        self.tallies = Tallies(self.stages)
        self.epoch = 0  # grows whenever something changes, if only to be taken back
        self._batch: ref[Generator[Any, None, None]] | None = None  # being applied, while it is alive
        self._torn = False  # True while, or after an exception in, a step of a batch that is taken back as a whole

    def _running(self, stage: Planned, first: int, grid: Grid) -> Stage:
        """Returns the stage, whose parts begin with number ``first``, in the cells of a grid."""
        if isinstance(stage, LinearStage):
            read = [self._columns_of(term.source) for term in stage.terms]
            # Groups add its rows up, and joins net what they take of other stages.
            netted = only_read_by(self._program, len(self.stages), SUMMING)
            return Linear(stage, read, self.memory.dictionary, netted)
        if isinstance(stage, JoinStage):
            known: dict[str | int, tuple[Column, ...]] = {i: made.columns for i, made in enumerate(self.stages)}
            known.update(self._used.items())
            if stage.plan.count is not None:
                return CyclicCount(stage, known, self.memory, first, self._held)
            added = only_read_by(self._program, len(self.stages), (GroupStage,))  # they add up its rows
            return Join(stage, known, self.memory, first, grid, added, self._held, self._apart)
        part = self.memory.part(first)
        if isinstance(stage, TopStage):
            return Top(stage, self._columns_of(stage.feed.source), part)
        if isinstance(stage, OverStage):
            return Over(stage, self._columns_of(stage.feed.source), part)
        if isinstance(stage, TimedStage):
            return Timed(stage, self._columns_of(stage.feed.source), self._columns_of(stage.clock.source), part)
        if isinstance(stage, GroupStage):
            below = self._program.stages[stage.feed.source] if isinstance(stage.feed.source, int) else None
            join = below.plan if isinstance(below, JoinStage) else None
            beside = [self._columns_of(feed.source) for feed in stage.values]
            return Groups(stage, self._columns_of(stage.feed.source), part, join, beside)
        return Pointwise(stage, [self._columns_of(leaf.source) for leaf in stage.leaves], part)

    def _ask_joins(self) -> None:
        """Has the base tables ask joins for what these store whole, unless a stage reads the relation itself."""
        read = self._read_again()
        asked = {name: columns for name, columns in self._used.items() if name not in read}
        for stage in self.stages:
            if isinstance(stage, Join):
                self.base_tables.ask(stored_whole(stage, asked))

    def _columns_of(self, source: str | int) -> tuple[Column, ...]:
        return self.stages[source].columns if isinstance(source, int) else self._used[source.lower()]

    def _read_again(self) -> frozenset[str]:
        """Returns the relations that are read again when a result is: those of a last stage without memory."""
        results = self._program.results
        last = [len(self._program.stages) - 1] if results is None else [result.stage for result in results]
        found, todo = set(), [self._program.stages[number] for number in last]
        while todo:
            stage = todo.pop()
            if isinstance(stage, LinearStage):
                found |= {term.source.lower() for term in stage.terms if isinstance(term.source, str)}
                todo += [self._program.stages[term.source] for term in stage.terms if isinstance(term.source, int)]
        return frozenset(found)

    @property
    def plan(self) -> Program:
        """Returns what is maintained."""
        return self._program

    @property
    def fingerprint(self) -> str:
        """Names what the state holds: state of another fingerprint is of no use."""
        return self._program.fingerprint

    @property
    def missing(self) -> MissingDeletes:
        """Returns what the deletes of the last batch did not find; ``undo`` wants it back."""
        return self.base_tables.missing

    @property
    def absent(self) -> list[str]:
        """Returns the relations in which deletes of the last batch found no row."""
        return self.base_tables.absent

    @property
    def budget(self) -> Budget:
        """Returns how much memory all parts may take together."""
        return self.memory.budget

    # A batch
    # ------------------------------------------------------------------------------------------------------------------

    def prepare(self, changes: Mapping[str, Any], strict: bool = True) -> PreparedBatch:
        """Checks, codes and nets a batch. Results stay as they are. O(batch).

        Raises ChangeError, BadRowError (if ``strict``), and MemoryBudgetError if its values do not fit.
        """
        self.ready()
        return with_room(self.memory.dictionary, lambda: self._preparer.prepare(changes, strict), self.compact)

    def _open(self) -> None:
        """Opens a batch: whatever stops it, it is taken back (``_roll_back``), until it stands."""
        self.memory.parts[0][A.H_OPEN] = 1
        self.epoch += 1

    def _stand(self, given: PreparedBatch, nets: Mapping[str | int, Zset]) -> None:
        """Lets the open batch stand; ``nets``: what base tables and stages let through."""
        self._torn = True
        for number, stage in enumerate(self.stages):
            if nets[number] is not self._nothing_of[number]:  # else it was not called
                stage.settle()
        self.base_tables.tally(given.nets, given.filtered, self.base_tables.missing)
        self.memory.parts[0][A.H_OPEN] = 0
        self._torn = False
        self.batches += 1

    def _apply(self, given: PreparedBatch, nets: dict[str | int, Zset], last: int | None = None) -> None:
        """Sends a batch through base tables and stages, those before number ``last`` if there is one; ``nets`` gets
        what each of them let through.

        Who refuses a batch has taken back its own part. After any other exception inside of a stage it is not known
        what the stage has of the batch: ``_torn`` stays true, and the state is lost.
        """
        self._torn = True
        try:
            nets.update(self.base_tables.apply(given.nets, given.advances))
            for number, stage in enumerate(self.stages[:last]):
                inputs = self._inputs(number, nets)
                if self._rests(number, inputs):
                    nets[number] = self._nothing_of[number]
                    continue
                self._torn = False
                self.uninterrupted.check()
                self._torn = True
                net = nets[number] = stage.apply(inputs)
                self.tallies.add(number, net)
        except _REFUSALS:
            self._torn = False
            raise
        self._torn = False

    def _inputs(self, number: int, nets: Mapping[str | int, Zset]) -> list[Zset]:
        """Returns what the inputs of a stage are in a batch."""
        return [nets[source] if source in nets else self._unchanged[source] for source in self._sources[number]]

    def _rests(self, number: int, inputs: list[Zset]) -> bool:
        """Returns True for a stage that is not even called: nothing comes in, and it does not count the batches."""
        return self._resting[number] and not sum([net.weights.size for net in inputs])

    def _roll_back(self, nets: Mapping[str | int, Zset], error: BaseException) -> None:
        """Takes back what was applied of the batch that ``error`` stopped. UnusableStateError if that cannot be
        done."""
        arena = self.memory.parts[0]
        if not arena[A.H_OPEN]:
            return  # it stands
        try:
            if self._torn:
                raise UnusableStateError("how far the batch got is not known")
            for number in reversed(range(len(self.stages))):
                if number in nets and nets[number] is not self._nothing_of[number]:
                    self.stages[number].take_back(self._inputs(number, nets))
                    self.tallies.add(number, nets[number], -1)
            self.base_tables.take_back({name: net for name, net in nets.items() if isinstance(name, str)})
        except (UnusableStateError, MemoryBudgetError) as why:
            if isinstance(error, Exception) and LOST not in str(error):
                raise UnusableStateError(f"{error} ({why}). {LOST}") from error
            return  # Python is told to stop; what comes after is refused
        arena[A.H_OPEN] = 0
        if self.memory.budget.tight:
            self._sweep()  # of values that only this batch had

    def undo(self, changes: Mapping[str, Any], missing: MissingDeletes | None) -> None:
        """Takes back the last batch, given what was applied and what its deletes did not find."""
        self.ready()
        given = self._preparer.prepare(changes, strict=False, again=True)
        missing = missing or MissingDeletes()
        arena = self.memory.parts[0]
        with self.uninterrupted, self.memory.budget.lifted():
            arena[A.H_OPEN] = 1
            self.epoch += 1
            nets: dict[str | int, Zset] = {}
            nets.update(self.base_tables.undo(given.nets, missing))
            for number, stage in enumerate(self.stages):
                inputs = self._inputs(number, nets)
                if self._rests(number, inputs):
                    nets[number] = self._nothing_of[number]
                    continue
                nets[number] = stage.undo(inputs).negated()
                self.tallies.add(number, nets[number], -1)
            self.base_tables.tally(given.nets, given.filtered, missing, -1)
            arena[A.H_OPEN] = 0

    # Care
    # ------------------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> int:
        """Writes the state, between two batches, and ``extra`` to one file. See ``crown.stages.state.saving.write``.

        Raises SnapshotError if it cannot be written, and if ``path`` is the file in which the state is kept.
        """
        target, file = path_of(path, "path"), self.memory.file
        if file is not None and same_file(target, file.path):
            raise SnapshotError(f"{target} is the file in which this view keeps its state; save to another one")
        self.compact()
        return saving.write(
            target, self._program, self.on_missing, self.selecting, self.threads, extra, self.memory.parts
        )

    @property
    def version(self) -> int:
        """Returns the number that the owner gave to the last batch (see ``begin``); -1 before the first."""
        return int(self.memory.parts[0][A.H_VERSION]) - 1

    @property
    def clean(self) -> bool:
        """Returns False while, or after a crash in, the application of a batch."""
        return bool(self.memory.parts[0][A.H_CLEAN]) and not self.lost

    def begin(self) -> None:
        """Marks the state dirty: a batch is being applied."""
        self.memory.parts[0][A.H_CLEAN] = 0

    def commit(self, version: int) -> None:
        """Marks the state clean, with ``version`` (>= 0) the last batch applied."""
        self.memory.parts[0][A.H_VERSION] = version + 1
        self.memory.parts[0][A.H_CLEAN] = 1

    @property
    def lost(self) -> bool:
        """Returns True while a batch is being applied, and for ever after one that could not be taken back."""
        return bool(self.memory.parts[0][A.H_OPEN])

    def ready(self) -> None:
        """Raises ConcurrentChangeError while a batch is being applied, UnusableStateError if the state is lost, and
        CrownError if it is another process's."""
        if self.memory.space is not None:
            self.memory.space.check_process()
        refuse(is_running(self._batch), self.lost)

    def compact(self) -> int:
        """Frees the dictionary entries that nothing refers to; how many. O(state). Runs by itself as needed."""
        self.ready()
        return self._sweep()

    def _sweep(self) -> int:
        self.base_tables.mark_values()
        for stage in self.stages:
            stage.mark_values()
        return self.memory.dictionary.sweep()

    def check_invariants(self) -> None:
        """Recomputes what can be recomputed in every part, and compare. Raises AssertionError. O(state)."""
        self.ready()
        self.base_tables.check_invariants()
        for stage in self.stages:
            stage.check_invariants()

    def stats(self) -> dict[str, Any]:
        """Returns sizes and counters; bytes: ``live`` in use, ``reserved`` the high-water mark.

        They may be asked for while the deltas of a batch are read.
        """
        if not is_running(self._batch):
            self.ready()
        base = self.base_tables.stats()
        return {
            **base,
            "input_rows": sum(base["rows"].values()),
            "dictionary": len(self.memory.dictionary),
            "live_bytes": 8 * self.memory.budget.used,
            "reserved_bytes": 8 * sum(int(part[A.H_TOP]) for part in self.memory.parts),
            "stages": [stage.stats() for stage in self.stages],
        }


def kept_of(
    program: Program, on_missing: str, selecting: bool, whole: bool
) -> tuple[dict[str, tuple[Column, ...]], dict[str, frozenset[Parts]]]:
    """Returns which columns of the relations are taken, and of which relations only rows that meet some conditions."""
    every = whole or program.whole or on_missing == "raise"
    return used_columns(program, every), selected(program) if selecting and not every else {}


def layout_words(program: Program, on_missing: str, selecting: bool, whole: bool) -> np.ndarray:
    """Returns two int64 words that name what a state holds: the program, and what is kept of its relations."""
    used, chosen = kept_of(program, on_missing, selecting, whole)
    columns = {name: [[c.name.lower(), c.type] for c in of] for name, of in used.items()}
    said = [program.fingerprint, columns, sorted(chosen), on_missing == "trust"]
    return np.frombuffer(hashlib.sha256(json.dumps(said).encode()).digest()[:16], np.int64)


def _lower(source: str | int) -> str | int:
    """Returns a source as nets are named: relations in lower case."""
    return source if isinstance(source, int) else source.lower()
