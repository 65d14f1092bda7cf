"""The durable state of one cell: a chain of input deltas, and snapshots to start the chain from.

``<cell>/`` holds, for batch ``b``::

    b.delta       what the cell was given in batch b: one Arrow stream per relation, columns and ``_weight``
    v.snapshot    the engine as it was after batch v
    b.json        what the batch did (rows in, deltas out, ...), for the driver to read

A delta is published once, by an atomic create-if-absent, and never changed; whoever comes second must bring the same
rows. It names the batch before it (``prev``), so the chain has no silent gaps: the state after batch ``b`` is the
newest snapshot before ``b`` plus every delta since. Version −2 is the empty engine, −1 a backfill. Every cell has a
delta of every batch that Spark executed, with or without rows; so a missing one is noticed
(``spark_jobs.cell.history``).

Files of other names (copies, editors' backups) are not looked at. A delta's form: ``spark_jobs.cell.delta_file``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from spark_jobs.cell.delta_file import ONE_CELL, Link, Owner, format_of, pack, same_rows, unpack
from spark_jobs.errors import BrokenChainError, CheckpointError, DamagedStateError, InputChangedError, PlanChangedError

EMPTY = -2
BACKFILL = -1
_NAME = re.compile(r"(-1|0|[1-9][0-9]{0,17})\.(delta|snapshot|json)")
_CELL = re.compile(r"0|[1-9][0-9]{0,8}")
_META = {"format": int, "fingerprint": str, "cells": int, "grid": dict, "query": str}


class CellLog:
    """The log of one cell in ``folder``, which is ``<stream id>/<operator>/<cell>``.

    ``fingerprint`` is the plan's, ``format`` that of ``meta.json``. They, the cell, the operator and the stream are
    written into every file and demanded of every file that is read: a file of another cell or stream is refused, also
    one with the same plan. Files written before streams were noted are taken by plan, cell and batch alone.
    """

    def __init__(self, folder: Path, fingerprint: str, format: int = ONE_CELL) -> None:
        self.folder = folder
        self.cell = folder.name
        self.owner = Owner(fingerprint, folder.name, f"{folder.parent.parent.name}/{folder.parent.name}", format)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"cannot make the state folder {folder}: {error.strerror}") from None

    # -- what is there ------------------------------------------------------------------------------------------------

    def batches(self) -> list[int]:
        """Returns the numbers of the published deltas, ascending."""
        return _numbers(self.folder, "delta")

    def snapshots(self) -> list[int]:
        """Returns the versions of the snapshots, ascending."""
        return _numbers(self.folder, "snapshot")

    def delta_path(self, batch: int) -> Path:
        """Returns where the delta of a batch is."""
        return self.folder / f"{batch}.delta"

    def snapshot_path(self, version: int) -> Path:
        """Returns where the snapshot of a version is."""
        return self.folder / f"{version}.snapshot"

    def newest(self) -> int:
        """Returns the newest version that the log can restore; EMPTY if it has none."""
        return max(self.batches()[-1:] + self.snapshots()[-1:], default=EMPTY)

    # -- deltas -------------------------------------------------------------------------------------------------------

    def publish(self, link: Link) -> Link:
        """Makes a delta durable, or checks that the one already there holds the same rows. Returns the one in the log.

        Raises :class:`InputChangedError` if another attempt of the batch published other rows.
        """
        path = self.delta_path(link.batch)
        data = pack(link, self.owner)
        temporary = self._temporary()
        try:
            _write_durably(temporary, data)
            os.link(temporary, path)  # atomic: fails if somebody was first
        except FileExistsError:
            return self._the_same(link)
        except OSError as error:
            raise CheckpointError(f"cannot write the state log {path}: {error.strerror}") from None
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(self.folder)
        return link

    def read(self, batch: int) -> Link:
        """Returns the delta of a batch. Raises :class:`DamagedStateError`, or :class:`BrokenChainError` if it is not
        there.

        A file that is whole but of another cell, batch or stream is :class:`DamagedStateError`, one of another plan
        :class:`PlanChangedError`.
        """
        path = self.delta_path(batch)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise BrokenChainError(
                f"cell {self.cell}: the delta of batch {batch} is missing ({path}); the state cannot be rebuilt "
                "without it. Put the file back from a copy, or start again with a new checkpoint"
            ) from None
        except OSError as error:
            raise CheckpointError(f"cannot read the state log {path}: {error.strerror}") from None
        return unpack(data, path, self.owner, batch)

    def _the_same(self, link: Link) -> Link:
        stored = self.read(link.batch)
        if stored.prev != link.prev or not same_rows(stored.changes, link.changes):
            raise InputChangedError(
                f"cell {self.cell}: batch {link.batch} was executed again with other rows than the first time. A "
                "source must replay a batch exactly (no rand(), no current_timestamp(), no files changed in place)"
            )
        return stored

    # -- snapshots ----------------------------------------------------------------------------------------------------

    def write_snapshot(self, version: int, write: Callable[[Path], object]) -> None:
        """Makes a snapshot durable; ``write`` must write and flush the file and give it its name in one step."""
        try:
            write(self.snapshot_path(version))
        except OSError as error:
            raise CheckpointError(f"cannot write {self.snapshot_path(version)}: {error.strerror}") from None
        _sync_folder(self.folder)

    def mark(self, version: int) -> dict[str, Any]:
        """Returns what a snapshot must say of itself: its version, cell and stream."""
        return {"version": version, "cell": self.cell, "stream": self.owner.stream}

    def snapshot_due(self, floor: int) -> bool:
        """Returns True when the deltas since the newest snapshot outweigh it (or ``floor`` bytes, whichever is more).

        Writing O(state) bytes only after O(state) bytes of input makes snapshots amortized O(Δ).
        """
        newest = max(self.snapshots(), default=None)
        size = floor if newest is None else max(floor, self.snapshot_path(newest).stat().st_size)
        since = EMPTY if newest is None else newest
        logged = 0
        for batch in reversed(self.batches()):
            if batch <= since:
                break
            logged += self.delta_path(batch).stat().st_size
            if logged > size:
                return True
        return False

    def retain(self, batch: int, keep: int) -> None:
        """Deletes what no replay of the last ``keep`` batches up to ``batch`` can need.

        Kept: the newest snapshot older than all of them, and every snapshot and delta since (a snapshot is not larger
        than the deltas that led to it, so these are at most as much again).
        """
        snapshots = self.snapshots()
        old = [v for v in snapshots if v < batch - max(keep, 1)]
        if not old:
            return
        base = old[-1]
        doomed = [self.snapshot_path(v) for v in snapshots if v < base]
        for number in self.batches():
            if number > base:
                break
            doomed += [self.delta_path(number), self.folder / f"{number}.json"]
        for path in doomed:
            path.unlink(missing_ok=True)

    # -- notes for the driver -----------------------------------------------------------------------------------------

    def write_note(self, batch: int, note: Mapping[str, Any]) -> None:
        """Leaves a small JSON file about a batch; not durable, replaced when the batch is executed again."""
        temporary = self._temporary()
        temporary.write_text(json.dumps(note))
        os.replace(temporary, self.folder / f"{batch}.json")

    def _temporary(self) -> Path:
        return self.folder / f".{os.getpid()}-{uuid.uuid4().hex}.tmp"


def cell_folders(operator: Path) -> list[Path]:
    """Returns the folders of an operator's cells, by number; copies with other names are none."""
    if not operator.is_dir():
        return []
    found = [path for path in operator.iterdir() if _CELL.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=lambda path: int(path.name))


