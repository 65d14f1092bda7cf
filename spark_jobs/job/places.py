"""Checks that the folders of a job, its checkpoint and its output, belong together.

A job has a random identifier, which is stored in its checkpoint (``output.json``) and in its output folder
(``_crown.json``, which readers ignore). Spark's file sink alone would accept any folder, and skip the batches whose
numbers exist there already.

An output on an object store is protected by that identifier alone, because there are no locks. If two jobs begin at
once on an empty output, one of them is refused with its first batch: the table names its owner (``spark_jobs.tables``).
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from spark_jobs.errors import ANEW, SparkJobError
from spark_jobs.folders import LOCK, locked
from spark_jobs.job.sinks import LOG, SPARK
from spark_jobs.log import compacted
from spark_jobs.log.history import SparkHistory, stream_of
from spark_jobs.storage.folder import Folder
from spark_jobs.storage.local import LocalFolder
from spark_jobs.storage.opening import ensure_writable, folder_at
from spark_jobs.tables.deltas import delta
from spark_jobs.tables.deltas.commits import OURS, entries
from spark_jobs.tables.deltas.manifests import newest_manifest

OPERATOR = "crown"
"""The name of the operator of a whole job."""

_OWN, _MARK = "output.json", "_crown.json"
_NOTED = {LOCK, _OWN}  # files of a job that has not begun, too
_STATE = {"metadata", "offsets", "commits", "sources", "crown"}


def check_apart(checkpoint: Path | None, output: Folder | None, inputs: Mapping[str, Path]) -> None:
    """Raises :class:`SparkJobError` if a job would write among its changes, or its output over its checkpoint.

    ``inputs``: files and folders by relation. Spark ignores names in a folder that begin with ``_`` or ``.``.
    """
    given = {"--checkpoint": checkpoint, "--output": output.path if isinstance(output, LocalFolder) else None}
    kept = {option: Path(os.path.realpath(folder)) for option, folder in given.items() if folder is not None}
    if len(kept) == 2 and len({*kept.values()}) == 1:
        raise SparkJobError(f"--checkpoint and --output are one folder, {output}: give each a folder of its own")
    for option, folder in kept.items():
        for name, source in inputs.items():
            read = Path(os.path.realpath(source))
            if folder.is_relative_to(read) and not any(part[0] in "_." for part in folder.relative_to(read).parts):
                raise SparkJobError(
                    f"{option} {given[option]} is in the folder of --input {name}, where its files would be read as "
                    "changes: give another folder"
                )


def check_checkpoint(folder: Path) -> None:
    """Raises :class:`SparkJobError` if a checkpoint contains files, but none of a job."""
    found = sorted(name for name in os.listdir(folder) if name not in _NOTED and not name.startswith("crown-error-"))
    if found and not _STATE & {*found}:
        raise SparkJobError(
            f"--checkpoint {folder} has files that do not belong to a job ({found[0]}, for example): give an empty "
            "folder, or a new one"
        )


def output_of(checkpoint: Folder) -> str | None:
    """Returns the output of a checkpoint's job; None if it writes no files, or is not a job of ``crown submit``."""
    return (_read(checkpoint, _OWN) or {}).get("output")


def without_output(checkpoint: Path) -> None:
    """Raises SparkJobError if the job has an output: a run without that output would leave a gap in it."""
    mine = _read(LocalFolder(checkpoint), _OWN)
    if mine is not None:
        raise SparkJobError(
            f"the job of {checkpoint} writes to {mine.get('output')}, where all of its batches must be: give that "
            "folder as --output, or another --checkpoint"
        )


@contextmanager
def locked_output(output: Folder | Path, checkpoint: Path, sink: str = SPARK) -> Iterator[None]:
    """Locks an output folder, and claims it for this job, while the job runs. See ``locked`` and ``claim_output``.

    Without a lock, two jobs that begin at once would both find the folder empty, and each would skip the batches of the
    other.
    """
    folder = folder_at(output, "--output")
    lock: AbstractContextManager[None] = nullcontext()
    with _reachable(folder):
        _claimable(folder, checkpoint)
        if isinstance(folder, LocalFolder):
            lock = locked(folder.path, "output")
    with lock:
        with _reachable(folder):
            claim_output(folder, checkpoint, sink)
        yield


@contextmanager
def _reachable(folder: Folder) -> Iterator[None]:
    """Turns the error of an unreachable object store into one sentence."""
    try:
        yield
    except OSError as error:
        if isinstance(folder, LocalFolder):
            raise
        raise SparkJobError(
            f"--output {folder} cannot be used ({error.strerror}): check that the store can be reached, and written to"
        ) from None


