"""``Pipeline``: many views over many tables, kept up to date by one durable state.

    sources -> changes -> one database (``crown.open_database``) -> the deltas of each view -> its table

A *version* of a pipeline is a run that changed something. It is committed when it is in the log of the database. Then
the deltas are written to the tables of the views, each in a transaction that names the version. If a run dies in
between, the next run finishes it: it reads the deltas again from the log, and a table accepts a version once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from crown.analysis.prometheus import instrumented
from crown.guards.arguments import flag_of, number_of
from crown.projects.quarantine import FAIL, ON_BAD_ROW, QUARANTINE, Quarantine, counts
from crown.projects.specification import AUTO, FULL, INCREMENTAL, POLICIES
from plans.schema import Schema
from plans.search.cells.groups import Groups, groups_of
from spark_jobs.errors import SourceError
from spark_jobs.pipelines.definitions.analysis import (
    Analysis,
    analyzed,
    frame_of,
    maintained,
)
from spark_jobs.pipelines.definitions.project import Definition, Project, Texts
from spark_jobs.pipelines.definitions.sessions import Session
from spark_jobs.pipelines.definitions.stored import store, stored_analysis, stored_texts
from spark_jobs.pipelines.delivery import Delivery, Function
from spark_jobs.pipelines.inputs.declared import DeclaredSource, StreamingTable, declared_source, with_streams
from spark_jobs.pipelines.maker import Maker
from spark_jobs.pipelines.reports import Report, Step
from spark_jobs.pipelines.state import PipelineState
from spark_jobs.pipelines.vitals import (
    METRICS,
    Record,
    Vitals,
    prometheus,
    rows_so_far,
    samples,
    status,
    vitals,
)


class Pipeline:
    """A pipeline with its state in a local folder. Made by ``crown.spark.pipeline``; not thread-safe.

    Declare sources and views, then ``run``.
    """

    def __init__(
        self,
        spark: SparkSession | Session,
        path: Path,
        refresh: str = AUTO,
        keep: int = 1,
        verify: bool = False,
        on_bad_row: str = FAIL,
    ) -> None:
        if refresh not in POLICIES:
            raise SourceError(f"refresh={refresh!r}: give one of {', '.join(POLICIES)}")
        if on_bad_row not in ON_BAD_ROW:
            raise SourceError(f"on_bad_row={on_bad_row!r:.100}: give one of {', '.join(ON_BAD_ROW)}")
        self._quarantine = path / "quarantine"
        self._keeps_bad_rows = on_bad_row == QUARANTINE
        self._session = Session.of(spark)
        self._path = path
        self._refresh = refresh
        self._record = Record(path)
        self._state = PipelineState(path, number_of(keep, "keep", 0), flag_of(verify, "verify"))
        self._sources: dict[str, DeclaredSource] = {}
        self._definitions: list[Definition] = []
        self._texts: Texts = {}
        self._delivery = Delivery(self._session, path / "tables")
        self._maker = Maker(path, self._session, self._state, self._delivery)
        self._analyzed: Analysis | None = None

    @classmethod
    def of(cls, spark: SparkSession | Session, project: Project, refresh: str = AUTO, verify: bool = False) -> Pipeline:
        """Returns the pipeline of a project of Spark's Declarative Pipelines, whose definitions are read."""
        made = cls(spark, project.storage, refresh, project.keep, verify, project.on_bad_row)
        with made._record.failures():
            known = stored_texts(made._session, made._state.analysis)
            made._texts = project.load(made._session, known)
            made._definitions = list(project.definitions)
            sources, static = project.sources, project.static
            for name, location in sources.items():
                made.source(name, location.text, static=name.lower() in static)
            if project.streams:
                queries = [flow.query for flows in project.streams.values() for flow in flows]
                kept = made._quarantine if made._keeps_bad_rows else None
                streaming = with_streams(made._session, sources, queries, kept)
                for table, flows in project.streams.items():
                    made._stream(table, {flow.name: frame_of(streaming, flow) for flow in flows})
            for name, places in project.places.items():
                made._delivery.add(name, places)
        return made

    def source(self, name: str, table: str | DataFrame | Callable[[], DataFrame], *, static: bool = False) -> None:
        """Declares a source: a text that names its table, a batch DataFrame, or a function that returns one.

        A streaming DataFrame has all rows that it has ever delivered, and each run reads it up to its current end.
        ``"delta:s3://lake/orders"`` and ``"iceberg:catalog.shop.orders"`` are read by their versions (packages
        ``deltalake``, ``pyiceberg``); ``"parquet:folder"`` and ``"orc:folder"`` from new files, if files were only
        added; ``"jdbc:URL TABLE"`` and ``"jdbc:URL TABLE?key=a,b"`` in full. Any other text is a table of Spark's
        catalog. Tables that Spark finds by the names in the queries need no declaration.

        ``static``: the source is read once, and again by ``refresh(sources=[name])`` and ``full_refresh``.
        """
        if isinstance(table, DataFrame) and table.isStreaming:
            if flag_of(static, "static"):
                raise SourceError(f"source {name}: every run reads new rows of a stream: leave out static=True")
            self._stream(name, {name: table})
        else:
            kept = Quarantine(self._quarantine / name) if self._keeps_bad_rows else None
            given = declared_source(self._session, name, table, kept)
            self._sources[name.lower()] = replace(given, static=flag_of(static, "static"))

    def _stream(self, name: str, flows: Mapping[str, DataFrame]) -> None:
        table = StreamingTable(name, flows, self._path / "streams")
        self._sources[name.lower()] = declared_source(self._session, name, table)

    def view(
        self,
        name: str,
        query: str | Callable[[], DataFrame],
        *,
        into: str | Function | Sequence[str | Function] = (),
        temporary: bool = False,
        refresh: str | None = None,
    ) -> None:
        """Declares a view of sources and other views.

        Its rows are in a Delta table in the folder ``tables`` of the pipeline, unless it is ``temporary``. ``into``:
        further places to which its rows are written, as one place or a list. A place is one that
        ``crown.spark.to_table`` accepts, such as ``"postgresql://user@host/database?table=totals"`` or
        ``"kafka://host:9092/totals?key=shop"``, or a function of a DataFrame and a version. The function receives the
        changes with ``_weight``, at first all rows, and after a crash the same version again. ``refresh``: the policy
        of this view, as in ``crown.spark.pipeline``.
        """
        made = Definition(name, query, temporary, f"view {name}", refresh)
        if any(known.name.lower() == name.lower() for known in self._definitions):
            raise SourceError(f"there are two views called {name}; rename one")
        self._delivery.add(name, into)
        self._definitions.append(made)

    # -- what a run would do, and what was done ------------------------------------------------------------------------

    def plan(self) -> list[Step]:
        """Returns how each view would be updated, in the order in which they are updated. Nothing is written, and only
        schemas are read. Like a run, it does not start Spark for definitions that a run has analyzed."""
        analysis = self._current()
        return [
            Step(v.definition.name, INCREMENTAL if v.refused is None else FULL, v.refused or "", v.reads)
            for v in analysis.views
        ]

    def groups(self, cells: int) -> Groups:
        """Returns how the views would be cut into that many cells, and how many rows a host with a cell of each group
        would get. The rows are those that all runs have read; before the first run, each source counts as one row."""
        analysis = self._analysis()
        rates = rows_so_far(vitals(self._path))
        program = maintained(analysis, self._tables(analysis))
        return groups_of(program, number_of(cells, "cells", 2), rates if any(rates.values()) else None)

    def status(self, *, verify: bool = False) -> Vitals:
        """Returns the health of the pipeline; an empty mapping before the first run. Nothing is locked, so a process
        that watches the pipeline continues.

        - ``version``, ``bytes`` of the state, and ``history``: the versions that ``restore`` accepts
        - ``process``: the process that has the state open; 0 if none has
        - ``runs``: how many ``succeeded`` and ``failed``
        - ``success``: of the newest successful run, the time ``at`` which it ended, its ``seconds``, and those of its
          ``phases``; ``error``: of the newest failed run, its time and its message ``said``. None if there is no such
          run
        - ``sources``: for each, the number of ``rows`` in the newest run and how they were found, the time ``at`` which
          all of its data had been read, and for a Delta table how far the pipeline is ``behind``
        - ``views``: for each view with a place, its ``rows``, how many rows the newest run ``inserted`` and
          ``deleted``, and how many changes of its inputs it ``read``
        - ``damaged``, with ``verify``: a sentence for each damaged file of the state, which is read in full
        """
        return status(self._path, flag_of(verify, "verify"))

    def metrics(self) -> str:
        """Returns the numbers of ``status`` in Prometheus' text format; nothing before the first run."""
        return "".join(f"{line}\n" for line in prometheus(vitals(self._path)))

    def instrument(self, provider: Any = None) -> None:
        """Exports the numbers of ``metrics`` by OpenTelemetry, under the same names without ``_total``.

        ``provider``: a MeterProvider; None for the global one. It reads the numbers when it exports, also while another
        process runs the pipeline. Raises CrownError if ``provider`` is not a provider.
        """
        instrumented(provider, METRICS, lambda: dict(samples(vitals(self._path))))

    def refresh(self, *views: str, sources: Collection[str] = ()) -> Report:
        """Runs for these views: reads only the sources that they need. ``sources`` are read, too, even if they are
        static, and views that Spark computes from them are computed.

        Other views that read these sources are updated, too. Views that Spark computes, and that these do not read,
        keep their rows until the next run. Raises SourceError if there is no such view or source, and the errors of
        ``run``.
        """
        if isinstance(sources, str) or not (views or sources):
            raise SourceError("refresh takes the names of views, and sources= a list of names; run refreshes all")
        return self._run(only=views, sources=sources)

    def drop(self, *views: str) -> Report:
        """Drops views whose definitions were deleted, with their own tables. Other places keep their rows. No source is
        read.

        Raises SourceError for a view that is still defined or is not in the state, and PlanError for a view that
        another view reads.
        """
        return self._maker.drop(views, self._definitions)

    def full_refresh(self, *views: str) -> Report:
        """Computes everything again, from all rows of the sources, and replaces the state and the tables of the views.
        If it fails, nothing has changed.

        ``views``: computes only these views and those that read them, from the rows in the state; the other views do
        not change. Raises SourceError if there is no such view.
        """
        return self._run(recomputed=views, fresh=not views)

    def restore(self, version: int) -> Report:
        """Makes a new version with the rows that sources, views and tables had after an earlier one.

        The definitions do not change. The next run reads the sources from the position of that version, so fix them
        first. ``status()["history"]`` has the versions that can be restored; a larger ``keep`` keeps more. Raises
        SourceError for any other version, and CrownError for a value that is not a number. O(state).
        """
        return self._maker.restore(number_of(version, "version", 0))

    # -- A run ---------------------------------------------------------------------------------------------------------

    def run(self) -> Report:
        """Reads the changes of the sources, and brings every view and its table up to date.

        Raises SourceError for a source or a view that cannot be used. Then nothing has changed.
        """
        return self._run()

    def _run(
        self,
        only: Collection[str] = (),
        recomputed: Collection[str] = (),
        fresh: bool = False,
        sources: Collection[str] = (),
    ) -> Report:
        with closing(self._rounds(None, only, recomputed, fresh, sources)) as rounds:
            return next(rounds)

    def watch(self, every: float = 10.0) -> Generator[Report]:
        """Runs repeatedly, every ``every`` seconds, and yields a report of each run.

        The state stays open in between, so the cost of a run depends on the changes of the sources, not on the size of
        the state. If no view was dropped, views that were added or changed since the last run are computed in the
        background, while the other views continue. Raises the errors of ``run``, and SourceError for an ``every`` that
        is not a time. Close the iterator to close the state.
        """
        if isinstance(every, bool) or not isinstance(every, int | float) or not 0 <= every < math.inf:
            raise SourceError(f"every must be a number of seconds of 0 or more, not {every!r:.100}")
        return self._rounds(every)

    def _rounds(
        self,
        every: float | None,
        only: Collection[str] = (),
        recomputed: Collection[str] = (),
        fresh: bool = False,
        sources: Collection[str] = (),
    ) -> Generator[Report]:
        """Runs repeatedly, or once (None), for all views, or ``only`` some views and some ``sources``. The first run
        recomputes the views ``recomputed``, or all views from a ``fresh`` state."""
        with ExitStack() as alone:
            with self._record.failures():
                begun, report = time.monotonic(), Report()
                with report.phase("analyze"):
                    analysis = self._analysis() if fresh else self._current()
                    schema = self._tables(analysis)
            forgotten = analysis.with_readers(recomputed)
            selected = analysis.with_read(only, sources) if only or sources else None
            analysis = analysis.reading(sources)
            alone.enter_context(self._state.alone())  # where another process has it, no run of it has failed
            opened = partial(self._state.rebuilt, empty=True) if fresh else partial(self._state.opened)
            while True:
                with ExitStack() as held:
                    with self._record.failures(), report.phase("open"):
                        database, redone = held.enter_context(opened(schema))
                        self._maker.finish(database, redone, forgotten)
                    held.callback(self._maker.end)
                    while database.tables == tuple(schema.values()):
                        with self._record.failures():
                            analysis = self._maker.make(
                                analysis, self._analysis, database, forgotten, selected, report, every is not None
                            )
                            store(self._session, analysis, self._texts, self._state.analysis)
                            report.quarantined = counts(self._quarantine)
                            report.seconds = time.monotonic() - begun
                            self._record.ran(report, analysis, database)
                        forgotten = frozenset()
                        yield report
                        time.sleep(every or 0.0)
                        begun, report = time.monotonic(), Report()
                        with self._record.failures(), report.phase("analyze"):
                            analysis = self._current()
                            schema = self._tables(analysis)
                opened = partial(self._state.rebuilt)

    def follow(self, other: Pipeline) -> None:
        """Takes over the definitions, sources and places of another pipeline of the same folder, which has analyzed
        them, so the next run of ``watch`` does not wait for the analysis."""
        self._definitions, self._sources, self._texts = other._definitions, other._sources, other._texts
        self._delivery.follow(other._delivery)
        self._analyzed = other._analyzed

    def analyze(self) -> None:
        """Analyzes the definitions now, in any thread, for the pipeline that will ``follow`` this one."""
        with self._record.failures():
            self._analyzed = self._current()

    def _current(self) -> Analysis:
        """Returns the analysis that the last run has stored, if it is still valid, or a new one."""
        known, self._analyzed = self._analyzed, None
        if known is not None:
            return known.reread(self._session)
        found = stored_analysis(self._session, self._under_policies(), self._sources, self._state.analysis)
        return self._analysis() if found is None else found.allowed()

    def _analysis(self) -> Analysis:
        if not self._definitions:
            raise SourceError("this pipeline has no views; declare one with view(), or name a project with some")
        return analyzed(self._session, self._under_policies(), self._sources).allowed()

    def _under_policies(self) -> list[Definition]:
        return [replace(of, refresh=of.refresh or self._refresh) for of in self._definitions]

    def _tables(self, analysis: Analysis) -> Schema:
        """Returns the base tables of the state: the sources, and the views that Spark computes."""
        tables = [source.table for source in analysis.sources.values()]
        tables += [view.table for view in analysis.views if view.refused is not None]
        return Schema(tuple(tables))


def pipeline(
    spark: SparkSession,
    path: str | Path,
    *,
    refresh: str = AUTO,
    keep: int = 1,
    verify: bool = False,
    on_bad_row: str = FAIL,
) -> Pipeline:
    """Returns a pipeline whose state and tables are in the local folder ``path``; see ``Pipeline``.

    ``refresh``: the policy of views that have none of their own. With ``"auto"``, Spark recomputes views that cannot be
    maintained; ``"incremental"`` rejects such views; ``"incremental_strict"`` also rejects a source that keeps
    versions, but not those since it was last read; with ``"full"``, Spark recomputes all views in every run. ``keep``:
    the number of older snapshots of the state that are kept, each as large as the state, and the changes since them:
    ``restore`` can go back that far. ``verify``: the whole state is read when it is opened, and its checksums are
    compared. Otherwise it is mapped into memory, and a run reads only what it needs. ``on_bad_row``: with ``"fail"``, a
    row of a CSV or JSON file that cannot be used ends the run before anything has changed; with ``"quarantine"``, it is
    written to the folder ``quarantine`` of the pipeline, with the reason, and the run continues without it.
    """
    return Pipeline(spark, Path(path), refresh, keep, verify, on_bad_row)
