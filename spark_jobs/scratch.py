"""The directory of live engines on this host, one per Spark application, which may vanish at any time.

A live engine is a memory-mapped file, a cache that the state log can rebuild. It must not outlive the machine's memory:
after a power failure its header could say "clean" while its pages never reached the disk. So a directory belongs to one
Spark application, and no application opens the directory of another. The driver locks ``<name>.alive`` while it lives.
A directory whose lock is free belongs to a dead driver, and is removed when the next driver starts.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

from spark_jobs.errors import CheckpointError
from spark_jobs.folders import local_folder
from spark_jobs.storage.local import LocalFolder
from spark_jobs.storage.opening import ensure_writable

_held: dict[Path, IO[str]] = {}


def scratch_root(root: str | None = None) -> Path:
    """Returns ``root``, or ``crown-<user id>`` under the system's temporary directory. Creates it, accessible to this
    user only.
    """
    base = local_folder(root, "scratch") if root else Path(tempfile.gettempdir()) / f"crown-{os.getuid()}"
    if not base.is_dir():
        with suppress(OSError):
            base.mkdir(mode=0o700, parents=True)
    ensure_writable(LocalFolder(base), "scratch")
    if base.stat().st_uid != os.getuid():
        raise CheckpointError(f"scratch directory {base} belongs to another user: give another one with scratch=")
    return base


def claim(root: str | None, application: str) -> Path:
    """Returns the scratch directory of this application, created, locked by this process and removed when it exits.

    ``root``: see ``scratch_root``. Further calls cost nothing.
    """
    base = scratch_root(root)
    folder = (base / application).resolve()
    if folder in _held:
        return folder
    _sweep(base)
    lock = open(base / f"{application}.alive", "w")  # noqa: SIM115 - held until the process exits
    fcntl.flock(lock, fcntl.LOCK_EX)
    folder.mkdir(mode=0o700, exist_ok=True)
    _held[folder] = lock
    atexit.register(release, folder)
    return folder


def release(folder: Path) -> None:
    """Removes a claimed directory and releases its lock; does nothing for a directory that was released before."""
    lock = _held.pop(folder, None)
    if lock is None:
        return
    shutil.rmtree(folder, ignore_errors=True)
    Path(lock.name).unlink(missing_ok=True)
    lock.close()


def _sweep(base: Path) -> None:
    """Removes the directories of dead applications, whose locks are free."""
    for marker in base.glob("*.alive"):
        with open(marker, "a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue  # its driver is alive
            shutil.rmtree(marker.with_suffix(""), ignore_errors=True)
            marker.unlink(missing_ok=True)
