"""Runs a join core as a stage, in one or several cells. Its relations are base tables, or ``#i`` for stage i.

Several cells partition the rows by a grid (``plans.search.cells.shares``) and never communicate: each is a separate
core over its own rows. Kernels run without the GIL, so threads apply a batch to all cells at once. A row is copied to
the cells with the coordinates of its hashed attributes, and to all cells along the axes whose attributes it lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from typing_extensions import override

from crown.engine.buffers import BLOCKS_OF_CELL
from crown.engine.core import Core
from crown.engine.delivery import LOST, READY_TO_COMMIT, in_turns, next_turn
from crown.engine.invariants import tree as invariants
from crown.engine.state import State
from crown.engine.statistics import statistics, together
from crown.errors import CrownError, MemoryBudgetError, UnusableStateError
from crown.guards.threads import Threads
from crown.ingest.batch import JoinInputs, RelationChange, StoredInput
from crown.kernels.batches import rows_of_cell
from crown.kernels.memory import arena as A
from crown.results.factorized import FactorizedHead
from crown.stages.groups.addends import CarriedTerm, carried_by
from crown.stages.protocol import Stage
from crown.stages.state.memory import ProgramMemory, parts_of
from crown.store.codec import decode
from crown.store.memory import ADDRESSABLE
from crown.store.zset import Zset
from plans.plan import Plan
from plans.programs.stages import JoinStage
from plans.programs.stored_relations import StoredRelation, stored_relations
from plans.programs.wiring import Wires
from plans.schema import Column
from plans.search.cells.shares import Grid

_T = TypeVar("_T")
_Parts = list[Sequence[RelationChange]]
"""Per cell, the changes of a batch: all of them, until the cell has selected its own part."""


class Join(Stage):
    """Runs a join stage, in the cells of ``grid``.

    ``wires``: the columns that its sources deliver. Its parts in ``memory`` begin with number ``first``.
    ``may_repeat``: the stage that reads its rows sums them, so they need not be net. ``check`` raises an error to stop
    a batch.

    The remaining memory budget is computed for one cell after the other, so with a budget the cells do not run in
    parallel.
    """

    def __init__(
        self,
        stage: JoinStage,
        wires: Wires,
        memory: ProgramMemory,
        first: int,
        grid: Grid = Grid(),  # noqa: B008 - it is immutable
        may_repeat: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._join_inputs = JoinInputs(stage.plan, wires, memory.dictionary.extern, stage.masks)
        plan, self.inputs, self.known = self._join_inputs.plan, self._join_inputs.inputs, self._join_inputs.known
        self.stage = stage
        self.columns = tuple(Column(output.name, output.type) for output in plan.output)
        self._delivers_events = plan.payload is not None and (may_repeat or stage.mode == "payload")
        parts = parts_of(stage)
        blocks = 1 if grid.cells == 1 else BLOCKS_OF_CELL
        self.cores = [_core(plan, memory, first + cell * parts, parts, blocks) for cell in range(grid.cells)]
        self.states = tuple(core.state for core in self.cores)
        self.parts = tuple(part for state in self.states for part in state.parts)
        self._dictionary = memory.dictionary
        self._conditions = [
            {_key(relation): _conditions(relation, grid, cell) for relation in stored_relations(plan)}
            for cell in range(grid.cells if grid.cells > 1 else 0)
        ]
        self.undone = False  # True after a batch was stopped and undone, until the next one begins
        merges = plan.payload is not None or plan.support
        self._repeats = grid.cells > 1 and merges  # two cells may deliver the same row
        self._check = check
        self._budget = memory.budget
        self._threads = Threads(grid.cells - 1)

    @property
    def carried(self) -> list[CarriedTerm]:
        """Returns the terms that the rows carry in payload mode."""
        return carried_by(self.stage.plan)

    @property
    def plain(self) -> bool:
        """Returns True if the trees of its cells have only stored relations."""
        return self.cores[0].propagation.plain

    @property
    def adds_up(self) -> bool:
        """Returns True if the sum of the rows of all its blocks is its net change, without netting."""
        return self._delivers_events or self.stage.plan.consolidated

    @property
    def resumes(self) -> bool:
        """Returns True if a native call has applied a part of a batch with which the join has not continued yet."""
        return any(core.propagation.resumes for core in self.cores)

    @property
    def stored(self) -> list[StoredInput]:
        """Returns the stored relations of the inputs."""
        return self._join_inputs.stored

    # -- a batch -------------------------------------------------------------------------------------------------------

    def apply(self, nets: Sequence[Zset]) -> Zset:
        """Applies a batch. In payload mode the rows carry their sums. O(changes * lambda + deltas)."""
        work = Core.events if self._delivers_events else Core.apply
        if len(self.cores) == 1:  # of several cells, each would be stopped separately
            return self._gathered(self._apply_to_cells(partial(work, check=self._check), nets))
        return self._gathered(self._apply_to_cells(work, nets))

    @override
    def undo(self, nets: Sequence[Zset]) -> Zset:
        def work(core: Core, part: Sequence[RelationChange]) -> list[Zset]:
            return core.undo(part, self._delivers_events)

        return self._gathered(self._apply_to_cells(work, nets, -1))

    def discard(self, nets: Sequence[Zset]) -> int:
        """Applies a batch, enumerates its deltas into reused buffers and drops them. Returns the number of delta rows.

        For measurements: the deltas are not netted, and counters are not updated.
        """
        return sum(self._apply_to_cells(Core.discard, nets))

    def deltas(
        self,
        nets: Sequence[Zset],
        check: Callable[[], None],
        *,
        deltas: bool = True,
        consolidate: bool | None = None,
        factorized: bool = False,
    ) -> Generator[pa.RecordBatch, None, None]:
        """Applies a batch, and yields its deltas as they are enumerated. See ``Core.delivered``.

        If it raises or is closed early, the batch has been undone. Each of several cells delivers some deltas, then
        waits for the others.
        """
        self.undone = False
        changes = self._join_inputs.changes(nets)
        parts: _Parts = [changes] * len(self.cores)
        try:
            if len(self.cores) == 1:
                yield from self.cores[0].delivered(
                    changes, check, deltas=deltas, consolidate=consolidate, factorized=factorized
                )
            elif self._repeats:
                net = self._gathered(self._run_in_cells(Core.apply, parts, check))
                if deltas:
                    yield from self.cores[0].head.batches(net)
            else:
                yield from self._deltas_of_cells(parts, check, deltas, consolidate)
        except BaseException as error:
            self._roll_back(error)
            raise
        self._settle(parts)

    def discard_output(self) -> None:
        """Applies the remaining part of a batch without output."""
        for core in self.cores:
            core.propagation.discard_output()

    def _deltas_of_cells(
        self, parts: _Parts, check: Callable[[], None], deltas: bool, consolidate: bool | None
    ) -> Iterator[pa.RecordBatch]:
        def delivered(cell: int) -> Iterator[Any]:
            part, stops = self._part(parts, cell), self._threads.check if cell else check
            yield from self.cores[cell].delivered(part, stops, deltas=deltas, consolidate=consolidate)
            yield READY_TO_COMMIT

        def run(jobs: Sequence[Callable[[], list[Any]]]) -> list[list[Any]]:
            return self._run_jobs(jobs, check)

        streams = list(map(delivered, range(len(self.cores))))
        yield from in_turns(streams, run([partial(next_turn, batches) for batches in streams]), run)

    def _apply_to_cells(
        self,
        work: Callable[[Core, Sequence[RelationChange]], _T],
        nets: Sequence[Zset],
        sign: int = 1,
    ) -> list[_T]:
        """Applies a batch to all cells by ``work``, and commits it. Returns the result of each cell. If it raises, the
        batch has been undone. ``sign`` -1: the batch undoes the last one."""
        self.undone = False
        changes = self._join_inputs.changes(nets)
        parts: _Parts = [changes] * len(self.cores)
        try:
            found = [work(self.cores[0], changes)] if len(self.cores) == 1 else self._run_in_cells(work, parts, _never)
        except BaseException as error:
            self._roll_back(error)
            raise
        self._settle(parts, sign)
        return found

    def _run_in_cells(
        self, work: Callable[[Core, Sequence[RelationChange]], _T], parts: _Parts, check: Callable[[], None]
    ) -> list[_T]:
        """Returns the results of ``work`` for all cells when all are finished, or raises the first cell's error."""

        def job(cell: int) -> _T:
            return work(self.cores[cell], self._part(parts, cell))

        return self._run_jobs([partial(job, cell) for cell in range(len(self.cores))], check)

    def _part(self, parts: _Parts, cell: int) -> Sequence[RelationChange]:
        """Selects the part of a cell from all changes, in place: the tuples that some alias reads in the cell.

        Each cell's thread selects its own part, since synchronizing all threads first costs more than the work.
        """
        conditions = self._conditions[cell]
        parts[cell] = [_part_of_cell(change, conditions[_key(change.relation)], cell == 0) for change in parts[cell]]
        return parts[cell]

    def _settle(self, parts: _Parts, sign: int = 1) -> None:
        for core, part in zip(self.cores, parts, strict=True):
            core.settle(part, sign)

    def _roll_back(self, error: BaseException) -> None:
        """Undoes the part of the batch that cells have applied before ``error`` stopped it. Raises UnusableStateError
        if some cell cannot undo it; that cell stays open."""
        failure: Exception | None = None
        for core in self.cores:
            if core.open:
                try:
                    core.roll_back()
                except (UnusableStateError, MemoryBudgetError) as exception:
                    failure = exception
        self.undone = failure is None
        if failure is not None and isinstance(error, Exception):  # otherwise it is KeyboardInterrupt or SystemExit
            raise UnusableStateError(f"{error} ({failure}). {LOST}") from error

    def _run_jobs(self, jobs: Sequence[Callable[[], _T]], check: Callable[[], None]) -> list[_T]:
        """Returns the results of jobs, one per cell. If it raises, no job is running any more."""
        if self._budget.words < ADDRESSABLE:  # the budget of a job depends on the memory that the others have used
            return [job() for job in jobs]
        return self._threads.run(jobs, check)

    def _gathered(self, cells: Sequence[list[Zset]]) -> Zset:
        """Returns the rows of all cells, netted if cells may deliver the same row, unless they are summed later."""
        found = Zset.gathered(list(chain.from_iterable(cells)), len(self.columns))
        return found.net() if self._repeats and not self._delivers_events else found

    # -- results -------------------------------------------------------------------------------------------------------

    @property
    def factorized(self) -> FactorizedHead:
        """Returns the object that makes factorized rows. Raises CrownError for a plan without them, and for several
        cells."""
        if len(self.cores) > 1:
            raise CrownError("factorized=True needs one thread: leave threads at 1, or factorized out")
        return self.cores[0].factorized

    def batches(self, factorized: bool = False) -> Iterator[pa.RecordBatch]:
        """Yields the result as record batches, or as factorized rows. O(1) per row.

        The rows of a bag have ``_weight``. Several cells may yield the same row.
        """
        for core in self.cores:
            yield from core.products() if factorized else core.results.batches()

    def count(self) -> int:
        """Returns the number of rows, with multiplicities. O(state), not O(result), from the tree.

        O(result) with residual predicates. Raises CrownError for more than 4e18.
        """
        if len(self.cores) == 1:
            return self.cores[0].results.count()
        return sum(self._threads.run([core.results.count for core in self.cores], _never))

    def scan(self, sources: Sequence[Iterable[Zset]] = ()) -> Iterator[Zset]:
        """Yields the rows. O(1) per row. Several cells may yield the same row of a bag."""
        for core in self.cores:
            for block in core.results.tuples():
                yield block.copy()

    def multiplicity(self, row: np.ndarray, sources: Sequence[Iterable[Zset]] = ()) -> int:
        """Returns the multiplicity of a row. Expected O(1) per cell."""
        extern = self._dictionary.extern
        return self.copies_of(
            [decode(row[i : i + 1].copy(), column.type, extern) for i, column in enumerate(self.columns)]
        )

    def copies_of(self, arrays: Sequence[pa.Array]) -> int:
        """Returns the multiplicity of a row, given as one-row columns. Expected O(1) per cell.

        O(result) if the outputs do not contain attributes that a declared key determines.
        """
        return sum(core.results.copies_of(arrays) for core in self.cores)

    @override
    def mark_values(self) -> None:
        for state in self.states:
            state.mark_values()

    @override
    def check_invariants(self) -> None:
        for core in self.cores:
            invariants.check(core)

    def stats(self) -> dict[str, Any]:
        """Returns sizes and counters, summed over the cells. A row that is copied to several cells counts in each."""
        if len(self.states) == 1:
            return statistics(self.states[0])
        return together([statistics(state) for state in self.states])


