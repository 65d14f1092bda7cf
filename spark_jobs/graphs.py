"""Graphs as DataFrames: motifs, degrees and triangles of batch or streaming vertices and edges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

import plans
from plans.frontends.motif.find import Element, Shape, find
from plans.schema import Schema
from spark_jobs.dispatch.envelope import WEIGHT
from spark_jobs.ingest.conventions import normal
from spark_jobs.ingest.names import quoted
from spark_jobs.operator import all_tables, maintain

Frame = DataFrame
"""The type of a graph's tables on Spark."""


def motif(
    vertices: DataFrame | None,
    edges: DataFrame,
    pattern: str,
    *,
    where: str | None = None,
    schema: Any = None,
    dialect: str = "spark",
    change: str | None = None,
    **options: Any,
) -> DataFrame:
    """Returns the answer to a motif; see ``crown.graph.motif``. ``options`` are those of ``maintain``."""
    given = {"edges": edges} if vertices is None else {"vertices": vertices, "edges": edges}
    declared = Schema.of(schema)
    every = all_tables(declared, normal(given, change, declared))
    tables = {name: every[name] for name in every}
    relation, shape = find(pattern, tables, where, dialect)
    program = plans.program(relation)
    read = {table.name.lower() for table in program.tables}
    changes = {name: frame for name, frame in given.items() if name in read}
    found = maintain(edges.sparkSession, program, changes, schema=schema, change=change, **options)
    return _rows(nested(found, shape), edges.isStreaming)


def table(query: str, given: Mapping[str, DataFrame], *, schema: Any = None, **options: Any) -> DataFrame:
    """Returns the answer to a query over the tables of a graph. ``options`` are those of ``maintain``."""
    edges = given["edges"]
    return _rows(maintain(edges.sparkSession, query, given, schema=schema, **options), edges.isStreaming)


def nested(found: DataFrame, shape: Shape) -> DataFrame:
    """Returns rows whose plain columns are grouped into structs; other columns come last."""
    plain = {column for element in shape.elements for _, column in element.fields or (("", element.column),)}
    others = [F.col(quoted(name)) for name in found.columns if name not in plain]
    return found.select(*(_column(element, shape).alias(element.name) for element in shape.elements), *others)


def _column(element: Element, shape: Shape) -> Column:
    if not element.fields:
        return F.col(quoted(element.column))
    whole = F.struct(*(F.col(quoted(column)).alias(field) for field, column in element.fields))
    if element.present is None:
        return whole
    hop, direction = (F.col(quoted(shape.plain(name))) for name in ("_hop", "_direction"))
    there = F.lit(False)
    for length, way in element.present:
        there = there | ((hop == length) & (direction == way))
    return F.when(there, whole)


def _rows(found: DataFrame, streaming: bool) -> DataFrame:
    """Returns the changes of a stream unchanged. Returns the rows of a batch without weights, each repeated as often as
    its weight.
    """
    if streaming or WEIGHT not in found.columns:
        return found
    copies = F.explode(F.sequence(F.lit(1), F.col(WEIGHT).cast("int")))
    return found.withColumn(WEIGHT, copies).drop(WEIGHT)
