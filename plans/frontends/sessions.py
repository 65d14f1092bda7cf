"""Sessions: rows of one key whose times follow each other without a gap, for all query languages.

A session begins with a row that has no other row within the gap before it, and ends one gap after a row that has no
other row within the gap after it. A single stage of window functions orders the rows and computes where sessions begin
and end.
"""

from __future__ import annotations

from collections.abc import Sequence

from plans.expressions.build import Expr, call, lit
from plans.programs.frames import Order, WindowFunction
from plans.queries.algebra import Over, Relation, unused


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
