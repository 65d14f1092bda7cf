"""What the views of a pipeline read, in an order in which each comes behind what it reads.

Every definition is analyzed by Spark in a session of its own, in which the views of the pipeline are temporary views
without rows. What else Spark resolves there are the sources.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from plans.errors import PlanError
from plans.schema import Schema, Table
from spark_jobs.catalyst import Leaf, clone, leaves_of, register, relation_of, unlogged
from spark_jobs.errors import SourceError
from spark_jobs.ingest.types import supported_table
from spark_jobs.pipelines.project import Definition

_ANALYSIS = (PySparkException, PlanError)


@dataclass(frozen=True)
class Analyzed:
    """A view: its definition, its DataFrame over empty views, what it reads, and a digest of how Spark reads it.

    ``reads``: names of sources and views; ``refused``: why it cannot be maintained, if so.
    """

    definition: Definition
    frame: DataFrame
    reads: tuple[str, ...]
    digest: str
    refused: str | None


@dataclass(frozen=True)
class Analysis:
    """The views in order, and the sources: relation name -> how to read it, and its columns."""

    views: tuple[Analyzed, ...]
    sources: Mapping[str, Source]
    session: SparkSession


@dataclass(frozen=True)
class Source:
    """A table that a pipeline reads: its relation, and its rows as they are now."""

    table: Table
    read: Callable[[], DataFrame]


def analyzed(
    spark: SparkSession, definitions: list[Definition], given: Mapping[str, Callable[[], DataFrame]]
) -> Analysis:
    """Analyzes all views. ``given``: sources that the project names itself, by name.

    Raises SourceError for a view that Spark refuses, that reads itself, or that reads a source without a name.
    """
    return _Reader(spark, definitions, given).run()


class _Reader:
    def __init__(
        self, spark: SparkSession, definitions: list[Definition], given: Mapping[str, Callable[[], DataFrame]]
    ) -> None:
        self._spark = spark
        self._apart = clone(spark)
        self._definitions = {definition.name.lower(): definition for definition in definitions}
        self._views: dict[str, Analyzed] = {}
        self._open: list[str] = []
        self._sources: dict[str, Source] = {}
        for name, read in given.items():
            table = supported_table(name, read().schema)
            self._sources[name.lower()] = Source(table, read)
            register(self._apart, table)

    def run(self) -> Analysis:
        with active(self._apart), unlogged():
            for name in self._definitions:
                self._view(name)
        return Analysis(tuple(self._views.values()), dict(self._sources), self._apart)

    def _view(self, name: str) -> None:
        """Analyzes a view, and before it those that it reads."""
        if name in self._views:
            return
        definition = self._definitions[name]
        if name in self._open:
            ring = " -> ".join([*self._open[self._open.index(name) :], name])
            raise SourceError(f"{definition.place}: the view {definition.name} reads itself ({ring}); break the ring")
        self._open.append(name)
        frame, leaves = self._resolved(definition)
        reads = tuple(dict.fromkeys(leaf.name for leaf in leaves))
        known = {n: self._table(n) for n in reads}
        digest = hashlib.sha256()
        try:
            relation = relation_of(self._apart, frame, Schema(tuple(known.values())))
            digest.update(repr(relation).encode())
            refused = None
        except PlanError as error:
            refused = error.message + (f"; {error.hint}" if error.hint else "")
        digest.update(repr([definition.query if isinstance(definition.query, str) else "", reads]).encode())
        for read in reads:
            if read in self._views:
                digest.update(self._views[read].digest.encode())
        made = Analyzed(definition, frame, reads, digest.hexdigest(), refused)
        table = supported_table(definition.name, frame.schema)
        register(self._apart, table)
        self._views[name] = made
        self._open.pop()

    def _table(self, name: str) -> Table:
        if name in self._sources:
            return self._sources[name].table
        return supported_table(self._definitions[name].name, self._views[name].frame.schema)

    def _resolved(self, definition: Definition) -> tuple[DataFrame, list[Leaf]]:
        """Returns the DataFrame of a definition, and the tables that it reads; views of the pipeline are analyzed
        where they are missed, or shadowed by a table of that name."""
        while True:
            try:
                query = definition.query
                frame = self._apart.sql(query) if isinstance(query, str) else query()
                if not isinstance(frame, DataFrame):
                    raise SourceError(f"{definition.place}: {definition.name} returns no DataFrame")
                leaves = leaves_of(frame)
            except AnalysisException as error:
                missed = self._missed(error)
                if missed is None:
                    raise SourceError(f"{definition.place}: {definition.name}: {_line(error)}") from None
                self._view(missed)
                continue
            except _ANALYSIS as error:
                raise SourceError(f"{definition.place}: {definition.name}: {_line(error)}") from None
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
            if known is not None and leaf.path and getattr(known.read, "path", leaf.path) != leaf.path:
                raise SourceError(
                    f"{definition.place}: {definition.name} reads {leaf.path}, and another view a table of that name "
                    "elsewhere; give one of them another name by a temporary view"
                )
            return
        if not leaf.name:
            raise SourceError(
                f"{definition.place}: {definition.name} reads files without a name; make a table of them, or name them "
                "with Pipeline.source"
            )
        read = _Table(self._spark, leaf.path)
        self._sources[leaf.name] = Source(supported_table(leaf.name, read().schema), read)


@dataclass(frozen=True)
class _Table:
    """Reads a table of the catalog."""

    spark: SparkSession
    path: str

    def __call__(self) -> DataFrame:
        return self.spark.table(self.path)


@contextmanager
def active(spark: SparkSession) -> Iterator[None]:
    """Makes a session the active one: that is what functions of a project ask for."""
    jvm: Any = spark.sparkContext._jvm
    sessions: Any = jvm.org.apache.spark.sql.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        sessions.clearActiveSession() if before.isEmpty() else sessions.setActiveSession(before.get())


def _line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
