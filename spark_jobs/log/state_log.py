"""The durable state of one cell: a chain of input deltas, and snapshots to start the chain from.

``<cell>/`` holds, for batch ``b``::

    b.delta       what the cell was given in batch b: one Arrow stream per relation, columns and ``_weight``
    v.snapshot    the engine as it was after batch v
    b.json        what the batch did (rows in, deltas out, ...), for the driver to read
    forgotten.json  the digests of deltas that were deleted to go back to an earlier batch, or are of cells before

A delta is published once, by an atomic create-if-absent, and never changed; a second writer must bring the same
rows. It names the batch before it (``prev``) and the digest of its file, so the chain has no silent gaps and no links
of another history: the state after batch ``b`` is the newest snapshot before ``b`` plus every delta since. Version −2
is the empty engine, −1 a backfill. Every cell has a delta of every batch that Spark executed, with or without rows; so
a missing one is noticed (``spark_jobs.log.history``).

Files of other names (copies, editors' backups) are not looked at. A delta's form: ``spark_jobs.log.delta_file``.
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
from spark_jobs.errors import BrokenChainError, CheckpointError, DamagedStateError, InputChangedError
from spark_jobs.log.delta_file import ONE_CELL, Link, Owner, digest_of, pack, same_rows, unpack, unpack_head
from spark_jobs.storage.folder import Folder
from spark_jobs.storage.opening import folder_at

EMPTY = -2
BACKFILL = -1
_NAME = re.compile(r"(-1|0|[1-9][0-9]{0,17})\.(delta|snapshot|json)")
_FORGOTTEN = "forgotten.json"
_CELL = re.compile(r"0|[1-9][0-9]{0,8}")
_WORDS = ("version", "cell", "stream", "cut")
NOTES = 128  # newest notes that are kept
BATCH_WEIGHT = 128 << 10
"""What a batch counts at least when the log is weighed against a snapshot, in bytes.

