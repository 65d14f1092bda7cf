"""The clock as a relation, which `NOW()` reads.

A query that reads the clock reads a table of one row, `CLOCK`, whose column `now` is the time. Moving the clock is an
ordinary change of this row: it is part of a batch, written to logs with the batch, replayed and undone with it. The row
is an upsert by a constant key with the time as its sequence, so the clock never moves back.
"""

from __future__ import annotations

from collections.abc import Iterable

from plans.schema import Column, Table

NAME = "now()"
"""The name of the relation."""
KEY, NOW = "clock", "now"
"""The columns of the relation: the key of its single row, 0, and the time."""
CLOCK = Table(
    NAME,
    (Column(KEY, "int32", required=True), Column(NOW, "timestamp", required=True)),
    key=(KEY,),
    upserts=True,
    sequence=NOW,
)


def reads_clock(tables: Iterable[Table]) -> bool:
    """Returns whether one of the tables is the clock."""
    return any(table.name == NAME for table in tables)