def _claimable(folder: Folder, checkpoint: Path) -> None:
    """Creates the folder if the job has not written anything yet. Raises SparkJobError if its output is missing."""
    if SparkHistory(checkpoint).committed() >= 0 and not _exists(folder):
        written = SparkHistory(checkpoint).committed() + 1
        raise SparkJobError(
            f"--output {folder} does not exist, but the job of {checkpoint} has written {written} batches"
            f"{_where(_read(LocalFolder(checkpoint), _OWN))}: give that folder, restore it, or "
            f"{ANEW}"
        )
    ensure_writable(folder, "--output")


def claim_output(output: Folder | Path, checkpoint: Path, sink: str = SPARK) -> None:
    """Checks that an output folder is empty, or contains all batches of this job; then marks it as this job's.

    An output without a mark, from older versions, is accepted if its newest batch fits Spark's checkpoint. Raises
    :class:`SparkJobError`.
    """
    folder, committed = folder_at(output, "--output"), SparkHistory(checkpoint).committed()
    mine, theirs = _read(LocalFolder(checkpoint), _OWN), _read(folder, _MARK)
    _claimable(folder, checkpoint)
    written = _written(folder, stream_of(checkpoint))
    found = sorted(entries(folder) - {LOG} - OURS)
    if mine is not None and (wrote := mine.get("sink", SPARK)) != sink:
        raise SparkJobError(
            f"the job of {checkpoint} has written {folder} with --sink {wrote}, and two sinks do not see each other's "
            f"batches: use the same sink, or {ANEW}"
        )
    if written < 0 and not found:
        theirs = None  # a job that failed before its first batch has no claim
    if mine is not None and theirs is None and written >= 0:
        raise _replaced(folder)
    foreign = theirs is not None and (mine is None or theirs.get("job") != mine.get("job"))
    if foreign or (written >= 0 and stream_of(checkpoint) is None):
        raise SparkJobError(
            f"{folder} holds the output of a job with another checkpoint, and Spark would skip every batch whose "
            "number it contains already: use that checkpoint, or choose another folder"
        )
    if theirs is None and written < 0:
        if found:
            raise SparkJobError(
                f"--output {folder} has files that do not belong to this job ({found[0]}, for example): give an "
                "empty folder, or a new one"
            )
        if committed >= 0:
            raise SparkJobError(
                f"--output {folder} is empty, but the job of {checkpoint} has written {committed + 1} batches"
                f"{_where(mine)}: they would be missing. Give the folder that has them, or "
                f"{ANEW}"
            )
    if not committed <= written <= committed + 1:
        raise SparkJobError(
            f"{folder} has batches up to {written}, but its checkpoint {checkpoint} is at batch {committed}: one of "
            "the two was replaced or reset. Restore the one that belongs to the other, or "
            f"{ANEW}"
        )
    job = (mine or {}).get("job") or uuid.uuid4().hex
    _write(LocalFolder(checkpoint), _OWN, {"job": job, "output": str(folder), "sink": sink})
    _write(folder, _MARK, {"job": job})


def check_exists(folder: Folder) -> None:
    """Raises :class:`SparkJobError` if a claimed output folder no longer exists: Spark would continue in a new one."""
    with _reachable(folder):
        exists = folder.has(_MARK)
    if not exists:
        raise _replaced(folder)


def _exists(folder: Folder) -> bool:
    return folder.path.exists() if isinstance(folder, LocalFolder) else folder.has(_MARK)


def _replaced(folder: Folder) -> SparkJobError:
    return SparkJobError(
        f"--output {folder} was removed, or replaced by another, while the job was running: its contents are missing. "
        f"Restore it, or {ANEW}"
    )


def _where(mine: dict[str, Any] | None) -> str:
    return f" to {mine['output']}" if mine is not None and "output" in mine else ""


def _written(folder: Folder, stream: str | None) -> int:
    """Returns the newest batch in the log of Spark's file sink, or in a table of the stream; −1 if there is none."""
    newest = compacted.newest(folder / LOG)
    if stream is not None and "_delta_log" in folder.folders():
        newest = max(newest, delta.newest_batch(folder, f"{stream}/{OPERATOR}"))
    return max(newest, newest_manifest(folder))


def _read(folder: Folder, name: str) -> dict[str, Any] | None:
    try:
        found = json.loads(folder.read(name))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        raise SparkJobError(f"{folder.at(name)} is damaged: restore it from a copy, or use new folders") from None
    except OSError as error:
        raise SparkJobError(f"{folder.at(name)} cannot be read: {error.strerror}") from None
    return found if isinstance(found, dict) else None


def _write(folder: Folder, name: str, content: dict[str, Any]) -> None:
    """Writes a file atomically, unless it already has this content."""
    if _read(folder, name) == content:
        return
    folder.replace(name, json.dumps(content).encode())
