"""``PipelineState``: the folder with the database of a pipeline, and the version that its tables have."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from crown.durable.database import DurableDatabase
from crown.durable.files import Lock, holder, write_durably
from crown.durable.identity import Identity
from crown.durable.opening import reopened_database
from crown.durable.recovery import damaged, history
from crown.errors import CrownError, DamagedStateError, FunctionError, LockedStateError
from crown.projects.changes import fitted
from plans.schema import Schema
from spark_jobs.errors import CheckpointError

_REPLAY = 256
"""Replaying a byte of the log takes about as long as writing this number of bytes of a snapshot."""
_RESTART = 8
"""A process that watches leaves a log that is at most this fraction (1/n) of the state."""
_LOOKS = 3
"""How often the log of a running pipeline is read before its history counts as empty."""


class _NewDatabase(DurableDatabase):
    """A database that replaces the state of a pipeline while it is open."""

    def moved(self, folder: Path) -> None:
        """Continues under the name that its folder was given."""
        self._journal.moved(folder)


class PipelineState:
    """The folder ``crown`` of a pipeline: the database, and the version that the tables of the views have."""

    def __init__(self, path: Path, keep: int, verify: bool = False) -> None:
        self._path = path
        self._folder = path / "crown"
        self._state, self._mark = self._folder / "state", self._folder / "committed.json"
        self._new_state, self._new_mark = self._folder / "state.new", self._folder / "committed.new"
        self._old = self._folder / "state.old"
        self._keep = keep
        self._verify = verify
        self._replayed = 0

    @property
    def analysis(self) -> Path:
        """Returns the file that stores the analysis of the views."""
        return self._folder / "analysis.json"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Locks the pipeline: no other process runs, restores or refreshes it meanwhile.

        The lock of the database is not enough: a full refresh, and another schema, replace its folder.
        """
        self._path.mkdir(parents=True, exist_ok=True)
        try:
            lock = Lock(self._path)
        except LockedStateError:
            raise _taken(self._path) from None
        try:
            yield
        finally:
            lock.release()

    def current(self) -> Path | None:
        """Returns the folder of the database; None before the first run. First finishes what a dead process began: it
        completes a replacement, and deletes a database that was not to replace the state yet."""
        if self._old.exists() and not self._state.exists():
            self._replace()
        for folder in (self._old, self._new_state):
            shutil.rmtree(folder, ignore_errors=True)
        return self._state if (self._state / "meta.json").exists() else None

    def committed(self) -> int:
        """Returns the version that all tables have."""
        return self._read()[0]

    def commit(self, version: int, batches: int) -> None:
        """Records that all tables have a version, which ends with this batch of the database."""
        self._write(self._mark, version, batches)

    def shorten(self, database: DurableDatabase, now: bool, stays: bool) -> None:
        """Writes a snapshot ``now``, or when replaying the log has cost as much as a snapshot.

        ``stays``: the database stays open, and the log is replayed only after the process has died.
        """
        sizes = database.stats()
        logged, state = sizes["log_bytes"], sizes["live_bytes"]
        if now or (_RESTART * logged if stays else _REPLAY * (self._replayed + logged)) > state:
            database.snapshot()
            self._replayed = 0
        version, batches, replayed = self._read()
        if replayed != self._replayed:
            self.commit(version, batches)

    def _write(self, mark: Path, version: int, batches: int) -> None:
        write_durably(mark, json.dumps({"version": version, "batches": batches, "replayed": self._replayed}).encode())

    def _read(self) -> tuple[int, int, int]:
        try:
            given = json.loads(self._mark.read_bytes())
            return int(given["version"]), int(given["batches"]), int(given.get("replayed", 0))
        except FileNotFoundError:
            return 0, 0, 0
        except (ValueError, KeyError, TypeError):
            raise CheckpointError(f"{self._mark} is damaged: a full refresh computes everything again") from None

    @contextmanager
    def rebuilt(
        self, schema: Schema, empty: bool = False
    ) -> Iterator[tuple[DurableDatabase, list[dict[str, pa.Table]]]]:
        """Opens a new database with other tables and the rows of the state, or an ``empty`` one, as ``opened`` does.

        It replaces the state when it is adopted. If the run fails or dies before that, the state is as it was. A table
        whose columns are others is read in full by the run, and compared with these rows. The run registers the views,
        too.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        self.current()
        self._replayed = 0
        try:
            with reopened_database(self._new_state, schema, of=_NewDatabase, keep=self._keep)[0] as made:
                if not empty:
                    self._fill(made, schema)
                self._write(self._new_mark, made.note["version"] if made.note else 0, made.batches)
                yield made, []
        finally:
            self.current()  # deletes it if it was not adopted

    def _fill(self, made: DurableDatabase, schema: Schema) -> None:
        """Fills the tables of a new database with the rows of the state, which are no version that can be restored."""
        with reopened_database(self._state, verify=self._verify)[0] as before:
            note = before.note
            if note is None:  # the first run was refused, and there are no rows
                return
            known = [table for table in before.tables if table.name in schema]
            same = {table.name.lower() for table in known if schema[table.name] == table}
            positions = {name: at for name, at in note["positions"].items() if name in same}
            rows = {t.name: fitted(before.table(t.name), t, schema[t.name]) for t in known}
            made.apply(rows, note={**note, "positions": positions, "whole": False})

    def adopt(self, database: DurableDatabase) -> None:
        """Replaces the state with a database that ``rebuilt`` has opened. Does nothing for the state itself."""
        if not isinstance(database, _NewDatabase) or database.path == self._state:
            return
        if self._state.exists():
            self._state.rename(self._old)
        self._replace()
        database.moved(self._state)
        shutil.rmtree(self._old, ignore_errors=True)

    def _replace(self) -> None:
        with suppress(FileNotFoundError):  # a process that died has done this
            self._new_mark.replace(self._mark)
        self._new_state.rename(self._state)

    @contextmanager
    def opened(self, schema: Schema | None) -> Iterator[tuple[DurableDatabase, list[dict[str, pa.Table]]]]:
        """Opens the database, and returns the deltas of the batches that are not in all tables."""
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            known = schema if self.current() is None else None
            database, deltas = reopened_database(
                self._state, known, after=self._read()[1], keep=self._keep, verify=self._verify
            )
            self._replayed = self._read()[2] + database.stats()["log_bytes"]
        except LockedStateError:
            raise _taken(self._state) from None
        except DamagedStateError as error:
            raise CheckpointError(
                f"the state of the pipeline cannot be used: {error.fault}. Restore the folders crown and tables from "
                "the same copy, or compute everything again with crown pipelines full-refresh"
            ) from error
        except CrownError as error:
            again = ". A full refresh computes everything again" if isinstance(error, FunctionError) else ""
            raise CheckpointError(f"the state of the pipeline cannot be used: {error}{again}") from error
        try:
            with database:
                yield database, [deltas[batch] for batch in sorted(deltas)]
        except DamagedStateError as error:
            raise CheckpointError(f"{error} (crown pipelines run --verify)") from error


def _taken(folder: Path) -> CheckpointError:
    process = holder(folder)
    which = f"process {process}" if process else "another process"
    return CheckpointError(f"{which} runs or watches this pipeline already: wait until it ends, or end it")


def versions(history: Iterable[tuple[int, Any]]) -> dict[int, tuple[int, Mapping[str, Any]]]:
    """Returns by version the last batch of each that is in the history of a database, and its note."""
    return {note["version"]: (batch, note) for batch, note in history if note and note["whole"]}


def damage(pipeline: Path) -> list[str]:
    """Returns the faults of the files of a pipeline's state, also while a process has its database open. O(state)."""
    folder = pipeline / "crown" / "state"
    identity = Identity.read(folder)
    return [] if identity is None else damaged(folder, identity.view)


def restorable(pipeline: Path) -> list[int]:
    """Returns the versions of a pipeline that can be restored, also while a process has its database open. O(bytes of
    the log)."""
    folder = pipeline / "crown" / "state"
    for _ in range(_LOOKS):
        identity = Identity.read(folder)
        with suppress(FileNotFoundError):  # a snapshot was written meanwhile, and old files are gone
            return sorted(versions(history(folder, identity.view))) if identity is not None else []
    return []
