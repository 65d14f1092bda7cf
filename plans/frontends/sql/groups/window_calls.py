"""Time windows in GROUP BY: Spark's `window(at, '10 minutes', '5 minutes')` and Flink's HOP.

Part of `plans.frontends.sql`.

    SELECT window.start, window.end, COUNT(*) FROM orders GROUP BY window(at, '10 minutes')
    SELECT HOP_START(at, ...), COUNT(*) FROM orders GROUP BY HOP(at, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)

If a row is in one window, the window is a value of the row, and its start is the grouping key. Otherwise the row is
repeated for each of its windows, the elements of an array in FROM. A row without a time is in no window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from sqlglot import exp

from plans.errors import PlanError
from plans.frontends.sql.refuse import Text
from plans.frontends.sql.relations.windows import shifted, windows_per_row
from plans.frontends.sql.scalars.interval import length_of
from plans.frontends.sql.text.nodes import is_known, nodes
from plans.frontends.sql.text.place import extent
from plans.time import durations

WINDOW, WINDOW_TIME = "WINDOW", "WINDOW_TIME"
_HOPS = {"HOP": "", "HOP_START": "start", "HOP_END": "end"}
_PARTS = ("start", "end")


@dataclass(frozen=True)
class _Window:
    """Windows of `size` microseconds, one of which begins every `slide`, counted from `start`. `name`: the function."""

    name: str
    time: exp.Expression
    slide: int
    size: int
    start: int

    @property
    def count(self) -> int:
        """Returns the greatest number of windows of a row."""
        return -(-self.size // self.slide)

    def first(self, back: int) -> exp.Expression:
        """Returns the start of the last window of a row, or of the window `back` slides before it."""
        length = exp.Literal.string(durations.shown(self.slide))
        began = exp.Anonymous(this=self.name, expressions=[shifted(self.time, -self.start), length])
        return shifted(began, self.start - back * self.slide)

    def struct(self, back: int = 0) -> exp.Expression:
        """Returns a window as a struct."""
        first = self.first(back)
        last = shifted(first, self.size)
        parts = [exp.Literal.string("start"), first, exp.Literal.string("end"), last]
        return exp.Anonymous(this="NAMED_STRUCT", expressions=parts)

    def array(self) -> exp.Expression:
        """Returns the array of all windows of a row."""
        made = exp.Anonymous(this="ARRAY", expressions=[self.struct(back) for back in range(self.count)])
        if self.size % self.slide == 0:
            return made
        last = exp.Dot(this=exp.to_identifier("w"), expression=exp.to_identifier("end"))
        inside = exp.Lambda(this=exp.GT(this=last, expression=self.time.copy()), expressions=[exp.to_identifier("w")])
        return exp.Anonymous(this="FILTER", expressions=[made, inside])


def with_windows(root: exp.Expression, text: Text) -> exp.Expression:
    """Returns a query whose time windows are values, or elements of arrays in FROM."""
    for node in nodes(root, exp.Select):
        calls = [part for part in _own(node) if _called(part) is not None]
        if calls:
            _replace(node, calls, text)
    for call in nodes(root, exp.Anonymous):
        if call.name.upper() == WINDOW_TIME:
            hint = "write window_time(window), and GROUP BY window(at, '10 minutes')"
            raise text.error("WINDOW_TIME takes the window in GROUP BY", call, hint)
    return root


def _called(node: exp.Expression) -> str | None:
    """Returns the part of a window that a call returns, '' for the whole window; None if the call is not of a
    window."""
    if not isinstance(node, exp.Anonymous) or isinstance(node.parent, exp.Table):
        return None
    name = node.name.upper()
    return "" if name == WINDOW and node.expressions else _HOPS.get(name)


def _own(node: exp.Expression) -> Iterator[exp.Expression]:
    """Yields the parts of a SELECT without those of its subqueries. Iterative, because chains may be deep."""
    todo = [*node.iter_expressions(reverse=True)]
    while todo:
        part = todo.pop()
        yield part
        if not isinstance(part, exp.Query):
            todo += part.iter_expressions(reverse=True)


def _replace(node: exp.Select, calls: list[exp.Expression], text: Text) -> None:
    """Replaces the windows of a SELECT by values, and adds several windows per row to FROM."""
    found = [text.guarded(call, partial(_window_of, call)) for call in calls]
    other = next((call for call, window in zip(calls, found, strict=True) if window != found[0]), None)
    if other is not None:
        hint = "group by one of them in a subquery, and by the other in the outer query"
        raise text.error("two windows of time in one SELECT are not supported", other, hint)
    window, place, parts = found[0], extent(calls[0]), list(_own(node))
    value: exp.Expression = exp.Column(this=exp.to_identifier(WINDOW.lower()))
    if window.count == 1:
        value = window.struct()
    elif node.args.get("from_") is not None:
        alias = exp.TableAlias(this=exp.to_identifier(WINDOW.lower()))
        node.append("joins", exp.Join(this=exp.Unnest(expressions=[window.array()], alias=alias)))
    grouped = node.args.get("group")
    for part in parts:
        name = _part_of(part)
        if name is None:
            continue
        key = window.count == 1 and grouped is not None and part.parent is grouped
        made: exp.Expression = window.first(0) if key else _part(window, value, name)
        if part.parent is node:
            made = exp.Alias(this=made, alias=exp.to_identifier(name or WINDOW.lower()))
        part.replace(made)
    node.where(is_known(window.time), copy=False)
    for one in node.walk():
        if extent(one) is None and place is not None:
            one.meta["span"] = place


def _part(window: _Window, value: exp.Expression, part: str) -> exp.Expression:
    """Returns a window, or a part of it, as a value."""
    if not part:
        return value.copy()
    if part == WINDOW_TIME:  # the last moment in the window
        return shifted(_part(window, value, "end"), -1)
    if window.count == 1:
        return window.first(0) if part == "start" else shifted(window.first(0), window.size)
    return exp.Dot(this=value.copy(), expression=exp.to_identifier(part))


def _part_of(node: exp.Expression) -> str | None:
    """Returns the part of the window that a node reads, '' for the whole window; None if it reads none."""
    if isinstance(node, exp.Anonymous) and node.name.upper() == WINDOW_TIME and len(node.expressions) == 1:
        return WINDOW_TIME if _part_of(node.expressions[0]) == "" else None
    if isinstance(node, exp.Dot) and _part_of(node.this) == "" and node.name.lower() in _PARTS:
        return node.name.lower()
    if isinstance(node, exp.Column) and node.table.upper() == WINDOW and node.name.lower() in _PARTS:
        return node.name.lower()
    if isinstance(node, exp.Column) and not node.table and node.name.upper() == WINDOW:
        return ""
    return _called(node)


def _window_of(node: exp.Expression) -> _Window:
    """Returns the windows of a call."""
    name, args = node.name.upper(), list(node.expressions)
    if name in _HOPS and len(args) != 3:
        hint = "write HOP(at, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)"
        raise PlanError(f"{name} takes a timestamp, the slide and the size of its windows", hint=hint)
    if name == WINDOW and not 2 <= len(args) <= 4:
        hint = "write window(at, '10 minutes', '5 minutes', '1 minute')"
        raise PlanError("WINDOW takes a timestamp, a size, and a slide and a start, which may be left out", hint=hint)
    if name in _HOPS:
        args = [args[0], args[2], args[1]]
    size = length_of(name, args[1])
    slide = length_of(name, args[2]) if len(args) > 2 else size
    given = args[3] if len(args) > 3 else None
    at_zero = given is None or (isinstance(given, exp.Literal) and given.name.strip().startswith("0 "))
    window = _Window(
        name.partition("_")[0], args[0], slide, size, 0 if given is None or at_zero else length_of(name, given)
    )
    windows_per_row(name, slide, size)
    return window
