"""Prepares batches whose rows are all inserted or all deleted, and therefore have no weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from crown.errors import ChangeError
from crown.ingest.conventions import CODE_COLUMNS
from crown.ingest.tables.columns import WEIGHT, Column, opened
from crown.ingest.tables.frames import kept, tabular
from plans.schema import Table


def all_inserted(table: Table, rows: Any) -> Any:
    """Returns the rows, in a form that can be read more than once. Raises ChangeError if they have weights or change
    codes."""
    data = kept(table.name, rows)
    _opened(table, data)
    return data


def all_deleted(table: Table, rows: Any) -> Any:
    """Returns the rows with the weight -1. Raises the errors of ``all_inserted``."""
    names, count, column = _opened(table, kept(table.name, rows))
    return {**{name: column(i) for i, name in enumerate(names)}, WEIGHT: np.full(count, -1, np.int64)}


def _opened(table: Table, data: Any) -> tuple[list[str], int, Column]:
    order = tuple(column.name for column in table.columns)
    names, count, column = opened(table.name, tabular(table.name, data, order))
    said = next((n for n in names if n in (WEIGHT, *CODE_COLUMNS) and table.column(n) is None), None)
    if said is not None:
        raise ChangeError(
            f"relation {table.name!r}: rows have a column {said!r}, but insert, delete and upsert themselves say what "
            "happens to rows; leave the column out, or use apply"
        )
    return names, count, column
