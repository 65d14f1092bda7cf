"""``Pipeline``: many views over many tables, kept up to date by one durable state.

    sources -> what changed -> one database (``crown.open_database``) -> the deltas of each view -> its table

A *version* of a pipeline is a run that changed something. It stands when it is in the log of the database. Then the
deltas go into the tables of the views, each in a transaction that names the version. A run that dies in between is
finished by the next one: it has the deltas again from the log, and a table takes a version once.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from crown.durable.database import DurableDatabase
from crown.guards.arguments import number_of
from crown.ingest.columns import WEIGHT
from plans.errors import PlanError
from plans.schema import Schema
from plans.types import arrow_type
from spark_jobs.catalyst import clone
from spark_jobs.errors import SourceError
from spark_jobs.feeds.delta import delta_table
from spark_jobs.pipelines.analysis import Analysis, Analyzed, Given, active, analyzed, recalled, remember
from spark_jobs.pipelines.project import Definition, Project
from spark_jobs.pipelines.reports import Report, Step
from spark_jobs.pipelines.sources import arrow_of, difference, with_weights
from spark_jobs.pipelines.state import PipelineState, versions
from spark_jobs.storage.address import address
from spark_jobs.tables.net import net_of
from spark_jobs.tables.results import target_at

INCREMENTAL, FULL = "incremental", "full"
_POLICIES = ("auto", "incremental")
_WRITERS = 4
"""So many tables are written at a time."""
_REPLAYED = 8
"""A run leaves a log behind that is at most one so many-th of the state, for the next run to read."""
_NOTHING: dict[str, Any] = {"version": 0, "positions": {}, "since": {}, "views": {}, "whole": True}


class Pipeline:
    """A pipeline with its state in a local folder. Made by ``crown.spark.pipeline``; not thread-safe.

    Declare sources and views, then ``run``. Views that cannot be maintained are computed anew by Spark in every run
    (``refresh="auto"``), or refused (``refresh="incremental"``).
    """

    def __init__(self, spark: SparkSession, path: Path, refresh: str = "auto", keep: int = 1) -> None:
        if refresh not in _POLICIES:
            raise SourceError(f"refresh={refresh!r}: give one of {', '.join(_POLICIES)}")
        self._spark = spark
        self._path = path
        self._refresh = refresh
        self._keep = number_of(keep, "keep", 0)
        self._sources: dict[str, Given] = {}
        self._definitions: list[Definition] = []
        self._into: dict[str, tuple[str, str | None]] = {}

    @classmethod
    def of(cls, spark: SparkSession, project: Project, refresh: str = "auto") -> Pipeline:
        """Returns the pipeline of a project of Spark's Declarative Pipelines, whose definitions are read."""
        made = cls(spark, project.storage, refresh, project.keep)
        project.load(spark)
        made._definitions = list(project.definitions)
        for name, where in project.sources.items():
            made.source(name, delta=where)
        return made

    def source(
        self, name: str, table: str | DataFrame | Callable[[], DataFrame] | None = None, *, delta: str | None = None
    ) -> None:
        """Names a source: a table of the catalog, a batch DataFrame, or a function that returns one.

        ``delta``: the folder or URI of a Delta table instead, whose changes are read by its versions: from its change
        data feed, else from the files that were added and removed. Needs the package ``deltalake``.

        Tables that Spark finds by the names in the queries need no declaration.
        """
        if (table is None) == (delta is None):
            raise SourceError(f"source {name}: give a table, or delta=")
        if delta is not None:
            where = str(address(delta, "delta"))
            given = Given(lambda: delta_table(self._spark, where), where)
        elif isinstance(table, str):
            given = Given(lambda: self._spark.table(table))
        elif isinstance(table, DataFrame):
            if table.isStreaming:
                raise SourceError(f"source {name}: a stream has no rows to compare; give a table, or use maintain()")
            given = Given(lambda: table)
        else:
            assert table is not None, "one of both is given"
            given = Given(table)
        self._sources[name.lower()] = given

    def view(
        self,
        name: str,
        query: str | Callable[[], DataFrame],
        *,
        into: str | None = None,
        table: str | None = None,
        temporary: bool = False,
    ) -> None:
        """Declares a view of sources and other views.

        ``into``: where its table is, as for ``crown.spark.to_table`` with ``table``; by default a Delta table in the
        folder ``tables`` of the pipeline. ``temporary``: it has no table of its own.
        """
        if any(known.name.lower() == name.lower() for known in self._definitions):
            raise SourceError(f"there are two views called {name}; rename one")
        self._definitions.append(Definition(name, query, temporary, f"view {name}"))
        if into is not None:
            if any(place == (into, table) for place in self._into.values()):
                raise SourceError(f"view {name}: another view writes to {into} already; give it a place of its own")
            self._into[name.lower()] = (into, table)

    # What a run would do, and what was done
    # ------------------------------------------------------------------------------------------------------------------

    def plan(self) -> list[Step]:
        """Returns how each view would be kept, in the order in which they are. Nothing is written or read but
        schemas."""
        analysis = self._analysis()
        return [
            Step(v.definition.name, INCREMENTAL if v.refused is None else FULL, v.refused or "", v.reads)
            for v in analysis.views
        ]

    def status(self) -> dict[str, Any]:
        """Returns version, views, positions of the sources and sizes of the state; an empty mapping before the first
        run."""
        state = PipelineState(self._path, self._keep)
        if state.current() is None:
            return {}
        with state.opened(None) as (database, _):
            note = database.note or {}
            return {
                "version": note.get("version", 0),
                "views": {name: int(database[name].count()) for name in database.views},
                "sources": sorted(note.get("positions", {})),
                "bytes": database.stats().get("live_bytes"),
                "history": sorted(versions(database)),
            }

    def full_refresh(self, *views: str) -> Report:
        """Forgets the state and the tables of the views, and computes everything again.

        ``views``: forgets these views and those that read them, and computes them again from the rows in the state; the
        others go on. Raises SourceError if there is no such view.
        """
        if views:
            return self._run(views)
        analysis = self._analysis()
        for view in analysis.views:
            if view.definition.name.lower() not in self._into:
                shutil.rmtree(self._path / "tables" / view.definition.name, ignore_errors=True)
        PipelineState(self._path, self._keep).forget()
        return self.run()

    def restore(self, version: int) -> Report:
        """Makes a new version with the rows that sources, views and tables had after an earlier one.

        The definitions stay as they are. The next run reads the sources from where that version had read them, so mend
        them first. ``status()["history"]`` has the versions that can be restored; ``keep`` makes it longer. Raises
        SourceError for any other. O(state).
        """
        begun = time.monotonic()
        state = PipelineState(self._path, self._keep)
        if state.current() is None:
            raise SourceError("there is no version to restore: this pipeline has not run yet")
        with state.opened(None) as (database, redone):
            self._finish(state, database, redone)
            ends, note = versions(database), database.note
            if version not in ends:
                known = ", ".join(map(str, sorted(ends)))
                raise SourceError(
                    f"version {version} cannot be restored: the state goes back to these versions: {known}. Give one "
                    "of them; with a larger keep, more are kept from then on"
                )
            before = database.as_of(ends[version][0])
            names = [table.name for table in database.tables]
            rows = {name: difference(before.table(name), database.table(name)) for name in names}
            report = Report(note["version"] + 1)
            report.read = {name: (found.num_rows, f"version {version}") for name, found in rows.items()}
            note = {**note, "version": report.version, "positions": ends[version][1]["positions"], "whole": True}
            self._deliver(state, database, note, [{**rows, **database.apply(rows, note=note)}], report)
        report.seconds = time.monotonic() - begun
        return report

    # A run
    # ------------------------------------------------------------------------------------------------------------------

    def run(self) -> Report:
        """Reads what has changed in the sources, and brings every view and its table up to date.

        Raises SourceError for a source or a view that cannot be used; nothing has changed then.
        """
        return self._run()

    def _run(self, anew: Collection[str] = ()) -> Report:
        with closing(self._rounds(0.0, anew)) as rounds:
            return next(rounds)

    def watch(self, every: float = 10.0) -> Generator[Report]:
        """Runs again and again, ``every`` so many seconds, and yields what each run did.

        The state stays open in between, so a run costs what has changed in the sources, and not what the state is.
        Raises what ``run`` raises. Close the iterator to let go of the state.
        """
        return self._rounds(every)

    def _rounds(self, every: float, anew: Collection[str] = ()) -> Generator[Report]:
        """Runs again and again; the first run computes the views ``anew`` again."""
        state = PipelineState(self._path, self._keep)
        begun = time.monotonic()
        analysis = self._current(state)
        forgotten = _with_readers(analysis, anew)
        schema = self._tables(analysis)
        while True:
            with state.opened(schema) as (database, redone):
                self._finish(state, database, redone)
                while database.tables == tuple(schema.values()):
                    report = self._apply(analysis, state, database, forgotten)
                    forgotten = frozenset()
                    report.seconds = time.monotonic() - begun
                    yield report
                    time.sleep(every)
                    begun = time.monotonic()
                    analysis = self._current(state)
                    schema = self._tables(analysis)
            state.rebuild(schema)

    def _current(self, state: PipelineState) -> Analysis:
        return recalled(self._spark, self._definitions, self._sources, state.analysis) or self._analysis()

    def _analysis(self) -> Analysis:
        if not self._definitions:
            raise SourceError("this pipeline has no views; declare one with view(), or name a project with some")
        found = analyzed(self._spark, self._definitions, self._sources)
        refused = next((view for view in found.views if view.refused is not None), None)
        if self._refresh == "incremental" and refused is not None:
            name = refused.definition.name
            raise PlanError(
                f"{refused.definition.place}: the view {name} cannot be maintained: {refused.refused}",
                hint='allow refresh="auto", under which Spark computes it anew in every run',
            )
        return found

    def _tables(self, analysis: Analysis) -> Schema:
        """Returns the base tables of the state: the sources, and the views that Spark computes."""
        tables = [source.table for source in analysis.sources.values()]
        tables += [view.table for view in analysis.views if view.refused is not None]
        return Schema(tuple(tables))

    def _finish(self, state: PipelineState, database: DurableDatabase, redone: list[dict[str, pa.Table]]) -> None:
        """Brings the tables of a version that a run left undone up to it."""
        note = database.note
        if not note or note["version"] == state.committed():
            return
        for name, since in note["since"].items():
            self._write(database, name, since, note, redone)
        self._commit(state, database)

    def _apply(
        self, analysis: Analysis, state: PipelineState, database: DurableDatabase, forgotten: Collection[str]
    ) -> Report:
        note = database.note or {**_NOTHING, "id": uuid.uuid4().hex}
        note = {**note, "views": {name: digest for name, digest in note["views"].items() if name not in forgotten}}
        version = note["version"] + 1
        report, positions, rows = Report(version), dict(note["positions"]), {}
        for name, source in analysis.sources.items():
            known = partial(database.table, source.table.name)
            found = source.changes(positions.get(name), known)
            report.read[name] = found.rows.num_rows, found.how
            positions[name] = found.position
            if found.rows.num_rows:
                rows[source.table.name] = found.rows
        views = {v.definition.name: v.digest for v in analysis.views}
        if views != note["views"] and any(view.relation is None for view in analysis.views):
            analysis = self._analysis()  # the state is older than what was written down of it
            views = {v.definition.name: v.digest for v in analysis.views}
        if not rows and views == note["views"] and note["whole"]:
            report.version = note["version"]
            remember(self._spark, analysis, state.analysis)
            return report
        since = self._register(analysis, database, note, version)
        computed = [view for view in analysis.views if view.refused is not None]
        before = note["views"]
        note = {**note, "version": version, "positions": positions, "since": since, "views": views}
        deltas = [database.apply(rows, note={**note, "whole": not computed})]
        for name, delta in self._computed(analysis, database, computed):
            whole = name == computed[-1].definition.name
            deltas.append({name: delta, **database.apply({name: delta}, note={**note, "whole": whole})})
        self._deliver(state, database, note, deltas, report)
        remember(self._spark, analysis, state.analysis)
        if views != before or _REPLAYED * database.stats()["log_bytes"] > database.stats()["live_bytes"]:
            database.snapshot()  # the next run would read all that again
        return report

    def _deliver(
        self,
        state: PipelineState,
        database: DurableDatabase,
        note: Mapping[str, Any],
        deltas: list[dict[str, pa.Table]],
        report: Report,
    ) -> None:
        """Writes the deltas of a version to the tables of the views, and reports what they took."""
        with ThreadPoolExecutor(_WRITERS) as pool:
            written = {
                n: pool.submit(self._write, database, n, since, note, deltas) for n, since in note["since"].items()
            }
        report.changed = {name: future.result() for name, future in written.items()}
        self._commit(state, database)

    def _commit(self, state: PipelineState, database: DurableDatabase) -> None:
        """Notes that all tables are up to the version of the state; deletes those of views that are gone."""
        for folder in (self._path / "tables").glob("*"):
            if folder.name not in database.note["since"]:
                shutil.rmtree(folder)
        state.commit(database.note["version"], database.batches)

    def _register(
        self, analysis: Analysis, database: DurableDatabase, note: Mapping[str, Any], version: int
    ) -> dict[str, int]:
        """Drops the views that are gone or changed, registers those that are new, and returns since which version each
        view with a table is kept."""
        digests = {v.definition.name: v.digest for v in analysis.views}
        stale = [name for name in reversed(database.views) if digests.get(name) != note["views"].get(name)]
        kept = set(database.views).difference(stale)
        fresh = {
            view.definition.name: view.relation
            for view in analysis.views
            if view.refused is None and view.definition.name not in kept and view.relation is not None
        }
        database.define(fresh, drop=stale)
        since = {}
        for view in analysis.views:
            name = view.definition.name
            known = note["views"].get(name) == view.digest
            if not view.definition.temporary:
                since[name] = note["since"].get(name, version) if known else version
        return since

    def _computed(
        self, analysis: Analysis, database: DurableDatabase, views: list[Analyzed]
    ) -> Iterator[tuple[str, pa.Table]]:
        """Yields the changes of the views that Spark computes, each behind what it reads."""
        if not views:
            return
        live = clone(self._spark)
        needed = {name for view in views for name in view.reads}
        for name in needed.intersection(self._sources):
            source = analysis.sources[name]
            live.createDataFrame(arrow_of(source.read(), source.table)).createOrReplaceTempView(source.table.name)
        for view in analysis.views:
            name, query = view.definition.name, view.definition.query
            if view in views:
                with active(live):
                    rows = arrow_of(live.sql(query) if isinstance(query, str) else query(), view.table)
                yield name, difference(with_weights(rows, 1), database.table(name))
            elif name.lower() in needed:
                rows = database[name].to_table()
            if name.lower() in needed:
                live.createDataFrame(rows).createOrReplaceTempView(name)

    def _write(
        self,
        database: DurableDatabase,
        name: str,
        since: int,
        note: Mapping[str, Any],
        deltas: list[dict[str, pa.Table]],
    ) -> tuple[int, int]:
        """Brings the table of a view to the version of ``note``, once; returns how many rows were inserted and
        deleted."""
        batch = note["version"] - since
        rows, keys = _content(database, name, deltas if batch else None)
        into, table = self._into.get(name.lower(), (str(self._path / "tables" / name), None))
        if name.lower() not in self._into:
            if batch == 0:  # of another definition, or begun by a run that died
                shutil.rmtree(into, ignore_errors=True)
            Path(into).mkdir(parents=True, exist_ok=True)
        target_at(into, table).apply(f"{note['id']}/{name}/{since}", batch, net_of(rows, keys, batch))
        weights = rows[WEIGHT].to_numpy()
        return int(weights[weights > 0].sum()), int(-weights[weights < 0].sum())


