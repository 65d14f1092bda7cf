"""The tables of aggregates, bags and outer joins."""

from __future__ import annotations

from collections.abc import Sequence

from bench.report.style import Cell, title_of
from bench.report.tables import Table, outcome, rate, spread
from bench.report.text import median_rate, mode, quantity, times

OURS = "crown-view"
MODEL, FOLDER, FLINK = "crown-model", "crown-folder", "flink-restart"


def rates(cells: Sequence[Cell]) -> Table:
    """Returns the public view on every query and batch size, with DuckDB's recompute in the same row."""
    rows = []
    for cell in (c for c in cells if c["engine"] in (OURS, MODEL)):
        other = _beside(cells, cell, "duckdb-recompute", cell["workload"])
        rows.append(
            (
                cell["title"],
                cell.get("data", "–"),
                f"{cell['batch_rows']:,}",
                mode(cell),
                rate(cell),
                spread(cell),
                quantity(cell.get("deltas_per_s") or None),
                quantity(cell.get("amplification")),
                quantity(cell["work"]["emitted"] / cell["updates"] if cell.get("updates") else None),
                quantity(cell.get("bytes_per_tuple")),
                rate(other),
                times(median_rate(other), median_rate(cell)),
                outcome(cell),
            )
        )
    headings = (
        "query", "data", "batch", "mode", "updates/s", "median", "deltas/s", "touched/update", "joined/update",
        "bytes/tuple", "DuckDB recompute", "times", "outcome",
    )  # fmt: skip
    return Table(headings, rows, [True] * len(rows))


def outer(cells: Sequence[Cell]) -> Table:
    """Returns the left join beside the inner join of the same query."""
    rows = []
    for cell in (c for c in cells if c["engine"] == OURS and c["workload"] == "agg-outer"):
        inner = _beside(cells, cell, OURS, "agg-inner")
        ratio = times(median_rate(inner), median_rate(cell)).replace("x ", "")
        rows.append((f"{cell['batch_rows']:,}", spread(inner), spread(cell), ratio))
    headings = ("batch", "inner join, median updates/s", "left join, median updates/s", "left / inner")
    return Table(headings, rows, [True] * len(rows))


def lasting(cells: Sequence[Cell]) -> Table:
    """Returns the stream of four relations with state that outlives the process: its cost, and the time to restart."""
    rows, ours = [], []
    for cell in (c for c in cells if c["engine"] in (FOLDER, FLINK)):
        stats = cell.get("stats", {})
        restart = stats.get("restart_s")
        rows.append(
            (
                title_of(cell["engine"]),
                f"{cell['batch_rows']:,}" if cell["batch_rows"] else "stream",
                rate(cell),
                spread(cell),
                quantity(cell.get("state_peak_bytes")),
                quantity(stats.get("checkpoint_bytes")),
                "–" if restart is None else f"{restart:.2f}",
                outcome(cell),
            )
        )
        ours.append(cell["engine"] == FOLDER)
    headings = (
        "engine", "batch", "updates/s", "median", "state, bytes", "on the disk, bytes", "there again, s", "outcome",
    )  # fmt: skip
    return Table(headings, rows, ours)


def _beside(cells: Sequence[Cell], cell: Cell, engine: str, workload: str) -> Cell:
    """Returns the cell of another engine or query over the same stream in the same batches; {} if there is none."""
    wanted = (engine, workload, *_stream(cell))
    return next((c for c in cells if (c["engine"], c["workload"], *_stream(c)) == wanted), {})


def _stream(cell: Cell) -> tuple[object, ...]:
    shuffled = cell.get("options", {}).get("shuffled", False)
    return cell["batch_rows"], shuffled
