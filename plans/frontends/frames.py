"""Frames and counts of window functions, and sessions, for all query languages.

A session has rows of one key whose times follow each other without a gap. It begins with a row that has no other row
within the gap before it, and ends one gap after a row that has no other row within the gap after it. A single stage of
window functions orders the rows and computes where sessions begin and end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from plans.errors import PlanError
from plans.expressions.build import Expr, call, lit
from plans.programs.frames import NEIGHBOURS, PARTITION, RUNNING, Frame, Order, WindowFunction
from plans.queries.algebra import Over, Relation, unused
from plans.time.durations import DAY
from plans.types import MOMENTS, ONE_WORD_DIGITS, decimal_parts

Bound = int | float | None
Side = tuple[str, Bound]
"""A side of a frame: the unit of its bound, and the bound."""


def frame_of(one: Side, other: Side, exclude: str) -> Frame:
    """Returns a frame. The frame of a whole partition has a single form. Raises PlanError if the frame ends before it
    begins, or if its sides have different units."""
    (unit, start), (end_unit, end) = one, other
    if start and end and unit != end_unit:
        raise PlanError(
            "a frame with months or years on one side needs them on the other, too",
            hint="write both in months, or both in days",
        )
    if not start and end:
        unit = end_unit
    if start is not None and end is not None and start > end:
        raise PlanError("a frame must not end before it begins", hint="write the earlier bound first")
    if start is None and end is None and not exclude:
        return PARTITION
    return Frame(unit, start, end, exclude)


def default_frame(ordered: bool) -> Frame:
    """Returns the default frame of a function."""
    return RUNNING if ordered else PARTITION


def below(one: WindowFunction, where: str) -> WindowFunction:
    """Returns LAG, LEAD or a value function that reads only the rows for which the column `where` is true."""
    if one.function not in NEIGHBOURS:
        return replace(one, where=where)
    last = one.function == "lag"
    frame = Frame("rows", 0, 0) if one.count == 0 else Frame("rows", None, -1) if last else Frame("rows", 1, None)
    function = "last_value" if last else "nth_value"
    return replace(one, where=where, frame=frame, function=function, count=max(one.count, 1))


def constant(expr: Expr) -> Any:
    """Returns the value of an expression without columns. Raises PlanError if it has columns."""
    if expr.columns:
        raise PlanError("a constant is expected here, not a column")
    return expr.evaluate({}, 1)[0].as_py()


def count_of(expr: Expr, what: str, least: int) -> int:
    """Returns a number of rows. Raises PlanError if the value is not an integer, or is below ``least``."""
    value = constant(expr)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise PlanError(f"{what} takes a whole number of at least {least}")
    return min(value, 2**40)


def distance(value: Any, type_: str) -> int | float:
    """Returns a distance in the unit of the codes of a type. Raises PlanError if values of the type have no such
    distance."""
    number = isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    if not number:
        raise PlanError("RANGE takes a number as its distance, or an INTERVAL of times")
    if value < 0 or value != value:
        raise PlanError("a distance of RANGE must not be negative", hint="use PRECEDING or FOLLOWING for the direction")
    if type_ == "float64":
        return float(value)
    parts = decimal_parts(type_)
    if parts is not None and parts[0] > ONE_WORD_DIGITS:
        raise PlanError(
            f"RANGE with a distance is not supported for {type_}", hint=f"cast it to at most {ONE_WORD_DIGITS} digits"
        )
    if parts is None and type_ not in ("int32", "int64", "date"):
        raise PlanError(f"RANGE with a number is not supported for {type_}", hint=_HINTS.get(type_, ""))
    scaled = Decimal(value).scaleb(parts[1]) if parts is not None else Decimal(value)
    if scaled != int(scaled):
        raise PlanError(f"a distance of {value} has more decimal places than {type_}", hint="cast the ORDER BY column")
    return int(scaled)


_HINTS = {"timestamp": "write an INTERVAL", "timestamp_ntz": "write an INTERVAL"}


def duration(months: Any, micros: Any, type_: str) -> tuple[str, int]:
    """Returns an interval as the distance of a frame: its unit (months, or that of the codes of dates or times) and the
    number of units. Raises PlanError if no frame has such a distance."""
    if type_ not in MOMENTS:
        raise PlanError(f"RANGE with an INTERVAL needs a date or a timestamp, not {type_}")
    if months and micros:
        raise PlanError("RANGE takes months, or days and times, but not both", hint="write one of them")
    if months < 0 or micros < 0:
        raise PlanError("a distance of RANGE must not be negative", hint="use PRECEDING or FOLLOWING for the direction")
    if months:
        return "months", int(months)
    if type_ != "date":
        return "range", int(micros)
    if micros % DAY:
        raise PlanError("RANGE of dates takes whole days", hint="cast the date to a timestamp")
    return "range", int(micros // DAY)


def sessions(rows: Relation, keys: Sequence[str], time: str, gap: int, *, ends: bool) -> Over:
    """Returns the rows, whose column `time` is never NULL, with the time of the first row of their session as the first
    window function, and, with `ends`, that of the last row as the second.

    Rows with equal `keys` are in one session if no gap between consecutive rows is longer than `gap` microseconds.
    """
    taken = [column.name for column in rows.columns]
    first = unused("first", taken)
    type_ = next(column.type for column in rows.columns if column.name == time)
    functions = [WindowFunction(first, type_, "session_start", (time,), count=gap)]
    if ends:
        functions.append(WindowFunction(unused("last", [*taken, first]), type_, "session_end", (time,), count=gap))
    return Over(rows, tuple(keys), (Order(time),), tuple(functions))


def session_end(moment: Expr, gap: int) -> Expr:
    """Returns the moment `gap` microseconds later. A session ends that long after its last row."""
    return call("plus_micros", moment, lit(gap, "int64"))