def pipeline(spark: SparkSession, path: str | Path, *, refresh: str = "auto", keep: int = 1) -> Pipeline:
    """Returns a pipeline whose state and tables are in the local folder ``path``; see ``Pipeline``.

    ``refresh``: ``"auto"`` has Spark compute views anew that cannot be maintained; ``"incremental"`` refuses them.
    ``keep``: snapshots of the state that are kept before the newest, each as large as the state, and what came since:
    ``restore`` goes back so far.
    """
    return Pipeline(spark, Path(path), refresh, keep)


def _with_readers(analysis: Analysis, names: Collection[str]) -> frozenset[str]:
    """Returns views of these names, and all that read them."""
    known = {view.definition.name.lower(): view.definition.name for view in analysis.views}
    strange = next((name for name in names if name.lower() not in known), None)
    if strange is not None:
        raise SourceError(f"there is no view called {strange}; there are: {', '.join(known.values())}")
    found = {name.lower() for name in names}
    for view in analysis.views:  # each behind what it reads
        if found.intersection(view.reads):
            found.add(view.definition.name.lower())
    return frozenset(known[name] for name in found)


def _content(
    database: DurableDatabase, name: str, deltas: list[dict[str, pa.Table]] | None
) -> tuple[pa.Table, list[str] | None]:
    """Returns the changes of a view, or with None all of its rows, and the key by which its table finds them."""
    kept = name in database
    table = database.schema[name]
    columns = [column.name for column in table.columns]
    keys = list(table.key) or (columns if table.distinct else None)
    if deltas is None:
        return with_weights(database[name].to_table(), 1) if kept else database.table(name), keys
    schema = pa.schema([*((c.name, arrow_type(c.type)) for c in table.columns), (WEIGHT, pa.int64())])
    parts = [found[name].select(schema.names).cast(schema) for found in deltas if name in found]
    return pa.concat_tables(parts) if parts else schema.empty_table(), keys
