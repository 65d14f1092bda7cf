"""One cell: its live engine, its log, and the protocol that applies every batch exactly once.

The protocol for batch ``b``, where ``v`` is the last batch that this cell applied before ``b``:

1. Lock the live engine: an attempt that Spark gave up on may still be writing it.
2. If the engine is marked "b, clean", ``b`` was applied before (a retry, a restart, a plan that Spark runs twice). Undo
   it by applying the stored input with negated weights, and continue at 4. The engine is invertible, so the undo costs
   O(Δ).
3. If the engine is marked "v, clean" and ``v`` is ``b`` - 1, continue; at most two files of the log are read. Otherwise
   (dirty, absent, older, newer) load the newest snapshot before ``b`` and replay the log. A gap in the chain or a link
   of another history is an error that names cell and batch. So is a batch that Spark executed and this cell does not
   have, or the other way round (``spark_jobs.log.history``).
4. Mark the engine dirty; check the input, and set aside the rows that the state rejects; apply the part of the batch
   that is one native call; publish ``b.delta``; apply the rest while the output is yielded; mark the engine clean at
   ``b``. A crash in between leaves "dirty", so the next attempt takes step 3.
5. Write a snapshot when the log is larger than the last one; delete files that no replay can need.

A batch that does not fit (``Limits``, the disk) is refused at 4 and undone. If its changes are in the log already, they
stay there, as those of an interrupted batch do. The batch is executed again when the job continues with more room.

This module does not use Spark: ``spark_jobs.operator`` calls it inside a task.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from crown.errors import ChangeError, MemoryBudgetError, SnapshotError, UnusableStateError
from crown.programs.delta_options import DeltaOptions
from crown.programs.program import ProgramEngine
from plans.program import Program
from spark_jobs.cell.live import Live, Place
from spark_jobs.cell.quarantine import Refused, without
from spark_jobs.cell.spill import NONE, Limits, bounded, demand_disk
from spark_jobs.errors import DamagedStateError
from spark_jobs.log import history
from spark_jobs.log.delta_file import Changes, Link
from spark_jobs.log.state_log import BACKFILL, EMPTY, CellLog, Load, weight
from spark_jobs.storage.folder import Folder
from spark_jobs.storage.opening import folder_at

SNAPSHOT_FLOOR = 4 << 20  # load of the log below which no snapshot is worth its fsync
_NOTHING = Load(0, 0)


@dataclass
class Report:
    """The effect of one batch on one cell, as reported to the driver."""

    rows: int = 0
    deltas: int = 0
    restored: int = -1  # batches replayed, -1 if the live engine could be used as it was
    redone: bool = False
    prepare_ms: float = 0.0
    log_ms: float = 0.0
    apply_ms: float = 0.0
    snapshot_ms: float = 0.0
    resident: int = -1  # bytes of the live engine in memory, -1 if they have no limit
    spilled: int = 0  # bytes that were moved out of memory meanwhile


class Cell:
    """The state of one cell of a maintained query.

    ``program``: what the cell's engine runs; ``log``: where its history is stored; ``live``: a host-local folder for
    the memory-mapped engine; ``base``: finds the cell's folder of a backfill, or None; ``keep``: how many batches back
    Spark may replay; ``spark``: the folder where Spark's checkpoint of the stream would be, or None; ``limits``: how
    large the state may get, and how much of it may be in memory; ``aside``: receives, by relation, the rows that only
    the state shows to be bad (late rows and rows that violate an enforced key). If ``aside`` is None, such rows fail
    their batch.
    """

    def __init__(
        self,
        program: Program,
        log: CellLog,
        live: Path,
        *,
        base: Callable[[], Folder | None] = lambda: None,
        keep: int = 100,
        spark: Folder | Path | None = None,
        on_missing: str = "ignore",
        snapshot_floor: int = SNAPSHOT_FLOOR,
        limits: Limits = NONE,
        aside: Callable[[Refused], None] | None = None,
    ) -> None:
        self.log = log
        self.live = Live(program, live, on_missing)
        self._find_base = base
        self.keep = keep
        self.spark = None if spark is None else folder_at(spark)
        self.snapshot_floor = snapshot_floor
        self.limits = limits
        self._aside = aside

    def apply(
        self, batch: int, changes: Changes, report: Report, consolidate: bool | None, ranges: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Applies batch ``batch`` exactly once; yields its deltas, or with ``ranges`` deltas as ranges. Fills in
        ``report`` while it runs.

        If the consumer stops early, the batch is still applied in full. Raises ``CheckpointError`` and its subclasses
        when the state is not what it should be, ``ChangeError`` (nothing applied) when the changes are rejected,
        ``MemoryBudgetError`` (nothing applied) when there is no room for them.
        """
        if self.limits.memory is not None:
            demand_disk(self.live.folder.parent)
        with self.live.locked(self.log.cell), bounded(self.live.folder, self.limits.memory) as spilled:
            engine, place = self._before(batch, report)
            with engine.memory.budget.limited(self.limits.words):
                place = yield from self._applied(engine, place, batch, changes, report, consolidate, ranges)
            started = time.perf_counter()
            if self.log.snapshot_due(place.load, self.snapshot_floor):
                with spilled.in_order():
                    self._snapshot(engine, place)
                self.log.retain(batch, self.keep)
                report.snapshot_ms = _since(started)
        report.resident, report.spilled = spilled.resident, spilled.dropped

    def _applied(
        self,
        engine: ProgramEngine,
        place: Place,
        batch: int,
        changes: Changes,
        report: Report,
        consolidate: bool | None,
        ranges: bool,
    ) -> Generator[pa.RecordBatch, None, Place]:
        """Applies a batch to the engine, which is at ``place``; yields the deltas, returns the new place."""
        started = time.perf_counter()
        engine.begin()  # before anything is written into the arenas
        options = DeltaOptions(consolidate=consolidate, ranged=engine.result.ranged if ranges else None)
        mine = Link(batch, place.version, dict(changes), place.digest)
        try:
            prepared = engine.prepare_for_apply(mine.changes, self._aside is None, options)
            if self._aside is not None and prepared.bad:  # quarantine them before anything of the batch is written
                self._aside(prepared.bad)
                mine = replace(mine, changes=without(mine.changes, prepared.bad))
            report.prepare_ms = _since(started)
            started = time.perf_counter()
            output = engine.run(prepared, consolidate=consolidate, ranges=ranges)  # a native call finds bad rows here
            report.apply_ms = _since(started)
            started = time.perf_counter()
            try:
                link, first = self.log.publish(mine)
            except BaseException:
                output.abort()
                raise
            report.log_ms = _since(started)
            if first:
                load = replace(place.load, logged=place.load.logged + weight(link.size))
            else:  # use the log's order of rows, because undo uses it
                output.abort()
                prepared = engine.prepare_for_apply(link.changes, True, options)
                output = engine.run(prepared, consolidate=consolidate, ranges=ranges)
                load = self.log.weigh(batch)
            report.rows = prepared.rows
            try:
                yield from self._timed(output, report)
            except GeneratorExit:  # the consumer stops early (limit): the engine applies the rest without output
                output.close()
                self._finish(engine, link, load)
                raise
        except ChangeError:  # refused; the engine has undone what it had applied
            self.live.settle(engine, place)
            raise
        except MemoryBudgetError as error:
            self.live.settle(engine, place)
            raise self.limits.refusal(self.log.cell, batch, engine, error) from None
        return self._finish(engine, link, load)

    @cached_property
    def base(self) -> CellLog | None:
        """Returns the log that a backfill left for the cell, or None. Evaluated only when the live engine cannot be
        used.
        """
        found, owner = self._find_base(), self.log.owner
        return None if found is None else CellLog(found, owner.fingerprint, owner.format, owner.cut)

    def stats(self) -> dict[str, Any]:
        """Returns the engine's sizes and counters after the last batch."""
        return self.live.engine().stats()

    @property
    def segments(self) -> tuple[str, ...]:
        """Returns how the engine runs each part of the stages. See ``NativeRuntime``."""
        return self.live.engine().segments

    # -- the state before a batch -------------------------------------------------------------------------------------

    def _before(self, batch: int, report: Report) -> tuple[ProgramEngine, Place]:
        """Returns the engine as it was before ``batch``, and its place.

        No folder is listed if the live engine is at the batch before, the log contains that batch as it was applied,
        and ``batch`` is not in the log yet. Otherwise the engine is undone or restored.
        """
        live = self.live.found()
        if live is not None and self._is_next(live[1], batch):
            return live
        return self._looked_up(live, batch, report)

    def _is_next(self, place: Place, batch: int) -> bool:
        return (
            place.version == batch - 1 >= 0
            and place.digest == self.log.digest(place.version) != ""
            and not self.log.has(batch)
        )

    def _looked_up(
        self, live: tuple[ProgramEngine, Place] | None, batch: int, report: Report
    ) -> tuple[ProgramEngine, Place]:
        """Returns the same after listing all files of the log. O(files), and the changes to be replayed."""
        batches, snapshots = self.log.listed()
        versions = [EMPTY if self.base is None else BACKFILL, *batches, *snapshots]
        if max(versions) > batch:
            raise history.unstarted_batch_error(self.spark, batch, max(versions), self.log.cell, self.log.folder.parent)
        before = max(version for version in versions if version < batch)
        if live is not None and not self._usable(live[1], batches, snapshots):
            live = None
        history.check_next(self.log, before, batch, self.spark)
        if live is not None and live[1].version == batch:
            live, report.redone = self._undone(*live), True
        if live is None:
            live = self._restored([version for version in snapshots if version < batch])
            report.restored = 0
        engine, place = live
        for number in batches:
            if place.version < number < batch:
                place = self._replayed(engine, place, number)
                report.restored = max(report.restored, 0) + 1
        if place.version != before:
            raise history.lost_log_error(self.log, place.version)
        return engine, replace(place, load=self.log.weigh(before))

    def _usable(self, place: Place, batches: list[int], snapshots: list[int]) -> bool:
        """Returns False if the log has moved on without the live engine, which then cannot be used."""
        version = place.version
        if version in batches and place.digest == self.log.digest(version):
            return True
        if place.digest in self.log.forgotten():
            return False  # `crown state --rollback-to` went back to an earlier batch
        if version in batches:
            if version == max(batches):  # no later batch confirms that the log is right
                raise history.replaced_delta_error(self.log, version)
            return False
        if any(version < snapshot for snapshot in snapshots):
            return False  # another host went on, and the batches after this version may have been deleted
        if version not in (EMPTY if self.base is None else BACKFILL, *snapshots):
            raise history.lost_log_error(self.log, version)
        return True

    def _restored(self, snapshots: list[int]) -> tuple[ProgramEngine, Place]:
        """Returns an engine from the newest of these snapshots. Without one, returns the engine of the backfill, or an
        empty engine.
        """
        log, version = (self.log, snapshots[-1]) if snapshots else (self.base, BACKFILL)
        if log is None:
            engine, place = self.live.created(), Place(EMPTY, "", _NOTHING)
            self.live.settle(engine, place)
            return engine, place
        source = log.snapshot_path(version)
        try:
            with log.snapshot(version) as path:
                engine, extra = self.live.loaded(path)
        except SnapshotError as error:
            raise DamagedStateError(
                f"cell {self.log.cell}: the snapshot {source} cannot be used ({error}). Restore it from a copy; or "
                "delete it, if an older snapshot and every later delta still exist"
            ) from None
        place = Place(version, log.demand_mark(source, extra, version), _NOTHING)
        self.live.settle(engine, place)
        return engine, place

    def _replayed(self, engine: ProgramEngine, place: Place, number: int) -> Place:
        link = self.log.read(number)
        self.log.demand_next(link, place.version, place.digest)
        engine.begin()
        engine.update(link.changes)
        return self._finish(engine, link, _NOTHING)

    def _undone(self, engine: ProgramEngine, place: Place) -> tuple[ProgramEngine, Place] | None:
        """Returns the engine without its last batch, or None if the engine no longer knows what that batch replaced."""
        link = self.log.read(place.version)
        engine.begin()
        try:
            engine.undo(link.changes)
        except UnusableStateError:
            return None
        before = Place(link.prev, link.parent or self.log.digest(link.prev), _NOTHING)
        self.live.settle(engine, before)
        return engine, before

    def _snapshot(self, engine: ProgramEngine, place: Place) -> None:
        """Writes a snapshot of the engine. The engine is marked dirty meanwhile, because saving may compact the arena
        first.
        """
        engine.begin()
        mark = self.log.mark(place.version, place.digest)
        self.log.write_snapshot(place.version, lambda path: engine.save(path, mark))
        taken = Load(self.log.snapshot_size(place.version), 0)
        self.live.settle(engine, replace(place, load=taken))

    def _finish(self, engine: ProgramEngine, link: Link, load: Load) -> Place:
        """Marks the engine clean after a batch."""
        place = Place(link.batch, link.digest, load)
        self.live.settle(engine, place)
        return place

    @staticmethod
    def _timed(output: Iterator[pa.RecordBatch], report: Report) -> Iterator[pa.RecordBatch]:
        while True:
            started = time.perf_counter()
            batch = next(output, None)
            report.apply_ms += _since(started)
            if batch is None:
                return
            report.deltas += batch.num_rows
            yield batch


def _since(started: float) -> float:
    return 1000.0 * (time.perf_counter() - started)
