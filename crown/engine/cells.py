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
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
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
        self._pool = ThreadPoolExecutor(len(engines), thread_name_prefix="crown-cell")
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
        parts = self._divided(prepared.changes)
        for engine, part in zip(self.engines, parts, strict=True):
            engine.refuse_missing(part)
        batch = self._deliver(parts, deltas, consolidate, closing)
        self._batch = ref(batch)
        return Delivery(batch, self.uninterrupted)

    def _deliver(
        self,
        parts: list[Prepared],
        deltas: bool,
        consolidate: bool | None,
        closing: Callable[[], None] | None,
    ) -> Batches:
        """Applies the batch as a transaction over all cells; see ``Engine._deliver``."""
        batches: queue.SimpleQueue[pa.RecordBatch | BaseException | None] = queue.SimpleQueue()  # None: a cell's end
        room = threading.Semaphore(_AHEAD * len(parts))
        unwanted, stopped = threading.Event(), threading.Event()

        def end(how: threading.Event) -> None:
            """Says it to all cells, also to those that wait for room: each takes it once more at most."""
            how.set()
            room.release(len(parts))

        def leave() -> bool:
            """Has the rest of the batch applied without output. Returns False: nothing is wanted any more."""
            end(unwanted)
            return False

        def work(engine: Engine, part: Prepared) -> None:
            """Applies a cell's part and leaves it open; or takes it back, if the batch was stopped."""
            try:
                delivery = engine.run(part, deltas=deltas, consolidate=consolidate, hold=True)
                for batch in delivery:
                    room.acquire()
                    if stopped.is_set():
                        delivery.abort()
                        return
                    if unwanted.is_set():
                        delivery.close()
                    else:
                        batches.put(batch)
                opened.append(engine)
                batches.put(None)
            except BaseException as error:
                batches.put(error)

        jobs: list[Future[None]] = []
        opened: list[Engine] = []
        wanted, stands = True, False
        try:
            self._arena[H_OPEN] = 1
            for engine, part in zip(self.engines, parts, strict=True):
                jobs.append(self._pool.submit(work, engine, part))
            try:
                yield self._nothing
            except GeneratorExit:
                wanted = leave()
            running = len(jobs)
            while running:
                self.uninterrupted.check()
                try:
                    batch = batches.get(timeout=0.01)
                except queue.Empty:
                    continue
                if batch is None:
                    running -= 1
                elif isinstance(batch, BaseException):
                    raise batch
                elif wanted:
                    room.release()
                    try:
                        yield batch
                    except GeneratorExit:
                        wanted = leave()
            if closing is not None:
                closing()
            stands = True
            self._settle()
        except BaseException as error:
            if not stands:
                end(stopped)
                self._roll_back(jobs, opened, error)
            raise

    def _settle(self) -> None:
        """Lets the batch stand that is open in all cells. Whatever strikes in the midst of this, the state is lost."""
        for engine in self.engines:
            engine.settle()
        self.batches += 1
        self._arena[H_OPEN] = 0

    def _roll_back(self, jobs: Sequence[Future[Any]], opened: list[Engine], error: BaseException) -> None:
        """Takes the batch back in the cells where it is open; those that refused it, or were stopped, have done so."""
        if len(jobs) < len(self.engines):
            return  # whether another cell has begun is not known: the state is lost
        wait(jobs)  # until then more of them are opened
        for engine in opened:
            with suppress(UnusableStateError):  # that engine is lost, then
                engine.core.roll_back(error)
        self._arena[H_OPEN] = 0
        if self.lost and isinstance(error, Exception):
            raise UnusableStateError(f"{error}. {LOST}") from error
        if not self.lost and self.dictionary.budget.tight:
            self._sweep()

    def _divided(self, changes: Sequence[RelationChange]) -> list[Prepared]:
        """Returns the part of each cell: every change, with the tuples that some alias reads there. In parallel."""

        def part(cell: int) -> Prepared:
            mine = []
            for change in changes:
                first = change.relation.aliases[0]
                conditions = self._conditions[first.node, first.atom][cell]
                filtered = change.filtered if cell == 0 else (0,) * len(change.filtered)
                mine.append(_part_of_cell(change, conditions, filtered))
            return Prepared(tuple(mine), 0, {})

        return list(self._pool.map(part, range(len(self.engines))))

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
        return sum(self._pool.map(Engine.count, self.engines))

    def contains(self, values: Mapping[str, Any]) -> bool:
        """See ``Engine.contains``: a result is in one cell only, which is found by asking each."""
        self.ready()
        return any(engine.contains(values) for engine in self.engines)

    def apply_discard(self, changes: Mapping[str, Any]) -> int:
        """See ``Engine.apply_discard``, in parallel. If a cell refuses the batch, all take it back."""
        parts = self._divided(self.prepare(changes).changes)
        jobs: list[Future[int]] = []
        opened: list[Engine] = []

        def work(engine: Engine, part: Prepared) -> int:
            n = engine.discard(part, hold=True)
            opened.append(engine)
            return n

        with self.uninterrupted:
            try:
                self._arena[H_OPEN] = 1
                for engine, part in zip(self.engines, parts, strict=True):
                    jobs.append(self._pool.submit(work, engine, part))
                n = sum([job.result() for job in jobs])
            except BaseException as error:
                self._roll_back(jobs, opened, error)
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
