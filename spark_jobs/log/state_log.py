"""The durable state of one cell: a chain of input deltas, and snapshots from which the chain can start.

``<cell>/`` holds, for batch ``b``::

    b.delta       the cell's input in batch b: one Arrow stream per relation, columns and ``_weight``
    v.snapshot    the engine as it was after batch v
    b.json        statistics of the batch (rows in, deltas out, ...), for the driver to read
    forgotten.json  the digests of deltas that a rollback deleted, or that belong to cells before a recut

A delta is published once, by an atomic create-if-absent, and never changed; a second writer must bring the same rows.
It contains the batch before it (``prev``) and the digest of that batch's file, so gaps and links of another history are
detected: the state after batch ``b`` is the newest snapshot before ``b`` plus every delta since. Version −2 is the
empty engine, −1 a backfill. Every cell has a delta of every batch that Spark executed, with or without rows, so a
missing delta is noticed (``spark_jobs.log.history``).

Files with other names (copies, editors' backups) are ignored. ``spark_jobs.log.delta_file`` defines a delta's format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from crown.durable.packing import DIGEST
from spark_jobs.errors import ANEW, BrokenChainError, CheckpointError, DamagedStateError, InputChangedError
from spark_jobs.log.delta_file import ONE_CELL, Link, Owner, digest_of, pack, same_rows, unpack, unpack_head
from spark_jobs.storage.folder import Folder
from spark_jobs.storage.opening import folder_at

EMPTY = -2
BACKFILL = -1
_NAME = re.compile(r"(-1|0|[1-9][0-9]{0,17})\.(delta|snapshot|json)")
_FORGOTTEN = "forgotten.json"
_CELL = re.compile(r"0|[1-9][0-9]{0,8}")
_WORDS = ("version", "cell", "stream", "cut")
NOTES = 128  # number of newest notes that are kept
BATCH_WEIGHT = 128 << 10
"""The least weight of a batch when the log is compared with a snapshot, in bytes.

