"""The durable state of one cell: a chain of input deltas, and snapshots to start the chain from.

``<cell>/`` holds, for batch ``b``::

    b.delta       what the cell was given in batch b: one Arrow stream per relation, columns and ``_weight``
    v.snapshot    the engine as it was after batch v
    b.json        what the batch did (rows in, deltas out, ...), for the driver to read

A delta is published once, by an atomic create-if-absent, and never changed; whoever comes second must bring the same
rows. It names the batch before it (``prev``), so the chain has no silent gaps: the state after batch ``b`` is the
newest snapshot before ``b`` plus every delta since. Version −2 is the empty engine, −1 a backfill.

File form of a delta: magic, header length (uint32), header (JSON: format, plan fingerprint, cell, batch, prev, relation
sizes), Arrow IPC streams, BLAKE2b of all before. Nothing is ever unpickled, so a foreign file is an error, not code.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_jobs.errors import BrokenChainError, CheckpointError, DamagedStateError, InputChangedError, PlanChangedError

FORMAT = 1
EMPTY = -2
BACKFILL = -1
_MAGIC = b"CROWNDLT"
_DIGEST = 16
_WEIGHT = "_weight"

Changes = Mapping[str, pa.Table]


@dataclass(frozen=True)
class Link:
    """One batch of a cell: its number, the batch before it, and the rows the cell was given, by relation."""

    batch: int
    prev: int
    changes: dict[str, pa.Table]


class CellLog:
    """The log of one cell in ``folder``; ``fingerprint`` is the plan's, written into and demanded of every file."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder = folder
        self.fingerprint = fingerprint
        self.cell = folder.name
        folder.mkdir(parents=True, exist_ok=True)

    # -- what is there ------------------------------------------------------------------------------------------------

    def batches(self) -> list[int]:
        """Numbers of the published deltas, ascending."""
        return _numbers(self.folder, ".delta")

    def snapshots(self) -> list[int]:
        """Versions of the snapshots, ascending."""
        return _numbers(self.folder, ".snapshot")

    def delta_path(self, batch: int) -> Path:
        """Where the delta of a batch is."""
        return self.folder / f"{batch}.delta"

    def snapshot_path(self, version: int) -> Path:
        """Where the snapshot of a version is."""
        return self.folder / f"{version}.snapshot"

    def missed(self, after: int, before: int) -> int | None:
        """A batch strictly between the two that other cells of the operator have and this one has not; None if none.

        A batch without rows may be optimized away for all cells at once, which is no gap. A batch that only some cells
        have was cut short by its consumer (``limit``, ``show``, ``isEmpty``). Cost: nothing when the batches are next
        to each other, else one directory listing per cell.
        """
        if before - after <= 1:
            return None
        mine = set(self.batches())
        for sibling in sorted(self.folder.parent.iterdir()):
            if sibling.is_dir() and sibling != self.folder:
                found = [b for b in _numbers(sibling, ".delta") if after < b < before and b not in mine]
                if found:
                    return found[0]
        return None

    # -- deltas -------------------------------------------------------------------------------------------------------

    def publish(self, link: Link) -> Link:
        """Make a delta durable, or check that the one already there holds the same rows. Returns the one in the log.

        Raises :class:`InputChangedError` if another attempt of the batch published other rows.
        """
        path = self.delta_path(link.batch)
        data = _pack(link, self.fingerprint, self.cell)
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
        """The delta of a batch. Raises :class:`DamagedStateError`, or :class:`BrokenChainError` if it is not there."""
        path = self.delta_path(batch)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise BrokenChainError(
                f"cell {self.cell}: the delta of batch {batch} is missing ({path}); the state cannot be rebuilt "
                "without it. Put the file back from a copy, or start again with a new checkpoint"
            ) from None
        return _unpack(data, path, self.fingerprint)

    def chain(self, base: int, before: int) -> list[int]:
        """The batches to replay on version ``base`` to reach the state just before batch ``before``, in order."""
        return [b for b in self.batches() if base < b < before]

    def _the_same(self, link: Link) -> Link:
        stored = self.read(link.batch)
        if stored.prev != link.prev or not _same_rows(stored.changes, link.changes):
            raise InputChangedError(
                f"cell {self.cell}: batch {link.batch} was executed again with other rows than the first time. A "
                "source must replay a batch exactly (no rand(), no current_timestamp(), no files changed in place)"
            )
        return stored

    # -- snapshots ----------------------------------------------------------------------------------------------------

    def write_snapshot(self, version: int, write: Callable[[Path], object]) -> None:
        """Make a snapshot durable; ``write`` must write and flush the file and give it its name in one step."""
        write(self.snapshot_path(version))
        _sync_folder(self.folder)

    def snapshot_due(self, floor: int) -> bool:
        """True when the deltas since the newest snapshot outweigh it (or ``floor`` bytes, whichever is more).

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
        """Delete what no replay of the last ``keep`` batches up to ``batch`` can need.

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
        """Leave a small JSON file about a batch; not durable, replaced when the batch is executed again."""
        temporary = self._temporary()
        temporary.write_text(json.dumps(note))
        os.replace(temporary, self.folder / f"{batch}.json")

    def _temporary(self) -> Path:
        return self.folder / f".{os.getpid()}-{uuid.uuid4().hex}.tmp"


