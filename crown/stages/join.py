"""A join core as a stage of a program, in one cell or in several: its relations are base tables, or ``#i`` for stage i.

Several cells are cut by a grid (``plans.search.shares``) and never talk to one another: each is a core of its own, over
the rows that fall to it, and since kernels run without the GIL, threads apply a batch to all of them at once. A row
goes to the cells whose coordinates its hashed attributes name, and to all along the axes that it lacks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import replace
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from crown.engine.core import Core
from crown.engine.invariants import tree as invariants
from crown.engine.state import State
from crown.engine.statistics import statistics, together
from crown.errors import CrownError, MemoryBudgetError, UnusableStateError
from crown.guards.threads import Threads
from crown.ingest.batch import MissingDeletes, RelationChange
from crown.ingest.coded import CodedPreparer
from crown.ingest.masks import EVERY
from crown.kernels import arena as A
from crown.kernels.batches import rows_of_cell
from crown.results.factorized import FactorizedHead
from crown.stages.state.memory import ProgramMemory, parts_of
from crown.store.budget import Share
from crown.store.codec import decode
from crown.store.memory import ADDRESSABLE
from crown.store.relations import StoredRelation, stored_relations
from crown.store.zset import Zset
from plans.plan import Plan
from plans.program import JoinStage
from plans.reads import Parts
from plans.schema import Column, Table, source_of
from plans.search.shares import Grid

_TURN = 8  # record batches that a cell delivers before the others have delivered theirs
_TICK = 0.01  # seconds between two looks at whether a batch is to be stopped
_T = TypeVar("_T")


class JoinInputs:
    """What a join takes of the nets of its inputs, ``inputs``, and its ``plan`` over that.

    ``sources``: the columns of what it reads, by relation.
    """

    def __init__(self, stage: JoinStage, sources: Mapping[str | int, Sequence[Column]]) -> None:
        self.plan = _narrowed(stage.plan, sources)
        self._relations = [table.name.lower() for table in self.plan.tables]
        self.inputs = tuple(map(source_of, self._relations))
        self._words: list[list[int] | None] = []
        self._masks: list[int | None] = []
        for table, source in zip(self.plan.tables, self.inputs, strict=True):
            place = {column.name.lower(): i for i, column in enumerate(sources[source])}
            words = [place[column.name.lower()] for column in table.columns]
            self._words.append(None if words == list(range(len(place))) else words)  # None: all, as they come
            self._masks.append(None if stage.masks is None else place[stage.masks.lower()])

    def nets(self, nets: Sequence[Zset]) -> dict[str, tuple[Zset, np.ndarray]]:
        """Returns the nets that have rows, with the columns of the plan's tables, by relation in lower case, each with
        its masks (int64[n], or ``EVERY``): bit i says that occurrence i of the plan reads the row."""
        return {
            name: (net if words is None else net.project(words), EVERY if mask is None else net.rows[:, mask])
            for name, words, mask, net in zip(self._relations, self._words, self._masks, nets, strict=True)
            if net.weights.size
        }

    def known(self, held: Mapping[str | int, Parts]) -> dict[str, Parts]:
        """Returns the conditions that all rows of a source are known to meet by relation, in lower case."""
        relations = zip(self._relations, self.inputs, strict=True)
        return {name: held[source] for name, source in relations if source in held}


class Join:
    """Runs a join stage (see ``crown.stages.protocol.Stage``), in the cells of ``grid``.

    ``sources``: the columns of what it reads, by relation; its parts in ``memory`` begin with number ``first``.
    ``added``: whoever reads its rows adds them up, so they need not be net. ``held``: conditions that all rows of a
    source are known to meet; ``apart``: base relations (in lower case) whose changes are not net.

    What a memory budget leaves is worked out for one cell after the other, so with a budget they do not run in
    parallel.
    """

    def __init__(
        self,
        stage: JoinStage,
        sources: Mapping[str | int, Sequence[Column]],
        memory: ProgramMemory,
        first: int,
        grid: Grid = Grid(),  # noqa: B008 - it is immutable
        added: bool = False,
        held: Mapping[str | int, Parts] = MappingProxyType({}),
        apart: frozenset[str] = frozenset(),
    ) -> None:
        self._taken = JoinInputs(stage, sources)
        plan, self.inputs = self._taken.plan, self._taken.inputs
        self.stage = stage
        self.columns = tuple(Column(output.name, output.type) for output in plan.output)
        self._added = plan.payload is not None and (added or stage.mode == "payload")
        parts = parts_of(stage)
        self.cores = [_core(plan, memory, first + cell * parts, parts) for cell in range(grid.cells)]
        self.states = tuple(core.state for core in self.cores)
        self.parts = tuple(part for state in self.states for part in state.parts)
        self.known = self._taken.known(held)
        self._coded = CodedPreparer(plan, memory.dictionary.extern, self.known, apart)
        self._dictionary = memory.dictionary
        self._conditions = [
            {_key(relation): _conditions(relation, grid, cell) for relation in stored_relations(plan)}
            for cell in range(grid.cells if grid.cells > 1 else 0)
        ]
        self._repeats = grid.cells > 1 and plan.payload is not None  # two cells may deliver the same row
        self._budget = memory.budget
        self._threads = Threads(grid.cells, "crown-cell")

    # A batch
    # ------------------------------------------------------------------------------------------------------------------

    def apply(self, nets: Sequence[Zset]) -> Zset:
        """See ``Stage.apply``; in payload mode the rows carry their sums. O(changes * lambda + deltas)."""
        changes = self._changes(nets)

        try:
            return self._gathered(self._all(_events if self._added else _copied, changes))
        except BaseException:
            self._take_back_cells()
            raise

    def deltas(
        self,
        nets: Sequence[Zset],
        check: Callable[[], None],
        *,
        deltas: bool = True,
        consolidate: bool | None = None,
        factorized: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Applies a batch, and yields its deltas as they are enumerated. See ``Core.delivered``.

        Of several cells each delivers some, then waits for the others. The caller calls ``settle`` or ``take_back``.
        """
        changes = self._changes(nets)
        if len(self.cores) == 1:
            yield from self.cores[0].delivered(
                changes, check, deltas=deltas, consolidate=consolidate, factorized=factorized
            )
        elif self._repeats:
            net = self._gathered(self._all(_copied, changes, check))
            if deltas:
                yield from self.cores[0].head.batches(net)
        else:
            yield from self._in_turns(changes, check, deltas, consolidate)

    def discard(self, nets: Sequence[Zset]) -> int:
        """Applies a batch, enumerates its deltas into reused buffers and drops them. Returns how many there were.

        For measuring: they are not netted, and nothing is counted. The caller calls ``settle`` or ``take_back``.
        """
        return sum(self._all(lambda core, part: sum(map(len, core.begin(part, True))), self._changes(nets)))

    @property
    def counted(self) -> bool:
        """Returns True if the result lives from the deltas: a row of it may stand for several that are enumerated."""
        return self.cores[0].results.counted

    def discard_output(self) -> None:
        """Has the rest of a batch applied without output."""
        for core in self.cores:
            core.discard_output()

    def _in_turns(
        self, changes: Sequence[RelationChange], check: Callable[[], None], deltas: bool, consolidate: bool | None
    ) -> Iterator[pa.RecordBatch]:
        stop = threading.Event()

        def stopped() -> None:
            if stop.is_set():
                raise CrownError("another cell has stopped the batch")

        running = [
            core.delivered(self._part(changes, cell), stopped, deltas=deltas, consolidate=consolidate)
            for cell, core in enumerate(self.cores)
        ]
        while running:
            turns = self._finished([partial(_some, of) for of in running], check, stop)
            for turn in turns:
                yield from turn
            running = [of for of, turn in zip(running, turns, strict=True) if len(turn) == _TURN]

    def _all(
        self,
        work: Callable[[Core, Sequence[RelationChange]], _T],
        changes: Sequence[RelationChange],
        check: Callable[[], None] | None = None,
    ) -> list[_T]:
        """Returns what ``work`` gives for each cell, when all are through; raises what the first of them raised."""
        if len(self.cores) == 1:
            return [work(self.cores[0], changes)]

        def job(cell: int) -> _T:
            return work(self.cores[cell], self._part(changes, cell))

        jobs = [partial(job, cell) for cell in range(len(self.cores))]
        return self._finished(jobs, check or (lambda: None), threading.Event())

    def _finished(self, jobs: Sequence[Callable[[], _T]], check: Callable[[], None], stop: threading.Event) -> list[_T]:
        """Returns what jobs give, one per cell. Whatever it raises, no job is running then, and ``stop`` is set."""
        if self._budget.words < ADDRESSABLE:  # what one of them may take depends on what the others have taken
            return [job() for job in jobs]
        try:
            given = [self._threads.pool.submit(job) for job in jobs]
        except RuntimeError:  # Python is ending, and its threads have ended
            return [job() for job in jobs]
        try:
            while wait(given, _TICK).not_done:
                check()
            return [job.result() for job in given]
        except BaseException:
            stop.set()
            wait(given)
            raise

    def _gathered(self, cells: Sequence[list[Zset]]) -> Zset:
        """Returns the rows of all cells; net, but for those that are added up."""
        blocks = [block for part in cells for block in part]
        blocks = [block for block in blocks if block.weights.size] or blocks[:1]
        found = blocks[0] if len(blocks) == 1 else Zset.gathered(blocks, len(self.columns))
        return found.net() if self._repeats and not self._added else found

    def _changes(self, nets: Sequence[Zset]) -> tuple[RelationChange, ...]:
        return self._coded.changes(self._taken.nets(nets))

    def _part(self, changes: Sequence[RelationChange], cell: int) -> list[RelationChange]:
        """Returns the part of a cell: every change, with the tuples that some alias reads there.

        Each cell's thread finds its own: to have all wait for one another first costs more than the work.
        """
        return [_part_of_cell(change, self._conditions[cell][_key(change.relation)], cell == 0) for change in changes]

    def settle(self) -> None:
        """See ``Stage.settle``."""
        for core in self.cores:
            core.settle()

    def take_back(self, nets: Sequence[Zset]) -> None:
        """See ``Stage.take_back``; a batch that was applied in part is taken back, too."""
        self._take_back_cells()

    def _take_back_cells(self) -> None:
        lost: UnusableStateError | MemoryBudgetError | None = None
        for core in self.cores:
            if core.open:
                try:
                    core.take_back()
                except (UnusableStateError, MemoryBudgetError) as error:
                    lost = error
        if lost is not None:
            raise lost

    def undo(self, nets: Sequence[Zset]) -> Zset:
        """See ``Stage.undo``."""

        def work(core: Core, part: Sequence[RelationChange]) -> list[Zset]:
            if self._added:
                return core.undo_events(part, MissingDeletes())
            return [core.undo(part, MissingDeletes())]

        return self._gathered(self._all(work, self._changes(nets)))

    # Results
    # ------------------------------------------------------------------------------------------------------------------

    @property
    def factorized(self) -> FactorizedHead:
        """Returns what makes factorized rows. CrownError for a plan that has none, and for several cells."""
        if len(self.cores) > 1:
            raise CrownError("factorized=True needs one thread: leave threads at 1, or factorized out")
        return self.cores[0].factorized

    def batches(self, factorized: bool = False) -> Iterator[pa.RecordBatch]:
        """Yields the result as record batches, as factorized rows if they are wanted. O(1) per row.

        The rows of a bag have ``_weight``; the same row may come from several cells.
        """
        for core in self.cores:
            yield from core.products() if factorized else core.results.batches()

    def count(self) -> int:
        """Returns the number of rows, each as often as it is there. O(state), not O(result), by the tree.

        O(result) with residual predicates. Raises CrownError for more than 4e18.
        """
        if len(self.cores) == 1:
            return self.cores[0].results.count()
        return sum(self._threads.pool.map(lambda core: core.results.count(), self.cores))

    def scan(self, sources: Sequence[Iterable[Zset]] = ()) -> Iterator[Zset]:
        """See ``Stage.scan``. O(1) per row; the same row of a bag may come from several cells."""
        for core in self.cores:
            for block in core.results.tuples():
                yield block.copy()

    def multiplicity(self, row: np.ndarray, sources: Sequence[Iterable[Zset]] = ()) -> int:
        """See ``Stage.multiplicity``. Expected O(1) per cell."""
        extern = self._dictionary.extern
        return self.copies_of(
            [decode(row[i : i + 1].copy(), column.type, extern) for i, column in enumerate(self.columns)]
        )

    def copies_of(self, arrays: Sequence[pa.Array]) -> int:
        """Returns how often a row, given as one-row columns, is there. Expected O(1) per cell.

        O(result) where the outputs leave attributes open that a declared key determines.
        """
        return sum(core.results.copies_of(arrays) for core in self.cores)

    def mark_values(self) -> None:
        """See ``Stage.mark_values``."""
        for state in self.states:
            state.mark_values()

    def check_invariants(self) -> None:
        """See ``Stage.check_invariants``."""
        for core in self.cores:
            invariants.check(core)

    def stats(self) -> dict[str, Any]:
        """See ``Stage.stats``. Of several cells the sums; rows that are copied to several cells count in each."""
        if len(self.states) == 1:
            return statistics(self.states[0])
        return together([statistics(state) for state in self.states])


