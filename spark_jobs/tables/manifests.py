"""A table of deltas as plain Parquet: files, and a manifest per micro-batch that says which ones are of it.

``_manifests/<batch>.json`` is made if it is not there, in one step: that is the commit. Then the files of the batch get
their places in the folder. So whoever reads all ``*.parquet`` of the folder reads committed batches only, of the
newest perhaps not yet all files; ``delta_files`` leaves out such a batch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crown.durable.files import create_durably
from spark_jobs.errors import CheckpointError, DamagedStateError, SourceError
from spark_jobs.tables.commits import OURS, beaten, foreign, place
from spark_jobs.tables.parts import Part

MANIFESTS = "_manifests"


class Manifests:
    """The log of plain Parquet in ``folder``. See ``spark_jobs.tables.commits.Log``.

    ``stream``: who writes: ``<stream id>/<operator>``; a folder of another stream is refused.
    """

    def __init__(self, folder: Path, stream: str) -> None:
        self._folder = folder
        self._stream = stream
        self._newest = newest_manifest(folder)
        if self._newest >= 0:
            last = read_manifest(folder, self._newest)
            if last["stream"] != stream:
                raise foreign(folder, f"deltas of the stream {last['stream']}")
            place(folder, (part["file"] for part in last["files"]))  # a driver may have died before it had
        elif strange := sorted({path.name for path in folder.iterdir()} - OURS - {MANIFESTS}):
            raise foreign(folder, f"files of others ({strange[0]}, for one)")

    def newest(self) -> int:
        """Returns the newest batch with a manifest."""
        return self._newest

    def holds(self, file: str) -> bool:
        """Returns True: a file gets its place after the manifest that names it."""
        return True

    def commit(self, batch: int, parts: Sequence[Part]) -> None:
        """Makes the manifest of a batch, then places its files."""
        said = {"stream": self._stream, "batch": batch, "files": [part.to_json() for part in parts]}
        path = _path(self._folder, batch)
        try:
            path.parent.mkdir(exist_ok=True)
            first = create_durably(path, json.dumps(said).encode())
        except OSError as error:
            raise CheckpointError(f"cannot write {path}: {error.strerror}") from None
        if not first:
            raise beaten(self._folder, batch)
        self._newest = batch
        place(self._folder, (part.file for part in parts))


def delta_files(path: str | Path) -> list[str]:
    """Returns the files of the batches that are committed to a table of deltas, oldest first.

    ``path``: the folder that ``write_deltas(format="parquet")`` writes to. A batch of which not all files are in their
    places yet is left out. Any reader of Parquet takes the list (DuckDB, pandas, Polars, Spark). Cost O(batches).
    Raises :class:`SourceError` if there are no deltas, :class:`DamagedStateError` if a file is gone.
    """
    folder = Path(path)
    last = newest_manifest(folder)
    if last < 0:
        raise SourceError(f"{folder} has no manifests of deltas: give the folder that write_deltas writes to")
    found: list[str] = []
    for batch in range(last + 1):
        files = [str(folder / part["file"]) for part in read_manifest(folder, batch)["files"]]
        gone = [file for file in files if not os.path.exists(file)]
        if gone and batch < last:
            raise DamagedStateError(f"{gone[0]} is gone, though batch {batch} was committed with it: put it back")
        if not gone:
            found += files
    return found


def newest_manifest(folder: Path) -> int:
    """Returns the newest batch with a manifest; −1 if there is none. O(batches)."""
    try:
        names = os.listdir(folder / MANIFESTS)
    except (FileNotFoundError, NotADirectoryError):
        return -1
    return max((int(name[:-5]) for name in names if name.endswith(".json") and name[:-5].isdecimal()), default=-1)


def read_manifest(folder: Path, batch: int) -> dict[str, Any]:
    """Returns the manifest of a batch. Raises :class:`DamagedStateError` if it is gone or is none."""
    path = _path(folder, batch)
    try:
        said = json.loads(path.read_bytes())
        if not (isinstance(said["stream"], str) and all(isinstance(part["file"], str) for part in said["files"])):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError):
        raise DamagedStateError(f"{path} is damaged or gone: put it back from a copy") from None
    return dict(said)


def _path(folder: Path, batch: int) -> Path:
    return folder / MANIFESTS / f"{batch}.json"
