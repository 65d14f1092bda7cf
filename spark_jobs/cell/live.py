"""The live engine of a cell on this host: mapped files, a lock, and its position in the log.

All executors of one host that use the same scratch folder attach the same files. So a cell that moves between them, or
between their worker processes, is attached in O(1). Another host has a live engine of its own, or none.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crown.errors import SnapshotError
from crown.programs.program import ProgramEngine
from plans.program import Program
from spark_jobs.cell import engines
from spark_jobs.errors import CheckpointError, FolderError
from spark_jobs.log.state_log import Load

LOCK_SECONDS = 300.0
_OWNER = 32  # bytes of the lock file, which hold the process id of the owner

_attached: dict[Path, tuple[tuple[int, int, str], ProgramEngine]] = {}
"""Engines that this process has mapped, by path, with the identity of the mapped file and their ``on_missing``.

Bounded; see ``_remember``. A forked process creates its own mappings.
"""
os.register_at_fork(after_in_child=_attached.clear)


@dataclass(frozen=True)
class Place:
    """The position of an engine in its log: the last version applied, and the digest of that version's delta.

    ``load``: decides when the next snapshot is due.
    """

    version: int
    digest: str
    load: Load

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON-able form, which ``from_json`` reads."""
        load = [self.load.snapshot, self.load.logged]
        return {"version": self.version, "digest": self.digest, "load": load}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Place:
        """Returns the place that ``to_json`` described."""
        return Place(data["version"], data["digest"], Load(*data["load"]))


class Live:
    """The live engine of one cell in ``folder``. The folder may vanish at any time; the engine is then rebuilt from the
    log.
    """

    def __init__(self, program: Program, folder: Path, on_missing: str) -> None:
        self.program = program
        self.folder = folder
        self.on_missing = on_missing
        self._arena = folder / "engine.arena"
        self._place = folder / "place.json"
        self._holds = program.fingerprint

    def engine(self) -> ProgramEngine:
        """Returns the live engine: this process's mapping of the same file, or a new one. O(1).

        An existing mapping is extended if another process has enlarged the file.

        Raises ``SnapshotError`` or ``FileNotFoundError`` if there is none.
        """
        known = _attached.get(self._arena)
        if known is not None and known[0] == self._identity() and known[1].fingerprint == self._holds:
            file = known[1].memory.file
            assert file is not None, "a live engine is in a file"
            file.follow()
            return known[1]
        return self._remember(engines.attached(self.program, self._arena, self.on_missing))

    def found(self) -> tuple[ProgramEngine, Place] | None:
        """Returns the live engine and its place, or None if it is absent, torn or of another program. O(1)."""
        try:
            engine = self.engine()
            place = Place.from_json(json.loads(self._place.read_bytes()))
        except (SnapshotError, FileNotFoundError, ValueError, KeyError, TypeError):
            return None
        return (engine, place) if engine.clean and engine.version == place.version + 1 else None

    def created(self) -> ProgramEngine:
        """Creates an empty engine that replaces the live one, and returns it."""
        _attached.pop(self._arena, None)
        return self._remember(engines.created(self.program, self._arena, self.on_missing))

    def loaded(self, source: Path) -> tuple[ProgramEngine, dict[str, Any]]:
        """Replaces the live engine by the engine of a snapshot. Returns it, and the data that was saved with it.
        O(state).

        Raises ``SnapshotError``.
        """
        _attached.pop(self._arena, None)
        engine, extra = engines.loaded(source, self.program, self._arena, self.on_missing)
        return self._remember(engine), extra

    def settle(self, engine: ProgramEngine, place: Place) -> None:
        """Writes the engine's place, then marks the engine clean there."""
        with self._writing():
            self._place.write_text(json.dumps(place.to_json()))
        engine.commit(place.version + 1)  # the engine counts from −1, the log from EMPTY = −2

    def _identity(self) -> tuple[int, int, str]:
        status = os.stat(self._arena)
        return status.st_dev, status.st_ino, self.on_missing

    def _remember(self, engine: ProgramEngine) -> ProgramEngine:
        _attached.pop(self._arena, None)
        while len(_attached) >= 32:
            _attached.pop(next(iter(_attached)))
        _attached[self._arena] = (self._identity(), engine)
        return engine

    @contextmanager
    def locked(self, cell: str) -> Iterator[None]:
        """Holds the lock of the live engine. The system releases the lock when the process ends."""
        with self._writing():
            self.folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            deadline = time.monotonic() + LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        owner = os.pread(handle, _OWNER, 0).decode(errors="replace").strip() or "unknown"
                        raise CheckpointError(
                            f"cell {cell} has been locked by process {owner} for {LOCK_SECONDS:.0f} s: if "
                            "that process is a worker of a killed attempt, end it"
                        ) from None
                    time.sleep(0.01)
            with self._writing():
                os.pwrite(handle, f"{os.getpid():<{_OWNER}}".encode(), 0)  # truncating takes 0.5 ms
            yield
        finally:
            os.close(handle)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Raises FolderError, with one sentence, if the folder cannot be written."""
        try:
            yield
        except OSError as error:
            raise FolderError(
                f"the live engine in {self.folder} cannot be written ({error.strerror}): make room there, or give "
                "another scratch="
            ) from None
