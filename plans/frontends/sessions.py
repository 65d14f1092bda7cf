"""Sessions: rows of one key whose times follow each other without a gap, whatever language asks for them.

A session begins with a row before which no other lies within the gap, and ends the gap after a row behind which none
does. One stage of window functions has the rows in order, and which of them begin a session.
"""

from __future__ import annotations

from collections.abc import Sequence

from plans.expressions.build import Expr, call, lit
from plans.frames import Order, WindowFunction
from plans.queries.algebra import Over, Relation, unused


def sessions(rows: Relation, keys: Sequence[str], time: str, gap: int, *, ends: bool) -> Over:
    """Returns rows, whose column `time` is never NULL, with the time of the first row of their session, as the first
    window function; and, with `ends`, that of the last row as the second one.

    Rows with equal `keys` are in one session where no gap between them is longer than `gap` microseconds.
    """
    taken = [column.name for column in rows.columns]
    first = unused("first", taken)
    type_ = next(column.type for column in rows.columns if column.name == time)
    functions = [WindowFunction(first, type_, "session_start", (time,), count=gap)]
    if ends:
        functions.append(WindowFunction(unused("last", [*taken, first]), type_, "session_end", (time,), count=gap))
    return Over(rows, tuple(keys), (Order(time),), tuple(functions))


def behind(moment: Expr, gap: int) -> Expr:
    """Returns the moment so many microseconds later: a session ends so long behind its last row."""
    return call("plus_micros", moment, lit(gap, "int64"))
