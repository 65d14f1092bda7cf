"""The engine of a program in several cells, each of which is a whole ``ProgramEngine`` over its part of the rows.

    changes -> the native calls of all cells, each of which selects its rows, in a thread per cell
            -> the steps that they leave, in a thread per cell -> the deltas of all cells -> commit of all, or of none

Cells share nothing but the budget of memory. A relation is partitioned by the hash of a column, or every cell has all
of its rows (``plans.search.cells.whole``). So their results are disjoint. The kernels run without the GIL.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from crown.engine.delivery import Batches, Delivery, in_turns, next_turn
from crown.engine.statistics import summed
from crown.guards.arguments import path_of
from crown.guards.interrupts import Uninterrupted
from crown.guards.threads import Stopped, Threads, first_cause
from crown.guards.uncopyable import NotCopyable
from crown.ingest.batch import PreparedBatch
from crown.ingest.changes import relations_of
from crown.ingest.tables.frames import kept
from crown.ingest.tables.given import HashPartition
from crown.programs.cells.result import CellsResultReader
from crown.programs.delta_options import ALL_DELTAS, NO_DELTAS, DeltaOptions
from crown.programs.kernels import pipeline as kernels
from crown.programs.program import ProgramEngine
from crown.stages.state import memory
from crown.stages.state.memory import ProgramMemory, parts_of_program
from crown.store.memory import ADDRESSABLE
from plans.program import Program
from plans.search.cells.whole import partitioning_of

_FEW = 256  # batches with fewer rows are applied to one cell after the other, which costs less than threads
_T = TypeVar("_T")
_Transactions = dict[int, Generator[Any, None, None]]


class ProgramCells(NotCopyable, instead="save(path) and crown.load(path) make another one"):
    """Maintains a program in several ``cells``. Not thread-safe; arguments as for ``ProgramEngine``.

    ``partitioning``: the column by which each relation (in lower case) is partitioned; every cell has all rows of
    the others. With a memory budget, and for small batches, the cells run one after the other.
    """

    def __init__(
        self,
        program: Program,
        memory: ProgramMemory,
        on_missing: str,
        threads: int,
        selecting: bool,
        partitioning: Mapping[str, str],
    ) -> None:
        self.memory = memory
        self.threads = threads
        self.partitioning = partitioning
        self._threads = Threads(threads - 1)
        stopping = [Uninterrupted(), *(Uninterrupted(self._threads.check) for _ in range(threads - 1))]
        self.uninterrupted = stopping[0]
        self.cells = [
            ProgramEngine(
                program,
                part,
                on_missing,
                selecting=selecting,
                partitions={name: HashPartition(column, threads, number) for name, column in partitioning.items()},
                uninterrupted=stops,
            )
            for number, (part, stops) in enumerate(zip(memory.cells(threads), stopping, strict=True))
        ]
        first = self.cells[0]
        self.plan, self.wires, self.fingerprint = first.plan, first.wires, first.fingerprint
        self.on_missing, self.selecting, self.reads_clock = on_missing, selecting, first.reads_clock
        self.pipeline, self.segments = first.pipeline, first.segments
        self.result = CellsResultReader([cell.result for cell in self.cells])
        self.result_schema, self.delta_schema = self.result.result_schema, self.result.delta_schema

    @classmethod
    def create(
        cls,
        program: Program,
        partitioning: Mapping[str, str],
        threads: int,
        memory_budget: int | None = None,
        on_missing: str = "ignore",
    ) -> Self:
        """Makes a new, empty engine in anonymous memory. Arguments as for ``ProgramEngine.create``."""
        memory = ProgramMemory.create(parts_of_program(program), memory_budget, cells=threads)
        made = cls(program, memory, on_missing, threads, True, partitioning)
        for cell in made.cells:
            cell.begin_empty()
        return made

    @property
    def batches(self) -> int:
        """Returns the number of batches applied by this object, or since its owner began to count."""
        return self.cells[0].batches

    @batches.setter
    def batches(self, number: int) -> None:
        for cell in self.cells:
            cell.batches = number

    @property
    def absent(self) -> list[str]:
        """Returns the relations in which deletes of the last batch found no row."""
        return list(dict.fromkeys(name for cell in self.cells for name in cell.absent))

    @property
    def lost(self) -> bool:
        """Returns True while a batch is being applied, and forever after one that could not be undone."""
        return any(cell.lost for cell in self.cells)

    def check_ready(self) -> None:
        """Raises as ``ProgramRuntime.check_ready`` does."""
        for cell in self.cells:
            cell.check_ready()

    # -- a batch -------------------------------------------------------------------------------------------------------

    def prepare(self, changes: Mapping[str, Any], strict: bool = True) -> PreparedBatch:
        """Checks, codes and nets a batch for each cell. Raises as ``ProgramRuntime.prepare`` does."""
        return self._prepared(changes, lambda cell, given, known: cell.prepare(given, strict, known))

    def prepare_for_apply(self, changes: Mapping[str, Any], strict: bool, options: DeltaOptions) -> PreparedBatch:
        """Prepares a batch that is applied next, for each cell. See ``NativeRuntime.prepare_for_apply``."""
        return self._prepared(changes, lambda cell, given, known: cell.prepare_for_apply(given, strict, options, known))

    def _prepared(
        self,
        changes: Mapping[str, Any],
        prepare: Callable[[ProgramEngine, Mapping[str, Any], PreparedBatch | None], PreparedBatch],
    ) -> PreparedBatch:
        """Returns the batch as each cell prepares it.

        A cell that does not scan the batch reuses the checks of the cell before.
        """
        self.check_ready()
        given, found = self._kept(changes), list[PreparedBatch]()
        for cell in self.cells:
            known = found[-1] if found and not found[-1].unscanned else None
            found.append(prepare(cell, given, known))
        return replace(found[-1], cells=tuple(found))

    def _kept(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the changes in a form that every cell can read."""
        return {name: kept(name, data) for name, data in relations_of(changes).items()}

    def apply(
        self,
        prepared: PreparedBatch,
        options: DeltaOptions = ALL_DELTAS,
        before_commit: Callable[[list[Any]], None] | None = None,
    ) -> list[Any]:
        """Applies a prepared batch at once, to all cells or to none. Returns its deltas.

        The caller holds ``uninterrupted``. ``before_commit`` is called with the deltas.
        """
        deltas: list[Any] = []
        callback = None if before_commit is None else partial(before_commit, deltas)
        self.check_ready()
        for part in self._deltas(prepared, options, callback):
            if part is not None:  # the start
                deltas.append(part)  # ``before_commit`` reads them
        return deltas

    def update(self, changes: Mapping[str, Any]) -> None:
        """Applies a batch without deltas. Raises as ``NativeRuntime.update`` does."""
        with self.uninterrupted:
            self.apply(self.prepare_for_apply(changes, True, NO_DELTAS), NO_DELTAS)

    def _options_of(self, options: DeltaOptions, cell: ProgramEngine) -> DeltaOptions:
        return options if options.ranged is None else replace(options, ranged=cell.result.ranged)

    def run(
        self,
        prepared: PreparedBatch,
        *,
        deltas: bool = True,
        consolidate: bool | None = None,
        before_commit: Callable[[], None] | None = None,
        factorized: bool = False,
        ranges: bool = False,
    ) -> Delivery:
        """Applies a prepared batch; yields its exact deltas. See ``ProgramEngine.run``. Each cell delivers some deltas,
        then waits for the others."""
        self.check_ready()
        if factorized:
            self.result.factorized  # noqa: B018 - raises if there are none
        with self.uninterrupted:
            options = DeltaOptions(deltas, consolidate, factorized, self.result.ranged if ranges else None)
            batch = self._deltas(prepared, options, before_commit)
            next(batch)
            return Delivery(batch, self.uninterrupted)

    def _deltas(
        self, prepared: PreparedBatch, options: DeltaOptions, before_commit: Callable[[], None] | None
    ) -> Batches:
        """Applies a batch to all cells or to none, while the generator is consumed.

        Yields None first, then the deltas. One job of each cell makes its native call. Another takes the steps that the
        call has left, and makes the first deltas: for most batches these are all.
        """
        parallel = prepared.rows >= _FEW and self.memory.budget.words >= ADDRESSABLE
        transactions: _Transactions = {}
        deltas = options.deltas
        try:
            everyone = range(len(self.cells))
            for numbers in [everyone] if parallel else [[number] for number in everyone]:
                self._begin(numbers, prepared, options, transactions)
            cells = [transactions[number] for number in everyone]
            takes_steps = any(cell.takes_steps for cell in self.cells)
            turns = self._run_in_cells([partial(next_turn, cell) for cell in cells], parallel and takes_steps)
            try:
                yield None
            except GeneratorExit:
                deltas = False
            for batch in in_turns(cells, turns, partial(self._run_in_cells, parallel=parallel)):
                if deltas:
                    try:
                        yield batch
                    except GeneratorExit:
                        deltas = False
            if before_commit is not None:
                before_commit()
        except BaseException as error:
            _undo(transactions, error)
            raise
        for transaction in transactions.values():
            next(transaction, None)

    def _begin(
        self, numbers: Iterable[int], prepared: PreparedBatch, options: DeltaOptions, transactions: _Transactions
    ) -> None:
        """Begins the batch in some cells, and makes their native calls, all at once.

        This thread prepares the calls: threads that run Python wait for one another.
        """
        asked: dict[int, Any] = {}
        for number in numbers:
            cell = self.cells[number]
            batch = cell.transaction(prepared.cells[number], self._options_of(options, cell), hold=True)
            transactions[number] = batch
            asked[number] = next(batch)
        while asked := {number: call for number, call in asked.items() if call is not None}:
            statuses, failures = self._threads.call(kernels.run, list(asked.values())), list[BaseException]()
            for number, status in zip(asked, statuses, strict=True):  # each cell gets its status, even after an error
                batch, failed = transactions[number], isinstance(status, BaseException)
                try:
                    asked[number] = batch.throw(status) if failed else batch.send(status)
                except BaseException as error:
                    failures.append(error)
            if failures:
                raise first_cause(failures)

    def _run_in_cells(self, jobs: Sequence[Callable[[], _T]], parallel: bool) -> list[_T]:
        """Runs a job of each cell, in parallel if the cells may. Returns the results.

        Under a memory budget they may not: what one cell may take depends on the others.
        """
        return self._threads.run(jobs, self.uninterrupted.check) if parallel else [job() for job in jobs]

    def undo(self, changes: Mapping[str, Any]) -> None:
        """Undoes the last batch, given the same changes. Raises as ``ProgramRuntime.undo`` does."""
        self.check_ready()
        given = self._kept(changes)
        for cell in self.cells:
            cell.base_tables.check_undo()
        for cell in self.cells:
            cell.undo(given)

    # -- maintenance ---------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> int:
        """Writes the state, between two batches, and ``extra`` to one file. See ``crown.stages.state.memory.write``."""
        self.compact()
        options = self.on_missing, self.selecting, self.threads
        return memory.write(path_of(path, "path"), self.plan, *options, extra, self.memory.parts, self.partitioning)

    def compact(self) -> int:
        """Frees unused dictionary entries. Returns their number. O(state)."""
        return sum(cell.compact() for cell in self.cells)

    def check_invariants(self) -> None:
        """Checks the invariants of all cells. Raises AssertionError. O(state)."""
        for cell in self.cells:
            cell.check_invariants()

    def stats(self) -> dict[str, Any]:
        """Returns sizes and counters, summed over the cells. Of a relation of which every cell has all rows, those of
        one cell."""
        cells = [cell.stats() for cell in self.cells]
        found = summed(cells)
        for what, by in cells[0].items():
            if what in _OF_RELATIONS:
                found[what] |= {name: value for name, value in by.items() if name.lower() not in self.partitioning}
        found["input_rows"] = sum(found["rows"].values())
        stages = [summed([cell["stages"][n] for cell in cells]) for n in range(len(self.plan.stages))]
        used = {"live_bytes": 8 * self.memory.budget.used}
        return {**found, **used, "cells": self.threads, "stages": stages}


