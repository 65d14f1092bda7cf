"""Finds amplified changes: a few changed rows that caused very many deltas, and the value that they share.

A change of a hub in a join causes as many deltas as the hub has partners, and all of them contain its key. So the value
that most deltas have, and few of the changed rows, identifies the change. It is searched in a batch with more deltas
than a threshold, in a sample of the deltas, and in the changed rows. Other batches cost O(1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from crown.ingest.tables.columns import WEIGHT
from crown.store.display import shown

BEYOND = 100_000
"""Default threshold: a view warns if a change causes more deltas than this."""
_OF_BLOCK, _SAMPLE = 4_096, 65_536  # rows that can be sampled
_LEAST = 4_096  # rows that are sampled, if there are that many
_SURE = 256  # expected number of sampled rows with a value that is to be found


@dataclass(frozen=True)
class Amplified:
    """``rows`` changed rows have ``value``; so have about ``deltas`` of all ``of`` deltas, in their ``column``.

    ``column`` is empty if no value identifies the change: then ``rows`` is the size of the batch.
    """

    column: str
    value: Any
    rows: int
    deltas: int
    of: int

    def line(self) -> str:
        """Returns the finding as a sentence."""
        some = f"{self.rows:,} changed row{'s' if self.rows != 1 else ''}"
        key = f" with {self.column} = {self.value!r:.100}" if self.column else ""
        return f"{some}{key} gave {'about ' if self.deltas < self.of else ''}{self.deltas:,} of {self.of:,} deltas"


class Amplification:
    """Watches the deltas of one batch; ``beyond``: the threshold of deltas per changed row, None: no threshold.

    ``told``: the message about the batch.
    """

    def __init__(self, beyond: int | None) -> None:
        self._beyond = beyond
        self.told = ""
        self._deltas = self._sampled = 0
        self._sample: list[pa.RecordBatch] = []

    def add(self, deltas: pa.RecordBatch) -> None:
        """Records some deltas. O(1)."""
        self._deltas += deltas.num_rows
        if self._beyond is not None and self._sampled < _SAMPLE and deltas.num_rows:
            self._sample.append(deltas)
            self._sampled += min(deltas.num_rows, _OF_BLOCK)

    @property
    def beyond(self) -> bool:
        """Returns True if there are more deltas than one changed row may cause."""
        return self._beyond is not None and self._deltas > self._beyond

    def found(self, changes: Iterable[Mapping[str, Any] | pa.Table]) -> Amplified | None:
        """Returns the change that was amplified most, if it exceeds the threshold; ``changes``: columns by name, of
        each relation. O(sample + changed rows).
        """
        if self._beyond is None or not self.beyond:
            return None
        given = [{name: one[name] for name in _names(one) if name != WEIGHT} for one in changes]
        rows = sum(len(next(iter(columns.values()))) for columns in given if columns)
        worst = Amplified("", None, max(rows, 1), self._deltas, self._deltas)
        wanted = max(_LEAST, _SURE * self._deltas // max(self._beyond, 1))
        each = min(-(-wanted // len(self._sample)), _OF_BLOCK)
        blocks = [block.slice(0, each) for block in self._sample]
        sample = pa.Table.from_batches(blocks).flatten()  # the elements of a motif are structs
        for name in sample.column_names:
            if name == WEIGHT:
                continue
            counted = pc.value_counts(sample.column(name).drop_null())
            if not len(counted):
                continue
            top = counted[pc.index(counted.field("counts"), pc.max(counted.field("counts"))).as_py()]
            having = sum(_having(column, top["values"]) for columns in given for column in columns.values())
            deltas = top["counts"].as_py() * self._deltas // sample.num_rows
            named, least = bool(worst.column), worst.deltas * having
            if having and (deltas * worst.rows > least or (not named and deltas * worst.rows == least)):
                worst = Amplified(name, shown(top["values"]), having, deltas, self._deltas)
        return worst if worst.deltas > self._beyond * worst.rows else None


def _names(columns: Mapping[str, Any] | pa.Table) -> Iterable[str]:
    return columns.column_names if isinstance(columns, pa.Table) else columns


def _having(column: Any, value: pa.Scalar) -> int:
    """Returns the number of rows with the value in a column; 0 if the column has another type."""
    if column.type != value.type:
        return 0
    return pc.sum(pc.equal(column, value)).as_py() or 0
