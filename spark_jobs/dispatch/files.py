"""Finds frames whose rows the cells can read from files: frames that are nothing but Parquet files, the files of a
Delta table, or the changes of a Delta table. ``spark_jobs.cell.files`` reads them.

Spark lists the files. A frame that is more than its files, or whose values Arrow reads differently than Spark, is read
by Spark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from crown.ingest.tables.columns import WEIGHT
from plans.schema import Table
from plans.search.cells.exchanges import Exchange
from plans.types import decimal_parts
from spark_jobs import cluster
from spark_jobs.cell.files import Filed
from spark_jobs.dispatch.envelope import Envelope
from spark_jobs.dispatch.shuffle import made_of
from spark_jobs.feeds.delta_files import SIGN, files_of
from spark_jobs.feeds.delta_source import CHANGE_TYPE
from spark_jobs.ingest.append_only import pairs, plan_of
from spark_jobs.ingest.source_log import LOCAL
from spark_jobs.ingest.sources import BINARY, OF_FILES
from spark_jobs.ingest.text_files import PATH
from spark_jobs.ingest.types import type_of_spark

MOST_CELLS = 16
"""The greatest number of cells that read every file: more cells would read longer than Spark needs to send the rows."""
_OF_STREAMS = {name.lower() for name in OF_FILES}
_ALIKE = {"bool", "int32", "int64", "float64", "string", "binary", "date", "timestamp", "timestamp_ntz"}
_PADDED = "__CHAR_VARCHAR_TYPE_STRING"
_PATTERN = re.compile(r"[*?\[{\\]")
_LENIENT = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")


def read_by_cells(
    given: Exchange, envelope: Envelope, frames: Mapping[str, DataFrame]
) -> tuple[tuple[Filed, ...], dict[str, DataFrame]]:
    """Returns the base relations that the cells read themselves, and for each a frame with the names of its files."""
    if envelope.quarantine or given.grid.cells > MOST_CELLS:
        return (), {}
    found, names = [], {}
    streams: list[tuple[Any, tuple[DataFrame, str | None]]] = []
    for base, frame in frames.items():
        table, tags = made_of(given, envelope, base)
        carried = envelope.placed[tags[0]]
        columns = [replace(one, required=table.required(one.name)) for one in table.columns if one.name in carried]
        read = Table(table.name, tuple(columns))
        plain = not table.upserts and not table.enforced
        files = _files(frame, read, streams) if plain and _alike(frame, read) else None
        if files is not None:
            weighted = any(field.name.lower() == WEIGHT for field in frame.schema.fields)
            roles = () if given.roles is None else tuple(given.roles[envelope.relations[tag]] for tag in tags)
            names[base], folder = files
            found.append(Filed(read, weighted, tuple(tags), roles, folder, SIGN in names[base].columns))
    return tuple(found), names


def _alike(frame: DataFrame, table: Table) -> bool:
    """Returns True if Spark and Arrow read the same values in the columns that are used."""
    if cluster.remote(frame.sparkSession):
        return False
    fields = {field.name.lower(): field for field in frame.schema.fields}
    for column in table.columns:
        field = fields.get(column.name.lower())
        if field is None or _unlike(column.type) or column.rounded or _PADDED in field.metadata:
            return False
        if isinstance(field.dataType, T.StringType) and field.dataType.collation != "UTF8_BINARY":
            return False
        if type_of_spark(field.dataType) != column.type:
            return False
    return True


def _unlike(type_: str) -> bool:
    """Returns True for a type that Spark stores in files as another type, or that Arrow reads differently."""
    return type_ not in _ALIKE and decimal_parts(type_) is None


def _files(
    frame: DataFrame, table: Table, streams: list[tuple[Any, tuple[DataFrame, str | None]]]
) -> tuple[DataFrame, str | None] | None:
    """Returns a frame of the names of the local Parquet files that a frame consists of, and the folder of a stream;
    None if the frame is anything else. ``streams``: the streams that other relations read. A stream that several
    relations read is one source in Spark.
    """
    plan, spark = plan_of(frame), frame.sparkSession
    coded = False
    while plan.nodeName() in ("SubqueryAlias", "Project"):
        if not _bare(plan):
            if coded or not _coded(plan):
                return None
            coded = True
        plan = plan.children().head()
    weight = next((field.dataType for field in frame.schema.fields if field.name.lower() == WEIGHT), None)
    if any(spark.conf.get(name) == "true" for name in _LENIENT):
        return None
    kind = plan.getClass().getSimpleName()
    if not coded and weight is not None and not isinstance(weight, T.IntegralType):
        return None
    if kind.startswith("StreamingRelation"):
        known = next((files for other, files in streams if other.equals(plan)), None)
        files = known or _of_stream(spark, plan, table, coded)
        if known is None and files is not None:
            streams.append((plan, files))
        return files
    if coded:
        return None
    if kind == "DataSourceV2Relation":
        found = files_of(spark, plan.table().name(), plan.options(), [])
        return None if found is None else (found, None)
    if kind != "LogicalRelation":
        return None
    relation = plan.relation()
    if relation.getClass().getSimpleName() != "HadoopFsRelation" or not relation.partitionSchema().isEmpty():
        return None
    if relation.fileFormat().getClass().getSimpleName() != "ParquetFileFormat":
        return None
    parts = [urlsplit(name) for name in frame.inputFiles()]
    if any(part.scheme != "file" for part in parts):
        return None
    names = pa.array([unquote(part.path) for part in parts], pa.string())
    return spark.createDataFrame(pa.table({"file": names})), None


def _of_stream(spark: SparkSession, plan: Any, table: Table, coded: bool) -> tuple[DataFrame, str | None] | None:
    """Returns the stream of the names of the files that a stream reads; see ``_files``. ``coded``: a column of codes
    says whether a row is inserted or deleted.
    """
    if plan.getClass().getSimpleName() == "StreamingRelation":
        return None if coded else _arriving_files(spark, plan.dataSource())
    read = [column.name for column in table.columns]
    found = files_of(spark, plan.sourceName(), plan.extraOptions(), read) if coded else None
    return None if found is None else (found, None)


def _coded(node: Any) -> bool:
    """Returns True for a projection that passes all columns unchanged and only renames the column of Delta's change
    codes to ``_weight``.
    """
    if node.nodeName() != "Project":
        return False
    listed = node.projectList()
    others = [one for one in map(listed.apply, range(listed.length())) if not _is_column(one)]
    return bool(others) and all(
        one.name() == WEIGHT and _is_column(one.children().head()) and one.children().head().name() == CHANGE_TYPE
        for one in others
    )


def _is_column(expression: Any) -> bool:
    return str(expression.getClass().getSimpleName()) == "AttributeReference"


def _arriving_files(spark: SparkSession, source: Any) -> tuple[DataFrame, str | None] | None:
    """Returns the stream of the names of the files that a stream of Parquet files reads, and their folder; None if the
    stream has other sources.
    """
    options = pairs(source.options())
    where = [value for name, value in options if name.lower() == "path"]
    others = {name: value for name, value in options if name.lower() != "path"}
    if source.className() != "parquet" or len(where) != 1 or {name.lower() for name in others} - _OF_STREAMS:
        return None
    folder, home = re.sub(LOCAL, "/", where[0]), spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS")
    if "://" in folder or not (home.startswith("file:") or where[0] != folder) or _PATTERN.search(folder):
        return None
    if any(Path(folder).glob("*=*")):
        return None  # partitions
    files = spark.readStream.format("binaryFile").schema(BINARY).options(**others).load(where[0])
    return files.select(F.regexp_replace(PATH, LOCAL, "/").alias("file")), str(Path(folder).absolute())


def _bare(node: Any) -> bool:
    """Returns True for a node that passes the columns below it unchanged."""
    if node.nodeName() != "Project":
        return True
    listed = node.projectList()
    return all(_is_column(listed.apply(i)) for i in range(listed.length()))
