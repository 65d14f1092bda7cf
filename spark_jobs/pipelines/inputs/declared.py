"""Sources that are declared by name, as a text, a DataFrame or a function that returns one.

A text is a location (``crown.projects.locations``), or names a table of Spark's catalog.

A ``StreamingTable`` consists of one or more streams of Spark. It has all rows that the streams have delivered. Spark
stores the rows of each flow in a folder of Parquet files, and the position of its stream in a checkpoint. A run reads
the streams up to their current end. Rows are only appended, and each row is computed once.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from crown.durable.files import write_durably
from crown.projects.flows import streams_in
from crown.projects.locations import DELTA, FILES, JDBC, PARQUET, VERSIONS, Location
from crown.projects.quarantine import Quarantine
from crown.projects.reader import FileReader
from crown.projects.sources import Folder
from plans.schema import Table
from spark_jobs.errors import SourceError
from spark_jobs.feeds.delta_versions import DeltaVersions
from spark_jobs.feeds.iceberg_versions import IcebergVersions
from spark_jobs.ingest.names import key_of
from spark_jobs.ingest.sources import AGELESS
from spark_jobs.ingest.types import supported_table
from spark_jobs.job.failures import failure
from spark_jobs.job.sinks import LOG
from spark_jobs.log.compacted import files_after
from spark_jobs.pipelines.definitions.sessions import Session
from spark_jobs.pipelines.inputs.sources import ParquetFolder, Versions, why
from spark_jobs.pipelines.inputs.texts import columns_of, listed, rows_of, stream_of
from spark_jobs.queries.catalyst import clone
from spark_jobs.storage.address import in_a_line
from spark_jobs.storage.local import LocalFolder


class StreamingTable:
    """The table of the streams ``flows``, by name, each in a folder of its own."""

    def __init__(self, name: str, flows: Mapping[str, DataFrame], folder: Path) -> None:
        own = folder / name.lower()
        self._name = name
        self._flows: dict[Path, DataFrame] = {}
        for flow, stream in flows.items():
            if not isinstance(stream, DataFrame) or not stream.isStreaming:
                raise SourceError(
                    f"the streaming table {name} is not defined by a stream: read with readStream or STREAM(...), "
                    "or declare a materialized view"
                )
            self._flows[own if flow == name else own / "flows" / flow.lower()] = stream
        self._columns, *others = [stream.schema for stream in self._flows.values()]
        known = {column.name: column.dataType for column in self._columns}
        for columns in others:
            if {column.name: column.dataType for column in columns} != known:
                raise SourceError(
                    f"the flows of the streaming table {name} have other columns: {columns.simpleString()} and "
                    f"{self._columns.simpleString()}; give all the same"
                )

    @property
    def columns(self) -> T.StructType:
        """Returns the columns of the streams, without reading them."""
        return self._columns

    def read(self) -> DataFrame:
        """Returns all rows, after each stream was read to its current end. Raises SourceError if a column has another
        type than in the rows that are there, before any stream is read, and the errors of Spark."""
        for folder in self._flows:
            for column in self._columns:
                before = _types(folder).get(column.name.lower(), column.dataType)
                if not _fits(before, column.dataType):
                    raise SourceError(
                        f"source {self._name}: {column.name} was {before.simpleString()}, and is "
                        f"{column.dataType.simpleString()} now. A streaming table does not read its rows again: "
                        f"declare {before.simpleString()}, or add a column with another name, which is NULL in these"
                    )
        files = [file for folder, stream in self._flows.items() for file in _read(folder, stream)]
        spark = next(iter(self._flows.values())).sparkSession
        return spark.read.schema(self._columns).parquet(*files) if files else spark.createDataFrame([], self._columns)


def _read(folder: Path, stream: DataFrame) -> list[str]:
    """Returns the files with the rows of one stream, after it was read to its current end.

    Spark's log of these files has the paths that they were written to, also after the folder was moved or copied.
    """
    rows = folder / "rows"
    rows.mkdir(parents=True, exist_ok=True)
    before = set((rows / LOG).glob("*"))
    writer = stream.writeStream.format("parquet").option("path", str(rows))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    try:
        writer.start().awaitTermination()
    finally:
        if set((rows / LOG).glob("*")) != before:  # also if a later batch has failed
            known = _types(folder) | {column.name.lower(): column.dataType for column in stream.schema}
            text = json.dumps({name: type_.jsonValue() for name, type_ in known.items()})
            write_durably(folder / _TYPES, text.encode())
    written = files_after(LocalFolder(rows / LOG), -1) if (rows / LOG).exists() else set()
    return sorted(str(rows / unquote(urlsplit(uri).path).rpartition("/")[2]) for uri in written)


def _types(folder: Path) -> dict[str, T.DataType]:
    """Returns the types of all columns that the rows of a stream have, by their names in lower case."""
    try:
        found = json.loads((folder / _TYPES).read_bytes())
    except FileNotFoundError:
        return {}
    columns = [{"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in found.items()]
    return {column.name: column.dataType for column in T.StructType.fromJson({"fields": columns})}


def _fits(before: T.DataType, now: T.DataType) -> bool:
    """Returns whether Spark reads rows with a column of the type ``before`` as rows with the type ``now``."""
    if isinstance(before, T.StructType) and isinstance(now, T.StructType):
        return all(_fits(one.dataType, now[one.name].dataType) for one in before if one.name in now.names)
    if isinstance(before, T.ArrayType) and isinstance(now, T.ArrayType):
        return _fits(before.elementType, now.elementType)
    if isinstance(before, T.MapType) and isinstance(now, T.MapType):
        return _fits(before.keyType, now.keyType) and _fits(before.valueType, now.valueType)
    if isinstance(before, T.DecimalType) and isinstance(now, T.DecimalType):
        return before.scale == now.scale and before.precision <= now.precision
    return before == now or (type(before), type(now)) in _WIDER


_TYPES = "types.json"
_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_WIDER = {*combinations(_WHOLE, 2), (T.FloatType, T.DoubleType)}
"""Pairs of a type and a wider one."""
_PATTERN = re.compile(r"[*?\[\]{}]")
_FETCHED = "10000"
"""The number of rows that a database sends at a time. By default, PostgreSQL's driver keeps a whole table in memory."""
_MERGED = "spark.sql.parquet.mergeSchema"
"""With this setting, a folder has the columns of all of its files, instead of those of the first."""


