"""SESSION in FROM and in GROUP BY: windows that end when a key has no row for some time.

Part of `plans.frontends.sql`.

    FROM SESSION(clicks, user, at, '10 minutes') AS s     columns of clicks, window_start, window_end
    GROUP BY user, SESSION(at, INTERVAL '10' MINUTE)      with SESSION_START and SESSION_END of the same arguments
    GROUP BY user, session_window(at, '10 minutes')       with session_window.start and session_window.end

In GROUP BY, the start identifies a session, and its end is computed from the last row. So a new last row does not
change the other rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from plans.errors import PlanError
from plans.expressions.build import Expr, call, col
from plans.frontends.frames import session_end, sessions
from plans.frontends.sql.scalars.interval import SESSION, SESSION_WINDOW, SESSIONS, length_of
from plans.frontends.sql.scope import Frame, Names, Outputs
from plans.queries.algebra import Over, Query, Source

_TIMES = ("timestamp", "timestamp_ntz")


def is_sessions(node: exp.Expression) -> bool:
    """Returns whether a node of FROM is a call of SESSION."""
    called = node.this if isinstance(node, exp.Table) else None
    return isinstance(called, exp.Anonymous) and called.name.upper() == SESSION


def arguments_of(node: exp.Table) -> tuple[exp.Table, list[exp.Column], exp.Expression]:
    """Returns the table of a call of SESSION, the columns of its keys followed by that of the time, and the gap."""
    args = list(node.this.expressions)
    if len(args) < 3 or not all(isinstance(arg, exp.Column) and not arg.table for arg in args[:-1]):
        raise PlanError(
            "SESSION in FROM takes a table, the columns of its keys, a column with a time, and the gap",
            hint="write SESSION(orders, shop, at, INTERVAL '10' MINUTE)",
        )
    return exp.Table(this=args[0].this.copy()), args[1:-1], args[-1]


def in_sessions(source: Source, shown: Outputs, columns: Sequence[Expr], gap: Any, frame: Frame, text: str) -> Source:
    """Returns the rows of a source, with the columns `shown`, and the start and end of their sessions.

    `columns` are the keys followed by the time.
    """
    names = {expr: name for name, expr in shown}
    *keys, time = (names[one] for one in columns)
    session = Session(columns[-1], _gap_of(SESSION, columns[-1], gap))
    over = session.over(Query(text, (source,), (), shown, False), keys, time, ends=True)
    found = frame.derived(over, "sessions")
    first, last = (found.qualified(one.name) for one in over.functions)
    bounds = (("window_start", first), ("window_end", session_end(last, session.gap)))
    rows = tuple((name, found.qualified(name)) for name, _ in shown)
    return frame.derived(Query(text, (found,), (), (*rows, *bounds), False), "sessions")


@dataclass(frozen=True)
class Session:
    """SESSION in GROUP BY: rows whose `time` is at most `gap` microseconds after that of another row with the same
    keys."""

    time: Expr
    gap: int

    @property
    def key(self) -> Expr:
        """Returns the column that identifies a session: its start."""
        return col("@session", self.time.type)

    def over(self, rows: Query, keys: Sequence[str], time: str, *, ends: bool) -> Over:
        """Returns the rows that have a time, with the start of their session, and with `ends` also with its last
        time."""
        known = call("not", call("isnull", dict(rows.outputs)[time]))
        return sessions(replace(rows, conditions=(*rows.conditions, known)), keys, time, self.gap, ends=ends)

    def starts(self, rows: Query, keys: Sequence[str], time: str, start: str) -> Query:
        """Returns the rows with the starts of their sessions, as the column `start`."""
        over = self.over(rows, keys, time, ends=False)
        source = Frame(Names()).derived(over, "sessions")
        (first,) = (one.name for one in over.functions)
        shown = tuple((name, source.qualified(name)) for name, _ in rows.outputs)
        return Query(rows.text, (source,), (), (*shown, (start, source.qualified(first))), False)


def is_session(node: exp.Expression) -> bool:
    """Returns whether a node calls a function of a session."""
    return isinstance(node, exp.Anonymous) and node.name.upper() in SESSIONS


def session_part(node: exp.Expression) -> str:
    """Returns the function of a session that a node calls, or the part of Spark's struct `session_window` that it
    reads, or an empty string."""
    if is_session(node):
        return node.name.upper()
    if isinstance(node, exp.Dot) and is_session(node.this) and node.this.name.upper() == SESSION_WINDOW:
        return f"{SESSION_WINDOW}.{node.name.upper()}"
    if not isinstance(node, exp.Column) or (node.table or node.name).upper() != SESSION_WINDOW:
        return ""
    return f"{SESSION_WINDOW}.{node.name.upper()}" if node.table else SESSION_WINDOW


def session_of(node: exp.Expression, read: Callable[[exp.Expression], Expr]) -> Session:
    """Returns the session of a call."""
    name = session_part(node)
    if len(node.expressions) != 2:
        raise PlanError(f"{name} takes a timestamp and a gap, not {len(node.expressions)} arguments")
    time = read(node.expressions[0])
    return Session(time, _gap_of(name, time, node.expressions[1]))


def _gap_of(name: str, time: Expr, gap: Any) -> int:
    if time.type not in _TIMES:
        raise PlanError(f"{name} takes a timestamp, not {time.type}", hint="use CAST")
    return length_of(name, gap)