def strangers(folder: Path) -> list[str]:
    """Names in a cell's folder that are none of the log's, and so are not looked at."""
    return sorted(name for name in os.listdir(folder) if name[0] != "." and not _NAME.fullmatch(name))


def read_note(folder: Path, batch: int) -> dict[str, Any] | None:
    """Returns what a cell's folder says about a batch; None if nothing (no rows, or no task for it), or nothing
    readable."""
    try:
        note = json.loads((folder / f"{batch}.json").read_bytes())
    except (OSError, ValueError):  # a note is not durable: a crash of the machine can leave it empty
        return None
    return note if isinstance(note, dict) else None


def check_meta(folder: Path, meta: Mapping[str, Any]) -> None:
    """Writes ``meta.json`` of an operator if it is the first, else demands that plan and cells are the same.

    ``meta`` holds format, fingerprint, cells, grid, query. Raises :class:`PlanChangedError` with both sides and what to
    do.
    """
    path = folder / "meta.json"
    stored = read_meta(folder)
    if stored is None:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f".{os.getpid()}-{uuid.uuid4().hex}.tmp"
        _write_durably(temporary, json.dumps({"checksum": _checksum(meta), **meta}, indent=1).encode())
        try:
            os.link(temporary, path)
            _sync_folder(folder)
        except FileExistsError:
            pass  # another cell was first; its words are checked below like any others
        finally:
            temporary.unlink(missing_ok=True)
        stored = read_meta(folder)
        if stored is None:
            raise CheckpointError(f"{path} vanished while it was being written")
    known, cells = format_of(stored["cells"]), stored["cells"]
    if stored["format"] != known:
        raise PlanChangedError(
            f"the state in {folder} has format {stored['format']}, this version reads format {known} of a state in "
            f"{cells} {'cell' if cells == 1 else 'cells'}: go on with the version that wrote it, or start with a new "
            "checkpoint"
        )
    if stored["fingerprint"] != meta["fingerprint"]:
        raise PlanChangedError(
            f"the state in {folder} was written by plan {stored['fingerprint']} ({stored['query']}), "
            f"but this is plan {meta['fingerprint']} ({meta['query']}). A changed query needs its own state: give it a "
            "new checkpoint, or go back to the query of this one. Two queries in one stream need different operator= "
            "names"
        )
    if stored["cells"] != meta["cells"]:
        raise PlanChangedError(
            f"the state in {folder} is cut into {stored['cells']} cells ({stored['fingerprint']}), this run asks for "
            f"{meta['cells']}: go on with cells={stored['cells']}, or start with a new checkpoint"
        )
    if stored["grid"] != meta["grid"]:
        raise PlanChangedError(
            f"the state in {folder} is cut along {stored['grid']}, this run would cut along {meta['grid']}: leave "
            "out rates=, or start with a new checkpoint"
        )


