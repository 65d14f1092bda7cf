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
    """Yields the rows of each group in order, each copy by itself."""
    place = {output.name: i for i, output in enumerate(stage.feed.columns)}
    said = [(place[one.column], one.falling, one.nulls_last) for one in stage.order]
    said += [(at, False, False) for at in place.values() if at not in {known for known, _, _ in said}]
    groups: dict[Row, list[Row]] = defaultdict(list)
    for row, copies in bag.items():
        groups[tuple(row[place[key]] for key in stage.keys)] += [row] * copies
    for rows in groups.values():
        for at, falling, nulls_last in reversed(said):  # sorting is stable: the last column first
            values = [row for row in rows if row[at] is not None]
            values.sort(key=lambda row: rank(row[at]), reverse=falling)
            nulls = [row for row in rows if row[at] is None]
            rows = values + nulls if nulls_last else nulls + values
        yield rows


def over(stage: OverStage, bag: Bag) -> Bag:
    """Returns the rows of an over stage: those that enter, each copy by itself, with the values of its functions."""
    found: Bag = Counter()
    for rows in partitions(stage, bag):
        values = _Partition(stage, rows)
        for i, row in enumerate(rows):
            found[(*row[: len(row) - stage.hidden], *(values.of(one, i) for one in stage.functions))] += 1
    return found


def sliced(stage: SliceStage, bag: Bag) -> Bag:
    """Returns the rows of a slice stage: each compares the sum over all rows before it with the bound."""
    place, found = {output.name: i for i, output in enumerate(stage.feed.columns)}, Counter[Row]()
    summed, bound = place[stage.slice.summed], place[stage.slice.bound]
    for rows in partitions(stage, bag):
        bounds = [row[bound] for row in rows if row[bound] is not None]
        assert len(bounds) < 2, "a partition has two bounds"
        for i, row in enumerate(rows):
            values = [one[summed] for one in rows[: i + stage.slice.inclusive] if one[summed] is not None]
            if row[bound] is None and bounds and (values or stage.slice.zero):
                found[row[:-2]] += _COMPARED[stage.slice.comparison](sum(values), bounds[0])
    return +found


_COMPARED: dict[str, Callable[[Any, Any], bool]] = {"lt": lt, "le": le, "gt": gt, "ge": ge}


class _Partition:
    """The rows of a partition in order, by column, and which of them are peers."""

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

    def of(self, one: WindowFunction, i: int) -> Any:
        """Returns the value of a function for row ``i``."""
        n, ties = len(self.rows), self.group.count(self.group[i])
        before = self.group.index(self.group[i])
        known: dict[str, Callable[[], Any]] = {
            "row_number": lambda: i + 1,
            "rank": lambda: before + 1,
            "dense_rank": lambda: self.group[i] + 1,
            "percent_rank": lambda: before / max(n - 1, 1),
            "cume_dist": lambda: (before + ties) / n,
            "ntile": lambda: next(t for t in range(1, one.count + 1) if i < self._tiles(n, one.count, t)),
        }
        if one.function in known:
            return known[one.function]()
        if one.function in NEIGHBOURS:
            at = i - one.count if one.function == "lag" else i + one.count
            if 0 <= at < n:
                return self.rows[at][one.arguments[0]]
            return None if one.default is None else self.rows[i][one.default]
        if one.function in SESSIONS:
            return self._session(one, i)[0 if one.function == "session_start" else -1]
        assert one.frame is not None, "all others have a frame"
        rows = self._framed(one.frame, i)
        if one.where is not None and one.function in (*PICKED, *ENDS):
            rows = [row for row in rows if row[one.where] is True]
        if one.function in PICKED:
            at = len(rows) - (one.count or 1) if one.function == "last_value" else (one.count or 1) - 1
            found = rows[at] if 0 <= at < len(rows) else None
            if found is not None:
                return found[one.arguments[0]]
            return None if one.default is None else self.rows[i][one.default]
        if one.function in CHOSEN:
            return _chosen(one, [row for row in rows if one.where is None or row[one.where] is True])
        return aggregate(Aggregate.of(one), [(row, 1) for row in rows], self.types)

    def _session(self, one: WindowFunction, i: int) -> list[Any]:
        """Returns the times of the session of row ``i``."""
        column, gap = one.arguments[0], one.count
        if (column, gap) not in self.sessions:
            found: list[list[Any]] = []
            for time in (row[column] for row in self.rows):
                if not found or _gap(found[-1][-1], time) > gap:
                    found.append([])
                found[-1].append(time)
            self.sessions[column, gap] = [session for session in found for _ in session]
        return self.sessions[column, gap][i]

    @staticmethod
    def _tiles(n: int, parts: int, number: int) -> int:
        """Returns where part ``number`` ends: the first ones have a row more."""
        return number * (n // parts) + min(number, n % parts)

    def _framed(self, frame: Frame, i: int) -> list[dict[str, Any]]:
        """Returns the rows in the frame of row ``i``."""
        if (frame, i) not in self.frames:
            self.frames[frame, i] = [row for j, row in enumerate(self.rows) if self._inside(frame, i, j)]
        return self.frames[frame, i]

    def _inside(self, frame: Frame, i: int, j: int) -> bool:
        """Returns whether row ``j`` is in the frame of row ``i``."""
        if j == i and frame.exclude in ("row", "group"):
            return False
        if j != i and self.group[j] == self.group[i] and frame.exclude in ("group", "ties"):
            return False
        return self._reaches(frame, frame.start, i, j, -1) and self._reaches(frame, frame.end, i, j, 1)

    def _reaches(self, frame: Frame, bound: float | None, i: int, j: int, side: int) -> bool:
        """Returns whether row ``j`` is on the right side of a bound."""
        if bound is None:
            return True
        if frame.unit == "rows":
            return side * (j - i - bound) <= 0
        if frame.unit == "groups":
            return side * (self.group[j] - self.group[i] - bound) <= 0
        if bound == 0:
            return side * (self.group[j] - self.group[i]) <= 0
        (by,) = self.order
        here, there = self.rows[i][by.column], self.rows[j][by.column]
        if here is None or there is None:  # NULLs are no values: they are the frame of one another
            return side * (self.group[j] - self.group[i]) <= 0
        if by.falling:
            bound = -bound
        if frame.unit == "months":
            here, bound = _months_later(here, int(bound)), 0
        here, there = (_number(value, self.types[by.column]) for value in (here, there))
        left, right = rank(there), rank(here + bound)
        if by.falling:
            left, right = right, left
        return bool(left <= right if side > 0 else left >= right)


def _chosen(one: WindowFunction, rows: Sequence[dict[str, Any]]) -> Any:
    """Returns the value of the last or the first row by another column, or the commonest value, of ties the least."""
    x, y = one.arguments[0], one.arguments[-1]
    rows = sorted((row for row in rows if row[y] is not None), key=lambda row: (row[x] is not None, rank(row[x])))
    if one.function == "mode":
        values = [row[x] for row in rows]
        return max(values, key=values.count, default=None)
    picked = min if one.function == "min_by" else max
    found = picked(rows, key=lambda row: rank(row[y]), default=None)
    return None if found is None else found[x]


def _months_later(value: Any, months: int) -> Any:
    """Returns a date or a time so many months later, on the last day of a month that is too short."""
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