_OF_RELATIONS = ("rows", "missing_deletes", "updates", "filtered", "late", "tombstones")


def _undo(transactions: _Transactions, error: BaseException) -> None:
    """Undoes the batch that ``error`` has stopped, in the cells that have applied it.

    Raises UnusableStateError if a cell cannot undo its part.
    """
    failure: BaseException | None = None
    for transaction in transactions.values():
        try:
            transaction.throw(Stopped())
        except Stopped:
            pass
        except BaseException as lost:
            failure = lost
    if failure is not None and isinstance(error, Exception):  # otherwise it is KeyboardInterrupt or SystemExit
        raise failure from error


Engine = ProgramEngine | ProgramCells
"""The engine of a program with one result."""


def engine_of(
    program: Program,
    path: Path | None = None,
    *,
    memory_budget: int | None = None,
    on_missing: str = "ignore",
    threads: int = 1,
) -> Engine:
    """Makes a new, empty engine of a program. With several threads each has a cell, if the program can be cut as a
    whole; a program that is one join has a grid of cells otherwise. Arguments and errors as for
    ``ProgramEngine.create``."""
    if threads > 1 and path is None and program.results is None:
        partitioning = partitioning_of(program, threads)
        if partitioning is not None:
            return ProgramCells.create(program, partitioning, threads, memory_budget, on_missing)
    return ProgramEngine.create(program, path, memory_budget=memory_budget, on_missing=on_missing, threads=threads)
