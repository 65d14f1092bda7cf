"""The folders that a job is given: of this host, not of a file system that cannot be served, and fit to be written.

The command line and the API ask here, so that both say the same, before anything is made.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlparse

from spark_jobs.errors import CheckpointError, FolderError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
LOCK = ".crown.lock"
"""The file by which a folder is held."""


def scheme_of(path: str) -> str | None:
    """Returns the scheme of a URI of another file system than this host's; None for a path or a ``file:`` URI."""
    found = _SCHEME.match(path)
    return None if found is None or found[1].lower() == "file" else found[1]


def local_folder(path: str | Path, option: str = "checkpoint") -> Path:
    """Returns a path as it stands, or that of a ``file:`` URI. ``option``: what the user calls it.

    Raises :class:`FolderError` for any other URI, with the reason: no folder is ever called ``s3a:``.
    """
    text = str(path)
    scheme = scheme_of(text)
    if scheme is not None:
        raise FolderError(
            f"{option} {text}: a file system behind {scheme}: cannot be served, because files appear by atomic links "
            f"here; give a local or network-mounted folder (./{text} if one is called so)"
        )
    if _SCHEME.match(text) is None:
        return Path(text).expanduser().resolve()
    parts = urlparse(text)
    if parts.netloc not in ("", "localhost"):
        raise FolderError(
            f"{option} {text}: a file: URI names a folder of this host, but this one names the host {parts.netloc}; "
            "write file:///folder"
        )
    return Path(unquote(parts.path)).resolve()


def usable(folder: Path, option: str) -> None:
    """Makes the folder if it is not there. Raises :class:`FolderError` if it cannot be, or cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (FileExistsError, NotADirectoryError):
        raise FolderError(f"{option} {folder}: it is a file, or below one; give a folder") from None
    except OSError as error:
        raise FolderError(f"{option} {folder} cannot be written ({error.strerror}): give another folder") from None


@contextmanager
def held(folder: Path, what: str = "checkpoint") -> Iterator[None]:
    """Holds a checkpoint, or an output, as long as a job runs. Raises :class:`CheckpointError` if another job holds
    it."""
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
    """Raises :class:`CheckpointError` if a job of another process holds the checkpoint; does not hold it."""
    try:
        handle = os.open(checkpoint / LOCK, os.O_RDONLY)
    except OSError:
        return  # nobody ever held it
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
        f"another job (process {owner}) is running on the {what} {folder}: wait for its end, or give this one a {what} "
        "of its own"
    )
