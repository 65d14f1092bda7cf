"""Window functions by definition: every value from all rows of its frame."""

from __future__ import annotations

from calendar import monthrange
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, timedelta
from operator import ge, gt, le, lt
from typing import Any

from plans.programs.frames import CHOSEN, ENDS, NEIGHBOURS, PICKED, SESSIONS, Frame, WindowFunction
from plans.programs.stages import Aggregate, OverStage, SliceStage, TopStage
from plans.types import decimal_parts
from tests.models.aggregates import Row, aggregate, rank

Bag = Counter[Row]


def partitions(stage: TopStage | OverStage | SliceStage, bag: Bag) -> Iterator[list[Row]]:
    """Yields the rows of each group in order. A row is repeated for each copy."""
    place = {output.name: i for i, output in enumerate(stage.feed.columns)}
    order = [(place[one.column], one.falling, one.nulls_last) for one in stage.order]
    order += [(column, False, False) for column in place.values() if column not in {column for column, _, _ in order}]
    groups: dict[Row, list[Row]] = defaultdict(list)
    for row, copies in bag.items():
        groups[tuple(row[place[key]] for key in stage.keys)] += [row] * copies
    for rows in groups.values():
        for column, falling, nulls_last in reversed(order):  # sorting is stable: the last column first
            values = [row for row in rows if row[column] is not None]
            values.sort(key=lambda row: rank(row[column]), reverse=falling)
            nulls = [row for row in rows if row[column] is None]
            rows = values + nulls if nulls_last else nulls + values
        yield rows


def over(stage: OverStage, bag: Bag) -> Bag:
    """Returns the rows of an over stage: the rows that enter, with the values of its functions."""
    out: Bag = Counter()
    for rows in partitions(stage, bag):
        values = _Partition(stage, rows)
        for i, row in enumerate(rows):
            out[(*row[: len(row) - stage.hidden], *(values.value(call, i) for call in stage.functions))] += 1
    return out


def sliced(stage: SliceStage, bag: Bag) -> Bag:
    """Returns the rows of a slice stage. Each is compared by the sum of all rows before it with the bound."""
    positions, out = {output.name: i for i, output in enumerate(stage.feed.columns)}, Counter[Row]()
    summed, bound = positions[stage.slice.summed], positions[stage.slice.bound]
    for rows in partitions(stage, bag):
        bounds = [row[bound] for row in rows if row[bound] is not None]
        assert len(bounds) < 2, "a partition has two bounds"
        for i, row in enumerate(rows):
            values = [one[summed] for one in rows[: i + stage.slice.inclusive] if one[summed] is not None]
            if row[bound] is None and bounds and (values or stage.slice.zero):
                out[row[:-2]] += _COMPARED[stage.slice.comparison](sum(values), bounds[0])
    return +out


_COMPARED: dict[str, Callable[[Any, Any], bool]] = {"lt": lt, "le": le, "gt": gt, "ge": ge}