Even a tiny batch takes time, at most as much as writing this many bytes of a snapshot. Without this weight a stream of
tiny batches would accumulate files without bound.
"""


@dataclass(frozen=True)
class Load:
    """Decides when a snapshot is due: the bytes of the newest snapshot, and the bytes logged since."""

    snapshot: int
    logged: int


class CellLog:
    """The log of one cell in ``folder``, which is ``<stream id>/<operator>/<cell>``.

    ``fingerprint`` is the plan's; ``format`` and ``cut`` are from ``meta.json``. They, the cell, the operator and the
    stream are written into every file and checked in every file that is read: a file of another cell or stream is
    refused, even with the same plan. Files of versions without streams or cuts are accepted.
    """

    def __init__(self, folder: Folder | Path, fingerprint: str, format: int = ONE_CELL, cut: str = "") -> None:
        self.folder = folder = folder_at(folder)
        self.cell = folder.name
        self.owner = Owner(fingerprint, folder.name, f"{folder.parent.parent.name}/{folder.parent.name}", format, cut)
        try:
            folder.make()
        except OSError as error:
            raise CheckpointError(f"cannot make the state folder {folder}: {error.strerror}") from None

    @classmethod
    def of(cls, folder: Folder | Path, meta: Mapping[str, Any]) -> CellLog:
        """Returns the log of a cell of the operator that ``meta.json`` describes."""
        return cls(folder, meta["fingerprint"], meta["format"], json.dumps(meta["grid"], sort_keys=True))

    # -- contents ------------------------------------------------------------------------------------------------------

    def batches(self) -> list[int]:
        """Returns the numbers of the published deltas, ascending."""
        return self.listed()[0]

    def snapshots(self) -> list[int]:
        """Returns the versions of the snapshots, ascending."""
        return self.listed()[1]

    def listed(self) -> tuple[list[int], list[int]]:
        """Returns the numbers of the deltas and the versions of the snapshots, each ascending. One listing."""
        names = self.files()
        return _numbers(names, "delta"), _numbers(names, "snapshot")

    def files(self) -> dict[str, int]:
        """Returns the files of the folder with their sizes."""
        with self._readable(str(self.folder)):
            return self.folder.files()

    def delta_path(self, batch: int) -> str:
        """Returns the path of the delta of a batch, for messages."""
        return self.folder.at(f"{batch}.delta")

    def snapshot_path(self, version: int) -> str:
        """Returns the path of the snapshot of a version, for messages."""
        return self.folder.at(f"{version}.snapshot")

    def has(self, batch: int) -> bool:
        """Returns True if the delta of a batch exists. O(1)."""
        with self._readable(self.delta_path(batch)):
            return self.folder.has(f"{batch}.delta")

    def digest(self, batch: int) -> str:
        """Returns the digest of a batch's delta, "" if there is none. O(1)."""
        with self._readable(self.delta_path(batch)):
            try:
                return self.folder.tail(f"{batch}.delta", DIGEST).hex()
            except FileNotFoundError:
                return ""

    def newest(self) -> int:
        """Returns the newest version that the log can restore; EMPTY if it has none."""
        batches, snapshots = self.listed()
        return max(batches[-1:] + snapshots[-1:], default=EMPTY)

    @contextmanager
    def _readable(self, path: str) -> Iterator[None]:
        """Turns the storage's errors into :class:`CheckpointError`, so that an unreadable file does not count as
        absent.
        """
        try:
            yield
        except OSError as error:
            raise CheckpointError(f"cannot read the state log {path}: {error.strerror}") from None

    # -- deltas -------------------------------------------------------------------------------------------------------

    def publish(self, link: Link) -> tuple[Link, bool]:
        """Makes a delta durable, or checks that the existing delta holds the same rows.

        Returns the delta in the log, and True if it is this one. Raises :class:`InputChangedError` if another attempt
        of the batch published other rows, :class:`BrokenChainError` if that attempt followed another history.
        """
        data = pack(link, self.owner)
        try:
            first = self.folder.create(f"{link.batch}.delta", data)
        except OSError as error:
            raise CheckpointError(
                f"cannot write the state log {self.delta_path(link.batch)}: {error.strerror}"
            ) from None
        if not first:
            return self._the_same(link), False
        return replace(link, digest=digest_of(data), size=len(data)), True

    def read(self, batch: int) -> Link:
        """Returns the delta of a batch. Raises :class:`DamagedStateError`, or :class:`BrokenChainError` if it does not
        exist.

        Raises :class:`DamagedStateError` also for a complete file of another cell, batch or stream, and
        :class:`PlanChangedError` for a file of another plan.
        """
        path = self.delta_path(batch)
        try:
            data = self.folder.read(f"{batch}.delta")
        except FileNotFoundError:
            raise BrokenChainError(
                f"cell {self.cell}: the delta of batch {batch} is missing ({path}); the state cannot be rebuilt "
                f"without it. Restore the file from a copy, or {ANEW}"
            ) from None
        except OSError as error:
            raise CheckpointError(f"cannot read the state log {path}: {error.strerror}") from None
        return unpack(data, path, self.owner, batch)

    def demand_next(self, link: Link, version: int, digest: str) -> None:
        """Raises :class:`BrokenChainError` unless a link follows the history that ends with that version and digest."""
        if link.prev != version:
            raise BrokenChainError(
                f"cell {self.cell}: batch {link.batch} follows batch {link.prev}, but the state before it is that "
                f"of batch {version}: a delta or a snapshot is missing in {self.folder}, without which "
                f"the state cannot be rebuilt. Restore it from a copy, or {ANEW}"
            )
        if link.parent and digest and link.parent != digest:
            raise BrokenChainError(
                f"cell {self.cell}: {self.delta_path(link.batch)} follows another batch {version} than the one in "
                "the folder: files of different histories are mixed (of an older copy, or of before a rollback). "
                f"Together they give the state of no batch. Restore all files from one copy, or {ANEW}"
            )

    def troubles(self, complete: bool) -> Iterator[CheckpointError]:
        """Yields an error for each delta of the chain that cannot be read, or does not follow the delta before it.

        ``complete``: all deltas are read completely; otherwise only the headers of the deltas since the newest
        snapshot, which a restored cell needs. O(log), or O(deltas).
        """
        batches, snapshots = self.listed()
        version = None if complete or not snapshots else snapshots[-1]
        digest = "" if version is None else self.digest(version)
        for batch in batches:
            if version is not None and batch <= version:
                continue
            try:
                link = self.read(batch) if complete else self._head(batch)
                first = version is None and link.prev in {EMPTY, BACKFILL, *snapshots}
                if not first:
                    self.demand_next(link, EMPTY if version is None else version, digest)
                digest = link.digest
            except CheckpointError as error:
                yield error
                digest = ""
            version = batch

    def _head(self, batch: int) -> Link:
        """Returns the delta of a batch without its rows. O(1)."""
        path, file = self.delta_path(batch), f"{batch}.delta"
        with self._readable(path):
            link = unpack_head(lambda start, stop: self.folder.read(file, start, stop), path, self.owner, batch)
        return replace(link, digest=self.digest(batch))

    def _the_same(self, link: Link) -> Link:
        stored = self.read(link.batch)
        if stored.prev == link.prev:
            self.demand_next(stored, link.prev, link.parent)
        if stored.prev != link.prev or not same_rows(stored.changes, link.changes):
            raise InputChangedError(
                f"cell {self.cell}: batch {link.batch} was executed again with other rows than the first time. A "
                "source must replay a batch exactly (no rand(), no current_timestamp(), no files changed in place)"
            )
        return stored

    # -- snapshots ----------------------------------------------------------------------------------------------------

    def write_snapshot(self, version: int, write: Callable[[Path], object]) -> None:
        """Makes a snapshot durable; ``write`` must write and flush a file of this host, in one step."""
        try:
            self.folder.publish(f"{version}.snapshot", write)
        except OSError as error:
            raise CheckpointError(f"cannot write {self.snapshot_path(version)}: {error.strerror}") from None

    @contextmanager
    def snapshot(self, version: int) -> Iterator[Path]:
        """Yields a local file that holds the snapshot of a version."""
        fetched = ExitStack()
        with self._readable(self.snapshot_path(version)):
            path = fetched.enter_context(self.folder.local(f"{version}.snapshot"))
        with fetched:
            yield path

    def snapshot_size(self, version: int) -> int:
        """Returns the size of the snapshot of a version in bytes."""
        with self._readable(self.snapshot_path(version)):
            return self.folder.size(f"{version}.snapshot")

    def mark(self, version: int, digest: str) -> dict[str, Any]:
        """Returns the description that a snapshot must contain: its version, cell, stream, cut, and the digest of its
        history.
        """
        return dict(zip(_WORDS, (version, self.cell, self.owner.stream, self.owner.cut), strict=True)) | {
            "digest": digest
        }

    def demand_mark(self, source: object, found: Mapping[str, Any], version: int) -> str:
        """Returns the digest with which the history of a snapshot ends, "" if it is not known.

        ``found``: the description in the snapshot; a missing field, of an older version, counts as correct. Raises
        :class:`DamagedStateError` if the snapshot belongs to another cell or version, or to another history than the
        delta of its version.
        """
        expected = self.mark(version, self.digest(version))
        actual = {**expected, "version": None, **found}
        if any(actual[key] != expected[key] for key in _WORDS):
            raise DamagedStateError(
                f"the snapshot {source} is of version {actual['version']} of cell {actual['cell']} of stream "
                f"{actual['stream']}, partitioned by {actual['cut']}: it was copied or renamed, and has other rows "
                f"than this cell. Restore the original file from a copy, or {ANEW}"
            )
        if expected["digest"] and actual["digest"] != expected["digest"]:
            raise DamagedStateError(
                f"the snapshot {source} and {self.delta_path(version)} belong to different histories: one is from an "
                "older copy, or from before a rollback, so together they give the state of no batch. Restore all files "
                f"from one copy, or {ANEW}"
            )
        return str(actual["digest"])

    def weigh(self, version: int) -> Load:
        """Returns the load of the log up to a version since the newest snapshot before it. One listing, O(files)."""
        sizes = self.files()
        taken = max((v for v in _numbers(sizes, "snapshot") if v <= version), default=None)
        size = 0 if taken is None else sizes[f"{taken}.snapshot"]
        since = EMPTY if taken is None else taken
        logged = (sizes[f"{batch}.delta"] for batch in _numbers(sizes, "delta") if since < batch <= version)
        return Load(size, sum(map(weight, logged)))

    def snapshot_due(self, load: Load, floor: int) -> bool:
        """Returns True when the deltas since the newest snapshot outweigh it (or ``floor`` bytes, whichever is more).

        A snapshot of O(state) bytes is written only after as much input, or as many batches, so snapshots cost
        amortized O(Δ) and a constant per batch. The log then has at most as many files as the state has blocks of
        ``BATCH_WEIGHT``.
        """
        return load.logged > max(floor, load.snapshot)

    def retain(self, batch: int, keep: int) -> None:
        """Deletes files that no replay of the last ``keep`` batches up to ``batch`` can need.

        Keeps the newest snapshot older than all of them, and every snapshot and delta since (a snapshot is not larger
        than the deltas that led to it, so these at most double the size).
        """
        batches, snapshots = self.listed()
        old = [v for v in snapshots if v < batch - max(keep, 1)]
        if not old:
            return
        base = old[-1]
        deleted = [number for number in batches if number <= base]
        self._delete(f"{v}.snapshot" for v in snapshots if v < base)
        self._delete(file for number in deleted for file in (f"{number}.delta", f"{number}.json"))

    def check_rebuildable(self, batch: int) -> None:
        """Raises :class:`CheckpointError` unless the state after a batch can be rebuilt."""
        batches, snapshots = self.listed()
        from_the_start = not snapshots if not batches else self.read(batches[0]).prev in (EMPTY, BACKFILL)
        if not from_the_start and not any(version <= batch for version in snapshots):
            raise CheckpointError(
                f"cell {self.cell} cannot go back to batch {batch}: older files were deleted from {self.folder}. Give "
                "a later batch"
            )

    def forget(self, batch: int) -> None:
        """Deletes every delta, snapshot and note after a batch, and stores the digests of the deleted deltas.

        Raises :class:`CheckpointError` if the state after that batch cannot be rebuilt.
        """
        self.check_rebuildable(batch)
        batches, snapshots = self.listed()
        deleted = [number for number in batches if number > batch]
        self.disown({self.digest(number) for number in deleted})
        self._delete(file for number in deleted for file in (f"{number}.delta", f"{number}.json"))
        self._delete(f"{version}.snapshot" for version in snapshots if version > batch)

    def disown(self, digests: set[str]) -> None:
        """Stores the digests of deltas that do not belong to this history: a live engine that applied one of them
        cannot be used.
        """
        try:
            self.folder.replace(_FORGOTTEN, json.dumps(sorted(self.forgotten() | digests)).encode())
        except OSError as error:
            raise CheckpointError(f"cannot write {self.folder.at(_FORGOTTEN)}: {error.strerror}") from None

    def forgotten(self) -> set[str]:
        """Returns the digests of deltas that a rollback deleted, or that belong to cells before a recut. A live engine
        that applied one of them is out of date.
        """
        with self._readable(self.folder.at(_FORGOTTEN)):
            try:
                return set(json.loads(self.folder.read(_FORGOTTEN)))
            except (FileNotFoundError, ValueError, TypeError):
                return set()

    def _delete(self, files: Iterable[str]) -> None:
        try:
            self.folder.delete(files)
        except OSError as error:
            raise CheckpointError(f"cannot delete old files of {self.folder}: {error.strerror}") from None

    # -- notes for the driver -----------------------------------------------------------------------------------------

    def write_note(self, batch: int, note: Mapping[str, Any]) -> None:
        """Writes a small JSON file about a batch. The file is not durable, and is replaced when the batch is executed
        again.

        Only the newest notes are kept.
        """
        try:
            self.folder.replace(f"{batch}.json", json.dumps(note).encode(), durable=False)
        except OSError as error:
            raise CheckpointError(f"cannot write {self.folder.at(f'{batch}.json')}: {error.strerror}") from None
        if batch >= NOTES:
            self._delete([f"{batch - NOTES}.json"])


