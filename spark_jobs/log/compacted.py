"""The logs in which Spark lists files by number: the log of its file sink, and those of its file sources.

An entry ``N`` lists the files of one batch. From time to time Spark writes ``N.compact``, which lists the files of all
entries up to ``N``, and later deletes the single entries.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from urllib.parse import unquote, urlsplit

from spark_jobs.errors import CheckpointError
from spark_jobs.storage.folder import Folder

_ENTRY = re.compile(r"([0-9]+)(\.compact)?")


def newest(log: Folder) -> int:
    """Returns the number of the newest entry; −1 if there is none."""
    return max(_entries(log), default=-1)


def split(log: Folder, last: int) -> tuple[list[str], list[str]]:
    """Returns the entries up to ``last``, and the entries after it, the newest first.

    Raises :class:`CheckpointError` if the entries up to ``last`` no longer exist.
    """
    entries = _entries(log)
    kept = {number: name for number, name in entries.items() if number <= last}
    first = max((number for number, name in kept.items() if name.endswith(".compact")), default=0)
    if not kept.keys() >= {*range(first, last + 1)}:
        raise CheckpointError(
            f"{log} does not show which files belong to the batches up to {last}: Spark has merged it with the logs "
            "of later batches. Give a later batch"
        )
    return list(kept.values()), [entries[number] for number in sorted(entries.keys() - kept.keys(), reverse=True)]


def files_after(log: Folder, last: int) -> set[str]:
    """Returns the URIs of the files of the entries after ``last``. Raises the errors of ``split``."""
    kept, removed = split(log, last)
    return {*_files(log, removed)} - {*_files(log, kept)}


def cut(log: Folder, last: int) -> None:
    """Deletes the entries after ``last``, the newest first."""
    _, removed = split(log, last)
    log.delete(name for entry in removed for name in (entry, f".{entry}.crc"))


def local_path(uri: str) -> str | None:
    """Returns the path of a local file; None for the URI of any other file."""
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme in ("", "file") else None


def _entries(log: Folder) -> dict[int, str]:
    found = map(_ENTRY.fullmatch, sorted(log.files()))  # 9 before 9.compact, which lists more files
    return {int(match[1]): match[0] for match in found if match is not None}


def _files(log: Folder, entries: Iterable[str]) -> list[str]:
    return [json.loads(line)["path"] for entry in entries for line in log.read(entry).decode().splitlines()[1:]]
