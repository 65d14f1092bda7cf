"""Reads of a result that is the rows of a window stage: a page of a partition, or the row with a key, in O(log n)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crown.errors import ChangeError
from crown.results.membership import codes_of
from crown.stages.kernels.trees.ordered import BEHIND, FIRST
from crown.stages.over.stage import Over
from crown.store.dictionary import Dictionary
from plans.programs.running import Windowed
from plans.schema import Column


class Pages:
    """Reads the rows of ``over``, which are those of a result: ``windowed`` says which columns these are, ``columns``
    what they are called there."""

    def __init__(self, windowed: Windowed, over: Over, columns: Sequence[Column], dictionary: Dictionary) -> None:
        self._over = over
        self._dictionary = dictionary
        self._shown = np.array(windowed.columns, np.int64)
        self._added = np.array(windowed.added, np.int64)[:, None]
        feed = {output.name: i for i, output in enumerate(windowed.stage.feed.columns)}
        self._width = len(feed)
        self._keys, self._order = (
            {self._called(windowed, columns, name): Column(name, over.feed[feed[name]].type) for name in names}
            for names in (windowed.stage.keys, windowed.names)
        )
        self._least = len(windowed.stage.order)
        self._place = feed

    @staticmethod
    def _called(windowed: Windowed, columns: Sequence[Column], name: str) -> str:
        at = windowed.place(name)
        return name if at is None else columns[at].name

    def page(self, offset: int, limit: int, partition: Mapping[str, Any]) -> np.ndarray:
        """Returns the rows at positions ``offset`` to ``offset + limit`` of a partition: codes, int64[columns, n].

        O(log n) for each; of functions that are not running, what the values of these rows cost. Raises ChangeError
        unless there is a value for every column of PARTITION BY.
        """
        self._demand(partition, list(self._keys), "page(of=...)")
        handles = self._handles(row := self._row(partition, self._keys))
        if row is None or not handles[0]:
            return np.empty((len(self._shown), 0), np.int64)
        size = int(self._over.sizes(handles)[0])
        low, high = (np.array([min(at, size)], np.int64) for at in (offset, offset + limit))
        return self._read(handles, low, high)

    def row_of(self, key: Mapping[str, Any]) -> np.ndarray:
        """Returns the row with a key, if it is there: codes, int64[columns, n]. O(log n).

        Raises ChangeError unless there is a value for every column of PARTITION BY and ORDER BY, and if there are
        several such rows.
        """
        names = list(self._order)
        given = [name for name in names if name in key]
        self._demand(key, [*self._keys, *names[: max(len(given), self._least, 1)]], "get(key)")
        row = self._row(key, {**self._keys, **{name: self._order[name] for name in given}})
        handles = self._handles(row)
        if row is None or not handles[0]:
            return np.empty((len(self._shown), 0), np.int64)
        low, high = (self._over.bounds(handles, row, len(given), mode) for mode in (FIRST, BEHIND))
        if high[0] - low[0] > 1:
            more = names[len(given) :]
            said = f"give a value for {more[0]} too, or read them with page()" if more else "read them with page()"
            raise ChangeError(f"{int(high[0] - low[0])} rows have this key: {said}")
        return self._read(handles, low, high)

    def _read(self, handles: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> np.ndarray:
        return self._over.page(handles, lows, highs)[self._shown] + self._added

    def _demand(self, given: Mapping[str, Any], wanted: Sequence[str], what: str) -> None:
        if set(given) != set(wanted):
            said = f", not for {', '.join(map(str, given))}" if given else ""
            takes = (
                f"takes a value for each of {', '.join(wanted)}" if wanted else "takes no value: there is one partition"
            )
            raise ChangeError(f"{what} {takes}{said}")

    def _row(self, values: Mapping[str, Any], columns: Mapping[str, Column]) -> np.ndarray | None:
        """Returns a row of the stage's feed, int64[width, 1], with some values; None if no row has one of them."""
        named = {column.name: values[called] for called, column in columns.items()}
        codes = codes_of(list(columns.values()), named, self._dictionary)
        if codes is None:
            return None
        row = np.zeros((self._width, 1), np.int64)
        row[[self._place[name] for name in named], 0] = codes
        return row

    def _handles(self, row: np.ndarray | None) -> np.ndarray:
        return np.zeros(1, np.int64) if row is None else self._over.find(row)
