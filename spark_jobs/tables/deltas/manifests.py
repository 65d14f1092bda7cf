"""A table of deltas as plain Parquet: files, and a manifest per micro-batch that lists its files.

``_manifests/<batch>.json`` is created atomically if it does not exist: that is the commit. Then the files of the batch
are moved into the folder. So a reader of all ``*.parquet`` of the folder reads committed batches only, of the newest
perhaps not yet all files; ``delta_files`` omits such a batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from spark_jobs.errors import CheckpointError, DamagedStateError, SourceError
from spark_jobs.storage.folder import Folder
from spark_jobs.storage.opening import Options, folder_at
from spark_jobs.tables.deltas.commits import OURS, beaten, entries, foreign, place
from spark_jobs.tables.deltas.parts import Part

MANIFESTS = "_manifests"


class Manifests:
    """The log of plain Parquet in ``folder``. See ``spark_jobs.tables.deltas.commits.Log``.

    ``stream``: the writer, ``<stream id>/<operator>``; the folder of another stream is refused.
    """

    def __init__(self, folder: Folder | Path, stream: str) -> None:
        self._folder = folder = folder_at(folder)
        self._stream = stream
        self._newest = newest_manifest(folder)
        if self._newest >= 0:
            last = read_manifest(folder, self._newest)
            if last["stream"] != stream:
                raise foreign(folder, f"deltas of the stream {last['stream']}")
            place(folder, (part["file"] for part in last["files"]))  # a driver may have died before this step
        elif strange := sorted(entries(folder) - OURS - {MANIFESTS}):
            raise foreign(folder, f"other files ({strange[0]}, for example)")

    def newest(self) -> int:
        """Returns the newest batch with a manifest."""
        return self._newest

    def holds(self, file: str) -> bool:
        """Returns True, because a file is moved into the table after the manifest that lists it."""
        return True

    def commit(self, batch: int, parts: Sequence[Part]) -> None:
        """Creates the manifest of a batch, then moves its files into the table."""
        content = {"stream": self._stream, "batch": batch, "files": [part.to_json() for part in parts]}
        manifests, name, data = self._folder / MANIFESTS, f"{batch}.json", json.dumps(content).encode()
        try:
            manifests.make()
            first = manifests.create(name, data) or manifests.read(name) == data  # the request may have been repeated
        except OSError as error:
            raise CheckpointError(f"cannot write {manifests.at(name)}: {error.strerror}") from None
        if not first:
            raise beaten(self._folder, batch)
        self._newest = batch
        place(self._folder, (part.file for part in parts))


def delta_files(path: str | Path | Folder, storage_options: Options | None = None) -> list[str]:
    """Returns the files of the batches that are committed to a table of deltas, oldest first.

    ``path``: the folder of ``write_deltas(format="parquet")``. On an object store the files are URIs, and
    ``storage_options`` are options of obstore; default: from the environment. A batch is omitted as long as not all of
    its files are in the table. Any reader of Parquet accepts the list (DuckDB, pandas, Polars, Spark). Cost O(batches).
    Raises :class:`SourceError` if there are no deltas, :class:`DamagedStateError` if a file is missing.
    """
    folder = folder_at(path, "path", storage_options)
    try:
        last, existing = newest_manifest(folder), folder.files()
    except OSError as error:
        raise SourceError(f"cannot read the table {folder}: {error.strerror}") from None
    if last < 0:
        raise SourceError(f"{folder} has no manifests of deltas: give the folder that write_deltas writes to")
    found: list[str] = []
    for batch in range(last + 1):
        files = [str(part["file"]) for part in read_manifest(folder, batch)["files"]]
        missing = [file for file in files if file not in existing]
        if missing and batch < last:
            raise DamagedStateError(
                f"{folder.at(missing[0])} of the committed batch {batch} is missing: restore it from a copy"
            )
        if not missing:
            found += map(folder.at, files)
    return found


def back(folder: Folder, batch: int) -> Callable[[], None]:
    """Returns a function that deletes the files and manifests of all batches after ``batch``, the newest first.

    A concurrent reader finds all files of the batches that have manifests. Raises :class:`DamagedStateError` if a
    manifest is missing.
    """
    manifests = {number: read_manifest(folder, number) for number in range(newest_manifest(folder), batch, -1)}

    def deleted() -> None:
        for number, manifest in manifests.items():
            folder.delete(part["file"] for part in manifest["files"])
            (folder / MANIFESTS).delete([f"{number}.json"])

    return deleted


def newest_manifest(folder: Folder) -> int:
    """Returns the newest batch with a manifest; −1 if there is none. O(batches)."""
    names = (folder / MANIFESTS).files()
    return max((int(name[:-5]) for name in names if name.endswith(".json") and name[:-5].isdecimal()), default=-1)


def read_manifest(folder: Folder, batch: int) -> dict[str, Any]:
    """Returns the manifest of a batch. Raises :class:`DamagedStateError` if it is missing or damaged."""
    manifests, name = folder / MANIFESTS, f"{batch}.json"
    try:
        manifest = json.loads(manifests.read(name))
        if not (
            isinstance(manifest["stream"], str) and all(isinstance(part["file"], str) for part in manifest["files"])
        ):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError):
        raise DamagedStateError(f"{manifests.at(name)} is missing or damaged: restore it from a copy") from None
    return dict(manifest)
