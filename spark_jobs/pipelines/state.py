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
from crown.ingest.tables.columns import WEIGHT
from crown.projects.changes import nothing, schema_of, with_weights
from plans.schema import Schema, Table
from spark_jobs.errors import CheckpointError

_REPLAY = 256
"""Replaying a byte of the log takes about as long as writing this number of bytes of a snapshot."""
_RESTART = 8
"""A process that watches leaves a log that is at most this fraction (1/n) of the state."""
_LOOKS = 3
"""How often the log of a running pipeline is read before its history counts as empty."""


class PipelineState:
    """The folder ``crown`` of a pipeline: the database, and the version that the tables of the views have."""

    def __init__(self, path: Path, keep: int, verify: bool = False) -> None:
        self._path = path
        self._folder = path / "crown"
        self._removed = path / "crown.gone"
        self._fresh, self._old = self._folder / "state.new", self._folder / "state.old"
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

        The lock of the database is not enough: a full refresh deletes its folder, and another schema replaces it.
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
        """Returns the folder of the database; None before the first run. First finishes a deletion or a replacement
        that a dead process left unfinished."""
        found = self._folder / "state"
        if not found.exists() and self._old.exists():
            self._fresh.rename(found)
        for folder in (self._old, self._removed):
            shutil.rmtree(folder, ignore_errors=True)
        return found if (found / "meta.json").exists() else None

    def forget(self) -> None:
        """Deletes the state in one step, because a state with some of its files missing cannot be used."""
        self.current()
        if self._folder.exists():
            self._folder.rename(self._removed)
        shutil.rmtree(self._removed, ignore_errors=True)

    def committed(self) -> int:
        """Returns the version that all tables have."""
        return self._read()[0]

    def commit(self, version: int, batches: int) -> None:
        """Records that all tables have a version, which ends with this batch of the database."""
        self._write({"version": version, "batches": batches, "replayed": self._replayed})

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

    def _write(self, given: Mapping[str, int]) -> None:
        write_durably(self._folder / "committed.json", json.dumps(given).encode())

    def _read(self) -> tuple[int, int, int]:
        try:
            given = json.loads((self._folder / "committed.json").read_bytes())
            return int(given["version"]), int(given["batches"]), int(given.get("replayed", 0))
        except FileNotFoundError:
            return 0, 0, 0
        except (ValueError, KeyError, TypeError):
            raise CheckpointError(
                f"{self._folder / 'committed.json'} is damaged: a full refresh computes everything again"
            ) from None

    def rebuild(self, schema: Schema) -> None:
        """Creates a database with other tables from this one, which has the rows of this one.

        A table whose columns are others is read in full by the run that follows, and compared with these rows. That run
        registers the views, too. The version of the rows is then no version of the views, so it cannot be restored.
        """
        fresh, old = self._fresh, self._folder / "state"
        shutil.rmtree(fresh, ignore_errors=True)
        with reopened_database(old, verify=self._verify)[0] as before:
            note = before.note
            with reopened_database(fresh, schema)[0] as made:
                if note is not None:  # else the first run was refused, and there are no rows
                    known = [table for table in before.tables if table.name in schema]
                    same = {table.name.lower() for table in known if schema[table.name] == table}
                    positions = {name: at for name, at in note["positions"].items() if name in same}
                    rows = {t.name: _fitted(before.table(t.name), t, schema[t.name]) for t in known}
                    made.apply(rows, note={**note, "positions": positions, "whole": False})
                    self.commit(note["version"], made.batches)
        old.rename(self._old)
        fresh.rename(old)
        shutil.rmtree(self._old)

    @contextmanager
    def opened(self, schema: Schema | None) -> Iterator[tuple[DurableDatabase, list[dict[str, pa.Table]]]]:
        """Opens the database, and returns the deltas of the batches that are not in all tables."""
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            known = schema if self.current() is None else None
            database, deltas = reopened_database(
                self._folder / "state", known, after=self._read()[1], keep=self._keep, verify=self._verify
            )
            self._replayed = self._read()[2] + database.stats()["log_bytes"]
        except LockedStateError:
            raise _taken(self._folder / "state") from None
        except CrownError as error:
            again = ". A full refresh computes everything again" if isinstance(error, FunctionError) else ""
            raise CheckpointError(f"the state of the pipeline cannot be used: {error}{again}") from error
        try:
            with database:
                yield database, [deltas[batch] for batch in sorted(deltas)]
        except DamagedStateError as error:
            raise CheckpointError(f"{error} (crown pipelines run --verify)") from error


def _fitted(rows: pa.Table, before: Table, now: Table) -> pa.Table:
    """Returns the rows of a table in other columns: a column that was not there, or had another type, is NULL.

    No rows if this may not be NULL, or if rows must not be equal: then every view that reads the table is a new one.
    """
    if before == now:
        return rows
    missing = {c.name for c in now.columns if (old := before.column(c.name)) is None or old.type != c.type}
    required = {c.name for c in now.columns if now.required(c.name)}
    if now.distinct or now.key != before.key or any(n in missing or not before.required(n) for n in required):
        return with_weights(nothing(now), 1)
    given = dict(zip((name.lower() for name in rows.column_names), rows.columns, strict=True))
    columns = [
        pa.nulls(rows.num_rows, field.type) if field.name in missing else given[field.name.lower()]
        for field in schema_of(now)
    ]
    return pa.table(columns, schema_of(now)).append_column(WEIGHT, rows[WEIGHT])


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
