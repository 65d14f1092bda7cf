"""The engine of a program with one result, that of its last stage.

    changes -> BatchPreparer -> nets in codes -> base tables and stages (``crown.programs.runtime``)
        -> the last stage -> record batches

If the last stage is a join, its deltas leave as they are enumerated, and are never held together. The nets of all other
stages are gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import pyarrow as pa
from typing_extensions import override

from crown.engine.delivery import Batches, Delivery
from crown.errors import CrownError, SnapshotError
from crown.guards.interrupts import Uninterrupted
from crown.ingest.batch import PreparedBatch
from crown.ingest.tables.given import Dealt
from crown.kernels.memory import arena as A
from crown.programs.kernels import pipeline as kernels
from crown.programs.pipelines.made import pipeline_of
from crown.programs.pipelines.pipeline import Pipeline
from crown.programs.result import ResultOf
from crown.programs.runtime import ProgramRuntime
from crown.programs.wanted import ALL, Wanted
from crown.stages.state.memory import ProgramMemory, layout_words, parts_of_program
from crown.store.zset import Zset
from plans.program import Program
from plans.search.cells.shares import grids_of


class ProgramEngine(ProgramRuntime, instead="save(path) and crown.load(path) make another one"):
    """Maintains a program with one result. Not thread-safe; arguments as for ``ProgramRuntime``.

    ``create`` or ``attach`` makes one. ``result_schema``: the Arrow schema of the result; that of a bag has
    ``_weight``. ``delta_schema``: of the deltas, which are the result's columns and ``_weight``. ``pipeline``: what
    runs the first stages, or all, in one native call; None if it runs none. ``segments`` says how each part of the
    stages runs, and why.
    """

    def __init__(
        self,
        program: Program,
        memory: ProgramMemory,
        on_missing: str = "ignore",
        threads: int = 1,
        selecting: bool = True,
        uninterrupted: Uninterrupted | None = None,
        dealt: Mapping[str, Dealt] = MappingProxyType({}),
    ) -> None:
        super().__init__(
            program, memory, on_missing, threads, selecting, streams=True, uninterrupted=uninterrupted, dealt=dealt
        )
        self.result = ResultOf(self, len(self.stages) - 1)
        self.columns = self.result.columns
        self.result_schema, self.delta_schema = self.result.result_schema, self.result.delta_schema
        self.bag = self.result.bag
        self.pipeline, self.segments = pipeline_of(self, self._preparer, self.result.records)

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
        each join stage that can be cut; ``selecting``: as for ``ProgramRuntime``. Raises SnapshotError for a file that
        cannot be made, and CrownError for arguments that do not go together.
        """
        if program.results is not None:
            raise CrownError("a program with several named results is what crown.database maintains, not crown.view")
        if threads > 1 and path is not None:
            raise CrownError("path=... keeps the state of one thread in a file; leave threads at 1, or path out")
        if threads > 1 and all(grid.cells == 1 for grid in grids_of(program, threads)):
            raise CrownError(
                "threads=N cuts groups and joins, and this query has none that can be; leave threads at 1 for it"
            )
        try:
            memory = ProgramMemory.create(parts_of_program(program, threads), memory_budget, seed, path)
        except OSError as error:
            raise SnapshotError(f"cannot keep the state in {path}: {error.strerror}") from error
        made = cls(program, memory, on_missing, threads, selecting)
        made.begin_empty()
        return made

    def begin_empty(self) -> None:
        """Writes into the memory of a new, empty engine what it is a part of."""
        layout = layout_words(self._program, self.on_missing, self.selecting, False)
        self.memory.stamp(self._program, self.threads, layout)
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

    # Changes
    # ------------------------------------------------------------------------------------------------------------------

    def prepare_at_once(
        self, changes: Mapping[str, Any], strict: bool, wanted: Wanted, known: PreparedBatch | None = None
    ) -> PreparedBatch:
        """Does what ``prepare`` does for a batch that is applied next, by ``apply``: it may be scanned only then."""
        pipeline = self.pipeline
        if strict and pipeline is not None and (most := pipeline.most(wanted)):
            self.ready()
            if self._interns and self.memory.dictionary.overgrown:
                self._sweep()
            found = self._preparer.unscanned(changes)
            if found is not None and found.rows <= most:
                return found
        return self.prepare(changes, strict, known)

    @override
    def apply(
        self,
        prepared: PreparedBatch,
        wanted: Wanted = ALL,
        closing: Callable[[list[Any]], None] | None = None,
    ) -> list[Any]:
        pipeline, unscanned = self.pipeline, prepared.unscanned
        self.ready()
        if pipeline is None or not unscanned:
            return self._drawn(prepared, wanted, closing)
        asked, rest = kernels.BAD, None
        pipeline.open(unscanned)
        self._open()
        self._torn = self._in_call = True
        try:
            asked = pipeline.run(wanted, unscanned)
            if asked == kernels.BAD:
                self._torn = False
                self._end(changed=False)
            else:
                pipeline.note(prepared)
                if asked in kernels.ALL_DONE:
                    return self._delivered_at_once(pipeline, prepared, wanted, closing)
                rest = pipeline.handed_over(prepared, asked)
        except BaseException as error:
            given, nets = prepared, dict[str | int, Zset]()
            if asked in kernels.ALL_DONE:
                given = replace(given, nets=pipeline.nets())
                nets.update(self._unchanged)
                nets.update(enumerate(self._nothing_of))
                nets.update(given.nets)
            self._roll_back(given, nets, error)
            raise
        finally:
            self._in_call = False
            pipeline.close()
        if rest is not None:
            return self._drawn(rest, wanted, closing)
        given = self.prepare({one.name: one.given for one in unscanned})  # which says what is wrong with it
        return self._drawn(given, wanted, closing)

    def _delivered_at_once(
        self, pipeline: Pipeline, given: PreparedBatch, wanted: Wanted, closing: Callable[[list[Any]], None] | None
    ) -> list[Any]:
        """Returns what is delivered of a batch that a pipeline has done, and lets it stand."""
        self.base_tables.record_complete()
        if pipeline.linear:
            pipeline.tally(self.tallies)
        self._torn = False
        found = pipeline.delivered() if wanted.deltas else []
        if closing is not None:
            closing(found)
        self._stand(given)
        return found

    def run(
        self,
        prepared: PreparedBatch,
        *,
        deltas: bool = True,
        consolidate: bool | None = None,
        closing: Callable[[], None] | None = None,
        factorized: bool = False,
        ranges: bool = False,
    ) -> Delivery:
        """Applies a prepared batch; yields its exact deltas (output columns and ``_weight``).

        ``deltas=False``: nothing is delivered, which a join makes use of: it rebuilds its live views when deltas are
        next asked for. ``consolidate``: leave out what a batch both adds and removes (default: where the query needs
        it); then the deltas of a join are gathered in memory too. Only a join whose rows may be so can leave them in.
        ``closing`` is called when all is done; if it raises, the batch is taken back. ``factorized``: deltas are
        factorized rows (see ``crown.results.factorized``; CrownError for a query that has none); ``ranges``: they are
        ranges (see ``crown.results.ranged``; PlanError for a query that has none). Until the iterator is
        exhausted or closed the engine takes nothing else, and its deltas are void if it raises. Closed early, it
        applies the rest of the batch without output, and its ``close`` raises what stops that.

        O(changes + deltas of all stages).
        """
        if factorized:
            self.ready()
            self.result.factorized  # noqa: B018 - raises if there are none
        with self.uninterrupted:
            wanted = Wanted(deltas, consolidate, factorized, self.result.ranged if ranges else None)
            batch = self.transaction(prepared, wanted, closing)
            return Delivery(batch, self.uninterrupted)

    def _delivered(self, nets: Mapping[str | int, Zset]) -> Batches:
        yield from self.result.records.batches(nets[len(self.stages) - 1])

    def discard(self, changes: Mapping[str, Any]) -> int:
        """Applies a batch, enumerates the deltas of the last stage into reused buffers, if it is a join, drops them.

        Returns how many there were. For measuring: those of a join are not netted.
        """
        prepared, nets = self.prepare(changes), dict[str | int, Zset]()
        join, last = self._streaming, len(self.stages) - 1
        with self.uninterrupted:
            self._open()
            try:
                self._apply(prepared, nets)
                if join is None:
                    found = len(nets[last])
                else:
                    found = join.discard([nets[source] for source in self._sources[last]])
                    nets[last] = self._nothing_of[last]
                self._stand(prepared)
            except BaseException as error:
                self._roll_back(prepared, nets, error)
                raise
        return found

    # Results
    # ------------------------------------------------------------------------------------------------------------------

    def results(self, factorized: bool = False) -> Iterator[pa.RecordBatch]:
        """Yields the result rows; see ``crown.programs.result.ResultOf.results``."""
        return self.result.results(factorized)

    def deltas_from_nothing(self) -> Iterator[pa.RecordBatch]:
        """Yields the result as a delta of inserts; see ``crown.programs.result.ResultOf.deltas_from_nothing``."""
        return self.result.deltas_from_nothing()

    def count(self) -> int:
        """Returns the number of result rows; see ``crown.programs.result.ResultOf.count``."""
        return self.result.count()

    def check_invariants(self) -> None:
        """Checks the invariants of all stages, and counts the result."""
        super().check_invariants()
        self.result.check_invariants()

    def contains(self, values: Mapping[str, Any]) -> bool:
        """Returns True iff a row is in the result; see ``crown.programs.result.ResultOf.contains``."""
        return self.result.contains(values)

    def multiplicity(self, values: Mapping[str, Any]) -> int:
        """Returns how often a row is in the result; see ``crown.programs.result.ResultOf.multiplicity``."""
        return self.result.multiplicity(values)

    def get(self, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the result row of a key; see ``crown.programs.result.ResultOf.get``."""
        return self.result.get(key)
