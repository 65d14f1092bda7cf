"""Rows in order: the table of rates, and the growth of cost with the number of live rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import matplotlib as mpl
import numpy as np

from bench.cases.ordered import FINANCE
from bench.report.style import STYLE, Cell, figure_of, plain_log, svg
from bench.report.tables import Table, outcome, rate, spread
from bench.report.text import median_rate, quantity, times

Cost = Callable[[Cell], float | None]


def rates(cells: Sequence[Cell]) -> Table:
    """Returns the public view on every query, number of rows and batch size, with the other engines in the same row:
    DuckDB's recompute and dbsp in the same batches, Flink SQL with its own, or the reason why there is no rate.
    """
    rows = []
    for cell in (c for c in cells if c["engine"] == "crown-view"):
        same = [c for c in cells if _what(c) == _what(cell)]
        same += [
            c for c in cells if c["engine"] == "flink" and (c["workload"], c["x"]) == (cell["workload"], cell["x"])
        ]
        rows.append(
            (
                _title(cell),
                f"{cell['x']:,}",
                f"{cell['batch_rows']:,}",
                rate(cell),
                spread(cell),
                quantity(cell.get("deltas_per_s") or None),
                quantity(cell.get("bytes_per_tuple")),
                *(_beside(same, engine, cell) for engine in _PEERS),
                outcome(cell),
            )
        )
    headings = (
        "query", "rows", "batch", "updates/s", "median", "deltas/s", "bytes/row", "DuckDB recompute, times",
        "dbsp, times", "Flink SQL, times", "outcome",
    )  # fmt: skip
    return Table(headings, rows, [True] * len(rows))


_PEERS = ("duckdb-recompute", "dbsp", "flink")


def _beside(cells: Sequence[Cell], engine: str, ours: Cell) -> str:
    """Returns the rate of an engine and how many times faster this engine is, by the medians; or the reason why there
    is no rate.
    """
    cell = next((c for c in cells if c["engine"] == engine), None)
    if cell is None:
        return "–"
    if not cell.get("updates_per_s"):
        return str(cell["reason"])
    return f"{rate(cell)}, {times(median_rate(cell), median_rate(ours))}"


def growth(cells: Sequence[Cell]) -> Table:
    """Returns the cost of an update in batches of one size, by the number of live rows, and the slope of its logarithm
    on that of the rows: 0 for a constant cost, 1 for a cost proportional to the rows.
    """
    rows = []
    for line in _lines(cells):
        theirs = [c for c in cells if c["engine"] == "duckdb-recompute" and _what(c) in map(_what, line)]
        costs = (_points(line, _steps), _points(line, _microseconds), _points(theirs, _microseconds))
        if len(line) > 1:
            rows.append((_title(line[0]), *(text for points in costs for text in (_row(points), _slope(points)))))
    headings = (
        "query", "steps/update by rows", "slope", "µs/update by rows", "slope", "DuckDB recompute, µs/update by rows",
        "slope",
    )  # fmt: skip
    return Table(headings, rows, [True] * len(rows))


def curves(cells: Sequence[Cell]) -> str:
    """Returns the cost of an update of DBToaster's finance queries against the number of live rows; an empty text if no
    query was measured at two sizes.
    """
    lines = [line for line in _lines(cells) if line[0]["workload"] in FINANCE and len(line) > 1]
    if not lines:
        return ""
    with mpl.rc_context(STYLE):
        figure, panels = figure_of(2, 3.6)
        titles = ("Steps of stages in order, per update", "Microseconds per update")
        for axes, cost, title in zip(panels, (_steps, _microseconds), titles, strict=True):
            for line, marker in zip(lines, "os^Dv", strict=False):
                points = _points(line, cost)
                label = _title(line[0])
                axes.plot([n for n, _ in points], [y for _, y in points], marker=marker, markersize=4, label=label)
            axes.set_title(title)
            axes.set_xlabel("rows in the window")
            axes.set_xscale("log")
            axes.set_yscale("log")
            plain_log(axes.xaxis)
            plain_log(axes.yaxis)
        handles, labels = panels[1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
        return svg(figure, "ordered-growth")


def _lines(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Returns the measured cells of the view by query and mode, in batches of the smallest size, by their rows."""
    ours = [c for c in cells if c["engine"] == "crown-view" and c.get("updates_per_s")]
    least = min((c["batch_rows"] for c in ours), default=0)
    found: dict[tuple[str, str], list[Cell]] = {}
    for cell in sorted((c for c in ours if c["batch_rows"] == least), key=lambda c: int(c["x"])):
        found.setdefault((cell["workload"], cell["mode"]), []).append(cell)
    return list(found.values())


def _points(cells: Sequence[Cell], cost: Cost) -> list[tuple[int, float]]:
    """Returns rows and cost of the cells that have a cost."""
    return [(int(c["x"]), y) for c in cells if c.get("updates_per_s") and (y := cost(c))]


def _microseconds(cell: Cell) -> float:
    return 1e6 / float(cell["updates_per_s_median"])


def _steps(cell: Cell) -> float | None:
    steps = cell.get("work", {}).get("steps")
    return steps / cell["updates"] if steps else None


def _row(points: Sequence[tuple[int, float]]) -> str:
    return ", ".join(f"{quantity(n)}: {quantity(y)}" for n, y in points) or "–"


def _slope(points: Sequence[tuple[int, float]]) -> str:
    if len(points) < 2:
        return "–"
    x, y = np.log(np.array(points)).T
    return f"{np.polyfit(x, y, 1)[0]:.2f}"


def _title(cell: Cell) -> str:
    return str(cell["title"]) + (", in ranges" if cell["mode"] == "ranges" else "")


def _what(cell: Cell) -> tuple[object, ...]:
    return cell["workload"], cell["x"], cell["batch_rows"]
