"""Window functions in plans: their arguments, their frames, and slices by values.

The rows of a partition are ordered, and every copy of a row has a position. *Peers* are rows with the same values in
the ORDER BY columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from plans.types import in_a_word

RANKS = ("row_number", "rank", "dense_rank")
"""Functions whose values move by the same amount in all rows behind a change."""
WHOLE = ("percent_rank", "cume_dist", "ntile")
"""Functions of the number of rows in a partition."""
NEIGHBOURS = ("lag", "lead")
SESSIONS = ("session_start", "session_end")
"""Functions of a session: a run of rows in which each follows the row before it within a gap."""
PICKED = ("first_value", "last_value", "nth_value")
"""Functions whose value is that of one row of the frame; with IGNORE NULLS, of the rows that have a value."""
ENDS = ("min", "max")
CHOSEN = ("max_by", "min_by", "mode")
"""Aggregates whose value is that of one row: the last or the first row by another column that has a value, or the most
frequent value. Ties are broken by the least value, NULL first. In groups they are joins
(`plans.frontends.aggregates`)."""
GATHERED = (
    *CHOSEN, "percentile", "percentile_trunc", "percentile_disc", "string_agg", "array_agg", "bit_and", "bit_or",
    "bit_xor",
)  # fmt: skip
"""Aggregates that read the values of a frame again whenever it changes. So do aggregates of DISTINCT values."""
OWN = (*RANKS, *WHOLE, *NEIGHBOURS, *SESSIONS, *PICKED)
"""Window functions that are not aggregates."""

EVERY_ROW = 2**31 - 1
"""A limit of first rows that no partition reaches: no limit."""
VALUED = ("range", "months")
"""Units of frames that are measured in values."""


@dataclass(frozen=True)
class Order:
    """One column of an order. `falling` is DESC; `nulls_last` is NULLS LAST."""

    json_row: ClassVar[bool] = True
    column: str
    falling: bool = False
    nulls_last: bool = False


@dataclass(frozen=True)
class Frame:
    """The rows that a function reads: those from `start` to `end`, relative to the current row.

    `unit`: `rows` counts rows; `groups` counts groups of peers; `range` and `months` measure the distance of the values
    in the only ORDER BY column from the current row's, where 0 is the first or last peer. A bound is negative for
    PRECEDING, and None for UNBOUNDED. The bound of a range is in the unit of the column's codes: days, microseconds, or
    10^-scale of a decimal. A distance in `months` from a day is the same day of another month, or its last day.
    `exclude`: the rows that the frame leaves out: `row`, `group` (the row and its peers), `ties` (the peers), or
    nothing.
    """

    json_row: ClassVar[bool] = True
    unit: str
    start: int | float | None
    end: int | float | None
    exclude: str = ""

    @property
    def peers(self) -> bool:
        """Returns whether the frame depends on which rows are peers."""
        return self.unit in VALUED or self.exclude in ("group", "ties")

    @property
    def bounded(self) -> bool:
        """Returns whether both sides have a bound."""
        return self.start is not None and self.end is not None

    @property
    def half_bounded(self) -> bool:
        """Returns whether one side has a bound, and the other one has none."""
        return (self.start is None) != (self.end is None)


RUNNING = Frame("range", None, 0)
"""The default frame of a function with ORDER BY."""
PARTITION = Frame("rows", None, None)
"""The frame of a function without ORDER BY."""


@dataclass(frozen=True)
class WindowFunction:
    """A window function: a column `name` of `type` in the stage's outputs.

    `function`: `row_number`, `rank`, `dense_rank`, `percent_rank`, `cume_dist`, `ntile` (of `count` parts), `lag` and
    `lead` (by `count` rows; `default` names the column with the value where there is no such row), `session_start` and
    `session_end` (the time in the first and in the last row of a session; the order begins with this time, ascending,
    and a row belongs to the session of the row before it if it is at most `count` microseconds later), `first_value`,
    `last_value`, `nth_value` (number `count`, 0 is 1; of `last_value` from the end; `default` as before), or an
    aggregate: `min`, `max`, one that is computed from sums (`plans.payloads.sums`), or one that gathers values
    (`GATHERED`). `arguments`, `where`, `distinct`, `share`, `separator` and `by` (its own order) are those of
    `plans.programs.stages.Aggregate`; a function that picks a row picks one that passes `where`. `frame`: of all
    functions from `first_value` on.
    """

    json_may_lack: ClassVar[tuple[str, ...]] = ("distinct", "share", "separator", "by")
    name: str
    type: str
    function: str
    arguments: tuple[str, ...] = ()
    where: str | None = None
    frame: Frame | None = None
    count: int = 0
    default: str | None = None
    distinct: bool = False
    share: float | None = None
    separator: str | None = None
    by: tuple[Order, ...] = ()

    @property
    def read(self) -> tuple[str, ...]:
        """Returns the distinct columns that the function reads."""
        more = (one for one in (self.where, self.default) if one is not None)
        return tuple(dict.fromkeys((*self.arguments, *(one.column for one in self.by), *more)))

    @property
    def gathered(self) -> bool:
        """Returns whether the function reads the values of its frame again whenever the frame changes."""
        return self.distinct or self.function in GATHERED

    @property
    def keeps_values(self) -> bool:
        """Returns whether all values of a partition are stored in their order. In a frame that is open on one side, the
        values outside of those read are either all in the frame, or all outside."""
        if self.frame is None or not self.frame.half_bounded or self.distinct:
            return False
        if self.function in ENDS:
            return not in_a_word(self.type)
        return self.function in ("percentile", "percentile_trunc", "percentile_disc", "max_by", "min_by")

    @property
    def seen(self) -> WindowFunction:
        """Returns a key of the rows that the function reads: functions that read the same rows have equal keys."""
        return replace(self, name="", type="", arguments=(), default=None)

    @property
    def from_row(self) -> bool:
        """Returns whether the function picks a row by counting from the current row, without another bound."""
        if self.frame is None:
            return self.function in (*NEIGHBOURS, *SESSIONS)
        near, far = self.frame.start, self.frame.end
        if self.function == "last_value":
            near, far = far, near
        rows = self.frame.unit == "rows" and not self.frame.exclude
        return self.function in PICKED and rows and near is not None and far is None

    @property
    def running(self) -> bool:
        """Returns whether a change moves the values of all rows behind it by the same amount: the function is a number
        of a row, or an exact COUNT or SUM of all rows so far."""
        if self.function in RANKS:
            return True
        if self.function not in ("count", "count_if", "sum") or self.type == "float64" or self.frame is None:
            return False
        if self.distinct:
            return False
        return self.frame.unit != "groups" and (self.frame.start, self.frame.end, self.frame.exclude) == (None, 0, "")

    @property
    def kind(self) -> str:
        """Returns the name of the kind: `numbering`, `sessions`, `pick`, `running` (one side of the frame has no bound)
        or `frame`."""
        if self.function in (*RANKS, *WHOLE):
            return "numbering"
        if self.function in SESSIONS:
            return "sessions"
        if self.frame is None or self.function in PICKED:
            return "pick"
        return "running" if self.frame.half_bounded else "frame"

    @property
    def flips(self) -> bool:
        """Returns whether the function is MIN or MAX of all rows up to the current row, or from it on. Such a value
        changes only when a better row is inserted, or the row with the value is deleted."""
        if self.function not in ENDS or self.frame is None or self.frame.exclude or self.frame.unit == "groups":
            return False
        return (self.frame.start, self.frame.end) in ((None, 0), (0, None))

    @property
    def apart(self) -> bool:
        """Returns whether copies of one row may have different values."""
        return self.function == "row_number" or (self.frame is not None and self.frame.unit == "rows")

    @property
    def width(self) -> int:
        """Returns the most rows whose values a change of one row can change, or 0 if there is no bound."""
        if self.function in NEIGHBOURS:
            return self.count + 2
        if self.frame is None or self.frame.unit != "rows" or self.frame.start is None or self.frame.end is None:
            return 0
        return int(max(-self.frame.start, 0) + max(self.frame.end, 0)) + 1

    @property
    def growth(self) -> str:
        """Returns which rows a change of one row can change: `local`, `match`, `runs`, `range`, `shift` or `partition`.

        FIRST_VALUE and similar functions of a frame without a bound are local: only a change of the row that they read
        affects distant rows.
        """
        if self.function in WHOLE:
            return "partition"
        if self.function in RANKS:
            return "shift"
        if self.frame is None:
            return "runs" if self.function in SESSIONS else "local"
        if self.function in PICKED and not self.frame.exclude and not self.frame.bounded:
            return "local" if self.where is None else "match"
        if not self.frame.bounded:
            return "partition" if self.frame.start is None and self.frame.end is None else "shift"
        return "local" if self.frame.unit == "rows" else "range"


@dataclass(frozen=True)
class Slice:
    """The rows that a running sum selects: those for which it compares with a bound.

    `summed` names the column that is summed over all rows before a row (`inclusive`: and over the row itself), and
    `bound` the column with the bound; both are exact numbers. A row with a bound is not selected: it sets the bound of
    its partition, which has at most one such row. Without a bound no row is selected. `comparison` is `lt`, `le`, `gt`
    or `ge`: of the sum with the bound. A sum of no value is NULL, and selects no row, or 0 (`zero`).
    """

    json_row: ClassVar[bool] = True
    summed: str
    bound: str
    comparison: str
    inclusive: bool = False
    zero: bool = False


def keep_values(functions: Iterable[WindowFunction]) -> bool:
    """Returns whether values are kept for one of the functions (`WindowFunction.keeps_values`)."""
    return any(one.keeps_values for one in functions)


def kinds(functions: Iterable[WindowFunction], ordered: Iterable[str]) -> tuple[str, ...]:
    """Returns the distinct kinds of the functions of a stage (`WindowFunction.kind`). `ordered`: the columns of its
    order.

    An `ASOF join` orders rows by their side, and tests for each row whether there is a row of the other side.
    """
    functions, ordered = tuple(functions), set(ordered)
    if any(one.where in ordered and one.where in one.arguments for one in functions):
        return ("ASOF join",)
    return tuple(dict.fromkeys(one.kind for one in functions))
