"""The table of native engines beside this one."""

from __future__ import annotations

from collections.abc import Sequence

from bench.report.style import Cell
from bench.report.tables import Table, outcome, rate, spread
from bench.report.text import engine, median_rate, mode, quantity, size, times


def beside(cells: Sequence[Cell]) -> Table:
    """Returns every engine on every query and batch size, and how many times faster this engine is: delivering into its
    buffer (or through the public view), and as Arrow. Memory: the peak resident size, and its growth since before the
    first batch.
    """
    rows = []
    for cell in cells:
        ours = cell["engine"].startswith("crown")
        same = [c for c in cells if (c["title"], c["batch_rows"]) == (cell["title"], cell["batch_rows"])]
        first = next((c for c in same if c["engine"].startswith("crown") and c["mode"] == "delta"), {})
        arrow = next((c for c in same if c["engine"] == "crown" and c["mode"] == "arrow"), {})
        rows.append(
            (
                cell["title"],
                f"{cell['batch_rows']:,}",
                engine(cell),
                mode(cell),
                rate(cell),
                spread(cell),
                "–" if cell["engine"] == "duckdb-recompute" else quantity(cell.get("deltas_per_s") or None),
                size(cell.get("rss_peak")),
                size(max(cell["rss_peak"] - cell["rss_before"], 0)) if "rss_before" in cell else "–",
                "–" if ours else times(median_rate(cell), median_rate(first)),
                "–" if ours else times(median_rate(cell), median_rate(arrow)),
                outcome(cell),
            )
        )
    headings = (
        "query", "batch", "engine", "mode", "updates/s", "median", "deltas/s", "whole process", "added by the run",
        "CROWN, times", "CROWN with Arrow, times", "outcome",
    )  # fmt: skip
    return Table(headings, rows, [c["engine"].startswith("crown") for c in cells])


def recursions(cells: Sequence[Cell]) -> Table:
    """Returns the table of ``beside`` with the data, and without two columns: a mode that recursions do not have, and
    the memory that a run adds, since the window is loaded before it.
    """
    made = beside(cells)
    places = [i for i, h in enumerate(made.headings) if h not in ("CROWN with Arrow, times", "added by the run")]

    def chosen(row: tuple[str, ...], data: str) -> tuple[str, ...]:
        first, *others = (row[i] for i in places)
        return (first, data, *others)

    rows = [chosen(row, cell.get("data", "–")) for row, cell in zip(made.rows, cells, strict=True)]
    return Table(chosen(made.headings, "data"), rows, made.ours)