def _never() -> None:
    """Stops no batch."""


def _core(plan: Plan, memory: ProgramMemory, first: int, parts: int, blocks: int) -> Core:
    """Returns the core whose parts begin with number ``first``. ``blocks``: see ``Core``."""
    new = memory.parts[first][A.H_MAGIC] == 0
    state = State(plan, memory.parts[first : first + parts], memory.dictionary, memory.budget, memory.first + first)
    if new:
        state.format(memory.budget.words)
    return Core(state, blocks)


def _key(relation: StoredRelation) -> tuple[int, int]:
    return relation.aliases[0].node, relation.aliases[0].atom


def _conditions(relation: StoredRelation, grid: Grid, cell: int) -> np.ndarray:
    """Returns the conditions under which an alias of a relation reads a tuple in a cell; see ``rows_of_cell``."""
    found = []
    for bit, alias in enumerate(relation.aliases):
        for axis, (name, share) in enumerate(zip(grid.attributes, grid.shares, strict=True)):
            if name in alias.attributes:
                word = alias.words[alias.attributes.index(name)]
                found += [bit, word, share, cell // grid.stride(axis) % share]
    return np.array(found, np.int64)


def _part_of_cell(change: RelationChange, conditions: np.ndarray, first: bool) -> RelationChange:
    """Returns the tuples of a change that some alias reads in a cell, in their order. Only the ``first`` cell counts
    filtered rows."""
    net, relation = change.net, change.relation
    filtered = change.filtered if first else (0,) * len(change.filtered)
    if not len(net):
        return replace(change, filtered=filtered)
    values, weights, masks = np.empty(net.rows.size, np.int64), np.empty_like(net.weights), np.empty(len(net), np.int64)
    selected = change.masks & ((1 << len(relation.aliases)) - 1)  # the mask is 0 if no alias reads the tuple here
    n = rows_of_cell(
        net.flat(), net.width, np.ascontiguousarray(net.weights), selected, conditions, values, weights, masks
    )
    part = Zset(values[: n * net.width].reshape(n, net.width), weights[:n])
    return RelationChange.of(relation, part, masks[:n], filtered)