@dataclass(frozen=True)
class DeclaredSource:
    """A source that a project declares: how its rows are read.

    ``versions``: its table, if the table keeps versions; ``folder``: its local folder of Parquet files; ``texts``: its
    local folder of CSV or JSON files, whose rows ``read`` does not return; ``stream``: its streaming table. ``listed``:
    returns the files of which ``rows`` makes the rows, if workers read them. ``digest``: of the text that names the
    source; None if no text does. ``text``: this text, if it may be shown. ``key``: a unique key; () if none is known.
    ``static``: the source is read once, and again only by an explicit refresh.
    """

    read: Callable[[], DataFrame]
    versions: Versions | None = None
    digest: str | None = None
    text: str | None = None
    folder: ParquetFolder | None = None
    texts: Folder | None = None
    stream: StreamingTable | None = None
    listed: Callable[[], DataFrame] | None = None
    rows: Callable[[DataFrame], DataFrame] | None = None
    key: tuple[str, ...] = ()
    static: bool = False

    @property
    def asks_spark(self) -> bool:
        """Returns True if an analysis has the columns that Spark finds."""
        return self.versions is None and self.stream is None and self.texts is None

    def table(self, name: str, columns: T.StructType) -> Table:
        """Returns the relation with those of these columns that have a supported type. Raises SourceError if the key
        names another column."""
        found = supported_table(name, columns)
        known = {column.name.lower(): column.name for column in found.columns}
        for column in self.key:
            if column.lower() not in known:
                raise SourceError(f"source {name}: its key names {column!r}, but it has: {', '.join(known.values())}")
        return replace(found, key=tuple(known[column.lower()] for column in self.key))

    def columns(self) -> T.StructType:
        """Returns the columns of its rows. Spark is used only if no other reader has them."""
        if self.versions is not None:
            return self.versions.columns()
        if self.stream is not None:
            return self.stream.columns
        if self.texts is not None:
            return columns_of(self.texts.table)
        found = self.folder.columns() if self.folder is not None else None
        return self.read().schema if found is None else found


def declared_source(
    session: Session,
    name: str,
    table: str | DataFrame | Callable[[], DataFrame] | StreamingTable,
    quarantine: Quarantine | None = None,
) -> DeclaredSource:
    """Returns the source of a text, a batch DataFrame, a function that returns one, or a streaming table.
    ``quarantine``: where rows of CSV and JSON files go that cannot be used."""
    if isinstance(table, StreamingTable):
        return DeclaredSource(_with_source_errors(name, table.read), stream=table)
    if isinstance(table, DataFrame):
        return DeclaredSource(lambda: table)
    if not isinstance(table, str):
        if not callable(table):
            raise SourceError(f"source {name}: give a table, a DataFrame or a function that returns one")
        return DeclaredSource(table)
    location = Location.of(name, table)
    if location is None:
        return DeclaredSource(_with_source_errors(name, lambda: session.spark.table(table)))
    kind, where, digest = location.kind, location.where, hashlib.sha256(table.encode()).hexdigest()[:16]
    if kind in VERSIONS:
        versions = versions_of(table)
        return DeclaredSource(lambda: versions.frame(session.spark), versions, digest, table)
    if kind == JDBC:
        url, _, rows = f"{kind}:{where}".strip().rpartition(" ")
        if not url:
            raise SourceError(f"source {name}: write jdbc:URL TABLE, with a space between them")
        options = {"url": url.strip(), "dbtable": rows, "fetchsize": _FETCHED}
        read = _with_source_errors(name, lambda: _of_database(session.spark, options))
        return DeclaredSource(
            read, digest=digest, key=() if location.key is None else key_of(location.key, f"source {name}")
        )
    declared = location.table(name)
    if declared is not None:
        if is_plain(session, location):
            return DeclaredSource(_unread, digest=digest, text=table, texts=Folder(name, location, quarantine))
        files = FileReader(declared, kind, quarantine)
        found = _with_source_errors(name, lambda: listed(session.spark, location, files))

        def rows_in(some: DataFrame) -> DataFrame:
            return rows_of(some, location, files)

        return DeclaredSource(lambda: rows_in(found()), digest=digest, text=table, listed=found, rows=rows_in)
    plain = kind == PARQUET and "://" not in where and not session.names(_MERGED) and session.is_local
    folder = ParquetFolder(where) if plain else None
    read = _with_source_errors(name, lambda: session.spark.read.format(kind).load(where))
    return DeclaredSource(read, digest=digest, text=table, folder=folder)


