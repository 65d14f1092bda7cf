"""Converts planner types to Spark types, and back; INTERVAL YEAR TO MONTH is passed as a number of months."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from plans.errors import PlanError
from plans.expressions.columns import intervals
from plans.nested import ARRAY, STRUCT, array_of, is_nested, map_of, parts, struct_of
from plans.schema import Column, Table
from plans.types import decimal_parts, normal_type
from spark_jobs.ingest.names import plainly_named

_SPARK: dict[str, T.DataType] = {
    "bool": T.BooleanType(),
    "int32": T.IntegerType(),
    "int64": T.LongType(),
    "float64": T.DoubleType(),
    "string": T.StringType(),
    "binary": T.BinaryType(),
    "date": T.DateType(),
    "timestamp": T.TimestampType(),
    "timestamp_ntz": T.TimestampNTZType(),
    "duration": T.DayTimeIntervalType(),
    "months": T.YearMonthIntervalType(),
}
_UNREAD = "cast the column, or drop it first, or declare the relation without it (schema=)"
_NARROW: dict[type[T.DataType], str] = {
    T.ByteType: "int32",
    T.ShortType: "int32",
    T.FloatType: "float64",
    T.CharType: "string",
    T.VarcharType: "string",
}


def spark_type(type_: str) -> T.DataType:
    """Returns the Spark type of a planner type."""
    inside = parts(type_) if is_nested(type_) else None
    if inside is not None:
        types = [spark_type(part) for part in inside.types]
        if inside.kind == STRUCT:
            return T.StructType([T.StructField(*field) for field in zip(inside.names, types, strict=True)])
        return T.ArrayType(types[0]) if inside.kind == ARRAY else T.MapType(types[0], types[1])
    digits = decimal_parts(type_)
    return T.DecimalType(*digits) if digits else _SPARK[normal_type(type_)]


def type_of_spark(type_: T.DataType) -> str:
    """Returns the planner type of a Spark type; narrow numbers are widened. Raises PlanError for types without one."""
    if isinstance(type_, T.DecimalType):
        return f"decimal({type_.precision},{type_.scale})"
    if isinstance(type_, T.StructType) and type_.fields:
        return struct_of(type_.names, [type_of_spark(field.dataType) for field in type_.fields])
    if isinstance(type_, T.ArrayType):
        return array_of(type_of_spark(type_.elementType))
    if isinstance(type_, T.MapType):
        return normal_type(map_of(type_of_spark(type_.keyType), type_of_spark(type_.valueType)))
    if type(type_) in _NARROW:
        return _NARROW[type(type_)]
    for name, candidate in _SPARK.items():
        if type(candidate) is type(type_):
            return name
    raise PlanError(f"Spark type {type_.simpleString()} is not supported", hint="cast the column, or drop it first")


def table_of_spark(name: str, schema: T.StructType, leave_out: frozenset[str]) -> Table:
    """Returns a relation with the columns of a Spark schema, without those named in ``leave_out`` (lower case)."""
    kept = [field for field in schema.fields if field.name.lower() not in leave_out]
    return Table(name, tuple(Column(field.name, _type_of(name, field)) for field in kept))


def supported_table(name: str, schema: T.StructType) -> Table:
    """Returns a relation with those columns of a Spark schema that have a planner type."""
    columns = []
    for field in schema.fields:
        with suppress(PlanError):
            columns.append(Column(field.name, type_of_spark(field.dataType)))
    return Table(name, tuple(columns))


def _type_of(relation: str, field: T.StructField) -> str:
    try:
        return type_of_spark(field.dataType)
    except PlanError as error:
        raise PlanError(f"relation {relation!r}, column {field.name!r}: {error.message}", hint=_UNREAD) from None


def carried_type(type_: T.DataType) -> Any:
    """Returns the type in which values of a Spark type are passed between Spark and Python."""
    if isinstance(type_, T.YearMonthIntervalType):
        return T.IntegerType()
    if isinstance(type_, T.StructType):
        return T.StructType([T.StructField(field.name, carried_type(field.dataType)) for field in type_])
    return type_


def carried(value: SparkColumn, type_: T.DataType) -> SparkColumn:
    """Converts a value of a Spark type to the form that Python receives."""
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


def _shown(value: SparkColumn, type_: T.DataType) -> SparkColumn:
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
