"""``Pipeline``: many views over many tables, kept up to date by one durable state.

    sources -> what changed -> one database (``crown.open_database``) -> the deltas of each view -> its table

A *version* of a pipeline is a run that changed something. It stands when it is in the log of the database. Then the
deltas go into the tables of the views, each in a transaction that names the version. A run that dies in between is
finished by the next one: it has the deltas again from the log, and a table takes a version once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from crown.analysis.telemetry import instrumented
from crown.guards.arguments import flag_of, number_of
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
from spark_jobs.pipelines.definitions.remembered import recalled, recalled_texts, remember
from spark_jobs.pipelines.definitions.sessions import Session
from spark_jobs.pipelines.delivery import Delivery, Function
from spark_jobs.pipelines.inputs.given import Given, given_by, with_streams
from spark_jobs.pipelines.inputs.streams import StreamingTable
from spark_jobs.pipelines.making import Maker
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
        self, spark: SparkSession | Session, path: Path, refresh: str = AUTO, keep: int = 1, verify: bool = False
    ) -> None:
        if refresh not in POLICIES:
            raise SourceError(f"refresh={refresh!r}: give one of {', '.join(POLICIES)}")
        self._session = Session.of(spark)
        self._path = path
        self._refresh = refresh
        self._record = Record(path)
        self._state = PipelineState(path, number_of(keep, "keep", 0), flag_of(verify, "verify"))
        self._sources: dict[str, Given] = {}
        self._definitions: list[Definition] = []
        self._texts: Texts = {}
        self._delivery = Delivery(self._session, path / "tables")
        self._maker = Maker(path, self._session, self._state, self._delivery)
        self._analyzed: Analysis | None = None

    @classmethod
    def of(cls, spark: SparkSession | Session, project: Project, refresh: str = AUTO, verify: bool = False) -> Pipeline:
        """Returns the pipeline of a project of Spark's Declarative Pipelines, whose definitions are read."""
        made = cls(spark, project.storage, refresh, project.keep, verify)
        with made._record.failures():
            known = recalled_texts(made._session, made._state.analysis)
            made._texts = project.load(made._session, known)
            made._definitions = list(project.definitions)
            sources, static = project.sources, project.static
            for name, location in sources.items():
                made.source(name, location.text, static=name.lower() in static)
            if project.streams:
                queries = [flow.query for flows in project.streams.values() for flow in flows]
                streaming = with_streams(made._session, sources, queries)
                for table, flows in project.streams.items():
                    made._stream(table, {flow.name: frame_of(streaming, flow) for flow in flows})
            for name, places in project.places.items():
                made._delivery.add(name, places)
        return made

    def source(self, name: str, table: str | DataFrame | Callable[[], DataFrame], *, static: bool = False) -> None:
        """Names a source: a text that says where its table is, a DataFrame, or a function that returns a batch one.

        A streaming DataFrame has the rows that it has ever had, and each run reads on to its present end.
        ``"delta:s3://lake/orders"`` and ``"iceberg:catalog.shop.orders"`` are read by their versions (packages
        ``deltalake``, ``pyiceberg``); ``"parquet:folder"`` and ``"orc:folder"`` from new files, where files were only
        added; ``"jdbc:URL TABLE"`` and ``"jdbc:URL TABLE?key=a,b"`` whole. Any other text is a table of Spark's
        catalog. Tables that Spark finds by the names in the queries need no declaration.

        ``static``: the source is read once, and again by ``refresh(sources=[name])`` and ``full_refresh``.
        """
        if isinstance(table, DataFrame) and table.isStreaming:
            if flag_of(static, "static"):
                raise SourceError(f"source {name}: every run reads new rows of a stream: leave out static=True")
            self._stream(name, {name: table})
        else:
            given = given_by(self._session, name, table)
            self._sources[name.lower()] = replace(given, static=flag_of(static, "static"))

    def _stream(self, name: str, flows: Mapping[str, DataFrame]) -> None:
        table = StreamingTable(name, flows, self._path / "streams")
        self._sources[name.lower()] = given_by(self._session, name, table)

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
        where else they go, a place or a list of them. A place is one that ``crown.spark.to_table`` knows, such as
        ``"postgresql://user@host/database?table=totals"`` or ``"kafka://host:9092/totals?key=shop"``, or a function of
        a DataFrame and a version. The function is given the changes with ``_weight``, at first all rows, and after a
        crash the same version again. ``refresh``: the policy of this view, as ``crown.spark.pipeline`` has it for all.
        """
        made = Definition(name, query, temporary, f"view {name}", refresh)
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

    def instrument(self, provider: Any = None) -> None:
        """Has OpenTelemetry export the numbers of ``metrics``, under the same names without ``_total``.

        ``provider``: a MeterProvider; None for the global one. It reads them when it exports, also while another
        process runs the pipeline. Raises CrownError for what is no provider.
        """
        instrumented(provider, METRICS, lambda: dict(samples(vitals(self._path))))

    def refresh(self, *views: str, sources: Collection[str] = ()) -> Report:
        """Runs for these views: reads the sources that they need, and no others. ``sources``: are read, too, also
        static ones, and views that Spark computes from them are computed.

        Other views that read these sources are updated, too. Views that Spark computes, and that these do not read,
        keep their rows until the next run. Raises SourceError if there is no such view or source, and what ``run``
        raises.
        """
        if isinstance(sources, str) or not (views or sources):
            raise SourceError("refresh takes the names of views, and sources= a list of names; run refreshes all")
        return self._run(only=views, sources=sources)

    def drop(self, *views: str) -> Report:
        """Drops views whose definitions were deleted, with their own tables; other places keep their rows. No source is
        read.

        Raises SourceError for a view that is still defined or is not in the state, and PlanError for one that another
        one reads.
        """
        return self._maker.drop(views, self._definitions)

    def full_refresh(self, *views: str) -> Report:
        """Forgets the state and the tables of the views, and computes everything again.

        ``views``: forgets these views and those that read them, and computes them again from the rows in the state; the
        others go on. Raises SourceError if there is no such view.
        """
        return self._run(anew=views, fresh=not views)

    def restore(self, version: int) -> Report:
        """Makes a new version with the rows that sources, views and tables had after an earlier one.

        The definitions stay as they are. The next run reads the sources from where that version had read them, so fix
        them first. ``status()["history"]`` has the versions that can be restored; ``keep`` makes it longer. Raises
        SourceError for any other, and CrownError for what is no number. O(state).
        """
        return self._maker.restore(number_of(version, "version", 0))

    # A run
    # ------------------------------------------------------------------------------------------------------------------

    def run(self) -> Report:
        """Reads what has changed in the sources, and brings every view and its table up to date.

        Raises SourceError for a source or a view that cannot be used; nothing has changed then.
        """
        return self._run()

    def _run(
        self,
        only: Collection[str] = (),
        anew: Collection[str] = (),
        fresh: bool = False,
        sources: Collection[str] = (),
    ) -> Report:
        with closing(self._rounds(None, only, anew, fresh, sources)) as rounds:
            return next(rounds)

    def watch(self, every: float = 10.0) -> Generator[Report]:
        """Runs again and again, ``every`` so many seconds, and yields what each run did.

        The state stays open in between, so a run costs what has changed in the sources, and not what the state is.
        Views that were added or changed since the last run are computed beside the others, which go on, if none was
        dropped. Raises what ``run`` raises, and SourceError for an ``every`` that is no time. Close
        the iterator to let go of the state.
        """
        if isinstance(every, bool) or not isinstance(every, int | float) or not 0 <= every < math.inf:
            raise SourceError(f"every must be a number of seconds of 0 or more, not {every!r:.100}")
        return self._rounds(every)

    def _rounds(
        self,
        every: float | None,
        only: Collection[str] = (),
        anew: Collection[str] = (),
        fresh: bool = False,
        sources: Collection[str] = (),
    ) -> Generator[Report]:
        """Runs again and again, or once (None), for all views, or ``only`` some and some ``sources``. The first run
        computes the views ``anew`` again, or all of them from a ``fresh`` state."""
        with ExitStack() as alone:
            with self._record.failures():
                begun, report = time.monotonic(), Report()
                with report.phase("analyze"):
                    analysis = self._analysis() if fresh else self._current()
                    schema = self._tables(analysis)
            forgotten = analysis.with_readers(anew)
            selected = analysis.with_read(only, sources) if only or sources else None
            analysis = analysis.reading(sources)
            alone.enter_context(self._state.alone())  # where another process has it, no run of it has failed
            if fresh:
                self._state.forget()
            while True:
                with ExitStack() as held:
                    with self._record.failures(), report.phase("open"):
                        database, redone = held.enter_context(self._state.opened(schema))
                        self._maker.finish(database, redone, forgotten)
                    held.callback(self._maker.end)
                    while database.tables == tuple(schema.values()):
                        with self._record.failures():
                            analysis = self._maker.make(
                                analysis, self._analysis, database, forgotten, selected, report, every is not None
                            )
                            remember(self._session, analysis, self._texts, self._state.analysis)
                            report.seconds = time.monotonic() - begun
                            self._record.ran(report, analysis, database)
                        forgotten = frozenset()
                        yield report
                        time.sleep(every or 0.0)
                        begun, report = time.monotonic(), Report()
                        with self._record.failures(), report.phase("analyze"):
                            analysis = self._current()
                            schema = self._tables(analysis)
                with self._record.failures(), report.phase("open"):
                    self._state.rebuild(schema)

    def follow(self, other: Pipeline) -> None:
        """Goes on with the definitions, sources and places of another pipeline of the same folder, which has analyzed
        them: the next run of ``watch`` does not wait for that."""
        self._definitions, self._sources, self._texts = other._definitions, other._sources, other._texts
        self._delivery.follow(other._delivery)
        self._analyzed = other._analyzed

    def analyze(self) -> None:
        """Analyzes the definitions now, in any thread, for the pipeline that is to ``follow`` this one."""
        with self._record.failures():
            self._analyzed = self._current()

    def _current(self) -> Analysis:
        """Returns the analysis that the last run has written down if it holds, or a new one."""
        known, self._analyzed = self._analyzed, None
        if known is not None:
            return known.read_anew(self._session)
        found = recalled(self._session, self._under_policies(), self._sources, self._state.analysis)
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
    spark: SparkSession, path: str | Path, *, refresh: str = AUTO, keep: int = 1, verify: bool = False
) -> Pipeline:
    """Returns a pipeline whose state and tables are in the local folder ``path``; see ``Pipeline``.

    ``refresh``: what is done about views without a policy of their own. ``"auto"`` has Spark compute views anew that
    cannot be maintained; ``"incremental"`` refuses them; ``"incremental_strict"`` also refuses a source that keeps its
    versions, and lacks those since it was last read; ``"full"`` has Spark compute all views anew in every run.
    ``keep``: snapshots of the state that are kept before the newest, each as large as the state, and what came since:
    ``restore`` goes back so far. ``verify``: the state is read whole when it is opened, and its checksums are compared.
    Otherwise it is mapped into memory: a run reads what it touches.
    """
    return Pipeline(spark, Path(path), refresh, keep, verify)