def weight(size: int) -> int:
    """Returns the weight of a delta of ``size`` bytes in the load of the log."""
    return max(size, BATCH_WEIGHT)


def cell_folders(operator: Folder | Path) -> list[Folder]:
    """Returns the folders of an operator's cells, by number; ignores copies with other names."""
    operator = folder_at(operator)
    try:
        found = [name for name in operator.folders() if _CELL.fullmatch(name)]
    except OSError as error:
        raise CheckpointError(f"cannot read the state folder {operator}: {error.strerror}") from None
    return [operator / name for name in sorted(found, key=int)]


def strangers(log: CellLog) -> list[str]:
    """Returns the names in a cell's folder that do not belong to the log, and are ignored."""
    entries = [*log.files(), *log.folder.folders()]
    return sorted(name for name in entries if name[0] != "." and name != _FORGOTTEN and not _NAME.fullmatch(name))


def read_note(folder: Folder | Path, batch: int) -> dict[str, Any] | None:
    """Returns the note of a cell about a batch; None if there is none (no rows, or no task), or if it is unreadable."""
    try:
        note = json.loads(folder_at(folder).read(f"{batch}.json"))
    except (OSError, ValueError):  # a note is not durable: a crash of the machine can leave it empty
        return None
    return note if isinstance(note, dict) else None


def _numbers(names: Iterable[str], suffix: str) -> list[int]:
    found = (_NAME.fullmatch(name) for name in names)
    return sorted(int(match[1]) for match in found if match is not None and match[2] == suffix)
