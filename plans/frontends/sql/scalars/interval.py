"""A date or timestamp plus or minus an INTERVAL, and the window of a length that it is in.

Part of `plans.frontends.sql`; nodes are sqlglot's.
"""

from __future__ import annotations

import re
from typing import Any

from plans import durations
from plans.errors import PlanError
from plans.expressions.build import Expr, call, lit

_DAYS = {"day": 1, "week": 7}
_MONTHS = {"month": 1, "year": 12}
_MICROS = {
    "day": 86_400_000_000, "week": 7 * 86_400_000_000, "hour": 3_600_000_000, "minute": 60_000_000,
    "second": 1_000_000, "millisecond": 1_000, "microsecond": 1,
}  # fmt: skip


def shifted(node: Any, start: Expr) -> Expr:
    """Returns a date or timestamp plus or minus an interval; of a literal, the value."""
    interval = node.this if node.this.key == "interval" else node.expression
    unit = str(interval.args.get("unit") or "").lower().rstrip("s")
    if unit not in {**_MONTHS, **_MICROS}:
        raise PlanError(
            "an INTERVAL is a number of one unit here: years, months, weeks, days, hours, minutes, seconds",
            hint="add several intervals one by one",
        )
    amount = str(interval.this.this) if interval.this is not None else ""
    if interval.this is None or interval.this.key != "literal" or not re.fullmatch(r"\s*[+-]?\d{1,9}\s*", amount):
        raise PlanError(f"{amount!r} is not a whole number of {unit}s")
    count = int(amount) * (-1 if node.key == "sub" else 1)
    if start.type not in ("date", "timestamp", "timestamp_ntz", "null"):
        raise PlanError(f"an INTERVAL is added to a date or a timestamp, not to {start.type}", hint="use CAST")
    if start.type in ("date", "null") and unit in _DAYS:
        found = call("date_add", start, lit(count * _DAYS[unit]))
    elif unit in _MONTHS:
        op = "plus_months" if start.type.startswith("timestamp") else "add_months"
        found = call(op, start, lit(count * _MONTHS[unit]))
    else:
        found = call("plus_micros", start, lit(count * _MICROS[unit], "int64"))
    return found if start.op != "literal" or start.value is None else _worked_out(found, f"{start} and {count} {unit}s")


TUMBLING = ("TUMBLE", "TUMBLE_START", "TUMBLE_END")
"""Functions of a moment and a length: the window of that length that the moment is in, by its start or its end."""


def tumbled(name: str, moment: Expr, length: Any) -> Expr:
    """Returns the start or end of the tumbling window that a moment is in; `length`: an INTERVAL, or a text."""
    if moment.type not in ("date", "timestamp", "timestamp_ntz"):
        raise PlanError(f"{name} takes a date or a timestamp, not {moment.type}", hint="use CAST")
    size = lit(length_of(name, length), "int64")
    start = call("tumble_start", moment, size)
    return call("plus_micros", start, size) if name == "TUMBLE_END" else start


def length_of(name: str, node: Any) -> int:
    """Returns the length of a window in microseconds, of an INTERVAL or a text."""
    text = None
    if node.key == "literal" and node.args.get("is_string"):
        text = str(node.this)
    elif node.key == "interval" and node.this is not None and node.this.key == "literal":
        text = f"{node.this.this} {node.args.get('unit') or ''}"
    found = None if text is None else durations.microseconds(text)
    if not found:
        raise PlanError(
            f"{name} takes the length of a window as a constant",
            hint="write INTERVAL '10' MINUTE or '10 minutes'; months and years have no fixed length",
        )
    return found


def _worked_out(expr: Expr, what: str) -> Expr:
    """Returns the value of an expression of literals."""
    try:
        value = expr.evaluate({}, 1)[0].as_py()
    except (ValueError, OverflowError):  # a date that Python has not
        value = None
    if value is None:
        raise PlanError(f"{what} leave the calendar")
    return lit(value, expr.type)
