"""Finds the batch of each input file in the logs of Spark's file sources.

``sources/<n>/<entry>`` lists the files that the n-th source found at once; ``offsets/<batch>`` contains the last entry
that a batch read. The n-th source belongs to the query's n-th relation.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from pathlib import Path

from spark_jobs.errors import CheckpointError
from spark_jobs.log.history import SparkHistory
from spark_jobs.storage.folder import Folder

LOCAL = "^file:/+"
"""Prefix of Spark's names of local files, with one slash or three: it is replaced by ``/``."""


def files_in_order(checkpoint: Path, source: int) -> dict[str, int]:
    """Returns the files that batches of the stream have read from a source, numbered in the order of the batches.

    Files of one batch have the same number. Raises :class:`CheckpointError` if the log cannot be read. O(files).
    """
    folder = checkpoint / "sources" / str(source)
    entries: dict[str, int] = {}
    try:
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.name[0] != ".":
                for line in path.read_text().splitlines()[1:]:
                    entry = json.loads(line)
                    entries[re.sub(LOCAL, "/", entry["path"])] = int(entry["batchId"])
        ends = _ends(checkpoint, source)
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        raise CheckpointError(f"{folder} is not the log of a source of files: --verify needs it") from None
    if not ends:
        return {}
    oldest = -1 if (checkpoint / "offsets" / "0").exists() else ends[0]  # up to this entry, entries were batches
    kept = {path: entry for path, entry in entries.items() if entry <= ends[-1]}
    return {path: ends[bisect_left(ends, entry)] if entry > oldest else entry for path, entry in kept.items()}


def read_after(checkpoint: Folder, batch: int) -> dict[Folder, int]:
    """Returns the logs of a stream's file sources, and the newest entry of each log that batches up to ``batch`` have
    read; −1 if they have read none.
    """
    history = SparkHistory(checkpoint)
    now, then = history.offsets(history.begun()) or [], history.offsets(batch) or []
    found = {}
    for source, line in enumerate(now):
        newest, entry = _entry(line), _entry(then[source]) if source < len(then) else None
        log = checkpoint / "sources" / str(source)
        if newest is not None and log.files():
            found[log] = -1 if entry is None else entry
    return found


def _entry(line: str) -> int | None:
    """Returns the last entry that a file source has read; None for another source, or if nothing was read."""
    try:
        return int(json.loads(line)["logOffset"])
    except (ValueError, KeyError, TypeError):
        return None


def _ends(checkpoint: Path, source: int) -> list[int]:
    """Returns the last entry of each batch whose offsets Spark still has, ascending."""
    found = set()
    folder = checkpoint / "offsets"
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name.isdecimal():
            line = path.read_text().splitlines()[2 + source]
            if line != "-":
                found.add(int(json.loads(line)["logOffset"]))
    return sorted(found)
