"""``DurableDatabase``: a database that logs its batches and changes of its views before they take effect."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from typing_extensions import override

from crown.databases import Database
from crown.durable.in_folder import InFolder
from crown.durable.journal import Journal
from crown.durable.kinds import PROGRAM, DatabaseKind
from crown.durable.recovery import NOTE
from crown.errors import CrownError, SnapshotError
from crown.guards.arguments import number_of
from crown.ingest.batch import PreparedBatch
from crown.programs.database_engine import DatabaseEngine
from plans.queries.algebra import Relation
from plans.schema import Schema


class DurableDatabase(
    InFolder[dict[str, pa.Table]],
    Database,
    instead="a folder has one database; save(path) and crown.load_database(path) make another one",
):
    """A database in a folder; ``crown.open_database`` creates or reopens one. Otherwise it is a ``Database``.

    A batch survives a crash of the process and, unless ``sync=`` is configured otherwise, of the machine, once
    ``apply`` or ``update`` has returned. So does the registration or the drop of a view, which counts as a batch. Use
    the database in a ``with`` statement, or ``close`` it, which releases the folder.
    """

    def __init__(
        self,
        engine: DatabaseEngine,
        journal: Journal,
        memory_budget: int | None,
        quarantine_dir: Path | None,
        snapshot_bytes: int,
        note: Any,
        quiet: bool,
    ) -> None:
        super().__init__(engine, memory_budget, quarantine_dir, journal.batches, quiet)
        self._hold(journal, snapshot_bytes)
        self._note = note

    @property
    def note(self) -> Any:
        """Returns the newest note that was passed to ``apply``; None if there was none."""
        return self._note

    def apply(self, changes: Mapping[str, Any], *, note: Any = None) -> dict[str, pa.Table]:
        """Applies a batch as ``Database.apply`` does, and stores ``note`` with it.

        ``note``: a JSON value, such as the position in a source from which the next batch is to be read. The note is
        stored if and only if the batch is. None keeps the last note.
        """
        with self._noting(note):
            deltas = self._run(changes, True)
        return self._told(deltas)

    @override
    def define(
        self,
        views: Mapping[str, str | Relation | Callable[[Schema], Relation]],
        *,
        drop: Iterable[str] = (),
        tables: Any = None,
        note: Any = None,
    ) -> None:
        """Drops and registers views as ``Database.define`` does, and stores ``note`` with that, as ``apply`` does."""
        with self._noting(note):
            super().define(views, drop=drop, tables=tables)

    @contextmanager
    def _noting(self, note: Any) -> Iterator[None]:
        """Stores a note with the batches that are logged in the context. If none is logged, the last note stays."""
        try:
            json.dumps(note)
        except (TypeError, ValueError, RecursionError) as error:
            raise CrownError(f"note must be a value that JSON has: {error}") from None
        before, batches = self._note, self._journal.batches
        self._note = before if note is None else note
        try:
            yield
        finally:
            if self._journal.batches == batches:
                self._note = before

    def history(self) -> list[tuple[int, Any]]:
        """Returns the batches to which ``as_of`` can go back, the oldest first, each with its note.

        More are available with a larger ``keep=``, the number of older snapshots that are kept with their log. O(bytes
        of the log).
        """
        return self._journal.history()

    def as_of(self, batch: int) -> Database:
        """Returns this database as it was after a batch, in memory. The folder is not changed.

        Raises CrownError if the folder no longer has that batch. O(state + bytes of the log since the snapshot before).

        >>> import tempfile
        >>> from crown.durable.opening import open_database
        >>> with open_database(tempfile.mkdtemp(), {"r": {"a": "int64"}}) as db:
        ...     _ = db.apply({"r": {"a": [1]}}, note="monday")
        ...     _ = db.apply({"r": {"a": [2]}}, note="tuesday")
        ...     db.history(), db.as_of(1).table("r").num_rows
        ([(1, 'monday'), (2, 'tuesday')], 1)
        """
        kind = DatabaseKind(self._journal.identity, self.path, self._memory_budget)
        return Database(self._journal.past(kind, number_of(batch, "batch", 0)), self._memory_budget, None, batch)

    @override
    def fork(self, *, check: Callable[[], None] | None = None) -> DurableFork:
        """Returns a fork as ``Database.fork`` does. Its ``snapshot`` writes the snapshot of this folder in another
        thread, including the views that are registered in the fork: these are not filled again when the folder is
        opened after ``adopt``. ``snapshot`` is rejected once a batch was applied to the fork. Starts a new log file."""
        self._changeable()
        self._journal.cut()
        engine = self._engine.copied(self._memory_budget, check)
        return DurableFork(engine, self._memory_budget, self._journal, self._extra())

    @override
    def adopt(self, fork: Database, *, note: Any = None) -> None:
        """Continues with a fork as ``Database.adopt`` does, and stores ``note`` with that, as ``apply`` does."""
        with self._noting(note):
            super().adopt(fork)
        self._journal.count()

    def stats(self) -> dict[str, Any]:
        """Returns ``Database.stats``, ``synced`` (the number of batches on disk), and ``log_bytes`` since the
        snapshot.
        """
        return {**super().stats(), **self._written()}

    def _prepared(self, changes: Mapping[str, Any], deltas: bool) -> PreparedBatch:
        self._ready(self._engine.lost)
        return super()._prepared(changes, deltas)

    def _before_commit(self, prepared: PreparedBatch) -> None:
        super()._before_commit(prepared)
        self._append(prepared, {NOTE: self._note}, self._engine.absent)

    def _change(self, changed: Callable[[], DatabaseEngine]) -> None:
        self._ready(self._engine.lost)
        with self._engine.uninterrupted:
            made = changed()
            self._journal.append({}, {PROGRAM: made.plan.to_json(), NOTE: self._note})
            made.batches = self._journal.batches
            self._engine = made

    def _write(self, path: Path) -> None:
        self._engine.save(path, self._extra())

    def _extra(self) -> dict[str, Any]:
        """Returns the data that a snapshot contains beside the state."""
        return {**self._kept(), **self._stamped(), NOTE: self._note}


class DurableFork(Database, instead="save(path) and crown.load_database(path) make another one"):
    """A fork of a durable database. Made by ``DurableDatabase.fork``."""

    def __init__(
        self, engine: DatabaseEngine, memory_budget: int | None, journal: Journal, extra: Mapping[str, Any]
    ) -> None:
        super().__init__(engine, memory_budget, None, engine.batches)
        self._journal = journal
        self._extra = extra

    def snapshot(self) -> None:
        """Writes the snapshot of the folder, while the database continues. O(state).

        Raises CrownError if a batch was applied to the fork, and the errors of ``DurableDatabase.snapshot``.
        """
        batch = self._extra["batches"]
        if self._engine.batches != batch:
            raise CrownError(
                f"the fork has had {self._engine.batches - batch} batches, and its snapshot would be that of another "
                "state of the folder: write it before the first one"
            )
        try:
            self._journal.write(batch, partial(self._engine.save, extra=dict(self._extra)))
        except OSError as error:
            raise SnapshotError(f"cannot write a snapshot to {self._journal.folder}: {error.strerror}") from error