def _events(core: Core, changes: Sequence[RelationChange]) -> list[Zset]:
    return list(core.events(changes))


def _copied(core: Core, changes: Sequence[RelationChange]) -> list[Zset]:
    return [block.copy() for block in core.apply(changes)]


def _some(batches: Iterator[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return list(islice(batches, _TURN))


def _core(plan: Plan, memory: ProgramMemory, first: int, parts: int) -> Core:
    """Returns the core whose parts begin with number ``first``."""
    arena, words = memory.mapping(first, parts), memory.budget.words
    new = arena[A.H_MAGIC] == 0
    state = State(plan, arena, memory.space, memory.dictionary, Share(memory.budget, first))
    if new:
        state.format(words)
    return Core(state)


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
    """Returns the tuples of a change that some alias reads in a cell, in their order; the ``first`` counts what was
    filtered."""
    net, relation = change.net, change.relation
    filtered = change.filtered if first else (0,) * len(change.filtered)
    if not len(net):
        return replace(change, filtered=filtered)
    values, weights, masks = np.empty(net.rows.size, np.int64), np.empty_like(net.weights), np.empty(len(net), np.int64)
    given = change.masks & ((1 << len(relation.aliases)) - 1)  # no bit is left when no alias reads the tuple here
    n = rows_of_cell(
        net.flat(), net.width, np.ascontiguousarray(net.weights), given, conditions, values, weights, masks
    )
    part = Zset(values[: n * net.width].reshape(n, net.width), weights[:n])
    return RelationChange.of(relation, part, masks[:n], filtered)


def _narrowed(plan: Plan, sources: Mapping[str | int, Sequence[Column]]) -> Plan:
    """Returns the plan over tables that have only the columns that come."""
    come = [{column.name.lower() for column in sources[source_of(table.name.lower())]} for table in plan.tables]
    tables = tuple(
        Table(
            table.name,
            tuple(
                replace(column, required=table.required(column.name))
                for column in table.columns
                if column.name.lower() in names
            ),
        )
        for table, names in zip(plan.tables, come, strict=True)
    )
    return replace(plan, tables=tables)
