"""The program's engine: gate and stages, one after the other, as one transaction per batch.

    changes -> Intake -> nets in codes -> gate -> stages in topological order -> the last one's net -> record batches

Between stages travel codes; one dictionary serves all, and only the result is decoded. If a stage refuses a batch, it
has changed nothing, and the stages before it and the gate take back what they had. All parts lie in one mapping of
memory: the dictionary's, the gate's, then each stage's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pyarrow as pa

from crown.engine.delivery import LOST, Batches, Delivery, is_running, refuse
from crown.engine.state.arenas import fingerprint_words
from crown.errors import (
    ChangeError,
    ConcurrentChangeError,
    CrownError,
    MemoryBudgetError,
    SnapshotError,
    UnusableStateError,
)
from crown.ingest.batch import MissingDeletes, Prepared
from crown.ingest.changes import WEIGHT
from crown.interrupts import Uninterrupted
from crown.kernels import arena as A
from crown.stages.answers import Answers
from crown.stages.gate import Gate
from crown.stages.groups.group import Groups
from crown.stages.intake import Intake, Nets, summed_columns, used_columns
from crown.stages.join import Join
from crown.stages.linear import Linear
from crown.stages.pointwise import Pointwise
from crown.stages.protocol import Stage
from crown.stages.state import saving
from crown.stages.state.memory import OWN_PARTS, ProgramMemory, parts_of, parts_of_program
from crown.store.codec import decode
from crown.store.dictionary import with_room
from crown.store.zset import Zset
from crown.uncopyable import NotCopyable
from plans.program import GroupStage, JoinStage, LinearStage, PointwiseStage, Program
from plans.program import Stage as Planned
from plans.reads import sources
from plans.schema import Column, arrow_type

SLICE = 1 << 16  # rows per emitted batch
_REFUSALS = (ChangeError, MemoryBudgetError, pa.ArrowException)  # the last: an expression that cannot be evaluated
_ONCE = ("distinct", "union", "except", "intersect")


class ProgramEngine(NotCopyable, instead="save(path) and crown.load(path) make another one"):
    """Maintains a program (see ``crown.maintained.Queryable``). Not thread-safe.

    ``on_missing``: what a delete does that finds fewer copies than it removes: ``"ignore"`` removes what is there and
    counts the rest, ``"raise"`` refuses the whole batch, ``"trust"`` takes the stream's word that there is none, and
    stores no tuples for it.
    """

    def __init__(self, program: Program, memory: ProgramMemory, on_missing: str = "ignore") -> None:
        if on_missing not in ("ignore", "raise", "trust"):
            raise CrownError(f'on_missing must be "ignore", "raise" or "trust", not {on_missing!r}')
        self._program = program
        self.on_missing = on_missing
        self.memory = memory
        self.batches = 0  # applied by this object, or since its owner began to count
        self.uninterrupted = Uninterrupted()
        self._used = used_columns(program, whole=on_missing == "raise")
        self._intake = Intake(
            program.tables, self._used, memory.dictionary.intern, summed_columns(program), on_missing == "trust"
        )
        self.gate = Gate(memory.part(1), self._used, on_missing, self._read_again())
        self.stages: list[Stage] = []
        first = OWN_PARTS
        for stage in program.stages:
            self.stages.append(self._running(stage, first))
            first += parts_of(stage)
        self.columns = self.stages[-1].columns
        self.answers = Answers(self.stages, self.gate, memory.dictionary)
        self.bag = not _each_once(program, len(program.stages) - 1)
        self._result_schema = pa.schema([(column.name, arrow_type(column.type)) for column in self.columns])
        self._delta_schema = self._result_schema.append(pa.field(WEIGHT, pa.int64()))
        self._nothing = self._decoded(Zset.empty(len(self.columns)), self._delta_schema)
        self._epoch = 0  # grows whenever something changes, if only to be taken back
        self._batch: ref[Batches] | None = None  # being applied, while it is alive
        self._torn = False  # True while, or after an exception in, a step of a batch that is taken back as a whole

    @classmethod
    def create(
        cls,
        program: Program,
        path: Path | None = None,
        *,
        memory_budget: int | None = None,
        on_missing: str = "ignore",
        seed: int | None = None,
    ) -> ProgramEngine:
        """Makes a new, empty engine in anonymous memory, or in the file ``path`` (overwritten; it may outgrow RAM).

        ``memory_budget``: bytes of all parts together; ``seed``: of the dictionary's hash table.
        """
        memory = ProgramMemory.create(parts_of_program(program), memory_budget, seed, path)
        memory.parts[0][A.H_PLAN0 : A.H_PLAN1 + 1] = fingerprint_words(program)
        return cls(program, memory, on_missing)

    @classmethod
    def attach(cls, program: Program, path: Path, *, on_missing: str = "ignore") -> ProgramEngine:
        """Returns the engine whose state is in the file ``path``. O(1).

        Raises SnapshotError if it is not a state of this program. ``on_missing`` must be what it was made with.
        """
        memory = ProgramMemory.attach(parts_of_program(program), path)
        if (memory.parts[0][A.H_PLAN0 : A.H_PLAN1 + 1] != fingerprint_words(program)).any():
            raise SnapshotError(f"{path} holds the state of another query; use a fresh path for the changed query")
        return cls(program, memory, on_missing)

    def _running(self, stage: Planned, first: int) -> Stage:
        """Returns the stage, whose parts begin with number ``first``."""
        if isinstance(stage, LinearStage):
            return Linear(stage, [self._columns_of(term.source) for term in stage.terms], self.memory.dictionary)
        if isinstance(stage, JoinStage):
            known: dict[str | int, tuple[Column, ...]] = {i: made.columns for i, made in enumerate(self.stages)}
            known.update(self._used.items())
            return Join(stage, known, self.memory, first, self._only_added(len(self.stages)))
        part = self.memory.part(first)
        if isinstance(stage, GroupStage):
            below = self._program.stages[stage.feed.source] if isinstance(stage.feed.source, int) else None
            join = below.plan if isinstance(below, JoinStage) else None
            return Groups(stage, self._columns_of(stage.feed.source), part, join)
        return Pointwise(stage, [self._columns_of(leaf.source) for leaf in stage.leaves], part)

    def _only_added(self, number: int) -> bool:
        """Returns True iff only groups read a stage: they add up its rows, so those need not be net."""
        readers = [stage for stage in self._program.stages if number in sources(stage)]
        return bool(readers) and all(isinstance(stage, GroupStage) for stage in readers)

    def _columns_of(self, source: str | int) -> tuple[Column, ...]:
        return self.stages[source].columns if isinstance(source, int) else self._used[source.lower()]

    def _read_again(self) -> frozenset[str]:
        """Returns the relations that are read again when the result is: those of a last stage without memory."""
        last = self._program.stages[-1]
        found, todo = set(), [last]
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
    def result_schema(self) -> pa.Schema:
        """Returns the Arrow schema of the result; that of a bag has ``_weight``."""
        return self._delta_schema if self.bag else self._result_schema

    @property
    def delta_schema(self) -> pa.Schema:
        """Returns the Arrow schema of the deltas: the result's columns and ``_weight``."""
        return self._delta_schema

    @property
    def missing(self) -> MissingDeletes:
        """Returns what the deletes of the last batch did not find; ``undo`` wants it back."""
        return self.gate.missing

    # Changes
    # ------------------------------------------------------------------------------------------------------------------

    def prepare(self, changes: Mapping[str, Any], strict: bool = True) -> Nets:
        """Checks, codes and nets a batch. Results stay as they are. O(batch).

        Raises ChangeError, BadRowError (if ``strict``), and MemoryBudgetError if its values do not fit.
        """
        self.ready()
        return with_room(self.memory.dictionary, lambda: self._intake.prepare(changes, strict), self.compact)

    def run(
        self,
        prepared: Prepared,
        *,
        deltas: bool = True,
        consolidate: bool | None = None,
        closing: Callable[[], None] | None = None,
    ) -> Delivery:
        """Applies a prepared batch; yields its exact deltas (output columns and ``_weight``), always net.

        ``closing`` is called when all is done; if it raises, the batch is taken back. O(changes + deltas of all
        stages).
        """
        self.ready()
        assert isinstance(prepared, Nets), "a batch is prepared by the engine that runs it"
        batch = self._deliver(prepared, deltas, closing)
        self._batch = ref(batch)
        return Delivery(batch, self.uninterrupted)

    def _deliver(self, prepared: Nets, wanted: bool, closing: Callable[[], None] | None) -> Batches:
        """Returns the batch as a transaction. What it yields first is empty: from then on closing it applies the
        batch."""
        nets: dict[str | int, Zset] = {}
        arena = self.memory.parts[0]
        arena[A.H_OPEN] = 1
        self._epoch += 1
        try:
            try:
                yield self._nothing
            except GeneratorExit:
                wanted = False
            net = self._apply(prepared.nets, nets)
            if wanted:
                with suppress(GeneratorExit):
                    yield from self._sliced(net)
            if closing is not None:
                closing()
            self._torn = True
            for stage in self.stages:
                stage.settle()
            arena[A.H_OPEN] = 0
            self._torn = False
            self.batches += 1
        except BaseException as error:
            self._roll_back(nets, error)
            raise

    def _apply(self, given: Mapping[str, Zset], nets: dict[str | int, Zset]) -> Zset:
        """Sends a batch through the gate and the stages; ``nets`` gets what each of them let through.

        Who refuses a batch has taken back its own part. After any other exception inside of a stage it is not known
        what the stage has of the batch: ``_torn`` stays true, and the state is lost.
        """
        self._torn = True
        try:
            nets.update(self.gate.apply(given))
            for number, stage in enumerate(self.stages):
                self._torn = False
                self.uninterrupted.check()
                inputs = self._inputs(stage, nets)
                self._torn = True
                nets[number] = stage.apply(inputs)
        except _REFUSALS:
            self._torn = False
            raise
        self._torn = False
        return nets[len(self.stages) - 1]

    def _inputs(self, stage: Stage, nets: Mapping[str | int, Zset]) -> list[Zset]:
        return [self._input(source, nets) for source in stage.inputs]

    def _input(self, source: str | int, nets: Mapping[str | int, Zset]) -> Zset:
        if isinstance(source, int):
            return nets[source]
        name = source.lower()
        return nets[name] if name in nets else Zset.empty(len(self._used[name]))

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
                if number in nets:
                    self.stages[number].take_back(self._inputs(self.stages[number], nets))
            self.gate.take_back({name: net for name, net in nets.items() if isinstance(name, str)})
        except (UnusableStateError, MemoryBudgetError) as why:
            if isinstance(error, Exception) and LOST not in str(error):
                raise UnusableStateError(f"{error} ({why}). {LOST}") from error
            return  # Python is told to stop; what comes after is refused
        arena[A.H_OPEN] = 0

    def undo(self, changes: Mapping[str, Any], missing: MissingDeletes | None) -> None:
        """Takes back the last batch, given what was applied and what its deletes did not find."""
        self.ready()
        given = self._intake.prepare(changes, strict=False).nets
        arena = self.memory.parts[0]
        with self.uninterrupted, self.memory.budget.lifted():
            arena[A.H_OPEN] = 1
            self._epoch += 1
            nets: dict[str | int, Zset] = {}
            nets.update(self.gate.undo(given, missing or MissingDeletes()))
            for number, stage in enumerate(self.stages):
                nets[number] = stage.undo(self._inputs(stage, nets)).negated()
            arena[A.H_OPEN] = 0

    # Results
    # ------------------------------------------------------------------------------------------------------------------

    def results(self) -> Iterator[pa.RecordBatch]:
        """Returns the full result, in record batches. A bag's have ``_weight``, and equal rows of it may stand apart.

        Raises ConcurrentChangeError when it is continued after a change.
        """
        self.ready()
        return self._results(self._epoch)

    def _results(self, epoch: int) -> Iterator[pa.RecordBatch]:
        for net in self.answers.rows():
            for batch in self._sliced(net, self.result_schema):
                self._unchanged(epoch)
                yield batch
        self._unchanged(epoch)

    def _unchanged(self, epoch: int) -> None:
        if self._epoch != epoch:
            raise ConcurrentChangeError("the view has changed since this iteration began; call results() again")

    def count(self) -> int:
        """Returns the number of result rows, each as often as it is there. O(result)."""
        self.ready()
        return sum(int(net.weights.sum()) for net in self.answers.rows())

    def contains(self, values: Mapping[str, Any]) -> bool:
        """Returns True iff an output row, by output name, is in the result. See ``multiplicity``."""
        return self.multiplicity(values) > 0

    def multiplicity(self, values: Mapping[str, Any]) -> int:
        """Returns how often an output row, by output name, is in the result. See ``Answers.multiplicity``."""
        self.ready()
        return self.answers.multiplicity(values)

    def get(self, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the result row of the group with a key (by output name), or None. See ``Answers.row_of``."""
        self.ready()
        rows = self._decoded(self.answers.row_of(key), self.delta_schema).drop_columns([WEIGHT]).to_pylist()
        return rows[0] if rows else None

    def _sliced(self, net: Zset, schema: pa.Schema | None = None) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(net), SLICE):
            yield self._decoded(net[start : start + SLICE], self.delta_schema if schema is None else schema)

    def _decoded(self, net: Zset, schema: pa.Schema) -> pa.RecordBatch:
        """Returns a record batch of the rows; with their weights, if the schema has them."""
        codes = net.columns()
        arrays = [
            decode(np.ascontiguousarray(codes[i]), column.type, self.memory.dictionary.extern)
            for i, column in enumerate(self.columns)
        ]
        if len(schema) > len(arrays):
            arrays.append(pa.array(net.weights, pa.int64()))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    # Care
    # ------------------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> int:
        """Writes the state, between two batches, and ``extra`` to one file. See ``crown.stages.state.saving.write``."""
        self.ready()
        return saving.write(path, self._program, self.on_missing, extra, self.memory.parts)

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
        """Raises ConcurrentChangeError while a batch is being applied, UnusableStateError if the state is lost."""
        refuse(is_running(self._batch), self.lost)

    def compact(self) -> int:
        """Frees the dictionary entries that nothing refers to; how many. O(state). Runs by itself as needed."""
        self.ready()
        self.gate.mark_values()
        for stage in self.stages:
            stage.mark_values()
        return self.memory.dictionary.sweep()

    def check_invariants(self) -> None:
        """Recomputes what can be recomputed in every part, and compare. Raises AssertionError. O(state)."""
        self.ready()
        self.gate.check_invariants()
        for stage in self.stages:
            stage.check_invariants()

    def stats(self) -> dict[str, Any]:
        """Returns sizes and counters; bytes: ``live`` in use, ``reserved`` the high-water mark."""
        self.ready()
        gate = self.gate.stats()
        return {
            **gate,
            "input_rows": sum(gate["rows"].values()),
            "dictionary": len(self.memory.dictionary),
            "live_bytes": 8 * self.memory.budget.used,
            "reserved_bytes": 8 * sum(int(part[A.H_TOP]) for part in self.memory.parts),
            "stages": [stage.stats() for stage in self.stages],
        }


def _each_once(program: Program, number: int) -> bool:
    """Returns True iff no row of a stage can be there more than once."""
    stage = program.stages[number]
    if isinstance(stage, GroupStage):
        plain = {output.expr.value for output in stage.outputs if output.expr.op == "col"}
        return stage.whole or set(stage.keys) <= plain
    if isinstance(stage, PointwiseStage):
        return not isinstance(stage.function, int) and stage.function[0] in _ONCE
    return isinstance(stage, JoinStage) and stage.mode == "set"