def is_plain(session: Session, location: Location) -> bool:
    """Returns True for a local folder of files, or a file, which needs no job of Spark to be read."""
    path = Path(location.where)
    if "://" in location.where or not session.is_local or _PATTERN.search(location.where):
        return False
    try:
        return not path.is_dir() or not any(file.is_dir() and file.name[0] not in "._" for file in path.iterdir())
    except OSError:
        return True  # reading it says so


def _unread() -> DataFrame:
    raise AssertionError("this process reads the files of a local folder")


def with_streams(
    session: Session, locations: Mapping[str, Location], queries: Iterable[object], quarantine: Path | None
) -> SparkSession:
    """Returns a session with a streaming view for each folder of files that a query reads as a stream. ``quarantine``:
    the folder of the quarantines of all sources."""
    selected = {name.lower() for query in queries if isinstance(query, str) for name in streams_in(query)}
    read = {name: at for name, at in locations.items() if at.kind in FILES and name.lower() in selected}
    if not read:
        return session.spark
    apart = clone(session.spark)
    for name, at in read.items():
        declared = at.table(name)
        if declared is None:
            reader = apart.readStream.schema(declared_source(session, name, at.text).columns()).format(at.kind)
            stream = reader.options(**AGELESS).load(at.where)
        else:
            kept = None if quarantine is None else Quarantine(quarantine / name)
            stream = stream_of(apart, at, FileReader(declared, at.kind, kept))
        stream.createOrReplaceTempView(name)
    return apart


def _of_database(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    """Returns a table of a database.

    Java's own driver manager does not see the drivers of ``spark.jars``, so the driver is looked up here.
    """
    jvm: Any = spark.sparkContext._jvm
    kind, loader = jvm.java.lang.Class.forName("java.sql.Driver"), jvm.java.lang.Thread.currentThread()
    drivers = jvm.java.util.ServiceLoader.load(kind, loader.getContextClassLoader()).iterator()
    while drivers.hasNext():
        driver = drivers.next()
        if driver.acceptsURL(options["url"]):
            options = {**options, "driver": driver.getClass().getName()}
            break
    return spark.read.format(JDBC).options(**options).load()


def versions_of(text: str) -> Versions:
    """Returns the table of Delta or Iceberg that a text names."""
    kind, _, where = text.partition(":")
    return DeltaVersions(where) if kind == DELTA else IcebergVersions(where)


def _with_source_errors(name: str, read: Callable[[], DataFrame]) -> Callable[[], DataFrame]:
    """Returns ``read`` with the errors of Spark and of drivers turned into a SourceError of one sentence."""

    def reading() -> DataFrame:
        try:
            return read()
        except SourceError:
            raise
        except StreamingQueryException as error:
            raise SourceError(_of_stream(name, error)) from None
        except (PySparkException, OSError) as error:
            reason = in_a_line(error)[:300].rstrip(". ")
            raise SourceError(f"source {name} cannot be read ({reason}): fix that, and run again") from None
        except Exception as error:  # a JDBC driver's error, which py4j passes on
            message = str(error).partition("\n\tat ")[0].splitlines()[:2][-1]  # the first line is py4j's
            cause = message.removeprefix(": ").strip()[:300]
            raise SourceError(f"source {name} cannot be read ({cause}): fix that, and run again") from None

    return reading


_MOVED = re.compile(r"Wrong basePath (\S+) for the root path: (?:file:/*(?=/))?(\S+)/")


def _of_stream(name: str, error: StreamingQueryException) -> str:
    """Returns the message for a stream that has failed."""
    ours = failure(error)
    if ours is not None:  # of a worker that reads a file
        return str(ours)
    moved = _MOVED.search(str(error))
    if moved is None:
        return f"source {name} cannot be read{why(error)}: fix that, and run again"
    return (
        f"source {name}: its stream has read files of {moved[2]}, and now reads {moved[1]}: name the old folder, or "
        f"delete the folder streams/{name} of the storage, and the next run reads all files of the new one"
    )
