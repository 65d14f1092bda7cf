"""Several engines for one plan, on all cores: what HyperCube does between machines, inside one process.

A grid of shares (``plans.search.shares``) cuts the plan into cells that never talk to one another; each is an engine,
and since kernels run without the GIL, a batch is applied to all of them at once by threads. A row goes to the cells
whose coordinates its hashed attributes name, and to all along the axes that it lacks. Results of different cells are
disjoint, so deltas are simply put one after the other. All cells share one dictionary, hence codes can be hashed as
they are.
"""

from __future__ import annotations

import os
import queue
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import ref

import numpy as np
import pyarrow as pa

from crown.engine.delivery import LOST, Batches, Delivery, is_running, refuse
from crown.engine.engine import Engine
from crown.engine.state import saving
from crown.engine.state.arenas import State, limits_of
from crown.errors import UnusableStateError
from crown.guards.interrupts import Uninterrupted
from crown.guards.threads import Threads
from crown.guards.uncopyable import NotCopyable
from crown.ingest.batch import Prepared, RelationChange
from crown.ingest.prepare import Preparer
from crown.kernels.arena import H_OPEN, format_arena
from crown.kernels.batches import rows_of_cell
from crown.kernels.tables import new_table, table_at
from crown.store.budget import Budget
from crown.store.dictionary import Dictionary, with_room
from crown.store.memory import ADDRESSABLE, reserve
from crown.store.relations import StoredRelation
from crown.store.zset import Zset
from plans.plan import Plan
from plans.search.shares import Grid, solve

_AHEAD = 8  # delta batches that a cell may be ahead of the reader
_PAUSE = object()  # what is heard of a cell whose turn is over


