"""The engine of a program with several named results, which grows and shrinks while it holds data.

Stages keep their numbers, and what a stage remembers lies in arenas that know no address. So a changed program gets a
memory of its own, to which the arenas of the stages that stay are copied. A new stage is filled with the rows of what
it reads, a block at a time, as with the inserts of a batch. Until all is done the engine that was there stays whole.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Self

import pyarrow as pa

from crown.ingest.batch import PreparedBatch
from crown.kernels import arena as A
from crown.programs.base_rows import kept
from crown.programs.result import ResultOf
from crown.programs.runtime import ProgramRuntime
from crown.programs.wanted import ALL, NOTHING
from crown.stages.linear import Linear
from crown.stages.state.memory import OWN_PARTS, ProgramMemory, layout_words, parts_of, parts_of_program
from crown.store.zset import Zset
from plans.program import Program


class DatabaseEngine(ProgramRuntime, instead="save(path) and crown.load_database(path) make another one"):
    """Maintains a program with named results. Not thread-safe; arguments as for ``ProgramRuntime``.

    The base tables keep whole rows: a query that comes later may read any column.
    """

    def __init__(
        self,
        program: Program,
        memory: ProgramMemory,
        on_missing: str = "ignore",
        threads: int = 1,
        selecting: bool = False,
    ) -> None:
        super().__init__(program, memory, on_missing, threads, selecting, whole=True)
        assert program.results is not None, "its results have names"
        self.results: Mapping[str, ResultOf] = {result.name: ResultOf(self, result.stage) for result in program.results}
        self._numbers = {result.name: result.stage for result in program.results}

    @classmethod
    def create(cls, program: Program, memory_budget: int | None, on_missing: str) -> Self:
        """Makes a new, empty engine in anonymous memory; ``memory_budget``: bytes of all parts together."""
        memory = ProgramMemory.create(parts_of_program(program), memory_budget)
        made = cls(program, memory, on_missing)
        memory.stamp(program, 1, layout_words(program, on_missing, False, True))
        return made

    def run(
        self, prepared: PreparedBatch, *, deltas: bool = True, closing: Callable[[], None] | None = None
    ) -> dict[str, pa.Table]:
        """Applies a prepared batch; returns the exact delta of each result by name, nothing unless ``deltas``.

        ``closing`` is called when all is done; if it raises, the batch is taken back. O(changes + deltas of all
        stages).
        """
        with self.uninterrupted:
            closes = None if closing is None else lambda _: closing()
            found = self.apply(prepared, ALL if deltas else NOTHING, closes)
        return found[0] if found else {}

    def _delivered(self, nets: Mapping[str | int, Zset]) -> Generator[dict[str, pa.Table], None, None]:
        yield {name: self.results[name].delta(nets[number]) for name, number in self._numbers.items()}

    def changed(self, program: Program, memory_budget: int | None) -> DatabaseEngine:
        """Returns the engine of a changed program, filled from what this one holds. This one stays as it is.

        O(state), and what the rows of its inputs cost a new stage; with other tables all stages are filled anew from
        their rows. Raises what a batch raises that cannot be taken.
        """
        self.ready()
        if program.tables != self._program.tables:
            return self._with_tables_of(program, memory_budget)
        made, fresh = self._beside(program, memory_budget)
        made.uninterrupted = self.uninterrupted  # who waits for one waits for the other
        made._fill(fresh)
        return made

    def copied(self, memory_budget: int | None) -> DatabaseEngine:
        """Returns an engine that holds what this one holds, and has nothing in common with it. O(state)."""
        self.ready()
        return self._beside(self._program, memory_budget)[0]

    def _beside(self, program: Program, memory_budget: int | None) -> tuple[DatabaseEngine, list[int]]:
        """Returns an engine of a program over the same tables, which holds what this one holds, and its stages that are
        to be filled."""
        memory = ProgramMemory.create(parts_of_program(program), memory_budget)
        old, new = _parts(self._program), _parts(program)
        kept = [n for n, stage in enumerate(self._program.stages) if program.stages[n] == stage]
        pairs = [(n, n) for n in range(OWN_PARTS)]
        pairs += [pair for n in kept for pair in zip(old[n], new[n], strict=True)]
        for source, target in pairs:
            words = int(self.memory.parts[source][A.H_TOP])
            memory.parts[target][:words] = self.memory.parts[source][:words]
        memory.limit([])
        made = DatabaseEngine(program, memory, self.on_missing)
        memory.stamp(program, 1, layout_words(program, self.on_missing, False, True))
        made.batches = self.batches
        fresh = [n for n in range(len(program.stages)) if n not in kept]
        made.tallies.begin(fresh)
        for number in kept:
            rows = self.tallies.known(number)
            if rows is not None:
                made.tallies.set(number, rows)
        return made, fresh

    def _with_tables_of(self, program: Program, memory_budget: int | None) -> DatabaseEngine:
        """Returns an engine of a program with other tables. The tables of both have the rows that they have here."""
        made = DatabaseEngine.create(program, memory_budget, self.on_missing)
        names = {table.name for table in program.tables}
        rows = {name: table for name, table in kept(self).items() if name in names}
        if self.batches:
            made.fill(rows)
        made.batches = self.batches
        made.uninterrupted = self.uninterrupted  # who waits for one waits for the other
        return made

    def check_invariants(self) -> None:
        """Checks the invariants of all stages, and counts the results."""
        super().check_invariants()
        for result in self.results.values():
            result.check_invariants()

    def _fill(self, fresh: list[int]) -> None:
        """Applies the rows of what new stages read to them, as inserts; the first, empty batch is that of groups that
        are always there."""
        outside = {source for n in fresh for source in self._sources[n]} - set(fresh)
        if not self.batches or not fresh:
            return
        self._insert(fresh, {})
        for source in sorted(outside, key=str):
            for net in self._rows_of(source):
                self._insert(fresh, {source: net})

    def _insert(self, fresh: list[int], given: Mapping[str | int, Zset]) -> None:
        nets = dict(given)
        for number in fresh:
            self.uninterrupted.check()
            stage = self.stages[number]
            nets[number] = stage.apply([nets[s] if s in nets else self._nothing(s) for s in self._sources[number]])
            self.tallies.add(number, nets[number])

    def _nothing(self, source: str | int) -> Zset:
        return Zset.empty(len(self._columns_of(source)))

    def _rows_of(self, source: str | int) -> Iterator[Zset]:
        if isinstance(source, str):
            return self.base_tables.scan(source)
        stage = self.stages[source]
        return stage.scan([self._rows_of(s) for s in self._sources[source]] if isinstance(stage, Linear) else [])


def _parts(program: Program) -> list[range]:
    """Returns the parts of each stage of a program."""
    found, first = [], OWN_PARTS
    for stage in program.stages:
        found.append(range(first, first + parts_of(stage)))
        first += parts_of(stage)
    return found
