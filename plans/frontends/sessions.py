"""Sessions: rows of one key whose times follow each other without a gap, whatever language asks for them.

A session begins with a row before which no other lies within the gap, and ends the gap after a row behind which none
does. So it is two stages of window functions: LAG and LEAD tell whether a row begins or ends one, and every row takes
the time of the last beginning before it, and of the first end behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

from plans.expressions.build import Expr, call, lit
from plans.frames import Frame, WindowFunction
from plans.program import Order
from plans.queries.algebra import Over, Query, Relation, Source, unused
from plans.schema import Column, Table


def sessions(rows: Relation, keys: Sequence[str], time: str, gap: int) -> tuple[Over, str, str]:
    """Returns rows, whose column `time` is never NULL, with the times of the first and the last row of their session.

    Rows with equal `keys` are in one session where no gap between them is longer than `gap` microseconds. The names of
    the two columns, which are the last ones, come second.
    """
    taken = [column.name for column in rows.columns]
    before, after, opens, closes = (unused(wish, taken) for wish in ("before", "after", "opens", "closes"))
    type_ = next(column.type for column in rows.columns if column.name == time)
    order = (Order(time),)
    beside = Over(rows, tuple(keys), order, (_beside(before, "lag", time, type_), _beside(after, "lead", time, type_)))
    source = Source("rows", Table("rows", tuple(Column(c.name, c.type) for c in beside.columns)), input=beside)
    now, earlier, later = (source.qualified(name) for name in (time, before, after))
    marks = (
        (opens, call("or", call("isnull", earlier), call("gt", now, behind(earlier, gap)))),
        (closes, call("or", call("isnull", later), call("gt", later, behind(now, gap)))),
    )
    marked = Query(rows.text, (source,), (), (*((name, source.qualified(name)) for name in taken), *marks), False)
    first, last = unused("first", [*taken, opens, closes]), unused("last", [*taken, opens, closes])
    functions = (
        WindowFunction(first, type_, "last_value", (time,), opens, Frame("range", None, 0)),
        WindowFunction(last, type_, "first_value", (time,), closes, Frame("range", 0, None)),
    )
    return Over(marked, tuple(keys), order, functions, len(marks)), first, last


def behind(moment: Expr, gap: int) -> Expr:
    """Returns the moment so many microseconds later: a session ends so long behind its last row."""
    return call("plus_micros", moment, lit(gap, "int64"))


def _beside(name: str, function: str, time: str, type_: str) -> WindowFunction:
    return WindowFunction(name, type_, function, (time,), count=1)
