"""``crown.open``: creates or recovers a durable view."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Unpack

import pyarrow as pa

from crown.durable.database import DurableDatabase
from crown.durable.files import Lock
from crown.durable.identity import NAME, Identity
from crown.durable.journal import Journal, Mark
from crown.durable.kinds import DatabaseKind, ViewKind
from crown.durable.recovery import numbers
from crown.durable.view import DurableView
from crown.errors import CrownError, DamagedStateError, QueryChangedError
from crown.guards.arguments import path_of
from crown.ingest.tables.frames import schemas
from crown.options import (
    Checks,
    Durability,
    DurableDatabaseOptions,
    DurableOptions,
    Keywords,
    Planning,
    Resources,
)
from crown.views import demand_quarantine, unread_of
from plans import program as make_program
from plans.plan import Plan
from plans.program import Program
from plans.programs import named
from plans.schema import Schema


def open_view(
    query: str | Plan | Program | None,
    path: str | os.PathLike[str],
    schema: Any = None,
    **options: Unpack[DurableOptions],
) -> DurableView:
    """Returns the durable view in the folder ``path``: a new view in an empty folder, otherwise the existing one.

    Every applied batch is restored, also after a crash. ``query`` None: the query of the folder. State lives in memory;
    reopening reads the newest snapshot and the log since.

    ``options``: ``sync``, ``snapshot_bytes``, ``keep``, ``repair`` and ``verify`` (``crown.options.Durability``), and
    those of ``crown.view``. ``threads`` and ``on_missing`` are fixed when the folder is created.

    Raises LockedStateError if the folder is open already, QueryChangedError for another query, DamagedStateError, with
    the remedy, for damaged files, and the errors of ``crown.view``. RecoveryWarning reports what could not be restored.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with open_view("SELECT a, COUNT(*) AS n FROM r GROUP BY a", folder, {"r": {"a": "int64"}}) as view:
    ...     view.update({"r": {"a": [1, 1, 2]}})
    >>> with open_view(None, folder) as view:
    ...     view.batches, view.get({"a": 1})
    (1, {'a': 1, 'n': 2})
    """
    given = Keywords("crown.open", DurableOptions, options)
    planning, checks, resources = given.of(Planning), given.of(Checks), given.of(Resources)
    durability, budget, bad = given.of(Durability), resources.budget, checks.folder()
    declared = schemas(schema)
    program = None if query is None else make_program(query, declared, **planning.keywords())
    unread = frozenset() if program is None else unread_of(declared, program)
    if query is None and (schema is not None or planning != Planning()):
        raise CrownError("query=None opens what the folder has; leave out schema and the planner's options, too")
    folder = _folder(path, program is not None)
    if program is None and not numbers(folder, "log") and not (folder / NAME).exists():
        raise CrownError(f"{folder} has no view yet; give its query")
    with _held(folder) as (undone, lock, mark):
        identity = Identity.read(folder)
        if identity is None:
            if program is None:
                raise CrownError(f"{folder} has a view whose creation was interrupted; give its query again")
            demand_quarantine(program, bad)
            identity = Identity.of(program, checks.missing, resources.threads or 1, unread)
            engine = ViewKind(identity, folder, budget).create()
            journal = Journal(folder, identity, lock, mark, durability.sync, durability.keep)
            journal.begin()
        else:
            if identity.stored_program(folder).results is not None:
                raise CrownError(f"{folder} has a database; open it with crown.open_database")
            if program is not None:
                identity.demand(program, folder)
            else:
                unread = frozenset(identity.unread)
            identity.demand_options(checks.on_missing, resources.threads, folder)
            journal = Journal(folder, identity, lock, mark, durability.sync, durability.keep)
            engine = journal.recover(ViewKind(identity, folder, budget, durability.verify), durability.repair).engine
            demand_quarantine(engine.plan, bad)
        view = DurableView(engine, journal, bad, durability.floor, unread, checks.on_missing is not None)
        undone.pop_all()
    return view


def open_database(
    path: str | os.PathLike[str],
    schema: Any = None,
    **options: Unpack[DurableDatabaseOptions],
) -> DurableDatabase:
    """Returns the durable database in the folder ``path``: a new one in an empty folder, otherwise the existing one.

    Every applied batch and every registered view is restored, also after a crash. ``schema`` None: the tables of the
    folder. ``schema`` and ``options`` as for ``crown.database``; the options of the folder
    (``crown.options.Durability``) and the errors are those of ``crown.open``.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with open_database(folder, {"r": {"a": "int64"}}) as db:
    ...     _ = db.view("counts", "SELECT a, COUNT(*) AS n FROM r GROUP BY a")
    ...     _ = db.apply({"r": {"a": [1, 1, 2]}}, note="line 3")
    >>> with open_database(folder) as db:
    ...     db.note, db["counts"].get({"a": 1})
    ('line 3', {'a': 1, 'n': 2})
    """
    return reopened_database(path, schema, **options)[0]


def reopened_database(
    path: str | os.PathLike[str],
    schema: Any = None,
    *,
    after: int | None = None,
    of: type[DurableDatabase] = DurableDatabase,
    **options: Unpack[DurableDatabaseOptions],
) -> tuple[DurableDatabase, dict[int, dict[str, pa.Table]]]:
    """Returns the database as ``open_database`` does, as an object of the class ``of``, and by number the changes and
    deltas of the batches after ``after``.

    A program that delivers deltas can so deliver those that a crash held back. The log must still contain these
    batches; batches that it no longer contains are missing in the deltas.
    """
    given = Keywords("crown.open_database", DurableDatabaseOptions, options)
    checks, durability, budget = given.of(Checks), given.of(Durability), given.of(Resources).budget
    checks.demand_rows()
    bad, windows = checks.folder(), given.of(Planning).windows
    program = None if schema is None else named.empty(Schema.of(schemas(schema)), windows)
    folder = _folder(path, program is not None)
    with _held(folder) as (undone, lock, mark):
        identity = Identity.read(folder)
        if identity is None:
            if program is None:
                raise CrownError(f"{folder} has no database yet; give its schema")
            demand_quarantine(program, bad)
            identity = Identity.of(program, checks.missing, 1, frozenset())
            kind = DatabaseKind(identity, folder, budget)
            engine, note = kind.create(), None
            journal = Journal(folder, identity, lock, mark, durability.sync, durability.keep)
            journal.begin()
        else:
            if identity.stored_program(folder).results is None:
                raise CrownError(f"{folder} has one view; open it with crown.open")
            identity.demand_options(checks.on_missing, None, folder)
            kind = DatabaseKind(identity, folder, budget, durability.verify, after)
            journal = Journal(folder, identity, lock, mark, durability.sync, durability.keep)
            found = journal.recover(kind, durability.repair)
            engine, note = found.engine, found.note
            held = engine.plan
            if program is not None and (held.tables, held.windows) != (program.tables, program.windows):
                raise QueryChangedError(
                    f"{folder} has a database with other tables, columns, keys or windows; leave schema out, or name "
                    "another folder"
                )
            demand_quarantine(engine.plan, bad)
        quiet = checks.on_missing is not None
        database = of(engine, journal, budget, bad, durability.floor, note, quiet)
        undone.pop_all()
    return database, kind.deltas


def is_begun(folder: Path) -> bool:
    """Returns whether a folder has a view or a database. The files of one whose creation was interrupted do not count.

    Raises CrownError if the folder has other files, and DamagedStateError if ``meta.json`` is missing.
    """
    if not folder.is_dir():
        return False
    begun = Identity.read(folder) is not None
    if not begun:
        _demand_empty(folder)
    return begun


@contextmanager
def _held(folder: Path) -> Iterator[tuple[ExitStack, Lock, Mark]]:
    """Holds a folder's lock and mark, which are released unless the stack is emptied."""
    is_begun(folder)  # before anything is written to a folder that may belong to another program
    with ExitStack() as undone:
        lock = Lock(folder)
        undone.callback(lock.release)
        mark = Mark(folder)
        undone.callback(mark.close, sync=False)
        is_begun(folder)
        yield undone, lock, mark


