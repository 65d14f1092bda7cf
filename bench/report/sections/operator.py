"""The tables of the Spark operator: its micro-batches beside those of a job that does nothing, and rare operations on
cells.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.report.style import Cell
from bench.report.tables import Table, outcome
from bench.report.text import quantity, size


def batches(cells: Sequence[Cell]) -> Table:
    """Returns the time of a micro-batch by its size, of a job that does nothing and of this engine."""
    rows = []
    for ours in (cell for cell in cells if cell["engine"] == "crown-spark" and "latency_ms" in cell):
        theirs = next((c for c in cells if c["engine"] == "spark-identity" and c["x"] == ours["x"]), {})
        mine, nothing = ours["latency_ms"], theirs.get("latency_ms")
        rows.append(
            (
                quantity(ours["x"]) if ours["x"] else "empty",
                f"{nothing['p50']:,} ms" if nothing else "–",
                f"{mine['p50']:,} ms",
                f"x {mine['p50'] / nothing['p50']:.2f}" if nothing else "–",
                f"{mine['p95']:,} ms",
                quantity(ours["updates_per_s"] or None),
            )
        )
    headings = ("batch", "rows to Python and back, p50", "ours, p50", "times", "ours, p95", "updates/s")
    return Table(headings, rows, [True] * len(rows))


def restored(cells: Sequence[Cell]) -> Table:
    """Returns the time to rebuild a cell, by its size."""
    done = [cell for cell in cells if cell["mode"] == "restored" and "replayed" in cell]
    rows = [
        (
            cell["title"],
            f"{cell['of']:,}",
            size(cell["state_peak_bytes"]),
            size(cell["snapshot_bytes"]),
            str(cell["replayed"]),
            f"{cell['seconds'][0]:.2f} s",
            f"{cell['batch_ms']:.0f} ms",
            outcome(cell),
        )
        for cell in done
    ]
    headings = ("cell", "rows", "state", "snapshot", "batches replayed", "rebuilt in", "a batch of 10 rows", "outcome")
    return Table(headings, rows, [True] * len(rows))


def backfills(cells: Sequence[Cell]) -> Table:
    """Returns the time to fill a cell from tables, by their size."""
    done = [cell for cell in cells if cell["mode"] == "backfill"]
    fresh = [cell.get("touched_s_per_gib") for cell in done]
    rows = [
        (
            cell["title"],
            quantity(cell["x"]),
            f"{cell['seconds'][0]:.2f} s" if "seconds" in cell else "–",
            quantity(cell.get("updates_per_s")),
            size(cell.get("snapshot_bytes")),
            "–" if touched is None else f"{touched:.2f} s",
            outcome(cell),
        )
        for cell, touched in zip(done, fresh, strict=True)
    ]
    headings = ("cell", "rows", "filled in", "rows/s", "snapshot", "a GiB of fresh memory", "outcome")
    return Table(headings, rows, [True] * len(rows))
