"""Windows of relations: the rows of a stream that are kept, by number, or by event time and a watermark.

A window is declared with a query (`plans.planner.program(..., windows={"events": ttl("at", "1 hour")})`) and says how
long the rows of a relation are kept. At any time, the result is that of the query over the rows within the window.

*Event time.* The watermark of a relation is the greatest event time of its inserts so far, minus the allowed lateness.
It never moves back, and only rows of this relation (or `View.advance`) move it. Rows expire in steps: a row of time `t`
is kept until the watermark reaches `floor(t / step) * step + size`. With steps of one unit this is a time to live; with
steps as long as the window these are tumbling windows.

*Clock.* A query that reads the clock by `NOW()` reads a table of one row, `CLOCK`, whose column `now` is the time.
Moving the clock is an ordinary change of this row: it is part of a batch, written to logs with the batch, replayed and
undone with it. The row is an upsert by a constant key with the time as its sequence, so the clock never moves back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

from plans.errors import PlanError
from plans.nested import is_nested
from plans.schema import Column, Table
from plans.time import durations
from plans.types import shown

LATE = ("drop", "quarantine", "raise")
_LEAST, _MOST = -(2**63), 2**63 - 1
_TIMED = {"timestamp": durations.MICROSECOND, "timestamp_ntz": durations.MICROSECOND, "date": durations.DAY}
_NUMBERED = ("int32", "int64")


@dataclass(frozen=True)
class Window:
    """A window over the rows of `relation`, made by `last_rows`, `ttl`, `tumbling` and `sliding`.

    `rows`: the number of rows that are kept, or 0 if event time decides. `by`: the column that says in which order rows
    expire, "" for the order of arrival. `size`, `step` and `lateness` are in units of that column: microseconds, days,
    or the unit of its integers. `late`: what happens to rows that arrive too late. `unit`: microseconds of a unit of
    that column, or 0 if it is a number; before a window is bound to a relation, 1 for durations.
    """

    relation: str = ""
    rows: int = 0
    by: str = ""
    size: int = 0
    step: int = 1
    lateness: int = 0
    late: str = "drop"
    unit: int = 0

    @property
    def counts(self) -> bool:
        """Returns True for a window over a number of rows."""
        return self.rows > 0

    @property
    def arrival(self) -> bool:
        """Returns True if rows expire in the order of their arrival."""
        return not self.by

    def expired_until(self, watermark: int) -> int:
        """Returns the greatest event time whose rows have expired when the watermark has this value."""
        _check_time(watermark)
        return max(min(((watermark - self.size) // self.step + 1) * self.step - 1, _MOST), _LEAST)

    def watermark_of(self, greatest: int) -> int:
        """Returns the watermark when `greatest` is the greatest event time so far."""
        _check_time(greatest)
        return max(greatest - self.lateness, _LEAST + 1)

    def __str__(self) -> str:
        if self.counts:
            return f"the last {self.rows:,} rows" + (f" by {self.by}" if self.by else "")
        late = f", watermark {self._length(self.lateness)} behind" if self.lateness else ""
        late += "" if self.late == "drop" else f", late rows: {self.late}"
        if self.step == 1:
            return f"{self._length(self.size)} by {self.by}{late}"
        if self.step == self.size:
            return f"open windows of {self._length(self.size)} by {self.by}{late}"
        return f"open windows of {self._length(self.size)} every {self._length(self.step)} by {self.by}{late}"

    def _length(self, units: int) -> str:
        return durations.shown(units * self.unit) if self.unit else f"{units:,}"


def last_rows(rows: int, *, by: str | None = None) -> Window:
    """Returns the window of the last `rows` rows: each further insert removes the oldest row.

    `by`: a column that orders rows by age. Without it, rows expire in the order of their arrival; rows of one batch
    arrive in the order of the batch. A delete removes the oldest copy of its row, and no expired row returns in its
    place.

    >>> str(last_rows(10_000))
    'the last 10,000 rows'
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or not 0 < rows < 2**31:
        raise PlanError(f"last_rows({rows!r}): give a whole number of rows, 1 or more")
    return Window(rows=rows, by="" if by is None else _column(by, "last_rows"))


