"""The meaning of parts, weeks, ages and differences of moments in other dialects.

Part of `plans.frontends.sql.text.meanings.calls`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from sqlglot import exp

from plans.errors import PlanError
from plans.frontends.sql.text.nodes import call, literal

POSTGRES = ("postgres", "redshift", "materialize", "risingwave")
TRINO = ("trino", "presto", "athena")
TO_EVEN = (*POSTGRES, "duckdb")
_MOVED = (*TO_EVEN, "bigquery")
"""Dialects in which a DATE plus an INTERVAL is a TIMESTAMP."""
_FROM_SUNDAY = ("bigquery", "mysql", "tsql")
_WHOLE_SECONDS = ("duckdb", "snowflake", "bigquery", "trino", "presto", "athena", "mysql", "clickhouse", "tsql")
"""Dialects whose EXTRACT(SECOND FROM x) has no fraction."""


def _moment(node: Any, dialect: str) -> Any:
    names = ("year", "month", "day", "hour", "min", "sec")
    plain = all(name in names for name, value in node.args.items() if value is not None)
    if not plain or dialect not in ("duckdb", "snowflake", "bigquery", *POSTGRES):
        return None
    return call("MAKE_TIMESTAMP_NTZ", *(node.args[name] for name in names))


def _first_day(unit: Any, dialect: str) -> str:
    """Returns the first day of a week in this unit, or '' if the unit is another one, or an ISO week."""
    if isinstance(unit, exp.WeekStart):
        return str(unit.this.name).upper()
    word = "" if unit is None else unit.name.upper()
    if word == "ISOWEEK":
        return "MONDAY"
    return "SUNDAY" if word == "WEEK" and dialect in _FROM_SUNDAY else ""


def _extracted(node: Any, dialect: str) -> Any:
    unit = node.this
    if _part_of_age(node):
        return _months_of_age(unit.name, node.expression)
    if _is_second(unit, dialect):
        return _without_fraction(node)
    if dialect == "bigquery" and unit.name.upper() in _OF_SECOND:
        size = exp.Literal.number(_OF_SECOND[unit.name.upper()])
        return exp.paren(exp.Mod(this=exp.cast(node.copy(), "bigint"), expression=size))
    if unit.name.upper() == "ISOWEEK":
        return call("WEEKOFYEAR", node.expression)
    if dialect == "bigquery" and unit.name.upper() == "DATE":
        return exp.cast(node.expression.copy(), "date")
    first = _first_day(unit, dialect)
    if first and dialect == "tsql":
        return call("WEEK_OF_JANUARY", node.expression)
    return call("WEEK_FROM", literal(first), node.expression) if first else None


_OF_SECOND = {"MILLISECOND": 1_000, "MICROSECOND": 1_000_000}


def _is_second(unit: Any, dialect: str) -> bool:
    """Returns whether a unit is the second, and seconds are integers in the dialect."""
    word = unit.name.upper().removesuffix("S")
    return (word == "SECOND" and dialect in _WHOLE_SECONDS) or (word == "MILLISECOND" and dialect == "duckdb")


def _without_fraction(node: Any) -> Any:
    return exp.cast(call("DOUBLE_TRUNC", exp.cast(node.copy(), "double")), "bigint")


def _week(node: Any, dialect: str) -> Any:
    if dialect not in ("mysql", "singlestore"):
        return None
    mode = node.args.get("mode")
    if mode == exp.Literal.number(3):
        return call("WEEKOFYEAR", node.this)
    if mode is not None:
        raise PlanError("WEEK with this mode is not supported", hint="write mode 3, or WEEKOFYEAR(day): ISO's weeks")
    return call("WEEK_FROM", literal("SUNDAY"), node.this)


def year_and_week(day: Any, mode: Any = None) -> Any:
    """Returns YEARWEEK of MySQL with ISO's weeks: modes 1 and 3."""
    if mode not in (exp.Literal.number(1), exp.Literal.number(3)):
        raise PlanError("YEARWEEK with this mode is not supported", hint="write mode 3 for ISO's weeks")
    year = exp.Mul(this=call("DATE_PART", literal("yearofweek"), day), expression=exp.Literal.number(100))
    return exp.paren(exp.Add(this=year, expression=call("WEEKOFYEAR", day)))


def _beginning(node: Any, dialect: str) -> Any:
    """Returns DATE_TRUNC of BigQuery, which keeps the type, and of weeks that begin on another day than Monday."""
    if dialect != "bigquery":
        return None
    first = _first_day(node.args.get("unit"), dialect)
    if first:
        return call("WEEK_TRUNC", literal(first), node.this)
    return call("MOMENT_TRUNC", node.this, literal(node.text("unit"))) if isinstance(node, exp.DateTrunc) else None