class _Work:
    """A batch in several cells: each applies its part of it, in turns that threads do.

    A turn is over when a cell is ``_AHEAD`` delta batches before the reader; it has another one when half of these are
    read. So no thread waits for the reader, who may never come back: Python could not end then.
    """

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        engines: Sequence[Engine],
        part: Callable[[int], Prepared],
        run: Callable[..., Delivery],
    ) -> None:
        self._pool = pool
        self._engines = engines
        self._part = part
        self._run = run
        self._deliveries: dict[int, Delivery] = {}
        self._written, self._read = [0] * len(engines), [0] * len(engines)  # by the cell, by the reader
        # Of a cell: a batch, _PAUSE, an error, or at its end None.
        self._heard: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._idle: set[int] = set()
        self._jobs: list[Future[None]] = []
        self._opened: list[Engine] = []
        self.wanted, self._stopped = True, False

    def begin(self) -> None:
        """Gives each cell its first turn."""
        for cell in range(len(self._engines)):
            self._jobs.append(self._pool.submit(self._turn, cell))

    def _turn(self, cell: int) -> None:
        """Applies more of a cell's part. At its end the batch is open there; stopped, it has been taken back."""
        try:
            if cell not in self._deliveries:
                self._deliveries[cell] = self._run(self._engines[cell], self._part(cell), hold=True)
            delivery = self._deliveries[cell]
            while self.wanted:
                if self._stopped:
                    delivery.abort()
                    return
                if self._written[cell] - self._read[cell] >= _AHEAD:
                    self._heard.put((cell, _PAUSE))
                    return
                batch = next(delivery, None)
                if batch is None:
                    break
                self._written[cell] += 1
                self._heard.put((cell, batch))
            delivery.close()
            self._opened.append(self._engines[cell])
            self._heard.put((cell, None))
        except BaseException as error:
            self._heard.put((cell, error))

    def _wake(self, cell: int) -> None:
        """Gives a cell whose turn is over another one, if it is time for that."""
        if cell in self._idle and (not self.wanted or self._written[cell] - self._read[cell] <= _AHEAD // 2):
            self._idle.remove(cell)
            try:
                self._jobs[cell] = self._pool.submit(self._turn, cell)
            except RuntimeError:  # Python is ending, and its threads have ended
                self._turn(cell)

    def batches(self, check: Callable[[], None]) -> Iterator[pa.RecordBatch]:
        """Yields the delta batches of all cells as they come. Raises what a cell raises, and what ``check`` does."""
        running = len(self._engines)
        while running:
            check()
            try:
                cell, heard = self._heard.get(timeout=0.01)
            except queue.Empty:
                continue
            if heard is None:
                running -= 1
            elif heard is _PAUSE:
                self._idle.add(cell)
                self._wake(cell)
            elif isinstance(heard, BaseException):
                raise heard
            else:
                self._read[cell] += 1
                self._wake(cell)
                yield heard

    def leave(self) -> None:
        """Has the rest of the batch applied without output: nothing is ``wanted`` any more."""
        self.wanted = False
        for cell in list(self._idle):
            self._wake(cell)

    def stop(self) -> list[Engine] | None:
        """Has the batch taken back by cells that are in the midst of it; returns those where it is open.

        None if a cell may have begun of which nothing is known.
        """
        self._stopped = True
        if len(self._jobs) < len(self._engines):
            return None
        wait(self._jobs)
        for delivery in self._deliveries.values():
            with suppress(UnusableStateError):
                delivery.abort()  # those whose turn is over
        return self._opened


class Cells(NotCopyable, instead="save(path) and crown.load(path) make another one"):
    """``grid.cells`` engines side by side: ``Queryable``, see ``crown.maintained``."""

    def __init__(
        self, plan: Plan, grid: Grid, dictionary: Dictionary, arena: np.ndarray, engines: list[Engine], words: int
    ) -> None:
        self.plan = plan
        self.grid = grid
        self.dictionary = dictionary
        self.engines = engines
        self.on_missing = engines[0].on_missing
        self.result_schema = engines[0].result_schema
        self.delta_schema = engines[0].delta_schema
        self._arena = arena  # of the dictionary
        self._words = words  # the budget of all cells and the dictionary
        self._preparer = Preparer(plan, dictionary.intern)
        self._conditions = {
            (relation.aliases[0].node, relation.aliases[0].atom): [
                self._when(relation, cell) for cell in range(grid.cells)
            ]
            for relation in self._preparer.relations
        }
        self._threads = Threads(len(engines), "crown-cell")
        self.uninterrupted = Uninterrupted()
        self.batches = 0
        self._batch: ref[Batches] | None = None
        self._nothing = pa.RecordBatch.from_pylist([], self.delta_schema)

    @classmethod
    def create(cls, plan: Plan, threads: int, *, memory_budget: int | None = None, on_missing: str = "ignore") -> Cells:
        """Makes empty cells, one per thread. PlanError if the plan cannot be cut (no output attribute to hash)."""
        grid = solve(plan, threads)
        words, limit = limits_of(memory_budget)
        arena = reserve(limit)
        format_arena(arena, 1, len(arena), secrets.randbits(62))
        new_table(arena, table_at(0))
        dictionary = Dictionary(arena, table_at(0), Budget([arena], words))
        share = None if memory_budget is None else memory_budget // threads
        engines = [
            Engine.create(plan, memory_budget=share, on_missing=on_missing, dictionary=dictionary)
            for _ in range(threads)
        ]
        return cls(plan, grid, dictionary, arena, engines, words)

    @classmethod
    def over(
        cls, plan: Plan, grid: Grid, arena: np.ndarray, states: Sequence[np.ndarray], on_missing: str, words: int
    ) -> Cells:
        """Returns cells over existing states: the dictionary's arena, and one per cell; ``words`` is their budget."""
        dictionary = Dictionary(arena, table_at(0), Budget([arena], words))
        engines = [Engine(State(plan, s, None, dictionary, words), on_missing) for s in states]
        return cls(plan, grid, dictionary, arena, engines, words)

    @property
    def fingerprint(self) -> str:
        """See ``Engine.fingerprint``."""
        return self.plan.fingerprint

    @property
    def parts(self) -> list[np.ndarray]:
        """Returns all arenas: the dictionary's, then those of each cell."""
        return [self._arena, *(part for engine in self.engines for part in engine.parts)]

    def prepare(self, changes: Mapping[str, Any], strict: bool = True) -> Prepared:
        """See ``Engine.prepare``."""
        self.ready()

        def work() -> Prepared:
            self._share_budget()
            return self._preparer.prepare(changes, strict)

        return with_room(self.dictionary, work, self.compact)

    def _share_budget(self) -> None:
        """Divides the budget: what the dictionary leaves is shared equally by the cells."""
        if self._words >= ADDRESSABLE:
            return
        used = [engine.budget.used for engine in self.engines]
        self.dictionary.budget.change(self._words - sum(used))
        left = self._words - self.dictionary.budget.used
        for engine in self.engines:
            engine.budget.change(left // len(self.engines))

    def run(
        self,
        prepared: Prepared,
        *,
        deltas: bool = True,
        consolidate: bool | None = None,
        closing: Callable[[], None] | None = None,
    ) -> Delivery:
        """See ``Engine.run``.

        Cells in parallel, delta batches as they come. If a cell refuses the batch, all take it back.
        """
        self.ready()
        self._share_budget()
        part: Callable[[int], Prepared] = partial(self._part, prepared.changes)
        if self.on_missing == "raise":  # before any cell begins
            for cell, engine in enumerate(self.engines):
                engine.refuse_missing(part(cell))
        batch = self._deliver(part, deltas, consolidate, closing)
        self._batch = ref(batch)
        return Delivery(batch, self.uninterrupted)

    def _deliver(
        self,
        part: Callable[[int], Prepared],
        deltas: bool,
        consolidate: bool | None,
        closing: Callable[[], None] | None,
    ) -> Batches:
        """Applies the batch as a transaction over all cells; see ``Engine._deliver``."""
        run = partial(Engine.run, deltas=deltas, consolidate=consolidate)
        work = _Work(self._threads.pool, self.engines, part, run)
        stands = False
        try:
            self._arena[H_OPEN] = 1
            work.begin()
            try:
                yield self._nothing
            except GeneratorExit:
                work.leave()
            for batch in work.batches(self.uninterrupted.check):
                if work.wanted:
                    try:
                        yield batch
                    except GeneratorExit:
                        work.leave()
            if closing is not None:
                closing()
            stands = True
            self._settle()
        except BaseException as error:
            if not stands:
                self._roll_back(work.stop(), error)
            raise

    def _settle(self) -> None:
        """Lets the batch stand that is open in all cells. Whatever strikes in the midst of this, the state is lost."""
        for engine in self.engines:
            engine.settle()
        self.batches += 1
        self._arena[H_OPEN] = 0

    def _roll_back(self, opened: Sequence[Engine] | None, error: BaseException) -> None:
        """Takes the batch back in the cells where it is open; those that refused it, or were stopped, have done so.

        None: which those are is not known, and the state is lost.
        """
        if opened is None:
            return
        for engine in opened:
            with suppress(UnusableStateError):  # that engine is lost, then
                engine.core.roll_back(error)
        self._arena[H_OPEN] = 0
        if self.lost and isinstance(error, Exception):
            raise UnusableStateError(f"{error}. {LOST}") from error
        if not self.lost and self.dictionary.budget.tight:
            self._sweep()

    def _part(self, changes: Sequence[RelationChange], cell: int) -> Prepared:
        """Returns the part of a cell: every change, with the tuples that some alias reads there. Each cell's thread
        finds its own: to have all wait for one another first costs more than the work."""
        mine = []
        for change in changes:
            first = change.relation.aliases[0]
            conditions = self._conditions[first.node, first.atom][cell]
            filtered = change.filtered if cell == 0 else (0,) * len(change.filtered)
            mine.append(_part_of_cell(change, conditions, filtered))
        return Prepared(tuple(mine), 0, {})

    def _when(self, relation: StoredRelation, cell: int) -> np.ndarray:
        """Returns the conditions under which an alias of a relation reads a tuple in a cell; see ``rows_of_cell``."""
        found = []
        for bit, alias in enumerate(relation.aliases):
            for axis, (name, share) in enumerate(zip(self.grid.attributes, self.grid.shares, strict=True)):
                if name in alias.attributes:
                    word = alias.words[alias.attributes.index(name)]
                    found += [bit, word, share, cell // self.grid.stride(axis) % share]
        return np.array(found, np.int64)

    def results(self) -> Iterator[pa.RecordBatch]:
        """See ``Engine.results``, one cell after the other."""
        self.ready()
        for engine in self.engines:
            yield from engine.results()

    def count(self) -> int:
        """See ``Engine.count``."""
        self.ready()
        return sum(self._threads.pool.map(Engine.count, self.engines))

    def contains(self, values: Mapping[str, Any]) -> bool:
        """See ``Engine.contains``: a result is in one cell only, which is found by asking each."""
        self.ready()
        return any(engine.contains(values) for engine in self.engines)

    def apply_discard(self, changes: Mapping[str, Any]) -> int:
        """See ``Engine.apply_discard``, in parallel. If a cell refuses the batch, all take it back."""
        prepared = self.prepare(changes).changes
        jobs: list[Future[int]] = []
        opened: list[Engine] = []

        def work(cell: int) -> int:
            engine = self.engines[cell]
            n = engine.discard(self._part(prepared, cell), hold=True)
            opened.append(engine)
            return n

        with self.uninterrupted:
            try:
                self._arena[H_OPEN] = 1
                for cell in range(len(self.engines)):
                    jobs.append(self._threads.pool.submit(work, cell))
                n = sum([job.result() for job in jobs])
            except BaseException as error:
                wait(jobs)
                self._roll_back(opened if len(jobs) == len(self.engines) else None, error)
                raise
            self._settle()
        return n

    def compact(self) -> int:
        """See ``State.compact`` for the shared dictionary."""
        self.ready()
        return self._sweep()

    def _sweep(self) -> int:
        for engine in self.engines:
            engine.state.mark_values()
        return self.dictionary.sweep()

    def save(self, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> int:
        """See ``Engine.save``: one file for all cells."""
        self.compact()
        return saving.write(path, self.plan, self.on_missing, self.grid, extra, self.parts)

    def stats(self) -> dict[str, Any]:
        """Returns the cells' ``Engine.stats``, summed; ``max_delay`` is the maximum.

        Rows that are copied to several cells count in each.
        """
        if not is_running(self._batch):
            self.ready()
        total = _summed([engine.stats() for engine in self.engines])
        total["max_delay"] = max(engine.stats()["max_delay"] for engine in self.engines)
        total["dictionary"] = len(self.dictionary)
        total["cells"] = self.grid.cells
        return total

    def check_invariants(self) -> None:
        """See ``Engine.check_invariants`` of every cell."""
        self.ready()
        for engine in self.engines:
            engine.check_invariants()

    @property
    def lost(self) -> bool:
        """Returns ``State.lost``, of any cell or the dictionary."""
        return bool(self._arena[H_OPEN]) or any(engine.lost for engine in self.engines)

    def ready(self) -> None:
        """See ``Engine.ready``."""
        refuse(is_running(self._batch), self.lost)


def _part_of_cell(change: RelationChange, conditions: np.ndarray, filtered: tuple[int, ...]) -> RelationChange:
    """Returns the tuples of a change that some alias reads in a cell, in their order."""
    net, relation = change.net, change.relation
    if not len(net):
        return replace(change, filtered=filtered)
    values, weights, masks = np.empty(net.rows.size, np.int64), np.empty_like(net.weights), np.empty(len(net), np.int64)
    given = change.masks & ((1 << len(relation.aliases)) - 1)  # no bit is left when no alias reads the tuple here
    n = rows_of_cell(net.flat(), net.width, net.weights, given, conditions, values, weights, masks)
    part = Zset(values[: n * net.width].reshape(n, net.width), weights[:n])
    return RelationChange.of(relation, part, masks[:n], filtered)


def _summed(all_stats: list[dict[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in all_stats[0].items():
        values = [stats[key] for stats in all_stats]
        if isinstance(value, dict):
            out[key] = _summed(values)
        elif isinstance(value, int):
            out[key] = sum(values)
        else:
            out[key] = value
    return out
