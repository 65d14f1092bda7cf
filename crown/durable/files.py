"""File system operations for durability: synced bytes, synced names, and a folder locked by one process.

A file is on disk once it was synced, its name once its folder was. A name is created atomically, by a rename or, if it
must be new, by a link; so a file exists completely or not at all. Files written here are readable by their owner only.
"""

from __future__ import annotations

import os
from pathlib import Path

from crown.errors import LockedStateError, SnapshotError
from crown.store.words_file import temporary

try:
    import fcntl
except ImportError:  # pragma: no cover - a system without POSIX locks
    fcntl = None  # type: ignore[assignment]

PRIVATE = 0o600


def write_durably(path: Path, data: bytes) -> None:
    """Writes a file atomically, replacing an existing one; when this returns, its bytes and its name are on disk.

    Raises OSError if that fails.
    """
    with temporary(path) as partial:
        _write(partial, data)
        os.replace(partial, path)
    sync(path.parent)


def create_durably(path: Path, data: bytes) -> bool:
    """Creates a file atomically. Returns False, and changes nothing, if it exists. Of several writers one wins.

    When this returns True, its bytes and its name are on disk. Raises OSError if that fails.
    """
    with temporary(path) as partial:
        _write(partial, data)
        try:
            os.link(partial, path)
        except FileExistsError:
            return False
    sync(path.parent)
    return True


def sync(path: Path) -> None:
    """Syncs the bytes of a file, or the names in a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(path: Path, data: bytes) -> None:
    """Writes a new file and syncs its bytes to disk."""
    with open(path, "xb") as file:
        os.fchmod(file.fileno(), PRIVATE)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def open_small(path: Path) -> int:
    """Returns the handle of a small file in a view's folder, created if it does not exist.

    Raises SnapshotError if it is a folder, or cannot be written.
    """
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SnapshotError(f"cannot open {path}: {error.strerror}; the view must be able to write it") from None


_LOCK = "lock"


def holder(folder: Path) -> int:
    """Returns the id of the process that has locked a folder; 0 if there is none, or if the system does not report it.

    Takes no lock, so another process can open the folder meanwhile.
    """
    try:
        inode = f":{(folder / _LOCK).stat().st_ino}"
        with open("/proc/locks", encoding="utf-8") as file:
            words = (line.split() for line in file)
            return next((int(held[4]) for held in words if held[1] == "FLOCK" and held[5].endswith(inode)), 0)
    except (OSError, ValueError, IndexError):
        return 0


class Lock:
    """An exclusive lock of a folder, within this process and among all processes. The system releases it when the
    process ends.
    """

    def __init__(self, folder: Path) -> None:
        if fcntl is None:  # pragma: no cover
            raise SnapshotError("crown.open needs a system with POSIX file locks; use View.save and crown.load here")
        path = folder / _LOCK
        handle = open_small(path)
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
        """Unlocks the folder, also for forked processes; does nothing the second time."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            fcntl.flock(handle, fcntl.LOCK_UN)
            os.close(handle)
