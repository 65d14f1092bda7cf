"""Snapshots: one file that holds a plan and the state of its engine.

    line 1   magic and format version
    line 2   JSON: plan, words per part, CRC-32 of all words, and what the owner adds (``extra``)
    rest     the parts of the arena (the engine's own, then one per bag) up to their high-water marks, little-endian
    int64

Raw words and JSON only: a foreign or damaged file is an error message, never code that runs. Writing goes to a
temporary name first and is published by an atomic rename.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from crown.engine import Engine
from crown.errors import SnapshotError
from crown.kernels import arena as A
from crown.memory import ADDRESSABLE, map_file, reserve
from crown.state import check_header, parts_of
from plans.errors import PlanError
from plans.plan import Plan

MAGIC = b"crown snapshot 1\n"
_CHUNK = 1 << 20  # words read at a time


def save(engine: Engine, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> int:
    """Write the state of a clean engine; bytes written. O(state)."""
    engine.compact()
    parts = [part[: int(part[A.H_TOP])] for part in engine.parts]
    crc = 0
    for words in parts:
        crc = zlib.crc32(words.data, crc)
    header = {
        "plan": engine.plan.to_json(),
        "on_missing": engine.on_missing,
        "words": [len(words) for words in parts],
        "crc32": crc,
        "extra": extra or {},
    }
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(MAGIC)
            file.write(json.dumps(header).encode() + b"\n")
            for words in parts:
                file.write(words.data)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        os.replace(temporary, target)
    except OSError as error:
        raise SnapshotError(f"cannot write the snapshot {target}: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return size


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON header of a snapshot. Raises SnapshotError."""
    try:
        with Path(path).open("rb") as file:
            return _header(file, path)
    except OSError as error:
        raise SnapshotError(f"cannot read the snapshot {path}: {error.strerror}") from error


def _header(file: BinaryIO, path: str | os.PathLike[str]) -> dict[str, Any]:
    if file.readline(len(MAGIC)) != MAGIC:
        raise SnapshotError(f"{path} is not a snapshot of this version of crown")
    try:
        header = json.loads(file.readline())
        complete = isinstance(header, dict) and {"plan", "words", "crc32", "on_missing", "extra"} <= set(header)
    except ValueError:
        complete = False
    if not complete:
        raise SnapshotError(f"{path} is damaged: its header cannot be read")
    return dict(header)


def load(
    path: str | os.PathLike[str],
    *,
    plan: Plan | None = None,
    state_path: str | os.PathLike[str] | None = None,
    memory_budget: int | None = None,
) -> tuple[Engine, dict[str, Any]]:
    """The engine of a snapshot and the ``extra`` saved with it. O(state).

    ``plan``: refuse a snapshot of any other plan. ``state_path``: keep the state in that file (overwritten) instead
    of anonymous memory. Raises SnapshotError for a foreign, damaged or truncated file.
    """
    try:
        with Path(path).open("rb") as file:
            header = _header(file, path)
            try:
                saved = Plan.from_json(header["plan"])
            except PlanError as error:
                raise SnapshotError(f"{path} holds a plan that this version cannot read: {error}") from error
            if plan is not None and plan.fingerprint != saved.fingerprint:
                raise SnapshotError(
                    f"{path} was taken of another query (fingerprint {saved.fingerprint[:16]}, "
                    f"now {plan.fingerprint[:16]}); "
                    "start the changed query from an empty state"
                )
            budget = ADDRESSABLE if memory_budget is None else memory_budget // 8
            limit = ADDRESSABLE if memory_budget is None else min(ADDRESSABLE, 2 * budget + (1 << 20))
            words = [int(w) for w in header["words"]]
            if len(words) != parts_of(saved):
                raise SnapshotError(f"{path} is damaged: it has {len(words)} parts")
            if max(words) > limit:
                raise SnapshotError(
                    f"{path} holds {8 * max(words)} bytes of state, more than memory_budget allows; raise it"
                )
            where = None if state_path is None else Path(state_path)
            if where is not None:
                where.unlink(missing_ok=True)
            arena = reserve(limit * len(words)) if where is None else map_file(where, limit * len(words))
            targets = [arena[i * limit : i * limit + n] for i, n in enumerate(words)]
            _fill(file, targets, int(header["crc32"]), path)
    except OSError as error:
        raise SnapshotError(f"cannot read the snapshot {path}: {error.strerror}") from error
    check_header(arena[:limit], saved, Path(path))
    arena[A.H_LIMIT] = limit
    arena[A.H_BUDGET] = budget
    return Engine(saved, arena, where, header["on_missing"]), header["extra"]


def _fill(file: BinaryIO, parts: list[np.ndarray], expected: int, path: str | os.PathLike[str]) -> None:
    crc = 0
    for words in parts:
        at = 0
        while at < len(words):
            chunk = file.read(8 * min(_CHUNK, len(words) - at))
            if not chunk or len(chunk) % 8:
                raise SnapshotError(f"{path} is truncated")
            crc = zlib.crc32(chunk, crc)
            words[at : at + len(chunk) // 8] = np.frombuffer(chunk, np.int64)
            at += len(chunk) // 8
    if crc != expected or file.read(1):
        raise SnapshotError(f"{path} is damaged: its checksum does not match")