def _difference(node: Any, dialect: str) -> Any:
    first = _first_day(node.args.get("unit"), dialect) if dialect in ("bigquery", "tsql") else ""
    ends = [one.this if isinstance(one, exp.TimeStrToTime) else one for one in (node.this, node.expression)]
    return call("WEEKS_BETWEEN", literal(first), *ends) if first else None


def _later(node: Any, dialect: str) -> Any:
    """Returns DATEADD of SQL Server, in which a number is a day after 1 January 1900."""
    day = node.this
    counted = isinstance(day, exp.DateDiff) or (isinstance(day, exp.Literal) and not day.is_string)
    if dialect != "tsql" or not counted:
        return None
    made, first = node.copy(), exp.cast(literal("1900-01-01"), exp.DataType.build("TIMESTAMPNTZ"))
    made.set("this", call("DATETIME_ADD", first, day, literal("DAY")))
    return made


def _year_of_week(node: Any, dialect: str) -> Any:
    return call("DATE_PART", literal("yearofweek"), node.this)


def moved(node: Any, dialect: str) -> None:
    """Marks that a date plus an INTERVAL is a moment."""
    node.set("moment", dialect in _MOVED or None)


def _read_moment(node: Any, dialect: str) -> Any:
    """Returns STRPTIME of DuckDB: a wall clock reading, unless the text has a zone."""
    pattern = node.args.get("format")
    wall = dialect == "duckdb" and isinstance(pattern, exp.Literal) and "%z" not in pattern.name.lower()
    return _wall_clock(exp.Paren(this=node.copy()), dialect) if wall else None


def _wall_clock(node: Any, dialect: str) -> Any:
    return exp.cast(node.this.copy(), exp.DataType.build("TIMESTAMPNTZ"))


def named(node: Any, dialect: str) -> Any:
    """Returns the replacement of a function of moments without a node type of its own, or None if it is another
    function, or equal to Spark's."""
    name = node.name.upper()
    if name == "AGE" and dialect in TO_EVEN and not _part_of_age(node.parent):
        hint = "write a - b, MONTHS_BETWEEN(a, b), or EXTRACT(YEAR FROM AGE(a, b))"
        raise PlanError("AGE returns months and days, but an INTERVAL has either months or days", hint=hint)
    if name in _PARTS and _part_of_age(node):
        return _months_of_age(node.expressions[0].name, node.expressions[1])
    if name in _PARTS and len(node.expressions) == 2 and _is_second(node.expressions[0], dialect):
        return _without_fraction(node)
    if name == "FORMAT_DATETIME" and dialect in TRINO:
        return call("DATE_FORMAT", *node.expressions)
    if name == "TO_TIMESTAMP" and dialect == "snowflake" and len(node.expressions) == 1:
        return exp.cast(node.expressions[0].copy(), exp.DataType.build("TIMESTAMPNTZ"))
    if dialect == "duckdb" and name in _OWN and len(node.expressions) == _OWN[name][0]:
        return _OWN[name][1](*node.expressions)
    return None


_PARTS = ("DATE_PART", "DATEPART")
_OWN: dict[str, tuple[int, Callable[..., Any]]] = {
    "DATE_SUB": (3, partial(call, "TIMESTAMPDIFF")),
    "DATESUB": (3, partial(call, "TIMESTAMPDIFF")),
    "TRY_STRPTIME": (2, lambda text, pattern: _read_moment(exp.StrToTime(this=text, format=pattern), "duckdb")),
}
"""Functions of DuckDB: the number of their arguments, and their replacement."""


def _part_of_age(node: Any) -> bool:
    """Returns whether a call takes the years or months of an AGE."""
    if isinstance(node, exp.Extract):
        part, age = node.this, node.expression
    elif isinstance(node, exp.Anonymous) and node.name.upper() in _PARTS:
        part, age = [*node.expressions, None, None][:2]
    else:
        return False
    named = isinstance(age, exp.Anonymous) and age.name.upper() == "AGE" and 1 <= len(age.expressions) <= 2
    return named and part.name.upper().rstrip("S") in ("YEAR", "MONTH")


def _months_of_age(part: str, age: Any) -> Any:
    end, start = age.expressions if len(age.expressions) == 2 else (exp.CurrentDate(), *age.expressions)
    months = call("TIMESTAMPDIFF", literal("MONTH"), start, end)
    year = part.upper().startswith("YEAR")
    return exp.paren((exp.IntDiv if year else exp.Mod)(this=months, expression=exp.Literal.number(12)))


