"""The program's engine: gate and stages, one after the other, as one transaction per batch.

    changes -> Intake -> nets in codes -> gate -> stages in topological order -> the last one's net -> record batches

Between stages travel codes; one dictionary serves all, and only the result is decoded. If a stage refuses a batch, it
has changed nothing, and the stages before it and the gate take back what they had. All parts lie in one mapping of
memory: the dictionary's, the gate's, then each stage's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any
from weakref import ref

import numpy as np
import pyarrow as pa

from crown.engine.delivery import Batches, Delivery, is_running
from crown.errors import ChangeError, ConcurrentChangeError, CrownError, MemoryBudgetError, UnusableStateError
from crown.ingest.batch import MissingDeletes
from crown.ingest.changes import WEIGHT
from crown.interrupts import Uninterrupted
from crown.kernels import arena as A
from crown.stages.gate import Gate
from crown.stages.groups.group import Groups
from crown.stages.intake import Intake, Nets, summed_columns, used_columns
from crown.stages.linear import Linear
from crown.stages.memory import OWN_PARTS, ProgramMemory, parts_of, parts_of_program
from crown.stages.pointwise import Pointwise
from crown.stages.protocol import Stage
from crown.store.codec import decode, encode
from crown.store.dictionary import with_sweep
from crown.store.zset import Zset
from crown.uncopyable import NotCopyable
from plans.program import GroupStage, LinearStage, PointwiseStage, Program
from plans.schema import Column, arrow_type

SLICE = 1 << 16  # rows per emitted batch
BUSY = "a batch is still being applied; exhaust or close the iterator of its deltas first"
LOST = (
    "A batch was stopped half-way and could not be taken back: the state is neither before nor after it. Load the last "
    "snapshot, or start anew"
)
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
        self.plan = program
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
        self._last = self.stages[-1]
        self.columns = self._last.columns
        self.bag = not _each_once(program, len(program.stages) - 1)
        self.result_schema = pa.schema([(column.name, arrow_type(column.type)) for column in self.columns])
        self.delta_schema = self.result_schema.append(pa.field(WEIGHT, pa.int64()))
        if self.bag:
            self.result_schema = self.delta_schema
        self._batch: ref[Batches] | None = None  # being applied, while it is alive

    @classmethod
    def create(
        cls, program: Program, *, memory_budget: int | None = None, on_missing: str = "ignore", seed: int | None = None
    ) -> ProgramEngine:
        """Makes a new, empty engine in memory. ``memory_budget``: bytes of all parts together."""
        return cls(program, ProgramMemory.create(parts_of_program(program), memory_budget, seed), on_missing)

    def _running(self, stage: Any, first: int) -> Stage:
        """The stage, whose parts begin with number ``first``."""
        if isinstance(stage, LinearStage):
            return Linear(stage, [self._columns_of(term.source) for term in stage.terms], self.memory.dictionary)
        part = self.memory.part(first)
        if isinstance(stage, GroupStage):
            return Groups(stage, self._columns_of(stage.feed.source), part)
        if isinstance(stage, PointwiseStage):
            return Pointwise(stage, [self._columns_of(leaf.source) for leaf in stage.leaves], part)
        raise CrownError("programs with join stages are not maintained yet; plan the join on its own")

    def _columns_of(self, source: str | int) -> tuple[Column, ...]:
        return self.stages[source].columns if isinstance(source, int) else self._used[source.lower()]

    def _read_again(self) -> frozenset[str]:
        """The relations that are read again when the result is: those of a last stage without memory."""
        last = self.plan.stages[-1]
        found, todo = set(), [last]
        while todo:
            stage = todo.pop()
            if isinstance(stage, LinearStage):
                found |= {term.source.lower() for term in stage.terms if isinstance(term.source, str)}
                todo += [self.plan.stages[term.source] for term in stage.terms if isinstance(term.source, int)]
        return frozenset(found)

    @property
    def fingerprint(self) -> str:
        """Names what the state holds: state of another fingerprint is of no use."""
        return self.plan.fingerprint

    @property
    def missing(self) -> MissingDeletes:
        """What the deletes of the last batch did not find; ``undo`` wants it back."""
        return self.gate.missing

    # Changes
    # ------------------------------------------------------------------------------------------------------------------

    def prepare(self, changes: Mapping[str, Any], strict: bool = True) -> Nets:
        """Check, code and net a batch. Results stay as they are. O(batch).

        Raises ChangeError, BadRowError (if ``strict``), and MemoryBudgetError if its values do not fit.
        """
        self.ready()
        if self.memory.dictionary.overgrown:
            self.compact()
        try:
            return self._intake.prepare(changes, strict)
        except MemoryBudgetError:
            return with_sweep(lambda: self._intake.prepare(changes, strict), self.compact)

    def run(
        self,
        prepared: Nets,
        *,
        deltas: bool = True,
        consolidate: bool | None = None,
        closing: Callable[[], None] | None = None,
    ) -> Delivery:
        """Apply a prepared batch; yields its exact deltas (output columns and ``_weight``), always net.

        ``closing`` is called when all is done; if it raises, the batch is taken back. O(changes + deltas of all
        stages).
        """
        self.ready()
        batch = self._deliver(prepared, deltas, closing)
        self._batch = ref(batch)
        return Delivery(batch, self.uninterrupted)

    def _deliver(self, prepared: Nets, wanted: bool, closing: Callable[[], None] | None) -> Batches:
        """The batch as a transaction. What it yields first is empty: from then on closing it applies the batch."""
        nets: dict[str | int, Zset] = {}
        arena = self.memory.parts[0]
        arena[A.H_OPEN] = 1
        try:
            try:
                yield self._decoded(Zset.empty(len(self.columns)), self.delta_schema)
            except GeneratorExit:
                wanted = False
            net = self._apply(prepared.nets, nets)
            if wanted:
                with suppress(GeneratorExit):
                    yield from self._sliced(net)
            if closing is not None:
                closing()
            arena[A.H_OPEN] = 0
            for stage in self.stages:
                stage.settle()
            self.batches += 1
        except BaseException as error:
            self._roll_back(nets, error)
            raise

    def _apply(self, given: Mapping[str, Zset], nets: dict[str | int, Zset]) -> Zset:
        """Send a batch through the gate and the stages; ``nets`` gets what each of them let through."""
        nets.update(self.gate.apply(given))
        for number, stage in enumerate(self.stages):
            nets[number] = stage.apply(self._inputs(stage, nets))
            self.uninterrupted.check()
        return nets[len(self.stages) - 1]

    def _inputs(self, stage: Stage, nets: Mapping[str | int, Zset]) -> list[Zset]:
        return [self._input(source, nets) for source in stage.inputs]

    def _input(self, source: str | int, nets: Mapping[str | int, Zset]) -> Zset:
        if isinstance(source, int):
            return nets[source]
        name = source.lower()
        return nets[name] if name in nets else Zset.empty(len(self._used[name]))

    def _roll_back(self, nets: Mapping[str | int, Zset], error: BaseException) -> None:
        """Take back what was applied of the batch that ``error`` stopped. UnusableStateError if that cannot be done."""
        arena = self.memory.parts[0]
        if not arena[A.H_OPEN]:
            return  # it stands
        try:
            for number in reversed(range(len(self.stages))):
                if number in nets:
                    self.stages[number].take_back(self._inputs(self.stages[number], nets))
            self.gate.take_back({name: net for name, net in nets.items() if isinstance(name, str)})
        except (UnusableStateError, MemoryBudgetError) as why:
            if isinstance(error, Exception):
                raise UnusableStateError(f"{error} ({why}). {LOST}") from error
            return  # Python is told to stop; what comes after is refused
        arena[A.H_OPEN] = 0

    def undo(self, changes: Mapping[str, Any], missing: MissingDeletes | None) -> None:
        """Take back the last batch, given what was applied and what its deletes did not find."""
        self.ready()
        given = self._intake.prepare(changes, strict=False).nets
        arena = self.memory.parts[0]
        with self.uninterrupted, self.memory.budget.lifted():
            arena[A.H_OPEN] = 1
            nets: dict[str | int, Zset] = {}
            nets.update(self.gate.undo(given, missing or MissingDeletes()))
            for number, stage in enumerate(self.stages):
                nets[number] = stage.undo(self._inputs(stage, nets)).negated()
            arena[A.H_OPEN] = 0

    # Results
    # ------------------------------------------------------------------------------------------------------------------

    def results(self) -> Iterator[pa.RecordBatch]:
        """The full result, in record batches. A bag's have ``_weight``, and equal rows of a bag may stand apart.

        Raises ConcurrentChangeError when it is continued after a change.
        """
        self.ready()
        batches = self.batches
        for net in self._scan(len(self.stages) - 1):
            if self.batches != batches or is_running(self._batch):
                raise ConcurrentChangeError("the view has changed since this iterator was made; ask for a new one")
            yield from self._sliced(net, self.result_schema)

    def _scan(self, source: str | int) -> Iterator[Zset]:
        """The rows of a relation or stage."""
        if isinstance(source, str):
            return self.gate.scan(source.lower())
        stage = self.stages[source]
        return stage.scan(self._sources(stage))

    def _sources(self, stage: Stage) -> list[Iterator[Zset]]:
        return [self._scan(source) for source in stage.inputs] if isinstance(stage, Linear) else []

    def count(self) -> int:
        """Returns the number of result rows, each as often as it is there. O(result)."""
        self.ready()
        return sum(int(net.weights.sum()) for net in self._scan(len(self.stages) - 1))

    def contains(self, values: Mapping[str, Any]) -> bool:
        """Returns True iff an output row, by output name, is in the result. See ``multiplicity``."""
        return self.multiplicity(values) > 0

    def multiplicity(self, values: Mapping[str, Any]) -> int:
        """Returns how often an output row, by output name, is in the result.

        O(1) for groups whose keys are outputs and for set operations, else O(result).
        """
        self.ready()
        row = self._row(values, self.columns)
        return self._last.multiplicity(row, self._sources(self._last))

    def get(self, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the result row of the group with a key (by output name), or None. O(1).

        Raises ChangeError if the result is not one row per group.
        """
        self.ready()
        last = self._last
        if not isinstance(last, Groups):
            raise ChangeError("get(key) asks for the row of a group, and the result is not grouped; use contains(row)")
        wanted = last.key_columns()
        if wanted is None or set(key) != {column.name for column in wanted}:
            known = "whose keys are not all selected" if wanted is None else f"by {', '.join(c.name for c in wanted)}"
            raise ChangeError(f"get(key) takes a value for every key; the result is grouped {known}")
        rows = self._decoded(last.row_of(self._row(key, wanted)), self.delta_schema).drop_columns([WEIGHT]).to_pylist()
        return rows[0] if rows else None

    def _row(self, values: Mapping[str, Any], columns: Sequence[Column]) -> np.ndarray:
        """The codes of a row."""
        row = np.empty(len(columns), np.int64)
        for i, column in enumerate(columns):
            if column.name not in values:
                names = ", ".join(c.name for c in columns)
                raise ChangeError(f"the row lacks output column {column.name!r}; the result has: {names}")
            value = values[column.name]
            try:
                array = pa.array([value], arrow_type(column.type))
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise ChangeError(f"output column {column.name!r}: {value!r} does not fit {column.type}") from error
            row[i] = encode(array, column.type, self.memory.dictionary.intern, add=False)[0]
        return row

    def _sliced(self, net: Zset, schema: pa.Schema | None = None) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(net), SLICE):
            yield self._decoded(net[start : start + SLICE], self.delta_schema if schema is None else schema)

    def _decoded(self, net: Zset, schema: pa.Schema) -> pa.RecordBatch:
        """A record batch of the rows; with their weights, if the schema has them."""
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

    @property
    def lost(self) -> bool:
        """True while a batch is being applied, and for ever after one that could not be taken back."""
        return bool(self.memory.parts[0][A.H_OPEN])

    def ready(self) -> None:
        """Raise ConcurrentChangeError while a batch is being applied, UnusableStateError if the state is lost."""
        if is_running(self._batch):
            raise ConcurrentChangeError(BUSY)
        if self.lost:
            raise UnusableStateError(LOST)

    def compact(self) -> int:
        """Free the dictionary entries that nothing refers to; how many. O(state). Runs by itself as needed."""
        self.gate.mark_values()
        for stage in self.stages:
            stage.mark_values()
        return self.memory.dictionary.sweep()

    def check_invariants(self) -> None:
        """Recompute what can be recomputed in every part, and compare. Raises AssertionError. O(state)."""
        self.gate.check_invariants()
        for stage in self.stages:
            stage.check_invariants()

    def stats(self) -> dict[str, Any]:
        """Sizes and counters; bytes: ``live`` in use, ``reserved`` the high-water mark."""
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
    """True iff no row of a stage can be there more than once."""
    stage = program.stages[number]
    if isinstance(stage, GroupStage):
        plain = {output.expr.value for output in stage.outputs if output.expr.op == "col"}
        return stage.whole or set(stage.keys) <= plain
    if isinstance(stage, PointwiseStage):
        return not isinstance(stage.function, int) and stage.function[0] in _ONCE
    return False
