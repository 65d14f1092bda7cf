"""Frames whose rows Spark need not read: Parquet files and nothing else. ``spark_jobs.cell.files`` reads them.

Spark says which files there are. A frame that is more than its files, or whose values Arrow does not read as Spark
does, goes through Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from crown.ingest.columns import WEIGHT
from plans.nested import is_nested
from plans.schema import Table
from plans.search.exchanges import Exchange
from spark_jobs import cluster
from spark_jobs.cell.files import Filed
from spark_jobs.dispatch.envelope import Envelope
from spark_jobs.dispatch.shuffle import made_of
from spark_jobs.ingest.append_only import plan_of
from spark_jobs.ingest.types import type_of_spark

MOST_CELLS = 16
"""So many cells read every file; more would read longer than Spark takes to hand each its rows."""
_PADDED = "__CHAR_VARCHAR_TYPE_STRING"
_LENIENT = ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles")


def read_by_cells(
    given: Exchange, envelope: Envelope, frames: Mapping[str, DataFrame]
) -> tuple[tuple[Filed, ...], dict[str, DataFrame]]:
    """Returns the base relations that the cells read themselves, and for each a frame with the names of its files."""
    if envelope.quarantine or given.grid.cells > MOST_CELLS:
        return (), {}
    found, names = [], {}
    for base, frame in frames.items():
        table, tags = made_of(given, envelope, base)
        carried = envelope.placed[tags[0]]
        table = replace(table, columns=tuple(column for column in table.columns if column.name in carried))
        files = _files(frame) if _alike(frame, table) else None
        if files is not None:
            weighted = any(field.name.lower() == WEIGHT for field in frame.schema.fields)
            roles = () if given.roles is None else tuple(given.roles[envelope.relations[tag]] for tag in tags)
            found.append(Filed(table, weighted, tuple(tags), roles))
            names[base] = frame.sparkSession.createDataFrame(pa.table({"file": pa.array(files, pa.string())}))
    return tuple(found), names


def _alike(frame: DataFrame, table: Table) -> bool:
    """Returns True if Spark and Arrow mean the same by the values of the columns that are read."""
    if table.upserts or cluster.remote(frame.sparkSession):
        return False
    fields = {field.name.lower(): field for field in frame.schema.fields}
    weight = fields.get(WEIGHT)
    if weight is not None and not isinstance(weight.dataType, T.IntegralType):
        return False
    for column in table.columns:
        field = fields.get(column.name.lower())
        if field is None or is_nested(column.type) or column.rounded or _PADDED in field.metadata:
            return False
        if isinstance(field.dataType, T.StringType) and field.dataType.collation != "UTF8_BINARY":
            return False
        if type_of_spark(field.dataType) != column.type:
            return False
    return True


def _files(frame: DataFrame) -> list[str] | None:
    """Returns the local Parquet files that a frame consists of; None if it is anything else."""
    plan: Any = plan_of(frame)
    while plan.nodeName() in ("SubqueryAlias", "Project") and _bare(plan):
        plan = plan.children().head()
    if plan.getClass().getSimpleName() != "LogicalRelation":
        return None
    relation = plan.relation()
    if relation.getClass().getSimpleName() != "HadoopFsRelation" or not relation.partitionSchema().isEmpty():
        return None
    if relation.fileFormat().getClass().getSimpleName() != "ParquetFileFormat":
        return None
    if any(frame.sparkSession.conf.get(name) == "true" for name in _LENIENT):
        return None
    parts = [urlsplit(name) for name in frame.inputFiles()]
    return [unquote(part.path) for part in parts] if all(part.scheme == "file" for part in parts) else None


def _bare(node: Any) -> bool:
    """Returns True for a node that leaves the columns below it as they are."""
    if node.nodeName() != "Project":
        return True
    listed = node.projectList()
    kinds = [listed.apply(i).getClass().getSimpleName() for i in range(listed.length())]
    return set(kinds) <= {"AttributeReference"}