def read_meta(folder: Path) -> dict[str, Any] | None:
    """Returns ``meta.json`` of an operator's folder, or None. Raises :class:`DamagedStateError` if it is not what we
    write.

    A file without a checksum, as written before there were any, is taken as it stands. (The checksum comes first in
    the file: what is left when a cut has taken it away is either not JSON, or lacks a key, or is the same.)
    """
    path = folder / "meta.json"
    try:
        meta = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise DamagedStateError(f"{path} is damaged: it is not JSON. Restore it from a copy") from None
    if not isinstance(meta, dict):
        raise DamagedStateError(f"{path} was not written by this operator: choose another checkpoint folder")
    checksum = meta.pop("checksum", None)
    if set(meta) != set(_META) or any(type(meta[key]) is not kind for key, kind in _META.items()):
        raise DamagedStateError(f"{path} was not written by this operator: choose another checkpoint folder")
    if checksum is not None and checksum != _checksum(meta):
        raise DamagedStateError(f"{path} is damaged: its checksum does not match. Restore it from a copy")
    return meta


def _checksum(meta: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(meta, sort_keys=True).encode(), digest_size=16).hexdigest()


def _numbers(folder: Path, suffix: str) -> list[int]:
    found = (_NAME.fullmatch(name) for name in os.listdir(folder))
    return sorted(int(match[1]) for match in found if match is not None and match[2] == suffix)


def _write_durably(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
