"""One cell: its live engine, its log, and the protocol that applies every batch exactly once.

For batch ``b`` (the state before it is version ``v``, the last batch this cell had):

1. Lock the live engine: an attempt that Spark gave up on may still be writing it.
2. It says "b, clean": ``b`` was applied before (a retry, a restart, a plan that Spark runs twice). Take it back by
   applying the stored input with negated weights, and go on at 4. The engine is invertible, so that costs O(Δ).
3. It says "v, clean": go on, O(1). Anything else (dirty, absent, older, newer): newest snapshot before ``b``, then
   replay the log. A hole in the chain is an error that names cell and batch; so is a batch that Spark executed and
   this cell has not, or the other way round (``spark_jobs.cell.history``).
4. Mark dirty; check and code the input; publish ``b.delta``, apply while the output leaves in batches, mark clean at
   ``b``. A crash in between leaves "dirty", hence 3 next time.
5. Take a snapshot when the log outweighs the last one; delete what no replay can need.

No Spark here: ``spark_jobs.operator`` calls it inside a task.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from crown.errors import ChangeError, SnapshotError
from crown.ingest.batch import MissingDeletes
from crown.maintained import Durable
from plans.program import Maintainable
from spark_jobs.cell import history
from spark_jobs.cell.delta_file import Changes, Link
from spark_jobs.cell.engines import QUERY, EngineFactory
from spark_jobs.cell.state_log import BACKFILL, EMPTY, CellLog
from spark_jobs.errors import BrokenChainError, CheckpointError, DamagedStateError

Deltas = Generator[pa.RecordBatch, None, None]

LOCK_SECONDS = 300.0
SNAPSHOT_FLOOR = 4 << 20  # bytes of log below which no snapshot is worth its fsync

_attached: dict[Path, tuple[tuple[int, int, str], Durable]] = {}
"""Engines this process has mapped, by path, with the file they are a mapping of and their ``on_missing``.

