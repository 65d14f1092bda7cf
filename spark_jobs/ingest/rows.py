"""Checks change rows with Spark expressions before any cell applies a row of the batch.

A row is bad if it could not be read at all, if its weight or change code is invalid, or if a value does not fit its
column's type: ``"12a"`` or ``1.5`` for an int64, 300 digits for a decimal(10,2), NULL for a NOT NULL column. Values are
cast with ``try_cast`` and compared with their source; nothing is nulled, truncated or rounded silently. All checks are
generated JVM code.

Spark analyzes and optimizes these expressions again for every micro-batch, so each node costs time in a small batch.
Therefore a value that has its type is not cast, and text is concatenated only if it is not known beforehand. With one
cell, checks that its engine makes anyway are left to the engine (``by_engine``), which also rejects such a row before
its state changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from crown.ingest.changes import MAX_WEIGHT
from crown.ingest.conventions import known, weights_of_codes
from crown.ingest.tables.columns import WEIGHT, doubtful
from plans.files.delimited import UNREADABLE
from plans.nested import is_nested
from plans.schema import Table, why_required
from plans.types import decimal_parts
from spark_jobs.errors import SourceError
from spark_jobs.ingest.names import quoted
from spark_jobs.ingest.types import carried, spark_type, type_of_spark

_RESERVED = -(2**63)
_ZONELESS = r"^\s*[+-]?\d+(-\d+){0,2}([T ](\d+(:\d+){0,2}(\.\d*)?)?)?\s*$"
_OF_JAVA = r"(?i)[0-9.][df]\s*$|x"
_BELOW_MICROSECONDS = r"\.\d{6}\d*[1-9]"


@dataclass(frozen=True)
class CheckedRows:
    """The rows of one relation, as expressions over ``frame``.

    ``columns``: typed values by declared column name; ``weight``: bigint; ``bad``: true for a bad row, false or NULL
    for a good one (None if no row of this frame can be bad); ``reason``: why a row is bad, undefined for a good row;
    ``text``: the row as it arrived, as JSON.
    """

    frame: DataFrame
    columns: dict[str, Column]
    weight: Column
    bad: Column | None
    reason: Column
    text: Column


def check(frame: DataFrame, table: Table, needed: Sequence[str], by_engine: bool = False) -> CheckedRows:
    """Returns expressions that convert ``frame`` to the types of ``table``; ``needed`` names the columns that are used.

    The column ``_weight`` holds weights or change codes; without it every row is an insert. ``by_engine``: faults of
    values that have their type already (a weight that is NULL or out of range, the int64 that stands for NULL) are left
    to the engine that receives the rows. Raises :class:`SourceError` if the frame lacks a column.
    """
    declared = {column.name.lower() for column in table.columns}
    wrong = doubtful(frame.columns, declared)
    if wrong is not None:
        raise SourceError(f"relation {table.name!r}: {wrong}")
    fields = {field.name.lower(): field for field in frame.schema.fields}
    weight, faults = _weight(fields, table, by_engine)
    if UNREADABLE in fields:
        faults.insert(0, (F.col(UNREADABLE).isNotNull(), F.col(UNREADABLE)))
    columns: dict[str, Column] = {}
    named = {name.lower() for name in table.named_by}
    for name in needed:
        column = table.column(name)
        field = fields.get(name.lower())
        if column is None or field is None:
            raise SourceError(
                f"relation {table.name!r}: the input has no column {name!r}; it has "
                f"{', '.join(given for given in frame.columns if given != UNREADABLE)}. "
                "Rename a column, or give the schema that the input has"
            )
        value, bad = _fit(F.col(quoted(field.name)), field.dataType, column.type, by_engine, column.rounded)
        unseen = table.upserts and column.name.lower() not in named  # not checked in a deleted row
        columns[column.name] = carried(value, spark_type(column.type))
        if bad is not None:
            bad = bad & (weight > 0) if unseen else bad
            faults.append((bad, _misfit(column.name, F.col(quoted(field.name)), field.dataType, column.type)))
        if table.required(column.name):
            null = value.isNull() & (weight > 0) if unseen else value.isNull()
            faults.append((null, F.lit(why_required(table, column.name))))
    kept = [F.col(quoted(field.name)) for field in frame.schema.fields if field.name != UNREADABLE]
    bad = reduce(Column.__or__, [fault for fault, _ in faults]) if faults else None
    return CheckedRows(frame, columns, weight, bad, _first(faults), F.to_json(F.struct(*kept)))


def rows_of_cells(frame: DataFrame, needed: Sequence[str]) -> CheckedRows:
    """Returns the same for rows that other cells produced: they have their types and weights, and none can be bad."""
    columns = {name: carried(F.col(quoted(name)), frame.schema[name].dataType) for name in needed}
    return CheckedRows(frame, columns, F.col(quoted(WEIGHT)), None, _no_text(), _no_text())


def _no_text() -> Column:
    return F.lit(None).cast("string")


def _first(faults: Sequence[tuple[Column, Column]]) -> Column:
    """Returns the reason of the first fault of a row, if it has a fault."""
    if not faults:
        return _no_text()
    *others, (_, last) = faults
    if not others:
        return last
    return reduce(lambda cases, fault: cases.when(*fault), others[1:], F.when(*others[0])).otherwise(last)


def _long(value: int) -> Column:
    """Returns a bigint literal, also for a number that ``F.lit`` would make an int."""
    return F.expr(f"{value}L")


def _misfit(name: str, value: Column, source: T.DataType, type_: str) -> Column:
    begin, end = f"column '{name}': '", f"' is not a value of type {type_}"
    if isinstance(source, T.LongType) and type_ == "int64":  # only one value of a bigint is not an int64
        return F.lit(f"{begin}{_RESERVED}{end}")
    return F.concat(F.lit(begin), F.substring(value.cast("string"), 1, 100), F.lit(end))


def _bigint(value: Column, source: T.DataType) -> Column:
    """Returns a whole number as bigint."""
    return value if isinstance(source, T.LongType) else value.cast("bigint")


def _weight(
    fields: dict[str, T.StructField], table: Table, by_engine: bool
) -> tuple[Column, list[tuple[Column, Column]]]:
    """Returns the weight of a row, and the conditions under which the weight is invalid, each with the reason."""
    codes = weights_of_codes(table.upserts)
    field = fields.get(WEIGHT.lower())
    if field is None:
        return _long(1), []
    code = F.col(quoted(field.name))
    if isinstance(field.dataType, T.StringType):
        weight = F.coalesce(
            *(
                F.when(F.lower(code).isin([text for text, n in codes.items() if n == number]), F.lit(number))
                for number in sorted(set(codes.values()))
            ),
            code.try_cast("bigint"),
        ).cast("bigint")
    elif isinstance(field.dataType, T.ByteType | T.ShortType | T.IntegerType | T.LongType):
        weight = _bigint(code, field.dataType)
        if by_engine:
            return weight, []
    elif isinstance(field.dataType, T.FractionalType):
        weight = code.try_cast("bigint")
        weight = F.when(weight.cast(field.dataType) == code, weight)  # 1.0 is 1, 1.5 is not a weight
    else:
        raise SourceError(
            f"relation {table.name!r}: the change column {field.name!r} has type {field.dataType.simpleString()}: "
            "give whole numbers or change codes"
        )
    shown = F.substring(code.cast("string"), 1, 100)
    if isinstance(field.dataType, T.IntegralType):
        unknown = F.lit(f"unknown change code NULL; use a whole number or one of {known()}")
    else:
        said = F.coalesce(F.concat(F.lit("'"), shown, F.lit("'")), F.lit("NULL"))
        unknown = F.concat(F.lit("unknown change code "), said, F.lit(f"; use a whole number or one of {known()}"))
    faults = [
        (weight.isNull(), unknown),
        (_beyond(weight, MAX_WEIGHT), F.concat(F.lit("weight '"), shown, F.lit("' is out of range"))),
    ]
    if table.upserts:
        once = F.lit("': a relation with upserts has every row once; use 1 or -1")
        faults.append((_beyond(weight, 1), F.concat(F.lit("weight '"), shown, once)))
    return weight, faults


def _beyond(weight: Column, most: int) -> Column:
    """Returns a condition for weights beyond ±``most``. It avoids the absolute value, which the least bigint does not
    have.
    """
    return (weight > _long(most)) | (weight < _long(-most))


def _fit(value: Column, source: T.DataType, type_: str, by_engine: bool, rounded: bool) -> tuple[Column, Column | None]:
    """Returns the value in the planner's type, and the condition under which it does not fit (None: it always fits, or
    the engine checks it). ``rounded``: more digits than the type has are not a fault.
    """
    target = spark_type(type_)
    reserved = value == _long(_RESERVED)
    if isinstance(source, T.StringType) and source.collation != "UTF8_BINARY":
        raise SourceError(
            f"a column of type {source.simpleString()} cannot be read as {type_}: texts are compared byte by byte "
            "here, as in UTF8_BINARY; cast it to string first, and normalize values that must be equal (lower, trim)"
        )
    if is_nested(type_) and type_of_spark(source) == type_:  # the engine reports reserved values inside
        return value.cast(target), None
    plain = not isinstance(target, T.DecimalType) and not is_nested(type_)
    if type(source) is type(target) and plain:
        return value, reserved if type_ == "int64" and not by_engine else None
    if isinstance(source, T.StringType) and not is_nested(type_):
        return _parse(value, type_, rounded)
    if type_of_spark(source) == type_ or (type_ == "int64" and type_of_spark(source) == "int32"):
        return value.cast(target), None
    numbers = T.NumericType
    if not (isinstance(source, numbers) and isinstance(target, numbers)) and not isinstance(target, T.StringType):
        raise SourceError(
            f"a column of type {source.simpleString()} cannot be read as {type_}: cast it first, or change the schema"
        )
    if isinstance(source, T.TimestampType):
        return _wall_clock(value).cast(target), None
    cast = value.try_cast(target)
    lossy = cast.isNull() if rounded else cast.isNull() | (~cast.try_cast(source).eqNullSafe(value))
    return cast, value.isNotNull() & lossy


def _parse(text: Column, type_: str, rounded: bool) -> tuple[Column, Column]:
    """Returns a value parsed from text, and the condition under which the text is invalid."""
    if type_ == "binary":
        value = F.try_to_binary(text, F.lit("base64"))
        return value, text.isNotNull() & value.isNull()
    if type_ in ("timestamp", "timestamp_ntz"):
        return _parse_time(text, type_)
    value = text.try_cast(spark_type(type_))
    bad = value.isNull()
    parts = None if rounded else decimal_parts(type_)
    if parts is not None:  # the cast rounds; a cast to the widest scale with the same whole digits does not
        precision, scale = parts
        exact = text.try_cast(T.DecimalType(38, 38 - (precision - scale)))
        bad = bad | (~exact.eqNullSafe(value))
    elif type_ == "float64":  # 1e400 silently overflows to infinity; 1d and 0x1p3 are numbers in Java
        bad = bad | ((F.abs(value) == float("inf")) & ~F.lower(text).contains("inf")) | text.rlike(_OF_JAVA)
    elif type_ == "date":  # the cast drops a time of day
        bad = bad | (~text.try_cast("timestamp_ntz").eqNullSafe(value.cast("timestamp_ntz")))
    elif type_ == "int64":
        bad = bad | (value == _long(_RESERVED))
    return value, text.isNotNull() & bad


def _parse_time(text: Column, type_: str) -> tuple[Column, Column]:
    """Returns the same for a time. A text without a zone is a time in UTC, whatever the zone of the session, so that a
    text has the same meaning in every run of a checkpoint.

    Besides texts that are not times, these are bad: a zone where the type has none, digits below microseconds, and a
    time of day alone, for which Spark would take the date of the job's run.
    """
    wall = text.try_cast("timestamp_ntz")  # drops a zone; NULL for a time of day alone
    zoneless = text.rlike(_ZONELESS)
    bad = wall.isNull() | text.rlike(_BELOW_MICROSECONDS)
    if type_ == "timestamp_ntz":
        return wall, text.isNotNull() & (bad | ~zoneless)
    utc = F.concat(wall.cast("string"), F.lit("Z"))
    value = F.when(zoneless, utc).otherwise(text).try_cast("timestamp")
    return value, text.isNotNull() & (bad | value.isNull())


def _wall_clock(instant: Column) -> Column:
    """Returns the time that a clock in UTC shows at an instant, whatever the zone of the session, as TIMESTAMP_NTZ."""
    micros, day = F.unix_micros(instant), _long(86_400_000_000)
    within = F.pmod(micros, day)
    days = ((micros - within) / day).cast("int")
    since = F.make_dt_interval(days, F.lit(0), F.lit(0), within.cast("decimal(18,6)") / F.lit(1_000_000))
    return F.expr("TIMESTAMP_NTZ '1970-01-01 00:00:00'") + since
