"""Macros for the meaning of casts, weeks and parts of texts and numbers in PostgreSQL, Snowflake, BigQuery and others.

The SQL front-end uses them where a dialect differs from Spark (`plans.frontends.sql.text.meanings.calls`).
"""

from __future__ import annotations

from decimal import Decimal
from functools import partial

from plans.errors import PlanError
from plans.expressions.build import NULL, Expr, call, cast, lit
from plans.expressions.coercion import INTEGERS, MAX_DIGITS, as_decimal, named
from plans.expressions.functions.function import meaning
from plans.expressions.functions.numbers.numbers import SIGNED_DIGITS
from plans.expressions.leaf import folded
from plans.expressions.macros.meanings import of_doubles
from plans.types import MOMENTS, decimal_parts

_PLACES = 15
"""The decimal places of a cast to NUMERIC without arguments: those that PostgreSQL keeps of a DOUBLE."""
_DAYS = ("SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY")


def _nearest(function: str, number: Expr) -> Expr:
    """Returns a number rounded to the nearest integer. For a DECIMAL, ties are rounded away from zero."""
    if decimal_parts(number.type):
        return call("round", number, lit(0))
    return call(function, number) if number.type == "float64" else number


def _whole_of(value: Expr) -> Expr:
    """Returns NEAREST_EVEN of a value, or for a text the nearest integer, with ties away from zero."""
    whole = named(MAX_DIGITS, 0)
    if value.op == "literal" and value.type == "string":
        return folded(value, whole) or value
    return cast(value, whole) if value.type == "string" else _nearest("rint", value)


def _numeric(value: Expr) -> Expr:
    """Returns a value as a decimal with all of its digits; a DOUBLE or a text gets 15 decimal places."""
    if value.type in INTEGERS:
        return cast(value, named(*as_decimal(value.type)))
    return value if decimal_parts(value.type) else cast(value, named(MAX_DIGITS, _PLACES))


def _truncated(number: Expr, places: Expr) -> Expr:
    """Returns a number truncated to a number of decimal places."""
    if not isinstance(places.value, int):  # NULL
        return cast(NULL, number.type)
    digits = places.value
    parts = decimal_parts(number.type)
    if parts is None and number.type not in INTEGERS:
        scale = lit(10.0 ** abs(digits))
        scaled = call("mul" if digits >= 0 else "div", number, scale)
        return call("div" if digits >= 0 else "mul", of_doubles("trunc", scaled), scale)
    if digits >= (parts[1] if parts else 0):
        return number
    unit = lit(10**-digits, "int64") if digits <= 0 else lit(Decimal(1).scaleb(-digits))
    return cast(call("sub", number, call("mod", number, unit)), number.type)


def _standard(text: Expr, start: Expr, length: Expr | None = None) -> Expr:
    """Returns SUBSTRING of the SQL standard: positions before the first character count, and are empty."""
    first = cast(call("case", call("isnull", start), NULL, call("greatest", start, lit(1))), "int32")
    if length is None:
        return call("substring", text, first)
    end = call("add", cast(start, "int64"), length)
    count = call("sub", end, cast(first, "int64"))
    count = call("case", call("lt", count, lit(0)), lit(0), count)
    return call("substring", text, first, cast(count, "int32"))


def _from_the_end(text: Expr, start: Expr, length: Expr | None = None) -> Expr:
    """Returns SUBSTRING of DuckDB: negative positions count from the end, and position 0 is before the first
    character. A negative length counts the characters before the position."""
    given = [text, start, *([] if length is None else [length])]
    below = call("lt", start, lit(0))
    found = call("case", below, call("substring", *given), _standard(*given))
    if length is None or (length.op == "literal" and (length.value is None or length.value >= 0)):
        return found
    first = call("case", below, call("add", call("add", call("length", text), start), lit(1)), start)
    before = _standard(text, call("add", first, cast(length, "int64")), call("neg", cast(length, "int64")))
    return call("case", call("lt", length, lit(0)), before, found)


def _day(word: Expr) -> int:
    name = str(word.value).upper()
    if name not in _DAYS:
        raise PlanError(
            f"a week begins on a day of the week, not on {word.value!r}", hint=f"use one of {', '.join(_DAYS)}"
        )
    return _DAYS.index(name)