def read_note(folder: Path, batch: int) -> dict[str, Any] | None:
    """What a cell's folder says about a batch; None if nothing (no rows, or no task for it)."""
    try:
        note: dict[str, Any] = json.loads((folder / f"{batch}.json").read_text())
    except FileNotFoundError:
        return None
    return note


def check_meta(folder: Path, meta: Mapping[str, Any]) -> None:
    """Write ``meta.json`` of an operator if it is the first, else demand that plan and cells are the same.

    ``meta`` holds format, fingerprint, cells, grid, query. Raises :class:`PlanChangedError` with both sides and what to
    do.
    """
    path = folder / "meta.json"
    stored = read_meta(folder)
    if stored is None:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f".{os.getpid()}-{uuid.uuid4().hex}.tmp"
        _write_durably(temporary, json.dumps(meta, indent=1).encode())
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
    if stored["format"] != meta["format"]:
        raise PlanChangedError(
            f"the state in {folder} has format {stored['format']}, this version reads format {meta['format']}: "
            "go on with the version that wrote it, or start with a new checkpoint"
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
    """``meta.json`` of an operator's folder, or None. Raises :class:`DamagedStateError` if it is not what we write."""
    path = folder / "meta.json"
    try:
        meta = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        raise DamagedStateError(f"{path} is damaged: it is not JSON. Restore it from a copy") from None
    if not isinstance(meta, dict) or not {"format", "fingerprint", "cells", "grid", "query"} <= set(meta):
        raise DamagedStateError(f"{path} was not written by this operator: choose another checkpoint folder")
    return meta


def _numbers(folder: Path, suffix: str) -> list[int]:
    names = (entry.name for entry in os.scandir(folder))
    return sorted(int(name[: -len(suffix)]) for name in names if name.endswith(suffix) and name[0] != ".")


def _pack(link: Link, fingerprint: str, cell: str) -> bytes:
    streams: list[bytes] = []
    for table in link.changes.values():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
            writer.write_table(table)
        streams.append(sink.getvalue().to_pybytes())
    relations = [
        {"name": name, "rows": table.num_rows, "bytes": len(data)}
        for (name, table), data in zip(link.changes.items(), streams, strict=True)
    ]
    header = json.dumps(
        {
            "format": FORMAT,
            "fingerprint": fingerprint,
            "cell": cell,
            "batch": link.batch,
            "prev": link.prev,
            "relations": relations,
        }
    ).encode()
    body = b"".join([_MAGIC, struct.pack("<I", len(header)), header, *streams])
    return body + hashlib.blake2b(body, digest_size=_DIGEST).digest()


def _unpack(data: bytes, path: Path, fingerprint: str) -> Link:
    if data[: len(_MAGIC)] != _MAGIC:
        raise DamagedStateError(f"{path} is not a delta of this operator: restore it from a copy")
    body, digest = data[:-_DIGEST], data[-_DIGEST:]
    if hashlib.blake2b(body, digest_size=_DIGEST).digest() != digest:
        raise DamagedStateError(
            f"{path} is damaged: its checksum does not match. Restore the file from a copy, or start with a new "
            f"checkpoint"
        )
    start = len(_MAGIC) + 4
    (length,) = struct.unpack("<I", body[len(_MAGIC) : start])
    header = json.loads(body[start : start + length])
    if header["format"] != FORMAT:
        raise DamagedStateError(f"{path} has format {header['format']}, this version reads format {FORMAT}")
    if header["fingerprint"] != fingerprint:
        raise PlanChangedError(
            f"{path} was written by plan {header['fingerprint']}, but this is plan {fingerprint}: give the changed "
            "query a new checkpoint, or go back to the query of this one"
        )
    offset = start + length
    changes = {}
    for relation in header["relations"]:
        stream = pa.py_buffer(body)[offset : offset + relation["bytes"]]
        changes[relation["name"]] = pa.ipc.open_stream(stream).read_all()
        offset += relation["bytes"]
    return Link(header["batch"], header["prev"], changes)


def _same_rows(a: Changes, b: Changes) -> bool:
    """True iff both have the same rows with the same summed weights, in any order."""
    return all(_difference(a.get(name), b.get(name)) == 0 for name in {*a, *b})


def _difference(a: pa.Table | None, b: pa.Table | None) -> int:
    """How many distinct rows have another weight in ``a`` than in ``b``."""
    parts = []
    for table, sign in ((a, 1), (b, -1)):
        if table is not None and table.num_rows:
            weight = pa.compute.multiply(table[_WEIGHT], sign)
            parts.append(table.set_column(table.column_names.index(_WEIGHT), _WEIGHT, weight))
    if not parts:
        return 0
    keys = [name for name in parts[0].column_names if name != _WEIGHT]
    sums = pa.concat_tables(parts).group_by(keys).aggregate([(_WEIGHT, "sum")])[f"{_WEIGHT}_sum"]
    return int(pa.compute.sum(pa.compute.not_equal(sums, 0)).as_py() or 0)


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
