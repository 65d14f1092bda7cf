"""``ProjectDatabase``: the views of a pipeline project, kept up to date in this process by a durable database.

    files and tables of the sources -> changes -> one database -> the views, and Parquet files of them

The definitions are read when the project is opened. The position up to which each source was read is part of the note
of a batch, so it is committed together with the batch.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import override

from crown.durable.database import DurableDatabase
from crown.durable.files import write_durably
from crown.durable.identity import NAME
from crown.durable.opening import reopened_database
from crown.errors import CrownError, DamagedStateError, ProjectError
from crown.guards.arguments import Size
from crown.ingest.tables.columns import WEIGHT
from crown.projects.changes import fitted
from crown.projects.definitions import Defined, defined
from crown.projects.order import digest_of, in_order
from crown.projects.quarantine import QUARANTINE, Quarantine, counts
from crown.projects.reports import Report
from crown.projects.sources import Source, source
from crown.projects.specification import INTO, REFRESH, STRICT, Specification
from crown.store.arrow_buffers import words
from crown.store.words_file import temporary
from plans.schema import Schema, Table

_MEANING = ("spark.sql.ansi.enabled", "spark.sql.caseSensitive", "spark.sql.session.timeZone")
"""Settings of Spark that change the meaning of a query."""
_NOTHING = {"version": 0, "texts": "", "positions": {}, "views": {}}
"""The note of a state before its first version. ``texts``: a digest of tables and definitions."""
_QUARANTINE = "quarantine"
_WRITTEN = ".crown.json"
"""The file, next to those of the views, that has the version which all of them show."""


class ProjectDatabase(DurableDatabase, instead="a project has one state; read it in the process that has it open"):
    """The database of a project. Made by ``crown.database(path)``; use it in a ``with`` statement, or ``close`` it.

    ``run`` reads the sources. Otherwise it is a ``DurableDatabase`` whose tables are changed only by ``run``.
    """

    _project: Specification
    _sources: Mapping[str, Source]
    _strict: frozenset[str]
    _temporary: frozenset[str]
    _stale: set[str]
    _running = False

    def run(self, *, sources: Collection[str] = ()) -> Report:
        """Reads the changes of the sources, updates all views in one batch, and returns a report.

        ``sources``: static sources that are read again. Raises ProjectError if a source cannot be read; then nothing
        has changed. O(changes), and a scan of each source whose files were replaced or removed.
        """
        begun, report, note = time.monotonic(), Report(), dict(self.note)
        names = {name.lower(): name for name in self._sources}
        given = isinstance(sources, (list, tuple, set, frozenset))
        if not given or any(str(name).lower() not in names for name in sources):
            raise ProjectError(
                f"sources={sources!r:.100}: give a list of names; there are: {', '.join(names.values())}"
            )
        named = {name.lower() for name in sources}
        positions, rows = dict(note["positions"]), {}
        for name, source_ in self._sources.items():
            before = positions.get(name)
            if source_.static and before is not None and name.lower() not in named:
                continue
            changed = source_.changes(before, partial(self.table, name))
            if changed.lost and self._strict:
                self._refuse_removed_versions(name)
            report.read[name] = (changed.rows.num_rows, changed.how)
            positions[name] = changed.position
            if changed.rows.num_rows:
                rows[name] = changed.rows
        if rows or positions != note["positions"]:
            self._advance(rows, {**note, "positions": positions}, report)
        report.quarantined = counts(self.path.parent / _QUARANTINE)
        report.version = self.note["version"]
        report.seconds = time.monotonic() - begun
        return report

    def write_tables(self) -> Path:
        """Writes the rows of each changed view to ``NAME.parquet``, deletes the files of dropped views, and returns the
        folder. Temporary views have no file. A file is replaced atomically. O(changed views)."""
        folder = self._tables
        folder.mkdir(exist_ok=True)
        wanted = {folder / f"{name}.parquet": name for name in self.views if name not in self._temporary}
        for file in set(folder.glob("*.parquet")).difference(wanted):
            file.unlink()
        for file, name in wanted.items():
            if name in self._stale or not file.exists():
                _write(file, self[name].to_table())
        self._stale.clear()
        write_durably(folder / _WRITTEN, json.dumps(self._version()).encode())
        return folder

    @property
    def _tables(self) -> Path:
        return self.path.parent / "tables"

    def _version(self) -> list[Any]:
        """Returns what distinguishes the current version from versions of other states."""
        return [self.note["id"], self.note["version"]]

    def _up_to(self) -> Any:
        """Returns the version that all files show; None if it is not known, so that all files are written again."""
        try:
            return json.loads((self._tables / _WRITTEN).read_bytes())
        except (OSError, ValueError):
            return None

    @override
    def _run(self, changes: Mapping[str, Any], deltas: bool) -> dict[str, pa.Table]:
        if not self._running and not (isinstance(changes, Mapping) and len(changes) == 0):
            raise CrownError("the tables of a project have the rows of its sources: change these, and call run()")
        return super()._run(changes, deltas)

    def _advance(self, rows: Mapping[str, pa.Table], note: dict[str, Any], report: Report) -> None:
        """Applies the changes of the sources as one version."""
        note["version"] += 1
        self._running = True
        try:
            deltas = self.apply(rows, note=note)
        finally:
            self._running = False
        for name, delta in deltas.items():
            weights = words(pa.concat_arrays(delta[WEIGHT].chunks)) if delta.num_rows else None
            if weights is not None:
                report.changed[name] = int(weights[weights > 0].sum()), int(-weights[weights < 0].sum())
        self._stale.update(report.changed)

    def _take(self, project: Specification, definitions: list[Defined], sources: Mapping[str, Source]) -> None:
        """Takes over the definitions and sources of a project: deleted and changed views are dropped, and new views are
        filled from the rows in the state."""
        self._project, self._sources = project, sources
        self._temporary = frozenset(one.name for one in definitions if one.temporary)
        policies = dict(project.of_views(REFRESH, [one.name for one in definitions]))
        self._strict = frozenset(name for name, policy in policies.items() if policy == STRICT)
        schema = _schema(sources)
        note = dict(self.note or _NOTHING | {"id": uuid.uuid4().hex})
        texts = digest_of([list(schema.values()), [(one.name, one.query) for one in definitions]])
        current = self.note is not None and self._up_to() == self._version()
        self._stale = set() if current else set(self.views)
        if texts == note["texts"]:
            return
        same = {table.name for table in self.tables if schema.get(table.name) == table}
        streams = {name for name, one in sources.items() if one.stream and name in note["positions"]}
        for table in self.tables:
            if table.name in streams:
                _demand_fit(table, schema[table.name])
        moved = len(same) < len(schema) or len(same) < len(self.tables)
        ordered = in_order(definitions, schema)
        known = {} if moved else note["views"]
        fresh = [one for one in ordered if known.get(one.name) != one.digest]
        kept = {one.name for one in ordered}.difference(one.name for one in fresh)
        stale = [name for name in reversed(self.views) if name not in kept]
        version = note["version"] + 1
        note |= {
            "version": version,
            "texts": texts,
            "positions": {name: at for name, at in note["positions"].items() if name in same | streams},
            "views": {one.name: one.digest for one in ordered},
        }
        queries = {one.name: one.query for one in fresh}
        if moved:
            positions = {name: at for name, at in note["positions"].items() if name in same}
            self._refit(schema, stale, {**note, "texts": "", "views": {}, "positions": positions})
            stale = []
        self.define(queries, drop=stale, note=note)
        self._stale = {*queries, *self._stale}.intersection(self.views)

    def _refit(self, schema: Schema, views: Collection[str], note: Mapping[str, Any]) -> None:
        """Drops all views, and gives the tables other columns. They keep their rows until a run has read the
        sources whose columns are others. ``note``: of a state without views and these rows, if the process dies."""
        rows = {
            table.name: fitted(self.table(table.name), table, schema[table.name])
            for table in self.tables
            if table.name in schema and schema[table.name] != table
        }
        self.define({}, drop=views, tables=schema, note=note)
        self._running = True
        try:
            self.update(rows)
        finally:
            self._running = False

    def _refuse_removed_versions(self, source_: str) -> None:
        for name in self._strict:
            raise ProjectError(
                f"source {source_}: versions that were not read yet were removed, and {name} has the policy {STRICT}: "
                f"allow another policy with {REFRESH}{name}, which reads the whole source"
            )


def open_project(path: Path, memory_budget: Size | None = None) -> ProjectDatabase:
    """Returns the database of the project in a folder, which is opened or created. Only the columns of the sources are
    read.

    Raises ProjectError for a project that cannot be used, PlanError for a view that cannot be maintained, and the
    errors of ``crown.open_database``.
    """
    project = Specification.of(path)
    definitions = defined(project)
    _refuse_spark_settings(project, definitions)
    folder = project.storage / "embedded"
    sources = _sources(project, definitions, folder / _QUARANTINE)
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "state"
    schema = None if (state / NAME).exists() else _schema(sources)
    try:
        found = reopened_database(state, schema, of=ProjectDatabase, keep=project.keep, memory_budget=memory_budget)[0]
    except DamagedStateError as error:
        again = f". Restore {state} from a copy, or delete it: the next run computes everything again"
        raise DamagedStateError(error.fault, again) from None
    assert isinstance(found, ProjectDatabase), "it was requested"
    try:
        found._take(project, definitions, sources)
    except BaseException:
        found.close()
        raise
    return found


def _demand_fit(before: Table, now: Table) -> None:
    """Raises ProjectError if the rows that a stream has had cannot have other columns. They are not read again."""
    for column in now.columns:
        old = before.column(column.name)
        if now.required(column.name) if old is None else old.type != column.type:
            what = "is a new column that is NOT NULL" if old is None else "has another type than before"
            raise ProjectError(
                f"source {now.name}: {column.name} {what}, and a stream does not read its rows again: add a column "
                "with another name, which is NULL in the old rows, or read the files as another source"
            )


def _refuse_spark_settings(project: Specification, definitions: list[Defined]) -> None:
    for key, _ in project.of_views(INTO, [one.name for one in definitions]):
        raise ProjectError(
            f"{project.file}: {INTO}{key}: crown run writes Parquet files; leave it out, or use crown pipelines run"
        )
    setting = next((name for name in _MEANING if name in project.settings), None)
    if setting is not None:
        raise ProjectError(
            f"{project.file}: {setting} changes what queries mean, and crown run has Spark's default: leave it out, or "
            "use crown pipelines run"
        )


def _sources(project: Specification, definitions: list[Defined], quarantine: Path) -> dict[str, Source]:
    """Returns the sources by name. ``quarantine``: the folder of all of their quarantines. Raises ProjectError for a
    stream that is not one of them."""
    given = project.sources
    known = {name.lower() for name in given}
    streams = {name.lower(): one for one in definitions for name in one.streams}
    static = project.static
    for name, one in streams.items():
        if name not in known:
            views = {other.name.lower() for other in definitions}
            what = "is a view of the project" if name in views else "is not a source of the project"
            raise ProjectError(
                f"{one.place}: {one.name} reads STREAM({name}), which {what}: name one with crown.source.{name}, or "
                "create a materialized view"
            )
    kept = project.on_bad_row == QUARANTINE
    return {
        name: source(
            name,
            location,
            name.lower() in static,
            name.lower() in streams,
            Quarantine(quarantine / name) if kept else None,
        )
        for name, location in given.items()
    }


def _schema(sources: Mapping[str, Source]) -> Schema:
    if not sources:
        raise ProjectError("the project names no source: write crown.source.NAME: parquet:FOLDER in its configuration")
    return Schema(tuple(one.rows.table for one in sources.values()))


def _write(file: Path, rows: pa.Table) -> None:
    try:
        with temporary(file) as fresh:
            pq.write_table(rows, fresh)
            os.replace(fresh, file)
    except (OSError, pa.ArrowException) as error:
        raise ProjectError(f"{file} cannot be written ({error}): fix that, and run again") from None
