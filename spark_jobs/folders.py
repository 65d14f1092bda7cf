"""Checks the folders of a job: they must be on a supported file system, and writable.

The command line and the API share these checks, so their errors are the same. The checks run before anything is
created.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_jobs.errors import CheckpointError, FolderError
from spark_jobs.storage.address import Address, address, masked

LOCK = ".crown.lock"
"""The lock file of a folder."""


def local_folder(path: str | Path, option: str = "checkpoint") -> Path:
    """Returns a path as it is, or the path of a ``file:`` URI. ``option``: the user's name for it.

    Raises :class:`FolderError` for any other URI, with the reason.
    """
    found = address(path, option)
    if isinstance(found, Address):
        raise FolderError(
            f"{option} {masked(str(path))}: this must be a folder of this host, or one that is mounted here; only the "
            "state of a job, and a table that its cells write, can be on an object store: give a local folder, and "
            "state= (--state), or write_deltas() (--sink)"
        )
    return found


@contextmanager
def locked(folder: Path, what: str = "checkpoint") -> Iterator[None]:
    """Locks a checkpoint or an output while a job runs. Raises :class:`CheckpointError` if another job holds the
    lock.
    """
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise _taken(folder, _owner(handle), what) from None
        os.truncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def unclaimed(checkpoint: Path) -> None:
    """Raises :class:`CheckpointError` if a job of another process holds the checkpoint. Does not lock it."""
    try:
        handle = os.open(checkpoint / LOCK, os.O_RDONLY)
    except OSError:
        return  # no job ever locked it
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        owner = _owner(handle)
        if owner != str(os.getpid()):
            raise _taken(checkpoint, owner) from None
    finally:
        os.close(handle)


def _owner(handle: int) -> str:
    return os.pread(handle, 32, 0).decode(errors="replace") or "unknown"


def _taken(folder: Path, owner: str, what: str = "checkpoint") -> CheckpointError:
    return CheckpointError(
        f"another job (process {owner}) is running on the {what} {folder}: wait for its end, or give this one "
        f"another {what}"
    )