def _folder(given: Any, make: bool) -> Path:
    """Returns the folder, created if it does not exist."""
    folder = path_of(given, "path")
    if folder.is_dir():
        return folder
    if os.path.lexists(folder):
        raise CrownError(
            f"path={str(folder)!r} is a file; crown.open keeps a view in a folder (crown.load reads files)"
        )
    if not folder.parent.is_dir():
        raise CrownError(f"path={str(folder)!r}: there is no folder {str(folder.parent)!r}; create it first")
    if not make:
        raise CrownError(f"path={str(folder)!r}: there is no such folder; give the query of the new view")
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise CrownError(f"path={str(folder)!r}: the folder cannot be created ({error.strerror})") from None
    return folder


def _demand_empty(folder: Path) -> None:
    """Raises if a folder without ``meta.json`` contains more than the files of a view whose creation was
    interrupted.
    """
    names = {name for name in os.listdir(folder) if not name.startswith(".")}
    ours = bool(numbers(folder, "snapshot")) or numbers(folder, "log") not in ([], [0]) or _has_batches(folder)
    if ours:
        raise DamagedStateError(f"{folder / NAME} is missing", ": restore it from a copy, or open a new folder")
    strange = sorted(names - {"lock", "acknowledged", "0.log"})
    if strange:
        raise CrownError(
            f"{folder} has files that do not belong to a view ({strange[0]}); name a new or an empty folder"
        )


def _has_batches(folder: Path) -> bool:
    """Returns True iff the first log file has more than its header line."""
    path = folder / "0.log"
    return path.exists() and path.read_bytes().partition(b"\n")[2] != b""
