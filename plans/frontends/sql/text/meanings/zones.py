"""Time zones in other dialects: AT TIME ZONE, and functions with a time zone as an argument.

Part of `plans.frontends.sql`. TIMEZONE returns the wall clock reading of an instant in a zone, or the instant of a wall
clock reading:

    DATE(at, zone)                   CAST(TIMEZONE(zone, at) AS DATE)
    TIMESTAMP_TRUNC(at, DAY, zone)   TIMEZONE(zone, TIMESTAMP_TRUNC(TIMEZONE(zone, at), DAY))

In Trino, `at AT TIME ZONE zone` is the same instant, of which EXTRACT and similar functions read the wall clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from plans.errors import PlanError
from plans.frontends.sql.text.meanings.moments import POSTGRES, TRINO
from plans.frontends.sql.text.nodes import call, rewritten

_CLOCKS = (*POSTGRES, "duckdb")
"""Dialects in which AT TIME ZONE returns a wall clock reading, or the instant of one."""
_SPARK = ("databricks", "spark2")
"""Dialects whose FROM_UTC_TIMESTAMP is parsed as AT TIME ZONE."""
_READERS = (
    exp.Extract, exp.Cast, exp.TryCast, exp.TsOrDsToDate, exp.Date, exp.TimeToStr, exp.Year, exp.Quarter, exp.Month,
    exp.Week, exp.WeekOfYear, exp.Day, exp.DayOfMonth, exp.DayOfWeek, exp.DayOfWeekIso, exp.DayOfYear, exp.Hour,
    exp.Minute, exp.LastDay, exp.YearOfWeek,
)  # fmt: skip
"""What reads the wall clock of an instant with a zone."""
_WALLS = (exp.DataType.Type.DATE, exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPNTZ)
"""The types of which a cast reads the wall clock."""


def with_zones(tree: Any, dialect: str, text: str) -> Any:
    """Returns a statement in which TIMEZONE converts between instants and wall clock readings.

    Raises PlanError for a value that has a time zone of its own.
    """
    return rewritten(_with_operators(tree, dialect), tuple(_BUILDERS), lambda node: _replacement(node, dialect), text)


def _with_operators(tree: Any, dialect: str) -> Any:
    """Rewrites Trino's AT_TIMEZONE as the operator AT TIME ZONE."""
    return tree.transform(_operator) if dialect in TRINO else tree


def _operator(node: Any) -> Any:
    if not isinstance(node, exp.Anonymous) or node.name.upper() != "AT_TIMEZONE" or len(node.expressions) != 2:
        return node
    made = exp.AtTimeZone(this=node.expressions[0], zone=node.expressions[1])
    made.meta.update(node.meta)
    return made


def _replacement(node: Any, dialect: str) -> Any:
    return _BUILDERS[type(node)](node, dialect)


def _clock(value: Any, zone: Any) -> Any:
    return call("TIMEZONE", zone, value)


def _at_zone(node: Any, dialect: str) -> Any:
    value, zone = node.this, node.args["zone"]
    if dialect in _SPARK:
        return call("FROM_UTC_TIMESTAMP", _uncast(value), zone)
    if dialect in _CLOCKS or (dialect == "bigquery" and isinstance(node.parent, exp.Extract)):
        return _clock(value, zone)
    if dialect not in TRINO:
        return None
    reader = node.parent
    while isinstance(reader, (exp.Paren, exp.TimestampTrunc)):
        reader = reader.parent
    zoned = isinstance(reader, (exp.Cast, exp.TryCast)) and reader.to.this not in _WALLS
    formatted = isinstance(reader, exp.Anonymous) and reader.name.upper() == "FORMAT_DATETIME"
    if zoned or not (formatted or isinstance(reader, _READERS)):
        hint = "read the clock of the zone: CAST(at AT TIME ZONE zone AS TIMESTAMP), or EXTRACT(HOUR FROM ...)"
        raise PlanError("a TIMESTAMP has no time zone of its own, so AT TIME ZONE alone changes nothing", hint=hint)
    return _clock(value, zone)