def _check_time(given: Any) -> None:
    if not isinstance(given, (int, Integral)):
        raise PlanError(f"a time is given as the whole number that is stored, not {shown(given)}")


def ttl(column: str, length: Any, *, lateness: Any = 0, late: str = "drop") -> Window:
    """Returns the window of rows younger than `length`, by event time: a row of time `t` is kept while `t + length` is
    after the watermark.

    `column`: a timestamp, a date, or an integer. `length` and `lateness`: `"1 hour 30 minutes"`, a `timedelta`, or
    integers if the column is one. `lateness`: how far the watermark stays behind the greatest event time so far.
    `late`: rows that have expired before they arrive are dropped and counted (`"drop"`), written to the quarantine with
    the reason (`"quarantine"`), or make their batch fail (`"raise"`).

    >>> ttl("at", "1 hour", lateness="5 minutes").size
    3600000000
    """
    size, timed = _length(length, "length", column)
    return _timed("ttl", column, size, 1, timed, lateness, late)


def tumbling(column: str, size: Any, *, lateness: Any = 0, late: str = "drop") -> Window:
    """Returns the open windows of length `size`: all rows of a window expire when the watermark reaches its end.

    Windows begin at multiples of their length, counted from 1970-01-01 00:00 (UTC for instants). Arguments as for
    `ttl`.
    """
    length, timed = _length(size, "size", column)
    return _timed("tumbling", column, length, length, timed, lateness, late)


def sliding(column: str, size: Any, slide: Any, *, lateness: Any = 0, late: str = "drop") -> Window:
    """Returns the open windows of length `size`, one of which begins every `slide`: a row expires when the watermark
    reaches the end of the last window that contains it.

    Arguments as for `ttl`. Raises PlanError unless `slide` is at most `size`, because some rows would be in no window.
    """
    length, timed = _length(size, "size", column)
    step, also = _length(slide, "slide", column)
    if timed != also:
        raise PlanError(f"sliding windows of {size!r} every {slide!r}: give both as lengths of time, or as numbers")
    if step > length:
        raise PlanError(
            f"sliding windows of {size!r} every {slide!r} leave out the rows between them",
            hint="use a slide of at most the size",
        )
    return _timed("sliding", column, length, step, timed, lateness, late)


def _timed(what: str, column: str, size: int, step: int, timed: bool, lateness: Any, late: str) -> Window:
    if not isinstance(late, str) or late not in LATE:
        raise PlanError(f"late={late!r} is not supported", hint=f"use one of {', '.join(LATE)}")
    none = isinstance(lateness, (int, float)) and lateness == 0
    waits, also = (0, timed) if none else _length(lateness, "lateness", column)
    if timed != also:
        raise PlanError(
            f"{what} over {column}: the lateness {lateness!r} and the window are not of one kind",
            hint="give both as lengths of time, or as numbers",
        )
    return Window(by=_column(column, what), size=size, step=step, lateness=waits, late=late, unit=int(timed))


def _column(given: Any, what: str) -> str:
    if not isinstance(given, str) or not given:
        raise PlanError(f"{what}: the name of a column is a text, not {given!r}")
    return given


def _length(given: Any, name: str, column: Any) -> tuple[int, bool]:
    """Returns a length, and whether it is a duration (in microseconds)."""
    if isinstance(given, int) and not isinstance(given, bool):
        length, timed = given, False
    else:
        found = durations.microseconds(given)
        if found is None:
            raise PlanError(
                f"{name} {given!r} of the window over {column} is not a length of time",
                hint='write "10 minutes", "1 day 12 hours" or a timedelta (months and years have no fixed length), or '
                "a whole number if the column is one",
            )
        length, timed = found, True
    if not 0 < length < 2**62:
        raise PlanError(f"{name} {given!r} of the window over {column} must be more than 0, and less than 2^62 units")
    return length, timed


