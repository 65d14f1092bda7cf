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


def sessions(rows: Relation, keys: Sequence[str], time: str, gap: int, *, ends: bool) -> Over:
    """Returns rows, whose column `time` is never NULL, with the time of the first row of their session, as the first
    window function; and, with `ends`, that of the last row as the second one.

    Rows with equal `keys` are in one session where no gap between them is longer than `gap` microseconds.
    """
    taken = [column.name for column in rows.columns]
    before, after, opens, closes = (unused(wish, taken) for wish in ("before", "after", "opens", "closes"))
    type_ = next(column.type for column in rows.columns if column.name == time)
    beside = [WindowFunction(before, type_, "lag", (time,), count=1)]
    beside += [WindowFunction(after, type_, "lead", (time,), count=1)] if ends else []
    over = Over(rows, tuple(keys), (Order(time),), tuple(beside))
    source = Source("rows", Table("rows", tuple(Column(c.name, c.type) for c in over.columns)), input=over)
    now, earlier = source.qualified(time), source.qualified(before)
    marks = [(opens, call("or", call("isnull", earlier), call("gt", now, behind(earlier, gap))))]
    order = [Order(time), Order(opens, True)]  # of rows with one time, that which begins a session is the first one
    first, last = unused("first", [*taken, opens, closes]), unused("last", [*taken, opens, closes])
    functions = [WindowFunction(first, type_, "last_value", (time,), opens, Frame("rows", None, 0))]
    if ends:
        later = source.qualified(after)
        marks.append((closes, call("or", call("isnull", later), call("gt", later, behind(now, gap)))))
        order.append(Order(closes))
        functions.append(WindowFunction(last, type_, "first_value", (time,), closes, Frame("rows", 0, None)))
    marked = Query(rows.text, (source,), (), (*((name, source.qualified(name)) for name in taken), *marks), False)
    return Over(marked, tuple(keys), tuple(order), tuple(functions), len(marks))


def behind(moment: Expr, gap: int) -> Expr:
    """Returns the moment so many microseconds later: a session ends so long behind its last row."""
    return call("plus_micros", moment, lit(gap, "int64"))