def _after(day: Expr, first: int) -> Expr:
    """Returns the days since the beginning of the week."""
    return call("mod", call("add", call("dayofweek", day), lit(6 - first)), lit(7))


def _week(first: Expr, day: Expr) -> Expr:
    """Returns the week of the year. Week 1 begins with the first such day of the year, and earlier days are in week
    0."""
    number = call("sub", call("add", call("dayofyear", day), lit(6)), _after(day, _day(first)))
    return cast(call("intdiv", number, lit(7)), "int32")


def _week_of_january(day: Expr) -> Expr:
    """Returns the week of the year, where weeks begin on Sunday and the first week contains January 1."""
    first = call("eq", call("mod", call("sub", call("dayofyear", day), call("dayofweek", day)), lit(7)), lit(0))
    return call("add", _week(lit("SUNDAY"), day), call("case", first, lit(0), lit(1)))


def _week_start(first: Expr, day: Expr) -> Expr:
    return call("date_sub", cast(day, "date"), cast(_after(day, _day(first)), "int32"))


def _weeks(first: Expr, end: Expr, start: Expr) -> Expr:
    """Returns the number of weeks that begin between two days."""
    apart = call("datediff", _week_start(first, end), _week_start(first, start))
    return call("intdiv", apart, lit(7))


def _of_any(number: Expr) -> Expr:
    """Returns TRUNC of one argument: the date of a moment, or a truncated number."""
    return cast(number, "date") if number.type in MOMENTS else of_doubles("trunc", number)


def negative(value: Expr) -> Expr:
    """Returns - of a value of another system than Spark, which rounds a DECIMAL of more than 34 digits."""
    return call("long_neg" if (decimal_parts(value.type) or (0, 0))[0] > SIGNED_DIGITS else "neg", value)


def _absolute(number: Expr) -> Expr:
    minus = negative(number)
    return call("abs", number) if minus.op == "neg" else call("case", call("lt", number, lit(0)), minus, number)


def _moment_of(value: Expr) -> Expr:
    """Returns a value as a moment; a number has the seconds since 1970."""
    return cast(call("timestamp_seconds", value) if value.type in INTEGERS else value, "timestamp_ntz")


TABLE = (
    meaning("moment_of", "any", _moment_of, "toDateTime of ClickHouse: a number has seconds since 1970."),
    meaning("exact_abs", "number", _absolute, "ABS of other systems than Spark: also of a DECIMAL of 38 digits."),
    meaning("nearest", "any", partial(_nearest, "round"),
            "The nearest whole number, ties away from zero: what Snowflake, BigQuery, Trino and MySQL cast to INT."),
    meaning("nearest_even", "any", partial(_nearest, "rint"),
            "NEAREST, but ties of a DOUBLE are rounded to the even number: what DuckDB and PostgreSQL cast to INT."),
    meaning("whole_of", "any", _whole_of, "NEAREST_EVEN, also of a text: what DuckDB casts to INT."),
    meaning("numeric_of", "any", _numeric, "A cast to NUMERIC without digits in PostgreSQL and Oracle."),
    meaning("number_trunc", "number =int32", _truncated, "TRUNC(x, places) of other systems than Spark."),
    meaning("double_trunc", "any", _of_any, "TRUNC of other systems: a DOUBLE for a DOUBLE, a DATE for a TIMESTAMP."),
    meaning("standard_substring", "string integer [integer]", _standard,
            "SUBSTRING of PostgreSQL, Redshift and SQL Server: positions below 1 count, but have no character."),
    meaning("signed_substring", "string integer [integer]", _from_the_end,
            "DuckDB's SUBSTRING: position 0 has no character."),
    meaning("week_from", "=string calendar", _week,
            "The week of the year; weeks begin at its first such day. BigQuery's and MySQL's WEEK begin on SUNDAY."),
    meaning("week_of_january", "calendar", _week_of_january, "DATEPART(WEEK, day) of SQL Server."),
    meaning("week_trunc", "=string calendar", lambda first, day: cast(_week_start(first, day), day.type),
            "The day with which the week began: DATE_TRUNC(day, WEEK)."),
    meaning("weeks_between", "=string calendar calendar", _weeks,
            "How many weeks begin after the third argument, up to the second."),
)  # fmt: skip
