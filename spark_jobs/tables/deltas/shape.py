"""The columns of a table of deltas: those of the deltas, and the number of the micro-batch."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as T

from crown.ingest.tables.columns import WEIGHT
from plans.expressions.columns.intervals import is_interval
from plans.program import Program
from plans.types import arrow_type
from spark_jobs.errors import SparkJobError
from spark_jobs.ingest.types import type_of_spark
from spark_jobs.tables.deltas.parts import BATCH


def delta_schema(plan: Program) -> pa.Schema:
    """Returns the columns of a table of deltas with weights: the output's, ``_weight`` and ``_batch``.

    Raises :class:`SparkJobError` if the output has a column named ``_batch``, or columns that differ only in case.
    """
    fields = [pa.field(output.name, arrow_type(output.type)) for output in plan.output]
    return checked(pa.schema([*fields, (WEIGHT, pa.int64()), (BATCH, pa.int64())]))


def files_schema(shape: T.StructType) -> pa.Schema:
    """Returns the columns of a table of deltas in another format, which has the number of the batch already."""
    return checked(pa.schema([(field.name, _arrow(field.dataType)) for field in shape.fields]))


def checked(schema: pa.Schema) -> pa.Schema:
    """Returns the schema. Raises :class:`SparkJobError` if two column names are equal, ignoring case, or if a column is
    an INTERVAL.
    """
    for field in schema:
        if is_interval(field.type):
            name = field.name
            number = f"EXTRACT(EPOCH FROM {name})"
            if not pa.types.is_duration(field.type):
                number = f"12 * EXTRACT(YEAR FROM {name}) + EXTRACT(MONTH FROM {name})"
            raise SparkJobError(
                f"column {name!r} is an INTERVAL, which the files of a table cannot hold: select {number} instead"
            )
    seen: set[str] = set()
    for name in schema.names:
        if name.lower() in seen:
            raise SparkJobError(
                f"the table would have two columns called {name!r} ({BATCH!r} is the number of the micro-batch, and "
                "names that differ only in case are the same): rename one in the query"
            )
        seen.add(name.lower())
    return schema


def _arrow(type_: T.DataType) -> pa.DataType:
    if isinstance(type_, T.StructType):
        return pa.struct([(field.name, _arrow(field.dataType)) for field in type_.fields])
    return arrow_type(type_of_spark(type_))