Bounded; see ``_remember``.
"""


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


class Cell:
    """The state of one cell of a maintained query.

    ``plan``: the plan of the cell's engine; ``log``: where its history is kept; ``live``: a host-local folder for the
    mapped engine; ``engines``: what engine that is; ``base``: the snapshot of a backfill, or None; ``keep``: how many
    batches back Spark may replay; ``spark``: the folder where Spark's checkpoint of the stream would be, or None.
    """

    def __init__(
        self,
        plan: Maintainable,
        log: CellLog,
        live: Path,
        *,
        engines: EngineFactory = QUERY,
        base: Path | None = None,
        keep: int = 100,
        spark: Path | None = None,
        on_missing: str = "ignore",
        snapshot_floor: int = SNAPSHOT_FLOOR,
    ) -> None:
        self.plan = plan
        self.log = log
        self.live = live
        self.engines = engines
        self.base = base
        self.keep = keep
        self.spark = spark
        self.on_missing = on_missing
        self.snapshot_floor = snapshot_floor
        self._arena = live / "engine.arena"
        self._holds = engines.fingerprint(plan)
        self._missing = live / "clamps.json"

    def apply(self, batch: int, changes: Changes, report: Report, consolidate: bool | None) -> Iterator[pa.RecordBatch]:
        """Applies batch ``batch`` exactly once; yields its deltas. ``report`` is filled in as the work goes on.

        If the consumer stops early, the batch is still applied in full. Raises ``CheckpointError`` and its kin when the
        state is not what it should be, ``ChangeError`` (nothing applied) when the changes cannot be taken.
        """
        with self._locked():
            engine, version = self._before(batch, report)
            started = time.perf_counter()
            engine.begin()  # before prepare: that may already write new strings into the arena
            mine = Link(batch, version, dict(changes))
            try:
                prepared = engine.prepare(mine.changes)
                report.prepare_ms = _since(started)
                started = time.perf_counter()
                link = self.log.publish(mine)
                if link is not mine:  # go by the log's order of rows, for that is what undo will go by
                    prepared = engine.prepare(link.changes)
                report.log_ms = _since(started)
                started = time.perf_counter()
                output = cast(Deltas, engine.run(prepared, consolidate=consolidate))
                report.apply_ms = _since(started)
            except ChangeError:
                _commit(engine, version)  # refused before anything was applied
                raise
            report.rows = prepared.rows
            try:
                yield from self._timed(output, report)
            except GeneratorExit:  # the consumer has enough (limit); the engine applies the rest without output
                output.close()
                self._finish(engine, batch)
                raise
            except ChangeError:  # refused on the way; the engine has taken back what it had applied
                _commit(engine, version)
                raise
            self._finish(engine, batch)
            started = time.perf_counter()
            if self.log.snapshot_due(self.snapshot_floor):
                self._snapshot(engine, batch)
                self.log.retain(batch, self.keep)
                report.snapshot_ms = _since(started)

    def stats(self) -> dict[str, Any]:
        """Returns the engine's sizes and counters after the last batch."""
        return self._engine().stats()

    # -- the state before a batch -------------------------------------------------------------------------------------

    def _before(self, batch: int, report: Report) -> tuple[Durable, int]:
        """Returns the engine as it was before ``batch``, and its version: by doing nothing, by undoing, or by
        restoring."""
        batches, snapshots = self.log.batches(), self.log.snapshots()
        versions = [EMPTY if self.base is None else BACKFILL, *batches, *snapshots]
        if max(versions) > batch:
            raise history.ahead(self.spark, batch, max(versions), self.log.cell, self.log.folder.parent)
        before = max(version for version in versions if version < batch)
        engine = self._usable()
        if engine is not None and _version(engine) not in batches:
            if any(_version(engine) < version < batch for version in snapshots):
                engine = None  # another host went on, and what follows this version may no longer be kept
            elif _version(engine) not in versions:
                raise history.lost(self.log, _version(engine))
        history.check_next(self.log, before, batch, self.spark)
        if engine is not None and _version(engine) == batch:
            self._undo(engine, batch)
            report.redone = True
        if engine is None:
            engine = self._restored([version for version in snapshots if version < batch])
            report.restored = 0
        for number in batches:
            if _version(engine) < number < batch:
                self._replay(engine, number)
                report.restored = max(report.restored, 0) + 1
        if _version(engine) != before:
            raise history.lost(self.log, _version(engine))
        return engine, before

    def _usable(self) -> Durable | None:
        try:
            engine = self._engine()
        except (SnapshotError, FileNotFoundError):
            return None  # absent, torn or foreign: the log rebuilds it
        return engine if engine.clean else None

    def _engine(self) -> Durable:
        """Returns the live engine: the mapping this process already has of the same file, or a new one. O(1)."""
        known = _attached.get(self._arena)
        if known is not None and known[0] == self._identity() and known[1].fingerprint == self._holds:
            return known[1]
        return self._remember(self.engines.attach(self.plan, self._arena, self.on_missing))

    def _identity(self) -> tuple[int, int, str]:
        status = os.stat(self._arena)
        return status.st_dev, status.st_ino, self.on_missing

    def _remember(self, engine: Durable) -> Durable:
        _attached.pop(self._arena, None)
        while len(_attached) >= 32:
            _attached.pop(next(iter(_attached)))
        _attached[self._arena] = (self._identity(), engine)
        return engine

    def _restored(self, snapshots: list[int]) -> Durable:
        """Returns an engine from the newest of these snapshots; the empty engine, or the backfill, if there is none
        yet."""
        _attached.pop(self._arena, None)
        source = self.log.snapshot_path(snapshots[-1]) if snapshots else self.base
        if source is None:
            engine = self.engines.create(self.plan, self._arena, self.on_missing)
            _commit(engine, EMPTY)
            return self._remember(engine)
        try:
            engine, extra = self.engines.load(source, self.plan, self._arena, self.on_missing)
        except SnapshotError as error:
            raise DamagedStateError(
                f"cell {self.log.cell}: the snapshot {source} cannot be used ({error}). Put it back from a copy; "
                "or, if an older snapshot and every delta since are still there, delete it"
            ) from None
        version = snapshots[-1] if snapshots else BACKFILL
        wanted = (self.log if snapshots else CellLog(source.parent, self.log.owner.fingerprint)).mark(version)
        found = {**wanted, "version": None, **extra}  # older snapshots name neither cell nor stream
        if any(found[key] != value for key, value in wanted.items()):
            raise DamagedStateError(
                f"the snapshot {source} is of version {found['version']} of cell {found['cell']} of stream "
                f"{found['stream']}: it was copied or renamed. Put the right one back from a copy, or start with a new "
                "checkpoint"
            )
        _commit(engine, version)
        return self._remember(engine)

    def _replay(self, engine: Durable, number: int) -> None:
        link = self.log.read(number)
        if link.batch != number or link.prev != _version(engine):
            raise BrokenChainError(
                f"cell {self.log.cell}: batch {number} follows batch {link.prev}, but the state before it is that "
                f"of batch {_version(engine)}: a delta or a snapshot is missing in {self.log.folder}. Put it back "
                "from a copy, or start with a new checkpoint"
            )
        engine.begin()
        for _ in engine.run(engine.prepare(link.changes), deltas=False):
            pass
        self._finish(engine, number)

    def _undo(self, engine: Durable, batch: int) -> None:
        link = self.log.read(batch)
        missing = MissingDeletes.from_rows(json.loads(self._missing.read_text()))
        engine.begin()
        engine.undo(link.changes, missing)
        _commit(engine, link.prev)

    def _snapshot(self, engine: Durable, batch: int) -> None:
        """Writes the engine down. Dirty meanwhile, since that may tidy the arena first."""
        engine.begin()
        self.log.write_snapshot(batch, lambda path: engine.save(path, self.log.mark(batch)))
        _commit(engine, batch)

    def _finish(self, engine: Durable, batch: int) -> None:
        """Writes down what undoing would need, then mark the engine clean at ``batch``."""
        self._missing.write_text(json.dumps(engine.missing.to_rows()))
        _commit(engine, batch)

    # -- who may touch it ---------------------------------------------------------------------------------------------

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Holds the live engine alone; the lock goes with the process that held it."""
        self.live.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.live / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            deadline = time.monotonic() + LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        owner = os.pread(handle, 32, 0).decode(errors="replace") or "unknown"
                        raise CheckpointError(
                            f"cell {self.log.cell} has been held by process {owner} for {LOCK_SECONDS:.0f} s: if "
                            "that is a worker of a killed attempt, end it"
                        ) from None
                    time.sleep(0.01)
            os.truncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(handle)

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


def _version(engine: Durable) -> int:
    return engine.version - 1  # the engine counts from −1, the log from EMPTY = −2


def _commit(engine: Durable, version: int) -> None:
    engine.commit(version + 1)


def _since(started: float) -> float:
    return 1000.0 * (time.perf_counter() - started)
