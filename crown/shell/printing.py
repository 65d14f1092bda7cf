"""Prints tables: as aligned columns, or as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from crown.store.display import all_shown, rows_shown
from plans.schema import WEIGHT

_NUMBERS = (int, float, Decimal)


def lines(table: pa.Table) -> Iterator[str]:
    """Yields a table as aligned lines, sorted. A row of a delta begins with + or -, and deleted rows are first. The
    rows are sorted because a result has no order, and the order of the state differs between processes. O(values · log
    rows)."""
    names = [name for name in table.column_names if name != WEIGHT]
    signed = len(names) < table.num_columns
    keys = [_key(table[name]) for name in ([WEIGHT, *names] if signed else names)]
    by = [(str(i), "ascending") for i in range(len(keys))]
    ordered = table.take(pc.sort_indices(pa.table(keys, [name for name, _ in by]), by))
    rows = [row for batch in ordered.to_batches() for row in rows_shown(batch)]
    cells = [[_text(row[name]) for name in names] for row in rows]
    widths = [max([len(name), *(len(row[i]) for row in cells)]) for i, name in enumerate(names)]
    right = [all(isinstance(row[name], _NUMBERS) for row in rows if row[name] is not None) for name in names]
    signs = [_sign(row[WEIGHT]) for row in rows] if signed else []
    margin = max([0, *map(len, signs)])
    head = " | ".join(name.ljust(width) for name, width in zip(names, widths, strict=True))
    yield (" " * (margin + 1) + head if signed else head).rstrip()
    if not signed:
        yield "-+-".join("-" * width for width in widths)
    for i, row in enumerate(cells):
        parts = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True))
        text = " | ".join(parts)
        yield (f"{signs[i].rjust(margin)} {text}" if signed else text).rstrip()
    if not signed:
        yield f"({counted(len(rows))})"


def json_lines(table: pa.Table) -> Iterator[str]:
    """Yields the rows of a table as JSON. O(values)."""
    for batch in table.to_batches():
        for row in rows_shown(batch):
            yield json.dumps(row, default=str, ensure_ascii=False)


def counted(rows: int) -> str:
    """Returns a number of rows in words."""
    return f"{rows:,} {'row' if rows == 1 else 'rows'}"


def _key(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Returns the values by which a column is sorted. Values with parts, which Arrow does not sort, are texts."""
    if not pa.types.is_nested(column.type):
        return column
    return pa.array([None if value is None else _text(value) for value in all_shown(column)], pa.string())


def _sign(weight: int) -> str:
    return ("+" if weight > 0 else "-") + (str(abs(weight)) if abs(weight) > 1 else "")


def _text(value: Any) -> str:
    return "NULL" if value is None else str(value)