def _from_zone(node: Any, dialect: str) -> Any:
    return call("TO_UTC_TIMESTAMP", _uncast(node.this), node.args["zone"]) if dialect in _SPARK else None


def _uncast(value: Any) -> Any:
    """Returns the argument of a cast that the parser has added."""
    added = isinstance(value, exp.Cast) and value.to.this == exp.DataType.Type.TIMESTAMP
    return value.this if added else value


def _day(node: Any, dialect: str) -> Any:
    zone = node.args.get("zone")
    return None if zone is None else exp.cast(_clock(node.this, zone), "date")


def _wall(node: Any, dialect: str) -> Any:
    """Returns DATETIME(at, zone) of BigQuery."""
    return _clock(node.this, node.expression) if dialect == "bigquery" and node.expression is not None else None


def _instant(node: Any, dialect: str) -> Any:
    """Returns TIMESTAMP(wall, zone) of BigQuery."""
    zone = node.args.get("zone")
    return None if zone is None else _clock(exp.cast(node.this.copy(), _WALL), zone)


_WALL = exp.DataType.build("TIMESTAMPNTZ")


def _without_zone(node: Any) -> Any:
    """Returns a copy of a node without its zone."""
    made = node.copy()
    made.set("zone", None)
    return made


def _truncated(node: Any, dialect: str) -> Any:
    """Returns the instant at which a unit begins in a zone."""
    zone = node.args.get("zone")
    if zone is None:
        return None
    inner = _without_zone(node)
    inner.set("this", _clock(node.this, zone))
    return _clock(inner, zone)


def _formatted(node: Any, dialect: str) -> Any:
    zone, value = node.args.get("zone"), node.this
    if zone is None:
        return None
    made = _without_zone(node)
    made.set("this", _clock(value.this if isinstance(value, exp.TsOrDsToTimestamp) else value, zone))
    return made


def _parsed(node: Any, dialect: str) -> Any:
    zone = node.args.get("zone")
    if zone is None:
        return None
    return _clock(exp.cast(_without_zone(node), _WALL), zone)


def _text(node: Any, dialect: str) -> Any:
    if node.args.get("zone") is not None:
        raise PlanError("STRING with a time zone is not supported", hint="write FORMAT_TIMESTAMP('%F %T', at, zone)")
    return exp.cast(node.this.copy(), "text")


def _today(node: Any, dialect: str) -> Any:
    return None if node.this is None else exp.cast(_clock(exp.CurrentTimestamp(), node.this), "date")


def _reading(node: Any, dialect: str) -> Any:
    """Returns CURRENT_DATETIME of BigQuery: the reading of the clock in a zone, or in UTC."""
    now = exp.CurrentTimestamp()
    return exp.cast(now, _WALL.copy()) if node.this is None else _clock(now, node.this)


def _made(node: Any, dialect: str) -> Any:
    """Returns MAKE_TIMESTAMPTZ of PostgreSQL: the instant of a wall clock reading."""
    if node.name.upper() != "MAKE_TIMESTAMPTZ" or len(node.expressions) not in (6, 7) or dialect not in _CLOCKS:
        return None
    wall, zone = call("MAKE_TIMESTAMP_NTZ", *node.expressions[:6]), node.expressions[6:]
    return _clock(wall, zone[0]) if zone else exp.cast(wall, exp.DataType.Type.TIMESTAMPTZ)


_BUILDERS: dict[type, Callable[[Any, str], Any]] = {
    exp.AtTimeZone: _at_zone,
    exp.Anonymous: _made,
    exp.FromTimeZone: _from_zone,
    exp.Date: _day,
    exp.Datetime: _wall,
    exp.Timestamp: _instant,
    exp.TimestampTrunc: _truncated,
    exp.TimeToStr: _formatted,
    exp.StrToTime: _parsed,
    exp.String: _text,
    exp.CurrentDate: _today,
    exp.CurrentDatetime: _reading,
}
"""The replacements of nodes by type. A function returns None if the node has no time zone."""
