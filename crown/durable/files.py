"""What durability asks of a file system: bytes that are on the disk, names that are, and a folder that one process has.

A file is on the disk once it was synced, its name once the folder was. A name is given in one step (rename), so that a
file is there whole or not at all.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from crown.errors import LockedStateError, SnapshotError

try:
    import fcntl
except ImportError:  # pragma: no cover - a system without POSIX locks
    fcntl = None  # type: ignore[assignment]


def write_durably(path: Path, data: bytes) -> None:
    """Writes a file, replaced in one step; when this returns, its bytes and its name are on the disk.

    Raises OSError if that fails.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def sync_folder(folder: Path) -> None:
    """Puts the names in a folder on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Lock:
    """A folder, held by this object alone: in this process and among all. The system lets go when the process ends."""

    def __init__(self, folder: Path) -> None:
        if fcntl is None:  # pragma: no cover
            raise SnapshotError("crown.open needs a system with POSIX file locks; use View.save and crown.load here")
        path = folder / "lock"
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(handle, 32, 0).decode(errors="replace").strip()
            os.close(handle)
            who = "this process" if owner == str(os.getpid()) else f"process {owner or 'unknown'}"
            raise LockedStateError(
                f"{folder} is open already, in {who}: close() that view first; two views cannot write one state"
            ) from None
        except OSError as error:
            os.close(handle)
            raise SnapshotError(f"cannot lock {path}: {error.strerror}; keep the state on a local disk") from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        self._handle = handle

    def release(self) -> None:
        """Lets go of the folder, also for forked processes; does nothing the second time."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            fcntl.flock(handle, fcntl.LOCK_UN)
            os.close(handle)
