"""The engine of a program with one result, that of its last stage.

    changes -> BatchPreparer -> nets in codes -> base tables and stages (``crown.programs.runtime``)
        -> the last stage -> record batches

If the last stage is a join, its deltas leave as they are enumerated, and are never held together. The nets of all other
stages are gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import pyarrow as pa

from crown.engine.delivery import Batches, Delivery
from crown.errors import CrownError, SnapshotError
from crown.guards.interrupts import Uninterrupted
from crown.ingest.batch import PreparedBatch
from crown.ingest.tables.given import HashPartition
from crown.kernels.memory import arena as A
from crown.programs.delta_options import DeltaOptions
from crown.programs.pipelines.native import NativeRuntime
from crown.programs.result import ResultReader
from crown.stages.state.memory import ProgramMemory, layout_words, parts_of_program
from crown.store.zset import Zset
from plans.program import Program
from plans.search.cells.shares import grids_of


class ProgramEngine(NativeRuntime, instead="save(path) and crown.load(path) make another one"):
    """Maintains a program with one result. Not thread-safe; arguments as for ``ProgramRuntime``.

    ``create`` or ``attach`` makes one. ``result_schema``: the Arrow schema of the result; that of a bag has
    ``_weight``. ``delta_schema``: of the deltas, which are the result's columns and ``_weight``.
    """

    def __init__(
        self,
        program: Program,
        memory: ProgramMemory,
        on_missing: str = "ignore",
        threads: int = 1,
        selecting: bool = True,
        uninterrupted: Uninterrupted | None = None,
        partitions: Mapping[str, HashPartition] = MappingProxyType({}),
    ) -> None:
        super().__init__(
            program,
            memory,
            on_missing,
            threads,
            selecting,
            streams=True,
            uninterrupted=uninterrupted,
            partitions=partitions,
        )
        self.result = ResultReader(self, len(self.stages) - 1)
        self.result_schema, self.delta_schema = self.result.result_schema, self.result.delta_schema
        self._build_pipeline(self.result.records)

    @classmethod
    def create(
        cls,
        program: Program,
        path: Path | None = None,
        *,
        memory_budget: int | None = None,
        on_missing: str = "ignore",
        seed: int | None = None,
        threads: int = 1,
        selecting: bool = True,
    ) -> Self:
        """Makes a new, empty engine in anonymous memory, or in the file ``path`` (overwritten; it may outgrow RAM).

        ``memory_budget``: bytes of all parts together; ``seed``: of the dictionary's hash table; ``threads``: cells of
        a program that is one join; ``selecting``: as for ``ProgramRuntime``. Raises SnapshotError for a file that
        cannot be made, and CrownError for arguments that do not go together.
        """
        if program.results is not None:
            raise CrownError(
                "crown.view maintains one result; use crown.database for a program with several named results"
            )
        if threads > 1 and path is not None:
            raise CrownError("path=... stores the state of a single thread; leave path or threads out")
        if threads > 1 and all(grid.cells == 1 for grid in grids_of(program, threads)):
            raise CrownError(
                "threads=N cuts a query into cells by a column of its result, so that each has a part of the rows, and "
                "this query has no such column; leave threads out"
            )
        try:
            memory = ProgramMemory.create(parts_of_program(program, threads), memory_budget, seed, path)
        except OSError as error:
            raise SnapshotError(f"cannot keep the state in {path}: {error.strerror}") from error
        made = cls(program, memory, on_missing, threads, selecting)
        made.begin_empty()
        return made

    def begin_empty(self) -> None:
        """Writes the layout of the program into the memory of a new, empty engine."""
        layout = layout_words(self.plan, self.on_missing, self.selecting, False)
        self.memory.stamp(self.plan, self.threads, layout)
        self.tallies.begin(range(len(self.stages) - (self._streaming is not None)))

    @property
    def cells(self) -> Sequence[ProgramEngine]:
        """Returns the engines of the cells: this one."""
        return [self]

    @classmethod
    def attach(cls, program: Program, path: Path, *, on_missing: str = "ignore", selecting: bool = True) -> Self:
        """Returns the engine whose state is in the file ``path``. O(1).

        Raises SnapshotError if it is not a state of this program, or keeps other rows or columns than it would with
        ``on_missing`` and ``selecting``.
        """
        memory = ProgramMemory.attach(parts_of_program(program), path)
        layout = layout_words(program, on_missing, selecting, False)
        if (memory.parts[0][A.H_PLAN0 : A.H_PLAN1 + 1] != layout).any():
            raise SnapshotError(f"{path} holds the state of another query; use a fresh path for the changed query")
        return cls(program, memory, on_missing, selecting=selecting)

    # -- changes -------------------------------------------------------------------------------------------------------

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
        """Applies a prepared batch. Yields its exact deltas (output columns and ``_weight``).

        - ``deltas``: False to deliver none. A join then skips their enumeration, and rebuilds its live views when
          deltas are next requested.
        - ``consolidate``: True to leave out rows that a batch both inserts and deletes (default: where the query needs
          it). The deltas of a join are then collected in memory. False keeps them, if the last stage is a join.
        - ``before_commit`` is called when all changes are applied. If it raises, the batch is undone.
        - ``factorized``: True for factorized rows (see ``crown.results.factorized``). Raises CrownError for a query
          without them.
        - ``ranges``: True for ranges (see ``crown.results.ranged``). Raises PlanError for a query without them.

        The engine rejects other calls until the iterator is exhausted or closed. If the iterator raises, its deltas are
        void. If it is closed early, it applies the rest of the batch without deltas, and ``close`` raises the error
        that prevents that.

        O(changes + deltas of all stages).
        """
        if factorized:
            self.check_ready()
            self.result.factorized  # noqa: B018 - raises if there are none
        with self.uninterrupted:
            options = DeltaOptions(deltas, consolidate, factorized, self.result.ranged if ranges else None)
            batch = self.transaction(prepared, options, before_commit)
            return Delivery(batch, self.uninterrupted)

    def _deltas(self, nets: Mapping[str | int, Zset]) -> Batches:
        yield from self.result.records.batches(nets[len(self.stages) - 1])

    def discard(self, changes: Mapping[str, Any]) -> int:
        """Applies a batch for measurements: enumerates the deltas of a last join into reused buffers, and drops them.

        Returns their number. The deltas of a join are not netted.
        """
        prepared, nets = self.prepare(changes), dict[str | int, Zset]()
        join, last = self._streaming, len(self.stages) - 1
        with self.uninterrupted:
            self._open_batch()
            try:
                self._apply(prepared, nets)
                if join is None:
                    found = len(nets[last])
                else:
                    found = join.discard([nets[source] for source in self._sources[last]])
                    nets[last] = self._empty_nets[last]
                self._commit_batch(prepared)
            except BaseException as error:
                self._roll_back(prepared, nets, error)
                raise
        return found

    # -- results -------------------------------------------------------------------------------------------------------

    def results(self, factorized: bool = False) -> Iterator[pa.RecordBatch]:
        """Yields the result rows; see ``crown.programs.result.ResultReader.results``."""
        return self.result.results(factorized)

    def deltas_from_nothing(self) -> Iterator[pa.RecordBatch]:
        """Yields the result as a delta of inserts; see ``crown.programs.result.ResultReader.deltas_from_nothing``."""
        return self.result.deltas_from_nothing()

    def check_invariants(self) -> None:
        """Checks the invariants of all stages, and counts the result."""
        super().check_invariants()
        self.result.check_invariants()
