"""INTERVAL YEAR TO MONTH between Spark and Python. PySpark has no Arrow type for it, so it is passed as a number of
months.

Before a task the columns of a DataFrame become numbers, and after it intervals again; inside the task they are Arrow
intervals. Only top-level columns, and fields of top-level structs, can be such intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from plans.expressions.columns import intervals
from spark_jobs.ingest.names import plainly_named


def carried_type(type_: T.DataType) -> Any:
    """Returns the type in which values of a Spark type are passed between Spark and Python."""
    if isinstance(type_, T.YearMonthIntervalType):
        return T.IntegerType()
    if isinstance(type_, T.StructType):
        return T.StructType([T.StructField(field.name, carried_type(field.dataType)) for field in type_])
    return type_


def carried(value: Column, type_: T.DataType) -> Column:
    """Returns a value of a Spark type in the form that is passed to Python."""
    return value.cast("interval month").cast("int") if isinstance(type_, T.YearMonthIntervalType) else value


def in_arrow(
    frame: DataFrame, task: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], wanted: T.StructType
) -> DataFrame:
    """Returns ``frame.mapInArrow`` with a result of the types ``wanted``."""
    frame = plainly_named(frame)
    if _has_months(frame.schema):
        given = ((field.name, carried(F.col(field.name), field.dataType)) for field in frame.schema)
        frame = frame.select(*(value.alias(name) for name, value in given))
    found = frame.mapInArrow(task, carried_type(wanted))
    if not _has_months(wanted):
        return found
    names = [f"c{i}" for i in range(len(wanted))]
    made = (_shown(F.col(name), field.dataType) for name, field in zip(names, wanted, strict=True))
    return found.toDF(*names).select(*(value.alias(name) for value, name in zip(made, wanted.names, strict=True)))


def _has_months(schema: T.StructType) -> bool:
    return carried_type(schema) != T.StructType([T.StructField(field.name, field.dataType) for field in schema])


def _shown(value: Column, type_: T.DataType) -> Column:
    """Returns a value from Python as a value of a Spark type."""
    if isinstance(type_, T.YearMonthIntervalType):
        return F.make_ym_interval(F.lit(0), value)
    if carried_type(type_) == type_:
        return value
    assert isinstance(type_, T.StructType), "other values hold no months"
    fields = (_shown(value.getField(field.name), field.dataType).alias(field.name) for field in type_)
    return F.when(value.isNotNull(), F.struct(*fields))


def numbered(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Returns rows in the form that is passed to Spark."""
    columns = rows.columns
    arrays = [_numbered(column) for column in columns]
    if all(new is old for new, old in zip(arrays, columns, strict=True)):
        return rows
    return pa.RecordBatch.from_arrays(arrays, names=rows.schema.names)


def _numbered(array: Any) -> Any:
    if pa.types.is_interval(array.type):
        return intervals.carried(array, "months")
    if pa.types.is_struct(array.type) and any(pa.types.is_interval(field.type) for field in array.type):
        names = [field.name for field in array.type]
        return pa.StructArray.from_arrays(list(map(_numbered, array.flatten())), names, mask=array.is_null())
    return array
