"""The program's engine: one result, out of the last stage of a program.

changes -> Intake -> nets in codes -> gate and stages (``crown.programs.running``) -> the last one's net -> record
batches
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from weakref import ref

import pyarrow as pa

from crown.engine.delivery import Batches, Delivery
from crown.engine.state.arenas import fingerprint_words
from crown.errors import SnapshotError
from crown.ingest.batch import Prepared
from crown.kernels import arena as A
from crown.programs.intake import Nets
from crown.programs.result import ResultOf
from crown.programs.running import Running
from crown.stages.cells import cells_of
from crown.stages.state.memory import ProgramMemory, parts_of_program
from crown.store.zset import Zset
from plans.program import Program


class ProgramEngine(Running, instead="save(path) and crown.load(path) make another one"):
    """Maintains a program (see ``crown.maintained.Queryable``). Not thread-safe; arguments as for ``Running``.

    ``create`` or ``attach`` makes one.
    """

    def __init__(
        self,
        program: Program,
        memory: ProgramMemory,
        on_missing: str = "ignore",
        threads: int = 1,
        *,
        selecting: bool = True,
    ) -> None:
        super().__init__(program, memory, on_missing, threads, selecting=selecting)
        self.result = ResultOf(self, len(self.stages) - 1)
        self.columns = self.result.columns
        self.bag = self.result.bag
        self._nothing = self.result.nothing

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
        each join stage that can be cut; ``selecting``: as for ``Running``.
        """
        memory = ProgramMemory.create(parts_of_program(program, cells_of(program, threads)), memory_budget, seed, path)
        memory.parts[0][A.H_PLAN0 : A.H_PLAN1 + 1] = fingerprint_words(program)
        made = cls(program, memory, on_missing, threads, selecting=selecting)
        made.tallies.begin(range(len(made.stages)))
        return made

    @classmethod
    def attach(cls, program: Program, path: Path, *, on_missing: str = "ignore", selecting: bool = True) -> Self:
        """Returns the engine whose state is in the file ``path``. O(1).

        Raises SnapshotError if it is not a state of this program. ``on_missing`` must be what it was made with, and so
        must ``selecting``, if a batch is to be undone that was applied before.
        """
        memory = ProgramMemory.attach(parts_of_program(program), path)
        if (memory.parts[0][A.H_PLAN0 : A.H_PLAN1 + 1] != fingerprint_words(program)).any():
            raise SnapshotError(f"{path} holds the state of another query; use a fresh path for the changed query")
        return cls(program, memory, on_missing, selecting=selecting)

    @property
    def result_schema(self) -> pa.Schema:
        """Returns the Arrow schema of the result; that of a bag has ``_weight``."""
        return self.result.result_schema

    @property
    def delta_schema(self) -> pa.Schema:
        """Returns the Arrow schema of the deltas: the result's columns and ``_weight``."""
        return self.result.delta_schema

    # Changes
    # ------------------------------------------------------------------------------------------------------------------

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
        self._open()
        try:
            try:
                yield self._nothing
            except GeneratorExit:
                wanted = False
            self._apply(prepared, nets)
            if wanted:
                with suppress(GeneratorExit):
                    yield from self.result.deltas(nets[len(self.stages) - 1])
            if closing is not None:
                closing()
            self._stand(prepared, nets)
        except BaseException as error:
            self._roll_back(nets, error)
            raise

    # Results
    # ------------------------------------------------------------------------------------------------------------------

    def results(self) -> Iterator[pa.RecordBatch]:
        """See ``ResultOf.results``."""
        return self.result.results()

    def deltas_from_nothing(self) -> Iterator[pa.RecordBatch]:
        """See ``ResultOf.deltas_from_nothing``."""
        return self.result.deltas_from_nothing()

    def count(self) -> int:
        """See ``ResultOf.count``. O(1)."""
        return self.result.count()

    def check_invariants(self) -> None:
        """See ``Running.check_invariants``; the result is counted, too."""
        super().check_invariants()
        self.result.check_invariants()

    def contains(self, values: Mapping[str, Any]) -> bool:
        """See ``ResultOf.contains``."""
        return self.result.contains(values)

    def multiplicity(self, values: Mapping[str, Any]) -> int:
        """See ``ResultOf.multiplicity``."""
        return self.result.multiplicity(values)

    def get(self, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """See ``ResultOf.get``."""
        return self.result.get(key)
