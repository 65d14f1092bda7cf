"""Runs the base tables and stages of a program: a batch is applied to all of them or to none.

    nets in codes -> base tables -> stages in topological order -> the net of every stage -> deltas

Stages exchange codes, and share one dictionary. If a stage rejects a batch, the stage is unchanged, and the base tables
and stages before it undo their changes. The last stage may *stream*: it is a join whose deltas are delivered while they
are enumerated, so they are never in memory together. All parts of the state lie in one mapping of memory: the
dictionary, the base tables, and each stage.
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

from crown.engine.delivery import LOST, READY_TO_COMMIT, is_running, refuse
from crown.errors import CrownError, MemoryBudgetError, SnapshotError, UnusableStateError
from crown.guards.arguments import path_of, same_file
from crown.guards.interrupts import Uninterrupted
from crown.guards.uncopyable import NotCopyable
from crown.ingest.batch import PreparedBatch
from crown.ingest.tables.given import HashPartition
from crown.kernels.memory import arena as A
from crown.programs.delta_options import ALL_DELTAS, NO_DELTAS, DeltaOptions
from crown.programs.preparer import BatchPreparer
from crown.programs.stages import stage_of
from crown.programs.tallies import CHANGES, PASSED, Tallies
from crown.results.ranged import RangedRows
from crown.stages.fixpoint import Fixpoint, has_first_row
from crown.stages.joins.core import Join
from crown.stages.over.stage import Over
from crown.stages.pointwise import Pointwise
from crown.stages.protocol import REFUSALS, Stage
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


class ProgramRuntime(NotCopyable, instead="save(path) and crown.load(path) make another one"):
    """Runs the stages of a program. Not thread-safe.

    - ``on_missing``: how to treat a delete that finds too few copies. ``"ignore"`` removes these and counts the rest,
      ``"raise"`` rejects the batch, and ``"trust"`` assumes that there is no such delete, and stores no tuples for it.
    - ``threads``: the number of cells in which a program that is one join is applied in parallel.
    - ``whole``: True if the base tables store all columns of the relations, also those that no stage reads.
    - ``selecting``: True to drop rows that no stage reads first, where that is allowed (see ``plans.programs.wiring``).
    - ``streams``: True to let the last stage stream, if it can.
    - ``uninterrupted``: stops a batch; by default a new one.
    - ``partitions``: by relation, the rows of this cell, if the program runs in several cells.
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
        partitions: Mapping[str, HashPartition] = MappingProxyType({}),
    ) -> None:
        if on_missing not in ("ignore", "raise", "trust"):
            raise CrownError(f'on_missing must be "ignore", "raise" or "trust", not {on_missing!r}')
        self.plan = program
        self.on_missing = on_missing
        self.reads_clock = reads_clock(program.tables)
        self.memory = memory
        self.selecting = selecting
        self.batches = 0  # applied by this object, or since its owner began to count
        self.uninterrupted = uninterrupted or Uninterrupted()
        self.wires = wiring(program, on_missing, selecting=selecting, whole=whole, cells=threads > 1)
        read = {name: wire.columns for name, wire in self.wires.items() if isinstance(name, str)}
        self._empty_base_nets: dict[str | int, Zset] = {name: Zset.empty(len(of)) for name, of in read.items()}
        self.base_tables = BaseTables(memory.part(1), program, self.wires, on_missing)
        self._preparer = BatchPreparer(
            program.tables, self.wires, memory.dictionary.intern, self.base_tables, partitions
        )
        self.threads = threads
        self.stages: list[Stage] = []
        first, check = OWN_PARTS, self.uninterrupted.check
        for stage, grid in zip(program.stages, grids_of(program, threads), strict=True):
            self.stages.append(stage_of(stage, first, grid, self.wires, memory, self.stages, check))
            first += grid.cells * parts_of(stage)
        if on_missing != "trust" and not whole:  # otherwise a stage reads the relations themselves
            read_once = {name: columns for name, columns in read.items() if not self.wires[name].read_again}
            for made in self.stages:
                if isinstance(made, Join):
                    self.base_tables.use_joins(fully_stored(made, read_once))
        self._sources = [tuple(key_of(source) for source in stage.inputs) for stage in self.stages]
        self._interns = any(uses_dictionary(column.type) for wire in self.wires.values() for column in wire.columns)
        self._skippable = [not has_first_row(stage) for stage in self.stages]
        self._empty_nets = [Zset.empty(len(stage.columns)) for stage in self.stages]
        self._streaming = last if streams and isinstance(last := self.stages[-1], Join) else None
        self._calls_users = self._streaming is not None and asks_users(self._streaming.stage.plan)
        self._gathered = list(enumerate(self.stages))[: len(self.stages) - (self._streaming is not None)]
        self._excluded: frozenset[int] = frozenset()  # stages that are applied after a native call of the others
        self.tallies = Tallies(self.stages)
        self.header = numbers(memory.parts[0][: A.H_TABLES])  # shared by engines that share memory
        self._batch: ref[Generator[Any, None, None]] | None = None  # being applied, while it is alive
        self.takes_steps = True  # False if a native call has applied the whole batch
        self._in_step = False  # True within a step, and after an exception in a step whose effect is unknown

    @property
    def fingerprint(self) -> str:
        """Identifies the contents of the state. A state with another fingerprint cannot be used."""
        return self.plan.fingerprint

    @property
    def absent(self) -> list[str]:
        """Returns the relations in which deletes of the last batch found no row."""
        return self.base_tables.absent

    # -- a batch -------------------------------------------------------------------------------------------------------

    def prepare(
        self, changes: Mapping[str, Any], strict: bool = True, known: PreparedBatch | None = None
    ) -> PreparedBatch:
        """Checks, encodes and nets a batch. Changes no result. O(batch). ``known``: see ``BatchPreparer.prepare``.

        Raises ChangeError, BadRowError (if ``strict``), and MemoryBudgetError if its values do not fit.
        """
        self.check_ready()
        prepare = partial(self._preparer.prepare, changes, strict, known=known)
        return with_room(self.memory.dictionary, prepare, self.compact) if self._interns else prepare()

    def transaction(
        self,
        prepared: PreparedBatch,
        options: DeltaOptions = ALL_DELTAS,
        before_commit: Callable[[], None] | None = None,
        hold: bool = False,
    ) -> Generator[Any, None, None]:
        """Applies a batch to all base tables and stages or to none, while the generator is consumed. Yields the deltas.

        The generator is started already: a native call has applied its part of the batch. Closing the generator applies
        the rest without deltas. ``before_commit`` is called when all changes are applied. An error that is raised or
        thrown in undoes the batch.

        ``hold``: True for a cell. The generator is not started. It yields the arguments of each native call, and
        receives the status of the call, then yields None, the deltas, and ``READY_TO_COMMIT``. It commits when it
        continues, and must not be closed before.
        """
        self.check_ready()
        batch = self._transaction(prepared, options, before_commit, hold)
        self._batch = ref(batch)
        if not hold:
            next(batch)
        return batch

    def _transaction(
        self, prepared: PreparedBatch, options: DeltaOptions, before_commit: Callable[[], None] | None, hold: bool
    ) -> Generator[Any, None, None]:
        deltas, ranged = options.deltas, options.ranged
        nets: dict[str | int, Zset] = {}
        streaming, last = self._streaming, len(self.stages) - 1
        self._open_batch()
        try:
            try:
                yield None
            except GeneratorExit:
                deltas = False
            shifts = self._apply(prepared, nets, ranged)
            delivered: Generator[Any, None, None]
            if ranged is not None:
                delivered = ranged.batches(nets[last], shifts)
            elif streaming is None:
                delivered = self._deltas(nets)
            else:
                inputs = [nets[source] for source in self._sources[last]]
                delivered = streaming.deltas(
                    inputs,
                    self.uninterrupted.check,
                    deltas=deltas or self._calls_users,
                    consolidate=options.consolidate,
                    factorized=options.factorized,
                )
            self._in_step = streaming is not None
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
                delivered.close()  # a join undoes its part of the batch
                self._in_step = streaming is not None and not streaming.undone
                raise
            if streaming is not None:
                nets[last] = self._empty_nets[last]  # its rows are delivered
                self._in_step = False
            if before_commit is not None:
                before_commit()
            if hold:
                yield READY_TO_COMMIT
            self._commit_batch(prepared)
        except BaseException as error:
            self._roll_back(prepared, nets, error)
            raise

    def apply(
        self,
        prepared: PreparedBatch,
        options: DeltaOptions = ALL_DELTAS,
        before_commit: Callable[[list[Any]], None] | None = None,
    ) -> list[Any]:
        """Applies a prepared batch at once. Returns its deltas.

        The caller holds ``uninterrupted``. ``before_commit`` is called with the deltas.
        """
        self.check_ready()
        deltas: list[Any] = []
        callback = None if before_commit is None else partial(before_commit, deltas)
        batch = self._transaction(prepared, options, callback, False)
        self._batch = ref(batch)
        for part in batch:
            if part is not None:  # the start
                deltas.append(part)  # ``before_commit`` reads them
        return deltas

    @abstractmethod
    def _deltas(self, nets: Mapping[str | int, Zset]) -> Generator[Any, None, None]:
        """Yields the deltas that follow from the nets of all stages, if no stage streams."""

    def fill(self, changes: Mapping[str, Any]) -> None:
        """Applies existing rows without deltas, and resets the counters. A delete restores a tombstone."""
        with self.uninterrupted:
            for _ in self.transaction(replace(self.prepare(changes), fills=True), NO_DELTAS):
                raise AssertionError("there are no deltas")
        self.base_tables.reset_counters()
        self.batches -= 1

    def _open_batch(self) -> None:
        """Opens a batch unless one is open. If an error interrupts the batch before it is committed, it is undone."""
        if not self.header[A.H_OPEN]:
            self.header[A.H_OPEN] = 1
            self.header[A.H_EPOCH] += 1

    def _close_batch(self, changed: bool = True) -> None:
        """Closes the open batch, which is committed or undone. ``changed`` is False if it has changed nothing."""
        self.header[A.H_OPEN] = 0
        self.header[A.H_EPOCH] -= not changed

    def _commit_batch(self, prepared: PreparedBatch | None) -> None:
        """Commits the open batch. The base tables count its rows; None if they have."""
        if prepared is not None and not prepared.fills:
            self.base_tables.tally(prepared)
        self._close_batch()
        self.batches += 1

    def _apply(
        self, prepared: PreparedBatch, nets: dict[str | int, Zset], ranged: RangedRows | None = None
    ) -> Shifts | None:
        """Applies a batch to the base tables and to the stages that do not stream. Adds their nets to ``nets``.

        ``nets`` stays empty until the base tables have accepted the batch. Returns the ranges of the stage that is
        ``ranged``; its net has only the other rows. If a stage raises and may have changed, ``_in_step`` stays True:
        the state is lost.
        """
        self._in_step = True
        stage, shifts = None, None
        try:
            effective = self.base_tables.apply(prepared)
            nets.update(self._empty_base_nets)
            nets.update(effective)
            for number, stage in self._gathered:
                inputs = [nets[source] for source in self._sources[number]]
                if self._is_skipped(number, inputs):
                    nets[number] = self._empty_nets[number]
                    continue
                if not prepared.passed or number in self._excluded:  # otherwise a stage may have applied a part of it
                    self._in_step = False
                    self.uninterrupted.check()
                    self._in_step = True
                if ranged is not None and number == ranged.number and isinstance(stage, Over):
                    net, shifts = stage.shifted(inputs, ranged.told)
                    self.tallies.work[number][PASSED] += len(shifts)
                else:
                    net = prepared.made[number] if number in prepared.made else stage.apply(inputs)
                nets[number] = net
                self.tallies.note(number, inputs, net)
        except BaseException as error:
            if isinstance(error, REFUSALS) or (isinstance(stage, (Join, Fixpoint)) and stage.undone):
                self._in_step = False
            raise
        self._in_step = False
        return shifts

    def _is_skipped(self, number: int, inputs: list[Zset]) -> bool:
        """Returns True for a stage that is skipped: it has no input changes, and does not count batches."""
        return self._skippable[number] and not sum(map(CHANGES, inputs))

    def _roll_back(self, prepared: PreparedBatch, nets: Mapping[str | int, Zset], error: BaseException) -> None:
        """Undoes the applied part of the batch that ``error`` stopped. Raises UnusableStateError if that is
        impossible."""
        if not self.header[A.H_OPEN]:
            return  # the batch is committed
        try:
            if self._in_step or any(stage.resumes for stage in self.stages if isinstance(stage, (Join, Fixpoint))):
                raise UnusableStateError("it is unknown how much of the batch was applied")
            with self.memory.budget.lifted():
                self._undo_stages([number for number in range(len(self.stages)) if number in nets], dict(nets))
                if nets:
                    self.base_tables.undo(prepared.nets)
        except (UnusableStateError, MemoryBudgetError) as why:
            if isinstance(error, Exception) and LOST not in str(error):
                raise UnusableStateError(f"{error} ({why}). {LOST}") from error
            return  # KeyboardInterrupt or SystemExit continues; later batches are rejected
        self._close_batch()
        if self.memory.budget.tight:
            self._sweep()  # frees values that only this batch had

    def undo(self, changes: Mapping[str, Any]) -> None:
        """Undoes the last batch, given the same changes. Raises UnusableStateError (see ``BaseTables.check_undo``)."""
        self.check_ready()
        prepared = self._preparer.prepare(changes, strict=False, again=True)
        with self.uninterrupted, self.memory.budget.lifted():
            self.base_tables.check_undo()
            self._open_batch()
            nets = self._empty_base_nets.copy()
            nets.update(self.base_tables.undo(prepared.nets))
            self._undo_stages(range(len(self.stages)), nets)
            self.base_tables.tally(prepared, -1)
            self._close_batch()

    def _undo_stages(self, numbers: Iterable[int], nets: dict[str | int, Zset]) -> None:
        """Undoes the last batch in some stages. ``nets``: those of the base tables; receives those of the stages."""
        for number in numbers:
            inputs = [nets[source] for source in self._sources[number]]
            if self._is_skipped(number, inputs):
                nets[number] = self._empty_nets[number]
                continue
            nets[number] = self.stages[number].undo(inputs).negated()
            self.tallies.add(number, nets[number], -1)

    # -- maintenance ---------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> int:
        """Writes the state and ``extra`` to one file. See ``crown.stages.state.memory.write``.

        Raises SnapshotError if the file cannot be written, or holds the live state.
        """
        target, file = path_of(path, "path"), self.memory.file
        if file is not None and same_file(target, file.path):
            raise SnapshotError(f"{target} is the file in which this view keeps its state; save to another one")
        self.compact()
        options = self.on_missing, self.selecting, self.threads
        return memory.write(target, self.plan, *options, extra, self.memory.parts)

    @property
    def version(self) -> int:
        """Returns the number of the last batch, which ``commit`` has set; -1 before the first."""
        return int(self.memory.parts[0][A.H_VERSION]) - 1

    @property
    def clean(self) -> bool:
        """Returns False while a batch is being applied, and after a crash within a batch."""
        return bool(self.memory.parts[0][A.H_CLEAN]) and not self.lost

    def begin(self) -> None:
        """Marks the state dirty, before a batch."""
        self.memory.parts[0][A.H_CLEAN] = 0

    def commit(self, version: int) -> None:
        """Marks the state clean, and sets the number of the last batch to ``version`` (>= 0)."""
        self.memory.parts[0][A.H_VERSION] = version + 1
        self.memory.parts[0][A.H_CLEAN] = 1

    @property
    def lost(self) -> bool:
        """Returns True while a batch is being applied, and forever after a batch that could not be undone."""
        return bool(self.header[A.H_OPEN])

    def check_ready(self) -> None:
        """Raises ConcurrentChangeError while a batch is being applied, UnusableStateError if the state is lost, and
        CrownError if it belongs to another process."""
        if self.memory.file is not None:
            self.memory.file.check_process()
        if self.header[A.H_OPEN]:
            refuse(is_running(self._batch), True)

    def compact(self) -> int:
        """Frees unused dictionary entries. Returns their number. O(state). Runs automatically when needed."""
        self.check_ready()
        return self._sweep()

    def _sweep(self) -> int:
        self.base_tables.mark_values()
        for stage in self.stages:
            stage.mark_values()
        return self.memory.dictionary.sweep()

    def check_invariants(self) -> None:
        """Recomputes all derived data of each part, and compares. Raises AssertionError. O(state)."""
        self.check_ready()
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
            self.check_ready()
        base = self.base_tables.stats()
        return {
            **base,
            "input_rows": sum(base["rows"].values()),
            "dictionary": len(self.memory.dictionary),
            "live_bytes": 8 * self.memory.budget.used,
            "reserved_bytes": 8 * sum(int(part[A.H_TOP]) for part in self.memory.parts),
            "stages": [stage.stats() for stage in self.stages],
        }