def bound(windows: Mapping[str, Window] | None, tables: Mapping[str, Table]) -> tuple[Window, ...]:
    """Returns the windows of relations, in units of their columns, in the order of `tables`.

    Raises PlanError for a relation that does not exist or is updated by key, a missing column, and a column whose type
    is not a time.
    """
    if windows is None:
        return ()
    if not isinstance(windows, Mapping):
        raise PlanError('windows= takes a window per relation, like {"events": crown.ttl("at", "1 hour")}')
    found: dict[str, Window] = {}
    for name, window in windows.items():
        table = next((t for t in tables.values() if isinstance(name, str) and t.name.lower() == name.lower()), None)
        if table is None:
            known = ", ".join(t.name for t in tables.values())
            raise PlanError(f"windows= names the relation {name!r}, which the query does not read; it reads {known}")
        if not isinstance(window, Window):
            raise PlanError(
                f"the window of {name} is {window!r}", hint="make it by last_rows, ttl, tumbling or sliding"
            )
        if table.name in found:
            raise PlanError(f"windows= has two windows for {table.name}")
        found[table.name] = _bound(window, table)
    return tuple(found[table.name] for table in tables.values() if table.name in found)


def _bound(window: Window, table: Table) -> Window:
    if table.upserts:
        raise PlanError(
            f"relation {table.name} has a window and upserts, but the row of a key stays until a change of the key",
            hint="leave the window out, or declare the table without upserts",
        )
    if table.enforced:
        raise PlanError(
            f"relation {table.name} has a window and an enforced key, but a row that leaves the window keeps its key "
            "until it is deleted",
            hint="leave the window out, or declare the key without enforced",
        )
    if not window.by:
        return replace(window, relation=table.name)
    column = table.column(window.by)
    if column is None:
        known = ", ".join(c.name for c in table.columns)
        raise PlanError(f"the window of {table.name} is by {window.by}, which is not one of its columns: {known}")
    named = replace(window, relation=table.name, by=column.name)
    if window.counts:
        if is_nested(column.type):
            raise PlanError(
                f"the window of {table.name} is by {column.name}, which is {column.type}",
                hint="the last rows are those of the greatest values, and values with parts have no order",
            )
        return named
    unit = _TIMED.get(column.type, 0)
    if not unit and column.type not in _NUMBERED:
        raise PlanError(
            f"the window of {table.name} is by {column.name}, which is {column.type}",
            hint="a time is a timestamp, a date or a whole number",
        )
    if bool(window.unit) != bool(unit):
        wanted = "lengths of time" if unit else "whole numbers"
        raise PlanError(f"the window of {table.name} is by {column.name}, which is {column.type}: give {wanted}")
    each = unit or 1
    step = window.step if window.step == 1 else window.step // each
    if window.size % each or window.lateness % each or (window.step > 1 and window.step % each):
        raise PlanError(f"the window of {table.name} is by {column.name}, which is a date: give whole days")
    return replace(named, size=window.size // each, step=step, lateness=window.lateness // each, unit=unit)


def not_null(tables: tuple[Table, ...], windows: tuple[Window, ...]) -> tuple[Table, ...]:
    """Returns the tables in which the columns that order windows are NOT NULL, because a row without a time has no
    position."""
    by = {window.relation.lower(): window.by.lower() for window in windows if window.by}
    return tuple(
        replace(
            table,
            columns=tuple(
                replace(column, required=column.required or by.get(table.name.lower()) == column.name.lower())
                for column in table.columns
            ),
        )
        for table in tables
    )


NAME = "now()"
"""The name of the relation."""
KEY, NOW = "clock", "now"
"""The columns of the relation: the key of its single row, 0, and the time."""
CLOCK = Table(
    NAME,
    (Column(KEY, "int32", required=True), Column(NOW, "timestamp", required=True)),
    key=(KEY,),
    upserts=True,
    sequence=NOW,
)


def reads_clock(tables: Iterable[Table]) -> bool:
    """Returns whether one of the tables is the clock."""
    return any(table.name == NAME for table in tables)
