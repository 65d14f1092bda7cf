"""The open folder of a durable view, where each batch is logged before it takes effect.

    lock             locked while the view is open
    meta.json        the identity of the view (``crown.durable.identity``)
    acknowledged     the numbers of acknowledged and synced batches (``Mark``)
    n.snapshot       the view after batch n (``View.save``)
    n.log            batches n + 1, n + 2, ... (``crown.durable.segment``)

A batch is written after it has been applied completely and before it is committed; if the write fails, the batch is
undone. When the log since the newest snapshot is larger than the snapshot, another snapshot is written, so snapshots
cost O(1) per logged byte. Then files that no recovery needs are deleted; ``keep`` snapshots before the newest are kept,
with the log since. No snapshot is written of state that was mapped from a damaged one, because the new checksum would
hide the damage.
"""

from __future__ import annotations

import os
import struct
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from crown.durable.files import Lock, open_small, sync
from crown.durable.identity import Identity
from crown.durable.recovery import Kind, Recovered, Recovery, history, numbers, past
from crown.durable.segment import Segment, Tables
from crown.errors import CrownError, DamagedStateError, NotDurableError, SnapshotError
from crown.options import Sync
from crown.programs.snapshot import demand_whole

NAME = "acknowledged"
_NUMBERS = struct.Struct("<qq")


