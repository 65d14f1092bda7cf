"""TUMBLE, HOP and CUMULATE in FROM: the rows of a table, each once for every window that contains it.

Part of `plans.frontends.sql`.

    FROM TUMBLE(orders, at, '10 minutes') AS o            columns of orders, window_start, window_end
    FROM HOP(orders, at, '5 minutes', '10 minutes') AS o  a window of ten minutes begins every five
    FROM CUMULATE(orders, at, '1 hour', '1 day') AS o     days up to each of their hours

A row is in as many windows as begin within the length of a window. So the rows are those of a UNION ALL: of the window
that began last, of the one before it, and so on; for CUMULATE, of the window that ends after one step, after two, and
so on. A row without a time is in no window. `plans.frontends.sql.relations.sessions` has SESSION.
"""

from __future__ import annotations

from sqlglot import exp

from plans.errors import PlanError
from plans.frontends.sql.scalars.interval import length_of
from plans.frontends.sql.text.nodes import is_known
from plans.time import durations

CALLS = {"TUMBLE": 3, "HOP": 4, "CUMULATE": 4}
_MOST = 1000
"""The most windows of a row. Each is a term of the union."""


def is_windows(node: exp.Expression) -> bool:
    """Returns whether a node of FROM is a call of TUMBLE, HOP or CUMULATE."""
    called = node.this if isinstance(node, exp.Table) else None
    return isinstance(called, exp.Anonymous) and called.name.upper() in CALLS


def query_of(node: exp.Table) -> exp.Expression:
    """Returns the plain query of a call of TUMBLE, HOP or CUMULATE."""
    name, args = node.this.name.upper(), list(node.this.expressions)
    if len(args) != CALLS[name] or not all(isinstance(arg, exp.Column) for arg in args[:2]) or args[0].table:
        wanted = {"TUMBLE": "the size", "HOP": "the slide and the size", "CUMULATE": "the step and the size"}[name]
        raise PlanError(
            f"{name} in FROM takes a table, a column with a time, and {wanted} of its windows",
            hint=f"write {name}(orders, at, {', '.join(['INTERVAL ' + q for q in _EXAMPLE[name]])})",
        )
    source, moment = args[:2]
    slide, size = length_of(name, args[2]), length_of(name, args[-1])
    if name == "CUMULATE" and size % slide:
        raise PlanError("CUMULATE: the size is not a multiple of the step", hint="use a step that divides the size")
    count = windows_per_row(name, slide, size)
    whole: exp.Expression | None = None
    for number in range(count):
        if name == "CUMULATE":
            part = _windows(source, moment, args[-1], 0, (number + 1) * slide, number + 1 < count)
        else:
            part = _windows(source, moment, args[2], number * slide, size, size % slide != 0)
        whole = part if whole is None else exp.Union(this=whole, expression=part, distinct=False)
    assert whole is not None, "a row is in a window"
    return whole


def windows_per_row(name: str, slide: int, size: int) -> int:
    """Returns how many windows a row is in. Raises PlanError for too many, and for a slide longer than the size."""
    if slide > size:
        raise PlanError(
            f"{name}: a slide that is longer than the size leaves out the rows between the windows",
            hint="use a slide of at most the size",
        )
    if (count := -(-size // slide)) > _MOST:
        raise PlanError(
            f"{name}: each row would be in {count} windows",
            hint=f"use a longer slide: at most {_MOST} windows per row are supported",
        )
    return count


_EXAMPLE = {"TUMBLE": ("'10' MINUTE",), "HOP": ("'5' MINUTE", "'10' MINUTE"), "CUMULATE": ("'1' HOUR", "'1' DAY")}


def _windows(
    source: exp.Column, moment: exp.Column, slide: exp.Expression, back: int, size: int, partly: bool
) -> exp.Select:
    """Returns the rows with the window that began `back` microseconds before the last one. `partly`: some rows are not
    in that window."""
    last = exp.Anonymous(this="TUMBLE_START", expressions=[moment.copy(), slide.copy()])
    start, end = shifted(last, -back), shifted(last, size - back)
    condition: exp.Expression = is_known(moment)
    if partly:
        condition = exp.And(this=condition, expression=exp.LT(this=moment.copy(), expression=end.copy()))
    named = [exp.alias_(start, "window_start"), exp.alias_(end, "window_end")]
    table = exp.Table(this=source.this.copy())
    return exp.Select(expressions=[exp.Star(), *named]).from_(table).where(condition)


def shifted(moment: exp.Expression, by: int) -> exp.Expression:
    """Returns the moment `by` microseconds later."""
    if by == 0:
        return moment.copy()
    count, unit = durations.shown(abs(by)).split(" ")
    interval = exp.Interval(this=exp.Literal.string(count), unit=exp.Var(this=unit.upper()))
    made: exp.Expression = (exp.Add if by > 0 else exp.Sub)(this=moment.copy(), expression=interval)
    return made
