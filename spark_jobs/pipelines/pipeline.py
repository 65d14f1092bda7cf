"""``Pipeline``: many views over many tables, kept up to date by one durable state.

    sources -> what changed -> one database (``crown.open_database``) -> the deltas of each view -> its table

A *version* of a pipeline is a run that changed something. It stands when it is in the log of the database. Then the
deltas go into the tables of the views, each in a transaction that names the version. A run that dies in between is
finished by the next one: it has the deltas again from the log, and a table takes a version once.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from crown.durable.database import DurableDatabase
from crown.guards.arguments import flag_of, number_of
from plans.schema import Schema
from plans.search.groups import Groups, groups_of
from spark_jobs.catalyst import clone
from spark_jobs.errors import SourceError
from spark_jobs.pipelines.analysis import (
    INCREMENTAL,
    POLICIES,
    Analysis,
    Analyzed,
    active,
    analyzed,
    maintained,
    recalled,
    recalled_texts,
    remember,
)
from spark_jobs.pipelines.delivery import Delivery, Function
from spark_jobs.pipelines.given import Given, given_by
from spark_jobs.pipelines.growing import Beside
from spark_jobs.pipelines.project import Definition, Project, Texts
from spark_jobs.pipelines.reports import Report, Step
from spark_jobs.pipelines.sessions import Session
from spark_jobs.pipelines.sources import arrow_of, difference, with_weights
from spark_jobs.pipelines.state import PipelineState, versions
from spark_jobs.pipelines.vitals import Record, Vitals, prometheus, rows_so_far, status, vitals

FULL = "full"
_NOTHING: dict[str, Any] = {"version": 0, "positions": {}, "since": {}, "views": {}, "whole": True}


class Pipeline:
    """A pipeline with its state in a local folder. Made by ``crown.spark.pipeline``; not thread-safe.

    Declare sources and views, then ``run``. Views that cannot be maintained are computed anew by Spark in every run
    (``refresh="auto"``), or refused (``refresh="incremental"``).
    """

    def __init__(
        self, spark: SparkSession | Session, path: Path, refresh: str = "auto", keep: int = 1, verify: bool = False
    ) -> None:
        if refresh not in POLICIES:
            raise SourceError(f"refresh={refresh!r}: give one of {', '.join(POLICIES)}")
        self._session = Session.of(spark)
        self._path = path
        self._refresh = refresh
        self._state = PipelineState(path, number_of(keep, "keep", 0), flag_of(verify, "verify"))
        self._sources: dict[str, Given] = {}
        self._definitions: list[Definition] = []
        self._texts: Texts = {}
        self._delivery = Delivery(self._session, path / "tables")
        self._beside = Beside(self._delivery)
        self._analyzed: Analysis | None = None

    @classmethod
    def of(
        cls, spark: SparkSession | Session, project: Project, refresh: str = "auto", verify: bool = False
    ) -> Pipeline:
        """Returns the pipeline of a project of Spark's Declarative Pipelines, whose definitions are read."""
        made = cls(spark, project.storage, refresh, project.keep, verify)
        with made._told():
            known = recalled_texts(made._session, made._state.analysis)
            made._texts = project.load(made._session, known)
            made._definitions = list(project.definitions)
            for name, where in project.sources.items():
                made.source(name, where)
            for name, places in project.places.items():
                made._delivery.add(name, places)
        return made

    def source(self, name: str, table: str | DataFrame | Callable[[], DataFrame]) -> None:
        """Names a source: a text that says where its table is, a batch DataFrame, or a function that returns one.

        ``"delta:s3://lake/orders"`` and ``"iceberg:catalog.shop.orders"`` are read by their versions (packages
        ``deltalake``, ``pyiceberg``); ``"parquet:folder"`` and ``"orc:folder"`` from new files, where files were only
        added; ``"jdbc:URL TABLE"`` and ``"jdbc:URL TABLE?key=a,b"`` whole. Any other text is a table of Spark's
        catalog. Tables that Spark finds by the names in the queries need no declaration.
        """
        self._sources[name.lower()] = given_by(self._session, name, table)

    def view(
        self,
        name: str,
        query: str | Callable[[], DataFrame],
        *,
        into: str | Function | Sequence[str | Function] = (),
        temporary: bool = False,
    ) -> None:
        """Declares a view of sources and other views.

        Its rows are in a Delta table in the folder ``tables`` of the pipeline, unless it is ``temporary``. ``into``:
        where else they go, a place or a list of them. A place is one that ``crown.spark.to_table`` knows, such as
        ``"postgresql://user@host/database?table=totals"`` or ``"kafka://host:9092/totals?key=shop"``, or a function of
        a DataFrame and a version. The function is given the changes with ``_weight``, at first all rows, and after a
        crash the same version again.
        """
        made = Definition(name, query, temporary, f"view {name}")
        if any(known.name.lower() == name.lower() for known in self._definitions):
            raise SourceError(f"there are two views called {name}; rename one")
        self._delivery.add(name, into)
        self._definitions.append(made)

    # What a run would do, and what was done
    # ------------------------------------------------------------------------------------------------------------------

    def plan(self) -> list[Step]:
        """Returns how each view would be kept, in the order in which they are. Nothing is written or read but
        schemas. Like a run, it starts no Spark for definitions that a run has analyzed."""
        analysis = self._current()
        return [
            Step(v.definition.name, INCREMENTAL if v.refused is None else FULL, v.refused or "", v.reads)
            for v in analysis.views
        ]

    def groups(self, cells: int) -> Groups:
        """Returns how the views would be cut into so many cells, and how many rows a host with a cell of each group
        would get. Rows are those that all runs have read; before the first run, each source counts as one row."""
        analysis = self._analysis()
        rates = rows_so_far(vitals(self._path))
        program = maintained(analysis, self._tables(analysis))
        return groups_of(program, number_of(cells, "cells", 2), rates if any(rates.values()) else None)

    def status(self, *, verify: bool = False) -> Vitals:
        """Returns how the pipeline is doing; an empty mapping before the first run. Nothing is locked, and a process
        that watches goes on.

        - ``version``, ``bytes`` of the state, and ``history``: the versions that ``restore`` takes
        - ``process``: which has the state open; 0 if none has
        - ``runs``: how many ``succeeded`` and ``failed``
        - ``success``: of the newest that did, the time ``at`` which it ended, its ``seconds``, and those of its
          ``phases``; ``error``: of the newest that failed, when that was and what was ``said``. None if there is none
        - ``sources``: for each ``rows`` and how they were found in the newest run, the time ``at`` which all that it
          had was read, and of a Delta table how far that is ``behind``
        - ``views``: for each that has a place its ``rows``, how many the newest run ``inserted`` and ``deleted``, and
          how many changes of what it reads it ``read``
        - ``damaged``, with ``verify``: a sentence for each damaged file of the state, which is read whole for that
        """
        return status(self._path, flag_of(verify, "verify"))

    def metrics(self) -> str:
        """Returns the numbers of ``status`` in Prometheus' text format; nothing before the first run."""
        return "".join(f"{line}\n" for line in prometheus(vitals(self._path)))

    def full_refresh(self, *views: str) -> Report:
        """Forgets the state and the tables of the views, and computes everything again.

        ``views``: forgets these views and those that read them, and computes them again from the rows in the state; the
        others go on. Raises SourceError if there is no such view.
        """
        return self._run(views, fresh=not views)

    def restore(self, version: int) -> Report:
        """Makes a new version with the rows that sources, views and tables had after an earlier one.

        The definitions stay as they are. The next run reads the sources from where that version had read them, so mend
        them first. ``status()["history"]`` has the versions that can be restored; ``keep`` makes it longer. Raises
        SourceError for any other, and CrownError for what is no number. O(state).
        """
        version = number_of(version, "version", 0)
        begun, report = time.monotonic(), Report()
        with self._state.alone(), self._told(), ExitStack() as held:
            if self._state.current() is None:
                raise SourceError("there is no version to restore: this pipeline has not run yet")
            with report.phase("open"):
                database, redone = held.enter_context(self._state.opened(None))
                self._finish(database, redone)
            ends, note = versions(database.history()), database.note
            if version not in ends:
                known = ", ".join(map(str, sorted(ends)))
                raise SourceError(
                    f"version {version} cannot be restored: the state goes back to these versions: {known}. Give one "
                    "of them; with a larger keep, more are kept from then on"
                )
            with report.phase("read"):
                before = database.as_of(ends[version][0])
                names = [table.name for table in database.tables]
                rows = {name: difference(before.table(name), database.table(name)) for name in names}
            report.version = note["version"] + 1
            report.read = {name: (found.num_rows, f"version {version}") for name, found in rows.items()}
            note = {**note, "version": report.version, "positions": ends[version][1]["positions"], "whole": True}
            with report.phase("apply"):
                deltas = {**rows, **database.apply(rows, note=note)}
            self._deliver(database, note, [deltas], report)
            report.seconds = time.monotonic() - begun
            Record(self._path).ran(report, None, database)
        return report

    # A run
    # ------------------------------------------------------------------------------------------------------------------

    def run(self) -> Report:
        """Reads what has changed in the sources, and brings every view and its table up to date.

        Raises SourceError for a source or a view that cannot be used; nothing has changed then.
        """
        return self._run()

    def _run(self, anew: Collection[str] = (), fresh: bool = False) -> Report:
        with closing(self._rounds(None, anew, fresh)) as rounds:
            return next(rounds)

    def watch(self, every: float = 10.0) -> Generator[Report]:
        """Runs again and again, ``every`` so many seconds, and yields what each run did.

        The state stays open in between, so a run costs what has changed in the sources, and not what the state is.
        Views that were added since the last run are computed beside the others, which go on, if nothing else was
        changed in the definitions. Raises what ``run`` raises, and SourceError for an ``every`` that is no time. Close
        the iterator to let go of the state.
        """
        if isinstance(every, bool) or not isinstance(every, int | float) or not 0 <= every < math.inf:
            raise SourceError(f"every must be a number of seconds of 0 or more, not {every!r:.100}")
        return self._rounds(every)

    def _rounds(self, every: float | None, anew: Collection[str] = (), fresh: bool = False) -> Generator[Report]:
        """Runs again and again, or once (None). The first run computes the views ``anew`` again, or all of them from a
        ``fresh`` state."""
        with ExitStack() as alone:
            with self._told():
                begun, report = time.monotonic(), Report()
                with report.phase("analyze"):
                    analysis = self._analysis() if fresh else self._current()
                forgotten = analysis.with_readers(anew)
                schema = self._tables(analysis)
            alone.enter_context(self._state.alone())  # where another process has it, no run of it has failed
            if fresh:
                self._state.forget()
            while True:
                with ExitStack() as held:
                    with self._told(), report.phase("open"):
                        database, redone = held.enter_context(self._state.opened(schema))
                        self._finish(database, redone, forgotten)
                    held.callback(self._beside.end)
                    while database.tables == tuple(schema.values()):
                        with self._told():
                            self._apply(analysis, database, forgotten, report, beside=every is not None)
                            report.seconds = time.monotonic() - begun
                            Record(self._path).ran(report, analysis, database)
                        forgotten = frozenset()
                        yield report
                        time.sleep(every or 0.0)
                        begun, report = time.monotonic(), Report()
                        with self._told(), report.phase("analyze"):
                            analysis = self._current()
                            schema = self._tables(analysis)
                with self._told(), report.phase("open"):
                    self._state.rebuild(schema)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Writes down an error that ends a run."""
        try:
            yield
        except Exception as error:
            Record(self._path).failed(error)
            raise

    def follow(self, other: Pipeline) -> None:
        """Goes on with the definitions, sources and places of another pipeline of the same folder, which has analyzed
        them: the next run of ``watch`` does not wait for that."""
        self._definitions, self._sources, self._texts = other._definitions, other._sources, other._texts
        self._delivery.follow(other._delivery)
        self._analyzed = other._analyzed

    def analyze(self) -> None:
        """Analyzes the definitions now, in any thread, for the pipeline that is to ``follow`` this one."""
        with self._told():
            self._analyzed = self._current()

    def _current(self) -> Analysis:
        """Returns the analysis that the last run has written down if it holds, or a new one."""
        known, self._analyzed = self._analyzed, None
        if known is not None:
            return known.read_anew(self._session)
        found = recalled(self._session, self._definitions, self._sources, self._state.analysis)
        return self._analysis() if found is None else found.under(self._refresh)

    def _analysis(self) -> Analysis:
        if not self._definitions:
            raise SourceError("this pipeline has no views; declare one with view(), or name a project with some")
        return analyzed(self._session, self._definitions, self._sources).under(self._refresh)

    def _tables(self, analysis: Analysis) -> Schema:
        """Returns the base tables of the state: the sources, and the views that Spark computes."""
        tables = [source.table for source in analysis.sources.values()]
        tables += [view.table for view in analysis.views if view.refused is not None]
        return Schema(tuple(tables))

    def _finish(
        self,
        database: DurableDatabase,
        redone: list[dict[str, pa.Table]],
        forgotten: Collection[str] = (),
    ) -> None:
        """Brings the places of a version that a run left undone up to it, but for views that are begun anew."""
        note = database.note
        if note and note["version"] != self._state.committed():
            since = {name: places for name, places in note["since"].items() if name not in forgotten}
            self._delivery.deliver(database, {**note, "since": since}, redone)
            self._commit(database)

    def _apply(
        self,
        analysis: Analysis,
        database: DurableDatabase,
        forgotten: Collection[str],
        report: Report,
        beside: bool,
    ) -> None:
        note: Mapping[str, Any] = database.note or {**_NOTHING, "id": uuid.uuid4().hex}
        note = {**note, "views": {name: digest for name, digest in note["views"].items() if name not in forgotten}}
        version = note["version"] + 1
        positions, rows = dict(note["positions"]), {}
        with report.phase("read"):
            for name, source in analysis.sources.items():
                known = partial(database.table, source.table.name)
                found = source.changes(positions.get(name), known)
                report.read[name] = found.rows.num_rows, found.how
                positions[name] = found.position
                if found.rows.num_rows:
                    rows[source.table.name] = found.rows
        before, full = note, analysis
        if beside:
            analysis, note = self._beside.shown(full, database, note, self._analysis)
        adopted = note is not before
        views = {v.definition.name: v.digest for v in analysis.views}
        if views != note["views"] and any(view.relation is None for view in analysis.views):
            with report.phase("analyze"):
                full = analysis = self._analysis()  # the state is older than what was written down of it
            views = {v.definition.name: v.digest for v in analysis.views}
        since = self._delivery.since(analysis, note, version)
        if not rows and views == before["views"] and since == before["since"] and note["whole"]:
            report.version = note["version"]
            remember(self._session, full, self._texts, self._state.analysis)
            if not beside:
                self._shorten(database, report, False, beside)
            return
        report.version = version
        with report.phase("apply"):
            self._register(analysis, database, note)
            self._delivery.demand_keys(database, since)
            computed = [view for view in analysis.views if view.refused is not None]
            note = {**note, "version": version, "positions": positions, "since": since, "views": views}
            batches, deltas = [rows], [database.apply(rows, note={**note, "whole": not computed})]
            for name, delta in self._computed(analysis, database, computed, report):
                whole = name == computed[-1].definition.name
                batches.append({name: delta})
                deltas.append({name: delta, **database.apply({name: delta}, note={**note, "whole": whole})})
        self._beside.follow(version, batches)
        self._deliver(database, note, deltas, report)
        remember(self._session, full, self._texts, self._state.analysis)
        changed = views != before["views"] and not adopted  # the others would wait for the snapshot
        self._shorten(database, report, changed, beside)

    def _shorten(self, database: DurableDatabase, report: Report, now: bool, stays: bool) -> None:
        with report.phase("snapshot"):
            self._state.shorten(database, now, stays)

    def _deliver(
        self,
        database: DurableDatabase,
        note: Mapping[str, Any],
        deltas: list[dict[str, pa.Table]],
        report: Report,
    ) -> None:
        """Brings the places of all views to a version, and reports what they took."""
        with report.phase("write"):
            report.changed = self._delivery.deliver(database, note, deltas)
            self._commit(database)

    def _commit(self, database: DurableDatabase) -> None:
        """Notes that all places are up to the version of the state; deletes the tables of views that are gone."""
        self._delivery.forget(kept=[*self._delivery.owners(database.note["since"]), *self._beside.names])
        self._state.commit(database.note["version"], database.batches)

    def _register(self, analysis: Analysis, database: DurableDatabase, note: Mapping[str, Any]) -> None:
        """Drops the views that are gone or changed, and registers those that are new."""
        digests = {v.definition.name: v.digest for v in analysis.views}
        stale = [name for name in reversed(database.views) if digests.get(name) != note["views"].get(name)]
        kept = set(database.views).difference(stale)
        fresh = {
            view.definition.name: view.relation
            for view in analysis.views
            if view.refused is None and view.definition.name not in kept and view.relation is not None
        }
        database.define(fresh, drop=stale)

    def _computed(
        self, analysis: Analysis, database: DurableDatabase, views: list[Analyzed], report: Report
    ) -> Iterator[tuple[str, pa.Table]]:
        """Yields the changes of the views that Spark computes, each behind what it reads."""
        if not views:
            return
        live = clone(self._session.spark)
        needed = {name for view in views for name in view.reads}
        for name in needed.intersection(self._sources):
            source = analysis.sources[name]
            live.createDataFrame(arrow_of(source.read(), source.table)).createOrReplaceTempView(source.table.name)
        for view in analysis.views:
            name, query = view.definition.name, view.definition.query
            if view in views:
                begun = time.monotonic()
                with active(live):
                    rows = arrow_of(live.sql(query) if isinstance(query, str) else query(), view.table)
                report.computed[name] = time.monotonic() - begun
                yield name, difference(with_weights(rows, 1), database.table(name))
            elif name.lower() in needed:
                rows = database[name].to_table()
            if name.lower() in needed:
                live.createDataFrame(rows).createOrReplaceTempView(name)


def pipeline(
    spark: SparkSession, path: str | Path, *, refresh: str = "auto", keep: int = 1, verify: bool = False
) -> Pipeline:
    """Returns a pipeline whose state and tables are in the local folder ``path``; see ``Pipeline``.

    ``refresh``: ``"auto"`` has Spark compute views anew that cannot be maintained; ``"incremental"`` refuses them.
    ``keep``: snapshots of the state that are kept before the newest, each as large as the state, and what came since:
    ``restore`` goes back so far. ``verify``: the state is read whole when it is opened, and its checksums are compared.
    Otherwise it is mapped into memory: a run reads what it touches.
    """
    return Pipeline(spark, Path(path), refresh, keep, verify)
