"""Renders rows as HTML tables for notebooks. Inserted rows of a delta are green, deleted rows are red.

The colours are light enough for light and dark pages. The HTML loads nothing and runs no script.
"""

from __future__ import annotations

import sys
from html import escape
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from crown.ingest.tables.columns import WEIGHT
from crown.store.display import rows_shown

SHOWN = 20
_TEXT = 60
_CELL = "style='text-align:left;padding:.15em .8em;white-space:nowrap'"
_INSERTED, _DELETED = "rgba(22,163,74,.18)", "rgba(220,38,38,.18)"


def table(rows: pa.Table, *, more: int = 0, signed: bool = False) -> str:
    """Returns a table of all the given rows.

    ``more``: the number of rows that are not shown. ``signed``: colours rows by the sign of their weight.
    """
    names = [escape(name) for name in rows.column_names]
    head = "".join(f"<th {_CELL}>{name}</th>" for name in names)
    body = "".join(
        f"<tr{_colour(row) if signed else ''}>{''.join(map(_cell, row.values()))}</tr>" for row in rows_shown(rows)
    )
    rest = f"<div style='opacity:.7'>and {more:,} more</div>" if more else ""
    return (
        f"<div style='overflow-x:auto'><table style='border-collapse:collapse'><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>{rest}"
    )


def delta(rows: pa.Table) -> str | None:
    """Returns the first rows of a delta as a table, with the numbers of inserts and deletes; None if it has no
    weights."""
    if WEIGHT not in rows.column_names:
        return None
    inserts = pc.sum(pc.greater(rows[WEIGHT], 0)).as_py() or 0
    summary = f"<div>{inserts:,} inserted, {rows.num_rows - inserts:,} deleted</div>"
    if not rows.num_rows:
        return "<div>no changes</div>"
    return summary + table(rows.slice(0, SHOWN), more=max(0, rows.num_rows - SHOWN), signed=True)


def _colour(row: dict[str, Any]) -> str:
    weight = row.get(WEIGHT)
    return f" style='background:{_INSERTED if weight > 0 else _DELETED}'" if weight else ""


def _cell(value: Any) -> str:
    text = "NULL" if value is None else str(value)
    shown = escape(text if len(text) <= _TEXT else text[: _TEXT - 1] + "…")
    return f"<td {_CELL}><i>{shown}</i></td>" if value is None else f"<td {_CELL}>{shown}</td>"


def attach() -> None:
    """Registers a formatter for Arrow tables with a column ``_weight`` if the process is a notebook.

    Other tables look as before. Without IPython nothing is imported and nothing is done.
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None:
        shell.display_formatter.formatters["text/html"].for_type(pa.Table, delta)
