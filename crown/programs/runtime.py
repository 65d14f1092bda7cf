"""Runs the base tables and stages of a program: a batch is applied to all of them or to none.

    nets in codes -> base tables -> stages in topological order -> the net of every stage -> what is delivered

Between stages travel codes; one dictionary serves all. If a stage refuses a batch, it has changed nothing, and what
comes before it undoes what it had. A last stage that streams is a join whose deltas leave as they are enumerated: they
are never held together. All parts lie in one mapping of memory: for the dictionary, the base tables, and each stage.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any
from weakref import ref

import pyarrow as pa

from crown.engine.delivery import LOST, is_running, refuse
from crown.errors import ChangeError, CrownError, FunctionError, MemoryBudgetError, SnapshotError, UnusableStateError
from crown.guards.arguments import path_of, same_file
from crown.guards.interrupts import Uninterrupted
from crown.guards.uncopyable import NotCopyable
from crown.ingest.batch import PreparedBatch
from crown.ingest.tables.given import Dealt
from crown.kernels.memory import arena as A
from crown.programs.preparer import BatchPreparer
from crown.programs.stages import stage_of
from crown.programs.tallies import CHANGES, PASSED, Tallies
from crown.programs.wanted import ALL, HELD, NOTHING, Wanted
from crown.results.ranged import RangedRows
from crown.stages.groups.group import Groups
from crown.stages.joins.core import Join
from crown.stages.over.stage import Over
from crown.stages.pointwise import Pointwise
from crown.stages.protocol import Stage
from crown.stages.running.shifts import Shifts
from crown.stages.state import memory
from crown.stages.state.memory import OWN_PARTS, ProgramMemory, parts_of
from crown.stages.tables.base_tables import BaseTables
from crown.stages.tables.join_as_table import fully_stored
from crown.store.codec import uses_dictionary
from crown.store.dictionary import with_room
from crown.store.memory import numbers
from crown.store.zset import Zset
from plans.program import Program
from plans.programs.reads import asks_users, key_of
from plans.programs.wiring import wiring
from plans.search.cells.shares import grids_of
from plans.time.windows import reads_clock

REFUSALS = (ChangeError, MemoryBudgetError, FunctionError, pa.ArrowException)
"""The errors after which a stage is unchanged. The last two are raised by expressions."""


class ProgramRuntime(NotCopyable, instead="save(path) and crown.load(path) make another one"):
    """Runs the stages of a program. Not thread-safe.

    ``on_missing``: what a delete does that finds fewer copies than it removes: ``"ignore"`` removes what is there and
    counts the rest, ``"raise"`` refuses the whole batch, ``"trust"`` takes the stream's word that there is none, and
    stores no tuples for it. ``threads``: in how many cells each join stage that can be cut is applied at the same time.
    ``whole``: the base tables take all columns of the relations, also those that no stage reads. ``selecting``: rows
    that nothing reads are dropped first (see ``plans.programs.wiring``), where that may be. ``streams``: the last stage
    hands its deltas on as they are found, if it can. ``uninterrupted``: what stops a batch; one of its own by default.
    ``dealt``: by relation, the rows of this cell, if the program runs in several cells.
    """

    def __init__(
        self,
        program: Program,
        memory: ProgramMemory,
        on_missing: str = "ignore",
        threads: int = 1,
        selecting: bool = True,
        whole: bool = False,
        streams: bool = False,
        uninterrupted: Uninterrupted | None = None,
        dealt: Mapping[str, Dealt] = MappingProxyType({}),
    ) -> None:
        if on_missing not in ("ignore", "raise", "trust"):
            raise CrownError(f'on_missing must be "ignore", "raise" or "trust", not {on_missing!r}')
        self._program = program
        self.on_missing = on_missing
        self.reads_clock = reads_clock(program.tables)
        self.memory = memory
        self.selecting = selecting
        self.batches = 0  # applied by this object, or since its owner began to count
        self.uninterrupted = uninterrupted or Uninterrupted()
        self.wires = wiring(program, on_missing, selecting=selecting, whole=whole, cells=threads > 1)
        self._used = {name: wire.columns for name, wire in self.wires.items() if isinstance(name, str)}
        self._unchanged: dict[str | int, Zset] = {name: Zset.empty(len(of)) for name, of in self._used.items()}
        self.base_tables = BaseTables(memory.part(1), program, self.wires, on_missing)
        self._preparer = BatchPreparer(program.tables, self.wires, memory.dictionary.intern, self.base_tables, dealt)
        self.threads = threads
        self.stages: list[Stage] = []
        first = OWN_PARTS
        for stage, grid in zip(program.stages, grids_of(program, threads), strict=True):
            self.stages.append(stage_of(stage, first, grid, self.wires, memory, self.stages, self.uninterrupted.check))
            first += grid.cells * parts_of(stage)
        if on_missing != "trust" and not whole:  # else a stage reads the relations themselves
            asked = {name: of for name, of in self._used.items() if not self.wires[name].read_again}
            for made in self.stages:
                if isinstance(made, Join):
                    self.base_tables.use_joins(fully_stored(made, asked))
        self._sources = [tuple(key_of(source) for source in stage.inputs) for stage in self.stages]
        self._interns = any(uses_dictionary(column.type) for wire in self.wires.values() for column in wire.columns)
        self._resting = [not (isinstance(stage, Groups) and stage.stage.whole) for stage in self.stages]
        self._nothing_of = [Zset.empty(len(stage.columns)) for stage in self.stages]
        self._streaming = last if streams and isinstance(last := self.stages[-1], Join) else None
        self._asks = self._streaming is not None and asks_users(self._streaming.stage.plan)
        self._gathering = list(enumerate(self.stages))[: len(self.stages) - (self._streaming is not None)]
        self._excluded: frozenset[int] = frozenset()  # stages that are applied after a native call of the others
        self.tallies = Tallies(self.stages)
        self.header = numbers(memory.parts[0][: A.H_TABLES])  # engines that share memory have it in common
        self._batch: ref[Generator[Any, None, None]] | None = None  # being applied, while it is alive
        self._in_call = False  # True while a batch is applied that has no generator
        self._torn = False  # True while, or after an exception in, a step of a batch that is taken back as a whole

    @property
    def plan(self) -> Program:
        """Returns what is maintained."""
        return self._program

    @property
    def fingerprint(self) -> str:
        """Names what the state holds: state of another fingerprint is of no use."""
        return self._program.fingerprint

    @property
    def absent(self) -> list[str]:
        """Returns the relations in which deletes of the last batch found no row."""
        return self.base_tables.absent

    # A batch
    # ------------------------------------------------------------------------------------------------------------------

    def prepare(
        self, changes: Mapping[str, Any], strict: bool = True, known: PreparedBatch | None = None
    ) -> PreparedBatch:
        """Checks, codes and nets a batch. Results stay as they are. O(batch). ``known``: see ``BatchPreparer.prepare``.

        Raises ChangeError, BadRowError (if ``strict``), and MemoryBudgetError if its values do not fit.
        """
        self.ready()
        prepare = partial(self._preparer.prepare, changes, strict, known=known)
        return with_room(self.memory.dictionary, prepare, self.compact) if self._interns else prepare()

    def transaction(
        self,
        given: PreparedBatch,
        wanted: Wanted = ALL,
        closing: Callable[[], None] | None = None,
        held: bool = False,
    ) -> Generator[Any, None, None]:
        """Applies a batch to all base tables and stages or to none, while the generator is consumed. Yields the output.

        The generator is started already: closing it applies the batch without output. ``closing`` is called when
        everything is applied. If an error is raised, or thrown in, the batch is undone. ``held``: see ``HELD``.
        """
        self.ready()
        batch = self._transaction(given, wanted, closing, held)
        self._batch = ref(batch)
        next(batch)
        return batch

    def _transaction(
        self, given: PreparedBatch, wanted: Wanted, closing: Callable[[], None] | None, held: bool = False
    ) -> Generator[Any, None, None]:
        deltas, ranged = wanted.deltas, wanted.ranged
        nets: dict[str | int, Zset] = {}
        streaming, last = self._streaming, len(self.stages) - 1
        self._open()
        try:
            try:
                yield None
            except GeneratorExit:
                deltas = False
            shifts = self._apply(given, nets, ranged)
            delivered: Generator[Any, None, None]
            if ranged is not None:
                delivered = ranged.batches(nets[last], shifts)
            elif streaming is None:
                delivered = self._delivered(nets)
            else:
                inputs = [nets[source] for source in self._sources[last]]
                delivered = streaming.deltas(
                    inputs,
                    self.uninterrupted.check,
                    deltas=deltas or self._asks,
                    consolidate=wanted.consolidate,
                    factorized=wanted.factorized,
                )
            self._torn = streaming is not None
            try:
                for part in delivered if deltas or streaming is not None else ():
                    if deltas:
                        try:
                            yield part
                        except GeneratorExit:
                            deltas = False
                            if streaming is None:
                                break
                            streaming.discard_output()
            except BaseException:
                delivered.close()  # a join takes back what it has of the batch
                self._torn = streaming is not None and not streaming.taken_back
                raise
            if streaming is not None:
                nets[last] = self._nothing_of[last]  # its rows have left
                self._torn = False
            if closing is not None:
                closing()
            if held:
                yield HELD
            self._stand(given)
        except BaseException as error:
            self._roll_back(given, nets, error)
            raise

    def apply(
        self,
        prepared: PreparedBatch,
        wanted: Wanted = ALL,
        closing: Callable[[list[Any]], None] | None = None,
    ) -> list[Any]:
        """Applies a prepared batch at once; returns all that is delivered.

        The caller holds ``uninterrupted``. ``closing`` is given what is delivered, before the batch stands.
        """
        self.ready()
        return self._drawn(prepared, wanted, closing)

    def _drawn(self, prepared: PreparedBatch, wanted: Wanted, closing: Callable[[list[Any]], None] | None) -> list[Any]:
        """Applies a batch at once, which may be open."""
        found: list[Any] = []
        closes = None if closing is None else partial(closing, found)
        batch = self._transaction(prepared, wanted, closes)
        self._batch = ref(batch)
        for part in batch:
            if part is not None:  # it has begun
                found.append(part)  # what closes the batch looks at them
        return found

    @abstractmethod
    def _delivered(self, nets: Mapping[str | int, Zset]) -> Generator[Any, None, None]:
        """Yields what leaves of the nets of all stages, if no stage streams."""

    def fill(self, changes: Mapping[str, Any]) -> None:
        """Applies existing rows without deltas. They do not count as changes, and counters are reset. A delete stands
        for a tombstone. O(changes + deltas of all stages)."""
        with self.uninterrupted:
            for _ in self.transaction(replace(self.prepare(changes), fills=True), NOTHING):
                raise AssertionError("no deltas were asked for")
        self.base_tables.forget_counters()
        self.batches -= 1

    def _open(self) -> None:
        """Opens a batch unless one is open. If an error interrupts the batch before it is committed, it is undone."""
        if not self.header[A.H_OPEN]:
            self.header[A.H_OPEN] = 1
            self.header[A.H_EPOCH] += 1

    def _end(self, changed: bool = True) -> None:
        """Closes the open batch, which is committed or undone. ``changed`` is False if it has changed nothing."""
        self.header[A.H_OPEN] = 0
        self.header[A.H_EPOCH] -= not changed

    def _stand(self, given: PreparedBatch) -> None:
        """Commits the open batch."""
        if not given.fills:
            self.base_tables.tally(given)
        self._end()
        self.batches += 1

    def _apply(
        self, given: PreparedBatch, nets: dict[str | int, Zset], ranged: RangedRows | None = None
    ) -> Shifts | None:
        """Sends a batch through the base tables and the stages that gather; ``nets`` gets what each of them passes on,
        and is empty until the base tables have. Returns the ranges of the stage that is ``ranged``, of which only other
        rows are passed on.

        After an exception in a stage that is not known to be as it was before, ``_torn`` stays true: the state is lost.
        """
        self._torn = True
        stage, shifts = None, None
        try:
            effective = self.base_tables.apply(given)
            nets.update(self._unchanged)
            nets.update(effective)
            for number, stage in self._gathering:
                inputs = [nets[source] for source in self._sources[number]]
                if self._rests(number, inputs):
                    nets[number] = self._nothing_of[number]
                    continue
                if not given.passed or number in self._excluded:  # otherwise a stage may have applied a part of it
                    self._torn = False
                    self.uninterrupted.check()
                    self._torn = True
                if ranged is not None and number == ranged.number and isinstance(stage, Over):
                    net, shifts = stage.shifted(inputs, ranged.told)
                    self.tallies.work[number][PASSED] += len(shifts)
                else:
                    net = given.made[number] if number in given.made else stage.apply(inputs)
                nets[number] = net
                self.tallies.note(number, inputs, net)
        except BaseException as error:
            if isinstance(error, REFUSALS) or (isinstance(stage, Join) and stage.taken_back):
                self._torn = False
            raise
        self._torn = False
        return shifts

    def _rests(self, number: int, inputs: list[Zset]) -> bool:
        """Returns True for a stage that is skipped: it has no input changes, and does not count batches."""
        return self._resting[number] and not sum(map(CHANGES, inputs))

    def _roll_back(self, given: PreparedBatch, nets: Mapping[str | int, Zset], error: BaseException) -> None:
        """Undoes the applied part of the batch that ``error`` stopped. Raises UnusableStateError if that is
        impossible."""
        if not self.header[A.H_OPEN]:
            return  # it stands
        try:
            if self._torn:
                raise UnusableStateError("how far the batch got is not known")
            with self.memory.budget.lifted():
                self._undo_stages([number for number in range(len(self.stages)) if number in nets], dict(nets))
                if nets:
                    self.base_tables.undo(given.nets)
        except (UnusableStateError, MemoryBudgetError) as why:
            if isinstance(error, Exception) and LOST not in str(error):
                raise UnusableStateError(f"{error} ({why}). {LOST}") from error
            return  # KeyboardInterrupt or SystemExit goes on; later batches are refused
        self._end()
        if self.memory.budget.tight:
            self._sweep()  # of values that only this batch had

    def undo(self, changes: Mapping[str, Any]) -> None:
        """Undoes the last batch, given what was applied.

        Raises UnusableStateError if the replaced rows are no longer known: after a batch that was undone.
        """
        self.ready()
        given = self._preparer.prepare(changes, strict=False, again=True)
        with self.uninterrupted, self.memory.budget.lifted():
            self.base_tables.demand_undo()
            self._open()
            nets = self._unchanged.copy()
            nets.update(self.base_tables.undo(given.nets))
            self._undo_stages(range(len(self.stages)), nets)
            self.base_tables.tally(given, -1)
            self._end()

    def _undo_stages(self, numbers: Iterable[int], nets: dict[str | int, Zset]) -> None:
        """Undoes the last batch in some stages; ``nets``: of the base tables, to which those of the stages come."""
        for number in numbers:
            inputs = [nets[source] for source in self._sources[number]]
            if self._rests(number, inputs):
                nets[number] = self._nothing_of[number]
                continue
            nets[number] = self.stages[number].undo(inputs).negated()
            self.tallies.add(number, nets[number], -1)

    # Care
    # ------------------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> int:
        """Writes the state, between two batches, and ``extra`` to one file. See ``crown.stages.state.memory.write``.

        Raises SnapshotError if it cannot be written, and if ``path`` is the file in which the state is kept.
        """
        target, file = path_of(path, "path"), self.memory.file
        if file is not None and same_file(target, file.path):
            raise SnapshotError(f"{target} is the file in which this view keeps its state; save to another one")
        self.compact()
        options = self.on_missing, self.selecting, self.threads
        return memory.write(target, self._program, *options, extra, self.memory.parts)

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
        """Returns True while a batch is being applied, and forever after one that could not be undone."""
        return bool(self.header[A.H_OPEN])

    def ready(self) -> None:
        """Raises ConcurrentChangeError while a batch is being applied, UnusableStateError if the state is lost, and
        CrownError if it is another process's."""
        if self.memory.file is not None:
            self.memory.file.check_process()
        if self.header[A.H_OPEN]:
            refuse(self._in_call or is_running(self._batch), True)

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
            if isinstance(stage, Pointwise):
                stage.check_counts(self.stages)

    def stats(self) -> dict[str, Any]:
        """Returns sizes and counters. ``live_bytes``: bytes in use. ``reserved_bytes``: the high-water mark.

        May be called while the deltas of a batch are read.
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
