"""Commits the files of a micro-batch to a table: all of them, once, by one process.

The cells have written to ``_attempts`` (``spark_jobs.tables.deltas.parts``); the driver knows which attempts won. The
table's log defines a commit: a transaction of a Delta table (``delta``), or a manifest (``manifests``). These rules
apply to both:

- The newest committed batch is read from the log. A batch that is in the log is not committed again, because it was
  executed twice. Any other batch than the next one is refused: table and checkpoint do not belong together.
- A file is moved into the table by a hard link, or by a copy within the object store; its name in ``_attempts`` is
  removed afterwards. So a file that remains in ``_attempts`` after the commit belongs to an attempt that lost, or to a
  driver that died, and is removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from spark_jobs.errors import ANEW, BrokenChainError, CheckpointError
from spark_jobs.folders import LOCK
from spark_jobs.storage.folder import Folder
from spark_jobs.storage.opening import folder_at
from spark_jobs.tables.deltas.parts import ATTEMPTS, Part

_NAME = re.compile(r"part-(\d+)-\w+-[0-9a-f]{32}\.parquet")
OURS = frozenset({ATTEMPTS, LOCK, "_crown.json"})
"""Names that may be in the folder of a table without batches."""


class Log(Protocol):
    """The log of a table of deltas."""

    def newest(self) -> int:
        """Returns the newest batch that is committed, −1 if there is none."""
        ...

    def commit(self, batch: int, parts: Sequence[Part]) -> None:
        """Commits a batch that follows the newest one, and moves its files into the table."""
        ...

    def holds(self, file: str) -> bool:
        """Returns True if a file, by its name in the table, belongs to a committed batch."""
        ...


class Commits:
    """The commits of one stream to the table in ``folder``, one after the other."""

    def __init__(self, folder: Folder | Path, log: Log) -> None:
        self.folder = folder_at(folder)
        self._log = log
        self._swept = False

    def commit(self, batch: int, parts: Sequence[Part]) -> bool:
        """Commits the files of a batch. Returns False if the batch was committed before; then its files are removed.

        Raises :class:`BrokenChainError` if batches before it are missing. Cost: that of the log, and a listing of
        ``_attempts``.
        """
        newest = self._log.newest()
        new = follows(self.folder, newest, batch)
        try:
            if not self._swept:
                self._sweep(newest)
            if new:
                self._log.commit(batch, parts)
            drop_attempts(self.folder, batch)
        except OSError as error:
            raise unwritten(self.folder, error) from None
        return new

    def _sweep(self, newest: int) -> None:
        """Removes files that a dead driver has linked into the table and not committed. O(remaining attempts)."""
        left = [name for name, batch in attempts(self.folder) if batch <= newest + 1]
        self.folder.delete([name for name in left if not self._log.holds(name)])
        self._swept = True


def follows(table: Folder | str, newest: int, batch: int, after: int | None = None) -> bool:
    """Returns True if a batch is the next one of a table, False if it is the newest batch there and was executed again.

    ``after``: the batch that it follows, if that is not the preceding number: a rollback of the table. Raises
    :class:`BrokenChainError` for any other batch: Spark executes no batch again but the newest.
    """
    if newest in (batch, batch - 1 if after is None else after):
        return batch != newest
    has = "no batch" if newest < 0 else f"batches up to {newest}"
    why = (
        "the batches in between are missing"
        if batch > newest
        else "the checkpoint was reset, or belongs to another table"
    )
    raise BrokenChainError(
        f"the table {table} has {has} of this stream, which is at batch {batch}: {why}. Restore the one that belongs "
        f"to the other, or {ANEW}"
    )


def foreign(folder: Folder, what: str) -> CheckpointError:
    """Returns the error for a folder that holds something else than this stream's table."""
    return CheckpointError(
        f"{folder} holds {what}, and the deltas would be mixed with it: give this stream a folder of its own, or use "
        "the checkpoint that belongs to that table"
    )


def beaten(folder: Folder, batch: int) -> CheckpointError:
    """Returns the error for a batch that another driver has committed to a table."""
    return CheckpointError(
        f"another job has committed batch {batch} of this stream to {folder}: end it, or give this one a "
        "checkpoint and a table of its own"
    )


def unwritten(folder: Folder, error: OSError) -> CheckpointError:
    """Returns the error for a table that cannot be written."""
    return CheckpointError(f"cannot write to the table {folder}: {error.strerror}")


def entries(folder: Folder) -> set[str]:
    """Returns the names of all files and subfolders of a folder. O(entries)."""
    return {*folder.files(), *folder.folders()}


def attempts(folder: Folder) -> list[tuple[str, int]]:
    """Returns the names in ``_attempts`` with their batches."""
    found = ((name, _NAME.fullmatch(name)) for name in (folder / ATTEMPTS).files())
    return [(name, int(match[1])) for name, match in found if match is not None]


def drop_attempts(folder: Folder, batch: int) -> None:
    """Removes the names in ``_attempts`` of batches up to this one. Files in the table stay there."""
    (folder / ATTEMPTS).delete([name for name, of in attempts(folder) if of <= batch])


def place(folder: Folder, files: Iterable[str]) -> None:
    """Moves files of attempts into the table, durably. Does nothing for files that are there already.

    Raises :class:`CheckpointError` if a file is missing.
    """
    try:
        folder.adopt(files, folder / ATTEMPTS)
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{folder.at(error.filename)} is missing, though a committed batch contains it: restore it, or start "
            "again with a new table and checkpoint"
        ) from None
    except OSError as error:
        raise unwritten(folder, error) from None