class Mark:
    """The file ``acknowledged`` of a folder, open for writing."""

    def __init__(self, folder: Path) -> None:
        self._handle = open_small(folder / NAME)

    def read(self) -> tuple[int, int] | None:
        """Returns the numbers of batches acknowledged and synced; None if they cannot be read."""
        return _read(os.pread(self._handle, _NUMBERS.size + 5, 0))

    def write(self, acknowledged: int, synced: int) -> None:
        """Writes both numbers. O(1); not synced."""
        numbers = _NUMBERS.pack(acknowledged, synced)
        os.pwrite(self._handle, numbers + _crc(numbers), 0)

    def close(self, sync: bool = True) -> None:
        """Closes the file, after a sync if ``sync``; does nothing the second time."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            try:
                if sync:
                    os.fsync(handle)
            finally:
                os.close(handle)


def noted(folder: Path) -> tuple[int, int] | None:
    """Returns the mark of a folder, which another process may be writing; None if it cannot be read."""
    for _ in range(3):  # the file may be overwritten meanwhile
        try:
            found = _read((folder / NAME).read_bytes())
        except OSError:
            return None
        if found is not None:
            return found
    return None


def _read(data: bytes) -> tuple[int, int] | None:
    if len(data) != _NUMBERS.size + 4:
        return None
    numbers = data[: _NUMBERS.size]
    if data[_NUMBERS.size :] != _crc(numbers):
        return None
    acknowledged, synced = _NUMBERS.unpack(numbers)
    return acknowledged, synced


def _crc(numbers: bytes) -> bytes:
    return struct.pack("<I", zlib.crc32(numbers))


E = TypeVar("E")


class Journal:
    """A locked folder, with the log open for appending. Made by ``crown.durable.opening``."""

    def __init__(self, folder: Path, identity: Identity, lock: Lock, mark: Mark, sync: Sync, keep: int) -> None:
        self.folder = folder
        self.identity = identity
        self.batches = 0
        self.synced = 0
        self.logged = 0  # bytes since the newest snapshot
        self._snapshot_bytes = 0
        self._mapped: Path | None = None  # the snapshot whose checksum was not verified
        self._postponed = 0  # log size at which a snapshot that could not be written is tried again
        self._lock = lock
        self._mark = mark
        self._sync = sync
        self._keep = keep
        self._last_sync = time.monotonic()
        self._segment: Segment | None = None
        self._process = os.getpid()
        self._refusal = ""

    def begin(self) -> None:
        """Creates the log and the identity of a new view."""
        self._segment = Segment.create(self.folder / "0.log", self.identity.view, 0)
        self._mark.write(0, 0)
        self.identity.write(self.folder)

    def recover(self, kind: Kind[E], repair: bool) -> Recovered[E]:
        """Recovers the state of the folder, and opens the log at its end. See ``crown.durable.recovery``."""
        found = Recovery(self.folder, self.identity, self._mark.read(), repair, kind).run()
        path = self.folder / f"{found.base}.log"
        if found.end is None:
            self._segment = Segment.create(path, self.identity.view, found.base)
        else:
            self._segment = Segment(path, self.identity.view, found.end)
            self._segment.cut(found.end)
            self._segment.sync()
        snapshots = numbers(self.folder, "snapshot")
        self._snapshot_bytes = self._size(snapshots[-1]) if snapshots else 0
        self._mapped = self.folder / f"{snapshots[-1]}.snapshot" if snapshots and not kind.verify else None
        self.logged = self._logged_since(snapshots[-1] if snapshots else 0)
        self.batches = self.synced = found.batches
        self._mark.write(self.batches, self.synced)
        return found

    def past(self, kind: Kind[E], batch: int) -> E:
        """Returns the engine as it was after a batch, in memory. Raises the errors of
        ``crown.durable.recovery.past``.
        """
        if not 0 <= batch <= self.batches:
            raise CrownError(f"batch {batch}: {self.folder} has had {self.batches} batches; give 0 to {self.batches}")
        return past(self.folder, self.identity.view, kind, batch)

    def history(self) -> list[tuple[int, Any]]:
        """Returns the batches that are in the log, the oldest first, each with its note. O(bytes of the log)."""
        return history(self.folder, self.identity.view)

    def moved(self, folder: Path) -> None:
        """Continues under the name that the folder was given. The open files are the same."""
        assert self._segment is not None
        self.folder, self._segment.path = folder, folder / self._segment.path.name
        self._mapped = None if self._mapped is None else folder / self._mapped.name

    # -- a batch -------------------------------------------------------------------------------------------------------

    def check_writable(self) -> None:
        """Raises NotDurableError if nothing can be written here any more."""
        if self._refusal:
            raise NotDurableError(self._refusal)
        if os.getpid() != self._process:
            raise NotDurableError(
                f"{self.folder} was opened by process {self._process}, and this is another process: use the view only "
                "in the process that opened it"
            )

    def append(self, tables: Tables, more: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Writes the next batch to the log; when this returns, the batch is durable. Raises NotDurableError if it could
        not be written.

        ``more``: further fields of the batch's header, as JSON.
        """
        self.check_writable()
        assert self._segment is not None
        try:
            size = self._segment.append(self.batches + 1, tables, more)
        except OSError as error:
            raise NotDurableError(
                f"the batch could not be written to {self._segment.path} ({error.strerror}) and was not applied; make "
                "room and apply it again"
            ) from None
        due = self._sync == "batch" or (
            isinstance(self._sync, float) and time.monotonic() - self._last_sync >= self._sync
        )
        if due:
            self._put_on_disk()
        self.batches += 1
        self.logged += size
        if due:
            self.synced = self.batches
        self._mark.write(self.batches, self.synced)

    def sync(self) -> None:
        """Syncs all batches to disk, regardless of ``sync=``."""
        self.check_writable()
        self._put_on_disk()
        self.synced = self.batches
        self._mark.write(self.batches, self.synced)

    def _put_on_disk(self) -> None:
        assert self._segment is not None
        try:
            self._segment.sync()
        except OSError as error:  # it is unknown which bytes are on disk, and another sync would not tell
            self._refusal = (
                f"{self._segment.path} could not be synced to the disk ({error.strerror}): the view takes no more "
                "batches. Close it and open it again; it then has all batches that were acknowledged"
            )
            raise NotDurableError(self._refusal) from None
        self._last_sync = time.monotonic()

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def due(self, floor: int) -> bool:
        """Returns True when the log since the newest snapshot outweighs it, or ``floor`` bytes, whichever is more."""
        return self.logged > max(floor, self._snapshot_bytes, self._postponed)

    def postpone(self) -> None:
        """Delays the next snapshot until the log is a quarter larger, because each attempt costs as much as the
        state.
        """
        self._postponed = self.logged + self.logged // 4

    def snapshot(self, save: Callable[[Path], object]) -> None:
        """Writes a snapshot and starts a new log file; deletes files that no recovery needs. ``save`` writes the
        snapshot file.

        Raises SnapshotError or OSError if it cannot be written, DamagedStateError if the state was mapped from a
        damaged snapshot; the view continues without it.
        """
        self.check_writable()
        assert self._segment is not None
        if numbers(self.folder, "snapshot")[-1:] == [self.batches]:
            return
        self._segment.sync()  # so that the log before the snapshot is complete
        self.write(self.batches, save)
        self.cut()
        self.count()

    def cut(self) -> None:
        """Starts a new log file, so that a snapshot of the last batch may be written later."""
        self.sync()
        assert self._segment is not None
        if self._segment.path != self.folder / f"{self.batches}.log":
            made = Segment.create(self.folder / f"{self.batches}.log", self.identity.view, self.batches)
            self._segment.close()
            self._segment = made

    def write(self, batch: int, save: Callable[[Path], object]) -> None:
        """Writes the snapshot of a batch at which a log file ends, in any thread; ``count`` then takes it into account.
        Raises the errors of ``snapshot``.
        """
        if self._mapped is not None and self._mapped.exists():
            _check_complete(self._mapped)
        save(self.folder / f"{batch}.snapshot")
        sync(self.folder)

    def count(self) -> None:
        """Counts the bytes since the newest snapshot, and deletes files that no recovery needs."""
        for newest in numbers(self.folder, "snapshot")[-1:]:
            self.logged, self._snapshot_bytes, self._postponed = self._logged_since(newest), self._size(newest), 0
            self._retain()

    def _logged_since(self, batch: int) -> int:
        files = [self.folder / f"{base}.log" for base in numbers(self.folder, "log") if base >= batch]
        return sum(file.stat().st_size for file in files)

    def _retain(self) -> None:
        snapshots = numbers(self.folder, "snapshot")
        if len(snapshots) <= self._keep:
            return
        oldest = snapshots[-1 - self._keep]
        for kind in ("snapshot", "log"):
            for number in numbers(self.folder, kind):
                if number < oldest:
                    (self.folder / f"{number}.{kind}").unlink(missing_ok=True)

    def _size(self, version: int) -> int:
        return (self.folder / f"{version}.snapshot").stat().st_size

    # -- the end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Syncs everything to disk and unlocks the folder; does nothing the second time."""
        segment, self._segment = self._segment, None
        failed = bool(self._refusal)
        self._refusal = self._refusal or f"this view of {self.folder} is closed; crown.open it again"
        if os.getpid() != self._process:
            return  # the descriptors are shared with the process that uses them
        try:
            if segment is not None and not failed:
                segment.sync()
                self._mark.write(self.batches, self.batches)
        finally:
            if segment is not None:
                segment.close()
            self._mark.close(sync=not failed)
            self._lock.release()


def _check_complete(path: Path) -> None:
    """Raises DamagedStateError if the snapshot that was mapped is not as it was written. O(bytes)."""
    try:
        demand_whole(path)
    except SnapshotError as error:
        raise DamagedStateError(
            f"{error}, and the state was mapped from it, so no other snapshot is written. Close the folder and open it "
            "with verify=True, which continues with the files that are not damaged"
        ) from None