A batch takes some time however small it is, as much as writing so many bytes of a snapshot does at most. Without this
a stream of tiny batches would have files without end.
"""


@dataclass(frozen=True)
class Load:
    """What decides when a snapshot is due: the bytes of the newest, and what has been logged since."""

    snapshot: int
    logged: int


class CellLog:
    """The log of one cell in ``folder``, which is ``<stream id>/<operator>/<cell>``.

    ``fingerprint`` is the plan's, ``format`` and ``cut`` are those of ``meta.json``. They, the cell, the operator and
    the stream are written into every file and demanded of every file that is read: a file of another cell or stream is
    refused, also one with the same plan. Files written before streams or cuts were noted are taken without.
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

    # -- what is there ------------------------------------------------------------------------------------------------

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
        """Returns where the delta of a batch is, for people."""
        return self.folder.at(f"{batch}.delta")

    def snapshot_path(self, version: int) -> str:
        """Returns where the snapshot of a version is, for people."""
        return self.folder.at(f"{version}.snapshot")

    def has(self, batch: int) -> bool:
        """Returns True if the delta of a batch is there. O(1)."""
        with self._readable(self.delta_path(batch)):
            return self.folder.has(f"{batch}.delta")

    def digest(self, batch: int) -> str:
        """Returns the digest of a batch's delta, "" if it is not there. O(1)."""
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
        """Turns what the storage says into :class:`CheckpointError`: what cannot be read is not taken for absent."""
        try:
            yield
        except OSError as error:
            raise CheckpointError(f"cannot read the state log {path}: {error.strerror}") from None

    # -- deltas -------------------------------------------------------------------------------------------------------

    def publish(self, link: Link) -> tuple[Link, bool]:
        """Makes a delta durable, or checks that the one already there holds the same rows.

        Returns the one in the log, and whether it is this one. Raises :class:`InputChangedError` if another attempt of
        the batch published other rows, :class:`BrokenChainError` if it did so after another history.
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
        """Returns the delta of a batch. Raises :class:`DamagedStateError`, or :class:`BrokenChainError` if it is not
        there.

        A file that is whole but of another cell, batch or stream is :class:`DamagedStateError`, one of another plan
        :class:`PlanChangedError`.
        """
        path = self.delta_path(batch)
        try:
            data = self.folder.read(f"{batch}.delta")
        except FileNotFoundError:
            raise BrokenChainError(
                f"cell {self.cell}: the delta of batch {batch} is missing ({path}); the state cannot be rebuilt "
                "without it. Put the file back from a copy, or start again with a new checkpoint"
            ) from None
        except OSError as error:
            raise CheckpointError(f"cannot read the state log {path}: {error.strerror}") from None
        return unpack(data, path, self.owner, batch)

    def demand_next(self, link: Link, version: int, digest: str) -> None:
        """Raises :class:`BrokenChainError` unless a link follows the history that ends with that version and digest."""
        if link.prev != version:
            raise BrokenChainError(
                f"cell {self.cell}: batch {link.batch} follows batch {link.prev}, but the state before it is that "
                f"of batch {version}: a delta or a snapshot is missing in {self.folder}. Put it back "
                "from a copy, or start with a new checkpoint"
            )
        if link.parent and digest and link.parent != digest:
            raise BrokenChainError(
                f"cell {self.cell}: {self.delta_path(link.batch)} follows another batch {version} than the one that is "
                "there: files of two histories are mixed (an older copy, or what came before a rollback). Put the "
                "files of one history back from a copy, or start with a new checkpoint"
            )

    def troubles(self, whole: bool) -> Iterator[CheckpointError]:
        """Yields an error for each delta of the chain that cannot be read, or does not follow the one before it.

        ``whole``: all deltas are read to their ends; otherwise only the headers of those since the newest snapshot,
        which a restored cell needs. O(log), or O(deltas).
        """
        batches, snapshots = self.listed()
        version = None if whole or not snapshots else snapshots[-1]
        digest = "" if version is None else self.digest(version)
        for batch in batches:
            if version is not None and batch <= version:
                continue
            try:
                link = self.read(batch) if whole else self._head(batch)
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
        """Yields a file of this host that holds the snapshot of a version."""
        fetched = ExitStack()
        with self._readable(self.snapshot_path(version)):
            path = fetched.enter_context(self.folder.local(f"{version}.snapshot"))
        with fetched:
            yield path

    def snapshot_size(self, version: int) -> int:
        """Returns the bytes of the snapshot of a version."""
        with self._readable(self.snapshot_path(version)):
            return self.folder.size(f"{version}.snapshot")

    def mark(self, version: int, digest: str) -> dict[str, Any]:
        """Returns what a snapshot must say of itself: its version, cell, stream and cut, and where its history
        ends."""
        return dict(zip(_WORDS, (version, self.cell, self.owner.stream, self.owner.cut), strict=True)) | {
            "digest": digest
        }

    def demand_mark(self, source: object, found: Mapping[str, Any], version: int) -> str:
        """Returns the digest with which the history of a snapshot ends, "" if it is not known.

        ``found``: what the snapshot says of itself; what it does not say, because it is older, is taken as it should
        be. Raises :class:`DamagedStateError` if it is another's, or of another history than the delta of its version.
        """
        wanted = self.mark(version, self.digest(version))
        said = {**wanted, "version": None, **found}
        if any(said[key] != wanted[key] for key in _WORDS):
            raise DamagedStateError(
                f"the snapshot {source} is of version {said['version']} of cell {said['cell']} of stream "
                f"{said['stream']}, cut along {said['cut']}: it was copied or renamed. Put the right one back from a "
                "copy, or start with a new checkpoint"
            )
        if wanted["digest"] and said["digest"] != wanted["digest"]:
            raise DamagedStateError(
                f"the snapshot {source} and {self.delta_path(version)} are of two histories (an older copy, or what "
                "came before a rollback). Put the files of one history back from a copy, or start with a new checkpoint"
            )
        return str(said["digest"])

    def weigh(self, version: int) -> Load:
        """Returns what has been logged up to a version since the newest snapshot before it. One listing, O(files)."""
        sizes = self.files()
        taken = max((v for v in _numbers(sizes, "snapshot") if v <= version), default=None)
        size = 0 if taken is None else sizes[f"{taken}.snapshot"]
        since = EMPTY if taken is None else taken
        logged = (sizes[f"{batch}.delta"] for batch in _numbers(sizes, "delta") if since < batch <= version)
        return Load(size, sum(map(weight, logged)))

    def snapshot_due(self, load: Load, floor: int) -> bool:
        """Returns True when the deltas since the newest snapshot outweigh it (or ``floor`` bytes, whichever is more).

        Writing O(state) bytes only after as much input, or as many batches, makes snapshots amortized O(Δ) and a
        constant per batch. The log then has at most as many files as the state has blocks of ``BATCH_WEIGHT``.
        """
        return load.logged > max(floor, load.snapshot)

    def retain(self, batch: int, keep: int) -> None:
        """Deletes what no replay of the last ``keep`` batches up to ``batch`` can need.

        Kept: the newest snapshot older than all of them, and every snapshot and delta since (a snapshot is not larger
        than the deltas that led to it, so these are at most as much again).
        """
        batches, snapshots = self.listed()
        old = [v for v in snapshots if v < batch - max(keep, 1)]
        if not old:
            return
        base = old[-1]
        gone = [number for number in batches if number <= base]
        self._delete(f"{v}.snapshot" for v in snapshots if v < base)
        self._delete(file for number in gone for file in (f"{number}.delta", f"{number}.json"))

    def demand_kept(self, batch: int) -> None:
        """Raises :class:`CheckpointError` unless the state after a batch can be rebuilt."""
        batches, snapshots = self.listed()
        from_the_start = not snapshots if not batches else self.read(batches[0]).prev in (EMPTY, BACKFILL)
        if not from_the_start and not any(version <= batch for version in snapshots):
            raise CheckpointError(
                f"cell {self.cell} cannot go back to batch {batch}: what led there is no longer kept in {self.folder}. "
                "Give a later batch"
            )

    def forget(self, batch: int) -> None:
        """Deletes every delta, snapshot and note after a batch, and remembers the digests of the deltas.

        Raises :class:`CheckpointError` if the state after that batch cannot be rebuilt."""
        self.demand_kept(batch)
        batches, snapshots = self.listed()
        gone = [number for number in batches if number > batch]
        self.disown({self.digest(number) for number in gone})
        self._delete(file for number in gone for file in (f"{number}.delta", f"{number}.json"))
        self._delete(f"{version}.snapshot" for version in snapshots if version > batch)

    def disown(self, digests: set[str]) -> None:
        """Remembers the digests of deltas that are none of this history: a live engine that applied one is of no
        use."""
        try:
            self.folder.replace(_FORGOTTEN, json.dumps(sorted(self.forgotten() | digests)).encode())
        except OSError as error:
            raise CheckpointError(f"cannot write {self.folder.at(_FORGOTTEN)}: {error.strerror}") from None

    def forgotten(self) -> set[str]:
        """Returns the digests of deltas that were deleted to go back, or are of cells before these: a live engine that
        applied one is out of date."""
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
        """Leaves a small JSON file about a batch; not durable, replaced when the batch is executed again.

        Only the newest are kept.
        """
        try:
            self.folder.replace(f"{batch}.json", json.dumps(note).encode(), durable=False)
        except OSError as error:
            raise CheckpointError(f"cannot write {self.folder.at(f'{batch}.json')}: {error.strerror}") from None
        if batch >= NOTES:
            self._delete([f"{batch - NOTES}.json"])


def weight(size: int) -> int:
    """Returns what a delta of that many bytes adds to the load of the log."""
    return max(size, BATCH_WEIGHT)


def cell_folders(operator: Folder | Path) -> list[Folder]:
    """Returns the folders of an operator's cells, by number; copies with other names are none."""
    operator = folder_at(operator)
    try:
        found = [name for name in operator.folders() if _CELL.fullmatch(name)]
    except OSError as error:
        raise CheckpointError(f"cannot read the state folder {operator}: {error.strerror}") from None
    return [operator / name for name in sorted(found, key=int)]


def strangers(log: CellLog) -> list[str]:
    """Names in a cell's folder that are none of the log's, and so are not looked at."""
    entries = [*log.files(), *log.folder.folders()]
    return sorted(name for name in entries if name[0] != "." and name != _FORGOTTEN and not _NAME.fullmatch(name))


def read_note(folder: Folder | Path, batch: int) -> dict[str, Any] | None:
    """Returns what a cell's folder says about a batch; None if nothing (no rows, or no task for it), or nothing
    readable."""
    try:
        note = json.loads(folder_at(folder).read(f"{batch}.json"))
    except (OSError, ValueError):  # a note is not durable: a crash of the machine can leave it empty
        return None
    return note if isinstance(note, dict) else None


def _numbers(names: Iterable[str], suffix: str) -> list[int]:
    found = (_NAME.fullmatch(name) for name in names)
    return sorted(int(match[1]) for match in found if match is not None and match[2] == suffix)
