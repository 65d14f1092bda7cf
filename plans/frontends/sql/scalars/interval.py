"""INTERVAL as a value, a date or timestamp plus or minus an interval, and the tumbling window that contains a moment.

Part of `plans.frontends.sql`; nodes are sqlglot's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from plans.errors import PlanError
from plans.expressions.build import Expr, call, cast, lit
from plans.time import durations
from plans.types import INTERVALS, MOMENTS

_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_WORDS = re.compile(r"\s*([+-]?\s*\d+(?:\.\d{1,6})?)\s+([a-z]+)", re.IGNORECASE | re.ASCII)
_MONTH_SPAN = re.compile(r"\s*([+-]?)(\d{1,9})-(\d{1,2})\s*", re.ASCII)
_DAY_SPAN = re.compile(r"\s*([+-]?)(\d{1,9}) (\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?)?\s*", re.ASCII)
_HOUR_SPAN = re.compile(r"\s*([+-]?)(\d{1,9}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,6}))?)?\s*", re.ASCII)
_CLOCK = re.compile(r"(?<!\S)[+-]?\d{1,9}:\d{1,2}(?::\d{1,2}(?:\.\d{1,6})?)?\s*\Z", re.ASCII)
_MINUTE_SPAN = re.compile(r"\s*([+-]?)(\d{1,9}):(\d{1,2})(?:\.(\d{1,6}))?\s*", re.ASCII)

Read = Callable[[Any], Expr]
"""Translates a node into an expression."""


@dataclass(frozen=True)
class Interval:
    """An interval: months and microseconds as integers, None if it has none. `days`: a DATE plus the interval stays a
    DATE."""

    months: Expr | None = None
    micros: Expr | None = None
    days: bool = False

    def __neg__(self) -> Interval:
        return self.times(lit(-1))

    def __add__(self, other: Interval) -> Interval:
        months, micros = _sum(self.months, other.months), _sum(self.micros, other.micros)
        return Interval(months, micros, self.days and other.days)

    def times(self, count: Expr) -> Interval:
        """Returns the interval multiplied by a count."""
        return replace(self, months=_product(self.months, count), micros=_product(self.micros, count))


def as_moment(value: Expr) -> Expr:
    """Returns a date as the beginning of its day; other values unchanged."""
    return cast(value, "timestamp_ntz") if value.type == "date" else value


def is_interval(node: Any) -> bool:
    """Returns whether a node is an interval."""
    if node.key in ("paren", "neg"):
        return is_interval(node.this)
    if node.key == "mul":
        return is_interval(node.expression) or is_interval(node.this)
    if node.key in ("add", "sub"):
        return is_interval(node.expression) and is_interval(node.this)
    return bool(node.key == "interval")


def interval(node: Any, read: Read) -> Interval:
    """Returns the interval of a node."""
    if node.key == "paren":
        return interval(node.this, read)
    if node.key == "neg":
        return -interval(node.this, read)
    if node.key in ("add", "sub"):
        second = interval(node.expression, read)
        return interval(node.this, read) + (second if node.key == "add" else -second)
    if node.key == "mul":
        length, count = (node.this, node.expression) if is_interval(node.this) else (node.expression, node.this)
        found = interval(length, read)
        return replace(found.times(_whole(read(count))), days=found.days and found.micros is None)
    unit, amount = node.args.get("unit"), node.this
    if amount is None:
        raise PlanError("INTERVAL needs a length", hint="write INTERVAL '1' DAY")
    if amount.key == "literal" and (unit is None or unit.key == "intervalspan"):
        return _spelled(str(amount.this), "" if unit is None else f"{_unit(unit.this)} TO {_unit(unit.expression)}")
    if unit is None:
        raise PlanError("INTERVAL needs a unit", hint="write INTERVAL '1' DAY")
    name = _unit(unit)
    if amount.key == "literal":
        return _of(str(amount.this).strip(), name)
    return _of("1", name).times(_whole(read(amount)))


def _unit(node: Any) -> str:
    """Returns the name of a unit. Its precision, as in DAY(3) and SECOND(6), is ignored."""
    return str(node).partition("(")[0].strip().upper()


def _of(number: str, unit: str) -> Interval:
    """Returns the interval of a number of units. Seconds and smaller units may have a fraction."""
    word = unit.lower()
    months = _MONTHS.get(word) or _MONTHS.get(word.removesuffix("s"))
    sign, digits = (-1, number[1:]) if number[:1] == "-" else (1, number.removeprefix("+"))
    if months is not None and re.fullmatch(r"[0-9]{1,9}", digits):
        return Interval(months=lit(sign * int(digits) * months), days=True)
    size = durations.microseconds(f"{digits} {unit}") if re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,6})?", digits) else None
    if months is not None or size is None or not size < 2**63:
        units = "years, quarters, months, weeks, days, hours, minutes, seconds, milliseconds, microseconds"
        raise PlanError(f"an INTERVAL cannot be {number} {unit} long", hint=f"units are {units}")
    return Interval(
        micros=lit(sign * size, "int64"), days=size % durations.DAY == 0 and word.rstrip("s") in ("day", "week")
    )


_SPANS = {"DAY": _DAY_SPAN, "HOUR": _HOUR_SPAN, "MINUTE": _MINUTE_SPAN}


def _spelled(text: str, span: str) -> Interval:
    """Returns the interval of a text: '1 day 2 hours', or, for a span like YEAR TO MONTH, '1-2'."""
    if span == "YEAR TO MONTH" and (found := _MONTH_SPAN.fullmatch(text)):
        return Interval(months=lit(int(f"{found[1]}1") * (int(found[2]) * 12 + int(found[3]))), days=True)
    pattern = _SPANS.get(span.partition(" ")[0])
    if pattern is not None and (found := pattern.fullmatch(text)):
        sign, *parts, fraction = found.groups()
        sizes = (durations.DAY, durations.HOUR, durations.MINUTE, durations.SECOND)[-len(parts) :]
        micros = sum(int(part or 0) * size for part, size in zip(parts, sizes, strict=True))
        micros += int(((fraction or "") + "000000")[:6])
        return Interval(micros=lit(int(f"{sign}1") * micros, "int64"))
    clock = _CLOCK.search(text) if not span else None
    if clock is not None:  # '1 day 02:30:00'
        rest = text[: clock.start()].strip()
        hours = _spelled(clock[0], "HOUR TO SECOND")
        return _spelled(rest, "") + hours if rest else hours
    words = _WORDS.findall(text) if not span else []
    if not words or _WORDS.sub("", text).strip():
        raise PlanError(
            f"{text!r} is not an INTERVAL {span}".rstrip(), hint="write INTERVAL '1' DAY, or '1 day 2 hours'"
        )
    parts_of = [_of("".join(number.split()), unit) for number, unit in words]
    return sum(parts_of[1:], parts_of[0])


def _whole(count: Expr) -> Expr:
    if count.type not in ("int32", "int64", "null"):
        raise PlanError(f"an INTERVAL can be multiplied by a whole number, not by {count.type}", hint="use CAST")
    return count


def _sum(one: Expr | None, two: Expr | None) -> Expr | None:
    return two if one is None else one if two is None else _folded(call("add", one, two))


def _product(one: Expr | None, count: Expr) -> Expr | None:
    return None if one is None else _folded(call("mul", one, cast(count, one.type)))


def _folded(made: Expr) -> Expr:
    return lit(made.evaluate({}, 1)[0].as_py(), made.type) if not made.columns else made


def shifted(node: Any, read: Read) -> Expr:
    """Returns a date or timestamp plus or minus an interval. For literals, returns the value."""
    first = is_interval(node.this)
    start = read(node.expression if first else node.this)
    if start.type in INTERVALS or (first and node.key == "sub" and start.type == "null"):
        other = value(node.this if first else node.expression, read)
        return call(node.key, other, start) if first else call(node.key, start, other)
    if first and node.key == "sub":
        message = f"a value of type {start.type} cannot be subtracted from an INTERVAL"
        raise PlanError(message, hint="write the date first")
    length = interval(node.this if first else node.expression, read)
    if start.type not in (*MOMENTS, "null"):
        raise PlanError(f"an INTERVAL can be added to a date or a timestamp, not to {start.type}", hint="use CAST")
    length = -length if node.key == "sub" else length
    start = as_moment(start) if node.args.get("moment") else start
    found = start
    if length.months is not None:
        op = "plus_months" if start.type.startswith("timestamp") else "add_months"
        found = call(op, found, length.months)
    if length.micros is not None and length.days and found.type in ("date", "null"):
        days = call("intdiv", length.micros, lit(durations.DAY, "int64"))
        found = call("date_add", found, cast(_folded(days), "int32"))
    elif length.micros is not None:
        found = call("plus_micros", found, length.micros)
    return (
        found
        if start.op != "literal" or start.value is None or found.columns
        else _worked_out(found, f"{start} and the INTERVAL")
    )


def value(node: Any, read: Read) -> Expr:
    """Returns the interval of a node as a value."""
    found = interval(node, read)
    if found.months is not None and found.micros is not None:
        hint = "write two columns, or add both to a date or a timestamp"
        raise PlanError("an INTERVAL with months and days cannot be a value", hint=hint)
    if found.months is not None:
        return _length(found.months, "months")
    assert found.micros is not None, "an INTERVAL has a length"
    return _length(found.micros, "duration")


def _length(units: Expr, type_: str) -> Expr:
    if units.op == "literal":
        return lit(units.value, type_)
    return call("of_months" if type_ == "months" else "of_micros", units)


TUMBLING = ("TUMBLE", "TUMBLE_START", "TUMBLE_END", "HOP", "WINDOW")
"""Functions of a moment and a length: the window of that length that contains the moment, by its start or its end.
`plans.frontends.sql.groups.window_calls` reduces HOP and WINDOW to these."""


SESSION, SESSION_WINDOW = "SESSION", "SESSION_WINDOW"
SESSIONS = (SESSION, "SESSION_START", "SESSION_END", SESSION_WINDOW)
"""Functions of a moment and a gap, in queries that group by sessions."""


def tumbled(name: str, moment: Expr, length: Any) -> Expr:
    """Returns the start or end of the tumbling window that contains a moment. `length`: an INTERVAL, or a text."""
    if moment.type not in MOMENTS:
        raise PlanError(f"{name} takes a date or a timestamp, not {moment.type}", hint="use CAST")
    size = lit(length_of(name, length), "int64")
    start = call("tumble_start", moment, size)
    return call("plus_micros", start, size) if name == "TUMBLE_END" else start


def length_of(name: str, node: Any) -> int:
    """Returns the length of a window in microseconds, given as an INTERVAL or a text."""
    text = None
    if node.key == "literal" and node.args.get("is_string"):
        text = str(node.this)
    elif node.key == "interval" and node.this is not None and node.this.key == "literal":
        text = f"{node.this.this} {node.args.get('unit') or ''}"
    elif node.key == "interval" and node.this is not None and node.this.key == "neg":
        text = f"-{node.this.this.this} {node.args.get('unit') or ''}"
    found = None if text is None else durations.microseconds(text.strip().removeprefix("-"))
    if found is not None and text is not None and (found == 0 or text.strip().startswith("-")):
        raise PlanError(f"{name} takes a length above 0")
    if found is None:
        raise PlanError(
            f"{name} takes the length of a window" + (" as a constant" if text is None else f", not {text.strip()!r}"),
            hint="write INTERVAL '10' MINUTE or '10 minutes'; months and years have no fixed length",
        )
    return found


def _worked_out(expr: Expr, what: str) -> Expr:
    """Returns the value of an expression of literals."""
    try:
        value = expr.evaluate({}, 1)[0].as_py()
    except (ValueError, OverflowError):  # a date that Python does not support
        value = None
    if value is None:
        raise PlanError(f"{what} are outside of the calendar")
    return lit(value, expr.type)
