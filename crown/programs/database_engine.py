"""The engine of a program with several named results, which grows and shrinks while it holds data.

Stages keep their numbers, and what a stage remembers lies in arenas of its own. So the engine of a changed program has
the arenas of the stages that stay, and new ones. A new stage is filled with the rows of what it reads, a block at a
time, as with the inserts of a batch; those are only read. So until all is done the engine that was there stays whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any, Self

import pyarrow as pa

from crown.guards.interrupts import Uninterrupted
from crown.ingest.batch import PreparedBatch
from crown.programs.base_rows import kept
from crown.programs.pipelines.native import NativeRuntime
from crown.programs.result import ResultOf
from crown.programs.wanted import ALL, NOTHING
from crown.stages.linear import Linear
from crown.stages.state.memory import OWN_PARTS, ProgramMemory, layout_words, parts_of, parts_of_program
from crown.store.zset import Zset
from plans.program import Program
from plans.programs.reads import key_of


class DatabaseEngine(NativeRuntime, instead="save(path) and crown.load_database(path) make another one"):
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
        uninterrupted: Uninterrupted | None = None,
    ) -> None:
        super().__init__(program, memory, on_missing, threads, selecting, whole=True, uninterrupted=uninterrupted)
        assert program.results is not None, "its results have names"
        self.results: Mapping[str, ResultOf] = {result.name: ResultOf(self, result.stage) for result in program.results}
        self._numbers = {result.name: result.stage for result in program.results}
        self._build_pipeline(None, self._numbers.values())

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
        """Returns the engine of a changed program, which has the stages of this one that stay. Go on with one of the
        two.

        O(stages), and what the rows of its inputs cost a new stage; with other tables all stages are filled anew from
        their rows. Raises what a batch raises that cannot be taken; this one stays as it is.
        """
        self.ready()
        if program.tables != self._program.tables:
            return self._with_tables_of(program, memory_budget)
        old, new = _parts(self._program), _parts(program)
        stay = [n for n, stage in enumerate(self._program.stages) if program.stages[n] == stage]
        kept = {n: n for n in range(OWN_PARTS)}
        for number in stay:
            kept |= dict(zip(new[number], old[number], strict=True))
        memory = self.memory.shared(kept, parts_of_program(program), memory_budget)
        made = self._over(program, memory, stay, self.uninterrupted)
        made._fill([n for n in range(len(program.stages)) if n not in stay])
        return made

    def copied(self, memory_budget: int | None, check: Callable[[], None] | None) -> DatabaseEngine:
        """Returns an engine that holds what this one holds, and has nothing in common with it. O(state). What ``check``
        raises stops a batch of it."""
        self.ready()
        memory = self.memory.copied(memory_budget)
        return self._over(self._program, memory, range(len(self.stages)), Uninterrupted(check))

    def save(self, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> int:
        """Writes the state to one file, as ``ProgramRuntime.save`` does, and into each part what it is a part of."""
        self.memory.stamp(self._program, 1, layout_words(self._program, self.on_missing, False, True))
        return super().save(path, extra)

    def _over(
        self, program: Program, memory: ProgramMemory, stay: Iterable[int], uninterrupted: Uninterrupted
    ) -> DatabaseEngine:
        """Returns an engine of a program over the same tables, whose ``memory`` has the stages that ``stay``."""
        made = DatabaseEngine(program, memory, self.on_missing, uninterrupted=uninterrupted)
        made.batches = self.batches
        known = {number: self.tallies.known(number) for number in stay}
        made.tallies.begin(n for n in range(len(program.stages)) if n not in known)
        for number, rows in known.items():
            if rows is not None:
                made.tallies.set(number, rows)
        return made

    def _with_tables_of(self, program: Program, memory_budget: int | None) -> DatabaseEngine:
        """Returns an engine of a program with other tables. Those that both have, with the same columns, have the rows
        that they have here."""
        made = DatabaseEngine.create(program, memory_budget, self.on_missing, self.uninterrupted)
        same = {table.name for table in set(program.tables).intersection(self._program.tables)}
        rows = {name: table for name, table in kept(self).items() if name in same}
        if self.batches:
            made.fill(rows)
        made.batches = self.batches
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
        return Zset.empty(len(self.wires[key_of(source)].columns))

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
