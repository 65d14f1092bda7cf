"""Reads of a result: all rows, the multiplicity of a row, the row of a group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from crown.errors import ChangeError
from crown.results.membership import codes_of
from crown.stages.groups.group import Groups
from crown.stages.linear import Linear
from crown.stages.protocol import Stage
from crown.stages.tables.base_tables import BaseTables
from crown.store.dictionary import Dictionary
from crown.store.zset import Zset
from plans.schema import Column


class Answers:
    """Reads the last of some ``stages``, over base relations behind a ``base_tables``."""

    def __init__(self, stages: Sequence[Stage], base_tables: BaseTables, dictionary: Dictionary) -> None:
        self._stages = stages
        self._base_tables = base_tables
        self._dictionary = dictionary
        self.last = stages[-1]

    def rows(self) -> Iterator[Zset]:
        """Yields the rows of the last stage with their multiplicities, in blocks; equal rows may stand apart."""
        return self._scan(len(self._stages) - 1)

    def _scan(self, source: str | int) -> Iterator[Zset]:
        if isinstance(source, str):
            return self._base_tables.scan(source.lower())
        stage = self._stages[source]
        return stage.scan(self._sources(stage))

    def _sources(self, stage: Stage) -> list[Iterator[Zset]]:
        return [self._scan(source) for source in stage.inputs] if isinstance(stage, Linear) else []

    def multiplicity(self, values: Mapping[str, Any]) -> int:
        """Returns how often a row, by output name, is in the result.

        O(1) for joins, set operations, and groups whose keys are outputs; else O(result). Raises ChangeError if a
        column is missing or a value does not fit.
        """
        row = self._row(values, self.last.columns)
        return 0 if row is None else self.last.multiplicity(row, self._sources(self.last))

    def row_of(self, key: Mapping[str, Any]) -> Zset:
        """Returns the row of the group with a key (by output name), if it is there. O(1).

        Raises ChangeError if the result is not one row per group, or if these are not its keys.
        """
        last = self.last
        if not isinstance(last, Groups):
            raise ChangeError("get(key) asks for the row of a group, and the result is not grouped; use contains(row)")
        wanted = last.key_columns()
        if wanted is None or set(key) != {column.name for column in wanted}:
            known = "whose keys are not all selected" if wanted is None else f"by {', '.join(c.name for c in wanted)}"
            raise ChangeError(f"get(key) takes a value for every key; the result is grouped {known}")
        row = self._row(key, wanted)
        return Zset.empty(len(last.columns)) if row is None else last.row_of(row)

    def _row(self, values: Mapping[str, Any], columns: Sequence[Column]) -> np.ndarray | None:
        """Returns the codes of a row; None if one of its values is in no row, since the dictionary does not know it."""
        return codes_of(columns, values, self._dictionary)
