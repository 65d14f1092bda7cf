"""The readable twin of a relation with a window (``crown.stages.tables.windowed_table``): a list of copies."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from plans.schema import Column
from plans.time.windows import Window

Row = tuple[Any, ...]
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class WindowReference:
    """The copies of rows within ``window``. ``columns``: those of the rows."""

    def __init__(self, window: Window, columns: Sequence[Column]) -> None:
        self.window = window
        self._time_column = [column.name for column in columns].index(window.by) if window.by else -1
        self.copies: list[tuple[int, Row]] = []  # number of the arrival, row
        self._arrived = 0
        self.watermark: int | None = None
        self.late = self.expired = self.missing = 0

    def apply(self, changes: Iterable[tuple[Row, int]], advance: Any = None) -> Counter[Row]:
        """Applies a batch of (row, weight) pairs. Returns the net change of the rows within the window."""
        before = Counter(row for _, row in self.copies)
        sums: Counter[Row] = Counter()
        arrivals: list[Row] = []
        for row, weight in changes:
            sums[row] += weight
            arrivals += [row] * weight
        for row in [row for row in sums if self._is_late(row)]:
            self.late += abs(sums.pop(row))
        for row, weight in sums.items():
            self._delete(row, -weight)
        inserted: list[Row] = []
        for row in reversed(arrivals):  # deletes of the batch remove the first copies
            if sums[row] > inserted.count(row):
                inserted.insert(0, row)
        for row in inserted:
            self._arrived += 1
            self.copies.append((self._arrived, row))
        self._advance([self._time(row) for row in inserted] if not self.window.counts else [], advance)
        self._expire()
        after = Counter(row for _, row in self.copies)
        after.subtract(before)
        return Counter({row: n for row, n in after.items() if n})

    def _delete(self, row: Row, copies: int) -> None:
        found = [copy for copy in self.copies if copy[1] == row]
        for copy in found[: max(copies, 0)]:
            self.copies.remove(copy)
        self.missing += max(copies - len(found), 0)

    def _advance(self, times: list[int], to: Any) -> None:
        reached = [max(times) - self.window.lateness] if times else []
        reached += [self.units(to)] if to is not None else []
        reached += [self.watermark] if self.watermark is not None else []
        self.watermark = max(reached, default=None)

    def _expire(self) -> None:
        if self.window.counts:
            self.copies.sort(key=self._sort_key)
            kept = self.copies[max(len(self.copies) - self.window.rows, 0) :]
        else:
            kept = [(number, row) for number, row in self.copies if not self._is_late(row)]
        self.expired += len(self.copies) - len(kept)
        self.copies = sorted(kept)

    def _sort_key(self, copy: tuple[int, Row]) -> Any:
        """Returns the sort key of a copy: its arrival, or a column and then the others; NULL comes first."""
        number, row = copy
        if not self.window.by:
            return number
        others = [value for i, value in enumerate(row) if i != self._time_column]
        return [(value is not None, value) for value in (row[self._time_column], *others)]

    def _is_late(self, row: Row) -> bool:
        if self.window.counts or self.watermark is None:
            return False
        return self._time(row) // self.window.step * self.window.step + self.window.size <= self.watermark

    def _time(self, row: Row) -> int:
        return self.units(row[self._time_column])

    def units(self, value: Any) -> int:
        """Returns an event time as an integer in the unit of its column."""
        if isinstance(value, dt.datetime):
            zoned = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
            return (zoned - _EPOCH) // dt.timedelta(microseconds=1)
        return value.toordinal() - _EPOCH.toordinal() if isinstance(value, dt.date) else int(value)
