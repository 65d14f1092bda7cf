"""Converts planner types to Spark types, and back."""

from __future__ import annotations

from contextlib import suppress

from pyspark.sql import types as T

from plans.errors import PlanError
from plans.nested import ARRAY, MAP, STRUCT, Parts, array_of, is_nested, parts, struct_of
from plans.schema import Column, Table
from plans.types import decimal_parts, normal_type

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
        return normal_type(Parts(MAP, (type_of_spark(type_.keyType), type_of_spark(type_.valueType))).named())
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
