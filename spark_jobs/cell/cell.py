"""One cell: its live engine, its log, and the protocol that applies every batch exactly once.

For batch ``b`` (the state before it is version ``v``, the last batch this cell had):

1. Lock the live engine: an attempt that Spark gave up on may still be writing it.
2. It says "b, clean": ``b`` was applied before (a retry, a restart, a plan that Spark runs twice). Take it back by
   applying the stored input with negated weights, and go on at 4. The engine is invertible, so that costs O(Δ).
3. It says "v, clean", and v is the batch before b: go on, without a look at more than two files of the log. Anything
   else (dirty, absent, older, newer): newest snapshot before ``b``, then replay the log. A hole in the chain, and a
   link of another history, is an error that names cell and batch; so is a batch that Spark executed and this cell has
   not, or the other way round (``spark_jobs.log.history``).
4. Mark dirty; check and code the input, and set aside what the state refuses of it; publish ``b.delta``, apply while
   the output leaves in batches, mark clean at ``b``. A crash in between leaves "dirty", hence 3 next time.
5. Take a snapshot when the log outweighs the last one; delete what no replay can need.

A batch for which there is no room (``Limits``, the disk) is refused at 4 and taken back: its changes are in the log, as
those of a batch that was stopped in between, and it is executed again when the job goes on with more room.

No Spark here: ``spark_jobs.operator`` calls it inside a task.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from crown.errors import ChangeError, MemoryBudgetError, SnapshotError, UnusableStateError
from crown.programs.program import ProgramEngine
from plans.program import Program
from spark_jobs.cell.limits import NONE, Limits
from spark_jobs.cell.live import Live, Place
from spark_jobs.cell.quarantine import Refused, without
from spark_jobs.cell.spill import bounded, demand_disk
from spark_jobs.errors import DamagedStateError
from spark_jobs.log import history
from spark_jobs.log.delta_file import Changes, Link
from spark_jobs.log.state_log import BACKFILL, EMPTY, CellLog, Load, weight
from spark_jobs.storage.folder import Folder
from spark_jobs.storage.opening import folder_at

Deltas = Generator[pa.RecordBatch, None, None]

SNAPSHOT_FLOOR = 4 << 20  # load of the log below which no snapshot is worth its fsync
_NOTHING = Load(0, 0)


@dataclass
class Report:
    """What one batch did to one cell; what the driver reads of it."""

    rows: int = 0
    deltas: int = 0
    restored: int = -1  # batches replayed, -1 if the live engine could be used as it was
    redone: bool = False
    prepare_ms: float = 0.0
    log_ms: float = 0.0
    apply_ms: float = 0.0
    snapshot_ms: float = 0.0
    resident: int = -1  # bytes of the live engine in memory, -1 if they have no limit
    spilled: int = 0  # bytes that were given back meanwhile


class Cell:
    """The state of one cell of a maintained query.

    ``program``: what the cell's engine runs; ``log``: where its history is kept; ``live``: a host-local folder for the
    mapped engine; ``base``: finds the cell's folder of a backfill, or None; ``keep``: how many batches back Spark may
    replay; ``spark``: the folder where Spark's checkpoint of the stream would be, or None; ``limits``: how large the
    state may get, and how much of it may be in memory; ``aside``: takes the rows that only the state shows to be bad
    (late ones, those that break an enforced key), by relation; None: they refuse their batch.
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
        """Applies batch ``batch`` exactly once; yields its deltas, or ``ranges`` of them. ``report`` is filled in as
        the work goes on.

        If the consumer stops early, the batch is still applied in full. Raises ``CheckpointError`` and its kin when the
        state is not what it should be, ``ChangeError`` (nothing applied) when the changes cannot be taken,
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
        report.resident, report.spilled = spilled.resident, spilled.gone

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
        """Applies a batch to the engine, which is at the ``place`` before it; yields the deltas, returns the new
        place."""
        started = time.perf_counter()
        engine.begin()  # before prepare: that may already write new strings into the arena
        mine = Link(batch, place.version, dict(changes), place.digest)
        try:
            prepared = engine.prepare(mine.changes, strict=self._aside is None)
            if self._aside is not None and prepared.bad:  # they are kept before anything of the batch is
                self._aside(prepared.bad)
                mine = replace(mine, changes=without(mine.changes, prepared.bad))
            report.prepare_ms = _since(started)
            started = time.perf_counter()
            link, first = self.log.publish(mine)
            if first:
                load = replace(place.load, logged=place.load.logged + weight(link.size))
            else:  # go by the log's order of rows, for that is what undo will go by
                prepared = engine.prepare(link.changes)
                load = self.log.weigh(batch)
            report.log_ms = _since(started)
            started = time.perf_counter()
            output = cast(Deltas, engine.run(prepared, consolidate=consolidate, ranges=ranges))
            report.apply_ms = _since(started)
            report.rows = prepared.rows
            try:
                yield from self._timed(output, report)
            except GeneratorExit:  # the consumer has enough (limit); the engine applies the rest without output
                output.close()
                self._finish(engine, link, load)
                raise
        except ChangeError:  # refused; the engine has taken back what it had applied
            self.live.settle(engine, place)
            raise
        except MemoryBudgetError as error:
            self.live.settle(engine, place)
            raise self.limits.refusal(self.log.cell, batch, engine, error) from None
        return self._finish(engine, link, load)

    @cached_property
    def base(self) -> CellLog | None:
        """Returns what a backfill has left for the cell; it is looked for when the live engine cannot be used."""
        found, owner = self._find_base(), self.log.owner
        return None if found is None else CellLog(found, owner.fingerprint, owner.format, owner.cut)

    def stats(self) -> dict[str, Any]:
        """Returns the engine's sizes and counters after the last batch."""
        return self.live.engine().stats()

    # -- the state before a batch -------------------------------------------------------------------------------------

    def _before(self, batch: int, report: Report) -> tuple[ProgramEngine, Place]:
        """Returns the engine as it was before ``batch``, and its place: by doing nothing, by undoing, or by
        restoring.

        Nothing is to be done, and no folder is listed, if the live engine is at the batch before, which is in the log
        as it was applied, and ``batch`` is not there yet.
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
        """Returns the same by a look at all that is in the log. O(files), and the changes that are to be replayed."""
        batches, snapshots = self.log.listed()
        versions = [EMPTY if self.base is None else BACKFILL, *batches, *snapshots]
        if max(versions) > batch:
            raise history.ahead(self.spark, batch, max(versions), self.log.cell, self.log.folder.parent)
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
            raise history.lost(self.log, place.version)
        return engine, replace(place, load=self.log.weigh(before))

    def _usable(self, place: Place, batches: list[int], snapshots: list[int]) -> bool:
        """Returns False if the log has gone on without the live engine, which is then of no use."""
        version = place.version
        if version in batches and place.digest == self.log.digest(version):
            return True
        if place.digest in self.log.forgotten():
            return False  # `crown state --rollback-to` went back behind it
        if version in batches:
            if version == max(batches):  # nothing that follows says that the log is right
                raise history.replaced(self.log, version)
            return False
        if any(version < snapshot for snapshot in snapshots):
            return False  # another host went on, and what follows this version may no longer be kept
        if version not in (EMPTY if self.base is None else BACKFILL, *snapshots):
            raise history.lost(self.log, version)
        return True

    def _restored(self, snapshots: list[int]) -> tuple[ProgramEngine, Place]:
        """Returns an engine from the newest of these snapshots; the empty engine, or the backfill, if there is none
        yet."""
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
                f"cell {self.log.cell}: the snapshot {source} cannot be used ({error}). Put it back from a copy; "
                "or, if an older snapshot and every delta since are still there, delete it"
            ) from None
        place = Place(version, log.demand_mark(source, extra, version), _NOTHING)
        self.live.settle(engine, place)
        return engine, place

    def _replayed(self, engine: ProgramEngine, place: Place, number: int) -> Place:
        link = self.log.read(number)
        self.log.demand_next(link, place.version, place.digest)
        engine.begin()
        for _ in engine.run(engine.prepare(link.changes), deltas=False):
            pass
        return self._finish(engine, link, _NOTHING)

    def _undone(self, engine: ProgramEngine, place: Place) -> tuple[ProgramEngine, Place] | None:
        """Returns the engine without its last batch; None if it does not know any more what that replaced."""
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
        """Writes the engine down. Dirty meanwhile, since that may tidy the arena first."""
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
    def _timed(output: Deltas, report: Report) -> Iterator[pa.RecordBatch]:
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
