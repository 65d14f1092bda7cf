"""Translates `session_window` in Spark's plan: a struct that a projection makes of a single row, and that GROUP BY
groups into sessions.

The struct has a number, as every column. The translation records the numbers and gaps of sessions where the struct is
made, because the grouping column in Spark's plan does not contain them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from plans.errors import PlanError
from plans.expressions.build import Expr, call, lit
from plans.frontends.catalyst.blocks import Block, Named, Reading, distinct_names
from plans.frontends.catalyst.tree import Node
from plans.frontends.fields import struct
from plans.frontends.frames import session_end, sessions
from plans.time import durations

CONVERTED = "PreciseTimestampConversion"
_HIDDEN = -1_000_000  # not a column of any plan


@dataclass(frozen=True)
class Session:
    """The session of a GROUP BY: the number of Spark's struct, its first time as a key, the time of a row, and the
    gap."""

    id: int
    start: Expr
    time: Expr
    gap: int

    def part(self, node: Node, greatest: Callable[[Expr], Expr]) -> Expr | None:
        """Returns the part of the struct that a node reads, or None if it reads another value. `greatest`: an aggregate
        of the rows."""
        if node.kind == "GetStructField" and self._is_session(node.child):
            return session_end(greatest(self.time), self.gap) if int(node.fields["ordinal"]) else self.start
        return (
            struct([self.start, session_end(greatest(self.time), self.gap)], ["start", "end"])
            if self._is_session(node)
            else None
        )

    def refused(self, node: Node) -> None:
        """Raises PlanError if a node is the struct, because its end is unknown within the rows of a session."""
        if self._is_session(node):
            raise PlanError("an aggregate of session_window is not supported", hint="aggregate the time column instead")

    def _is_session(self, node: Node) -> bool:
        return node.kind == "AttributeReference" and node.id == self.id


def note(item: Node, reading: Reading) -> None:
    """Records the gap of a projected column if it is a `session_window`, possibly renamed."""
    value = item.child if item.kind == "Alias" else item
    if value.kind == "AttributeReference":
        if value.id in reading.gaps:
            reading.gaps[item.id] = reading.gaps[value.id]
        return
    if value.kind != "CreateNamedStruct" or len(value.children) != 4:
        return
    start, end = (_bare(value.children[i]) for i in (1, 3))
    if start.kind != CONVERTED or start.child.kind != CONVERTED:  # `window` is computed
        return
    sum_ = _bare(end.child.child) if end.kind == CONVERTED else end
    gap = gap_of(sum_.children[1]) if sum_.kind == "TimestampAddInterval" else None
    if gap is None or gap <= 0:
        raise PlanError("session_window takes a constant gap above 0", hint="write session_window(at, '10 minutes')")
    reading.gaps[item.id] = gap


def gap_of(span: Node) -> int | None:
    """Returns the microseconds of a text that is cast to an interval, or None if it is not a constant of fixed
    length."""
    if span.kind != "Cast" or span.fields["dataType"] != "interval" or span.child.kind != "Literal":
        return None
    return durations.microseconds(span.child.fields.get("value"))


def _bare(node: Node) -> Node:
    """Returns the expression below casts that keep a moment, and below annotations on NULLs."""
    while node.kind in ("KnownNullable", "Cast"):
        node = node.child
    return node


def in_sessions(key: Node, value: Expr, block: Block, keys: list[Expr], reading: Reading) -> tuple[Block, Session]:
    """Returns the rows of a block with the beginnings of their sessions, and the session. `key` is the node of Spark's
    struct, `value` its translation, and `keys` are the other grouping values."""
    gap = reading.gaps[key.id]
    time = value.args[1] if value.op == "named_struct" else call("get_field", value, lit("start"))
    key_columns = [Named(_HIDDEN - i, "key", one) for i, one in enumerate(keys)]
    columns = (*block.columns, *key_columns, Named(_HIDDEN, "at", time))
    known = call("not", call("isnull", time))
    rows = replace(block, columns=columns, conditions=(*block.conditions, known))
    names = distinct_names(rows)
    first = len(block.columns)
    over = sessions(reading.query(rows, names), names[first:-1], names[-1], gap, ends=False)
    shown = (*columns, Named(_HIDDEN, "start", time))
    made = reading.derived(over, shown, tuple(column.name for column in over.columns), "sessions")
    at, start = (column.value for column in made.columns[-2:])
    return replace(made, columns=made.columns[:first]), Session(key.id, start, at, gap)
