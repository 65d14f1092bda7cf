"""Deltas in ranges as record batches: inserted rows, deleted rows, and rows that say which others move, and how far.

the delta's columns, _weight      | _until
a row of the result, -1 or +1     | NULL
the first row of a range, 0       | the last one: the columns that say where it stands
its functions: how far they move  |
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np
import pyarrow as pa

from crown.errors import CrownError
from crown.stages.shifts import Shifts
from crown.store.dictionary import Dictionary
from crown.store.records import Records
from crown.store.zset import Zset
from plans.running import Ranged
from plans.schema import UNTIL, Column
from plans.types import arrow_type


class RangedRows:
    """Makes record batches of deltas in ranges, ``given`` what these are, of a result with these ``columns``;
    ``delta_schema``: that of its deltas."""

    def __init__(
        self, given: Ranged, columns: Sequence[Column], delta_schema: pa.Schema, dictionary: Dictionary
    ) -> None:
        windowed, told = given.windowed, len(given.ends)
        if UNTIL in (column.name.lower() for column in columns):
            raise CrownError(f"ranges add a column {UNTIL!r}, which the result has already: rename it in the query")
        self.number, self.told = windowed.number, told
        self._columns = np.array(windowed.columns, np.int64)
        self._shown = len(windowed.stage.shown)
        feed = [output.name for output in windowed.stage.feed.columns]
        self._places = [feed.index(name) for name in windowed.names[:told]]
        self._ends_schema = pa.schema([(column.name, arrow_type(column.type)) for column in given.ends])
        self.schema: pa.Schema = delta_schema.append(pa.field(UNTIL, pa.struct(list(self._ends_schema))))
        self._rows = Records(delta_schema, [column.type for column in columns], dictionary)
        self._ends = Records(self._ends_schema, [column.type for column in given.ends], dictionary)

    def batches(self, net: Zset, shifts: Shifts | None) -> Generator[pa.RecordBatch, None, None]:
        """Yields a delta: the ``net`` of rows that change by themselves, and ranges."""
        for batch in self._rows.batches(net):
            nothing = pa.nulls(batch.num_rows, self.schema.field(UNTIL).type)
            yield pa.RecordBatch.from_arrays([*batch.columns, nothing], schema=self.schema)
        if shifts is None or not len(shifts):
            return
        codes = np.concatenate([shifts.firsts[: self._shown], shifts.moved])[self._columns]
        firsts = Zset.of_columns(codes, np.zeros(len(shifts), np.int64))
        lasts = Zset.of_columns(shifts.lasts[self._places], np.ones(len(shifts), np.int64))
        for here, there in zip(self._rows.batches(firsts), self._ends.batches(lasts), strict=True):
            until = pa.StructArray.from_arrays(there.columns, fields=list(self._ends_schema))
            yield pa.RecordBatch.from_arrays([*here.columns, until], schema=self.schema)
