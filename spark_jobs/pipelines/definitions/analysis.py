"""Finds what the views of a pipeline read, and orders the views accordingly.

Spark analyzes every definition in a session of its own, in which the views of the pipeline are temporary views without
rows. All other tables that Spark resolves there are the sources.

Analyzing many views takes seconds, so an analysis is stored and used again
(``spark_jobs.pipelines.definitions.stored``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from crown.projects.changes import Changed, changes_of_versions
from crown.projects.specification import FULL, INCREMENTAL, STRICT
from plans.errors import PlanError
from plans.program import Program
from plans.programs.named import added, empty, schema_of
from plans.programs.reads import functions_of
from plans.queries.algebra import Relation, with_read_columns
from plans.schema import Schema, Table
from spark_jobs.errors import SourceError
from spark_jobs.ingest.types import supported_table
from spark_jobs.pipelines.definitions.project import Definition, line_of, raised
from spark_jobs.pipelines.definitions.sessions import Session
from spark_jobs.pipelines.inputs.declared import DeclaredSource
from spark_jobs.pipelines.inputs.sources import changes
from spark_jobs.queries.catalyst import Leaf, clone, leaves_of, register, relation_of, unlogged

UNANALYZED = (PySparkException, PlanError)
_ANY = " "  # a name that no table has
_seen: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Analyzed:
    """A view: its definition, its relation's columns, what it reads, and a digest of its query as Spark reads it, which
    columns that it does not read do not change.

    ``reads``: names of sources and views; ``refused``: why it cannot be maintained, or None; ``relation``: its query
    over a schema of what it reads, None if the analysis was read from a file.
    """

    definition: Definition
    table: Table
    reads: tuple[str, ...]
    digest: str
    refused: str | None
    relation: Callable[[Schema], Relation] | None


@dataclass(frozen=True)
class Analysis:
    """The views in order, and the sources: relation name -> how to read it, and its columns.

    ``lasting``: the analysis depends only on inputs that are stored with it.
    """

    views: tuple[Analyzed, ...]
    sources: Mapping[str, Source]
    lasting: bool

    def at(self, digests: Mapping[str, str]) -> Analysis:
        """Returns the analysis of a version that has views with these digests. A view whose definition has changed
        since keeps the digest of that version."""
        known = (view for view in self.views if view.definition.name in digests)
        return replace(self, views=tuple(replace(view, digest=digests[view.definition.name]) for view in known))

    def reread(self, session: Session) -> Analysis:
        """Returns the analysis in which tables of the catalog are read as they are from now on."""
        tables = {
            n: s if s.path is None else replace(s, read=CatalogTable(session, s.path)) for n, s in self.sources.items()
        }
        return replace(self, sources=tables)

    def with_readers(self, names: Collection[str]) -> frozenset[str]:
        """Returns the views with these names, and all views that read them. Raises SourceError if there is no such
        view."""
        found = self._known(names)
        for view in self.views:  # each behind what it reads
            if found.intersection(view.reads):
                found.add(view.definition.name.lower())
        return frozenset(view.definition.name for view in self.views if view.definition.name.lower() in found)

    def with_read(self, names: Collection[str], sources: Collection[str] = ()) -> frozenset[str]:
        """Returns the views with these names, and all views and sources that they read, in lower case; also
        ``sources``, and the views that Spark computes from them. Raises SourceError if there is no such view or source.
        """
        strange = next((name for name in sources if str(name).lower() not in self.sources), None)
        if strange is not None:
            raise SourceError(f"no view reads a source called {strange}; they read: {', '.join(self.sources)}")
        selected = {name.lower() for name in sources}
        changed = set(selected)
        for view in self.views:
            if changed.intersection(view.reads):
                changed.add(view.definition.name.lower())
        computed = [v.definition.name for v in self.views if v.refused and v.definition.name.lower() in changed]
        found = self._known([*names, *computed]) | selected
        for view in reversed(self.views):
            if view.definition.name.lower() in found:
                found.update(view.reads)
        return frozenset(found)

    def reading(self, sources: Collection[str]) -> Analysis:
        """Returns the analysis in which these sources are read, even if they are static."""
        selected = {name.lower() for name in sources}
        read = {
            name: replace(source, given=replace(source.given, static=False))
            for name, source in self.sources.items()
            if source.given is not None and name in selected
        }
        return replace(self, sources={**self.sources, **read})

    def _known(self, names: Collection[str]) -> set[str]:
        known = {view.definition.name.lower(): view.definition.name for view in self.views}
        strange = next((name for name in names if name.lower() not in known), None)
        if strange is not None:
            raise SourceError(f"there is no view called {strange}; there are: {', '.join(known.values())}")
        return {name.lower() for name in names}

    def allowed(self) -> Analysis:
        """Returns the analysis itself. Raises PlanError for a view that cannot be maintained, although its policy
        requires it."""
        for view in self.views:
            if view.refused is not None and view.definition.refresh in (INCREMENTAL, STRICT):
                raise PlanError(
                    f"{view.definition.place}: the view {view.definition.name} cannot be maintained: {view.refused}",
                    hint='allow refresh="auto", with which Spark recomputes it in every run',
                )
        return self

    def strict(self, source: str) -> str | None:
        """Returns a view that reads a source and whose policy forbids that if the history of the source was removed;
        None if there is none."""
        strict = (v.definition.name for v in self.views if v.definition.refresh == STRICT)
        return next((name for name in strict if source in self.with_read([name])), None)


@dataclass(frozen=True)
class Source:
    """A table that a pipeline reads: its relation, and its current rows.

    ``path``: where it is in the catalog; ``given``: its declaration in the project. One of them is None.
    """

    table: Table
    read: Callable[[], DataFrame]
    path: str | None = None
    given: DeclaredSource | None = None

    @property
    def streams(self) -> bool:
        """Returns True for a streaming table, which gets its rows even if no view reads it."""
        return self.given is not None and self.given.stream is not None

    @property
    def is_in_state(self) -> bool:
        """Returns True if its rows are read from the state where Spark needs them: it is not read again, or this
        process reads it."""
        return self.static or (self.given is not None and self.given.texts is not None)

    @property
    def static(self) -> bool:
        """Returns True if the source is not read again."""
        return self.given is not None and self.given.static

    def changes(self, position: Any, known: Callable[[], pa.Table]) -> Changed:
        """Returns the changes since ``position``; see ``spark_jobs.pipelines.inputs.sources``."""
        if self.given is not None and self.given.versions is not None:
            return changes_of_versions(self.given.versions, self.table, position, known)
        if self.given is not None and self.given.texts is not None:
            return self.given.texts.changes(position, known)
        if self.given is not None and self.given.listed is not None:
            return changes(self.given.listed, self.table, position, known, rows=self.given.rows)
        folder = self.given.folder if self.given is not None else None
        return changes(self.read, self.table, position, known, folder)


def analyzed(session: Session, definitions: list[Definition], given: Mapping[str, DeclaredSource]) -> Analysis:
    """Analyzes all views. ``given``: the sources that the project names, by their names in lower case.

    Raises SourceError for a view that Spark rejects, that reads itself, or that reads a source without a name.
    """
    return _Reader(session, definitions, given).run()


class _Reader:
    def __init__(self, session: Session, definitions: list[Definition], given: Mapping[str, DeclaredSource]) -> None:
        self._session = session
        self._apart = clone(session.spark)
        self._definitions = {definition.name.lower(): definition for definition in definitions}
        self._views: dict[str, Analyzed] = {}
        self._open: list[str] = []
        self._sources: dict[str, Source] = {}
        named = all(of.digest is not None for of in given.values())
        self._lasting = named and all(isinstance(of.query, str) for of in definitions)
        for name, of in given.items():
            table = of.table(name, of.read().schema if of.asks_spark else of.columns())
            self._sources[name] = Source(table, of.read, given=of)
            register(self._apart, table)

    def run(self) -> Analysis:
        with active(self._apart), unlogged():
            for name in self._definitions:
                self._view(name)
        read = {name for view in self._views.values() for name in view.reads}
        sources = {name: one for name, one in self._sources.items() if name in read or one.streams}
        return Analysis(tuple(self._views.values()), sources, self._lasting)

    def _view(self, name: str) -> None:
        """Analyzes a view, after the views that it reads."""
        if name in self._views:
            return
        definition = self._definitions[name]
        if name in self._open:
            ring = " -> ".join([*self._open[self._open.index(name) :], name])
            raise SourceError(f"{definition.place}: the view {definition.name} reads itself ({ring}): remove the cycle")
        self._open.append(name)
        frame, leaves = self._resolved(definition)
        reads = tuple(dict.fromkeys(leaf.name for leaf in leaves))
        known = {n: self._table(n) for n in reads}
        digest = hashlib.sha256()
        try:
            if definition.refresh == FULL:
                raise PlanError("this is its refresh policy")
            schema = Schema(tuple(known.values()))
            relation = relation_of(self._apart, frame, schema)
            made = added(empty(schema), _ANY, relation)  # a PlanError if it cannot be maintained
            digest.update(repr([with_read_columns(relation), *map(repr, functions_of(made))]).encode())
            refused = None
        except PlanError as error:
            refused = error.message + (f"; {error.hint}" if error.hint else "")
        digest.update(repr([definition.query if isinstance(definition.query, str) else "", reads]).encode())
        for read in reads:
            if read in self._views:
                digest.update(self._views[read].digest.encode())
        table = supported_table(definition.name, frame.schema)
        digest.update(repr(table).encode())
        reading = partial(relation_of, self._apart, frame)
        self._views[name] = Analyzed(definition, table, reads, digest.hexdigest(), refused, reading)
        register(self._apart, table)
        self._open.pop()

    def _table(self, name: str) -> Table:
        if name in self._sources:
            return self._sources[name].table
        return self._views[name].table

    def _resolved(self, definition: Definition) -> tuple[DataFrame, list[Leaf]]:
        """Returns the DataFrame of a definition, and the tables that it reads. A view of the pipeline is analyzed first
        if Spark does not find it, or if a table has its name."""
        while True:
            try:
                query = definition.query
                frame = self._apart.sql(query) if isinstance(query, str) else _called(definition, query)
                if not isinstance(frame, DataFrame):
                    raise SourceError(f"{definition.place}: {definition.name} returns no DataFrame")
                leaves, by_views = leaves_of(frame)
                self._lasting = self._lasting and not by_views
            except AnalysisException as error:
                missed = self._missed(error)
                if missed is None:
                    raise SourceError(_message(definition, error, {*self._views, *self._sources})) from None
                self._view(missed)
                continue
            except UNANALYZED as error:
                raise SourceError(_message(definition, error)) from None
            shadowed = [leaf.name for leaf in leaves if leaf.name in self._definitions and leaf.name not in self._views]
            if not shadowed:
                for leaf in leaves:
                    self._source(leaf, definition)
                return frame, leaves
            self._view(shadowed[0])

    def _missed(self, error: AnalysisException) -> str | None:
        """Returns the view of the pipeline that Spark did not find."""
        if "NOT_FOUND" not in str(error.getCondition() or ""):
            return None
        name = str((error.getMessageParameters() or {}).get("relationName", "")).replace("`", "").split(".")[-1].lower()
        return name if name in self._definitions and name not in self._views else None

    def _source(self, leaf: Leaf, definition: Definition) -> None:
        """Adds a table that Spark has resolved, unless it is known."""
        if leaf.name in self._views or leaf.name in self._sources:
            known = self._sources.get(leaf.name)
            if known is not None and leaf.path and known.path not in (None, leaf.path):
                raise SourceError(
                    f"{definition.place}: {definition.name} reads {leaf.path}, and another view a table of that name "
                    "elsewhere; give one of them another name by a temporary view"
                )
            return
        if not leaf.name:
            raise SourceError(
                f"{definition.place}: {definition.name} reads files without a name; put them into a table or name them "
                "with Pipeline.source"
            )
        read = CatalogTable(self._session, leaf.path)
        self._sources[leaf.name] = Source(supported_table(leaf.name, read().schema), read, leaf.path)


class CatalogTable:
    """Reads a table of the catalog, as of its first read."""

    def __init__(self, session: Session, path: str) -> None:
        self._path = path
        self._session = session
        self._frame: DataFrame | None = None

    def __call__(self) -> DataFrame:
        """Returns the rows."""
        if self._frame is None:
            spark = self._session.spark
            seen = _seen.setdefault(spark, set())
            if self._path in seen:  # the session goes on with the files that it has seen
                spark.catalog.refreshTable(self._path)
            seen.add(self._path)
            self._frame = spark.table(self._path)
        return self._frame


def maintained(analysis: Analysis, tables: Schema) -> Program:
    """Returns the program of the views that can be maintained, over the ``tables`` of the state. The analysis must not
    have been read from a file."""
    program = empty(tables)
    for view in analysis.views:
        if view.refused is None and view.relation is not None:
            program = added(program, view.definition.name, view.relation(schema_of(program)))
    return program


@contextmanager
def active(spark: SparkSession) -> Iterator[None]:
    """Makes a session the active one, which functions of a project ask for."""
    jvm: Any = spark.sparkContext._jvm
    sessions: Any = jvm.org.apache.spark.sql.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        sessions.clearActiveSession() if before.isEmpty() else sessions.setActiveSession(before.get())


def _called(definition: Definition, query: Callable[[], DataFrame]) -> DataFrame:
    try:
        return query()
    except (*UNANALYZED, SourceError):
        raise
    except Exception as error:  # it is the user's
        raise SourceError(f"{definition.place}: {definition.name}: {raised(error)}") from error


def frame_of(spark: SparkSession, definition: Definition) -> DataFrame:
    """Returns the DataFrame of a definition that reads no views, in a session. Raises SourceError if the definition
    returns no DataFrame."""
    query = definition.query
    try:
        with unlogged():
            return spark.sql(query) if isinstance(query, str) else _called(definition, query)
    except UNANALYZED as error:
        raise SourceError(_message(definition, error)) from None


def _message(definition: Definition, error: Exception, known: Collection[str] = ()) -> str:
    """Returns Spark's error about a definition as one sentence, with the remedy if a table does not exist.

    ``known``: the views and sources that exist in the session in which the definition is analyzed.
    """
    own = f"view {definition.name}"
    place = definition.place if definition.place == own else f"{definition.place}: {definition.name}"
    condition = getattr(error, "getCondition", lambda: None)()
    if condition == "TABLE_OR_VIEW_NOT_FOUND":
        name = str(error.getMessageParameters().get("relationName", "")).replace("`", "")  # type: ignore[attr-defined]
        if name.lower() in known:
            return (
                f"{place}: {name} is not in the session that this function uses: call SparkSession.active() in the "
                "function, not before it"
            )
        return (
            f"{place}: there is no table or view {name}: correct the name, create the table, or name its location with "
            f"crown.source.{name.rpartition('.')[2]} in the configuration, Pipeline.source() in Python"
        )
    return f"{place}: {line_of(error)}"
