"""The table of materialized views that are updated after a night."""

from __future__ import annotations

from collections.abc import Sequence

from bench.report.style import Cell
from bench.report.tables import Table


def nights(cells: Sequence[Cell]) -> Table:
    """Returns the seconds of each engine, by the share of changed rows."""
    rows = []
    for cell in (cell for cell in cells if "nights" in cell):
        first = cell["first"]
        rows.append((cell["data"], "all", "", *_seconds(first, "watch"), *_seconds(first, "run", "recompute"), ""))
        for night in cell["nights"]:
            rows.append(
                (
                    "",
                    f"{night['share']:.1%}",
                    f"{night['rows']:,}",
                    *_seconds(night, "watch", "run", "recompute"),
                    _times(night),
                )
            )
    headings = ("tables", "changed", "rows", "watch", "run", "spark-pipelines run", "times, watch and run")
    return Table(headings, rows, [True] * len(rows))


def _seconds(night: Cell, *names: str) -> list[str]:
    return [f"{night[name]:.1f} s" if night.get(name) else "–" for name in names]


def _times(night: Cell) -> str:
    if not night.get("recompute"):
        return "–"
    return f"{night['recompute'] / night['watch']:.1f} and {night['recompute'] / night['run']:.1f}"
