"""The table of rows in order."""

from __future__ import annotations

from collections.abc import Sequence

from bench.report.style import Cell
from bench.report.tables import Table, outcome, rate, spread
from bench.report.text import median_rate, quantity, times


def rates(cells: Sequence[Cell]) -> Table:
    """Returns the public view on every query, number of rows and batch size, DuckDB's recompute in the same row."""
    rows = []
    for cell in (c for c in cells if c["engine"] == "crown-view"):
        other = next((c for c in cells if c["engine"] != "crown-view" and _what(c) == _what(cell)), {})
        rows.append(
            (
                cell["title"] + (", in ranges" if cell["mode"] == "ranges" else ""),
                f"{cell['x']:,}",
                f"{cell['batch_rows']:,}",
                rate(cell),
                spread(cell),
                quantity(cell.get("deltas_per_s") or None),
                quantity(cell.get("bytes_per_tuple")),
                rate(other),
                times(median_rate(other), median_rate(cell)),
                outcome(cell),
            )
        )
    headings = (
        "query", "rows", "batch", "updates/s", "median", "deltas/s", "bytes/row", "DuckDB recompute", "times",
        "outcome",
    )  # fmt: skip
    return Table(headings, rows, [True] * len(rows))


def _what(cell: Cell) -> tuple[object, ...]:
    return cell["workload"], cell["x"], cell["batch_rows"]