def months_later(node: Any, dialect: str) -> Any:
    """Returns ADD_MONTHS. In Snowflake, Oracle and Redshift, the last day of a month moves to the last day of the
    month."""
    if dialect not in ("snowflake", "oracle", "redshift"):
        return None
    later = call("DATETIME_ADD", node.this, node.expression, literal("MONTH"))
    last = exp.EQ(this=exp.cast(node.this.copy(), "date"), expression=call("LAST_DAY", node.this))
    rest = call("DATEDIFF", call("LAST_DAY", later), later)
    return exp.If(this=last, true=call("DATETIME_ADD", later, rest, literal("DAY")), false=later)


def sliced(node: Any, dialect: str) -> Any:
    """Returns TIME_SLICE of Snowflake, whose slices are counted from 1970."""
    unit, count = node.text("unit").upper(), node.expression
    kind, units = node.text("kind").upper() or "START", ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK")
    if not isinstance(count, exp.Literal) or kind not in ("START", "END") or unit.rstrip("S") not in units:
        raise PlanError("TIME_SLICE takes a constant length up to weeks, and START or END", hint="write DATE_TRUNC")
    width = exp.Interval(this=literal(count.name), unit=exp.Var(this=unit))
    begin = exp.cast(literal("1970-01-01"), exp.DataType.build("TIMESTAMPNTZ"))
    start = exp.Anonymous(this="TIME_BUCKET", expressions=[width, node.this.copy(), begin])
    return start if kind == "START" else exp.paren(exp.Add(this=start, expression=width.copy()))


def _interval(node: Any, dialect: str) -> Any:
    """Returns MAKE_INTERVAL of PostgreSQL as a sum of multiples of its units."""
    if dialect not in POSTGRES:
        return None
    parts: list[Any] = []
    for unit, value in node.args.items():
        if isinstance(value, (exp.Kwarg, exp.PropertyEQ)):
            unit, value = value.name.lower(), value.expression
        if value is not None:
            if unit.rstrip("s") not in _UNITS:
                raise PlanError(
                    f"MAKE_INTERVAL does not know {unit}", hint="use years, months, weeks, days, hours, mins or secs"
                )
            length = exp.Interval(this=literal("1"), unit=exp.Var(this=_UNITS[unit.rstrip("s")]))
            parts.append(exp.Mul(this=exp.paren(value.copy()), expression=length))
    return exp.paren(reduce(lambda one, other: exp.Add(this=one, expression=other), parts)) if parts else None


_UNITS = {
    "year": "YEAR", "month": "MONTH", "week": "WEEK", "day": "DAY", "hour": "HOUR", "min": "MINUTE",
    "minute": "MINUTE", "sec": "SECOND", "second": "SECOND",
}  # fmt: skip


def _instant(node: Any, dialect: str) -> Any:
    """Returns the moment of a number of seconds, which may have a fraction."""
    return call("TIMESTAMP_SECONDS", node.this) if dialect in TO_EVEN else None


def _overlapping(node: Any, dialect: str) -> Any:
    """Returns OVERLAPS of two periods, each of them two ends, or an end and a length."""
    ends = []
    for period in (node.this, node.expression):
        found = period.expressions if isinstance(period, exp.Tuple) else ()
        if len(found) != 2:
            raise PlanError("OVERLAPS compares two periods", hint="write (start, end) OVERLAPS (start, end)")
        first, last = found
        length = isinstance(last, exp.Interval) or (isinstance(last, exp.Cast) and last.is_type("interval"))
        ends += [first, exp.Add(this=first.copy(), expression=last) if length else last]
    return call("PERIODS_OVERLAP", *ends)


BUILDERS: dict[type, Callable[[Any, str], Any]] = {
    exp.TimestampFromParts: _moment,
    exp.Extract: _extracted,
    exp.Week: _week,
    exp.YearOfWeek: _year_of_week,
    exp.YearOfWeekIso: _year_of_week,
    exp.DateAdd: _later,
    exp.DateTrunc: _beginning,
    exp.TimestampTrunc: _beginning,
    exp.DatetimeTrunc: _beginning,
    exp.DateDiff: _difference,
    exp.DatetimeDiff: _difference,
    exp.StrToTime: _read_moment,
    exp.TsOrDsToDatetime: _wall_clock,
    exp.Sub: moved,
    exp.UnixToTime: _instant,
    exp.MakeInterval: _interval,
    exp.Overlaps: _overlapping,
}
"""The replacements of nodes by type. A function returns None if the node means the same as in Spark."""
