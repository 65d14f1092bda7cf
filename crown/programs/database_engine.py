"""The engine of a program with several named results. Results can be added and dropped while it holds data.

A stage keeps its number, and its state lies in arenas of its own. So the engine of a changed program shares the arenas
of the stages that both have, and has new ones for the others. A new stage is filled with the rows that it reads, block
by block, as with the inserts of a batch. This only reads the old stages, so the old engine stays intact until the new
one is complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any, Self

import pyarrow as pa

from crown.guards.interrupts import Uninterrupted
from crown.ingest.batch import PreparedBatch
from crown.programs.base_rows import base_rows
from crown.programs.delta_options import ALL_DELTAS, NO_DELTAS
from crown.programs.pipelines.native import NativeRuntime
from crown.programs.result import ResultReader
from crown.stages.linear import Linear
from crown.stages.state.memory import OWN_PARTS, ProgramMemory, layout_words, parts_of, parts_of_program
from crown.store.zset import Zset
from plans.program import Program
from plans.programs.reads import key_of


class DatabaseEngine(NativeRuntime, instead="save(path) and crown.load_database(path) make another one"):
    """Maintains a program with named results. Not thread-safe; arguments as for ``ProgramRuntime``.

    The base tables store all columns, because a later query may read any of them.
    """

    def __init__(
        self,
        program: Program,
        memory: ProgramMemory,
        on_missing: str = "ignore",
        threads: int = 1,
        selecting: bool = False,
        uninterrupted: Uninterrupted | None = None,
    ) -> None:
        super().__init__(program, memory, on_missing, threads, selecting, whole=True, uninterrupted=uninterrupted)
        assert program.results is not None, "its results have names"
        named = program.results
        self.results: Mapping[str, ResultReader] = {one.name: ResultReader(self, one.stage) for one in named}
        self._stage_numbers = {one.name: one.stage for one in named}
        self._build_pipeline(None, self._stage_numbers.values())

    @classmethod
    def create(
        cls,
        program: Program,
        memory_budget: int | None,
        on_missing: str,
        uninterrupted: Uninterrupted | None = None,
    ) -> Self:
        """Makes a new, empty engine in anonymous memory; ``memory_budget``: bytes of all parts together."""
        memory = ProgramMemory.create(parts_of_program(program), memory_budget)
        return cls(program, memory, on_missing, uninterrupted=uninterrupted)

    def run(
        self, prepared: PreparedBatch, *, deltas: bool = True, before_commit: Callable[[], None] | None = None
    ) -> dict[str, pa.Table]:
        """Applies a prepared batch. Returns the exact delta of each result by name; nothing if ``deltas`` is False.

        ``before_commit`` is called when all changes are applied. If it raises, the batch is undone. O(changes + deltas
        of all stages).
        """
        with self.uninterrupted:
            callback = None if before_commit is None else lambda _: before_commit()
            deltas_by_name = self.apply(prepared, ALL_DELTAS if deltas else NO_DELTAS, callback)
        return deltas_by_name[0] if deltas_by_name else {}

    def _deltas(self, nets: Mapping[str | int, Zset]) -> Generator[dict[str, pa.Table], None, None]:
        yield {name: self.results[name].delta(nets[number]) for name, number in self._stage_numbers.items()}

    def changed(self, program: Program, memory_budget: int | None) -> DatabaseEngine:
        """Returns the engine of a changed program, which shares the stages that both programs have.

        Use only one of both engines afterwards. O(stages), plus the rows that new stages read. If the tables differ,
        all stages are filled anew. Raises the errors of a batch that is rejected; this engine is then unchanged.
        """
        self.check_ready()
        if program.tables != self.plan.tables:
            return self._with_tables(program, memory_budget)
        old, new = _parts(self.plan), _parts(program)
        kept_stages = [n for n, stage in enumerate(self.plan.stages) if program.stages[n] == stage]
        shared = {n: n for n in range(OWN_PARTS)}
        for number in kept_stages:
            shared |= dict(zip(new[number], old[number], strict=True))
        memory = self.memory.shared(shared, parts_of_program(program), memory_budget)
        engine = self._with_memory(program, memory, kept_stages, self.uninterrupted)
        engine._fill([n for n in range(len(program.stages)) if n not in kept_stages])
        return engine

    def copied(self, memory_budget: int | None, check: Callable[[], None] | None) -> DatabaseEngine:
        """Returns a copy of this engine that shares nothing with it. O(state).

        ``check`` may raise to stop its batches.
        """
        self.check_ready()
        memory = self.memory.copied(memory_budget)
        return self._with_memory(self.plan, memory, range(len(self.stages)), Uninterrupted(check))

    def save(self, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> int:
        """Writes the state to one file (see ``ProgramRuntime.save``), with the layout of the program in each part."""
        self.memory.stamp(self.plan, 1, layout_words(self.plan, self.on_missing, False, True))
        return super().save(path, extra)

    def _with_memory(
        self, program: Program, memory: ProgramMemory, kept_stages: Iterable[int], uninterrupted: Uninterrupted
    ) -> DatabaseEngine:
        """Returns an engine of a program over the same tables, whose ``memory`` has the ``kept_stages``."""
        engine = DatabaseEngine(program, memory, self.on_missing, uninterrupted=uninterrupted)
        engine.batches = self.batches
        counts = {number: self.tallies.known(number) for number in kept_stages}
        engine.tallies.begin(n for n in range(len(program.stages)) if n not in counts)
        for number, rows in counts.items():
            if rows is not None:
                engine.tallies.set(number, rows)
        return engine

    def _with_tables(self, program: Program, memory_budget: int | None) -> DatabaseEngine:
        """Returns an engine of a program with other tables.

        A table that both programs have, with the same columns, keeps its rows.
        """
        engine = DatabaseEngine.create(program, memory_budget, self.on_missing, self.uninterrupted)
        unchanged = {table.name for table in set(program.tables).intersection(self.plan.tables)}
        rows = {name: table for name, table in base_rows(self).items() if name in unchanged}
        if self.batches:
            engine.fill(rows)
        engine.batches = self.batches
        return engine

    def check_invariants(self) -> None:
        """Checks the invariants of all stages, and counts the results."""
        super().check_invariants()
        for result in self.results.values():
            result.check_invariants()

    def _fill(self, new_stages: list[int]) -> None:
        """Applies the rows that new stages read to them, as inserts.

        The first batch is empty: it creates the groups that are always present.
        """
        sources = {source for n in new_stages for source in self._sources[n]} - set(new_stages)
        if not self.batches or not new_stages:
            return
        self._insert_net(new_stages, {})
        for source in sorted(sources, key=str):
            for net in self._rows_of(source):
                self._insert_net(new_stages, {source: net})

    def _insert_net(self, new_stages: list[int], inserted: Mapping[str | int, Zset]) -> None:
        nets = dict(inserted)
        for number in new_stages:
            self.uninterrupted.check()
            stage = self.stages[number]
            nets[number] = stage.apply([nets[s] if s in nets else self._empty_net(s) for s in self._sources[number]])
            self.tallies.add(number, nets[number])

    def _empty_net(self, source: str | int) -> Zset:
        return Zset.empty(len(self.wires[key_of(source)].columns))

    def _rows_of(self, source: str | int) -> Iterator[Zset]:
        if isinstance(source, str):
            return self.base_tables.scan(source)
        stage = self.stages[source]
        return stage.scan([self._rows_of(s) for s in self._sources[source]] if isinstance(stage, Linear) else [])


def _parts(program: Program) -> list[range]:
    """Returns the parts of each stage of a program."""
    parts, first = [], OWN_PARTS
    for stage in program.stages:
        parts.append(range(first, first + parts_of(stage)))
        first += parts_of(stage)
    return parts
