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
                quantity(cell.get("deltas_per_s") or None),
                size(cell.get("rss_peak")),
                size(max(cell["rss_peak"] - cell["rss_before"], 0)) if "rss_before" in cell else "–",
                "–" if ours else times(median_rate(first), median_rate(cell)),
                "–" if ours else times(median_rate(arrow), median_rate(cell)),
                outcome(cell),
            )
        )
    headings = (
        "query", "batch", "engine", "mode", "updates/s", "median", "deltas/s", "whole process", "added by the run",
        "CROWN, times", "CROWN with Arrow, times", "outcome",
    )  # fmt: skip
    return Table(headings, rows, [c["engine"].startswith("crown") for c in cells])