class _Partition:
    """The rows of a partition in order, by column, and the number of the group of peers of each."""

    def __init__(self, stage: OverStage, rows: Sequence[Row]) -> None:
        names = [column.name for column in stage.feed.columns]
        self.types = {column.name: column.type for column in stage.feed.columns}
        self.rows = [dict(zip(names, row, strict=True)) for row in rows]
        self.order = stage.order
        keys = [tuple(row[one.column] for one in stage.order) for row in self.rows]
        self.group = [0] * len(rows)
        for i in range(1, len(rows)):
            self.group[i] = self.group[i - 1] + (keys[i] != keys[i - 1])
        self.frames: dict[tuple[Frame, int], list[dict[str, Any]]] = {}  # functions of one frame share its rows
        self.sessions: dict[tuple[str, int], list[list[Any]]] = {}

    def value(self, call: WindowFunction, i: int) -> Any:
        """Returns the value of a function for row ``i``."""
        n, ties = len(self.rows), self.group.count(self.group[i])
        before = self.group.index(self.group[i])
        ranking: dict[str, Callable[[], Any]] = {
            "row_number": lambda: i + 1,
            "rank": lambda: before + 1,
            "dense_rank": lambda: self.group[i] + 1,
            "percent_rank": lambda: before / max(n - 1, 1),
            "cume_dist": lambda: (before + ties) / n,
            "ntile": lambda: next(t for t in range(1, call.count + 1) if i < self._tiles(n, call.count, t)),
        }
        if call.function in ranking:
            return ranking[call.function]()
        if call.function in NEIGHBOURS:
            at = i - call.count if call.function == "lag" else i + call.count
            if 0 <= at < n:
                return self.rows[at][call.arguments[0]]
            return None if call.default is None else self.rows[i][call.default]
        if call.function in SESSIONS:
            return self._session(call, i)[0 if call.function == "session_start" else -1]
        assert call.frame is not None, "the other functions have a frame"
        rows = self._rows_in_frame(call.frame, i)
        if call.where is not None and call.function in (*PICKED, *ENDS):
            rows = [row for row in rows if row[call.where] is True]
        if call.function in PICKED:
            at = len(rows) - (call.count or 1) if call.function == "last_value" else (call.count or 1) - 1
            row = rows[at] if 0 <= at < len(rows) else None
            if row is not None:
                return row[call.arguments[0]]
            return None if call.default is None else self.rows[i][call.default]
        if call.function in CHOSEN:
            return _pick_by(call, [row for row in rows if call.where is None or row[call.where] is True])
        return aggregate(Aggregate.of(call), [(row, 1) for row in rows], self.types)

    def _session(self, call: WindowFunction, i: int) -> list[Any]:
        """Returns the times of the session of row ``i``."""
        column, gap = call.arguments[0], call.count
        if (column, gap) not in self.sessions:
            sessions: list[list[Any]] = []
            for time in (row[column] for row in self.rows):
                if not sessions or _gap(sessions[-1][-1], time) > gap:
                    sessions.append([])
                sessions[-1].append(time)
            self.sessions[column, gap] = [session for session in sessions for _ in session]
        return self.sessions[column, gap][i]

    @staticmethod
    def _tiles(n: int, parts: int, number: int) -> int:
        """Returns the end of part ``number``. The first parts have one row more."""
        return number * (n // parts) + min(number, n % parts)

    def _rows_in_frame(self, frame: Frame, i: int) -> list[dict[str, Any]]:
        """Returns the rows in the frame of row ``i``."""
        if (frame, i) not in self.frames:
            self.frames[frame, i] = [row for j, row in enumerate(self.rows) if self._in_frame(frame, i, j)]
        return self.frames[frame, i]

    def _in_frame(self, frame: Frame, i: int, j: int) -> bool:
        """Returns whether row ``j`` is in the frame of row ``i``."""
        if j == i and frame.exclude in ("row", "group"):
            return False
        if j != i and self.group[j] == self.group[i] and frame.exclude in ("group", "ties"):
            return False
        return self._within_bound(frame, frame.start, i, j, -1) and self._within_bound(frame, frame.end, i, j, 1)

    def _within_bound(self, frame: Frame, bound: float | None, i: int, j: int, side: int) -> bool:
        """Returns whether row ``j`` is on the right side of a bound."""
        if bound is None:
            return True
        if frame.unit == "rows":
            return side * (j - i - bound) <= 0
        if frame.unit == "groups":
            return side * (self.group[j] - self.group[i] - bound) <= 0
        if bound == 0:
            return side * (self.group[j] - self.group[i]) <= 0
        (order,) = self.order
        own, other = self.rows[i][order.column], self.rows[j][order.column]
        if own is None or other is None:  # NULLs have no distance: each is in the frame of the others
            return side * (self.group[j] - self.group[i]) <= 0
        if order.falling:
            bound = -bound
        if frame.unit == "months":
            own, bound = _months_later(own, int(bound)), 0
        own, other = (_number(value, self.types[order.column]) for value in (own, other))
        left, right = rank(other), rank(own + bound)
        if order.falling:
            left, right = right, left
        return bool(left <= right if side > 0 else left >= right)


def _pick_by(call: WindowFunction, rows: Sequence[dict[str, Any]]) -> Any:
    """Returns the value of the last or the first row by another column, or the most frequent value.

    Of several most frequent values it is the least.
    """
    x, y = call.arguments[0], call.arguments[-1]
    rows = sorted((row for row in rows if row[y] is not None), key=lambda row: (row[x] is not None, rank(row[x])))
    if call.function == "mode":
        values = [row[x] for row in rows]
        return max(values, key=values.count, default=None)
    pick = min if call.function == "min_by" else max
    row = pick(rows, key=lambda row: rank(row[y]), default=None)
    return None if row is None else row[x]


def _months_later(value: Any, months: int) -> Any:
    """Returns a date or a timestamp some months later. The day is the last of the month if that is too short."""
    year, month = divmod(12 * value.year + value.month - 1 + months, 12)
    if not MINYEAR <= year <= MAXYEAR:
        return type(value).max if year > MAXYEAR else type(value).min
    return value.replace(year=year, month=month + 1, day=min(value.day, monthrange(year, month + 1)[1]))


def _gap(before: datetime, behind: datetime) -> int:
    """Returns the microseconds from one time to another."""
    return (behind - before) // timedelta(microseconds=1)


def _number(value: Any, type_: str) -> Any:
    """Returns a value in the unit of frames."""
    parts = decimal_parts(type_)
    if parts is not None:
        return int(value.scaleb(parts[1]))
    if isinstance(value, datetime):
        zone = UTC if value.tzinfo else None
        return (value - datetime(1970, 1, 1, tzinfo=zone)) // timedelta(microseconds=1)
    return value.toordinal() if isinstance(value, date) else value
